"""What an attacker concludes from counts that were changed one by one, each by a known law: the exact posterior.

The attacker knows how many persons are in a frame of a block, n, and not how many of them, m_c, are of each category.
A priori each person's category is drawn from π, independently, so that the m_c are multinomial. Each published count
y_c has a known probability given m_c. So P(m | y) is proportional to Π_c π_c^m_c / m_c! · P(y_c | m_c) on Σ m_c = n.
The products over the categories before and after c, as polynomials in n, give the distribution of each m_c.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mechanisms.risk.tiers import Counts, Shares

_NEGLIGIBLE = 1e-14
"""The probability, relative to the greatest one, of counts that are left out."""
_DEVIATIONS = 6
"""How many standard deviations above what is published or expected a count is at most taken to be."""
_NOBODY = 1e-12
"""The least number of others who are expected in a cell."""


class Law(Protocol):
    """How a published count depends on the true one."""

    def log_likelihoods(self, published: Counts | Shares, most: int) -> Shares:
        """ln P(published | m) for m = 0, …, `most`, up to a summand for each published count; shape (…, most + 1)."""

    @property
    def standard_deviation(self) -> float:
        """About how far a published count lies from the true one."""


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
    """Normal noise of a variance, also of estimates that are no integers; or of one variance for each cell."""

    variance: float | NDArray[np.float64]

    def at(self, cells: NDArray[np.int64]) -> "GaussianLaw":
        """That of some cells."""
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
    """Counts from 1 to below a threshold are not published, nor are some others; all that are published are exact.
    `suppressed` stands in place of a suppressed count, which is never published: nobody knows more than that it is not
    0."""

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


def expect_shares(law: Law, published: Counts | Shares, prior: Shares, persons: int) -> Shares:
    """E[m_c] / n, the probability of each category for one of n persons, shape (categories,).

    Args:
        published: the counts of a frame of a block by category, shape (categories,).
        prior: π, positive, shape (categories,).
        persons: n, which the attacker knows. If it contradicts what is published, the answer is the prior.
    """
    counts = np.arange(persons + 1)
    # The factor n^m is the same for all m on Σ m = n. With it, the likely sums of the factors are near n.
    logs = counts * np.log(max(1, persons) * prior)[:, None] - np.cumsum(np.log(np.maximum(counts, 1)))
    logs = logs + law.log_likelihoods(published, persons)
    tops = logs.max(axis=1, keepdims=True)
    if np.any(np.isneginf(tops)):
        return prior / prior.sum()
    factors = np.exp(logs - tops)
    # One more than the likeliest count is never left out: somebody may be missing in all that is published.
    ends = [int(max(np.flatnonzero(row > _NEGLIGIBLE)[-1], row.argmax() + 1)) + 1 for row in factors]
    parts = [row[:end] for row, end in zip(factors, ends, strict=True)]
    before, after = _multiply(parts, persons), _multiply(parts[::-1], persons)[::-1]
    expected = np.zeros(len(parts))
    for place, part in enumerate(parts):
        # The other categories have n − m persons together.
        others = _convolve(before[place], after[place + 1], persons)[persons - len(part) + 1 :][::-1]
        weights = part * others
        if not weights.sum() > 0:
            return prior / prior.sum()
        expected[place] = (weights * np.arange(len(part))).sum() / weights.sum()
    # Where hardly any noise is contradicted, all that is left may be less than a float can be.
    return expected / expected.sum() if expected.sum() > 0 else prior / prior.sum()


def expect_shares_of_pairs(likely: Shares, of_second: Shares, prior: Shares, persons: int) -> Shares:
    """As `expect_shares`, from tables that do not tell all categories apart: of n persons, a_j are of class j and not
    Hispanic, and b_j are of class j and Hispanic. Published are functions of a_j and b_j, and one of Σ b_j.

    It is exact: (persons so far, Hispanic persons so far) are the states of a sum over classes, forward and backward.

    Args:
        likely: by class, the probability of what is published of it given (a, b); shape (classes, n + 1, n + 1).
        of_second: that of what is published of all Hispanic persons given Σ b, shape (n + 1,).
        prior: π, positive, shape (2, classes).
        persons: n. If it contradicts what is published, the answer is the prior.

    Returns:
        E[a_j] / n and E[b_j] / n, shape (2, classes).
    """
    counts = np.arange(persons + 1)
    factorials = np.cumsum(np.log(np.maximum(counts, 1)))
    first, second = np.log(max(1, persons) * prior)[..., None] * counts - factorials
    logs = take_logs(likely) + first[:, :, None] + second[:, None, :]
    logs[:, counts[:, None] + counts > persons] = -np.inf
    tops = logs.max(axis=(1, 2), keepdims=True)
    if np.any(np.isneginf(tops)):
        return prior / prior.sum()
    factors = np.exp(logs - tops)
    # Somebody may be missing in all that is published, so nobody and one person are never left out.
    factors[(factors < _NEGLIGIBLE) & (counts[:, None] + counts > 1)] = 0
    parts = [[(a, b, factor[a, b]) for a, b in np.argwhere(factor).tolist()] for factor in factors]
    after = np.zeros((persons + 1, persons + 1))
    after[persons] = of_second
    backward = [after]
    for part in reversed(parts):
        summed = np.zeros_like(after)
        for a, b, weight in part:
            summed[: persons + 1 - a - b, : persons + 1 - b] += weight * backward[-1][a + b :, b:]
        backward.append(summed / max(summed.max(), np.finfo(float).tiny))
    before, expected = np.zeros_like(after), np.zeros(prior.shape)
    before[0, 0] = 1
    for place, (part, then) in enumerate(zip(parts, reversed(backward[:-1]), strict=True)):
        summed, total = np.zeros_like(before), 0.0
        for a, b, weight in part:
            start = before[: persons + 1 - a - b, : persons + 1 - b]
            chance = weight * float((start * then[a + b :, b:]).sum())
            total += chance
            expected[:, place] += a * chance, b * chance
            summed[a + b :, b:] += weight * start
        if not total > 0:
            return prior / prior.sum()
        expected[:, place] /= total
        before = summed / summed.max()
    return expected / expected.sum() if expected.sum() > 0 else prior / prior.sum()


def weigh_membership(published: Counts | Shares, variance: Shares, others: Shares) -> Shares:
    """How much likelier counts with normal noise are if somebody is in their cell than if not, where the others in it
    are a Poisson number X of a mean, `others`: P(y | X + 1) / P(y | X) = E[X | y] / E[X]. All of one shape."""
    mean = np.maximum(others, _NOBODY)
    # Where the density is greatest, x = mean · e^((y − x) / variance), so x is no more than this.
    top = np.minimum(np.maximum(published, mean), mean * np.exp(np.minimum(np.maximum(published, 0) / variance, 700)))
    spread = np.sqrt(np.minimum(variance, top + 1))
    counts = np.arange(int(np.ceil((top + _DEVIATIONS * spread).max(initial=0))) + 2)
    logs = counts * np.log(mean)[..., None] - np.cumsum(np.log(np.maximum(counts, 1)))
    logs -= (published[..., None] - counts) ** 2 / (2 * variance[..., None])
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(weights @ counts / weights.sum(axis=-1) / mean)


def _multiply(parts: list[NDArray[np.float64]], most: int) -> list[NDArray[np.float64]]:
    """The products of the first 0, 1, … parts, each shape (most + 1,) and scaled to a greatest entry of 1."""
    products = [np.eye(1, most + 1)[0]]
    for part in parts:
        products.append(_convolve(products[-1], part, most))
    return products


def _convolve(one: NDArray[np.float64], other: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    product = np.convolve(one, other)[: most + 1]
    top = product.max()
    return np.asarray(product / top if top > 0 else product)
