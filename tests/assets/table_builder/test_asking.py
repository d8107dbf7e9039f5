"""Claims about questions to published numbers: sums are exact, and means without a sound interval are refused.

`test_hypercubes` covers the answers of a publication after a run.
"""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.table_builder.asking import (
    Publication,
    as_decimals,
    as_parts,
    fitted_numbers,
    least_variance,
)
from mechanisms.table_builder.asking import QuestionError
from mechanisms.table_builder.entropy import Parameters, make
from mechanisms.table_builder.hypercube import Hypercube, Margins, NoiseFamily
from mechanisms.table_builder.p_table import PTable
from tests.depth import deep_but, deep_cases, quick_cases

SIZES = {"sex": 2, "state": 3}


def published(
    seed: int,
    quantity: str = "number of persons",
    categories: Mapping[str, Any] | None = None,
    grid: Fraction = Fraction(1),
    budget: int = 1,
    **fields: Any,
) -> Publication:
    """A hypercube of some numbers, around a million steps of the grid."""
    design = Hypercube(SIZES, Fraction(budget), **fields)
    generator = np.random.default_rng(seed)
    measured = {table: generator.integers(10**6, 2 * 10**6, design.shape(table)) for table in design.tables}
    named = {"sex": pa.array(["f", "m"]), "state": pa.array(["10", "44", "50"])} | dict(categories or {})
    return Publication(design, named, grid, quantity, fitted_numbers(design, measured, None, grid), None, {})


def of_counties() -> Publication:
    """A hypercube by county, with the state of each county."""
    design = Hypercube({"county": 3}, Fraction(1))
    named = {"county": pa.array(["a", "b", "c"]), "state": pa.array(["10", "44", "50"])}
    numbers = fitted_numbers(design, {("county",): np.full(3, 10**6)}, None, Fraction(1))
    places = {"state": ("county", [0, 1, 2])}
    return Publication(design, named, Fraction(1), "number of persons", numbers, None, {}, places)


MEANS: dict[str, tuple[Publication, Publication, str]] = {
    "the same draw, read again": (published(1), published(1), "noise of their own"),
    "persons per unit": (
        published(1),
        published(2, "number of units"),
        "one kind of records, not of persons per units",
    ),
    "weights that may be 0": (published(1), published(2, "sum of weight of persons", most=9), "may be 0"),
    "amounts that may be negative": (
        published(1),
        published(2, "sum of weight of persons", least=-1, most=9),
        "may be 0 has no bounds",
    ),
    "other categories": (
        published(1),
        published(2, categories={"state": pa.array(["10", "44", "51"])}),
        "state: the two hypercubes have other categories",
    ),
    "a variable that is a larger place in the other": (
        published(1),
        of_counties(),
        "state: it is a variable of one of the two hypercubes, and a larger place in the other",
    ),
    "a p-table with a bias": (
        published(1),
        published(
            2,
            noise=NoiseFamily.P_TABLE,
            budget=0,
            p_table=PTable.of([{0: Fraction(1)}, {1: Fraction(1, 2), 2: Fraction(1, 2)}]),
        ),
        "whose p-table changes their mean",
    ),
}


@pytest.mark.parametrize(("above", "below", "says"), MEANS.values(), ids=MEANS)
def test_means_without_an_interval_that_holds_are_refused(above: Publication, below: Publication, says: str) -> None:
    """Within one draw, the two noises are not independent. The bounds of a record bound a mean only if every record of
    the numerator counts at least one step in the denominator. Cells of other categories would be divided by each
    other."""
    with pytest.raises(QuestionError, match=says):
        above.means(below, ["state"], {})


def test_means_that_hold_are_given() -> None:
    """Per counts, also of a p-table without a bias, and per weights of one step or more."""
    above = published(1, "sum of income of persons", most=9)
    made = make(Parameters(2, Fraction(1)))
    for below in (
        published(2),
        published(3, "sum of weight of persons", least=1, most=9),
        published(4, noise=NoiseFamily.P_TABLE, budget=0, p_table=made.table),
    ):
        rows = above.means(below, ["state"], {}).to_pylist()
        assert [row["state"] for row in rows] == ["10", "44", "50"]
        assert all(0 <= row["lower"] <= row["estimate"] <= row["upper"] <= 9 for row in rows)


def test_a_mean_of_negative_amounts_may_be_as_near_to_0_as_the_greatest_weight_allows() -> None:
    """Records that add from −8 to −2 and weigh from 1 to 4 have means of up to −2/4."""
    above = published(1, "sum of debt of persons", least=-8, most=-2)
    below = published(2, "sum of weight of persons", least=1, most=4)
    design, few = above.design, {design: np.full((2, 3), -500 * 10_000) for design in above.numbers}
    nearly = Publication(design, above.categories, above.grid, above.quantity, few, None, {})
    (row,) = nearly.means(below, [], {}).to_pylist()
    assert row["estimate"] == Fraction(-1, 2)


def test_texts_in_place_of_lists_are_refused() -> None:
    """Python would take every letter of a text for a variable or a category."""
    for by, where in (("state", {}), (["state"], {"sex": "fm"}), (["state"], {"sex": 1})):
        with pytest.raises(QuestionError, match="given as lists"):
            published(1).ask(by, where)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5), st.integers(0, 2))
def test_ten_thousandths_are_kept_exactly(parts: list[int], left_out: int) -> None:
    """Floats would change numbers beyond 2^53, in tables that are cut as in tables that are whole."""
    numbers = pa.chunked_array([as_decimals(np.array(parts, dtype=np.int64)), as_decimals(np.array([7]))]).slice(
        left_out
    )
    assert as_parts(numbers).tolist() == [*parts, 7][left_out:]


@given(st.lists(st.integers(-(2**41), 2**41)), st.sampled_from([10_000, 2_500_000]))
def test_doubles_tell_which_multiple_of_a_step_they_are(multiples: list[int], step: int) -> None:
    """Rounding each to a ten-thousandth instead would be off for amounts beyond 2^53 of them."""
    numbers = pa.chunked_array([pa.array([float(Decimal(n * step).scaleb(-4)) for n in multiples], pa.float64())])
    assert as_parts(numbers, step).tolist() == [n * step for n in multiples]


STATES = {"north": ["10"], "south": ["44", "50"]}
NESTED = {"region": pa.array(list(STATES))}


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize("margins", Margins)
def test_a_larger_place_is_the_sum_of_those_in_it_with_the_error_of_the_sum(margins: Margins) -> None:
    """Wrong programs: one that adds up standard errors, and one that gives the rows in the order in which it asks."""
    hypercube = replace(
        published(1, categories=NESTED, margins=margins), larger_places={"region": ("state", [0, 1, 1])}
    )
    by_region = hypercube.ask(["sex", "region"], {}).to_pylist()
    expected = [
        {"sex": sex, "region": region} | row
        for sex in "fm"
        for region, states in STATES.items()
        for row in hypercube.ask([], {"sex": [sex], "state": states}).to_pylist()
    ]
    assert by_region == expected
    both = hypercube.ask(["region", "state"], {"sex": ["f"]}).to_pylist()
    plain = hypercube.ask(["state"], {"sex": ["f"]}).to_pylist()
    regions = {state: region for region, states in STATES.items() for state in states}
    assert both == [{"region": regions[row["state"]]} | row for row in plain]
    assert hypercube.ask(["state"], {"region": ["south"]}).to_pylist() == hypercube.ask(["state"], {}).to_pylist()[1:]
    per = replace(published(2, categories=NESTED, margins=margins), larger_places=hypercube.larger_places)
    means = hypercube.means(per, ["region"], {}).to_pylist()
    assert means == [
        {"region": region} | hypercube.means(per, [], {"state": states}).to_pylist()[0]
        for region, states in STATES.items()
    ]
    for by, where in (
        (["region"], {"region": ["north"], "state": ["50"]}),
        (["region"], {"region": []}),
        ([], {"region": ["north"], "state": ["50"]}),
    ):
        with pytest.raises(QuestionError, match=r"given categories is in|at least one category counts"):
            hypercube.ask(by, where)
    with pytest.raises(QuestionError, match="names each variable once"):
        hypercube.ask(["region", "region"], {})
    with pytest.raises(QuestionError, match="the two hypercubes have other"):
        hypercube.means(replace(per, larger_places={"region": ("state", [0, 0, 1])}), ["region"], {})


def test_doubles_that_stand_for_no_certain_multiple_are_refused() -> None:
    """Near 2^53 steps of 0.01, neighboring doubles are further apart than multiples: each would be read as another."""
    odd = pa.chunked_array([pa.array([float(Decimal(2**53 + 1).scaleb(-2))])])
    with pytest.raises(QuestionError, match=r"more than 2\^50 steps of 0\.01 is not exact"):
        as_parts(odd, 100)


def test_missing_numbers_are_0_and_whole_numbers_whole() -> None:
    assert as_parts(pa.chunked_array([pa.array([3, None, -1])])).tolist() == [30_000, 0, -10_000]


@pytest.mark.parametrize("grid", deep_but([Fraction(10)], [Fraction(10), Fraction(1), Fraction(1, 10_000)]))
def test_fitted_estimates_add_up_exactly_however_large_they_are(grid: Fraction) -> None:
    """The gate `margins_agree` requires this after the charge, so floats would lead to charges without a publication.

    With sums in floats, some margin of each of these hypercubes would differ from the sum of its cells.
    """
    sizes = {"a": 50, "b": 10, "c": 20}
    design = Hypercube(sizes, Fraction(1), margins=Margins.FITTED, most=2000)
    generator = np.random.default_rng(0)
    exact = generator.integers(0, int(5 * 10**9 / grid), design.shape(design.inner))
    measured = {
        table: design.margin(exact, table) + generator.integers(-9000, 9000, design.shape(table))
        for table in design.tables
    }
    numbers = fitted_numbers(design, measured, None, grid)
    named = {name: pa.array(range(size)) for name, size in sizes.items()}
    hypercube = Publication(design, named, grid, "sum of income of persons", numbers, None, {})
    estimates = {}
    for table in design.tables:
        ((_, question),) = [(part.places, part.question) for part in hypercube.questions(table, {})]
        answer = hypercube.answer(question)
        found = hypercube.figures(answer, np.arange(design.cells(table)))["estimate"]
        estimates[table] = as_parts(pa.chunked_array([found])).reshape(design.shape(table))
    for table in design.tables:
        assert np.array_equal(design.margin(estimates[design.inner], table), estimates[table])


def test_a_p_table_without_variance_does_not_answer_in_place_of_noise_that_is_nearer() -> None:
    """The p-table moves every count by up to 9; the other hypercube's noise is within ±3 in nine draws of ten."""
    far = PTable.of([{0: Fraction(1)}, {10: Fraction(1)}])
    rounding = published(1, noise=NoiseFamily.P_TABLE, budget=0, p_table=far)
    assert least_variance({"rounding": rounding, "noise": published(2)}, ["state"], {}) == "noise"
