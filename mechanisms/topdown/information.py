"""What all measurements at and below a place say about it: the upward pass of estimation with full information, and the
linear estimates of all places, with their variances.

`estimation` uses the information for the histograms; `decomposition` has the arithmetic. Everything works on a few
parents with all their children at a time, and nothing depends on how many those are: answers are added up as integers,
and all else follows the order of places.

Upwards. Every place u has the best linear unbiased estimate z of its histogram from what was measured at and below it,
with the covariance V. In the finest places, V is the inverse of K = QᵀΣ⁻¹Q and z = V b, where b has the answers, each
weighted by 1/σ² and added to all cells that it counts. V depends only on which combinations a place can have, so the
answers of all children that can have the same are added up first. Above, with the children's sums C = Σ V' and
s = Σ z',

    V = (I + C K)⁻¹ C,    z = (I + C K)⁻¹ (C b + s),

which needs no inverse of C: that is singular where totals are fixed below. A fixed total N of a place is used for the
level above: with v = V 1, z' = z + v (N − 1ᵀz)/(1ᵀv) and V' = V − v vᵀ/(1ᵀv). Elsewhere, z' = z and V' = V.

Downwards. With the estimate x and the covariance W of the parent, those of a child are

    x = z' + V' C⁺ (x_parent − s),    W = V' − V' C⁺ (C − W_parent) C⁺ V',

from the z' and the V' of the root. These linear estimates know no bounds and may be negative, but their variances are
exact, and they are unbiased.

Unions. The error of a child is V' C⁺ times that of its parent, plus one that is independent of it and whose covariance
with a sibling's is −V' C⁺ V'_sibling. So the variance of Σ w·x over any places follows from one pass upwards: with
u = Σ V' w over a parent's children, it grows by Σ wᵀ V' w − uᵀ C⁺ u, and C⁺ u is added to the parent's own w.

Sources: Hay, Rastogi, Miklau and Suciu (2010); Cumings-Menon and Zhuravlev (2026); Ghazi, Kamath, Kumar, Manurangsi and
Sealfon (2026).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mechanisms.topdown.decomposition import (
    Decomposition,
    Floats,
    Information,
    add_product,
    invert,
    invert_covariance,
    list_present,
    product,
    take,
    take_all,
    to_terms,
)
from mechanisms.topdown.estimation import Families, Measurement
from mechanisms.topdown.feasibility import FREE, Limits
from mechanisms.topdown.schema import Schema

QUANTILE = 1.645
"""The standard errors between an estimate and the ends of its 90% interval."""

_EXACT = 1e-6
"""The part of a person by which rounding errors may move an end, which is an integer where a total is fixed."""

_LOOK_BACK = 16
"""The places before one that are compared with it."""

_CERTAIN = 0.01
"""Below it, a margin consists of rounding errors, or of noise that moves no count."""


class Kinds(NamedTuple):
    """The children of some families, of the finest level, by kind: of one parent, able to have the same, with a fixed
    total or without. The kind of each child, and by kind, in order of parents, its parent and one of its children."""

    of_child: NDArray[np.int64]
    parents: NDArray[np.int64]
    firsts: NDArray[np.int64]


def list_kinds(schema: Schema, starts: NDArray[np.int64], limits: Limits) -> Kinds:
    """The kinds of all children of the parents, whose children begin at `starts`, as of `Families`."""
    parents = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    present = Decomposition(schema).find_present(limits.upper)
    columns = np.column_stack([parents[:, None], limits.totals != FREE, present])
    order = np.lexsort(columns.T[::-1])
    begins = (np.diff(columns[order], axis=0, prepend=-1) != 0).any(axis=1)
    of_child = np.empty(len(parents), dtype=np.int64)
    of_child[order] = np.cumsum(begins) - 1
    return Kinds(of_child, parents[order[begins]], order[begins])


@dataclass(frozen=True)
class MeasuredKinds:
    """Measurements of the children of some families, of the finest level, added up by kind: the kinds' parents,
    numbered from the first, and the answers' sums, shape (kinds, marginal cells)."""

    parents: NDArray[np.int64]
    measurements: tuple[Measurement, ...]

    def between(self, begin: int, end: int) -> "MeasuredKinds":
        """Of the parents from `begin` up to `end`."""
        own = slice(*np.searchsorted(self.parents, [begin, end]))
        measurements = tuple(replace(each, answers=each.answers[own]) for each in self.measurements)
        return MeasuredKinds(self.parents[own] - begin, measurements)


def add_up_kinds(
    kinds: NDArray[np.int64], answers: NDArray[np.signedinteger], sums: NDArray[np.int64], column: int = 0
) -> None:
    """Add the answers of children of these kinds, shape (children, marginal cells), to the kinds' sums, shape (kinds,
    columns), from a column on."""
    _add_rows(kinds, np.ascontiguousarray(answers), sums, column)


def inform(
    below: Families,
    information: Information | None,
    measurements: Sequence[Measurement],
    kinds: MeasuredKinds | None = None,
) -> Information:
    """The information about some parents, from their own measurements, shape (parents, marginal cells), and from that
    about all their children; or if these are of the finest level, from the children's measurements, added up by kind
    before or here. Of the families, only the limits count otherwise; measurements include `detailed`, unless nothing
    was measured for the parents."""
    split, starts = Decomposition(below.schema), below.starts
    fixed = _to_totals(below.limits.totals)
    if information is None:
        children, of_parent = _inform_kinds(split, below, kinds)
        variance, estimate = _sum_kinds(children, *of_parent, len(starts) - 1)
        present = np.logical_or.reduceat(split.find_present(below.limits.upper), starts[:-1], axis=0)
    else:
        variance, estimate = _sum_all_children(fix_totals(information, fixed), starts)
        present = np.logical_or.reduceat(information.present, starts[:-1], axis=0)
    precision = split.add_precisions((each.query, each.precision) for each in measurements)
    own = 0.0 * estimate
    if measurements:
        own = _weigh(split, measurements, present)
    _combine(precision, own, present, split.divisors, split.spread, estimate, variance)
    return Information(present, estimate, variance)


def inform_finest(families: Families) -> Information:
    """The information about the children of some families, of the finest level, one by one: from their own
    measurements alone."""
    split = Decomposition(families.schema)
    present = split.find_present(families.limits.upper)
    return _inform_alone(split, families.measurements, present)


def fix_totals(information: Information, totals: Floats) -> Information:
    """The estimates z' and the covariances V' of places with fixed totals, shape (places,); NaN where one is free."""
    estimate, variance = information.estimate.copy(), information.variance.copy()
    _fix_totals(estimate, variance, totals)
    return Information(information.present, estimate, variance)


def finish_root(information: Information, families: Families) -> Information:
    """The linear estimate of the root, the only child of its family."""
    return fix_totals(information, _to_totals(families.limits.totals))


def descend(above: Information, families: Families, information: Information) -> Information:
    """The linear estimates, with their covariances, of all children of some families, from the parents' and from the
    information about the children; `inform_finest` has that of the finest level."""
    split, starts = Decomposition(families.schema), families.starts
    primed = fix_totals(information, _to_totals(families.limits.totals))
    of_above = above.present, above.estimate, above.variance
    of_children = primed.present, primed.estimate, primed.variance
    _descend(of_above, _sum_all_children(primed, starts), starts, split.divisors, split.spread, of_children)
    return primed


class CellSums(NamedTuple):
    """Sums of cells, such as those of a table. Atoms are cells that are always counted together: the atom of each cell,
    the atoms in a sum, one sum after the other, where those of each sum begin, and by sum and set S, the matrix
    g P_S gᵀ of its mask g."""

    of_cell: NDArray[np.int64]
    contained: NDArray[np.int64]
    begins: NDArray[np.int64]
    squares: Floats


def sum_cells(sums: CellSums, information: Information) -> tuple[Floats, Floats]:
    """The linear estimates of sums of cells and their variances, both of the shape (places, sums)."""
    order = np.argsort(_number_patterns(information.present)[1], kind="stable")
    return _sum_cells(information.present, order, information.estimate, information.variance, *sums)


def prepare_sums(split: Decomposition, counted: NDArray[np.bool_]) -> CellSums:
    """`counted` has the shape (sums, cells)."""
    # As bytes, eight sums at a time, columns have the same order.
    _, firsts, of_cell = np.unique(np.packbits(counted, axis=0), axis=1, return_index=True, return_inverse=True)
    atoms = counted[:, firsts]
    of_place = np.empty((split.kept.size, split.summed.size), dtype=np.int64)
    of_place[split.kept.cells, split.summed.cells] = of_cell.ravel()
    begins = np.append(0, np.cumsum(atoms.sum(axis=1)))
    contained = np.ascontiguousarray(np.nonzero(atoms)[1])
    return CellSums(of_place, contained, begins, _multiply_masks(split, counted, counted, "sam,sbm->sab"))


def covary_sums(
    split: Decomposition, counted: NDArray[np.bool_], others: NDArray[np.bool_], information: Information
) -> Floats:
    """The covariances of sums of cells with others, shape (places, sums, others); both as of `prepare_sums`."""
    products = _multiply_masks(split, counted, others, "sam,tbm->stab")
    of_variances = np.ascontiguousarray(products.reshape(len(counted) * len(others), -1).T)
    covariance = product(information.variance.reshape(len(information.variance), -1), of_variances)
    return covariance.reshape(-1, len(counted), len(others))


def _multiply_masks(split: Decomposition, counted: NDArray[np.bool_], others: NDArray[np.bool_], pairs: str) -> Floats:
    """By `pairs` of sums with the masks g and h, in the notation of einsum, and by set S, the matrix g P_S hᵀ."""
    size = split.kept.size, split.summed.size
    products = []
    for own, columns in enumerate(split.spread):
        by_column = []
        for each in (counted, others):
            masks = np.zeros((len(each), *size), dtype=np.int64)
            masks[:, split.kept.cells, split.summed.cells] = each
            sums = np.zeros((len(each), size[0], columns.max() + 1), dtype=np.int64)
            for column, of_column in enumerate(columns):
                sums[:, :, of_column] += masks[:, :, column]
            by_column.append(sums)
        products.append(np.einsum(pairs, *by_column) / split.divisors[own])
    # The projector of S is the sum over the sets W within S of (−1)^|W| J/n over W and all that are not in S.
    sets = len(products)
    squares = np.zeros((*products[0].shape[:-2], sets, size[0], size[0]))
    for own in range(sets):
        for within in range(sets):
            if within & own == within:
                squares[..., own, :, :] += (-1) ** within.bit_count() * products[sets - 1 ^ own | within]
    return squares


def round_intervals(estimate: Floats, variance: Floats, most: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The ends of the 90% intervals of counts: the integers within 1.645 standard errors of the linear estimate, cut at
    0 and at `most`, the upper end of the place above; or if there are none, the nearest integer that is not cut off.
    Counts that follow from invariants, and have no error, are not cut at an end above that misses the truth."""
    ends = np.empty((2, estimate.size), dtype=np.int64)
    estimates, variances, above = (
        np.require(each, np.float64, ["C", "W"]).ravel() for each in (estimate, variance, most)
    )
    _round_intervals(estimates, variances, above, ends)
    lower, upper = ends.reshape(2, *estimate.shape)
    return lower, upper


def unite(
    families: Sequence[Families], informed: Sequence[Information | None], chosen: Sequence[NDArray[np.int64]]
) -> Information:
    """Places of any levels, none within another, as a single place. `families` are those of each level from the root's,
    `informed` the information about the level, None for the finest, and `chosen` the positions of places in it."""
    root = finish_root(informed[0] or inform_finest(families[0]), families[0])
    estimate, variance = np.zeros_like(root.estimate[0]), np.zeros_like(root.variance[0])
    one = np.broadcast_to(np.eye(variance.shape[1]), variance.shape)
    weights = dict[int, Floats]()
    for own, information, places in zip(families[:0:-1], informed[:0:-1], chosen[:0:-1], strict=True):
        below, weights = weights | dict.fromkeys(places.tolist(), one), {}
        for parent, children in groupby(sorted(below), partial(_find_parent, own.starts)):
            first, last = own.starts[[parent, parent + 1]].tolist()
            some, of_children = own.between(parent, parent + 1), np.zeros((last - first, *one.shape))
            for child in children:
                of_children[child - first] = below[child]
            alone = inform_finest(some) if information is None else information.between(first, last)
            weights[parent], of_estimate, of_variance = _lift_union(some, alone, of_children)
            estimate += of_estimate
            variance += of_variance
    of_root = np.array((weights | dict.fromkeys(chosen[0].tolist(), one)).get(0, 0.0 * one))
    split = Decomposition(families[0].schema)
    _weigh_root(root.estimate[0], root.variance[0], of_root, split.divisors, split.spread, estimate, variance)
    return Information(root.present, estimate[None], variance[None])


def _find_parent(starts: NDArray[np.int64], child: int) -> int:
    return int(np.searchsorted(starts, child, side="right")) - 1


def _lift_union(family: Families, information: Information, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """The weight of a parent in a union of places, from those of all its children, of the shape of a variance; and what
    the children give to the estimate and to the covariance of the union."""
    split = Decomposition(family.schema)
    primed = fix_totals(information, _to_totals(family.limits.totals))
    sums = _sum_all_children(primed, family.starts)
    parents, estimate, variance = _lift(
        (primed.estimate, primed.variance), weights, sums, family.starts, split.divisors, split.spread
    )
    return parents[0], estimate, variance


def _to_totals(totals: NDArray[np.int64]) -> Floats:
    return np.where(totals == FREE, np.nan, totals.astype(np.float64))


def _inform_kinds(
    split: Decomposition, below: Families, measured: MeasuredKinds | None
) -> tuple[Information, tuple[NDArray[np.int64], Floats]]:
    """The information about the children of the finest level, added up by kind; then the parent of each kind and the
    number of its children."""
    limits, kinds = below.limits, list_kinds(below.schema, below.starts, below.limits)
    if measured:
        measurements = measured.measurements
    else:
        measurements = tuple(replace(each, answers=_add_up(kinds, each.answers)) for each in below.measurements)
    present = split.find_present(limits.upper[kinds.firsts])
    together = _inform_alone(split, measurements, present)
    totals = _to_totals(_add_up(kinds, limits.totals[:, None])[:, 0])
    totals[limits.totals[kinds.firsts] == FREE] = np.nan
    _fix_totals(together.estimate, together.variance, totals)
    return together, (kinds.parents, np.bincount(kinds.of_child).astype(np.float64))


def _add_up(kinds: Kinds, answers: NDArray[np.signedinteger]) -> NDArray[np.int64]:
    sums = np.zeros((len(kinds.parents), answers.shape[1]), dtype=np.int64)
    add_up_kinds(kinds.of_child, answers, sums)
    return sums


@njit(cache=True, nogil=True)
def _add_rows(of_row, rows, sums, first):  # type: ignore[no-untyped-def]
    for row in range(rows.shape[0]):
        own = sums[of_row[row], first : first + rows.shape[1]]
        for column in range(rows.shape[1]):
            own[column] += rows[row, column]


def _inform_alone(
    split: Decomposition,
    measurements: Sequence[Measurement],
    present: NDArray[np.bool_],
) -> Information:
    """Estimates from measurements, of places or of sums over some. The covariances are those of a single place."""
    precision = split.add_precisions((each.query, each.precision) for each in measurements)
    firsts, number = _number_patterns(present)
    inverses = _invert_precisions(precision, present[firsts])
    weighted = _weigh(split, measurements, present)
    # The pages of what places cannot have are never touched.
    estimate = np.zeros(weighted.shape)
    _solve(inverses, number, present, weighted, split.divisors, split.spread, estimate)
    return Information(present, estimate, inverses[number])


def _number_patterns(present: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first place of each pattern of combinations, and the number of every place's pattern."""
    packed = np.packbits(present, axis=1)
    # NumPy takes several times as long for rows as for integers.
    padded = np.zeros((len(packed), -packed.shape[1] % 8 + packed.shape[1]), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    words = padded.view(np.uint64)
    words = words.ravel() if words.shape[1] == 1 else words
    _, firsts, number = np.unique(words, axis=0, return_index=True, return_inverse=True)
    return firsts, number.ravel()


def _weigh(
    split: Decomposition,
    measurements: Sequence[Measurement],
    present: NDArray[np.bool_],
) -> Floats:
    """The weighted answers b of each place: every answer over σ², added to all cells that it counts and that the place
    can have."""
    cell = split.arrange(np.arange(split.schema.size, dtype=np.float64)[None])[0].astype(np.int64)
    weighted = np.zeros((len(present), *cell.shape))
    for each in measurements:
        counted = split.schema.marginal(each.query).cells.astype(np.int64)[cell]
        _add_answers(np.ascontiguousarray(each.answers), counted, each.precision, present, weighted)
    return weighted


@njit(cache=True, nogil=True)
def _add_answers(answers, counted, precision, present, weighted):  # type: ignore[no-untyped-def]
    """Add the answers to a query, by the marginal cell of each kept and summed combination."""
    for place in range(answers.shape[0]):
        for kept in range(counted.shape[0]):
            if present[place, kept]:
                for summed in range(counted.shape[1]):
                    weighted[place, kept, summed] += precision * answers[place, counted[kept, summed]]


@njit(cache=True, nogil=True)
def _invert_precisions(precision, patterns):  # type: ignore[no-untyped-def]
    inverses = np.zeros((patterns.shape[0], *precision.shape))
    for pattern in range(patterns.shape[0]):
        rows = list_present(patterns[pattern])
        for own in range(precision.shape[0]):
            inverse = invert(take(precision[own], rows))
            for i in range(rows.size):
                for j in range(rows.size):
                    inverses[pattern, own, rows[i], rows[j]] = 0.5 * (inverse[i, j] + inverse[j, i])
    return inverses


@njit(cache=True, nogil=True)
def _solve(inverses, number, present, weighted, divisors, spread, estimate):  # type: ignore[no-untyped-def]
    for place in range(number.size):
        rows = list_present(present[place])
        terms = to_terms(take_all(inverses[number[place]], rows), divisors)
        add_product(terms, rows, weighted[place], spread, estimate[place])


@njit(cache=True, nogil=True)
def _fix_totals(estimate, variance, totals):  # type: ignore[no-untyped-def]
    """Change z into z' and V into V'. If z and the total are sums over places with the same V, so is z'."""
    kept, summed = estimate.shape[1:]
    for place in range(totals.size):
        if np.isnan(totals[place]):
            continue
        along = np.zeros(kept)
        every, spread_out, lacking = 0.0, 0.0, totals[place]
        for i in range(kept):
            for j in range(kept):
                along[i] += variance[place, 0, i, j]
            every += along[i]
            spread_out += variance[place, 0, i, i]
            for j in range(summed):
                lacking -= estimate[place, i, j]
        # Where all totals below are fixed, this one is their sum, and nothing but rounding errors is left to it.
        if not every > 1e-10 * spread_out:
            continue
        for i in range(kept):
            for j in range(summed):
                estimate[place, i, j] += along[i] * (lacking / summed) / every
            for j in range(kept):
                variance[place, 0, i, j] -= along[i] * along[j] / every


def _sum_all_children(children: Information, starts: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """The variances and the estimates of all children of each parent, added up."""
    return _sum_children(children.present, children.estimate, children.variance, starts)


@njit(cache=True, nogil=True)
def _sum_children(present, estimate, variance, starts):  # type: ignore[no-untyped-def]
    parents = starts.size - 1
    of_variance, of_estimate = np.zeros((parents, *variance.shape[1:])), np.zeros((parents, *estimate.shape[1:]))
    for parent in range(parents):
        for child in range(starts[parent], starts[parent + 1]):
            rows = list_present(present[child])
            for i in rows:
                of_estimate[parent, i] += estimate[child, i]
                for own in range(variance.shape[1]):
                    for j in rows:
                        of_variance[parent, own, i, j] += variance[child, own, i, j]
    return of_variance, of_estimate


def _sum_kinds(children: Information, parents: NDArray[np.int64], counts: Floats, size: int) -> tuple[Floats, Floats]:
    starts = np.searchsorted(parents, np.arange(size + 1))
    return _sum_children(children.present, children.estimate, children.variance * counts[:, None, None, None], starts)


@njit(cache=True, nogil=True)
def _combine(precision, weighted, present, divisors, spread, estimate, variance):  # type: ignore[no-untyped-def]
    """Change the children's sums s and C into z and V."""
    sets = precision.shape[0]
    for place in range(present.shape[0]):
        rows = list_present(present[place])
        n = rows.size
        inverses, variances = np.empty((sets, n, n)), np.empty((sets, n, n))
        for own in range(sets):
            of_children = take(variance[place, own], rows)
            inverses[own] = invert(np.eye(n) + product(of_children, take(precision[own], rows)))
            solved = product(inverses[own], of_children)
            for i in range(n):
                for j in range(n):
                    variances[own, i, j] = 0.5 * (solved[i, j] + solved[j, i])
                    variance[place, own, rows[i], rows[j]] = variances[own, i, j]
        of_children = estimate[place].copy()
        estimate[place] = 0.0
        add_product(to_terms(variances, divisors), rows, weighted[place], spread, estimate[place])
        add_product(to_terms(inverses, divisors), rows, of_children, spread, estimate[place])


@njit(cache=True, nogil=True)
def _descend(above, sums, starts, divisors, spread, children):  # type: ignore[no-untyped-def]
    """Change the z' and V' of all children into x and W."""
    above_present, above_estimate, above_variance = above
    sum_variance, sum_estimate = sums
    present, estimate, variance = children
    sets = divisors.size
    for parent in range(starts.size - 1):
        rows = list_present(above_present[parent])
        n = rows.size
        inverses, changes = np.empty((sets, n, n)), np.zeros(variance.shape[1:])
        for own in range(sets):
            of_children = take(sum_variance[parent, own], rows)
            inverses[own], _, _ = invert_covariance(of_children, 0.0, False)
            lacking = of_children - take(above_variance[parent, own], rows)
            change = product(product(inverses[own], lacking), inverses[own])
            for i in range(n):
                for j in range(n):
                    changes[own, rows[i], rows[j]] = change[i, j]
        shift = np.zeros_like(sum_estimate[parent])
        difference = above_estimate[parent] - sum_estimate[parent]
        add_product(to_terms(inverses, divisors), rows, difference, spread, shift)
        for child in range(starts[parent], starts[parent + 1]):
            rows = list_present(present[child])
            add_product(to_terms(take_all(variance[child], rows), divisors), rows, shift, spread, estimate[child])
            for own in range(sets):
                of_child = take(variance[child, own], rows)
                change = product(product(of_child, take(changes[own], rows)), of_child)
                for i in range(rows.size):
                    for j in range(rows.size):
                        variance[child, own, rows[i], rows[j]] -= 0.5 * (change[i, j] + change[j, i])


@njit(cache=True, nogil=True)
def _round_intervals(estimates, variances, most, ends):  # type: ignore[no-untyped-def]
    for cell in range(estimates.size):
        estimate = estimates[cell]
        margin = QUANTILE * np.sqrt(max(variances[cell], 0.0)) + _EXACT
        lower, upper = np.ceil(estimate - margin), np.floor(estimate + margin)
        if lower > upper:
            lower = upper = np.rint(estimate)
        above = np.inf if margin < _CERTAIN else most[cell]
        ends[0, cell] = np.int64(min(max(lower, 0.0), above))
        ends[1, cell] = np.int64(min(max(upper, 0.0), above))


@njit(cache=True, nogil=True)
def _sum_cells(present, order, estimate, variance, of_place, contained, begins, squares):  # type: ignore[no-untyped-def]
    """Places are in an order in which those with the same combinations follow each other as they are numbered."""
    sums, sets = squares.shape[0], variance.shape[1]
    estimates, variances = np.zeros((present.shape[0], sums)), np.zeros((present.shape[0], sums))
    atoms = np.empty(of_place.max() + 1)
    others = np.empty(atoms.size, dtype=np.bool_)
    own, ends = np.empty_like(contained), np.zeros(sums + 1, dtype=np.int64)
    before = -1
    for place in order:
        rows = list_present(present[place])
        if before < 0 or not np.array_equal(present[before], present[place]):
            # Most places have few of the atoms. The others are 0.
            others[:] = True
            for i in rows:
                for j in range(estimate.shape[2]):
                    others[of_place[i, j]] = False
            size = 0
            for number in range(sums):
                for position in range(begins[number], begins[number + 1]):
                    if not others[contained[position]]:
                        own[size] = contained[position]
                        size += 1
                ends[number + 1] = size
        before = place
        atoms[:] = 0.0
        for i in rows:
            for j in range(estimate.shape[2]):
                atoms[of_place[i, j]] += estimate[place, i, j]
        for number in range(sums):
            total = 0.0
            for position in range(ends[number], ends[number + 1]):
                total += atoms[own[position]]
            estimates[place, number] = total
        # Many siblings can have the same, and then have the same covariance.
        alike = place - 1
        while alike >= max(place - _LOOK_BACK, 0) and not (
            np.array_equal(present[alike], present[place]) and _are_equal(variance[alike], variance[place], rows)
        ):
            alike -= 1
        if alike >= max(place - _LOOK_BACK, 0):
            variances[place] = variances[alike]
            continue
        for number in range(sums):
            for of_set in range(sets):
                for i in rows:
                    for j in rows:
                        variances[place, number] += variance[place, of_set, i, j] * squares[number, of_set, i, j]
    return estimates, variances


@njit(cache=True, nogil=True)
def _are_equal(first, second, rows):  # type: ignore[no-untyped-def]
    """Whether two places that can have the same have the same covariance."""
    for own in range(first.shape[0]):
        for i in rows:
            for j in rows:
                if first[own, i, j] != second[own, i, j]:
                    return False
    return True


@njit(cache=True, nogil=True)
def _lift(children, weights, sums, starts, divisors, spread):  # type: ignore[no-untyped-def]
    estimate, variance = children
    sum_variance, sum_estimate = sums
    sets, kept = variance.shape[1:3]
    every = np.arange(kept)
    of_parents = np.zeros((starts.size - 1, sets, kept, kept))
    of_estimate, of_variance = np.zeros(estimate.shape[1:]), np.zeros(variance.shape[1:])
    turned = np.empty((sets, kept, kept))
    for parent in range(starts.size - 1):
        together, chosen = np.zeros((sets, kept, kept)), False
        for child in range(starts[parent], starts[parent + 1]):
            if not weights[child].any():
                continue
            chosen = True
            for own in range(sets):
                along = product(variance[child, own], weights[child, own])
                turned[own] = weights[child, own].T
                together[own] += along
                of_variance[own] += product(turned[own], along)
            add_product(to_terms(turned, divisors), every, estimate[child], spread, of_estimate)
        if not chosen:
            continue
        for own in range(sets):
            inverse, _, _ = invert_covariance(sum_variance[parent, own], 0.0, False)
            of_parents[parent, own] = product(inverse, together[own])
            turned[own] = -of_parents[parent, own].T
            of_variance[own] += product(turned[own], together[own])
        add_product(to_terms(turned, divisors), every, sum_estimate[parent], spread, of_estimate)
    return of_parents, of_estimate, of_variance


@njit(cache=True, nogil=True)
def _weigh_root(root_estimate, root_variance, weights, divisors, spread, estimate, variance):  # type: ignore[no-untyped-def]
    turned = np.empty_like(weights)
    for own in range(weights.shape[0]):
        turned[own] = weights[own].T
        variance[own] += product(turned[own], product(root_variance[own], weights[own]))
    add_product(to_terms(turned, divisors), np.arange(weights.shape[1]), root_estimate, spread, estimate)
