"""Random trees, walked down level by level: properties of one family's histograms hold for the whole tree."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.topdown_problems import measure
from mechanisms.topdown.decomposition import Information
from mechanisms.topdown.estimation import Families, Measurement, estimate_families
from mechanisms.topdown.feasibility import FREE, Limits, propagate
from mechanisms.topdown.information import inform
from mechanisms.topdown.least_squares import NotSolvedError
from tests.depth import examples
from tests.mechanisms.topdown.problems import SMALL

LEVELS = ("Nation", "State", "County", "Block")
QUERIES = ("total", "kind", "race", "detailed")


@dataclass(frozen=True)
class Tree:
    """Places by level, the exact counts of the finest, and the limits of each place."""

    parents: tuple[NDArray[np.int64], ...]
    truth: NDArray[np.int64]
    limits: tuple[Limits, ...]

    def starts(self, depth: int) -> NDArray[np.int64]:
        return np.searchsorted(self.parents[depth - 1], np.arange(self.parents[depth - 1].max() + 2))

    def truths(self) -> list[NDArray[np.int64]]:
        """Shape (places, cells), by level."""
        found = [self.truth]
        for parents in reversed(self.parents):
            above = np.zeros((parents.max() + 1, SMALL.size), dtype=np.int64)
            np.add.at(above, parents, found[-1])
            found.append(above)
        return found[::-1]


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Three or four levels; bounds by kind around the truth of the finest, and totals held at any level or at none."""
    parents, places = [], 1
    for _ in range(draw(st.integers(2, 3))):
        children = draw(st.lists(st.integers(1, 3), min_size=places, max_size=places))
        parents.append(np.repeat(np.arange(places), children))
        places = sum(children)
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    truth = random.poisson(draw(st.sampled_from((0.2, 2.0))), (places, SMALL.size)) * SMALL.possible
    kinds = SMALL.groups.answer(truth)
    unheld = Tree(tuple(parents), truth, ())
    totals: list[NDArray[np.int64] | None] = [None] * (len(parents) + 1)
    held = draw(st.none() | st.integers(0, len(parents) - 1))
    if held is not None:
        totals[held] = unheld.truths()[held].sum(axis=1)
    lower = (kinds > 0) * np.array([0, 1, 1])
    limits = propagate((*LEVELS[: len(parents)], "Block"), parents, lower, (kinds > 0) * 99_999, totals)
    return Tree(tuple(parents), truth, limits)


def walked_down(
    tree: Tree, *, seed: int = 0, scale: float = 1.0, at_a_time: int = 99, total_first: bool = True, full: bool = False
) -> list[NDArray[np.int64]]:
    """The histograms of all levels, so many families at a time; if it is `full`, with full information, and parts are
    held at the two levels from the root."""
    random = np.random.default_rng(seed)
    found: list[NDArray[np.int64]] = []
    by_level = []
    for depth, truth in enumerate(tree.truths()):
        noises = {query: Fraction(9) for query in QUERIES if query != "total" or depth}
        by_level.append(measure(SMALL, truth, noises, random, scale))
    informed = inform_all(tree, by_level) if full else [None] * len(by_level)
    for depth, (truth, measured) in enumerate(zip(tree.truths(), by_level, strict=True)):
        starts = tree.starts(depth) if depth else np.array([0, 1])
        information = informed[depth]
        histograms = np.zeros_like(truth)
        for first in range(0, len(starts) - 1, at_a_time):
            last = min(first + at_a_time, len(starts) - 1)
            own, limits = slice(starts[first], starts[last]), tree.limits[depth]
            families = Families(
                SMALL,
                tuple(f"children of {number}" for number in range(first, last)),
                starts[first : last + 1] - starts[first],
                tuple(replace(each, answers=each.answers[own]) for each in measured),
                limits.between(own.start, own.stop),
                total_first and not full,
                found[-1][first:last] if depth else None,
                None if information is None else information.between(own.start, own.stop),
                hold=full and depth < 2,
            )
            children = estimate_families(families)
            assert np.all(children.counts > 0)
            assert 0 <= children.solved <= last - first
            assert children.gap <= 1e-9
            assert children.violation <= 1e-7
            histograms[starts[first] + children.children, children.cells] = children.counts
        found.append(histograms)
    return found


def inform_all(tree: Tree, measured: Sequence[tuple[Measurement, ...]]) -> list[Information | None]:
    """By level, the information about all places; None at the finest."""
    informed: list[Information | None] = [None]
    for depth in reversed(range(1, len(measured))):
        starts, limits = tree.starts(depth), tree.limits[depth]
        names = ("",) * (len(starts) - 1)
        below = Families(SMALL, names, starts, measured[depth], limits, total_first=False, histograms=None)
        informed.insert(0, inform(below, informed[0], measured[depth - 1]))
    return informed


@settings(max_examples=examples(80))
@given(trees(), st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
def test_every_constraint_is_exact_all_the_way_down(tree: Tree, seed: int, total_first: bool, full: bool) -> None:
    found = walked_down(tree, seed=seed, total_first=total_first, full=full)
    for parents, above, below in zip(tree.parents, found, found[1:], strict=False):
        summed = np.zeros_like(above)
        np.add.at(summed, parents, below)
        assert np.array_equal(summed, above)
    for histograms, limits in zip(found, tree.limits, strict=True):
        assert histograms.min() >= 0
        assert not histograms[:, ~SMALL.possible].any()
        kinds = SMALL.groups.answer(histograms)
        assert np.all((limits.lower <= kinds) & (kinds <= limits.upper))
        held = limits.totals != FREE
        assert np.array_equal(histograms.sum(axis=1)[held], limits.totals[held])


@settings(max_examples=examples(30))
@given(trees(), st.booleans())
def test_without_noise_the_truth_comes_back_all_the_way_down(tree: Tree, full: bool) -> None:
    for found, truth in zip(walked_down(tree, scale=0, full=full), tree.truths(), strict=True):
        assert np.array_equal(found, truth)


@settings(max_examples=examples(20))
@given(trees(), st.integers(1, 3), st.booleans())
def test_how_many_families_are_done_at_a_time_makes_no_difference(tree: Tree, at_a_time: int, full: bool) -> None:
    for one, other in zip(walked_down(tree, full=full), walked_down(tree, at_a_time=at_a_time, full=full), strict=True):
        assert np.array_equal(one, other)


def test_children_that_cannot_be_estimated_are_named_after_their_parent() -> None:
    """The second family has at least three of one kind, and at most two."""
    limits = Limits(np.array([[0, 0, 0], [3, 0, 0]]), np.array([[9, 9, 9], [2, 9, 9]]), np.full(2, FREE))
    measurements = (Measurement("detailed", Fraction(1), np.zeros((2, SMALL.size), dtype=np.int32)),)
    names, starts = ("counties of state A", "counties of state B"), np.array([0, 1, 2])
    families = Families(SMALL, names, starts, measurements, limits, True, None)
    with pytest.raises(NotSolvedError, match=r"^people of counties of state B: 1 children"):
        estimate_families(families)
