"""A publication's data files, the data dictionary that describes them, and their checksums.

Here belongs how a published table is written down: CSV, Parquet, `datapackage.json` (Frictionless Data
Package) and `SHA256SUMS`. The same tables always give the same bytes. Where the files stand belongs in
`placement`, what the release guarantees in `certificate`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any

from assets.release.published import FIELD_TYPES, LIST, PublishedColumn, PublishedTable
from resources.statements import Fragment, literal
from resources.warehouse import Session

CHECKSUMS = "SHA256SUMS"

_PARQUET = "application/vnd.apache.parquet"


_ROWS_OF_LISTS = 8192
"""Rows of a Parquet row group where a row may hold thousands of integers: DuckDB holds row groups in memory."""

_SORTED_AS = {
    "integer": Fragment("BIGINT"),
    "string": Fragment("VARCHAR"),
    "boolean": Fragment("BOOLEAN"),
    "date": Fragment("DATE"),
    "decimal": Fragment("DECIMAL(18,4)"),
}
"""By declared type: the DuckDB type whose order the rows have, for a column of texts holds numbers too."""


@dataclass(frozen=True)
class DataFile:
    """A data file as it was written.

    Attributes:
        product: the name of the published table.
        title: its title.
        path: the file's name.
        format: "csv" or "parquet".
        rows: its rows, without the header.
        bytes: its size.
        sha256: its SHA-256, 64 hexadecimal digits.
        missing: the text that stands for a missing value; None where the format has its own way.
    """

    product: str
    title: str
    path: str
    format: str
    rows: int
    bytes: int
    sha256: str
    missing: str | None


def write_data_files(session: Session, folder: Path, tables: Sequence[PublishedTable]) -> tuple[DataFile, ...]:
    """Write each table as `<name>.csv` and `<name>.parquet`, rows ordered by all columns, totals first.

    A table with lists is written as Parquet only, rows ordered by the primary key.

    CSV is as RFC 4180 has it, in UTF-8, with a header, and with a line feed at the end of each line. A missing
    value is an empty field; where the table holds empty text it is the first of NULL, NULL_, NULL__, ... that
    the table does not hold.

    Raises:
        ValueError: if a table's columns are not the declared ones, in names and types.
        WarehouseError: if DuckDB refuses.
    """
    files = []
    for published in tables:
        _require_declared_columns(session, published)
        rows = session.count(published.table)
        if not published.has_lists:
            files.append(_write_csv(session, folder, published, rows))
        files.append(_write_parquet(session, folder, published, rows))
    return tuple(files)


def _write_csv(session: Session, folder: Path, published: PublishedTable, rows: int) -> DataFile:
    path, missing = folder / f"{published.name}.csv", _missing_marker(session, published)
    session.run(
        "publication/write_csv",
        table=published.table,
        columns=[column.name for column in published.columns],
        order=_order(published),
        path=literal(path),
        missing=literal(missing),
        delimiter=literal(published.delimiter),
    )
    return _data_file(published, path, rows, missing)


def _write_parquet(session: Session, folder: Path, published: PublishedTable, rows: int) -> DataFile:
    path = folder / f"{published.name}.parquet"
    session.run(
        "publication/write_parquet",
        table=published.table,
        columns=[column.name for column in published.columns],
        order=_order(published),
        path=literal(path),
        row_group=_ROWS_OF_LISTS if published.has_lists else None,
    )
    return _data_file(published, path, rows, None)


def _order(published: PublishedTable) -> list[tuple[str, str | Fragment, Fragment]]:
    """The columns that rows are ordered by: name, the value of totals if there are any, and the type to order as."""
    columns = {column.name: column for column in published.columns}
    ordered = published.primary_key if published.has_lists else columns
    return [
        (name, columns[name].total and literal(columns[name].total), _SORTED_AS[columns[name].type]) for name in ordered
    ]


def data_package(
    name: str, title: str, description: str, tables: Sequence[PublishedTable], files: Sequence[DataFile]
) -> bytes:
    """The text of `datapackage.json`: what each file holds, its columns, their types and values, its hash.

    Source: the Data Package and Table Schema specifications, version 1; the labels of values are in
    `categories`, as version 2 has them.

    Args:
        name: of the package: small letters, digits, `.`, `_`, `-` and `/`.
        title: of the package, in words.
        description: what a reader should know of the whole.
        tables: what is published.
        files: as `write_data_files` returned them for these tables.
    """
    by_name = {published.name: published for published in tables}
    package = {
        "profile": "data-package",
        "name": name,
        "title": title,
        "description": description,
        "resources": [_resource(by_name[file.product], file) for file in files],
    }
    return (json.dumps(package, ensure_ascii=False, indent=2) + "\n").encode()


def checksums(folder: Path) -> bytes:
    """The text of `SHA256SUMS`, for `sha256sum -c`: every other file in the folder, by name."""
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return "".join(f"{file_sha256(folder / path)}  {path}\n" for path in paths if path != CHECKSUMS).encode()


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, 64 hexadecimal digits."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _require_declared_columns(session: Session, published: PublishedTable) -> None:
    stored = session.columns(published.table)
    declared = {column.name: column.written_type for column in published.columns}
    if stored.keys() != declared.keys():
        odd = ", ".join(sorted(stored.keys() ^ declared.keys()))
        raise ValueError(f"product {published.name}: declared columns and those of {published.table} differ in {odd}")
    for name, kind in declared.items():
        if stored[name].split("(")[0] not in FIELD_TYPES[kind][1]:
            raise ValueError(f"product {published.name}: column {name} is stored as {stored[name]}, not as {kind}")


def _missing_marker(session: Session, published: PublishedTable) -> str:
    """A text for missing values that no text column holds: readers of CSV do not tell "" from an empty field."""
    texts = [column.name for column in published.columns if column.written_type == "string"]
    marker = ""
    while session.row("publication/count_text", {"text": marker}, table=published.table, columns=texts)[0]:
        marker = f"{marker}_" if marker else "NULL"
    return marker


def _data_file(published: PublishedTable, path: Path, rows: int, missing: str | None) -> DataFile:
    return DataFile(
        product=published.name,
        title=published.title,
        path=path.name,
        format=path.suffix.removeprefix("."),
        rows=rows,
        bytes=path.stat().st_size,
        sha256=file_sha256(path),
        missing=missing,
    )


def _resource(published: PublishedTable, file: DataFile) -> dict[str, Any]:
    described = {
        "title": published.title,
        "description": published.description,
        "path": file.path,
        "format": file.format,
        "bytes": file.bytes,
        "hash": f"sha256:{file.sha256}",
    }
    if file.format == "parquet":
        # Read as a table, validators skip its size and hash.
        described |= {"name": f"{file.product}-parquet", "type": "file", "mediatype": _PARQUET}
        return described | ({"schema": _schema(published)} if published.has_lists else {})
    return described | {
        "name": file.product,
        "profile": "tabular-data-resource",
        "mediatype": "text/csv",
        "encoding": "utf-8",
        "dialect": {
            "delimiter": published.delimiter,
            "lineTerminator": "\n",
            "quoteChar": '"',
            "doubleQuote": True,
            "header": True,
        },
        "schema": _schema(published) | {"missingValues": [file.missing]},
    }


def _schema(published: PublishedTable) -> dict[str, Any]:
    return {
        "fields": [_field(column) for column in published.columns],
        "primaryKey": list(published.primary_key),
    }


def _field(column: PublishedColumn) -> dict[str, Any]:
    described: dict[str, Any] = {"name": column.name, "type": FIELD_TYPES[column.written_type][0]}
    if column.type == LIST:
        described["arrayItem"] = {"type": "integer"}
    if column.description:
        described["description"] = column.description
    constraints: dict[str, Any] = {"required": True} if column.required else {}
    if column.values:
        constraints["enum"] = [_plain(value) for value in column.values]
    if any(column.values.values()):
        described["categories"] = [
            {"value": _plain(value), "label": label or str(value)} for value, label in column.values.items()
        ]
    return described | ({"constraints": constraints} if constraints else {})


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | str) else str(value)
