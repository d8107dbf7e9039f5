"""Draws from the discrete Gaussian, and its exact moments, at every width that releases use.

`test_inversion` and `test_rejection` show exactness word by word. These tests check ten million draws from the real
stream, which would reveal correct parts that are combined wrongly. Ten million draws have limited power: for σ² above
about 50 they do not distinguish a rounded continuous Gaussian from a discrete one, while the enumeration does.
"""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from mechanisms.sampling import inversion, rejection
from mechanisms.sampling.noise import LARGEST_TABULATED_VARIANCE, DiscreteGaussian
from mechanisms.sampling.stream import RandomStream
from tests.depth import deep_but, deep_cases, quick_cases
from tests.mechanisms.sampling.chi_square import power
from tests.mechanisms.sampling.exact_noise import alarms, outermost, reference, rounded_to_integers

KEY = b"\x03" * 32
DRAWS = 10_000_000
VARIANCES = ["1/10", "1", "2", "100", "92416", "3000001/3"]
QUICK = {"1/10", "100", "3000001/3"}
PINNED = {
    "2": [0, 0, -2, 2, 2, 0, -1, 2],
    "92416": [3, 23, -450, 395, 524, 1, -284, 352],
    "1099511627776": [-424313, 335882, -1567290, 530012, -973066, 847203, 356794, 327212],
}


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize("variance", deep_but(QUICK, VARIANCES))
def test_ten_million_draws_pass_every_test_of_the_distribution(variance: str) -> None:
    noise = DiscreteGaussian(Fraction(variance))
    assert alarms(noise.sample(DRAWS, RandomStream(KEY, "gaussian")), noise) == set()


@pytest.mark.prove
@pytest.mark.parametrize("variance", [*VARIANCES, "1/3", "17/3", "8000"])
def test_forty_million_draws_pass_every_test_of_the_distribution(variance: str) -> None:
    noise = DiscreteGaussian(Fraction(variance))
    assert alarms(noise.sample(4 * DRAWS, RandomStream(KEY, "deep")), noise) == set()


@deep_cases(1)
@pytest.mark.parametrize("variance", deep_but(QUICK, ["1/10", "1", "2", "10"]))
def test_the_same_tests_reject_a_rounded_continuous_gaussian(variance: str) -> None:
    noise = DiscreteGaussian(Fraction(variance))
    deviation = float(noise.variance) ** 0.5
    rounded = np.rint(np.random.default_rng(1).normal(0, deviation, DRAWS)).astype(np.int64)
    assert "chi-square" in alarms(rounded, noise)

    most = outermost(noise, DRAWS)
    wrong = rounded_to_integers(norm(scale=deviation).cdf, most)
    assert power(wrong, reference(noise).fractions(most), DRAWS) > 1 - 1e-6


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize("variance", deep_but(QUICK, VARIANCES[:-1]))
def test_the_same_tests_reject_a_table_that_is_one_off(variance: str) -> None:
    """The variances go up to σ² = 92416, at which a mean of 1 is 10 standard errors."""
    noise = DiscreteGaussian(Fraction(variance))
    assert "mean" in alarms(noise.sample(DRAWS, RandomStream(KEY, "gaussian")) + 1, noise)


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize("variance", deep_but(QUICK, VARIANCES))
def test_the_same_tests_reject_a_variance_wrong_by_one_in_a_hundred(variance: str) -> None:
    noise, wider = DiscreteGaussian(Fraction(variance)), DiscreteGaussian(Fraction(variance) * Fraction(101, 100))
    assert "variance" in alarms(wider.sample(DRAWS, RandomStream(KEY, "gaussian")), noise)


@pytest.mark.parametrize(
    "variance", ["1/1000", "1/10", "1/3", "1", "2", "17/3", "100", "10001/100", "92416", "3000001/3"]
)
def test_the_exact_variance_agrees_with_another_computation_to_39_digits(variance: str) -> None:
    noise = DiscreteGaussian(Fraction(variance))
    moment = reference(noise).moment(2)
    assert abs(noise.exact_variance / moment - 1) < Decimal("1e-39")


def test_the_exact_variance_is_a_little_less_than_the_parameter() -> None:
    for variance in ("1/10", "1", "2", "3"):
        assert DiscreteGaussian(Fraction(variance)).exact_variance < Decimal(Fraction(variance).numerator) / Decimal(
            Fraction(variance).denominator
        )
    assert DiscreteGaussian(Fraction(10**12, 3)).exact_variance == Decimal("333333333333.3333333333333333333333333333")


@pytest.mark.parametrize("variance", ["1/1000", "1/10", "2", "99", "101", "92416"])
def test_probabilities_are_those_of_the_definition(variance: str) -> None:
    noise = DiscreteGaussian(Fraction(variance))
    values = np.arange(-60, 61)
    exact = [float(reference(noise).probability(value)) for value in values.tolist()]
    assert np.allclose(noise.probabilities(values), exact, rtol=1e-12, atol=1e-100)


@pytest.mark.parametrize("variance", [Fraction(0), Fraction(-1), Fraction(-1, 3)])
def test_a_variance_that_is_not_positive_is_refused(variance: Fraction) -> None:
    with pytest.raises(ValueError, match="σ² of a discrete Gaussian distribution is greater than 0"):
        DiscreteGaussian(variance)


@pytest.mark.parametrize("variance", [2.0, "2", np.int64(2), None])
def test_a_variance_that_is_not_exact_is_refused(variance: object) -> None:
    with pytest.raises(TypeError, match="is a Fraction"):
        DiscreteGaussian(variance)  # type: ignore[arg-type]


def test_no_draws_are_an_empty_array_and_fewer_an_error() -> None:
    noise = DiscreteGaussian(Fraction(2))
    assert noise.sample(0, RandomStream(KEY, "none")).dtype == np.int64
    with pytest.raises(ValueError, match="negative"):
        noise.sample(-1, RandomStream(KEY, "none"))


def test_a_table_is_used_up_to_the_limit_and_rejection_above(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inversion, "sample", lambda *arguments: "table")
    monkeypatch.setattr(rejection, "sample", lambda *arguments: "rejection")
    limit = Fraction(LARGEST_TABULATED_VARIANCE)
    assert DiscreteGaussian(limit).sample(1, RandomStream(KEY, "limit")) == "table"
    assert DiscreteGaussian(limit + Fraction(1, 10**9)).sample(1, RandomStream(KEY, "limit")) == "rejection"


@pytest.mark.prove
def test_the_largest_table_has_fewer_than_2_to_the_22_entries() -> None:
    noise = DiscreteGaussian(Fraction(LARGEST_TABULATED_VARIANCE))
    assert 2**21 < len(inversion.tabulate(noise).floors) < 2**22
    values = noise.sample(DRAWS, RandomStream(KEY, "largest")) / LARGEST_TABULATED_VARIANCE**0.5
    counts = np.bincount(np.searchsorted(np.arange(-4, 4.01, 0.1), values), minlength=82)
    expected = DRAWS * np.diff([0, *norm.cdf(np.arange(-4, 4.01, 0.1)), 1])
    assert np.all(np.abs(counts - expected) < 6.5 * np.sqrt(expected))


@pytest.mark.parametrize("variance", PINNED)
def test_first_draws_have_not_changed(variance: str) -> None:
    assert DiscreteGaussian(Fraction(variance)).sample(8, RandomStream(KEY, "pinned")).tolist() == PINNED[variance]
