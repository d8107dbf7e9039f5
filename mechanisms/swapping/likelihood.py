"""The likelihood ratio of a draw of permutation swapping in two worlds that differ by exchanging two records.

In a stratum of n records, a permutation that moves m of them has the probability p^m (1 − p)^(n − m) / (Z d(m)), where
d counts derangements and Z = 1 − n p (1 − p)^(n − 1), because a single selected record is never moved (Algorithm 1 of
Bailie, Gong and Meng). If two records exchange their swap values, the same output comes from a permutation that moves
other records, so the likelihood ratio depends only on the numbers of moved records. Two such data sets are at distance
2, so Theorem 1 bounds the logarithm by 2ε.

Here the attacker sees which record got which value. Tables show less, because they do not distinguish records with
equal values. So the bound also holds for tables, and their ratios do not exceed the greatest of these.
"""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.swapping.loss import derangement_number, odds

_EXACT_UP_TO = 20


def log_derangements(size: int) -> float:
    """ln d(size), for a size other than 1. Beyond 20, d(n) is n!/e as a float."""
    return math.log(derangement_number(size)) if size <= _EXACT_UP_TO else math.lgamma(size + 1) - 1


def compute_log_ratios(
    permutation: NDArray[np.int64], swap_rate: Fraction, pairs: NDArray[np.int64]
) -> NDArray[np.float64]:
    """ln of the probability of a draw over that in the world where two records have exchanged their swap values.

    Args:
        permutation: by record of a stratum, whose value it got; shape (records,).
        pairs: positions of two different records each, shape (pairs, 2).
    """
    first, second = pairs.T
    fixed = permutation == np.arange(len(permutation))
    # In the other world, the record that got the value of one got the value of the other.
    fixed_then = (permutation[first] == second).astype(np.int64) + (permutation[second] == first)
    moved = len(permutation) - int(fixed.sum())
    moved_then = moved + fixed[first].astype(np.int64) + fixed[second] - fixed_then
    numbers, place = np.unique(moved_then, return_inverse=True)
    logarithms = np.array([log_derangements(number) for number in numbers.tolist()])
    return np.asarray((moved - moved_then) * math.log(odds(swap_rate)) - log_derangements(moved) + logarithms[place])
