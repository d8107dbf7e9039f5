"""Errors from replicates: sums of cells and moments by hand, and the rule of the intervals in exact arithmetic."""

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mechanisms.topdown.redistricting import REDISTRICTING
from mechanisms.topdown.replicates import Moments, add_deviations, compute_intervals, find_starts, roll_up, roll_up_once
from mechanisms.topdown.schema import PERSONS, Attribute, Counts, Schema, Sums
from tests.depth import examples

SETTINGS = settings(deadline=None, derandomize=True, max_examples=examples(60))


def sparse(histograms: NDArray[np.int64]) -> Counts:
    number, cell = np.nonzero(histograms)
    return Counts(number, cell, histograms[number, cell])


def interval(estimate: int, deviations: list[int]) -> tuple[float, float, int, int]:
    moments = Moments(
        *(
            np.array([value])
            for value in (
                estimate,
                sum(deviations),
                sum(each * each for each in deviations),
                sum(map(abs, deviations)),
            )
        )
    )
    found = compute_intervals(moments, len(deviations))
    return float(found.standard_error[0]), float(found.bias[0]), int(found.lower[0]), int(found.upper[0])


@pytest.mark.parametrize(
    ("estimate", "deviations", "expected"),
    [
        # 2.015 · 2 = 4.03: the lower end is rounded down and the upper end up.
        (100, [2, -2], (2.0, 0.0, 95, 105)),
        # A lower end below 0 is 0.
        (3, [2, -2], (2.0, 0.0, 0, 8)),
        # No replicate deviates.
        (7, [0, 0, 0], (0.0, 0.0, 7, 7)),
        (0, [0, 0], (0.0, 0.0, 0, 0)),
        # MSE 4, bias 2, no spread: subtracted at 25, 23 ± 4.03, and not at 24.
        (25, [2, 2], (2.0, 2.0, 18, 28)),
        (24, [2, 2], (2.0, 2.0, 19, 29)),
        # A negative bias is subtracted above 5, and not at 5.
        (6, [-2, -2], (2.0, -2.0, 3, 13)),
        (5, [-2, -2], (2.0, -2.0, 0, 10)),
        # The bias 1 is half of the standard deviation 2, MSE 5: 99 ± 4.506. One deviation less, and it is below half.
        (100, [3, -1], (5**0.5, 1.0, 94, 104)),
        (1000, [30, -11], (510.5**0.5, 9.5, 954, 1046)),
    ],
)
def test_intervals_by_hand(estimate: int, deviations: list[int], expected: tuple[float, float, int, int]) -> None:
    error, bias, lower, upper = interval(estimate, deviations)
    assert (error, bias) == pytest.approx(expected[:2], abs=1e-12)
    assert (lower, upper) == expected[2:]


def root_up(square: Fraction) -> int:
    """The least integer that is not below the root."""
    root = isqrt(square.numerator // square.denominator)
    return root if root * root == square else root + 1


@SETTINGS
@given(st.integers(0, 10**6), st.lists(st.integers(-300, 300), min_size=2, max_size=200))
def test_intervals_are_those_of_exact_arithmetic(estimate: int, deviations: list[int]) -> None:
    replicates = len(deviations)
    bias = Fraction(sum(deviations), replicates)
    square = Fraction(sum(each * each for each in deviations), replicates)
    moved = estimate > 5 and bias and 4 * bias**2 >= square - bias**2 and (bias < 0 or estimate >= 25)
    center = estimate - (bias if moved else 0)
    # Ends in units of 1 / replicates, whose squares are rational.
    width = root_up(square * (Fraction(2015, 1000) * replicates * 10**6) ** 2)
    lower = (center * replicates * 10**6 - width) // (replicates * 10**6)
    upper = -((-center * replicates * 10**6 - width) // (replicates * 10**6))
    assert interval(estimate, deviations)[2:] == (max(lower, 0), upper)


@SETTINGS
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(0, 40))
def test_sums_are_those_of_whole_histograms(seed: int, places: int, occupied: int) -> None:
    random = np.random.default_rng(seed)
    histograms = np.zeros((places, PERSONS.size), dtype=np.int64)
    histograms[random.integers(0, places, occupied), random.integers(0, PERSONS.size, occupied)] = 7
    counted = np.array([cell.counted for name in ("P2", "P5") for cell in REDISTRICTING[name].cells])
    found = Sums(counted).of(sparse(histograms), 0, places)
    assert np.array_equal(found, histograms @ counted.T.astype(np.int64))
    assert np.array_equal(Sums(counted).of(sparse(histograms), places - 1, places), found[-1:])


def test_moments_by_hand() -> None:
    counted = np.array([[True, True, False], [False, True, True]])
    published = np.array([[1, 2, 0], [0, 0, 5]])
    replicates = [np.array([[1, 4, 1], [0, 0, 5]]), np.array([[0, 1, 0], [0, 3, 5]])]
    sums = Sums(counted)
    estimate, *others = (sums.of(sparse(each), 0, 2) for each in (published, *replicates))
    found = add_deviations(estimate, others)
    assert found.estimate.tolist() == [[3, 2], [0, 5]]
    assert found.deviations.tolist() == [[2 - 2, 3 - 1], [0 + 3, 0 + 3]]
    assert found.squares.tolist() == [[4 + 4, 9 + 1], [0 + 9, 0 + 9]]
    assert found.distances.tolist() == [[2 + 2, 3 + 1], [0 + 3, 0 + 3]]


@SETTINGS
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 3), min_size=1, max_size=4))
def test_counts_of_a_level_are_the_sums_of_the_level_below(seed: int, children: list[int]) -> None:
    parents = (np.zeros(len(children), dtype=np.int64), np.repeat(np.arange(len(children)), children))
    finest = np.random.default_rng(seed).integers(-1, 3, (sum(children), 6)).clip(0)
    expected = np.zeros((len(children), 6), dtype=np.int64)
    np.add.at(expected, parents[1], finest)
    root, middle, same = roll_up(sparse(finest), parents, 6)
    six = Schema("six", (Attribute("code", 6),)).marginal("detailed")
    assert np.array_equal(same.answer(six, 0, sum(children)), finest)
    assert np.array_equal(middle.answer(six, 0, len(children)), expected)
    assert np.array_equal(root.answer(six, 0, 1), expected.sum(axis=0)[None])
    assert np.array_equal(roll_up_once(middle, parents[0], 6).count, root.count)
    assert find_starts(parents, 0).tolist() == [0, 1]
    assert find_starts(parents, 1).tolist() == [0, len(children)]
    assert find_starts(parents, 2).tolist() == np.cumsum([0, *children]).tolist()
