"""Noisy counts that fit into one table, whose cells and their order follow from the declaration alone.

The cells must not depend on the values in the records, because the list of cells would then reveal something about
them. `GridCounts` is for any such cells; `DeclaredCounts`, for tables whose cells are all combinations of the values
that the dataset's declaration allows.
"""

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cached_property
from hashlib import sha256
from math import prod
from typing import Any, TypeVar, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.measurement.method import MEASUREMENTS, Batch, BatchedCounts, GridError, find_gap
from assets.release.columns import ARROW, Column
from assets.release.dataset import Size
from assets.release.gate import Gate, ReleaseContext, session_gate
from assets.release.names import COLUMNS_OF_COUNTS
from assets.release.release import DeclarationError, Release
from assets.release.stage import Recipes
from assets.tabulation.asset import tables_gate
from mechanisms.noise import Noise
from mechanisms.sampling.noise import CappedLaplace, DiscreteGaussian, DiscreteLaplace, Distribution, Perturbation
from resources.statements import SQL, Table, Zone
from resources.warehouse import Recipe, Session

IN_ORDER = SQL("measurement/in_order", "FROM {{ table }} ORDER BY draw_order")
"""Counts or measurements in the order of the draw."""

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

MOST_CELLS = 20_000_000
"""The maximal number of cells of one table, beyond any table for readers."""

_ORDER, _COUNT = "draw_order", "count"


@dataclass(frozen=True)
class Query:
    """Consecutive cells of the grid, each with noise of the same distribution."""

    name: str
    distribution: Distribution | Perturbation
    cells: int

    @property
    def noise(self) -> str:
        noise = self.distribution
        return noise.name if isinstance(noise, Perturbation) else DISTRIBUTIONS[type(noise)]

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
        """Every cell of every query once, in the order of the draw, by columns that identify it and are never null."""

    @cached_property
    def grid(self) -> pa.Table:
        """The cells in the order of the draw, numbered from 0 in the column `draw_order`."""
        cells = self.build_grid()
        return cells.add_column(0, _ORDER, pa.array(np.arange(len(cells))))

    @final
    def parameters(self) -> Mapping[str, Any]:
        """The declared parameters, and a hash of all cells' definitions, so that other cells make another draw."""
        return {**super().parameters(), "cells": self._cells_version}

    def described_cells(self) -> Iterable[pa.Table]:
        """Tables that define every cell, in the order of the draw; the grid by default."""
        return [self.grid]

    @cached_property
    def measured(self) -> tuple[Query, ...]:
        """The queries, computed once. Raises DeclarationError if two have one name: they would share a stream of noise
        and a distribution."""
        queries = tuple(self.queries())
        names = [query.name for query in queries]
        if len(set(names)) < len(names):
            raise DeclarationError(f"{self.release.schema}: two queries have the same name")
        return queries

    def numbers(self, size: Size) -> int:
        return sum(query.cells for query in self.measured)

    def require_chargeable(self, session: Session, /) -> None:
        """Refuse, before the charge, queries whose cells do not add up to the grid, and noise that cannot be stored."""
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
        session.create(self.measurements_table, IN_ORDER, table=table)

    def slices(self, cells: pa.Table) -> Iterator[tuple[Query, pa.Table]]:
        """Cut a table in the order of the draw into its queries."""
        start = 0
        for query in self.measured:
            yield query, cells.slice(start, query.cells)
            start += query.cells

    def read_measurements(self, session: Session) -> pa.Table:
        """The stored measurements in the order of the draw; GridError unless every cell is measured exactly once."""
        return self._read(session, self.measurements_table, self._with_noise(self.grid))

    @final
    def counts_gates(self) -> Sequence[Gate[R]]:
        complete = session_gate("grid_complete", self.counts_stage, self._check_grid, [Zone.CONFIDENTIAL])
        return [*super().counts_gates(), complete]

    def _check_grid(self, session: Session, context: ReleaseContext[R]) -> list[str]:
        """Every declared cell is counted exactly once."""
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
        cells, name = session.arrow(IN_ORDER, table=table), self.release.schema
        if sorted(cells.column_names) != sorted([*expected.column_names, _COUNT]):
            raise GridError(f"{name}: the columns are not {', '.join([*expected.column_names, _COUNT])}")
        if cells.schema.field(_COUNT).type != pa.int64():
            raise GridError(f"{name}: counts are not 64-bit integers")
        if cells[_COUNT].null_count:
            raise GridError(f"{name}: {cells[_COUNT].null_count:,} cells have no count")
        if len(cells) != len(expected):
            raise GridError(f"{name}: {len(cells):,} cells, but {len(expected):,} are declared")
        for column in expected.column_names:
            kind, stored = expected.schema.field(column).type, cells[column]
            try:
                # Measurements are stored with the types of `expected`. As text, 07 would pass for 7.
                if table.zone is Zone.PUBLIC and stored.type != kind:
                    raise pa.ArrowTypeError
                same = pc.equal(stored.cast(kind), expected[column])
            except pa.ArrowException:
                raise GridError(f"{name}: column {column} is not of type {kind}") from None
            wrong = len(cells) - (pc.sum(same).as_py() or 0)
            if wrong:
                raise GridError(f"{name}: cells whose {column} is not as declared: {wrong:,}")
        return cells


@dataclass(frozen=True)
class DeclaredTable:
    """A table of counts of the records of a table of the CEF, over declared columns.

    Its cells are numbered from 0 in the order of the columns' domains; the last column varies fastest. Raises
    ValueError if the declaration of a column does not list its values, or there are over 20 million cells; the message
    names the table, the column and the rule.
    """

    name: str
    records: Table
    columns: Mapping[str, Column]

    def __post_init__(self) -> None:
        for name, column in self.columns.items():
            if name.casefold() in COLUMNS_OF_COUNTS:
                raise ValueError(f"{self.name}: column {name} has a name that the tables of counts use themselves")
            try:
                column.domain_size  # noqa: B018 - the declaration may not list the values
            except ValueError as error:
                raise ValueError(f"{self.name}: column {name}: {error}") from None
        if self.size > MOST_CELLS:
            raise ValueError(f"{self.name}: {self.size:,} cells; at most {MOST_CELLS:,} are allowed")

    @cached_property
    def size(self) -> int:
        return prod(column.domain_size for column in self.columns.values())

    @cached_property
    def domains(self) -> dict[str, Sequence[object]]:
        """By column, the values that may occur; null comes last if the column is nullable."""
        return {name: column.domain() for name, column in self.columns.items()}

    def cells(self) -> pa.Table:
        """Every cell once, in order: its number `cell`, and its value in each column of the table."""
        numbers = np.arange(self.size)
        places = np.unravel_index(numbers, [len(values) for values in self.domains.values()])
        values = {
            name: pa.array(domain, ARROW[self.columns[name].type]).take(pa.array(place))
            for (name, domain), place in zip(self.domains.items(), places, strict=True)
        }
        return pa.table({"cell": numbers, **values})


class DeclaredCounts(GridCounts[R]):
    """A method whose cells are the cells of declared tables, each with one query and published with its noise.

    A mechanism defines `declared_tables` and the noise of their cells (`noise_of`). The published table is
    `product_<name>`.
    """

    @property
    @abstractmethod
    def declared_tables(self) -> Sequence[DeclaredTable]:
        """The tables, in an order that does not depend on the order of their declarations."""

    @abstractmethod
    def noise_of(self, table: DeclaredTable) -> Distribution:
        """The distribution of the noise of every cell of a table."""

    def queries(self) -> Sequence[Query]:
        return [Query(table.name, self.noise_of(table), table.size) for table in self.declared_tables]

    def build_grid(self) -> pa.Table:
        """All cells, table by table, with the columns `table_name` and `cell`."""
        tables = self.declared_tables
        return pa.table(
            {
                "table_name": pa.concat_arrays([pa.repeat(table.name, table.size) for table in tables]),
                "cell": np.concatenate([np.arange(table.size) for table in tables]),
            }
        )

    def described_cells(self) -> Iterable[pa.Table]:
        return [self.grid, *(table.cells() for table in self.declared_tables)]

    def counts_recipe(self, session: Session, /) -> Recipe:
        tables = [
            {
                "name": session.register(f"name_{table.name}", pa.table({"table_name": [table.name]})),
                "cells": session.register(f"cells_{table.name}", table.cells()),
                "records": table.records,
                "columns": list(table.columns),
            }
            for table in self.declared_tables
        ]
        return "measurement/declared_counts", {}, {"tables": tables}

    def table_recipes(self, session: Session) -> Recipes:
        return {
            self.release.public(f"product_{table.name}"): (
                "measurement/declared_table",
                {"table_name": table.name},
                {
                    "cells": session.register(f"cells_{table.name}", table.cells()),
                    "measurements": self.measurements_table,
                    "columns": list(table.columns),
                },
            )
            for table in self.declared_tables
        }

    def further_gates(self) -> Sequence[Gate[R]]:
        return [tables_gate(self.table_recipes)]
