"""A histogram in components on which every marginal query acts as a small matrix, and the arithmetic of such matrices.

`information` uses it to follow the estimates up and down the tree; `least_squares` has the objective that it gives.
They define the measurements and select those of a place.

The attributes are split in two. The *kept* ones have bounds, are part of an impossible combination or are recoded. The
others, the *summed* ones, are queried whole or summed out. With n_b codes of the summed attribute b and J the matrix of
ones, the projectors

    P_S = ⊗_{b in S} (I − J/n_b) ⊗_{b not in S} J/n_b,    for every set S of summed attributes,

are orthogonal and add up to I. A query's normal matrix is Σ_S κ(S) MᵀM ⊗ P_S, where M has a row of 0 and 1 over the
combinations of the kept attributes for each of its answers, and κ(S) is the product of n_b over the attributes that it
sums out, or 0 if one of them is in S. So every matrix here has the form Σ_S M_S ⊗ P_S, given by its M_S, and sums,
products and inverses act on the M_S one by one. The bits of a set's number are its attributes.

Results determine published bytes. Therefore everything is written as plain loops in a fixed order, which give equal
results on all machines, unlike LAPACK and BLAS.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mechanisms.topdown.schema import TOTAL, Marginal, Schema

Floats = NDArray[np.float64]

_NONE = 1e-10
"""Eigenvalues of a covariance that are smaller than this, relative to the largest, are 0: the directions in which fixed
totals leave no choice. Rounding errors turn them into up to 1e-13, and permitted designs have no others below 1e-8."""

_SWEEPS = 60


@dataclass(frozen=True)
class Decomposition:
    """The split of a schema's attributes; all arrays here have the shape (…, kept combinations, summed combinations),
    or for a matrix, (…, sets, kept combinations, kept combinations)."""

    schema: Schema

    @cached_property
    def _names(self) -> tuple[list[str], list[str]]:
        schema = self.schema
        apart = {schema.bounded, *(recode.attribute for recode in schema.recodes)}.union(*schema.impossible)
        names = [attribute.name for attribute in schema.attributes]
        return [name for name in names if name in apart], [name for name in names if name not in apart]

    @property
    def names_of_summed(self) -> list[str]:
        return self._names[1]

    @cached_property
    def kept(self) -> Marginal:
        return self.schema.marginal(" * ".join(self._names[0]) or TOTAL)

    @cached_property
    def summed(self) -> Marginal:
        return self.schema.marginal(" * ".join(self._names[1]) or TOTAL)

    @cached_property
    def codes(self) -> tuple[int, ...]:
        """The number of codes of each summed attribute; the bit of the first is 1."""
        sizes = {attribute.name: attribute.size for attribute in self.schema.attributes}
        return tuple(sizes[name] for name in self._names[1])

    @cached_property
    def divisors(self) -> Floats:
        """Shape (sets,): for each set U of summed attributes, the product of their numbers of codes."""
        sets = range(1 << len(self.codes))
        return np.array([prod(n for bit, n in enumerate(self.codes) if own >> bit & 1) for own in sets], np.float64)

    @cached_property
    def spread(self) -> NDArray[np.int64]:
        """Shape (sets, summed combinations): for each set U, the marginal cell of each combination if U is summed out,
        numbered from 0."""
        codes = np.indices(self.codes or (1,)).reshape(max(len(self.codes), 1), -1)
        spread = np.zeros((len(self.divisors), self.summed.size), dtype=np.int64)
        for own in range(len(spread)):
            for bit, size in enumerate(self.codes):
                if not own >> bit & 1:
                    spread[own] = spread[own] * size + codes[bit]
        return spread

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """Shape (kept combinations,): the group whose counts have bounds, as in `Schema.groups`."""
        groups = np.zeros(self.kept.size, dtype=np.int64)
        groups[self.kept.cells] = self.schema.groups.cells
        return groups

    @cached_property
    def possible(self) -> NDArray[np.bool_]:
        possible = np.zeros(self.kept.size, dtype=np.bool_)
        possible[self.kept.cells] = self.schema.possible
        return possible

    def find_present(self, upper: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Shape (places, kept combinations): the combinations possible in places whose groups have these upper
        bounds."""
        return self.possible & np.take(upper > 0, self.groups, axis=1)

    def arrange(self, histograms: NDArray[np.float64]) -> Floats:
        """Histograms of shape (places, cells) by kept and summed combination."""
        arranged = np.empty((len(histograms), self.kept.size, self.summed.size))
        arranged[:, self.kept.cells, self.summed.cells] = histograms
        return arranged

    def add_precisions(self, queries: Iterable[tuple[str, float]]) -> Floats:
        """The matrix QᵀΣ⁻¹Q of queries by name, with their precisions 1/σ²."""
        matrices = np.zeros((len(self.divisors), self.kept.size, self.kept.size))
        one = np.zeros(self.kept.size, dtype=np.int64)
        one[self.kept.cells[::-1]] = np.arange(self.schema.size)[::-1]
        for name, precision in queries:
            query = self.schema.marginal(name)
            together = query.cells[one][:, None] == query.cells[one]
            out = sum(1 << bit for bit, attribute in enumerate(self._names[1]) if attribute not in query.involved)
            for own in range(len(matrices)):
                if not own & out:
                    matrices[own] += precision * self.divisors[out] * together
        return matrices


@dataclass(frozen=True)
class Information:
    """The information that measurements give about some places, in order: the best linear unbiased estimates of their
    histograms, and the estimates' covariances.

    Attributes:
        present: shape (places, kept combinations): the combinations possible in each place. The other estimates and
            covariances are 0.
        estimate: shape (places, kept combinations, summed combinations).
        variance: shape (places, sets, kept combinations, kept combinations).
    """

    present: NDArray[np.bool_]
    estimate: Floats
    variance: Floats

    def __post_init__(self) -> None:
        """One type and layout, so that kernels are compiled only once."""
        for name, values in vars(self).items():
            object.__setattr__(self, name, np.require(values, requirements=["C", "W"]))

    def between(self, first: int, last: int) -> "Information":
        return Information(self.present[first:last], self.estimate[first:last], self.variance[first:last])

    @staticmethod
    def concatenate(parts: Sequence["Information"]) -> "Information":
        """The information about the places of all parts."""
        return Information(*map(np.concatenate, zip(*(vars(part).values() for part in parts), strict=True)))


@njit(cache=True, nogil=True)
def list_present(present):  # type: ignore[no-untyped-def]
    """The positions of a place's kept combinations."""
    rows = np.empty(present.size, dtype=np.int64)
    count = 0
    for row in range(present.size):
        if present[row]:
            rows[count] = row
            count += 1
    return rows[:count]


@njit(cache=True, nogil=True)
def take(matrix, rows):  # type: ignore[no-untyped-def]
    taken = np.empty((rows.size, rows.size))
    for i in range(rows.size):
        for j in range(rows.size):
            taken[i, j] = matrix[rows[i], rows[j]]
    return taken


@njit(cache=True, nogil=True)
def take_all(matrices, rows):  # type: ignore[no-untyped-def]
    taken = np.empty((matrices.shape[0], rows.size, rows.size))
    for own in range(matrices.shape[0]):
        taken[own] = take(matrices[own], rows)
    return taken


@njit(cache=True, nogil=True)
def product(first, second):  # type: ignore[no-untyped-def]
    """The product of two matrices."""
    result = np.zeros((first.shape[0], second.shape[1]))
    for i in range(first.shape[0]):
        for k in range(first.shape[1]):
            if first[i, k] != 0.0:
                for j in range(second.shape[1]):
                    result[i, j] += first[i, k] * second[k, j]
    return result


@njit(cache=True, nogil=True)
def invert(matrix):  # type: ignore[no-untyped-def]
    """The inverse of a regular matrix, by Gauss and Jordan's elimination with the largest pivot of each column."""
    n = matrix.shape[0]
    left = matrix.copy()
    right = np.eye(n)
    for column in range(n):
        pivot = column
        for row in range(column + 1, n):
            if abs(left[row, column]) > abs(left[pivot, column]):
                pivot = row
        if pivot != column:
            for k in range(n):
                left[column, k], left[pivot, k] = left[pivot, k], left[column, k]
                right[column, k], right[pivot, k] = right[pivot, k], right[column, k]
        scale = 1.0 / left[column, column]
        for k in range(n):
            left[column, k] *= scale
            right[column, k] *= scale
        for row in range(n):
            factor = left[row, column]
            if row != column and factor != 0.0:
                for k in range(n):
                    left[row, k] -= factor * left[column, k]
                    right[row, k] -= factor * right[column, k]
    return right


@njit(cache=True, nogil=True)
def find_eigenvalues(matrix):  # type: ignore[no-untyped-def]
    """The eigenvalues and, in columns, the eigenvectors of a symmetric matrix, by Jacobi's rotations."""
    n = matrix.shape[0]
    a = matrix.copy()
    vectors = np.eye(n)
    most = 0.0
    for i in range(n):
        for j in range(n):
            most = max(most, abs(a[i, j]))
    for _ in range(_SWEEPS):
        turned = False
        for p in range(n - 1):
            for q in range(p + 1, n):
                if abs(a[p, q]) <= 1e-18 * most:
                    continue
                turned = True
                angle = (a[q, q] - a[p, p]) / (2.0 * a[p, q])
                t = 1.0 / (abs(angle) + np.sqrt(angle * angle + 1.0))
                if angle < 0.0:
                    t = -t
                c = 1.0 / np.sqrt(t * t + 1.0)
                s = t * c
                for k in range(n):
                    left, right = a[k, p], a[k, q]
                    a[k, p] = c * left - s * right
                    a[k, q] = s * left + c * right
                    left, right = vectors[k, p], vectors[k, q]
                    vectors[k, p] = c * left - s * right
                    vectors[k, q] = s * left + c * right
                for k in range(n):
                    left, right = a[p, k], a[q, k]
                    a[p, k] = c * left - s * right
                    a[q, k] = s * left + c * right
                a[p, q] = 0.0
                a[q, p] = 0.0
        if not turned:
            break
    values = np.empty(n)
    for i in range(n):
        values[i] = a[i, i]
    return values, vectors


@njit(cache=True, nogil=True)
def invert_covariance(matrix, scale, fill):  # type: ignore[no-untyped-def]
    """The pseudo-inverse of a covariance, with its least and its greatest eigenvalue that are not 0, or inf and 0.
    Variances that are negligible relative to `scale`, or to the largest one, are 0. If `fill`, these directions have
    the geometric mean of the two eigenvalues in the inverse, unless there are none."""
    n = matrix.shape[0]
    values, vectors = find_eigenvalues(matrix)
    for value in values:
        scale = max(scale, value)
    least, greatest = np.inf, 0.0
    for i in range(n):
        if values[i] > _NONE * scale:
            values[i] = 1.0 / values[i]
            least, greatest = min(least, values[i]), max(greatest, values[i])
        else:
            values[i] = 0.0
    if fill and greatest > 0.0:
        for i in range(n):
            if values[i] == 0.0:
                values[i] = np.sqrt(least) * np.sqrt(greatest)
    inverse = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            for k in range(n):
                inverse[i, j] += vectors[i, k] * values[k] * vectors[j, k]
            inverse[j, i] = inverse[i, j]
    return inverse, least, greatest


@njit(cache=True, nogil=True)
def to_terms(matrices, divisors):  # type: ignore[no-untyped-def]
    """Σ_S M_S ⊗ P_S as Σ_U A_U ⊗ (J for each attribute of U, I for the others). The last two dimensions of `matrices`
    are the M_S of each set S in turn; the result has A_U of each set U in turn, where A_U = Π_{b in U} 1/n_b ·
    Σ_{W within U} (−1)^(|U| − |W|) M of all attributes except W."""
    sets, n = matrices.shape[0], matrices.shape[1]
    terms = np.zeros((sets, n, n))
    for own in range(sets):
        for within in range(sets):
            if within & own != within:
                continue
            rest, sign = own ^ within, 1.0
            while rest:
                rest &= rest - 1
                sign = -sign
            other = sets - 1 ^ within
            for i in range(n):
                for j in range(n):
                    terms[own, i, j] += sign * matrices[other, i, j]
        for i in range(n):
            for j in range(n):
                terms[own, i, j] /= divisors[own]
    return terms


@njit(cache=True, nogil=True)
def add_product(terms, rows, x, spread, result):  # type: ignore[no-untyped-def]
    """Add the product of a matrix, by its terms over some rows, and the rows of x to those of the result."""
    summed = x.shape[1]
    sums = np.empty((rows.size, summed))
    image = np.empty(summed)
    for own in range(terms.shape[0]):
        size = spread[own, summed - 1] + 1
        sums[:, :size] = 0.0
        for k in range(rows.size):
            for j in range(summed):
                sums[k, spread[own, j]] += x[rows[k], j]
        for i in range(rows.size):
            image[:size] = 0.0
            for k in range(rows.size):
                factor = terms[own, i, k]
                if factor != 0.0:
                    for j in range(size):
                        image[j] += factor * sums[k, j]
            for j in range(summed):
                result[rows[i], j] += image[spread[own, j]]
