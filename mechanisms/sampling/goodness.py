"""A chi-square test of draws against their stated distributions, for the gates on the draws of a release."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from math import erf, exp, inf, log, sqrt
from operator import add

import numpy as np
from numpy.typing import NDArray

from mechanisms.sampling.noise import CappedLaplace, DiscreteGaussian, DiscreteLaplace, Distribution

FALSE_ALARM = 1e-9
"""The probability that correct noise raises an alarm, as far as Pearson's statistic is chi-square distributed."""

BINS = 10
FEWEST = 10
"""The least expected number of draws in a bin. Bins that expect fewer are merged with their neighbors."""

REACH = 12
"""The standard deviations that are tabulated on either side. The probability beyond them is less than 10^-31."""

WIDEST_TABULATED = 2**18
"""The largest standard deviation that is tabulated: a table of six million probabilities. Beyond it, the quantiles are
those of the continuous distribution, rounded; the probability of a bin is then exact to 1/σ², below 10^-10."""


@dataclass(frozen=True)
class Fit:
    """Pearson's statistic, with the threshold that it exceeds with no more than a stated probability: k + 2√(kt) + 2t
    with k degrees of freedom and t = ln(1 / probability) (Laurent and Massart, 2000, Lemma 1). With fewer than two
    bins, there is no test."""

    statistic: float
    threshold: float
    bins: int

    @property
    def alarm(self) -> bool:
        return self.statistic > self.threshold


@dataclass(frozen=True)
class BinCounts:
    """Observed and expected numbers of draws in bins, shape (`BINS`,), and the number of impossible draws."""

    observed: NDArray[np.float64]
    expected: NDArray[np.float64]
    impossible: int = 0

    def __add__(self, other: "BinCounts") -> "BinCounts":
        return BinCounts(
            self.observed + other.observed, self.expected + other.expected, self.impossible + other.impossible
        )


def bin_draws(values: NDArray[np.int64], distribution: Distribution) -> BinCounts:
    """Draws counted into bins of nearly equal probability. The distribution's quantiles separate the bins."""
    from mechanisms.sampling.kernels import count_by_bin

    edges, probabilities = _cut(distribution)
    observed = count_by_bin(values, edges)
    beyond = np.count_nonzero(np.abs(values) > distribution.cap) if isinstance(distribution, CappedLaplace) else 0
    return BinCounts(observed.astype(np.float64), len(values) * probabilities, int(beyond))


def bin_answers(
    noisy: NDArray[np.int32], positions: NDArray[np.int64], counts: NDArray[np.int64], distribution: DiscreteGaussian
) -> BinCounts:
    """As `bin_draws`, for the noise of answers. The exact answers are the sums of counts at these positions of `noisy`,
    and 0 at all others."""
    from mechanisms.sampling.kernels import count_differences_by_bin

    edges, probabilities = _cut(distribution)
    # Integers of one type are compared several at a time.
    own = noisy.dtype if np.array_equal(edges, edges.astype(noisy.dtype)) else edges.dtype
    # Stored counts may be read-only, a different type, for which the kernel would be compiled again.
    counts = np.require(counts, np.int64, ["C", "W"])
    observed = count_differences_by_bin(noisy.astype(own, copy=False), positions, counts, edges.astype(own))
    return BinCounts(observed.astype(np.float64), len(noisy) * probabilities)


def find_misfits(draws: Mapping[str, BinCounts]) -> list[str]:
    """The names of the noises whose draws do not fit their distributions; "all together" for the test of all draws. The
    false-alarm rate is divided among the tests. A noise with few draws is tested only with the others."""
    rate = FALSE_ALARM / (len(draws) + 1)
    alarms = [name for name, counts in draws.items() if fit([counts], rate).alarm]
    return [*alarms, "all together"] if fit(list(draws.values()), rate).alarm else alarms


def fit(draws: Sequence[BinCounts], false_alarm: float = FALSE_ALARM) -> Fit:
    """The test of draws of several distributions, all taken together. Draws in bins of the same rank are added up, and
    so are the exact probabilities. The sums vary less than if all draws came from one distribution, so the false-alarm
    rate still holds."""
    total = reduce(add, draws, BinCounts(np.zeros(BINS), np.zeros(BINS)))
    if total.impossible:
        return Fit(inf, 0.0, BINS)
    first = _first_of_bins(total.expected)
    if len(first) < 2:
        return Fit(0.0, 0.0, len(first))
    observed, expected = np.add.reduceat(total.observed, first), np.add.reduceat(total.expected, first)
    freedom, rarity = len(first) - 1, log(1 / false_alarm)
    return Fit(
        float(np.sum((observed - expected) ** 2 / expected)),
        freedom + 2 * sqrt(freedom * rarity) + 2 * rarity,
        len(first),
    )


def _first_of_bins(expected: NDArray[np.float64]) -> list[int]:
    """The first index of each merged bin, when neighbors are merged until each bin expects enough draws."""
    first, begun, gathered = [], 0, 0.0
    for place, more in enumerate(expected.tolist()):
        gathered += more
        if gathered >= FEWEST:
            first.append(begun)
            begun, gathered = place + 1, 0.0
    # The remainder at the end joins the last bin.
    return first


@lru_cache
def _cut(distribution: Distribution) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The greatest value of every bin but the last, and the probability of each."""
    ranks = np.arange(1, BINS) / BINS
    deviation = sqrt(float(distribution.exact_variance))
    if deviation > WIDEST_TABULATED and not isinstance(distribution, CappedLaplace):
        edges, inner = _cut_wide(distribution, deviation, ranks)
    else:
        reach = distribution.cap if isinstance(distribution, CappedLaplace) else int(REACH * deviation) + 30
        support = np.arange(-reach, reach + 1)
        cumulative = np.cumsum(distribution.probabilities(support))
        places = np.searchsorted(cumulative, ranks)
        edges, inner = support[places], cumulative[places]
    return edges, np.diff(np.concatenate([[0.0], inner, [1.0]]))


def _cut_wide(
    distribution: DiscreteGaussian | DiscreteLaplace, deviation: float, ranks: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Integers near the quantiles of a distribution that is too wide for a table, and P(X <= x) of each: of a discrete
    Gaussian Φ((x + 1/2) / σ) with an error below 1/σ² (the midpoint rule), of a discrete Laplace q^−x / (1 + q) for
    x < 0 and 1 − q^(x + 1) / (1 + q) otherwise."""
    if isinstance(distribution, DiscreteGaussian):
        grid = np.linspace(-4, 4, 4001)
        edges = np.rint(deviation * np.interp(ranks, _normal(grid), grid)).astype(np.int64)
        return edges, _normal((edges + 0.5) / deviation)
    scale = float(distribution.scale)
    edges = np.rint(np.sign(ranks - 0.5) * -scale * np.log(1 - 2 * np.abs(ranks - 0.5))).astype(np.int64)
    tail = np.exp(-np.where(edges < 0, -edges, edges + 1) / scale) / (1 + exp(-1 / scale))
    return edges, np.where(edges < 0, tail, 1 - tail)


def _normal(values: NDArray[np.floating]) -> NDArray[np.float64]:
    return np.array([(1 + erf(value / sqrt(2))) / 2 for value in values.tolist()])
