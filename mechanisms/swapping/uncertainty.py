"""Expectations from published numbers alone: counts before a permutation swap, with standard errors, and moved records.

A count is X = Σ f_i g_i over records i: f_i follows from the holding values of record i (1 if the record is counted, or
the number of its counted persons), and g_i is 1 if the record's swap values are counted, else 0. A swap gives record i
the swap values of record σ(i) of its stratum, so the swapped count is Y = Σ f_i g_σ(i). The sums F = Σ f_i, Σ f_i² and
G = Σ g_i follow from the invariants.

The law of σ is the same for every numbering of the records, so first and second moments of Y need only the laws of one
record and of two. With k selected records of n, and uniform derangements, whose number is d(k), these are:

- p̃ = E[k] / n, the probability that a record moves. Then E Y = c X + p̃ F G / (n - 1), with c = 1 - p̃ n / (n - 1).
- q = E[k (k - 1)] / (n (n - 1)) = p² / (1 - n p (1 - p)^(n - 1)), that two given records both move.
- r = E[k (k - 1) d(k - 2) / d(k)] / (n (n - 1)), that they exchange their values.

With f, g centered (φ_i = f_i - F / n, γ_i = g_i - G / n), the second moment is that of Σ φ_i γ_σ(i):

E[(Y - FG/n)²] = a (X - FG/n)² + b Σ φ_i² γ_i² + e Σ φ_i² Σ γ_i²,

where A = 1 - 2 p̃ + q + r, B = (p̃ - q + p̃ / (n - 1) - r) / (n - 2), C = (q - 2 p̃ / (n - 1) + r) / ((n - 2) (n - 3)),
a = A - 2 B + 2 C, b = c - A + 4 B - 6 C and e = p̃ / (n - 1) + C. Both (X - FG/n)² and Σ φ_i² γ_i² have unbiased
estimates from the swapped data, so the variance has one too. No assumption is made about the unknown composition.

This derivation is original to this project. The tests compare it with the enumeration of all outcomes of small strata.

A record is *selected* if it takes part in the permutation, and *changed* if it then has other swap values than before.
A selected record receives the values of another record of its stratum, any of them with the same probability. Among n
records of a stratum, n_s have the swap values s. On average n p̃ are selected, which is
n p (1 - (1 - p)^(n - 1)) / (1 - n p (1 - p)^(n - 1)), as a selection of exactly one record is repeated and a stratum of
one record is left alone; and the same times Σ_s n_s (n - n_s) / (n (n - 1)) are changed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mechanisms.sampling.quantiles import QUANTILE
from mechanisms.swapping.loss import Stir, derangement_number

Numbers = NDArray[Any]
"""Numbers in arrays: floats, or fractions (as objects) for exact arithmetic."""

MomentsOfStrata: TypeAlias = "np.recarray[Any, Any]"
"""A record for each stratum: `records` (n), the fields of `Moments`, `correctable` and `has_variance`."""

MOST_EXACT = 30
"""Strata of more records are computed in floats."""

LAST_TERM = 30
"""d(k - 2) k (k - 1) / d(k) differs from 1 by less than 1e-28 for greater k."""

LEAST_KEPT = 0.125
"""With a smaller |c|, the counts of a stratum are not corrected: the variance, which grows with 1 / c², would be too
large to be of use."""

MOST_FACTOR = 10
"""With a greater |1 / c² - 1 / a|, the greatest possible variance is stated: its estimate would vary too much."""


@dataclass(frozen=True)
class Moments:
    """The first and second moments of swapped counts in a stratum, as the module's docstring defines them: c,
    p̃ / (n - 1), a, b and e."""

    kept: Fraction | float
    entering: Fraction | float
    square: Fraction | float
    fourth: Fraction | float
    spread: Fraction | float

    @property
    def correctable(self) -> bool:
        return abs(float(self.kept)) >= LEAST_KEPT

    @property
    def has_variance(self) -> bool:
        if not self.correctable or self.square == 0:
            return False
        return abs(1 / float(self.kept) ** 2 - 1 / float(self.square)) <= MOST_FACTOR


def moments(size: int, swap_rate: Fraction) -> Moments:
    """The moments in a stratum: exact in strata of up to `MOST_EXACT` records, otherwise in floats. The size n is at
    least 1 (a record that is alone never moves), the swap rate p at least 0 (exempt records) and below 1."""
    one: Fraction | float = Fraction(1)
    if size < 2 or swap_rate == 0:
        return Moments(one, 0 * one, one, 0 * one, 0 * one)
    if size > MOST_EXACT:
        one = 1.0
    moves, both, exchange = laws(size, swap_rate)
    entering = moves / (size - 1)
    kept = one - moves - entering
    same = one - 2 * moves + both + exchange
    one_other = (moves - both + entering - exchange) / (size - 2) if size > 2 else 0 * one
    two_others = (both - 2 * entering + exchange) / ((size - 2) * (size - 3)) if size > 3 else 0 * one
    return Moments(
        kept,
        entering,
        same - 2 * one_other + 2 * two_others,
        kept - same + 4 * one_other - 6 * two_others,
        entering + two_others,
    )


def laws(size: int, swap_rate: Fraction) -> tuple[Fraction | float, Fraction | float, Fraction | float]:
    """p̃, q and r: the probabilities that a record moves, that two given records both move, and that they exchange
    values."""
    p: Fraction | float = swap_rate if size <= MOST_EXACT else float(swap_rate)
    stays = 1 - p
    # A selection of exactly one record is repeated.
    accepted = 1 - size * p * stays ** (size - 1)
    moves = p * (1 - stays ** (size - 1)) / accepted
    both = p * p / accepted
    # E[k (k - 1) d(k - 2) / d(k)]: the factor is 1 except for few selected records.
    factor = 1 - stays**size / accepted
    for k in range(2, min(size, LAST_TERM) + 1):
        chance = math.comb(size, k) * p**k * stays ** (size - k) / accepted
        factor += chance * (Fraction(k * (k - 1) * derangement_number(k - 2), derangement_number(k)) - 1)
    return moves, both, factor / (size * (size - 1))


def moments_of_strata(sizes: NDArray[np.int64], rates: Sequence[Fraction]) -> MomentsOfStrata:
    """The moments of strata of these sizes and swap rates, as floats."""
    kinds = list(zip(sizes.tolist(), rates, strict=True))
    known = {kind: moments(*kind) for kind in set(kinds)}
    columns = {
        "records": float,
        **{field.name: float for field in fields(Moments)},
        "correctable": bool,
        "has_variance": bool,
    }
    rows = [(size, *(getattr(known[size, rate], name) for name in list(columns)[1:])) for size, rate in kinds]
    return np.array(rows, dtype=list(columns.items())).view(np.recarray)


@dataclass(frozen=True)
class Contributions:
    """The contributions of strata to the cells of a product, each of shape (contributions,): F = Σ f_i, Σ f_i² and the
    greatest f_i, G = Σ g_i, and the swapped counts with f, which is Y, and with f squared, Σ f_i² g_σ(i)."""

    held: Numbers
    squares: Numbers
    most: Numbers
    swapped_in: Numbers
    count: Numbers
    count_of_squares: Numbers


@dataclass(frozen=True)
class Estimates:
    """Estimates of counts before the swap. Strata are swapped independently, so the estimates of a cell add up in every
    field.

    Attributes:
        estimate: unbiased, except for counts with a `greatest_bias`; it may be negative.
        variance: an unbiased estimate of the variance of `estimate`, which may be negative; or its greatest possible
            value, where counts are not corrected or the estimate would vary too much.
        greatest_bias: the greatest possible distance of the mean of `estimate` from the true count.
        fewest, most: the least and the greatest true count that the invariants allow.
    """

    estimate: Numbers
    variance: Numbers
    greatest_bias: Numbers
    fewest: Numbers
    most: Numbers


def estimates(parts: Contributions, moments: MomentsOfStrata) -> Estimates:
    """The estimates of contributions, with the moments of their strata.

    A contribution that follows from the invariants is exact: all records of the stratum have the same holding values,
    or all or none have the swap values. Where counts are not corrected, the swapped count is the estimate. Its mean is
    (1 - c) (F G / n - X) above X, of which only the range is known.
    """
    n = moments.records
    kept = np.where(moments.correctable, moments.kept, 1)
    square = np.where(moments.has_variance, moments.square, 1)
    mean_held, share = parts.held / n, parts.swapped_in / n
    independent = parts.held * share
    spread_held = parts.squares - parts.held * mean_held
    spread_swapped = parts.swapped_in - parts.swapped_in * share
    away = parts.count - independent
    centered_squares = parts.count_of_squares - mean_held * (2 * parts.count - mean_held * parts.swapped_in)
    fourth_swapped = (1 - 2 * share) * centered_squares + share * share * spread_held
    fourth = (fourth_swapped - moments.entering * spread_held * spread_swapped) / kept
    squared = (away * away - moments.fourth * fourth - moments.spread * spread_held * spread_swapped) / square
    fewest = np.maximum(parts.held - (n - parts.swapped_in) * parts.most, 0)
    most = np.minimum(parts.held, parts.swapped_in * parts.most)
    # A count between two bounds has at most a quarter of their squared distance as its variance.
    variance = np.where(moments.has_variance, away * away / (kept * kept) - squared, ((most - fewest) / kept) ** 2 / 4)
    exact = (n * parts.squares == parts.held * parts.held) | (parts.swapped_in == 0) | (parts.swapped_in == n)
    bias = abs(1 - moments.kept) * np.maximum(independent - fewest, most - independent)
    return Estimates(
        estimate=np.where(exact | ~moments.correctable, parts.count, independent + away / kept),
        variance=np.where(exact, 0, variance),
        greatest_bias=np.where(exact | moments.correctable, 0, bias),
        fewest=np.where(exact, parts.count, fewest),
        most=np.where(exact, parts.count, most),
    )


def intervals(cells: Estimates) -> tuple[Numbers, Numbers, Numbers]:
    """The standard errors of estimates of cells, and the lower and upper ends of 90% intervals of the true counts: the
    estimate ± `QUANTILE` standard errors, wider by the greatest bias on either side, and cut to the range that the
    invariants allow."""
    error = np.sqrt(np.maximum(cells.variance, 0))
    half = QUANTILE * error + cells.greatest_bias
    lower, upper = (np.clip(cells.estimate + side * half, cells.fewest, cells.most) for side in (-1, 1))
    return error, lower, upper


@dataclass(frozen=True)
class Moved:
    """Expected shares of all records, from 0 to 1: of those selected, those changed (None if it does not follow from
    the invariants) and those that a second stir selects."""

    selected: float
    changed: float | None
    again: float | None = None


def moved(
    records: NDArray[np.int64], squares: NDArray[np.int64], strata: NDArray[np.int64], swap_rate: Fraction
) -> Moved:
    """The expected shares of selected and of changed records. By kind of strata, of shape (kinds,): n, Σ n_s², and the
    number of strata."""
    rate = float(swap_rate)
    selected, changed = [], []
    for size, same, times in zip(records.tolist(), squares.tolist(), strata.tolist(), strict=True):
        if size < 2:
            continue
        others_unselected = (1 - rate) ** (size - 1)
        number = size * rate * (1 - others_unselected) / (1 - size * rate * others_unselected)
        selected.append(times * number)
        changed.append(times * number * (size * size - same) / (size * (size - 1)))
    every = int((records * strata).sum()) or 1
    return Moved(math.fsum(selected) / every, math.fsum(changed) / every)


def expected_selected(stir: Stir, records: NDArray[np.int64]) -> float:
    """The share of all records that is selected on average, from only the rates and the sizes of groups. In a stratum,
    K records are selected independently, anew if K = 1, so the mean is (Σ p - P(K = 1)) / (1 - P(K = 1)), with P(K = 1)
    = Π (1 - p) Σ o."""
    if not len(stir.stratum):
        return 0.0
    rates = np.array([float(rate) for rate in stir.rates])[stir.rate_class]
    firsts = np.flatnonzero(np.diff(stir.stratum, prepend=-1))
    sizes = np.add.reduceat(records, firsts)
    none = np.exp(np.add.reduceat(records * np.log1p(-rates), firsts))
    one = none * np.add.reduceat(records * rates / (1 - rates), firsts)
    mean = np.add.reduceat(records * rates, firsts)
    stirred = sizes > 1
    selected = (mean[stirred] - one[stirred]) / (1 - one[stirred])
    return float(selected.sum() / (records.sum() or 1))
