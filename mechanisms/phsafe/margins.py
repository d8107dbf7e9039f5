"""Margins of error: the margin that a budget gives, and the budget that a margin requires.

This module relates a budget (ρ or ε, exact and for unbounded neighbors), the sensitivity Δ of a query, and the 90%
margin of error of one noisy count. `design` gives the Δ and the budget of each query.

A margin m means that the noise is beyond ±m in at most one draw in ten. For the discrete Gaussian, the planned margin
is m = z·σ with σ² = Δ²/2ρ, as for the continuous one; the exact margin is an integer near it. The factor z is 1.645,
which the table of production budgets uses (Sexton et al., Table 10). The formula printed in the paper (Corollary 2) has
1.64, which gives budgets 0.6% smaller. For the discrete Laplace of scale Δ/ε, margins and budgets both follow from the
exact distribution.
"""

import math
from fractions import Fraction

from mechanisms.noise import Noise
from mechanisms.sampling.margins import LARGEST_SEARCHED_VARIANCE
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace
from mechanisms.sampling.quantiles import half_width, laplace_budget

Z = Fraction(1645, 1000)
"""The normal distribution's 95% quantile, to the three decimals that production used."""

BEYOND = Fraction(1, 10)
"""The share of draws beyond a margin of error."""

PLACES = 6
"""Decimals of a budget that is computed from a margin, as in Sexton et al., Table 10."""

_UNIT = Fraction(1, 10**PLACES)


def noise_of_count(noise: Noise, stability: int, budget: Fraction) -> DiscreteGaussian | DiscreteLaplace:
    """The noise of one count: of variance Δ²/2ρ, or of scale Δ/ε, where Δ is the stability of its run."""
    if noise is Noise.GAUSSIAN:
        return DiscreteGaussian(Fraction(stability**2) / (2 * budget))
    return DiscreteLaplace(Fraction(stability) / budget)


def margin_of_error(noise: Noise, stability: int, budget: Fraction) -> float:
    """The 90% margin of error that a budget gives: z·Δ/√(2ρ), or the exact one of the discrete Laplace."""
    if noise is Noise.GAUSSIAN:
        return math.sqrt(Z**2 * stability**2 / (2 * budget))
    return float(half_width(noise_of_count(noise, stability, budget), 1, 1 - BEYOND))


def budget_for_margin(noise: Noise, stability: int, margin: Fraction) -> Fraction:
    """The budget that a 90% margin of error requires, in millionths.

    ρ = (z²/2)·Δ²/m², to the nearest millionth (half to even), which reproduces every row of the production table.
    ε is the least number of millionths for which the exact margin is not above m.

    Raises:
        ValueError: if the margin is not positive, or ρ would round to 0.
    """
    if margin <= 0:
        raise ValueError("a margin of error must be greater than 0")
    if noise is Noise.LAPLACE:
        return laplace_budget(stability, math.floor(margin), 1 - BEYOND, _UNIT)
    budget = round(Z**2 / 2 * stability**2 / margin**2 / _UNIT) * _UNIT
    if not budget:
        raise ValueError(
            f"a margin of {float(margin):g} takes a ρ that rounds to 0 at {PLACES} decimals; "
            "ask for a smaller margin, or give the budget itself"
        )
    return budget


def exact_margin(noise: DiscreteGaussian | DiscreteLaplace) -> int | None:
    """The least m with P(|X| <= m) >= 0.9, exactly; None for a discrete Gaussian of too large a variance."""
    if isinstance(noise, DiscreteGaussian) and noise.variance > LARGEST_SEARCHED_VARIANCE:
        return None
    return half_width(noise, 1, 1 - BEYOND)
