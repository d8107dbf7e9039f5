"""The cells of SafeTab-H: exact counts and measurements of households, and the tables made from them.

Which cells there are follows from the published groups alone. They are measured line by line, household types before
tenures, group by group.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa

from assets.measurement.batches import Batch
from assets.measurement.method import MEASUREMENTS, GridError
from assets.safetab.release import COUNTS, GROUPS, SafeTabHRelease
from assets.safetab.tables import ERROR, error_of, in_words
from assets.tabulation.asset import build_tables
from mechanisms.safetab.design import MeasuredTable
from mechanisms.safetab.details import DATA_CELLS, HOUSEHOLD_CELLS, HOUSEHOLD_TABLES, HouseholdTable
from resources.statements import Table
from resources.warehouse import Recipe, Session

COLUMNS = {
    "region_type": "Type of the region",
    "level": "Level of the iteration: 1 regional, 2 detailed",
    "region_id": "Code of the region",
    "iteration_code": "Characteristic iteration",
    "table_name": "Table, T03001 to T04002",
    "data_cell": "Measured cell of the table",
    "count": "Noisy count",
}

IN_WORDS = {"T3": "household_type", "T4": "tenure"}
"""By family, the name of its tables in words."""


def measured_tables(release: SafeTabHRelease) -> tuple[HouseholdTable, ...]:
    families = {each.family for each in release.design.measured}
    return tuple(table for family, tables in HOUSEHOLD_TABLES.items() if family in families for table in tables)


def product_of(table: HouseholdTable) -> str:
    """The name of a table in the production layout among the published tables."""
    return table.name.lower()


def cell_column(table: HouseholdTable) -> str:
    """The column of a table in the production layout that says which cell a row is."""
    return f"{table.family}_DATA_CELL"


def exact_batches(session: Session, release: SafeTabHRelease) -> Iterator[Batch]:
    """The exact counts in the order of the draw."""
    finest = np.eye(HOUSEHOLD_CELLS, dtype=np.int64)
    parts = [
        {"family": table.family, "detail": table.detail, "place": place, "finest": cell}
        for table in measured_tables(release)
        for cell, place in zip(*np.nonzero(table.folded(finest)), strict=True)
    ]
    registered = session.register("parts", pa.Table.from_pylist(parts))
    for measured in release.design.measured:
        values, names = _cells_of(session, release, measured)
        found = session.arrow(
            "safetab/households_exact", values, parts=registered, counts=release.confidential(COUNTS), **names
        )
        yield Batch(measured.label, found["count"].to_numpy())


def stored_batches(session: Session, release: SafeTabHRelease) -> Iterator[Batch]:
    """The stored measurements in the order of the draw.

    Raises:
        GridError: unless every cell of every group is stored exactly once, and nothing else.
    """
    table, stored = release.public(MEASUREMENTS), 0
    if list(session.columns(table)) != list(COLUMNS):
        raise GridError(f"{release.schema}: the columns are not {', '.join(COLUMNS)}")
    for measured in release.design.measured:
        values, names = _cells_of(session, release, measured)
        found = session.arrow("safetab/households_stored", values, measurements=table, **names)
        order = found["draw_order"].to_numpy()
        if found["count"].null_count or not np.array_equal(order, np.arange(len(order))):
            raise GridError(f"{release.schema}: {measured.label}: not every cell is measured exactly once")
        stored += len(found)
        yield Batch(measured.label, found["count"].to_numpy())
    if stored != session.count(table):
        raise GridError(f"{release.schema}: measurements of other groups or cells than those declared")


def write_measurements(session: Session, release: SafeTabHRelease, batches: Iterator[Batch]) -> None:
    table = release.public(MEASUREMENTS)
    session.create(table, "safetab/no_household_measurements")
    for measured, batch in zip(release.design.measured, batches, strict=True):
        values, names = _cells_of(session, release, measured)
        rows = pa.table({"draw_order": np.arange(len(batch.values)), "count": batch.values})
        session.run("safetab/households_append", values, table=table, rows=session.register("rows", rows), **names)


def _cells_of(
    session: Session, release: SafeTabHRelease, measured: MeasuredTable
) -> tuple[dict[str, Any], dict[str, Any]]:
    cells = [
        {
            "family": table.family,
            "detail": table.detail,
            "table_name": table.name,
            "place": place,
            "data_cell": data_cell,
        }
        for table in measured_tables(release)
        for place, data_cell in enumerate(table.basis)
    ]
    values = {"region_type": measured.region_type.value, "level": measured.level, "family": measured.family}
    names = {
        "groups": release.public(GROUPS),
        "cells": session.register("cells", pa.Table.from_pylist(cells)),
        "family": measured.family.lower(),
    }
    return values, names


def build_household_tables(release: SafeTabHRelease, columns: Mapping[str, str]) -> dg.AssetsDefinition:
    return build_tables(
        release,
        [GROUPS, MEASUREMENTS],
        "T3, household type, and T4, tenure: in the production layout, and in words with standard errors and 90% "
        "intervals. Made from public data only.",
        lambda session: household_table_recipes(session, release),
        columns,
    )


def household_table_recipes(session: Session, release: SafeTabHRelease) -> dict[Table, Recipe]:
    tables = measured_tables(release)
    cells: list[dict[str, Any]] = [
        {
            "family": table.family,
            "table_name": table.name,
            "cell": cell,
            "data_cell": basis,
            "label": DATA_CELLS[table.family][cell],
            "added": len(parts),
        }
        for table in tables
        for cell, parts in table.data_cells.items()
        for basis in parts
    ]
    added = sorted({row["added"] for row in cells})
    errors = [
        {
            "region_type": each.region_type.value,
            "level": each.level,
            "family": each.family,
            "added": number,
            **error_of(each.noise, number),
        }
        for each in release.design.measured
        for number in added
    ]
    names: dict[str, Any] = {
        "measurements": release.public(MEASUREMENTS),
        "cells": session.register("published_cells", pa.Table.from_pylist(cells)),
        "errors": session.register("errors", pa.Table.from_pylist(errors, _ERRORS)),
        **in_words(session, release),
    }
    made: dict[Table, Recipe] = {
        release.public(IN_WORDS[family]): ("safetab/households_in_words", {"family": family}, names)
        for family in dict.fromkeys(table.family for table in tables)
    }
    for table in tables:
        made[release.public(product_of(table))] = (
            "safetab/household_table",
            {"table_name": table.name},
            names | {"cell_column": cell_column(table)},
        )
    return made


_ERRORS = pa.schema(
    [
        ("region_type", pa.string()),
        ("level", pa.uint8()),
        ("family", pa.string()),
        ("added", pa.int64()),
        ("standard_error", ERROR),
        ("half_width", pa.int64()),
    ]
)
