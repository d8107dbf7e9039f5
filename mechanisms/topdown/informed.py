"""The objectives of estimation with full information, and the parts of siblings' counts that are held before the cells
are estimated.

`estimation` runs the passes, `least_squares` solves them, and `information` has their input: the estimate z and the
covariance V of every child from all measurements at and below it.

The best linear estimates of a parent's children, given the parent's histogram, minimize Σ (x − z)ᵀ V⁻¹ (x − z) over the
children with this sum. The measurements of the siblings and of the places above enter only through the parent. So the
objective needs no pass downwards, and the covariance of the final linear estimates would count the information from
above twice.

Near the root, most of the 2,016 cells are empty, and non-negativity adds persons to small groups. There, two parts are
decided first, in which only few counts are near 0: the counts by group (type of group quarters), which are rounded and
held, and then within each group, the counts by the recode `Schema.combined` (races alone or combined), whose real
values are held. With M the indicators of the groups, held counts replace the mean over the summed attributes by its
conditional one, z + V M (Mᵀ V M)⁺ (held − Mᵀ z), and V by V − V M (Mᵀ V M)⁺ Mᵀ V, which removes the held directions.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mechanisms.topdown.decomposition import (
    Decomposition,
    Floats,
    Information,
    add_product,
    invert_covariance,
    list_present,
    product,
    take,
    take_all,
    to_terms,
)
from mechanisms.topdown.least_squares import Quadratic

Integers = NDArray[np.int64]


def build_cells(split: Decomposition, information: Information, support: Integers) -> Quadratic:
    """The objective over the cells of the support."""
    marginals = split.kept, split.summed
    kept, summed = (marginal.cells[support].astype(np.int64) for marginal in marginals)
    scale = information.variance.max()
    return _build(information, scale, split.divisors, split.spread, np.ones(split.summed.size), kept, summed)


def build_groups(split: Decomposition, information: Information, present: Integers) -> Quadratic:
    """The objective over the counts of the present groups."""
    together = np.zeros(split.summed.size, dtype=np.int64)
    coarse = _add_up(split, information, together, information.variance[:, 0] * split.summed.size)
    one, first = np.ones(1), np.zeros((1, 1), dtype=np.int64)
    scale = information.variance.max() * split.summed.size
    return _build(coarse, scale, one, first, one, present, np.zeros_like(present))


def build_parts(split: Decomposition, information: Information, groups: Integers, combined: Integers) -> Quadratic:
    """The objective over counts by group and by the recode `Schema.combined`, within groups whose counts are held: the
    group and the code of each.

    With w the number of codes of the attribute that are combined, the covariance of these counts within groups is that
    of the attribute's component times diag(w) − w wᵀ/n. Within sums that are held, its inverse is diag(1/w)."""
    recode = split.schema.combined
    assert recode is not None
    bit = split.names_of_summed.index(recode.attribute)
    codes = np.array(recode.codes)[split.schema.codes[recode.attribute]]
    of_summed = np.zeros(split.summed.size, dtype=np.int64)
    of_summed[split.summed.cells] = codes
    coarse = _add_up(
        split, information, of_summed, information.variance[:, 1 << bit] * split.summed.size / split.codes[bit]
    )
    weights = 1.0 / np.bincount(recode.codes)
    spread = np.arange(len(weights), dtype=np.int64)[None]
    return _build(coarse, coarse.variance.max(), np.ones(1), spread, weights, groups, combined)


def hold_groups(split: Decomposition, information: Information, counts: Integers) -> Information:
    """The information given the counts of all groups, shape (children, groups)."""
    held = Information(information.present, information.estimate.copy(), information.variance.copy())
    _hold(held.present, held.estimate, held.variance, split.groups, counts.astype(np.float64))
    return held


def _add_up(split: Decomposition, information: Information, columns: Integers, variance: Floats) -> Information:
    """The estimates by group and column; and a covariance of kept combinations, by group."""
    groups, children = split.schema.groups.size, len(information.present)
    present = np.zeros((children, groups), dtype=np.bool_)
    for row, group in enumerate(split.groups):
        present[:, group] |= information.present[:, row]
    estimate = np.zeros((children, groups, int(columns.max()) + 1))
    _add_parts(information.estimate, split.groups, columns, estimate)
    by_group = np.zeros((children, 1, groups, groups))
    _add_by_group(split.groups, variance, by_group[:, 0])
    return Information(present, estimate, by_group)


@njit(cache=True, nogil=True)
def _add_parts(estimate, groups, columns, sums):  # type: ignore[no-untyped-def]
    for place in range(estimate.shape[0]):
        for i in range(estimate.shape[1]):
            for j in range(estimate.shape[2]):
                sums[place, groups[i], columns[j]] += estimate[place, i, j]


@njit(cache=True, nogil=True)
def _add_by_group(groups, variance, sums):  # type: ignore[no-untyped-def]
    for place in range(variance.shape[0]):
        for i in range(groups.size):
            for j in range(groups.size):
                sums[place, groups[i], groups[j]] += variance[place, i, j]


@njit(cache=True, nogil=True)
def _hold(present, estimate, variance, groups, counts):  # type: ignore[no-untyped-def]
    size, summed = counts.shape[1], estimate.shape[2]
    for place in range(present.shape[0]):
        rows = list_present(present[place])
        n = rows.size
        of_rows = take(variance[place, 0], rows)
        along = np.zeros((n, size))
        between = np.zeros((1, size, size))
        lacking = counts[place] / summed
        for i in range(n):
            for j in range(n):
                along[i, groups[rows[j]]] += of_rows[i, j]
            for j in range(summed):
                lacking[groups[rows[i]]] -= estimate[place, rows[i], j] / summed
        _add_by_group(groups[rows], of_rows.reshape(1, n, n), between)
        inverse, _, _ = invert_covariance(between[0], 0.0, False)
        gain = product(along, inverse)
        for i in range(n):
            shift = 0.0
            for g in range(size):
                shift += gain[i, g] * lacking[g]
            for j in range(summed):
                estimate[place, rows[i], j] += shift
        explained = product(gain, along.T)
        for i in range(n):
            for j in range(n):
                variance[place, 0, rows[i], rows[j]] -= 0.5 * (explained[i, j] + explained[j, i])


def _build(
    information: Information,
    scale: float,
    divisors: Floats,
    spread: Integers,
    weights: Floats,
    kept: Integers,
    summed: Integers,
) -> Quadratic:
    """The objective over the cells of these combinations; the others have counts of 0. Variances that are negligible
    relative to the scale are rounding errors of variances that fixed totals reduce to 0."""
    children, cells = len(information.present), len(kept)
    terms = np.zeros(information.variance.shape)
    target, slope = np.empty((children, cells)), np.empty((children, cells))
    least, greatest = np.empty(children), np.empty(children)
    parts = information.present, information.estimate, information.variance
    constant = _fill(parts, scale, (divisors, spread, weights), (kept, summed), terms, target, slope, least, greatest)
    rows, row = np.unique(kept, return_inverse=True)
    columns = [np.unique(own[summed], return_inverse=True) for own in spread]
    return Quadratic(
        np.ascontiguousarray(terms[:, :, rows[:, None], rows]),
        row,
        np.array([number for _, number in columns], dtype=np.int64).reshape(len(spread), cells),
        weights[columns[0][0]],
        target,
        slope,
        constant,
        least * weights.min(),
        greatest * weights.max(),
    )


@njit(cache=True, nogil=True)
def _fill(information, scale, split, cells, every_term, target, slope, least, greatest):  # type: ignore[no-untyped-def]
    present, estimate, variance = information
    divisors, spread, weights = split
    kept, summed = cells
    constant = 0.0
    without = np.zeros((present.shape[0], divisors.size), dtype=np.bool_)
    least[:], greatest[:] = np.inf, 0.0
    for child in range(present.shape[0]):
        rows = list_present(present[child])
        for own in range(divisors.size):
            inverse, low, high = invert_covariance(take(variance[child, own], rows), scale, True)
            for i in range(rows.size):
                for j in range(rows.size):
                    every_term[child, own, rows[i], rows[j]] = inverse[i, j]
            least[child], greatest[child] = min(least[child], low), max(greatest[child], high)
            without[child, own] = high == 0.0
    # Where there is no choice, any curvature will do, but one far from the others would slow the descent.
    middle = np.sqrt(least.min()) * np.sqrt(greatest.max()) if greatest.max() > 0.0 else 1.0
    for child in range(present.shape[0]):
        rows = list_present(present[child])
        n = rows.size
        precision = take_all(every_term[child], rows)
        for own in range(divisors.size):
            if without[child, own]:
                least[child], greatest[child] = min(least[child], middle), max(greatest[child], middle)
                for i in range(n):
                    precision[own, i, i] = middle
        terms = to_terms(precision, divisors)
        for own in range(divisors.size):
            for i in range(n):
                for j in range(n):
                    every_term[child, own, rows[i], rows[j]] = terms[own, i, j]
        others, image = estimate[child].copy(), np.zeros_like(estimate[child])
        for k in range(kept.size):
            target[child, k] = estimate[child, kept[k], summed[k]]
            others[kept[k], summed[k]] = 0.0
        add_product(terms, rows, others, spread, image)
        for i in range(image.shape[0]):
            for j in range(image.shape[1]):
                image[i, j] *= weights[j]
                constant += others[i, j] * image[i, j]
        for k in range(kept.size):
            slope[child, k] = image[kept[k], summed[k]]
    return constant
