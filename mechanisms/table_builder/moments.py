"""Moments of several variables from one noisy sum of vectors: their loss, and the moment matrix that follows.

Each of k variables is scaled by its public bounds to a whole number z_i from -M to M. A record adds the vector
v(z) = (M², M·z_i, z_i·z_j for i <= j), with (k + 1)(k + 2)/2 components of at most M² each, and the sums get discrete
noise of one scale. A record of a weighted sum adds w·v(z), with a weight w of 0 to W steps: every loss below is then
for W times the noise. This module does not define how a release declares moments.

**Loss.** Added or removed: |v|² <= M⁴(k + 1)(k + 2)/2 and |v|₁ <= M²(k + 1)(k + 2)/2, attained where all |z_i| = M. A
record that changes within a cell: |v(z) - v(z')|² <= M⁴(k + 1)². For, in units of M, with r = |z|², r' = |z'|² and
s = z·z', it is r + r' - 2s + (r² + r'²)/2 - s² + Σ(z_i² - z'_i²)²/2. As -2s - s² <= 1, it is at most
r + r' + 1 + (r² + r'²)/2 + Σ(z_i² - z'_i²)²/2, which is convex in the z_i² and z'_i², from 0 to 1, and so greatest
where all are 0 or 1. Raising one of them from 0 to 1 raises r or r' by 1, so the first terms by 3/2 or more, and lowers
the last one by 1/2 at most. So all are 1: 2k + 1 + k² = (k + 1)². It is attained for odd k, where (k + 1)/2 signs
change. A record that changes from one cell to another costs twice the loss of adding it, which is more; `bounded` has
this loss.

**From the sums**, all post-processing: the moment matrix Σ [1 x][1 x]ᵀ of the requested variables is projected to one
whose eigenvalues are at least a thousandth of the noise's standard deviation, and means, correlations and regressions
follow from it. A greater floor would bias the variances of small cells. Errors are those of `DRAWS` draws of the same
noise, with a public key, added to the projected matrix and projected again. A sum of Laplace noises of more than
`MOST_ADDED` cells is drawn as a normal one with its variance.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.losses import ConcentratedLoss, PureLoss
from mechanisms.accounting.pairs import SpreadPair
from mechanisms.accounting.specification import Line
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace
from mechanisms.sampling.stream import RandomStream
from mechanisms.table_builder.grid_values import PLACES

Floats = NDArray[np.float64]

LARGEST_SCALE = 1 << 15

DRAWS = 1000
MOST_ADDED = 32
COVERAGE = 0.9

FLOOR = 1e-3
"""The least eigenvalue of a moment matrix, in standard deviations of its noise."""

_PUBLIC_KEY = bytes(32)
_UNIT = 2.0**-64


@dataclass(frozen=True)
class Scale:
    """The public bounds of a variable, whose numbers are scaled to -M to M and rounded, halves away from 0.

    Raises ValueError if the lower bound is not below the upper one, or a bound has more decimals than the CEF."""

    lower: Fraction
    upper: Fraction
    steps: int

    def __post_init__(self) -> None:
        if self.lower >= self.upper:
            raise ValueError("bounds: the lower one is below the upper one")
        if any((bound * 10**PLACES).denominator != 1 for bound in (self.lower, self.upper)):
            raise ValueError(f"bounds: they have at most {PLACES} decimals")

    @property
    def center(self) -> Fraction:
        return (self.lower + self.upper) / 2

    @property
    def half(self) -> Fraction:
        return (self.upper - self.lower) / 2

    @property
    def doubled_center(self) -> int:
        """Twice the center of the bounds, in ten-thousandths."""
        return int((self.lower + self.upper) * 10**PLACES)

    @property
    def span(self) -> int:
        """The distance of the bounds in ten-thousandths."""
        return int((self.upper - self.lower) * 10**PLACES)

    def round(self, ten_thousandths: NDArray[np.int64]) -> NDArray[np.int64]:
        """The whole numbers, as in `sql/table_builder/scaled.sql`."""
        doubled = 2 * ten_thousandths.astype(object) - self.doubled_center
        sizes = (2 * np.abs(doubled) * self.steps + self.span) // (2 * self.span)
        return np.clip(np.sign(doubled) * sizes, -self.steps, self.steps).astype(np.int64)


@dataclass(frozen=True)
class Moments:
    """The moments of k variables in whole numbers up to M (`scale`), with an exact ρ or ε for a record added or
    removed, whose greatest weight is `weight`.

    Raises ValueError if there is no variable, the budget is not above 0, or M is out of range."""

    variables: int
    scale: int
    budget: Fraction
    gaussian: bool = True
    weight: int = 1

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
        return self.noise_at(self.budget)

    def noise_at(self, budget: Fraction) -> DiscreteGaussian | DiscreteLaplace:
        if self.gaussian:
            return DiscreteGaussian(self.components * Fraction(self.scale) ** 4 * self.weight**2 / (2 * budget))
        return DiscreteLaplace(self.components * Fraction(self.scale) ** 2 * self.weight / budget)

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise of a component, in the unit of the moment matrix: records."""
        return sqrt(self.noise.exact_variance) / self.scale**2

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """By component, the two factors of its products: 0 for M, and i for the i-th variable."""
        first, second = np.triu_indices(self.variables + 1)
        return list(zip(first.tolist(), second.tolist(), strict=True))

    @property
    def lines(self) -> tuple[Line, ...]:
        loss, noise = self.bounded, self.noise
        if isinstance(loss, ConcentratedLoss) and isinstance(noise, DiscreteGaussian):
            return (Line("moments", loss, (SpreadPair(loss.rho, noise.variance, 2 * self.components),)),)
        return (Line("moments", loss),)

    def as_record(self) -> dict[str, Any]:
        """Exact plain values, equal for moments with the same draws."""
        return {
            "variables": self.variables,
            "scale": self.scale,
            "budget": str(self.budget),
            "gaussian": self.gaussian,
            "weight": self.weight,
        }

    def _loss(self, factor: Fraction) -> PureLoss | ConcentratedLoss:
        total = factor * self.budget
        return ConcentratedLoss(total) if self.gaussian else PureLoss(total)

    @property
    def unbounded(self) -> PureLoss | ConcentratedLoss:
        return self._loss(Fraction(1))

    @property
    def bounded(self) -> PureLoss | ConcentratedLoss:
        """The loss for one record changed in any way, also from one cell to another."""
        return self._loss(Fraction(2))

    @property
    def within_cell(self) -> PureLoss | ConcentratedLoss:
        """The loss for one record that changes its variables but not its cell: of ρ, the part (k + 1)² / ((k + 1)(k +
        2)/2)."""
        if not self.gaussian:
            return self.bounded
        return self._loss(Fraction(2 * (self.variables + 1), self.variables + 2))

    def vectors(self, scaled: NDArray[np.int64]) -> NDArray[np.int64]:
        """The vector that each record adds, shape (records, components), from numbers from -M to M, shape (records,
        k)."""
        ones = np.full((len(scaled), 1), self.scale, dtype=np.int64)
        extended = np.concatenate([ones, scaled], axis=1)
        first, second = np.triu_indices(self.variables + 1)
        return extended[:, first] * extended[:, second]

    def matrix(self, sums: NDArray[Any]) -> Floats:
        """The moment matrices Σ [1 x][1 x]ᵀ of x = z/M, shape (…, k + 1, k + 1), from sums of the vectors, shape
        (…, components)."""
        first, second = np.triu_indices(self.variables + 1)
        matrix = np.zeros((*np.shape(sums)[:-1], self.variables + 1, self.variables + 1))
        matrix[..., first, second] = matrix[..., second, first] = np.asarray(sums, dtype=np.float64) / self.scale**2
        return matrix

    @lru_cache(maxsize=64)  # noqa: B019 - a value, of which there are few
    def draw(self, cells: int) -> Floats:
        """`DRAWS` public draws of the noise of sums over a number of cells, shape (`DRAWS`, components)."""
        shape, stream = (DRAWS, self.components), RandomStream(_PUBLIC_KEY, f"errors of moments, {cells}")

        def uniform(*further: int) -> Floats:
            words = stream.words(int(np.prod((*shape, *further))))
            return np.asarray((words.reshape((*shape, *further)) + 0.5) * _UNIT, dtype=np.float64)

        if self.gaussian or cells > MOST_ADDED:
            spread = sqrt(cells * float(self.noise.exact_variance))
            radius, angle = np.sqrt(-2 * np.log(uniform())), 2 * np.pi * uniform()
            return np.asarray(spread * radius * np.cos(angle), dtype=np.float64)
        centered = uniform(cells) - 0.5
        scale = float(self.noise.scale)  # type: ignore[union-attr]
        return np.asarray(-scale * (np.sign(centered) * np.log1p(-2 * np.abs(centered))).sum(axis=-1), dtype=np.float64)


@dataclass(frozen=True)
class Derived:
    """Numbers that follow from moments, with the standard error and the 90% interval of the noise, and the standard
    error of a sample of independent records. A number that is not defined is NaN. All have the same shape."""

    estimate: Floats
    standard_error: Floats
    lower: Floats
    upper: Floats
    sample_error: Floats


@dataclass(frozen=True)
class MeasuredMoments:
    """Noisy sums of the vectors, shape (components,), added up over `cells` measured cells, of variables with `scales`.
    `effect` is the variance of a sample, divided by the variance of as many independent records of weight 1."""

    moments: Moments
    sums: NDArray[Any]
    scales: Sequence[Scale]
    cells: int = 1
    effect: float = 1.0

    @cached_property
    def _noise(self) -> Floats:
        """`DRAWS` draws of the noise of the moment matrix."""
        return self.moments.matrix(self.moments.draw(self.cells))

    @property
    def _floor(self) -> float:
        return FLOOR * self.moments.deviation * sqrt(self.cells)

    def derive(
        self, variables: Sequence[int], function: Callable[[Floats], Floats], sample: Callable[[Floats], Floats]
    ) -> Derived:
        """A function of moment matrices of some of the scaled variables, shape (…, 1 + variables, 1 + variables), with
        errors. `sample` gives the standard error of a sample with these moments.

        Only the matrix of these variables is projected: in the matrix of all variables, one very noisy sum would change
        all others."""
        places = [0, *(number + 1 for number in variables)]
        matrix = project(self.moments.matrix(self.sums)[np.ix_(places, places)], self._floor)
        drawn = project(matrix + self._noise[:, places][:, :, places], self._floor)
        estimate, estimates = np.asarray(function(matrix)), np.asarray(function(drawn))
        tail = (1 - COVERAGE) / 2
        lower, upper = np.quantile(estimates, [tail, 1 - tail], axis=0)
        # The draws are projected again, so their percentiles need not enclose the estimate.
        lower, upper = np.minimum(lower, estimate), np.maximum(upper, estimate)
        error = sqrt(self.effect) * np.asarray(sample(matrix))
        return Derived(estimate, estimates.std(axis=0, ddof=1), lower, upper, error)

    def mean(self, of: int) -> Derived:
        center, half = float(self.scales[of].center), float(self.scales[of].half)
        return self.derive(
            [of],
            lambda matrix: center + half * np.clip(matrix[..., 0, 1] / matrix[..., 0, 0], -1, 1),
            lambda matrix: half * np.sqrt(_covariance(matrix)[..., 0, 0] / matrix[..., 0, 0]),
        )

    def deviation(self, of: int) -> Derived:
        """The standard deviation; 0 if the least eigenvalue was raised to the floor, which every constant is below."""
        half = float(self.scales[of].half)

        def find(matrix: Floats) -> Floats:
            variance, size = _covariance(matrix)[..., 0, 0], matrix[..., 0, 0]
            # The determinant of two eigenvalues, of which one is the floor, is at most the floor times their sum.
            raised = variance * size**2 <= self._floor * (size + matrix[..., 1, 1])
            return np.asarray(half * np.sqrt(np.where(raised, 0.0, variance)))

        return self.derive(
            [of],
            find,
            lambda matrix: half * np.sqrt(_covariance(matrix)[..., 0, 0] / (2 * matrix[..., 0, 0])),
        )

    def correlation(self, one: int, other: int) -> Derived:
        return self.derive(
            [one, other],
            lambda matrix: correlate(matrix, 0, 1),
            lambda matrix: (1 - correlate(matrix, 0, 1) ** 2) / np.sqrt(matrix[..., 0, 0]),
        )

    def regression(self, of: int, on: Sequence[int]) -> Derived:
        """The coefficients of a variable on others, the intercept first, shape (1 + variables,), in the variables' own
        units."""
        centers, halves = (
            np.array([float(getattr(self.scales[number], name)) for number in (of, *on)]) for name in ("center", "half")
        )
        # Of scaled variables, b is c + T·b of those in their own units.
        turned = np.diag(halves[0] / np.array([1.0, *halves[1:]]))
        turned[0, 1:] = -halves[0] * centers[1:] / halves[1:]
        shift = np.array([centers[0], *[0.0] * len(on)])
        others = list(range(1, 1 + len(on)))
        return self.derive(
            [of, *on],
            lambda matrix: shift + regress(matrix, 0, others) @ turned.T,
            lambda matrix: np.sqrt(np.diagonal(turned @ _sample_covariance(matrix, 0, others) @ turned.T)),
        )


def project(matrix: Floats, floor: float) -> Floats:
    """The nearest moment matrices, in the Frobenius norm, whose least eigenvalue is at least a public floor. The
    correlations that follow from one with a floor above 0 are within ±1, and every regression has one solution."""
    values, vectors = np.linalg.eigh(matrix)
    raised = (vectors * np.maximum(values, floor)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return np.asarray((raised + np.swapaxes(raised, -1, -2)) / 2)


def _covariance(matrix: Floats) -> Floats:
    size = matrix[..., :1, :1]
    means = matrix[..., 0, 1:] / size[..., 0]
    return np.asarray(matrix[..., 1:, 1:] / size - means[..., :, None] * means[..., None, :])


def correlate(matrix: Floats, one: int, other: int) -> Floats:
    """The correlations of two variables, numbered from 0, of projected matrices; NaN if one of them is constant."""
    covariance = _covariance(matrix)
    size = (matrix[..., one + 1, one + 1] * matrix[..., other + 1, other + 1]) / matrix[..., 0, 0] ** 2
    spread = covariance[..., one, one] * covariance[..., other, other]
    # A constant has a variance of 0, except for rounding.
    constant = spread <= 1e-18 * size
    return np.where(constant, np.nan, covariance[..., one, other] / np.sqrt(np.where(constant, 1.0, spread)))


def regress(matrix: Floats, of: int, on: Sequence[int]) -> Floats:
    """The least-squares coefficients of a variable on others, the intercept first, shape (…, 1 + variables)."""
    places = [0, *(number + 1 for number in on)]
    inner = matrix[..., places, :][..., places]
    return np.asarray(np.linalg.pinv(inner, hermitian=True) @ matrix[..., places, of + 1][..., None])[..., 0]


def _sample_covariance(matrix: Floats, of: int, on: Sequence[int]) -> Floats:
    """The classical covariance σ²(X'X)⁻¹ of the coefficients."""
    places = [0, *(number + 1 for number in on)]
    explained = float(regress(matrix, of, on) @ matrix[places, of + 1])
    left = max(float(matrix[of + 1, of + 1]) - explained, 0.0) / max(float(matrix[0, 0]) - len(places), 1.0)
    return np.asarray(left * np.linalg.pinv(matrix[np.ix_(places, places)], hermitian=True))
