"""Blocks that lean on the number of their housing units, which is exact: an option of estimation with full information.

It is a model, and not a measurement: that a block has the share of its parent's persons in households that it has of
its parent's housing units, with a variance of τ² for each unit. Where blocks differ much from each other, τ² is large,
and nothing changes. Two blocks with equal numbers of units become more alike than they are. `informed` estimates the
blocks from the information that results.

τ² is not assumed but estimated from the noisy answers of all blocks of a state. With n units, z and V the linear
estimate and the variance of the persons in households of a block by its own measurements, and r persons in a unit,
(z − r n)² has the mean V + τ² n, so that

    τ² = Σ w ((z − r n)² − V) / Σ w n,    w = n / (V + 3 n)²,

and at least 1.
"""

from math import fsum

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mechanisms.topdown.decomposition import Decomposition, Floats, Information
from mechanisms.topdown.estimation import Families
from mechanisms.topdown.information import inform_finest
from mechanisms.topdown.schema import HOUSEHOLDS

LEAST = 1.0
"""The least τ²: the persons of one and the same number of units are never known better."""


def measure_spread(families: Families, units: NDArray[np.int64]) -> Floats:
    """Shape (parents, 4): the sums of w (z² − V), w n z, w n² and w n over the children of each parent, which are of
    the finest level and have so many housing units."""
    split, information = Decomposition(families.schema), inform_finest(families)
    in_households = split.groups == HOUSEHOLDS
    return _add_up(information.estimate, information.variance, in_households, units.astype(np.float64), families.starts)


def estimate_spread(sums: Floats, persons_in_a_unit: float) -> float:
    """τ², from the sums over all parents of a state, in any order."""
    squares, products, units_squared, units = map(fsum, sums.T)
    r = persons_in_a_unit
    return max(LEAST, (squares - 2 * r * products + r * r * units_squared) / units) if units else LEAST


def lean(families: Families, units: NDArray[np.int64], households: NDArray[np.int64], variance: float) -> Information:
    """The information about all children of some families, of the finest level, with the model's answer: from their
    own measurements, their housing units, shape (children,), the parents' persons in households, shape (parents,), and
    τ²."""
    split, information = Decomposition(families.schema), inform_finest(families)
    starts, of_parents = families.starts, np.add.reduceat(units, families.starts[:-1])
    rates = households / np.maximum(of_parents, 1)
    expected = np.repeat(rates, np.diff(starts)) * units
    in_households = split.groups == HOUSEHOLDS
    _lean(information.estimate, information.variance, in_households, expected, variance * units.astype(np.float64))
    return information


@njit(cache=True, nogil=True)
def _count(estimate, variance, chosen):  # type: ignore[no-untyped-def]
    """The estimated count of the chosen kept combinations in a place, and its variance."""
    count, of_count = 0.0, 0.0
    for i in range(chosen.size):
        if chosen[i]:
            for j in range(estimate.shape[1]):
                count += estimate[i, j]
            for j in range(chosen.size):
                if chosen[j]:
                    of_count += variance[0, i, j] * estimate.shape[1]
    return count, of_count


@njit(cache=True, nogil=True)
def _add_up(estimate, variance, chosen, units, starts):  # type: ignore[no-untyped-def]
    sums = np.zeros((starts.size - 1, 4))
    for parent in range(starts.size - 1):
        for place in range(starts[parent], starts[parent + 1]):
            n = units[place]
            if n > 0.0:
                count, of_count = _count(estimate[place], variance[place], chosen)
                weight = n / ((of_count + 3.0 * n) * (of_count + 3.0 * n))
                sums[parent, 0] += weight * (count * count - of_count)
                sums[parent, 1] += weight * n * count
                sums[parent, 2] += weight * n * n
                sums[parent, 3] += weight * n
    return sums


@njit(cache=True, nogil=True)
def _lean(estimate, variance, chosen, expected, variances):  # type: ignore[no-untyped-def]
    kept, summed = estimate.shape[1:]
    along = np.empty(kept)
    for place in range(expected.size):
        count, of_count = _count(estimate[place], variance[place], chosen)
        if of_count <= 0.0 or variances[place] <= 0.0:
            continue
        together = of_count + variances[place]
        for i in range(kept):
            along[i] = 0.0
            for j in range(kept):
                if chosen[j]:
                    along[i] += variance[place, 0, i, j]
        for i in range(kept):
            for j in range(summed):
                estimate[place, i, j] += along[i] * (expected[place] - count) / together
            for j in range(kept):
                variance[place, 0, i, j] -= summed * along[i] * along[j] / together
