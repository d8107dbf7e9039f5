"""Privacy curves enclose the truth: by enumeration of small compositions, by closed forms, and by optimal attacks."""

import json
import math
import time
from collections.abc import Iterable
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from itertools import combinations_with_replacement
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assets.topdown.declaration import PRODUCTION_ALLOCATIONS, PRODUCTION_INVARIANTS, PRODUCTION_SPINE
from mechanisms.accounting import curves
from mechanisms.accounting.atoms import Atoms, find_atoms
from mechanisms.accounting.composition import bun_steinke, canonne_kamath_steinke
from mechanisms.accounting.curves import GAP, Bounds, Curve
from mechanisms.accounting.losses import ApproximateLoss, ConcentratedLoss, InfiniteLoss, PureLoss
from mechanisms.accounting.pairs import (
    CappedPair,
    GaussianPair,
    LaplacePair,
    LossPair,
    Pair,
    SpreadPair,
    TabulatedPair,
    read_pair,
)
from mechanisms.accounting.risks import assess_risk, bound_epsilon, bound_posterior
from mechanisms.accounting.specification import Flavor, Line, Specification
from mechanisms.phsafe.design import production
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace
from mechanisms.states import PUERTO_RICO, STATES
from mechanisms.table_builder.entropy import Parameters, make
from mechanisms.table_builder.hypercube import Hypercube, NoiseFamily
from mechanisms.table_builder.judging import divergence_of_two_cells
from mechanisms.topdown.design import TopDownDesign
from mechanisms.topdown.dhc.allocation import HOUSEHOLD_ALLOCATION, PERSON_ALLOCATION, UNIT_ALLOCATION

PAGE = " ".join((Path(__file__).parents[3] / "docs" / "explanation" / "privacy-curves.md").read_text("utf-8").split())
TABLE = TabulatedPair(
    frozenset(
        {
            ((Fraction(1, 2), Fraction(1, 8)), (Fraction(1, 4), Fraction(3, 8)), (Fraction(1, 4), Fraction(1, 2))),
            ((Fraction(1, 3), Fraction(1, 2)), (Fraction(1, 3), Fraction(1, 2)), (Fraction(1, 3), Fraction(0))),
        }
    )
)
WEIGHTS = st.builds(Fraction, st.integers(1, 60), st.just(20))
PAIRS: st.SearchStrategy[Pair] = st.one_of(
    st.builds(GaussianPair, WEIGHTS, st.integers(1, 2)),
    st.builds(LaplacePair, WEIGHTS, st.integers(1, 3)),
    st.builds(CappedPair, WEIGHTS, st.integers(2, 9), st.integers(1, 2)),
    st.builds(LossPair, st.builds(PureLoss, WEIGHTS)),
    st.builds(LossPair, st.builds(lambda e, d: ApproximateLoss(PureLoss(e), d), WEIGHTS, st.just(Fraction(1, 10**6)))),
    st.just(TABLE),
)


def enumerate_outcomes(pair: Pair) -> tuple[np.ndarray, np.ndarray]:
    """P and Q of a pair's outcomes by the definition of its noise, and not by its losses."""
    x = np.arange(-60, 63)
    if isinstance(pair, GaussianPair):
        noise = np.exp(-(x**2) / (2 * float(pair.variance)))
        shifted = np.exp(-((x - pair.shift) ** 2) / (2 * float(pair.variance)))
        return shifted / noise.sum(), noise / noise.sum()
    if isinstance(pair, LaplacePair | CappedPair):
        rate, cap = float(1 / pair.scale), pair.cap if isinstance(pair, CappedPair) else 10**6
        wide = np.arange(-2_000, 2_001)
        total = np.where(abs(wide) <= cap, np.exp(-rate * abs(wide)), 0).sum()
        p, q = (np.where(abs(y) <= cap, np.exp(-rate * abs(y)), 0) / total for y in (wide - pair.shift, wide))
        near = abs(wide) <= 60
        # The outcomes far out have the same ratio as the last outcome on their side.
        sides = [wide < -60, wide > 60]
        return tuple(np.concatenate([of[near], [of[side].sum() for side in sides]]) for of in (p, q))  # type: ignore[return-value]
    assert isinstance(pair, LossPair)
    loss = pair.loss
    delta = float(loss.delta) if isinstance(loss, ApproximateLoss) else 0.0
    ratio = math.exp(float(loss.epsilon if isinstance(loss, ApproximateLoss) else loss))
    both = (1 - delta) / (1 + ratio)
    return np.array([ratio * both, both, delta, 0.0]), np.array([both, ratio * both, 0.0, delta])


def find_delta(pairs: list[Pair], epsilon: float) -> float:
    """δ(ε) of a product of pairs by its definition, Σ max(0, P − e^ε Q) over all outcomes."""
    p = q = np.ones(1)
    for pair in pairs:
        ours, others = enumerate_outcomes(pair)
        p, q = np.multiply.outer(p, ours).ravel(), np.multiply.outer(q, others).ravel()
    return math.fsum(np.maximum(0, p - math.exp(epsilon) * q).tolist())


@settings(max_examples=60, deadline=None)
@given(st.lists(PAIRS.filter(lambda pair: pair is not TABLE), min_size=1, max_size=2), st.floats(0, 6))
def test_bounds_enclose_the_curve_of_every_small_composition(pairs: list[Pair], epsilon: float) -> None:
    """Fails for losses rounded down or to nearest, for outcomes left out, and for a δ that is not composed."""
    truth = find_delta(pairs, epsilon)
    bounds = Curve(pairs).bound_delta(epsilon)
    assert bounds.lower * (1 - 1e-11) <= truth <= bounds.upper * (1 + 1e-11) + 1e-17


def test_the_worst_of_several_tables_bounds_each_of_them() -> None:
    curve = Curve([TABLE])
    for epsilon in np.linspace(0, 3, 13):
        truths = [
            sum(max(0.0, float(p) - math.exp(epsilon) * float(q)) for p, q in outcomes)
            for outcomes in TABLE.alternatives
        ]
        assert max(truths) <= curve.bound_delta(epsilon).upper
    # At the ratios themselves, the bound is the greatest of both.
    assert curve.bound_delta(math.log(4)).upper == pytest.approx(1 / 3, rel=1e-3)


def test_two_cells_of_a_made_table_are_bounded_by_every_pair_of_rows() -> None:
    """By the exact divergence of the worst pair, and soon for many results. Fails for one cell instead of two, for a δ
    of finite losses alone, and for two falling counts."""
    made = make(Parameters(5, Fraction(3), 2)).table
    (line,) = Hypercube({"a": 2}, Fraction(3), NoiseFamily.P_TABLE, p_table=made).lines
    curve, one = Curve(line.pairs), PureLoss(Fraction(1))
    lines = (Line("a", one, line.pairs), Line("b", one, line.pairs))
    stated = Specification(Flavor("d", (), "person", None), one + one, lines)
    recorded = json.dumps(stated.as_record())
    assert len(recorded) < 30_000, "each table once"
    assert Specification.from_record(json.loads(recorded)).charged_pairs == line.pairs * 2
    for ratio in (Fraction(1), Fraction(3, 2), Fraction(4), Fraction(40)):
        truth = float(divergence_of_two_cells(made, ratio))
        assert truth * (1 - 1e-12) <= curve.bound_delta(math.log(ratio)).upper <= 1.15 * truth
    outcomes = tuple((Fraction(2 * x + 1, 300**2), Fraction(599 - 2 * x, 300**2)) for x in range(300))
    pair = TabulatedPair(frozenset({outcomes, tuple((q, p) for p, q in outcomes)}))
    start = time.process_time()
    assert find_atoms(pair, 1).losses.size == 300
    large = TabulatedPair(frozenset({tuple((Fraction(1, 1_001),) * 2 for _ in range(1_001))}))
    assert "noise" not in Line("large", PureLoss(), (large,)).as_record([]), "as one whose noise is not known"
    assert time.process_time() - start < 1


@pytest.mark.parametrize("most", [1, 7, 400, 998])
def test_outcomes_of_large_amounts_are_grouped_so_that_their_loss_is_bounded(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """By less than the width of a group. Without groups, a sum up to 20 million in cents takes over 20 GiB."""
    pair = LaplacePair(Fraction(300), 1000)
    single = find_atoms(pair, 1)
    assert single.losses.size == 1001
    monkeypatch.setattr("mechanisms.accounting.atoms.LARGEST_STEPS", most)
    grouped = find_atoms(pair, 1)
    assert grouped.losses.size <= most + 2
    assert math.isclose(math.fsum(grouped.masses), 1, rel_tol=1e-12)
    width = 2 * math.ceil(999 / most) / 300
    for epsilon in np.linspace(-4, 4, 81):
        least, most_of_all = (_delta(single, epsilon - by) for by in (0.0, width))
        assert least - 1e-15 <= _delta(grouped, epsilon) <= most_of_all + 1e-15


def _delta(atoms: Atoms, epsilon: float) -> float:
    return float(atoms.masses @ -np.expm1(np.minimum(0.0, epsilon - atoms.losses)))


@pytest.mark.parametrize("bounds", [(0, 1), (1, 3), (-2, 3)])
@pytest.mark.parametrize(("noise", "cap"), [("gaussian", None), ("laplace", None), ("laplace", 30)])
def test_pairs_of_a_hypercube_bound_every_change_of_a_record(
    noise: str, cap: int | None, bounds: tuple[int, int]
) -> None:
    """A record takes any number from a cell and adds any number to another cell or the same cell. Fails for one cell
    instead of two, for a shift of 1 instead of the greatest, and for two cells where one can change by more."""
    least, most = bounds
    cube = Hypercube({"a": 3}, Fraction(2), NoiseFamily(noise), cap=cap, least=least, most=most)
    drawn, curve = (
        cube.distribution(("a",)),
        Curve([pair for line in cube.lines for pair in line.pairs or (LossPair(line.loss),)]),
    )

    def of_shift(shift: int) -> list[Pair]:
        if not shift:
            return []
        if isinstance(drawn, DiscreteGaussian):
            return [GaussianPair(drawn.variance, shift)]
        if isinstance(drawn, DiscreteLaplace):
            return [LaplacePair(drawn.scale, shift)]
        assert cap is not None
        return [CappedPair(drawn.scale, cap, shift)]

    changes = [of_shift(abs(least)) + of_shift(most), of_shift(most) * 2, of_shift(most - least)]
    for epsilon in (0.0, 1.0, 3.0):
        assert max(find_delta(change, epsilon) for change in changes) <= curve.bound_delta(epsilon).upper * (1 + 1e-11)


def find_loss(changes: Iterable[tuple[int, int]], unit: int) -> tuple[np.ndarray, np.ndarray]:
    """The loss of numbers that change by d under noise of parameter σ², with its probabilities, by direct sums. All
    losses are multiples of 1 / `unit`."""
    first, masses = 0, np.ones(1)
    for change, variance in changes:
        noise = np.arange(-13 * math.isqrt(variance) - 15, 13 * math.isqrt(variance) + 16)
        losses = (change**2 + 2 * change * noise) * unit // (2 * variance)
        weights = np.exp(-(noise**2) / (2 * variance))
        own = np.bincount(losses - losses[0], weights / weights.sum())
        first, masses = first + losses[0], np.convolve(masses, own)
    return (first + np.arange(masses.size)) / unit, masses


def integrate(losses: np.ndarray, masses: np.ndarray, epsilon: float) -> float:
    return -float(masses @ np.expm1(np.minimum(0, epsilon - losses)))


@pytest.mark.parametrize(("total", "variance"), [(1, 30), (4, 30), (8, 30), (8, 64), (12, 40)])
def test_no_spread_of_a_change_is_told_apart_better_than_the_pair(total: int, variance: int) -> None:
    """All ways to write Σ d² as a sum of squares: one number that changes by much, or many by 1. Fails if the smoothing
    is left out (μ² = 2ρ), already for one number."""
    atoms = find_atoms(SpreadPair(Fraction(total, 2 * variance), Fraction(variance), total), 1)
    for count in range(1, total + 1):
        for changes in combinations_with_replacement(range(1, math.isqrt(total) + 1), count):
            if sum(change**2 for change in changes) == total:
                losses, masses = find_loss([(change, variance) for change in changes], 2 * variance)
                for epsilon in (-1.0, -0.2, 0.0, 0.01, 0.1, 0.3, 1.0, 2.0, 3.0):
                    assert integrate(losses, masses, epsilon) <= integrate(atoms.losses, atoms.masses, epsilon)


def test_what_a_second_stage_measures_may_follow_from_the_first() -> None:
    """A total with noise decides whether two numbers change by 1, or one in another cell, or none. Fails if a stage is
    not counted, or for the mean of all decisions instead of the worst."""
    first, second = 64, 32
    atoms = find_atoms(SpreadPair(Fraction(1, 2 * first) + Fraction(2, 2 * second), Fraction(second), 3), 1)
    noise = np.arange(-120, 121)
    masses = np.exp(-(noise**2) / (2 * first))
    masses /= masses.sum()
    stages = [find_loss([(1, second)] * cells, 2 * second) for cells in range(3)]
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        truth = sum(
            mass
            * integrate(*stages[2 if seen + 1 > 5 else 1 if seen + 1 > -5 else 0], epsilon - (1 + 2 * seen) / 2 / first)
            for seen, mass in zip(noise.tolist(), masses.tolist(), strict=True)
        )
        assert truth <= integrate(atoms.losses, atoms.masses, epsilon)
    (pair,) = production(("01",)).lines[0].pairs
    assert pair == SpreadPair(2 * Fraction("0.002619"), 22**2 / (2 * Fraction("0.002619")), 44)
    risk = assess_risk(production(tuple(code for code in STATES if code != PUERTO_RICO)).specification("x"))
    assert risk is not None
    assert (str(risk.epsilon), str(risk.by_conversion)) == ("16.3640", "16.9802")


def gaussian_epsilon(mu: float, delta: float) -> float:
    """ε of continuous Gaussian noise, by Balle and Wang (2018)."""

    def cdf(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    low, high = 0.0, 200.0
    for _ in range(200):
        middle = (low + high) / 2
        above = cdf(mu / 2 - middle / mu) - math.exp(middle) * cdf(-mu / 2 - middle / mu) > delta
        low, high = (middle, high) if above else (low, middle)
    return high


def test_a_spread_change_exceeds_its_theorem_by_no_more_than_the_page_says() -> None:
    """Discrete noise of a large parameter stands for continuous noise. Fails for a smaller parameter."""
    for rho in (Fraction(1, 10), Fraction(5, 2), Fraction(40)):
        theorem = gaussian_epsilon(math.sqrt(2 * rho / (1 - Fraction(3, 2) / 1000)), 1e-10)
        stated = Curve([SpreadPair(rho, Fraction(1000), 44)]).bound_epsilon(1e-10).upper
        assert theorem <= stated <= theorem + 0.001 + 0.0002 * theorem
    assert "exceeds the theorem's by at most 0.001 plus 0.02%" in PAGE


def up(epsilon: float) -> Decimal:
    """ε as the page states it: with two decimals, rounded up."""
    return Decimal(epsilon).quantize(Decimal("0.01"), ROUND_CEILING)


def test_production_is_at_its_gaussian_limit_and_below_the_conversion() -> None:
    """The 66 measurements of persons and 1,000 different ones. Fails for one line left out or counted twice."""
    design = TopDownDesign(tuple(PRODUCTION_SPINE), PRODUCTION_ALLOCATIONS, PRODUCTION_INVARIANTS, ())
    persons = [pair for query in design.measured if query.histogram == "persons" for pair in query.pairs]
    bounds = Curve(persons).bound_epsilon(1e-10)
    assert bounds.upper - bounds.lower <= GAP
    assert bounds.upper == pytest.approx(gaussian_epsilon(math.sqrt(2 * float(design.persons.rho)), 1e-10), abs=2e-3)
    conversions = [convert(design.persons, Fraction(1, 10**10), 2) for convert in (bun_steinke, canonne_kamath_steinke)]
    assert bounds.upper < float(conversions[1]) - 0.67
    rows = ("Bun and Steinke | {}", "Canonne, Kamath and Steinke | {}", "curve | {}")
    assert [
        row for row, of in zip(rows, [*conversions, up(bounds.upper)], strict=True) if row.format(of) not in PAGE
    ] == []
    risk = assess_risk(design.specification("x"))
    assert risk is not None
    assert risk.is_tighter
    assert str(risk.epsilon) == "17.0247"


def test_all_measurements_of_the_redistricting_data_and_the_dhc_are_at_their_gaussian_limit() -> None:
    """Production's 231 measurements of persons, households and units, counted once as in the published ρ of 15.29."""
    parts = [
        allocation.part(level, query)
        for allocation in (*PRODUCTION_ALLOCATIONS.values(), PERSON_ALLOCATION, HOUSEHOLD_ALLOCATION, UNIT_ALLOCATION)
        for level in allocation.levels
        for query in allocation.queries[level]
    ]
    variances = [1 / part.rho for part in parts if part.rho]
    bounds = Curve([GaussianPair(variance) for variance in variances for _ in range(2)]).bound_epsilon(1e-10)
    total = sum(parts, ConcentratedLoss())
    assert round(float(total.rho), 2) == 15.29
    assert bounds.upper - bounds.lower <= GAP
    assert bounds.upper == pytest.approx(gaussian_epsilon(math.sqrt(2 * float(total.rho)), 1e-10), abs=2e-3)
    converted = canonne_kamath_steinke(total, Fraction(1, 10**10), 2)
    assert bounds.upper < float(converted) - 1.7
    assert f"ε = {up(bounds.upper)} at this δ, and the second conversion {converted}" in PAGE


@pytest.mark.parametrize("scale", [1, 100, 10_000])
def test_many_gaussians_approach_the_limit(scale: int) -> None:
    """Lattices that are summed on their own, by powers of the spectrum, and finer than the grid."""
    bounds = Curve([GaussianPair(Fraction(scale))] * (2 * scale)).bound_epsilon(1e-8)
    limit = gaussian_epsilon(math.sqrt(2), 1e-8)
    assert abs(bounds.upper - limit) <= (0.2 if scale == 1 else 2e-3)


def test_bounds_of_a_loss_alone() -> None:
    delta = Fraction(1, 10**10)
    for rho in (Fraction(1, 10**9), Fraction(1, 100), Fraction(3)):
        upper = Curve([LossPair(ConcentratedLoss(rho / 2))] * 2).bound_epsilon(float(delta)).upper
        assert upper == pytest.approx(float(canonne_kamath_steinke(ConcentratedLoss(rho), delta, 12)), rel=2e-3)
    assert Curve([LossPair(PureLoss(Fraction(3)))]).bound_epsilon(1e-12).upper == pytest.approx(3, abs=1e-9)
    approximate = LossPair(ApproximateLoss(PureLoss(Fraction(1)), Fraction(1, 10**6)))
    assert Curve([approximate] * 2).bound_epsilon(1e-6) == Bounds(math.inf, math.inf)
    assert Curve([approximate, LossPair(InfiniteLoss())]).bound_delta(50.0) == pytest.approx((1, 1))
    for nothing in ([], [LossPair(PureLoss())]):
        assert Curve(nothing).bound_epsilon(1e-30) == Bounds(0.0, 0.0), "without a division by 0 at any δ"


@pytest.mark.parametrize("rho", [Fraction(1, 10**24), Fraction(1, 10**12), Fraction(1, 100), Fraction(30)])
def test_the_curve_of_a_loss_alone_is_never_below_the_conversion(rho: Fraction) -> None:
    """Fails for x ln x − (1 + x) ln(1 + x) in floating point: at ρ = 10^-24 it was 3% too low."""
    atoms = find_atoms(LossPair(ConcentratedLoss(rho)), 1)
    for deviations in (1, 4, 8):
        epsilon = float(rho) + deviations * math.sqrt(2 * float(rho))
        x = np.geomspace(0.01, 100, 2_000) * deviations / math.sqrt(2 * float(rho))
        terms = x * (float(rho) * (1 + x) - epsilon) - np.log1p(x) - x * np.log1p(1 / x)
        delta = atoms.infinite - float(atoms.masses @ np.minimum(0, np.expm1(epsilon - atoms.losses)))
        assert math.exp(float(terms.min())) * (1 - 1e-4) <= delta


@pytest.mark.parametrize("loss", [ConcentratedLoss(Fraction(2_000)), ApproximateLoss(PureLoss(), Fraction(3, 5))])
def test_hardly_any_protection_is_stated_too(loss: ConcentratedLoss | ApproximateLoss) -> None:
    """The greatest ρ that is charged, and a δ above 1/2: both ended in a traceback, after the charge."""
    risk = assess_risk(Specification(Flavor("d", (), "person", None, loss.output_premetric), loss))
    assert risk is not None
    assert risk.posterior >= Decimal("0.8")
    assert not isinstance(loss, ApproximateLoss) or risk.delta > loss.delta


def test_the_transform_errs_less_than_is_added_for_it() -> None:
    """The error bound of the module against sums in exact rational arithmetic of the same floats."""
    rng = np.random.default_rng(5)
    first, second = rng.random(64) / 64, rng.random(64) / 64
    length = 128
    spectrum = np.fft.rfft(first, length) * np.fft.rfft(second, length)
    found = np.fft.irfft(spectrum, length)
    exact = [
        float(sum((Fraction(first[i]) * Fraction(second[k - i]) for i in range(64) if 0 <= k - i < 64), Fraction()))
        for k in range(127)
    ]
    bound = 3 * 8 * 2.0**-53 * math.log2(length)
    assert np.linalg.norm(found[:127] - exact) <= bound


def test_sums_of_many_parts_miss_no_more_than_is_added_for_them() -> None:
    """Thirty parts of different widths in groups of eight, two of them repeated and one far from normal, against direct
    sums. Fails if the rest that wraps, or the errors of earlier sums, are not counted."""
    rng = np.random.default_rng(3)
    parts, exact, first = [], np.ones(1), 0
    for number in range(30):
        masses = rng.random(10 + 40 * number) ** 4
        if number == 7:
            masses = np.exp(-0.4 * np.arange(3_000.0))
        masses /= masses.sum()
        part = curves._Part(np.arange(masses.size) - 5, masses, 1 + 2 * (number in (0, 20)))
        parts.append(part)
        for _ in range(part.times):
            exact, first = np.convolve(exact, masses), first - 5
    whole = curves._add_up(parts)
    place = int(whole.places[0]) - first
    there = exact[place : place + whole.masses.size]
    assert whole.masses.size < 0.8 * exact.size
    assert exact.sum() - there.sum() <= 3e-16 + 1e-13
    assert np.linalg.norm(whole.masses - there) <= whole.error < 1e-12


@pytest.mark.parametrize("prior", [Fraction(1, 2), Fraction(1, 10), Fraction(9, 10)])
def test_the_best_attack_is_right_as_often_as_is_stated(prior: Fraction) -> None:
    """A likelihood-ratio test on simulated noise, 200,000 times; the bound is within 5 standard errors (false alarms
    below 10^-6). Fails if the prior's odds are turned around."""
    pairs: list[Pair] = [GaussianPair(Fraction(2))] * 2 + [LaplacePair(Fraction(3))]
    rng, tries = np.random.default_rng(7), 200_000
    holds = rng.random(tries) < float(prior)
    ratio = np.zeros(tries)
    for pair in pairs:
        p, q = enumerate_outcomes(pair)
        seen = np.where(holds, rng.choice(p.size, tries, p=p / p.sum()), rng.choice(q.size, tries, p=q / q.sum()))
        with np.errstate(divide="ignore"):
            ratio += np.log(p)[seen] - np.log(q)[seen]
    right = float(((ratio > math.log((1 - prior) / prior)) == holds).mean())
    curve = Curve(pairs)
    bound = float(bound_posterior(curve, prior))
    assert abs(right - bound) <= 5 * math.sqrt(0.25 / tries)
    assert bound > max(prior, 1 - prior)
    # The most powerful test at a false-positive rate decides by chance at one value of the ratio (Neyman and Pearson).
    found, false = ratio.round(9)[holds], ratio.round(9)[~holds]
    for rate in (0.01, 0.1):
        critical = float(np.quantile(false, 1 - rate, method="higher"))
        share = (rate - (false > critical).mean()) / (false == critical).mean()
        power = float((found > critical).mean() + share * (found == critical).mean())
        error = 0.5 / math.sqrt(found.size) + math.exp(critical) * math.sqrt(rate / false.size)
        assert abs(power - curve.bound_powers([rate])[0]) <= 5 * error


def test_true_positive_rates_of_pure_and_gaussian_noise() -> None:
    """Wrong program: states more than e^ε·α for pure noise, because ε is between two steps of the curve."""
    pure = Curve([LossPair(PureLoss(Fraction(3)))])
    assert pure.bound_powers([0.01, 0.5]) == pytest.approx([0.01 * math.exp(3), 1 - math.exp(-3) * 0.5], rel=1e-3)
    assert 0.01 * math.exp(3) <= pure.bound_powers([0.01])[0] < 0.01 * math.exp(3) * (1 + 1e-9)
    wide = Curve([GaussianPair(Fraction(400))] * 400)
    normal = NormalDist()
    assert wide.bound_powers([0.01]) == pytest.approx([normal.cdf(normal.inv_cdf(0.01) + 1)], abs=2e-3)


def test_pairs_of_lines_are_recorded_and_count_for_the_charged_change_only() -> None:
    flavor = Flavor("d", (), "person", None, ConcentratedLoss.output_premetric)
    pairs: tuple[Pair, ...] = (GaussianPair(Fraction(4)), GaussianPair(Fraction(4)))
    loss = ConcentratedLoss(Fraction(1, 4))
    stated = Specification(flavor, loss, (Line("a", loss, pairs),))
    read = Specification.from_record(stated.as_record())
    assert read.charged_pairs == stated.charged_pairs == pairs
    assert read.protects_like(Specification(flavor, loss, (Line("a", loss),)))
    for pair in (
        *pairs,
        LaplacePair(Fraction(1, 3), 2),
        CappedPair(Fraction(5), 7),
        SpreadPair(Fraction(1, 3), Fraction(40), 8),
    ):
        record = pair.as_record()
        assert record is not None
        assert read_pair(record) == pair
    # A group of two persons loses 4ρ, which two cells do not bound.
    household = Specification(
        Flavor("d", (), "household", 2, ConcentratedLoss.output_premetric), loss, (Line("a", loss, pairs),)
    )
    assert household.charged_pairs == (LossPair(loss.of_group(2)),)
    assert household.find_pairs("household") == pairs


def test_a_gap_that_cannot_be_reached_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "_LONGEST", 2**10)
    with pytest.raises(curves.CurveError, match="too many"):
        Curve([GaussianPair(Fraction(7))]).bound_epsilon(1e-6)


def test_atoms_add_up_to_one() -> None:
    pairs = [GaussianPair(Fraction(9, 4)), LaplacePair(Fraction(2), 3), CappedPair(Fraction(2), 4, 2), TABLE]
    for pair in [*pairs, LossPair(ConcentratedLoss(Fraction(1, 2)))]:
        atoms: Atoms = find_atoms(pair, 1)
        assert atoms.masses.sum() + atoms.infinite == pytest.approx(1, abs=1e-9)
        assert np.exp(-atoms.losses) @ atoms.masses <= 1 + 1e-9


def test_a_composition_states_the_curve_of_all_noise_the_ledger_knows() -> None:
    """Ten charges of a hundred lines each, and one of an earlier version without its noise. Fails if lines are counted
    once per release, or the earlier charge is left out."""
    flavor = Flavor("d", (), "person", None, ConcentratedLoss.output_premetric)
    lines = tuple(
        Line(str(part), ConcentratedLoss(Fraction(1, 400 + part)), (GaussianPair(Fraction(400 + part)),) * 2)
        for part in range(100)
    )
    total = sum((line.loss for line in lines), ConcentratedLoss())
    known = Specification(flavor, total, lines)
    earlier = Specification(
        flavor, ConcentratedLoss(Fraction(1, 10)), (Line("old", ConcentratedLoss(Fraction(1, 10))),)
    )
    pairs = (*known.charged_pairs * 10, *earlier.charged_pairs)
    assert len(pairs) == 2_001
    bound = float(bound_epsilon(pairs, Fraction(1, 10**10)))
    whole = float(total.rho) * 10 + 0.1
    limit = gaussian_epsilon(math.sqrt(2 * whole), 1e-10)
    by_conversion = float(
        canonne_kamath_steinke(ConcentratedLoss(total.rho * 10 + Fraction(1, 10)), Fraction(1, 10**10))
    )
    assert limit - 2e-3 <= bound <= limit + (by_conversion - limit) / 2
