"""An attacker's conclusions from counts that were changed one by one, each by a known law: the exact posterior.

The attacker knows the number of persons in a frame of a block, n, but not their number in each category, m_c. A priori
each person's category is drawn from π, independently, so the m_c are multinomial. Each published count y_c has a known
probability given m_c. So P(m | y) is proportional to Π_c π_c^m_c / m_c! · P(y_c | m_c) on Σ m_c = n. The products over
the categories before and after c, as polynomials in n, give the distribution of each m_c.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mechanisms.risk.tiers import Counts, Shares

_NEGLIGIBLE = 1e-14
"""The probability, relative to the greatest one, of omitted counts."""
_DEVIATIONS = 6
"""The most standard deviations by which a count is assumed to exceed the published or the expected one."""
_NOBODY = 1e-12
"""The least number of other persons expected in a cell."""


class Law(Protocol):
    """How a published count depends on the true one."""

    def log_likelihoods(self, published: Counts | Shares, most: int) -> Shares:
        """ln P(published | m) for m = 0, …, `most`, up to a summand for each published count; shape (…, most + 1)."""

    @property
    def standard_deviation(self) -> float:
        """The approximate distance of a published count from the true one."""


def take_logs(chances: Shares) -> Shares:
    """The logarithms of probabilities, some of which are 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(chances))


@dataclass(frozen=True)
class LaplaceLaw:
    """Discrete Laplace noise of a scale: P(y | m) is proportional to e^(−|y − m| / scale)."""

    scale: float

    def log_likelihoods(self, published: Counts | Shares, most: int) -> Shares:
        return np.asarray(-np.abs(published[..., None] - np.arange(most + 1)) / self.scale)

    @property
    def standard_deviation(self) -> float:
        return float(np.sqrt(2) * self.scale)


@dataclass(frozen=True)
class GaussianLaw:
    """Normal noise of a variance, also for estimates that are not integers; or of one variance for each cell."""

    variance: float | NDArray[np.float64]

    def at(self, cells: NDArray[np.int64]) -> "GaussianLaw":
        """The law of some cells."""
        return self if isinstance(self.variance, float) else GaussianLaw(self.variance[cells])

    def log_likelihoods(self, published: Counts | Shares, most: int) -> Shares:
        variance = np.asarray(self.variance)[..., None]
        return np.asarray(-((published[..., None] - np.arange(most + 1)) ** 2) / (2 * variance))

    @property
    def standard_deviation(self) -> float:
        return float(np.sqrt(np.max(self.variance)))


@dataclass(frozen=True)
class TabulatedLaw:
    """The law of a p-table: `changes`, of shape (rows, 2D + 1), has the probabilities of the changes −D, …, D of the
    counts 0, 1, …; the last row is that of all greater counts."""

    changes: NDArray[np.float64]

    def log_likelihoods(self, published: Counts | Shares, most: int) -> Shares:
        counts, largest = np.arange(most + 1), self.changes.shape[1] // 2
        change = published[..., None] - counts
        rows = np.minimum(counts, len(self.changes) - 1)
        chances = self.changes[rows, np.clip(change + largest, 0, 2 * largest)]
        return take_logs(np.where(np.abs(change) <= largest, chances, 0.0))

    @property
    def standard_deviation(self) -> float:
        steps = np.arange(self.changes.shape[1]) - self.changes.shape[1] // 2
        return float(np.sqrt((self.changes * steps**2).sum(axis=1).max()))


@dataclass(frozen=True)
class RoundedLaw:
    """Every count is rounded to the nearest multiple of a base, halves up."""

    base: int

    def round(self, counts: Counts) -> Counts:
        return np.asarray((2 * counts + self.base) // (2 * self.base) * self.base)

    def log_likelihoods(self, published: Counts | Shares, most: int) -> Shares:
        return take_logs((self.round(np.arange(most + 1)) == published[..., None]).astype(np.float64))

    @property
    def standard_deviation(self) -> float:
        return self.base / 2


@dataclass(frozen=True)
class SuppressedLaw:
    """Counts from 1 to below a threshold are not published, nor are some others; all published counts are exact.
    `suppressed` stands for a suppressed count, of which only one thing is known: it is not 0."""

    threshold: int

    @property
    def suppressed(self) -> int:
        return self.threshold // 2

    def log_likelihoods(self, published: Counts | Shares, most: int) -> Shares:
        counts, shown = np.arange(most + 1), published[..., None]
        return take_logs(np.where(shown == self.suppressed, counts > 0, counts == shown).astype(np.float64))

    @property
    def standard_deviation(self) -> float:
        """0: a published count is exact, and a suppressed one is not 0."""
        return 0.0


def expect_shares(law: Law, published: Counts | Shares, prior: Shares, persons: Counts) -> Shares:
    """E[m_c] / n, the probability of each category for one of n persons, shape (frames, categories).

    Args:
        published: the counts of frames of blocks by category, shape (frames, categories).
        prior: π, positive, of the same shape.
        persons: n of each frame, shape (frames,), which the attacker knows. If it contradicts the published counts, the
            answer is the prior.
    """
    counts = np.arange(int(persons.max(initial=0)) + 1)
    # The factor n^m is the same for all m on Σ m = n. With it, the likely sums of the factors are near n.
    logs = counts * np.log(np.maximum(1, persons[:, None]) * prior)[..., None] - _sum_logs(counts)
    logs = np.where(counts <= persons[:, None, None], logs + law.log_likelihoods(published, int(counts[-1])), -np.inf)
    factors = _scale(logs, (2,))
    # One more than the likeliest count is always kept: a person may be missing from all published counts.
    last = np.where(factors > _NEGLIGIBLE, counts, 0).max(axis=2)
    factors[counts > np.maximum(last, factors.argmax(axis=2) + 1)[..., None]] = 0
    lengths = [int(each.any(axis=0).nonzero()[0].max(initial=-1)) + 1 for each in np.moveaxis(factors, 1, 0)]
    # The weight that the categories after each one leave to the others, by the number of persons in the categories
    # before it.
    after = [(counts == persons[:, None]).astype(np.float64)]
    for place in reversed(range(len(lengths))):
        summed = np.zeros_like(after[-1])
        for number in range(lengths[place]):
            summed[:, : len(counts) - number] += factors[:, place, number, None] * after[-1][:, number:]
        after.append(_rescale(summed))
    before, expected = (counts == 0) * np.ones_like(after[0]), np.zeros(prior.shape)
    for place, then in enumerate(reversed(after[:-1])):
        summed, total = np.zeros_like(before), np.zeros(len(persons))
        for number in range(lengths[place]):
            weight, start = factors[:, place, number], before[:, : len(counts) - number]
            # In sequence, so that larger frames in the same call do not change a frame's last digit.
            chance = weight * np.cumsum(start * then[:, number:], axis=1)[:, -1]
            total += chance
            expected[:, place] += number * chance
            summed[:, number:] += weight[:, None] * start
        expected[:, place] /= np.where(total > 0, total, np.nan)
        before = _rescale(np.where(counts <= persons[:, None], summed, 0))
    return _normalize(expected, prior)


def expect_shares_of_pairs(likely: Shares, of_second: Shares, prior: Shares, persons: int) -> Shares:
    """As `expect_shares`, for frames of equally many persons, from tables that do not distinguish all categories: of n
    persons, a_j are of class j and not Hispanic, and b_j are of class j and Hispanic. The published numbers are
    functions of a_j and b_j, and one of Σ b_j.

    It is exact: (persons so far, Hispanic persons so far) are the states of a sum over classes, forward and backward.

    Args:
        likely: by class, the probability of its published numbers given (a, b); shape (frames, classes, n + 1, n + 1).
        of_second: the probability of the published numbers of all Hispanic persons given Σ b, shape (frames, n + 1).
        prior: π, positive, shape (frames, 2, classes).
        persons: n. If it contradicts the published numbers, the answer is the prior.

    Returns:
        E[a_j] / n and E[b_j] / n, shape (frames, 2, classes).
    """
    counts = np.arange(persons + 1)
    of_counts = np.log(max(1, persons) * prior)[..., None] * counts - _sum_logs(counts)
    logs = take_logs(likely) + of_counts[:, 0, :, :, None] + of_counts[:, 1, :, None, :]
    logs[..., counts[:, None] + counts > persons] = -np.inf
    factors = _scale(logs, (2, 3))
    # A person may be missing from all published numbers, so the counts 0 and 1 are always kept.
    factors[(factors < _NEGLIGIBLE) & (counts[:, None] + counts > 1)] = 0
    pairs = [np.argwhere(of_class.any(axis=0)).tolist() for of_class in np.moveaxis(factors, 1, 0)]
    after = [np.zeros((len(likely), persons + 1, persons + 1))]
    after[0][:, persons] = of_second
    for place in reversed(range(len(pairs))):
        summed = np.zeros_like(after[0])
        for a, b in pairs[place]:
            weight = factors[:, place, a, b, None, None]
            summed[:, : persons + 1 - a - b, : persons + 1 - b] += weight * after[-1][:, a + b :, b:]
        after.append(_rescale(summed))
    before, expected = np.zeros_like(after[0]), np.zeros(prior.shape)
    before[:, 0, 0] = 1
    for place, then in enumerate(reversed(after[:-1])):
        summed, total = np.zeros_like(before), np.zeros(len(likely))
        for a, b in pairs[place]:
            weight, start = factors[:, place, a, b], before[:, : persons + 1 - a - b, : persons + 1 - b]
            chance = weight * (start * then[:, a + b :, b:]).sum(axis=(1, 2))
            total += chance
            expected[:, 0, place] += a * chance
            expected[:, 1, place] += b * chance
            summed[:, a + b :, b:] += weight[:, None, None] * start
        expected[:, :, place] /= np.where(total > 0, total, np.nan)[:, None]
        before = _rescale(summed)
    return _normalize(expected, prior)


def _sum_logs(counts: Counts) -> Shares:
    """ln m! of 0, 1, …"""
    return np.asarray(np.cumsum(np.log(np.maximum(counts, 1))))


def _scale(logs: Shares, axes: tuple[int, ...]) -> Shares:
    """Probabilities from their logarithms, relative to the greatest along some axes; all are 0 if the greatest is."""
    tops = logs.max(axis=axes, keepdims=True)
    return np.asarray(np.exp(logs - np.where(np.isneginf(tops), 0, tops)))


def _rescale(products: Shares) -> Shares:
    """The products of each frame, relative to the greatest."""
    tops = products.max(axis=tuple(range(1, products.ndim)), keepdims=True)
    return np.asarray(products / np.maximum(tops, np.finfo(float).tiny))


def _normalize(expected: Shares, prior: Shares) -> Shares:
    """The shares of each frame; those of the prior where the published numbers are impossible. Where noise of a small
    variance is contradicted, all probabilities may be below the least float."""
    axes = tuple(range(1, prior.ndim))
    sums = expected.sum(axis=axes, keepdims=True)
    return np.asarray(
        np.where(sums > 0, expected / np.where(sums > 0, sums, 1), prior / prior.sum(axis=axes, keepdims=True))
    )


def weigh_membership(published: Counts | Shares, variance: Shares, others: Shares) -> Shares:
    """The likelihood ratio of counts with normal noise if a person is in their cell, against if not, where the others
    in it are a Poisson number X with the mean `others`: P(y | X + 1) / P(y | X) = E[X | y] / E[X]. All of one shape."""
    mean = np.maximum(others, _NOBODY)
    # Where the density is greatest, x = mean · e^((y − x) / variance), so x is no more than this.
    top = np.minimum(np.maximum(published, mean), mean * np.exp(np.minimum(np.maximum(published, 0) / variance, 700)))
    spread = np.sqrt(np.minimum(variance, top + 1))
    counts = np.arange(int(np.ceil((top + _DEVIATIONS * spread).max(initial=0))) + 2)
    logs = counts * np.log(mean)[..., None] - np.cumsum(np.log(np.maximum(counts, 1)))
    logs -= (published[..., None] - counts) ** 2 / (2 * variance[..., None])
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(weights @ counts / weights.sum(axis=-1) / mean)
