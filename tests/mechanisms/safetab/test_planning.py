"""Margins and budgets both ways, with production's figures, and the chances of each detail by exact probabilities."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.noise import Noise
from mechanisms.safetab.design import Measured, SafeTabPDesign, noise_of_measurement
from mechanisms.safetab.lists import RegionType
from mechanisms.safetab.planning import (
    BUDGETS_H,
    BUDGETS_P,
    COVERAGE,
    MARGINS,
    PAIRS,
    STAGE_1_SHARE,
    budget_for_margin,
    chances,
    expect_numbers_of_empty_group,
)
from mechanisms.sampling.quantiles import Uncapped, half_width
from tests.depth import deep_but, deep_cases
from tests.mechanisms.safetab.designs import PLACES_H, PLACES_P, margin_of_error, production_p
from tests.mechanisms.sampling.exact_noise import reference

NINE = dict.fromkeys(PAIRS, 9)
MILLIONTH = Fraction(1, 10**6)


@pytest.mark.parametrize(("rho", "margin"), [("2.134", "3.00"), ("0.159", "10.99"), ("0.008", "49.00")])
def test_the_margins_of_safetab_p_are_the_published_ones(rho: str, margin: str) -> None:
    assert f"{margin_of_error(Noise.GAUSSIAN, 9, Fraction(rho), STAGE_1_SHARE):.2f}" == margin


@pytest.mark.parametrize(("rho", "margin"), [("1.9208", "3.00"), ("0.142869", "11.00"), ("0.006915", "50.00")])
def test_the_margins_of_safetab_h_are_the_published_ones(rho: str, margin: str) -> None:
    assert f"{margin_of_error(Noise.GAUSSIAN, 9, Fraction(rho)):.2f}" == margin


@pytest.mark.parametrize(("margin", "rho"), [(3, "2.13422"), (11, "0.158744"), (50, "0.0076832")])
def test_the_targets_of_safetab_p_give_the_published_budgets_before_rounding(margin: int, rho: str) -> None:
    budget = budget_for_margin(Noise.GAUSSIAN, 9, Fraction(margin), STAGE_1_SHARE, places=9)
    assert float(budget) == pytest.approx(float(rho), abs=0.5 * 10.0 ** -len(rho.split(".")[1]))


def test_production_budgets_follow_from_their_margins() -> None:
    released = [pair for pair in PAIRS if pair != (RegionType.AIANNH, 1)]
    for pair in released:
        target = Fraction(MARGINS[pair])
        assert budget_for_margin(Noise.GAUSSIAN, 9, target, STAGE_1_SHARE, PLACES_P) == BUDGETS_P[pair]
        for family in ("T3", "T4"):
            assert budget_for_margin(Noise.GAUSSIAN, 9, target, places=PLACES_H) == BUDGETS_H[*pair, family]


SHARES = st.sampled_from([Fraction(0), Fraction(1, 10), Fraction(1, 3)])


@given(st.integers(1, 20), st.fractions(1, 500, max_denominator=10), SHARES)
def test_a_budget_and_its_margin_lead_to_each_other(stability: int, margin: Fraction, share: Fraction) -> None:
    rho = budget_for_margin(Noise.GAUSSIAN, stability, margin, share, places=12)
    assert margin_of_error(Noise.GAUSSIAN, stability, rho, share) == pytest.approx(float(margin), rel=1e-6)
    assert margin_of_error(Noise.GAUSSIAN, stability, 4 * rho, share) == pytest.approx(float(margin) / 2, rel=1e-6)
    epsilon = budget_for_margin(Noise.LAPLACE, stability, margin, share)
    assert (epsilon / MILLIONTH).denominator == 1
    assert margin_of_error(Noise.LAPLACE, stability, epsilon, share) <= margin
    if epsilon > MILLIONTH:
        assert margin_of_error(Noise.LAPLACE, stability, epsilon - MILLIONTH, share) > margin


@pytest.mark.parametrize("budget", [Fraction("2.134"), Fraction("0.159"), Fraction("0.008")])
def test_the_exact_margin_is_near_the_planned_one(budget: Fraction) -> None:
    noise = noise_of_measurement(Noise.GAUSSIAN, 9, (1 - STAGE_1_SHARE) * budget)
    assert abs(half_width(noise, 1, COVERAGE) - margin_of_error(Noise.GAUSSIAN, 9, budget, STAGE_1_SHARE)) < 1


def test_margins_out_of_range_are_refused() -> None:
    for noise in Noise:
        with pytest.raises(ValueError, match="greater than 0"):
            budget_for_margin(noise, 9, Fraction(0))
    with pytest.raises(ValueError, match="rounds to 0 at 3 decimals"):
        budget_for_margin(Noise.GAUSSIAN, 9, Fraction(1000), places=3)


def measured(noise: Noise, below: bool) -> Measured:
    """Thresholds 5, 5 and 12, and a cut-off below the state."""
    pair = (RegionType.TRACT if below else RegionType.STATE, 1)
    return SafeTabPDesign(
        states=("01",),
        noise=noise,
        stabilities={pair: 3},
        budgets={pair: Fraction(1, 2)},
        thresholds={pair: (5, 5, 12)},
        stage_1_share=Fraction(1, 5),
        zero_suppression_chance=Fraction(99, 100),
    ).measured[0]


def probability(noise: Uncapped, least: float, most: float) -> Fraction:
    """P(least <= X <= most), to 100 decimals."""
    exact = reference(noise)
    inside = range(max(-exact.reach, math.ceil(max(least, -exact.reach))), math.floor(min(most, exact.reach)) + 1)
    return sum((Fraction(exact.probability(value)) for value in inside), Fraction(0))


@deep_cases(3)
@pytest.mark.parametrize(
    ("noise", "below", "size"),
    deep_but([(Noise.GAUSSIAN, True, 4)], product(Noise, (True, False), (0, 4, 5, 11, 30, 10**6))),
)
def test_chances_are_the_exact_probabilities(noise: Noise, below: bool, size: int) -> None:
    each = measured(noise, below)
    found = chances(each, size)
    ends = [-math.inf, *(threshold - size for threshold in each.thresholds), math.inf]
    exact = [probability(each.stage_1, low, high - 1) for low, high in pairwise(ends)]
    assert found.details == pytest.approx([float(chance) for chance in exact], abs=1e-12)
    assert sum(found.details) == pytest.approx(1)
    if each.cut_off is None:
        assert found.published == 1
    else:
        suppressed = exact[0] * probability(each.stage_2, -math.inf, each.cut_off - size)
        assert found.published == pytest.approx(float(1 - suppressed), abs=1e-12)


def test_an_empty_tract_of_production_is_published_in_its_total_as_seldom_as_stated() -> None:
    for each in production_p(("01",), NINE).measured:
        if each.region_type is RegionType.TRACT:
            assert chances(each, 0).published == pytest.approx(6.2e-5 if each.level == 2 else 9.2e-5, rel=0.01)


@pytest.mark.parametrize("below", [True, False])
def test_the_numbers_of_an_empty_group_are_those_of_each_detail_by_its_chance(below: bool) -> None:
    each = measured(Noise.GAUSSIAN, below)
    ends = [-math.inf, *each.thresholds, math.inf]
    first = [probability(each.stage_1, low, high - 1) for low, high in pairwise(ends)]
    total = first[0] * (1 if each.cut_off is None else probability(each.stage_2, each.cut_off + 1, math.inf))
    exact = total + 8 * first[1] + 18 * first[2] + 46 * first[3]
    assert expect_numbers_of_empty_group(each) == pytest.approx(float(exact), abs=1e-10)
    always = replace(each, thresholds=(-(10**9),) * 3)
    assert expect_numbers_of_empty_group(always) == pytest.approx(46)


def test_chances_with_hardly_any_noise_are_those_of_the_true_size() -> None:
    fine = noise_of_measurement(Noise.GAUSSIAN, 1, Fraction(1000))
    each = replace(measured(Noise.GAUSSIAN, below=True), stage_1=fine, stage_2=fine, cut_off=0)
    expected = {-1: (1, 0, 0, 0), 4: (1, 0, 0, 0), 5: (0, 0, 1, 0), 11: (0, 0, 1, 0), 12: (0, 0, 0, 1)}
    for size, details in expected.items():
        assert chances(each, size).details == pytest.approx(details, abs=1e-12)
        assert chances(each, size).published == pytest.approx(float(size > 0), abs=1e-12)
    assert np.isfinite(margin_of_error(Noise.GAUSSIAN, 1, Fraction(1000)))
