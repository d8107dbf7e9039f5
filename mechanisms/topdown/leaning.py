"""Places of the finest level that lean on the number of their housing units, which is exact: an option of estimation
with full information.

This is a model, not a measurement: a place's share of its parent's persons in households equals its share of its
parent's housing units, with a variance of τ² for each unit. Where places differ much from each other, τ² is large, and
the model has no effect. Two places with equal numbers of units become more alike than they are.

τ² is not assumed but estimated from the noisy answers of all places in a state. With n units, z and V the linear
estimate and the variance of the persons in households of a place by its own measurements, and r the persons in a unit
of the state, (z − r n)² has the mean V + τ² n, so that

    τ² = Σ w ((z − r n)² − V) / Σ w n,    w = n / (V + 3 n)²,

and at least 1. So τ² follows from public numbers, and is itself published.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import fsum

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mechanisms.topdown.decomposition import Decomposition, Floats
from mechanisms.topdown.design import LEAST_SPREAD, level_of_states
from mechanisms.topdown.estimation import Families
from mechanisms.topdown.information import inform_finest
from mechanisms.topdown.schema import HOUSEHOLDS


def measure_spread(families: Families, units: NDArray[np.int64]) -> Floats:
    """Shape (parents, 6): the sums of w (z² − V), w n z, w n² and w n over the children of each parent, which are of
    the finest level and have these housing units; then its persons in households, and its housing units."""
    split, information = Decomposition(families.schema), inform_finest(families)
    in_households, starts = split.groups == HOUSEHOLDS, families.starts
    sums = _add_up(information.estimate, information.variance, in_households, units.astype(np.float64), starts)
    return np.column_stack([sums, _count_households(families), np.add.reduceat(units, starts[:-1])])


def estimate_spread(sums: Floats) -> float:
    """τ², from the sums over all parents of a state, in any order."""
    squares, products, units_squared, weights, persons, units = map(fsum, sums.T)
    if not weights:
        return float(LEAST_SPREAD)
    r = persons / units
    return max(float(LEAST_SPREAD), (squares - 2 * r * products + r * r * units_squared) / weights)


def estimate_spreads(sums: Floats, levels: Sequence[str], parents: Sequence[NDArray[np.int64]]) -> Floats:
    """By parent of the finest level, from the sums of all, the τ² of its state. The parents of places are those of
    `replicates.find_starts`."""
    state = np.arange(len(sums))
    for depth in range(len(levels) - 3, levels.index(level_of_states(levels)) - 1, -1):
        state = parents[depth][state]
    return np.array([estimate_spread(sums[state == own]) for own in range(state[-1] + 1)])[state]


def lean(families: Families, units: NDArray[np.int64], spread: float | Floats) -> Families:
    """Families of the finest level whose measurements are replaced by information about the children: from the
    measurements, from the children's housing units, shape (children,), and from τ², one for all or one for each
    parent."""
    split, information, starts = Decomposition(families.schema), inform_finest(families), families.starts
    rates = _count_households(families) / np.maximum(np.add.reduceat(units, starts[:-1]), 1)
    expected, variances = (
        np.repeat(np.broadcast_to(of_parents, len(rates)), np.diff(starts)) * units for of_parents in (rates, spread)
    )
    in_households = split.groups == HOUSEHOLDS
    _lean(information.estimate, information.variance, in_households, expected, variances)
    return replace(families, measurements=(), information=information)


def _count_households(families: Families) -> NDArray[np.int64]:
    """The persons in households of each parent."""
    assert families.histograms is not None
    return families.schema.groups.answer(families.histograms)[:, HOUSEHOLDS]


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
