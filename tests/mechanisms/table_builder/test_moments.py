"""Moments: no record adds or changes more than the charge, and results without noise equal numpy's."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.accounting.losses import ConcentratedLoss, PureLoss
from mechanisms.table_builder.moments import (
    MOST_ADDED,
    MeasuredMoments,
    Moments,
    Scale,
    correlate,
    project,
    regress,
)


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
    """The pairs that were not enumerated: random ones, half of them at the corners, where the change is greatest."""
    random = np.random.default_rng(seed)
    moments = Moments(variables, 8, Fraction(1))
    inside = random.integers(-8, 9, (50, variables))
    records = np.concatenate([inside, 8 * random.choice([-1, 0, 1], (50, variables))])
    added = moments.vectors(records)
    changes = added[:, None, :] - added[None, :, :]
    assert int((changes**2).sum(axis=2).max()) <= 8**4 * (variables + 1) ** 2


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 9), st.booleans(), st.integers(0, 2**32))
def test_the_charge_of_weighted_moments_is_the_greatest_loss_of_their_neighbors(
    variables: int, scale: int, weight: int, gaussian: bool, seed: int
) -> None:
    """A record that changes its cell, its variables and its weight. No such change loses more than the charge, and the
    change between cells at the bounds with the greatest weight loses as much. Fails for: a charge for a record
    added, and noise for the greatest weight or the greatest number in the data."""
    random, moments = np.random.default_rng(seed), Moments(variables, scale, Fraction(3, 2), gaussian, weight)
    kind, power = (ConcentratedLoss, 2) if gaussian else (PureLoss, 1)

    def loss(change: np.ndarray, noise: Moments = moments) -> PureLoss | ConcentratedLoss:
        size = int((np.abs(change).astype(object) ** power).sum())
        spread = 2 * noise.noise.variance if gaussian else noise.noise.scale  # type: ignore[union-attr]
        return kind(size / spread)

    def adds(cell: int, values: np.ndarray, times: int) -> np.ndarray:
        cells = np.zeros((2, moments.components), dtype=np.int64)
        cells[cell] = times * moments.vectors(values[None])[0]
        return cells

    for _ in range(5):
        cells, times = random.integers(0, 2, 2), random.integers(0, weight + 1, 2)
        values = random.integers(-scale, scale + 1, (2, variables))
        old, new = (adds(*record) for record in zip(cells, values, times, strict=True))
        assert loss(new - old) <= moments.bounded
        assert loss(new) <= moments.unbounded
    top = np.full(variables, scale)
    worst = adds(0, top, weight) - adds(1, -top, weight)
    assert loss(worst) == moments.bounded
    assert not moments.bounded <= moments.unbounded
    (line,) = moments.lines
    assert line.loss == moments.bounded
    if weight > 1:
        assert not loss(worst, Moments(variables, scale, Fraction(3, 2), gaussian, weight - 1)) <= moments.bounded
    if scale > 1:
        assert not loss(worst, Moments(variables, scale - 1, Fraction(3, 2), gaussian, weight)) <= moments.bounded


@given(st.fractions(-1000, 1000, max_denominator=4), st.integers(1, 4000), st.integers(1, 50), st.integers(0, 2**32))
def test_scaling_is_exact_and_within_the_bounds(lower: Fraction, span: int, steps: int, seed: int) -> None:
    lower = Fraction(round(lower * 4), 4)
    scale = Scale(lower, lower + Fraction(span, 4), steps)
    values = np.random.default_rng(seed).integers(-20_000_000, 20_000_000, 30)
    scaled = scale.round(values)
    for value, found in zip(values.tolist(), scaled.tolist(), strict=True):
        exact = (Fraction(value, 10_000) - scale.center) / scale.half * steps
        nearest = int(abs(exact) + Fraction(1, 2)) * (1 if exact > 0 else -1)
        assert found == min(max(nearest, -steps), steps)
    with pytest.raises(ValueError, match="bounds: the lower one is below"):
        Scale(lower, lower, steps)


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
    assert np.isnan(correlate(matrix, 0, 2)), "a constant has no correlation, not one of 0"
    want = np.linalg.lstsq(np.column_stack([np.ones(400), x[:, 0]]), x[:, 1], rcond=None)[0]
    assert regress(matrix, 1, [0]) == pytest.approx(want)


def test_in_their_own_units_estimates_and_sampling_errors_are_the_classical_ones() -> None:
    """With a budget that leaves no noise: means, deviations, correlations, coefficients and their classical errors."""
    random, scales = (
        np.random.default_rng(6),
        [Scale(Fraction(0), Fraction(20_000), 1000), Scale(Fraction(10), 90, 1000)],
    )
    age = random.integers(10, 91, 500)
    income = np.clip(random.normal(100 * age, 2000), 0, 20_000).astype(np.int64)
    columns = [income, age]
    scaled = np.stack([s.round(10_000 * c) for s, c in zip(scales, columns, strict=True)], axis=1)
    moments = Moments(2, 1000, Fraction(10**12))
    found = MeasuredMoments(moments, moments.vectors(scaled).sum(axis=0), scales)
    x = np.stack([float(s.center) + float(s.half) * z / 1000 for s, z in zip(scales, scaled.T, strict=True)])
    assert found.mean(0).estimate == pytest.approx(x[0].mean())
    assert found.mean(0).sample_error == pytest.approx(x[0].std() / np.sqrt(500))
    assert found.deviation(1).estimate == pytest.approx(x[1].std())
    assert found.correlation(0, 1).estimate == pytest.approx(np.corrcoef(x)[0, 1])
    design = np.column_stack([np.ones(500), x[1]])
    want, rest, *_ = np.linalg.lstsq(design, x[0], rcond=None)
    regression = found.regression(0, [1])
    assert regression.estimate == pytest.approx(want)
    errors = np.sqrt(float(rest[0]) / 498 * np.diag(np.linalg.inv(design.T @ design)))
    assert regression.sample_error == pytest.approx(errors, rel=1e-4)
    assert (regression.standard_error < 1e-2 * errors).all()


@pytest.mark.parametrize(("gaussian", "cells"), [(False, 1), (False, 3), (False, MOST_ADDED + 1), (True, 3)])
def test_the_public_draws_that_errors_come_from_have_the_variance_of_the_noise(gaussian: bool, cells: int) -> None:
    """Wrong program: one whose draws are too narrow, so that every error and interval of moments is too small. The
    draws are always the same; of others, one in 10⁶ or fewer would be off by a fifth."""
    moments = Moments(5, 10, Fraction(1), gaussian)
    assert moments.draw(cells).var() == pytest.approx(cells * float(moments.noise.exact_variance), rel=0.2)


@given(st.integers(1, 4), st.integers(0, 2**32))
def test_of_any_noisy_sums_correlations_are_within_one(variables: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    moments = Moments(variables, 10, Fraction(1))
    matrix = project(moments.matrix(random.normal(0, 1e4, moments.components)), 1.0)
    assert np.linalg.eigvalsh(matrix).min() >= 1 - 1e-6
    for one, other in product(range(variables), repeat=2):
        found = float(correlate(matrix, one, other))
        assert np.isnan(found) or abs(found) <= 1 + 1e-9


@pytest.mark.parametrize("records", [5, 50_000])
def test_the_interval_of_a_constant_reaches_a_deviation_of_0_and_every_interval_its_estimate(records: int) -> None:
    """Wrong program: one whose least eigenvalue, above 0, makes deviations greater, so that no interval covers 0."""
    moments, random = Moments(2, 100, Fraction(1)), np.random.default_rng(records)
    exact, scales = records * moments.vectors(np.array([[60, -20]]))[0], [Scale(Fraction(0), Fraction(9), 100)] * 2
    covered = []
    for _ in range(40):
        noisy = exact + np.rint(random.normal(0, float(moments.noise.exact_variance) ** 0.5, len(exact)))
        measured = MeasuredMoments(moments, noisy, scales)
        covered.append(measured.deviation(0).lower == 0)
        for found in (measured.deviation(0), measured.mean(1), measured.regression(0, [1])):
            assert np.all((found.lower <= found.estimate) & (found.estimate <= found.upper))
    assert np.mean(covered) >= 0.85


@pytest.mark.parametrize(
    ("arguments", "says"),
    [((0, 1, Fraction(1)), "at least one"), ((1, 0, Fraction(1)), "grid"), ((1, 1, Fraction(0)), "budget")],
)
def test_moments_that_are_none_are_refused(arguments: tuple[int, int, Fraction], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Moments(*arguments)
