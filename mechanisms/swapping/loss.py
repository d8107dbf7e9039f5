"""The protection loss of permutation swapping, and the swap rates that attain a given ε.

With one swap rate p, ε is a function of p and of b, the size of the largest stratum that holds two distinct records (0
if there is none). Source: Bailie, Gong and Meng, Theorem 1 (E.8), Equation E.5 and Theorem 3. The odds are
o = p / (1 - p); d(k) is the number of derangements of k elements. The loss of a stir whose rates vary is derived in
`docs/mechanisms/swapping-extensions.md`, after their Appendix C.2.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.losses import PureLoss

EXEMPT = Fraction(0)
"""The rate of records that are never selected."""

FINEST = 10**6
"""The denominator of the rates searched for one that attains a given ε."""

_EXACT_UP_TO = 40


def odds(swap_rate: Fraction) -> Fraction:
    """o = p / (1 - p). Raises ValueError if p is not strictly between 0 and 1, where the loss may be infinite."""
    if not 0 < swap_rate < 1:
        raise ValueError(f"the swap rate must lie strictly between 0 and 1 (at 0 and 1 ε is infinite), not {swap_rate}")
    return swap_rate / (1 - swap_rate)


def theorem_1(largest_stratum: int, swap_rate: Fraction) -> PureLoss:
    """The exact ε of Theorem 1: the greater of ln((b + 1) / o) and ln o; 0 for b = 0. Raises ValueError if b is 1 or
    negative (a stratum with two distinct records has two), or p out of range."""
    o = odds(swap_rate)
    if largest_stratum < 0 or largest_stratum == 1:
        raise ValueError(f"the largest stratum with two distinct records is 0 or at least 2, not {largest_stratum}")
    if largest_stratum == 0:
        return PureLoss()
    return PureLoss.logarithm(max((largest_stratum + 1) / o, o))


def smallest_attainable(largest_stratum: int) -> tuple[float, float]:
    """The smallest ε of Theorem 1 for a given b > 0, ln(b + 1) / 2, and the swap rate that reaches it."""
    root = math.sqrt(largest_stratum + 1)
    return math.log(largest_stratum + 1) / 2, root / (root + 1)


def evaluated(largest_stratum: int, swap_rate: Fraction) -> float:
    """ε from the ratio in the proof of Theorem 1 (E.5), without the relaxation of Lemma 6: the maximum over 2 <= Δ <= b
    and over feasible k and δ with |δ| <= Δ of (1/Δ) ln[o^δ d(k - δ) / d(k)], never above Theorem 1, and not below
    Theorem 3(C), ½ ln[d(b) / d(b - 2)] - ln o.

    Up to 40 records, every case is tried. Above that, the maximum is one of two cases. For δ = -2 at k = b - 2, it is
    the mean logarithm of the two largest factors, d(b) / d(b - 1) and d(b - 1) / d(b - 2), less ln o: a further record
    would add a smaller factor to the mean, and a single record, δ = -1, would still be divided by Δ = 2. For δ = 2 at
    k = 2, it is ln o, as d(0) = d(2) = 1.
    """
    log_odds = math.log(odds(swap_rate))
    if largest_stratum == 0:
        return 0.0
    if largest_stratum <= _EXACT_UP_TO:
        logarithms = {k: math.log(derangement_number(k)) for k in (0, *range(2, largest_stratum + 1))}
        return max(
            (delta * log_odds + logarithms[k - delta] - logarithms[k]) / max(2, abs(delta))
            for k in logarithms
            for delta in range(k - largest_stratum, k + 1)
            if k - delta != 1 and delta != 0
        )
    # d(n) / d(n - 1) is n as a float at these sizes: 1 + (-1)^n / (n d(n - 1)) is 1.
    mean = (math.log(largest_stratum) + math.log(largest_stratum - 1)) / 2
    return max(mean - log_odds, log_odds)


@cache
def derangement_number(size: int) -> int:
    return 1 if size == 0 else size * derangement_number(size - 1) + (-1) ** size


@dataclass(frozen=True)
class Stir:
    """The strata and swap rates of all groups of records.

    A *group* consists of records with the same holding values, or is a whole stratum. `stratum` and `rate_class`, of
    shape (groups,), have the number of each group's stratum, ascending from 0, and the position of its rate. Records
    with the rate `EXEMPT` are never selected, and are whole strata. Raises ValueError if a stratum has exempt records
    and others.
    """

    stratum: NDArray[np.int32]
    rate_class: NDArray[np.int32]
    rates: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        if np.any((np.diff(self.stratum) == 0) & np.diff(self.exempt)):
            raise ValueError("a stratum consists of exempt records, or of none")

    @property
    def exempt(self) -> NDArray[np.bool_]:
        return np.array([rate == EXEMPT for rate in self.rates], dtype=bool)[self.rate_class]

    def of_groups(self, groups: NDArray[Any]) -> "Stir":
        """The stir of these groups, such as the group of each cell of a contingency table."""
        return Stir(self.stratum[groups], self.rate_class[groups], self.rates)


@dataclass(frozen=True)
class StirLoss:
    """The loss of a stir, and the numbers that determine it: b, the largest stratum that counts (0 if none does), the
    number of exempt records, and the range of the rates in strata that count."""

    strata: int
    largest_stratum: int
    exempt: int
    lowest: Fraction | None
    highest: Fraction | None
    loss: PureLoss


def loss_of_stir(stir: Stir, records: NDArray[np.int64], counts: NDArray[np.bool_]) -> StirLoss:
    """The exact loss: the greatest over strata of ln((n + 1) / o_min) and ln o_max, where n is the number of records of
    the stratum, o = p / (1 - p), and o_min and o_max are over its records. `records`, of shape (groups,), are the sizes
    of groups; `counts`, of shape (strata,), says whether a stratum can hold two distinct records. Exempt strata do not
    count."""
    if not len(stir.stratum):
        return StirLoss(0, 0, 0, None, None, PureLoss())
    order = sorted(range(len(stir.rates)), key=stir.rates.__getitem__)
    ascending = [stir.rates[place] for place in order]
    ranks = np.argsort(order)[stir.rate_class]
    firsts = np.flatnonzero(np.diff(stir.stratum, prepend=-1))
    sizes = np.add.reduceat(records, firsts)
    lowest, highest = np.minimum.reduceat(ranks, firsts), np.maximum.reduceat(ranks, firsts)
    exempt = stir.exempt[firsts]
    counted = counts & ~exempt & (sizes > 1)
    kinds = np.unique(np.stack([lowest, highest, sizes], axis=1)[counted], axis=0).tolist()
    # The largest size is the last one of its rates.
    largest = {(low, high): size for low, high, size in kinds}
    arguments = [max((size + 1) / odds(ascending[low]), odds(ascending[high])) for (low, high), size in largest.items()]
    return StirLoss(
        strata=len(firsts),
        largest_stratum=int(sizes[counted].max(initial=0)),
        exempt=int(sizes[exempt].sum()),
        lowest=min((ascending[low] for low, _ in largest), default=None),
        highest=max((ascending[high] for _, high in largest), default=None),
        loss=PureLoss.logarithm(max(arguments)) if arguments else PureLoss(),
    )


def smallest_rate(size: int, epsilon: Fraction) -> Fraction:
    """The smallest swap rate, in steps of 1 / `FINEST`, at which a stratum of two records or more loses at most ε.
    Raises ValueError if no rate gives ε: the smallest possible is ½ ln(size + 1)."""
    limit = PureLoss(epsilon)

    def is_enough(steps: int) -> bool:
        return PureLoss.logarithm(max(Fraction(1), (size + 1) / odds(Fraction(steps, FINEST)))) <= limit

    rate = Fraction(1 + bisect_left(range(1, FINEST - 1), True, key=is_enough), FINEST)
    if not theorem_1(size, rate) <= limit:
        raise ValueError(
            f"no swap rate gives ε = {epsilon} in a stratum of {size:,} records; the smallest there is "
            f"{np.log(size + 1) / 2:.4f}"
        )
    return rate


def rates_of_sizes(sizes: NDArray[np.int64], epsilon: Fraction) -> tuple[NDArray[np.int32], tuple[Fraction, ...]]:
    """The smallest rate that gives ε in each stratum: its position in the rates, and the rates."""
    # A stratum of one record is never stirred, and gets the rate of a stratum of two.
    distinct, place = np.unique(np.maximum(sizes, 2), return_inverse=True)
    return place.astype(np.int32), tuple(smallest_rate(size, epsilon) for size in distinct.tolist())
