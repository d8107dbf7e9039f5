"""The content of the page of the warehouse's tables, for comparison with the tables that releases leave."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from docs.pictures.__main__ import FOLDER
from tests.deployments import Deployment

PAGE = FOLDER.parent / "reference" / "warehouse.md"
METHODS = {
    "swapping": "Swapping",
    "phsafe": "S-DHC by PHSafe",
    "safetab": "Detailed groups by SafeTab",
    "topdown": "Redistricting data by TopDown",
    "dhc": "The DHC by TopDown",
    "pair_swapping": "Methods without a finite loss",
    "coarsening": "Methods without a finite loss",
    "suppression": "Methods without a finite loss",
    "table_builder": "Table builder",
}
"""The heading of each mechanism's tables, by the name of its package."""

WITH = {"dhc": "topdown"}
"""By mechanism, the mechanism of the release on which it is based."""

_OWN_SCHEMA = "<dataset>__<release>"
_ROW = re.compile(r"^\| ([^|]*`[^|]*`) \| ([^|]*) \| ", re.MULTILINE)


@dataclass(frozen=True)
class Described:
    """A row of the page: tables, by a pattern of `database.schema.table`, and the columns that it names.

    Attributes:
        pattern: the pattern of a table's full name.
        columns: the columns of the table.
        complete: whether these are all its columns.
    """

    pattern: re.Pattern[str]
    columns: frozenset[str]
    complete: bool


def described(mechanism: str) -> list[Described]:
    """The tables of every release, of one mechanism, and of the release on which it is based."""
    _, *parts = re.split(r"^## (.+)\n", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    own = [METHODS[each] for each in (mechanism, WITH.get(mechanism)) if each]
    return [row for heading in ("Common to all methods", *own) for row in _rows(sections[heading])]


def tables_of(deployment: Deployment[Any]) -> dict[str, list[str]]:
    """The columns of every table of a deployment, by `database.schema.table`."""
    tables: dict[str, list[str]] = {}
    for database in ("confidential", "public", "ledger"):
        with deployment.opened(database) as connection:
            found = connection.execute(
                "SELECT schema_name, table_name, column_name FROM duckdb_columns() WHERE NOT internal"
            ).fetchall()
            for schema, table, column in found:
                tables.setdefault(f"{database}.{schema}.{table}", []).append(column)
    return tables


def undescribed(tables: dict[str, list[str]], mechanism: str) -> list[str]:
    """Tables, with their columns, that the page does not describe, or describes with other columns.

    Args:
        tables: the columns of every table, by `database.schema.table`.
        mechanism: the package of the tables' mechanism.
    """
    rows = described(mechanism)
    return [
        f"{name}: {', '.join(columns)}"
        for name, columns in tables.items()
        if not any(
            row.pattern.fullmatch(name)
            and (set(columns) == row.columns if row.complete else row.columns <= set(columns))
            for row in rows
        )
    ]


def _rows(text: str) -> Iterator[Described]:
    for named, columns in _ROW.findall(text):
        zone = named.split("`")[0].strip()
        names = re.findall("`([^`]+)`", columns)
        others = re.sub(r"`[^`]+`", "", columns).replace(",", "").strip()
        for table in re.findall("`([^`]+)`", named):
            full = f"{zone}.{_OWN_SCHEMA}.{table}" if zone else table
            pattern = re.sub("<[^>]*>", "[A-Za-z0-9_]+?", full.replace(".", r"\."))
            yield Described(re.compile(pattern), frozenset(names), not others)
