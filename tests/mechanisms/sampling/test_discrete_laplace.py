"""Draws from the discrete Laplace, and its exact moments. `test_inversion` shows exactness word by word."""

from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import laplace

from mechanisms.sampling import inversion, rejection
from mechanisms.sampling.noise import LARGEST_TABULATED_SCALE, DiscreteLaplace
from mechanisms.sampling.stream import RandomStream
from tests.depth import deep_but, deep_cases, quick_cases
from tests.mechanisms.sampling.chi_square import power
from tests.mechanisms.sampling.exact_noise import alarms, outermost, reference, rounded_to_integers

KEY = b"\x04" * 32
DRAWS = 10_000_000
SCALES = ["1/3", "1", "22/7", "24", "1000/7"]
QUICK = {"1/3", "1000/7"}
PINNED = {
    "1": [0, 0, 0, 1, 0, 0, 1, 0],
    "24": [2, 3, 2, 17, -2, -11, 30, -10],
    "1000000/3": [915594, -65047, 201074, 957797, -1398717, 746149, -113025, 538665],
}


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize("scale", deep_but(QUICK, SCALES))
def test_ten_million_draws_pass_every_test_of_the_distribution(scale: str) -> None:
    noise = DiscreteLaplace(Fraction(scale))
    assert alarms(noise.sample(DRAWS, RandomStream(KEY, "laplace")), noise) == set()


@pytest.mark.prove
@pytest.mark.parametrize("scale", [*SCALES, "1/10", "500"])
def test_forty_million_draws_pass_every_test_of_the_distribution(scale: str) -> None:
    noise = DiscreteLaplace(Fraction(scale))
    assert alarms(noise.sample(4 * DRAWS, RandomStream(KEY, "deep")), noise) == set()


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize("scale", deep_but(QUICK, ["1/3", "1", "22/7"]))
def test_the_same_tests_reject_a_rounded_continuous_laplace(scale: str) -> None:
    noise = DiscreteLaplace(Fraction(scale))
    rounded = np.rint(np.random.default_rng(1).laplace(0, float(noise.scale), DRAWS)).astype(np.int64)
    assert "chi-square" in alarms(rounded, noise)

    most = outermost(noise, DRAWS)
    wrong = rounded_to_integers(laplace(scale=float(noise.scale)).cdf, most)
    assert power(wrong, reference(noise).fractions(most), DRAWS) > 1 - 1e-6


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize("scale", deep_but(QUICK, SCALES))
def test_the_same_tests_reject_a_table_that_is_one_off(scale: str) -> None:
    noise = DiscreteLaplace(Fraction(scale))
    assert "mean" in alarms(noise.sample(DRAWS, RandomStream(KEY, "laplace")) + 1, noise)


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize("scale", deep_but(QUICK, SCALES))
def test_the_same_tests_reject_a_scale_wrong_by_one_in_a_hundred(scale: str) -> None:
    noise, wider = DiscreteLaplace(Fraction(scale)), DiscreteLaplace(Fraction(scale) * Fraction(101, 100))
    assert "variance" in alarms(wider.sample(DRAWS, RandomStream(KEY, "laplace")), noise)


@pytest.mark.parametrize("scale", ["1/1000", "1/3", "1", "22/7", "24", "1000/7", "123456789/7"])
def test_the_exact_variance_is_the_closed_form(scale: str) -> None:
    noise = DiscreteLaplace(Fraction(scale))
    with localcontext(Context(prec=600)):
        power_of_e = (Decimal(noise.scale.denominator) / noise.scale.numerator).exp()
        closed = 2 * power_of_e / (power_of_e - 1) ** 2
    assert abs(noise.exact_variance / closed - 1) < Decimal("1e-39")


@pytest.mark.parametrize("scale", ["1/3", "1", "22/7", "24"])
def test_the_exact_variance_is_that_of_the_probabilities(scale: str) -> None:
    noise = DiscreteLaplace(Fraction(scale))
    assert abs(noise.exact_variance / reference(noise).moment(2) - 1) < Decimal("1e-39")


@pytest.mark.parametrize("scale", ["1/1000", "1/3", "1", "24", "1000/7"])
def test_probabilities_are_those_of_the_definition(scale: str) -> None:
    noise = DiscreteLaplace(Fraction(scale))
    values = np.arange(-60, 61)
    exact = [float(reference(noise).probability(value)) for value in values.tolist()]
    assert np.allclose(noise.probabilities(values), exact, rtol=1e-12, atol=1e-90)


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), Fraction(-1, 3)])
def test_a_scale_that_is_not_positive_is_refused(scale: Fraction) -> None:
    with pytest.raises(ValueError, match="scale of a discrete Laplace distribution is greater than 0"):
        DiscreteLaplace(scale)


@pytest.mark.parametrize("scale", [2.0, "2", np.int64(2), None])
def test_a_scale_that_is_not_exact_is_refused(scale: object) -> None:
    with pytest.raises(TypeError, match="is a Fraction"):
        DiscreteLaplace(scale)  # type: ignore[arg-type]


def test_a_table_is_used_up_to_the_limit_and_rejection_above(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inversion, "sample", lambda *arguments: "table")
    monkeypatch.setattr(rejection, "sample", lambda *arguments: "rejection")
    limit = Fraction(LARGEST_TABULATED_SCALE)
    assert DiscreteLaplace(limit).sample(1, RandomStream(KEY, "limit")) == "table"
    assert DiscreteLaplace(limit + Fraction(1, 10**9)).sample(1, RandomStream(KEY, "limit")) == "rejection"


@pytest.mark.prove
def test_the_largest_table_has_fewer_than_2_to_the_22_entries() -> None:
    noise = DiscreteLaplace(Fraction(LARGEST_TABULATED_SCALE))
    assert 2**21 < len(inversion.tabulate(noise).floors) < 2**22


@pytest.mark.parametrize("scale", PINNED)
def test_first_draws_have_not_changed(scale: str) -> None:
    assert DiscreteLaplace(Fraction(scale)).sample(8, RandomStream(KEY, "pinned")).tolist() == PINNED[scale]
