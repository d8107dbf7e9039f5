"""Counts of declared tables: every combination of the values that the dataset's declaration allows, in every table.

A table's cells are numbered from 0 in the order of its columns' domains, the last column running fastest. The domains
are the declared ones, never those of the values that occur.
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
"""Of one table: more than anyone can read."""


@dataclass(frozen=True)
class DeclaredTable:
    """A table of counts over declared columns.

    Attributes:
        name: of the table.
        records: the table of the CEF whose records are counted.
        columns: what it is tabulated by, with their declarations.

    Raises:
        ValueError: if a column's declaration does not list its values, or there are over 20 million cells; the
            message names the column and the rule.
    """

    name: str
    records: Table
    columns: Mapping[str, Column]

    def __post_init__(self) -> None:
        if self.size > MOST_CELLS:
            raise ValueError(f"{self.name}: {self.size:,} cells; the most is {MOST_CELLS:,}")

    @cached_property
    def domains(self) -> dict[str, Sequence[object]]:
        """By column, the values that may occur, null last if there may be none."""
        found: dict[str, Sequence[object]] = {}
        for name, column in self.columns.items():
            try:
                found[name] = column.domain()
            except ValueError as error:
                raise ValueError(f"{self.name}: column {name}: {error}") from None
        return found

    @property
    def size(self) -> int:
        """How many cells it has."""
        return prod(len(values) for values in self.domains.values())

    def cells(self) -> pa.Table:
        """Every cell once, in order: its number `cell`, and a column for each of the table's with the cell's value."""
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
    """All cells of tables, table by table: columns `table_name` and `cell`."""
    return pa.table(
        {
            "table_name": pa.concat_arrays([pa.repeat(table.name, table.size) for table in tables]),
            "cell": np.concatenate([np.arange(table.size) for table in tables]),
        }
    )


def counts_recipe(session: Session, tables: Sequence[DeclaredTable]) -> Recipe:
    """How the exact counts of tables are made, zeros included, in the order of `declared_grid`."""
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
    """How a table of noisy counts, with its columns' values, is made from the measurements."""
    return (
        "measurement/declared_table",
        {"table_name": table.name},
        {"cells": _registered_cells(session, table), "measurements": measurements, "columns": list(table.columns)},
    )


def _registered_cells(session: Session, table: DeclaredTable) -> Fragment:
    return session.register(f"cells_{table.name}", table.cells())
