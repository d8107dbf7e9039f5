"""The asset `parameters` of both mechanisms: what a declaration measures, how exactly, and what other budgets would do.

The stage needs no record, so a release can be planned before there is any data. The launchpad takes other budgets or
margins of error to try; their effect is shown in the metadata, and the declared release does not change.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import sqrt
from typing import Any

import dagster as dg
import pyarrow as pa
from pydantic import Field

from assets.conventions import StageKind, attributes, preview, public_table_metadata, table_schema
from assets.failures import stated_plainly
from assets.release.numbers import exact_fraction
from assets.safetab.release import PARAMETERS, SafeTabRelease
from mechanisms.accounting.composition import stated
from mechanisms.safetab.design import DesignError, Measured, MeasuredTable, SafeTabPDesign
from mechanisms.safetab.lines import with_budgets
from mechanisms.safetab.planning import Z, chances
from mechanisms.sampling.quantiles import Uncapped
from resources.statements import Zone
from resources.warehouse import Recipe, Session, Warehouse

CODE_VERSION = "1"

TOTALS_ONLY, ADAPTIVE = "totals only", "totals and details"
"""The parts of SafeTab-P: groups that have a total only, and all others."""

_PLACES = 6
_DECIMAL = pa.decimal128(38, _PLACES)

PARAMETER_COLUMNS = {
    "region_type": ("string", "Type of the region", pa.string(), True),
    "level": ("integer", "Level of the iterations: 1 regional, 2 detailed", pa.int64(), True),
    "part": ("string", "What is measured", pa.string(), True),
    "iterations": ("integer", "Iterations that are measured in each region", pa.int64(), True),
    "stability": ("integer", "Δ, the most of these groups that one record can be in", pa.int64(), True),
    "budget_exact": ("string", "ρ, or ε under pure DP, for one record added or removed, exact", pa.string(), True),
    "first_variance": ("decimal", "Variance of the noise of the totals that decide on the detail", _DECIMAL, False),
    "variance": ("decimal", "Variance of the noise of one measured number", _DECIMAL, True),
    "margin": ("decimal", "95% margin of error of one measured number, 1.96 standard deviations", _DECIMAL, True),
    "cut_off": ("integer", "Totals up to this are left out; empty if none is", pa.int64(), False),
    "thresholds": ("string", "Totals from which there is more detail", pa.string(), False),
}
"""The columns of the table `parameters`: type, description, stored type, and whether every row has a value."""

SIZES = (0, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 50_000, 150_000)
"""The true sizes of groups for which the chances of each detail are shown."""


class Plan(dg.Config):
    """Budgets or margins of error to try, by line. Neither the release nor its tables change."""

    budgets: dict[str, Any] = Field(
        default_factory=dict, description="By line, such as TRACT 2 (of households: TRACT 2 T3): ρ, or ε under pure DP."
    )
    moe: dict[str, Any] = Field(default_factory=dict, description="By line: the 95% margin of error of one number.")


def build_parameters(release: SafeTabRelease) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "parameters"]`."""

    @dg.asset(
        key=release.key(PARAMETERS),
        group_name=release.schema,
        description=_description(release),
        code_version=CODE_VERSION,
        **attributes(StageKind.PLAN, Zone.PUBLIC, {"duckdb"}),
    )
    @stated_plainly(StageKind.PLAN)
    def parameters_asset(config: Plan, warehouse: Warehouse) -> dg.MaterializeResult:
        try:
            planned = planned_release(release, config)
        except DesignError as error:
            words = f"release {release.dataset.name}/{release.name}: plan: {error}"
            raise dg.Failure(words, allow_retries=False) from None
        table = release.public(PARAMETERS)
        with warehouse.session(writes=Zone.PUBLIC) as session:
            name, values, names = parameters_recipe(session, release)
            with session.transaction():
                session.create(table, name, values, **names)
            return dg.MaterializeResult(
                data_version=dg.DataVersion(session.content_version([table])),
                metadata={
                    **(_shown(planned, "plan: ") if planned is not None else {}),
                    **_shown(release, ""),
                    **public_table_metadata(session, table),
                    "dagster/column_schema": table_schema(
                        session.columns(table), {name: words for name, (_, words, _, _) in PARAMETER_COLUMNS.items()}
                    ),
                },
            )

    return parameters_asset


def parameters_recipe(session: Session, release: SafeTabRelease) -> Recipe:
    """The recipe of the table, from the declaration alone."""
    schema = pa.schema([(name, stored) for name, (_, _, stored, _) in PARAMETER_COLUMNS.items()])
    made = pa.Table.from_pylist(list(parameters(release)), schema)
    return "warehouse/all", {}, {"source": session.register(PARAMETERS, made)}


def parameters(release: SafeTabRelease) -> Iterator[dict[str, Any]]:
    """The rows of the table, in the order of the draw."""
    for each in release.design.measured:
        universe = release.lists.universe(each.region_type, each.level)
        totals_only = sum(bool(iteration.detailed_only) for iteration in universe)
        if isinstance(each, MeasuredTable):
            yield _row(each, each.family, len(universe), each.noise) | {"thresholds": _texts(each.thresholds)}
            continue
        if totals_only:
            yield _row(each, TOTALS_ONLY, totals_only, each.total_only)
        if totals_only < len(universe):
            yield _row(each, ADAPTIVE, len(universe) - totals_only, each.stage_2) | {
                "first_variance": _decimal(float(each.stage_1.exact_variance)),
                "cut_off": each.cut_off,
                "thresholds": _texts(each.thresholds),
            }


def noises(each: Measured | MeasuredTable) -> dict[str, Uncapped]:
    """The noise of what is published of a line, by part."""
    if isinstance(each, MeasuredTable):
        return {each.family: each.noise}
    adaptive = {ADAPTIVE: each.stage_2}
    return {TOTALS_ONLY: each.total_only} | adaptive if each.region_type.detailed else adaptive


def _row(each: Measured | MeasuredTable, part: str, iterations: int, noise: Uncapped) -> dict[str, Any]:
    variance = float(noise.exact_variance)
    return {
        "region_type": each.region_type.value,
        "level": each.level,
        "part": part,
        "iterations": iterations,
        "stability": each.stability,
        "budget_exact": str(each.budget),
        "variance": _decimal(variance),
        "margin": _decimal(float(Z) * sqrt(variance)),
    }


def _decimal(number: float) -> Decimal:
    return Decimal(f"{number:.{_PLACES}f}")


def _texts(thresholds: Sequence[int]) -> str:
    return ", ".join(str(threshold) for threshold in thresholds)


def planned_release(release: SafeTabRelease, plan: Plan) -> SafeTabRelease | None:
    """The release with the budgets of a plan in place of the declared ones; None if the plan names none.

    Raises:
        DesignError: if a line or number of the plan does not exist or is not valid.
    """
    if not plan.budgets and not plan.moe:
        return None
    design = release.design
    changed = with_budgets(design, _numbers("budgets", plan.budgets), _numbers("moe", plan.moe))
    return replace(release, design=changed)


def _numbers(field: str, given: Mapping[str, object]) -> dict[str, Fraction]:
    numbers = {}
    for line, value in given.items():
        try:
            numbers[line] = exact_fraction(value)
        except ValueError as error:
            raise DesignError(f"{field}: {line}: {error}") from None
    return numbers


def _shown(release: SafeTabRelease, of: str) -> dict[str, dg.MetadataValue]:
    """The losses, the lines, and the chances of each detail, for the asset's page."""
    design = release.design
    last = "cut-off" if isinstance(design, SafeTabPDesign) else "more cells from"
    rows = [
        (
            f"{row['region_type']} {row['level']}, {row['part']}",
            str(float(Fraction(row["budget_exact"]))),
            f"{row['margin']:,.2f}",
            _or_dash(row.get("cut_off") if isinstance(design, SafeTabPDesign) else row["thresholds"]),
        )
        for row in parameters(release)
    ]
    shown = {
        f"{of}one record changed (charged)": dg.MetadataValue.text(stated(design.bounded)),
        f"{of}one record added or removed": dg.MetadataValue.text(stated(design.unbounded)),
        f"{of}parameters": preview(["line", design.noise.symbol, "95% margin", last], rows),
    }
    if isinstance(design, SafeTabPDesign):
        alike: dict[Any, list[Measured]] = {}
        for each in design.measured:
            alike.setdefault((each.thresholds, each.stage_1), []).append(each)
        shown[f"{of}chances of detail 1, 2, 3 by true size"] = preview(
            ["lines", "persons", "chances"],
            [
                (", ".join(each.label for each in lines), f"{size:,}", _chances_in_detail(lines[0], size))
                for lines in alike.values()
                for size in SIZES
            ],
        )
    return shown


def _or_dash(value: object) -> str:
    return "–" if value is None else str(value)


def _chances_in_detail(measured: Measured, size: int) -> str:
    return " / ".join(f"{chance:.0%}" for chance in chances(measured, size).details[1:])


def _description(release: SafeTabRelease) -> str:
    line = release.design.measured[-1].label
    symbol = release.design.noise.symbol
    return f"""What is measured for every region type and level: the budget, the noise, its margin of error, and the
thresholds of details. This asset reads no records.

To plan a release, launch it with other budgets ({symbol}, for one record added or removed), or with 95% margins of
error from which budgets follow. Their effect is shown in the metadata, and the declared release does not change:

    ops:
      {release.schema}__parameters:
        config:
          moe: {{{line}: 8}}       # or budgets: {{{line}: 1/5}}"""
