"""Counts of declared tables, whose cells are all combinations of the values that the dataset's declaration allows.

The cells of a table are numbered from 0 in the order of its columns' domains; the last column varies fastest. The
domains are those of the declaration and never depend on the values that occur.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TypeVar

import numpy as np
import pyarrow as pa

from assets.measurement.grid import GridCounts, Query
from assets.release.columns import ARROW, Column
from assets.release.gate import Gate
from assets.release.names import COLUMNS_OF_COUNTS
from assets.release.release import Release
from assets.release.stage import Recipes
from assets.tabulation.asset import tables_gate
from mechanisms.sampling.noise import Distribution
from resources.statements import Table
from resources.warehouse import Recipe, Session

MOST_CELLS = 20_000_000
"""The maximal number of cells of one table; nobody reads a larger one."""

R = TypeVar("R", bound=Release)


@dataclass(frozen=True)
class DeclaredTable:
    """A table of counts over declared columns.

    Attributes:
        records: the table of the CEF whose records are counted.
        columns: the columns it is tabulated by, with their declarations.

    Raises:
        ValueError: if the declaration of a column does not list its values, or there are over 20 million cells; the
            message names the table, the column and the rule.
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
        """The number of cells, computed without listing any."""
        return prod(column.domain_size for column in self.columns.values())

    @cached_property
    def domains(self) -> dict[str, Sequence[object]]:
        """By column, the values that may occur; null comes last if the column is nullable."""
        return {name: column.domain() for name, column in self.columns.items()}

    def cells(self) -> pa.Table:
        """Every cell once, in order: its number `cell`, and its value in each column of the table."""
        numbers = np.arange(self.size)
        places = np.unravel_index(numbers, [len(values) for values in self.domains.values()])
        return pa.table(
            {
                "cell": numbers,
                **{
                    name: pa.array(values, ARROW[self.columns[name].type]).take(pa.array(place))
                    for (name, values), place in zip(self.domains.items(), places, strict=True)
                },
            }
        )


class DeclaredCounts(GridCounts[R]):
    """A method whose cells are those of declared tables, each of which has one query and is published with its noise.

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
        """By published table, how it is made: its noisy counts, with the values of their cells."""
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
