"""The integer step: constraints exact, every count moved by less than 1, and no integers nearer, query by query."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from benchmarks.topdown_problems import draw_siblings
from mechanisms.topdown.least_squares import solve
from mechanisms.topdown.rounding import NEAR, NotRoundedError, round_children
from mechanisms.topdown.schema import PERSONS, add_up
from tests.depth import examples

CHAIN = (np.array([0, 0, 0, 0], dtype=np.int32), np.array([0, 0, 1, 1], dtype=np.int32))
"""Four cells in two groups."""


@st.composite
def fractional(draw: st.DrawFn, most: int = 3) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Real values whose children add up to integers cell by cell, in eighths: the mean of integer histograms."""
    children = draw(st.integers(2, most))
    cells = st.lists(st.integers(0, 3), min_size=4, max_size=4)
    share = draw(st.sampled_from([2, 4, 8]))
    parent = np.array(draw(cells))
    mixed = np.zeros((children, 4))
    for _ in range(share):
        for cell, count in enumerate(parent):
            for _ in range(count):
                mixed[draw(st.integers(0, children - 1)), cell] += 1 / share
    return mixed, parent.astype(np.int64)


def limits_around(x: NDArray[np.float64]) -> list[tuple[NDArray[np.int64], NDArray[np.int64]] | None]:
    """Groups within the nearest integers; totals free."""
    groups = add_up(x, CHAIN[1], 2)
    return [None, (np.floor(groups).astype(np.int64), np.ceil(groups).astype(np.int64))]


def neighbours(x: NDArray[np.float64], parent: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """All histograms whose cells and rounded marginals are next to the real ones and whose children add up."""
    found = []
    for ups in product((0, 1), repeat=x.size):
        candidate = np.floor(x).astype(np.int64) + np.array(ups).reshape(x.shape)
        if np.any(candidate > np.ceil(x)) or not np.array_equal(candidate.sum(axis=0), parent):
            continue
        if all(np.all(np.abs(add_up(candidate, nodes, 2) - add_up(x, nodes, 2)) < 1) for nodes in CHAIN):
            found.append(candidate)
    return found


def distances(histograms: NDArray[np.int64], x: NDArray[np.float64]) -> tuple[float, ...]:
    maps = (*CHAIN, np.arange(4))
    return tuple(float(np.abs(add_up(histograms, m, 4) - add_up(x, m, 4)).sum()) for m in maps)


@settings(max_examples=examples(60), deadline=None)
@given(fractional())
def test_no_integers_nearby_are_nearer_query_by_query(problem: tuple[NDArray[np.float64], NDArray[np.int64]]) -> None:
    """Against all of them, in lexical order of the distances of totals, of groups and of cells."""
    x, parent = problem
    rounded = round_children(x, CHAIN, parent, limits_around(x))
    candidates = neighbours(x, parent)
    assert distances(rounded, x)[0] == pytest.approx(min(distances(candidate, x)[0] for candidate in candidates))
    # Ties in the coarser answers may be broken either way, so finer distances are compared where the coarser answers
    # are held.
    for position, nodes in enumerate((CHAIN[0], CHAIN[1]), start=1):
        held = [
            distances(candidate, x)[position]
            for candidate in candidates
            if np.array_equal(add_up(candidate, nodes, 2), add_up(rounded, nodes, 2))
        ]
        assert distances(rounded, x)[position] == pytest.approx(min(held))


def integer_program(
    x: NDArray[np.float64], maps: Sequence[NDArray[np.int32]], parent: NDArray[np.int64], histograms: NDArray[np.int64]
) -> list[float]:
    """By query, the least L1 distance of any choice of neighbours whose coarser answers are those of `histograms`.

    A mixed-integer program with absolute values, not one over choices. HiGHS's presolve ends some of these programs
    with an error, so it is off.
    """
    children, cells = x.shape
    found = []
    for position, nodes in enumerate(maps):
        size = int(nodes.max()) + 1
        real = add_up(x, nodes, size).ravel()
        answers = np.kron(np.eye(children), (nodes == np.arange(size)[:, None]).astype(float))
        away = np.eye(real.size)
        rows = [
            LinearConstraint(np.hstack([answers, -away]), -np.inf, real),
            LinearConstraint(np.hstack([-answers, -away]), -np.inf, -real),
            LinearConstraint(
                np.hstack([np.tile(np.eye(cells), children), np.zeros((cells, real.size))]), parent, parent
            ),
        ]
        for coarse in maps[:position]:
            coarse_size = int(coarse.max()) + 1
            summed = np.kron(np.eye(children), (coarse == np.arange(coarse_size)[:, None]).astype(float))
            held = add_up(histograms, coarse, coarse_size).ravel()
            rows.append(LinearConstraint(np.hstack([summed, np.zeros((held.size, real.size))]), held, held))
        cost = np.concatenate([np.zeros(x.size), np.ones(real.size)])
        whole = np.concatenate([np.ones(x.size), np.zeros(real.size)])
        for every in maps:
            every_size = int(every.max()) + 1
            summed = np.kron(np.eye(children), (every == np.arange(every_size)[:, None]).astype(float))
            next_to = add_up(x, every, every_size).ravel()
            rows.append(
                LinearConstraint(
                    np.hstack([summed, np.zeros((next_to.size, real.size))]),
                    np.floor(next_to + NEAR),
                    np.ceil(next_to - NEAR),
                )
            )
        solution = milp(
            cost, constraints=rows, integrality=whole, bounds=Bounds(0, np.inf), options={"presolve": False}
        )
        assert solution.success
        found.append(float(solution.fun))
    return found


@settings(max_examples=examples(60), deadline=None)
@given(fractional(most=4))
def test_the_distances_are_an_integer_programs(problem: tuple[NDArray[np.float64], NDArray[np.int64]]) -> None:
    x, parent = problem
    rounded = round_children(x, CHAIN, parent, [None, None])
    maps = [*CHAIN, np.arange(4, dtype=np.int32)]
    assert distances(rounded, x) == pytest.approx(integer_program(x, maps, parent, rounded), abs=1e-6)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(
    "shape", [("Block", 28, 75, 3, 2_250), ("Tract", 8, 150, 4, 9_000), ("State", 2, 500, 8, 200_000)]
)
def test_rounding_what_measurements_of_productions_shape_give(
    shape: tuple[str, int, int, int, int], fixed: bool
) -> None:
    siblings = draw_siblings(*shape, seed=4, fixed=fixed)
    queries, constraints = siblings.build_problem()
    x = solve(queries, constraints).x
    support = np.flatnonzero(siblings.parent)
    chain = [np.unique(PERSONS.marginal(q).cells[support], return_inverse=True)[1] for q in PERSONS.rounding]
    totals = siblings.limits.totals[:, None]
    bounds = [(totals, totals) if fixed else None, (constraints.lower, constraints.upper), None, None]
    histograms = round_children(x, chain, siblings.parent[support], bounds)
    assert np.array_equal(histograms.sum(axis=0), siblings.parent[support])
    assert histograms.min() >= 0
    for nodes in (*chain, np.arange(len(support))):
        size = int(nodes.max()) + 1
        assert np.abs(add_up(histograms, nodes, size) - add_up(x, nodes, size)).max() < 1 + NEAR
    kinds = add_up(histograms, chain[1], len(constraints.starts) - 1)
    assert np.all((constraints.lower <= kinds) & (kinds <= constraints.upper))
    if fixed:
        assert np.array_equal(histograms.sum(axis=1), siblings.limits.totals)
    assert np.array_equal(round_children(x, chain, siblings.parent[support], bounds), histograms)


def test_integers_stay() -> None:
    x = np.array([[2.0, 0.0, 1.0, 5.0], [0.0, 3.0, 0.0, 1.0]])
    rounded = round_children(x, CHAIN, x.sum(axis=0).astype(np.int64), [None, None])
    assert np.array_equal(rounded, x)
    assert distances(rounded, x) == (0, 0, 0)


def test_without_a_parent_each_cell_is_free_and_the_total_is_kept() -> None:
    total = np.array([[3]])
    rounded = round_children(np.array([[0.6, 0.6, 0.9, 0.9]]), CHAIN, None, [(total, total), None])
    assert rounded.tolist() == [[0, 1, 1, 1]] or rounded.tolist() == [[1, 0, 1, 1]]


def test_a_program_that_rounds_each_child_by_itself_is_found_out() -> None:
    x = np.full((4, 4), 0.25)
    parent = np.ones(4, dtype=np.int64)
    assert not np.array_equal(np.rint(x).sum(axis=0), parent)
    rounded = round_children(x, CHAIN, parent, [None, None])
    assert np.array_equal(rounded.sum(axis=0), parent)
    assert rounded.sum(axis=1).tolist() == [1, 1, 1, 1]


def test_a_program_that_rounds_cells_at_once_is_found_out() -> None:
    """Cells alone are as near with all the first child's taken up; its total must not stray, being rounded first."""
    x = np.full((2, 4), 0.5)
    parent = np.ones(4, dtype=np.int64)
    rounded = round_children(x, CHAIN, parent, [None, None])
    assert rounded.sum(axis=1).tolist() == [2, 2]
    assert np.array_equal(add_up(rounded, CHAIN[1], 2), np.ones((2, 2)))
    careless = np.array([[1, 1, 1, 1], [0, 0, 0, 0]])
    assert distances(careless, x)[2] == pytest.approx(distances(rounded, x)[2])
    assert distances(careless, x)[0] > distances(rounded, x)[0]


def test_a_real_value_that_is_an_integer_but_for_its_last_digits_is_not_taken_for_a_choice() -> None:
    x = np.array([[1.0 - 1e-9, 2.0, 0.5, 0.5], [1.0 + 1e-9, 0.0, 0.5, 0.5]])
    rounded = round_children(x, CHAIN, np.array([2, 2, 1, 1]), [None, None])
    assert rounded[:, :2].tolist() == [[1, 2], [1, 0]]


def test_near_integers_move_where_nothing_else_meets_the_constraints() -> None:
    """The real values miss a held total: an integer must give way, by 1."""
    x = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]])
    totals = np.array([[3], [1]])
    rounded = round_children(x, CHAIN, np.array([2, 2, 0, 0]), [(totals, totals), None])
    assert rounded.sum(axis=1).tolist() == [3, 1]
    assert np.abs(rounded - x).max() == 1


def test_what_no_integers_nearby_can_meet_is_refused() -> None:
    x = np.full((2, 4), 0.5)
    totals = np.array([[5], [0]])
    with pytest.raises(NotRoundedError, match="2 children of 4 cells: no integers within 1 meet the constraints"):
        round_children(x, CHAIN, np.ones(4, dtype=np.int64), [(totals, totals), None])
