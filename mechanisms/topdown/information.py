"""The information about a place from all measurements at and below it: the upward pass of estimation with full
information, and the linear estimates of all places, with their variances.

`estimation` uses the information for the histograms; `decomposition` has the arithmetic. Everything works on a few
parents with all their children at a time, and results do not depend on the number of parents: answers are added up as
integers, and everything else follows the order of places.

Upwards. Every place u has the best linear unbiased estimate z of its histogram from the measurements at and below it,
with the covariance V. In the finest places, V is the inverse of K = QᵀΣ⁻¹Q and z = V b, where b has the answers, each
weighted by 1/σ² and added to all cells that it counts. V depends only on the combinations possible in a place, so the
answers of all children with the same possible combinations are added up first. Above, with the children's sums C = Σ V'
and s = Σ z',

    V = (I + C K)⁻¹ C,    z = (I + C K)⁻¹ (C b + s),

which needs no inverse of C, as C is singular where totals are fixed below. A fixed total N of a place is used for the
level above: with v = V 1, z' = z + v (N − 1ᵀz)/(1ᵀv) and V' = V − v vᵀ/(1ᵀv). Elsewhere, z' = z and V' = V.

Downwards. With the estimate x and the covariance W of the parent, those of a child are

    x = z' + V' C⁺ (x_parent − s),    W = V' − V' C⁺ (C − W_parent) C⁺ V',

from the z' and the V' of the root. These linear estimates know no bounds and may be negative, but their variances are
exact, and they are unbiased.

Unions. The error of a child is V' C⁺ times the error of its parent, plus an independent error whose covariance with a
sibling's is −V' C⁺ V'_sibling. So the variance of Σ w·x over any places follows from one pass upwards: with u = Σ V' w
over a parent's children, it grows by Σ wᵀ V' w − uᵀ C⁺ u, and C⁺ u is added to the parent's own w.

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
"""The number of preceding places with which a place is compared."""

_LEFT = 1e-10
"""The part of a variance below which the variance left by a fixed total is only rounding errors."""

_CERTAIN = 0.01
"""Below this, a margin consists of rounding errors, or of noise that changes no count."""

_FINE = 2.0
"""Below this, an error consists almost of whole numbers, so that the normal distribution would cover too few."""


class Kinds(NamedTuple):
    """The children of some families of the finest level, by kind. Children of one kind have the same parent and the
    same possible combinations, and all have a fixed total or none has. The fields are the kind of each child, and by
    kind, in order of parents, its parent and one of its children."""

    of_child: NDArray[np.int64]
    parents: NDArray[np.int64]
    firsts: NDArray[np.int64]


def list_kinds(schema: Schema, starts: NDArray[np.int64], limits: Limits) -> Kinds:
    """The kinds of all children of the parents, whose children begin at `starts`, as in `Families`."""
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
        """The sums of the parents from `begin` up to `end`."""
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
    """The information about some parents, from their own measurements, shape (parents, marginal cells), and from the
    information about all their children; or if the children are of the finest level, from their measurements, added up
    by kind before or here. Otherwise only the limits of the families are used. Measurements include `detailed`, unless
    the parents were not measured."""
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
    """The linear estimates, with their covariances, of all children of some families, from the parents' estimates and
    from the information about the children; for the finest level, `inform_finest` has this information."""
    split, starts = Decomposition(families.schema), families.starts
    primed = fix_totals(information, _to_totals(families.limits.totals))
    of_above = above.present, above.estimate, above.variance
    of_children = primed.present, primed.estimate, primed.variance
    _descend(of_above, _sum_all_children(primed, starts), starts, split.divisors, split.spread, of_children)
    return primed


class CellSums(NamedTuple):
    """Sums of cells, such as those of a table. Atoms are cells that are always counted together. The fields are the
    atom of each cell; the atoms in each sum, one sum after the other; where the atoms of each sum begin; and by sum and
    set S, the matrix g P_S gᵀ of its mask g."""

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
    # Packed into bytes, eight sums at a time, columns keep their order.
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
    """The covariances of sums of cells with others, shape (places, sums, others); both are as in `prepare_sums`."""
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
    # The projector of S is the sum over the sets W within S of (−1)^|W| J/n over W and all attributes outside S.
    sets = len(products)
    squares = np.zeros((*products[0].shape[:-2], sets, size[0], size[0]))
    for own in range(sets):
        for within in range(sets):
            if within & own == within:
                squares[..., own, :, :] += (-1) ** within.bit_count() * products[sets - 1 ^ own | within]
    return squares


def round_intervals(estimate: Floats, variance: Floats, most: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The ends of the 90% intervals of counts: the integers within 1.645 standard errors of the linear estimate, cut at
    0 and at `most`, the upper end of the place above; or if there are none, the nearest integer within the cuts. A
    margin from 0.5 to 2 is first rounded up to 1.5 or 2.5. Counts that follow from invariants have no error, and are
    not cut at `most`, which may miss the truth."""
    ends = np.empty((2, estimate.size), dtype=np.int64)
    estimates, variances, above = (
        np.require(each, np.float64, ["C", "W"]).ravel() for each in (estimate, variance, most)
    )
    _round_intervals(estimates, variances, above, ends)
    lower, upper = ends.reshape(2, *estimate.shape)
    return lower, upper


def find_standard_errors(variance: Floats) -> Floats:
    """The standard errors of linear estimates; 0 for counts that follow from invariants, whose computed variances are
    rounding errors."""
    errors = np.sqrt(np.maximum(variance, 0.0))
    return np.where(QUANTILE * errors < _CERTAIN, 0.0, errors)


def estimate_finest_cells(
    sums: CellSums, above: Information, most: NDArray[np.signedinteger], families: Families
) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    """The linear estimates of sums of cells, for all children of some families of the finest level, and the ends of
    their intervals, shape (children, sums), from the parents' linear estimates and upper ends. They equal the results
    of `descend`, `sum_cells` and `round_intervals` to the last bit. But the common part of children of one kind, such
    as their covariance, is computed once per parent, and not kept."""
    split = Decomposition(families.schema)
    measurements, present = families.measurements, split.find_present(families.limits.upper)
    precision = split.add_precisions((each.query, each.precision) for each in measurements)
    firsts, number = _number_patterns(present)
    patterns = present[firsts]
    estimates, (lower, upper) = _estimate_finest_cells(
        (above.present, above.estimate, above.variance),
        most.astype(np.float64),
        families.starts,
        _to_totals(families.limits.totals),
        (patterns, number, _invert_precisions(precision, patterns)),
        _weigh(split, measurements, present),
        split.divisors,
        split.spread,
        *sums,
    )
    return estimates, lower, upper


def unite(
    families: Sequence[Families], informed: Sequence[Information | None], chosen: Sequence[NDArray[np.int64]]
) -> Information:
    """Places of any levels, none within another, as a single place. By level from the root's, `families` has all
    families, `informed` the information about the level (None for the finest), and `chosen` the positions of places in
    it."""
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
    """The weight of a parent in a union of places, from those of all its children, of the shape of a variance; and the
    children's contributions to the estimate and to the covariance of the union."""
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
    # The memory of impossible combinations is never touched.
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
        # Where all totals below are fixed, this total is their sum, and only rounding errors remain.
        if not every > _LEFT * spread_out:
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
    shift = np.empty(sum_estimate.shape[1:])
    for parent in range(starts.size - 1):
        rows = list_present(above_present[parent])
        of_parent, of_children = above_variance[parent], sum_variance[parent]
        changes = _compute_shift(
            above_estimate[parent], of_parent, rows, sum_estimate[parent], of_children, divisors, spread, shift
        )
        for child in range(starts[parent], starts[parent + 1]):
            rows = list_present(present[child])
            primed = take_all(variance[child], rows)
            add_product(to_terms(primed, divisors), rows, shift, spread, estimate[child])
            descended = _descend_variance(primed, changes, rows)
            for own in range(divisors.size):
                for i in range(rows.size):
                    for j in range(rows.size):
                        variance[child, own, rows[i], rows[j]] = descended[own, i, j]


@njit(cache=True, nogil=True)
def _compute_shift(  # type: ignore[no-untyped-def]
    above_estimate, above_variance, rows, sum_estimate, sum_variance, divisors, spread, shift
):
    """Fill in C⁺ times the difference between a parent's estimate and its children's sum s, and return C⁺ (C − W) C⁺
    with the parent's W."""
    n = rows.size
    inverses, changes = np.empty((divisors.size, n, n)), np.zeros(sum_variance.shape)
    for own in range(divisors.size):
        of_children = take(sum_variance[own], rows)
        inverses[own], _, _ = invert_covariance(of_children, 0.0, False)
        lacking = of_children - take(above_variance[own], rows)
        change = product(product(inverses[own], lacking), inverses[own])
        for i in range(n):
            for j in range(n):
                changes[own, rows[i], rows[j]] = change[i, j]
    shift[:] = 0.0
    add_product(to_terms(inverses, divisors), rows, above_estimate - sum_estimate, spread, shift)
    return changes


@njit(cache=True, nogil=True)
def _descend_variance(primed, changes, rows):  # type: ignore[no-untyped-def]
    """W of a child, from its V' over its own combinations."""
    descended = primed.copy()
    for own in range(primed.shape[0]):
        change = product(product(primed[own], take(changes[own], rows)), primed[own])
        for i in range(rows.size):
            for j in range(rows.size):
                descended[own, i, j] -= 0.5 * (change[i, j] + change[j, i])
    return descended


@njit(cache=True, nogil=True)
def _round_intervals(estimates, variances, most, ends):  # type: ignore[no-untyped-def]
    for cell in range(estimates.size):
        ends[0, cell], ends[1, cell] = _round_interval(estimates[cell], _to_margin(variances[cell]), most[cell])


@njit(cache=True, nogil=True)
def _to_margin(variance):  # type: ignore[no-untyped-def]
    margin = QUANTILE * np.sqrt(max(variance, 0.0)) + _EXACT
    return np.ceil(margin - 0.5) + 0.5 if 0.5 < margin < _FINE else margin


@njit(cache=True, nogil=True)
def _round_interval(estimate, margin, most):  # type: ignore[no-untyped-def]
    lower, upper = np.ceil(estimate - margin), np.floor(estimate + margin)
    if lower > upper:
        lower = upper = np.rint(estimate)
    above = np.inf if margin < _CERTAIN else most
    return np.int64(min(max(lower, 0.0), above)), np.int64(min(max(upper, 0.0), above))


@njit(cache=True, nogil=True)
def _sum_cells(present, order, estimate, variance, of_cell, contained, begins, squares):  # type: ignore[no-untyped-def]
    """In `order`, places with the same combinations are consecutive, in order of their numbers."""
    sums, sets = squares.shape[0], variance.shape[1]
    estimates, variances = np.zeros((present.shape[0], sums)), np.zeros((present.shape[0], sums))
    atoms = np.empty(of_cell.max() + 1)
    own, ends = contained, begins
    before = -1
    for place in order:
        rows = list_present(present[place])
        if before < 0 or not np.array_equal(present[before], present[place]):
            own, ends = _select_atoms(rows, of_cell, contained, begins)
        before = place
        _add_atoms(estimate[place], rows, of_cell, own, ends, atoms, estimates[place])
        # Many siblings have the same possible combinations, and then the same covariance.
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
def _select_atoms(rows, of_cell, contained, begins):  # type: ignore[no-untyped-def]
    """The atoms in each sum that are possible in places with these combinations, and where the atoms of each sum begin.
    Most places have few of the atoms. The others are 0."""
    others = np.ones(of_cell.max() + 1, dtype=np.bool_)
    for i in rows:
        for j in range(of_cell.shape[1]):
            others[of_cell[i, j]] = False
    own, ends = np.empty_like(contained), np.zeros_like(begins)
    size = 0
    for number in range(begins.size - 1):
        for position in range(begins[number], begins[number + 1]):
            if not others[contained[position]]:
                own[size] = contained[position]
                size += 1
        ends[number + 1] = size
    return own, ends


@njit(cache=True, nogil=True)
def _add_atoms(estimate, rows, of_cell, own, ends, atoms, estimates):  # type: ignore[no-untyped-def]
    """The estimates of the sums, from the cells of a place; `atoms` is workspace."""
    atoms[:] = 0.0
    for i in rows:
        for j in range(estimate.shape[1]):
            atoms[of_cell[i, j]] += estimate[i, j]
    for number in range(ends.size - 1):
        total = 0.0
        for position in range(ends[number], ends[number + 1]):
            total += atoms[own[position]]
        estimates[number] = total


@njit(cache=True, nogil=True)
def _estimate_finest_cells(  # type: ignore[no-untyped-def]
    above, most, starts, totals, patterns, weighted, divisors, spread, of_cell, contained, begins, squares
):
    """Children of one parent are alike if they have the same possible combinations, and all or none have a fixed total.
    The number of a kind is twice the number of their pattern, plus 1 with a fixed total."""
    above_present, above_estimate, above_variance = above
    present, pattern_of, inverses = patterns
    sums, sets, summed = squares.shape[0], divisors.size, weighted.shape[2]
    places, kinds = pattern_of.size, 2 * present.shape[0]
    estimates, ends = np.empty((places, sums)), np.empty((2, places, sums), dtype=np.int64)
    rows_of = []
    terms_of = []
    own_of = []
    ends_of = []
    primed_of = []
    along_of = []
    for pattern in range(present.shape[0]):
        rows = list_present(present[pattern])
        own, own_ends = _select_atoms(rows, of_cell, contained, begins)
        rows_of.append(rows)
        own_of.append(own)
        ends_of.append(own_ends)
        terms_of.append(to_terms(take_all(inverses[pattern], rows), divisors))
        for fixed in range(2):
            primed = take_all(inverses[pattern], rows)
            along = _fix_variance(primed[0]) if fixed else np.zeros(0)
            primed_of.append(primed)
            along_of.append(along)
    kind_of = 2 * pattern_of + ~np.isnan(totals)
    # Workspace for the children of one parent, and by kind for their common part.
    largest = np.diff(starts).max()
    estimate, shift = np.zeros((largest, *weighted.shape[1:])), np.empty(weighted.shape[1:])
    images, margins = np.empty((kinds, sets, *weighted.shape[1:])), np.empty((kinds, sums))
    known, atoms = np.empty(kinds, dtype=np.bool_), np.empty(of_cell.max() + 1)
    for parent in range(starts.size - 1):
        first, last = starts[parent], starts[parent + 1]
        sum_variance, sum_estimate = np.zeros(above_variance.shape[1:]), np.zeros(weighted.shape[1:])
        for child in range(first, last):
            kind, own = kind_of[child], estimate[child - first]
            rows, primed, along = rows_of[kind // 2], primed_of[kind], along_of[kind]
            for i in rows:
                own[i] = 0.0
            add_product(terms_of[kind // 2], rows, weighted[child], spread, own)
            if along.size:
                lacking = totals[child]
                for i in rows:
                    for j in range(summed):
                        lacking -= own[i, j]
                for i in range(rows.size):
                    for j in range(summed):
                        own[rows[i], j] += along[i] * (lacking / summed) / along[rows.size]
            for i in range(rows.size):
                sum_estimate[rows[i]] += own[rows[i]]
                for of_set in range(sets):
                    for j in range(rows.size):
                        sum_variance[of_set, rows[i], rows[j]] += primed[of_set, i, j]
        rows = list_present(above_present[parent])
        changes = _compute_shift(
            above_estimate[parent], above_variance[parent], rows, sum_estimate, sum_variance, divisors, spread, shift
        )
        known[:] = False
        for child in range(first, last):
            kind, own = kind_of[child], estimate[child - first]
            rows, primed = rows_of[kind // 2], primed_of[kind]
            if not known[kind]:
                known[kind] = True
                _fill_images(to_terms(primed, divisors), rows, shift, spread, images[kind])
                _fill_margins(_descend_variance(primed, changes, rows), rows, squares, margins[kind])
            for of_set in range(sets):
                for i in range(rows.size):
                    for j in range(summed):
                        own[rows[i], j] += images[kind, of_set, i, spread[of_set, j]]
            _add_atoms(own, rows, of_cell, own_of[kind // 2], ends_of[kind // 2], atoms, estimates[child])
            for number in range(sums):
                ends[0, child, number], ends[1, child, number] = _round_interval(
                    estimates[child, number], margins[kind, number], most[parent, number]
                )
    return estimates, ends


@njit(cache=True, nogil=True)
def _fix_variance(variance):  # type: ignore[no-untyped-def]
    """Change the part of V that a fixed total affects into the part of V'. Returns the weights by which combinations
    share the lack of the total, and last their sum; empty if V leaves no choice."""
    n = variance.shape[0]
    along = np.zeros(n + 1)
    spread_out = 0.0
    for i in range(n):
        for j in range(n):
            along[i] += variance[i, j]
        along[n] += along[i]
        spread_out += variance[i, i]
    if not along[n] > _LEFT * spread_out:
        return np.zeros(0)
    for i in range(n):
        for j in range(n):
            variance[i, j] -= along[i] * along[j] / along[n]
    return along


@njit(cache=True, nogil=True)
def _fill_images(terms, rows, x, spread, images):  # type: ignore[no-untyped-def]
    """The summands of `add_product` by set, before they are spread."""
    for own in range(terms.shape[0]):
        images[own, : rows.size, : spread[own, -1] + 1] = 0.0
        for k in range(rows.size):
            sums = np.zeros(x.shape[1])
            for j in range(x.shape[1]):
                sums[spread[own, j]] += x[rows[k], j]
            for i in range(rows.size):
                factor = terms[own, i, k]
                if factor != 0.0:
                    for j in range(spread[own, -1] + 1):
                        images[own, i, j] += factor * sums[j]


@njit(cache=True, nogil=True)
def _fill_margins(variance, rows, squares, margins):  # type: ignore[no-untyped-def]
    for number in range(margins.size):
        total = 0.0
        for of_set in range(variance.shape[0]):
            for i in range(rows.size):
                for j in range(rows.size):
                    total += variance[of_set, i, j] * squares[number, of_set, rows[i], rows[j]]
        margins[number] = _to_margin(total)


@njit(cache=True, nogil=True)
def _are_equal(first, second, rows):  # type: ignore[no-untyped-def]
    """Whether two places with the same possible combinations have the same covariance."""
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
