"""Means: plausible always, exact without noise, and intervals that cover in nine draws out of ten."""

from fractions import Fraction
from itertools import product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.sampling.stream import RandomStream
from mechanisms.table_builder.asking import Answer, Question, means
from mechanisms.table_builder.fitting import Floats
from mechanisms.table_builder.hypercube import Hypercube, Margins, NoiseFamily
from tests.depth import deep_but, deep_cases, examples, quick_cases

FAMILIES = (NoiseFamily.LAPLACE, NoiseFamily.GAUSSIAN)
KEY = b"\x0e" * 32
LEAST, MOST = -5, 20
DRAWS = 4000


def errors(question: Question, label: str) -> Floats:
    """The error of one cell of the sub-table in many draws."""
    total = np.zeros(DRAWS)
    for place, term in enumerate(question.error(int(question.cells.ravel()[0])) or ()):
        noise = term.noise.sample(DRAWS * term.times, RandomStream(KEY, f"{label} {place}"))
        total += term.coefficient * noise.reshape(DRAWS, term.times).sum(axis=1)
    return total


def repeated(question: Question, values: Floats) -> Answer:
    """An answer with one cell for each draw."""
    variance = question.answer({question.source: np.zeros(question.hypercube.shape(question.source))}).variance
    many = Question(Hypercube({"draw": DRAWS}, Fraction(1)), ("draw",))
    object.__setattr__(many, "cells", np.full(DRAWS, question.cells.ravel()[0]))
    object.__setattr__(many, "error", question.error)
    return Answer(many, values, np.full(DRAWS, variance.ravel()[0]), values, values)


SIZES = {"a": 2, "b": 3}
CASES = {
    "much noise": "1/2",
    "little noise": "4",
    "hardly any noise": "40",
}


QUICK = {("little noise", NoiseFamily.LAPLACE, Margins.SUMMED), ("little noise", NoiseFamily.LAPLACE, Margins.FITTED)}


@quick_cases(1)
@deep_cases(0)
@pytest.mark.parametrize(("case", "noise", "margins"), deep_but(QUICK, product(CASES, FAMILIES, Margins)))
def test_intervals_of_means_cover_nine_tenths(case: str, noise: NoiseFamily, margins: Margins) -> None:
    """For denominators from none to many records. The key is fixed; the threshold is 5 standard errors below 0.9."""
    above = Question(Hypercube(SIZES, Fraction(CASES[case]), noise, margins, least=LEAST, most=MOST), ("b",))
    below = Question(Hypercube(SIZES, Fraction(CASES[case]), noise, margins), ("b",))
    numerator, denominator = errors(above, "numerator"), errors(below, "denominator")
    for records in (0, 1, 10, 1000):
        for ratio in (-5.0, 0.0, 3.0, 19.7):
            found = means(
                repeated(above, records * ratio + numerator), repeated(below, records + denominator), LEAST, MOST
            )
            assert (found.lower >= LEAST).all()
            assert (found.lower <= found.estimate).all()
            assert (found.estimate <= found.upper).all()
            assert (found.upper <= MOST).all()
            covered = np.mean((found.lower <= ratio + 1e-9) & (ratio - 1e-9 <= found.upper))
            assert covered >= 0.9 - 5 * 0.3 / sqrt(DRAWS), (records, ratio)


def test_of_many_records_the_interval_is_that_of_the_delta_method() -> None:
    above, below = (
        Question(Hypercube(SIZES, Fraction(1), most=20), ("b",)),
        Question(Hypercube(SIZES, Fraction(1)), ("b",)),
    )
    sums, counts = np.array([3.0, 10.0, 17.0]) * 10**6, np.full(3, 10**6)
    numerator = above.answer({above.source: np.stack([sums, np.zeros(3)])})
    denominator = below.answer({below.source: np.stack([counts, np.zeros(3)])})
    found = means(numerator, denominator, 0, 20)
    ratio = sums / counts
    deviation = np.sqrt(numerator.variance + ratio**2 * denominator.variance) / counts
    assert np.allclose(found.estimate, ratio)
    for end in (found.upper - ratio, ratio - found.lower):
        assert ((end > 1.62 * deviation) & (end < 1.70 * deviation)).all()


@settings(max_examples=examples(25))
@given(
    st.lists(st.tuples(st.integers(-(10**12), 10**12), st.integers(-(10**6), 10**6)), min_size=3, max_size=3),
    st.integers(-20, 20),
    st.integers(0, 40),
    st.sampled_from(Margins),
)
def test_means_are_always_plausible_and_inside_their_intervals(
    pairs: list[tuple[int, int]], least: int, width: int, margins: Margins
) -> None:
    """Negative, zero and absurd noisy sums included."""
    above = Question(Hypercube(SIZES, Fraction(1), margins=margins, least=-7, most=20), ("b",))
    below = Question(Hypercube(SIZES, Fraction(1), margins=margins), ("b",))
    sums, counts = np.array(pairs).T

    def answered(question: Question, values: Floats) -> Answer:
        table = np.stack([values, np.zeros(3)]) if len(question.source) == 2 else values
        return question.answer({question.source: table})

    found = means(answered(above, sums), answered(below, counts), least, least + width)
    assert np.isfinite([found.lower, found.estimate, found.upper]).all()
    assert (least <= found.lower).all()
    assert (found.lower <= found.estimate).all()
    assert (found.estimate <= found.upper).all()
    assert (found.upper <= least + width).all()


def test_sub_tables_of_other_cells_and_implausible_limits_are_refused() -> None:
    above = Question(Hypercube(SIZES, Fraction(1), most=20), ("a",)).answer({("a", "b"): np.ones((2, 3))})
    below = Question(Hypercube(SIZES, Fraction(1)), ("b",)).answer({("a", "b"): np.ones((2, 3))})
    with pytest.raises(ValueError, match="same cells"):
        means(above, below, 0, 20)
    with pytest.raises(ValueError, match="plausible ratios"):
        means(above, above, 3, 2)
