"""90% intervals: the sets in which the error of a sum of noisy counts lies with a probability of 0.9 or more.

The error's distribution follows from the declared noise alone, and so do these sets. An interval that consists of all
true values whose error is in the set covers every true value in at least 90% of draws.

**Sums of independent noises of one distribution** are whole numbers. `shortest_set` tabulates the probabilities of the
sum, by Fourier transform of a power of the characteristic function, and takes the shortest set.

**Linear combinations of noises** (`fitting`) are real. `bound` inverts their characteristic function numerically. The
noise is discrete, so the function does not fall to 0. Therefore a small random number G of at most δ = σ/100 is added
to the error E, a sum of eight uniform ones, whose characteristic function falls like t^−8. If |E + G| <= m has
probability 0.9, then |E| <= m + δ has at least that. So the bound is exact up to 2% of σ, on the safe side.

Both add 10^−7 to the probability, far more than the errors of double precision and of omitted tails.
"""

from collections.abc import Iterable
from functools import lru_cache
from math import ceil, sqrt

import numpy as np

from mechanisms.sampling.noise import CappedLaplace, DiscreteGaussian, Distribution
from mechanisms.table_builder.fitting import Floats, Term

COVERAGE = 0.9

WIDEST_TABULATED = 2**15
"""The largest standard deviation of a sum that is tabulated: a table of two million probabilities."""

REACH = 25
"""The number of standard deviations considered: a discrete Laplace is beyond them with a probability of 10^−15."""

RARE_REACH = 60
"""The same if a noise that is rarely different from 0 then is 2 standard deviations of the sum or more. Noises that are
more than `REACH` of them count as a separate risk, as they are 0 with a probability of 1 − 1/`REACH`² or more."""

_SPARE = 1e-7
_ROUND = 100
_UNIFORMS = 8
_FALLEN = 1e-16
_FREQUENCIES = 3_200
_LARGE_VARIANCE = 1


@lru_cache(maxsize=4096)
def shortest_set(noise: Distribution, cells: int) -> tuple[int, int]:
    """The ends of the shortest set of consecutive integers that has a sum of noises with a probability of 0.9 or more;
    of two, the lower. If the sum's standard deviation is above `WIDEST_TABULATED`, the set is symmetric and up to 2% of
    σ longer on either side than the shortest."""
    deviation = sqrt(cells * float(noise.exact_variance))
    if deviation > WIDEST_TABULATED:
        most = int(bound([Term(noise, 1.0, cells)]))
        return -most, most
    length = 1 << (2 * (ceil(REACH * deviation) + 40)).bit_length()
    angles = np.linspace(0.0, np.pi, length // 2 + 1)
    chances = np.fft.irfft(characteristic(noise, angles) ** cells, length)[: length // 2]
    within = 2 * np.cumsum(chances) - chances[0]
    most = int(np.searchsorted(within, COVERAGE + _SPARE))
    without_one = most > 0 and within[most] - chances[most] >= COVERAGE + _SPARE
    return -most, most - without_one


def bound(terms: Iterable[Term]) -> float:
    """A number m with P(|E| <= m) >= 0.9 for a linear combination E of independent noises; 0 if there are none."""
    parts = sorted(terms, key=_deviation, reverse=True)
    sigma = sqrt(sum(_deviation(term) ** 2 for term in parts))
    if not sigma:
        return 0.0
    steepest = max(abs(term.coefficient) for term in parts)
    reach = REACH if steepest <= 2 * sigma else RARE_REACH
    risk = sum(term.times * float(term.noise.exact_variance) for term in parts if abs(term.coefficient) > REACH * sigma)
    period, spread = 2 * reach * sigma, sigma / _ROUND
    multiples = np.arange(1, _FREQUENCIES * reach + 1)
    angles = 2 * np.pi / period * multiples
    values = np.sinc(spread / _UNIFORMS * angles / np.pi) ** _UNIFORMS
    for term in parts:
        # No factor is greater than 1, so a negligible product remains negligible.
        left = np.abs(values) > _FALLEN
        multiples, angles, values = multiples[left], angles[left], values[left]
        values = values * characteristic(term.noise, term.coefficient * angles) ** term.times
    shares = 2 * values / (np.pi * multiples)

    def covers(most: float) -> bool:
        # The Fourier series of the probability that E + G, on a circle of one period, is within ±most.
        return 2 * most / period + float((shares * np.sin(angles * most)).sum()) >= COVERAGE + risk + _SPARE

    low, high = 0.0, 4 * sigma
    while high - low > spread / _ROUND:
        middle = (low + high) / 2
        low, high = (low, middle) if covers(middle) else (middle, high)
    return high + spread


def characteristic(noise: Distribution, angles: Floats) -> Floats:
    """The characteristic function of a noise: the mean of cos(t·X) for the angles t."""
    if isinstance(noise, DiscreteGaussian):
        return _gaussian(float(noise.variance), angles)
    rate = float(1 / noise.scale)
    # (1 − q)² / (1 − 2q·cos t + q²), with 1 − cos t = 2·sin²(t/2) so that little is lost to rounding.
    steep = -np.expm1(-rate)
    if not isinstance(noise, CappedLaplace):
        return np.asarray(steep**2 / (steep**2 + 4 * np.exp(-rate) * np.sin(angles / 2) ** 2))
    # The geometric sum of u^j, j = 1 … D, with u = q·exp(it).
    turned = np.exp(-rate + 1j * angles)
    sums = turned * (1 - turned**noise.cap) / (1 - turned)
    whole = float(np.exp(-rate) * -np.expm1(-rate * noise.cap) / steep)
    return np.asarray((1 + 2 * sums.real) / (1 + 2 * whole))


def _gaussian(variance: float, angles: Floats) -> Floats:
    """For large σ² by Poisson summation, Σ exp(−σ²(t + 2πk)²/2) over its value at 0; otherwise from the definition."""
    if variance >= _LARGE_VARIANCE:
        turned = np.remainder(angles + np.pi, 2 * np.pi) - np.pi
        shifts = 2 * np.pi * np.arange(-2, 3)
        sums = sum(np.exp(-variance / 2 * (turned + shift) ** 2) for shift in shifts)
        return np.asarray(sums / np.exp(-variance / 2 * shifts**2).sum())
    # At σ² = 1 the weights beyond are below 10^−36.
    places = np.arange(1, 14)
    weights = np.exp(-(places**2) / (2 * variance))
    return np.asarray((1 + 2 * (weights * np.cos(np.multiply.outer(angles, places))).sum(-1)) / (1 + 2 * weights.sum()))


def _deviation(term: Term) -> float:
    return abs(term.coefficient) * sqrt(term.times * float(term.noise.exact_variance))
