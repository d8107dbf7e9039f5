"""The asset `plan`: the charge and accuracy of a release, and the `defs.yaml` that declares it.

It needs no other asset and no record, so a release can be planned before there are any data. The launchpad takes
alternatives to the declared fields. The metadata show the plan, with the expected time, memory and disk of a launch;
the declared release does not change.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from textwrap import fill
from typing import Any, Protocol

import dagster as dg

from assets.charge.assessment import predict_charge
from assets.conventions import StageKind, named, one_click_away, preview, table_schema
from assets.pictures import GRID, INK, SERIES, VERMILION, blank, picture, png, shades
from assets.planning.expectation import Machine, format_expectation, this_machine
from assets.planning.lines import format_exactly
from assets.release.method import PLAN, Method
from assets.release.plan import Cells, Curve, Line, Plan, PlanRequest
from assets.release.stage import COLUMN_SCHEMA, create_tables, release_stage, store_tables
from resources.ledger import Ledger, LedgerError
from resources.statements import Zone
from resources.warehouse import Warehouse

_MARKS_IN_WORDS = 5
"""The most marks named in the words of a chart."""
_LEGEND_LETTERS = 44
_MOST_SERIES_WITHIN = 4
"""The most series with a legend within the axes; with more series, the legend is below."""
_MARKS_IN_LEGEND = 3
"""The most marks that the legend names; if there are more, all share one label."""


class PlannedDeclaration(Protocol):
    """A draft declaration with its plan and its `defs.yaml` (`orchestration.planning`)."""

    @property
    def method(self) -> Method[Any, Any, Any]: ...

    @property
    def plan(self) -> Plan: ...

    @property
    def text(self) -> str: ...


def build_plan(
    method: Method[Any, Any, Any], plan_declaration: Callable[[PlanRequest], PlannedDeclaration]
) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "plan"]`, from a function that plans the release for a request."""
    release = method.release

    @release_stage(
        release, PLAN, StageKind.PLAN, _description(release.schema), kinds={"duckdb", "ledger", "matplotlib"}
    )
    def plan(config: PlanRequest, warehouse: Warehouse, ledger: Ledger) -> dg.MaterializeResult:
        planned = declared = plan_declaration(config)
        if not config.is_empty:
            declared = plan_declaration(PlanRequest(largest_stratum=config.largest_stratum))
        stored = _store_tables(method, warehouse)
        version = stored.pop("version", None) or sha256(declared.text.encode()).hexdigest()
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version),
            metadata=plan_metadata(planned, None if config.is_empty else declared, ledger, config.records) | stored,
        )

    return plan


def plan_metadata(
    planned: PlannedDeclaration,
    declared: PlannedDeclaration | None,
    ledger: Ledger,
    records: int | None = None,
    machine: Machine | None = None,
) -> dict[str, Any]:
    """A plan for the asset's page, with the declared plan if it differs.

    `records` is the expected number of persons or units. The release would be made on the machine, by default this one.
    """
    plan, before = planned.plan, declared.plan if declared else None
    metadata: dict[str, Any] = {"total": format_total(plan)}
    if before is not None:
        metadata["declared total"] = format_total(before)
    try:
        metadata["budget"], refusal = predict_charge(planned.method, plan.specification, ledger.read())
    except LedgerError as error:
        # The plan does not depend on the ledger; a charge will be refused.
        metadata["budget"], refusal = f"not known: {error}", ""
    if problem := plan.problem or refusal:
        metadata["refusal"] = problem
    method, warehouse = planned.method, ledger.warehouse
    machine = machine or this_machine(Path(warehouse.folder), method.release.published, in_lake=bool(warehouse.lake))
    metadata |= format_expectation(method, records, machine)
    if plan.lines:
        lines = {line.name: line for line in before.lines} if before else {}
        metadata["lines"] = _preview_lines(plan, lines)
    for curve in plan.curves:
        marks = "; ".join(f"{name} ({y:.4g} at {x:.4g})" for name, x, y in curve.marks[:_MARKS_IN_WORDS])
        series = f"{len(curve.series)} lines: {'; '.join(curve.series)}"
        words = f"{curve.y} against {curve.x}, as {series}{f'. Marked: {marks}' if marks else ''}"
        metadata[curve.title] = picture(draw_curve(curve), words)
    metadata |= dict(plan.facts)
    metadata |= {title: preview(*cells) for title, cells in plan.tables.items()}
    return metadata | {"defs.yaml": one_click_away(f"```yaml\n{planned.text}```")}


def format_total(plan: Plan) -> str:
    if plan.loss is None:
        return "none, or unknown without the records; see below"
    return f"{'at most ' if plan.is_bound else ''}{format_exactly(plan.loss)}"


def format_lines(plan: Plan) -> Cells:
    return ["line", "budget", "σ", "90% margin"], [
        [line.name, f"{float(line.budget):.6g}", f"{line.standard_error:,.2f}", f"±{line.margin:,.6g}"]
        for line in plan.lines
    ]


def draw_curve(curve: Curve) -> bytes:
    """A PNG, 1080 pixels wide, with a line for each series and diamonds for planned values."""
    from matplotlib.ticker import NullFormatter

    many = len(curve.series) > _MOST_SERIES_WITHIN
    figure, axes = blank(curve.title, "Diamonds: what is planned." if curve.marks else "", height=6.0 if many else 5.0)
    axes.set_xscale("log" if curve.log_x else "linear")
    axes.set_yscale("log" if curve.log_y else "linear")
    colors = SERIES if len(curve.series) <= len(SERIES) else shades(len(curve.series))
    diamond: dict[str, Any] = {"marker": "D", "markersize": 6, "color": VERMILION, "markeredgecolor": "white"}
    diamond["linestyle"] = "none"
    for (name, points), color in zip(curve.series.items(), colors, strict=False):
        x, y = [point[0] for point in points], [point[1] for point in points]
        axes.plot(x, y, color=color, linewidth=1.8, label=fill(name, _LEGEND_LETTERS))
    for number, (name, x_mark, y_mark) in enumerate(curve.marks):
        label = name if len(curve.marks) <= _MARKS_IN_LEGEND else "planned" if number == 0 else None
        axes.plot(x_mark, y_mark, label=label, zorder=4, **diamond)
    for logarithmic, axis in ((curve.log_x, axes.xaxis), (curve.log_y, axes.yaxis)):
        if logarithmic:
            axis.set_minor_formatter(NullFormatter())
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_xlabel(curve.x)
    axes.set_ylabel(curve.y)
    look: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "labelcolor": INK}
    if many:
        figure.legend(loc="outside lower left", ncols=2, fontsize=9, **look)
    else:
        axes.legend(loc="best", fontsize=10, **look)
    return png(figure)


def _preview_lines(plan: Plan, declared: Mapping[str, Line]) -> dg.MetadataValue:
    """The lines, each followed by the declared line if it differs."""
    header, rows = format_lines(plan)
    shown = []
    for line, row in zip(plan.lines, rows, strict=True):
        shown.append(row)
        other = declared.get(line.name)
        if other is not None and (other.budget, other.margin) != (line.budget, line.margin):
            (as_declared,) = format_lines(Plan(None, (other,)))[1]
            shown.append([f"{line.name}, as declared", *as_declared[1:]])
    return preview(header, shown)


def _store_tables(method: Method[Any, Any, Any], warehouse: Warehouse) -> dict[str, Any]:
    """Store the tables of the stage. Returns their metadata and their version; empty if there are no tables."""
    tables = method.plan_tables()
    if not tables:
        return {}
    published = method.tables() if method.release.declaration.charges else []
    with warehouse.session(writes=Zone.PUBLIC) as session:
        with session.transaction():
            create_tables(session, store_tables(session, tables))
        first = next(iter(tables))
        columns = [column for table in published if table.table == first for column in table.columns]
        descriptions = {column.name: column.description for column in columns}
        return {
            "version": session.content_version(list(tables)),
            "tables": ", ".join(map(named, tables)),
            "dagster/row_count": session.count(first),
            COLUMN_SCHEMA: table_schema(session.columns(first), descriptions),
        }


def _description(schema: str) -> str:
    return f"""The charge and the accuracy of this release, the rest of the budget, the expected time, memory and disk
of a launch, and the `defs.yaml` that declares it. It reads no records, and charges nothing.

To try alternatives, launch it with other fields of `defs.yaml`, with 90% margins of error by line, or with a total.
`records` is the expected number of persons or units. The declared release does not change:

    ops:
      {schema}__plan:
        config:
          fields: {{…}}
          margins: {{"a line": 25}}
          total: 1"""
