"""Counts of declared tables, whose cells are all combinations of the values that the dataset's declaration allows.

The cells of a table are numbered from 0 in the order of its columns' domains; the last column varies fastest. The
domains are those of the declaration and never depend on the values that occur.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
import pyarrow as pa

from assets.release.columns import ARROW, Column
from resources.statements import Fragment, Table
from resources.warehouse import Recipe, Session

MOST_CELLS = 20_000_000
"""The maximal number of cells of one table; nobody reads a larger one."""


@dataclass(frozen=True)
class DeclaredTable:
    """A table of counts over declared columns.

    Attributes:
        name: the name of the table.
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
        if self.size > MOST_CELLS:
            raise ValueError(f"{self.name}: {self.size:,} cells; at most {MOST_CELLS:,} are allowed")

    @cached_property
    def domains(self) -> dict[str, Sequence[object]]:
        """By column, the values that may occur; null comes last if the column is nullable."""
        found: dict[str, Sequence[object]] = {}
        for name, column in self.columns.items():
            try:
                found[name] = column.domain()
            except ValueError as error:
                raise ValueError(f"{self.name}: column {name}: {error}") from None
        return found

    @property
    def size(self) -> int:
        """The number of cells."""
        return prod(len(values) for values in self.domains.values())

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


def declared_grid(tables: Sequence[DeclaredTable]) -> pa.Table:
    """All cells, table by table, with the columns `table_name` and `cell`."""
    return pa.table(
        {
            "table_name": pa.concat_arrays([pa.repeat(table.name, table.size) for table in tables]),
            "cell": np.concatenate([np.arange(table.size) for table in tables]),
        }
    )


def counts_recipe(session: Session, tables: Sequence[DeclaredTable]) -> Recipe:
    """The recipe of the exact counts of all cells, zeros included, in the order of `declared_grid`."""
    return (
        "measurement/declared_counts",
        {},
        {
            "tables": [
                {
                    "name": session.register(f"name_{table.name}", pa.table({"table_name": [table.name]})),
                    "cells": _registered_cells(session, table),
                    "records": table.records,
                    "columns": list(table.columns),
                }
                for table in tables
            ],
        },
    )


def table_recipe(session: Session, table: DeclaredTable, measurements: Table) -> Recipe:
    """The recipe of a published table: the noisy counts from `measurements`, with the values of their cells."""
    return (
        "measurement/declared_table",
        {"table_name": table.name},
        {"cells": _registered_cells(session, table), "measurements": measurements, "columns": list(table.columns)},
    )


def _registered_cells(session: Session, table: DeclaredTable) -> Fragment:
    return session.register(f"cells_{table.name}", table.cells())
