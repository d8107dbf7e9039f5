"""The weighted least-squares fit of a hypercube: the inner table that agrees best with all measured tables.

Measured tables, structural zeros and variances are public, so the fit is post-processing.

**The problem.** Let M_T sum the inner table x to the table T, and y_T = M_T x + noise of variance σ_T² be measured.
The fit minimizes Σ_T |y_T − M_T x|² / σ_T². Its normal equations are H x = Σ_T M_Tᵀ y_T / σ_T², H = Σ_T M_TᵀM_T / σ_T².

**The closed form.** For a subset S of the variables let P_S be the product over the variables of I − J/n for those in S
and J/n for the others, where J is the n × n matrix of ones: the projection on the interaction of S (analysis of
variance). The P_S are orthogonal and add up to I. M_TᵀM_T is the product of I for the variables in T and J for the
others; as J(I − J/n) = 0 and J·J/n = n·J/n, it multiplies the interaction S by c_T, the product of the sizes outside T,
if S is part of T, and by 0 otherwise. So

    H = Σ_S λ_S P_S with λ_S = Σ_{T ⊇ S} c_T / σ_T²,   and   H⁻¹ = Σ_S P_S / λ_S,

which is the covariance matrix of the fit (Gauss and Markov; the inner table is measured, so no λ_S is 0).

For a *product query*, q = the product of one vector v_i for each variable, such as a margin's cell or the sum over
chosen categories, qᵀP_S q is the product of |v_i|² − (Σv_i)²/n_i for i in S and (Σv_i)²/n_i for the others. So its
variance qᵀH⁻¹q takes 2^k terms.

**The calculation.** All tables fit into one array with an additional place on each axis for the sum over the axis.
`_join` adds that place to all others of its axis, which is Mᵀ for one variable; `_split` takes an axis apart into
deviations and their mean. H⁻¹ is: split all axes, divide each interaction by its λ, join all axes.

**Structural zeros** are removed from x; the fit then has no closed form. The reduced normal equations are solved by
conjugate gradients, preconditioned by the closed form. The variance of a query is then at most the variance of the
closed form: it is the least value of qᵀH⁻¹q over all values that q can have at the zeros.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.sampling.noise import Distribution
from mechanisms.table_builder.hypercube import Hypercube, Table

ACCURACY = 1e-11
"""The largest residual of the reduced normal equations, relative to the right-hand side, in the norm of H⁻¹."""

ITERATIONS = 10_000
"""The iterations after which the fit gives up: a hundred times as many as the tested masks need."""

Floats = NDArray[np.float64]


class Term(NamedTuple):
    """Independent noises with one distribution and one coefficient in a linear combination."""

    noise: Distribution
    coefficient: float
    times: int


class NotFittedError(ArithmeticError):
    """Conjugate gradients that did not converge."""


@dataclass(frozen=True)
class Fit:
    """The fit of one hypercube. `possible` marks the inner cells that are not structural zeros; None without structural
    zeros."""

    hypercube: Hypercube
    possible: NDArray[np.bool_] | None = None

    def inner(self, measured: Mapping[Table, NDArray[np.int64]]) -> Floats:
        """The fitted inner table, in steps of the grid like the measurements, of shape `hypercube.shape(table)`. Raises
        NotFittedError if there are structural zeros and conjugate gradients do not converge."""
        right = self._weigh(measured)
        if self.possible is None:
            return self._through(right, self.inverse)
        return self._reduced(right, self.possible)

    def interactions(self, measured: Mapping[Table, NDArray[np.int64]]) -> Iterator[Floats]:
        """By subset S of the variables, P_S of the fitted inner table, if there are no structural zeros. Further axes
        of the measurements, behind those of the tables, stay. The errors of different interactions are uncorrelated;
        those of one have the covariances P_S/λ_S, with the `inverse` of λ_S."""
        right = self._weigh(measured)
        cube = self._each_axis(_split, right)
        for inside, factor in zip(self._subsets, self.inverse, strict=True):
            pairs = zip(inside, self._sizes, strict=True)
            place = tuple(slice(size) if taken else slice(size, size + 1) for taken, size in pairs)
            yield np.broadcast_to(cube[place] * factor, right.shape)

    def variance(self, weights: Mapping[str, Floats]) -> float:
        """The variance of a product query of the fitted inner table; with structural zeros, an upper bound of it. By
        variable, `weights` has a vector with a weight for each category; other variables are summed over."""
        pairs = zip(self.norms(weights), self._eigenvalues, strict=True)
        return float(sum(norm / eigenvalue for norm, eigenvalue in pairs))

    def norms(self, weights: Mapping[str, Floats]) -> list[float]:
        """qᵀP_S q of a product query by subset S."""
        squares, sums = np.ones(len(self._sizes)), np.ones(len(self._sizes))
        for place, (name, size) in enumerate(self.hypercube.sizes.items()):
            vector = np.asarray(weights.get(name, np.ones(size)), dtype=np.float64)
            sums[place] = vector.sum() ** 2 / size
            squares[place] = max(0.0, float(vector @ vector) - sums[place]) if size > 1 else 0.0
        return [float(np.where(inside, squares, sums).prod()) for inside in self._subsets]

    def error(self, chosen: Sequence[int]) -> Iterator[Term]:
        """The error of a sum of fitted cells, as a linear combination of the measurements' noises. By variable, in the
        hypercube's order, `chosen` has the number of categories added up, at least one.

        The coefficient of the cell c of y_T is 1/σ_T² times (M_T H⁻¹ q)_c. It depends only on whether c is among the
        chosen categories of each variable, so there are at most 3^k different ones.
        """
        inverse = np.array(self.inverse).reshape((2,) * len(chosen))
        for table in self.hypercube.tables:
            coefficients, times = inverse * self._precision[table], np.ones((1,) * len(chosen), dtype=np.int64)
            for axis, (name, size) in enumerate(self.hypercube.sizes.items()):
                share, some = chosen[axis] / size, chosen[axis]
                if name in table:
                    deviations = np.array([[share, -share], [share, 1 - share]])
                    counts = np.array([size - some, some])
                else:
                    deviations, counts = np.array([[some, 0.0]]), np.array([1])
                coefficients = np.moveaxis(np.tensordot(deviations, coefficients, (1, axis)), 0, axis)
                times = times * np.expand_dims(counts, tuple(place for place in range(len(chosen)) if place != axis))
            noise = self.hypercube.distribution(table)
            for coefficient, count in zip(coefficients.ravel().tolist(), times.ravel().tolist(), strict=True):
                if count and coefficient:
                    yield Term(noise, coefficient, count)

    @property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(self.hypercube.sizes.values())

    @cached_property
    def _precision(self) -> dict[Table, float]:
        """1 / σ_T² by measured table."""
        noise = self.hypercube.distribution
        return {table: 1 / float(noise(table).exact_variance) for table in self.hypercube.tables}

    @cached_property
    def _subsets(self) -> list[tuple[bool, ...]]:
        """By subset S of the variables, whether it has each variable."""
        return list(product((False, True), repeat=len(self._sizes)))

    @cached_property
    def _eigenvalues(self) -> list[float]:
        """λ_S by subset."""
        inner = self.hypercube.cells(self.hypercube.inner)
        return [
            sum(
                self._precision[table] * (inner // self.hypercube.cells(table))
                for table in self.hypercube.tables
                if set(table).issuperset(compress(self.hypercube.sizes, inside))
            )
            for inside in self._subsets
        ]

    @cached_property
    def inverse(self) -> list[float]:
        """1/λ_S by subset."""
        return [1 / eigenvalue for eigenvalue in self._eigenvalues]

    def _weigh(self, measured: Mapping[Table, NDArray[np.int64]]) -> Floats:
        """The right-hand side Σ_T M_Tᵀ y_T / σ_T²."""
        further = np.shape(measured[self.hypercube.inner])[len(self._sizes) :]
        cube = np.zeros((*(size + 1 for size in self._sizes), *further))
        for table in self.hypercube.tables:
            counts = np.asarray(measured[table], dtype=np.float64)
            if self.possible is not None:
                counts = np.where(self.hypercube.margin(self.possible, table), counts, 0.0)
            place = tuple(slice(size) if name in table else size for name, size in self.hypercube.sizes.items())
            cube[place] = counts * self._precision[table]
        return self._each_axis(_join, cube)

    def _each_axis(self, change: Callable[[Floats, int], Floats], array: Floats) -> Floats:
        for axis in range(len(self._sizes)):
            array = change(array, axis)
        return array

    def _through(self, inner: Floats, factors: list[float]) -> Floats:
        """Σ_S f_S P_S, applied to an inner table."""
        cube = self._each_axis(_split, inner)
        for inside, factor in zip(self._subsets, factors, strict=True):
            place = (slice(size) if taken else size for taken, size in zip(inside, self._sizes, strict=True))
            cube[tuple(place)] *= factor
        return self._each_axis(_join, cube)

    def _reduced(self, right: Floats, possible: NDArray[np.bool_]) -> Floats:
        """The solution of H x = right in which all impossible cells are 0."""

        def within(inner: Floats, factors: list[float]) -> Floats:
            return np.where(possible, self._through(inner, factors), 0.0)

        residual = np.where(possible, right, 0.0)
        fitted = np.zeros_like(residual)
        better = within(residual, self.inverse)
        direction, size = better, float((residual * better).sum())
        enough = ACCURACY**2 * size
        for _ in range(ITERATIONS):
            if size <= enough:
                return fitted
            image = within(direction, self._eigenvalues)
            pace = size / float((direction * image).sum())
            fitted = fitted + pace * direction
            residual = residual - pace * image
            better = within(residual, self.inverse)
            size, before = float((residual * better).sum()), size
            direction = better + size / before * direction
        raise NotFittedError(f"the fit under structural zeros did not converge in {ITERATIONS:,} iterations")


def _join(array: Floats, axis: int) -> Floats:
    """The last place of an axis, added to all others."""
    parts, whole = np.split(array, [array.shape[axis] - 1], axis=axis)
    return parts + whole


def _split(array: Floats, axis: int) -> Floats:
    """The deviations from the mean of an axis, with the mean in a last place."""
    mean = array.mean(axis=axis, keepdims=True)
    return np.concatenate([array - mean, mean], axis=axis)
