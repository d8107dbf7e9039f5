"""Whether draws look like the distributions they are said to come from: a chi-square test.

Here belongs the check of draws that were made, for gates. That the samplers are exact is shown by tests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from math import log, sqrt
from operator import add

import numpy as np
from numpy.typing import NDArray

from mechanisms.sampling.discrete_gaussian import DiscreteGaussian
from mechanisms.sampling.discrete_laplace import DiscreteLaplace

FALSE_ALARM = 1e-9
"""How often noise that is as it should be raises an alarm, as far as Pearson's statistic is chi-square distributed."""

BINS = 10
FEWEST = 10
"""Draws expected in each bin, at least: bins that expect fewer are taken together with their neighbors."""

REACH = 12
"""Standard deviations that are tabulated on either side; beyond them lies less than 10^-31."""


@dataclass(frozen=True)
class Fit:
    """Pearson's statistic, with the threshold that it exceeds with no more than a stated probability.

    Attributes:
        statistic: the sum of (observed − expected)² / expected over the bins.
        threshold: k + 2√(kt) + 2t with k degrees of freedom and t = ln(1 / probability) (Laurent and Massart, 2000,
            Lemma 1).
        bins: how many there were; with fewer than two nothing is tested.
    """

    statistic: float
    threshold: float
    bins: int

    @property
    def alarm(self) -> bool:
        """Whether the draws are not what they are said to be."""
        return self.statistic > self.threshold


@dataclass(frozen=True)
class Binned:
    """Draws counted into bins: as many as there were, and as many as their distributions make expect.

    Attributes:
        observed, expected: shape (`BINS`,).
    """

    observed: NDArray[np.float64]
    expected: NDArray[np.float64]

    def __add__(self, other: "Binned") -> "Binned":
        return Binned(self.observed + other.observed, self.expected + other.expected)


def binned(values: NDArray[np.int64], distribution: DiscreteGaussian | DiscreteLaplace) -> Binned:
    """Draws counted into bins of nearly equal probability, which the distribution's quantiles cut."""
    edges, probabilities = _cut(distribution)
    observed = np.bincount(np.searchsorted(edges, values), minlength=BINS)
    return Binned(observed.astype(np.float64), len(values) * probabilities)


def misfits(draws: Mapping[str, Binned]) -> list[str]:
    """Which noises do not have their distributions, each tested by itself, and all together.

    The false-alarm rate is divided among the tests. A noise with few draws is tested with the others only.

    Args:
        draws: by name, those of one noise added up.

    Returns:
        The names of those that raise an alarm; "all together" for the test of all.
    """
    rate = FALSE_ALARM / (len(draws) + 1)
    found = [name for name, counted in draws.items() if fit([counted], rate).alarm]
    return [*found, *(["all together"] if fit(list(draws.values()), rate).alarm else [])]


def fit(draws: Sequence[Binned], false_alarm: float = FALSE_ALARM) -> Fit:
    """How well draws fit their distributions, all taken together.

    The draws in the bins of one rank are added up, and so are the exact probabilities. As the draws of several
    distributions spread less over the sums than those of one would, the false-alarm rate holds all the more.
    """
    every = reduce(add, draws, Binned(np.zeros(BINS), np.zeros(BINS)))
    observed, expected = every.observed, every.expected
    first = _first_of_bins(expected)
    if len(first) < 2:
        return Fit(0.0, 0.0, len(first))
    observed, expected = np.add.reduceat(observed, first), np.add.reduceat(expected, first)
    freedom, rarity = len(first) - 1, log(1 / false_alarm)
    return Fit(
        float(np.sum((observed - expected) ** 2 / expected)),
        freedom + 2 * sqrt(freedom * rarity) + 2 * rarity,
        len(first),
    )


def _first_of_bins(expected: NDArray[np.float64]) -> list[int]:
    """Where bins begin that expect enough draws each, when neighbors are taken together."""
    first, begun, gathered = [], 0, 0.0
    for place, more in enumerate(expected.tolist()):
        gathered += more
        if gathered >= FEWEST:
            first.append(begun)
            begun, gathered = place + 1, 0.0
    # What is left over at the end joins the last bin.
    return first


@lru_cache
def _cut(distribution: DiscreteGaussian | DiscreteLaplace) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The greatest value of every bin but the last, and the probability of each."""
    reach = int(REACH * sqrt(float(distribution.exact_variance))) + 30
    support = np.arange(-reach, reach + 1)
    cumulative = np.cumsum(distribution.probabilities(support))
    places = np.searchsorted(cumulative, np.arange(1, BINS) / BINS)
    inner = cumulative[places]
    return support[places], np.diff(np.concatenate([[0.0], inner, [1.0]]))
