"""A census in the production layout becomes a CEF only if all its codes are valid and every rule of the layout holds.

These tests corrupt a few handwritten units, so that each corruption has one known effect.
"""

import csv
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pytest
from pydantic import ValidationError

from assets.cef.asset import build_cef
from assets.cef.census import (
    CODES,
    PERSON_COLUMNS,
    RACES,
    STRUCTURE,
    UNIT_COLUMNS,
    CensusDeclaration,
    census_persons,
    census_units,
)
from assets.cef.ingestion import ingest
from assets.cef.readers import open_geography
from assets.cef.validation import SourceError, cef_problems, structure_findings, structure_offenders
from assets.release.columns import Role
from assets.release.dataset import DatasetDeclaration
from assets.remedies import explain_failure
from assets.texts import read_description
from resources.custody import Custody
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse
from tests.deployments import resources_of
from tests.depth import deep_cases, quick_cases

VERSION_KEY = bytes(range(32))
HEADERS = {
    "persons": ["RTYPE", "MAFID", "QAGE", "CENHISP", "CENRACE", "RELSHIP"],
    "units": ["RTYPE", "MAFID", "FINAL_POP", "NPF", "HHSPAN", "HHRACE", "TEN", "HHT", "HHT2", "CPLT", "GQTYPE"],
    "geo": [
        *("RTYPE", "MAFID", "TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK", "TABBLKGRPCE"),
        *("REGIONCE", "DIVISIONCE", "PLACEFP", "AIANNHCE"),
    ],
}
HELD = STRUCTURE.select_rules({**UNIT_COLUMNS, **PERSON_COLUMNS})
"""The rules of a census without detailed codes; those about these codes are tested in `test_detailed_codes`."""
PLACE = ["01", "001", "020100", "1003", "1", "3", "6", "01000", "9999"]

# Each unit: RTYPE, then HHSPAN, HHRACE, NPF, TEN, HHT, HHT2, CPLT, GQTYPE, then its persons as (age, Hispanic, race,
# RELSHIP).
MARRIED = (
    "2",
    "1",
    "01",
    4,
    "1",
    "1",
    "01",
    "1",
    "0",
    [(40, 1, "01", 20), (41, 2, "06", 21), (9, 1, "01", 25), (70, 1, "01", 29)],
)
SAME_SEX = ("2", "2", "08", 2, "2", "1", "02", "2", "0", [(62, 2, "08", 20), (60, 1, "02", 23)])
COHABITING = ("2", "1", "02", 2, "3", "3", "03", "3", "0", [(30, 1, "02", 20), (31, 1, "02", 22), (0, 1, "02", 26)])
PARTNERS = ("2", "1", "04", 0, "3", "5", "04", "4", "0", [(30, 1, "04", 20), (31, 1, "04", 24)])
ALONE = ("2", "1", "01", 0, "4", "6", "05", "5", "0", [(81, 1, "01", 20)])
FATHER = (
    "2",
    "1",
    "01",
    3,
    "3",
    "2",
    "10",
    "5",
    "0",
    [(35, 1, "01", 20), (17, 1, "01", 27), (18, 1, "01", 25), (5, 1, "01", 35)],
)
GRANDMOTHER = ("2", "1", "03", 3, "1", "3", "07", "5", "0", [(66, 1, "03", 20), (30, 1, "03", 25), (4, 1, "03", 30)])
ROOMMATES = ("2", "1", "63", 0, "3", "5", "12", "5", "0", [(23, 1, "63", 20), (24, 2, "06", 34)])
VACANT = ("2", "0", "00", 0, "0", "0", "00", "0", "0", [])
PRISON = ("4", "0", "00", 0, "0", "0", "00", "0", "1", [(30, 1, "02", 37), (44, 2, "01", 37)])
DORMITORY = ("4", "0", "00", 0, "0", "0", "00", "0", "5", [(19, 1, "04", 38)])
NURSING_HOME = ("4", "0", "00", 0, "0", "0", "00", "0", "3", [(18, 1, "01", 37), (90, 1, "01", 37)])
UNITS = (
    *(MARRIED, SAME_SEX, COHABITING, PARTNERS, ALONE, FATHER, GRANDMOTHER, ROOMMATES, VACANT, PRISON, DORMITORY),
    NURSING_HOME,
)


class Census:
    """A small census on disk, its warehouse, and ways to corrupt it. Units are numbered from 1, in order."""

    def __init__(self, folder: Path, warehouse: Path | None = None) -> None:
        self.folder = folder
        self.warehouse = Warehouse(folder=str(warehouse or folder), threads=1)
        self.custody = Custody(folder=str(folder / "custody"))
        self.files: dict[str, list[dict[str, str]]] = {"persons": [], "units": [], "geo": []}
        for mafid, unit in enumerate(UNITS, 1):
            self.add(mafid, unit)

    def add(self, mafid: int, unit: tuple[Any, ...]) -> None:
        rtype, span, race, family, *codes, persons = unit
        record = [rtype, mafid, len(persons), family, span, race, *codes]
        self._append("units", record)
        self._append("geo", [rtype, mafid, *PLACE])
        for age, hispanic, person_race, relationship in persons:
            self._append("persons", ["3" if rtype == "2" else "5", mafid, age, hispanic, person_race, relationship])

    def _append(self, name: str, values: list[Any]) -> None:
        self.files[name].append(dict(zip(HEADERS[name], map(str, values), strict=True)))

    def rows(self, name: str, mafid: int) -> list[dict[str, str]]:
        return [row for row in self.files[name] if row["MAFID"] == str(mafid)]

    def unit(self, mafid: int) -> dict[str, str]:
        (row,) = self.rows("units", mafid)
        return row

    def person(self, mafid: int, number: int) -> dict[str, str]:
        return self.rows("persons", mafid)[number]

    def declare(self, file_format: str = "csv", group_quarters_types: bool = True, **changes: Any) -> CensusDeclaration:
        path = lambda name: str(self.folder / f"{name}.{file_format}")  # noqa: E731
        declared: dict[str, Any] = {
            "name": "census",
            "title": "A census",
            "reader": file_format,
            "record_name": "unit",
            "cap": 1,
            "units": census_units(path("units"), path("geo"), group_quarters_types),
            "persons": census_persons(path("persons")),
        }
        return CensusDeclaration.model_validate(declared | changes)

    def write(self) -> "Census":
        for name, rows in self.files.items():
            fields = list(rows[0]) if rows else HEADERS[name]
            with (self.folder / f"{name}.csv").open("w", newline="") as file:
                writer = csv.DictWriter(file, fields)
                writer.writeheader()
                writer.writerows(rows)
        return self

    def ingest(self, declaration: DatasetDeclaration | None = None) -> str:
        with self.warehouse.session(writes=Zone.CONFIDENTIAL) as session:
            return ingest(session, declaration or self.declare(), self.folder, VERSION_KEY).content

    def refusal(self, **declared: Any) -> list[str]:
        """The lines of ingestion's error, after a check that the warehouse did not change."""
        self.write()
        with self.warehouse.session(writes=Zone.CONFIDENTIAL) as session:
            before = content(session)
            with pytest.raises(SourceError) as refused:
                ingest(session, self.declare(**declared), self.folder, VERSION_KEY)
            assert content(session) == before
        return str(refused.value).splitlines()


def content(session: Session) -> dict[str, Any]:
    """Columns and rows of everything that the confidential zone holds of the census."""
    tables = [Table(Zone.CONFIDENTIAL, "census", name) for name in ("units", "persons")]
    return {
        table.name: (columns, sorted(session.rows("cef/records", columns=list(columns), table=table)))
        for table in tables
        if (columns := session.columns(table))
    }


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a warehouse with a good census, which no test may change."""
    folder = tmp_path_factory.mktemp("stored")
    Census(folder).write().ingest()
    return folder


@pytest.fixture
def spoiled(tmp_path: Path, stored: Path) -> Census:
    """A census to be corrupted and refused. The good one in the warehouse must not change."""
    return Census(tmp_path, stored)


@pytest.fixture
def census(tmp_path: Path) -> Census:
    """A separate census for each test."""
    return Census(tmp_path).write()


def test_a_good_census_becomes_typed_tables(census: Census) -> None:
    census.ingest()
    with census.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        tables = content(session)
    units, unit_rows = tables["units"]
    persons, person_rows = tables["persons"]
    assert units == {
        "MAFID": "BIGINT",
        "RTYPE": "VARCHAR",
        "FINAL_POP": "BIGINT",
        "NPF": "BIGINT",
        **dict.fromkeys(("HHSPAN", "HHRACE", "TEN", "HHT", "HHT2", "CPLT", "GQTYPE"), "VARCHAR"),
        **dict.fromkeys(("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE", "TABBLK"), "VARCHAR"),
        **dict.fromkeys(("REGIONCE", "DIVISIONCE", "PLACEFP", "AIANNHCE"), "VARCHAR"),
    }
    assert persons == {
        "MAFID": "BIGINT",
        "PERSON_RTYPE": "VARCHAR",
        "QAGE": "BIGINT",
        "CENHISP": "VARCHAR",
        "CENRACE": "VARCHAR",
        "RELSHIP": "VARCHAR",
    }
    assert unit_rows[0] == (
        *(1, "2", 4, 4, "1", "01", "1", "1", "01", "1", "0"),
        *("01", "001", "020100", "1", "1003", "3", "6", "01000", "9999"),
    )
    assert len(unit_rows) == len(UNITS)
    assert person_rows[0] == (1, "3", 9, "1", "01", "25")
    assert len(person_rows) == sum(len(unit[-1]) for unit in UNITS)


@pytest.mark.deep
def test_the_order_of_rows_and_columns_does_not_matter_and_other_columns_are_ignored(census: Census) -> None:
    version = census.ingest()
    for name, rows in census.files.items():
        census.files[name] = [dict(reversed(list({**row, "EXTRA": "x"}.items()))) for row in reversed(rows)]
    assert census.write().ingest() == version
    census.person(1, 0)["QAGE"] = "50"
    assert census.write().ingest() != version


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize("typed", [True, False])
def test_parquet_gives_the_same_cef_as_csv(census: Census, typed: bool) -> None:
    integers = ("MAFID", "QAGE", "FINAL_POP", "NPF", "RTYPE", "TEN", "RELSHIP", "GQTYPE") if typed else ()
    for name in census.files:
        select = ", ".join(f"{field}::INTEGER AS {field}" if field in integers else field for field in HEADERS[name])
        source, target = census.folder / f"{name}.csv", census.folder / f"{name}.parquet"
        duckdb.sql(f"COPY (SELECT {select} FROM read_csv('{source}', all_varchar = true)) TO '{target}'")
    assert census.ingest(census.declare("parquet")) == census.ingest()


# Codes

BAD_CODES = {
    "persons": {"RTYPE": "2", "QAGE": "116", "CENHISP": "3", "CENRACE": "64", "RELSHIP": "39"},
    "units": {
        **{"RTYPE": "3", "FINAL_POP": "100000", "NPF": "-1", "HHSPAN": "3", "HHRACE": "64", "TEN": "5", "HHT": "8"},
        **{"HHT2": "13", "CPLT": "6", "GQTYPE": "8"},
    },
    "geo": {
        **{"TABBLKST": "99", "TABBLKCOU": "1", "TABTRACTCE": "2010", "TABBLK": "103", "TABBLKGRPCE": "12"},
        **{"REGIONCE": "5", "DIVISIONCE": "10", "PLACEFP": "1000", "AIANNHCE": "99999"},
    },
}


@quick_cases(1)
@pytest.mark.parametrize("name", list(BAD_CODES))
def test_codes_outside_their_domains_are_named_with_their_file(spoiled: Census, name: str) -> None:
    for number, (field, code) in enumerate(BAD_CODES[name].items()):
        for row in spoiled.files[name][: number + 1]:
            row[field] = code
    lines = [line for line in spoiled.refusal() if "value outside its domain" in line]
    found = [
        re.fullmatch(rf"{name}\.csv: column (\w+): value outside its domain .*: (\d+) rows?", line) for line in lines
    ]
    counts = {match[1]: int(match[2]) for match in found if match}
    assert len(counts) == len(lines)
    assert counts == {field: number + 1 for number, field in enumerate(BAD_CODES[name])}


def test_a_code_is_text_and_not_a_number(spoiled: Census) -> None:
    """Wrong programs: one that takes 2 for 02, and one that explains some codes of the county and not all."""
    spoiled.person(cohabiting, 1).update(CENRACE="2", CENHISP="1 ", RELSHIP="21.0")
    for row, code in zip(spoiled.files["geo"], ["1", "1A"], strict=False):
        row.update(TABBLKCOU=code, TABTRACTCE=str(int(row["TABTRACTCE"])))
    lines = [line.rpartition(":")[0] for line in spoiled.refusal() if "outside its domain" in line]
    assert sorted((line.split(":")[1], *line.split("; ")[1:]) for line in lines) == [
        (" column CENHISP", "there are blanks around codes"),
        (" column CENRACE", "leading zeros are missing, as in 1 for 01"),
        (" column RELSHIP", "codes have a decimal point, as in 1.0 for 1"),
        (" column TABBLKCOU",),
        (" column TABTRACTCE", "leading zeros are missing, as in 1 for 01"),
    ]


@pytest.mark.parametrize("name", list(HEADERS))
def test_empty_fields_are_named_with_their_file(spoiled: Census, name: str) -> None:
    fields = [field for field in HEADERS[name] if field != "MAFID" and (name, field) != ("geo", "RTYPE")]
    for number, field in enumerate(fields):
        for row in spoiled.files[name][: number + 1]:
            row[field] = ""
    lines = [line for line in spoiled.refusal() if "null where none is allowed" in line]
    assert sorted(lines) == sorted(
        f"{name}.csv: column {field}: null where none is allowed: {number + 1} row{'s' if number else ''}"
        for number, field in enumerate(fields)
    )


def test_records_without_an_identifier_are_named_with_their_file(spoiled: Census) -> None:
    spoiled.unit(vacant)["MAFID"] = ""
    spoiled.person(dormitory, 0)["MAFID"] = ""
    assert sorted(spoiled.refusal()) == [
        "geo.csv: column MAFID: record without one in units.csv: 1 row",
        "persons.csv: column MAFID: null where none is allowed: 1 row",
        f"units.csv: column FINAL_POP: {STRUCTURE.rules['population'].offence}: 1 row",
        "units.csv: column MAFID: null where none is allowed: 1 row",
    ]


@pytest.mark.parametrize("name", list(HEADERS))
def test_missing_columns_are_named_with_their_file(spoiled: Census, name: str) -> None:
    spoiled.files[name] = [{"OTHER": "1"} for _ in spoiled.files[name]]
    # A unit's type in geo.csv, if given, is compared with that in units.csv.
    fields = [field for field in HEADERS[name] if (name, field) != ("geo", "RTYPE")]
    assert sorted(spoiled.refusal()) == sorted(f"{name}.csv: column {field}: missing column" for field in fields)


def test_every_code_has_a_label() -> None:
    for column in (*UNIT_COLUMNS.values(), *PERSON_COLUMNS.values()):
        assert column.description
        assert column.values is None or all(column.labels.values())
    assert list(RACES) == [f"{code:02}" for code in range(1, 64)]
    assert (RACES["01"], RACES["06"], RACES["07"]) == (
        "White alone",
        "Some Other Race alone",
        "White; Black or African American",
    )
    assert RACES["21"] == "Native Hawaiian and Other Pacific Islander; Some Other Race"
    assert RACES["63"].count(";") == 5
    assert list(CODES["RELSHIP"]) == [str(code) for code in range(20, 39)]
    assert {name for name, column in UNIT_COLUMNS.items() if column.role is Role.GEOGRAPHY} == set(HEADERS["geo"][2:])


# Geography


def lose_place(census: Census) -> None:
    census.files["geo"] = [row for row in census.files["geo"] if row["MAFID"] not in ("3", "9")]


def add_place(census: Census) -> None:
    census.files["geo"].append(census.rows("geo", 1)[0] | {"MAFID": "77"})


def repeat_place(census: Census) -> None:
    census.files["geo"].append(census.rows("geo", 1)[0] | {"TABBLK": "1001"})


def empty_place(census: Census) -> None:
    census.rows("geo", 4)[0]["MAFID"] = ""


def misspell_place(census: Census) -> None:
    census.rows("geo", 4)[0]["MAFID"] = "four"


def contradict_place(census: Census) -> None:
    for mafid in (1, 9, 10):
        row = census.rows("geo", mafid)[0]
        row["RTYPE"] = {"2": "4", "4": "2"}[row["RTYPE"]]


@deep_cases(2)
@quick_cases(2)
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lose_place, ["units.csv: column MAFID: record without one in geo.csv: 2 rows"]),
        (add_place, ["geo.csv: column MAFID: record without one in units.csv: 1 row"]),
        (repeat_place, ["geo.csv: column MAFID: key that another row has: 1 row"]),
        (
            empty_place,
            [
                "geo.csv: column MAFID: null where none is allowed: 1 row",
                "units.csv: column MAFID: record without one in geo.csv: 1 row",
            ],
        ),
        (
            misspell_place,
            [
                "geo.csv: column MAFID: not of type integer: 1 row",
                "units.csv: column MAFID: record without one in geo.csv: 1 row",
            ],
        ),
        (contradict_place, ["geo.csv: column RTYPE: differs from units.csv: 3 rows"]),
    ],
)
def test_every_unit_has_one_place_and_every_place_one_unit(
    spoiled: Census, spoil: Callable[[Census], None], said: list[str]
) -> None:
    spoil(spoiled)
    assert sorted(spoiled.refusal()) == said


def test_a_missing_geography_file_is_named(census: Census) -> None:
    census.files["geo"] = []
    assert census.refusal() == ["geo.csv: contains no records"]
    (census.folder / "geo.csv").unlink()
    with pytest.raises(SourceError, match=r"^geo\.csv: there is no such file$"):
        census.ingest()


@pytest.mark.parametrize("name", ["persons", "geo"])
def test_no_field_that_a_census_lacks_is_named_as_remedy(census: Census, name: str) -> None:
    """Wrong program: one that names `csv: {separator: ';'}`, which only other datasets can declare."""
    file = census.write().folder / f"{name}.csv"
    file.write_text(file.read_text().replace(",", ";"))
    with pytest.raises(SourceError) as refused:
        census.ingest()
    said = (
        f"{name}.csv: is separated by semicolons; write it as uncompressed text in UTF-8, with commas and double quotes"
    )
    assert said in str(refused.value).splitlines()


def test_a_geography_file_that_changes_while_it_is_read_is_refused(
    census: Census, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge_slowly(*_: object) -> list[Any]:
        with (census.folder / "geo.csv").open("a") as file:
            file.write("\n")
        return []

    monkeypatch.setattr("assets.cef.ingestion.unit_findings", judge_slowly)
    assert census.refusal() == ["geo.csv: changed while it was read"]


# Structure: each corruption breaks exactly the rules named.

Change = Callable[[Census], None]


def changed(*changes: tuple[str, int, int, str, str]) -> Change:
    """Changes of (file, MAFID, row of that MAFID, field, value)."""

    def spoil(census: Census) -> None:
        for name, mafid, number, field, value in changes:
            census.rows(name, mafid)[number][field] = value

    return spoil


def unit_changed(mafid: int, **fields: str) -> Change:
    return changed(*(("units", mafid, 0, field, value) for field, value in fields.items()))


def person_changed(mafid: int, number: int, **fields: str) -> Change:
    return changed(*(("persons", mafid, number, field, value) for field, value in fields.items()))


def person_added(mafid: int, relationship: str, age: int = 30) -> Change:
    def spoil(census: Census) -> None:
        like = census.rows("persons", mafid)[0]
        census.files["persons"].append(like | {"RELSHIP": relationship, "QAGE": str(age)})
        unit = census.unit(mafid)
        unit["FINAL_POP"] = str(int(unit["FINAL_POP"]) + 1)

    return spoil


def person_lost(mafid: int, number: int) -> Change:
    return lambda census: census.files["persons"].remove(census.person(mafid, number))


def together(*changes: Change) -> Change:
    def spoil(census: Census) -> None:
        for change in changes:
            change(census)

    return spoil


married, same_sex, cohabiting, partners, alone, father, grandmother, roommates, vacant, prison, dormitory = range(1, 12)
nursing_home = 12

OF_OCCUPIED = ("hispanic", "race", "tenure", "household_type", "household_type_2", "couple_type")
BROKEN: list[tuple[str, Change, dict[str, int]]] = [
    ("group quarters in a household", person_changed(married, 3, RTYPE="5"), {"persons_housed": 1}),
    (
        "a household in group quarters",
        together(person_changed(prison, 0, RTYPE="3"), person_changed(dormitory, 0, RTYPE="3")),
        {"persons_housed": 2},
    ),
    ("an inmate at home", person_changed(roommates, 1, RELSHIP="37"), {"relationships_housed": 1}),
    ("a roommate in prison", person_changed(prison, 0, RELSHIP="34"), {"relationships_housed": 1}),
    ("a householder in group quarters", person_changed(dormitory, 0, RELSHIP="20"), {"relationships_housed": 1}),
    ("a person too few", together(person_lost(married, 3), unit_changed(married, NPF="3")), {"population": 1}),
    ("a person too few in group quarters", person_lost(prison, 0), {"population": 1}),
    (
        "counts too high and too low",
        together(unit_changed(married, FINAL_POP="5"), unit_changed(prison, FINAL_POP="1")),
        {"population": 2},
    ),
    (
        "persons in a vacant unit",
        unit_changed(vacant, FINAL_POP="2"),
        {"population": 1, "householder": 1} | dict.fromkeys(OF_OCCUPIED, 1),
    ),
    ("no householder", person_changed(alone, 0, RELSHIP="36"), {"householder": 1}),
    ("two householders", person_changed(roommates, 1, RELSHIP="20"), {"householder": 1}),
    ("two spouses", person_added(married, "21"), {"couple": 1}),
    ("a spouse and a partner", person_added(same_sex, "22"), {"couple": 1}),
    ("two partners", person_added(partners, "24"), {"couple": 1}),
    ("family miscounted", unit_changed(married, NPF="3"), {"family": 1}),
    ("a partner counted as family", unit_changed(cohabiting, NPF="3"), {"family": 1}),
    ("a foster child counted as family", unit_changed(father, NPF="4"), {"family": 1}),
    ("a family of one", unit_changed(alone, NPF="1"), {"family": 1}),
    (
        "family in a vacant unit and in group quarters",
        together(unit_changed(vacant, NPF="1"), unit_changed(prison, NPF="2")),
        {"family": 2},
    ),
    ("not the householder's ethnicity", unit_changed(married, HHSPAN="2"), {"hispanic": 1}),
    ("no ethnicity", unit_changed(married, HHSPAN="0"), {"hispanic": 1}),
    (
        "ethnicity of nobody",
        together(unit_changed(vacant, HHSPAN="1"), unit_changed(dormitory, HHSPAN="1")),
        {"hispanic": 2},
    ),
    ("not the householder's race", unit_changed(married, HHRACE="06"), {"race": 1}),
    ("no race", unit_changed(alone, HHRACE="00"), {"race": 1}),
    (
        "race of nobody",
        together(unit_changed(vacant, HHRACE="01"), unit_changed(dormitory, HHRACE="04")),
        {"race": 2},
    ),
    ("no tenure", unit_changed(alone, TEN="0"), {"tenure": 1}),
    ("tenure of nobody", together(unit_changed(vacant, TEN="3"), unit_changed(dormitory, TEN="4")), {"tenure": 2}),
    ("occupied and vacant", unit_changed(alone, HHT="0"), {"household_type": 1}),
    ("vacant and occupied", unit_changed(vacant, HHT="4"), {"household_type": 1}),
    ("group quarters with a household type", unit_changed(prison, HHT="5"), {"household_type": 1}),
    ("a spouse, not married", unit_changed(married, HHT="2"), {"household_type": 1}),
    ("married, no spouse", unit_changed(father, HHT="1"), {"household_type": 1}),
    ("a child, no family", unit_changed(cohabiting, HHT="7"), {"household_type": 1}),
    ("family without relatives", unit_changed(roommates, HHT="2"), {"household_type": 1}),
    ("alone with others", unit_changed(roommates, HHT="4"), {"household_type": 1}),
    ("others, yet alone", unit_changed(alone, HHT="7"), {"household_type": 1}),
    ("no household type 2", unit_changed(alone, HHT2="00"), {"household_type_2": 1}),
    (
        "household type 2 of nobody",
        together(unit_changed(vacant, HHT2="05"), unit_changed(prison, HHT2="12")),
        {"household_type_2": 2},
    ),
    ("married with no child", unit_changed(same_sex, HHT2="01"), {"household_type_2": 1}),
    ("married with a child untold", unit_changed(married, HHT2="02"), {"household_type_2": 1}),
    ("cohabiting with a child untold", unit_changed(cohabiting, HHT2="04"), {"household_type_2": 1}),
    ("cohabiting with no child", unit_changed(partners, HHT2="03"), {"household_type_2": 1}),
    ("cohabiting called married", unit_changed(cohabiting, HHT2="01"), {"household_type_2": 1}),
    ("own children called relatives", unit_changed(father, HHT2="11"), {"household_type_2": 1}),
    ("grown and grandchildren called own children", unit_changed(grandmother, HHT2="06"), {"household_type_2": 1}),
    ("relatives called nonrelatives", unit_changed(grandmother, HHT2="08"), {"household_type_2": 1}),
    ("nonrelatives called alone", unit_changed(roommates, HHT2="09"), {"household_type_2": 1}),
    ("alone called nonrelatives", unit_changed(alone, HHT2="08"), {"household_type_2": 1}),
    ("a child who came of age", person_changed(father, 1, QAGE="18"), {"household_type_2": 1}),
    ("a grown child who is young", person_changed(grandmother, 1, QAGE="17"), {"household_type_2": 1}),
    ("a man in HHT, a woman in HHT2", unit_changed(father, HHT2="06"), {"sex": 1}),
    ("a woman alone in HHT, a man in HHT2", unit_changed(alone, HHT2="09"), {"sex": 1}),
    ("a man with roommates in HHT2 only", unit_changed(roommates, HHT="7"), {"sex": 1}),
    ("a couple of another kind", unit_changed(same_sex, CPLT="1"), {"couple_type": 1}),
    ("a married couple untold", unit_changed(married, CPLT="5"), {"couple_type": 1}),
    (
        "partners of another kind",
        together(unit_changed(cohabiting, CPLT="4"), unit_changed(partners, CPLT="3")),
        {"couple_type": 2},
    ),
    ("no couple type", unit_changed(alone, CPLT="0"), {"couple_type": 1}),
    (
        "a couple in group quarters and in a vacant unit",
        together(unit_changed(prison, CPLT="5"), unit_changed(vacant, CPLT="5")),
        {"couple_type": 2},
    ),
    (
        "blocks of another block group",
        changed(*(("geo", mafid, 0, "TABBLKGRPCE", code) for mafid, code in ((married, "2"), (vacant, "0")))),
        {"block_group": 2},
    ),
    (
        "a household, a vacant unit and a prison of the other kind",
        together(
            *(unit_changed(mafid, GQTYPE=code) for mafid, code in ((married, "5"), (vacant, "1"), (prison, "0"))),
        ),
        {"group_quarters_type": 3},
    ),
    ("a student called an inmate", person_changed(dormitory, 0, RELSHIP="37"), {"institution": 1}),
    (
        "inmates called others",
        together(*(person_changed(prison, number, RELSHIP="38") for number in (0, 1))),
        {"institution": 2},
    ),
    ("a minor in a nursing home", person_changed(nursing_home, 0, QAGE="17"), {"nursing_age": 1}),
    ("a nursing home of children", person_added(nursing_home, "37", age=0), {"nursing_age": 1}),
]  # fmt: skip


@quick_cases(5)
@deep_cases(3)
@pytest.mark.parametrize(("spoil", "broken"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_broken_rule_is_named_with_its_number_of_offenders(
    spoiled: Census, spoil: Change, broken: dict[str, int]
) -> None:
    spoil(spoiled)
    expected = []
    for name, rows in broken.items():
        rule = STRUCTURE.rules[name]
        column = "RTYPE" if rule.column == "PERSON_RTYPE" else rule.column
        offenders = f"{rows} row" if rows == 1 else f"{rows} rows"
        file = "geo" if column in HEADERS["geo"][2:] else rule.table
        expected.append(f"{file}.csv: column {column}: {rule.offence}: {offenders}")
    assert sorted(spoiled.refusal()) == sorted(expected)


def test_a_wrong_relationship_breaks_no_other_rule(spoiled: Census) -> None:
    """Wrong programs: miss the householder, or count a child less in the family."""
    together(person_changed(alone, 0, RELSHIP="39"), person_changed(married, 2, RELSHIP="19"))(spoiled)
    (line,) = spoiled.refusal()
    assert line.startswith("persons.csv: column RELSHIP: value outside its domain")
    assert line.endswith(": 2 rows")


def test_a_wrong_age_breaks_no_other_rule(spoiled: Census) -> None:
    """Wrong programs: take a child of 116 for an adult, and a resident of -1 for a minor."""
    together(person_changed(father, 1, QAGE="116"), person_changed(nursing_home, 0, QAGE="-1"))(spoiled)
    assert spoiled.refusal() == ["persons.csv: column QAGE: value outside its domain 0 to 115: 2 rows"]


def test_every_rule_of_the_structure_is_broken_by_some_corruption() -> None:
    assert set().union(*(broken for _, _, broken in BROKEN)) == set(HELD)


@pytest.mark.prove
def test_block_groups_are_taken_as_given_if_that_is_declared(tmp_path: Path) -> None:
    """All units are in block 1003. In block group 2, strict refuses them; as given, the CEF takes block group 2, as
    long as the block is in one block group. Under either declaration, the same records have the same version, and so
    the same draws."""
    census = Census(tmp_path)
    strict, as_given = census.declare(), census.declare(block_group="as_given")
    assert census.write().ingest(strict) == census.ingest(as_given)
    assert [len(each.describe_reading(["TABBLKGRPCE"])) for each in (strict, as_given)] == [0, 1]
    for row in census.files["geo"]:
        row["TABBLKGRPCE"] = "2"
    number = len(census.files["geo"])
    rule = "not the first digit of TABBLK; if that is right, declare block_group: as_given"
    assert census.refusal() == [f"geo.csv: column TABBLKGRPCE: {rule}: {number} rows"]
    census.ingest(as_given)
    with census.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert cef_problems(session, as_given) == []
    census.files["geo"][0]["TABBLKGRPCE"] = "1"
    divided = f"geo.csv: column TABBLK: block in more than one block group: {number} rows"
    assert census.refusal(block_group="as_given") == [divided]


def test_every_type_of_group_quarters_accepts_only_its_own_persons(tmp_path: Path) -> None:
    """Every type with every kind of unit, resident and age. Each rule finds exactly its offenders."""
    census = Census(tmp_path)
    expected = {"group_quarters_type": 0, "institution": 0, "nursing_age": 0}
    mafid = 100
    for code, relationship, age in product("01234567", (37, 38), (0, 17, 18, 115)):
        mafid += 2
        census.add(mafid, ("4", "0", "00", 0, "0", "0", "00", "0", code, [(age, 1, "01", relationship)] * 2))
        census.add(mafid + 1, ("2", "0", "00", 0, "0", "0", "00", "0", code, []))
        expected["group_quarters_type"] += 1
        expected["institution"] += 2 * (code in ("1234" if relationship == 38 else "567"))
        expected["nursing_age"] += 2 * (code == "3" and age < 18)
    assert set(census.refusal()) == {
        f"{STRUCTURE.rules[name].table}.csv: column {STRUCTURE.rules[name].column}: "
        f"{STRUCTURE.rules[name].offence}: {rows} rows"
        for name, rows in expected.items()
    }


@pytest.mark.prove
def test_a_census_without_types_of_group_quarters_must_follow_all_other_rules(census: Census) -> None:
    """Both a census whose file has none, and one whose file has them, right or wrong, but is declared without them."""
    census.ingest()
    typed = census.warehouse
    for number, unit in enumerate(census.files["units"]):
        unit["GQTYPE"] = f"undeclared {number}"
    version = census.write().ingest(census.declare(group_quarters_types=False))
    with typed.session(reads=[Zone.CONFIDENTIAL]) as session:
        columns, rows = content(session)["units"]
        offenders = structure_offenders(session, census.declare(group_quarters_types=False))
    assert list(columns) == [name for name in UNIT_COLUMNS if name != "GQTYPE"]
    assert len(rows) == len(UNITS)
    types = {"group_quarters_type", "institution", "nursing_age"}
    assert list(offenders) == [rule for name, rule in HELD.items() if name not in types]
    assert set(offenders.values()) == {0}
    for unit in census.files["units"]:
        del unit["GQTYPE"]
    assert census.write().ingest(census.declare(group_quarters_types=False)) == version
    census.unit(alone)["TEN"] = "0"
    census.person(nursing_home, 0).update(RELSHIP="38", QAGE="17")
    assert census.refusal(group_quarters_types=False) == [
        f"units.csv: column TEN: {STRUCTURE.rules['tenure'].offence}: 1 row"
    ]
    assert "units.csv: column GQTYPE: missing column" in census.refusal()


def test_a_person_without_a_unit_is_named(spoiled: Census) -> None:
    spoiled.person(married, 3)["MAFID"] = "99"
    spoiled.unit(married).update(FINAL_POP="3", NPF="3")
    assert spoiled.refusal() == ["persons.csv: column MAFID: person without a unit in MAFID: 1 row"]


def test_a_duplicate_unit_is_named(spoiled: Census) -> None:
    spoiled.files["units"].append(dict(spoiled.unit(vacant)))
    assert spoiled.refusal() == ["units.csv: column MAFID: key that another row has: 1 row"]


def follows(persons: list[tuple[int, int]], male: bool) -> tuple[str, str, str, int]:
    """HHT, HHT2, CPLT and NPF from a household's (age, RELSHIP) pairs, derived independently of the SQL."""
    relationships = [relationship for _, relationship in persons]
    couple = next((str({21: 1, 23: 2, 22: 3, 24: 4}[code]) for code in relationships if 21 <= code <= 24), "5")
    relatives = sum(25 <= code <= 33 for code in relationships)
    minors = any(code in (25, 26, 27) and age < 18 for age, code in persons)
    if couple in "12":
        return "1", "01" if minors else "02", couple, 2 + relatives
    single = len(persons) == 1
    sexless = 2 if relatives else (4 if single else 5)
    kind = str(sexless if male else {2: 3, 4: 6, 5: 7}[sexless])
    family = 1 + relatives if relatives else 0
    if couple in "34":
        return kind, "03" if minors else "04", couple, family
    company = 0 if single else 1 if minors else 2 if relatives else 3
    return kind, f"{(9 if male else 5) + company:02}", couple, family


@pytest.mark.deep
def test_only_the_derived_codes_of_every_small_household_are_accepted(tmp_path: Path) -> None:
    """All households with at most two members besides the householder. Only their own codes are accepted."""
    census = Census(tmp_path)
    others = [(0, 25), (17, 26), (18, 27), (40, 21), (40, 22), (40, 23), (40, 24)]
    others += [(10, code) for code in (28, 29, 30, 31, 32, 33, 34, 35, 36)]
    companies = [[], *([one] for one in others), *([one, two] for one in others for two in others if one <= two)]
    companies = [company for company in companies if sum(21 <= code <= 24 for _, code in company) <= 1]
    types = [f"{code}" for code in range(1, 8)]
    types_2 = [f"{code:02}" for code in range(1, 13)]
    expected = {"household_type": 0, "household_type_2": 0, "sex": 0}
    mafid = 100
    for company in companies:
        persons = [(45, 20), *company]
        right = [follows(persons, male) for male in (False, True)]
        for hht, hht2 in product(types, types_2):
            mafid += 1
            _, _, couple, family = right[0]
            members = [(age, 1, "01", relationship) for age, relationship in persons]
            census.add(mafid, ("2", "1", "01", family, "1", hht, hht2, couple, "0", members))
            expected["household_type"] += hht not in {codes[0] for codes in right}
            expected["household_type_2"] += hht2 not in {codes[1] for codes in right}
            expected["sex"] += (hht in "245" and "05" <= hht2 <= "08") or (hht in "367" and hht2 >= "09")
    lines = {line.rsplit(": ", 1)[0]: line.rsplit(": ", 1)[1] for line in census.refusal()}
    assert lines == {
        f"units.csv: column {STRUCTURE.rules[name].column}: {STRUCTURE.rules[name].offence}": f"{rows:,} rows"
        for name, rows in expected.items()
    }


# The asset and its checks


@pytest.mark.deep
def test_the_structure_is_a_blocking_check_of_the_stored_tables(census: Census) -> None:
    census.ingest()
    declaration = census.declare()
    definitions = build_cef(declaration, census.folder)
    key = dg.AssetKey(["census", "cef"])
    graph = dg.Definitions(
        assets=definitions[:1],
        asset_checks=definitions[1:],
        resources=resources_of(census.warehouse, census.custody),
    ).resolve_asset_graph()
    assert all(graph.get(dg.AssetCheckKey(key, name)).blocking for name in ("schema_and_keys", "structure"))

    def run() -> dict[str, dg.AssetCheckEvaluation]:
        with dg.DagsterInstance.ephemeral() as instance:
            result = dg.materialize(
                definitions,
                selection=dg.AssetSelection.checks_for_assets(key),
                resources=resources_of(census.warehouse, census.custody),
                instance=instance,
                raise_on_error=False,
            )
            return {found.check_name: found for found in result.get_asset_check_evaluations()}

    def describe(found: dg.AssetCheckEvaluation) -> list[str]:
        return read_description(found.description or "").split("\n")

    good = run()["structure"]
    assert good.passed
    assert set(good.metadata) == {
        "violated rules",
        *(f"{rule.table}: column {rule.column}: {rule.offence}" for rule in HELD.values()),
    }
    assert {shown.value for shown in good.metadata.values()} == {"none"}, "of a number, Dagster draws a chart"
    with duckdb.connect(str(census.warehouse.path(Zone.CONFIDENTIAL))) as connection:
        connection.execute("UPDATE census.units SET TEN = '0' WHERE MAFID IN (1, 2)")
    bad = run()
    assert bad["schema_and_keys"].passed
    assert not bad["structure"].passed
    rule = STRUCTURE.rules["tenure"]
    problem = f"units: column TEN: {rule.offence}: 2 rows"
    assert describe(bad["structure"]) == explain_failure([problem], "structure")
    with duckdb.connect(str(census.warehouse.path(Zone.CONFIDENTIAL))) as connection:
        connection.execute("ALTER TABLE census.units DROP COLUMN TEN")
    malformed = run()
    assert {name: describe(found) for name, found in malformed.items()} == dict.fromkeys(
        ("schema_and_keys", "structure"), explain_failure(["units: columns or types are not as declared"], "structure")
    )


def test_the_stored_census_has_no_problems_and_other_layouts_have_no_structure_check(census: Census) -> None:
    census.ingest()
    declaration = census.declare()
    with census.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert cef_problems(session, declaration) == []
        offenders = structure_offenders(session, declaration)
        assert set(offenders) == set(HELD.values())
        assert structure_findings(offenders) == []
        plain = DatasetDeclaration.model_validate(
            {"name": "census", "title": "t", "reader": "csv", "cap": 1, "units": census_units("u.csv")}
        )
        assert structure_offenders(session, plain) == {}
    assert [definition.node_def.name for definition in build_cef(plain, census.folder)] == [
        "census__cef",
        "census__cef__gates",
    ]


# Requirements of the layout on every declaration


@pytest.mark.parametrize(
    ("units", "reader", "complaint"),
    [
        ({"geography_path": "g.csv", "columns": {"a": {"type": "string", "values": ["x"]}}}, "csv", "role key is req"),
        ({"geography_path": "g.csv", "columns": {"a": {"type": "integer", "role": "key"}}}, "csv", "role geography is"),
        ({"columns": {"a": {"type": "integer", "role": "key", "source": ""}}}, "csv", "name is not empty"),
        (
            {"columns": {"a": {"type": "integer", "role": "key", "source": "\0"}}},
            "csv",
            "contains the character U\\+0000",
        ),
        (
            {
                "path": None,
                "geography_path": "g.csv",
                "columns": {
                    "serial": {"type": "integer", "role": "key"},
                    "county": {"type": "string", "role": "geography", "pattern": ".*"},
                },
            },
            "ma1940",
            "built in and takes no path",
        ),
    ],
)
def test_a_meaningless_geography_file_or_source_name_is_refused(
    units: dict[str, Any], reader: str, complaint: str
) -> None:
    declared = {"name": "town", "title": "A town", "reader": reader, "cap": 1, "units": {"path": "u.csv"} | units}
    with pytest.raises(ValidationError, match=complaint):
        DatasetDeclaration.model_validate(declared)


@pytest.mark.parametrize("reader", ["csv", "stata"])
def test_a_geography_file_named_like_another_reader_is_told_to_be_read_as_csv(tmp_path: Path, reader: str) -> None:
    """Unless it is a CSV file. Wrong programs: one that tells of a Stata file's missing columns, or that it cannot be
    read; or so of no file, or a CSV file; and one that does not tell of a name in other letters."""
    (tmp_path / "places.dta").write_bytes(b"<stata_dta><header><release>118</release>")
    columns = {
        "serial": {"type": "integer", "role": "key"},
        "county": {"type": "string", "role": "geography", "pattern": ".*"},
    }
    units = {"path": "u.dta", "geography_path": "places.dta", "columns": columns}
    declaration = DatasetDeclaration.model_validate(
        {"name": "town", "title": "A town", "reader": reader, "cap": 1, "units": units}
    )
    with pytest.raises(
        SourceError, match=r"^places\.dta: is read as a CSV file, and \.dta is a suffix of reader stata: "
    ):
        open_geography(declaration, "units", tmp_path)
    (tmp_path / "places.dta").write_text("Serial,place\n1,north\n2,south\n")
    with pytest.raises(SourceError, match=r"^places\.dta: column serial: missing column, which .* capital .*\n"):
        open_geography(declaration, "units", tmp_path)
    (tmp_path / "places.dta").unlink()
    with pytest.raises(SourceError, match="there is no such file"):
        open_geography(declaration, "units", tmp_path)


def test_any_dataset_may_have_a_geography_file_and_source_names(tmp_path: Path) -> None:
    (tmp_path / "houses.csv").write_text("Rooms,No\n3,1\n5,2\n")
    (tmp_path / "places.csv").write_text("No,Rooms,District\n2,5,west\n1,3,east\n")
    declaration = DatasetDeclaration.model_validate(
        {
            "name": "census",
            "title": "A town",
            "reader": "csv",
            "cap": 1,
            "units": {
                "path": "houses.csv",
                "geography_path": "places.csv",
                "columns": {
                    "district": {"type": "string", "role": "geography", "pattern": "[a-z]+", "source": "District"},
                    "rooms": {"type": "integer", "minimum": 1, "maximum": 9, "source": "Rooms"},
                    "serial": {"type": "integer", "role": "key", "source": "No"},
                },
            },
        }
    )
    with Warehouse(folder=str(tmp_path / "warehouse")).session(writes=Zone.CONFIDENTIAL) as session:
        ingest(session, declaration, tmp_path, VERSION_KEY)
        assert content(session)["units"] == (
            {"serial": "BIGINT", "district": "VARCHAR", "rooms": "BIGINT"},
            [(1, "east", 3), (2, "west", 5)],
        )
        (tmp_path / "places.csv").write_text("No,Rooms,District\n2,4,West\n1,3,east\n")
        with pytest.raises(SourceError) as refused:
            ingest(session, declaration, tmp_path, VERSION_KEY)
    assert str(refused.value).splitlines() == [
        "places.csv: column Rooms: differs from houses.csv: 1 row",
        "places.csv: column District: value outside its domain matching [a-z]+: 1 row",
    ]
