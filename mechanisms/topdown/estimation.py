"""From noisy measurements to histograms: one parent and all its children at a time, for one family or for several at
once, as a worker process does. `assets.topdown.estimation` walks down the tree, in parallel and resumably.

The steps for siblings omit cells that the parent does not have, may estimate totals first, estimate the histograms with
these totals fixed, and round them, within the bounds of groups and the totals. If there are also limits on several
groups together, and the integers break one, `sets` chooses the counts of groups, and both steps are repeated with these
counts fixed. This is always possible: within a group, any children's counts that add up to the parent's can be divided
among the group's cells.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mechanisms.topdown.decomposition import Decomposition, Information
from mechanisms.topdown.feasibility import FREE, Limits
from mechanisms.topdown.informed import build_cells, build_groups, build_parts, hold_groups
from mechanisms.topdown.least_squares import Constraints, NotSolvedError, Query, Solution, solve
from mechanisms.topdown.rounding import Bounds, NotRoundedError, round_children
from mechanisms.topdown.schema import TOTAL, Number, Schema, add_up
from mechanisms.topdown.sets import nearest_counts, satisfies_sets


@dataclass(frozen=True)
class Measurement:
    """Noisy answers of all siblings to one query, shape (children, marginal cells), with the variance σ² of the
    noise."""

    query: str
    variance: Fraction
    answers: NDArray[np.signedinteger[Any]]

    @property
    def precision(self) -> float:
        """1/σ², correctly rounded."""
        return self.variance.denominator / self.variance.numerator


@dataclass(frozen=True)
class Estimate:
    """Siblings' histograms, shape (children, cells), integers that meet all constraints; and the real-valued solutions,
    in order of the passes, empty if the constraints leave no choice. `without_parts`: parts were to be held, but the
    cells were estimated without them."""

    histograms: NDArray[np.int64]
    solutions: tuple[Solution, ...]
    without_parts: bool = False


@dataclass(frozen=True)
class Families:
    """Several parents of one level, each with all its children: parent p's are those from `starts[p]` up to
    `starts[p + 1]`. Names of parents are for errors about their children. Measurements and limits are those of all
    children. The parents' histograms have the shape (parents, cells), and are None if the only child is the root. With
    `total_first`, `total` has a separate pass. If there is information about all children, it replaces the
    measurements, and `hold` is whether parts are held, as in `estimate`."""

    schema: Schema
    parents: tuple[str, ...]
    starts: NDArray[np.int64]
    measurements: tuple[Measurement, ...]
    limits: Limits
    total_first: bool
    histograms: NDArray[np.int64] | None
    information: Information | None = None
    hold: bool = False

    def between(self, begin: int, end: int) -> "Families":
        """The parents from `begin` up to `end`, with their children."""
        first, last = (int(start) for start in self.starts[[begin, end]])
        return replace(
            self,
            parents=self.parents[begin:end],
            starts=self.starts[begin : end + 1] - first,
            measurements=tuple(replace(query, answers=query.answers[first:last]) for query in self.measurements),
            limits=self.limits.between(first, last),
            histograms=None if self.histograms is None else self.histograms[begin:end],
            information=None if self.information is None else self.information.between(first, last),
        )


@dataclass(frozen=True)
class Children:
    """The histograms of all children of some families.

    Attributes:
        children, cells, counts: of each nonzero cell, in order of child and cell.
        solved: the number of parents whose children are not determined by the constraints alone.
        gap: the largest duality gap of a real-valued solution, relative to its objective (absolute below 1).
        violation: the largest violation of a constraint by a real-valued solution; integers violate none.
        without_parts: the number of parents for which parts were to be held, but were not.
    """

    children: NDArray[np.int64]
    cells: NDArray[np.int64]
    counts: NDArray[np.int64]
    solved: int
    gap: float
    violation: float
    without_parts: int = 0


def divide_parents(starts: NDArray[np.int64], first: int, last: int, places: int) -> Iterator[tuple[int, int]]:
    """Ranges of the parents from `first` up to `last` with at most `places` children together; a parent with more has
    its own range. Parent p's children are those from `starts[p]` up to `starts[p + 1]`."""
    while first < last:
        end = int(np.searchsorted(starts, starts[first] + places, side="right")) - 1
        end = min(max(end, first + 1), last)
        yield first, end
        first = end


def estimate_families(families: Families) -> Children:
    """The histograms of all children, family by family. Families do not depend on each other. Raises NotSolvedError and
    NotRoundedError as `estimate`; the message names the parent."""
    estimates = []
    for number, parent in enumerate(families.parents):
        family = families.between(number, number + 1)
        above = None if family.histograms is None else family.histograms[0]
        try:
            estimates.append(
                estimate(
                    family.schema,
                    family.measurements,
                    family.limits,
                    above,
                    total_first=family.total_first,
                    information=family.information,
                    hold=family.hold,
                )
            )
        except (NotSolvedError, NotRoundedError) as error:
            raise type(error)(f"{family.schema.name} of {parent}: {error}") from None
    histograms = np.concatenate([siblings.histograms for siblings in estimates])
    # Of millions of cells, nearly all zero, this takes a fifth of the time of `nonzero`.
    nonzero = np.flatnonzero(histograms != 0)
    children, cells = np.divmod(nonzero, histograms.shape[1])
    solutions = [solution for siblings in estimates for solution in siblings.solutions]
    return Children(
        children,
        cells,
        histograms.ravel()[nonzero],
        sum(bool(siblings.solutions) for siblings in estimates),
        max((0.0, *(solution.gap / max(solution.objective, 1.0) for solution in solutions))),
        max((0.0, *(solution.violation for solution in solutions))),
        sum(siblings.without_parts for siblings in estimates),
    )


def estimate(
    schema: Schema,
    measurements: Sequence[Measurement],
    limits: Limits,
    parent: NDArray[np.int64] | None,
    *,
    total_first: bool = False,
    information: Information | None = None,
    hold: bool = False,
) -> Estimate:
    """The histograms of the children of a parent with a histogram of shape (cells,), or the root's, an only child.
    Limits are those of `feasibility.propagate`, and the parent is within its own.

    A separate pass of `total` determines the free totals, which are fixed while the other queries determine the rest.
    This is useful if `total` is measured much more precisely than the sums of other answers. Otherwise, as in the
    blocks of the 2020 Census, one pass of all queries together estimates the totals better.

    If there is information about the children, it replaces the measurements. With `hold`, the counts of groups are
    estimated and rounded first, and then the counts by `Schema.combined`. If the cells cannot be estimated within the
    latter, they are estimated without them.

    Raises NotSolvedError if a real-valued solution could not be certified, and NotRoundedError if there are no integers
    nearby.
    """
    if parent is not None and (len(limits.totals) == 1 or not parent.any()):
        return Estimate(np.tile(parent, (len(limits.totals), 1)), ())
    possible = schema.possible & (limits.upper.max(axis=0) > 0)[schema.groups.cells]
    unsorted = np.flatnonzero(possible if parent is None else parent > 0)
    support = unsorted[np.argsort(schema.groups.cells[unsorted], kind="stable")]
    if not support.size:
        return Estimate(np.zeros((len(limits.totals), schema.size), dtype=np.int64), ())
    family = _Family(schema, limits, parent, support)
    if information is not None:
        return _estimate_with_information(family, information, hold=hold and schema.bounded is not None)
    return _within_sets(family, lambda own: _within_bounds(own, measurements, total_first))


@dataclass(frozen=True)
class _Family:
    """Siblings with their limits, and their parent's histogram, shape (cells,); None at the root. Only cells of the
    support, which is in order of groups, can be nonzero."""

    schema: Schema
    limits: Limits
    parent: NDArray[np.int64] | None
    support: NDArray[np.intp]

    @cached_property
    def groups(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The groups that are present, and the position of each cell's group among them."""
        return _renumber(self.schema.groups.cells[self.support])

    @property
    def counts(self) -> NDArray[np.int64] | None:
        """The parent's counts of all groups, shape (groups,)."""
        return None if self.parent is None else self.schema.groups.answer(self.parent[None])[0]

    def add_up(self, x: NDArray[Number]) -> NDArray[Number]:
        """The children's counts of all groups, from their counts by cell of the support."""
        return add_up(x, self.schema.groups.cells[self.support], self.schema.groups.size)

    def constrain(self) -> Constraints:
        present, groups = self.groups
        sums = None if self.parent is None else self.parent[self.support]
        totals = np.where(self.limits.totals == FREE, np.nan, self.limits.totals.astype(np.float64))
        lower, upper = self.limits.lower[:, present], self.limits.upper[:, present]
        return Constraints(sums, np.searchsorted(groups, np.arange(len(present) + 1)), lower, upper, totals)

    def fix(self, counts: NDArray[np.int64]) -> "_Family":
        """The same siblings with these counts of groups."""
        return replace(self, limits=Limits(counts, counts, counts.sum(axis=1)))


def _within_sets(family: _Family, estimate_within: Callable[[_Family], Estimate]) -> Estimate:
    """Histograms that also satisfy the limits of sets: if they break a limit, the nearest counts that satisfy all are
    fixed."""
    first = estimate_within(family)
    limits = family.limits
    if limits.sets is None or satisfies_sets(limits.sets, family.add_up(first.histograms[:, family.support])):
        return first
    counts = nearest_counts(family.add_up(first.solutions[-1].x), limits, family.counts)
    again = estimate_within(family.fix(counts))
    return Estimate(again.histograms, first.solutions + again.solutions)


def _within_bounds(family: _Family, measurements: Sequence[Measurement], total_first: bool) -> Estimate:
    """Histograms within bounds and totals, from the children's own measurements."""
    constraints, (_, groups), support = family.constrain(), family.groups, family.support
    by_name = {measurement.query: measurement for measurement in measurements}
    solutions = []
    if total_first and TOTAL in by_name and len(by_name) > 1:
        total = by_name.pop(TOTAL)
        if np.isnan(constraints.totals).any():
            solutions.append(_solve_totals(total, constraints, groups))
            constraints = replace(constraints, totals=solutions[0].x.sum(axis=1))
    queries = []
    for name, measurement in by_name.items():
        marginal, cells = _renumber(family.schema.marginal(name).cells[support])
        queries.append(Query(cells, measurement.precision, measurement.answers[:, marginal]))
    solutions.append(solve(queries, constraints))
    return Estimate(_round(family, solutions[-1].x), tuple(solutions))


def _round(family: _Family, x: NDArray[np.float64]) -> NDArray[np.int64]:
    schema, limits, support = family.schema, family.limits, family.support
    present, _ = family.groups
    chain = [_renumber(schema.marginal(query).cells[support])[1] for query in schema.rounding]
    bounds: list[Bounds | None] = [None] * len(chain)
    bounds[schema.rounding.index(schema.groups.query)] = (limits.lower[:, present], limits.upper[:, present])
    bounds[0] = _bound_totals(limits, bounds[0])
    histograms = np.zeros((len(x), schema.size), dtype=np.int64)
    sums = None if family.parent is None else family.parent[support]
    histograms[:, support] = round_children(x, chain, sums, bounds)
    return histograms


def _bound_totals(limits: Limits, bounds: Bounds | None) -> Bounds:
    """The bounds of the children's totals, within others if there are any."""
    fixed, declared = (limits.totals != FREE)[:, None], limits.totals[:, None]
    children, most = len(limits.totals), np.iinfo(np.int64).max
    least_total, most_total = bounds or (np.zeros((children, 1), np.int64), np.full((children, 1), most))
    return np.where(fixed, declared, least_total), np.where(fixed, declared, most_total)


def _estimate_with_information(family: _Family, information: Information, *, hold: bool) -> Estimate:
    split = Decomposition(family.schema)
    if not hold:
        objective = build_cells(split, information, family.support)

        def estimate_cells(own: _Family) -> Estimate:
            solution = solve(objective, own.constrain())
            return Estimate(_round(own, solution.x), (solution,))

        return _within_sets(family, estimate_cells)
    of_groups, counts = _estimate_groups(split, family, information)
    held = family.fix(counts)
    informed = hold_groups(split, information, counts)
    try:
        return _estimate_within_parts(split, held, informed, of_groups)
    except (NotSolvedError, NotRoundedError):
        solution = solve(build_cells(split, informed, family.support), held.constrain())
        return Estimate(_round(held, solution.x), (of_groups, solution), without_parts=True)


def _estimate_groups(
    split: Decomposition, family: _Family, information: Information
) -> tuple[Solution, NDArray[np.int64]]:
    """The counts of groups, real-valued and as integers that satisfy all limits, shape (children, groups)."""
    limits, counts = family.limits, family.counts
    (present, _), constraints = family.groups, family.constrain()
    sums = None if counts is None else counts[present]
    coarse = replace(constraints, parent=sums, starts=np.arange(len(present) + 1))
    solution = solve(build_groups(split, information, present.astype(np.int64)), coarse)
    bounds = _bound_totals(limits, None), (limits.lower[:, present], limits.upper[:, present])
    chain = [np.zeros(len(present), dtype=np.int32), np.arange(len(present), dtype=np.int32)]
    found = np.zeros((len(limits.totals), family.schema.groups.size), dtype=np.int64)
    found[:, present] = round_children(solution.x, chain, sums, bounds)
    if not satisfies_sets(limits.sets, found):
        real = np.zeros(found.shape)
        real[:, present] = solution.x
        found = nearest_counts(real, limits, counts)
    return solution, found


def _estimate_within_parts(
    split: Decomposition, held: _Family, information: Information, of_groups: Solution
) -> Estimate:
    """Histograms within counts of groups, and within the real-valued counts by `Schema.combined` that fit best."""
    combined = held.schema.combined
    if combined is None:
        raise NotSolvedError("there are no parts")
    codes = np.array(combined.codes)[held.schema.codes[combined.attribute]][held.support]
    group = held.schema.groups.cells[held.support].astype(np.int64)
    order = np.lexsort((codes, group))
    parts, starts, part = np.unique(
        (group * (max(combined.codes) + 1) + codes)[order], return_index=True, return_inverse=True
    )
    ordered = replace(held, support=held.support[order])
    constraints = ordered.constrain()
    sums = None if constraints.parent is None else np.bincount(part, weights=constraints.parent)
    groups, of_part = _renumber((parts // (max(combined.codes) + 1)).astype(np.int32))
    coarse = replace(constraints, parent=sums, starts=np.searchsorted(of_part, np.arange(len(groups) + 1)))
    objective = build_parts(split, information, parts // (max(combined.codes) + 1), parts % (max(combined.codes) + 1))
    of_parts = solve(objective, coarse)
    free = np.full(len(constraints.totals), np.nan)
    fine = Constraints(constraints.parent, np.append(starts, len(part)), of_parts.x, of_parts.x, free)
    solution = solve(build_cells(split, information, ordered.support), fine)
    return Estimate(_round(ordered, solution.x), (of_groups, of_parts, solution))


def _solve_totals(total: Measurement, constraints: Constraints, groups: NDArray[np.int32]) -> Solution:
    """The pass of `total`. A histogram of groups suffices, as a group's count can be divided among its cells freely."""
    count = len(constraints.starts) - 1
    sums = None if constraints.parent is None else np.bincount(groups, weights=constraints.parent, minlength=count)
    coarse = Constraints(sums, np.arange(count + 1), constraints.lower, constraints.upper, constraints.totals)
    query = Query(np.zeros(count, dtype=np.int32), total.precision, total.answers.astype(np.float64))
    return solve([query], coarse)


@njit(cache=True, nogil=True)
def _renumber(nodes):  # type: ignore[no-untyped-def]
    """The marginal cells that occur, and the position of each cell's marginal cell among them."""
    position = np.full(nodes.max() + 1 if nodes.size else 0, -1, np.int32)
    position[nodes] = 0
    occurring = np.flatnonzero(position == 0).astype(np.int32)
    position[occurring] = np.arange(occurring.size)
    return occurring, position[nodes]
