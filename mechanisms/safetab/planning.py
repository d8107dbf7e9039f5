"""Planning: the margin of error that a budget gives, the budget that a margin requires, and the detail to expect.

The margin is that of one published measurement: a total or a cell of SafeTab-P's stage 2, or a basis cell of SafeTab-H.
`design` gives the budget and Δ of each.

A margin m means that the noise is beyond ±m in at most one draw in twenty. For the discrete Gaussian, the planned
margin is m = z·σ with z = 1.96 and σ² = Δ/2b, as for the continuous one; the exact margin is an integer near it. For
the discrete Laplace, margins and budgets follow from the exact distribution. Source: SafeTab-H's error report.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from mechanisms.noise import Noise
from mechanisms.safetab.design import Measured, noise_of_measurement
from mechanisms.safetab.details import cells
from mechanisms.sampling.quantiles import Uncapped, half_width, laplace_budget, noise_sum

Z = Fraction(196, 100)
"""The normal distribution's 97.5% quantile, to two decimals."""

COVERAGE = Fraction(95, 100)
"""The share of draws within a margin of error."""

PLACES = 6
"""Decimals of a budget that is computed from a margin, unless others are asked for."""


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


def budget_for_margin(
    noise: Noise, stability: int, margin: Fraction, stage_1_share: Fraction = Fraction(0), places: int = PLACES
) -> Fraction:
    """The budget that a 95% margin of error requires.

    ρ = z²Δ/(2m²(1 − γ)), rounded to the given decimals (half to even), which reproduces the production budgets. ε is
    the least multiple of the last decimal for which the exact margin is not above m.

    Args:
        margin: m, greater than 0.
        stage_1_share: γ, for SafeTab-P.

    Raises:
        ValueError: if the margin is not positive, or ρ would round to 0.
    """
    if margin <= 0:
        raise ValueError("a margin of error must be greater than 0")
    unit = Fraction(1, 10**places)
    if noise is Noise.LAPLACE:
        return laplace_budget(stability, math.floor(margin), COVERAGE, unit * (1 - stage_1_share)) / (1 - stage_1_share)
    budget = round(Z**2 * stability / (2 * margin**2 * (1 - stage_1_share)) / unit) * unit
    if not budget:
        raise ValueError(
            f"a margin of {float(margin):g} takes a ρ that rounds to 0 at {places} decimals; "
            "ask for a smaller margin, or give the budget itself"
        )
    return budget


@dataclass(frozen=True)
class Chances:
    """What happens to a group of SafeTab-P that is not measured as a total only, by its true size.

    Attributes:
        details: the probabilities of details 0 to 3.
    """

    size: int
    details: tuple[float, ...]
    published: float


def chances(measured: Measured, size: int) -> Chances:
    """The chances of a group of some true size, with errors below 10^−12.

    The noises of the two stages are independent, so a total is suppressed with the product of the probabilities of
    detail 0 and of noise of at most c − n.
    """
    below = [_at_most(measured.stage_1, threshold - 1 - size) for threshold in measured.thresholds]
    details = tuple(upper - lower for lower, upper in pairwise([0.0, *below, 1.0]))
    if measured.cut_off is None:
        return Chances(size, details, 1.0)
    return Chances(size, details, 1 - details[0] * _at_most(measured.stage_2, measured.cut_off - size))


def numbers_of_an_empty_group(measured: Measured) -> float:
    """How many numbers are expected to be published of an empty group of SafeTab-P that is not a total only.

    Nearly all groups of small regions are empty, so this says how large a release becomes.
    """
    found = chances(measured, 0)
    detailed = sum(chance * cells(detail) for detail, chance in enumerate(found.details) if detail)
    return found.published - (1 - found.details[0]) + detailed


def _at_most(noise: Uncapped, value: int) -> float:
    """P(X <= value). The variance of a design's noise is small enough for a table in steps of 1."""
    table = noise_sum(noise, 1)
    if abs(value) > table.reach:
        return float(value > 0)
    return float(table.cumulative[value + table.reach] / table.cumulative[-1])
