"""Blocks that lean on their housing units: the model's answer is combined as a measurement would be, and its variance
is found again from noisy answers."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.topdown_problems import measure
from benchmarks.topdown_trees import TOWN, draw_town
from mechanisms.topdown.decomposition import Decomposition
from mechanisms.topdown.design import LEAST_SPREAD
from mechanisms.topdown.estimation import Families
from mechanisms.topdown.feasibility import FREE, Limits
from mechanisms.topdown.information import inform_finest
from mechanisms.topdown.leaning import estimate_spread, lean, measure_spread
from mechanisms.topdown.schema import HOUSEHOLDS

SPLIT = Decomposition(TOWN)


def test_the_models_answer_counts_as_one_more_measurement() -> None:
    """In the place 1 of 3 with 4 of 12 units, whose parent has 60 persons in households: 20 with a variance of 4 · 2.5,
    as from a dense inverse. A place without units is unchanged."""
    tree, _, _ = draw_town(1, 3, fixed=False)
    above = np.zeros((3, TOWN.size), dtype=np.int64)
    above[:, np.flatnonzero(TOWN.groups.cells == HOUSEHOLDS)[0]] = 60, 30, 21
    families, units = replace(tree.families(2), histograms=above), np.array([8, 4, 0, 5, 5, 3, 4])
    found, own = lean(families, units, 2.5).information, inform_finest(families)
    assert found is not None
    present = own.present[1]
    mean, of_mean = own.estimate[1].mean(axis=1)[present], own.variance[1, 0][np.ix_(present, present)]
    chosen = SPLIT.summed.size * (SPLIT.groups[present] == HOUSEHOLDS)
    precision = np.linalg.inv(of_mean / SPLIT.summed.size)
    covariance = np.linalg.inv(precision + np.outer(chosen, chosen) / 10)
    expected = covariance @ (precision @ mean + chosen * 20 / 10)
    assert np.allclose(found.estimate[1].mean(axis=1)[present], expected)
    assert np.allclose(found.variance[1, 0][np.ix_(present, present)], covariance * SPLIT.summed.size)
    assert np.array_equal(found.variance[:, 1:], own.variance[:, 1:]), "the other components are untouched"
    assert np.array_equal(found.estimate[2], own.estimate[2])
    still = lean(families, units, np.full(3, 1e12)).information
    assert still is not None
    assert np.allclose(still.estimate, own.estimate, atol=1e-4), "a model that is worth nothing changes nothing"


@pytest.mark.parametrize("variance", [0.0, 20.0])
def test_the_variance_of_the_model_is_found_again(variance: float) -> None:
    """2,000 places of 10 to 40 units with 2.5 persons each on average. With a program that left out the noise, 20 would
    come out above 40, and 0 far above the least."""
    random = np.random.default_rng(8)
    units = random.integers(10, 40, 2_000)
    persons = np.maximum(0, np.rint(2.5 * units + random.normal(0, 1, 2_000) * np.sqrt(variance * units)).astype(int))
    truth = np.zeros((2_000, TOWN.size), dtype=np.int64)
    truth[:, 0] = persons
    measurements = measure(TOWN, truth, {"detailed": Fraction(16), "kind": Fraction(400)}, random)
    upper = np.tile([10**6, 0, 0], (2_000, 1))
    limits = Limits(np.zeros_like(upper), upper, np.full(2_000, FREE))
    starts = np.array([0, 700, 2_000])
    above = np.add.reduceat(truth, starts[:-1])
    families = Families(TOWN, ("a", "b"), starts, measurements, limits, False, above)
    sums = measure_spread(families, units)
    assert sums[:, 4:].tolist() == [[persons[:700].sum(), units[:700].sum()], [persons[700:].sum(), units[700:].sum()]]
    found = estimate_spread(sums)
    assert found == pytest.approx(max(variance, LEAST_SPREAD), abs=2.5)
    assert estimate_spread(sums[::-1]) == found
    assert estimate_spread(0 * sums) == LEAST_SPREAD
    without_noise = replace(
        families, measurements=tuple(replace(each, variance=Fraction(1, 100)) for each in measurements)
    )
    assert estimate_spread(measure_spread(without_noise, units)) > found + 10
