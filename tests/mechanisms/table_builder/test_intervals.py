"""90% sets of errors: exact for sums, on the safe side by at most 2% for linear combinations, never below 90%."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.sampling.noise import CappedLaplace, DiscreteGaussian, DiscreteLaplace, Distribution
from mechanisms.table_builder.fitting import Fit, Floats, Term
from mechanisms.table_builder.hypercube import Hypercube, Margins
from mechanisms.table_builder.intervals import WIDEST_TABULATED, bound, characteristic, shortest_set
from tests.depth import deep_but, deep_cases, examples, quick_cases

NOISES: list[Distribution] = [
    *(DiscreteLaplace(Fraction(scale)) for scale in ("1/20", "1/3", "1", "7/2", "40")),
    *(DiscreteGaussian(Fraction(variance)) for variance in ("1/20", "1/3", "1", "5/2", "900")),
    *(CappedLaplace(Fraction(scale), cap) for scale, cap in (("2", 7), ("100", 3), ("1/3", 2))),
]
WIDE: list[Distribution] = [
    DiscreteLaplace(Fraction(10**6, 3)),
    DiscreteGaussian(Fraction(10**12)),
    CappedLaplace(Fraction(10**6), 2 * 10**6),
]


def chances(noise: Distribution) -> Floats:
    """P of −reach … reach."""
    reach = (
        noise.cap if isinstance(noise, CappedLaplace) else math.ceil(40 * math.sqrt(float(noise.exact_variance))) + 9
    )
    return noise.probabilities(np.arange(-reach, reach + 1))


def summed(noise: Distribution, cells: int) -> Floats:
    """The probabilities of a sum, by convolution."""
    total = np.ones(1)
    for _ in range(cells):
        total = np.convolve(total, chances(noise))
    return total


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_characteristic_functions_are_those_of_the_probabilities(noise: Distribution) -> None:
    angles, one = np.linspace(-30, 30, 301), chances(noise)
    values = np.arange(len(one)) - len(one) // 2
    assert np.allclose(
        characteristic(noise, angles), np.cos(np.multiply.outer(angles, values)) @ one, rtol=0, atol=1e-11
    )
    assert np.abs(characteristic(noise, angles)).max() <= 1 + 1e-12


QUICK = {(NOISES[1], 1), (NOISES[2], 2), (NOISES[7], 3), (NOISES[10], 7)}


@deep_cases(15)
@pytest.mark.parametrize(("noise", "cells"), deep_but(QUICK, product(NOISES, (1, 2, 3, 7, 30))), ids=str)
def test_the_set_of_a_sum_has_nine_tenths_and_no_shorter_one_does(noise: Distribution, cells: int) -> None:
    total = summed(noise, cells)
    middle = len(total) // 2
    least, greatest = shortest_set(noise, cells)
    assert total[middle + least : middle + greatest + 1].sum() >= 0.9
    assert -greatest in (least, least + 1), "the set is symmetric, or lacks its greatest element"
    length, running = greatest - least, np.concatenate([[0], np.cumsum(total)])
    if length:
        assert (running[length:] - running[:-length]).max() < 0.9 + 1e-6


@quick_cases(5)
@pytest.mark.parametrize("noise", [*NOISES, *WIDE], ids=str)
def test_the_bound_of_one_noise_has_nine_tenths_and_is_short(noise: Distribution) -> None:
    sigma = math.sqrt(float(noise.exact_variance))
    most = bound([Term(noise, 1.0, 1)])
    if noise in WIDE:
        quantile = {0: math.log(10) / math.sqrt(2), 1: 1.644854}.get(WIDE.index(noise))
        assert quantile is None or quantile * sigma <= most <= (quantile + 0.021) * sigma
        assert shortest_set(noise, 1) == (-int(most), int(most))
        assert sigma > WIDEST_TABULATED
    else:
        one = chances(noise)
        half, whole = len(one) // 2, math.floor(most)
        assert one[half - whole : half + whole + 1].sum() >= 0.9
        less = math.ceil(most - 0.021 * sigma) - 1
        assert less < 0 or one[half - less : half + less + 1].sum() < 0.9 + 1e-6


def two_noises(first: Term, second: Term) -> tuple[Floats, Floats]:
    """All values of a combination of two noises, one of each, and their probabilities."""
    one, other = chances(first.noise), chances(second.noise)
    values = [term.coefficient * (np.arange(len(p)) - len(p) // 2) for term, p in ((first, one), (second, other))]
    return np.add.outer(*values).ravel(), np.multiply.outer(one, other).ravel()


@settings(max_examples=examples(40))
@given(
    st.sampled_from([noise for noise in NOISES if noise.exact_variance < 30]),
    st.sampled_from([noise for noise in NOISES if noise.exact_variance < 30]),
    st.floats(-2, 2).filter(lambda value: abs(value) > 1e-3),
)
def test_the_bound_of_a_combination_of_two_noises_is_exact_up_to_2_percent(
    first: Distribution, second: Distribution, coefficient: float
) -> None:
    terms = [Term(first, 1.0, 1), Term(second, coefficient, 1)]
    values, probabilities = two_noises(*terms)
    most = bound(terms)
    sigma = math.sqrt(sum(term.coefficient**2 * float(term.noise.exact_variance) for term in terms))
    assert probabilities[np.abs(values) <= most].sum() >= 0.9
    assert probabilities[np.abs(values) <= most - 0.021 * sigma].sum() < 0.9 + 1e-6


@deep_cases(5)
@quick_cases(6)
@pytest.mark.parametrize("scale", ["1/3", "1/5", "1/7", "1/9", "1/12", "1/20"])
@pytest.mark.parametrize("coefficient", [0.003, 0.01, 0.02, 0.05])
def test_noise_that_is_rarely_different_from_0_is_not_taken_for_small(scale: str, coefficient: float) -> None:
    """Such noise is many standard deviations of the sum, and must not reappear near 0 on the circle."""
    terms = [Term(DiscreteLaplace(Fraction(scale)), 1.0, 1), Term(DiscreteLaplace(Fraction(2)), coefficient, 1)]
    values, probabilities = two_noises(*terms)
    assert probabilities[np.abs(values) <= bound(terms)].sum() >= 0.9


def test_a_normal_approximation_does_not_cover() -> None:
    """1.645 standard deviations of one discrete Laplace cover 80% where it is rarely more than 1."""
    noise = DiscreteLaplace(Fraction(45, 100))
    one = chances(noise)
    half, whole = len(one) // 2, math.floor(1.645 * math.sqrt(float(noise.exact_variance)))
    assert one[half - whole : half + whole + 1].sum() < 0.81
    whole = math.floor(bound([Term(noise, 1.0, 1)]))
    assert one[half - whole : half + whole + 1].sum() >= 0.9


@pytest.mark.parametrize(
    "sizes", [{"a": 30}, {"a": 2, "b": 2}, {"a": 51, "b": 20, "c": 20, "d": 10}, dict.fromkeys("abcdefgh", 2)], ids=str
)
def test_bounds_of_fitted_cells_are_near_those_of_the_normal_distribution_where_many_noises_are_added(
    sizes: dict[str, int],
) -> None:
    fit = Fit(Hypercube(sizes, Fraction(1), margins=Margins.FITTED))
    sigma = math.sqrt(fit.variance({}))
    assert 1.62 < bound(fit.error(list(sizes.values()))) / sigma < 1.67
    assert 1.62 < shortest_set(DiscreteGaussian(Fraction(900)), 400)[1] / (20 * 30) < 1.67


def test_nothing_added_has_no_error() -> None:
    assert bound([]) == 0
