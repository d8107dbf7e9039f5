"""Counts after post-processing: the posterior, and how often its intervals cover, by enumeration.

The reference is written from the definition alone: exact probabilities of one basis cell's noise, convolved for sums,
conditioned on the possible counts. Coverage is exact but for tails below 10⁻¹², so no test here can fail by chance.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, target
from hypothesis import strategies as st

from benchmarks.coverage import (
    MARGINS,
    SUMS,
    Draws,
    Integers,
    OneCell,
    choose_true_counts,
    compute_count_coverage,
    make_noise,
)
from mechanisms.noise import Noise
from mechanisms.phsafe.estimation import (
    CREDIBILITY,
    LARGEST_COUNT,
    LARGEST_VARIANCE,
    Estimates,
    Interval,
    estimate_counts,
)
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace
from mechanisms.sampling.quantiles import FINEST_DEVIATION, NoiseSum
from tests.depth import deep_but, deep_cases, examples, quick_cases

LEAST, MOST = 0.86, 0.95
HAIR = 1e-7
"""Pure DP's noise of one cell with a margin of 20 covers 95% and 6·10⁻⁸ at 16 to 20 persons, as far as is known."""

SMALL: list[tuple[OneCell, int]] = [
    (DiscreteGaussian(Fraction(variance)), cells)
    for variance, cells in ((Fraction(1, 10), 1), (Fraction(1, 3), 3), (1, 2), (3, 7), (5, 16), (40, 1), (148, 3))
] + [
    (DiscreteLaplace(Fraction(scale)), cells)
    for scale, cells in ((Fraction(1, 4), 1), (Fraction(1, 2), 3), (1, 2), (3, 7), (2, 16), (8, 1))
]


def kind(one: OneCell) -> Noise:
    return Noise.GAUSSIAN if isinstance(one, DiscreteGaussian) else Noise.LAPLACE


def by_definition(noisy: int, draws: Draws, interval: Interval) -> tuple[float, set[tuple[int, int]]]:
    """The posterior mean, and every interval that satisfies the definition."""
    reach = int(draws.values[-1])
    chances = dict(zip(draws.values.tolist(), draws.chances.tolist(), strict=True))
    truths = [truth for truth in range(max(0, noisy - reach), noisy + reach + 1) if chances[noisy - truth] > 0]
    posterior = np.array([chances[noisy - truth] for truth in truths])
    posterior /= posterior.sum()
    below = np.append(0, posterior.cumsum())
    content = CREDIBILITY[interval]
    if interval is Interval.EQUAL_TAILED:
        tail = (1 - content) / 2
        return float(posterior @ truths), {
            (truths[np.searchsorted(below[1:], tail)], truths[np.searchsorted(below[1:], 1 - tail)])
        }
    for length in range(1, len(truths) + 1):
        shares = below[length:] - below[:-length]
        if shares.max() >= content:
            starts = np.flatnonzero(shares > shares.max() - 1e-12)
            return float(posterior @ truths), {(truths[start], truths[start + length - 1]) for start in starts}
    raise AssertionError("a whole posterior has probability 1")


@pytest.mark.parametrize("interval", Interval)
@pytest.mark.parametrize(("one", "cells"), SMALL)
def test_counts_are_what_the_posterior_says(one: OneCell, cells: int, interval: Interval) -> None:
    draws = Draws(one, cells)
    deviation = int(draws.variance**0.5) + 1
    noisy = np.arange(-min(4 * deviation, int(draws.values[-1]) // 2), 5 * deviation)
    found = estimate_counts(noisy, draws.variance, cells, kind(one), interval)
    for row, value in enumerate(noisy.tolist()):
        mean, intervals = by_definition(value, draws, interval)
        assert abs(found.estimate[row] - mean) <= 0.5 + 1e-9
        assert (found.lower[row], found.upper[row]) in intervals
        assert (found.lower[row], found.upper[row]) == max(intervals)


@pytest.mark.parametrize("cells", [1, 3])
@pytest.mark.parametrize("deviations", [6, 12, 25, 36.5, 40, 60, 200])
def test_far_below_zero_the_posterior_is_followed_where_no_noise_reaches(deviations: float, cells: int) -> None:
    variance = 1_600.0
    noisy = -int(deviations * (cells * variance) ** 0.5)
    truths = np.arange(2_000)
    weights = np.exp((truths * (2 * noisy - truths)) / (2 * cells * variance))
    mean = float(weights @ truths / weights.sum())
    beyond = 1 - weights.cumsum() / weights.sum()
    found = estimate_counts(noisy, cells * variance, cells)
    # Off by half a person for rounding, and by a thousandth for the geometric tail.
    assert abs(found.estimate - mean) <= 0.5 + mean / 500
    assert (found.lower, found.upper) == (0, np.flatnonzero(beyond <= 1 - CREDIBILITY[Interval.SHORTEST])[0])
    equal, tail = Interval.EQUAL_TAILED, (1 - CREDIBILITY[Interval.EQUAL_TAILED]) / 2
    found = estimate_counts(noisy, cells * variance, cells, interval=equal)
    assert (found.lower, found.upper) == tuple(np.flatnonzero(beyond <= most)[0] for most in (1 - tail, tail))


@pytest.mark.parametrize(("one", "cells"), SMALL)
def test_the_noise_of_a_margin_is_that_of_its_cells_convolved(one: OneCell, cells: int) -> None:
    draws = Draws(one, cells)
    table = NoiseSum(kind(one), draws.variance, cells)
    assert table.step == 1
    known = min(table.reach, int(draws.values[-1]))
    exact = draws.chances[draws.values >= 0][: known + 1]
    assert table.weights[: known + 1] / table.weights[0] == pytest.approx(exact / exact[0], rel=1e-6)
    assert table.cumulative[-1] == pytest.approx(table.central[-1])


def coverage(one: OneCell, cells: int, estimator: Callable[[Integers], Estimates], spacing: int = 1) -> np.ndarray:
    draws = Draws(one, cells)
    return compute_count_coverage(estimator, draws, choose_true_counts(draws)[::spacing])


def published(one: OneCell, cells: int, interval: Interval = Interval.SHORTEST) -> Callable[[Integers], Estimates]:
    variance = cells * float(one.exact_variance)
    return lambda noisy: estimate_counts(noisy, variance, cells, kind(one), interval)


def within(found: np.ndarray) -> bool:
    return bool(found.min() >= LEAST and found.max() <= MOST + HAIR)


QUICK = [(20, 1), (20, 2), (20, 7), (68, 1), (68, 2), (200, 1)]


@pytest.mark.parametrize("noise", Noise)
@pytest.mark.parametrize(
    ("margin", "cells"),
    deep_but(QUICK, [*QUICK, (200, 16), (500, 3)]),
)
def test_intervals_of_counts_cover_86_to_95_percent(noise: Noise, margin: int, cells: int) -> None:
    one = make_noise(margin, noise)
    found = coverage(one, cells, published(one, cells), spacing=1 if margin < 100 else 4)
    assert within(found)
    assert found[0] > 0.9
    assert found[-1] == pytest.approx(CREDIBILITY[Interval.SHORTEST], abs=0.02)


@deep_cases(14)
@pytest.mark.deep
@pytest.mark.parametrize("noise", Noise)
@pytest.mark.parametrize("cells", SUMS)
@pytest.mark.parametrize("margin", MARGINS)
def test_intervals_of_counts_cover_86_to_95_percent_for_all_sums_in_the_tables(
    noise: Noise, margin: int, cells: int
) -> None:
    one = make_noise(margin, noise)
    assert within(coverage(one, cells, published(one, cells)))


def wrong_programs(one: OneCell, cells: int) -> dict[str, Callable[[Integers], Estimates]]:
    """Plausible wrong implementations.

    A margin of error around the posterior mean, cut off at 0, is not among them: its coverage is right, and only the
    definition of the interval rejects it.
    """
    variance, noise = cells * float(one.exact_variance), kind(one)
    half = int(1.645 * variance**0.5)

    def not_truncated(noisy: Integers) -> Estimates:
        return Estimates(noisy, noisy - half, noisy + half)

    return {
        "equal-tailed": published(one, cells, Interval.EQUAL_TAILED),
        "σ for σ²": lambda noisy: estimate_counts(noisy, variance**0.5, cells, noise),
        "the variance of one cell": lambda noisy: estimate_counts(noisy, variance / cells, 1, noise),
        "the variance times the cells once more": lambda noisy: estimate_counts(noisy, variance * cells, cells, noise),
        "not truncated": not_truncated,
    }


@pytest.mark.parametrize("wrong", wrong_programs(make_noise(68), 3))
def test_wrong_intervals_do_not(wrong: str) -> None:
    one, cells = make_noise(68), 3
    found = wrong_programs(one, cells)[wrong]
    negative = found(np.array([-100, 0])).lower.min() < 0
    assert negative or not within(coverage(one, cells, found, spacing=4))


def test_equal_tailed_intervals_cover_a_true_zero_in_one_draw_of_twenty() -> None:
    one = DiscreteGaussian(Fraction(1_600))
    equal_tailed = coverage(one, 1, published(one, 1, Interval.EQUAL_TAILED))
    assert equal_tailed[0] == pytest.approx(0.05, abs=0.002)
    assert equal_tailed[40:].min() > LEAST


@pytest.mark.parametrize("deviation", [FINEST_DEVIATION / 2, 3 * FINEST_DEVIATION, 1e5, 1e9])
def test_great_noise_is_rounded_in_steps_far_below_its_size(deviation: float) -> None:
    shape = np.arange(-5, 12) / 2
    found = estimate_counts((shape * deviation).astype(np.int64), deviation**2)
    small = estimate_counts((shape * 8_000).astype(np.int64), 8_000.0**2)
    for one, other in ((found.estimate, small.estimate), (found.lower, small.lower), (found.upper, small.upper)):
        assert one / deviation == pytest.approx(other / 8_000, abs=1e-3)


def ordered(found: Estimates) -> None:
    for limit in (found.estimate, found.lower, found.upper):
        assert limit.dtype == np.int64
    assert (found.lower >= 0).all()
    assert (found.lower <= found.estimate).all()
    assert (found.estimate <= found.upper).all()


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize("interval", Interval)
@pytest.mark.parametrize("noise", Noise)
def test_the_rounded_mean_is_within_every_interval_on_a_dense_grid(noise: Noise, interval: Interval) -> None:
    for variance in np.geomspace(1e-3, 1e5, 60):
        for cells in (1, 2, 16):
            reach = int(45 * variance**0.5) + 3
            noisy = np.unique(np.linspace(-reach, reach, 4_001).astype(np.int64))
            ordered(estimate_counts(noisy, variance, cells, noise, interval))


EXTREMES = [-LARGEST_COUNT, -(10**12), -(10**9), -1_000, -1, 0, 1, 1_000, 10**9, 10**12, LARGEST_COUNT]


@settings(max_examples=examples(150))
@given(
    noisy=st.lists(st.integers(-LARGEST_COUNT, LARGEST_COUNT) | st.integers(-2_000, 2_000), min_size=1, max_size=50),
    exponent=st.floats(-320, 34),
    cells=st.integers(1, 40),
    noise=st.sampled_from(Noise),
    interval=st.sampled_from(Interval),
)
def test_no_noise_makes_a_count_negative_or_puts_it_outside_its_interval(
    noisy: list[int], exponent: float, cells: int, noise: Noise, interval: Interval
) -> None:
    variance = min(10.0**exponent, LARGEST_VARIANCE)
    # Noisy counts of about the noise's own size are where intervals are nearest to failing.
    own = [int(value % 100 * max(variance, 1) ** 0.5) // 10 for value in noisy]
    counts = np.clip([*noisy, *own, *(-value for value in own), *EXTREMES], -LARGEST_COUNT, LARGEST_COUNT)
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        found = estimate_counts(counts.astype(np.int64), variance, cells, noise, interval)
    slack = np.minimum(found.estimate - found.lower, found.upper - found.estimate)
    target(-float(np.log1p(slack.clip(0)).min()), label="nearness of an estimate to its limit")
    ordered(found)


@pytest.mark.parametrize("variance", [0.0, 1e-3, 0.1, 1.0, 1e10, 1e34])
def test_the_worst_noise_named_so_far_does_no_harm(variance: float) -> None:
    for interval in Interval:
        for noise in Noise:
            ordered(estimate_counts(EXTREMES, variance, 3, noise, interval))
    assert estimate_counts(-(10**9), 0.1) == Estimates(np.int64(0), np.int64(0), np.int64(0))


@given(
    st.lists(st.tuples(st.integers(-500, 500), st.sampled_from([0.5, 9.0, 150.0, 1e4]), st.integers(1, 3)), min_size=1)
)
@settings(max_examples=examples(30))
def test_rows_do_not_depend_on_one_another(rows: list[tuple[int, float, int]]) -> None:
    noisy, variance, cells = (np.array(column) for column in zip(*rows, strict=True))
    together = estimate_counts(noisy, variance, cells)
    for row, (value, one, summands) in enumerate(rows):
        alone = estimate_counts(value, one, summands)
        assert (alone.estimate, alone.lower, alone.upper) == (
            together.estimate[row],
            together.lower[row],
            together.upper[row],
        )


def test_results_have_the_shape_of_what_is_given() -> None:
    found = estimate_counts([[1, 2, 3], [4, 5, 6]], [4.0, 5.0, 6.0])
    assert found.estimate.shape == found.lower.shape == found.upper.shape == (2, 3)
    assert estimate_counts(np.zeros((0,), dtype=np.int64), 4.0).estimate.shape == (0,)


@pytest.mark.parametrize("variance", [-1.0, np.nan, np.inf, 1e35])
def test_a_variance_out_of_range_is_refused(variance: float) -> None:
    with pytest.raises(ValueError, match="1 of 2 are not"):
        estimate_counts([5, 6], [4.0, variance])


@pytest.mark.parametrize("noisy", [2**61, -(2**61)])
def test_a_count_out_of_range_is_refused(noisy: int) -> None:
    with pytest.raises(ValueError, match="noisy counts are within"):
        estimate_counts(noisy, 4.0)


def test_fractions_of_counts_and_sums_of_nothing_are_refused() -> None:
    with pytest.raises(TypeError, match="integers"):
        estimate_counts(1.5, 4.0)
    with pytest.raises(TypeError, match="integers"):
        estimate_counts(1, 4.0, 1.5)
    with pytest.raises(ValueError, match="at least one basis cell"):
        estimate_counts(1, 4.0, 0)
