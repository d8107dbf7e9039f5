"""Noisy counts that fit into one table, whose cells and their order follow from the declaration alone.

The cells must not depend on the values that occur, because the list of cells would then reveal something about the
records.
"""

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cached_property
from hashlib import sha256
from typing import Any, TypeVar, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.measurement.batches import Batch, BatchedCounts, find_gap
from assets.measurement.method import MEASUREMENTS, GridError
from assets.release.dataset import Size
from assets.release.gate import Gate, ReleaseContext
from assets.release.release import Release
from mechanisms.noise import Noise
from mechanisms.sampling.noise import CappedLaplace, DiscreteGaussian, DiscreteLaplace, Distribution, Perturbation
from resources.statements import SQL, Table, Zone
from resources.warehouse import Session

_IN_ORDER = SQL("measurement/in_order", "FROM {{ table }} ORDER BY draw_order")

NOISE_NAMES = {Noise.GAUSSIAN: "Discrete Gaussian", Noise.LAPLACE: "Discrete Laplace"}

DISTRIBUTIONS = {
    DiscreteGaussian: NOISE_NAMES[Noise.GAUSSIAN],
    DiscreteLaplace: NOISE_NAMES[Noise.LAPLACE],
    CappedLaplace: "Capped discrete Laplace",
}

PLACES = 18
"""The number of decimals of a published variance."""

VARIANCE = pa.decimal128(38, PLACES)

LARGEST_VARIANCE = 10**19
"""The largest variance that can be stored with 18 decimals; 64-bit integers then hold every draw."""

_ORDER, _COUNT = "draw_order", "count"


@dataclass(frozen=True)
class Query:
    """Consecutive cells of the grid whose noise has the same distribution.

    Attributes:
        distribution: the distribution of the noise of each cell.
    """

    name: str
    distribution: Distribution | Perturbation
    cells: int

    @property
    def noise(self) -> str:
        return (
            self.distribution.name
            if isinstance(self.distribution, Perturbation)
            else DISTRIBUTIONS[type(self.distribution)]
        )

    @property
    def variance(self) -> Decimal:
        """The published variance of the noise: the exact variance, rounded to 18 decimals."""
        with localcontext(prec=38):
            variance = self.distribution.exact_variance.quantize(Decimal(1).scaleb(-PLACES))
        if variance > LARGEST_VARIANCE:
            raise OverflowError(f"{self.name}: the variance of the noise exceeds {LARGEST_VARIANCE:g}")
        return variance


R = TypeVar("R", bound=Release)


class GridCounts(BatchedCounts[R, Batch]):
    """A method whose counts are one table, in the order of a grid that follows from the declaration.

    The table of counts has the columns `draw_order` (from 0), the columns of the grid, and `count`. The table of
    measurements also has `noise_distribution` and `variance`.

    A mechanism defines `queries`, `build_grid` and `counts_recipe`; this class defines the other hooks of
    `BatchedCounts`.
    """

    @abstractmethod
    def queries(self) -> Sequence[Query]:
        """The queries in the order of the draw. Together, they must have as many cells as the grid."""

    @abstractmethod
    def build_grid(self) -> pa.Table:
        """The grid: every cell of every query once, in the order of the draw, with the columns that identify a cell.

        No value of the grid is null.
        """

    @cached_property
    def grid(self) -> pa.Table:
        """The cells in the order of the draw, numbered from 0 in the column `draw_order`."""
        cells = self.build_grid()
        return cells.add_column(0, _ORDER, pa.array(np.arange(len(cells))))

    @final
    def parameters(self) -> Mapping[str, Any]:
        """The declared parameters, and a hash of what every cell is: with other cells it is another draw."""
        return {**super().parameters(), "cells": self._cells_version}

    def described_cells(self) -> Iterable[pa.Table]:
        """Tables that say what every cell is, in the order of the draw; the grid by default."""
        return [self.grid]

    @cached_property
    def measured(self) -> tuple[Query, ...]:
        """The queries in the order of the draw, computed once.

        Raises:
            ValueError: if two queries have one name: they would share one stream of noise and one distribution.
        """
        queries = tuple(self.queries())
        names = [query.name for query in queries]
        if len(set(names)) < len(names):
            raise ValueError(f"{self.release.schema}: two queries have the same name")
        return queries

    def numbers(self, size: Size) -> int:
        return sum(query.cells for query in self.measured)

    def require_chargeable(self, session: Session, /) -> None:
        """Refuse, before the charge, queries that do not make up the grid, and noise that cannot be stored."""
        if sum(query.cells for query in self.measured) != len(self.grid):
            self.release.refuse("the queries have another number of cells than the grid")
        for query in self.measured:
            try:
                query.variance  # noqa: B018 - computed here, because it may be impossible
            except ArithmeticError:
                self.release.refuse(f"{query.name}: the budget is too small; the variance of the noise is too large")

    @cached_property
    def _cells_version(self) -> str:
        digest = sha256()
        for table in self.described_cells():
            for name in table.column_names:
                texts = pc.fill_null(pc.cast(table[name], pa.string()), "\0").to_pylist()
                digest.update(json.dumps([name, str(table.schema.field(name).type), texts]).encode())
        return digest.hexdigest()

    @property
    def measurements_table(self) -> Table:
        return self.release.public(MEASUREMENTS)

    def query_names(self) -> Sequence[str]:
        return [query.name for query in self.measured]

    def distributions(self) -> Mapping[str, Distribution]:
        return {
            query.name: query.distribution
            for query in self.measured
            if not isinstance(query.distribution, Perturbation)
        }

    def exact(self, session: Session, /) -> Iterator[Batch]:
        yield from self._batches(self._read(session, self.counts_table, self.grid))

    def stored(self, session: Session, /) -> Iterator[Batch]:
        yield from self._batches(self.read_measurements(session))

    def store(self, session: Session, batches: Iterator[Batch]) -> None:
        counts = pa.concat_arrays([pa.array(batch.values) for batch in batches])
        table = session.register("drawn", self._with_noise(self.grid.append_column(_COUNT, counts)))
        session.create(self.measurements_table, _IN_ORDER, table=table)

    def slices(self, cells: pa.Table) -> Iterator[tuple[Query, pa.Table]]:
        """Cut a table in the order of the draw into its queries."""
        start = 0
        for query in self.measured:
            yield query, cells.slice(start, query.cells)
            start += query.cells

    def read_measurements(self, session: Session) -> pa.Table:
        """The stored measurements in the order of the draw.

        Raises:
            GridError: unless there is exactly one measurement of every declared cell.
        """
        return self._read(session, self.measurements_table, self._with_noise(self.grid))

    @final
    def counts_gates(self) -> Sequence[Gate[R]]:
        words = "Every declared cell is counted exactly once."
        return [*super().counts_gates(), Gate("grid_complete", self.counts_stage, words, self._find_uncounted)]

    def _find_uncounted(self, context: ReleaseContext[R]) -> list[str]:
        with context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
            return find_gap(self.exact(session))

    def _batches(self, cells: pa.Table) -> Iterator[Batch]:
        for query, part in self.slices(cells):
            yield Batch(query.name, part[_COUNT].to_numpy())

    def _with_noise(self, cells: pa.Table) -> pa.Table:
        names = [pa.repeat(query.noise, query.cells) for query in self.measured]
        variances = [pa.repeat(pa.scalar(query.variance, VARIANCE), query.cells) for query in self.measured]
        return cells.append_column("noise_distribution", pa.concat_arrays(names)).append_column(
            "variance", pa.concat_arrays(variances)
        )

    def _read(self, session: Session, table: Table, expected: pa.Table) -> pa.Table:
        cells, name = in_order(session, table), self.release.schema
        if sorted(cells.column_names) != sorted([*expected.column_names, _COUNT]):
            raise GridError(f"{name}: the columns are not {', '.join([*expected.column_names, _COUNT])}")
        if cells.schema.field(_COUNT).type != pa.int64():
            raise GridError(f"{name}: counts are not 64-bit integers")
        if cells[_COUNT].null_count:
            raise GridError(f"{name}: {cells[_COUNT].null_count:,} cells have no count")
        if len(cells) != len(expected):
            raise GridError(f"{name}: {len(cells):,} cells, but {len(expected):,} are declared")
        for column in expected.column_names:
            try:
                same = pc.equal(cells[column].cast(expected.schema.field(column).type), expected[column])
            except pa.ArrowException:
                raise GridError(
                    f"{name}: column {column} is not of type {expected.schema.field(column).type}"
                ) from None
            wrong = len(cells) - (pc.sum(same).as_py() or 0)
            if wrong:
                raise GridError(f"{name}: cells whose {column} is not as declared: {wrong:,}")
        return cells


def in_order(session: Session, table: Table) -> pa.Table:
    """Counts or measurements in the order of the draw."""
    return session.arrow(_IN_ORDER, table=table)
