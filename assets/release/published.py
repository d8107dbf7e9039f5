"""Published tables: their declaration, and their descriptions and columns in the data dictionary."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import dagster as dg
from pydantic import Field, model_validator

from assets.release.columns import Column, title_columns
from assets.release.names import LONGEST_FILE, LONGEST_PATH, OURS, ProductName, find_repeated, is_too_long
from assets.release.release import Release
from resources.packed import PACKED
from resources.statements import SQL, Fragment, Table, quote, render

_COLUMNS = SQL("publication/columns", "(SELECT {{ columns }} FROM {{ table }})")

FIELD_TYPES = {
    "integer": ("integer", {"TINYINT", "SMALLINT", "INTEGER", "BIGINT"}),
    "string": ("string", {"VARCHAR"}),
    "boolean": ("boolean", {"BOOLEAN"}),
    "date": ("date", {"DATE"}),
    "decimal": ("number", {"DECIMAL"}),
    "integers": ("array", {"TINYINT[]", "SMALLINT[]", "INTEGER[]", "BIGINT[]", PACKED}),
}
"""By declared type, the type of the Table Schema field, and the DuckDB types that files preserve exactly (packed
integers as lists)."""

ESTIMATE, STANDARD_ERROR, LOWER, UPPER = ERRORS = ("estimate", "standard_error", "lower", "upper")
"""The columns of every table with errors, in all mechanisms."""

CONFIDENCE = 0.9
"""The confidence of every published interval."""

SUPPRESSED = "suppressed"
"""The column that marks rows whose figures are not published."""

LIST = "integers"
"""A list of integers, which CSV cannot represent: a table with such a column is written as Parquet only."""


class Product(dg.Model, dg.Resolvable):
    """A table of counts to publish."""

    name: ProductName
    title: str = Field(default="", description="The product's name in words.")
    description: str = Field(default="", description="What readers should know about the product.")
    of: Literal["units", "persons"] = Field(
        default="units",
        description="What is counted. In swapping, `units` stands for the swapped records, even if these are persons. "
        "In coarsening and suppression, declare the same as for the release.",
    )
    geography: list[str] = Field(default_factory=list, description="The geographic columns, coarsest first.")
    dimensions: list[str] = Field(default_factory=list, description="The other columns to tabulate by.")

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        if not self.columns:
            raise ValueError(f"product {self.name}: at least one column is required in geography or dimensions")
        if repeated := find_repeated(self.columns):
            raise ValueError(f"product {self.name}: column {repeated[0]} is named twice")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to tabulate by, geography first."""
        return (*self.geography, *self.dimensions)

    @property
    def table(self) -> str:
        """The name of the product's table in the warehouse."""
        return f"product_{self.name}"


@dataclass(frozen=True)
class PublishedColumn:
    """A column of a published table, as described in the data dictionary.

    Attributes:
        type: one of `FIELD_TYPES`; any other raises ValueError.
        values: the values that may occur, each with its label or ""; empty if they are not listed.
        total: the column that marks rows with totals over this one, which have no value in it; "" if there are none.
        title: its name in words; "" if it has no other name.
        unit: the unit that its figures count or add up, such as households; "" if it has no figures.
        error_of: the column of figures whose error or bias it has, in the same unit; "" if it has none.
        names: the column whose codes it puts into words; "" if it does not.
        empty: the meaning of an empty value, in words; "" for a missing value.
    """

    name: str
    type: str
    description: str = ""
    values: Mapping[Any, str] = field(default_factory=dict)
    required: bool = True
    total: str = ""
    title: str = ""
    unit: str = ""
    error_of: str = ""
    names: str = ""
    empty: str = ""

    @property
    def has_figures(self) -> bool:
        return bool(self.unit or self.error_of)

    def __post_init__(self) -> None:
        if self.type not in FIELD_TYPES:
            raise ValueError(f"column {self.name}: {self.type!r} is none of {', '.join(FIELD_TYPES)}")


@dataclass(frozen=True)
class PublishedTable:
    """A table to publish: as CSV and Parquet, or as Parquet only if a column contains lists.

    Raises ValueError if it is contradictory; the message names the product and the rule.

    Attributes:
        name: the stem of the file names.
        interval: the method of the 90% interval of each estimate, as a sentence; "" if there are no errors.
        geography: the columns that name a place together: from the coarsest to the finest, or its level and its code.
        levels: by level, the level above it, if the first of these columns is a level. The code of a place begins with
            the code of the place above it, unless that place is the only one of its level.
        dimensions: the columns that identify the cells of a cube; by default the primary key.
        numbers: by stored column of lists, the published columns of the lists' numbers, in order: a database takes much
            longer for hundreds of columns. The other columns are the primary key, of texts, and come first.
    """

    name: str
    title: str
    description: str
    table: Table
    columns: tuple[PublishedColumn, ...]
    primary_key: tuple[str, ...]
    delimiter: str = ","
    interval: str = ""
    geography: tuple[str, ...] = ()
    levels: Mapping[str, str] = field(default_factory=dict)
    dimensions: tuple[str, ...] = ()
    numbers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", self.name):
            raise ValueError(
                f"product {self.name!r}: the name is part of file names and must consist of lowercase letters, digits, "
                "_ and -"
            )
        for key in self.primary_key:
            if key not in [column.name for column in self.columns]:
                raise ValueError(f"product {self.name}: key column {key} is not among its columns")
        lists = {column.name for column in self.columns if column.type == LIST}
        if lists and not (self.primary_key and lists.isdisjoint(self.primary_key)):
            raise ValueError(f"product {self.name}: a table with lists needs a primary key without lists")
        if bool(self.interval) != {column.name for column in self.columns}.issuperset(ERRORS):
            raise ValueError(
                f"product {self.name}: a table with the columns {', '.join(ERRORS)} states the method of its "
                "intervals, and no other table does"
            )
        texts = tuple(column.name for column in self.columns if column.type == "string")
        own = sorted(name for names in self.numbers.values() for name in names)
        if self.numbers and (
            not texts == self.primary_key == tuple(column.name for column in self.columns[: len(texts)])
            or own != sorted(column.name for column in self.columns[len(texts) :])
        ):
            raise ValueError(
                f"product {self.name}: its key is not of texts, or not all other columns are numbers in lists"
            )

    @property
    def source(self) -> Table | Fragment:
        """The table with its published columns, in a statement."""
        if not self.numbers:
            return self.table
        lists = {name: (stored, at) for stored, names in self.numbers.items() for at, name in enumerate(names, 1)}
        columns = (
            f"{quote(lists[name][0])}[{lists[name][1]}] AS {quote(name)}" if name in lists else quote(name).text
            for name in (column.name for column in self.columns)
        )
        return Fragment(render(_COLUMNS, {"columns": Fragment(", ".join(columns)), "table": self.table}))

    @property
    def has_lists(self) -> bool:
        return any(column.type == LIST for column in self.columns)

    @property
    def is_cube(self) -> bool:
        """Whether its rows are cells with figures, unlike records, lists and parameters."""
        return any(column.has_figures for column in self.columns)


def describe_column(name: str, column: Column, total: str = "") -> PublishedColumn:
    """A declared column as a column of a published table. `total` is as for `PublishedColumn`."""
    values: Mapping[Any, str] = {code: column.labels.get(code, "") for code in column.codes}
    required = not column.nullable and not total
    title = title_columns({name: column})[name]
    return PublishedColumn(name, column.type.value, column.description, values, required, total, title)


def error_columns(
    kind: str, estimate: str, standard_error: str, unit: str, *, optional: Collection[str] = ()
) -> tuple[PublishedColumn, ...]:
    """The columns of an estimate and its errors, which are decimals. `optional` names the columns that may be empty."""
    described = {
        ESTIMATE: (kind, estimate),
        STANDARD_ERROR: ("decimal", standard_error),
        LOWER: (kind, "Lower end of the 90% interval"),
        UPPER: (kind, "Upper end of the 90% interval"),
    }
    return tuple(
        PublishedColumn(
            name,
            kind,
            words,
            required=name not in optional,
            unit=unit if name == ESTIMATE else "",
            error_of="" if name == ESTIMATE else ESTIMATE,
        )
        for name, (kind, words) in described.items()
    )


def describe_published(tables: Iterable[PublishedTable]) -> dict[str, str]:
    """Descriptions of the columns of all tables, by name. If tables describe a column differently, all descriptions of
    it."""
    described: dict[str, list[str]] = {}
    for column in (column for table in tables for column in table.columns):
        words = described.setdefault(column.name, [])
        if column.description not in words:
            words.append(column.description)
    return {name: "; or: ".join(words) for name, words in described.items()}


def require_placeable(release: Release, tables: Sequence[PublishedTable]) -> None:
    """Raise DeclarationError, before anything is charged, unless the files and stored tables can exist side by side.

    File systems and DuckDB may ignore the case of names. While a publication is written, its folder has a longer name.
    """
    for named in ([table.name.casefold() for table in tables], [str(table.table).casefold() for table in tables]):
        for name, times in Counter(named).items():
            if times > 1:
                release.refuse(f"products: {name} would be written {times} times")
            if name in OURS:
                release.refuse(f"products: {name} is the name of a file or folder that every publication has")
    for table in tables:
        if is_too_long(str(release.folder.with_name(f".{release.name}.arriving") / f"{table.name}.structure.xml")):
            release.refuse(
                f"products: {table.name}: its path in the folder of publications would be too long; a path has at most "
                f"{LONGEST_PATH:,} bytes, and each part of it {LONGEST_FILE}"
            )
