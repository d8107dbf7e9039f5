"""The gate's chi-square test passes exact draws and stops wrong ones, at the rates it states."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from mechanisms.sampling.discrete_gaussian import DiscreteGaussian
from mechanisms.sampling.discrete_laplace import DiscreteLaplace
from mechanisms.sampling.goodness import FALSE_ALARM, Fit, fit
from mechanisms.sampling.stream import RandomStream

GAUSSIANS = [DiscreteGaussian(Fraction(variance)) for variance in (1, 100, 92_402)]
LAPLACES = [DiscreteLaplace(Fraction(scale)) for scale in (1, 24)]
STREAM = RandomStream(bytes(32), "goodness")


@pytest.mark.parametrize("count", [5, 60, 3_000, 200_000])
def test_exact_draws_of_several_distributions_pass(count: int) -> None:
    """Each run of the test could fail once in a billion times."""
    drawn = [(noise.sample(count, STREAM), noise) for noise in (*GAUSSIANS, *LAPLACES)]
    assert not fit(drawn).alarm


@pytest.mark.parametrize("wrong", ["no noise", "one sign", "half the scale", "shifted", "another distribution"])
def test_wrong_noise_is_stopped(wrong: str) -> None:
    """612 counts, as a release of two states has; the chance that one passes is below 1e-6 in each case."""
    noise = DiscreteGaussian(Fraction(92_402))
    exact = noise.sample(612, STREAM)
    drawn = {
        "no noise": np.zeros_like(exact),
        "one sign": np.abs(exact),
        "half the scale": exact // 2,
        "shifted": exact + 200,
        "another distribution": DiscreteLaplace(Fraction(60)).sample(612, STREAM),
    }[wrong]
    assert fit([(drawn, noise)]).alarm


def test_the_threshold_is_at_or_above_the_quantile_of_its_false_alarm_rate() -> None:
    for bins in range(2, 11):
        found = fit([(np.zeros(10 * bins, np.int64), DiscreteGaussian(Fraction(100)))])
        assert found.bins == bins
        assert chi2.isf(FALSE_ALARM, bins - 1) <= found.threshold <= 1.6 * chi2.isf(FALSE_ALARM, bins - 1)


def test_too_few_draws_are_not_judged() -> None:
    assert fit([(np.array([10**6]), GAUSSIANS[0])]) == Fit(0.0, 0.0, 0)
