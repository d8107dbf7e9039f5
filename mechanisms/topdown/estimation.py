"""From noisy measurements to histograms: one parent and all its children at a time.

Here belongs the order of the steps for siblings: cells that their parent does not have are left out, their totals may
be estimated first, then their histograms, with totals held, and both are rounded; and the same for several families at
once, which is what a process is given to do. Walking down the tree, in parallel and resumably, belongs with the stage
that has the measurements.

Both steps know bounds of groups and totals. Where children's counts of several groups together have limits as well, and
the integers break one, the counts of groups are decided by themselves (`sets`), and both steps are taken again with
them held. That can always be done: within a group, any counts of children that add up to those of the parent's cells
can be divided among its cells.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.topdown.feasibility import FREE, Limits
from mechanisms.topdown.least_squares import Constraints, NotSolvedError, Query, Solution, solve
from mechanisms.topdown.rounding import Bounds, NotRoundedError, round_children
from mechanisms.topdown.schema import TOTAL, Schema, add_up
from mechanisms.topdown.sets import kept, nearest_counts


@dataclass(frozen=True)
class Measurement:
    """Noisy answers of all siblings to one query.

    Attributes:
        query: its name.
        variance: σ² of the noise.
        answers: shape (children, marginal cells).
    """

    query: str
    variance: Fraction
    answers: NDArray[np.signedinteger[Any]]


@dataclass(frozen=True)
class Estimate:
    """Siblings' histograms.

    Attributes:
        histograms: shape (children, cells), integers that meet all constraints.
        solutions: the real-valued solutions behind them with their certificates, in order of the passes; empty where
            the constraints leave no choice.
        distances: L1 distances of the integers to the last solution, by rounding query and last for the cells.
    """

    histograms: NDArray[np.int64]
    solutions: tuple[Solution, ...]
    distances: tuple[float, ...]


@dataclass(frozen=True)
class Families:
    """Several parents of one level, each with all its children.

    Attributes:
        schema: what is counted.
        parents: what each is called where its children cannot be estimated.
        starts: shape (parents + 1,): parent p's children are those from `starts[p]` up to `starts[p + 1]`.
        variances: σ² of each query.
        answers: by query, the noisy answers of all children, shape (children, marginal cells).
        limits: of all children.
        total_first: whether `total` is a pass by itself.
        histograms: shape (parents, cells): the parents'; None if the one child is the root.
    """

    schema: Schema
    parents: tuple[str, ...]
    starts: NDArray[np.int64]
    variances: Mapping[str, Fraction]
    answers: Mapping[str, NDArray[np.signedinteger[Any]]]
    limits: Limits
    total_first: bool
    histograms: NDArray[np.int64] | None


@dataclass(frozen=True)
class Children:
    """The histograms of all children of some families.

    Attributes:
        children, cells, counts: of each cell that is not zero, by child and cell.
        solved: how many parents' children were not determined by constraints alone.
        gap: the largest duality gap of a real-valued solution, relative to its objective (absolute below 1).
        violation: the largest violation of a constraint by a real-valued solution; integers violate none.
    """

    children: NDArray[np.int64]
    cells: NDArray[np.int64]
    counts: NDArray[np.int64]
    solved: int
    gap: float
    violation: float


def estimate_families(families: Families) -> Children:
    """The histograms of all children, family by family: nothing of one depends on another.

    Raises:
        NotSolvedError: if a real-valued solution could not be certified; the message names the parent.
        NotRoundedError: if there are no integers nearby; likewise.
    """
    found = [_of_parent(families, position) for position in range(len(families.parents))]
    histograms = np.concatenate([each.histograms for each in found])
    children, cells = np.nonzero(histograms)
    solutions = [solution for each in found for solution in each.solutions]
    return Children(
        children,
        cells,
        histograms[children, cells],
        sum(bool(each.solutions) for each in found),
        max((0.0, *(solution.gap / max(solution.objective, 1.0) for solution in solutions))),
        max((0.0, *(solution.violation for solution in solutions))),
    )


def _of_parent(families: Families, position: int) -> Estimate:
    own = slice(*map(int, families.starts[position : position + 2]))
    measurements = [
        Measurement(query, variance, families.answers[query][own]) for query, variance in families.variances.items()
    ]
    limits = families.limits.between(own.start, own.stop)
    parent = None if families.histograms is None else families.histograms[position]
    try:
        return estimate(families.schema, measurements, limits, parent, total_first=families.total_first)
    except (NotSolvedError, NotRoundedError) as error:
        raise type(error)(f"{families.schema.name} of {families.parents[position]}: {error}") from error


def estimate(
    schema: Schema,
    measurements: Sequence[Measurement],
    limits: Limits,
    parent: NDArray[np.int64] | None,
    *,
    total_first: bool,
) -> Estimate:
    """The histograms of a parent's children, or the root's.

    A pass of `total` by itself decides on the totals that are free, and they are held while the other queries decide
    on the rest. That serves where `total` is measured much more precisely than sums of other answers are; where it is
    not, as in the blocks of the 2020 Census, all queries together say more about totals, in one pass.

    Args:
        schema: what is counted.
        measurements: of the children, a query each.
        limits: of the children, as `feasibility.propagate` gives them.
        parent: shape (cells,): the parent's histogram, within its own limits; None for the root, an only child.
        total_first: whether `total`, if it is asked, is a pass by itself.

    Raises:
        NotSolvedError: if a real-valued solution could not be certified.
        NotRoundedError: if there are no integers nearby.
    """
    if parent is not None and (len(limits.totals) == 1 or not parent.any()):
        return Estimate(np.tile(parent, (len(limits.totals), 1)), (), ())
    possible = schema.possible & (limits.upper.max(axis=0) > 0)[schema.groups.cells]
    unsorted = np.flatnonzero(possible if parent is None else parent > 0)
    support = unsorted[np.argsort(schema.groups.cells[unsorted], kind="stable")]
    found = _within_bounds(schema, measurements, limits, parent, support, total_first)
    if not found.solutions or kept(limits.sets, schema.groups.answer(found.histograms)):
        return found
    real = add_up(found.solutions[-1].x, schema.groups.cells[support], schema.groups.size)
    counts = nearest_counts(real, limits, None if parent is None else schema.groups.answer(parent[None])[0])
    held = Limits(counts, counts, counts.sum(axis=1))
    again = _within_bounds(schema, measurements, held, parent, support, total_first)
    return Estimate(again.histograms, found.solutions + again.solutions, again.distances)


def _within_bounds(
    schema: Schema,
    measurements: Sequence[Measurement],
    limits: Limits,
    parent: NDArray[np.int64] | None,
    support: NDArray[np.int64],
    total_first: bool,
) -> Estimate:
    """Histograms that keep to bounds and totals, with no more cells than the support, which is in order of groups."""
    children = len(limits.totals)
    if not support.size:
        return Estimate(np.zeros((children, schema.size), dtype=np.int64), (), ())
    present, groups = _renumbered(schema.groups.cells[support])
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
        marginal, cells = _renumbered(schema.marginal(name).cells[support])
        queries.append(Query(cells, float(1 / measurement.variance), measurement.answers[:, marginal]))
    solutions.append(solve(queries, constraints))

    chain = [_renumbered(schema.marginal(query).cells[support])[1] for query in schema.rounding]
    bounds: list[Bounds | None] = [None] * len(chain)
    bounds[schema.rounding.index(schema.groups.query)] = (lower, upper)
    held = (limits.totals != FREE)[:, None]
    most = np.iinfo(np.int64).max
    least_total, most_total = bounds[0] or (np.zeros((children, 1), np.int64), np.full((children, 1), most))
    fixed = limits.totals[:, None]
    bounds[0] = (np.where(held, fixed, least_total), np.where(held, fixed, most_total))
    rounded = round_children(solutions[-1].x, chain, sums, bounds)

    histograms = np.zeros((children, schema.size), dtype=np.int64)
    histograms[:, support] = rounded.histograms
    return Estimate(histograms, tuple(solutions), rounded.distances)


def _solve_totals(total: Measurement, constraints: Constraints, groups: NDArray[np.int32]) -> Solution:
    """The pass of `total`: a histogram of groups suffices, as cells within a group can take up any division of it."""
    count = len(constraints.starts) - 1
    sums = None if constraints.parent is None else np.bincount(groups, weights=constraints.parent, minlength=count)
    coarse = Constraints(sums, np.arange(count + 1), constraints.lower, constraints.upper, constraints.totals)
    query = Query(np.zeros(count, dtype=np.int32), float(1 / total.variance), total.answers.astype(np.float64))
    return solve([query], coarse)


def _renumbered(nodes: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The marginal cells that occur, and each cell's among them."""
    present, positions = np.unique(nodes, return_inverse=True)
    return present, positions.astype(np.int32)
