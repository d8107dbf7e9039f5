"""The plan of a DHC release: ρ, σ and margin of error of every query, and the budgets for a wanted total."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from assets.planning.lines import format_exactly
from assets.release.plan import Plan
from assets.topdown.dhc.release import DHCRelease
from assets.topdown.plan import as_fields, draw_curve, line_of, shares_by_level
from mechanisms.accounting.composition import canonne_kamath_steinke
from mechanisms.accounting.rounding import format_decimal
from mechanisms.topdown.dhc.design import SCHEMAS, DHCDesign

_PLACES = 4


def dhc_plan(release: DHCRelease) -> Plan:
    design = release.design
    lines = [line_of(measured) for measured in design.measured]
    epsilon = canonne_kamath_steinke(design.loss, release.declaration.delta, _PLACES)
    return Plan(
        design.specification(release.dataset.name),
        tuple(lines),
        {
            "any change of one person's record (charged)": format_exactly(design.loss),
            **{
                f"{text} of {histogram}": format_exactly(loss)
                for histogram in SCHEMAS
                for text, loss in (
                    ("charged for measurements", design.of_histogram(histogram)),
                    ("measurements", design.allocations[histogram].loss),
                )
            },
            "each counted once, as production states it": format_exactly(design.once),
            "charged, as (ε, δ)": f"ε = {epsilon} at δ = {format_decimal(release.declaration.delta)}",
            "held in every place": f"the counts of {release.redistricting.name}, which has a charge of its own",
        },
        {f"ρ by level of {histogram}": shares_by_level(design, histogram) for histogram in SCHEMAS},
        tuple(draw_curve(design, histogram, lines) for histogram in SCHEMAS),
    )


def scale_allocations(design: DHCDesign, factor: Fraction) -> Mapping[str, Any]:
    return {
        histogram: as_fields(allocation, allocation.loss.rho * factor)
        for histogram, allocation in design.allocations.items()
    }
