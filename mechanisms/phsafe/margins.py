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
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import count

from mechanisms.noise import Noise
from mechanisms.sampling.discrete_gaussian import DiscreteGaussian
from mechanisms.sampling.discrete_laplace import DiscreteLaplace
from mechanisms.sampling.fixed_point import exponential

Z = Fraction(1645, 1000)
"""The normal distribution's 95% quantile, to the three decimals that production used."""

BEYOND = Fraction(1, 10)
"""The share of draws beyond a margin of error."""

PLACES = 6
"""Decimals of a budget that is computed from a margin, as in Sexton et al., Table 10."""

LARGEST_SEARCHED_VARIANCE = 2**28
"""Up to this σ², the stepwise search for a discrete Gaussian's exact margin takes tenths of a second."""

_PRECISION = 192
_UNIT = Fraction(1, 10**PLACES)
_LOGARITHM_OF_20 = 3


def noise_of_count(noise: Noise, stability: int, budget: Fraction) -> DiscreteGaussian | DiscreteLaplace:
    """The noise of one count: of variance Δ²/2ρ, or of scale Δ/ε.

    Args:
        noise: the distribution.
        stability: Δ, the most records that adding or removing one person can change.
        budget: ρ or ε, greater than 0.
    """
    if noise is Noise.GAUSSIAN:
        return DiscreteGaussian(Fraction(stability**2) / (2 * budget))
    return DiscreteLaplace(Fraction(stability) / budget)


def margin_of_error(noise: Noise, stability: int, budget: Fraction) -> float:
    """The 90% margin of error that a budget gives: z·Δ/√(2ρ), or the exact one of the discrete Laplace."""
    if noise is Noise.GAUSSIAN:
        return math.sqrt(Z**2 * stability**2 / (2 * budget))
    return float(_laplace_margin(Fraction(stability) / budget))


def budget_for_margin(noise: Noise, stability: int, margin: Fraction) -> Fraction:
    """The budget that a 90% margin of error requires, in millionths.

    ρ = (z²/2)·Δ²/m², to the nearest millionth (half to even), which reproduces every row of the production table.
    ε is the least number of millionths for which the exact margin is not above m.

    Args:
        noise: the distribution.
        stability: Δ, the most records that adding or removing one person can change.
        margin: m, greater than 0.

    Raises:
        ValueError: if the margin is not positive, or ρ would round to 0.
    """
    if margin <= 0:
        raise ValueError("a margin of error must be greater than 0")
    if noise is Noise.LAPLACE:
        return _laplace_budget(stability, math.floor(margin))
    budget = round(Z**2 / 2 * stability**2 / margin**2 / _UNIT) * _UNIT
    if not budget:
        raise ValueError(
            f"a margin of {float(margin):g} takes a ρ that rounds to 0 at {PLACES} decimals; "
            "ask for a smaller margin, or give the budget itself"
        )
    return budget


@lru_cache(maxsize=1024)
def exact_margin(noise: DiscreteGaussian | DiscreteLaplace) -> int | None:
    """The least m with P(|X| <= m) >= 0.9, decided with rigorous bounds.

    For the discrete Gaussian, m certainly covers 0.9. A smaller m could do so only if its probability were within
    2^-150 of 0.9.

    Returns:
        m, or None for a discrete Gaussian with σ² above `LARGEST_SEARCHED_VARIANCE`.
    """
    if isinstance(noise, DiscreteLaplace):
        return _laplace_margin(noise.scale)
    if noise.variance > LARGEST_SEARCHED_VARIANCE:
        return None
    # P(|X| <= m) = 2 F(m) - 1, as the distribution is symmetric.
    wanted = 1 - BEYOND / 2
    for value, (low, _) in enumerate(noise.cumulative(_PRECISION)):
        if low * wanted.denominator >= wanted.numerator << _PRECISION:
            return value
    raise AssertionError("a cumulative distribution has no end")


def _laplace_margin(scale: Fraction) -> int:
    return _least(lambda value: _seldom_beyond(value, scale))


def _laplace_budget(stability: int, margin: int) -> Fraction:
    # q^(m + 1) <= 1/20 is enough, and exp(-3) is below 1/20.
    enough = math.ceil(Fraction(_LOGARITHM_OF_20 * stability, margin + 1) / _UNIT)
    fewest = _least(lambda fewer: _seldom_beyond(margin, stability / ((fewer + 1) * _UNIT)), enough)
    return (fewest + 1) * _UNIT


def _seldom_beyond(value: int, scale: Fraction) -> bool:
    """Whether P(|X| > value) <= 1/10 for the discrete Laplace: 20·q^(value + 1) <= 1 + q with q = exp(-1/t).

    Bounds of growing precision decide it. Equality cannot occur: the exponentials of distinct rational numbers are
    linearly independent over the rationals (Lindemann), and for value = 0 equality would make exp(-1/t) rational.
    """
    for precision in (64 << doubling for doubling in count()):
        one = 1 << precision
        low, high = exponential(1 / scale, precision)
        power_low, power_high = exponential((value + 1) / scale, precision)
        if 2 * power_high <= BEYOND * (one + low):
            return True
        if 2 * power_low > BEYOND * (one + high):
            return False
    raise AssertionError("the precision has no end")


def _least(holds: Callable[[int], bool], enough: int = 1) -> int:
    """The least integer, 0 or more, at which a condition holds that also holds at every greater integer."""
    while not holds(enough):
        enough *= 2
    low, high = -1, enough
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
