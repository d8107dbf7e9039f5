"""Estimation reads exactly the listed answers; and answers of many siblings at a time equal the answers one by one."""

import gc
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from weakref import ref

import numpy as np
import pytest
from numpy.typing import NDArray

from mechanisms.topdown.dhc.allocation import UNIT_ALLOCATION
from mechanisms.topdown.dhc.answers import Asked, Kept, Lists, join_lists, list_cells
from mechanisms.topdown.dhc.households import OCCUPANCY, UNITS
from mechanisms.topdown.dhc.levels import Level, Measuring, estimate_level, find_read, plan_levels, read_all
from mechanisms.topdown.dhc.passes import UNIT_PLAN
from mechanisms.topdown.schema import DETAILED, Counts
from tests.mechanisms.topdown.dhc.country import add_up, count
from tests.mechanisms.topdown.dhc.test_estimation import lower_levels

Numbers = NDArray[np.int64]

PARENTS = [np.array(each) for each in ([0], [0, 0, 0], [0, 0, 1, 2, 2], [0, 0, 1, 2, 2, 3, 4, 4, 4])]
"""The second place of the second level has an only child, which has two; the third place of the third has one."""


@dataclass
class Noted:
    """The answers of a level, with a note of the places whose answers were read."""

    answers: Measuring
    places: set[int] = field(default_factory=set)

    @property
    def schema(self) -> object:
        return self.answers.schema

    @property
    def level(self) -> Level:
        return self.answers.level

    def answer(self, asked: Asked) -> Numbers:
        self.places |= set(asked.places.tolist())
        return self.answers.answer(asked)


@pytest.fixture(scope="module")
def measured() -> list[tuple[Measuring, Counts]]:
    """By level, the answers and the exact counts. The first two blocks and the place above them are empty."""
    random = np.random.default_rng(7)
    exact = [count(UNITS, random.integers(2, 9, 60), random.integers(0, 6, 60))]
    for above in PARENTS[:0:-1]:
        exact.insert(0, add_up(UNITS, exact[0], above))
    levels = plan_levels(UNITS, lower_levels(UNIT_ALLOCATION, 4), PARENTS)
    return [(Measuring(UNITS, *each, bytes(32)), each[1]) for each in zip(levels, exact, strict=True)]


def test_exact_counts_leave_memory_with_what_reads_them(measured: Sequence[tuple[Measuring, Counts]]) -> None:
    """Fails for: a cache of precisions that refers to the answers, as `lru_cache` of a method does, and so keeps
    the counts of all families until Python collects cycles."""
    noted = [Noted(answers) for answers, _ in measured]
    gc.disable()
    try:
        readings, kept = read_all(noted, PARENTS), [ref(each) for each in noted]
        readings[0].read(DETAILED, 0, 1, np.arange(3))
        assert noted[0].places
        del noted, readings
        assert [each() for each in kept] == [None] * len(PARENTS)
    finally:
        gc.enable()


@pytest.mark.parametrize("full", [True, False])
def test_what_is_read_is_told_beforehand(measured: Sequence[tuple[Measuring, Counts]], full: bool) -> None:
    """Fails for: all places that are measured; children of places that do not gain by them; the children of an only
    child left out; and siblings whose parent is empty."""
    above, levels = None, [answers.level for answers, _ in measured]
    for depth, (_, exact) in enumerate(measured):
        noted = [Noted(answers) for answers, _ in measured[depth:]]
        occupancy = exact.answer(UNITS.marginal(OCCUPANCY), 0, len(PARENTS[depth]))
        reading = read_all(noted, PARENTS[depth:], full)[0]  # type: ignore[arg-type]
        places = np.arange(1 if above is None else len(PARENTS[depth - 1]))
        peopled = np.ones(1, dtype=np.bool_) if above is None else np.isin(places, above.number)
        above = estimate_level(UNIT_PLAN, reading, occupancy, PARENTS[depth], above).counts
        due = find_read(UNIT_PLAN, levels[depth:], PARENTS[depth:], peopled, full)
        read = [set(np.flatnonzero(own[DETAILED]).tolist()) if own else set() for own in due]
        assert [each.places for each in noted] == read
    assert any(len(own) < len(PARENTS[-1]) for own in read)


def test_answers_of_many_siblings_are_those_one_by_one(measured: Sequence[tuple[Measuring, Counts]]) -> None:
    """Fails for: the budget of a place without an only child; cells of another family; and answers in the order
    of cells, then places. Places are counted from one that is not the level's first."""
    answers, exact = measured[2]
    last = exact.number > 2
    level, own = answers.level.take(3, 5), Counts(exact.number[last] - 3, exact.cell[last], exact.count[last])
    lists = join_lists(
        [Lists(np.array([0, 1]), np.array([5])), list_cells(UNITS.marginal(DETAILED), own, np.arange(1))]
    )
    asked = Asked(DETAILED, np.array([0, 1]), np.array([1, 2]), lists, np.array([1, 0]))
    measuring = Measuring(UNITS, level, own, bytes(32))
    found = measuring.draw_noise(asked)
    asked.add_exact(UNITS.marginal(DETAILED), own, found)
    cells = np.unique(own.cell[own.number == 0])
    due = [measuring.read(DETAILED, 0, 1, cells), measuring.read(DETAILED, 1, 2, np.array([5]))]
    assert found.tolist() == np.concatenate([each.ravel() for each in due]).tolist()
    assert [(first, last, each.tolist()) for first, last, each, _ in asked.list_families()] == [
        (0, 1, cells.tolist()), (1, 2, [5])
    ]  # fmt: skip
    ends = np.array([0, len(cells), len(cells) + 1])
    kept = Kept(np.arange(2), ends[:-1], ends[1:], ends[:-1], ends[1:],
                np.append(cells, 5).astype(np.int32), found.astype(np.int32))  # fmt: skip
    assert np.array_equal(kept.pick(asked, whole=True), found)  # type: ignore[arg-type]
    fewer = replace(
        asked, lists=join_lists([Lists(np.array([0, 1]), np.array([5])), Lists(np.array([0, 1]), cells[1:2])])
    )
    assert kept.pick(fewer, whole=True) is None, "another answer is kept"
    assert kept.pick(fewer, whole=False).tolist() == [found[1], found[-1]]  # type: ignore[union-attr]
    assert kept.pick(replace(fewer, last=np.array([1, 3])), whole=False) is None, "a place is missing"
    other = replace(fewer, lists=Lists(np.array([0, 1, 2]), np.array([5, 34])))
    assert kept.pick(other, whole=False) is None, "a cell is missing"
    shorter = replace(kept, last_answer=ends[1:] - np.array([1, 0]))
    assert shorter.pick(fewer, whole=False) is None, "a place has fewer answers than cells"
