"""Quantiles of noise, and half-widths of intervals around noisy sums. `noise_sums` tabulates the sums."""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import count

import numpy as np

from mechanisms.noise import Noise
from mechanisms.sampling.fixed_point import exponential
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace
from mechanisms.sampling.noise_sums import NoiseSum

Uncapped = DiscreteGaussian | DiscreteLaplace

_KEPT = 4096
_PRECISION = 192
_LEAST_VARIANCE = 1e-200
"""A smaller variance may be 0 as a double. The noise differs from 0 less often than this."""


@lru_cache(maxsize=_KEPT)
def quantile(noise: Uncapped, chance: Fraction) -> int:
    """The least integer k with P(X <= k) >= a chance, decided with rigorous bounds.

    The discrete Gaussian is searched step by step from 0, which takes tenths of a second if σ² is 2^28.
    """
    if not 0 < chance < 1:
        raise ValueError("the chance of a quantile is strictly between 0 and 1")
    # Below 0, P(X <= -x) = 1 - F(x - 1), which is at least the chance as long as F(x - 1) <= 1 - chance.
    return _first(noise, chance) if chance > Fraction(1, 2) else -_first(noise, 1 - chance)


def _first(noise: Uncapped, chance: Fraction) -> int:
    """The least x >= 0 with F(x) >= a chance of at least 1/2. Bounds of growing precision decide each comparison."""
    if isinstance(noise, DiscreteLaplace):
        return _least(lambda value: _seldom_beyond(value, noise.scale, 2 * (1 - chance)))
    for precision in (_PRECISION << doubling for doubling in count()):
        wanted = chance.numerator << precision
        for value, (low, high) in enumerate(noise.cumulative(precision)):
            if low * chance.denominator >= wanted:
                return value
            if high * chance.denominator >= wanted:
                break
    raise AssertionError("the precision has no end")


def laplace_budget(sensitivity: int, margin: int, coverage: Fraction, unit: Fraction) -> Fraction:
    """The least multiple b of a unit with P(|X| <= margin) >= coverage, for X of the discrete Laplace of scale Δ/b."""
    return (1 + _least(lambda fewer: _seldom_beyond(margin, sensitivity / ((fewer + 1) * unit), 1 - coverage))) * unit


def _seldom_beyond(value: int, scale: Fraction, beyond: Fraction) -> bool:
    """Whether P(|X| > value) <= β for the discrete Laplace: 2·q^(value + 1) <= β·(1 + q) with q = exp(-1/t).

    Bounds of growing precision decide it. Equality cannot occur: the exponentials of distinct rational numbers are
    linearly independent over the rationals (Lindemann), and for value = 0 equality would make exp(-1/t) rational.
    """
    for precision in (64 << doubling for doubling in count()):
        one = 1 << precision
        low, high = exponential(1 / scale, precision)
        power_low, power_high = exponential((value + 1) / scale, precision)
        if 2 * power_high <= beyond * (one + low):
            return True
        if 2 * power_low > beyond * (one + high):
            return False
    raise AssertionError("the precision has no end")


def _least(holds: Callable[[int], bool]) -> int:
    """The least integer, 0 or more, at which a condition holds that also holds at every greater integer."""
    enough = 1
    while not holds(enough):
        enough *= 2
    low, high = -1, enough
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@lru_cache(maxsize=8)
def noise_sum(noise: Uncapped, cells: int) -> NoiseSum:
    kind = Noise.GAUSSIAN if isinstance(noise, DiscreteGaussian) else Noise.LAPLACE
    return NoiseSum(kind, max(_LEAST_VARIANCE, float(noise.exact_variance)) * cells, cells)


@lru_cache(maxsize=_KEPT)
def half_width(noise: Uncapped, cells: int, coverage: Fraction) -> int:
    """The least m with P(|X| <= m) >= a coverage, for the sum X of independent noises of some cells.

    So the interval from a noisy sum − m to the noisy sum + m contains the true sum with at least this probability.

    For one noise, rigorous bounds decide. For a sum, m follows from a table in double precision, whose probabilities
    have errors below 10^−12: the true m can differ only if P(|X| <= m) or P(|X| <= m − 1) is as near to the coverage as
    that. If σ of the sum is above 2^14, the table has steps of more than 1 but less than σ/8192, and m is a whole
    number of steps.
    """
    if not 0 < coverage < 1:
        raise ValueError("the coverage of an interval is strictly between 0 and 1")
    if cells < 1:
        raise ValueError("a sum of noises has at least one")
    if cells == 1:
        return quantile(noise, (1 + coverage) / 2)
    table = noise_sum(noise, cells)
    return int(np.searchsorted(table.central, float(coverage) * table.central[-1])) * table.step
