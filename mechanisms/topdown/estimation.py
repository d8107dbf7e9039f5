"""From noisy measurements to histograms: one parent and all its children at a time.

Here belongs the order of the steps for siblings: cells that their parent does not have are left out, their totals are
estimated first, then their histograms with totals held, then both are rounded. Walking down the tree, in parallel and
resumably, belongs with the stage that has the measurements.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.topdown.feasibility import FREE, Limits
from mechanisms.topdown.least_squares import Constraints, Query, Solution, solve
from mechanisms.topdown.rounding import Bounds, round_children
from mechanisms.topdown.schema import TOTAL, Schema


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
    answers: NDArray[np.int64]


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


def estimate(
    schema: Schema, measurements: Sequence[Measurement], limits: Limits, parent: NDArray[np.int64] | None
) -> Estimate:
    """The histograms of a parent's children, or the root's.

    `total` is a pass by itself if it is asked and some total is free: it decides on the totals, and they are held
    while the other queries decide on the rest.

    Args:
        schema: what is counted.
        measurements: of the children, a query each.
        limits: of the children, as `feasibility.propagate` gives them.
        parent: shape (cells,): the parent's histogram, within its own limits; None for the root, an only child.

    Raises:
        NotSolvedError: if a real-valued solution could not be certified.
        NotRoundedError: if there are no integers nearby.
    """
    children = len(limits.totals)
    if parent is not None and (children == 1 or not parent.any()):
        return Estimate(np.tile(parent, (children, 1)), (), ())
    possible = schema.possible & (limits.upper.max(axis=0) > 0)[schema.groups.cells]
    unsorted = np.flatnonzero(possible if parent is None else parent > 0)
    support = unsorted[np.argsort(schema.groups.cells[unsorted], kind="stable")]
    present, groups = _renumbered(schema.groups.cells[support])
    lower, upper = limits.lower[:, present], limits.upper[:, present]
    sums = None if parent is None else parent[support]
    totals = np.where(limits.totals == FREE, np.nan, limits.totals.astype(np.float64))
    constraints = Constraints(sums, np.searchsorted(groups, np.arange(len(present) + 1)), lower, upper, totals)

    by_name = {measurement.query: measurement for measurement in measurements}
    solutions = []
    if TOTAL in by_name and len(by_name) > 1:
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
