"""Answers are sub-tables of the published tables, from the most accurate source, with intervals that cover."""

from fractions import Fraction
from itertools import product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mechanisms.sampling.stream import RandomStream
from mechanisms.table_builder.asking import Question, QuestionError, error_of_one, margin_of_one
from mechanisms.table_builder.fitting import Fit
from mechanisms.table_builder.hypercube import Hypercube, Margins, NoiseFamily, Table
from mechanisms.table_builder.p_table import PTable
from tests.depth import deep_but, deep_cases, examples, quick_cases

KEY = b"\x0d" * 32
SIZES = {"state": 3, "sex": 2, "age": 4}
Counts = NDArray[np.int64]


@st.composite
def questions(draw: st.DrawFn) -> Question:
    sizes = dict(zip("abcd", draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)), strict=False))
    cube = Hypercube(
        sizes, draw(st.fractions(Fraction(1, 2), 3, max_denominator=9)), margins=draw(st.sampled_from(Margins))
    )
    by = tuple(name for name in draw(st.permutations(list(sizes))) if draw(st.booleans()))
    where = {
        name: draw(st.lists(st.integers(0, size - 1), min_size=1, unique=True))
        for name, size in sizes.items()
        if draw(st.booleans())
    }
    possible = None
    if draw(st.booleans()):
        possible = np.random.default_rng(draw(st.integers(0, 99))).random(cube.shape(cube.inner)) < 0.7
    return Question(cube, by, where, possible)


def exact(question: Question, counts: Counts) -> Counts:
    """The sub-table of exact counts, record by record of the definition."""
    cube = question.hypercube
    shape = tuple(len(question.chosen[name]) for name in question.by)
    found = np.zeros(shape, dtype=np.int64)
    for place in np.ndindex(counts.shape):
        at = dict(zip(cube.sizes, place, strict=True))
        if all(code in question.chosen[name] for name, code in at.items()):
            found[tuple(question.chosen[name].index(at[name]) for name in question.by)] += counts[place]
    return found


def published(
    cube: Hypercube, counts: Counts, draw: int | None = None, possible: NDArray[np.bool_] | None = None
) -> dict[Table, NDArray]:
    """The published tables of a hypercube; without noise if there is no draw."""
    tables = {}
    for table in cube.tables:
        noise = np.zeros(cube.cells(table), dtype=np.int64)
        if draw is not None:
            noise = cube.distribution(table).sample(cube.cells(table), RandomStream(KEY, f"{draw} {table}"))
        noise = noise.reshape(cube.shape(table))
        tables[table] = cube.margin(counts, table) + (
            noise if possible is None else np.where(cube.margin(possible, table), noise, 0)
        )
    return {cube.inner: Fit(cube, possible).inner(tables)} if cube.margins is Margins.FITTED else tables


def random_counts(question: Question, seed: int = 3) -> Counts:
    counts = np.random.default_rng(seed).integers(0, 50, question.hypercube.shape(question.hypercube.inner))
    return counts if question.possible is None else np.where(question.possible, counts, 0)


@settings(max_examples=examples(50))
@given(questions())
def test_without_noise_the_answer_is_the_exact_sub_table_from_any_source(question: Question) -> None:
    counts = random_counts(question)
    answer = question.answer(published(question.hypercube, counts, possible=question.possible))
    assert answer.values.shape == tuple(len(question.chosen[name]) for name in question.by)
    assert np.allclose(answer.values, exact(question, counts), rtol=0, atol=1e-6)
    assert (answer.lower <= answer.upper).all()
    assert np.array_equal(answer.standard_error, np.sqrt(answer.variance))


@settings(max_examples=examples(50))
@given(questions())
def test_the_variance_is_that_of_the_cells_that_are_added_up(question: Question) -> None:
    cube, counts = question.hypercube, random_counts(question)
    answer = question.answer(published(cube, counts, possible=question.possible))
    ones = (
        np.ones(cube.shape(cube.inner), dtype=np.int64) if question.possible is None else question.possible.astype(int)
    )
    if cube.margins is not Margins.FITTED:
        cells = question.cells
        if question.source == cube.inner:
            assert np.array_equal(cells, exact(question, ones))
        one = float(cube.distribution(question.source).exact_variance)
        assert np.allclose(answer.variance, cells * one, rtol=1e-12)
    else:
        assert ((answer.variance > 0) == (exact(question, ones) > 0)).all()


@given(questions())
def test_no_other_published_table_gives_less_variance(question: Question) -> None:
    cube = question.hypercube
    if cube.margins is not Margins.INDEPENDENT:
        assert question.source == cube.inner
        return
    needed = {*question.by, *(name for name, places in question.chosen.items() if len(places) < cube.sizes[name])}
    assert needed <= set(question.source)
    least = question._variance_from(question.source)
    assert all(question._variance_from(table) >= least for table in cube.tables if needed <= set(table))


def test_the_source_of_independent_tables_is_the_margin_itself_unless_another_is_more_accurate() -> None:
    cube = Hypercube(SIZES, Fraction(1), margins=Margins.INDEPENDENT)
    assert Question(cube, ("sex",)).source == ("sex",)
    assert Question(cube, ("sex",), {"age": (0, 1)}).source == ("sex", "age")
    assert Question(cube, ("sex",), {"age": (0, 1, 2, 3)}).source == ("sex",), "all categories are no condition"
    assert Question(cube).source == ("sex",), "two noises rather than three or four"
    few = {("state", "sex", "age"): Fraction(98, 100), ("sex",): Fraction(1, 100), ("age",): Fraction(1, 100)}
    cube = Hypercube(SIZES, Fraction(1), margins=Margins.INDEPENDENT, shares=few)
    assert Question(cube, ("sex",)).source == ("state", "sex", "age"), "twelve little noises rather than a large one"


def test_the_same_question_has_the_same_answer_whatever_else_is_asked_and_in_any_order() -> None:
    cube = Hypercube(SIZES, Fraction(1), margins=Margins.INDEPENDENT)
    tables = published(cube, np.full((3, 2, 4), 5), draw=1)
    one = Question(cube, ("state", "age"), {"age": (2, 0)}).answer(tables)
    other = Question(cube, ("age", "state"), {"age": (0, 2), "sex": (1, 0)}).answer(dict(reversed(tables.items())))
    assert np.array_equal(one.values, other.values.T[:, ::-1])
    assert np.array_equal(one.upper, other.upper.T[:, ::-1])


CASES = {
    "two cells": ({"a": 2}, "2"),
    "six cells, little noise": ({"a": 2, "b": 3}, "20"),
    "six cells, much noise": ({"a": 2, "b": 3}, "1/5"),
    "1,600 cells": ({"a": 5, "b": 8, "c": 4, "d": 10}, "1"),
}
KINDS = {"Laplace": {}, "Gaussian": {"noise": NoiseFamily.GAUSSIAN}, "capped": {"cap": 40}}


@quick_cases(1)
@deep_cases(0)
@pytest.mark.parametrize("margins", Margins)
@pytest.mark.parametrize("kind", deep_but({"Laplace"}, KINDS))
@pytest.mark.parametrize("case", deep_but({"six cells, little noise"}, CASES))
def test_intervals_cover_nine_tenths_of_true_counts(case: str, kind: str, margins: Margins) -> None:
    """For small and large hypercubes, much and little noise, and true counts of 0 to 2.

    The noise of 400 draws (20 of the large hypercube) is fixed. Cells of one draw depend on each other, so a standard
    error is that of draws' averages, and the threshold is 5 of them below 0.9.
    """
    sizes, epsilon = CASES[case]
    cube = Hypercube(sizes, Fraction(epsilon), margins=margins, **KINDS[kind])  # type: ignore[arg-type]
    counts = np.random.default_rng(1).integers(0, 3, cube.shape(cube.inner))
    last = list(sizes)[-1]
    asked = [Question(cube, cube.inner), Question(cube, (last,)), Question(cube), Question(cube, (last,), {"a": (1,)})]
    truths = [exact(question, counts) for question in asked]
    draws = 400 if cube.cells(cube.inner) < 100 else 20
    covered: list[list[float]] = [[] for _ in asked]
    for draw in range(draws):
        tables = published(cube, counts, draw)
        for question, truth, shares in zip(asked, truths, covered, strict=True):
            answer = question.answer(tables)
            shares.append(float(np.mean((answer.lower <= truth) & (truth <= answer.upper))))
    for shares in covered:
        assert np.mean(shares) >= 0.9 - 5 * max(float(np.std(shares)), 0.05) / sqrt(draws)


def test_intervals_of_numbers_that_cannot_be_negative_have_no_negative_numbers() -> None:
    cube = Hypercube({"a": 3}, Fraction(1))
    answer = Question(cube, ("a",)).answer({("a",): np.array([-40, 0, 40])})
    assert (answer.lower.tolist(), answer.upper.tolist()) == ([0, 0, 38], [0, 2, 42])
    signed = Hypercube({"a": 3}, Fraction(1), least=-1)
    assert Question(signed, ("a",)).answer({("a",): np.array([-40, 0, 40])}).lower.tolist() == [-42, -2, 38]


@settings(max_examples=examples(30))
@given(st.integers(0, 10**6))
def test_under_structural_zeros_fitted_intervals_cover(seed: int) -> None:
    """Chebyshev's bound, so coverage is far above 90%; structural zeros are 0 without error."""
    cube = Hypercube({"a": 3, "b": 4}, Fraction(2), margins=Margins.FITTED)
    possible = np.random.default_rng(seed % 7).random((3, 4)) < 0.6
    counts = np.where(possible, 5, 0)
    question = Question(cube, ("a", "b"), possible=possible)
    answer = question.answer(published(cube, counts, seed, possible))
    assert not answer.values[~possible].any()
    assert not answer.variance[~possible].any()
    assert np.mean((answer.lower <= counts) & (counts <= answer.upper)) >= 0.75


@pytest.mark.parametrize(
    ("by", "where", "message"),
    [
        (("race",), {}, "race: the hypercube is by state, sex, age"),
        (("sex",), {"race": (0,)}, "race: the hypercube is by"),
        (("sex", "sex"), {}, "names each variable once"),
        (("sex",), {"age": ()}, "age: at least one category"),
        (("sex",), {"age": (1, 1)}, "age: a category is named twice"),
        (("sex",), {"age": (4,)}, "age: the hypercube does not have all of these"),
        (("sex",), {"age": (-1,)}, "age: the hypercube does not have all of these"),
    ],
)
def test_what_a_hypercube_cannot_answer_is_refused(by: Table, where: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(QuestionError, match=message):
        Question(Hypercube(SIZES, Fraction(1)), by, where)


BIASED = PTable.of(
    [{0: Fraction(1)}, {0: Fraction(1, 2), 3: Fraction(1, 2)}, {4: Fraction(1)}, {2: Fraction(3, 4), 4: Fraction(1, 4)}]
)
"""A p-table that changes means, by up to 2, and leaves a count without any variance."""


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize("cells", [1, 2, 3])
def test_errors_of_sums_of_a_p_table_include_its_bias(cells: int) -> None:
    """Exactly, over all results of all counts. The variance alone would state no error where every result is wrong."""
    cube = Hypercube({"a": cells}, Fraction(0), NoiseFamily.P_TABLE, p_table=BIASED)
    question = Question(cube)
    for counts in product(range(5), repeat=cells):
        squared = covered = Fraction(0)
        for results in product(range(7), repeat=cells):
            chance = Fraction(1)
            for count, result in zip(counts, results, strict=True):
                chance *= BIASED.probability(count, result)
            if not chance:
                continue
            answer = question.answer({("a",): np.array(results)})
            squared += chance * (sum(results) - sum(counts)) ** 2
            covered += chance * bool(answer.lower <= sum(counts) <= answer.upper)
        assert squared <= Fraction(float(answer.variance)) + Fraction(1, 10**9)
        assert covered >= Fraction(9, 10)
    assert error_of_one(cube, ("a",)) == pytest.approx(sqrt(9 / 4 + 4)), "of the widest row in either respect"
    assert margin_of_one(cube, ("a",)) == pytest.approx(2 + sqrt(9 / 4 * 10))
