"""The plan of a TopDown release: ρ, σ and margin of error of every query, and the shares for wanted margins.

The errors of the estimates also depend on the records. To preview them, launch the same declaration on a
`SyntheticCensus` of similar size, where the asset `accuracy` shows them.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from assets.planning.expectation import expected_size
from assets.planning.lines import LEAST_MARGIN, budgets_for_margins, format_exactly, plan_line, title_margins
from assets.release.plan import Cells, Curve, Line, Plan
from assets.topdown.release import TopDownRelease
from mechanisms.accounting.composition import canonne_kamath_steinke
from mechanisms.accounting.losses import format_loss
from mechanisms.accounting.rounding import format_decimal
from mechanisms.design import LARGEST_BUDGET, LARGEST_DENOMINATOR
from mechanisms.sampling.noise import DiscreteGaussian
from mechanisms.topdown.allocation import Allocation
from mechanisms.topdown.design import SCHEMAS, Measured, TopDownDesign, words
from mechanisms.topdown.dhc.design import DHCDesign
from mechanisms.topdown.dhc.design import Measured as DHCMeasured

Design = TopDownDesign | DHCDesign

_PLACES = 4

_LEANING = (
    "persons in households of the finest level also follow housing units; the model's variance, τ² for each state, is "
    "estimated from the noisy measurements, without a charge, and stands in the certificate"
)


def topdown_plan(release: TopDownRelease) -> Plan:
    design = release.design
    lines = [line_of(measured) for measured in design.measured]
    epsilon = canonne_kamath_steinke(design.loss, release.declaration.delta, _PLACES)
    return Plan(
        design.specification(release.dataset.name),
        tuple(lines),
        {
            "any change of one person's record (charged)": format_exactly(design.loss),
            "measurements of persons": format_exactly(design.persons),
            "measurements of units, for one unit": f"{format_exactly(design.units)}; a move may change two",
            "charged, as (ε, δ)": f"ε = {epsilon} at δ = {format_decimal(release.declaration.delta)}",
            "estimation": _describe_estimation(release),
            **({"model: lean on housing units": _LEANING} if design.lean_on_housing_units else {}),
            "errors of the estimates": "launch the same declaration on a SyntheticCensus of like size; its asset "
            "accuracy shows them",
        },
        {f"ρ by level of {histogram}": shares_by_level(design, histogram) for histogram in SCHEMAS} | _errors(release),
        tuple(draw_curve(design, histogram, lines) for histogram in SCHEMAS),
    )


def allocations_for(design: Design, margins: Mapping[str, Fraction]) -> dict[str, dict[str, Any]]:
    """By histogram, the fields `rho`, `levels` and `queries` that give queries the wanted margins.

    Such a query gets the smallest ρ that gives its margin. The others keep their ρ exactly if it can be declared, and
    otherwise get the next billionth. Histograms without a wanted margin are left out. Raises ValueError if no ρ gives a
    margin.
    """
    allocations = {}
    for histogram in design.allocations:
        own = [measured for measured in design.measured if measured.histogram == histogram]
        if any(measured.label in margins for measured in own):
            parts = budgets_for_margins(map(line_of, own), margins, LARGEST_BUDGET, as_shares=True)
            allocations[histogram] = _allocation(
                {(measured.level, measured.query): parts[measured.label] for measured in own}
            )
    return allocations


def scale_allocations(design: TopDownDesign, factor: Fraction) -> dict[str, dict[str, Any]]:
    """By histogram, its fields with ρ multiplied by a factor, which multiplies the charge by exactly this factor.

    If a product has a denominator that cannot be declared, ρ of the units is rounded down to one that can, and ρ of the
    persons is the rest of the charge.
    """
    total, units = design.loss.rho * factor, design.units.rho * factor
    persons = design.persons.rho * factor
    if max(units.denominator, persons.denominator) > LARGEST_DENOMINATOR:
        steps = total.denominator * (LARGEST_DENOMINATOR // total.denominator)
        units = Fraction(math.floor(units * steps), steps)
        persons = total - 2 * units
    rhos = (persons, units)
    return {
        histogram: as_fields(allocation, rho)
        for (histogram, allocation), rho in zip(design.allocations.items(), rhos, strict=True)
    }


def as_fields(allocation: Allocation, rho: Fraction) -> dict[str, Any]:
    """The fields of an allocation with another ρ."""
    queries = {level: dict(shares) for level, shares in allocation.queries.items()}
    return {"rho": rho, "levels": dict(allocation.levels), "queries": queries}


def _allocation(parts: Mapping[tuple[str, str], Fraction]) -> dict[str, Any]:
    """ρ and shares whose products are the parts."""
    levels: dict[str, Fraction] = {}
    for (level, _), part in parts.items():
        levels[level] = levels.get(level, Fraction()) + part
    rho = sum(levels.values(), Fraction())
    queries: dict[str, dict[str, Fraction]] = {}
    for (level, query), part in parts.items():
        queries.setdefault(level, {})[query] = part / levels[level]
    return {"rho": rho, "levels": {level: part / rho for level, part in levels.items()}, "queries": queries}


def line_of(measured: Measured | DHCMeasured) -> Line:
    return plan_line(
        measured.label,
        f"{measured.histogram} at the level {words(measured.level)}",
        measured.loss.rho,
        lambda rho: DiscreteGaussian(1 / rho),
        measured.marginal.size,
        measured.level,
    )


def shares_by_level(design: Design, histogram: str) -> Cells:
    allocation = design.allocations[histogram]
    return ["level", "share", "ρ"], [
        [words(level), f"{float(share):.4f}", format_loss(allocation.of_level(level)).removeprefix("ρ = ")]
        for level, share in allocation.levels.items()
    ]


def _describe_estimation(release: TopDownRelease) -> str:
    design = release.design
    if not design.full:
        return "own_levels: every place from its own measurements and its parent's estimates"
    return (
        f"full: every place from all measurements at and below it; types and races first down to {design.types_first}"
    )


def _errors(release: TopDownRelease) -> dict[str, Cells]:
    """The gain of full estimation, from budgets and expected numbers of places; empty if unknown."""
    # Numba takes a while to import.
    from mechanisms.topdown.gain import compare_errors

    design, size = release.design, expected_size(release.dataset)
    # The number of places by prefix does not follow from the columns.
    if not design.full or size is None or any(code.prefix for code in release.spine.values()):
        return {}
    errors = compare_errors(design, [size.places_of(code.columns) for code in release.spine.values()])
    rows = [
        [words(level), *(f"{own:,.2f} → {full:,.2f}" for own, full in pairs)]
        for level, *pairs in zip(design.levels, *errors.values(), strict=True)
    ]
    return {"Standard errors of linear estimates: own levels → full": (["level", *errors], rows)}


def draw_curve(design: Design, histogram: str, lines: Sequence[Line]) -> Curve:
    """The margin of error of every query from the root to the finest level; queries with equal margins share one
    line."""
    queries: dict[str, list[tuple[float, float]]] = {}
    all_measured: Sequence[Measured | DHCMeasured] = design.measured
    for measured, line in zip(all_measured, lines, strict=True):
        if measured.histogram == histogram:
            place = float(design.levels.index(measured.level) + 1)
            queries.setdefault(measured.query, []).append((place, max(LEAST_MARGIN, line.margin)))
    alike: dict[tuple[tuple[float, float], ...], list[str]] = {}
    for query, points in queries.items():
        alike.setdefault(tuple(points), []).append(query)
    series = {", ".join(names): points for points, names in alike.items()}
    return Curve(
        f"Margin of error of every query of {histogram}",
        "Level: " + ", ".join(f"{place} {words(level)}" for place, level in enumerate(design.levels, start=1)),
        title_margins("90% margin of error of one count", series),
        series,
        log_y=True,
    )
