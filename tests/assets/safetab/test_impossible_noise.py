"""The noise that SafeTab's gates consider impossible, for both noises and for suppression with any declared chance."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from assets.safetab.method import FALSE_ALARM, _chances_of_empty, _find_least_tested, _is_binomial, find_farthest
from mechanisms.noise import Noise
from mechanisms.safetab.design import Measured, SafeTabPDesign
from mechanisms.safetab.lists import RegionType
from mechanisms.sampling.quantiles import Uncapped
from tests.mechanisms.sampling.exact_noise import reference

TRACT = (RegionType.TRACT, 2)
BUDGETS = [Fraction(1, 2), Fraction(1000)]
CHANCES = [Fraction(1, 10**12), Fraction(1, 2), Fraction(9999, 10_000), 1 - Fraction(1, 10**12)]


def measured(noise: Noise, budget: Fraction = BUDGETS[0], chance: Fraction = Fraction(9999, 10_000)) -> Measured:
    (found,) = SafeTabPDesign(
        states=("01",),
        noise=noise,
        stabilities={TRACT: 9},
        budgets={TRACT: budget},
        thresholds={TRACT: (971, 4971, 19_971)},
        zero_suppression_chance=chance,
    ).measured
    return found


def reached(noise: Uncapped, least: int) -> Decimal:
    """P(X >= least), exact to about 100 decimals."""
    exact = reference(noise)
    return sum((exact.probability(value) for value in range(least, exact.reach + 1)), Decimal())


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("noise", Noise)
def test_impossible_noise_is_reached_with_at_most_ten_to_the_minus_31(noise: Noise, budget: Fraction) -> None:
    """Twelve standard deviations would not do: the discrete Laplace is beyond them with 4e-8."""
    stage_2 = measured(noise, budget).stage_2
    most = find_farthest(stage_2)
    assert reached(stage_2, most) <= Decimal("1e-31") < reached(stage_2, most - 1)


@pytest.mark.parametrize(
    "chance", [Fraction(1, 10**12), Fraction(1, 2), Fraction(9999, 10_000), 1 - Fraction(1, 10**12)]
)
@pytest.mark.parametrize("noise", Noise)
def test_empty_groups_are_expected_to_stay_as_often_as_their_noise_exceeds_the_cut_off(
    noise: Noise, chance: Fraction
) -> None:
    each = measured(noise, chance=chance)
    assert each.cut_off is not None
    exact = reached(each.stage_2, each.cut_off + 1)
    kept, left_out = _chances_of_empty(each)
    assert kept == pytest.approx(float(exact), rel=1e-9)
    assert left_out == pytest.approx(float(1 - exact), rel=1e-9)
    for found in (0, 1, 10**9 - 1, 10**9):
        likely = abs(found - 10**9 * kept) <= 10
        assert _is_binomial(found, 10**9, (kept, left_out), FALSE_ALARM) == likely


def test_what_has_no_probability_is_no_is_binomial_number() -> None:
    assert _is_binomial(0, 5, (0.0, 1.0), FALSE_ALARM)
    assert not _is_binomial(1, 5, (0.0, 1.0), FALSE_ALARM)
    assert not _is_binomial(4, 5, (1.0, 0.0), FALSE_ALARM)


def test_clipped_totals_are_not_tested_whatever_the_cut_off_is() -> None:
    """With a chance below one half, the cut-off is below 0, and totals above it may have been clipped."""
    each = replace(measured(Noise.LAPLACE, chance=Fraction(1, 10**6)), negative_counts=False)
    assert each.cut_off is not None
    assert each.cut_off < 0
    release: Any = SimpleNamespace(design=SimpleNamespace(negative_counts=False))
    least = _find_least_tested(release, each, each.stage_2, np.array([0, 1]))
    assert (least >= find_farthest(each.stage_2)).all()
