"""Numbers on a grid, as DuckDB and numpy compute them: the nearest step, halves away from 0, within the bounds."""

from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace

import duckdb
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mechanisms.table_builder.grid_values import LARGEST_STEPS, Grid, GridError
from mechanisms.table_builder.hypercube import Hypercube
from resources.statements import render
from tests.depth import examples

LARGEST = Decimal("99999999999999.9999")
"""The largest number in a decimal column of the CEF."""

NUMBERS = st.one_of(
    st.decimals(-LARGEST, LARGEST, places=4, allow_nan=False),
    st.decimals(-20, 20, places=4, allow_nan=False),
    st.integers(-400, 400).map(lambda eighths: Decimal(eighths) / 8),
)


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    """Steps of any simple fraction, and those of decimals."""
    step = draw(
        st.one_of(
            st.fractions(Fraction(1, 10**6), 10**4, max_denominator=10**6),
            st.sampled_from([Fraction(1), Fraction(1, 4), Fraction(1, 100), Fraction(1, 10**4), Fraction(1000)]),
        ).filter(bool)
    )
    least = draw(st.integers(-(10**6), 10**6))
    most = draw(st.integers(least, 10**6 + 1))
    return Grid(step, least * step, most * step)


def nearest(number: Decimal | int, grid: Grid) -> int:
    """The definition: the step at the least distance; of two, the one farther from 0; then the nearer bound."""
    quotient = Fraction(number) / grid.step
    floor = quotient.numerator // quotient.denominator
    step = min((floor, floor + 1), key=lambda each: (abs(quotient - each), -abs(each)))
    return min(max(step, grid.least), grid.most)


def in_duckdb(numbers: list[Decimal | int | None], grid: Grid, kind: str) -> list[int | None]:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE given (place INTEGER, number {kind})")
        connection.executemany("INSERT INTO given VALUES (?, ?)", list(enumerate(numbers)))
        steps = render("table_builder/steps", {"amount": SimpleNamespace(column="number", grid=grid)})
        rows = connection.execute(f"SELECT {steps}, typeof({steps}) FROM given ORDER BY place").fetchall()
    assert {kind for _, kind in rows} <= {"BIGINT"}
    return [steps for steps, _ in rows]


@settings(max_examples=examples(25))
@given(st.lists(NUMBERS, min_size=1, max_size=12), grids())
@example([Decimal("0.125"), Decimal("-0.125"), Decimal("0.1249")], Grid(Fraction(1, 4), Fraction(-1), Fraction(1)))
@example([LARGEST, -LARGEST], Grid(Fraction(1, 10**9), Fraction(-2), Fraction(2)))
@example([LARGEST, -LARGEST], Grid(Fraction(10**11 - 1, 7), Fraction(0), Fraction(10**11 - 1, 7)))
def test_steps_are_the_nearest_within_the_bounds(numbers: list[Decimal], grid: Grid) -> None:
    expected = [nearest(number, grid) for number in numbers]
    assert in_duckdb(list(numbers), grid, "DECIMAL(18, 4)") == expected
    assert grid.round(np.array([int(number * 10**4) for number in numbers])).tolist() == expected


def test_whole_numbers_and_missing_ones_in_duckdb() -> None:
    grid = Grid(Fraction(3, 2), Fraction(-9), Fraction(12))
    numbers: list[Decimal | int | None] = [-(10**14), -2, 0, 1, 2, 10**14, None]
    expected = [*(nearest(number, grid) for number in numbers if number is not None), None]
    assert in_duckdb(numbers, grid, "BIGINT") == expected == [-6, -1, 0, 1, 1, 8, None]


def test_a_grid_gives_the_bounds_of_a_hypercube() -> None:
    weights = Grid(Fraction(1, 4), Fraction(0), Fraction(5000))
    cube = Hypercube({"state": 3}, Fraction(1), least=weights.least, most=weights.most)
    assert cube.sensitivity == 20_000
    losses = Grid(Fraction(100), Fraction(-50_000), Fraction(20_000))
    assert Hypercube({"state": 3}, Fraction(1), least=losses.least, most=losses.most).sensitivity == 500
    assert in_duckdb([Decimal(-(10**9)), Decimal(10**9)], losses, "DECIMAL(18, 4)") == [-500, 200]


@pytest.mark.parametrize(
    ("step", "lower", "upper", "message"),
    [
        (Fraction(0), 0, 1, "grid: a step is greater than 0"),
        (Fraction(-1), 0, 1, "grid: a step is greater than 0"),
        (Fraction(1, 10**20), 0, 1, "grid: a step of 1e-20 is too fine"),
        (Fraction(10**12), 0, 10**12, "grid: a step of 1e\\+12 is too fine, too coarse"),
        (Fraction(1, 4), 0, Fraction(1, 3), "most: 0.333333 is not a multiple of the grid's 0.25"),
        (Fraction(1, 4), Fraction(-1, 8), 1, "least: -0.125 is not a multiple"),
        (Fraction(1), 0, LARGEST_STEPS + 1, "most: 2.14748e\\+09 is more than 2,147,483,648 steps"),
        (Fraction(1), 2, 1, "most: 1 is below the least, 2"),
    ],
)
def test_a_grid_that_does_not_fit_is_refused(step: Fraction, lower: Fraction, upper: Fraction, message: str) -> None:
    with pytest.raises(GridError, match=message):
        Grid(step, Fraction(lower), Fraction(upper))
