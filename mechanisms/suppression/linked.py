"""Linked tables of counts with suppressed cells: the interval that the published cells leave a suppressed cell, and the
further cells to suppress until that interval is wide enough.

All tables are sums of one cross of all variables, whose combinations are the unknowns x >= 0 of a linear program. A
published 0 excludes all combinations in it. A suppressed cell is at least 1, because zeros are published. The program
is a relaxation: counts are integers, and the ends of an interval are rounded inwards.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor, inf, prod

import highspy
import numpy as np
from numpy.typing import NDArray

from mechanisms.refusal import RefusedError

Counts = NDArray[np.int64]

SUPPRESSED = -1
"""Stands for a count that is not published."""

OUTSIDE = -1
"""Stands for the cell of a combination that a table does not count."""

MOST_UNKNOWNS = 20_000
"""The most combinations that published zeros leave possible."""

_TOLERANCE = 1e-6
_GREATEST = 1e6
"""The value to which the greatest total of a magnitude is scaled, so that the solver's tolerances fit."""


class LinkedTablesError(RefusedError):
    """The tables do not fit together, or are too large."""


@dataclass(frozen=True)
class Tables:
    """The linked tables.

    Attributes:
        sizes: the number of values of each variable.
        variables: by table, the positions of its variables, ascending. The cells of a table are numbered with the last
            variable varying fastest; the cells of all tables are numbered one table after the other.
    """

    sizes: tuple[int, ...]
    variables: tuple[tuple[int, ...], ...]

    @cached_property
    def cell_of(self) -> Counts:
        """By table and combination, the number of the cell; shape (tables, combinations)."""
        places = np.unravel_index(np.arange(prod(self.sizes)), self.sizes)
        rows, first = [], 0
        for chosen in self.variables:
            shape = [self.sizes[variable] for variable in chosen]
            cell = np.ravel_multi_index([places[variable] for variable in chosen], shape)
            rows.append(first + cell)
            first += prod(shape)
        return np.stack(rows).astype(np.int64)

    @property
    def cells(self) -> int:
        return sum(prod(self.sizes[variable] for variable in chosen) for chosen in self.variables)

    def add_up(self, combinations: Counts) -> Counts:
        """The counts of all cells from those of all combinations."""
        counts = np.zeros(self.cells, dtype=np.int64)
        for cell in self.cell_of:
            np.add.at(counts, cell, combinations)
        return counts


class Attacker:
    """The values that the published cells allow. `published`, shape (cells,), has `SUPPRESSED` for unpublished cells;
    `cell_of` is `Tables.cell_of`, or has `OUTSIDE` for combinations that a table does not count. A suppressed cell is
    at least `least`: 1 if it counts records, 0 if it is a total of a magnitude.

    Every solution of a linear program shows values that all cells can have, also after more is suppressed. So most
    cells need no program of their own. Raises LinkedTablesError if the cells do not fit together, or too many
    combinations are possible.
    """

    def __init__(self, cell_of: Counts, published: Counts, least: int = 1) -> None:
        possible = np.flatnonzero(np.all((cell_of == OUTSIDE) | (published[cell_of] != 0), axis=0))
        if len(possible) > MOST_UNKNOWNS:
            raise LinkedTablesError(f"more than {MOST_UNKNOWNS:,} combinations are possible; declare fewer variables")
        self.published, self._unknowns, rows = published.copy(), len(possible), cell_of[:, possible]
        cells, order = np.unique(rows[rows != OUTSIDE]), np.argsort(rows.ravel(), kind="stable")
        self._at_least, self._unit = least, 1.0 if least else max(1.0, published.max(initial=0) / _GREATEST)
        if not np.isin(np.flatnonzero((published > 0) | ((published == SUPPRESSED) & (least > 0))), cells).all():
            raise LinkedTablesError("no counts add up to all published cells")
        starts = np.searchsorted(rows.ravel()[order], cells)
        members = np.split(order % max(1, self._unknowns), starts)[1:]
        self._members = dict(zip(cells.tolist(), members, strict=True))
        self._least, self._most = np.full(len(published), inf), np.full(len(published), -inf)
        self._solver = _start(np.zeros(self._unknowns))
        for cell, of_cell in self._members.items():
            _require(self._solver, *self._bounds(cell), of_cell)
        self._optimize(np.zeros(0, dtype=np.int64), 1)

    def _bounds(self, cell: int) -> tuple[float, float]:
        count = int(self.published[cell])
        return (self._at_least, highspy.kHighsInf) if count == SUPPRESSED else (count / self._unit, count / self._unit)

    def suppress(self, cells: Counts) -> None:
        """Suppress further cells."""
        self.published[cells] = SUPPRESSED
        for row, cell in enumerate(self._members):
            if cell in cells:
                self._solver.changeRowBounds(row, *self._bounds(cell))

    def find_ends(self, total: int, need: int) -> tuple[int, int]:
        """The lowest and the highest value that must be possible for a total, with a margin for the solver's tolerance.
        Raises LinkedTablesError if that margin is more than the total."""
        margin = int(2 * _TOLERANCE * self._unit)
        if total < margin:
            raise LinkedTablesError("a cell that few records dominate has a total too small beside the greatest one")
        return max(0, total - need - margin), total + need + margin

    def find_interval(self, cell: int) -> tuple[float, float]:
        """The least and the greatest integers that a cell can be, as far as the linear program can tell."""
        least, greatest = self._optimize(self._members[cell], 1), -self._optimize(self._members[cell], -1)
        return ceil(least - _TOLERANCE), inf if greatest == inf else floor(greatest + _TOLERANCE)

    def is_wide(self, cell: int, width: int) -> bool:
        """Whether the interval of a cell (`find_interval`) has at least this width."""
        for sign in (0, -1, 1):
            if sign and self._optimize(self._members[cell], sign) == -inf:
                return True
            if floor(self._most[cell] + _TOLERANCE) - ceil(self._least[cell] - _TOLERANCE) >= width:
                return True
        return False

    def reaches(self, cell: int, least: int, most: int) -> bool:
        """Whether a cell can be as low as `least` and as high as `most`, in units of the published numbers."""
        if cell not in self._members:
            return False
        for sign in (0, -1, 1):
            if sign and self._optimize(self._members[cell], sign) == -inf:
                self._most[cell] = inf
            low, high = self._least[cell] - _TOLERANCE, self._most[cell] + _TOLERANCE
            if low <= least / self._unit and high >= most / self._unit:
                return True
        return False

    def _optimize(self, members: Counts, sign: int) -> float:
        """The least sum of some unknowns times a sign; -inf if there is none."""
        columns = np.arange(self._unknowns, dtype=np.int32)
        costs = np.zeros(self._unknowns)
        costs[members] = sign
        self._solver.changeColsCost(self._unknowns, columns, costs)
        optimum = _solve(self._solver)
        if optimum > -inf:
            sums = np.array(self._solver.getSolution().row_value)
            cells = list(self._members)
            self._least[cells] = np.minimum(self._least[cells], sums)
            self._most[cells] = np.maximum(self._most[cells], sums)
        return optimum

    def widen(self, cell: int, width: int, true: Counts, ends: tuple[int, int] | None = None) -> Counts:
        """Further cells to suppress, the cheapest by a linear program, so that two tables differ in a cell by `width`;
        or so that the cell has at most the first of `ends` in one, and at least the second in the other.

        In both tables, a published cell has its count, unless it is one of the cells to suppress. The cost of such a
        cell is its count times its change.
        """
        unknowns = self._unknowns
        free = np.array([number for number in self._members if self.published[number] != SUPPRESSED], dtype=np.int64)
        change = {int(number): 2 * unknowns + at for at, number in enumerate(free)}
        solver = _start(np.concatenate([np.zeros(2 * unknowns), true[free] / self._unit]))
        for number, members in self._members.items():
            for first in (0, unknowns):
                _require(solver, self._at_least, highspy.kHighsInf, first + members)
                if number in change:
                    count, at = float(true[number] / self._unit), np.array([change[number]])
                    _require(solver, count, highspy.kHighsInf, first + members, at)
                    _require(solver, -highspy.kHighsInf, count, first + members, at, -1)
        chosen = self._members[cell]
        if ends is None:
            _require(solver, float(width), highspy.kHighsInf, unknowns + chosen, chosen, -1)
        else:
            _require(solver, -highspy.kHighsInf, ends[0] / self._unit, chosen)
            _require(solver, ends[1] / self._unit, highspy.kHighsInf, unknowns + chosen)
        _solve(solver)
        moved = np.array(solver.getSolution().col_value)[2 * unknowns :]
        return free[moved > _TOLERANCE]


def _start(costs: NDArray[np.float64]) -> highspy.Highs:
    """A solver with variables that are not negative."""
    solver = highspy.Highs()
    for option, setting in (("output_flag", False), ("threads", 1), ("solver", "simplex"), ("random_seed", 0)):
        solver.setOptionValue(option, setting)
    columns = np.arange(len(costs), dtype=np.int32)
    solver.addVars(len(costs), np.zeros(len(costs)), np.full(len(costs), highspy.kHighsInf))
    solver.changeColsCost(len(costs), columns, costs)
    return solver


def _require(
    solver: highspy.Highs, least: float, most: float, added: Counts, others: Counts | None = None, sign: int = 1
) -> None:
    """Require the sum of some variables, plus others times a sign, to lie between bounds."""
    columns, values = added, np.ones(len(added))
    if others is not None:
        columns, values = np.concatenate([added, others]), np.append(values, np.full(len(others), float(sign)))
    solver.addRow(least, most, len(columns), columns.astype(np.int32), values)


def _solve(solver: highspy.Highs) -> float:
    """The optimum; -inf if there is none. Raises LinkedTablesError if the program is infeasible."""
    solver.run()
    status, statuses = solver.getModelStatus(), highspy.HighsModelStatus
    if status == statuses.kUnknown:
        # A start from the last basis can lose its way in numbers; one from scratch does not.
        solver.clearSolver()
        solver.run()
        status = solver.getModelStatus()
    if status in (statuses.kOptimal, statuses.kModelEmpty):
        return float(solver.getInfo().objective_function_value)
    if status == statuses.kUnbounded:
        return -inf
    if status == statuses.kInfeasible:
        raise LinkedTablesError("no counts add up to all published cells")
    raise LinkedTablesError(f"HiGHS gives {solver.modelStatusToString(status)}")


def suppress(cell_of: Counts, true: Counts, primary: Sequence[int], width: int) -> Counts:
    """All cells, with `SUPPRESSED` for the primary ones and for enough others to leave each suppressed cell an interval
    of `width` or more. `true`, shape (cells,), are sums of some combinations.

    Each cell is widened in turn. Suppressing more cells never narrows an interval, so no cell is checked again.
    """
    published = true.copy()
    published[list(primary)] = SUPPRESSED
    attacker, waiting = Attacker(cell_of, published), deque(primary)
    while waiting:
        cell, asked = waiting.popleft(), width
        while not attacker.is_wide(cell, width):
            further = attacker.widen(cell, asked, true)
            # An interval of fractions may hold one integer less.
            asked += not len(further)
            attacker.suppress(further)
            waiting.extend(further.tolist())
    return attacker.published


def count_narrow(cell_of: Counts, published: Counts, width: int) -> int:
    """How many suppressed cells have an interval below `width`. Raises LinkedTablesError if no counts add up to the
    published cells."""
    attacker = Attacker(cell_of, published)
    return sum(not attacker.is_wide(int(cell), width) for cell in np.flatnonzero(published == SUPPRESSED))


def suppress_totals(cell_of: Counts, true: Counts, hidden: NDArray[np.bool_], needs: Counts) -> NDArray[np.bool_]:
    """Which cells to suppress, including the cells already `hidden`, so that totals of each cell that are `needs` below
    (but not below 0) and above its own stay possible. `true`, shape (cells,), are totals of a magnitude; `needs` is 0
    for cells that need no protection."""
    attacker = Attacker(cell_of, np.where(hidden, SUPPRESSED, true), 0)
    for cell in np.flatnonzero(needs).tolist():
        total, need = int(true[cell]), int(needs[cell])
        asked, ends = need, attacker.find_ends(total, need)
        while not attacker.reaches(cell, *ends):
            further = attacker.widen(cell, 0, true, attacker.find_ends(total, asked))
            # The solver may fall short of an end by a rounding.
            asked *= 1 if len(further) else 2
            attacker.suppress(further)
    return attacker.published == SUPPRESSED


def count_revealed(cell_of: Counts, published: Counts, true: Counts, needs: Counts) -> int:
    """How many totals that need protection are published, or known too closely. Raises LinkedTablesError if no totals
    add up to the published ones."""
    attacker, revealed = Attacker(cell_of, published, 0), 0
    for cell in np.flatnonzero(needs).tolist():
        ends = attacker.find_ends(int(true[cell]), int(needs[cell]))
        revealed += published[cell] != SUPPRESSED or not attacker.reaches(cell, *ends)
    return revealed


def rank_contributions(
    cell_of: Counts, combination: Counts, values: Counts, cells: int, most: int, contributor: Counts | None = None
) -> Counts:
    """The greatest contributions to each cell, in descending order, shape (cells, most); 0 where there are fewer. Each
    record has a combination and a value, and by default is a contributor of its own."""
    greatest = np.zeros((cells, most), dtype=np.int64)
    for of_table in cell_of:
        own, amounts = of_table[combination], values
        if contributor is not None:
            (own, _), together = np.unique(np.stack([own, contributor]), axis=1, return_inverse=True)
            amounts = np.zeros(len(own), dtype=np.int64)
            np.add.at(amounts, together, values)
        order = np.lexsort((-amounts, own))
        own, amounts = own[order], amounts[order]
        rank = np.arange(len(own)) - np.searchsorted(own, own)
        kept = (own != OUTSIDE) & (rank < most)
        greatest[own[kept], rank[kept]] = amounts[kept]
    return greatest
