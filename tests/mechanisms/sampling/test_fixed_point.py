"""Bounds are valid and tight at any precision."""

from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.sampling.fixed_point import Bounds, divide_up, exponential, round_bounds, shift_up


@given(st.fractions(0, 60, max_denominator=10**9).filter(bool), st.integers(1, 300))
def test_an_exponential_lies_between_its_bounds_which_are_a_few_units_apart(exponent: Fraction, precision: int) -> None:
    low, high = exponential(exponent, precision)
    with localcontext(Context(prec=200)):
        value = (-Decimal(exponent.numerator) / exponent.denominator).exp() * (1 << precision)
    assert low <= value <= high
    assert high - low <= 2


@pytest.mark.parametrize(
    "exponent", [Fraction(1, 10**30), Fraction(10**12), Fraction(10**40, 3), Fraction(1), Fraction(2)]
)
def test_an_exponential_at_the_ends_of_its_range(exponent: Fraction) -> None:
    low, high = exponential(exponent, 100)
    with localcontext(Context(prec=200)):
        value = (-Decimal(exponent.numerator) / exponent.denominator).exp() * (1 << 100)
    assert 0 <= low <= value <= high <= 1 << 100
    assert high - low <= 2


@given(st.integers(-(10**6), 10**6), st.integers(1, 1000), st.integers(0, 12))
def test_rounding_up_rounds_up(number: int, divisor: int, places: int) -> None:
    assert divide_up(number, divisor) - 1 < Fraction(number, divisor) <= divide_up(number, divisor)
    assert shift_up(number, places) == divide_up(number, 1 << places)


@given(st.fractions(Fraction(1, 10**30), 10**30, max_denominator=10**40), st.integers(1, 40))
def test_a_rounded_number_errs_by_less_than_one_unit_of_its_last_digit(number: Fraction, digits: int) -> None:
    def bounds(precision: int) -> Bounds:
        scaled = (number.numerator << precision) // number.denominator
        return scaled - 1, scaled + 1

    result = round_bounds(bounds, digits)
    unit = Fraction(10) ** (result.adjusted() - digits + 1)
    assert abs(Fraction(result) - number) < unit
    assert len(result.as_tuple().digits) <= digits


@pytest.mark.parametrize("outwards", [lambda low, high: (high, low), lambda low, high: (low + 2, high + 2)])
def test_the_same_check_finds_bounds_rounded_the_wrong_way(outwards: Callable[[int, int], Bounds]) -> None:
    low, high = outwards(*exponential(Fraction(1, 3), 64))
    with localcontext(Context(prec=200)):
        value = (-Decimal(1) / 3).exp() * (1 << 64)
    assert not low <= value <= high
