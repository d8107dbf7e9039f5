"""The protection loss of permutation swapping.

ε is a function of the swap rate p and of b, the size of the largest stratum that holds two distinct records (0 if there
is none). Source: Bailie, Gong and Meng, Theorem 1 (E.8), Equation E.5 and Theorem 3. The odds are o = p / (1 - p);
d(k) is the number of derangements of k elements.
"""

import math
from fractions import Fraction
from functools import cache

from mechanisms.accounting.losses import PureLoss

_EXACT_UP_TO = 40


def odds(swap_rate: Fraction) -> Fraction:
    """o = p / (1 - p).

    Raises:
        ValueError: if p is not strictly between 0 and 1: if a stratum held distinct records, the loss would be
            infinite.
    """
    if not 0 < swap_rate < 1:
        raise ValueError(f"the swap rate must lie strictly between 0 and 1 (at 0 and 1 ε is infinite), not {swap_rate}")
    return swap_rate / (1 - swap_rate)


def theorem_1(largest_stratum: int, swap_rate: Fraction) -> PureLoss:
    """The exact ε of Theorem 1: the greater of ln((b + 1) / o) and ln o; 0 for b = 0.

    Args:
        largest_stratum: b; 0 or at least 2.
        swap_rate: p, strictly between 0 and 1.

    Raises:
        ValueError: if b is 1 or negative (a stratum with two distinct records has two), or p out of range.
    """
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


def swap_rates_for(epsilon: float, largest_stratum: int) -> tuple[float, float]:
    """The two swap rates at which Theorem 1 gives ε, the lower first.

    Raises:
        ValueError: if ε is below the smallest attainable for b.
    """
    smallest, _ = smallest_attainable(largest_stratum)
    if epsilon < smallest:
        raise ValueError(f"no swap rate gives ε = {epsilon} at b = {largest_stratum}: the smallest is {smallest:.4f}")
    low, high = math.log(largest_stratum + 1) - epsilon, epsilon
    return 1 / (1 + math.exp(-low)), 1 / (1 + math.exp(-high))


def evaluated(largest_stratum: int, swap_rate: Fraction) -> float:
    """ε from the ratio in the proof of Theorem 1 (E.5), without the relaxation of Lemma 6.

    The maximum over 2 <= Δ <= b and over feasible k and δ with |δ| <= Δ of (1/Δ) ln[o^δ d(k - δ) / d(k)].
    Up to 40 records, every case is tried. Above that, the maximum is one of two cases. For δ = -2 at k = b - 2, it is
    the mean logarithm of the two largest factors, d(b) / d(b - 1) and d(b - 1) / d(b - 2), less ln o: a further record
    would add a smaller factor to the mean, and a single record, δ = -1, would still be divided by Δ = 2. For δ = 2 at
    k = 2, it is ln o, as d(0) = d(2) = 1.

    Never above Theorem 1, and not below Theorem 3(C), ½ ln[d(b) / d(b - 2)] - ln o.
    """
    log_odds = math.log(odds(swap_rate))
    if largest_stratum == 0:
        return 0.0
    if largest_stratum <= _EXACT_UP_TO:
        return max(
            (delta * log_odds + _log_derangements(k - delta) - _log_derangements(k)) / max(2, abs(delta))
            for k in _feasible(largest_stratum)
            for delta in range(k - largest_stratum, k + 1)
            if k - delta != 1 and delta != 0
        )
    last, before_last = _log_ratio(largest_stratum), _log_ratio(largest_stratum - 1)
    return max((last + before_last) / 2 - log_odds, log_odds)


def _feasible(largest_stratum: int) -> list[int]:
    return [0, *range(2, largest_stratum + 1)]


@cache
def derangement_number(size: int) -> int:
    """d(size), the number of derangements of `size` elements."""
    return 1 if size == 0 else size * derangement_number(size - 1) + (-1) ** size


def _log_derangements(size: int) -> float:
    return math.log(derangement_number(size))


def _log_ratio(size: int) -> float:
    """ln[d(size) / d(size - 1)], for sizes at which 1 + (-1)^size / (size d(size - 1)) is 1 as a float."""
    return math.log(size)
