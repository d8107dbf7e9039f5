"""The exact loss of a p-table, computed from its probabilities.

One record is in one cell of a table. Adding or removing it changes that cell from a to a ± 1; changing it moves it from
one cell to another, so one count falls by 1 and another rises by 1. For two neighbors P and Q, the hockey-stick
divergence H(P, Q, t) = Σ_b max(0, P(b) − t·Q(b)) is the greatest value of P(S) − t·Q(S) over all events S. So (ε, δ)
holds exactly if δ >= H(P, Q, e^ε) for all neighbors, in both directions.

Everything is exact for a rational t = e^ε. If ε is rational, t is rounded down to a rational number, and since H falls
in t, δ is rounded up. ε is infinite as soon as a result is possible for a count and impossible for its neighbor: if
zeros stay zero, if results are blocked, or if the change has a greatest size.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.losses import PureLoss
from mechanisms.accounting.rounding import bound_square_root
from mechanisms.sampling.fixed_point import exponential
from mechanisms.table_builder.p_table import PTable

_PRECISION = 128
"""Binary places of e^−ε where it is irrational."""
_DIGITS = 40
_NEAR = 1e-9


@dataclass(frozen=True)
class _Pair:
    """By result that is possible for a count, its probability for the count and for its neighbor."""

    points: tuple[tuple[Fraction, Fraction], ...]

    def divergence(self, ratio: Fraction) -> Fraction:
        ratios, here, there = self._above
        place = bisect_right(ratios, -ratio)
        return self._certain + here[place] - ratio * there[place]

    @property
    def greatest_ratio(self) -> Fraction | None:
        """The greatest P / Q; None if it is infinite."""
        return None if self._certain else max(here / there for here, there in self.points)

    @cached_property
    def _certain(self) -> Fraction:
        return sum((here for here, there in self.points if not there), Fraction(0))

    @cached_property
    def _above(self) -> tuple[list[Fraction], list[Fraction], list[Fraction]]:
        """Minus P / Q in ascending order, and the sums of P and of Q over the first 0, 1, 2, … results."""
        ordered = sorted((point for point in self.points if point[1]), key=lambda point: -point[0] / point[1])
        return (
            [-here / there for here, there in ordered],
            [Fraction(0), *accumulate(here for here, _ in ordered)],
            [Fraction(0), *accumulate(there for _, there in ordered)],
        )


@dataclass(frozen=True)
class Judgment:
    """The loss of a p-table at a given ε, in one table: the least δ for adding or removing one record, exact or rounded
    up in its 38th digit; and the least δ that holds with 2ε for changing one record, the hockey-stick divergence of the
    product of both cells. By basic composition, the second δ is at most twice the first."""

    epsilon: PureLoss
    delta: Fraction
    changed_exactly: Fraction


@lru_cache(maxsize=64)
def judge(table: PTable, epsilon: PureLoss) -> Judgment:
    """The loss of a p-table at a declared ε. A δ of 0 means pure ε-DP; a δ of 1 or more is no guarantee."""
    delta = curve(table, [ratio_below(epsilon)])[0]
    return Judgment(epsilon, delta, divergence_of_two_cells(table, ratio_below(epsilon.of_group(2))))


def curve(table: PTable, ratios: Iterable[Fraction]) -> list[Fraction]:
    """δ(ε) for adding or removing one record, exactly, at ratios t = e^ε of 1 or more."""
    pairs = _neighbors(table)
    return [max(pair.divergence(_require_ratio(ratio)) for pair in pairs[0] | pairs[1]) for ratio in ratios]


def smallest_epsilon(table: PTable) -> PureLoss | None:
    """The smallest ε of pure DP for adding or removing one record; None if it is infinite."""
    ratios = [pair.greatest_ratio for pairs in _neighbors(table) for pair in pairs]
    finite = [ratio for ratio in ratios if ratio is not None]
    return PureLoss.logarithm(max(finite)) if len(finite) == len(ratios) else None


def divergence_of_two_cells(table: PTable, ratio: Fraction) -> Fraction:
    """The least δ at e^ε = `ratio` for changing one record, exactly: one count falls by 1, and another rises by 1. It
    is the greatest divergence over all pairs of cells. Only pairs near the greatest in floats are computed exactly."""
    _require_ratio(ratio)
    falling, rising = map(list, _neighbors(table))
    nearly = _products_nearly(falling, rising, float(ratio))
    candidates = np.argwhere(nearly >= nearly.max() - _NEAR)
    return max(_product(falling[one], rising[other], ratio) for one, other in candidates)


def discrete_laplace_delta(variance: Fraction, ratio: Fraction) -> Fraction:
    """δ at e^ε = `ratio` of the discrete Laplace distribution with this variance, 2q / (1 − q)² with q = exp(−1/scale),
    not below it by rounding: δ = (1 − t·q) / (1 + q) for t < 1/q, and 0 otherwise."""
    least = _rate_below(variance)
    return max(Fraction(0), (1 - _require_ratio(ratio) * least) / (1 + least))


def discrete_laplace_epsilon(variance: Fraction) -> PureLoss:
    """ε = −ln q of the discrete Laplace distribution with this variance, rounded up."""
    return PureLoss.logarithm(1 / _rate_below(variance))


def ratio_below(epsilon: PureLoss) -> Fraction:
    """A rational number not above e^ε; exactly e^ε if ε is the logarithm of a rational number."""
    if epsilon.rational == 0:
        return epsilon.argument
    if epsilon.rational > 0:
        _, high = exponential(epsilon.rational, _PRECISION)
        return max(Fraction(1), epsilon.argument * Fraction(1 << _PRECISION, high))
    low, _ = exponential(-epsilon.rational, _PRECISION)
    return max(Fraction(1), epsilon.argument * Fraction(low, 1 << _PRECISION))


def neighbors(table: PTable) -> list[frozenset[tuple[tuple[Fraction, Fraction], ...]]]:
    """The probabilities of all results of two counts: every count with the next smaller one, and with the next greater
    one."""
    return [frozenset(pair.points for pair in pairs) for pairs in _neighbors(table)]


def _neighbors(table: PTable) -> tuple[frozenset[_Pair], frozenset[_Pair]]:
    """All different pairs (a, a − 1), and all pairs (a, a + 1), of which (last row, first row of the cycle) is one."""
    chances = [table.row(count).probabilities for count in range(table.last + 2)]
    falling, rising = set(), set()
    for less, more in pairwise(chances):
        # A change v of the greater count is the result of a change v + 1 of the smaller one.
        falling.add(_Pair(tuple((more[change], less.get(change + 1, Fraction(0))) for change in more)))
        rising.add(_Pair(tuple((less[change], more.get(change - 1, Fraction(0))) for change in less)))
    return frozenset(falling), frozenset(rising)


def _product(first: _Pair, second: _Pair, ratio: Fraction) -> Fraction:
    """H of two independent results: Σ P(b)·H₂(t·Q(b) / P(b))."""
    return sum((here * second.divergence(ratio * there / here) for here, there in first.points), Fraction(0))


def _products_nearly(first: Sequence[_Pair], second: Sequence[_Pair], ratio: float) -> NDArray[np.float64]:
    """The products' H in floats, shape (first, second). Their errors are far below `_NEAR`."""
    here, there = _in_floats(second)
    products = np.zeros((len(first), len(second)))
    for number, (ours, others) in enumerate(zip(*_in_floats(first), strict=True)):
        for p, q in zip(ours[ours > 0], others[ours > 0], strict=True):
            products[number] += np.maximum(0, p * here - ratio * q * there).sum(axis=1)
    return products


def _in_floats(pairs: Sequence[_Pair]) -> NDArray[np.float64]:
    """P and Q of all pairs, shape (2, pairs, points), filled up with zeros."""
    filled = np.zeros((2, len(pairs), max(len(pair.points) for pair in pairs)))
    for number, pair in enumerate(pairs):
        filled[:, number, : len(pair.points)] = np.array(pair.points, dtype=float).T
    return filled


def _rate_below(variance: Fraction) -> Fraction:
    """A rational number just below q for a variance V: q = (V + 1 − √(2V + 1)) / V."""
    return (variance + 1 - bound_square_root(2 * variance + 1, _DIGITS)) / variance


def _require_ratio(ratio: Fraction) -> Fraction:
    if ratio < 1:
        raise ValueError(f"ε is not negative, so e^ε is at least 1, not {float(ratio)}")
    return ratio
