"""From noisy measurements to histograms: one parent and all its children at a time, for one family or for several at
once, as a worker process does. `assets.topdown.estimation` walks down the tree, in parallel and resumably.

The steps for siblings leave out cells that the parent does not have, may estimate totals first, estimate the histograms
with these totals fixed, and round them, within the bounds of groups and the totals. If there are also limits on several
groups together, and the integers break one, `sets` chooses the counts of groups, and both steps are repeated with these
counts fixed. This is always possible: within a group, any children's counts that add up to the parent's can be divided
among the group's cells.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.topdown.decomposition import Information
from mechanisms.topdown.feasibility import FREE, Limits
from mechanisms.topdown.least_squares import Constraints, NotSolvedError, Query, Solution, solve
from mechanisms.topdown.rounding import Bounds, NotRoundedError, round_children
from mechanisms.topdown.schema import TOTAL, Schema, add_up
from mechanisms.topdown.sets import nearest_counts, satisfies_sets


@dataclass(frozen=True)
class Measurement:
    """Noisy answers of all siblings to one query, shape (children, marginal cells), with the variance σ² of the
    noise."""

    query: str
    variance: Fraction
    answers: NDArray[np.signedinteger[Any]]


@dataclass(frozen=True)
class Estimate:
    """Siblings' histograms, shape (children, cells), integers that meet all constraints; and the real-valued solutions,
    in order of the passes, empty if the constraints leave no choice."""

    histograms: NDArray[np.int64]
    solutions: tuple[Solution, ...]


@dataclass(frozen=True)
class Families:
    """Several parents of one level, each with all its children: parent p's are those from `starts[p]` up to
    `starts[p + 1]`. Parents are named as in errors about their children. Measurements and limits are those of all
    children. The parents' histograms have the shape (parents, cells), and are None if the only child is the root. With
    `total_first`, `total` has a separate pass."""

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
        solved: for how many parents the constraints alone did not determine the children.
        gap: the largest duality gap of a real-valued solution, relative to its objective (absolute below 1).
        violation: the largest violation of a constraint by a real-valued solution; integers violate none.
    """

    children: NDArray[np.int64]
    cells: NDArray[np.int64]
    counts: NDArray[np.int64]
    solved: int
    gap: float
    violation: float


def divide_parents(starts: NDArray[np.int64], first: int, last: int, places: int) -> Iterator[tuple[int, int]]:
    """Ranges of the parents from `first` up to `last` with at most `places` children together; a parent with more has a
    range of its own. Parent p's children are those from `starts[p]` up to `starts[p + 1]`."""
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
                estimate(family.schema, family.measurements, family.limits, above, total_first=family.total_first)
            )
        except (NotSolvedError, NotRoundedError) as error:
            raise type(error)(f"{family.schema.name} of {parent}: {error}") from None
    histograms = np.concatenate([siblings.histograms for siblings in estimates])
    children, cells = np.nonzero(histograms)
    solutions = [solution for siblings in estimates for solution in siblings.solutions]
    return Children(
        children,
        cells,
        histograms[children, cells],
        sum(bool(siblings.solutions) for siblings in estimates),
        max((0.0, *(solution.gap / max(solution.objective, 1.0) for solution in solutions))),
        max((0.0, *(solution.violation for solution in solutions))),
    )


def estimate(
    schema: Schema,
    measurements: Sequence[Measurement],
    limits: Limits,
    parent: NDArray[np.int64] | None,
    *,
    total_first: bool,
) -> Estimate:
    """The histograms of the children of a parent with a histogram of shape (cells,), or the root's, an only child.
    Limits are those of `feasibility.propagate`, and the parent is within its own.

    A separate pass of `total` determines the free totals, which are fixed while the other queries determine the rest.
    This is useful if `total` is measured much more precisely than the sums of other answers. If it is not, as in the
    blocks of the 2020 Census, one pass of all queries together estimates the totals better.

    Raises NotSolvedError if a real-valued solution could not be certified, and NotRoundedError if there are no integers
    nearby.
    """
    if parent is not None and (len(limits.totals) == 1 or not parent.any()):
        return Estimate(np.tile(parent, (len(limits.totals), 1)), ())
    possible = schema.possible & (limits.upper.max(axis=0) > 0)[schema.groups.cells]
    unsorted = np.flatnonzero(possible if parent is None else parent > 0)
    support = unsorted[np.argsort(schema.groups.cells[unsorted], kind="stable")]
    first = _within_bounds(schema, measurements, limits, parent, support, total_first)
    if not first.solutions or satisfies_sets(limits.sets, schema.groups.answer(first.histograms)):
        return first
    real = add_up(first.solutions[-1].x, schema.groups.cells[support], schema.groups.size)
    counts = nearest_counts(real, limits, None if parent is None else schema.groups.answer(parent[None])[0])
    fixed = Limits(counts, counts, counts.sum(axis=1))
    again = _within_bounds(schema, measurements, fixed, parent, support, total_first)
    return Estimate(again.histograms, first.solutions + again.solutions)


def _within_bounds(
    schema: Schema,
    measurements: Sequence[Measurement],
    limits: Limits,
    parent: NDArray[np.int64] | None,
    support: NDArray[np.int64],
    total_first: bool,
) -> Estimate:
    """Histograms within bounds and totals. Only cells of the support, which is in order of groups, can be nonzero."""
    children = len(limits.totals)
    if not support.size:
        return Estimate(np.zeros((children, schema.size), dtype=np.int64), ())
    present, groups = _renumber(schema.groups.cells[support])
    lower, upper = limits.lower[:, present], limits.upper[:, present]
    sums = None if parent is None else parent[support]
    totals = np.where(limits.totals == FREE, np.nan, limits.totals.astype(np.float64))
    constraints = Constraints(sums, np.searchsorted(groups, np.arange(len(present) + 1)), lower, upper, totals)

    by_name = {measurement.query: measurement for measurement in measurements}
    solutions = []
    if total_first and TOTAL in by_name and len(by_name) > 1:
        total = by_name.pop(TOTAL)
        if np.isnan(totals).any():
            solutions.append(_solve_totals(total, constraints, groups))
            constraints = Constraints(sums, constraints.starts, lower, upper, solutions[0].x.sum(axis=1))
    queries = []
    for name, measurement in by_name.items():
        marginal, cells = _renumber(schema.marginal(name).cells[support])
        queries.append(Query(cells, float(1 / measurement.variance), measurement.answers[:, marginal]))
    solutions.append(solve(queries, constraints))

    chain = [_renumber(schema.marginal(query).cells[support])[1] for query in schema.rounding]
    bounds: list[Bounds | None] = [None] * len(chain)
    bounds[schema.rounding.index(schema.groups.query)] = (lower, upper)
    fixed, declared = (limits.totals != FREE)[:, None], limits.totals[:, None]
    most = np.iinfo(np.int64).max
    least_total, most_total = bounds[0] or (np.zeros((children, 1), np.int64), np.full((children, 1), most))
    bounds[0] = (np.where(fixed, declared, least_total), np.where(fixed, declared, most_total))
    histograms = np.zeros((children, schema.size), dtype=np.int64)
    histograms[:, support] = round_children(solutions[-1].x, chain, sums, bounds)
    return Estimate(histograms, tuple(solutions))


def _solve_totals(total: Measurement, constraints: Constraints, groups: NDArray[np.int32]) -> Solution:
    """The pass of `total`. A histogram of groups suffices, as a group's count can be divided among its cells freely."""
    count = len(constraints.starts) - 1
    sums = None if constraints.parent is None else np.bincount(groups, weights=constraints.parent, minlength=count)
    coarse = Constraints(sums, np.arange(count + 1), constraints.lower, constraints.upper, constraints.totals)
    query = Query(np.zeros(count, dtype=np.int32), float(1 / total.variance), total.answers.astype(np.float64))
    return solve([query], coarse)


def _renumber(nodes: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The marginal cells that occur, and the position of each cell's marginal cell among them."""
    occurs = np.zeros(nodes.max(initial=-1) + 1, dtype=np.bool_)
    occurs[nodes] = True
    return np.flatnonzero(occurs).astype(np.int32), (np.cumsum(occurs, dtype=np.int32) - 1)[nodes]
