"""The requirements on a source to become a CEF. A failing source leaves no incomplete or confidential data behind."""

import csv
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.cef import validation
from assets.cef.asset import build_cef
from assets.cef.ingestion import TOO_FINE, ingest
from assets.cef.readers import RENAMED, SPELLED_OTHERWISE
from assets.cef.validation import SourceError, cef_problems
from assets.release.dataset import DatasetDeclaration
from assets.remedies import explain_failure
from assets.texts import read_description
from mechanisms import delimited
from resources.custody import Custody
from resources.statements import SQL, Table, Zone
from resources.warehouse import Session, Warehouse
from tests.deployments import resources_of
from tests.depth import deep_cases, quick_cases

VERSION_KEY = bytes(range(32))
MARKER = "Quetzalcoatl"

UNITS = {
    "serial": {"type": "integer", "role": "key"},
    "county": {"type": "string", "role": "geography", "pattern": "[0-9]{3}"},
    "tenure": {"type": "string", "values": ["owned", "rented"]},
    "rooms": {"type": "integer", "minimum": 1, "maximum": 12},
    "rent": {"type": "decimal", "minimum": 0, "nullable": True},
    "moved": {"type": "date", "maximum": "1940-04-01", "nullable": True},
    "farm": {"type": "boolean"},
}
PERSONS = {
    "age": {"type": "integer", "minimum": 0, "maximum": 130},
    "household": {"type": "integer", "role": "unit"},
    "person": {"type": "string", "role": "key"},
}
UNIT_ROWS = [
    ["1", "001", "owned", "5", "", "1931-10-01", "false"],
    ["2", "001", "rented", "3", "22.5", "", "false"],
    ["3", "010", "rented", "12", "0", "1940-04-01", "true"],
    ["4", "100", "owned", "1", "", "", "true"],
]
PERSON_ROWS = [["41", "1", "1a"], ["39", "1", "1b"], ["0", "3", "3a"]]


class Town:
    """A small dataset on disk, its warehouse, and ways to corrupt it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warehouse = Warehouse(folder=str(folder / "warehouse"))
        self.custody = Custody(folder=str(folder / "custody"))
        self.units = [list(UNITS), *(list(row) for row in UNIT_ROWS)]
        self.persons = [list(PERSONS), *(list(row) for row in PERSON_ROWS)]

    def declare(self, reader: str = "csv", **changes: Any) -> DatasetDeclaration:
        attributes: dict[str, Any] = {
            "name": "town",
            "title": "A town",
            "reader": reader,
            "cap": 1,
            "units": {"path": f"households.{reader}", "columns": UNITS},
            "persons": {"path": f"persons.{reader}", "columns": PERSONS},
        }
        return DatasetDeclaration.model_validate({**attributes, **changes})

    def write(self) -> "Town":
        for name, rows in (("households", self.units), ("persons", self.persons)):
            with (self.folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(rows)
        return self

    def ingest(self, declaration: DatasetDeclaration | None = None) -> str:
        with self.warehouse.session(writes=Zone.CONFIDENTIAL) as session:
            return ingest(session, declaration or self.declare(), self.folder, VERSION_KEY).content

    def refusal(self, declaration: DatasetDeclaration | None = None) -> list[str]:
        """The lines of ingestion's error, after a check that the warehouse did not change."""
        before = self.content()
        with pytest.raises(SourceError) as refusal:
            self.ingest(declaration)
        assert self.content() == before
        return str(refusal.value).splitlines()

    def content(self, name: str = "town") -> list[Any]:
        """Columns and rows of everything that the confidential zone holds of the dataset."""
        with self.warehouse.session(writes=Zone.CONFIDENTIAL) as session:
            tables = [Table(Zone.CONFIDENTIAL, name, table) for table in ("units", "persons")]
            return [
                (columns, session.rows("cef/records", columns=list(columns), table=table))
                for table in tables
                if (columns := session.columns(table))
            ]

    def materialize(self, declaration: DatasetDeclaration, **options: Any) -> dg.ExecuteInProcessResult:
        return dg.materialize(
            build_cef(declaration, self.folder),
            resources=resources_of(self.warehouse, self.custody),
            raise_on_error=False,
            **options,
        )


@pytest.fixture
def town(tmp_path: Path) -> Town:
    """A town whose good CEF is already in the warehouse. Bad input must not change it."""
    town = Town(tmp_path).write()
    town.ingest()
    return town


def test_a_good_source_becomes_typed_tables_in_canonical_order(town: Town) -> None:
    (units, rows), (persons, person_rows) = town.content()
    assert units == {
        "serial": "BIGINT",
        "county": "VARCHAR",
        "tenure": "VARCHAR",
        "rooms": "BIGINT",
        "rent": "DECIMAL(18,4)",
        "moved": "DATE",
        "farm": "BOOLEAN",
    }
    assert persons == {"person": "VARCHAR", "household": "BIGINT", "age": "BIGINT"}
    assert len(rows) == 4
    assert len(person_rows) == 3
    assert [row[1] for row in rows] == ["001", "001", "010", "100"], "leading zeros are part of a code"
    assert rows[0][4] is None


def spoil(table: str, row: int, column: str, value: str) -> Callable[[Town], None]:
    def spoiled(town: Town) -> None:
        rows = getattr(town, table)
        rows[row][rows[0].index(column)] = value

    return spoiled


OUTSIDE, ROOMS = "value outside its domain", "households.csv: column rooms: not of type integer:"


@deep_cases(2)
@quick_cases(2)
@pytest.mark.parametrize(
    ("spoiling", "message"),
    [
        (
            spoil("units", 2, "rooms", "1.5"),
            f"{ROOMS} a decimal point, as in 5.0, for which the type is decimal: 1 row",
        ),
        (
            spoil("units", 2, "rooms", "NA"),
            f"{ROOMS} a word such as NA, which `null` lists if it stands for no value: 1 row",
        ),
        (spoil("units", 2, "rooms", "1e1"), "households.csv: column rooms: not of type integer: 1 row"),
        (spoil("units", 2, "rooms", " 3"), "households.csv: column rooms: not of type integer: 1 row"),
        (
            spoil("units", 2, "rooms", "٣"),
            "households.csv: column rooms: not of type integer: the digits of another script, which are written "
            "as 0 to 9: 1 row",
        ),
        (spoil("units", 2, "rooms", "9" * 19), "households.csv: column rooms: not of type integer: 1 row"),
        (spoil("units", 2, "rent", "1e3"), "households.csv: column rent: not of type decimal: 1 row"),
        (spoil("units", 2, "rent", "0.00001"), f"households.csv: column rent: {TOO_FINE}: 1 row"),
        (spoil("units", 2, "rent", "1.2.00001"), "households.csv: column rent: not of type decimal: 1 row"),
        (spoil("units", 2, "moved", "1939-02-29"), "households.csv: column moved: not of type date: 1 row"),
        (spoil("units", 2, "moved", "0000-01-01"), "households.csv: column moved: not of type date: 1 row"),
        (spoil("units", 2, "county", "00\0"), "households.csv: column county: not of type string: 1 row"),
        (
            spoil("units", 2, "moved", "01.03.1939"),
            "households.csv: column moved: not of type date: written in another order, which `csv: {dates: …}` "
            "declares as in DD.MM.YYYY: 1 row",
        ),
        (
            spoil("units", 2, "farm", "1"),
            "households.csv: column farm: not of type boolean, which is true or false: 1 row",
        ),
        (
            spoil("units", 2, "farm", "True"),
            "households.csv: column farm: not of type boolean, which is true or false: 1 row",
        ),
        (spoil("units", 2, "serial", "x"), "households.csv: column serial: not of type integer: 1 row"),
        (
            spoil("units", 2, "tenure", "Rented"),
            f"households.csv: column tenure: {OUTSIDE} [owned, rented]: 1 row",
        ),
        (spoil("units", 2, "rooms", "0"), f"households.csv: column rooms: {OUTSIDE} 1 to 12: 1 row"),
        (spoil("units", 2, "rooms", "13"), f"households.csv: column rooms: {OUTSIDE} 1 to 12: 1 row"),
        (spoil("units", 2, "rent", "-0.01"), f"households.csv: column rent: {OUTSIDE} at least 0: 1 row"),
        (
            spoil("units", 2, "moved", "1940-04-02"),
            f"households.csv: column moved: {OUTSIDE} at most 1940-04-01: 1 row",
        ),
        (
            spoil("units", 2, "county", "0010"),
            f"households.csv: column county: {OUTSIDE} matching [0-9]{{3}}: 1 row",
        ),
        (
            spoil("units", 2, "county", "001\n"),
            f"households.csv: column county: {OUTSIDE} matching [0-9]{{3}}; there are blanks around codes: 1 row",
        ),
        (spoil("units", 2, "tenure", ""), "households.csv: column tenure: null where none is allowed: 1 row"),
        (spoil("units", 2, "farm", ""), "households.csv: column farm: null where none is allowed: 1 row"),
        (spoil("units", 4, "serial", ""), "households.csv: column serial: null where none is allowed: 1 row"),
        (spoil("units", 4, "serial", "2"), "households.csv: column serial: key that another row has: 1 row"),
        (spoil("persons", 2, "person", "1a"), "persons.csv: column person: key that another row has: 1 row"),
        (
            spoil("persons", 2, "household", "7"),
            "persons.csv: column household: person without a unit in serial: 1 row",
        ),
        (
            spoil("persons", 2, "household", ""),
            "persons.csv: column household: null where none is allowed: 1 row",
        ),
        (spoil("units", 0, "tenure", "Tenure"), f"households.csv: column tenure: {SPELLED_OTHERWISE}"),
        (spoil("units", 0, "farm", "rooms"), f"households.csv: column farm: missing column; {RENAMED}"),
        (
            spoil("units", 0, "farm", "ROOMS"),
            "households.csv: column rooms: another column has the same name but for capital letters",
        ),
    ],
)
def test_one_bad_value_ends_in_one_clear_error(town: Town, spoiling: Callable[[Town], None], message: str) -> None:
    spoiling(town)
    lines = town.write().refusal()
    assert message in lines
    # A header that names `rooms` twice breaks two rules; anything else breaks one.
    assert len(lines) == 1 or "of that name" in "".join(lines) or "the same name" in "".join(lines)


MANY = b"".join(b"%d,x\n" % serial for serial in range(3, 5000))


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (b"a,b\n1,x\n2\n" + MANY, "fewer fields than the header: 1 row"),
        (b"a,b\n1,x\n2,x,y\n" + MANY, "more fields than the header: 1 row"),
        (b"a,b\n1,x\n2,x,\n" + MANY, "more fields than the header: 1 row"),
        (b'a,b\n1,x\n2,x,""\n' + MANY, "more fields than the header: 1 row"),
        (b"a,b\n1,x,\n2,y,\n", "more fields than the header: 2 rows"),
        (b"a,b\n1,x\n\n2,y\n", "empty line: 1 row"),
        (b"a,b\n1,x\n\n", "empty line: 1 row"),
        (b'a,b\n1,"x\n2,x\n', "quote that is never closed: 1 row"),
        (b'a,b\n1,"x"y\n2,x\n', "column b: text after the quote that closes the field: 1 row"),
        (b'a,b\n1,"x" \n2,x\n', "column b: text after the quote that closes the field: 1 row"),
        (b'a,b\n1, "x"\n "2",x\n', "column b: quote in a field that does not begin with one: 1 row"),
        (b'a,b\n1,x"y"\n2,"x"\n', "column b: quote in a field that does not begin with one: 1 row"),
        (b"a,b\n1,\xff\xfe\n", "column b: not UTF-8: 1 row"),
        (b"a,b,c\n1,x,\xff\n2,x,\xc0\x80\n", "not UTF-8, in a column that is not declared: 2 rows"),
        (b"a,b\n1,x\r\n2,y\n3,z\r\n", "line end that differs from the header's: 2 rows"),
        (b"a,b\n1,x\ry\n", "column b: carriage return outside quotes: 1 row"),
        (b"a,b\n1," + b"x" * 1_000_000 + b"\n", "longer than 1,000,000 bytes: 1 row"),
        (b"\xff\xfea\x00,\x00b\x00", "is in utf-16, which `csv: {encoding: utf-16}` declares"),
    ],
)
def test_a_file_that_is_not_exactly_csv_is_refused(town: Town, text: bytes, rule: str) -> None:
    """DuckDB's reader in its strictest mode accepts a third of these, and drops the parts that it cannot parse."""
    (town.folder / "bad.csv").write_bytes(text)
    columns = {"a": {"type": "integer", "role": "key"}, "b": {"type": "string", "pattern": "(?s).*"}}
    declaration = town.declare(units={"path": "bad.csv", "columns": columns}, persons=None)
    assert f"bad.csv: {rule}" in town.refusal(declaration)


def test_a_file_that_is_not_parquet_is_refused(town: Town) -> None:
    (town.folder / "households.parquet").write_bytes((town.folder / "households.csv").read_bytes())
    units = {"path": "households.parquet", "columns": UNITS}
    assert town.refusal(town.declare("parquet", units=units, persons=None)) == [
        "households.parquet: not a readable Parquet file: it is text separated by commas; name it .csv"
    ]


def test_a_truncated_parquet_file_is_refused(town: Town) -> None:
    whole = town.folder / "whole.parquet"
    pq.write_table(pa.table({"a": [str(i) for i in range(100_000)]}), whole)
    content = bytearray(whole.read_bytes())
    content[100:20_000] = bytes(19_900)
    (town.folder / "bad.parquet").write_bytes(content)
    units = {"path": "bad.parquet", "columns": {"a": {"type": "string", "pattern": "[0-9]+"}}}
    assert town.refusal(town.declare("parquet", units=units, persons=None)) == [
        "bad.parquet: not a readable Parquet file"
    ]


def test_a_missing_or_empty_file_is_named(town: Town) -> None:
    """Wrong program: explains the refusal of a pipe by its content, and waits for ever, with the warehouse open."""
    (town.folder / "households.csv").unlink()
    (town.folder / "persons.csv").write_text("")
    refusal = ["households.csv: there is no such file", "persons.csv: is empty"]
    assert town.refusal() == refusal
    os.mkfifo(town.folder / "households.csv")
    assert town.refusal() == refusal


def test_a_file_without_records_is_refused(town: Town) -> None:
    del town.persons[1:]
    assert town.write().refusal() == ["persons.csv: contains no records"]


@quick_cases(1)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_line_breaks_are_kept_in_values_and_refused_in_names(town: Town, line_end: str) -> None:
    columns = {"a": {"type": "string", "pattern": "(?s).*"}, "b": {"type": "integer", "minimum": 1, "maximum": 9}}
    declaration = town.declare(units={"path": "breaks.csv", "columns": columns}, persons=None)
    path = town.folder / "breaks.csv"
    path.write_bytes(line_end.join(['"a",b', '"x\ny",1', '"x\r\ny",2', ""]).encode())
    town.ingest(declaration)
    ((_, rows),) = town.content()
    assert rows == [("x\ny", 1), ("x\r\ny", 2)]
    path.write_bytes(line_end.join(['a,b,"c\nd"', "x,1,", "y,2,", ""]).encode())
    assert town.refusal(declaration) == ["breaks.csv: line break in the name of a column"]


def test_one_error_has_all_findings(town: Town) -> None:
    for spoiling in (
        spoil("units", 1, "rooms", "1.5"),
        spoil("units", 2, "rooms", "99"),
        spoil("units", 3, "rooms", ""),
        spoil("units", 1, "tenure", "lent"),
        spoil("units", 2, "tenure", "lent"),
        spoil("units", 4, "serial", "1"),
        spoil("persons", 1, "age", "old"),
        spoil("persons", 2, "household", "7"),
    ):
        spoiling(town)
    assert sorted(town.write().refusal()) == [
        f"{ROOMS} a decimal point, as in 5.0, for which the type is decimal: 1 row",
        "households.csv: column rooms: null where none is allowed: 1 row",
        "households.csv: column rooms: value outside its domain 1 to 12: 1 row",
        "households.csv: column serial: key that another row has: 1 row",
        "households.csv: column tenure: value outside its domain [owned, rented]: 2 rows",
        "persons.csv: column age: not of type integer: 1 row",
        "persons.csv: column household: person without a unit in serial: 1 row",
    ]


@pytest.mark.prove
def test_offenders_are_counted_across_batches(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows, of codes that differ in more rows than a batch has, and of columns in several statements."""
    monkeypatch.setattr(validation, "BATCH_ROWS", 1000)
    monkeypatch.setattr(validation, "CODES_AT_ONCE", 1)
    rows = 30_000
    bad, empty = range(0, rows, 7), range(1, rows, 70)
    units = [[str(row + 1), "001", "owned", "5", "", "", "true"] for row in range(rows)]
    for row in bad:
        units[row][2] = "lent"
        units[row][1] = f"x{row % 3_000}"
        units[row][3] = "99"
    for row in empty:
        units[row][2] = ""
    town.units = [list(UNITS), *units]
    assert sorted(town.write().refusal()) == [
        f"households.csv: column county: value outside its domain matching [0-9]{{3}}: {len(bad):,} rows",
        f"households.csv: column rooms: value outside its domain 1 to 12: {len(bad):,} rows",
        f"households.csv: column tenure: null where none is allowed: {len(empty)} rows",
        f"households.csv: column tenure: value outside its domain [owned, rented]: {len(bad):,} rows",
    ]


def test_a_refused_first_source_leaves_no_table(tmp_path: Path) -> None:
    town = Town(tmp_path)
    spoil("persons", 1, "household", "7")(town)
    town.write().refusal()
    assert town.content() == []


def test_a_source_that_changes_while_it_is_read_is_refused(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    def judge_slowly(*_: object) -> list[Any]:
        with (town.folder / "households.csv").open("a") as file:
            file.write("5,001,owned,5,,,true\n")
        return []

    monkeypatch.setattr("assets.cef.ingestion.unit_findings", judge_slowly)
    assert town.refusal() == ["households.csv: changed while it was read"]


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.unlink(missing_ok=True),
        lambda path: path.write_text("age"),
        lambda path: path.write_text(""),
    ],
    ids=["removed", "cut", "emptied"],
)
def test_a_source_that_cannot_be_read_again_is_refused(
    town: Town, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    """A file is read twice: types are counted, then rows are written. In between it vanishes, or loses its rows."""
    create = Session.create

    def create_late(session: Session, *arguments: Any, **names: Any) -> None:
        change(town.folder / "persons.csv")
        create(session, *arguments, **names)

    monkeypatch.setattr(Session, "create", create_late)
    assert "persons.csv: changed while it was read" in town.refusal()


@pytest.mark.parametrize("missed", [-1, 1])
def test_a_file_in_which_duckdb_finds_other_records_than_its_form_has_is_refused(
    town: Town, monkeypatch: pytest.MonkeyPatch, missed: int
) -> None:
    form = delimited.form
    monkeypatch.setattr(
        delimited, "form", lambda *arguments: replace(found := form(*arguments), rows=found.rows + missed)
    )
    assert {line.split(" (")[0] for line in town.refusal()} == {
        "households.csv: not a readable CSV file",
        "persons.csv: not a readable CSV file",
    }


def test_a_dataset_declared_without_persons_drops_earlier_ones(town: Town) -> None:
    town.ingest(town.declare(persons=None))
    assert len(town.content()) == 1


# Round trips and versions


def as_parquet(town: Town) -> None:
    """The town's tables as Parquet, with the types that a careful writer would give the columns."""
    types = {
        "serial": "INTEGER",
        "rooms": "UTINYINT",
        "rent": "DECIMAL(9,1)",
        "moved": "DATE",
        "farm": "BOOLEAN",
        "age": "SMALLINT",
        "household": "BIGINT",
    }
    for name, rows in (("households", town.units), ("persons", town.persons)):
        header = rows[0]
        select = ", ".join(f"{column}::{types.get(column, 'VARCHAR')} AS {column}" for column in reversed(header))
        source, target = town.folder / f"{name}.csv", town.folder / f"{name}.parquet"
        duckdb.sql(f"COPY (SELECT {select} FROM read_csv('{source}', all_varchar = true)) TO '{target}'")


def test_csv_and_parquet_give_the_same_cef(town: Town) -> None:
    as_parquet(town)
    assert town.ingest(town.declare("parquet")) == town.ingest(town.declare("csv"))


def test_only_whole_floating_point_numbers_are_integers(town: Town) -> None:
    """As pandas stores integers if one is missing. Wrong programs: one that rounds 1.5, takes NaN for empty, or reads
    a number so great that it may stand for its neighbor; and one that reads the code 9.0 of another column as 9."""
    rooms = {"type": "integer", "minimum": 1, "maximum": 10**17, "nullable": True}
    rent = {"type": "decimal", "rounded": True, "source": "rooms", "null": ["9.0"]}
    code = {"type": "string", "source": "rooms", "pattern": "[0-9]+", "nullable": True}
    declared = town.declare(
        "parquet", units={"path": "u.parquet", "columns": {"rooms": rooms, "rent": rent, "code": code}}, persons=None
    )
    pq.write_table(pa.table({"rooms": [1.0, None, 9.0, 1e13]}), town.folder / "u.parquet")
    town.ingest(declared)
    (columns, rows), *_ = town.content()
    read = [dict(zip(columns, row, strict=True)) for row in rows]
    assert sorted((row["rooms"], row["code"], row["rent"]) for row in read if row["rooms"]) == [
        (1, "1", 1), (9, "9", None), (10**13, "10000000000000", 10**13),
    ]  # fmt: skip
    for kind, limit in (pa.float64(), 2.0**53), (pa.float32(), 2.0**24):
        rooms = pa.array([1.5, float("nan"), limit, -limit, limit - 1], kind)
        pq.write_table(pa.table({"rooms": rooms}), town.folder / "u.parquet")
        assert "u.parquet: column rooms: not of type integer: 4 rows" in town.refusal(declared)


def test_only_timestamps_at_midnight_are_dates(town: Town) -> None:
    """As pandas stores dates. Wrong programs: one that cuts a time off, or takes a day's end for the next day."""
    dates = town.declare("parquet", units={"path": "u.parquet", "columns": {"moved": UNITS["moved"]}}, persons=None)
    times = [datetime(1939, 1, 2), None, datetime(1, 1, 1)]
    pq.write_table(
        pa.table({"moved": pa.array(times, pa.timestamp("us")), "rooms": [1, 2, 3]}), town.folder / "u.parquet"
    )
    town.ingest(dates)
    (columns, rows), *_ = town.content()
    assert sorted(str(row[list(columns).index("moved")]) for row in rows) == ["0001-01-01", "1939-01-02", "None"]
    times = [datetime(1939, 1, 2, 23, 59, 59, 999999), datetime(1939, 1, 2, 0, 0, 0, 1), datetime(1939, 1, 2)]
    pq.write_table(
        pa.table({"moved": pa.array(times, pa.timestamp("us")), "rooms": [1, 2, 3]}), town.folder / "u.parquet"
    )
    assert town.refusal(dates) == ["u.parquet: column moved: not of type date: 2 rows"]


@pytest.mark.prove
def test_weights_with_many_digits_are_refused_in_words_that_say_how_to_declare_them(town: Town) -> None:
    town.units = [
        [*row, weight] for row, weight in zip(town.units, ("weight", "1.23456", "2.5", "0.333333", "x"), strict=True)
    ]
    town.write()

    def declared(**weight: Any) -> DatasetDeclaration:
        return town.declare(units={"path": "households.csv", "columns": {**UNITS, "weight": weight}})

    assert town.refusal(declared(type="decimal")) == [
        "households.csv: column weight: more than 4 digits after the decimal point, which a decimal column does not "
        "keep; declare rounded: true to round them, or type string with a pattern to keep them all: 2 rows",
        "households.csv: column weight: not of type decimal: 1 row",
    ]
    town.units[4][-1] = "4"
    town.write().ingest(declared(type="decimal", rounded=True))
    (_, rows), _ = town.content()
    assert [str(row[-1]) for row in rows] == ["1.2346", "2.5000", "0.3333", "4.0000"]
    town.ingest(declared(type="string", pattern="[0-9]+([.][0-9]+)?"))
    (_, rows), _ = town.content()
    assert [row[-1] for row in rows] == ["1.23456", "2.5", "0.333333", "4"]
    rows = pa.table({"serial": [1], "weight": [1.5]})
    pq.write_table(rows, town.folder / "w.parquet")
    columns = {"serial": UNITS["serial"], "weight": {"type": "decimal"}}
    assert town.refusal(town.declare("parquet", units={"path": "w.parquet", "columns": columns}, persons=None)) == [
        "w.parquet: column weight: stored as double, not as decimal or integer or text; declare rounded: "
        "true, or write it to the file as decimal(18, 4), or as text and declare type string with a pattern to keep "
        "all digits"
    ]
    rows = pa.table({"serial": [1, 2, 3, 4], "weight": [1.23456, 1e-7, 1e5, float("nan")]})
    pq.write_table(rows, town.folder / "w.parquet")
    columns["weight"] |= {"rounded": True, "null": ["nan"]}
    town.ingest(town.declare("parquet", units={"path": "w.parquet", "columns": columns}, persons=None))
    (_, found), *_ = town.content()
    assert [str(row[-1]) for row in found] == ["1.2346", "0.0000", "100000.0000", "None"]


@pytest.mark.deep
def test_the_version_depends_only_on_the_content(town: Town) -> None:
    version = town.ingest()
    town.units[1:] = reversed(town.units[1:])
    town.persons[1:] = reversed(town.persons[1:])
    assert town.write().ingest() == version, "the order of rows is not content"
    town.units = [[*row, "left out"] for row in town.units]
    assert town.write().ingest() == version, "columns that are not declared are not content"
    spoil("persons", 1, "age", "42")(town)
    assert town.write().ingest() != version


def test_column_names_can_be_any_text(tmp_path: Path) -> None:
    town = Town(tmp_path)
    names = ['a "b"', "naïve; DROP TABLE x", "select", "x,y", "{{ name }}", "två rader ", "c0", "'"]
    with (tmp_path / "odd [1]*.csv").open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([names, [f"ä{i}\n" for i in range(len(names))]])
    (tmp_path / "odd 1x.csv").write_text("a decoy that a wildcard would take in\n")
    columns = {name: {"type": "string", "pattern": r"ä[0-9]\n"} for name in reversed(names)}
    declaration = town.declare(units={"path": "odd [1]*.csv", "columns": columns}, persons=None)
    town.ingest(declaration)
    ((stored, rows),) = town.content()
    assert list(stored) == names[::-1]
    assert rows == [tuple(f"ä{i}\n" for i in reversed(range(len(names))))]
    with town.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert cef_problems(session, declaration) == []


def test_a_backslash_does_not_turn_a_wildcard_into_another_file(tmp_path: Path) -> None:
    """Wrong program: leaves it to DuckDB, for which the pattern that stands for this name matches the other one."""
    town = Town(tmp_path)
    for name in ("one\\*.csv", "one\\[*].csv"):
        (tmp_path / name).write_text(f"a\n{len(name)}\n")
    columns = {"a": {"type": "integer", "minimum": 0, "maximum": 99}}
    with pytest.raises(SourceError, match="a backslash beside"):
        town.ingest(town.declare(units={"path": "one\\*.csv", "columns": columns}, persons=None))


# The asset and its check


@pytest.mark.deep
def test_the_asset_reports_schema_version_and_source_but_no_count(town: Town) -> None:
    result = town.materialize(town.declare(), instance=dg.DagsterInstance.ephemeral())
    assert result.success
    (materialization,) = result.asset_materializations_for_node("town__cef")
    schema = materialization.metadata["dagster/column_schema"]
    assert isinstance(schema, dg.TableSchemaMetadataValue)
    assert [column.name for column in schema.schema.columns][:2] == ["units.serial", "units.county"]
    assert schema.schema.columns[0].constraints.unique
    assert materialization.metadata["source"].value == "households.csv, persons.csv"
    assert set(materialization.metadata) <= {"dagster/column_schema", "source"}
    assert materialization.tags is not None
    assert town.ingest() != materialization.tags["dagster/data_version"], "keyed by the custody, not by anyone"
    checks = result.get_asset_check_evaluations()
    assert {check.check_name: check.passed for check in checks} == {"schema_and_keys": True, "as_read": True}


@pytest.mark.prove
def test_a_synthetic_dataset_shows_how_many_records_it_has(town: Town) -> None:
    result = town.materialize(town.declare(synthetic=True), instance=dg.DagsterInstance.ephemeral())
    (materialization,) = result.asset_materializations_for_node("town__cef")
    assert materialization.metadata["dagster/row_count"].value == 4
    assert materialization.metadata["persons"].value == 3


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize(
    ("tampering", "problems"),
    [
        (
            "INSERT INTO town.units SELECT * FROM town.units WHERE serial = 1",
            ["units: column serial: key that another row has: 1 row"],
        ),
        (
            "UPDATE town.units SET tenure = NULL",
            ["units: column tenure: null where none is allowed: 4 rows"],
        ),
        (
            "DELETE FROM town.units WHERE serial = 1",
            ["persons: column household: person without a unit in serial: 2 rows"],
        ),
        (
            "ALTER TABLE town.units ALTER rooms TYPE VARCHAR",
            ["units: columns or types are not as declared"],
        ),
        ("ALTER TABLE town.units ADD COLUMN note VARCHAR", ["units: columns or types are not as declared"]),
        ("DROP TABLE town.persons", ["persons: columns or types are not as declared"]),
    ],
)
def test_a_cef_altered_by_hand_does_not_pass_its_check(town: Town, tampering: str, problems: Sequence[str]) -> None:
    declaration = town.declare()
    with duckdb.connect(str(town.warehouse.path(Zone.CONFIDENTIAL))) as connection:
        connection.execute(tampering)
    with town.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert cef_problems(session, declaration) == problems
    result = town.materialize(
        declaration,
        instance=dg.DagsterInstance.ephemeral(),
        selection=dg.AssetSelection.checks(dg.AssetCheckKey(dg.AssetKey(["town", "cef"]), "schema_and_keys")),
    )
    (check,) = result.get_asset_check_evaluations()
    assert not check.passed
    assert check.blocking
    assert check.description
    assert read_description(check.description).split("\n") == explain_failure(problems, "schema_and_keys")
    assert check.description.count("  \n") == len(problems), "Markdown joins lines that do not end so"


def quoted_row(town: Town) -> None:
    town.units[2] = [f'{MARKER}"', MARKER, MARKER, MARKER, MARKER, MARKER, MARKER, MARKER]


@deep_cases(5)
@quick_cases(1)
@pytest.mark.parametrize(
    "spoiling",
    [
        *(spoil("units", 2, column, MARKER) for column in UNITS),
        *(spoil("persons", 2, column, MARKER) for column in ("age", "household")),
        quoted_row,
    ],
)
def test_no_value_of_a_bad_row_is_shown_anywhere(
    tmp_path: Path,
    spoiling: Callable[[Town], None],
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    town = Town(tmp_path)
    spoiling(town)
    spoil("persons", 3, "person", MARKER)(town)
    town.persons.append(["5", "3", MARKER])
    town.write()
    with dg.DagsterInstance.ephemeral() as instance:
        result = town.materialize(town.declare(), instance=instance)
        assert not result.success
        events = instance.all_logs(result.run_id)
        failures = [
            event.dagster_event.step_failure_data.user_failure_data
            for event in events
            if event.dagster_event and event.dagster_event.is_step_failure
        ]
        shown = [dg.serialize_value(event) for event in events]
    assert len(failures) == 1
    assert failures[0] is not None
    assert "persons.csv: column person: key that another row has: 1 row" in (failures[0].description or "")
    assert not [text for text in shown if MARKER in text]
    captured = capfd.readouterr()
    assert MARKER not in captured.out + captured.err + caplog.text


# Memory

GENERATE = """
    COPY (
        SELECT
            i + 1 AS serial,
            lpad((i % 351)::VARCHAR, 3, '0') AS county,
            'tract' || (i * 7919 % 99999) AS tract,
            i * 707293 % 12 + 1 AS size,
            CASE WHEN hash(i) % 2 = 0 THEN 'owned' ELSE 'rented' END AS tenure,
            hash(i) % 90000 AS income
        FROM range({rows}) AS numbers(i)
    ) TO '{path}' (HEADER)
"""
INGEST = """
import resource, sys
from pathlib import Path
from assets.release.dataset import DatasetDeclaration
from assets.cef.ingestion import ingest
from resources.statements import Zone
from resources.warehouse import Warehouse

declaration = DatasetDeclaration.model_validate({
    "name": "big", "title": "Big", "reader": "csv", "cap": 1,
    "units": {"path": "big.csv", "columns": {
        "serial": {"type": "integer", "role": "key"},
        "county": {"type": "string", "values": [f"{i:03d}" for i in range(351)]},
        "tract": {"type": "string", "pattern": "tract[0-9]{1,5}"},
        "size": {"type": "integer", "minimum": 1, "maximum": 12},
        "tenure": {"type": "string", "values": ["owned", "rented"]},
        "income": {"type": "integer", "minimum": 0, "maximum": 90000},
    }},
})
folder = Path(sys.argv[1])
with Warehouse(folder=str(folder / "warehouse")).session(writes=Zone.CONFIDENTIAL) as session:
    ingest(session, declaration, folder, bytes(32))
    assert session.count(declaration.cef_tables()[0]) == int(sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.prove
def test_ten_million_rows_are_ingested_within_two_gibibytes(tmp_path: Path) -> None:
    rows = 10_000_000
    duckdb.sql(GENERATE.format(rows=rows, path=tmp_path / "big.csv"))
    program = tmp_path / "program.py"
    program.write_text(INGEST)
    ingesting = subprocess.run(
        [sys.executable, str(program), str(tmp_path), str(rows)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(ingesting.stdout) * 1024 <= 2 * 2**30


@pytest.mark.prove
def test_donors_are_checked_against_the_declared_copies(tmp_path: Path) -> None:
    """1a's answers are in 1b and 3a too: three records. A program that does not count the donor's own, or counts
    records that name themselves, would accept 2 or refuse 3."""
    columns = {**PERSONS, "origin": {"type": "string", "role": "donor", "null": ["-"]}}
    town = Town(tmp_path)

    def declare(copies: int) -> DatasetDeclaration:
        return town.declare(copies=copies, persons={"path": "persons.csv", "columns": columns})

    def give(*origins: str) -> None:
        rows = [[*row, origin] for row, origin in zip(PERSON_ROWS, origins, strict=True)]
        town.persons = [[*PERSONS, "origin"], *rows]
        town.write()

    give("1a", "1a", "1a")
    town.ingest(declare(3))
    persons, _ = town.content()[1]
    assert list(persons) == ["person", "household", "origin", "age"]
    with town.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert cef_problems(session, declare(3)) == []
        (problem,) = cef_problems(session, declare(2))
    assert problem == "persons: column origin: donor whose answers are in more than 2 records (copies): 1 row"
    assert town.refusal(declare(2)) == [
        "persons.csv: column origin: donor whose answers are in more than 2 records (copies): 1 row"
    ]
    give("", "1a", "1b")
    assert town.refusal(declare(2)) == ["persons.csv: column origin: donor that has a donor itself: 1 row"]
    give("-", "4x", "1a")
    assert town.refusal(declare(2)) == ["persons.csv: column origin: donor that is not a record: 1 row"]
    assert "origin" not in declare(2).tables["persons"].variables


def test_keys_that_are_there_twice_are_counted_in_any_order_and_on_any_number_of_threads(tmp_path: Path) -> None:
    """Wrong programs: a count that takes equal neighbors for ascending ones, a null for a break of the order, or the
    rows of one thread, which ascend, for all of them."""
    many = 500_000
    tables = {
        "range": ("FROM range(4) AS t (key)", 0),
        "equal": ("SELECT unnest([1, 2, 2, 3]) AS key", 1),
        "descending": ("SELECT unnest([3, 2, 1]) AS key", 0),
        "nulls": ("SELECT unnest([NULL, 1, NULL, 2, NULL]) AS key", 0),
        "after_null": ("SELECT unnest([2, NULL, 1, 2]) AS key", 1),
        "texts": ("SELECT unnest(['10', '9', '9']) AS key", 1),
        "twice": (f"SELECT i % {many} AS key FROM range(2 * {many}) AS t (i)", many),
    }
    with Warehouse(folder=str(tmp_path), threads=4).session(writes=Zone.CONFIDENTIAL) as session:
        for name, (query, repeated) in tables.items():
            session.create(table := Table(Zone.CONFIDENTIAL, "town", name), SQL(f"test/{name}", query))
            assert validation.count_repeated_keys(session, table, "key") == repeated, name
