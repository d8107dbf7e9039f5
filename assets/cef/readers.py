"""The sources of records: CSV and Parquet files, extracts of IPUMS, files of statistical packages, SafeTab's files,
1940 Massachusetts reconstructed from its published margins, and synthetic censuses and surveys.

This module opens a source as a relation of text columns. Every reader ends there, so that one set of rules
(`sql/cef/typed_column.sql`) converts the types of all sources. `validation` checks the rows.

DuckDB's readers guess where a file is not exactly readable: they drop an empty field too many, the blanks around a
quoted field and empty lines, and they turn lists and binary data into text. Such a file is refused before DuckDB reads
it, so that every value is read exactly as written.
"""

import csv
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from assets.cef.census import BLOCK, BLOCK_FILES, PLACE, BlockFile, BlockFilesDeclaration, CensusDeclaration
from assets.cef.generated import GeneratedDeclaration
from assets.cef.recognition import TEXT, describe_content, explain_refusal
from assets.cef.text_files import open_text, read_header
from assets.cef.validation import EMPTY, Finding, SourceError
from assets.release.columns import Column, ColumnType, RecordTable, Role
from assets.release.dataset import DatasetDeclaration, Reader
from assets.release.dialect import USUAL, Dialect
from assets.release.names import LONGEST_COLUMN, NO_SOURCE
from resources.project import leads_to_secrets
from resources.statements import Fragment, render
from resources.warehouse import Session

MOST_COLUMNS = 2000
"""The most columns of a file for which a declaration is proposed: they take a minute or two."""

MA1940_MARGINS = Path(__file__).with_name("ma1940_tenure_by_county.csv")
"""Occupied dwellings of 1940 Massachusetts by county and tenure, as published (Bailie, Gong and Meng)."""

with Path(__file__).with_name("ma1940_dwellings_by_persons.csv").open(newline="") as lines:
    MA1940_SIZES = {int(row["persons"]): int(row["dwellings"]) for row in csv.DictReader(lines)}
"""Dwellings by persons per household. The census published that two persons are the most frequent size, with 264,331
dwellings. The other eleven totals are invented."""

MA1940_STRIDE = 707_293
"""Close to the number of dwellings divided by the golden ratio, and coprime to that number. Its multiples modulo the
number of dwellings therefore visit every dwelling once and spread evenly over any range of dwellings."""

PIPED = Dialect.model_construct(separator="|")
"""The dialect of SafeTab's files."""

_SPLIT = "BYTE_STREAM_SPLIT"

_BUFFER_BYTES = 1 << 16
"""The bytes of a column that are read at once to examine its beginning."""

UNNAMED = "it has no name; R and pandas write row names so. Give it one if it is needed"
FOLDER = "is a folder: write all parts of a table into one file"
SEVERAL_UNNAMED = (
    "{} columns have no name. If cells of the header are merged, or it has several rows, write one row with a name for "
    "each column"
)

KINDS = {
    Reader.PARQUET: "Parquet file",
    Reader.DDI: "file of fixed-width text, as its codebook describes it",
    Reader.STATA: "Stata file",
    Reader.SPSS: "SPSS file",
    Reader.SAS: "SAS file",
}

SUFFIXES = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".txt"), Reader.CSV),
    ".parquet": Reader.PARQUET,
    ".dta": Reader.STATA,
    **dict.fromkeys((".sav", ".zsav", ".por"), Reader.SPSS),
    **dict.fromkeys((".sas7bdat", ".xpt"), Reader.SAS),
}
"""The readers of files, by suffix."""

STORED_AS = {
    ColumnType.INTEGER: ("integer", "decimal", "text"),
    ColumnType.STRING: ("text", "integer"),
    ColumnType.BOOLEAN: ("boolean", "text"),
    ColumnType.DATE: ("date", "text"),
    ColumnType.DECIMAL: ("decimal", "integer", "text"),
}
"""By type of column, how it may be stored in a Parquet file. The text of these values is exactly the value; the text
of floating-point numbers, times, lists or binary data is not."""


@dataclass(frozen=True)
class Source:
    """An opened source.

    Attributes:
        columns: its columns of the table, by their names in the CEF.
        relation: a subquery that gives these columns as text.
        path: the file, if there is one.
        state: the file's size and modification time before it was read.
        records: the number of records by the form of the file; DuckDB must find as many.
        made: a composite column, BLOCK or the key of a household, made of several columns of the file; empty if none.
        parts: the columns that `made` is made of, each with a pattern that its values must match. The relation has
            these too, and `made` is NULL where one of them is not in its domain.
        household: the columns of `every_column` that identify the household, if the file is rectangular.
        every_column: a subquery that gives all columns of the file that can be declared as text, declared or not;
            None if the records do not come from a file.
        typed: whether the relation generates values of the types of their columns, which need no conversion.
        stage: makes the temporary table that the relation reads, if it reads one.
        dialect: the dialect of a CSV file; None for any other source. In the relation, decimals and dates are in the
            usual form.
        fixed: whether no dialect and no type, code or recode of its columns can be declared, as in a census.
    """

    label: str
    kind: str
    columns: Mapping[str, Column]
    relation: Fragment
    values: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None
    state: tuple[int, int] | None = None
    records: int | None = None
    made: str = ""
    parts: Mapping[str, Column] = field(default_factory=dict)
    household: Sequence[str] = ()
    every_column: Fragment | None = None
    typed: bool = False
    stage: Callable[[Session], None] = field(default=lambda session: None)
    dialect: Dialect | None = None
    fixed: bool = False

    @property
    def changed(self) -> bool:
        """Whether the file was changed or removed since it was opened."""
        if self.path is None:
            return False
        try:
            return _read_state(self.path) != self.state
        except OSError:
            return True


class DescribedFile(Protocol):
    """A file that describes its own form, by itself or by its codebook.

    Attributes:
        unfit: how the variables that are not read are stored, by name.
    """

    @property
    def variables(self) -> Mapping[str, Any]: ...

    @property
    def unfit(self) -> Mapping[str, str]: ...

    def relate(self, columns: Mapping[str, str]) -> Fragment:
        """The relation of variables as texts, by the names that it gives them."""

    def count_records(self) -> int | None:
        """The number of records, if the file or its form states it. Raises SourceError if the file is malformed."""

    def stage(self, session: Session) -> None:
        """Make the table that the relation reads, if it reads one. Raises SourceError if the file is malformed."""


class UnreadableError(SourceError):
    def __init__(self, label: str, kind: str) -> None:
        super().__init__([Finding(label, f"not a readable {kind}")])


def _read_state(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def source_paths(declaration: DatasetDeclaration, root: Path) -> list[Path]:
    return [root / path for path in declaration.list_files()]


def measure_source(declaration: DatasetDeclaration, root: Path) -> int | None:
    """The bytes of all source files, 0 for those that cannot be read (the error comes later); None for generated
    records."""
    if isinstance(declaration, GeneratedDeclaration):
        return None
    return sum(path.stat().st_size for path in source_paths(declaration, root) if os.access(path, os.R_OK))


def open_source(declaration: DatasetDeclaration, table: str, root: Path) -> Source:
    """Open the source of a table, for all columns except those that its geography file provides.

    Raises SourceError if the file is missing, is not exactly readable in its format, or lacks a declared column.
    """
    records = declaration.files[table]
    if isinstance(declaration, GeneratedDeclaration):
        return _open_generated(declaration, table)
    if records.path is None:
        return _open_ma1940(records)
    path = root / records.path
    if isinstance(declaration, BlockFilesDeclaration):
        return _open_block_file(path, BLOCK_FILES[table], records.columns)
    codebook = root / records.codebook if records.codebook else None
    described = describe_file(declaration.reader, path, codebook, records.record_type)
    if declaration.rectangular is not None:
        return _open_rectangular(declaration.reader, path, records, declaration.rectangular.household, described)
    columns = {name: column for name, column in records.columns.items() if name not in records.places}
    dialect, fixed = records.csv or USUAL, isinstance(declaration, CensusDeclaration)
    return _open_file(declaration.reader, path, columns, described=described, dialect=dialect, fixed=fixed)


def open_geography(declaration: DatasetDeclaration, table: str, root: Path) -> Source:
    """Open the geography file of a table that declares one: key, geography, and other declared columns that it repeats.

    Raises SourceError as `open_source`.
    """
    records = declaration.tables[table]
    required = {name: column for name, column in records.columns.items() if column.role in (Role.KEY, Role.GEOGRAPHY)}
    path = root / str(records.geography_path)
    reader = declaration.reader if declaration.reader is Reader.PARQUET else Reader.CSV
    dialect = records.csv or USUAL
    fixed = isinstance(declaration, CensusDeclaration) or declaration.reader is not reader
    return _open_file(reader, path, required, records.columns, dialect=dialect, fixed=fixed)


def _open_file(
    reader: Reader,
    path: Path,
    required: Mapping[str, Column],
    optional: Mapping[str, Column] | None = None,
    header_problem: Callable[[Sequence[str]], str | None] = lambda names: None,
    described: DescribedFile | None = None,
    dialect: Dialect = USUAL,
    fixed: bool = False,
) -> Source:
    with refuse_unreadable(reader, path, dialect, fixed=fixed):
        state = _read_state(path)
        names = list(described.variables) if described else _read_header(reader, path, dialect)
        if not names:
            raise SourceError([Finding(path.name, "has no columns")])
        # DuckDB would take a line break for the end of a row and silently lose rows.
        for letter, word in {"\n": "line break", "\r": "line break", "\0": "NUL"}.items():
            if any(letter in name for name in names):
                raise SourceError([Finding(path.name, f"{word} in the name of a column")])
        if problem := header_problem(names):
            raise SourceError([Finding(path.name, problem)])
        columns = dict(required) | {
            name: column for name, column in (optional or {}).items() if name_in_source(name, column) in names
        }
        sources = _require_columns(path.name, columns, names, fixed=fixed)
        values = {"path": _without_wildcards(path)}
        if described is not None:
            if unfit := [name for name in described.unfit if name in sources.values()]:
                raise SourceError([Finding(path.name, f"stored as {described.unfit[name]}", name) for name in unfit])
            folded = Counter(name.casefold() for name in names)
            whole = {name: name for name in names if name not in described.unfit and folded[name.casefold()] == 1}
            source = Source(
                path.name,
                KINDS[reader],
                columns,
                described.relate(sources),
                values if reader is Reader.DDI else {},
                path,
                state,
            )
            return replace(
                source, every_column=described.relate(whole), records=described.count_records(), stage=described.stage
            )
        if reader is Reader.PARQUET:
            relation, every, records = _open_parquet(path, columns, sources)
        else:
            typed = {name: (source, columns[name].type) for name, source in sources.items()}
            text = open_text(path, dialect, typed, names)
            values = {} if text.stage else values
            opened = Source(
                path.name, _describe_kind(reader, dialect), columns, text.relation, values, path, state, text.records
            )
            told = dialect if reader is Reader.CSV else None
            opened = replace(opened, every_column=text.every_column, dialect=told, fixed=fixed)
            return replace(opened, stage=text.stage) if text.stage else opened
        return Source(path.name, KINDS[reader], columns, relation, values, path, state, records, every_column=every)


def _describe_kind(reader: Reader, dialect: Dialect) -> str:
    if reader in KINDS:
        return KINDS[reader]
    return f"{'CSV' if reader is Reader.CSV else 'text'} file ({dialect.in_words})"


def describe_file(
    reader: Reader, path: Path, codebook: Path | None = None, record_type: str | None = None
) -> DescribedFile | None:
    """The description of fixed-width text, by its codebook, or of a statistical package's file; None for others.

    Raises SourceError if it is missing, not readable or contradicts itself.
    """
    with refuse_unreadable(reader, path):
        if reader is Reader.DDI and codebook is not None:
            from assets.cef.extracts import open_lines

            return open_lines(path, codebook, record_type)
        if reader in (Reader.STATA, Reader.SPSS, Reader.SAS):
            from assets.cef.statistical import open_file

            if SUFFIXES.get(path.suffix.lower()) is not reader:
                suffixes = ", ".join(suffix for suffix, its_reader in SUFFIXES.items() if its_reader is reader)
                raise SourceError([Finding(path.name, f"its suffix is not one of {suffixes}")])
            return open_file(path)
    return None


@contextmanager
def refuse_unreadable(reader: Reader, path: Path, dialect: Dialect = USUAL, *, fixed: bool = False) -> Iterator[None]:
    """Raise SourceError if a file is missing or empty, or in place of the errors of its format's library.

    If a CSV file differs from the dialect, the error begins with the difference. `fixed` states that no other dialect
    can be declared.
    """
    # A link may have been changed since the path was declared.
    if leads_to_secrets(path):
        raise SourceError([Finding(path.name, NO_SOURCE)])
    named = reader
    try:
        # If a folder of the path cannot be searched, this raises an error that names the whole path.
        if path.is_dir():
            raise SourceError([Finding(path.name, FOLDER)])
        if not path.is_file():
            raise SourceError([Finding(path.name, "there is no such file")])
        if not path.stat().st_size:
            raise SourceError([Finding(path.name, EMPTY)])
        named = SUFFIXES.get(path.suffix.lower(), reader)
        yield
    except (OSError, UnicodeError, csv.Error, pa.ArrowException):
        refusal: SourceError = UnreadableError(path.name, _describe_kind(reader, dialect))
    except SourceError as error:
        refusal = error
    else:
        return
    if reader is Reader.PARQUET and named is not reader and isinstance(refusal, UnreadableError):
        (unreadable,) = refusal.findings
        rule = f"{unreadable.rule}; {path.suffix} is a suffix of reader {named.value}"
        raise SourceError([Finding(path.name, rule)]) from None
    if reader is not Reader.CSV:
        unreadable = refusal.findings[0]
        content = describe_content(path) if unreadable.rule.startswith("not a readable") else ""
        if reader in SUFFIXES.values() and content and not content.endswith(path.suffix.lower()):
            refusal = SourceError([replace(unreadable, rule=f"{unreadable.rule}: it is {content}")])
        raise refusal from None
    if named is not reader and not describe_content(path).startswith(TEXT):
        # Errors in the file as text would not explain the cause.
        other = "" if fixed else ", or if a table's path names it, declare that reader"
        rule = f"is read as a CSV file, and {path.suffix} is a suffix of reader {named.value}: write it as CSV{other}"
        raise SourceError([Finding(path.name, rule)]) from None
    raise explain_refusal(path, dialect, refusal, fixed=fixed) from None


def _open_block_file(path: Path, file: BlockFile, columns: Mapping[str, Column]) -> Source:
    source = _open_file(Reader.PIPE_SEPARATED, path, file.columns, header_problem=file.header_problem, dialect=PIPED)
    return _make_column(source, columns, BLOCK, PLACE)


def _open_rectangular(
    reader: Reader, path: Path, records: RecordTable, household: Sequence[str], described: DescribedFile | None
) -> Source:
    """The file of persons with the columns of their units. A key of several columns puts the length of each text before
    it, so that different households never have the same key."""
    key, dialect = str(records.unit), records.csv or USUAL
    if len(household) == 1:
        source = _open_file(reader, path, records.columns, described=described, dialect=dialect)
    else:
        # No declared column has as long a name.
        parts = {
            f"{'part':{LONGEST_COLUMN + 1}}{number}": Column.model_construct(
                type=ColumnType.STRING, pattern=r"[^\x00]*", source=name
            )
            for number, name in enumerate(household)
        }
        others = {name: column for name, column in records.columns.items() if name != key}
        source = _open_file(reader, path, others | parts, described=described, dialect=dialect)
        source = _make_column(source, records.columns, key, parts, encoded=True)
    if described is None and reader is not Reader.PARQUET:
        names = _read_header(reader, path, dialect)
        household = [f"c{names.index(name)}" for name in household]
    return replace(source, household=household)


def _make_column(
    source: Source, columns: Mapping[str, Column], made: str, parts: Mapping[str, Column], *, encoded: bool = False
) -> Source:
    patterns = {f"part_{number}": str(column.pattern) for number, column in enumerate(parts.values())}
    names = {"relation": source.relation, "made": made, "parts": list(parts), "encoded": encoded}
    relation, values = Fragment(render("cef/with_made_column", names)), {**source.values, **patterns}
    return replace(source, columns=columns, relation=relation, values=values, made=made, parts=parts)


def open_every_column(
    reader: Reader, path: Path, described: DescribedFile | None = None, dialect: Dialect = USUAL
) -> tuple[Source, dict[str, str]]:
    """Open a file without a declaration: all columns that can be read exactly, as texts.

    Returns the source, and why the other columns are left out, by name. Raises SourceError if the file is missing or
    not exactly readable in its format, or columns share a name.
    """
    # Only the type decides how a column is read.
    columns, unfit = dict[str, Column](), dict[str, str]()
    with refuse_unreadable(reader, path, dialect):
        stored = {field.name: field.type for field in pq.read_schema(path)} if reader is Reader.PARQUET else {}
        names = list(described.variables) if described else _read_header(reader, path, dialect)
        if len(names) > MOST_COLUMNS:
            rule = f"has {len(names):,} columns: write a file of those that you need, at most {MOST_COLUMNS:,}"
            raise SourceError([Finding(path.name, rule)])
        for name in names:
            if described and name in described.unfit:
                unfit[name] = f"it is stored as {described.unfit[name]}"
                continue
            kind = _choose_type(stored[name]) if name in stored else ColumnType.STRING
            if not name:
                unfit[name] = UNNAMED if names.count(name) == 1 else SEVERAL_UNNAMED.format(names.count(name))
            elif kind is None and _is_floating(stored[name]):
                # Whole numbers are read without a point; others need `rounded`.
                columns[name] = Column.model_construct(type=ColumnType.INTEGER, rounded=True)
            elif kind is None and _is_timestamp(stored[name]):
                columns[name] = Column.model_construct(type=ColumnType.DATE)
            elif kind is None:
                instead = "; write its day as a date" if pa.types.is_timestamp(stored[name]) else ""
                unfit[name] = f"it is stored as {_name_type(stored[name])}, which Stirred does not read{instead}"
            else:
                columns[name] = Column.model_construct(type=kind)
        if not columns:
            raise SourceError([Finding(path.name, "no column that can be read exactly" if unfit else "has no header")])
    return _open_file(reader, path, columns, described=described, dialect=dialect), unfit


def read_categories(path: Path) -> dict[str, list[str]]:
    """The categories of the columns that a Parquet file stores as a dictionary of texts. Some may have no record, as in
    the data frame behind the file."""
    with pq.ParquetFile(path) as file:
        named = [field.name for field in file.schema_arrow if pa.types.is_dictionary(field.type)]
        batches = file.iter_batches(1, row_groups=[0], columns=named) if named and file.num_row_groups else iter(())
        return {
            name: [code for code in values.dictionary.to_pylist() if isinstance(code, str)]
            for batch in batches
            for name, values in zip(batch.schema.names, batch.columns, strict=True)
            if pa.types.is_dictionary(values.type)
        }


def _choose_type(stored: pa.DataType) -> ColumnType | None:
    """The type that a column of a Parquet file can be declared as, text if possible; None if there is none."""
    types = [kind for kind in ColumnType if _find_kind(stored) in (*STORED_AS[kind], "null")]
    return ColumnType.STRING if ColumnType.STRING in types else next(iter(types), None)


def name_in_source(name: str, column: Column) -> str:
    return column.source or name


_NOT_ONE = {0: "missing column", 1: "another column has the same name but for capital letters"}
"""Rules, by the number of columns of the name."""
RENAMED = "if the column has another name in this file, declare that name as its `source`"
SPELLED_OTHERWISE = "missing column, which the file has with other capital letters or with blanks around its name"


def _require_columns(label: str, columns: Mapping[str, Column], names: Sequence[str], *, fixed: bool) -> dict[str, str]:
    sources = {name: name_in_source(name, column) for name, column in columns.items()}
    exact, folded = Counter(names), Counter(name.casefold() for name in names)
    alike = {name.strip().casefold() for name in names}
    findings = [
        Finding(
            label,
            _NOT_ONE.get(exact[source], "more than one column of that name"),
            source,
            hint="" if fixed or source in exact else RENAMED,
        )
        if source in exact or source.casefold() not in alike
        else Finding(label, SPELLED_OTHERWISE, source)
        for source in sources.values()
        if source not in exact or folded[source.casefold()] > 1
    ]
    if findings:
        raise SourceError(findings)
    return sources


def _without_wildcards(path: Path) -> str:
    """The path as a pattern that matches only this file: DuckDB treats `*`, `?` and `[` as wildcards.

    Raises SourceError if there is a backslash too: `a\\*` would match `a[*]`, and no pattern the file itself.
    """
    if "\\" in str(path) and set("*?[") & set(str(path)):
        raise SourceError([Finding(path.name, "a backslash beside *, ? or [ in its path; give it another name")])
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in str(path))


def _read_header(reader: Reader, path: Path, dialect: Dialect) -> list[str]:
    """The names of the columns. Errors: see `text_files.read_header`."""
    return list(pq.read_schema(path).names) if reader is Reader.PARQUET else read_header(path, dialect)


def _open_parquet(
    path: Path, columns: Mapping[str, Column], sources: Mapping[str, str]
) -> tuple[Fragment, Fragment, int]:
    """The relation of a Parquet file, the relation of all its columns that can be declared, and the number of
    records."""
    _require_decrypted(path)
    metadata = pq.read_metadata(path)
    schema = metadata.schema.to_arrow_schema()
    findings, whole, dates = [], dict[str, int](), list[str]()
    for name, source in sources.items():
        stored, fitting = schema.field(source).type, STORED_AS[columns[name].type]
        if _is_floating(stored) and columns[name].type in (ColumnType.INTEGER, ColumnType.STRING):
            # From this number on, two whole numbers may be stored as the same value.
            whole[name] = 2**24 if pa.types.is_float32(stored) else 2**53
        elif _is_timestamp(stored) and columns[name].type is ColumnType.DATE:
            dates.append(name)
        elif not (_is_floating(stored) and columns[name].rounded) and _find_kind(stored) not in (*fitting, "null"):
            findings.append(Finding(path.name, describe_misfit(_name_type(stored), columns[name].type), source))
    if not any(pa.types.is_nested(field.type) for field in schema):
        # Otherwise, chunks belong to the parts of columns.
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            for chunk in map(group.column, range(group.num_columns)):
                split = _SPLIT in chunk.encodings and chunk.physical_type not in ("FLOAT", "DOUBLE")
                if split and chunk.path_in_schema in sources.values():
                    rule = f"stored in the encoding {_SPLIT}, which DuckDB reads of floating-point numbers alone"
                    findings.append(Finding(path.name, f"{rule}; write it in another one", chunk.path_in_schema))
    if findings:
        raise SourceError(findings)
    # DuckDB would read only as many records as the metadata give for a group of rows, not as its columns contain.
    names = Counter(name.casefold() for name in schema.names)
    every = [
        name
        for name in schema.names
        if names[name.casefold()] == 1
        and (_choose_type(schema.field(name).type) or _is_floating(schema.field(name).type))
    ]
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            if chunk.num_values != group.num_rows:
                if chunk.path_in_schema in sources.values():
                    raise pa.ArrowInvalid("the columns differ in length")
                every = [name for name in every if name != chunk.path_in_schema]
    relation = "FROM read_parquet($path, hive_partitioning = false, union_by_name = false)"
    all_columns = dict(zip(every, every, strict=True))
    return _relate(sources, relation, whole=whole, dates=dates), _relate(all_columns, relation), metadata.num_rows


def _require_decrypted(path: Path) -> None:
    """Raise OSError if a column is encrypted. A request for the metadata of such a column makes Arrow end the
    process."""
    with pq.ParquetFile(path, buffer_size=_BUFFER_BYTES) as file:
        for number in range(len(file.schema) if file.num_row_groups else 0):
            try:
                next(file.iter_batches(1, row_groups=[0], columns=[file.schema.column(number).path]), None)
            except (OSError, pa.ArrowException) as error:
                # Other errors in a column matter only if it is declared.
                if "decrypt" in str(error):
                    raise


def _is_floating(stored: pa.DataType) -> bool:
    return pa.types.is_float32(stored) or pa.types.is_float64(stored)


def _is_timestamp(stored: pa.DataType) -> bool:
    """Only without a time zone, in which a day may begin at another time."""
    return pa.types.is_timestamp(stored) and stored.tz is None


def describe_misfit(word: str, declared: ColumnType) -> str:
    """The rule about a column of a Parquet file that is stored as `word`, which is not exact for the declared type."""
    rule = f"stored as {word}, not as {' or '.join(STORED_AS[declared])}"
    if declared is not ColumnType.DECIMAL or word not in ("double", "float"):
        return rule
    return (
        f"{rule}; declare rounded: true, or write it to the file as decimal(18, 4), or as text and declare type string "
        "with a pattern to keep all digits"
    )


def _find_kind(stored: pa.DataType) -> str | None:
    """The word of `STORED_AS` for an Arrow type, or `null` for a column without values; None for any other type."""
    if pa.types.is_dictionary(stored):
        stored = stored.value_type
    # DuckDB reads decimals of more than 38 digits as floating-point numbers.
    kinds = {
        "text": pa.types.is_string(stored) or pa.types.is_large_string(stored) or pa.types.is_string_view(stored),
        "integer": pa.types.is_integer(stored),
        "decimal": pa.types.is_decimal(stored) and stored.precision <= 38,
        "boolean": pa.types.is_boolean(stored),
        "date": pa.types.is_date(stored),
        "null": pa.types.is_null(stored),
    }
    return next((kind for kind, fits in kinds.items() if fits), None)


def _name_type(stored: pa.DataType) -> str:
    """The name of an Arrow type without its parameters, which are names from inside the file."""
    if pa.types.is_timestamp(stored) and stored.tz is not None:
        return "timestamp with a time zone"
    return re.match(r"\w+", str(stored))[0]  # type: ignore[index]


def _open_ma1940(records: RecordTable) -> Source:
    label = "the built-in source ma1940"
    types = dict.fromkeys(("serial", "state", "county", "persons_per_household", "tenure"), ColumnType.STRING)
    types |= dict.fromkeys(("serial", "persons_per_household"), ColumnType.INTEGER)
    required = _require_columns(label, records.columns, tuple(types), fixed=True)
    typed = all(
        records.columns[name].type is types[source] and not records.columns[name].conversion
        for name, source in required.items()
    )
    names_in_statement = {
        "columns": required,
        "typed": typed,
        "bounds": dict(zip(MA1940_SIZES, accumulate(MA1940_SIZES.values()), strict=True)),
        "dwellings": sum(MA1940_SIZES.values()),
        "stride": MA1940_STRIDE,
    }
    relation = render("cef/ma1940", names_in_statement)
    return Source(
        label,
        "built-in source",
        records.columns,
        Fragment(relation),
        {"margins": str(MA1940_MARGINS)},
        typed=typed,
    )


def _open_generated(declaration: GeneratedDeclaration, table: str) -> Source:
    columns, generated = declaration.tables[table].columns, declaration.generated_columns(table)
    statement, values, names = declaration.generated.recipe(table, generated.values())
    sources = {name: generated[name_in_source(name, column)] for name, column in columns.items()}
    typed = not any(column.conversion for column in columns.values())
    relation = _relate(sources, render(statement, names), typed=typed)
    return Source(f"the synthetic {table}", "built-in source", columns, relation, values, typed=typed)


def _relate(
    sources: Mapping[str, str],
    relation: str,
    *,
    typed: bool = False,
    whole: Mapping[str, int] = MappingProxyType({}),
    dates: Sequence[str] = (),
) -> Fragment:
    """The columns of a relation by their names in the CEF, as texts unless they are typed. In the floating-point
    columns of `whole`, whole numbers nearer to 0 than the bound have no point; in the timestamps of `dates`, midnight
    has no time."""
    names = {"columns": sources, "relation": Fragment(relation), "typed": typed, "whole": whole, "dates": dates}
    return Fragment(render("cef/renamed", names))
