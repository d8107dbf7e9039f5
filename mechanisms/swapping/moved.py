"""How many records a swap is expected to move, from the swap rate and the invariants alone.

A record is *selected* if it takes part in the permutation, and *changed* if it then has other swap values than before.
Selected records exchange their values by a uniform derangement, so each receives those of another record of its
stratum, any of them with the same probability. Among n records of a stratum, n_s have the swap values s, hence:

- selected, on average: np(1 − q^(n−1)) / (1 − npq^(n−1)), with q = 1 − p, because a selection of exactly one record is
  repeated, and a stratum of one record is left alone;
- changed, on average: the same times Σ_s n_s(n − n_s) / (n(n − 1)).
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.swapping.loss import Stir


@dataclass(frozen=True)
class Moved:
    """Expected shares of all records, from 0 to 1.

    Attributes:
        changed: None if it does not follow from the invariants.
        again: the share that a second stir selects; None if there is none.
    """

    selected: float
    changed: float | None
    again: float | None = None


def moved(
    records: NDArray[np.int64], squares: NDArray[np.int64], strata: NDArray[np.int64], swap_rate: Fraction
) -> Moved:
    """The expected shares of selected and of changed records.

    Args:
        records, squares, strata: shape (kinds,), of strata of a kind: n, Σ n_s², and how many there are.
    """
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
    """The share of all records that is selected on average; from the rates and the sizes of groups alone.

    In a stratum, K records are selected independently, anew if K = 1. So the mean is
    (Σ p - P(K = 1)) / (1 - P(K = 1)), with P(K = 1) = Π (1 - p) Σ o.
    """
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
