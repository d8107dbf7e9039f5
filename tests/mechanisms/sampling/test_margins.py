"""Margins of error of 90%, and the least budgets that keep them, from any start of the search."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.design import LARGEST_DENOMINATOR
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace
from mechanisms.sampling.quantiles import (
    BILLION,
    LARGEST_SEARCHED_VARIANCE,
    MILLION,
    QUANTILE,
    least_budget,
    margin_of_error,
    rounded_up,
    unit_of,
)
from tests.depth import examples

UNIT = Fraction(1, MILLION)


def gaussian(budget: Fraction) -> float:
    return margin_of_error(DiscreteGaussian(1 / (2 * budget)))


def laplace(budget: Fraction) -> float:
    return margin_of_error(DiscreteLaplace(1 / budget))


@settings(max_examples=examples(50))
@given(
    st.sampled_from([gaussian, laplace]), st.integers(1, 60), st.fractions(Fraction(1, 500), 20, max_denominator=999)
)
def test_the_least_budget_keeps_the_margin_and_a_millionth_less_does_not(
    margin_of: object, wanted: int, start: Fraction
) -> None:
    assert callable(margin_of)
    found = least_budget(margin_of, Fraction(wanted), start, UNIT, Fraction(1000))
    assert (found / UNIT).denominator == 1
    assert margin_of(found) <= wanted < margin_of(found - UNIT)
    assert found == least_budget(margin_of, Fraction(wanted) + Fraction(99, 100), found, UNIT, Fraction(1000))


def test_a_margin_that_no_budget_within_bounds_keeps_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^a margin of 0\.5 takes a budget above 1$"):
        least_budget(gaussian, Fraction(1, 2), Fraction(1, 10), UNIT, Fraction(1))


def test_a_margin_is_exact_as_far_as_it_is_searched_and_then_continuous() -> None:
    assert margin_of_error(DiscreteLaplace(Fraction(1))) == 2
    wide = DiscreteGaussian(Fraction(LARGEST_SEARCHED_VARIANCE + 1))
    assert margin_of_error(wide) == QUANTILE * math.sqrt(LARGEST_SEARCHED_VARIANCE + 1)
    exact = margin_of_error(DiscreteGaussian(Fraction(10**6)))
    assert exact == pytest.approx(QUANTILE * 1000, abs=1)
    assert exact == int(exact)


@settings(max_examples=examples(100))
@given(st.lists(st.fractions(Fraction(1, 10**4), 10, max_denominator=10**5), min_size=1, max_size=6))
def test_parts_are_kept_exactly_or_to_the_next_billionth_and_their_shares_can_be_declared(
    parts: list[Fraction],
) -> None:
    unit = unit_of(parts)
    assert unit <= UNIT
    kept = [rounded_up(part, unit) for part in parts]
    exact = math.lcm(*(part.denominator for part in parts), MILLION) <= BILLION
    for part, each in zip(parts, kept, strict=True):
        assert each == part if exact else part <= each < part + Fraction(1, BILLION)
    total = sum(kept, Fraction())
    assert max(number.denominator for number in (total, *(each / total for each in kept))) <= LARGEST_DENOMINATOR
