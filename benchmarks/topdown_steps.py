"""TopDown's steps for siblings: the real-valued step against Clarabel, and both passes with rounding in seconds.

Times are processor time of one core, on block groups of production's shape. `topdown_estimation` measures whole
estimations.
"""

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks.result import Result
from benchmarks.topdown_problems import ConvexProblem, Siblings, objective, of_production_shape
from mechanisms.topdown.estimation import estimate
from mechanisms.topdown.least_squares import solve

PROBLEMS = 12
BLOCKS = 28
FEWEST_CELLS = 30


def measure() -> list[Result]:
    """Seconds for a dozen block groups of 28 blocks and about 45 cells; totals are fixed as in production's last pass.

    The set-up of Clarabel's problem is not timed. Both solutions must reach the same objective.
    """
    problems = _block_groups(fixed=True)
    solve(*problems[0].problem())
    ours = other = 0.0
    for siblings in problems:
        queries, constraints = siblings.problem()
        rival = ConvexProblem(queries, constraints)
        seconds, solution = _timed(lambda queries=queries, constraints=constraints: solve(queries, constraints).x)
        ours += seconds
        seconds, x = _timed(rival.solve)
        other += seconds
        least = objective(queries, x)
        if abs(objective(queries, solution) - least) > 1e-6 * least:
            raise AssertionError("the two solutions differ by more than rounding")
    cells = round(float(np.mean([np.count_nonzero(siblings.parent) for siblings in problems])))
    shape = f"{len(problems)} × {BLOCKS} blocks, {cells} cells"
    free = _block_groups(fixed=False)
    _estimated(free[0])
    whole = sum(_timed(lambda siblings=siblings: _estimated(siblings))[0] for siblings in free)
    return [
        Result(f"TopDown, real-valued step, against Clarabel: {shape} (s)", ours, other, 1 / 20),
        Result(f"TopDown, both passes and rounding: {shape} (s)", whole, 0.1 * len(free), 1.0),
    ]


def _block_groups(*, fixed: bool) -> list[Siblings]:
    """The first dozen random block groups with at least 30 cells; smaller ones would not be representative."""
    found: list[Siblings] = []
    seed = 0
    while len(found) < PROBLEMS:
        siblings = of_production_shape("Block", BLOCKS, 60, 3, 1_800, seed=seed, fixed=fixed)
        seed += 1
        if np.count_nonzero(siblings.parent) >= FEWEST_CELLS:
            found.append(siblings)
    return found


def _estimated(siblings: Siblings) -> NDArray[np.int64]:
    return estimate(
        siblings.schema, siblings.measurements, siblings.limits, siblings.parent, total_first=True
    ).histograms


def _timed(step: Callable[[], NDArray[np.generic]]) -> tuple[float, NDArray[np.generic]]:
    started = time.thread_time()
    result = step()
    return time.thread_time() - started, result
