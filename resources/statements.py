"""SQL statements by name and the addresses of tables: the one place where text becomes SQL.

This module reads a statement from `sql/`, or takes one of a single line, and quotes the identifiers in it. Values do
not pass through here: DuckDB binds them as `$name`. `warehouse` runs the statements.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from resources.templates import keep_compiled

SQL_FOLDER = Path(__file__).resolve().parent.parent / "sql"


@dataclass(frozen=True)
class Fragment:
    """Text that is safe inside a statement: a quoted identifier or literal, or text made of these."""

    text: str

    def __str__(self) -> str:
        return self.text


class Zone(StrEnum):
    """The databases of the warehouse, which differ in who may see their contents."""

    CONFIDENTIAL = "confidential"
    PUBLIC = "public"
    LEDGER = "ledger"

    @property
    def database(self) -> str:
        return f"{self.value}.duckdb"


@dataclass(frozen=True)
class SQL:
    """A statement of one line, beside the code that runs it. All others are files. Errors show the name."""

    name: str
    text: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Table:
    """The address of a table: its zone, its schema (a dataset, or one release of it) and its name."""

    zone: Zone
    schema: str
    name: str

    @property
    def text(self) -> str:
        return ".".join(quote(part).text for part in (self.zone.value, self.schema, self.name))

    def __str__(self) -> str:
        return f"{self.zone.value}.{self.schema}.{self.name}"


def quote(name: object) -> Fragment:
    """Quote one identifier for DuckDB. Raises ValueError if the name is empty or contains a NUL character."""
    if isinstance(name, Fragment):
        return name
    text = str(name)
    if not text or "\x00" in text:
        raise ValueError("an SQL identifier is not empty and contains no NUL character")
    return Fragment('"' + text.replace('"', '""') + '"')


def quote_all(names: Iterable[object], prefix: str = "") -> Fragment:
    """Quote identifiers and join them with commas; `prefix` is a table alias of the statement."""
    dot = f"{quote(prefix)}." if prefix else ""
    return Fragment(", ".join(f"{dot}{quote(name)}" for name in names))


def equate_columns(names: Iterable[object], left: str, right: str) -> Fragment:
    """The condition that two tables agree on columns, where NULL equals NULL; true for no columns."""
    pairs = ((f"{quote(left)}.{quote(name)}", f"{quote(right)}.{quote(name)}") for name in names)
    return Fragment(" AND ".join(f"{ours} IS NOT DISTINCT FROM {theirs}" for ours, theirs in pairs) or "true")


def quote_literal(value: object) -> Fragment:
    """Quote a value as an SQL text literal, for the few statements (ATTACH, COPY, LOAD) that take no bound values."""
    return Fragment("'" + str(value).replace("'", "''") + "'")


def _require_fragment(value: object) -> str:
    if isinstance(value, Fragment | Table):
        return value.text
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("a statement takes identifiers through `id` or `ids`, and values as bound parameters")
    return str(value)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(SQL_FOLDER),
        undefined=StrictUndefined,
        finalize=_require_fragment,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=keep_compiled(Path(__file__)),
    )
    environment.filters["id"] = quote
    environment.filters["ids"] = quote_all
    environment.filters["same"] = equate_columns
    return environment


@cache
def _inline_template(text: str) -> Template:
    return _environment().from_string(text)


def render(source: str | SQL, names: Mapping[str, Any] | None = None) -> str:
    """The text of a statement with its identifiers filled in.

    Args:
        source: the name of a file `sql/<name>.sql`, such as `swapping/margin`, or a statement of one line.
        names: the values of the statement's placeholders: identifiers, lists of them, or `Fragment`s.

    Raises:
        jinja2.UndefinedError: if a placeholder has no value.
        TypeError: if a placeholder is filled with unquoted text.
    """
    if isinstance(source, SQL):
        template = _inline_template(source.text)
    else:
        template = _environment().get_template(f"{source}.sql")
    return template.render(**(names or {}))
