"""Measures of files of records, against an enumeration of all subsets of variables and against cases known by hand."""

from itertools import combinations
from math import factorial

import numpy as np
import pytest

from mechanisms.risk.microdata import compare_distances, find_special_uniques, measure_distances, measure_keys


def test_keys_of_few_records_violate_anonymity_and_those_of_one_category_diversity() -> None:
    """Two places of two frames and two categories: keys of 1, 2 (one category), 4 (two categories) and none. Fails for:
    keys without the place, shares of keys in place of shares of records, and a single record taken for one category."""
    counts = np.zeros((2, 2, 2), dtype=np.int64)
    counts[0, 0], counts[0, 1], counts[1, 0] = [1, 0], [0, 2], [3, 1]
    shares = measure_keys(counts)
    assert shares == pytest.approx(
        {"below 2": 1 / 7, "below 3": 3 / 7, "below 5": 1, "individual risk": 3 / 7, "one category": 2 / 7}
    )
    assert set(measure_keys(np.zeros_like(counts)).values()) == {0}


def test_minimal_sample_uniques_are_those_of_the_enumeration() -> None:
    """Fails for: uniques that are not minimal, kinds of several records taken for one, and scores that count variables
    in place of (M − k)!."""
    rng = np.random.default_rng(6)
    kinds, counts = np.unique(rng.integers(0, 4, (30, 5)), axis=0, return_counts=True)
    counts[:3] += 1
    records = np.repeat(kinds, counts, axis=0)
    scores, smallest = find_special_uniques(kinds, counts)
    for number, kind in enumerate(kinds):
        unique = [
            set(chosen)
            for size in range(1, 4)
            for chosen in combinations(range(5), size)
            if (records[:, chosen] == kind[list(chosen)]).all(axis=1).sum() == 1
        ]
        minimal = [one for one in unique if not any(other < one for other in unique)]
        assert scores[number] == sum(factorial(5 - len(one)) for one in minimal)
        assert smallest[number] == min(map(len, minimal), default=0)
    assert {0, 2, 3} <= set(smallest.tolist())


def test_records_are_nearer_to_those_that_they_repeat_and_ties_are_a_half() -> None:
    truth, holdout = np.array([[0, 1, 2], [5, 5, 5]]), np.array([[0, 1, 3], [5, 5, 9]])
    kinds, counts = np.array([[0, 1, 2], [0, 1, 4], [5, 5, 9]]), np.array([3, 2, 1])
    assert measure_distances(kinds, truth).tolist() == [0, 1, 1]
    assert measure_distances(kinds, np.zeros((0, 3), dtype=np.int64)).tolist() == [4, 4, 4]
    assert compare_distances(kinds, counts, truth, holdout).tolist() == [3, 1, 0]
