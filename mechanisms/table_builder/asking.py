"""The answer to a question for a sub-table, from the published tables of a hypercube, with its error.

The answer depends only on published numbers and declared noise, so it is the same for everyone and costs no budget.
Every cell of the sub-table is a sum of published cells.

- `summed`: of inner cells.
- `independent`: of cells of the measured table that gives the least variance, which follows from the declared noise
  and structural zeros, never from the values.
- `fitted`: of fitted inner cells, whose errors depend on each other; `fitting` has their variance.

The intervals contain the true number in at least 90% of draws (`intervals`). For fitted cells under structural zeros
they follow from Chebyshev's inequality and from an upper bound of the variance, so they cover more. So do the intervals
of p-tables, with the variance and the bias of their widest rows; standard errors include the bias. If no record can add
less than 0, negative numbers are removed from an interval; an interval that would then be empty is 0 alone.

**Means** are quotients of two sub-tables from different hypercubes, such as an income sum by a weighted count. Their
interval is a confidence set of Fieller (1954): the ratios r that the noisy pair (N, D) does not contradict. For the
true ratio, N − rD is noise alone, whose variance is V(r) = V_N + r²V_D. A ratio is in the set if (N − rD)² <= z²V(r).
The set covers every true ratio in at least 90% of draws if |noise| <= z·√V has at least that probability. Stirred takes
the greatest such z over a grid of ratios of the two noises, each from the exact distribution: about 1.65, and more
where noise rarely differs from 0. The set is restricted to plausible ratios, from the least to the greatest mean that
the declared bounds of a record allow, and published as the interval from its least to its greatest element. The
estimate is the plausible ratio that the pair contradicts least. It is in every set that is not empty. If the set is
empty, the interval consists of the estimate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.refusal import RefusedError, are_lists
from mechanisms.table_builder.fitting import Fit, Floats, Term
from mechanisms.table_builder.hypercube import Hypercube, Margins, Table
from mechanisms.table_builder.intervals import COVERAGE, bound, shortest_set

RATIOS = 9
"""The number of ratios of the two noises, from the numerator's alone to the denominator's alone, for which z is
computed."""

_SPARE = 1.005
"""A factor for ratios between those of the grid."""


class QuestionError(RefusedError, ValueError):
    """A question that a hypercube cannot answer. The message names the variable and the rule."""


def require_lists(by: object, where: Mapping[str, object]) -> None:
    """Raise QuestionError unless variables and categories are listed."""
    if not are_lists(by, *where.values()):
        raise QuestionError("variables and categories are given as lists")


def margin_of_one(hypercube: Hypercube, table: Table) -> float:
    """The number of steps that the noise of one cell of a measured table exceeds in at most 10% of draws."""
    if hypercube.p_table is not None:
        return float(hypercube.p_table.greatest_bias) + sqrt(float(hypercube.p_table.exact_variance) / (1 - COVERAGE))
    return -shortest_set(hypercube.distribution(table), 1)[0]


def error_of_one(hypercube: Hypercube, table: Table) -> float:
    """The standard error of one cell of a measured table, in steps; for p-tables, the widest row's, including its
    bias."""
    bias = hypercube.p_table.greatest_bias if hypercube.p_table else 0
    return sqrt(Fraction(hypercube.variance(table)) + bias**2)


@dataclass(frozen=True)
class Question:
    """A sub-table of a hypercube.

    Attributes:
        by: the variables of the sub-table, in the order of its dimensions.
        where: by variable, the places of the categories that count, from 0; all categories of other variables count.
        possible: shape of the inner table, bool: the cells that are not structural zeros; None if all are possible.

    Raises QuestionError for variables and categories that do not exist, are repeated, or are missing.
    """

    hypercube: Hypercube
    by: Table = ()
    where: Mapping[str, Sequence[int]] = field(default_factory=dict)
    possible: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        for name in (*self.by, *self.where):
            if name not in self.hypercube.sizes:
                raise QuestionError(f"{name}: the hypercube is by {', '.join(self.hypercube.sizes)}")
        if len(set(self.by)) < len(self.by):
            raise QuestionError("a sub-table names each variable once")
        for name, places in self.where.items():
            if not places:
                raise QuestionError(f"{name}: at least one category counts")
            if len(set(places)) < len(places):
                raise QuestionError(f"{name}: a category is named twice")
            if not all(0 <= place < self.hypercube.sizes[name] for place in places):
                raise QuestionError(f"{name}: the hypercube does not have all of these categories")

    @cached_property
    def chosen(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(self.where.get(name, range(size))) for name, size in self.hypercube.sizes.items()}

    @cached_property
    def source(self) -> Table:
        """The published table that answers with the least sum of variances; of equal ones, the smaller."""
        if self.hypercube.margins is not Margins.INDEPENDENT:
            return self.hypercube.inner
        needed = {*self.by, *(name for name, places in self.chosen.items() if len(places) < self.hypercube.sizes[name])}
        able = [table for table in self.hypercube.tables if needed <= set(table)]
        return min(reversed(able), key=self._variance_from)

    def answer(self, published: Mapping[Table, NDArray[Any]]) -> "Answer":
        """The sub-table in steps of the grid, from the table `source`: its noisy counts, or fitted ones."""
        values = self.sums(published)
        variance, least, greatest = self._errors
        lower, upper = values - greatest, values - least
        if self.hypercube.least >= 0:
            lower, upper = np.maximum(lower, 0), np.maximum(upper, 0)
        return Answer(self, values, variance, lower, upper)

    def sums(self, published: Mapping[Table, NDArray[Any]]) -> NDArray[Any]:
        """By cell of the sub-table, the sum of published cells of the table `source`, in their unit."""
        values = np.asarray(published[self.source])
        if self.possible is not None:
            values = np.where(self.hypercube.margin(self.possible, self.source), values, 0)
        return self.add_up(self.source, values)

    @cached_property
    def cells(self) -> NDArray[np.int64]:
        """By cell of the sub-table, the number of published cells in its sum that are not structural zeros."""
        return self._cells_of(self.source)

    def error(self, cells: int) -> tuple[Term, ...] | None:
        """The error of a cell as a linear combination of noises; None if only its variance is known."""
        if not cells:
            return ()
        if self.hypercube.p_table is not None:
            return None
        if self.hypercube.margins is not Margins.FITTED:
            return (Term(self.hypercube.distribution(self.source), 1.0, cells),)
        if self.possible is not None:
            return None
        return tuple(self._fit.error([1 if name in self.by else len(places) for name, places in self.chosen.items()]))

    @cached_property
    def _errors(self) -> tuple[Floats, NDArray[Any], NDArray[Any]]:
        """The variance of every cell, and the least and the greatest error of its set."""
        counts = self.cells
        if self.hypercube.margins is Margins.FITTED:
            variance = np.where(counts > 0, self._fitted_variance, 0.0)
            error = self.error(int(counts.max(initial=0)))
            most = bound(error) if error is not None else sqrt(self._fitted_variance / (1 - COVERAGE))
            greatest = np.where(counts > 0, most, 0.0)
            return variance, -greatest, greatest
        if self.hypercube.p_table is not None:
            variance = counts * float(self.hypercube.p_table.exact_variance)
            bias = counts * float(self.hypercube.p_table.greatest_bias)
            most = bias + np.sqrt(variance / (1 - COVERAGE))
            return np.asarray(variance + bias**2), np.asarray(-most), np.asarray(most)
        noise = self.hypercube.distribution(self.source)
        different, which = np.unique(counts, return_inverse=True)
        sets = np.array([shortest_set(noise, count) if count else (0, 0) for count in different.tolist()])
        least, greatest = sets.reshape(-1, 2)[which.reshape(counts.shape)].transpose((-1, *range(counts.ndim)))
        return np.asarray(counts * float(noise.exact_variance)), least, greatest

    @cached_property
    def weights(self) -> dict[str, Floats]:
        """By variable, the weights of its categories in a cell of the sub-table, the same for all cells except for
        their order."""
        weights = {name: np.zeros(size) for name, size in self.hypercube.sizes.items()}
        for name, places in self.chosen.items():
            weights[name][list(places[:1] if name in self.by else places)] = 1.0
        return weights

    @cached_property
    def _fitted_variance(self) -> float:
        return self._fit.variance(self.weights)

    @cached_property
    def _fit(self) -> Fit:
        return Fit(self.hypercube, self.possible)

    def _variance_from(self, table: Table) -> Fraction:
        counts, p_table = self._cells_of(table), self.hypercube.p_table
        squared_bias = int((counts**2).sum()) * p_table.greatest_bias**2 if p_table else 0
        return int(counts.sum()) * Fraction(self.hypercube.variance(table)) + squared_bias

    def _cells_of(self, table: Table) -> NDArray[np.int64]:
        possible = np.ones(self.hypercube.shape(table), dtype=np.int64)
        if self.possible is not None:
            possible = self.hypercube.margin(self.possible, table).astype(np.int64)
        return self.add_up(table, possible)

    def add_up(self, table: Table, values: NDArray[Any]) -> NDArray[Any]:
        """By cell of the sub-table, the sum of the cells of a table; further axes, behind the table's, stay."""
        picked = values[np.ix_(*(self.chosen[name] for name in table))]
        summed = picked.sum(axis=tuple(place for place, name in enumerate(table) if name not in self.by))
        kept = [name for name in table if name in self.by]
        further = range(len(kept), np.ndim(summed))
        return np.asarray(summed).transpose([*(kept.index(name) for name in self.by), *further])


@dataclass(frozen=True)
class Answer:
    """A sub-table with its errors, in steps of the hypercube's grid. Arrays have one axis for each variable of `by`.

    Values are the sums of published cells, int64, or float64 of fitted ones; possibly negative. The variance is an
    upper bound for fitted cells under structural zeros; for p-tables, some of which change the mean, it is an upper
    bound of the mean squared error. The limits are those of the 90% interval.
    """

    question: Question
    values: NDArray[Any]
    variance: Floats
    lower: NDArray[Any]
    upper: NDArray[Any]

    @property
    def standard_error(self) -> Floats:
        return np.sqrt(self.variance)


@dataclass(frozen=True)
class Means:
    """Means with their intervals, in steps of the numerator's grid for one step of the denominator's."""

    estimate: Floats
    lower: Floats
    upper: Floats


def means(numerator: Answer, denominator: Answer, least: float, most: float) -> Means:
    """The mean of every cell of two sub-tables with the same cells, from the least to the greatest plausible ratio.
    They are from different hypercubes, so their noises are independent."""
    if numerator.values.shape != denominator.values.shape:
        raise ValueError("numerator and denominator are sub-tables with the same cells")
    if not least <= most < np.inf or least == -np.inf:
        raise ValueError("plausible ratios are from a least one to a greatest one that is not below it")
    above, below = numerator.values.astype(np.float64), denominator.values.astype(np.float64)
    above_variance, below_variance = numerator.variance, denominator.variance
    squared = _factors(numerator, denominator) ** 2

    def contradiction(ratio: Floats) -> Floats:
        variance = above_variance + ratio**2 * below_variance
        distance = (above - ratio * below) ** 2
        return np.where(
            variance > 0, distance / np.where(variance > 0, variance, 1.0), np.where(distance > 0, np.inf, 0.0)
        )

    exact = np.divide(above, below, out=np.full_like(above, least), where=below != 0)
    candidates = np.stack([np.clip(exact, least, most), np.full_like(above, least), np.full_like(above, most)])
    best = np.argmin(np.stack([contradiction(ratio) for ratio in candidates]), axis=0)
    estimate = np.take_along_axis(candidates, best[None], axis=0)[0]

    # The ends of the set are plausible limits, or roots of a·r² − 2b·r + c = 0. The discriminant b² − a·c is written
    # without the terms that cancel.
    a, b, c = below**2 - squared * below_variance, above * below, above**2 - squared * above_variance
    discriminant = squared * (
        above_variance * below**2 + below_variance * above**2 - squared * above_variance * below_variance
    )
    larger = b + np.copysign(np.sqrt(np.maximum(discriminant, 0.0)), b)
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = [larger / a, c / larger]
    ends = [(limit, contradiction(limit) <= squared) for limit in candidates[1:]]
    ends += [(root, (discriminant >= 0) & (root >= least) & (root <= most)) for root in roots]
    lower, upper = estimate, estimate
    for end, belongs in ends:
        lower = np.where(belongs, np.minimum(lower, end), lower)
        upper = np.where(belongs, np.maximum(upper, end), upper)
    return Means(estimate, lower, upper)


def _factors(numerator: Answer, denominator: Answer) -> Floats:
    """z of every cell: it depends only on the numbers of published cells in numerator and denominator."""
    pairs = np.stack([numerator.question.cells.ravel(), denominator.question.cells.ravel()])
    different, which = np.unique(pairs, axis=1, return_inverse=True)
    factors = [
        _factor(numerator.question.error(one), denominator.question.error(other)) for one, other in different.T.tolist()
    ]
    return np.array(factors)[which.reshape(-1)].reshape(numerator.values.shape)


@lru_cache(maxsize=1024)
def _factor(above: tuple[Term, ...] | None, below: tuple[Term, ...] | None) -> float:
    """The greatest bound of the combined noise, in standard deviations, for all ratios of the two noises."""
    if above is None or below is None:
        return sqrt(1 / (1 - COVERAGE))
    above, below = _standardized(above), _standardized(below)
    angles = np.linspace(0, np.pi / 2, RATIOS) if above and below else [0.0 if above else np.pi / 2]
    return _SPARE * max(bound([*_times(above, np.cos(angle)), *_times(below, np.sin(angle))]) for angle in angles)


def _standardized(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    variance = sum(term.times * term.coefficient**2 * float(term.noise.exact_variance) for term in terms)
    return _times(terms, 1 / sqrt(variance)) if terms else ()


def _times(terms: tuple[Term, ...], factor: float) -> tuple[Term, ...]:
    return tuple(Term(term.noise, factor * term.coefficient, term.times) for term in terms)
