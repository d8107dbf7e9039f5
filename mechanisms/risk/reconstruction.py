"""Reconstruction of a block's records from its exact tables, the variability of the solutions, and the certain records.

The records are a histogram x of types with A x = c, x >= 0 and integer, where c are the published counts (Supplement to
"A Simulated Reconstruction and Reidentification Attack on the 2010 U.S. Census", Equation 4.1). A published 0 removes
all types that its cell counts, which leaves few of thousands. HiGHS solves the rest.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from mechanisms.risk.tiers import OUTSIDE, Counts, Shares, Tier

_EQUAL = 1e-9
"""Slopes that differ by less are equal."""

_WHOLE = 1e-6
"""Solutions of a linear program that differ from an integer by less are that integer."""


class NotSolvedError(ArithmeticError):
    """No histogram has the published counts, or the solver did not find one."""


Row = tuple[NDArray[np.int64], NDArray[np.float64], float, float]
"""An inequality: the positions and factors of its variables, and the least and the greatest sum."""


@dataclass(frozen=True)
class System:
    """The equations of a block, for the types that can occur.

    Attributes:
        types: the numbers of these types, ascending.
        upper: the most records that each type can have: the least of the counts of its cells.
        members: by row, the positions of the types that its cell counts; no two rows are alike.
        counts: by row, the published count.
        exact: by row, whether the count is exact; a count of the tract is an upper bound.
    """

    types: NDArray[np.int64]
    upper: Counts
    members: tuple[NDArray[np.int64], ...]
    counts: Counts
    exact: NDArray[np.bool_]

    @classmethod
    def of(cls, tier: Tier, counts: Counts, around: Counts | None = None) -> "System":
        """The equations for the published counts of all cells, shape (cells,); those of the tract bound a block from
        above. Raises NotSolvedError if a count above 0 has no type that can occur."""
        cells, exact = tier.cells, np.ones(len(counts), dtype=np.bool_)
        if tier.of_tract is not None and around is not None:
            tract, first = tier.of_tract, len(counts)
            further = tract.by_group.cells
            cells = np.concatenate([tract.coarse.cells, np.where(further == OUTSIDE, OUTSIDE, first + further)])
            counts = np.concatenate([counts, tract.add_up(around)])
            exact = np.arange(len(counts)) < first
        types = find_possible(cells, counts)
        cells = cells[:, types]
        bounds = np.where(cells != OUTSIDE, counts[cells], np.iinfo(np.int64).max).min(axis=0)
        numbers, _, members_of = _list_members(cells)
        if counts[exact].sum() != counts[numbers[exact[numbers]]].sum():
            raise NotSolvedError("a published count above 0 has no type that the other tables allow")
        rows: dict[bytes, tuple[int, NDArray[np.int64]]] = {}
        for number, members in zip(numbers.tolist(), members_of, strict=True):
            if exact[number] or counts[number] < bounds[members].sum():
                rows.setdefault(members.tobytes(), (number, members))
        kept = np.array([number for number, _ in rows.values()], dtype=np.int64)
        return cls(types, bounds, tuple(members for _, members in rows.values()), counts[kept], exact[kept])

    @classmethod
    def of_tract(cls, tier: Tier, counts: Counts, around: Counts) -> "System":
        """The equations of all blocks of a tract together: of their counts, shape (blocks, cells), and of those of the
        tract, shape (cells,). Types are numbered through all blocks. Single years are considered only in the age groups
        that the tables of a block leave possible. Raises NotSolvedError as `of`."""
        assert tier.of_tract is not None
        tract, (frames, categories) = tier.of_tract.tables, tier.shape
        most = np.where(tract.cells != OUTSIDE, around[tract.cells], np.iinfo(np.int64).max).min(axis=0)
        frames_of = [np.flatnonzero(tier.of_tract.group == group) for group in range(len(tier.of_tract.coarse.frames))]
        types, upper = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        members: list[NDArray[np.int64]] = []
        rows: list[Counts] = []
        first = 0
        for block, of_block in enumerate(counts):
            system, places = cls.of(tier, of_block, around), []
            for kind, of_kind in zip(system.types.tolist(), system.upper.tolist(), strict=True):
                years = frames_of[kind // categories] * categories + kind % categories
                years = years[most[years] > 0]
                places.append(np.arange(first, first + len(years)))
                types.append(block * frames * categories + years)
                upper.append(np.minimum(most[years], of_kind))
                first += len(years)
            rows.append(system.counts[system.exact])
            exact = np.flatnonzero(system.exact).tolist()
            members += [np.concatenate([places[member] for member in system.members[row]]) for row in exact]
        numbers = np.concatenate(types)
        cells, _, members_of_tract = _list_members(tract.cells[:, numbers % (frames * categories)])
        members += members_of_tract
        published = np.concatenate([*rows, around[cells]])
        return cls(numbers, np.concatenate(upper), tuple(members), published, np.ones(len(published), dtype=np.bool_))

    @property
    def rows(self) -> list[Row]:
        least = np.where(self.exact, self.counts, 0).tolist()
        return [
            (members, np.ones(len(members)), low, high)
            for members, low, high in zip(self.members, least, self.counts.tolist(), strict=True)
        ]

    def reconstruct(self, costs: NDArray[np.float64] | None = None) -> Counts:
        """A histogram of the types with the published counts, shape (types,); one of least cost, if there are costs.
        Raises NotSolvedError."""
        if not len(self.types):
            return np.zeros(0, dtype=np.int64)
        costs = np.zeros(len(self.types)) if costs is None else costs
        return _minimize(_Program(costs, self.upper, self.rows))

    def differ_most(self, solution: Counts) -> Counts:
        """A histogram that has as few records in common with a solution as any.

        As both have N records, L1 is 2(N − Σ min(x*, x)). So it minimizes Σ y over the types of the solution, where
        y = min(x*, x). If x may exceed c = x*, it is y + w with y <= c, and w > 0 only if y = c, which one binary
        variable ensures.
        """
        if not len(self.types):
            return solution
        free = np.flatnonzero((solution > 0) & (self.upper > solution))
        types, extra = len(self.types), len(free)
        first, excess = solution[free], (self.upper - solution)[free]
        costs = np.concatenate([(solution > 0).astype(float), np.zeros(2 * extra)])
        upper = np.concatenate([self.upper, excess, np.ones(extra, dtype=np.int64)])
        upper[free] = first
        excess_of = np.full(types, OUTSIDE)
        excess_of[free] = types + np.arange(extra)
        rows = []
        for members, _, low, high in self.rows:
            also = excess_of[members]
            columns = np.concatenate([members, also[also != OUTSIDE]])
            rows.append((columns, np.ones(len(columns)), low, high))
        for place, (type_, least, most) in enumerate(zip(free.tolist(), first.tolist(), excess.tolist(), strict=True)):
            above, reached = types + place, types + extra + place
            rows.append((np.array([above, reached]), np.array([1.0, -most]), -np.inf, 0))
            rows.append((np.array([type_, reached]), np.array([1.0, -least]), 0, np.inf))
        found = _minimize(_Program(costs, upper, rows))
        other = found[:types]
        other[free] += found[types : types + extra]
        return other

    def rank(self, solution: Counts, other: Counts, costs: Shares) -> Shares:
        """The confidence in each type, shape (types,): the share of reconstructions in which it occurs, each with
        random costs, shape (reconstructions, types). It orders records, as Dick et al. ("Confidence-ranked
        reconstruction of census microdata from published statistics", PNAS 2023) do with other solvers. It is not a
        probability: vertices are not uniform draws. If `other`, the histogram that differs most, is the solution, all
        are certain."""
        if np.array_equal(solution, other):
            return (solution > 0).astype(np.float64)
        return np.asarray(np.mean([found > 0 for found in self._reconstruct_each(costs)], axis=0))

    def count_provable(self, solution: Counts, other: Counts) -> int:
        """The number of records that every histogram with the published counts has: Σ min x over the types of a
        solution. `other` is the histogram that differs most from it. If it does not differ, all records are certain. A
        type that it lacks needs no program."""
        if np.array_equal(solution, other):
            return int(solution.sum())
        shared = np.flatnonzero(np.minimum(solution, other))
        costs = np.equal.outer(shared, np.arange(len(self.types))).astype(np.float64)
        return sum(int(found[place]) for place, found in zip(shared, self._reconstruct_each(costs), strict=True))

    def _reconstruct_each(self, costs: Shares) -> Iterator[Counts]:
        """As `reconstruct` for each row of costs, shape (programs, types)."""
        program = _Program(np.zeros(len(self.types)), self.upper, self.rows)
        relaxed = _Solver(program, whole=0)
        for row in costs:
            # Starting from the last vertex takes a fraction of the time, and most vertices are integers.
            found = relaxed.minimize(row)
            yield self.reconstruct(row) if found is None else found


def find_likeliest(
    cells: NDArray[np.integer[Any]],
    costs_of: Shares,
    persons: Counts,
    prior: Shares,
    weight: Counts | None = None,
    spacing: Counts | None = None,
    gap: float = 0.0,
) -> Counts:
    """The likeliest histogram of a block behind counts that were changed one by one, shape (frames, categories), for an
    attacker who knows the number of persons in each frame: it minimizes Σ −ln P(published | count) over cells, less Σ x
    ln π (which omits ln x!, and so is exact only for x up to 1).

    Between integers, such costs are taken as piecewise linear. A count is the sum of variables, one for each slope. If
    slopes ascend, the cheapest are used first; if they do not, the order of steps by 1 is a constraint.

    Args:
        cells: by table and type, the number of the cell; or `OUTSIDE`.
        costs_of: by cell, −ln P(published | 0, 1, …, all persons), infinite if that is impossible.
        persons: by frame, shape (frames,).
        prior: π, shape (categories,), or of each frame; categories of probability 0 are omitted.
        weight: by table and type, the amount that a record adds to its cell, the same in all types of a frame; 1 if
            None.
        spacing: by cell, the fewest counts that one slope spans, where the costs are convex; 1 if None.
        gap: the share by which the costs may exceed the least ones; closing the gap can take minutes.

    Raises NotSolvedError if no histogram has the published counts.
    """
    shape = len(persons), prior.shape[-1]
    prior = np.broadcast_to(prior, shape)
    types = np.flatnonzero((prior > 0) & (persons > 0)[:, None])
    frame, ones = types // shape[1], np.ones(shape[1])
    upper = [persons[frame].astype(float)]
    costs = [-np.log(prior.ravel()[types])]
    starts = np.flatnonzero(np.diff(frame, prepend=-1))
    rows: list[Row] = [
        (places, ones[: len(places)], persons[frame[places[0]]], persons[frame[places[0]]])
        for places in np.split(np.arange(len(types)), starts[1:])
    ]
    columns, convex = len(types), True
    numbers, tables, members_of = _list_members(cells[:, types])
    lengths = [len(members) for members in members_of]
    row, member = np.repeat(np.arange(len(numbers)), lengths), np.concatenate([np.zeros(0, dtype=int), *members_of])
    counted = np.ones(len(member)) if weight is None else weight[tables[row], types[member]].astype(np.float64)
    # A cell may have all persons of each frame that it counts.
    is_first = (np.diff(row, prepend=-1) > 0) | (np.diff(frame[member], prepend=-1) != 0)
    most = np.bincount(row[is_first], (persons[frame[member]] * counted)[is_first], len(numbers)).astype(int)
    for cell, number, members, factors in zip(
        numbers.tolist(), most.tolist(), members_of, np.split(counted, np.cumsum(lengths)[:-1]), strict=True
    ):
        found = _find_slopes(costs_of[cell, : number + 1].tobytes(), 1 if spacing is None else int(spacing[cell]))
        if found is None:
            raise NotSolvedError("a published count has no true one that the others allow")
        least, slopes, widths, ascending = found
        steps = np.arange(columns, columns + len(slopes))
        columns, convex = columns + len(steps), convex and ascending
        costs.append(slopes)
        upper.append(widths)
        rows.append((np.append(members, steps), np.append(factors, np.full(len(steps), -1.0)), least, least))
        if not ascending:
            rows += [(pair, np.array([1.0, -1.0]), 0, np.inf) for pair in np.stack([steps[:-1], steps[1:]], axis=1)]
    whole = len(types) if convex else columns
    program = _Program(np.concatenate(costs), np.concatenate(upper), rows, whole, gap)
    histogram = np.zeros(shape, dtype=np.int64)
    histogram.ravel()[types] = _minimize(program)[: len(types)]
    return histogram


@lru_cache(maxsize=10_000)
def _find_slopes(costs: bytes, spacing: int) -> tuple[int, Shares, Shares, bool] | None:
    """From the costs of 0, 1, …, as numbers of 8 bytes: the least possible number, the slopes from there with their
    widths, and whether they ascend; None if no number is possible, or a number between possible ones is not. Many cells
    have the same costs."""
    of_numbers = np.frombuffer(costs)
    possible = np.flatnonzero(np.isfinite(of_numbers))
    if not len(possible) or possible[-1] - possible[0] >= len(possible):
        return None
    slopes, widths = np.diff(of_numbers[possible]), np.ones(len(possible) - 1)
    bends = np.diff(slopes)
    if ascending := bool(bends.min(initial=0) > -_EQUAL):
        begins = np.flatnonzero(np.append(True, bends > _EQUAL)[: len(slopes)])
        ends = np.append(begins[::spacing], len(slopes))
        widths = np.diff(ends).astype(float)
        slopes = np.diff(of_numbers[possible[ends]]) / widths
    return int(possible[0]), slopes, widths, ascending


def measure_variability(solution: Counts, other: Counts) -> float:
    """The share of records in which two histograms of equally many records differ, from 0 to 1: L1 / 2N; for the
    histogram that differs most, the solution variability (Equation 4.6)."""
    return float(np.abs(solution - other).sum() / (2 * max(1, solution.sum())))


def find_possible(cells: NDArray[np.integer[Any]], counts: Counts) -> NDArray[np.int64]:
    """The types that no published 0 removes, from the cell of each type by table: each table leaves few to the next."""
    types = np.arange(cells.shape[1])
    for of_table in cells:
        own = of_table[types]
        types = types[(own == OUTSIDE) | (counts[own] > 0)]
    return types


def _list_members(
    cells: NDArray[np.integer[Any]],
) -> tuple[NDArray[np.integer[Any]], NDArray[np.int64], list[NDArray[np.int64]]]:
    """From the cell of each type by table, the cells that count any type, ascending, with their tables and the
    positions of their types."""
    table, place = np.nonzero(cells != OUTSIDE)
    cell = cells[table, place]
    order = np.argsort(cell, kind="stable")
    numbers, starts = np.unique(cell[order], return_index=True)
    members = np.split(place[order], starts[1:]) if len(numbers) else []
    return numbers, table[order[starts]], members


@dataclass(frozen=True)
class _Program:
    """min costs·x for 0 <= x <= upper and some inequalities, of which the first `whole` are integers; the rest are
    integers at a least cost if the first are. The solution exceeds the minimum by at most the share `gap`."""

    costs: NDArray[np.float64]
    upper: NDArray[np.generic]
    rows: Sequence[Row]
    whole: int | None = None
    gap: float = 0.0


class _Solver:
    """HiGHS with a program, of which the first `whole` variables are integers."""

    def __init__(self, program: _Program, whole: int) -> None:
        rows, columns = len(program.rows), len(program.costs)
        self._starts = np.cumsum([0, *(len(places) for places, *_ in program.rows)])
        self._places, self._factors = (np.concatenate([row[part] for row in program.rows]) for part in (0, 1))
        self._lower, self._upper = (np.array([row[part] for row in program.rows], dtype=np.float64) for part in (2, 3))
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = columns, rows
        lp.col_cost_, lp.col_lower_, lp.col_upper_ = program.costs, np.zeros(columns), program.upper.astype(float)
        lp.row_lower_, lp.row_upper_ = self._lower, self._upper
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = self._starts, self._places, self._factors
        kinds = [highspy.HighsVarType.kInteger] * whole, [highspy.HighsVarType.kContinuous] * (columns - whole)
        lp.integrality_ = [*kinds[0], *kinds[1]] if whole else []
        self._solver, self._columns = highspy.Highs(), np.arange(columns, dtype=np.int32)
        options = {"output_flag": False, "threads": 1, "mip_rel_gap": program.gap, "random_seed": 0}
        for option, setting in options.items():
            self._solver.setOptionValue(option, setting)
        self._solver.passModel(lp)

    def solve(self) -> NDArray[np.float64] | None:
        """The variables at least cost; None if there are none."""
        self._solver.run()
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        return np.array(self._solver.getSolution().col_value)

    def minimize(self, costs: NDArray[np.float64]) -> Counts | None:
        """The variables at the least of other costs, if all are integers there."""
        self._solver.changeColsCost(len(costs), self._columns, costs)
        found = self.solve()
        if found is None:
            return None
        whole = np.rint(found).astype(np.int64)
        return whole if np.abs(found - whole).max() < _WHOLE and self.holds(whole) else None

    def holds(self, found: Counts) -> bool:
        """Whether integers satisfy the inequalities exactly."""
        sums = np.add.reduceat(self._factors * found[self._places], self._starts[:-1])
        return bool(np.all(sums >= self._lower) and np.all(sums <= self._upper))


def _minimize(program: _Program) -> Counts:
    solver = _Solver(program, len(program.costs) if program.whole is None else program.whole)
    solution = solver.solve()
    if solution is None:
        raise NotSolvedError("no histogram of records has the published counts")
    found = np.rint(solution).astype(np.int64)
    if not solver.holds(found):
        raise NotSolvedError("the solver's histogram does not have the published counts")
    return found
