"""The plan of both mechanisms: the measurements of a declaration, their accuracy, and the chances of each detail.

The stage `plan` stores a row for each line of the declared release in the table `parameters`, which is published.
"""

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import partial
from math import sqrt
from typing import Any

import pyarrow as pa

from assets.planning.lines import format_cell, format_exactly, margins_by_budget, plan_line
from assets.release.plan import Cells, Curve, Line, Plan
from assets.safetab.release import PARAMETERS, SafeTabRelease
from mechanisms.accounting.composition import compose_approximate
from mechanisms.accounting.losses import format_loss
from mechanisms.safetab.design import Measured, MeasuredTable, SafeTabPDesign, noise_of_measurement
from mechanisms.safetab.details import DETAILS, cells
from mechanisms.safetab.planning import Z, chances
from mechanisms.sampling.noise import DiscreteGaussian
from mechanisms.sampling.quantiles import QUANTILE, Uncapped
from resources.statements import Table

TOTALS_ONLY, ADAPTIVE = "totals only", "totals and details"
"""The parts of SafeTab-P: groups with a total only, and all other groups."""

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


def safetab_plan(release: SafeTabRelease) -> Plan:
    """The charge of the release, the accuracy of its numbers, and the detail of the published groups."""
    design = release.design
    tables: dict[str, Cells] = {"95% margins, as declared by moe": _tabulate_margins(release)}
    if isinstance(design, SafeTabPDesign):
        tables["Chances of detail 1, 2, 3 by true size"] = _tabulate_chances(design)
    bounded = design.bounded
    return Plan(
        design.specification(release.dataset.name),
        tuple(planned_lines(release)),
        {
            "one record changed (charged)": format_exactly(bounded),
            "one record added or removed": format_exactly(design.unbounded),
            "one record changed, as (ε, δ)": format_loss(compose_approximate([bounded], release.declaration.delta)),
        },
        tables,
        (_curve(release),),
    )


def planned_lines(release: SafeTabRelease) -> Iterator[Line]:
    """The plan's line for each line of the design, in the order of the draw."""
    for measured in release.design.measured:
        most: int | None = None
        if isinstance(measured, MeasuredTable):
            counted = f"households by the cells of {measured.family}"
        elif _is_adaptive(release, measured):
            counted = f"persons: a total, or sex by age in {_OF_DETAILS} cells"
        else:
            counted, most = "persons: a total", 1
        noise_at = partial(_noise_at, release, measured)
        yield plan_line(measured.label, counted, measured.budget, noise_at, most, measured.region_type.value)


def _noise_at(release: SafeTabRelease, measured: Measured | MeasuredTable, budget: Fraction) -> Uncapped:
    """The noise of one published number of a line at a given budget.

    If some groups of the line are measured as totals only, with less noise, the result is the noise of the other
    groups.
    """
    design = release.design
    if isinstance(design, SafeTabPDesign) and _is_adaptive(release, measured):
        budget *= 1 - design.stage_1_share
    return noise_of_measurement(design.noise, measured.stability, budget)


def _is_adaptive(release: SafeTabRelease, measured: Measured | MeasuredTable) -> bool:
    """Whether some groups of a line are measured in two stages."""
    universe = release.lists.universe(measured.region_type, measured.level)
    return isinstance(measured, Measured) and not all(iteration.detailed_only for iteration in universe)


def _tabulate_margins(release: SafeTabRelease) -> Cells:
    last = "cut-off" if isinstance(release.design, SafeTabPDesign) else "more cells from"
    return ["line", release.design.noise.symbol, "95% margin", last], [
        [
            f"{row['region_type']} {row['level']}, {row['part']}",
            f"{float(Fraction(row['budget_exact'])):g}",
            f"{row['margin']:,.2f}",
            format_cell(row.get("cut_off") if isinstance(release.design, SafeTabPDesign) else row["thresholds"]),
        ]
        for row in parameters(release)
    ]


def _tabulate_chances(design: SafeTabPDesign) -> Cells:
    lines_alike: dict[Any, list[Measured]] = {}
    for measured in design.measured:
        lines_alike.setdefault((measured.thresholds, measured.stage_1), []).append(measured)
    return ["lines", "persons", "chances"], [
        [
            ", ".join(measured.label for measured in lines),
            f"{size:,}",
            " / ".join(f"{chance:.0%}" for chance in chances(lines[0], size).details[1:]),
        ]
        for lines in lines_alike.values()
        for size in SIZES
    ]


def _curve(release: SafeTabRelease) -> Curve:
    """The margin of error of one number against the budget: a series for each Δ and kind of number."""
    first: dict[str, Measured | MeasuredTable] = {}
    for measured in release.design.measured:
        parts = " in two stages" if _is_adaptive(release, measured) else ""
        first.setdefault(f"Δ = {measured.stability}{parts}", measured)

    def drawn_margin(measured: Measured | MeasuredTable, budget: Fraction) -> float:
        """1.645σ, which is continuous, unlike the exact margin."""
        noise = _noise_at(release, measured, budget)
        return QUANTILE * sqrt(noise.variance if isinstance(noise, DiscreteGaussian) else noise.exact_variance)

    return margins_by_budget(
        f"{release.design.noise.symbol} of a line, for one record added or removed",
        "90% margin of error of one number",
        {name: partial(drawn_margin, measured) for name, measured in first.items()},
        [(line.label, line.budget, partial(drawn_margin, line)) for line in release.design.measured],
    )


def parameter_tables(release: SafeTabRelease) -> dict[Table, pa.Table]:
    schema = pa.schema([(name, kind) for name, (_, _, kind, _) in PARAMETER_COLUMNS.items()])
    return {release.public(PARAMETERS): pa.Table.from_pylist(list(parameters(release)), schema)}


def parameters(release: SafeTabRelease) -> Iterator[dict[str, Any]]:
    """The rows of the table, in the order of the draw."""
    for measured in release.design.measured:
        universe = release.lists.universe(measured.region_type, measured.level)
        totals_only = sum(bool(iteration.detailed_only) for iteration in universe)
        if isinstance(measured, MeasuredTable):
            row = _row(measured, measured.family, len(universe), measured.noise)
            yield row | {"thresholds": ", ".join(map(str, measured.thresholds))}
            continue
        if totals_only:
            yield _row(measured, TOTALS_ONLY, totals_only, measured.total_only)
        if totals_only < len(universe):
            yield _row(measured, ADAPTIVE, len(universe) - totals_only, measured.stage_2) | {
                "first_variance": _decimal(float(measured.stage_1.exact_variance)),
                "cut_off": measured.cut_off,
                "thresholds": ", ".join(map(str, measured.thresholds)),
            }


def noises(measured: Measured | MeasuredTable) -> dict[str, Uncapped]:
    """The noise of a line's published numbers, by part."""
    if isinstance(measured, MeasuredTable):
        return {measured.family: measured.noise}
    adaptive = {ADAPTIVE: measured.stage_2}
    return {TOTALS_ONLY: measured.total_only} | adaptive if measured.region_type.detailed else adaptive


def _row(measured: Measured | MeasuredTable, part: str, iterations: int, noise: Uncapped) -> dict[str, Any]:
    variance = float(noise.exact_variance)
    return {
        "region_type": measured.region_type.value,
        "level": measured.level,
        "part": part,
        "iterations": iterations,
        "stability": measured.stability,
        "budget_exact": str(measured.budget),
        "variance": _decimal(variance),
        "margin": _decimal(float(Z) * sqrt(variance)),
    }


def _decimal(number: float) -> Decimal:
    return Decimal(f"{number:.{_PLACES}f}")
