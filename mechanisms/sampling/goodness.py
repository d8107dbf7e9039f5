"""Whether draws look like the distributions they are said to come from: a chi-square test.

Here belongs the check of draws that were made, for gates. That the samplers are exact is shown by tests.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from mechanisms.sampling.discrete_gaussian import DiscreteGaussian
from mechanisms.sampling.discrete_laplace import DiscreteLaplace

FALSE_ALARM = 1e-9
"""How often draws as they should be raise an alarm, as far as Pearson's statistic is chi-square distributed."""

BINS = 10
FEWEST = 10
"""Draws expected in each bin, at least: with fewer there are fewer bins."""

REACH = 12
"""Standard deviations that are tabulated on either side; beyond them lies less than 10^-31."""


@dataclass(frozen=True)
class Fit:
    """Pearson's statistic, with the threshold that it exceeds with probability `FALSE_ALARM` at most.

    Attributes:
        statistic: the sum of (observed − expected)² / expected over the bins.
        threshold: k + 2√(kt) + 2t with k degrees of freedom and t = ln(1 / FALSE_ALARM) (Laurent and Massart, 2000,
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


def fit(draws: Sequence[tuple[NDArray[np.int64], DiscreteGaussian | DiscreteLaplace]]) -> Fit:
    """How well draws fit their distributions, all taken together.

    Each distribution is cut at its own quantiles into as many bins of nearly equal probability; the draws in the bins
    of one rank are added up, and so are the exact probabilities. As the draws of several distributions spread less
    over the sums than those of one would, the false-alarm rate holds all the more.

    Args:
        draws: integers, and the distribution that they are said to come from.
    """
    total = sum(len(values) for values, _ in draws)
    bins = min(BINS, total // FEWEST)
    if bins < 2:
        return Fit(0.0, 0.0, bins)
    observed, expected = np.zeros(bins), np.zeros(bins)
    for values, distribution in draws:
        edges, probabilities = _cut(distribution, bins)
        observed += np.bincount(np.searchsorted(edges, values), minlength=bins)
        expected += len(values) * probabilities
    kept = expected > 0
    freedom, rarity = int(kept.sum()) - 1, log(1 / FALSE_ALARM)
    statistic = float(np.sum((observed[kept] - expected[kept]) ** 2 / expected[kept]))
    outside = float(observed[~kept].sum())
    return Fit(
        float("inf") if outside else statistic, freedom + 2 * sqrt(freedom * rarity) + 2 * rarity, int(kept.sum())
    )


def _cut(distribution: DiscreteGaussian | DiscreteLaplace, bins: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The greatest value of every bin but the last, and the probability of each."""
    reach = int(REACH * sqrt(float(distribution.exact_variance))) + 30
    support = np.arange(-reach, reach + 1)
    cumulative = np.cumsum(distribution.probabilities(support))
    places = np.searchsorted(cumulative, np.arange(1, bins) / bins)
    inner = cumulative[places]
    return support[places], np.diff(np.concatenate([[0.0], inner, [1.0]]))
