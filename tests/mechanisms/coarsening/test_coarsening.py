"""Coarsening's two rules hold for any records; each test names the wrong program that it catches."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.coarsening.design import (
    CoarseningDesign,
    TooFewRecordsError,
    merge_small_places,
    move_small_combinations,
)
from mechanisms.design import DesignError

ROWS = st.lists(
    st.tuples(*[st.integers(0, 2)] * 2, st.integers(0, 3), st.integers(0, 2), st.integers(1, 9)),
    min_size=1,
    max_size=30,
)


@given(ROWS, st.integers(2, 25))
def test_every_place_and_every_rest_has_the_threshold_and_no_place_is_withheld_alone(
    rows: list[tuple[int, ...]], threshold: int
) -> None:
    """Fails for: merging only the places below the threshold, which a subtraction from the place above shows."""
    table = np.array(rows)
    places, counts = table[:, :2], table[:, 4]
    if counts.sum() < threshold:
        with pytest.raises(TooFewRecordsError):
            merge_small_places(places, counts, threshold)
        return
    depth = merge_small_places(places, counts, threshold)
    published: Counter[tuple[int, ...]] = Counter()
    for place, kept, count in zip(places.tolist(), depth, counts, strict=True):
        # The sum that a reader computes at each level: the named places, and the rest of the place above.
        for level in range(1, 3):
            published[tuple(place[: min(level, kept)]), level] += count  # type: ignore[index]
    assert min(published.values()) >= threshold
    large = Counter()
    for place, count in zip(places.tolist(), counts, strict=True):
        large[place[0]] += count
    if min(large.values()) >= threshold:
        assert depth.min() >= 1


def test_the_next_smallest_place_joins_a_rest_that_is_too_small() -> None:
    places = np.array([[0], [1], [2], [3]])
    assert merge_small_places(places, np.array([3, 12, 11, 50]), 10).tolist() == [0, 1, 0, 1]
    assert merge_small_places(places, np.array([30, 12, 11, 50]), 10).tolist() == [1, 1, 1, 1]


@given(ROWS, st.integers(2, 12))
def test_no_combination_is_small_and_places_are_exact(rows: list[tuple[int, ...]], least: int) -> None:
    """Fails for: moving to the nearest combination of any size, which leaves small ones."""
    table = np.array(rows)
    place, key, counts = table[:, 0], table[:, 2:4], table[:, 4]
    moved = move_small_combinations(place, key, counts, least)
    before: Counter[tuple[int, ...]] = Counter()
    after: Counter[tuple[int, ...]] = Counter()
    totals: Counter[int] = Counter()
    for at, old, new, count in zip(place.tolist(), key.tolist(), moved.tolist(), counts.tolist(), strict=True):
        before[(at, *old)] += count
        after[(at, *new)] += count
        totals[at] += count
    for combination, count in after.items():
        assert count >= min(least, totals[combination[0]])
        assert combination in before
    for combination, count in before.items():
        if count >= least:
            assert after[combination] >= count
    again = move_small_combinations(place, moved, counts, least)
    assert np.array_equal(again, moved)


def test_a_combination_moves_to_the_nearest_by_variables_then_steps_then_frequency() -> None:
    key = np.array([[0, 0], [0, 9], [1, 1], [0, 3], [0, 6]])
    counts = np.array([1, 9, 30, 5, 7])
    place = np.zeros(5, dtype=np.int64)
    assert move_small_combinations(place, key, counts, 5)[0].tolist() == [0, 3]
    assert move_small_combinations(place, key, counts, 6)[0].tolist() == [0, 6]
    assert move_small_combinations(place, key, counts, 6)[3].tolist() == [0, 6]
    # Nine steps at most in the other variable, but one variable more.
    assert move_small_combinations(place, key, counts, 8)[0].tolist() == [0, 9]
    assert move_small_combinations(place, key, counts, 100).tolist() == [[1, 1]] * 5


def test_a_design_names_each_variable_once_and_places_are_no_smaller_than_combinations() -> None:
    with pytest.raises(DesignError, match="named twice"):
        CoarseningDesign("units", ("a",), 9, ("b",), 3, ("b",))
    with pytest.raises(DesignError, match="place_threshold"):
        CoarseningDesign("units", ("a",), 3, ("b",), 9, ())
