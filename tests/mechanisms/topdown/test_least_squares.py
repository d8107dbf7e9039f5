"""The real-valued step agrees with a general convex solver, within the constraints, with a certificate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.topdown_problems import ConvexProblem, Siblings, compute_objective, draw_siblings
from mechanisms.topdown import least_squares
from mechanisms.topdown.least_squares import Constraints, NotSolvedError, Query, solve
from tests.depth import deep_cases, examples, quick_cases
from tests.mechanisms.topdown.problems import small_siblings

TOLERANCE = 1e-6


def worst_violation(x: NDArray[np.float64], constraints: Constraints) -> float:
    """Constraint by constraint, independent of the code under test."""
    over = [-x.min()]
    if constraints.parent is not None:
        over.append(np.abs(x.sum(axis=0) - constraints.parent).max())
    for child, total in enumerate(constraints.totals):
        if not np.isnan(total):
            over.append(abs(x[child].sum() - total))
        for group, (first, last) in enumerate(zip(constraints.starts[:-1], constraints.starts[1:], strict=True)):
            count = x[child, first:last].sum()
            over += [constraints.lower[child, group] - count, count - constraints.upper[child, group]]
    return max(over)


@settings(max_examples=examples(80), deadline=None)
@given(small_siblings().filter(lambda siblings: siblings.parent.any()))
def test_small_problems_are_solved_as_a_general_solver_solves_them(siblings: Siblings) -> None:
    queries, constraints = siblings.build_problem()
    solution = solve(queries, constraints)
    other = ConvexProblem(queries, constraints, tight=True).solve()
    least = compute_objective(queries, other)
    assert worst_violation(solution.x, constraints) <= TOLERANCE
    assert solution.objective == pytest.approx(compute_objective(queries, solution.x), rel=1e-9, abs=1e-9)
    assert abs(solution.objective - least) <= TOLERANCE * max(least, 1)
    assert solution.objective - solution.gap <= least + 1e-7 * max(least, 1)


SHAPES = {
    "blocks": ("Block", 28, 75, 3, 2_250),
    "block groups": ("Block_Group", 4, 300, 4, 9_000),
    "tracts": ("Tract", 8, 150, 4, 9_000),
    "states": ("State", 2, 500, 8, 200_000),
}


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_problems_of_productions_shape_are_solved_as_a_general_solver_solves_them(shape: str, fixed: bool) -> None:
    queries, constraints = draw_siblings(*SHAPES[shape], seed=7, fixed=fixed).build_problem()
    solution = solve(queries, constraints)
    least = compute_objective(queries, ConvexProblem(queries, constraints).solve())
    assert worst_violation(solution.x, constraints) <= TOLERANCE
    assert abs(solution.objective - least) <= TOLERANCE * least


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(("children", "population"), [(2, 10**7), (50, 3 * 10**8)])
def test_states_with_all_cells_are_certified(children: int, population: int, fixed: bool) -> None:
    queries, constraints = draw_siblings("State", children, 2016, 8, population, seed=3, fixed=fixed).build_problem()
    solution = solve(queries, constraints)
    assert solution.gap <= TOLERANCE * solution.objective


def test_the_root_is_one_child_without_a_parent() -> None:
    queries, constraints = draw_siblings("US", 1, 300, 8, 10**6, seed=5, fixed=True).build_problem()
    root = Constraints(None, constraints.starts, constraints.lower, constraints.upper, constraints.totals)
    solution = solve(queries, root)
    least = compute_objective(queries, ConvexProblem(queries, root).solve())
    assert worst_violation(solution.x, root) <= TOLERANCE
    assert abs(solution.objective - least) <= TOLERANCE * least


@settings(max_examples=examples(100), deadline=None)
@given(small_siblings().filter(lambda siblings: siblings.parent.any()))
def test_totals_alone_are_solved_as_a_general_solver_solves_them(siblings: Siblings) -> None:
    """The pass of `total`, for which many histograms of groups are equally good."""
    queries, constraints = siblings.build_problem()
    sums = np.add.reduceat(constraints.parent, constraints.starts[:-1])
    count = len(sums)
    noisy = queries[0].measured.sum(axis=1, keepdims=True)
    query = Query(np.zeros(count, dtype=np.int32), 0.25, noisy)
    coarse = Constraints(sums, np.arange(count + 1), constraints.lower, constraints.upper, constraints.totals)
    solution = solve([query], coarse)
    least = compute_objective([query], ConvexProblem([query], coarse, tight=True).solve())
    assert worst_violation(solution.x, coarse) <= TOLERANCE
    assert abs(solution.objective - least) <= TOLERANCE * max(least, 1)


@pytest.mark.parametrize("population", [10**5, 4 * 10**7])
def test_totals_of_a_large_state_are_certified(population: int) -> None:
    siblings = draw_siblings("County", 60, 2016, 8, population, seed=2, fixed=False)
    _, constraints = siblings.build_problem()
    sums = np.add.reduceat(constraints.parent, constraints.starts[:-1])
    coarse = Constraints(sums, np.arange(9), constraints.lower, constraints.upper, constraints.totals)
    total = siblings.measurements[0]
    assert total.query == "total"
    solution = solve([Query(np.zeros(8, dtype=np.int32), float(1 / total.variance), total.answers)], coarse)
    assert solution.gap <= TOLERANCE * max(solution.objective, 1)
    assert solution.violation <= TOLERANCE


def one_block_group() -> tuple[list[Query], Constraints]:
    return draw_siblings("Block", 12, 60, 3, 900, seed=11, fixed=True).build_problem()


def without(constraints: Constraints, **changes: object) -> Constraints:
    return Constraints(**{**vars(constraints), **changes})


@pytest.mark.parametrize(
    "forgotten", ["totals", "bounds", "parent"], ids=lambda name: f"{name} left out of the projection"
)
def test_a_program_that_forgets_a_constraint_is_found_out(forgotten: str) -> None:
    queries, constraints = one_block_group()
    changes = {
        "totals": {"totals": np.full(12, np.nan)},
        "bounds": {"lower": np.zeros_like(constraints.lower), "upper": np.full_like(constraints.upper, 10**6)},
        "parent": {"parent": None},
    }[forgotten]
    careless = solve(queries, without(constraints, **changes))
    assert worst_violation(careless.x, constraints) > 0.01


def test_a_program_that_cuts_negative_values_off_is_found_out() -> None:
    queries, constraints = one_block_group()
    detailed = queries[-1].measured[:, queries[-1].cells]
    assert worst_violation(np.maximum(detailed, 0), constraints) > 1


def test_a_program_that_projects_the_measurements_once_is_found_out() -> None:
    """Projection alone is not the least-squares solution: the other queries count too."""
    queries, constraints = one_block_group()
    projected = solve(queries[-1:], constraints)
    assert compute_objective(queries, projected.x) > (1 + 1e-4) * solve(queries, constraints).objective


def test_a_violation_counts_in_ten_millionths_of_a_limit_above_ten_million() -> None:
    limit, none, free = 3e8, np.empty(0), float("nan")
    for count, parent, lower, upper, total in (
        (limit - 3, none, limit, 1e12, free),
        (limit + 3, none, 0.0, limit, free),
        (limit - 3, none, 0.0, 1e12, limit),
        (limit - 3, np.array([limit]), 0.0, 1e12, free),
    ):
        x, *bounds = (np.array([[value]]) for value in (count, lower, upper))
        found = least_squares._violation(x, parent, *[np.array([0, 1])] * 2, *bounds, np.array([[total]]))
        assert found == pytest.approx(0.1)


def test_what_does_not_converge_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, constraints = draw_siblings("Tract", 4, 60, 3, 900, seed=11, fixed=True).build_problem()
    monkeypatch.setattr(least_squares, "ITERATIONS", 3)
    with pytest.raises(NotSolvedError, match=r"4 children of \d+ cells: after 3 iterations the duality gap is"):
        solve(queries, constraints)


def test_constraints_that_contradict_each_other_give_no_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, constraints = one_block_group()
    monkeypatch.setattr(least_squares, "ITERATIONS", 50)
    with pytest.raises(NotSolvedError):
        solve(queries, without(constraints, totals=constraints.totals + 1))


@given(st.integers(0, 1000))
@settings(max_examples=examples(10), deadline=None)
def test_the_same_problem_has_the_same_solution_to_the_last_bit(seed: int) -> None:
    problem = draw_siblings("Block", 6, 40, 2, 300, seed=seed, fixed=False).build_problem()
    assert np.array_equal(solve(*problem).x, solve(*problem).x)
