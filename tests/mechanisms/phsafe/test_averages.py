"""Averages after post-processing: plausible always, as defined, and covering as often as stated.

Coverage is computed from all pairs of equally likely parts of the noise, not drawn, so no test here can fail by chance;
with 80 parts either way, it is accurate to about 0.2 points.
"""

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, target
from hypothesis import strategies as st

from benchmarks.coverage import (
    MARGINS,
    QUOTIENTS,
    Integers,
    Quotient,
    compute_average_coverage,
    find_shortest_credible,
    make_noise,
)
from mechanisms.noise import Noise
from mechanisms.phsafe.averages import FOOTHOLD, MOST_PERSONS, WITHIN, estimate_averages, log_on_ray
from mechanisms.phsafe.estimation import LARGEST_COUNT, Estimates
from tests.depth import deep_cases, examples, quick_cases

LEAST, MOST = 0.86, 0.96
PARTS = 80
HUNDREDTH = 0.01
Estimator = Callable[[Integers, Integers], Estimates]


def coverage(
    quotient: Quotient, margin: int, noise: Noise, averages: tuple[float, ...], deviations: tuple[float, ...]
) -> list[float]:
    draws = quotient.make_draws(make_noise(margin, noise))
    estimator = quotient.make_estimator(draws, noise)
    return [
        compute_average_coverage(estimator, draws, truth, PARTS)
        for average in averages
        for truth in quotient.list_truths(average, deviations, draws)
    ]


def within(found: list[float]) -> bool:
    return min(found) >= LEAST and max(found) <= MOST


@deep_cases(3)
@quick_cases(1)
@pytest.mark.parametrize("noise", Noise)
@pytest.mark.parametrize("quotient", QUOTIENTS, ids=[quotient.name for quotient in QUOTIENTS])
def test_intervals_of_averages_cover_86_to_96_percent(quotient: Quotient, noise: Noise) -> None:
    assert within(coverage(quotient, 200, noise, quotient.averages[::3], (0, 1.5, 10)))


@pytest.mark.prove
@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("noise", Noise)
@pytest.mark.parametrize("quotient", QUOTIENTS, ids=[quotient.name for quotient in QUOTIENTS])
def test_intervals_of_averages_cover_86_to_96_percent_on_a_dense_grid(
    quotient: Quotient, noise: Noise, margin: int
) -> None:
    above_least = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 1.6, 2.2, 3, 4, 5.5, 7)
    averages = tuple(quotient.least + more for more in above_least)
    deviations = (0, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 5, 7, 10)
    assert within(coverage(quotient, margin, noise, (*quotient.averages, *averages), deviations))


def wrong_programs(quotient: Quotient, variances: tuple[float, float]) -> dict[str, Estimator]:
    """Plausible wrong implementations."""
    above, below = variances

    def with_variances(one: float, other: float) -> Estimator:
        return lambda numerator, denominator: estimate_averages(numerator, one, denominator, other, quotient.least)

    def around_the_quotient(numerator: Integers, denominator: Integers) -> Estimates:
        # The delta method, cut off at the plausible range.
        positive = np.maximum(denominator, 1)
        quotients = numerator / positive
        half = 1.645 * np.sqrt(above + quotients**2 * below) / positive
        limits = (np.clip(quotients + side * half, quotient.least, MOST_PERSONS) for side in (-1, 1))
        return Estimates(quotients, *limits)

    def limits_of_counts(numerator: Integers, denominator: Integers) -> Estimates:
        positive = np.maximum(denominator, 1)
        lower = np.maximum(numerator - 1.645 * above**0.5, 0) / (positive + 1.645 * below**0.5)
        upper = (numerator + 1.645 * above**0.5) / np.maximum(positive - 1.645 * below**0.5, 1)
        return Estimates(numerator / positive, lower, upper)

    def one_cells_variance(numerator: Integers, denominator: Integers) -> Estimates:
        cells = quotient.cells
        return with_variances(above / cells[0], below / cells[1])(numerator, denominator)

    return {
        "σ for σ²": with_variances(above**0.5, below**0.5),
        "the variance of one cell": one_cells_variance,
        "the denominator taken for exact": with_variances(above, 1e-6),
        "the delta method": around_the_quotient,
        "quotients of the counts' limits": limits_of_counts,
        "the shortest credible interval": lambda numerator, denominator: find_shortest_credible(
            numerator, denominator, variances, quotient.least, MOST_PERSONS
        ),
    }


@quick_cases(2)
@pytest.mark.parametrize("wrong", wrong_programs(QUOTIENTS[0], (2.0, 1.0)))
def test_wrong_intervals_do_not(wrong: str) -> None:
    quotient = QUOTIENTS[0]
    draws = quotient.make_draws(make_noise(200))
    estimator = wrong_programs(quotient, (draws[0].variance, draws[1].variance))[wrong]
    found = [
        compute_average_coverage(estimator, draws, truth, 40)
        for average in (1.5, 3.2)
        for truth in quotient.list_truths(average, (0.5, 3, 10), draws)
    ]
    assert not within(found)


def rays_within(
    pair: tuple[float, float], deviations: tuple[float, float], averages: np.ndarray, within: float
) -> np.ndarray:
    """The averages whose rays pass within so many standard deviations of a noisy pair, found by walking along each
    ray."""
    above, below = deviations
    denominators = np.linspace(0, abs(pair[0]) + abs(pair[1]) + 1, 4_001)
    steps = np.hypot((averages[:, None] * denominators - pair[0]) / above, (denominators - pair[1]) / below)
    return steps.min(axis=1) <= within


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize("noise", Noise)
@pytest.mark.parametrize("least", [0, 1, 2])
def test_an_interval_holds_the_averages_whose_rays_pass_near_the_noisy_pair(least: int, noise: Noise) -> None:
    draw = np.random.default_rng(20)
    averages = np.linspace(least, MOST_PERSONS, 161)
    spacing = averages[1] - averages[0]
    compared = 0
    for _ in range(40):
        deviations = tuple(draw.uniform(0.5, 3, 2))
        pair = tuple(draw.uniform(-2, 1, 2) * (4, 1.5) + draw.uniform(0, 12) * np.array([draw.uniform(least, 8), 1]))
        inside = averages[rays_within(pair, deviations, averages, WITHIN[noise])]
        if len(inside) < len(averages) / 5:
            continue
        compared += 1
        found = estimate_averages(pair[0], deviations[0] ** 2, pair[1], deviations[1] ** 2, least, noise=noise)
        assert found.lower == pytest.approx(inside[0], abs=spacing + 2 * HUNDREDTH)
        assert found.upper == pytest.approx(inside[-1], abs=spacing + 2 * HUNDREDTH)
    assert compared >= 8


@pytest.mark.parametrize("side", ["few persons", "many persons"])
def test_a_pair_far_beside_the_plausible_ones_gives_a_short_interval_on_its_own_side(side: str) -> None:
    numerator, denominator = (0, 500) if side == "few persons" else (4_000, 0)
    found = estimate_averages(numerator, 2 * 122**2, denominator, 122**2, 1)
    assert found.lower == 1 if side == "few persons" else found.upper == MOST_PERSONS
    assert found.upper > found.lower
    near, far = np.arctan2([[found.lower, found.upper]], 2**0.5)[0]
    assert far - near <= FOOTHOLD / np.hypot(numerator / 122 / 2**0.5, denominator / 122) + 0.005


@pytest.mark.parametrize("pair", [(-200, -100), (0, 0), (50, 20), (-10_000, -1)])
def test_a_pair_that_says_nothing_gives_all_that_is_plausible(pair: tuple[int, int]) -> None:
    found = estimate_averages(pair[0], 2 * 122**2, pair[1], 122**2, [1, 2])
    assert found.lower.tolist() == [1, 2]
    assert found.upper.tolist() == [MOST_PERSONS, MOST_PERSONS]


def posterior_mean(pair: tuple[float, float], variances: tuple[float, float], least: float, most: float) -> float:
    """By summing the normal density over a fine lattice of plausible pairs."""
    averages = np.linspace(least, most, 2_001)
    reach = max(pair[1], pair[0] / max(least, 1)) + 10 * (variances[0] + variances[1]) ** 0.5
    denominators = np.linspace(0, max(reach, 10), 2_001)[1:]
    exponent = (averages[:, None] * denominators - pair[0]) ** 2 / variances[0]
    exponent += (denominators - pair[1]) ** 2 / variances[1]
    weights = (np.exp((exponent.min() - exponent) / 2) * denominators).sum(axis=1)
    weights[[0, -1]] /= 2
    return float(weights @ averages / weights.sum())


@deep_cases(6)
@quick_cases(2)
@pytest.mark.parametrize("least", [0, 1, 2])
@pytest.mark.parametrize(
    "pair", [(100, 50), (-100, -50), (500, 200), (0, 0), (-600, -400), (2_000, 800), (900, 400), (30_000, 12_000)]
)
def test_the_estimate_is_the_posterior_mean(pair: tuple[int, int], least: int) -> None:
    variances = 2 * 122.0**2, 122.0**2
    found = estimate_averages(pair[0], variances[0], pair[1], variances[1], least)
    mean = posterior_mean(pair, variances, least, MOST_PERSONS)
    assert found.lower <= mean <= found.upper
    assert found.estimate == pytest.approx(mean, abs=HUNDREDTH)


@pytest.mark.parametrize("ahead", [-30.0, -9.0, -1.0, 0.0, 0.5, 30.0])
def test_the_weight_of_a_ray_is_its_share_of_the_density(ahead: float) -> None:
    along = np.linspace(0, max(ahead, 0) + 9, 200_001)
    share = np.trapezoid(along * np.exp(ahead * along - np.square(along) / 2 - max(ahead, 0) ** 2 / 2), along)
    assert log_on_ray(ahead) == pytest.approx(np.log(share) + max(ahead, 0) ** 2 / 2, abs=1e-6)


@pytest.mark.parametrize("pair", [(-2, -1), (-1, -2), (-1e-3, -1), (-5, -0.5)])
def test_however_far_below_zero_a_pair_is_the_estimate_stays(pair: tuple[float, float]) -> None:
    found = [
        float(estimate_averages(far * pair[0], 2.0, far * pair[1], 1.0, 1).estimate) for far in (1e3, 9e3, 2e4, 1e9)
    ]
    assert found == pytest.approx([found[0]] * len(found), abs=HUNDREDTH)
    assert 1 < found[0] < MOST_PERSONS


@pytest.mark.parametrize(("above", "below", "limits"), [(100.0, 1e-9, (840, 1_160)), (1e-9, 100.0, (560, 240))])
def test_where_only_one_of_the_two_is_noisy_its_own_noise_decides(
    above: float, below: float, limits: tuple[float, float]
) -> None:
    found = estimate_averages(1_000, above**2, 400, below**2, 1)
    ends = [end / 400 for end in limits] if below < above else [1_000 / end for end in limits]
    assert [found.lower, found.upper] == pytest.approx(ends, abs=1.5 * HUNDREDTH)


def test_great_counts_give_the_quotient_itself() -> None:
    found = estimate_averages(300_000_000, 2 * 304**2, 120_000_000, 304**2, 1)
    assert (found.lower, found.estimate, found.upper) == (2.49, 2.5, 2.51) or (found.lower, found.upper) == (2.5, 2.5)


@given(factor=st.floats(0.01, 1e6), pair=st.tuples(st.floats(-900, 3_000), st.floats(-400, 1_200)))
@settings(max_examples=examples(50))
def test_only_counts_in_terms_of_their_noise_matter(factor: float, pair: tuple[float, float]) -> None:
    one = estimate_averages(pair[0], 2e4, pair[1], 1e4, 1)
    other = estimate_averages(factor * pair[0], factor**2 * 2e4, factor * pair[1], factor**2 * 1e4, 1)
    for this, that in ((one.estimate, other.estimate), (one.lower, other.lower), (one.upper, other.upper)):
        # On the boundary of two cases, the smallest rounding decides, so the values are only nearly equal.
        assert this == pytest.approx(that, abs=1.5 * HUNDREDTH)


def plausible(found: Estimates, least: np.ndarray | float, most: np.ndarray | float) -> None:
    for values in (found.estimate, found.lower, found.upper):
        assert np.isfinite(values).all()
        assert (np.rint(values * 100) / 100 == values).all()
    assert (least <= found.lower).all()
    assert (found.lower <= found.estimate).all()
    assert (found.estimate <= found.upper).all()
    assert (found.upper <= most).all()


COUNTS = [sign * count for sign in (-1, 1) for count in (0, 1, 10, 1_000, 10**9, 10**12, LARGEST_COUNT)]
VARIANCES = [0.0, 1e-9, 1e-3, 0.1, 10.0, 1e4, 1e10, 1e34]


@pytest.mark.parametrize(("least", "most"), [(0, 10), (1, 10), (2, 10), (2, 2), (0, 99_999)])
def test_the_worst_noise_named_so_far_does_no_harm(least: float, most: float) -> None:
    above, below, one, other = np.array(list(product(COUNTS, COUNTS, VARIANCES, VARIANCES))).T
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        plausible(estimate_averages(above, one, below, other, least, most), least, most)


@settings(max_examples=examples(300))
@given(
    numerator=st.integers(-LARGEST_COUNT, LARGEST_COUNT) | st.integers(-2_000, 2_000),
    denominator=st.integers(-LARGEST_COUNT, LARGEST_COUNT) | st.integers(-800, 800),
    exponents=st.tuples(st.floats(-30, 34), st.floats(-30, 34)) | st.tuples(st.floats(0, 6), st.floats(0, 6)),
    least=st.integers(0, 2),
    span=st.sampled_from([0.0, 0.25, 8.0, 98.0, 1e4]),
    noise=st.sampled_from(Noise),
)
def test_no_noise_makes_an_average_negative_or_infinite_or_puts_it_outside_its_interval(
    numerator: int, denominator: int, exponents: tuple[float, float], least: int, span: float, noise: Noise
) -> None:
    variances = [min(10.0**exponent, 1e34) for exponent in exponents]
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        found = estimate_averages(numerator, variances[0], denominator, variances[1], least, least + span, noise)
    target(-float(found.upper - found.lower), label="shortness of an interval")
    target(float(found.estimate), label="greatness of an average")
    plausible(found, least, least + span)


@quick_cases(1)
@deep_cases(1)
@pytest.mark.parametrize("steps", [160, pytest.param(800, marks=pytest.mark.deep)])
@pytest.mark.parametrize("seed", range(4))
def test_climbing_towards_shorter_intervals_and_greater_averages_finds_nothing_implausible(
    seed: int, steps: int
) -> None:
    draw = np.random.default_rng(seed)
    state = np.array([100.0, 40.0, 4.0, 4.0])

    def badness(at: np.ndarray) -> float:
        found = estimate_averages(at[0], 10 ** at[2], at[1], 10 ** at[3], 1)
        plausible(found, 1, MOST_PERSONS)
        short = -float(found.upper - found.lower)
        return (short, float(found.estimate), -float(found.lower), short + float(found.estimate))[seed]

    best = badness(state)
    for _ in range(steps):
        step = state + draw.standard_cauchy(4) * (100, 50, 0.3, 0.3)
        step[2:] = np.clip(step[2:], -20, 30)
        step[:2] = np.clip(step[:2], -1e18, 1e18)
        if (score := badness(step)) >= best:
            state, best = step, score


def test_results_have_the_shape_of_what_is_given() -> None:
    found = estimate_averages([[5, 6], [7, 8]], 4.0, 3, [1.0, 2.0], 1)
    assert found.estimate.shape == found.lower.shape == found.upper.shape == (2, 2)
    assert estimate_averages(np.zeros(0), 4.0, np.zeros(0), 1.0, 1).estimate.shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ((5, -1.0, 3, 1.0, 1), "a variance is from 0"),
        ((5, 1.0, 3, np.inf, 1), "a variance is from 0"),
        ((np.nan, 1.0, 3, 1.0, 1), "noisy counts are finite"),
        ((5, 1.0, 3, 1.0, -1), "plausible averages"),
        ((5, 1.0, 3, 1.0, 2, 1), "plausible averages"),
        ((5, 1.0, 3, 1.0, 2, np.inf), "plausible averages"),
    ],
)
def test_impossible_arguments_are_refused(arguments: tuple[float, ...], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        estimate_averages(*arguments)
