"""The gate's chi-square test passes exact draws and stops wrong ones, at the rates it states."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from mechanisms.sampling import goodness
from mechanisms.sampling.goodness import FALSE_ALARM, Fit, bin_answers, bin_draws, find_misfits, fit
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace
from mechanisms.sampling.stream import RandomStream

GAUSSIANS = [DiscreteGaussian(Fraction(variance)) for variance in (1, 100, 92_402)]
LAPLACES = [DiscreteLaplace(Fraction(scale)) for scale in (1, 24)]
STREAM = RandomStream(bytes(32), "goodness")


@pytest.mark.parametrize("count", [5, 60, 3_000, 200_000])
def test_exact_draws_of_several_distributions_pass(count: int) -> None:
    """The test fails by chance at most once in a billion runs."""
    drawn = [bin_draws(noise.sample(count, STREAM), noise) for noise in (*GAUSSIANS, *LAPLACES)]
    assert not fit(drawn).alarm


WIDEST = [DiscreteGaussian(Fraction(10**18)), DiscreteLaplace(Fraction(7 * 10**8))]
"""As wide as PHSafe permits: a table of their probabilities would take hundreds of gigabytes."""


@pytest.mark.parametrize("noise", WIDEST, ids=["gaussian", "laplace"])
def test_the_widest_noise_is_tested_without_a_table_of_it(noise: DiscreteGaussian | DiscreteLaplace) -> None:
    """False alarms at most once in a billion runs; the probability that half the scale passes is below 1e-6."""
    exact = noise.sample(600, STREAM)
    assert not fit([bin_draws(exact, noise)]).alarm
    assert fit([bin_draws(exact // 2, noise)]).alarm


@pytest.mark.deep
@pytest.mark.parametrize("noise", [DiscreteGaussian(Fraction(2**37)), DiscreteLaplace(Fraction(2**18))], ids=str)
def test_the_bins_of_wide_noise_are_those_of_its_table(
    noise: DiscreteGaussian | DiscreteLaplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To 3e-8, the probability that the table leaves out beyond 12σ of the Laplace."""
    values = np.arange(-(10**6), 10**6, 1000)
    wide = bin_draws(values, noise)
    monkeypatch.setattr(goodness, "WIDEST_TABULATED", 2**20)
    goodness._cut.cache_clear()
    tabulated = bin_draws(values, noise)
    goodness._cut.cache_clear()
    assert np.array_equal(wide.observed, tabulated.observed)
    assert np.abs(wide.expected - tabulated.expected).max() < 3e-8 * len(values) + len(values) / 2**17


@pytest.mark.parametrize("variance", [92_402, 10**20])
def test_the_noise_of_answers_is_binned_as_the_differences_of_exact_and_noisy_ones(variance: int) -> None:
    """Including answers that are sums of several counts, answers whose difference is zero, and edges beyond the range
    of integers."""
    noise, random = DiscreteGaussian(Fraction(variance)), np.random.default_rng(33)
    positions, counts = random.integers(0, 5_000, 3_000), random.integers(1, 900, 3_000)
    positions[:2], counts[:2] = 4_999, [7, -7]
    exact = np.zeros(9_000, dtype=np.int64)
    np.add.at(exact, positions, counts)
    noisy = (exact + np.rint(random.normal(0, 300, exact.size)).astype(np.int64)).astype(np.int32)
    noisy[:2] = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    found, due = bin_answers(noisy, positions, counts, noise), bin_draws(noisy - exact, noise)
    edges, _ = goodness._cut(noise)
    assert np.array_equal(due.observed, np.bincount(np.searchsorted(edges, noisy - exact), minlength=10))
    assert np.array_equal(found.observed, due.observed)
    assert np.array_equal(found.expected, due.expected)


@pytest.mark.parametrize("wrong", ["no noise", "one sign", "half the scale", "shifted", "another distribution"])
def test_wrong_noise_is_stopped(wrong: str) -> None:
    """612 counts, as in a release of two states. The probability that wrong noise passes is below 1e-6 in each case."""
    noise = DiscreteGaussian(Fraction(92_402))
    exact = noise.sample(612, STREAM)
    drawn = {
        "no noise": np.zeros_like(exact),
        "one sign": np.abs(exact),
        "half the scale": exact // 2,
        "shifted": exact + 200,
        "another distribution": DiscreteLaplace(Fraction(60)).sample(612, STREAM),
    }[wrong]
    assert fit([bin_draws(drawn, noise)]).alarm


def test_one_level_without_noise_is_found_among_many_with_noise() -> None:
    """42 counts of 612. Pooled with the others, its statistic stays below the threshold."""
    drawn = {
        f"level {place}": bin_draws(noise.sample(57, STREAM), noise)
        for place, noise in enumerate([*GAUSSIANS, *LAPLACES] * 2)
    }
    assert find_misfits(drawn) == []
    silent = drawn | {"silent": bin_draws(np.zeros(42, np.int64), DiscreteGaussian(Fraction(92_402)))}
    assert find_misfits(silent) == ["silent"]


@pytest.mark.parametrize("variance", [Fraction(1, 25), Fraction(1, 20), Fraction(1, 16), Fraction(1, 4)])
def test_noise_that_is_nearly_always_0_raises_no_false_alarm(variance: Fraction) -> None:
    """Bins that expect almost no draws are merged. Without this, 2,000 repetitions would raise dozens of alarms."""
    noise = DiscreteGaussian(variance)
    draws = noise.sample(2_000 * 200, STREAM).reshape(2_000, 200)
    assert not any(fit([bin_draws(row, noise)]).alarm for row in draws)


def test_the_threshold_is_at_or_above_the_quantile_of_its_false_alarm_rate() -> None:
    for count in (30, 45, 60, 200):
        found = fit([bin_draws(np.zeros(count, np.int64), DiscreteGaussian(Fraction(92_402)))])
        assert found.bins >= 2
        quantile = chi2.isf(FALSE_ALARM, found.bins - 1)
        assert quantile <= found.threshold <= 1.6 * quantile


def test_too_few_draws_are_not_tested() -> None:
    assert fit([bin_draws(np.array([10**6]), GAUSSIANS[0])]) == Fit(0.0, 0.0, 0)
