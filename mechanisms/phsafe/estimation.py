"""Statistical post-processing of counts: an estimate and a 90% credible interval from a noisy count.

Here belongs what a measurement says about one count. Averages belong in `averages`, the distribution of a margin's
noise in `noise_sums`. Only what is published goes in: noisy counts, the noise's distribution and its variance.

**The posterior.** A true count y is a whole number and not negative. Under a flat prior on 0, 1, 2, … a noisy count m
leaves P(y | m) ∝ P(noise = m − y), which for the discrete Gaussian is exp(−(m − y)²/2σ²). Its mean, rounded, is the
estimate.

**Why the rounded mean is always inside.** The noises here and their sums are log-concave, and so is the posterior, and
so is S(i) = P(y >= i). Let b be an upper limit with s = S(b + 1) <= 1/10, and r = s / S(b). Then S(b + 1 + i) <= s·r^i
for i of either sign, and

    mean − b = Σ_{i > b} S(i) − Σ_{i <= b} (1 − S(i)) <= s / (1 − r) − Σ_{i >= 1} max(0, 1 − s·r^−i),

which grows with s. At s = 1/10 and r <= 1/10 it is at most 1/9. For greater r it is r^−J / (10·(1 − r)) − J, where J is
the number of i >= 1 with r^i >= 1/10: convex between the places r = 10^(−1/J), and there it is 1 / (1 − 10^(−1/J)) − J,
which is 1/9 for J = 1 and negative from J = 2 on, as 1 / (1 − e^−x) <= 1 + 1/x. So the mean is at most b + 1/9, by
symmetry at least a − 1/9 for a lower limit a, and rounds to a number within the limits of either kind of interval.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.phsafe.margins import Noise
from mechanisms.phsafe.noise_sums import Integers, NoiseSum

LARGEST_COUNT = 2**60
"""Noisy counts are within ± this many."""

LARGEST_VARIANCE = 1e34
"""Variances are from 0 to this."""

LEAST_VARIANCE = 1e-30
"""Noise with a smaller variance, such as one that was rounded to 0, is never other than 0."""


class Interval(StrEnum):
    """Which set of probability 0.9 is the credible interval."""

    SHORTEST = "shortest"
    """The fewest numbers with that probability, and of those the likeliest; of two equally likely ones, the higher."""
    EQUAL_TAILED = "equal_tailed"
    """At most 5% on either side. It never holds 0 unless 0 alone has 5%, and so fails where the truth is 0."""


CREDIBILITY = {Interval.SHORTEST: 0.902, Interval.EQUAL_TAILED: 0.9}
"""The posterior probability of an interval, at least.

With 0.9 exactly, the shortest interval would cover a true count of 2.66σ in 85.9% of draws. With 0.902 it is
nowhere less than 86.1%, for the margins of error of the 2020 Census.
"""


@dataclass(frozen=True)
class Estimates:
    """Estimates with their intervals, lower <= estimate <= upper, all of one shape.

    Attributes:
        estimate: the mean of what is possible: counts as int64, averages as float64 in whole hundredths.
        lower: the lower limit, of the same type.
        upper: the upper limit, of the same type.
    """

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
    """The posterior mean, rounded, and the 90% credible interval of true counts.

    Where σ is above 2^14, results are rounded to multiples of ⌈σ/2^14⌉. Noisy counts more than 37σ below 0, which no
    noise gives, are treated as if the posterior were geometric.

    Args:
        noisy: noisy counts or sums of them, int64, negative ones too, within ± `LARGEST_COUNT`.
        variance: the variance of each one's noise. Of a sum of basis cells it is the sum of their variances.
        cells: how many basis cells of equal noise each one is the sum of.
        noise: what the noise of a basis cell was drawn from.
        interval: which interval of probability 0.9.

    Returns:
        int64 arrays of the shape that the arguments broadcast to, none negative.

    Raises:
        TypeError: if noisy counts or numbers of cells are not integers.
        ValueError: if a variance or a noisy count is out of range, or a number of cells not positive.
    """
    counts, variances, summands = np.broadcast_arrays(np.asarray(noisy), np.asarray(variance, float), np.asarray(cells))
    variances = in_range(variances)
    _require(counts, summands)
    shape, counts = counts.shape, counts.ravel().astype(np.int64)
    results = np.empty((3, counts.size), dtype=np.int64)
    sums, which = np.unique(np.stack([variances.ravel(), summands.ravel()]), axis=1, return_inverse=True)
    for place, (one_variance, one_cells) in enumerate(sums.T.tolist()):
        rows = np.flatnonzero(which.ravel() == place)
        results[:, rows] = _estimate(counts[rows], NoiseSum(noise, one_variance, int(one_cells)), interval)
    estimate, lower, upper = results.reshape((3, *shape))
    return Estimates(estimate, lower, upper)


def _require(noisy: NDArray, cells: NDArray) -> None:
    if not (np.issubdtype(noisy.dtype, np.integer) and np.issubdtype(cells.dtype, np.integer)):
        raise TypeError("noisy counts and numbers of cells are integers")
    if (cells < 1).any():
        raise ValueError("a count is the sum of at least one basis cell")
    if ((noisy > LARGEST_COUNT) | (noisy < -LARGEST_COUNT)).any():
        raise ValueError(f"noisy counts are within ±{LARGEST_COUNT}")


def in_range(variance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Variances, those below `LEAST_VARIANCE` raised to it.

    Raises:
        ValueError: unless every one is from 0 to `LARGEST_VARIANCE`.
    """
    wrong = np.count_nonzero(~((variance >= 0) & (variance <= LARGEST_VARIANCE)))
    if wrong:
        raise ValueError(f"a variance is from 0 to {LARGEST_VARIANCE:g}, and {wrong} of {variance.size} are not")
    return np.maximum(variance, LEAST_VARIANCE)


def _estimate(noisy: Integers, noise: NoiseSum, interval: Interval) -> Integers:
    """Estimate, lower and upper, shape (3, rows)."""
    steps = (2 * noisy + noise.step) // (2 * noise.step)
    found = np.empty((3, len(steps)), dtype=np.int64)
    far = steps < -noise.reach
    found[:, far] = _far_below(-steps[far], noise, interval)
    found[:, ~far] = _within_table(steps[~far], noise, interval)
    return found * noise.step


def _within_table(steps: Integers, noise: NoiseSum, interval: Interval) -> Integers:
    reach, cumulative = noise.reach, noise.cumulative
    place = np.minimum(steps, reach) + reach
    possible = cumulative[place]

    def least(beyond: float) -> Integers:
        """The least y with P(true count > y) <= beyond: P(noise < m − y) is at most that part of P(noise <= m)."""
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
    # Beyond exp(-700), a double cannot tell what is left from 0.
    fall = np.minimum(noise.fall(places), 700.0)
    equal = interval is Interval.EQUAL_TAILED
    tail = (1 - CREDIBILITY[interval]) / (2 if equal else 1)
    lower = _geometric_quantile(fall, 1 - tail) if equal else np.zeros_like(places)
    return np.stack([np.rint(1 / np.expm1(fall)).astype(np.int64), lower, _geometric_quantile(fall, tail)])


def _geometric_quantile(fall: NDArray[np.float64], beyond: float) -> Integers:
    return np.ceil(-np.log(beyond) / fall).astype(np.int64) - 1
