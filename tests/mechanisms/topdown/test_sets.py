"""Counts of several groups together: a declaration is accepted exactly if it can be met, and then always is met.

Every claim about limits is compared with an enumeration: of all integers that the units of the finest level may have,
and of all their sums.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise, product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from benchmarks.topdown_problems import measure
from mechanisms.topdown import estimation, feasibility
from mechanisms.topdown.estimation import estimate
from mechanisms.topdown.feasibility import FREE, InfeasibleError, Limits, Sets, list_members, propagate
from mechanisms.topdown.least_squares import NotSolvedError
from mechanisms.topdown.rounding import NotRoundedError
from mechanisms.topdown.schema import Attribute, Recode, Schema
from mechanisms.topdown.sets import nearest_counts, satisfies_sets
from tests.depth import examples

Counts = set[tuple[int, ...]]

FIVE_KINDS = Schema(
    name="people",
    attributes=(Attribute("kind", 5), Attribute("adult", 2), Attribute("race", 2)),
    recodes=(Recode("household", "kind", (0, 1, 1, 1, 1)),),
    bounded="kind",
    impossible=({"kind": 2, "adult": 0},),
    rounding=("total", "kind", "kind * race"),
)
"""With a fixed total, at least four kinds are needed for sets that bounds do not decide."""

EXACT = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    phases=[Phase.explicit, Phase.generate],
)


@dataclass(frozen=True)
class Declared:
    """A tree, bounds of its finest places, and the totals held, by level."""

    parents: tuple[NDArray[np.int64], ...]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    totals: tuple[NDArray[np.int64] | None, ...]

    @property
    def levels(self) -> tuple[str, ...]:
        return (*("Nation", "State", "County")[: len(self.parents)], "Block")

    def limits(self) -> tuple[Limits, ...]:
        return propagate(self.levels, self.parents, self.lower, self.upper, self.totals)

    def starts(self, depth: int) -> NDArray[np.int64]:
        return np.searchsorted(self.parents[depth - 1], np.arange(self.parents[depth - 1].max() + 2))

    def possible(self) -> list[list[Counts]]:
        """All possible group counts, by level and place."""
        finest = [
            set(product(*(range(low, high + 1) for low, high in zip(*pair, strict=True))))
            for pair in zip(self.lower, self.upper, strict=True)
        ]
        found = [held(finest, self.totals[-1])]
        for depth in range(len(self.parents), 0, -1):
            starts = self.starts(depth)
            above = [added(found[-1][first:last]) for first, last in pairwise(starts)]
            found.append(held(above, self.totals[depth - 1]))
        return found[::-1]


def held(places: list[Counts], totals: NDArray[np.int64] | None) -> list[Counts]:
    if totals is None:
        return places
    return [
        {counts for counts in place if total in (FREE, sum(counts))}
        for place, total in zip(places, totals, strict=True)
    ]


def added(places: Sequence[Counts]) -> Counts:
    found = places[0]
    for place in places[1:]:
        found = {tuple(map(sum, zip(one, other, strict=True))) for one in found for other in place}
    return found


def within(limits: Limits, place: int) -> Counts:
    """All integers that keep to the limits of a place."""
    boxes = [range(low, high + 1) for low, high in zip(limits.lower[place], limits.upper[place], strict=True)]
    found = np.array(list(product(*boxes)))
    keep = np.ones(len(found), dtype=bool)
    if limits.totals[place] != FREE:
        keep &= found.sum(axis=1) == limits.totals[place]
    if limits.sets is not None and place in limits.sets.units:
        row = list(limits.sets.units).index(place)
        sums = found @ list_members(found.shape[1]).T
        keep &= ((limits.sets.least[row] <= sums) & (sums <= limits.sets.most[row])).all(axis=1)
    return set(map(tuple, found[keep].tolist()))


def summed(counts: NDArray[np.int64], parents: NDArray[np.int64]) -> NDArray[np.int64]:
    above = np.zeros((parents.max() + 1, counts.shape[1]), dtype=np.int64)
    np.add.at(above, parents, counts)
    return above


SHAPES = [
    tuple(np.array(level) for level in levels)
    for levels in (
        ([0, 0],),
        ([0, 0, 0],),
        ([0, 0], [0, 0, 1, 1]),
        ([0, 0], [0, 0, 1]),
        ([0, 0], [0, 0, 1, 1, 1]),
        ([0, 0, 0], [0, 1, 1, 2, 2]),
        ([0, 0], [0, 1, 1], [0, 0, 1, 2, 2]),
    )
]


@st.composite
def declarations(draw: st.DrawFn) -> Declared:
    """Any bounds of three or four groups, often none at all, and any totals, mostly ones that can be met."""
    parents = draw(st.sampled_from(SHAPES))
    places, groups = len(parents[-1]), draw(st.sampled_from((3, 4, 4)))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    there = random.random((places, groups)) < draw(st.sampled_from((0.4, 0.6, 0.9)))
    lower = 1 * (there & (random.random(there.shape) < 0.2))
    upper = lower + there * random.integers(0, 3, there.shape)
    truth = random.integers(lower, upper + 1)
    totals: list[NDArray[np.int64] | None] = [None] * (len(parents) + 1)
    for depth in range(len(parents), -1, -1):
        if draw(st.booleans()):
            wrong = (random.random(len(truth)) < draw(st.sampled_from((0, 0, 0.3)))) * random.choice([-2, -1, 1, 2])
            fixed = random.random(len(truth)) < draw(st.sampled_from((0.5, 1)))
            totals[depth] = np.where(fixed, np.maximum(truth.sum(axis=1) + wrong, 0), FREE)
        if depth:
            truth = summed(truth, parents[depth - 1])
    return Declared(parents, lower, upper, tuple(totals))


@pytest.mark.prove
@settings(EXACT, max_examples=examples(1500))
@given(declarations())
def test_limits_are_those_of_the_counts_that_there_can_be(declared: Declared) -> None:
    """A declaration is accepted exactly if it has possible counts; and then, at every place, exactly the possible
    counts keep to the limits, and bounds are as tight as they can be."""
    possible = declared.possible()
    try:
        levels = declared.limits()
    except InfeasibleError:
        assert not all(place for level in possible for place in level)
        return
    for limits, level in zip(levels, possible, strict=True):
        for place, counts in enumerate(level):
            assert within(limits, place) == counts
            assert counts
            assert limits.lower[place].tolist() == np.min(list(counts), axis=0).tolist()
            assert limits.upper[place].tolist() == np.max(list(counts), axis=0).tolist()


PAIRS = Declared(
    (np.array([0, 0]),),
    np.zeros((2, 4), dtype=np.int64),
    np.array([[10, 10, 0, 0], [0, 0, 10, 10]]),
    (None, np.array([10, 10])),
)
"""Two places with ten people each, one with kinds 0 and 1 alone, one with kinds 2 and 3: the nation has any number up
to ten of each kind, but ten of the first two."""


def test_kinds_that_no_place_has_together_are_tied_to_its_total() -> None:
    nation, places = PAIRS.limits()
    assert nation.lower.tolist() == [[0, 0, 0, 0]]
    assert nation.upper.tolist() == [[10, 10, 10, 10]]
    assert nation.sets is not None
    assert nation.sets.units.tolist() == [0]
    assert nation.sets.least[0, [0b0011, 0b1100, 0b0101]].tolist() == [10, 10, 0]
    assert nation.sets.most[0, [0b0011, 0b1100, 0b0101]].tolist() == [10, 10, 20]
    assert places.sets is None
    assert replace(PAIRS, totals=(None, None)).limits()[0].sets is None


@settings(EXACT, max_examples=examples(30))
@given(declarations(), st.integers(1, 3))
def test_how_many_places_are_added_up_at_a_time_makes_no_difference(declared: Declared, at_a_time: int) -> None:
    def arrays() -> list[NDArray[np.int64]]:
        levels = declared.limits()
        sets = [each.sets for each in levels if each.sets is not None]
        return [
            *(array for each in levels for array in (each.lower, each.upper)),
            *(array for each in sets for array in (each.units, each.least, each.most)),
        ]

    try:
        together = arrays()
    except InfeasibleError:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feasibility, "_AT_A_TIME", at_a_time)
        assert all(np.array_equal(one, other) for one, other in zip(together, arrays(), strict=True))


def test_the_limits_of_some_units_are_theirs_alone() -> None:
    sets = Sets(np.array([1, 4]), np.arange(32).reshape(2, 16), np.arange(32, 64).reshape(2, 16))
    limits = Limits(np.arange(20).reshape(5, 4), np.arange(20, 40).reshape(5, 4), np.arange(5), sets)
    some = limits.between(2, 5)
    assert np.array_equal(some.lower, limits.lower[2:5])
    assert np.array_equal(some.upper, limits.upper[2:5])
    assert some.totals.tolist() == [2, 3, 4]
    assert some.sets is not None
    assert some.sets.units.tolist() == [2]
    assert some.sets.least.tolist() == [sets.least[1].tolist()]
    assert some.sets.most.tolist() == [sets.most[1].tolist()]
    assert limits.between(2, 4).sets is None


@st.composite
def divisions(draw: st.DrawFn) -> tuple[Declared, int, int, NDArray[np.float64]]:
    """A declaration that can be met, a place whose children have sets, and the children's estimates."""
    declared = draw(declarations())
    try:
        levels = declared.limits()
    except InfeasibleError:
        assume(False)
        raise
    families = [(0, 0)] if levels[0].sets is not None else []
    for depth in range(1, len(levels)):
        sets = levels[depth].sets
        if sets is not None:
            families += [(depth, int(parent)) for parent in np.unique(declared.parents[depth - 1][sets.units])]
    assume(families)
    depth, parent = draw(st.sampled_from(families))
    children = np.diff(declared.starts(depth))[parent] if depth else 1
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    real = random.uniform(-1, 5, (children, declared.lower.shape[1]))
    return declared, depth, parent, np.round(real) if draw(st.booleans()) else real


@pytest.mark.deep
@settings(EXACT, max_examples=examples(150))
@given(divisions(), st.randoms(use_true_random=False))
def test_counts_are_the_nearest_that_keep_to_all_limits(
    division: tuple[Declared, int, int, NDArray[np.float64]], random: Random
) -> None:
    """For any counts that the parent can have. The least distance is found by enumeration, child by child."""
    declared, depth, parent, real = division
    first, last = declared.starts(depth)[parent : parent + 2] if depth else (0, 1)
    possible = declared.possible()
    sums = random.choice(sorted(possible[depth - 1][parent])) if depth else None
    limits = declared.limits()[depth].between(first, last)
    found = nearest_counts(real, limits, None if sums is None else np.array(sums))
    for child, counts in zip(found.tolist(), possible[depth][first:last], strict=True):
        assert tuple(child) in counts
    distances = {(0,) * real.shape[1]: 0.0}
    for wanted, counts in zip(real, possible[depth][first:last], strict=True):
        own = {each: float(np.abs(np.array(each) - wanted).sum()) for each in counts}
        following: dict[tuple[int, ...], float] = {}
        for (before, distance), (each, more) in product(distances.items(), own.items()):
            reached = tuple(map(sum, zip(before, each, strict=True)))
            following[reached] = min(following.get(reached, np.inf), distance + more)
        distances = following
    least = min(distances.values()) if sums is None else distances[sums]
    if sums is not None:
        assert tuple(found.sum(axis=0).tolist()) == sums
    assert np.abs(found - real).sum() <= least + 1e-6


def of_many_kinds(children: int, seed: int) -> tuple[Limits, NDArray[np.int64], NDArray[np.float64]]:
    """Counties of ten blocks each with eight kinds, their limits and sums, and estimates far from all possible counts.

    Blocks have up to four kinds, and their totals are held.
    """
    random = np.random.default_rng(seed)
    blocks = 10 * children
    kinds = random.random((blocks, 8)).argsort(axis=1) < random.integers(1, 5, (blocks, 1))
    lower = kinds * (np.arange(8) > 0)
    truth = lower + kinds * random.poisson(20 * random.pareto(1.5, (blocks, 8)))
    parents = (np.zeros(children, dtype=np.int64), np.repeat(np.arange(children), 10))
    levels = propagate(("Nation", "County", "Block"), parents, lower, 99_999 * kinds, (None, None, truth.sum(axis=1)))
    real = summed(truth, parents[1]) * random.choice([0.1, 0.5, 1.0, 2.0, 5.0], (children, 8)) + random.random(
        (children, 8)
    )
    return levels[1], truth.sum(axis=0), real


@pytest.mark.parametrize("children", [1, 4, 12])
def test_an_integer_program_with_all_sets_is_not_nearer(children: int) -> None:
    limits, sums, real = of_many_kinds(children, seed=children)
    assert limits.sets is not None
    found = nearest_counts(real, limits, sums)
    assert satisfies_sets(limits.sets, found)
    size = real.size
    in_set = list_members(8)
    rows = [np.kron(np.ones((1, children)), np.eye(8)), np.kron(np.eye(children), np.ones((1, 8)))]
    least, most = [sums, limits.totals], [sums, limits.totals]
    for row, unit in enumerate(limits.sets.units):
        rows.append(np.kron(np.eye(children)[unit], in_set))
        least.append(limits.sets.least[row])
        most.append(limits.sets.most[row])
    # |y − x| is the lower bound of a second column, once as y − x and once as x − y.
    keep = np.concatenate(rows)
    apart = np.block([[np.eye(size), np.eye(size)], [-np.eye(size), np.eye(size)]])
    program = milp(
        np.repeat([0, 1], size),
        integrality=np.repeat([1, 0], size),
        bounds=Bounds(
            np.concatenate([limits.lower.ravel(), np.zeros(size)]),
            np.concatenate([limits.upper.ravel(), [np.inf] * size]),
        ),
        constraints=[
            LinearConstraint(np.hstack([keep, np.zeros_like(keep)]), np.concatenate(least), np.concatenate(most)),
            LinearConstraint(apart, np.concatenate([real.ravel(), -real.ravel()]), np.inf),
        ],
    )
    assert program.status == 0
    assert np.abs(found - real).sum() <= program.fun + 1e-3


@dataclass(frozen=True)
class Peopled:
    """A declaration with a truth that keeps to it, shape (places, cells)."""

    declared: Declared
    truth: NDArray[np.int64]

    def truths(self) -> list[NDArray[np.int64]]:
        found = [self.truth]
        for parents in reversed(self.declared.parents):
            found.append(summed(found[-1], parents))
        return found[::-1]


@st.composite
def peopled(draw: st.DrawFn) -> Peopled:
    """Trees whose places have a few of five kinds each, totals held of all or of most of them, and at another level."""
    parents = draw(st.sampled_from([shape for shape in SHAPES if len(shape) > 1]))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    places = len(parents[-1])
    kinds = random.random((places, 5)) < draw(st.sampled_from((0.4, 0.6)))
    people = random.poisson(draw(st.sampled_from((0.3, 3.0))), (places, FIVE_KINDS.size)) * FIVE_KINDS.possible
    truth = people * kinds[:, FIVE_KINDS.groups.cells]
    counts = FIVE_KINDS.groups.answer(truth)
    totals: list[NDArray[np.int64] | None] = [None] * (len(parents) + 1)
    fixed = random.random(places) < draw(st.sampled_from((0.7, 1)))
    totals[-1] = np.where(fixed, truth.sum(axis=1), FREE)
    if draw(st.booleans()):
        totals[-2] = summed(truth, parents[-1]).sum(axis=1)
    lower = (counts > 0) * np.array([0, 1, 1, 1, 1])
    return Peopled(Declared(parents, lower, (counts > 0) * 99_999, tuple(totals)), truth)


QUERIES = {"total": Fraction(30), "kind": Fraction(20), "race": Fraction(9), "detailed": Fraction(9)}


def walked_down(
    tree: Peopled,
    measured_as: Sequence[NDArray[np.int64]],
    *,
    seed: int = 0,
    scale: float = 1,
    total_first: bool = False,
) -> list[NDArray[np.int64]]:
    """The histograms of all levels, from measurements of counts that may break the constraints."""
    random = np.random.default_rng(seed)
    found: list[NDArray[np.int64]] = []
    for depth, limits in enumerate(tree.declared.limits()):
        queries = {query: variance for query, variance in QUERIES.items() if depth or query != "total"}
        measurements = measure(FIVE_KINDS, measured_as[depth], queries, random, scale)
        starts = tree.declared.starts(depth) if depth else np.array([0, 1])
        families = []
        for parent, (first, last) in enumerate(pairwise(starts)):
            own = tuple(replace(each, answers=each.answers[first:last]) for each in measurements)
            above = found[-1][parent] if depth else None
            estimated = estimate(FIVE_KINDS, own, limits.between(first, last), above, total_first=total_first)
            families.append(estimated.histograms)
        found.append(np.concatenate(families))
    return found


def pushed(tree: Peopled, seed: int, by: float) -> list[NDArray[np.int64]]:
    """The truth with some kinds more and some fewer, different at every place."""
    random = np.random.default_rng(seed)
    return [
        truth
        + np.rint(by * random.random() * random.choice([-1, 0, 1], (len(truth), 5))[:, FIVE_KINDS.groups.cells]).astype(
            np.int64
        )
        for truth in tree.truths()
    ]


def require_constraints(tree: Peopled, found: list[NDArray[np.int64]]) -> None:
    declared = tree.declared
    for parents, above, below in zip(declared.parents, found, found[1:], strict=False):
        assert np.array_equal(summed(below, parents), above)
    finest = FIVE_KINDS.groups.answer(found[-1])
    assert np.all((declared.lower <= finest) & (finest <= declared.upper))
    for histograms, totals in zip(found, declared.totals, strict=True):
        assert histograms.min() >= 0
        assert not histograms[:, ~FIVE_KINDS.possible].any()
        if totals is not None:
            assert np.array_equal(histograms.sum(axis=1)[totals != FREE], totals[totals != FREE])


@settings(EXACT, max_examples=examples(150))
@given(peopled(), st.integers(0, 2**32 - 1), st.sampled_from((1, 30)), st.sampled_from((0, 10, 1000)), st.booleans())
def test_every_constraint_is_exact_all_the_way_down_whatever_is_measured(
    tree: Peopled, seed: int, scale: float, push: float, total_first: bool
) -> None:
    found = walked_down(tree, pushed(tree, seed, push), seed=seed, scale=scale, total_first=total_first)
    require_constraints(tree, found)


@settings(EXACT, max_examples=examples(50))
@given(peopled(), st.booleans())
def test_without_noise_the_truth_comes_back(tree: Peopled, total_first: bool) -> None:
    truths = tree.truths()
    for found, truth in zip(walked_down(tree, truths, scale=0, total_first=total_first), truths, strict=True):
        assert np.array_equal(found, truth)


def towns() -> Peopled:
    """Two states with two blocks each, whose ten people are of kinds 0 and 1 in one, of kinds 3 and 4 in the other."""
    kinds = np.array([[1, 1, 0, 0, 0], [0, 0, 0, 1, 1]] * 2)
    truth = np.zeros((4, FIVE_KINDS.size), dtype=np.int64)
    truth[:, 3::4] = 5 * kinds
    parents = (np.array([0, 0]), np.array([0, 0, 1, 1]))
    return Peopled(Declared(parents, np.zeros_like(kinds), 10 * kinds, (None, None, np.full(4, 10))), truth)


def misleading(tree: Peopled) -> list[NDArray[np.int64]]:
    """More of kinds 0 and 1 than are possible together, though as many of each alone are possible."""
    shift = np.zeros(FIVE_KINDS.size, dtype=np.int64)
    shift[3::4] = [3, 3, 0, -3, -3]
    return [truth + 12 // len(truth) // 3 * shift for truth in tree.truths()]


def test_who_looks_at_bounds_and_totals_alone_comes_to_a_dead_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nation and states have sixteen and eight of kind 0, as of kind 1; there is no such block."""
    tree = towns()
    found = walked_down(tree, misleading(tree), scale=0)
    require_constraints(tree, found)
    assert FIVE_KINDS.groups.answer(found[0])[0, :2].sum() == 20
    seen: list[NDArray[np.int64]] = []

    def blind(sets: Sets | None, counts: NDArray[np.int64]) -> bool:
        seen.append(counts)
        return True

    monkeypatch.setattr(estimation, "satisfies_sets", blind)
    monkeypatch.setattr("mechanisms.topdown.least_squares.ITERATIONS", 100)
    with pytest.raises((NotSolvedError, NotRoundedError)):
        walked_down(tree, misleading(tree), scale=0)
    for counts, limits in zip(seen, tree.declared.limits(), strict=False):
        assert np.all((limits.lower <= counts) & (counts <= limits.upper))
        assert np.array_equal(counts.sum(axis=1), limits.totals)
    assert [counts[:, :2].sum() > 20 for counts in seen] == [True, True]


def test_estimates_that_keep_to_all_sets_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts of kinds are decided separately only where this is necessary."""
    asked: list[NDArray[np.float64]] = []

    def spied(real: NDArray[np.float64], *rest: Any) -> NDArray[np.int64]:
        asked.append(real)
        return nearest_counts(real, *rest)

    monkeypatch.setattr(estimation, "nearest_counts", spied)
    tree = towns()
    nation = tree.declared.limits()[0]
    for people, decided in ((tree.truths(), 0), (misleading(tree), 1)):
        asked.clear()
        own = measure(FIVE_KINDS, people[0], {"detailed": Fraction(1)}, np.random.default_rng(0), 0)
        whole = estimate(FIVE_KINDS, own, nation, None, total_first=False)
        assert len(asked) == decided
        assert len(whole.solutions) == 1 + decided
        bounded = estimate(FIVE_KINDS, own, replace(nation, sets=None), None, total_first=False)
        assert np.array_equal(whole.histograms, bounded.histograms) == (not decided)
        for real in asked:
            assert np.abs(real - FIVE_KINDS.groups.answer(bounded.histograms)).max() < 1


def test_counts_that_no_children_can_have_are_refused() -> None:
    tree = towns().declared
    states = tree.limits()[1]
    for sums in ([16, 16, 0, 4, 4], [10, 10, 1, 10, 10], [10, 10, 0, 10, 9]):
        with pytest.raises(NotRoundedError, match="2 children: counts of groups within all limits: HiGHS gives Infeas"):
            nearest_counts(np.full((2, 5), 4.0), states, np.array(sums))


def test_counts_that_break_a_limit_are_refused_whatever_the_solver_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program's own answer is looked at in integers: here it was solved without the sets."""
    nation = towns().declared.limits()[0]
    monkeypatch.setattr("mechanisms.topdown.sets._solve_with_sets", lambda sets, program, counts: counts)
    with pytest.raises(NotRoundedError, match="1 children: the group counts that were found break a limit"):
        nearest_counts(np.array([[16.0, 16.0, 0.0, 4.0, 4.0]]), nation, None)
