"""The data files of a publication, the data dictionary that describes them, and the lines of code that read them.

This module writes CSV, Parquet, `datapackage.json` (Frictionless Data Package) and `README.txt`. The same tables always
give the same bytes. `signature` lists and signs the files, `placement` moves them into place, and `certificate` states
the guarantee.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass as recorded

from assets.conventions import join_names
from assets.release.prose import load_template
from assets.release.published import CONFIDENCE, FIELD_TYPES, LIST, PublishedColumn, PublishedTable
from assets.release.release import Release
from assets.release.signature import CHECKSUMS, PUBLIC_KEY, SIGNATURE, file_sha256
from assets.release.statement import RECORDED, Parameter, Sha256
from assets.texts import FORMULA_SIGNS, SIGNED_NUMBER, is_formula
from resources.arrays import read_lists, read_texts
from resources.chain import NOT_CHARGED
from resources.digests import ROWS_HASHED
from resources.machine import count_cores
from resources.packed import Packed
from resources.processes import Stopped, in_threads
from resources.statements import SQL, Fragment, Table, quote, quote_literal
from resources.warehouse import Session

_DISTINCT = SQL("publication/distinct", "SELECT count(*) FROM (SELECT DISTINCT {{ columns | ids }} FROM {{ table }})")
_GROUPS = SQL("publication/groups", "SELECT DISTINCT {{ columns | ids }} FROM {{ table }} ORDER BY ALL LIMIT $most")
_NO_ROWS = SQL("publication/no_rows", "SELECT {{ columns | ids }} FROM {{ table }} LIMIT 0")

_WRITERS = 4
"""The most tables that are written at a time: a group of rows of each is in memory."""

_MANY_COLUMNS = 30

_SAME_IN_ARROW = re.compile(r"VARCHAR|BOOLEAN|DATE|DOUBLE|DECIMAL\(\d+,\d+\)|U?(TINYINT|SMALLINT|INTEGER|BIGINT)")
"""The column types that survive the way from DuckDB to Arrow and back."""

_DECIMAL = re.compile(r"DECIMAL\(\d+,(\d+)\)")
_EXACT_IN_DOUBLES, _EXACT_POWER = 2**53, 22
"""Doubles represent all integers up to the first number, and all powers of ten up to this exponent."""

_FEW_ROWS = 122_880
"""The number of rows of a Parquet row group, which DuckDB keeps in memory in any case."""

_MOST_GROUPS, _ROWS_TOGETHER = 20, 8 * 2048
"""The most groups of rows that are read one by one, and the number of rows read at a time: a multiple of DuckDB's
vectors."""

README = "README.txt"
_README_WIDTH = 100

_PARQUET_FORMAT = "Parquet"
"""Frictionless would read `parquet` as a table, and skip size and hash. The standard has no type for files other than
tables, so only the capital letter prevents this."""

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
"""The numbers of rows and of integers at which a Parquet row group of a table with lists ends: it is in memory."""

_ROWS_READ = 2048
"""The number of rows read at a time from a table with lists."""


_FORMATS = {
    "sdmx.csv": "SDMX for exchange between offices (.structure.xml with .sdmx.csv or .sdmx.xml)",
    "px": "PX for PxWeb (.px)",
    "json": "JSON-stat for web pages and programs (.json)",
}
"""The formats by the suffix of a file's name, each with its use."""


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

    Parquet has decimals as the nearest doubles, so that programs load them as numbers; CSV has all digits.

    CSV files follow RFC 4180, in UTF-8, with a header and a line feed at the end of each line. A missing value is an
    empty field. If the table contains empty text, a missing value is instead the first of NULL, NULL_, NULL__, ... that
    does not occur in the table.

    Raises:
        ValueError: if the names or types of a table's columns are not the declared ones.
        WarehouseError: if a statement fails.
    """
    for published in tables:
        _require_declared_columns(session, published)
    rows = {published.name: session.count(published.table) for published in tables}

    def write(published: PublishedTable, _: Stopped) -> list[DataFile]:
        with session.open_sibling() as own:
            return list(_write_rows(own, folder, published, rows[published.name]))

    # One thread packs lists, while others write the other tables. If they fail, the thread cannot continue reading.
    with ThreadPoolExecutor(1) as packing, session.open_sibling() as reading:
        packed = {
            published.name: packing.submit(_write_lists, reading, folder, published, rows[published.name])
            for published in tables
            if published.has_lists
        }
        plain = [published for published in tables if not published.has_lists]
        threads = max(1, min(count_cores() - bool(packed), _WRITERS))
        with closing(in_threads(write, plain, threads)) as files:
            written = {published.name: own for published, own in zip(plain, files, strict=True)}
        written |= {name: [file.result()] for name, file in packed.items()}
    return tuple(file for published in tables for file in written[published.name])


def _order_rows(session: Session, published: PublishedTable, rows: int) -> Sequence[PublishedColumn]:
    """The columns by which rows are ordered: all, or for a table with many columns, the first columns up to the last
    one of the primary key, if they identify the rows. They take a fraction of the time, and give the same order."""
    names = [column.name for column in published.columns]
    first = _first_columns(published)
    if not first or len(names) < _MANY_COLUMNS:
        return published.columns
    (distinct,) = session.row(_DISTINCT, table=published.table, columns=[column.name for column in first])
    return first if distinct == rows else published.columns


def _first_columns(published: PublishedTable) -> Sequence[PublishedColumn]:
    """The first columns, up to the last one of the primary key."""
    names = [column.name for column in published.columns]
    return published.columns[: 1 + max(map(names.index, published.primary_key), default=-1)]


def _find_groups(session: Session, published: PublishedTable) -> Sequence["_Group"] | None:
    """The groups of rows that, read one by one as stored, have the order by all columns: the whole table, or all rows
    with the same values in all but the last of the first columns. None if there are no or too many groups, or their
    values would not come back from Arrow with the same types.
    """
    first, kinds = _first_columns(published), _find_kinds(session, published)
    if not first or not all(_SAME_IN_ARROW.fullmatch(kinds[column.name]) for column in published.columns):
        return None
    if _is_in_order(session, published.table, _WHOLE, first):
        return [_WHOLE]
    *grouped, last = first
    if not grouped or any(column.total for column in first):
        return None
    columns, most = [column.name for column in grouped], {"most": _MOST_GROUPS + 1}
    groups = [_Group(columns, values) for values in session.rows(_GROUPS, most, table=published.table, columns=columns)]
    if len(groups) > _MOST_GROUPS or not all(_is_in_order(session, published.table, group, [last]) for group in groups):
        return None
    return groups


@dataclass(frozen=True)
class _Group:
    """The rows of a table with given values in some columns."""

    columns: Sequence[str] = ()
    values: Sequence[object] = ()

    def read(
        self, session: Session, table: Table, columns: Sequence[str | Fragment], rows: int, order: Sequence[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Some columns of the group's rows, as stored or in order, in batches of about `rows` rows.

        Raises ValueError if DuckDB returns rows of another group, as forged statistics of a table could cause.
        """
        bound = {f"value_{number}": value for number, value in enumerate(self.values) if value is not None}
        group_by = list(zip(self.columns, self.values, strict=True))
        names = {"table": table, "columns": [*columns, *self.columns], "group": group_by, "order": order}
        for batch in session.batches("publication/rows_of_group", rows, bound, **names):
            own, group = batch.columns[: len(columns)], batch.columns[len(columns) :]
            for column, value in zip(group, self.values, strict=True):
                if not (column.null_count == len(column) if value is None else column.unique().to_pylist() == [value]):
                    raise ValueError(f"{table}: rows of another group")
            yield pa.RecordBatch.from_arrays(own, batch.schema.names[: len(columns)])


_WHOLE = _Group()


def _is_in_order(session: Session, table: Table, group: _Group, columns: Sequence[PublishedColumn]) -> bool:
    """Whether the rows of a group are stored in strict order of some columns that have no NULL."""
    if not _keeps_order(session, table):
        return False
    names, before = _name_keys(columns), None
    for batch in group.read(session, table, names, ROWS_HASHED):
        if not _ascends(before, batch, columns):
            return False
        before = batch.slice(len(batch) - 1)
    return True


def _name_keys(columns: Sequence[PublishedColumn]) -> list[str]:
    """The names of key columns, each once as Arrow requires: a column that marks totals may be a key too."""
    return list(dict.fromkeys(name for column in columns for name in (column.total, column.name) if name))


def _keeps_order(session: Session, table: Table) -> bool:
    return session.compute_once(("keeps order", table), lambda: session.keeps_order(table))


def _ascends(before: pa.RecordBatch | None, batch: pa.RecordBatch, columns: Sequence[PublishedColumn]) -> bool:
    """Whether the row before, if any, and the rows of a batch are in strict order of some columns that have no NULL."""
    totals = {column.total for column in columns if column.total}
    batch = batch.select(_name_keys(columns))
    if any(column.null_count for column in batch.columns):
        return False
    rows = batch if before is None else pa.concat_batches([before.select(batch.schema.names), batch])
    first, second = rows.slice(0, len(rows) - 1), rows.slice(1)
    less, equal = np.zeros(len(first), dtype=bool), np.ones(len(first), dtype=bool)
    for name, one, other in zip(batch.schema.names, first.columns, second.columns, strict=True):
        # Totals come first.
        one, other = (other, one) if name in totals else (one, other)
        if pa.types.is_boolean(one.type):
            one, other = one.cast(pa.int8()), other.cast(pa.int8())
        less |= equal & pc.less(one, other).to_numpy(zero_copy_only=False)
        equal &= pc.equal(one, other).to_numpy(zero_copy_only=False)
    return bool(less.all())


def _sort_keys(columns: Sequence[PublishedColumn]) -> list[tuple[str, str]]:
    return [(column.name, column.total) for column in columns]


def _write_rows(session: Session, folder: Path, published: PublishedTable, rows: int) -> Iterator[DataFile]:
    """Write a table as CSV and as Parquet. DuckDB sorts many rows on disk, so rows already in order are not sorted. Few
    rows are sorted in less time than they take through Arrow, unless they have many columns."""
    missing = _missing_marker(session, published)
    if published.numbers:
        # Rows with lists, up to one batch, are sorted in less time than their groups are read one by one.
        groups = _find_groups(session, published) if rows > _ROWS_TOGETHER else None
        yield from _write_numbers(session, folder, published, groups, rows, missing)
        return
    is_large, is_wide = rows > _FEW_ROWS, len(published.columns) >= _MANY_COLUMNS
    groups = _find_groups(session, published) if is_large or is_wide else None
    in_order = groups if is_large else None
    file = _write_integers(session, folder, published, groups, rows, missing) if groups and is_wide else None
    if file is None and groups == [_WHOLE]:
        file = _write_file(session, folder, published, published.source, (), rows, missing)
    yield file or _write_in_order(session, folder, published, in_order, rows, missing)
    # Parquet row groups of rows as stored would end where the row groups of the storage end.
    yield _write_in_order(session, folder, published, in_order, rows, None)


def _write_in_order(
    session: Session,
    folder: Path,
    published: PublishedTable,
    groups: Sequence[_Group] | None,
    rows: int,
    missing: str | None,
) -> DataFile:
    """Write the rows of a table as `_write_file`, group by group, or else sorted."""
    if not groups:
        order = _order_rows(session, published, rows)
        return _write_file(session, folder, published, published.source, order, rows, missing)
    with session.open_sibling() as reading:
        columns = [column.name for column in published.columns]
        source = session.register("rows", _read_groups(reading, published, groups, columns))
        return _write_file(session, folder, published, source, (), rows, missing)


def _read_groups(
    session: Session,
    published: PublishedTable,
    groups: Sequence[_Group],
    columns: Sequence[str],
    order: Sequence[PublishedColumn] = (),
) -> pa.RecordBatchReader:
    """The rows of groups, as stored or in order. The sizes of the batches make DuckDB end Parquet row groups where it
    would after sorting."""
    names = [column.name for column in order]

    def read() -> Iterator[pa.RecordBatch]:
        left = schema.empty_table()
        for group in groups:
            for batch in group.read(session, published.table, columns, _ROWS_TOGETHER, names):
                left = pa.concat_tables([left, pa.Table.from_batches([batch])])
                whole = len(left) - len(left) % _ROWS_TOGETHER
                if whole:
                    yield from left.slice(0, whole).combine_chunks().to_batches(_ROWS_TOGETHER)
                    left = left.slice(whole)
        yield from left.combine_chunks().to_batches()

    schema = session.arrow(_NO_ROWS, table=published.table, columns=columns).schema
    return pa.RecordBatchReader.from_batches(schema, read())


def _write_numbers(
    session: Session,
    folder: Path,
    published: PublishedTable,
    groups: Sequence[_Group] | None,
    rows: int,
    missing: str,
) -> Iterator[DataFile]:
    """Write a table of hundreds of columns, whose numbers are stored in lists, as CSV and as Parquet in one pass, from
    groups of `_find_groups`, or else sorted. DuckDB takes several times as long.

    Raises ValueError if the primary key does not identify the rows, the length of a list is not the number of its
    columns, or another number of rows is written.
    """
    # Numba takes a while to import, and few releases have such tables.
    from mechanisms.row_texts import write_lines

    key = published.columns[: len(published.primary_key)]
    texts = [column.name for column in key]
    if not groups and session.row(_DISTINCT, table=published.table, columns=texts) != (rows,):
        raise ValueError(f"product {published.name}: its primary key does not tell its rows apart")
    kinds = _find_kinds(session, published)
    digits = {name: int(decimal[1]) for name, kind in kinds.items() if (decimal := _DECIMAL.fullmatch(kind))}
    others = [column.name for column in published.columns[len(key) :]]
    place = {name: number for number, name in enumerate(others)}
    types = [pa.string() for _ in texts] + [pa.float64() if name in digits else pa.int64() for name in others]
    schema = pa.schema(list(zip([*texts, *others], types, strict=True)))
    paths = [folder / f"{published.name}.{end}" for end in ("csv", "parquet")]
    written = 0
    with paths[0].open("wb") as lines, pq.ParquetWriter(paths[1], schema, compression="zstd") as writer:
        lines.write(_header(published, missing))
        stored = [*texts, *published.numbers]
        for batch in _read_groups(session, published, groups or [_WHOLE], stored, () if groups else key):
            numbers = np.empty((len(others), batch.num_rows), dtype=np.int64)
            for lists, own in published.numbers.items():
                numbers[[place[name] for name in own]] = read_lists(batch[lists], len(own)).T
            begins = read_texts(_join_fields([batch[name] for name in texts], published.delimiter, missing))
            lines.write(write_lines(begins, numbers, [digits.get(name, 0) for name in others], published.delimiter))
            columns = (
                _to_doubles(column, digits[name]) if name in digits else column
                for name, column in zip(others, numbers, strict=True)
            )
            writer.write_table(pa.table([*(batch[name] for name in texts), *map(pa.array, columns)], schema=schema))
            written += batch.num_rows
    if written != rows:
        raise ValueError(f"product {published.name}: {written:,} of {rows:,} rows were written")
    for path, marker in zip(paths, (missing, None), strict=True):
        yield describe_file(published, path, rows, marker)


def _write_integers(
    session: Session, folder: Path, published: PublishedTable, groups: Sequence[_Group], rows: int, missing: str
) -> DataFile | None:
    """Write a table with many columns of integers, after some of texts, as CSV, from groups of `_find_groups`. DuckDB
    takes several times as long. None if it is no such table, or an integer is missing: DuckDB then writes the file.

    Raises ValueError if another number of rows is written.
    """
    kinds, names = _find_kinds(session, published), [column.name for column in published.columns]
    first = 1 + max((place for place, name in enumerate(names) if kinds[name] != "BIGINT"), default=-1)
    texts, integers = names[:first], names[first:]
    if not texts or len(integers) < _MANY_COLUMNS or not {kinds[name] for name in texts} <= {"VARCHAR", "BIGINT"}:
        return None
    # Numba takes a while to import, and few releases have such tables.
    from mechanisms.row_texts import write_lines

    path, written = folder / f"{published.name}.csv", 0
    with path.open("wb") as lines:
        lines.write(_header(published, missing))
        for batch in _read_groups(session, published, groups, names):
            numbers = [batch[name] for name in integers]
            if any(column.null_count for column in numbers):
                return None
            fields = [batch[name].cast(pa.string()) for name in texts]
            begins = read_texts(_join_fields(fields, published.delimiter, missing))
            columns = np.array([column.to_numpy() for column in numbers])
            lines.write(write_lines(begins, columns, [0] * len(integers), published.delimiter))
            written += batch.num_rows
    if written != rows:
        raise ValueError(f"product {published.name}: {written:,} of {rows:,} rows were written")
    return describe_file(published, path, rows, missing)


def _header(published: PublishedTable, missing: str) -> bytes:
    """The first line of a CSV file."""
    names = pa.array([column.name for column in published.columns])
    return f"{published.delimiter.join(_join_fields([names], published.delimiter, missing).to_pylist())}\n".encode()


def _join_fields(fields: Sequence[pa.Array], delimiter: str, missing: str) -> pa.Array:
    """Texts of several columns as the beginnings of lines of a CSV file, quoted where DuckDB quotes them: also if they
    contain `#`, which begins a comment for some readers, or are the text for missing values, as a column's name may."""
    special = rf"[\r\n\"#{re.escape(delimiter)}]|^{missing}$"
    quoted = (
        pc.if_else(
            pc.match_substring_regex(texts, special),
            pc.binary_join_element_wise("", pc.replace_substring(texts, '"', '""'), "", '"'),
            texts,
        )
        for texts in fields
    )
    return pc.binary_join_element_wise(*(pc.fill_null(texts, missing) for texts in quoted), delimiter)


def _to_doubles(numbers: NDArray[np.int64], digits: int) -> NDArray[np.float64]:
    """The nearest doubles of decimals with `digits` digits after the point. A quotient of two integers that are exact
    as doubles is the nearest double."""
    if digits <= _EXACT_POWER and np.abs(numbers).max(initial=0) <= _EXACT_IN_DOUBLES:
        return numbers / 10.0**digits
    return np.array([float(Decimal(number).scaleb(-digits)) for number in numbers.tolist()])


def _write_file(
    session: Session,
    folder: Path,
    published: PublishedTable,
    source: Table | Fragment,
    order: Sequence[PublishedColumn],
    rows: int,
    missing: str | None,
) -> DataFile:
    """Write the rows of a table as CSV, with a text for missing values, or else as Parquet.

    Raises ValueError if another number of rows is written.
    """
    path = folder / f"{published.name}.{'parquet' if missing is None else 'csv'}"
    ((written,),) = session.rows(
        "publication/write",
        table=source,
        columns=_parquet_columns(session, published)
        if missing is None
        else [column.name for column in published.columns],
        order=_sort_keys(order),
        path=quote_literal(path),
        missing=None if missing is None else quote_literal(missing),
        delimiter=quote_literal(published.delimiter),
    )
    if written != rows:
        raise ValueError(f"product {published.name}: {written:,} of {rows:,} rows were written")
    return describe_file(published, path, rows, missing)


def _parquet_columns(session: Session, published: PublishedTable) -> list[str | Fragment]:
    """The columns, with decimals as the nearest doubles.

    DuckDB's cast from a decimal divides its digits by a power of ten, which gives the nearest double if both are exact
    in doubles, and may miss it in the last bit otherwise. Its cast from text never misses it, and takes much longer.
    """
    kinds, columns = _find_kinds(session, published), list[str | Fragment]()
    for column in published.columns:
        name, decimal = quote(column.name), _DECIMAL.fullmatch(kinds[column.name])
        if column.type != "decimal":
            columns.append(column.name)
        elif decimal and int(decimal[1]) <= _EXACT_POWER:
            most = Decimal(_EXACT_IN_DOUBLES).scaleb(-int(decimal[1]))
            exact = f"CASE WHEN abs({name}) <= {most:f} THEN {name}::DOUBLE ELSE {name}::VARCHAR::DOUBLE END"
            columns.append(Fragment(f"{exact} AS {name}"))
        else:
            columns.append(Fragment(f"{name}::VARCHAR::DOUBLE AS {name}"))
    return columns


def _write_lists(session: Session, folder: Path, published: PublishedTable, rows: int) -> DataFile:
    """Write a table with lists, ordered by its primary key, with at most a few row groups in memory.

    Rows that differ only in the key's last column are a group. Groups are read as stored, because lists take long to
    sort. If one of them turns out not to be in order, as after a copy of the table, all are sorted.
    """
    path = folder / f"{published.name}.parquet"
    *grouped, _ = published.primary_key
    groups = [_WHOLE]
    if grouped:
        values = session.rows(_GROUPS, {"most": None}, table=published.table, columns=grouped)
        groups = [_Group(grouped, own) for own in values]
    written = _write_groups(session, path, published, groups) if _keeps_order(session, published.table) else None
    if written is None:
        written = _write_groups(session, path, published, groups, is_sorted=True)
    if written != rows:
        raise ValueError(f"product {published.name}: {written or 0:,} of {rows:,} rows were written")
    return describe_file(published, path, rows, None)


def _write_groups(
    session: Session, path: Path, published: PublishedTable, groups: Sequence[_Group], *, is_sorted: bool = False
) -> int | None:
    """Write groups of rows of a table with lists, as they are stored or sorted by the last column of the primary key.

    Returns the number of rows; None if stored rows are not in strict order of that column.
    """
    columns, last = _parquet_columns(session, published), published.primary_key[-1]
    lists = [column.name for column in published.columns if column.type == LIST]
    key = [column for column in published.columns if column.name == last]
    schema = _unpack(session.arrow(_NO_ROWS, table=published.table, columns=columns), lists).schema
    written = 0
    with _writer(path, schema, lists) as writer, ThreadPoolExecutor(1) as writing:
        under_way = deque[Future[None]]()
        for group in groups:
            batches = group.read(session, published.table, columns, _ROWS_READ, [last] if is_sorted else [])
            before: pa.RecordBatch | None = None
            for rows_together in _row_groups(batches, lists):
                (keys,) = rows_together.select([last]).combine_chunks().to_batches()
                if not is_sorted and not _ascends(before, keys, key):
                    return None
                before = keys.slice(len(keys) - 1)
                under_way.append(writing.submit(writer.write_table, rows_together))
                written += rows_together.num_rows
                if len(under_way) > 1:
                    under_way.popleft().result()
        for future in under_way:
            future.result()
    return written


def _row_groups(batches: Iterable[pa.RecordBatch], lists: Sequence[str]) -> Iterator[pa.Table]:
    group: list[pa.Table] = []
    rows = integers = 0
    for batch in filter(len, batches):
        unpacked = _unpack(pa.Table.from_batches([batch]), lists)
        group.append(unpacked)
        rows += unpacked.num_rows
        integers += sum(len(chunk.flatten()) for name in lists for chunk in unpacked[name].chunks)
        if rows >= _ROWS_OF_LISTS or integers >= _INTEGERS_OF_LISTS:
            yield pa.concat_tables(group)
            group, rows, integers = [], 0, 0
    if group:
        yield pa.concat_tables(group)


def _unpack(rows: pa.Table, lists: Sequence[str]) -> pa.Table:
    """The rows of a table, with packed integers as lists."""
    for name in lists:
        if pa.types.is_binary(rows.schema.field(name).type):
            unpacked = Packed.read(rows[name]).to_lists()
            rows = rows.set_column(rows.schema.get_field_index(name), name, unpacked)
    return rows


def _writer(path: Path, schema: pa.Schema, lists: Sequence[str]) -> pq.ParquetWriter:
    """A writer that packs the integers of lists in few bits, in a fraction of the time of compressing them."""
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
        created: the time of the edition's charge, ISO 8601 in UTC, which never changes.
        revision: the number of other estimates of the same draw that were published before.
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
    stored = _find_kinds(session, published)
    declared = {column.name: column.type for column in published.columns}
    if stored.keys() != declared.keys():
        odd = ", ".join(sorted(stored.keys() ^ declared.keys()))
        raise ValueError(f"product {published.name}: declared columns and those of {published.table} differ in {odd}")
    for name, kind in declared.items():
        if stored[name].split("(")[0] not in FIELD_TYPES[kind][1]:
            raise ValueError(f"product {published.name}: column {name} is stored as {stored[name]}, not as {kind}")


def _find_kinds(session: Session, published: PublishedTable) -> dict[str, str]:
    """The DuckDB types of a table's published columns. Finding the types of hundreds of columns takes long."""
    name = "columns", published.name, published.table
    return session.compute_once(name, lambda: session.columns(published.source))


def _missing_marker(session: Session, published: PublishedTable) -> str:
    """A text for missing values that occurs in no text column: CSV readers treat "" as an empty field."""
    texts = [column.name for column in published.columns if column.type == "string"]
    marker = ""
    while texts and session.row("publication/count_text", {"text": marker}, table=published.table, columns=texts)[0]:
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
        **({"geography": list(published.geography)} if published.geography else {}),
        "path": file.path,
        "format": _PARQUET_FORMAT if file.format == "parquet" else file.format,
        "bytes": file.bytes,
        "hash": f"sha256:{file.sha256}",
    }
    described |= {"$schema": f"{_PROFILES}/dataresource.json", "mediatype": _MEDIA_TYPES[file.format]}
    if file.format != "csv":
        described |= {"name": f"{file.product}-{file.format}"}
        return described | ({"schema": _schema(published, file.missing)} if published.has_lists else {})
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
        "schema": _schema(published, file.missing) | {"missingValues": [file.missing]},
    }


def _schema(published: PublishedTable, missing: str | None) -> dict[str, Any]:
    return {
        "fields": [_field(column, missing) for column in published.columns],
        "primaryKey": list(published.primary_key),
    }


def _field(column: PublishedColumn, missing: str | None) -> dict[str, Any]:
    described: dict[str, Any] = {"name": column.name, "type": FIELD_TYPES[column.type][0]}
    if column.type == LIST:
        described["arrayItem"] = {"type": "integer"}
    if column.title:
        described["title"] = column.title
    if column.description:
        described["description"] = column.description
    if column.empty and missing is not None:
        described["missingValues"] = [{"value": missing, "label": column.empty}]
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
    """The names of the CSV files in which a spreadsheet would take a column's name or a text for a formula."""
    values = {"signs": list(FORMULA_SIGNS), "number": SIGNED_NUMBER.pattern}
    found = []
    for table in tables:
        texts = [column.name for column in table.columns if column.type == "string"]
        if not table.has_lists and (
            any(is_formula(column.name) for column in table.columns)
            or (texts and session.row("publication/count_formulas", values, table=table.table, columns=texts)[0])
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
    """The text of `README.txt`: a description of the files, and lines of code that read them and keep codes as text.

    Codes such as `01` are text. Programs that guess types read them as numbers and lose the zero, and some read the
    code `NA` as missing. The lines state the type of every text column, and which text marks a missing value.

    Args:
        formulas: the files of `list_formulas`.
        left_out: a sentence for each file left out because it was too large for its format, or would have no cells.
        models: the models behind the figures, as the certificate names them.
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
    """Each table with its file to read, its text columns, and the types to state for pandas."""
    by_name = {table.name: table for table in tables}
    for file in files:
        table = by_name[file.product]
        if file.format == "csv" or table.has_lists:
            texts = [column.name for column in table.columns if column.type == "string"]
            numbers = [column.name for column in table.columns if column.type == "integer" and not column.required]
            yield table, file, texts, dict.fromkeys(texts, "str") | dict.fromkeys(numbers, "Int64")
