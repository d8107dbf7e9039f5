"""The least that two reconstructions of a block have in common, by HiGHS, against CP-SAT, which must find the same; and
how much less is left open by more tables.

OR-Tools and Stirred each bring their own HiGHS, and a process can load only one. So CP-SAT runs in a process without
Stirred's.
"""

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Result, run_step, time_call

PERSONS = (5, 10, 20, 50, 100)
BLOCKS = 20
LIMIT = 3.0
"""The limit of HiGHS' time, as a multiple of CP-SAT's."""

Numbers = NDArray[np.int64]


class Problem(NamedTuple):
    """A block's equations: by row, the positions of the types that its cell counts, and the count; the most records of
    each type; and a reconstruction."""

    rows: list[tuple[list[int], int]]
    upper: list[int]
    solution: list[int]


def measure() -> list[Result]:
    """The seconds of both for 20 blocks. Raises ArithmeticError if they differ in one, as if the binary variables of
    `System.differ_most` did not bind: then HiGHS finds too many common records in 5 of them. And the share of the
    records that another solution could change, by tables: by more of them, fewer."""
    problems, ours, seconds = [], [], 0.0
    blocks = [_draw_block(PERSONS[number % len(PERSONS)], number) for number in range(BLOCKS)]
    for block in blocks:
        problem, least, taken = _solve_by_highs(block)
        problems.append(problem)
        ours.append(least)
        seconds += taken
    theirs, others = run_step(solve_by_cp_sat, problems).returned
    require_same(ours, theirs)
    left_out = {"no P12B to P12I": "BCDEFGHI", "no P12H and P12I": "HI", "all tables": ""}
    shares = {words: _measure_variability(blocks, letters) for words, letters in left_out.items()}
    return [
        Result(f"the least common records of {BLOCKS} blocks, against CP-SAT (s)", seconds, others, LIMIT),
        *(
            Result(
                f"records that another solution could change: {more}, against {fewer}", shares[more], shares[fewer], 1.0
            )
            for fewer, more in pairwise(shares)
        ),
    ]


def _measure_variability(blocks: list[Numbers], left_out: str) -> float:
    """The share of the records of all blocks, from exact tables of T2 but P12 of some letters."""
    from mechanisms.risk.reconstruction import System
    from mechanisms.risk.tiers import SUMMARY_FILE

    without = {f"P12{letter}" for letter in left_out}
    kept = {name: cells for name, cells in SUMMARY_FILE.tables.items() if name not in without}
    tier, common = replace(SUMMARY_FILE, tables=kept), 0
    for counts in tier.tabulate(np.stack(blocks)):
        system = System.of(tier, counts)
        solution = system.reconstruct()
        common += int(np.minimum(solution, system.differ_most(solution)).sum())
    return 1 - common / sum(int(block.sum()) for block in blocks)


def require_same(ours: list[int], theirs: list[int]) -> None:
    if ours != theirs:
        raise ArithmeticError(f"the least common records differ: {ours} by HiGHS, {theirs} by CP-SAT")


def _draw_block(persons: int, seed: int) -> Numbers:
    """The records of a block whose persons are mostly of one race, in few ages; shape (frames, categories)."""
    from mechanisms.risk.tiers import SUMMARY_FILE

    rng = np.random.default_rng(seed)
    histogram = np.zeros(SUMMARY_FILE.shape, dtype=np.int64)
    categories = rng.choice([0, 1, 3, 6, 12, 40, 63, 64], persons, p=[0.4, 0.15, 0.1, 0.1, 0.05, 0.05, 0.1, 0.05])
    np.add.at(histogram, (rng.integers(0, SUMMARY_FILE.shape[0], persons), categories), 1)
    return histogram


def _solve_by_highs(block: Numbers) -> tuple[Problem, int, float]:
    from mechanisms.risk.reconstruction import System
    from mechanisms.risk.tiers import SUMMARY_FILE

    system = System.of(SUMMARY_FILE, SUMMARY_FILE.tabulate(block[None])[0])
    solution = system.reconstruct()
    seconds, other = time_call(lambda: system.differ_most(solution))
    rows = [(members.tolist(), count) for members, count in zip(system.members, system.counts.tolist(), strict=True)]
    problem = Problem(rows, system.upper.tolist(), solution.tolist())
    return problem, int(np.minimum(solution, other).sum()), seconds


def solve_by_cp_sat(problems: list[Problem]) -> tuple[list[int], float]:
    """The least of each, from min(x*, x) itself instead of Stirred's binary variables; and the seconds."""
    from ortools.sat.python import cp_model

    found, seconds = [], 0.0
    for problem in problems:
        model = cp_model.CpModel()
        records = [model.new_int_var(0, most, "") for most in problem.upper]
        for members, count in problem.rows:
            model.add(sum(records[place] for place in members) == count)
        common = []
        for place, number in enumerate(problem.solution):
            if number:
                common.append(model.new_int_var(0, number, ""))
                model.add_min_equality(common[-1], [records[place], model.new_constant(number)])
        model.minimize(sum(common))
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        taken, status = time_call(lambda solver=solver, model=model: solver.solve(model))
        if status != cp_model.OPTIMAL:
            raise ArithmeticError(f"CP-SAT has no optimum: {solver.status_name(status)}")
        found.append(round(solver.objective_value))
        seconds += taken
    return found, seconds
