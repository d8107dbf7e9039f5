"""From noisy answers to the histograms of a parent's children, on the cells that the parent has.

A family is estimated pass by pass (`passes`). The first held counts are counts of groups of cells, given for every
child: for persons, the redistricting data. A parent that also has these counts, and no impossible cells, can always be
divided: each group is a table with the children's counts and the parent's cells as margins.

Within a group, counts by kind may have limits: persons by type of group quarters (`quarters`), or households by the
householder's origin and race (`householders`). The limits of single kinds are bounds of the real-valued problem. If the
integers exceed a limit, the nearest counts by kind that satisfy all of them are fixed, and the pass is repeated.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.topdown.dhc.householders import Householders
from mechanisms.topdown.dhc.passes import Pass, Plan
from mechanisms.topdown.dhc.quarters import Quarters
from mechanisms.topdown.feasibility import Limits
from mechanisms.topdown.least_squares import Constraints, Query, Solution, solve, solve_apart
from mechanisms.topdown.rounding import Bounds, round_children
from mechanisms.topdown.schema import add_up
from mechanisms.topdown.sets import nearest_counts, satisfies_sets

GAP = 1e-6
"""The relative duality gap at which a real-valued step ends. With a smaller gap, cells differ by less than 0.1 above
the block, and rounding moves them by up to 1."""

_ARCS = 20_000
"""The approximate number of counts of children up to which groups are rounded together: rounding takes more than linear
time."""

Read = Callable[[str, NDArray[np.int64]], tuple[NDArray[np.float64], NDArray[np.float64]]]
"""The noisy answers of all children to a query, shape (children, answers), for some of its marginal cells, and their
precisions 1/σ², shape (children,), which are 0 for missing answers."""


@dataclass(frozen=True)
class Family:
    """Siblings of the positions from `first` up to `last` in their level, and their parent's histogram.

    Attributes:
        cells, parent: shape (cells,): the cells that the parent has, ascending, and its counts; None at the root.
        held: shape (children, groups): the answers to the plan's held query.
        limiting: the limits of counts by kind in the level; None if there are none.
    """

    plan: Plan
    cells: NDArray[np.int64]
    parent: NDArray[np.int64] | None
    held: NDArray[np.int64]
    read: Read
    first: int = 0
    last: int = 1
    limiting: Quarters | Householders | None = None


@dataclass(frozen=True)
class Estimate:
    """Siblings' histograms, shape (children, cells of the family): integers that meet all constraints; with the
    solutions of all real-valued problems."""

    counts: NDArray[np.int64]
    solutions: tuple[Solution, ...]


def estimate(family: Family) -> Estimate:
    """The histograms of the children. Raises NotSolvedError if a real-valued solution could not be certified, and
    NotRoundedError if there are no integers nearby."""
    if family.parent is not None and len(family.held) == 1:
        return Estimate(family.parent[None].copy(), ())
    schema, children = family.plan.schema, len(family.held)
    if not family.cells.size:
        return Estimate(np.zeros((children, 0), dtype=np.int64), ())
    of_held = schema.marginal(family.plan.held).find(family.cells).astype(np.int64)
    held_cell, group = np.unique(of_held, return_inverse=True)
    counts = family.held[:, held_cell]
    solutions: list[Solution] = []
    for number, step in enumerate(family.plan.passes):
        problem = _Problem(family, step, group, counts, held_cell if number == 0 else None)
        counts, own = problem.solve()
        solutions += own
        group = problem.of_cell
    return Estimate(counts[:, group], tuple(solutions))


class _Problem:
    """One pass of a family: cells of the pass in order of the held query, then of kind.

    `of_cell` has the position of each of the family's cells among the cells of the pass; those are `order`ed for the
    real-valued step.
    """

    def __init__(
        self,
        family: Family,
        step: Pass,
        group: NDArray[np.int64],
        held: NDArray[np.int64],
        held_cell: NDArray[np.int64] | None,
    ) -> None:
        self.family, self.step, self.held, self.held_cell = family, step, held, held_cell
        schema = family.plan.schema
        own, first, self.of_cell = np.unique(
            schema.marginal(step.cells).find(family.cells), return_index=True, return_inverse=True
        )
        self.example = family.cells[first]
        self.group = group[first]
        self.kind = np.zeros(len(own), dtype=np.int64)
        if held_cell is not None and family.limiting is not None:
            self.kind = family.limiting.find_kinds(self.example)
        self.order = np.lexsort((self.kind, self.group))
        self.parent = None
        if family.parent is not None:
            self.parent = np.bincount(self.of_cell, family.parent, len(own)).astype(np.int64)[self.order]
        self.example, self.group, self.kind = (each[self.order] for each in (self.example, self.group, self.kind))
        # A part is the cells of a group with one kind.
        self.starts = np.flatnonzero(np.diff(self.group * 32 + self.kind, prepend=-1, append=-1))
        self.group_of_part = self.group[self.starts[:-1]]
        self.sections = np.searchsorted(self.group_of_part, np.arange(held.shape[1] + 1))

    def solve(self) -> tuple[NDArray[np.int64], list[Solution]]:
        """Integers of the cells of the pass, shape (children, cells), and the real-valued solutions."""
        lower, upper, limits = self._bound()
        everything = np.ones(len(self.group), dtype=np.bool_)
        solution = self._fit(everything, lower, upper, None)
        rounded, solutions = np.zeros(solution.x.shape, dtype=np.int64), [solution]
        self._round(solution.x, everything, rounded, None)
        broken = [
            group
            for group, own in limits.items()
            if not satisfies_sets(own.sets, self._add_parts(rounded)[:, self._parts(group)])
        ]
        if broken:
            real = self._add_parts(solution.x)
            for group in broken:
                parts = self._parts(group)
                above = None if self.parent is None else self._add_parts(self.parent[None])[0, parts]
                lower[:, parts] = upper[:, parts] = nearest_counts(real[:, parts], limits[group], above)
            again = np.isin(self.group, broken)
            rounded[:, again] = 0
            solutions.append(self._fit(again, lower, upper, rounded))
            self._round(solutions[1].x, again, rounded, lower)
        found = np.empty_like(rounded)
        found[:, self.order] = rounded
        return found, solutions

    def _parts(self, group: int) -> slice:
        return slice(int(self.sections[group]), int(self.sections[group + 1]))

    def _add_parts(self, counts: NDArray[Any]) -> NDArray[Any]:
        return np.add.reduceat(counts, self.starts[:-1], axis=1)

    def _bound(self) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[int, Limits]]:
        """The bounds of the parts, shape (children, parts), and the limits of groups with several kinds."""
        upper = self.held[:, self.group_of_part]
        lower, limits = upper.copy(), dict[int, Limits]()
        family = self.family
        if family.limiting is None or self.held_cell is None:
            return lower, upper, limits
        for group in np.unique(self.group_of_part[self.kind[self.starts[:-1]] > 0]).tolist():
            parts = self._parts(group)
            kinds = self.kind[self.starts[parts]]
            own = family.limiting.limit(family.first, family.last, int(self.held_cell[group]), kinds)
            lower[:, parts], upper[:, parts] = own.lower, own.upper
            if len(kinds) > 1:
                limits[group] = own
        return lower, upper, limits

    def _fit(
        self,
        chosen: NDArray[np.bool_],
        lower: NDArray[np.int64],
        upper: NDArray[np.int64],
        others: NDArray[np.int64] | None,
    ) -> Solution:
        """The real-valued counts of the cells of the chosen groups, given the counts of the other groups if there are
        any."""
        parts = chosen[self.starts[:-1]]
        starts = np.append(0, np.cumsum(np.diff(self.starts)[parts]))
        groups = np.unique(self.group_of_part[parts])
        sections = np.searchsorted(self.group_of_part[parts], np.append(groups, self.held.shape[1]))
        several = np.diff(sections) > 1
        totals = np.where(several, self.held[:, groups].astype(np.float64), np.nan)
        parent = None if self.parent is None else self.parent[chosen]
        constraints = Constraints(parent, starts, lower[:, parts], upper[:, parts], totals, sections)
        queries = []
        for name in (*self.step.queries, *self.step.beside):
            every = self.family.plan.schema.marginal(name).find(self.example).astype(np.int64)
            cells, own = np.unique(every[chosen], return_inverse=True)
            answers, precision = self.family.read(name, cells)
            if not precision.any():
                continue
            if others is not None:
                position = np.searchsorted(cells, every)
                known = np.append(cells, -1)[position] == every
                answers = answers - add_up(others[:, known], position[known], len(cells))
            queries.append(Query(own.astype(np.int32), precision, answers))
        if (*self.step.queries, *self.step.beside) == (self.step.cells,) and not several.any():
            return solve_apart(queries[0], constraints, GAP)
        return solve(queries, constraints, GAP)

    def _round(
        self,
        x: NDArray[np.float64],
        chosen: NDArray[np.bool_],
        rounded: NDArray[np.int64],
        kinds: NDArray[np.int64] | None,
    ) -> None:
        """Write integers for the chosen cells' real values, shape (children, chosen cells), into `rounded`. Groups are
        independent. With counts by `kinds`, shape (children, parts), these are held, and coarser queries count within
        kinds."""
        schema, group = self.family.plan.schema, self.group[chosen]
        part = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))[chosen]
        where, example = np.flatnonzero(chosen), self.example[chosen]
        queries = [schema.marginal(query).find(example).astype(np.int64) for query in self.step.rounding[:-1]]
        for first, last in _divide(group, len(x)):
            groups, of_group = np.unique(group[first:last], return_inverse=True)
            chain, bounds = [of_group], list[Bounds | None]([(self.held[:, groups],) * 2])
            if kinds is not None:
                parts, of_part = np.unique(part[first:last], return_inverse=True)
                chain.append(of_part)
                bounds.append((kinds[:, parts],) * 2)
            for query in queries:
                own = chain[-1] * (query.max() + 1) + query[first:last]
                chain.append(np.unique(own, return_inverse=True)[1])
                bounds.append(None)
            cells = where[first:last]
            rounded[:, cells] = round_children(
                np.ascontiguousarray(x[:, first:last]),
                [query.astype(np.int32) for query in chain],
                None if self.parent is None else self.parent[cells],
                bounds,
            )


def _divide(group: NDArray[np.int64], children: int) -> list[tuple[int, int]]:
    """Ranges of cells, of whole groups, that are rounded together."""
    starts = np.flatnonzero(np.diff(group, prepend=-1, append=-1))
    ranges, first = [], 0
    for end in starts[1:].tolist():
        if (end - first) * children >= _ARCS or end == starts[-1]:
            ranges.append((first, end))
            first = end
    return ranges
