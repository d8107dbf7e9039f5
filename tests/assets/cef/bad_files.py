"""Generated source files that must be refused: many kinds of damage, each at several places of good files.

A dataset is a small survey (`town`) or a census in the production layout, in CSV or in Parquet. Every `BadFile`
replaces files of a good dataset. `test_source_files` has them all read.
"""

import csv
import gzip
import io
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from assets.cef.census import STRUCTURE, CensusDeclaration, census_persons, census_units
from assets.cef.ingestion import TOO_FINE, describe_ill_typed
from assets.cef.readers import FOLDER, RENAMED, SPELLED_OTHERWISE, describe_misfit
from assets.cef.recognition import NO_HEADER, ONE_MORE, TEXT, TITLE
from assets.cef.text_files import BLANK, GRAMMAR, LONGEST_ROW
from assets.cef.validation import AS_MEANT, EMPTY
from assets.release.columns import IDENTIFIERS, Column, ColumnType
from assets.release.dataset import DatasetDeclaration
from assets.release.dialect import ENCODINGS
from mechanisms.delimited import Rule
from tests.assets.cef.test_census import BROKEN, Census

IS_CSV = f"it is {TEXT} commas; name it .csv"

MARKER = "Quetzalcoatl"
"""The text in damaged fields that could hold any text; no message may contain it."""

Files = Mapping[str, bytes | None]
"""The contents of files by name; None for a file that is missing."""

DIRECTORY = b"<directory>"
"""In place of a file's content: a folder of the file's name."""


@dataclass(frozen=True)
class BadFile:
    """Files that are to be refused.

    Attributes:
        name: dataset, format, kind of damage and place.
        dataset: `town` or `census`.
        reader: `csv` or `parquet`.
        files: the files that differ from the good ones.
        finding: a line of the error that must be raised, without its count.
        counted: whether the finding has a count of rows.
    """

    name: str
    dataset: str
    reader: str
    files: Files
    finding: str
    counted: bool = True


# Good files

TOWN: dict[str, dict[str, dict[str, Any]]] = {
    "households": {
        "serial": {"type": "integer", "role": "key"},
        "county": {"type": "string", "role": "geography", "pattern": "[0-9]{3}"},
        "tenure": {"type": "string", "values": ["owned", "rented"]},
        "rooms": {"type": "integer", "minimum": 1, "maximum": 12},
        "rent": {"type": "decimal", "minimum": 0, "nullable": True},
        "moved": {"type": "date", "maximum": "1940-04-01", "nullable": True},
        "farm": {"type": "boolean"},
    },
    "persons": {
        "person": {"type": "string", "role": "key"},
        "household": {"type": "integer", "role": "unit"},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
    },
}
HOUSEHOLDS = 40
STORED: Mapping[str, pa.DataType] = {
    "serial": pa.int32(),
    "rooms": pa.uint8(),
    "rent": pa.decimal128(9, 2),
    "moved": pa.date32(),
    "farm": pa.bool_(),
    "household": pa.int64(),
    "age": pa.int16(),
    "MAFID": pa.int64(),
    "QAGE": pa.int16(),
    "FINAL_POP": pa.int32(),
    "NPF": pa.int32(),
}
"""The types of columns in the Parquet files; all others are text."""

Rows = list[list[str]]


@cache
def _rows(dataset: str, name: str) -> tuple[tuple[str, ...], ...]:
    if dataset == "census":
        records = Census(Path()).files[name]
        # The key comes first, because every file must have it.
        header = sorted(records[0], key=lambda column: column != "MAFID")
        return (tuple(header), *(tuple(record[column] for column in header) for record in records))
    if name == "persons":
        rows = [
            (f"{1 + number // 2}-{number % 2}", str(1 + number // 2), str(number * 7 % 100)) for number in range(50)
        ]
        return (tuple(TOWN[name]), *rows)
    rows_of_households = [
        (
            str(number + 1),
            f"{number % 7:03}",
            ("owned", "rented")[number % 2],
            str(number % 12 + 1),
            ("", "22.50", "0.00")[number % 3],
            ("", "1931-10-01")[number % 2],
            ("true", "false")[number % 5 == 0],
        )
        for number in range(HOUSEHOLDS)
    ]
    return (tuple(TOWN[name]), *rows_of_households)


def rows_of(dataset: str, name: str) -> Rows:
    """The good rows of a file as texts, header first; a copy."""
    return [list(row) for row in _rows(dataset, name)]


NAMES = {"town": ("households", "persons"), "census": ("units", "geo", "persons")}


def as_csv(rows: Rows) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def as_table(rows: Rows) -> pa.Table:
    header, *records = rows
    columns = {}
    for name, texts in zip(header, zip(*records, strict=True), strict=True):
        stored = STORED.get(name, pa.string())
        values = pa.array([text or None for text in texts], pa.string())
        columns[name] = values if stored == pa.string() else values.cast(stored)
    return pa.table(columns)


def as_parquet(table: pa.Table) -> bytes:
    written = io.BytesIO()
    pq.write_table(table, written)
    return written.getvalue()


def good_files(dataset: str, reader: str) -> dict[str, bytes]:
    written = {
        name: as_csv(rows_of(dataset, name)) if reader == "csv" else as_parquet(as_table(rows_of(dataset, name)))
        for name in NAMES[dataset]
    }
    return {f"{name}.{reader}": content for name, content in written.items()}


def declaration(dataset: str, reader: str) -> DatasetDeclaration:
    """The declaration, with paths relative to the folder of the files."""
    declared: dict[str, Any] = {"name": dataset, "title": "A dataset", "reader": reader, "cap": 1}
    if dataset == "census":
        units = census_units(f"units.{reader}", f"geo.{reader}", group_quarters_types=True)
        return CensusDeclaration(
            **declared, record_name="unit", units=units, persons=census_persons(f"persons.{reader}")
        )
    units, persons = ({"path": f"{name}.{reader}", "columns": columns} for name, columns in TOWN.items())
    return DatasetDeclaration.model_validate({**declared, "units": units, "persons": persons})


def columns_of(dataset: str, name: str) -> dict[str, Column]:
    """The declared columns of a file, by their names in it."""
    declared = declaration(dataset, "csv")
    records = declared.tables["persons" if name == "persons" else "units"]
    header = _rows(dataset, name)[0]
    by_source = {column.source or stored: column for stored, column in records.columns.items()}
    return {source: by_source[source] for source in header}


# The permitted parts of an error

WRITTEN: Mapping[str, str] = {
    "semicolons": "is separated by semicolons, which `csv: {separator: ';'}` declares",
    "tabs": "is separated by tabs, which `csv: {separator: tab}` declares",
    "UTF-16": "is in utf-16, which `csv: {encoding: utf-16}` declares",
    "UTF-16 without a mark": "is in utf-16-le, which `csv: {encoding: utf-16-le}` declares",
    **dict.fromkeys(("UTF-32", "UTF-32 without a mark"), "is in UTF-32; write it in UTF-8"),
    "gzip": "is compressed by gzip, which `csv: {compression: gzip}` declares",
    "every byte": "NUL in the name of a column",
    "NUL bytes": "NUL in the name of a column",
    "carriage returns alone": "is written with carriage returns alone at the ends of lines; write it with line feeds",
}
"""The end of the error, by the unusual way in which a whole file is written."""


def as_told(dataset: str, rule: str) -> str:
    """A rule about a file that is written in another way, which a census cannot declare."""
    remedy = "; write it as uncompressed text in UTF-8, with commas and double quotes"
    return re.sub(r", which `csv: .*` declares$", remedy, rule) if dataset == "census" else rule


def missing_column(dataset: str) -> str:
    """The rule about a missing column, whose name in the file a census cannot declare."""
    return "missing column" if dataset == "census" else f"missing column; {RENAMED}"


OF_CENSUS: Mapping[str, str] = {
    "a word such as NA, which `null` lists if it stands for no value": "a word such as NA, in place of a number",
    "a decimal point, as in 5.0, for which the type is decimal": "a decimal point, as in 5.0: write whole numbers",
    "commas, as in 1,234: thousands are written without; for decimals, `csv: {decimal: ','}` declares them": (
        "commas: write whole numbers, without marks between thousands"
    ),
}
"""The errors about numbers in a census, whose columns are not declared, in place of the general errors."""
ANOTHER_CASE = "another column has the same name but for capital letters"
NO_VALUES = ("NaN", "NULL", "NA", "-", "nan", ".")
NOTATIONS: Mapping[str, str] = {
    **dict.fromkeys(NO_VALUES, "a word such as NA, which `null` lists if it stands for no value"),
    "5.0": "a decimal point, as in 5.0, for which the type is decimal",
    "$5": "a sign of percent or of a currency, which is left out",
    "1 000": "spaces or apostrophes between thousands, which are written without",
    **dict.fromkeys(("+5", "−5", "+1"), "a sign such as +5, (5) or 5-, which is written as 5 and -5"),
    **dict.fromkeys(("٣", "５"), "the digits of another script, which are written as 0 to 9"),
    "1,5": "decimal commas, which `csv: {decimal: ','}` declares",
    "1,000": "commas, as in 1,234: thousands are written without; for decimals, `csv: {decimal: ','}` declares them",
    **dict.fromkeys(("1939-01-01T00:00", "1939-01-01 00:00:00"), "times of the day, which are left out"),
    "19390101": "no marks between year, month and day: write them, or declare type integer with bands",
    "01/02/1939": "written in another order, which `csv: {dates: …}` declares as in DD.MM.YYYY",
}
"""By misspelt value of a CSV file, how numbers or dates are written so."""


def explain(dataset: str, text: str) -> str:
    """How a misspelt number or date of a CSV file is written."""
    return OF_CENSUS.get(NOTATIONS[text], NOTATIONS[text]) if dataset == "census" else NOTATIONS[text]


def vocabulary(dataset: str, reader: str) -> set[str]:
    """Every possible finding about a dataset, without its count. It contains no value of a record."""
    said = set()
    declared = declaration(dataset, reader)
    files = [f"{name}.{reader}" for name in NAMES[dataset]]
    for name, file in zip(NAMES[dataset], files, strict=True):
        kind = "CSV file (UTF-8, separated by commas, with a header)" if reader == "csv" else "Parquet file"
        undeclared = [f"{words}, in a column that is not declared" for words in GRAMMAR.values()]
        rules = [*GRAMMAR.values(), *undeclared, f"not a readable {kind}", "contains no records"]
        rules += [f"not a readable {kind}: {IS_CSV}"]
        rules += ["there is no such file", FOLDER, "line break in the name of a column", NO_HEADER, ONE_MORE, TITLE]
        rules += [EMPTY, BLANK, "has no columns", "has no header: its first line is blank"]
        rules += WRITTEN.values()
        rules += ["has quotes after backslashes, which `csv: {escape: backslash}` declares"]
        rules += [f"is in {name}, which `csv: {{encoding: {name}}}` declares" for name in ENCODINGS.values()]
        rules = [as_told(dataset, rule) for rule in rules]
        said |= {f"{file}: {rule}" for rule in rules}
        for column, meant in columns_of(dataset, name).items():
            rules = [*GRAMMAR.values(), missing_column(dataset), "more than one column of that name", ANOTHER_CASE]
            outside = f"value outside its domain {meant.domain_in_words}"
            rules += [SPELLED_OTHERWISE, describe_ill_typed(meant.type), outside]
            rules += [f"{outside}; {why}" for why in AS_MEANT]
            rules += ["null where none is allowed", "key that another row has"]
            rules += [f"record without one in {other}" for other in files]
            rules += [f"differs from {other}" for other in files]
            rules += [f"person without a unit in {declared.units.key}"]
            rules += [TOO_FINE] if meant.type is ColumnType.DECIMAL else []
            rules += [f"not of type {meant.type.value}: {explain(dataset, text)}" for text in NOTATIONS]
            rules += [describe_misfit(word, meant.type) for word in WRONG_WORDS]
            rules += [rule.offence for rule in STRUCTURE.rules.values()] if dataset == "census" else []
            said |= {f"{file}: column {column}: {rule}" for rule in rules}
    return said


# Damage to the text of a CSV file

Line = Callable[[list[str]], bytes]

LINES: Mapping[str, tuple[Line, str]] = {
    "a field more": (lambda fields: _joined([*fields, MARKER]), GRAMMAR[Rule.MORE_FIELDS]),
    "an empty field more": (lambda fields: _joined([*fields, ""]), GRAMMAR[Rule.MORE_FIELDS]),
    "a quoted empty field more": (lambda fields: _joined([*fields, '""']), GRAMMAR[Rule.MORE_FIELDS]),
    "an empty field in front": (lambda fields: _joined(["", *fields]), GRAMMAR[Rule.MORE_FIELDS]),
    "a field less": (lambda fields: _joined(fields[:-1]), GRAMMAR[Rule.FEWER_FIELDS]),
    "one field": (lambda fields: fields[0].encode(), GRAMMAR[Rule.FEWER_FIELDS]),
    "only blanks": (lambda fields: b"   ", GRAMMAR[Rule.FEWER_FIELDS]),
    "a comment": (lambda fields: b"# " + MARKER.encode(), GRAMMAR[Rule.FEWER_FIELDS]),
    "nothing": (lambda fields: b"", GRAMMAR[Rule.EMPTY_ROW]),
    "CR LF": (lambda fields: _joined(fields) + b"\r", GRAMMAR[Rule.OTHER_LINE_END]),
    "semicolons": (lambda fields: ";".join(fields).encode(), GRAMMAR[Rule.FEWER_FIELDS]),
    "a megabyte": (lambda fields: _joined([*fields[:-1], "x" * LONGEST_ROW]), GRAMMAR[Rule.TOO_LONG]),
}  # fmt: skip

FIELDS: Mapping[str, tuple[Callable[[bytes], bytes], str]] = {
    "a quote inside": (lambda field: field + b'"' + MARKER.encode(), GRAMMAR[Rule.STRAY_QUOTE]),
    "a quote at the end": (lambda field: b"x" + field + b'"', GRAMMAR[Rule.STRAY_QUOTE]),
    "a blank before the quotes": (lambda field: b' "' + field + b'"', GRAMMAR[Rule.STRAY_QUOTE]),
    "a blank behind the quotes": (lambda field: b'"' + field + b'" ', GRAMMAR[Rule.TEXT_AFTER_QUOTE]),
    "text behind the quotes": (lambda field: b'"' + field + b'"' + MARKER.encode(), GRAMMAR[Rule.TEXT_AFTER_QUOTE]),
    "a quote inside quotes": (lambda field: b'"' + field + b'"x"', GRAMMAR[Rule.TEXT_AFTER_QUOTE]),
    "a backslash before a quote": (lambda field: b'"x\\"' + field + b'x"', GRAMMAR[Rule.TEXT_AFTER_QUOTE]),
    "a carriage return": (lambda field: field + b"\r" + field, GRAMMAR[Rule.STRAY_RETURN]),
    "Latin-1": (lambda field: field + "é".encode("latin-1"), GRAMMAR[Rule.NOT_UTF8]),
    "an overlong character": (lambda field: field + b"\xc0\xaf", GRAMMAR[Rule.NOT_UTF8]),
    "a surrogate": (lambda field: field + b"\xed\xa0\x80", GRAMMAR[Rule.NOT_UTF8]),
    "half a character": (lambda field: b'"' + field + b'\xe2\x82"', GRAMMAR[Rule.NOT_UTF8]),
    "beyond Unicode": (lambda field: field + b"\xf4\x90\x80\x80", GRAMMAR[Rule.NOT_UTF8]),
}


def _joined(fields: Sequence[str]) -> bytes:
    return ",".join(fields).encode()


def _lines(rows: Rows, place: int, damaged: bytes) -> bytes:
    lines = [_joined(row) for row in rows]
    lines[place] = damaged
    return b"".join(line + b"\n" for line in lines)


def _places(rows: Rows) -> dict[str, int]:
    return {"first": 1, "middle": len(rows) // 2, "last": len(rows) - 1}


def _csv_lines(dataset: str, name: str) -> Iterator[BadFile]:
    rows, file = rows_of(dataset, name), f"{name}.csv"
    for kind, (damage, rule) in LINES.items():
        for words, place in _places(rows).items():
            content = _lines(rows, place, damage(rows[place]))
            yield BadFile(
                f"{dataset} {file}: {kind} in the {words} row", dataset, "csv", {file: content}, f"{file}: {rule}"
            )
    # Only at the first and the last row do readers differ without a line end.
    whole = as_csv(rows)
    more = {"an empty line at the end": (whole + b"\n", GRAMMAR[Rule.EMPTY_ROW])}
    more["a field more, without a line end"] = whole[:-1] + b",", GRAMMAR[Rule.MORE_FIELDS]
    more["a quote opened at the end"] = whole + b'"', GRAMMAR[Rule.UNCLOSED_QUOTE]
    more["a field more in every row"] = (
        whole.replace(b"\n", b",\n").replace(b",\n", b"\n", 1),
        GRAMMAR[Rule.MORE_FIELDS],
    )
    more["CR LF but in the header"] = (
        whole.replace(b"\n", b"\r\n").replace(b"\r\n", b"\n", 1),
        GRAMMAR[Rule.OTHER_LINE_END],
    )
    for kind, (content, rule) in more.items():
        yield BadFile(f"{dataset} {file}: {kind}", dataset, "csv", {file: content}, f"{file}: {rule}")


def _csv_fields(dataset: str, name: str, columns: Sequence[int]) -> Iterator[BadFile]:
    rows, file = rows_of(dataset, name), f"{name}.csv"
    for number, (kind, (damage, rule)) in enumerate(FIELDS.items()):
        for column in columns:
            words, place = list(_places(rows).items())[(number + column) % 3]
            fields = [field.encode() for field in rows[place]]
            fields[column] = damage(fields[column])
            yield BadFile(
                f"{dataset} {file}: {kind} in {rows[0][column]}, {words} row",
                dataset, "csv", {file: _lines(rows, place, b",".join(fields))},
                f"{file}: column {rows[0][column]}: {rule}",
            )  # fmt: skip
    for column in columns:
        words, place = list(_places(rows).items())[column % 3]
        opened = [*rows[place][:column], f'"{rows[place][column]}', *rows[place][column + 1 :]]
        yield BadFile(
            f"{dataset} {file}: a quote opened in {rows[0][column]}, {words} row",
            dataset, "csv", {file: _lines(rows, place, _joined(opened))}, f"{file}: {GRAMMAR[Rule.UNCLOSED_QUOTE]}",
        )  # fmt: skip


def _csv_files(dataset: str, name: str) -> Iterator[BadFile]:
    rows, file = rows_of(dataset, name), f"{name}.csv"
    header, first = rows[0], next(iter(columns_of(dataset, name)))
    whole = as_csv(rows)
    body = whole.split(b"\n", 1)[1]
    missing = f"{file}: column {first}: {missing_column(dataset)}"
    misspelt = f"{file}: column {first}: {SPELLED_OTHERWISE}"
    twice = f"{file}: column {first}: more than one column of that name"
    in_two_cases = f"{file}: column {first}: {ANOTHER_CASE}"
    unreadable = f"{file}: not a readable CSV file (UTF-8, separated by commas, with a header)"
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr(file, whole)

    def headed(*names: str) -> bytes:
        return ",".join(names).encode() + b"\n" + body

    kinds: dict[str, tuple[bytes | None, str]] = {
        "missing": (None, f"{file}: there is no such file"),
        "a directory": (DIRECTORY, f"{file}: {FOLDER}"),
        "empty": (b"", f"{file}: {EMPTY}"),
        "only a byte order mark": (b"\xef\xbb\xbf", f"{file}: {BLANK}"),
        "only blank lines": (b"\n \r\n,,,\n", f"{file}: {BLANK}"),
        "only a header": (_joined(header) + b"\n", f"{file}: contains no records"),
        "only a header, without a line end": (_joined(header), f"{file}: contains no records"),
        "no header": (body, missing),
        "an empty line before the header": (b"\n" + whole, f"{file}: has no header: its first line is blank"),
        "two byte order marks": (b"\xef\xbb\xbf" * 2 + whole, missing),
        "another case": (headed(first.swapcase(), *header[1:]), misspelt),
        "a blank before a name": (headed(f" {first}", *header[1:]), misspelt),
        "a blank behind a name": (headed(f"{first} ", *header[1:]), misspelt),
        "a name twice": (headed(first, first, *header[2:]), twice),
        "a name in two cases": (headed(first, first.swapcase(), *header[2:]), in_two_cases),
        "an empty name": (headed("", *header[1:]), missing),
        "a line break in a name": (headed(*header[:-1], '"x\ny"'), f"{file}: line break in the name of a column"),
        "a header with a field less": (headed(*header[:-1]), f"{file}: column {header[-1]}: {missing_column(dataset)}"),
        "a header with an empty field more": (headed(*header, ""), f"{file}: {GRAMMAR[Rule.FEWER_FIELDS]}"),
        "a header that is not closed": (headed(*header[:-1], f'"{header[-1]}'), unreadable),
        "a header with text behind quotes": (headed(f'"{first}"x', *header[1:]), unreadable),
        "a header in Latin-1": (whole.replace(first.encode(), b"\xe9", 1), unreadable),
        "NUL bytes at the end": (whole + bytes(1000), f"{file}: {GRAMMAR[Rule.FEWER_FIELDS]}"),
        "the last row cut": (whole[: whole.rstrip(b"\n").rindex(b",")], f"{file}: {GRAMMAR[Rule.FEWER_FIELDS]}"),
        "two files in one": (whole + whole, f"{file}: column {_key_of(dataset, name)}: {_key_rule(dataset, name)}"),
    }
    written = {
        "semicolons": whole.replace(b",", b";"),
        "tabs": whole.replace(b",", b"\t"),
        "UTF-16": whole.decode().encode("utf-16"),
        "UTF-16 without a mark": whole.decode().encode("utf-16-le"),
        "UTF-32": whole.decode().encode("utf-32"),
        "UTF-32 without a mark": whole.decode().encode("utf-32-be"),
        "gzip": gzip.compress(whole, mtime=0),
        "every byte": bytes(range(256)) * 10,
        "NUL bytes": bytes(1000),
        "carriage returns alone": whole.replace(b"\n", b"\r"),
    }
    kinds |= {kind: (content, f"{file}: {as_told(dataset, WRITTEN[kind])}") for kind, content in written.items()}
    for kind, (content, finding) in kinds.items():
        counted = any(finding.endswith(rule) for rule in (*GRAMMAR.values(), "has", "domain", "type integer"))
        yield BadFile(f"{dataset} {file}: {kind}", dataset, "csv", {file: content}, finding, counted)


def _key_of(dataset: str, name: str) -> str:
    return "MAFID" if dataset == "census" else next(iter(TOWN[name]))


def _key_rule(dataset: str, name: str) -> str:
    # A second header among the rows: its names are no integers. The keys of persons in town are texts, and occur twice.
    return "key that another row has" if (dataset, name) == ("town", "persons") else "not of type integer"


# Values that are not exactly of their type, or outside their domain

SPELLINGS: Mapping[ColumnType, Sequence[str]] = {
    ColumnType.INTEGER: (
        *("+5", "5.0", "5.", "1e3", "1_000", "0x1F", " 5", "5 ", "\t5", "٣", "５", "1 000", "1,000", "--5"),
        *("−5", "NaN", "NULL", "NA", "-", "true", "9" * 19, "9" * 400, "5\n", "5\0", "\ufeff5", "inf", MARKER),
    ),
    ColumnType.DECIMAL: (
        *("+1", ".", "-.", ".5.", "5.", "1e3", "1,5", "1 000", "0.00001", "9" * 15, "inf", "nan", "$5", "1.2.3"),
        *(" 1", "1 ", "1d", MARKER),
    ),
    ColumnType.DATE: (
        *("0000-01-01", "1939-02-29", "1939-13-01", "1939-00-10", "1939-01-00", "1939-1-1", "19390101", "01/02/1939"),
        *("1939-01-01T00:00", "1939-01-01 00:00:00", "10000-01-01", "-0001-01-01", " 1939-01-01"),
        *("1939-01-01 ", "today", "infinity", "epoch", "1939-W01-1", "1939-001", "1939-04-31"),
        *("0044-03-15 (BC)", "1939‐01‐01", MARKER),
    ),
    ColumnType.BOOLEAN: (
        *("True", "TRUE", "FALSE", "1", "0", "t", "f", "yes", "no", "Y", " true", "false ", "wahr"),
        *("truefalse", MARKER),
    ),
    ColumnType.STRING: ("00\0", "owned\0", "\0", f"{MARKER}\0"),
}  # fmt: skip

OUTSIDE: Mapping[tuple[str, str, str], Sequence[str]] = {
    ("town", "households", "tenure"): (
        *("Owned", "OWNED", " owned", "owned ", "owned\n", "\u00a0owned", "ｏｗｎｅｄ", "owne\u0301d"),
        *("own", "lent", MARKER),
    ),
    ("town", "households", "county"): ("01", "0010", " 001", "001 ", "٠٠١", "001\n", "00a", "1e2", "\u200b001"),
    ("town", "households", "rooms"): ("0", "13", "-1", "9" * 18, "-" + "9" * 18),
    ("town", "households", "rent"): ("-0.01", "-1"),
    ("town", "households", "moved"): ("1940-04-02", "9999-12-31"),
    ("town", "persons", "age"): ("131", "-1", "1000"),
    ("census", "units", "TEN"): ("5", "01", " 1", "1 ", "a"),
    ("census", "units", "HHRACE"): ("1", "64", "001", " 01"),
    ("census", "units", "FINAL_POP"): ("-1", "100000"),
    ("census", "persons", "QAGE"): ("116", "-1"),
    ("census", "persons", "CENRACE"): ("1", "64", "1 ", "０１"),
    ("census", "geo", "TABBLKCOU"): ("1", "0001", "00 ", "00a"),
    ("census", "geo", "TABBLK"): ("103", "1003 ", "１００３"),
    ("census", "geo", "TABBLKST"): ("1", "99", " 01"),
    ("census", "geo", "REGIONCE"): ("0", "5", "03"),
}  # fmt: skip


def _spelled(dataset: str, name: str, reader: str) -> Iterator[tuple[str, str, str, str]]:
    """Column, kind, text and rule of every bad value of a file."""
    for column, meant in columns_of(dataset, name).items():
        for text in SPELLINGS[meant.type]:
            rule = TOO_FINE if text == "0.00001" else describe_ill_typed(meant.type)
            known = text in NOTATIONS and not (text in NO_VALUES and meant.role in IDENTIFIERS)
            told = f": {explain(dataset, text)}" if reader == "csv" and known else ""
            yield column, "spelled", text, rule + told
        for text in OUTSIDE.get((dataset, name, column), ()):
            yield column, "outside", text, f"value outside its domain {meant.domain_in_words}"
        # The RTYPE of a place is only compared with its unit's.
        if not meant.nullable and (name, column) != ("geo", "RTYPE"):
            yield column, "empty", "", "null where none is allowed"


def _values(dataset: str, name: str, reader: str, spellings: int) -> Iterator[BadFile]:
    """Bad values of every column; of the misspelt ones at most `spellings` a column, beginning elsewhere in each."""
    file, rows = f"{name}.{reader}", rows_of(dataset, name)
    taken: dict[tuple[str, str], int] = {}
    for number, (column, kind, text, rule) in enumerate(_spelled(dataset, name, reader)):
        taken[column, kind] = taken.get((column, kind), 0) + 1
        if kind == "spelled" and taken[column, kind] > spellings:
            continue
        place = 1 + number * 7 % (len(rows) - 1)
        position = rows[0].index(column)
        damaged = rows_of(dataset, name)
        damaged[place][position] = text
        if reader == "csv":
            content = as_csv(damaged)
        else:
            texts = [row[position] for row in rows[1:]]
            texts[place - 1] = text
            values = [None if value == "" and row != place - 1 else value for row, value in enumerate(texts)]
            if kind == "empty":
                values[place - 1] = None
            content = as_parquet(as_table(rows).set_column(position, column, pa.array(values, pa.string())))
        yield BadFile(
            f"{dataset} {file}: {text[:20]!r} in {column}, row {place}",
            dataset, reader, {file: content}, f"{file}: column {column}: {rule}",
        )  # fmt: skip


# Columns of a Parquet file that are stored as something else

NEW_YEAR = datetime(1939, 1, 1)
_extended = pa.ExtensionArray.from_storage

WRONG: Mapping[str, tuple[str, Callable[[int], pa.Array]]] = {
    "a list of integers": ("list", lambda rows: pa.array([[1]] * rows)),
    "a list of texts": ("list", lambda rows: pa.array([["owned"]] * rows)),
    "a list of fixed size": ("fixed_size_list", lambda rows: pa.array([[1]] * rows, pa.list_(pa.int64(), 1))),
    "a struct": ("struct", lambda rows: pa.array([{MARKER: 1}] * rows)),
    "a map": ("map", lambda rows: pa.array([[(MARKER, 1)]] * rows, pa.map_(pa.string(), pa.int64()))),
    "binary": ("binary", lambda rows: pa.array([b"001"] * rows)),
    "binary of fixed size": ("fixed_size_binary", lambda rows: pa.array([b"001"] * rows, pa.binary(3))),
    "a dictionary of binary": ("dictionary", lambda rows: pa.array([b"001"] * rows).dictionary_encode()),
    "half floats": ("halffloat", lambda rows: pa.array([1.0] * rows, pa.float16())),
    "times of day": ("time64", lambda rows: pa.array([time(1)] * rows)),
    "timestamps with a zone": (
        "timestamp with a time zone",
        lambda rows: pa.array([NEW_YEAR] * rows, pa.timestamp("us", "UTC")),
    ),
    "durations": ("duration", lambda rows: pa.array([timedelta(1)] * rows)),
    "decimals of 50 digits": ("decimal256", lambda rows: pa.array([Decimal(1)] * rows, pa.decimal256(50, 2))),
    "UUIDs": ("extension", lambda rows: _extended(pa.uuid(), pa.array([UUID(int=1).bytes] * rows, pa.binary(16)))),
    "JSON": ("extension", lambda rows: _extended(pa.json_(), pa.array(["1"] * rows))),
}  # fmt: skip
MISMATCHED: Mapping[str, tuple[str, Callable[[int], pa.Array], frozenset[ColumnType]]] = {
    "booleans": (
        "bool",
        lambda rows: pa.array([True] * rows),
        frozenset({ColumnType.INTEGER, ColumnType.STRING, ColumnType.DATE, ColumnType.DECIMAL}),
    ),
    "dates": (
        "date32",
        lambda rows: pa.array([date(1939, 1, 1)] * rows),
        frozenset({ColumnType.INTEGER, ColumnType.STRING, ColumnType.BOOLEAN, ColumnType.DECIMAL}),
    ),
    "integers": ("int64", lambda rows: pa.array([1] * rows), frozenset({ColumnType.BOOLEAN, ColumnType.DATE})),
    "decimals": (
        "decimal128",
        lambda rows: pa.array([Decimal(1)] * rows, pa.decimal128(9, 2)),
        frozenset({ColumnType.STRING, ColumnType.BOOLEAN, ColumnType.DATE}),
    ),
    "timestamps": ("timestamp", lambda rows: pa.array([NEW_YEAR] * rows), frozenset({*ColumnType} - {ColumnType.DATE})),
    "floats": (
        "float",
        lambda rows: pa.array([1.0] * rows, pa.float32()),
        frozenset({ColumnType.BOOLEAN, ColumnType.DATE, ColumnType.DECIMAL}),
    ),
    "doubles": (
        "double",
        lambda rows: pa.array([1.0] * rows),
        frozenset({ColumnType.BOOLEAN, ColumnType.DATE, ColumnType.DECIMAL}),
    ),
}
WRONG_WORDS = {*(word for word, _ in WRONG.values()), *(word for word, _, _ in MISMATCHED.values())}


def _stored(dataset: str, name: str, columns: Sequence[int]) -> Iterator[BadFile]:
    file, rows = f"{name}.parquet", rows_of(dataset, name)
    table = as_table(rows)
    for position in columns:
        column = rows[0][position]
        meant = columns_of(dataset, name)[column].type
        wrong = {**WRONG, **{kind: (word, made) for kind, (word, made, types) in MISMATCHED.items() if meant in types}}
        for kind, (word, made) in wrong.items():
            damaged = table.set_column(position, column, made(len(table)))
            yield BadFile(
                f"{dataset} {file}: {kind} in {column}",
                dataset, "parquet", {file: as_parquet(damaged)},
                f"{file}: column {column}: {describe_misfit(word, meant)}", False,
            )  # fmt: skip


def _typed_values() -> Iterator[BadFile]:
    """Values of a fitting Parquet type outside the range of the declared type."""
    table = as_table(rows_of("town", "households"))
    rows = len(table)
    big = 10**18
    undecodable = pa.Array.from_buffers(
        pa.string(), rows, [None, *pa.array([b"\xff\xfe!"] * rows, pa.binary()).buffers()[1:]]
    )
    kinds: dict[str, tuple[str, pa.Array, str, bool]] = {
        "an integer of 19 digits": ("serial", pa.array([*range(1, rows), big]), "not of type integer", True),
        "a negative integer of 19 digits": ("serial", pa.array([*range(1, rows), -big]), "not of type integer", True),
        "an unsigned integer of 20 digits": (
            "serial", pa.array([*range(1, rows), 2**64 - 1], pa.uint64()), "not of type integer", True),
        "a decimal with places as an integer": (
            "rooms", pa.array([Decimal("1.50")] * rows, pa.decimal128(9, 2)), "not of type integer", True),
        "a decimal with zero places as an integer": (
            "rooms", pa.array([Decimal("1.00")] * rows, pa.decimal128(9, 2)), "not of type integer", True),
        "a decimal of six places": (
            "rent", pa.array([Decimal("1.500001")] * rows, pa.decimal128(9, 6)), TOO_FINE, True),
        "a decimal of 15 digits": (
            "rent", pa.array([Decimal("9" * 15)] * rows, pa.decimal128(38, 0)), "not of type decimal", True),
        "an integer of 15 digits as a decimal": (
            "rent", pa.array([10**14] * rows), "not of type decimal", True),
        "a date of the year 10000": (
            "moved", pa.array([2_932_897] * rows, pa.int32()).cast(pa.date32()), "not of type date", True),
        "a date of the year 0": (
            "moved", pa.array([-719_163] * rows, pa.int32()).cast(pa.date32()), "not of type date", True),
        "the least date": (
            "moved", pa.array([-(2**31) + 2] * rows, pa.int32()).cast(pa.date32()), "not of type date", True),
        "bytes that are no text": ("county", undecodable, "", False),
        "an integer instead of a code": (
            "county", pa.array([1] * rows), "value outside its domain matching [0-9]{3}", True),
        "a dictionary with another code": (
            "tenure", pa.array([*["owned"] * (rows - 1), MARKER]).dictionary_encode(),
            "value outside its domain [owned, rented]", True),
        "an empty text": (
            "tenure", pa.array([*["owned"] * (rows - 1), ""]), "value outside its domain [owned, rented]", True),
        "an empty text as an integer": ("rooms", pa.array([*["1"] * (rows - 1), ""]), "not of type integer", True),
        "nulls of the null type": ("rooms", pa.nulls(rows), "null where none is allowed", True),
        "nulls of the null type for a boolean": ("farm", pa.nulls(rows), "null where none is allowed", True),
        "a key twice": ("serial", pa.array([*range(1, rows), 1]), "key that another row has", True),
    }  # fmt: skip
    for kind, (column, values, rule, counted) in kinds.items():
        damaged = table.set_column(table.column_names.index(column), column, values)
        finding = (
            f"households.parquet: column {column}: {rule}"
            if rule
            else "households.parquet: not a readable Parquet file"
        )
        yield BadFile(
            f"town households.parquet: {kind} in {column}",
            "town", "parquet", {"households.parquet": as_parquet(damaged)}, finding, counted,
        )  # fmt: skip


def _without_a_row(whole: bytes, rows: int, total: int) -> bytes:
    """A Parquet file whose metadata state one row less for its only group of rows, and `total` rows for the file."""
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    written = [place for place in range(footer, len(whole) - 8) if whole[place] == 2 * rows]
    for places in (chosen for size in (1, 2) for chosen in combinations(written, size)):
        damaged = bytearray(whole)
        for place in places:
            damaged[place] = 2 * (rows - 1)
        try:
            metadata = pq.read_metadata(pa.BufferReader(bytes(damaged)))
        except (OSError, pa.ArrowException):
            continue
        group = metadata.row_group(0)
        lengths = {group.column(position).num_values for position in range(group.num_columns)}
        if (metadata.num_rows, group.num_rows, lengths) == (total, rows - 1, {rows}):
            return bytes(damaged)
    raise AssertionError("the footer is written in another way")


def _parquet_files(dataset: str, name: str) -> Iterator[BadFile]:
    file, rows = f"{name}.parquet", rows_of(dataset, name)
    table = as_table(rows)
    whole, first = as_parquet(table), rows[0][0]
    unreadable = f"{file}: not a readable Parquet file"
    missing, misspelt, twice = (
        f"{file}: column {first}: {missing_column(dataset)}",
        f"{file}: column {first}: {SPELLED_OTHERWISE}",
        f"{file}: column {first}: more than one column of that name",
    )
    others = rows[0][1:]
    kinds: dict[str, tuple[bytes | None, str]] = {
        "missing": (None, f"{file}: there is no such file"),
        "a directory": (DIRECTORY, f"{file}: {FOLDER}"),
        "empty": (b"", f"{file}: {EMPTY}"),
        "no columns": (as_parquet(pa.table({})), f"{file}: has no columns"),
        "only its mark": (b"PAR1", unreadable),
        "its mark twice": (b"PAR1PAR1", unreadable),
        "CSV": (as_csv(rows), f"{unreadable}: {IS_CSV}"),
        "gzip": (gzip.compress(whole, mtime=0), unreadable),
        "without its beginning": (whole[len(whole) // 2 :], unreadable),
        "pages of zeros": (whole[:4] + bytes(len(whole) * 2 // 5) + whole[4 + len(whole) * 2 // 5 :], unreadable),
        "a footer of zeros": (whole[:-200] + bytes(192) + whole[-8:], unreadable),
        "a footer too long": (whole[:-8] + b"\xff\xff\xff\x7f" + whole[-4:], unreadable),
        "another mark at the end": (whole[:-4] + b"PARE", unreadable),
        "no records": (as_parquet(table.slice(0, 0)), f"{file}: contains no records"),
        "a column less": (as_parquet(table.drop_columns([first])), missing),
        "another case": (as_parquet(table.rename_columns([first.swapcase(), *others])), misspelt),
        "a blank behind a name": (as_parquet(table.rename_columns([f"{first} ", *others])), misspelt),
        "a name in two cases": (
            as_parquet(table.append_column(first.swapcase(), table[first])),
            f"{file}: column {first}: {ANOTHER_CASE}",
        ),
        "a name twice": (as_parquet(table.append_column(first, table[first])), twice),
        "a line break in a name": (
            as_parquet(table.append_column("x\ny", table[first])),
            f"{file}: line break in the name of a column",
        ),
        **{
            f"cut after {tenths} tenths": (whole[: len(whole) * tenths // 10], unreadable) for tenths in (1, 3, 5, 7, 9)
        },
        "a row less in the group of rows": (_without_a_row(whole, len(table), len(table)), unreadable),
        "a row less in all of the footer": (_without_a_row(whole, len(table), len(table) - 1), unreadable),
        "cut by a byte": (whole[:-1], unreadable),
        "a byte more": (whole + b"\0", unreadable),
    }
    for kind, (content, finding) in kinds.items():
        yield BadFile(f"{dataset} {file}: {kind}", dataset, "parquet", {file: content}, finding, counted=False)


# Records that do not fit together


def _structures() -> Iterator[BadFile]:
    """A census whose units, persons and places contradict each other, in every way that the layout's rules name."""
    for kind, spoil, broken in BROKEN:
        census = Census(Path())
        spoil(census)
        files = {
            f"{name}.csv": as_csv(
                [header := rows_of("census", name)[0], *([row[column] for column in header] for row in rows)]
            )
            for name, rows in census.files.items()
        }
        good = good_files("census", "csv")
        rule = STRUCTURE.rules[next(iter(broken))]
        column = "RTYPE" if rule.column == "PERSON_RTYPE" else rule.column
        file = "geo" if column.startswith("TABBLK") else rule.table
        changed: Files = {name: content for name, content in files.items() if content != good[name]}
        yield BadFile(f"census: {kind}", "census", "csv", changed, f"{file}.csv: column {column}: {rule.offence}")


def _changed(rows: Rows, place: int, **fields: str) -> list[str]:
    return [fields.get(column, field) for column, field in zip(rows[0], rows[place], strict=True)]


def _unrelated() -> Iterator[BadFile]:
    households, persons = rows_of("town", "households"), rows_of("town", "persons")
    units, geo = rows_of("census", "units"), rows_of("census", "geo")
    orphan = "column household: person without a unit in serial"
    homeless = [*persons, _changed(persons, 1, person="x", household="999")]
    elsewhere = [*geo[:-1], _changed(geo, -1, RTYPE="2")]
    serial, lacking = "households.*: column serial", "column MAFID: record without one in"
    repeated = "key that another row has"
    kinds: list[tuple[str, str, str, Rows, str]] = [
        ("an orphan", "town", "persons", homeless, f"persons.*: {orphan}"),
        ("a household less", "town", "households", [households[0], *households[3:]], f"persons.*: {orphan}"),
        ("a row twice", "town", "persons", [*persons, persons[1]], f"persons.*: column person: {repeated}"),
        ("a household twice", "town", "households", [*households, households[7]], f"{serial}: {repeated}"),
        ("a place less", "census", "geo", geo[:-1], f"units.*: {lacking} geo.*"),
        ("a place more", "census", "geo", [*geo, _changed(geo, 1, MAFID="999")], f"geo.*: {lacking} units.*"),
        ("a place twice", "census", "geo", [*geo, geo[1]], f"geo.*: column MAFID: {repeated}"),
        ("a unit twice", "census", "units", [*units, units[1]], f"units.*: column MAFID: {repeated}"),
        ("another RTYPE", "census", "geo", elsewhere, "geo.*: column RTYPE: differs from units.*"),
        (
            "another block group", "census", "geo", [*geo[:-1], _changed(geo, -1, TABBLKGRPCE="9")],
            "geo.*: column TABBLKGRPCE: not the first digit of TABBLK; if that is right, declare block_group: as_given",
        ),
    ]  # fmt: skip
    for kind, dataset, name, rows, finding in kinds:
        contents = {"csv": as_csv(rows), "parquet": as_parquet(as_table(rows))}
        for reader, content in contents.items():
            file = f"{name}.{reader}"
            yield BadFile(f"{dataset} {file}: {kind}", dataset, reader, {file: content}, finding.replace("*", reader))


def bad_files() -> list[BadFile]:
    """All of them."""
    found: list[BadFile] = []
    for dataset, names in NAMES.items():
        for name in names:
            width = len(_rows(dataset, name)[0])
            some = (0, width // 2, width - 1)
            found += _csv_lines(dataset, name)
            found += _csv_fields(dataset, name, some)
            found += _csv_files(dataset, name)
            found += _values(dataset, name, "csv", 100 if dataset == "town" else 1)
            found += _values(dataset, name, "parquet", 3 if dataset == "town" else 1)
            found += _stored(dataset, name, some[:1] if dataset == "census" else range(width))
            found += _parquet_files(dataset, name)
    return [*found, *_typed_values(), *_structures(), *_unrelated()]
