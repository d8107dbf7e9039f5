"""The integer step: from real-valued histograms of siblings to nearby integers that meet the same constraints.

This module does controlled rounding, query by query from coarse to fine. `schema` lists the queries; `least_squares`
computes the real values.

Every cell, and every marginal of the rounded queries, goes up or down to a neighboring integer; an integer stays. The
queries refine each other, so a child's counts form a tree. The children's sums by cell are a second family of disjoint
sets. Two laminar families give a totally unimodular system (Edmonds, 1970), so the linear program over these choices
has integral vertices. The real values satisfy its constraints, so it is feasible. The distance |y − m| of an integer y
next to m is linear in the choice. For each query in turn, the sum of these distances is minimized while the answers to
earlier queries are held, which keeps the next program feasible. The simplex method (HiGHS) ends in a vertex, and starts
each query from the basis of the one before. So every cell and every marginal differs by less than 1 from its real
value, and the L1 distance of each query is the least that the choices for coarser queries allow.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import highspy
import numpy as np
from numpy.typing import NDArray

from mechanisms.topdown.schema import add_up

Bounds: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The least and the greatest answers to a query, shape (children, marginal cells) each."""

NEAR = 1e-5
"""A real value this near to an integer counts as that integer. If this leaves no solution, it may go up or down too."""

_INTEGRAL = 1e-6


class NotRoundedError(ArithmeticError):
    """No nearby integers replace the histograms, or the solver did not find them."""


@dataclass(frozen=True)
class Rounded:
    """Integer histograms.

    Attributes:
        histograms: shape (children, cells).
        distances: the L1 distances from the real values, by query from coarse to fine, and then for the cells.
    """

    histograms: NDArray[np.int64]
    distances: tuple[float, ...]


@dataclass(frozen=True)
class _Answers:
    """The real answers to a query and the integers allowed: `base`, one more where `up`, one less where `down`."""

    nodes: NDArray[np.int64]
    real: NDArray[np.float64]
    base: NDArray[np.int64]
    up: NDArray[np.bool_]
    down: NDArray[np.bool_]

    def chosen(self, choices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The answers after the choices; `choices` lists those up first."""
        answers = self.base.copy()
        ups = int(self.up.sum())
        answers[self.up] += choices[:ups]
        answers[self.down] -= choices[ups:]
        return answers


def round_children(
    x: NDArray[np.float64],
    chain: Sequence[NDArray[np.int32]],
    parent: NDArray[np.int64] | None,
    bounds: Sequence[Bounds | None],
) -> Rounded:
    """Round siblings' histograms.

    Args:
        x: shape (children, cells): the real values, which meet the constraints up to `NEAR`.
        chain: for each rounded query, from coarse to fine, shape (cells,): the marginal cell of each cell, numbered
            from 0. Each query refines the one before.
        parent: shape (cells,): the children's sum; None at the root.
        bounds: by query of the chain; None for a query without bounds. A fixed total has equal bounds.

    Raises:
        NotRoundedError: if there are no such integers.
    """
    maps = [np.asarray(nodes, dtype=np.int64) for nodes in chain] + [np.arange(x.shape[1])]
    limits = [*bounds, None]
    for widened in (False, True):
        levels = [_answers(x, nodes, limit, widened) for nodes, limit in zip(maps, limits, strict=True)]
        program = _program(levels, parent)
        choices = program.choose()
        if choices is not None:
            found = [
                level.chosen(choices[first:last]) for level, (first, last) in zip(levels, program.spans, strict=True)
            ]
            _require(found, maps, parent, limits)
            distances = [np.abs(answers - level.real).sum() for answers, level in zip(found, levels, strict=True)]
            return Rounded(found[-1], tuple(map(float, distances)))
    raise NotRoundedError(f"{x.shape[0]} children of {x.shape[1]} cells: no integers within 1 meet the constraints")


def _answers(x: NDArray[np.float64], nodes: NDArray[np.int64], limits: Bounds | None, widened: bool) -> _Answers:
    real = add_up(x, nodes, int(nodes.max(initial=-1)) + 1)
    nearest = np.rint(real)
    near = np.abs(real - nearest) <= NEAR
    below = np.where(near, nearest, np.floor(real)).astype(np.int64)
    least, greatest = limits or (np.zeros_like(below), np.full_like(below, np.iinfo(np.int64).max))
    base = np.clip(below, least, greatest)
    free = base == below
    up = free & (~near | widened) & (base < greatest)
    return _Answers(nodes, real, base, up, free & near & widened & (base > least))


@dataclass
class _Program:
    """A linear program over choices c between 0 and 1, with Ac = target. Spans of c are optimized in turn."""

    cost: list[NDArray[np.float64]] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    columns: list[NDArray[np.int64]] = field(default_factory=list)
    rows: list[NDArray[np.int64]] = field(default_factory=list)
    values: list[NDArray[np.float64]] = field(default_factory=list)
    targets: list[NDArray[np.int64]] = field(default_factory=list)

    def enter(self, columns: NDArray[np.int64], rows: NDArray[np.int64], value: float) -> None:
        """Enter a value into the matrix at each of these positions."""
        self.columns.append(columns)
        self.rows.append(rows)
        self.values.append(np.full(len(columns), value))

    def choose(self) -> NDArray[np.int64] | None:
        """The choices taken, each 0 or 1; None if the program is infeasible."""
        cost, target = np.concatenate(self.cost), np.concatenate(self.targets)
        row, column, value = np.concatenate(self.rows), np.concatenate(self.columns), np.concatenate(self.values)
        used = np.zeros(len(target), dtype=bool)
        used[row] = True
        if np.any(target[~used]):
            return None
        solver = _solver(len(cost), np.cumsum(used)[row] - 1, column, value, target[used])
        taken = np.zeros(len(cost))
        previous = (0, 0)
        for first, last in self.spans:
            if first == last:
                continue
            changed = np.arange(previous[0], last, dtype=np.int32)
            held = changed[: previous[1] - previous[0]]
            solver.changeColsCost(len(changed), changed, np.where(changed < first, 0.0, cost[changed]))
            solver.changeColsBounds(len(held), held, taken[held], taken[held])
            solver.run()
            status = solver.getModelStatus()
            if status == highspy.HighsModelStatus.kInfeasible:
                return None
            if status != highspy.HighsModelStatus.kOptimal:
                raise NotRoundedError(f"HiGHS ends with {solver.modelStatusToString(status)}")
            solution = np.asarray(solver.getSolution().col_value)
            taken = np.rint(solution)
            if np.abs(solution - taken).max() > _INTEGRAL:
                raise NotRoundedError("HiGHS does not end in a vertex of the program")
            previous = (first, last)
        return taken.astype(np.int64)


def _program(levels: Sequence[_Answers], parent: NDArray[np.int64] | None) -> _Program:
    """The constraints: an answer is the sum of its finer answers, and the children's cells add up to the parent's."""
    program = _Program()
    width, height = 0, 0
    for position, level in enumerate(levels):
        first, nodes = width, level.base.shape[1]
        cells = position == len(levels) - 1
        coarser = levels[position - 1] if position else None
        part_of = np.zeros(nodes, dtype=np.int64)
        if coarser is not None:
            part_of[level.nodes] = coarser.nodes
            program.targets.append((coarser.base - add_up(level.base, part_of, coarser.base.shape[1])).ravel())
        for chosen, sign in ((level.up, 1), (level.down, -1)):
            child, node = np.nonzero(chosen)
            column = np.arange(width, width + len(child))
            width += len(child)
            real, base = level.real[child, node], level.base[child, node]
            program.cost.append(np.abs(base + sign - real) - np.abs(base - real))
            if coarser is not None:
                size = coarser.base.shape[1]
                program.enter(column, height - coarser.base.size + child * size + part_of[node], sign)
            if not cells:
                program.enter(column, height + child * nodes + node, -sign)
            elif parent is not None:
                program.enter(column, height + node, sign)
        program.spans.append((first, width))
        height += level.base.size
    if parent is not None:
        program.targets.append(parent - levels[-1].base.sum(axis=0))
    return program


def _solver(
    width: int,
    row: NDArray[np.int64],
    column: NDArray[np.int64],
    value: NDArray[np.float64],
    target: NDArray[np.int64],
) -> highspy.Highs:
    order = np.lexsort((row, column))
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = width, len(target)
    program.col_cost_, program.col_lower_, program.col_upper_ = np.zeros(width), np.zeros(width), np.ones(width)
    program.row_lower_ = program.row_upper_ = target.astype(np.float64)
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = np.searchsorted(column[order], np.arange(width + 1)).astype(np.int32)
    program.a_matrix_.index_ = row[order].astype(np.int32)
    program.a_matrix_.value_ = value[order]
    solver = highspy.Highs()
    for option, setting in (("output_flag", False), ("threads", 1), ("solver", "simplex")):
        solver.setOptionValue(option, setting)
    solver.passModel(program)
    return solver


def _require(
    found: Sequence[NDArray[np.int64]],
    maps: Sequence[NDArray[np.int64]],
    parent: NDArray[np.int64] | None,
    bounds: Sequence[Bounds | None],
) -> None:
    """Check all constraints in integers, whatever the solver's tolerances."""
    histograms = found[-1]
    sound = bool(np.all(histograms >= 0))
    if parent is not None:
        sound &= np.array_equal(histograms.sum(axis=0), parent)
    for answers, nodes, limits in zip(found, maps, bounds, strict=True):
        sound &= np.array_equal(add_up(histograms, nodes, answers.shape[1]), answers)
        if limits is not None:
            sound &= bool(np.all((limits[0] <= answers) & (answers <= limits[1])))
    if not sound:
        raise NotRoundedError(f"{histograms.shape[0]} children of {histograms.shape[1]} cells: a constraint is not met")
