"""Quantiles and half-widths against probabilities to 100 decimals, and sums against exact convolutions."""

from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace
from mechanisms.sampling.quantiles import Uncapped, half_width, laplace_budget, quantile
from tests.depth import examples
from tests.mechanisms.sampling.exact_noise import DIGITS, reference

NOISES = st.one_of(
    st.fractions(Fraction(1, 20), 30, max_denominator=20).map(DiscreteGaussian),
    st.fractions(Fraction(1, 20), 3, max_denominator=20).map(DiscreteLaplace),
)
CHANCES = st.fractions(Fraction(1, 10**4), 1 - Fraction(1, 10**4), max_denominator=10**4)


def at_most(noise: Uncapped, value: int) -> Fraction:
    """P(X <= value) to 100 decimals."""
    exact = reference(noise)
    return Fraction(exact.cumulative[value + exact.reach])


@given(NOISES, CHANCES)
def test_a_quantile_is_the_least_integer_that_is_seldom_exceeded(noise: Uncapped, chance: Fraction) -> None:
    found = quantile(noise, chance)
    assert at_most(noise, found) >= chance
    assert at_most(noise, found - 1) < chance


@pytest.mark.prove
@settings(max_examples=examples(50))
@given(NOISES, st.integers(1, 4), CHANCES)
def test_a_half_width_is_the_least_that_covers_a_sum(noise: Uncapped, cells: int, coverage: Fraction) -> None:
    exact = reference(noise)
    reach = min(exact.reach, 100)
    with localcontext(Context(prec=DIGITS)):
        one = np.array([exact.probability(value) for value in range(-reach, reach + 1)], dtype=object)
        summed = np.array([Decimal(1)], dtype=object)
        for _ in range(cells):
            summed = np.convolve(summed, one)
        middle = len(summed) // 2
        within = [sum(summed[middle - width : middle + width + 1]) for width in range(middle + 1)]
    found, wanted = half_width(noise, cells, coverage), Decimal(coverage.numerator) / coverage.denominator
    assert within[found] >= wanted - Decimal("1e-12")
    assert found == 0 or within[found - 1] < wanted + Decimal("1e-12")


@pytest.mark.parametrize("cells", [4, 9, 23, 8, 18, 46])
@pytest.mark.parametrize("variance", ["2.343", "31.4465", "625"])
def test_the_half_width_of_many_cells_is_near_that_of_the_normal_distribution(cells: int, variance: str) -> None:
    noise = DiscreteGaussian(Fraction(variance))
    deviation = (cells * float(Fraction(variance))) ** 0.5
    assert half_width(noise, cells, Fraction(9, 10)) == pytest.approx(1.6449 * deviation, abs=1)


def test_a_half_width_of_noise_too_fine_for_steps_of_one_is_a_whole_number_of_steps() -> None:
    noise = DiscreteGaussian(Fraction(2**28))
    deviation = 2.0**14 * 46**0.5
    step = 7  # σ / 2^14, rounded up
    found = half_width(noise, 46, Fraction(9, 10))
    assert found % step == 0
    assert 1.644853 * deviation - step < found < 1.644854 * deviation + step


@pytest.mark.parametrize("noise", [DiscreteGaussian(Fraction(1, 2000)), DiscreteLaplace(Fraction(1, 2000))])
def test_noise_that_is_hardly_ever_nonzero_has_no_width(noise: Uncapped) -> None:
    assert half_width(noise, 1, Fraction(99, 100)) == half_width(noise, 46, Fraction(99, 100)) == 0


@given(
    st.integers(1, 30),
    st.integers(0, 50),
    st.fractions(Fraction(1, 2), Fraction(99, 100), max_denominator=100),
    st.sampled_from([Fraction(1, 10), Fraction(1, 1000), Fraction(9, 10_000)]),
)
def test_a_budget_of_the_discrete_laplace_is_the_least_that_covers(
    sensitivity: int, margin: int, coverage: Fraction, unit: Fraction
) -> None:
    budget = laplace_budget(sensitivity, margin, coverage, unit)
    assert (budget / unit).denominator == 1
    assert half_width(DiscreteLaplace(sensitivity / budget), 1, coverage) <= margin
    if budget > unit:
        assert half_width(DiscreteLaplace(sensitivity / (budget - unit)), 1, coverage) > margin


@pytest.mark.parametrize("chance", [Fraction(0), Fraction(1), Fraction(-1, 2)])
def test_a_chance_out_of_range_is_refused(chance: Fraction) -> None:
    noise = DiscreteGaussian(Fraction(1))
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        quantile(noise, chance)
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        half_width(noise, 2, chance)


def test_a_sum_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        half_width(DiscreteGaussian(Fraction(1)), 0, Fraction(1, 2))
