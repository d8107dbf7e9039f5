"""The answer to a question for a sub-table, from the published tables of a hypercube, with its error.

The answer follows from published numbers and declared noise alone, so it is the same for everyone and costs no budget.
Every cell of the sub-table is a sum of published cells.

- `summed`: of inner cells.
- `independent`: of cells of the measured table that gives the least variance, which follows from the declared noise
  and structural zeros, never from the values.
- `fitted`: of fitted inner cells, whose errors depend on each other; `fitting` has their variance.

The intervals contain the true number in at least 90% of draws (`intervals`). For fitted cells under structural zeros
they follow from Chebyshev's inequality and from an upper bound of the variance, so they cover more. So do the intervals
of p-tables, with the variance and the bias of their widest rows; standard errors include the bias. If no record can add
less than 0, negative numbers are left out of an interval; it is 0 alone if nothing else is left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.refusal import RefusedError
from mechanisms.table_builder.fitting import Fit, Floats, Term
from mechanisms.table_builder.hypercube import Hypercube, Margins, Table
from mechanisms.table_builder.intervals import COVERAGE, bound, shortest_set


class QuestionError(RefusedError, ValueError):
    """A question that a hypercube cannot answer. The message names the variable and the rule."""


def margin_of_one(hypercube: Hypercube, table: Table) -> float:
    """A number of steps that the noise of one cell of a measured table exceeds in at most 10% of draws."""
    if hypercube.p_table is not None:
        return float(hypercube.p_table.greatest_bias) + sqrt(float(hypercube.p_table.exact_variance) / (1 - COVERAGE))
    return -shortest_set(hypercube.distribution(table), 1)[0]


def error_of_one(hypercube: Hypercube, table: Table) -> float:
    """The standard error of one cell of a measured table, in steps; that of a p-table's widest row, bias included."""
    bias = hypercube.p_table.greatest_bias if hypercube.p_table else 0
    return sqrt(Fraction(hypercube.variance(table)) + bias**2)


@dataclass(frozen=True)
class Question:
    """A sub-table of a hypercube.

    Attributes:
        by: the variables of the sub-table, in the order of its dimensions.
        where: by variable, the places of the categories that count, from 0; all categories of other variables count.
        possible: shape of the inner table, bool: the cells that are no structural zeros; None if all are possible.

    Raises:
        QuestionError: for variables and categories that the hypercube does not have, are named twice, or are none.
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
        """The published table that answers with the least sum of variances, and of equal ones the smaller."""
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
        """By cell of the sub-table, the sum of published cells of the table `source`, in whatever unit they are."""
        values = np.asarray(published[self.source])
        if self.possible is not None:
            values = np.where(self.hypercube.margin(self.possible, self.source), values, 0)
        return self._add_up(self.source, values)

    @cached_property
    def cells(self) -> NDArray[np.int64]:
        """By cell of the sub-table, how many published cells that are no structural zeros are added up."""
        return self._cells_of(self.source)

    def error(self, cells: int) -> tuple[Term, ...] | None:
        """The error of a cell as a linear combination of noises; None if it is not known, only its variance."""
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
    def _fitted_variance(self) -> float:
        weights = {name: np.zeros(size) for name, size in self.hypercube.sizes.items()}
        for name, places in self.chosen.items():
            weights[name][list(places[:1] if name in self.by else places)] = 1.0
        return self._fit.variance(weights)

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
        return self._add_up(table, possible)

    def _add_up(self, table: Table, values: NDArray[Any]) -> NDArray[Any]:
        picked = values[np.ix_(*(self.chosen[name] for name in table))]
        summed = picked.sum(axis=tuple(place for place, name in enumerate(table) if name not in self.by))
        kept = [name for name in table if name in self.by]
        return np.asarray(summed).transpose([kept.index(name) for name in self.by])


@dataclass(frozen=True)
class Answer:
    """A sub-table with its errors, in steps of the hypercube's grid. Arrays have one axis for each variable of `by`.

    Attributes:
        values: the sums of published cells, int64, or float64 of fitted ones; possibly negative.
        variance: an upper bound of it for fitted cells under structural zeros; for p-tables, an upper bound of the mean
            squared error, as some change the mean.
        lower, upper: the limits of the 90% interval.
    """

    question: Question
    values: NDArray[Any]
    variance: Floats
    lower: NDArray[Any]
    upper: NDArray[Any]

    @property
    def standard_error(self) -> Floats:
        return np.sqrt(self.variance)
