"""The asset `plan`: what a release would charge, how exact it would be, and the `defs.yaml` that declares it.

It needs no other asset and no record, so a release can be planned before there are any data. The launchpad takes what
to try in place of what is declared. The plan is shown in the metadata, with the time, memory and disk that a launch is
expected to take; the declared release does not change.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import dagster as dg

from assets.charge.assessment import predict_budget
from assets.conventions import StageKind, named, one_click_away, preview, table_schema
from assets.pictures import picture
from assets.planning.expectation import expected_in_words
from assets.planning.machine import Machine, this_machine
from assets.release.method import PLAN, Method
from assets.release.plan import Asked, Cells, Curve, Line, Plan
from assets.release.published import PublishedTable
from assets.release.stage import COLUMN_SCHEMA, create_tables, release_stage, store_rows
from mechanisms.accounting.losses import format_loss
from resources.ledger import Ledger, LedgerError
from resources.statements import Zone
from resources.warehouse import Warehouse

_NAMED = 5
"""How many of the marks of a picture its words name."""


class Planned(Protocol):
    """A planned declaration (`orchestration.planning`)."""

    @property
    def method(self) -> Method[Any, Any, Any]:
        """How its release would be made."""

    @property
    def plan(self) -> Plan:
        """What it would charge, and how exact it would be."""

    @property
    def text(self) -> str:
        """The `defs.yaml` that declares it."""


def build_plan(method: Method[Any, Any, Any], planned: Callable[[Asked], Planned]) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "plan"]`.

    Args:
        method: of the declared release.
        planned: the plan of the release for what is asked.
    """
    release = method.release

    @release_stage(
        release, PLAN, StageKind.PLAN, _description(release.schema), kinds={"duckdb", "ledger", "matplotlib"}
    )
    def plan(config: Asked, warehouse: Warehouse, ledger: Ledger) -> dg.MaterializeResult:
        found = planned(config)
        declared = found if config.is_nothing else planned(Asked(largest_stratum=config.largest_stratum))
        stored = _stored(method, warehouse)
        version = stored.pop("version", None) or sha256(declared.text.encode()).hexdigest()
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version),
            metadata=plan_metadata(found, None if config.is_nothing else declared, ledger, config.records) | stored,
        )

    return plan


def plan_metadata(
    planned: Planned,
    declared: Planned | None,
    ledger: Ledger,
    records: int | None = None,
    machine: Machine | None = None,
) -> dict[str, Any]:
    """A plan for the asset's page.

    Args:
        planned: the plan.
        declared: what is declared, if the plan differs from it.
        ledger: the ledger, for what is left.
        records: the expected number of persons or units; None if it is not given.
        machine: the machine that the release would be made on; by default, this one.
    """
    plan, before = planned.plan, declared.plan if declared else None
    metadata: dict[str, Any] = {"total": total_in_words(plan)}
    if before is not None:
        metadata["total of what is declared"] = total_in_words(before)
    try:
        release = planned.method.release
        metadata["budget"], refusal = predict_budget(release.dataset, release.name, plan.loss, ledger.read())
    except LedgerError as error:
        # What is planned does not depend on it; a charge will be refused.
        metadata["budget"], refusal = f"not known: {error}", ""
    if problem := plan.problem or refusal:
        metadata["refusal"] = problem
    method = planned.method
    warehouse = ledger.warehouse
    machine = machine or this_machine(Path(warehouse.folder), method.release.published, in_lake=bool(warehouse.lake))
    metadata |= expected_in_words(method, records, machine)
    if plan.lines:
        lines = {line.name: line for line in before.lines} if before else {}
        metadata["lines"] = _lines(plan, lines)
    if plan.curves:
        from assets.planning.charts import curve_picture
    for curve in plan.curves:
        metadata[curve.title] = picture(curve_picture(curve), _words(curve))
    metadata |= dict(plan.facts)
    metadata |= {title: preview(*cells) for title, cells in plan.tables.items()}
    return metadata | {"defs.yaml": one_click_away(f"```yaml\n{planned.text}```")}


def total_in_words(plan: Plan) -> str:
    """What is charged, as a reader sees it."""
    if plan.loss is None:
        return "nothing, or not known without the records; see below"
    return f"{'at most ' if plan.is_bound else ''}{format_loss(plan.loss)} (exactly {plan.loss})"


def lines_in_words(plan: Plan) -> Cells:
    """The lines, as a reader sees them."""
    return ["line", "budget", "σ", "90% margin"], [
        [line.name, f"{float(line.budget):.6g}", f"{line.standard_error:,.2f}", f"±{line.margin:,.6g}"]
        for line in plan.lines
    ]


def _words(curve: Curve) -> str:
    """A curve for those who do not see it."""
    marked = "".join(f" {name}: {y:.4g} at {x:.4g}." for name, x, y in curve.marks[:_NAMED])
    return f"{curve.y} against {curve.x}, as {len(curve.series)} lines: {'; '.join(curve.series)}.{marked}"


def _lines(plan: Plan, declared: Mapping[str, Line]) -> dg.MetadataValue:
    """The lines; of those that differ from the declared ones, these too."""
    header, rows = lines_in_words(plan)
    shown = []
    for line, row in zip(plan.lines, rows, strict=True):
        shown.append(row)
        other = declared.get(line.name)
        if other is not None and (other.budget, other.margin) != (line.budget, line.margin):
            (as_declared,) = lines_in_words(Plan(None, (other,)))[1]
            shown.append([f"{line.name}, as declared", *as_declared[1:]])
    return preview(header, shown)


def _stored(method: Method[Any, Any, Any], warehouse: Warehouse) -> dict[str, Any]:
    """Store the tables of the stage; what its page says of them, and their version."""
    tables = method.plan_tables()
    if not tables:
        return {}
    published = {each.table: each for each in method.tables()} if method.charges else {}
    with warehouse.session(writes=Zone.PUBLIC) as session:
        with session.transaction():
            create_tables(session, {table: store_rows(session, table.name, rows) for table, rows in tables.items()})
        first = next(iter(tables))
        return {
            "version": session.content_version(list(tables)),
            "tables": ", ".join(map(named, tables)),
            "dagster/row_count": session.count(first),
            COLUMN_SCHEMA: table_schema(session.columns(first), _descriptions(published.get(first))),
        }


def _descriptions(table: PublishedTable | None) -> dict[str, str]:
    return {column.name: column.description for column in table.columns} if table else {}


def _description(schema: str) -> str:
    return f"""What this release would charge and how exact it would be, what remains of the budget then, the time,
memory and disk that a launch is expected to take, and the `defs.yaml` that declares it. It reads no records, and
charges nothing.

To try something else, launch it with fields of `defs.yaml` in place of the declared ones, with wanted 90% margins of
error by line, or with a wanted total. `records` is the expected number of persons or units. The declared release does
not change:

    ops:
      {schema}__plan:
        config:
          fields: {{…}}
          margins: {{"a line": 25}}
          total: 1"""
