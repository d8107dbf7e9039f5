"""The cells of SafeTab-H: exact counts and measurements of households, the tables made from them, and their gate.

Which cells there are follows from the published groups alone. They are measured line by line, household types before
tenures, group by group.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa

from assets.gates.shared import count_problem
from assets.measurement.batches import Batch
from assets.measurement.method import MEASUREMENTS, GridError
from assets.release.gate import Gate, ReleaseContext
from assets.safetab.measurements import COLUMNS_OF_GROUPS
from assets.safetab.release import COUNTS, GROUPS, SafeTabHRelease
from assets.safetab.tables import list_errors, register_words
from assets.tabulation.asset import build_tables
from mechanisms.safetab.design import MeasuredTable
from mechanisms.safetab.details import DATA_CELLS, HOUSEHOLD_CELLS, HOUSEHOLD_TABLES, HouseholdTable
from resources.statements import Table, Zone
from resources.warehouse import Recipe, Session

COLUMNS = {
    **COLUMNS_OF_GROUPS,
    "table_name": "Table, T03001 to T04002",
    "data_cell": "Measured cell of the table",
    "count": "Noisy count",
}

IN_WORDS = {"T3": "household_type", "T4": "tenure"}
"""By family, the name of its tables in words."""


def measured_tables(release: SafeTabHRelease) -> dict[str, tuple[HouseholdTable, ...]]:
    """By family."""
    families = {line.family for line in release.design.measured}
    return {family: tables for family, tables in HOUSEHOLD_TABLES.items() if family in families}


def name_product(table: HouseholdTable) -> str:
    """The name of a table in the production layout among the published tables."""
    return table.name.lower()


def name_cell_column(table: HouseholdTable) -> str:
    """The column of a table in the production layout that has the cells."""
    return f"{table.family}_DATA_CELL"


def read_exact_batches(session: Session, release: SafeTabHRelease) -> Iterator[Batch]:
    """The exact counts in the order of the draw."""
    finest = np.eye(HOUSEHOLD_CELLS, dtype=np.int64)
    for line in release.design.measured:
        parts = [
            {"detail": table.detail, "place": place, "finest": cell}
            for table in HOUSEHOLD_TABLES[line.family]
            for cell, place in zip(*np.nonzero(table.fold(finest)), strict=True)
        ]
        counts = session.arrow(
            "safetab/households_exact",
            line.region_and_level,
            parts=session.register("parts", pa.Table.from_pylist(parts)),
            counts=release.confidential(COUNTS),
            **_identify_cells(session, release, line),
        )
        yield Batch(line.label, counts["count"].to_numpy())


def read_stored_batches(session: Session, release: SafeTabHRelease) -> Iterator[Batch]:
    """The stored measurements in the order of the draw.

    Raises:
        GridError: unless every cell of every group is stored exactly once, and nothing else.
    """
    table, total = release.public(MEASUREMENTS), 0
    if list(session.columns(table)) != list(COLUMNS):
        raise GridError(f"{release.schema}: the columns are not {', '.join(COLUMNS)}")
    for line in release.design.measured:
        names = _identify_cells(session, release, line)
        stored = session.arrow("safetab/households_stored", line.region_and_level, measurements=table, **names)
        order = stored["draw_order"].to_numpy()
        if stored["count"].null_count or not np.array_equal(order, np.arange(len(order))):
            raise GridError(f"{release.schema}: {line.label}: not every cell is measured exactly once")
        total += len(stored)
        yield Batch(line.label, stored["count"].to_numpy())
    if total != session.count(table):
        raise GridError(f"{release.schema}: measurements of other groups or cells than those declared")


def write_measurements(session: Session, release: SafeTabHRelease, batches: Iterator[Batch]) -> None:
    table = release.public(MEASUREMENTS)
    session.create(table, "safetab/no_measurements", households=True)
    for line, batch in zip(release.design.measured, batches, strict=True):
        rows = pa.table({"draw_order": np.arange(len(batch.values)), "count": batch.values})
        names = _identify_cells(session, release, line) | {"table": table, "rows": session.register("rows", rows)}
        session.run("safetab/households_append", line.region_and_level, **names)


def _identify_cells(session: Session, release: SafeTabHRelease, line: MeasuredTable) -> dict[str, Any]:
    """Identifiers of `safetab/household_cells`: the groups, and the measured cells of each detail."""
    cells = [
        {"detail": table.detail, "table_name": table.name, "place": place, "data_cell": data_cell}
        for table in HOUSEHOLD_TABLES[line.family]
        for place, data_cell in enumerate(table.basis)
    ]
    registered = session.register("cells", pa.Table.from_pylist(cells))
    return {"groups": release.public(GROUPS), "cells": registered, "family": line.family.lower()}


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
    in_words: dict[Table, Recipe] = {}
    in_layout: dict[Table, Recipe] = {}
    for family, tables in measured_tables(release).items():
        cells = [row for table in tables for row in _list_published_cells(table)]
        sums = {len(parts) for table in tables for parts in table.data_cells.values()}
        lines = [line for line in release.design.measured if line.family == family]
        errors = [row for line in lines for row in list_errors(line, line.noise, sums)]
        of_cells = {
            "measurements": release.public(MEASUREMENTS),
            "cells": session.register(f"cells_{family}", pa.Table.from_pylist(cells)),
            "measured": ("table_name", "data_cell"),
        }
        names = of_cells | register_words(session, release, f"errors_{family}", errors)
        in_words[release.public(IN_WORDS[family])] = ("safetab/in_words", {}, names | {"columns": ("cell", "label")})
        for table in tables:
            cells_of_table = session.register(f"cells_{table.name}", pa.Table.from_pylist(_list_published_cells(table)))
            names = of_cells | {"cells": cells_of_table, "columns": {name_cell_column(table): "cell"}}
            in_layout[release.public(name_product(table))] = ("safetab/in_layout", {}, names)
    return in_words | in_layout


def _list_published_cells(table: HouseholdTable) -> list[dict[str, Any]]:
    """The cells of a table, each with the measured cells that add up to it."""
    return [
        {"table_name": table.name, "cell": cell, "data_cell": part, "label": DATA_CELLS[table.family][cell]}
        for cell, parts in table.data_cells.items()
        for part in parts
    ]


def complete_gate() -> Gate[SafeTabHRelease]:
    return Gate("groups_complete", "tables", "Every group is in exactly one table of each family.", _complete)


def _complete(context: ReleaseContext[SafeTabHRelease]) -> list[str]:
    release, problems = context.release, []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for family, tables in measured_tables(release).items():
            measured = [line.region_and_level for line in release.design.measured if line.family == family]
            (groups,) = session.row(
                "safetab/groups_not_once",
                measured=session.register(f"measured_{family}", pa.Table.from_pylist(measured)),
                groups=release.public(GROUPS),
                tables=[release.public(name_product(table)) for table in tables],
            )
            problems += count_problem(int(groups), f"{family}: groups that are not in exactly one table")
    return problems
