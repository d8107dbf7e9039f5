"""A published table and its columns, as the data dictionary describes them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from resources.statements import Table

FIELD_TYPES = {
    "integer": ("integer", {"TINYINT", "SMALLINT", "INTEGER", "BIGINT"}),
    "string": ("string", {"VARCHAR"}),
    "boolean": ("boolean", {"BOOLEAN"}),
    "date": ("date", {"DATE"}),
    "decimal": ("number", {"DECIMAL"}),
    "integers": ("array", {"TINYINT[]", "SMALLINT[]", "INTEGER[]", "BIGINT[]"}),
}
"""By declared type: the type of a Table Schema field, and the DuckDB types that the files keep exactly."""


LIST = "integers"
"""The type that CSV has no form for: a table with such a column is written as Parquet only."""


@dataclass(frozen=True)
class PublishedColumn:
    """A column of a published table, as the data dictionary describes it.

    Attributes:
        name: of the column.
        type: integer, string, boolean, date, decimal, or integers for a list of them.
        description: what the column says.
        values: the values that may occur, each with its label ("" if it has none); empty if they are not listed.
        required: whether every row has a value.
        total: the value that stands in rows for a total, which makes the column one of texts; "" if there are none.

    Raises:
        ValueError: if the type is none of the six.
    """

    name: str
    type: str
    description: str = ""
    values: Mapping[Any, str] = field(default_factory=dict)
    required: bool = True
    total: str = ""

    def __post_init__(self) -> None:
        if self.type not in FIELD_TYPES:
            raise ValueError(f"column {self.name}: {self.type!r} is none of {', '.join(FIELD_TYPES)}")

    @property
    def written_type(self) -> str:
        """The type as the files have it: text where some rows are totals."""
        return "string" if self.total else self.type


@dataclass(frozen=True)
class PublishedTable:
    """A table to publish: as CSV and Parquet, or as Parquet only if a column holds lists.

    Attributes:
        name: the stem of its files' names.
        title: in words.
        description: what a reader should know of it.
        table: where it is in the warehouse.
        columns: all its columns, in the order in which they are published.
        primary_key: the columns that tell its rows apart.
        delimiter: what separates the columns in CSV.

    Raises:
        ValueError: if the name could not be a file's, a key column is not among the columns, or the rows of a table
            with lists have no order by a key without lists.
    """

    name: str
    title: str
    description: str
    table: Table
    columns: tuple[PublishedColumn, ...]
    primary_key: tuple[str, ...]
    delimiter: str = ","

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", self.name):
            raise ValueError(f"product {self.name!r}: its files bear the name, so it is small letters, digits, _ and -")
        for key in self.primary_key:
            if key not in [column.name for column in self.columns]:
                raise ValueError(f"product {self.name}: key column {key} is not among its columns")
        lists = {column.name for column in self.columns if column.type == LIST}
        if lists and not (self.primary_key and lists.isdisjoint(self.primary_key)):
            raise ValueError(f"product {self.name}: a table with lists needs a primary key, and none of them is in it")

    @property
    def has_lists(self) -> bool:
        """Whether a column holds lists, so that the table is written as Parquet only."""
        return any(column.type == LIST for column in self.columns)
