"""Moments of several variables from one noisy sum of vectors: their loss, and the moment matrix that follows.

Each of k variables is scaled by its public bounds to a whole number z_i from -M to M. A record adds the vector
v(z) = (M², M·z_i, z_i·z_j for i <= j), with (k + 1)(k + 2)/2 components of at most M² each, and the sums get discrete
noise of one scale. How a release declares them is not decided here.

**Loss.** Added or removed: |v|² <= M⁴(k + 1)(k + 2)/2 and |v|₁ <= M²(k + 1)(k + 2)/2, attained where all |z_i| = M. A
record that changes within a cell: |v(z) - v(z')|² <= M⁴(k + 1)². For, in units of M, with r = |z|², r' = |z'|² and
s = z·z', it is r + r' - 2s + (r² + r'²)/2 - s² + Σ(z_i² - z'_i²)²/2. As -2s - s² <= 1, it is at most
r + r' + 1 + (r² + r'²)/2 + Σ(z_i² - z'_i²)²/2, which is convex in the z_i² and z'_i², from 0 to 1, and so greatest
where all are 0 or 1. Raising one of them from 0 to 1 raises r or r' by 1, so the first terms by 3/2 or more, and lowers
the last one by 1/2 at most. So all are 1: 2k + 1 + k² = (k + 1)². It is attained for odd k, where (k + 1)/2 signs
change. A record that changes from one cell to another costs twice what it adds, which is more, and is what `bounded`
states.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.losses import ConcentratedLoss, PureLoss
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace

LARGEST_SCALE = 1 << 15


@dataclass(frozen=True)
class Moments:
    """The moments of k variables in whole numbers up to M (`scale`), with an exact ρ or ε for a record added or
    removed. Raises ValueError if there is no variable, the budget is not above 0, or M is out of range."""

    variables: int
    scale: int
    budget: Fraction
    gaussian: bool = True

    def __post_init__(self) -> None:
        if self.variables < 1:
            raise ValueError("moments: there is at least one variable")
        if not 1 <= self.scale <= LARGEST_SCALE:
            raise ValueError(f"grid: a variable has from 1 to {LARGEST_SCALE:,} steps on each side, not {self.scale:,}")
        if self.budget <= 0:
            raise ValueError(f"budget: must be greater than 0, and is {self.budget}")

    @property
    def components(self) -> int:
        return (self.variables + 1) * (self.variables + 2) // 2

    @property
    def noise(self) -> DiscreteGaussian | DiscreteLaplace:
        """The noise of every component."""
        if self.gaussian:
            return DiscreteGaussian(self.components * Fraction(self.scale) ** 4 / (2 * self.budget))
        return DiscreteLaplace(self.components * Fraction(self.scale) ** 2 / self.budget)

    def _loss(self, factor: Fraction) -> PureLoss | ConcentratedLoss:
        total = factor * self.budget
        return ConcentratedLoss(total) if self.gaussian else PureLoss(total)

    @property
    def unbounded(self) -> PureLoss | ConcentratedLoss:
        return self._loss(Fraction(1))

    @property
    def bounded(self) -> PureLoss | ConcentratedLoss:
        """For one record changed in any way, also from one cell to another."""
        return self._loss(Fraction(2))

    @property
    def within_cell(self) -> PureLoss | ConcentratedLoss:
        """For one record whose variables change but not its cell: of ρ, the part (k + 1)² / ((k + 1)(k + 2)/2)."""
        if not self.gaussian:
            return self.bounded
        return self._loss(Fraction(2 * (self.variables + 1), self.variables + 2))

    def vectors(self, scaled: NDArray[np.int64]) -> NDArray[np.int64]:
        """What each record adds, shape (records, components), of numbers from -M to M, shape (records, k)."""
        ones = np.full((len(scaled), 1), self.scale, dtype=np.int64)
        extended = np.concatenate([ones, scaled], axis=1)
        first, second = np.triu_indices(self.variables + 1)
        return extended[:, first] * extended[:, second]

    def matrix(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """The moment matrix Σ [1 x][1 x]ᵀ of x = z/M, shape (k + 1, k + 1), from sums of the vectors."""
        first, second = np.triu_indices(self.variables + 1)
        matrix = np.zeros((self.variables + 1, self.variables + 1))
        matrix[first, second] = matrix[second, first] = np.asarray(sums, dtype=np.float64) / self.scale**2
        return matrix


def project(matrix: NDArray[np.float64], floor: float) -> NDArray[np.float64]:
    """The nearest moment matrix, in the Frobenius norm, whose least eigenvalue is at least a public floor. Correlations
    that follow from one with a floor above 0 are within ±1, and every regression has one solution."""
    values, vectors = np.linalg.eigh(matrix)
    raised = (vectors * np.maximum(values, floor)) @ vectors.T
    return np.asarray((raised + raised.T) / 2)


def correlate(matrix: NDArray[np.float64], one: int, other: int) -> float | None:
    """The correlation of two variables, numbered from 0, of a projected matrix; None if one of them is constant."""
    means = matrix[0, 1:] / matrix[0, 0]
    covariance = matrix[1:, 1:] / matrix[0, 0] - np.outer(means, means)
    spread = covariance[one, one] * covariance[other, other]
    return float(covariance[one, other] / np.sqrt(spread)) if spread > 1e-18 else None


def regress(matrix: NDArray[np.float64], of: int, on: list[int]) -> NDArray[np.float64]:
    """The least-squares coefficients of a variable on others, the intercept first, in scaled units."""
    places = [0, *(number + 1 for number in on)]
    return np.asarray(np.linalg.lstsq(matrix[np.ix_(places, places)], matrix[places, of + 1], rcond=None)[0])
