"""Moments: no record adds or changes more than is charged, and without noise everything is what numpy gives."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.accounting.losses import ConcentratedLoss, PureLoss
from mechanisms.table_builder.moments import Moments, correlate, project, regress


@pytest.mark.parametrize(("variables", "scale"), [(1, 4), (2, 3), (3, 1)])
def test_no_record_adds_or_changes_more_than_is_charged(variables: int, scale: int) -> None:
    """Every record and every pair of records. The loss of noise of variance σ² for a difference d is |d|²/2σ², and of
    scale t it is |d|₁/t: the charges are exactly the greatest. A program that left out the count or the squares,
    or took M from the data, would charge less. The change is attained for odd numbers of variables."""
    records = np.array(list(product(range(-scale, scale + 1), repeat=variables)), dtype=np.int64)
    gaussian, laplace = (Moments(variables, scale, Fraction(1), kind) for kind in (True, False))
    added = gaussian.vectors(records)
    variance = Fraction(gaussian.components * scale**4, 2)
    assert gaussian.noise.variance == variance
    assert ConcentratedLoss(int((added**2).sum(axis=1).max()) / (2 * variance)) == gaussian.unbounded
    assert PureLoss(int(np.abs(added).sum(axis=1).max()) / laplace.noise.scale) == laplace.unbounded
    changes = added[:, None, :] - added[None, :, :]
    most = int((changes**2).sum(axis=2).max())
    assert ConcentratedLoss(most / (2 * variance)) <= gaussian.within_cell
    assert most == scale**4 * ((variables + 1) ** 2 - (variables % 2 == 0))
    assert PureLoss(int(np.abs(changes).sum(axis=2).max()) / laplace.noise.scale) <= laplace.within_cell
    assert gaussian.within_cell <= gaussian.bounded
    assert gaussian.bounded == gaussian.unbounded + gaussian.unbounded


@given(st.integers(1, 5), st.integers(0, 2**32))
def test_no_change_of_many_variables_costs_more_than_is_charged(variables: int, seed: int) -> None:
    """What was not enumerated: random pairs, half of them at the corners, where the change is greatest."""
    random = np.random.default_rng(seed)
    moments = Moments(variables, 8, Fraction(1))
    inside = random.integers(-8, 9, (50, variables))
    records = np.concatenate([inside, 8 * random.choice([-1, 0, 1], (50, variables))])
    added = moments.vectors(records)
    changes = added[:, None, :] - added[None, :, :]
    assert int((changes**2).sum(axis=2).max()) <= 8**4 * (variables + 1) ** 2


def test_without_noise_everything_is_what_numpy_gives() -> None:
    random = np.random.default_rng(5)
    first = random.integers(-100, 101, 400)
    scaled = np.stack([first, np.clip(first // 2 + random.integers(-40, 41, 400), -100, 100), np.full(400, 7)], axis=1)
    moments = Moments(3, 100, Fraction(1))
    matrix = moments.matrix(moments.vectors(scaled).sum(axis=0))
    x = scaled / 100
    assert matrix == pytest.approx(np.column_stack([np.ones(400), x]).T @ np.column_stack([np.ones(400), x]))
    assert project(matrix, 1e-9) == pytest.approx(matrix)
    assert correlate(matrix, 0, 1) == pytest.approx(np.corrcoef(x[:, 0], x[:, 1])[0, 1])
    assert correlate(matrix, 0, 2) is None, "a constant has no correlation, not one of 0"
    want = np.linalg.lstsq(np.column_stack([np.ones(400), x[:, 0]]), x[:, 1], rcond=None)[0]
    assert regress(matrix, 1, [0]) == pytest.approx(want)


@given(st.integers(1, 4), st.integers(0, 2**32))
def test_of_any_noisy_sums_correlations_are_within_one(variables: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    moments = Moments(variables, 10, Fraction(1))
    matrix = project(moments.matrix(random.normal(0, 1e4, moments.components)), 1.0)
    assert np.linalg.eigvalsh(matrix).min() >= 1 - 1e-6
    for one, other in product(range(variables), repeat=2):
        found = correlate(matrix, one, other)
        assert found is None or abs(found) <= 1 + 1e-9


@pytest.mark.parametrize(
    ("arguments", "says"),
    [((0, 1, Fraction(1)), "at least one"), ((1, 0, Fraction(1)), "grid"), ((1, 1, Fraction(0)), "budget")],
)
def test_moments_that_are_none_are_refused(arguments: tuple[int, int, Fraction], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Moments(*arguments)
