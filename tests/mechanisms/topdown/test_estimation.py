"""Siblings' histograms from noisy measurements: integers, every constraint exact, and the truth without noise."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.topdown_problems import Siblings, draw_siblings, measure
from mechanisms.topdown.allocation import UNIT_ALLOCATION, compute_variances
from mechanisms.topdown.estimation import Estimate, estimate
from mechanisms.topdown.feasibility import FREE, Limits, propagate
from mechanisms.topdown.least_squares import NotSolvedError
from mechanisms.topdown.schema import UNITS
from tests.depth import examples
from tests.mechanisms.topdown.problems import SMALL, small_siblings


def require_constraints(siblings: Siblings, found: Estimate) -> None:
    histograms, limits = found.histograms, siblings.limits
    assert histograms.dtype == np.int64
    assert histograms.min() >= 0
    assert np.array_equal(histograms.sum(axis=0), siblings.parent)
    kinds = siblings.schema.groups.answer(histograms)
    assert np.all((limits.lower <= kinds) & (kinds <= limits.upper))
    fixed = limits.totals != FREE
    assert np.array_equal(histograms.sum(axis=1)[fixed], limits.totals[fixed])
    assert not histograms[:, ~siblings.schema.possible].any()


@settings(max_examples=examples(100), deadline=None)
@given(small_siblings(), st.booleans())
def test_every_constraint_is_met_exactly(siblings: Siblings, total_first: bool) -> None:
    found = estimate(SMALL, siblings.measurements, siblings.limits, siblings.parent, total_first=total_first)
    require_constraints(siblings, found)
    again = estimate(SMALL, siblings.measurements, siblings.limits, siblings.parent, total_first=total_first)
    assert np.array_equal(found.histograms, again.histograms)


@settings(max_examples=examples(60), deadline=None)
@given(small_siblings(scale=0))
def test_without_noise_the_truth_comes_back(siblings: Siblings) -> None:
    found = estimate(SMALL, siblings.measurements, siblings.limits, siblings.parent, total_first=True)
    assert np.array_equal(found.histograms, siblings.truth)


SHAPES = [
    ("Block", 28, 75, 3, 2_250),
    ("Block_Group", 4, 300, 4, 9_000),
    ("Tract", 8, 300, 4, 9_000),
    ("County", 10, 500, 8, 100_000),
    ("State", 2, 1000, 8, 10**7),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape[0])
def test_problems_of_productions_shape_meet_every_constraint(shape: tuple[str, int, int, int, int]) -> None:
    siblings = draw_siblings(*shape, seed=1, fixed=shape[0] == "State")
    found = estimate(siblings.schema, siblings.measurements, siblings.limits, siblings.parent, total_first=True)
    require_constraints(siblings, found)
    assert len(found.solutions) == (1 if shape[0] == "State" else 2)
    for solution in found.solutions:
        assert solution.gap <= 1e-6 * max(solution.objective, 1)
        assert solution.violation <= 1e-6


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape[0])
def test_problems_of_productions_shape_without_noise_have_the_truth(shape: tuple[str, int, int, int, int]) -> None:
    siblings = draw_siblings(*shape, seed=1, fixed=shape[0] == "State", scale=0)
    found = estimate(siblings.schema, siblings.measurements, siblings.limits, siblings.parent, total_first=True)
    assert np.array_equal(found.histograms, siblings.truth)


def test_totals_are_decided_by_their_own_measurement_alone() -> None:
    """Other queries are off by thousands; a program that fits all of them in one pass would move the totals."""
    siblings = draw_siblings("Block_Group", 4, 100, 2, 4_000, seed=3, fixed=False, scale=0)
    shifted = np.array([[2_000], [-2_000], [1_000], [-1_000]])
    misled = tuple(
        m if m.query == "total" else replace(m, answers=m.answers + shifted // m.answers.shape[1])
        for m in siblings.measurements
    )
    wide = replace(
        siblings.limits, lower=np.zeros_like(siblings.limits.lower), upper=np.full_like(siblings.limits.upper, 10**6)
    )
    found = estimate(siblings.schema, misled, wide, siblings.parent, total_first=True)
    assert np.array_equal(found.histograms.sum(axis=1), siblings.truth.sum(axis=1))
    together = estimate(siblings.schema, misled, wide, siblings.parent, total_first=False)
    assert len(together.solutions) == 1
    assert not np.array_equal(together.histograms.sum(axis=1), siblings.truth.sum(axis=1))


def test_in_one_pass_all_queries_decide_on_totals_together() -> None:
    """Blocks of production, where `total` has σ = 89: the one pass is several times as accurate as `total` by
    itself."""
    siblings = draw_siblings("Block", 28, 75, 3, 2_250, seed=5, fixed=False)
    truth = siblings.truth.sum(axis=1)
    errors = [
        np.abs(
            estimate(
                siblings.schema, siblings.measurements, siblings.limits, siblings.parent, total_first=first
            ).histograms.sum(axis=1)
            - truth
        ).mean()
        for first in (False, True)
    ]
    assert 3 * errors[0] < errors[1]


def test_a_tree_is_walked_down_from_its_root() -> None:
    """State, counties, blocks: a level's integers are the next one's parents; the state's population is invariant."""
    random = np.random.default_rng(8)
    blocks = random.poisson(2.0, size=(7, SMALL.size)) * SMALL.possible
    county_of, state_of = np.array([0, 0, 0, 1, 1, 1, 2]), np.zeros(3, dtype=np.int64)
    counties = np.array([blocks[county_of == county].sum(axis=0) for county in range(3)])
    state = blocks.sum(axis=0, keepdims=True)
    kinds = SMALL.groups.answer(blocks)
    places = (kinds > 0).astype(np.int64)
    lower, upper = places * [0, 1, 1], 99_999 * places
    levels = propagate(
        ("State", "County", "Block"),
        (state_of, county_of),
        lower,
        upper,
        [np.array([state.sum()]), None, None],
    )
    noises = {query: Fraction(9) for query in ("total", "kind", "race", "detailed")}
    above = estimate(SMALL, measure(SMALL, state, noises, random), levels[0], None, total_first=True).histograms
    assert above.sum() == state.sum()
    below = estimate(SMALL, measure(SMALL, counties, noises, random), levels[1], above[0], total_first=True).histograms
    for county in range(3):
        own = county_of == county
        limits = Limits(levels[2].lower[own], levels[2].upper[own], levels[2].totals[own])
        parent = below[county]
        found = estimate(SMALL, measure(SMALL, blocks[own], noises, random), limits, parent, total_first=True)
        require_constraints(Siblings(SMALL, (), limits, found.histograms), found)
        assert np.array_equal(found.histograms.sum(axis=0), parent)


def test_units_are_estimated_with_their_numbers_held() -> None:
    random = np.random.default_rng(2)
    truth = np.stack([random.poisson(20, 30), random.poisson(3, 30)], axis=1)
    units = truth.sum(axis=1)
    limits = Limits(units[:, None], units[:, None], units)
    measurements = measure(UNITS, truth, compute_variances(UNIT_ALLOCATION, "Block"), random)
    found = estimate(UNITS, measurements, limits, truth.sum(axis=0), total_first=True).histograms
    assert np.array_equal(found.sum(axis=1), units)
    assert np.array_equal(found.sum(axis=0), truth.sum(axis=0))
    assert found.min() >= 0


def test_an_only_child_and_children_of_nobody_are_their_parents() -> None:
    siblings = draw_siblings("Tract", 1, 50, 2, 500, seed=1, fixed=False)
    found = estimate(siblings.schema, siblings.measurements, siblings.limits, siblings.parent, total_first=True)
    assert np.array_equal(found.histograms, siblings.truth)
    nobody = np.zeros(SMALL.size, dtype=np.int64)
    limits = Limits(np.zeros((3, 3), np.int64), np.ones((3, 3), np.int64), np.full(3, FREE))
    assert not estimate(SMALL, (), limits, nobody, total_first=True).histograms.any()


def test_a_parent_that_its_children_cannot_make_up_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mechanisms.topdown.least_squares.ITERATIONS", 50)
    siblings = draw_siblings("Block", 5, 40, 3, 300, seed=1, fixed=False)
    cramped = replace(siblings.limits, upper=siblings.limits.upper // 99_999)
    with pytest.raises(NotSolvedError):
        estimate(siblings.schema, siblings.measurements, cramped, siblings.parent, total_first=True)
