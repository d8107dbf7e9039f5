"""Multiplicative noise and noise on score functions: as in the report, and why they bound no loss."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mechanisms.table_builder.comparison import UnboundedError, multiply, perturb_coefficients, perturbations
from stirred import random, table_builder

KEY = b"k" * 32


def test_the_same_records_have_the_same_noise_within_its_range() -> None:
    keys = np.random.default_rng(1).integers(0, 2**64, (5000, 2), dtype=np.uint64)
    p = perturbations(KEY, keys, Fraction(1, 5))
    assert (p[::-1] == perturbations(KEY, keys[::-1].copy(), Fraction(1, 5))).all()
    assert np.abs(p).max() <= 0.2
    assert abs(p.mean()) < 5 * 0.2 / np.sqrt(3 * 5000), "false alarms: below 1e-6"
    assert multiply(np.array([100.0]), np.array([0.1]), 2.0) == pytest.approx([120.0])


def test_a_sum_of_nothing_and_a_perfect_fit_have_no_noise_which_tells_neighbors_apart() -> None:
    """Wrong program: one that claims a finite loss. Without one record, one outcome is certain, and with the record
    another."""
    p = perturbations(KEY, np.arange(4, dtype=np.uint64).reshape(2, 2), Fraction(1, 5))
    assert (multiply(np.zeros(2), p) == 0).all()
    assert (multiply(np.ones(2), p) > 0).all()
    x = np.column_stack([np.ones(20), np.arange(20.0)])
    line = 3 + 2 * x[:, 1]
    assert perturb_coefficients(x, line, p) == pytest.approx([3, 2])
    bent = line + np.where(np.arange(20) == 19, 50.0, 0.0)
    fitted, inverse = np.polyfit(x[:, 1], bent, 1)[::-1], np.linalg.inv(x.T @ x)
    greatest = np.abs(bent - x @ fitted).max()
    assert perturb_coefficients(x, bent, p) == pytest.approx(fitted + inverse @ (p * greatest))


def test_they_are_refused_unless_releases_without_a_finite_loss_are_allowed() -> None:
    given: dict[str, Any] = {"randomness": random.from_key(KEY)}
    with pytest.raises(UnboundedError, match="no finite loss bounds this noise"):
        table_builder.multiply_by_noise([1.0], [[1, 2]], "1/5", **given)
    with pytest.raises(UnboundedError, match="no finite loss bounds this noise"):
        table_builder.perturb_coefficients([[1.0], [1.0]], [1.0, 2.0], "1/5", **given)
    allowed = given | {"unbounded_releases": "allowed"}
    first, again = table_builder.multiply_by_noise([1.0, 1.0], [[1, 2], [2, 1]], "1/5", **allowed)
    assert first == again != 1.0
    assert table_builder.perturb_coefficients([[1.0], [1.0]], [1.0, 2.0], "1/5", **allowed) != pytest.approx([1.5])
