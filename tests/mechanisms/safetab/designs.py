"""The designs of the 2020 Census by SafeTab-P and SafeTab-H, for some states, and their published parameters.

A release of the 2020 Census gets the same design from its declaration, with the lists and the states of its dataset.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from mechanisms.noise import Noise
from mechanisms.safetab.design import Pair, SafeTabHDesign, SafeTabPDesign, find_runs, noise_of_measurement
from mechanisms.safetab.planning import (
    BUDGETS_H,
    BUDGETS_P,
    COVERAGE,
    STAGE_1_SHARE,
    THRESHOLDS_H,
    THRESHOLDS_P,
    ZERO_SUPPRESSION_CHANCE,
    Z,
)
from mechanisms.sampling.quantiles import half_width

PUBLISHED_BOUNDED_P = Fraction("19.776")
"""ρ of SafeTab-P for bounded neighbors as published: four times the unbounded one, the general conversion."""

PUBLISHED_BOUNDED_H = Fraction("17.790604")
"""ρ of SafeTab-H for bounded neighbors as published: twice the unbounded one."""

PLACES_P, PLACES_H = 3, 6
"""The decimals to which the budgets that meet the targets of `MARGINS` are rounded."""


def production_p(states: Sequence[str], stabilities: Mapping[Pair, int]) -> SafeTabPDesign:
    """SafeTab-P's design."""
    return SafeTabPDesign(
        states=tuple(states),
        noise=Noise.GAUSSIAN,
        stabilities=stabilities,
        budgets=_released(BUDGETS_P, states),
        thresholds=THRESHOLDS_P,
        stage_1_share=STAGE_1_SHARE,
        zero_suppression_chance=ZERO_SUPPRESSION_CHANCE,
    )


def production_h(states: Sequence[str], stabilities: Mapping[Pair, int]) -> SafeTabHDesign:
    """SafeTab-H's design."""
    return SafeTabHDesign(
        states=tuple(states),
        noise=Noise.GAUSSIAN,
        stabilities=stabilities,
        budgets=_released(BUDGETS_H, states),
        thresholds=THRESHOLDS_H,
    )


def margin_of_error(noise: Noise, stability: int, budget: Fraction, stage_1_share: Fraction = Fraction(0)) -> float:
    """The 95% margin of error of a published measurement: z·√(Δ/2b), or the exact one of the discrete Laplace.

    Args:
        budget: ρ or ε of the region type and level, greater than 0.
        stage_1_share: γ, for SafeTab-P; b is the rest of the budget.
    """
    part = (1 - stage_1_share) * budget
    if noise is Noise.GAUSSIAN:
        return math.sqrt(Z**2 * stability / (2 * part))
    return float(half_width(noise_of_measurement(noise, stability, part), 1, COVERAGE))


def _released(budgets: Mapping[Any, Fraction], states: Sequence[str]) -> dict[Any, Fraction]:
    return {key: budget for key, budget in budgets.items() if key[0].run in find_runs(states)}
