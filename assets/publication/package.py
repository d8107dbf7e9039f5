"""The data files of a publication, the data dictionary that describes them, and the lines that read them.

This module writes CSV, Parquet, `datapackage.json` (Frictionless Data Package) and `README.txt`. The same tables always
give the same bytes. `signature` lists and signs the files, `placement` moves them into place, and `certificate` states
the guarantee.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field
from pydantic.dataclasses import dataclass as recorded

from assets.conventions import join_names
from assets.publication.signature import CHECKSUMS, PUBLIC_KEY, SIGNATURE, file_sha256
from assets.release.prose import load_template
from assets.release.published import CONFIDENCE, FIELD_TYPES, LIST, PublishedColumn, PublishedTable
from assets.release.release import Release
from assets.release.statement import RECORDED, Parameter, Sha256
from assets.texts import FORMULA_SIGNS, SIGNED_NUMBER, is_formula
from resources.chain import NOT_CHARGED
from resources.statements import SQL, Fragment, quote, quote_literal
from resources.warehouse import Session

_DISTINCT = SQL("publication/distinct", "SELECT count(*) FROM (SELECT DISTINCT {{ columns | ids }} FROM {{ table }})")
_GROUPS = SQL("publication/groups", "SELECT DISTINCT {{ columns | ids }} FROM {{ table }} ORDER BY ALL")
_NO_ROWS = SQL("publication/no_rows", "SELECT {{ columns | ids }} FROM {{ table }} LIMIT 0")

_MANY_COLUMNS = 30

README = "README.txt"
_README_WIDTH = 100

_PARQUET_FORMAT = "Parquet"
"""Frictionless would read `parquet` as a table, and skip size and hash. As the standard has no type for files besides
tables, only the capital letter keeps it from that."""

_PROFILES = "https://datapackage.org/profiles/2.0"

_MEDIA_TYPES = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "px": "text/x-pcaxis",
    "json": "application/json",
    "sdmx.csv": "application/vnd.sdmx.data+csv;version=2.1.0",
    "sdmx.xml": "application/vnd.sdmx.data+xml;version=3.1.0",
    "structure.xml": "application/vnd.sdmx.structure+xml;version=3.1.0",
}

_ROWS_OF_LISTS, _INTEGERS_OF_LISTS = 8192, 4_000_000
"""A Parquet row group of a table with lists ends when it has so many rows, or so many integers: it is in memory."""

_ROWS_READ = 2048
"""The number of rows of a table with lists that are read at a time."""


_FORMATS = {
    "sdmx.csv": "SDMX for exchange between offices (.structure.xml with .sdmx.csv or .sdmx.xml)",
    "px": "PX for PxWeb (.px)",
    "json": "JSON-stat for web pages and programs (.json)",
}
"""The formats by the end of a file's name, each with what it is for."""


@recorded(frozen=True, config=RECORDED)
class DataFile:
    """A written data file."""

    product: str = Field(serialization_alias="name", description="The name of the published table.")
    title: str = Field(description="The title of the published table.")
    path: str = Field(description="The name of the file.")
    format: str = Field(exclude=True, description="The end of its name: `csv`, `parquet`, or a key of `_MEDIA_TYPES`.")
    rows: int = Field(ge=0, description="The number of rows, without the header.")
    bytes: int = Field(ge=0, description="The size of the file.")
    sha256: Sha256 = Field(description="The SHA-256 of the file.")
    missing: str | None = Field(
        exclude=True, description="The text that stands for a missing value; None if the format has nulls."
    )
    interval: str = Field(
        default="",
        description="By which method the 90% intervals of its estimates are made; empty if it has no errors.",
    )


def write_data_files(session: Session, folder: Path, tables: Sequence[PublishedTable]) -> tuple[DataFile, ...]:
    """Write each table as `<name>.csv` and `<name>.parquet`, with rows ordered by all columns and totals first.

    A table with lists is written as Parquet only, with rows ordered by the primary key.

    Parquet has decimals as the nearest doubles, so that programs load them as numbers; CSV has every digit.

    CSV files follow RFC 4180, in UTF-8, with a header, and with a line feed at the end of each line. A missing value is
    an empty field. If the table contains empty text, a missing value is instead the first of NULL, NULL_, NULL__, ...
    that does not occur in the table.

    Raises:
        ValueError: if the names or types of a table's columns are not the declared ones.
        WarehouseError: if a statement fails.
    """
    files = []
    for published in tables:
        _require_declared_columns(session, published)
        rows = session.count(published.table)
        if published.has_lists:
            files.append(_write_lists(session, folder, published, rows))
        else:
            order = _order_rows(session, published, rows)
            files.append(_write_file(session, folder, published, order, rows, _missing_marker(session, published)))
            files.append(_write_file(session, folder, published, order, rows, None))
    return tuple(files)


def _order_rows(session: Session, published: PublishedTable, rows: int) -> Sequence[PublishedColumn]:
    """The columns by which rows are ordered: all, or of a table with many, the first ones that have the primary key, if
    these tell the rows apart. They take a fraction of the time, and the order is the same."""
    names = [column.name for column in published.columns]
    first = published.columns[: 1 + max(map(names.index, published.primary_key), default=-1)]
    if not first or len(names) < _MANY_COLUMNS:
        return published.columns
    (distinct,) = session.row(_DISTINCT, table=published.table, columns=[column.name for column in first])
    return first if distinct == rows else published.columns


def _write_file(
    session: Session,
    folder: Path,
    published: PublishedTable,
    order: Sequence[PublishedColumn],
    rows: int,
    missing: str | None,
) -> DataFile:
    """Write a table as CSV, with a text for missing values, or else as Parquet."""
    path = folder / f"{published.name}.{'parquet' if missing is None else 'csv'}"
    session.run(
        "publication/write",
        table=published.table,
        columns=_parquet_columns(published) if missing is None else [column.name for column in published.columns],
        order=[(column.name, column.total) for column in order],
        path=quote_literal(path),
        missing=None if missing is None else quote_literal(missing),
        delimiter=quote_literal(published.delimiter),
    )
    return describe_file(published, path, rows, missing)


def _parquet_columns(published: PublishedTable) -> list[str | Fragment]:
    """The columns with decimals as the nearest doubles.

    DuckDB's cast from a decimal may miss the nearest double in the last bit, and its cast from text never does.
    """
    return [
        Fragment(f"{quote(column.name)}::VARCHAR::DOUBLE AS {quote(column.name)}")
        if column.type == "decimal"
        else column.name
        for column in published.columns
    ]


def _write_lists(session: Session, folder: Path, published: PublishedTable, rows: int) -> DataFile:
    """Write a table with lists, ordered by its primary key, without having more than a few row groups in memory.

    Rows that differ only in the key's last column are a group. Groups that are stored in order, as they are unless
    somebody copied the table, are read as they are stored: lists take long to sort.
    """
    path = folder / f"{published.name}.parquet"
    columns = _parquet_columns(published)
    *grouped, last = published.primary_key
    lists = [column.name for column in published.columns if column.type == LIST]
    names = {"table": published.table, "group": grouped}
    schema = session.arrow(_NO_ROWS, table=published.table, columns=columns).schema
    groups = session.rows(_GROUPS, table=published.table, columns=grouped) if grouped else [()]
    written = 0
    with _writer(path, schema, lists) as writer, ThreadPoolExecutor(1) as writing:
        for values in groups:
            bound = {f"value_{number}": value for number, value in enumerate(values)}
            rows_stored = session.arrow("publication/rows_of_group", bound, **names, columns=[last], order="")
            stored = rows_stored[last].to_numpy()
            in_order = not rows_stored[last].null_count and bool(np.all(stored[1:] > stored[:-1]))
            under_way = deque[Future[None]]()
            batches = session.batches(
                "publication/rows_of_group",
                _ROWS_READ,
                bound,
                **names,
                columns=columns,
                order="" if in_order else last,
            )
            for rows_together in _row_groups(batches, lists):
                under_way.append(writing.submit(writer.write_table, rows_together))
                written += rows_together.num_rows
                if len(under_way) > 1:
                    under_way.popleft().result()
            for future in under_way:
                future.result()
    if written != rows:
        raise ValueError(f"product {published.name}: {written:,} of {rows:,} rows were written")
    return describe_file(published, path, rows, None)


def _row_groups(batches: Iterable[pa.RecordBatch], lists: Sequence[str]) -> Iterator[pa.Table]:
    group: list[pa.RecordBatch] = []
    rows = integers = 0
    for batch in batches:
        group.append(batch)
        rows += batch.num_rows
        integers += sum(len(batch[name].flatten()) for name in lists)
        if rows >= _ROWS_OF_LISTS or integers >= _INTEGERS_OF_LISTS:
            yield pa.Table.from_batches(group)
            group, rows, integers = [], 0, 0
    if group:
        yield pa.Table.from_batches(group)


def _writer(path: Path, schema: pa.Schema, lists: Sequence[str]) -> pq.ParquetWriter:
    """A writer that packs the integers of lists in few bits, which takes a fraction of the time of compressing them."""
    others = [name for name in schema.names if name not in lists]
    return pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        use_dictionary=others,
        write_statistics=others,
        column_encoding={f"{name}.list.element": "DELTA_BINARY_PACKED" for name in lists},
    )


def data_package(
    release: Release,
    tables: Sequence[PublishedTable],
    files: Sequence[DataFile],
    edition: int,
    created: str,
    revision: int = 0,
) -> bytes:
    """The text of `datapackage.json`: for each file, its content, columns, types, values and hash.

    Source: the Data Package standard, version 2.

    Args:
        files: the results of `write_data_files` and `write_cubes` for these tables.
        created: when the edition was charged, ISO 8601 in UTC, which never changes for an edition.
        revision: how many other estimates of the same draw were published before.
    """
    dataset, publisher = release.dataset, release.publisher
    license_ = {"name": publisher.license, "path": publisher.license_url}
    contributor = {"title": publisher.authority, "roles": ["publisher"]}
    if publisher.contact and publisher.contact.startswith(("http://", "https://")):
        contributor["path"] = publisher.contact
    elif publisher.contact and re.fullmatch(r"[^@\s]+@[^@\s]+", publisher.contact):
        contributor["email"] = publisher.contact
    by_name = {published.name: published for published in tables}
    package = {
        "$schema": f"{_PROFILES}/datapackage.json",
        "name": f"{dataset.name}-{release.name}".replace("_", "-"),
        "title": release.title,
        "description": release.description,
        "version": f"{edition}.{revision}.0",
        "created": created,
        **({"licenses": [{key: value for key, value in license_.items() if value}]} if any(license_.values()) else {}),
        "sources": [
            {"title": dataset.title, **({"description": dataset.description} if dataset.description else {})},
            *([{"title": dataset.source, "description": NOT_CHARGED}] if dataset.public else []),
        ],
        **({"contributors": [contributor]} if publisher.authority else {}),
        "resources": [_resource(by_name[file.product], file) for file in files],
    }
    return (json.dumps(package, ensure_ascii=False, indent=2) + "\n").encode()


def _require_declared_columns(session: Session, published: PublishedTable) -> None:
    stored = session.columns(published.table)
    declared = {column.name: column.type for column in published.columns}
    if stored.keys() != declared.keys():
        odd = ", ".join(sorted(stored.keys() ^ declared.keys()))
        raise ValueError(f"product {published.name}: declared columns and those of {published.table} differ in {odd}")
    for name, kind in declared.items():
        if stored[name].split("(")[0] not in FIELD_TYPES[kind][1]:
            raise ValueError(f"product {published.name}: column {name} is stored as {stored[name]}, not as {kind}")


def _missing_marker(session: Session, published: PublishedTable) -> str:
    """A text for missing values that occurs in no text column: CSV readers treat "" as an empty field."""
    texts = [column.name for column in published.columns if column.type == "string"]
    marker = ""
    while session.row("publication/count_text", {"text": marker}, table=published.table, columns=texts)[0]:
        marker = f"{marker}_" if marker else "NULL"
    return marker


def describe_file(published: PublishedTable, path: Path, rows: int, missing: str | None) -> DataFile:
    return DataFile(
        product=published.name,
        title=published.title,
        path=path.name,
        format=path.name.partition(".")[2],
        rows=rows,
        bytes=path.stat().st_size,
        sha256=file_sha256(path),
        missing=missing,
        interval=published.interval,
    )


def _resource(published: PublishedTable, file: DataFile) -> dict[str, Any]:
    described = {
        "title": published.title,
        "description": published.description,
        **({"interval": {"confidence": CONFIDENCE, "method": published.interval}} if published.interval else {}),
        "path": file.path,
        "format": _PARQUET_FORMAT if file.format == "parquet" else file.format,
        "bytes": file.bytes,
        "hash": f"sha256:{file.sha256}",
    }
    described |= {"$schema": f"{_PROFILES}/dataresource.json", "mediatype": _MEDIA_TYPES[file.format]}
    if file.format != "csv":
        described |= {"name": f"{file.product}-{file.format}"}
        return described | ({"schema": _schema(published)} if published.has_lists else {})
    return described | {
        "name": file.product,
        "type": "table",
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
    described: dict[str, Any] = {"name": column.name, "type": FIELD_TYPES[column.type][0]}
    if column.type == LIST:
        described["arrayItem"] = {"type": "integer"}
    if column.title:
        described["title"] = column.title
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


def list_formulas(session: Session, tables: Iterable[PublishedTable]) -> list[str]:
    """The names of those CSV files in which a name of a column or a text is a formula to a spreadsheet."""
    values = {"signs": list(FORMULA_SIGNS), "number": SIGNED_NUMBER.pattern}
    found = []
    for table in tables:
        texts = [column.name for column in table.columns if column.type == "string"]
        if not table.has_lists and (
            any(is_formula(column.name) for column in table.columns)
            or session.row("publication/count_formulas", values, table=table.table, columns=texts)[0]
        ):
            found.append(f"{table.name}.csv")
    return found


def readme(
    release: Release,
    tables: Sequence[PublishedTable],
    files: Sequence[DataFile],
    formulas: Sequence[str] = (),
    left_out: Sequence[str] = (),
    models: Sequence[Parameter] = (),
) -> bytes:
    """The text of `README.txt`: what the files are, and lines that read them and keep codes as text.

    Codes such as `01` are text. Programs that guess types read them as numbers and lose the zero, and some read the
    code `NA` as missing. The lines state the type of every text column, and which text marks a missing value.

    Args:
        formulas: the files of `list_formulas`.
        left_out: a sentence for each file that was too large for its format, or would have no cells.
        models: the models that figures follow from, as the certificate names them.
    """
    template = load_template(
        Path(__file__).with_name("readme.txt"),
        escape=False,
        filled=lambda text: fill(text, _README_WIDTH),
        python=repr,
        sql=quote_literal,
        r=lambda text: "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'",
        r_name=lambda name: "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`",
    )
    text = template.render(
        title=release.title,
        description=release.description,
        public=release.dataset.source,
        readable=list(_readable(tables, files)),
        formulas=join_names(formulas),
        formats=join_names([_FORMATS[end] for end in _FORMATS if any(file.format == end for file in files)]),
        left_out=" ".join(left_out),
        models=models,
        checksums=CHECKSUMS,
        signature=SIGNATURE,
        public_key=PUBLIC_KEY,
    )
    return text.encode()


def _readable(
    tables: Sequence[PublishedTable], files: Sequence[DataFile]
) -> Iterator[tuple[PublishedTable, DataFile, list[str], dict[str, str]]]:
    """Each table with its file to read, its text columns, and the types that pandas must be told."""
    by_name = {table.name: table for table in tables}
    for file in files:
        table = by_name[file.product]
        if file.format == "csv" or table.has_lists:
            texts = [column.name for column in table.columns if column.type == "string"]
            numbers = [column.name for column in table.columns if column.type == "integer" and not column.required]
            yield table, file, texts, dict.fromkeys(texts, "str") | dict.fromkeys(numbers, "Int64")
