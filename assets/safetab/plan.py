"""The plan of both mechanisms: what a declaration measures, how exactly, and with which chances of each detail.

The stage `plan` stores a row for each line of the declared release in the table `parameters`, which is published.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
import pyarrow as pa

from assets.release.plan import Cells, Curve, Line, Plan
from assets.safetab.release import PARAMETERS, SafeTabRelease
from mechanisms.accounting.composition import compose_approximate
from mechanisms.accounting.losses import format_loss
from mechanisms.design import LARGEST_BUDGET
from mechanisms.safetab.design import (
    Measured,
    MeasuredTable,
    SafeTabPDesign,
    noise_of_measurement,
)
from mechanisms.safetab.details import DETAILS, cells
from mechanisms.safetab.planning import Z, chances
from mechanisms.sampling.margins import MILLION, QUANTILE, least_budget, margin_of_error
from mechanisms.sampling.noise import DiscreteGaussian
from mechanisms.sampling.quantiles import Uncapped
from resources.statements import Table
from resources.warehouse import Recipe, Session

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

_OF_DETAILS = " or ".join(str(cells(detail)) for detail in DETAILS if detail)
_STEPS = 60
_BEYOND = 4


def safetab_plan(release: SafeTabRelease) -> Plan:
    """What the release would charge, how exact its numbers would be, and in what detail groups would be published."""
    design = release.design
    tables: dict[str, Cells] = {"95% margins, as declared by moe": _margins(release)}
    if isinstance(design, SafeTabPDesign):
        tables["Chances of detail 1, 2, 3 by true size"] = _chances(design)
    bounded, unbounded = design.bounded, design.unbounded
    converted = compose_approximate([bounded], release.declaration.delta)
    return Plan(
        design.specification(release.dataset.name),
        tuple(_line(release, each) for each in design.measured),
        {
            "one record changed (charged)": f"{format_loss(bounded)} (exactly {bounded})",
            "one record added or removed": f"{format_loss(unbounded)} (exactly {unbounded})",
            "one record changed, as (ε, δ)": format_loss(converted),
        },
        tables,
        (_curve(release),),
    )


def budgets_for(release: SafeTabRelease, margins: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """By line, the budgets of a design; the least, in millionths, of lines for which margins are wanted.

    Args:
        release: the release.
        margins: by line, the wanted 90% margin of error.

    Raises:
        ValueError: if no budget gives a margin.
    """
    budgets = {}
    for each in release.design.measured:
        budget = each.budget
        if (wanted := margins.get(each.label)) is not None:

            def margin_of(budget: Fraction, each: Measured | MeasuredTable = each) -> float:
                return margin_of_error(_noise(release, each, budget))

            try:
                budget = least_budget(margin_of, wanted, budget, Fraction(1, MILLION), Fraction(LARGEST_BUDGET))
            except ValueError as error:
                raise ValueError(f"margins: {each.label}: {error}") from None
        budgets[each.label] = budget
    return budgets


def _noise(release: SafeTabRelease, each: Measured | MeasuredTable, budget: Fraction) -> Uncapped:
    """The noise of one published number of a line, if the line had another budget.

    Where some groups are measured as totals only, whose noise is less, it is that of all others.
    """
    design = release.design
    part = budget
    if isinstance(design, SafeTabPDesign) and _is_adaptive(release, each):
        part *= 1 - design.stage_1_share
    return noise_of_measurement(design.noise, each.stability, part)


def _is_adaptive(release: SafeTabRelease, each: Measured | MeasuredTable) -> bool:
    """Whether some groups of a line are measured in two stages."""
    universe = release.lists.universe(each.region_type, each.level)
    return isinstance(each, Measured) and not all(iteration.detailed_only for iteration in universe)


def _line(release: SafeTabRelease, each: Measured | MeasuredTable) -> Line:
    noise = _noise(release, each, each.budget)
    most: int | None = None
    if isinstance(each, MeasuredTable):
        counted = f"households by the cells of {each.family}"
    elif _is_adaptive(release, each):
        counted = f"persons: a total, or sex by age in {_OF_DETAILS} cells"
    else:
        counted, most = "persons: a total", 1
    margin, error = margin_of_error(noise), sqrt(noise.exact_variance)
    return Line(each.label, counted, each.budget, error, margin, most, each.region_type.value)


def _margins(release: SafeTabRelease) -> Cells:
    last = "cut-off" if isinstance(release.design, SafeTabPDesign) else "more cells from"
    return ["line", release.design.noise.symbol, "95% margin", last], [
        [
            f"{row['region_type']} {row['level']}, {row['part']}",
            f"{float(Fraction(row['budget_exact'])):g}",
            f"{row['margin']:,.2f}",
            _or_dash(row.get("cut_off") if isinstance(release.design, SafeTabPDesign) else row["thresholds"]),
        ]
        for row in parameters(release)
    ]


def _chances(design: SafeTabPDesign) -> Cells:
    alike: dict[Any, list[Measured]] = {}
    for each in design.measured:
        alike.setdefault((each.thresholds, each.stage_1), []).append(each)
    return ["lines", "persons", "chances"], [
        [", ".join(each.label for each in lines), f"{size:,}", _chances_in_detail(lines[0], size)]
        for lines in alike.values()
        for size in SIZES
    ]


def _chances_in_detail(measured: Measured, size: int) -> str:
    return " / ".join(f"{chance:.0%}" for chance in chances(measured, size).details[1:])


def _curve(release: SafeTabRelease) -> Curve:
    """The margin of error of one number against the budget: a series for each Δ and kind of number."""
    design = release.design
    budgets = [float(each.budget) for each in design.measured]
    steps = [Fraction(each) for each in np.geomspace(min(budgets) / _BEYOND, max(budgets) * _BEYOND, _STEPS)]
    alike: dict[str, list[Measured | MeasuredTable]] = {}
    for each in design.measured:
        parts = " in two stages" if _is_adaptive(release, each) else ""
        alike.setdefault(f"Δ = {each.stability}{parts}", []).append(each)
    return Curve(
        "Margin of error against budget",
        f"{design.noise.symbol} of a line, for one record added or removed",
        "90% margin of error of one number",
        {
            name: [(float(step), _drawn_margin(_noise(release, lines[0], step))) for step in steps]
            for name, lines in alike.items()
        },
        [
            (each.label, float(each.budget), _drawn_margin(_noise(release, each, each.budget)))
            for each in design.measured
        ],
        log_x=True,
        log_y=True,
    )


def _drawn_margin(noise: Uncapped) -> float:
    """1.645σ, which has no steps, unlike the exact margin."""
    return QUANTILE * sqrt(noise.variance if isinstance(noise, DiscreteGaussian) else noise.exact_variance)


def _or_dash(value: object) -> str:
    return "–" if value is None else str(value)


def parameters_recipe(session: Session, release: SafeTabRelease) -> Recipe:
    """The recipe of the table, from the declaration alone."""
    (made,) = parameter_tables(release).values()
    return "warehouse/all", {}, {"source": session.register(PARAMETERS, made)}


def parameter_tables(release: SafeTabRelease) -> dict[Table, pa.Table]:
    """The content of the table, from the declaration alone."""
    schema = pa.schema([(name, kind) for name, (_, _, kind, _) in PARAMETER_COLUMNS.items()])
    return {release.public(PARAMETERS): pa.Table.from_pylist(list(parameters(release)), schema)}


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
