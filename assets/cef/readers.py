"""The sources of records: CSV and Parquet files, 1940 Massachusetts reconstructed from its published margins, and
synthetic censuses.

This module opens a source as a relation of text columns. Every reader ends there, so that one set of rules
(`sql/cef/typed_column.sql`) converts the types of all sources. `validation` checks the rows.
"""

import csv
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from assets.cef.findings import Finding, SourceError
from assets.cef.synthetic import SyntheticCensusDeclaration, synthetic_relation
from assets.release.columns import Column, RecordTable, Role
from assets.release.dataset import DatasetDeclaration, Reader
from resources.statements import Fragment, statement

MA1940_MARGINS = Path(__file__).with_name("ma1940_tenure_by_county.csv")
"""Occupied dwellings of 1940 Massachusetts by county and tenure, as published (Bailie, Gong and Meng)."""

MA1940_SIZES = {
    1: 85_800,
    2: 264_331,
    3: 233_400,
    4: 204_000,
    5: 139_000,
    6: 87_500,
    7: 53_000,
    8: 33_000,
    9: 20_000,
    10: 12_000,
    11: 7_000,
    12: 5_393,
}
"""Dwellings by persons per household. The census published that two persons are the most frequent size, with 264,331
dwellings. The other eleven totals are invented."""

MA1940_STRIDE = 707_293
"""Close to the number of dwellings divided by the golden ratio, and coprime to that number. Its multiples modulo the
number of dwellings therefore visit every dwelling once and spread evenly over any range of dwellings."""


@dataclass(frozen=True)
class Source:
    """An opened source.

    Attributes:
        label: its name in messages and metadata: the file's name.
        kind: the format that it must have.
        columns: the columns of the table that it contains, by their names in the CEF.
        relation: a subquery that gives these columns as text.
        values: the values bound in the relation.
        path: the file, if there is one.
    """

    label: str
    kind: str
    columns: Mapping[str, Column]
    relation: Fragment
    values: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None

    def state(self) -> tuple[int, int] | None:
        """The file's size and modification time; if they differ after reading, the file was changed meanwhile."""
        if self.path is None:
            return None
        status = self.path.stat()
        return status.st_size, status.st_mtime_ns


def _source_path(records: RecordTable, root: Path) -> Path | None:
    """The source file of a table; None for a built-in source."""
    return None if records.path is None else root / records.path


def source_paths(declaration: DatasetDeclaration, root: Path) -> list[Path]:
    """All source files of a dataset; none for a built-in source."""
    return [
        root / path
        for records in declaration.tables.values()
        for path in (records.path, records.geography_path)
        if path is not None
    ]


def open_source(declaration: DatasetDeclaration, table: str, root: Path) -> Source:
    """Open the source of a table, for all columns except those that its geography file provides.

    Args:
        declaration: the dataset.
        table: `units` or `persons`.
        root: the folder that relative paths start from.

    Raises:
        SourceError: if the file is missing, is not what the reader expects, or lacks a declared column.
    """
    records = declaration.tables[table]
    path = _source_path(records, root)
    if path is not None:
        columns = {name: column for name, column in records.columns.items() if name not in records.places}
        return _open_file(declaration.reader, path, columns)
    if isinstance(declaration, SyntheticCensusDeclaration):
        return _open_synthetic_census(declaration, table)
    return _open_ma1940(records)


def open_geography(declaration: DatasetDeclaration, table: str, root: Path) -> Source:
    """Open the geography file of a table: its key, its geography, and any other declared columns that it repeats.

    Args:
        declaration: the dataset.
        table: a table whose `geography_path` is declared.
        root: the folder that relative paths start from.

    Raises:
        SourceError: as `open_source` does.
    """
    records = declaration.tables[table]
    required = {name: column for name, column in records.columns.items() if column.role in (Role.KEY, Role.GEOGRAPHY)}
    return _open_file(declaration.reader, root / str(records.geography_path), required, records.columns)


def _open_file(
    reader: Reader, path: Path, required: Mapping[str, Column], optional: Mapping[str, Column] | None = None
) -> Source:
    if not path.is_file():
        raise SourceError([Finding(path.name, "there is no such file")])
    kind, header, relation = _FILES[reader]
    try:
        names = header(path)
    except (OSError, UnicodeError, csv.Error, pa.ArrowException):
        raise SourceError([unreadable(path.name, kind)]) from None
    if any("\n" in name or "\r" in name for name in names):
        # DuckDB would take the line break for the end of a row and silently lose rows.
        raise SourceError([Finding(path.name, "line break in the name of a column")])
    columns = dict(required) | {
        name: column for name, column in (optional or {}).items() if in_source(name, column) in names
    }
    sources = _require_columns(path.name, columns, names)
    return Source(path.name, kind, columns, relation(sources, names), {"path": _without_wildcards(path)}, path)


def in_source(name: str, column: Column) -> str:
    """The name of a column in its source."""
    return column.source or name


def unreadable(label: str, kind: str) -> Finding:
    """The finding about a file that cannot be read in its format."""
    return Finding(label, f"not a readable {kind}")


def _require_columns(label: str, columns: Mapping[str, Column], names: Sequence[str]) -> dict[str, str]:
    """The name of each column in the source. Raises SourceError unless each occurs exactly once."""
    sources = {name: in_source(name, column) for name, column in columns.items()}
    folded = Counter(name.casefold() for name in names)
    findings = [
        Finding(label, "missing column" if source not in names else "more than one column of that name", source)
        for source in sources.values()
        if source not in names or folded[source.casefold()] > 1
    ]
    if findings:
        raise SourceError(findings)
    return sources


def _without_wildcards(path: Path) -> str:
    """The path as a pattern that matches only this file: DuckDB treats `*`, `?` and `[` as wildcards."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in str(path))


def _csv_header(path: Path) -> list[str]:
    with path.open(encoding="utf-8-sig", newline="") as lines:
        return next(csv.reader(lines, strict=True), [])


def _csv_relation(sources: Mapping[str, str], names: Sequence[str]) -> Fragment:
    positions = {name: f"c{names.index(source)}" for name, source in sources.items()}
    return Fragment(statement("cef/read_csv", {"columns": positions, "width": len(names)}))


def _parquet_header(path: Path) -> list[str]:
    return list(pq.read_schema(path).names)


def _parquet_relation(sources: Mapping[str, str], names: Sequence[str]) -> Fragment:
    return Fragment(statement("cef/read_parquet", {"columns": sources}))


_FILES: Mapping[
    Reader,
    tuple[str, Callable[[Path], list[str]], Callable[[Mapping[str, str], Sequence[str]], Fragment]],
] = {
    Reader.CSV: (
        "CSV file (UTF-8, separated by commas, every row as long as the header, quotes closed)",
        _csv_header,
        _csv_relation,
    ),
    Reader.PARQUET: ("Parquet file", _parquet_header, _parquet_relation),
}


def _open_ma1940(records: RecordTable) -> Source:
    label = "the built-in source ma1940"
    names = ("serial", "state", "county", "persons_per_household", "tenure")
    sources = _require_columns(label, records.columns, names)
    bounds = dict(zip(MA1940_SIZES, accumulate(MA1940_SIZES.values()), strict=True))
    relation = statement(
        "cef/ma1940",
        {
            "columns": sources,
            "bounds": bounds,
            "dwellings": sum(MA1940_SIZES.values()),
            "stride": MA1940_STRIDE,
        },
    )
    return Source(label, "built-in source", records.columns, Fragment(relation), {"margins": str(MA1940_MARGINS)})


def _open_synthetic_census(declaration: SyntheticCensusDeclaration, table: str) -> Source:
    columns = declaration.tables[table].columns
    relation, values = synthetic_relation(declaration, table)
    text = statement("cef/as_text", {"columns": list(columns), "relation": relation})
    return Source(f"the synthetic {table}", "built-in source", columns, Fragment(text), values)
