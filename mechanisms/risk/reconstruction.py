"""Reconstruction of a block's records from its exact tables, how far other records fit as well, and what is certain.

The records are a histogram x of types with A x = c, x >= 0 and integer, where c are the published counts (Supplement to
"A Simulated Reconstruction and Reidentification Attack on the 2010 U.S. Census", Equation 4.1). A published 0 removes
all types that its cell counts, which leaves few of thousands. HiGHS solves the rest.
"""

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from mechanisms.risk.tiers import OUTSIDE, Counts, Shares, Tier

_EQUAL = 1e-9
"""Slopes that differ by less are one."""


class NotSolvedError(ArithmeticError):
    """No histogram has the published counts, or the solver did not find one."""


@dataclass(frozen=True)
class System:
    """The equations of a block, for the types that can occur.

    Attributes:
        types: the numbers of these types, ascending.
        upper: the most records that each can have: the least of the counts of its cells.
        members: by row, whether its cell counts each of the types, shape (rows, types); no two rows are alike.
        counts: by row, the published count.
    """

    types: NDArray[np.int64]
    upper: Counts
    members: NDArray[np.bool_]
    counts: Counts

    @classmethod
    def of(cls, tier: Tier, counts: Counts) -> "System":
        """The equations for the published counts of all cells, shape (cells,). Raises NotSolvedError if a count above 0
        has no type that can occur."""
        inside = tier.cells != OUTSIDE
        bounds = np.where(inside, counts[tier.cells], np.iinfo(np.int64).max).min(axis=0)
        types = np.flatnonzero(bounds > 0)
        cells = tier.cells[:, types]
        rows = np.unique(cells[cells != OUTSIDE])
        if counts.sum() != counts[rows].sum():
            raise NotSolvedError("a published count above 0 has no type that the other tables allow")
        members = (cells[:, None, :] == rows[None, :, None]).any(axis=0)
        members, first = np.unique(members, axis=0, return_index=True)
        return cls(types, bounds[types], members, counts[rows][first])

    def reconstruct(self, costs: NDArray[np.float64] | None = None) -> Counts:
        """A histogram of the types with the published counts, shape (types,); one of least cost, if there are costs.
        Raises NotSolvedError."""
        if not len(self.types):
            return np.zeros(0, dtype=np.int64)
        costs = np.zeros(len(self.types)) if costs is None else costs
        return _minimize(_Program(costs, self.upper, self.members.astype(float), self.counts, self.counts))

    def differ_most(self, solution: Counts) -> Counts:
        """A histogram that has as few records in common with a solution as any.

        As both have N records, L1 is 2(N − Σ min(x*, x)). So it minimizes Σ y over the types of the solution, where
        y = min(x*, x). If x may exceed c = x*, it is y + w with y <= c, and w > 0 only if y = c, which one binary
        variable says.
        """
        free = np.flatnonzero((solution > 0) & (self.upper > solution))
        types, extra = len(self.types), len(free)
        first, excess = solution[free], (self.upper - solution)[free]
        costs = np.concatenate([(solution > 0).astype(float), np.zeros(2 * extra)])
        upper = np.concatenate([self.upper, excess, np.ones(extra, dtype=np.int64)])
        upper[free] = first
        one, none = np.eye(extra), np.zeros((extra, extra))
        reached = np.zeros((extra, types))
        reached[np.arange(extra), free] = 1
        matrix = np.block(
            [
                [self.members.astype(float), self.members[:, free].astype(float), np.zeros((len(self.counts), extra))],
                [np.zeros((extra, types)), one, -np.diag(excess)],
                [reached, none, -np.diag(first)],
            ]
        )
        infinite = np.full(extra, np.inf)
        lower_rows = np.concatenate([self.counts, -infinite, np.zeros(extra)])
        upper_rows = np.concatenate([self.counts, np.zeros(extra), infinite])
        found = _minimize(_Program(costs, upper, matrix, lower_rows, upper_rows))
        other = found[:types]
        other[free] += found[types : types + extra]
        return other

    def count_provable(self, solution: Counts, other: Counts) -> int:
        """The number of records that every histogram with the published counts has: Σ min x over the types of a
        solution. `other` is the histogram that differs most from it. If it does not differ, all records are certain;
        and a type that it lacks needs no program."""
        if np.array_equal(solution, other):
            return int(solution.sum())
        least = np.minimum(solution, other)
        provable = 0
        for place in np.flatnonzero(least):
            costs = np.zeros(len(self.types))
            costs[place] = 1
            provable += int(self.reconstruct(costs)[place])
        return provable


def find_likeliest(cells: NDArray[np.integer[Any]], costs_of: Shares, persons: Counts, prior: Shares) -> Counts:
    """The likeliest histogram of a block behind counts that were changed one by one, shape (frames, categories), for an
    attacker who knows how many persons are in each frame: it minimizes Σ −ln P(published | count) over cells, less
    Σ x ln π (which leaves out ln x!, and so is exact only for x up to 1).

    Between integers, such costs are taken as piecewise linear. A count is the sum of variables, one for each slope. If
    slopes ascend, the cheapest are used first; if they do not, the order of steps by 1 is a constraint.

    Args:
        cells: by table and type, the number of the cell; or `OUTSIDE`.
        costs_of: by cell, −ln P(published | 0, 1, …, all persons), infinite if that is impossible.
        persons: by frame, shape (frames,).
        prior: π; categories of probability 0 are left out.

    Raises NotSolvedError if nothing has what is published.
    """
    frames, categories = np.flatnonzero(persons), np.flatnonzero(prior)
    types = (frames[:, None] * len(prior) + categories).ravel()
    upper = [np.repeat(persons[frames], len(categories)).astype(float)]
    costs = [-np.log(np.tile(prior[categories], len(frames)))]
    firsts, ones = range(0, len(types), len(categories)), np.ones(len(categories))
    rows: list[tuple[NDArray[np.int64], NDArray[np.float64], float, float]] = [
        (np.arange(first, first + len(categories)), ones, number, number)
        for first, number in zip(firsts, persons[frames].tolist(), strict=True)
    ]
    own, columns, convex = cells[:, types], len(types), True
    for cell in np.unique(own[own != OUTSIDE]).tolist():
        members = np.flatnonzero((own == cell).any(axis=0))
        number = int(persons[np.unique(types[members] // len(prior))].sum())
        possible = np.flatnonzero(np.isfinite(costs_of[cell, : number + 1]))
        if not len(possible) or np.any(np.diff(possible) > 1):
            raise NotSolvedError("a published count has no true one that the others allow")
        least = int(possible[0])
        slopes, widths = np.diff(costs_of[cell, possible]), np.ones(len(possible) - 1)
        if ascending := bool(np.all(np.diff(slopes) > -_EQUAL)):
            begins = np.flatnonzero(np.append(True, np.diff(slopes) > _EQUAL)[: len(slopes)])
            slopes, widths = slopes[begins], np.diff(np.append(begins, len(slopes))).astype(float)
        steps = np.arange(columns, columns + len(slopes))
        columns, convex = columns + len(steps), convex and ascending
        costs.append(slopes)
        upper.append(widths)
        factors = np.repeat([1.0, -1.0], [len(members), len(steps)])
        rows.append((np.concatenate([members, steps]), factors, least, least))
        if not ascending:
            rows += [(pair, np.array([1.0, -1.0]), 0, np.inf) for pair in np.stack([steps[:-1], steps[1:]], axis=1)]
    matrix = np.zeros((len(rows), columns))
    for row, (places, factors, _, _) in enumerate(rows):
        matrix[row, places] = factors
    lower_rows, upper_rows = (np.array([row[side] for row in rows], dtype=np.float64) for side in (2, 3))
    whole = len(types) if convex else columns
    program = _Program(np.concatenate(costs), np.concatenate(upper), matrix, lower_rows, upper_rows, whole)
    histogram = np.zeros((len(persons), len(prior)), dtype=np.int64)
    histogram.ravel()[types] = _minimize(program)[: len(types)]
    return histogram


def measure_variability(solution: Counts, other: Counts) -> float:
    """The share of records in which two histograms of equally many records differ, from 0 to 1: L1 / 2N; with the one
    that differs most, the solution variability (Equation 4.6)."""
    return float(np.abs(solution - other).sum() / (2 * max(1, solution.sum())))


@dataclass(frozen=True)
class _Program:
    """min costs·x for 0 <= x <= upper with lower_rows <= matrix x <= upper_rows, of which the first `whole` are
    integers; those that are left are integers at a least cost if these are."""

    costs: NDArray[np.float64]
    upper: NDArray[np.generic]
    matrix: NDArray[np.float64]
    lower_rows: NDArray[np.generic]
    upper_rows: NDArray[np.generic]
    whole: int | None = None


def _minimize(program: _Program) -> Counts:
    rows, columns = program.matrix.shape
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = columns, rows
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = program.costs, np.zeros(columns), program.upper.astype(float)
    lp.row_lower_, lp.row_upper_ = program.lower_rows.astype(float), program.upper_rows.astype(float)
    row, column = np.nonzero(program.matrix)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.searchsorted(row, np.arange(rows + 1))
    lp.a_matrix_.index_, lp.a_matrix_.value_ = column, program.matrix[row, column]
    whole = columns if program.whole is None else program.whole
    kinds = [highspy.HighsVarType.kInteger] * whole, [highspy.HighsVarType.kContinuous] * (columns - whole)
    lp.integrality_ = [*kinds[0], *kinds[1]]
    solver = highspy.Highs()
    for option, setting in (("output_flag", False), ("threads", 1), ("mip_rel_gap", 0.0), ("random_seed", 0)):
        solver.setOptionValue(option, setting)
    solver.passModel(lp)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise NotSolvedError("no histogram of records has the published counts")
    found = np.rint(np.array(solver.getSolution().col_value)).astype(np.int64)
    sums = program.matrix @ found
    if np.any(sums < program.lower_rows) or np.any(sums > program.upper_rows):
        raise NotSolvedError("the solver's histogram does not have the published counts")
    return found
