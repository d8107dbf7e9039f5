"""Quantiles of noise and of sums of independent noises, and the margins of error of 90% that budgets give. The inputs
are the noise's distribution and variance, which are published, so any user can compute the same."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import count

import numpy as np
from numpy.typing import NDArray

from mechanisms.noise import Noise
from mechanisms.sampling.fixed_point import exponential
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace

Uncapped = DiscreteGaussian | DiscreteLaplace
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FINEST_DEVIATION = 2**14
"""The largest σ in steps of the table. Noise with a greater σ is tabulated in steps greater than 1 but below σ/8192."""

DEVIATIONS = 37
"""The reach of the table, in σ. exp(−37²/2) is near the least value that a double can hold."""

_NEARLY_CONTINUOUS = 4.0
_LEAST_WEIGHT = 1e-300
_LEAST_PARAMETER = 1e-4

_KEPT = 4096
_PRECISION = 192
_LEAST_VARIANCE = 1e-200
"""A smaller variance may be 0 as a double. The noise differs from 0 less often than this."""


@dataclass(frozen=True)
class NoiseSum:
    """The distribution of a sum of independent noises of some basis cells. The variance is that of the sum."""

    noise: Noise
    variance: float
    cells: int = 1

    @cached_property
    def step(self) -> int:
        """The size of a step of the table: 1 unless σ is above `FINEST_DEVIATION`."""
        return math.ceil(math.sqrt(self.variance) / FINEST_DEVIATION)

    @cached_property
    def weights(self) -> Floats:
        """w(0), w(1), …, proportional to the probabilities of 0, 1, … steps in either direction; all above 0.

        The sum of k discrete Gaussians of parameter s is the discrete Gaussian of parameter ks up to factors
        1 ± 2·exp(−π²s), which equal 1 in double precision if s >= 4; for smaller s the distributions are convolved. The
        sum of k discrete Laplaces is the difference of two negative binomials, with P(x) proportional to
        q^x · C(x + k − 1, k − 1) · F(k, x + k; x + 1; q²) for x >= 0, a sum of k positive terms by Pfaff's
        transformation of Gauss's F.
        """
        most = math.ceil(DEVIATIONS * math.sqrt(self.variance) / self.step) + 1
        places = np.arange(most + 1, dtype=np.float64)
        with np.errstate(under="ignore"):
            if self.noise is Noise.LAPLACE:
                weights = self._laplace(places)
            elif self.cells == 1 or self._parameter >= _NEARLY_CONTINUOUS:
                weights = np.exp(-np.square(places) / (2 * self.cells * self._parameter))
            else:
                weights = self._convolved_gaussian(most)
        return weights[weights > _LEAST_WEIGHT * weights[0]]

    @cached_property
    def reach(self) -> int:
        return len(self.weights) - 1

    @cached_property
    def cumulative(self) -> Floats:
        """Σ w(x) over x <= z, for z = −reach, …, reach: summed from the tail, so that small sums are accurate too."""
        beyond = np.cumsum(self.weights[::-1])[::-1]
        total = 2 * beyond[0] - self.weights[0]
        return np.concatenate([beyond[::-1], total - np.append(beyond[2:], 0.0)[: self.reach]])

    @cached_property
    def shortfall(self) -> Floats:
        """−Σ x·w(x) over x <= z, for z = −reach, …, reach. The values for z and −z − 1 are equal."""
        beyond = np.cumsum((np.arange(self.reach + 1) * self.weights)[::-1])[::-1]
        return np.concatenate([beyond[::-1], np.append(beyond[2:], 0.0)[: self.reach]])

    @cached_property
    def central(self) -> Floats:
        """Σ w(x) over |x| <= k, for k = 0, …, reach."""
        return 2 * np.cumsum(self.weights) - self.weights[0]

    def fall(self, places: Integers) -> Floats:
        """−log of w(x + 1) / w(x) at places beyond the table, where the weights fall almost geometrically: over the
        range of a posterior that far out, by a thousandth of its value at most."""
        if self.noise is Noise.LAPLACE:
            last = self.weights[-2:] if self.reach else np.array([1.0, _LEAST_WEIGHT])
            return np.full(places.shape, -math.log(last[1] / last[0]))
        return np.asarray((2.0 * places + 1) / (2 * self.cells * self._parameter), dtype=np.float64)

    @property
    def _one(self) -> float:
        """The variance of one summand, in steps."""
        return self.variance / self.cells / self.step**2

    @cached_property
    def _parameter(self) -> float:
        """σ² of the discrete Gaussian that has the variance of one summand. If small, that variance is less than σ²."""
        if self._one >= _NEARLY_CONTINUOUS:
            return self._one
        low, high = _LEAST_PARAMETER, 2 * _NEARLY_CONTINUOUS
        while (middle := (low + high) / 2) not in (low, high):
            low, high = (middle, high) if _gaussian_variance(middle) < self._one else (low, middle)
        return high

    def _laplace(self, places: Floats) -> Floats:
        rate = 2 * math.asinh(1 / math.sqrt(2 * self._one))
        odds = 1 / math.expm1(2 * rate) if rate < DEVIATIONS else math.exp(-2 * rate)
        binomial, term, terms = np.ones_like(places), np.ones_like(places), np.ones_like(places)
        for place in range(1, self.cells):
            binomial *= (places + place) / place
            term *= (self.cells + place - 1) * (self.cells - place) / place / (places + place) * odds
            terms += term
        return np.exp(-rate * places) * binomial * terms

    def _convolved_gaussian(self, most: int) -> Floats:
        places = np.arange(-most, most + 1, dtype=np.float64)
        one = np.exp(-np.square(places) / (2 * self._parameter))
        summed = one
        for _ in range(self.cells - 1):
            summed = np.convolve(summed, one)
        return np.asarray(summed[len(summed) // 2 :][: most + 1], dtype=np.float64)


def _gaussian_variance(parameter: float) -> float:
    places = np.arange(1, math.ceil(DEVIATIONS * math.sqrt(parameter)) + 1, dtype=np.float64)
    weights = np.exp(-np.square(places) / (2 * parameter))
    return float(2 * (np.square(places) * weights).sum() / (1 + 2 * weights.sum()))


@lru_cache(maxsize=_KEPT)
def quantile(noise: Uncapped, chance: Fraction) -> int:
    """The least integer k with P(X <= k) >= a chance, decided with rigorous bounds. The discrete Gaussian is searched
    step by step from 0, which takes tenths of a second if σ² is 2^28."""
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
    """Whether P(|X| > value) <= β for the discrete Laplace: 2·q^(value + 1) <= β·(1 + q) with q = exp(-1/t). Bounds of
    growing precision decide it. Equality cannot occur: the exponentials of distinct rational numbers are linearly
    independent over the rationals (Lindemann), and for value = 0 equality would make exp(-1/t) rational."""
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
    """The least m with P(|X| <= m) >= a coverage, for the sum X of independent noises of some cells: the interval of a
    noisy sum ± m contains the true sum with at least this probability.

    For one noise, rigorous bounds decide. For a sum, m follows from a table in double precision, whose probabilities
    have errors below 10^−12: the true m can differ only if P(|X| <= m) or P(|X| <= m − 1) is that near to the coverage.
    If σ of the sum is above 2^14, the table has steps of more than 1 but less than σ/8192, and m is a whole number of
    steps.
    """
    if not 0 < coverage < 1:
        raise ValueError("the coverage of an interval is strictly between 0 and 1")
    if cells < 1:
        raise ValueError("a sum of noises has at least one")
    if cells == 1:
        return quantile(noise, (1 + coverage) / 2)
    table = noise_sum(noise, cells)
    return int(np.searchsorted(table.central, float(coverage) * table.central[-1])) * table.step


COVERAGE = Fraction(9, 10)
"""The share of draws in which noise is within its margin of error."""

LARGEST_SEARCHED_VARIANCE = 2**28
"""Up to this σ², the search for a discrete Gaussian's exact margin takes tenths of a second."""

QUANTILE = 1.6448536269514722
"""The normal distribution's 95% quantile."""

BILLION = 10**9
"""The denominator of budgets that are rounded because an exact one could not be declared."""

MILLION = 10**6
"""The least denominator of a budget that is computed from a margin."""


def margin_of_error(noise: Uncapped) -> float:
    """The least m with P(|X| <= m) >= 0.9, exactly; for a discrete Gaussian with σ² above 2^28, 1.645σ."""
    if isinstance(noise, DiscreteGaussian) and noise.variance > LARGEST_SEARCHED_VARIANCE:
        return QUANTILE * math.sqrt(noise.variance)
    return float(half_width(noise, 1, COVERAGE))


def least_budget(
    margin_of: Callable[[Fraction], float | Fraction], wanted: Fraction, start: Fraction, unit: Fraction, most: Fraction
) -> Fraction:
    """The least multiple of a unit, as a budget, with which a margin of error, which does not grow with the budget, is
    not above the wanted one. The search begins at any budget, `start`. Raises ValueError if even the largest budget
    gives a greater margin."""

    def enough(multiple: int) -> bool:
        return margin_of(multiple * unit) <= wanted

    first = max(1, math.ceil(start / unit))
    if enough(first):
        low, high = first // 2, first
        while low and enough(low):
            low, high = low // 2, low
    else:
        low, high = first, 2 * first
        while not enough(high):
            if high * unit > most:
                raise ValueError(f"a margin of {float(wanted):g} takes a budget above {float(most):g}")
            low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high * unit


def unit_of(parts: Iterable[Fraction]) -> Fraction:
    """A unit of at most a millionth of which every part of a budget is a multiple; a billionth if it would be finer.
    With multiples of it, the sum of the parts, their shares of it, and the shares of sums of them can be declared."""
    denominator = math.lcm(MILLION, *(part.denominator for part in parts))
    return Fraction(1, denominator if denominator <= BILLION else BILLION)


def rounded_up(part: Fraction, unit: Fraction) -> Fraction:
    return math.ceil(part / unit) * unit
