"""Statistical post-processing of counts: an estimate and a 90% credible interval from a noisy count, the distribution
of the noise, and its variance, all of which are published.

**The posterior.** A true count y is an integer and not negative. Under a flat prior on 0, 1, 2, … the posterior given a
noisy count m is P(y | m) ∝ P(noise = m − y), which for the discrete Gaussian is exp(−(m − y)²/2σ²). Its rounded mean is
the estimate.

**Why the rounded mean is always in the interval.** The noises used here and their sums are log-concave. So are the
posterior and S(i) = P(y >= i). Let b be an upper limit with s = S(b + 1) <= 1/10, and r = s / S(b). Then
S(b + 1 + i) <= s·r^i for i of either sign, and

    mean − b = Σ_{i > b} S(i) − Σ_{i <= b} (1 − S(i)) <= s / (1 − r) − Σ_{i >= 1} max(0, 1 − s·r^−i),

which grows with s. At s = 1/10 and r <= 1/10 it is at most 1/9. For greater r it is r^−J / (10·(1 − r)) − J, where J is
the number of i >= 1 with r^i >= 1/10. This is convex between the points r = 10^(−1/J), where it is
1 / (1 − 10^(−1/J)) − J: 1/9 for J = 1, and negative for J >= 2, as 1 / (1 − e^−x) <= 1 + 1/x. So the mean is at most
b + 1/9, and by symmetry at least a − 1/9 for a lower limit a. It therefore rounds to a number within the limits of
either kind of interval.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.noise import Noise
from mechanisms.sampling.quantiles import Integers, NoiseSum

LARGEST_COUNT = 2**60

LARGEST_VARIANCE = 1e34

LEAST_VARIANCE = 1e-30
"""Noise with a smaller variance, such as one rounded to 0, is always 0."""


class Interval(StrEnum):
    """Which interval of probability 0.9 is the credible interval."""

    SHORTEST = "shortest"
    """The shortest interval with that probability. Ties go to the likeliest, and then to the higher one."""
    EQUAL_TAILED = "equal_tailed"
    """At most 5% of the probability is on either side. The interval contains 0 only if the probability of 0 is at least
    5%, so it rarely covers a true count of 0."""


CREDIBILITY = {Interval.SHORTEST: 0.902, Interval.EQUAL_TAILED: 0.9}
"""The least posterior probability of an interval. For the margins of error of the 2020 Census, coverage is then at
least 86.1%; with exactly 0.9, the shortest interval would cover a true count of 2.66σ in 85.9% of draws."""


@dataclass(frozen=True)
class Estimates:
    """Rounded posterior means with their intervals, lower <= estimate <= upper, all of one shape: counts as int64,
    averages as float64 in whole hundredths."""

    estimate: NDArray
    lower: NDArray
    upper: NDArray


def estimate_counts(
    noisy: ArrayLike,
    variance: ArrayLike,
    cells: ArrayLike = 1,
    noise: Noise = Noise.GAUSSIAN,
    interval: Interval = Interval.SHORTEST,
) -> Estimates:
    """The rounded posterior mean and the 90% credible interval of true counts.

    If σ is above 2^14, results are rounded to multiples of ⌈σ/2^14⌉. For noisy counts more than 37σ below 0, which
    practically never occur, the posterior is taken to be geometric. Raises TypeError if noisy counts or numbers of
    cells are not integers, and ValueError if a variance or a noisy count is out of range, or a number of cells is not
    positive.

    Args:
        noisy: noisy counts or sums of them, int64, possibly negative, within ±2^60.
        variance: the variance of each one's noise; for a sum of basis cells, the sum of their variances.
        cells: the number of basis cells of equal noise in each sum.
        noise: the distribution of a basis cell's noise.

    Returns:
        int64 arrays of the shape that the arguments broadcast to, none negative.
    """
    counts, variances, summands = np.broadcast_arrays(np.asarray(noisy), np.asarray(variance, float), np.asarray(cells))
    variances = require_in_range(variances)
    if not (np.issubdtype(counts.dtype, np.integer) and np.issubdtype(summands.dtype, np.integer)):
        raise TypeError("noisy counts and numbers of cells are integers")
    if (summands < 1).any():
        raise ValueError("a count is the sum of at least one basis cell")
    if ((counts > LARGEST_COUNT) | (counts < -LARGEST_COUNT)).any():
        raise ValueError(f"noisy counts are within ±{LARGEST_COUNT}")
    shape, counts = counts.shape, counts.ravel().astype(np.int64)
    results = np.empty((3, counts.size), dtype=np.int64)
    sums, which = np.unique(np.stack([variances.ravel(), summands.ravel()]), axis=1, return_inverse=True)
    for place, (one_variance, one_cells) in enumerate(sums.T.tolist()):
        rows = np.flatnonzero(which.ravel() == place)
        results[:, rows] = _estimate(counts[rows], NoiseSum(noise, one_variance, int(one_cells)), interval)
    estimate, lower, upper = results.reshape((3, *shape))
    return Estimates(estimate, lower, upper)


def require_in_range(variance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Variances from 0 to `LARGEST_VARIANCE`, or a ValueError; those below `LEAST_VARIANCE` are raised to it."""
    wrong = np.count_nonzero(~((variance >= 0) & (variance <= LARGEST_VARIANCE)))
    if wrong:
        raise ValueError(f"a variance is from 0 to {LARGEST_VARIANCE:g}, and {wrong} of {variance.size} are not")
    return np.maximum(variance, LEAST_VARIANCE)


def _estimate(noisy: Integers, noise: NoiseSum, interval: Interval) -> Integers:
    """Estimate, lower and upper, shape (3, rows)."""
    steps = (2 * noisy + noise.step) // (2 * noise.step)
    results = np.empty((3, len(steps)), dtype=np.int64)
    far = steps < -noise.reach
    results[:, far] = _far_below(-steps[far], noise, interval)
    results[:, ~far] = _within_table(steps[~far], noise, interval)
    return results * noise.step


def _within_table(steps: Integers, noise: NoiseSum, interval: Interval) -> Integers:
    reach, cumulative = noise.reach, noise.cumulative
    place = np.minimum(steps, reach) + reach
    possible = cumulative[place]

    def least(beyond: float) -> Integers:
        """The least y with P(true count > y) <= beyond, that is P(noise < m − y) <= beyond·P(noise <= m)."""
        return steps + reach - np.searchsorted(cumulative, beyond * possible, side="right")

    estimate = steps + np.rint(noise.shortfall[place] / possible).astype(np.int64)
    if interval is Interval.EQUAL_TAILED:
        tail = (1 - CREDIBILITY[interval]) / 2
        return np.stack([estimate, least(1 - tail), least(tail)])
    wanted = CREDIBILITY[interval] * possible
    half = np.searchsorted(noise.central, wanted)
    half_in_table = np.minimum(half, reach)
    one_too_many = (half > 0) & (noise.central[half_in_table] - noise.weights[half_in_table] >= wanted)
    fits = half <= steps
    lower = np.where(fits, steps - half + one_too_many, 0)
    upper = np.where(fits, steps + half, least(1 - CREDIBILITY[interval]))
    return np.stack([estimate, lower, upper])


def _far_below(places: Integers, noise: NoiseSum, interval: Interval) -> Integers:
    # Below exp(-700), a double cannot distinguish the rest from 0.
    fall = np.minimum(noise.fall(places), 700.0)
    equal = interval is Interval.EQUAL_TAILED
    tail = (1 - CREDIBILITY[interval]) / (2 if equal else 1)
    lower = _geometric_quantile(fall, 1 - tail) if equal else np.zeros_like(places)
    return np.stack([np.rint(1 / np.expm1(fall)).astype(np.int64), lower, _geometric_quantile(fall, tail)])


def _geometric_quantile(fall: NDArray[np.float64], beyond: float) -> Integers:
    return np.ceil(-np.log(beyond) / fall).astype(np.int64) - 1
