"""Margins of error and budgets: each follows from the other, and a margin has its stated coverage."""

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mechanisms.noise import Noise
from mechanisms.phsafe.design import (
    BEYOND,
    LARGEST_SEARCHED_VARIANCE,
    PLACES,
    Z,
    budget_for_margin,
    exact_margin,
    margin_of_error,
    noise_of_count,
)
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace
from tests.mechanisms.sampling.exact_noise import reference

STABILITIES = st.integers(1, 200)
MARGINS = st.fractions(min_value=1, max_value=2000, max_denominator=50)
EPSILONS = st.fractions(min_value=Fraction(1, 100), max_value=20, max_denominator=10**6)
VARIANCES = st.fractions(min_value=Fraction(1, 50), max_value=60, max_denominator=1000)
MILLIONTH = Fraction(1, 10**6)


def laplace_beyond(margin: int, scale: Fraction) -> float:
    """P(|X| > m), from the sum of the geometric series."""
    q = math.exp(-1 / scale)
    return 2 * q ** (margin + 1) / (1 + q)


def test_the_factor_is_the_normal_quantile_of_production_and_not_the_one_of_the_printed_formula() -> None:
    assert round(Fraction(NormalDist().inv_cdf(0.95)), 3) == Z
    assert round(Z**2 / 2 * 22**2 / Fraction(68) ** 2, PLACES) == Fraction(141_622, 10**6)
    assert round(Fraction("1.64") ** 2 / 2 * 22**2 / Fraction(68) ** 2, PLACES) != Fraction(141_622, 10**6)


@given(STABILITIES, MARGINS)
def test_a_margin_follows_from_the_budget_that_follows_from_it_up_to_the_rounding_of_the_budget(
    stability: int, target: Fraction
) -> None:
    budget = budget_for_margin(Noise.GAUSSIAN, stability, target)
    exact = Z**2 / 2 * stability**2 / target**2
    assert abs(budget - exact) <= MILLIONTH / 2
    assert (budget / MILLIONTH).denominator == 1
    assert margin_of_error(Noise.GAUSSIAN, stability, exact) == pytest.approx(float(target), rel=1e-12)
    variance = noise_of_count(Noise.GAUSSIAN, stability, budget)
    assert isinstance(variance, DiscreteGaussian)
    assert variance.variance == Fraction(stability**2) / (2 * budget)
    assert margin_of_error(Noise.GAUSSIAN, stability, budget) == pytest.approx(float(Z) * math.sqrt(variance.variance))


@given(STABILITIES, st.fractions(min_value=Fraction(1, 10**6), max_value=100, max_denominator=10**6))
def test_half_the_margin_takes_four_times_the_rho(stability: int, budget: Fraction) -> None:
    halved = margin_of_error(Noise.GAUSSIAN, stability, 4 * budget)
    assert halved == pytest.approx(margin_of_error(Noise.GAUSSIAN, stability, budget) / 2, rel=1e-12)


@given(STABILITIES, MARGINS)
def test_an_epsilon_is_the_least_number_of_millionths_that_keeps_the_margin(stability: int, target: Fraction) -> None:
    epsilon = budget_for_margin(Noise.LAPLACE, stability, target)
    assert (epsilon / MILLIONTH).denominator == 1
    assert margin_of_error(Noise.LAPLACE, stability, epsilon) <= target
    if epsilon > MILLIONTH:
        assert margin_of_error(Noise.LAPLACE, stability, epsilon - MILLIONTH) > target


@given(STABILITIES, EPSILONS)
def test_the_exact_margin_of_the_discrete_laplace_covers_nine_tenths_and_a_smaller_one_does_not(
    stability: int, epsilon: Fraction
) -> None:
    noise = noise_of_count(Noise.LAPLACE, stability, epsilon)
    assert isinstance(noise, DiscreteLaplace)
    assert noise.scale == stability / epsilon
    margin = exact_margin(noise)
    assert margin == margin_of_error(Noise.LAPLACE, stability, epsilon)
    assert margin is not None
    assert laplace_beyond(margin, noise.scale) <= BEYOND * (1 + Fraction(1, 10**12))
    if margin:
        assert laplace_beyond(margin - 1, noise.scale) > BEYOND * (1 - Fraction(1, 10**12))


@given(VARIANCES)
def test_the_exact_margin_of_the_discrete_gaussian_covers_nine_tenths_and_a_smaller_one_does_not(
    variance: Fraction,
) -> None:
    noise = DiscreteGaussian(variance)
    margin = exact_margin(noise)
    assert margin is not None
    known = reference(noise)

    def covered(reach: int) -> Fraction:
        return sum((Fraction(known.probability(value)) for value in range(-reach, reach + 1)), Fraction())

    assert covered(margin) >= 1 - BEYOND
    assert margin == 0 or covered(margin - 1) < 1 - BEYOND


@given(st.fractions(min_value=100, max_value=10**6, max_denominator=1000))
def test_the_planned_margin_of_the_discrete_gaussian_is_the_exact_one_to_within_one(variance: Fraction) -> None:
    margin = exact_margin(DiscreteGaussian(variance))
    assert margin is not None
    assert abs(margin - float(Z) * math.sqrt(variance)) < 1


@pytest.mark.parametrize("noise", [DiscreteGaussian(Fraction(92_416)), DiscreteLaplace(Fraction(217, 1))])
def test_a_tenth_of_what_is_drawn_lies_beyond_the_exact_margin(noise: DiscreteGaussian | DiscreteLaplace) -> None:
    margin = exact_margin(noise)
    assert margin is not None
    inside = noise.probabilities(np.arange(-margin, margin + 1)).sum()
    on_the_edge = noise.probabilities(np.array([margin, -margin])).sum()
    assert inside - on_the_edge < 0.9 <= inside


def test_the_exact_margin_is_not_searched_for_noise_so_wide_that_it_would_take_long() -> None:
    assert exact_margin(DiscreteGaussian(Fraction(LARGEST_SEARCHED_VARIANCE))) == 26_949
    assert exact_margin(DiscreteGaussian(Fraction(LARGEST_SEARCHED_VARIANCE + 1))) is None
    assert exact_margin(DiscreteLaplace(Fraction(10**15))) is not None


@pytest.mark.parametrize("noise", Noise)
@pytest.mark.parametrize("margin", [Fraction(0), Fraction(-5)])
def test_a_margin_of_error_is_positive(noise: Noise, margin: Fraction) -> None:
    with pytest.raises(ValueError, match="greater than 0"):
        budget_for_margin(noise, 22, margin)


def test_a_margin_that_asks_for_no_budget_at_all_is_refused_and_not_rounded_to_0() -> None:
    with pytest.raises(ValueError, match="rounds to 0 at 6 decimals"):
        budget_for_margin(Noise.GAUSSIAN, 2, Fraction(10_000))
    assert budget_for_margin(Noise.LAPLACE, 2, Fraction(10**9)) == MILLIONTH


@given(STABILITIES, MARGINS, MARGINS)
def test_a_smaller_margin_never_costs_less(stability: int, one: Fraction, other: Fraction) -> None:
    assume(one < other)
    for noise in Noise:
        if noise is Noise.LAPLACE or Z**2 / 2 * stability**2 / other**2 > MILLIONTH:
            assert budget_for_margin(noise, stability, one) >= budget_for_margin(noise, stability, other)
