"""A rectangular file gives the same dataset as two files: units are made of repeated columns."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pydantic import ValidationError

from assets.cef.ingestion import ingest
from assets.cef.validation import SourceError, cef_problems
from assets.release.contents import CefVersions
from assets.release.dataset import DatasetDeclaration
from mechanisms.people import SHARE, compute_overlap, from_bytes
from resources.statements import SQL, Table, Zone
from resources.warehouse import Warehouse
from tests.deployments import PERSONS, UNITS, deploy, households, members, small_deployment, small_release, write_csv

Rows = Sequence[Mapping[str, Any]]

HOUSEHOLDS = [
    {
        "YEAR": 2000 + year,
        "SERIAL": f"{serial}",
        "region": "NS"[serial % 2],
        "weight": f"{serial}.25",
        "rent": serial * 7,
    }
    for year in (1, 11)
    for serial in range(1, 160)
]
PEOPLE = [
    {"YEAR": unit["YEAR"], "SERIAL": unit["SERIAL"], "age": (31 * int(unit["SERIAL"]) + 17 * place + unit["YEAR"]) % 97}
    for unit in HOUSEHOLDS
    for place in range(1 + int(unit["SERIAL"]) % 4)
]
OF_UNITS = {
    "region": {"type": "string", "role": "geography", "values": ["N", "S"]},
    "weight": {"type": "decimal"},
    "class": {"source": "rent", "type": "integer", "bands": {"low": {"below": 500}, "high": {"at_least": 500}}},
}
AGE = {"age": {"type": "integer", "minimum": 0, "maximum": 97}}
SHARED = {"name": "town", "title": "Town", "reader": "csv", "record_name": "household", "cap": 10}


def repeat(units: Rows, persons: Rows, **key: str) -> list[dict[str, Any]]:
    """One row for each person, with the columns of the unit that has the same values in the columns of the key."""
    found = {tuple(unit[column] for column in key.values()): unit for unit in units}
    return [dict(found[tuple(person[column] for column in key)]) | dict(person) for person in persons]


def declare(folder: Path, rows: Rows, **changes: Any) -> DatasetDeclaration:
    write_csv(folder / "rows.csv", rows)
    rectangular = {"household": ["YEAR", "SERIAL"], "columns": list(OF_UNITS)}
    persons = {"path": "rows.csv", "columns": OF_UNITS | AGE}
    return DatasetDeclaration.model_validate(SHARED | {"rectangular": rectangular, "persons": persons} | changes)


def declare_two(folder: Path, units: Rows, persons: Rows) -> DatasetDeclaration:
    write_csv(folder / "units.csv", units)
    write_csv(folder / "persons.csv", persons)
    columns = {"units": {"YEAR_SERIAL": {"type": "string", "role": "key"}} | OF_UNITS}
    columns["persons"] = {"YEAR_SERIAL": {"type": "string", "role": "unit"}} | AGE
    tables = {table: {"path": f"{table}.csv", "columns": of_table} for table, of_table in columns.items()}
    return DatasetDeclaration.model_validate(SHARED | tables)


def read(folder: Path, declaration: DatasetDeclaration) -> tuple[list[Any], CefVersions]:
    with Warehouse(folder=str(folder / "warehouse")).session(writes=Zone.CONFIDENTIAL) as session:
        versions = ingest(session, declaration, folder, b"key")
        assert cef_problems(session, declaration) == []
        return [(session.columns(table), sorted(session.rows("warehouse/all", source=table))) for table in
                declaration.cef_tables()], versions  # fmt: skip


def test_one_file_and_two_are_the_same_dataset_about_the_same_people(tmp_path: Path) -> None:
    """Wrong programs: a unit for each person, the weight of a household once a person, a key 2001 + 11 = 2011 + 1, and
    a sketch of rows alone, of which no set of the households' columns tells records apart."""
    keyed = [
        [{"YEAR_SERIAL": f"4:{row['YEAR']}{len(row['SERIAL'])}:{row['SERIAL']}", **row} for row in rows]
        for rows in (HOUSEHOLDS, PEOPLE)
    ]
    rectangular, one = read(tmp_path, declare(tmp_path, repeat(HOUSEHOLDS, PEOPLE, YEAR="YEAR", SERIAL="SERIAL")))
    separate, two = read(tmp_path, declare_two(tmp_path, *keyed))
    assert rectangular == separate
    assert len(rectangular[0][1]) == len(HOUSEHOLDS)
    assert one.content == two.content
    assert compute_overlap(from_bytes(one.sketch), from_bytes(two.sketch)) >= SHARE
    units = from_bytes(two.sketch)[:1]
    assert compute_overlap(from_bytes(one.sketch), units) >= SHARE, "also a file of the households alone"
    assert compute_overlap(from_bytes(one.sketch)[:1], units) < SHARE


REFUSED = {
    "a weight that differs": (1, "weight", "9.75", ["rows.csv: column weight: differs within 1 household"]),
    "a difference that the recode hides": (1, "rent", "8", ["rows.csv: column rent: differs within 1 household"]),
    "no value beside one": (1, "weight", "", [
        "rows.csv: column weight: null where none is allowed: 1 row",
        "rows.csv: column weight: differs within 1 household",
    ]),
    "no key": (1, "SERIAL", "", ["rows.csv: column SERIAL: null where none is allowed: 1 row"]),
    "another household's key": (1, "SERIAL", "2", [
        f"rows.csv: column {column}: differs within 1 household" for column in ("region", "weight", "rent")
    ]),
    "a bad value, counted as often as it stands there": (0, "weight", "?", [
        "rows.csv: column weight: not of type decimal: a word such as NA, which `null` lists if it stands for no "
        "value: 1 row",
        "rows.csv: column weight: differs within 1 household",
    ]),
}  # fmt: skip


@pytest.mark.deep
def test_households_whose_rows_differ_are_refused_by_column_and_count(tmp_path: Path) -> None:
    """Wrong program: takes the value of any row, also where the CEF has the same band for both."""
    for case, (row, column, value, expected) in REFUSED.items():
        rows = repeat(HOUSEHOLDS, PEOPLE, YEAR="YEAR", SERIAL="SERIAL")
        rows[row][column] = value
        with pytest.raises(SourceError) as refusal:
            read(tmp_path, declare(tmp_path, rows))
        assert str(refusal.value).splitlines() == expected, case


def test_gates_refuse_a_unit_that_no_person_made(tmp_path: Path) -> None:
    declaration = declare(tmp_path, repeat(HOUSEHOLDS, PEOPLE, YEAR="YEAR", SERIAL="SERIAL"))
    with Warehouse(folder=str(tmp_path / "warehouse")).session(writes=Zone.CONFIDENTIAL) as session:
        ingest(session, declaration, tmp_path, b"key")
        _, persons = declaration.cef_tables()
        kept = SQL("tests/kept", "FROM {{ persons }} WHERE YEAR_SERIAL <> (SELECT min(YEAR_SERIAL) FROM {{ persons }})")
        session.create(Table(Zone.CONFIDENTIAL, "town", "kept"), kept, persons=persons)
        session.create(persons, "warehouse/all", source=Table(Zone.CONFIDENTIAL, "town", "kept"))
        assert cef_problems(session, declaration) == ["units: column YEAR_SERIAL: unit without a person: 1 row"]


@pytest.mark.prove
def test_a_release_from_one_file_is_the_release_from_two(tmp_path: Path) -> None:
    """The inputs of the draw are the same, so it is charged once."""
    two = small_deployment(tmp_path, persons=True)
    two.reach("cef", "invariants", "charge")
    entries = two.ledger
    write_csv(tmp_path / "rows.csv", repeat(households(), members(households()), household="serial"))
    of_units = {name: column for name, column in UNITS.items() if name != "serial"}
    of_persons = {name: column for name, column in PERSONS.items() if name != "household"}
    own = two.release.dataset
    fields = {field: getattr(own, field) for field in ("name", "title", "description", "reader", "record_name", "cap")}
    reference = {"serial": {"type": "integer", "role": "unit"}}
    one = DatasetDeclaration.model_validate(
        fields
        | {"charging": own.charging, "synthetic": own.synthetic}
        | {"rectangular": {"household": ["serial"], "columns": list(of_units)}}
        | {"persons": {"path": "rows.csv", "columns": reference | of_units | of_persons}}
    )
    again = deploy(tmp_path, one, small_release(one))
    again.run_assets(dg.AssetKey(["village", "cef"]), again.key("invariants"), again.key("charge"))
    assert again.ledger == entries


BAD = {
    "units: with rectangular": {"units": {"path": "u.csv", "columns": AGE}},
    "rectangular.columns: size is no column of persons": {"rectangular": {"household": ["YEAR"], "columns": ["size"]}},
    "rectangular.household: YEAR: a column is listed once": {
        "rectangular": {"household": ["YEAR", "YEAR"], "columns": ["region"]}
    },
    "rectangular.household: it is missing": {"rectangular": {"columns": ["region"]}},
    "persons.columns.age: it identifies the household": {"rectangular": {"household": ["age"], "columns": ["region"]}},
    "declare persons": {"persons": None},
    "is made of YEAR, SERIAL": {
        "persons": {"path": "rows.csv", "columns": {"id": {"type": "integer", "role": "unit"}} | OF_UNITS | AGE}
    },
    "add source: YEAR": {
        "rectangular": {"household": ["YEAR"], "columns": ["region"]},
        "persons": {"path": "rows.csv", "columns": {"id": {"type": "integer", "role": "unit"}} | OF_UNITS | AGE},
    },
    "units.columns.weight.type": {
        "persons": {"path": "rows.csv", "columns": OF_UNITS | AGE | {"weight": {"type": "number"}}}
    },
    "without geography_path": {
        "persons": {"path": "rows.csv", "geography_path": "g.csv", "columns": OF_UNITS | AGE | {
            "id": {"type": "string", "role": "key"}, "place": {"type": "string", "role": "geography", "values": ["a"]}}}
    },
}  # fmt: skip


def test_what_cannot_be_divided_is_refused_by_its_field(tmp_path: Path) -> None:
    for message, changes in BAD.items():
        with pytest.raises(ValidationError) as refusal:
            declare(tmp_path, PEOPLE, **changes)
        (error,) = refusal.value.errors(include_url=False)
        assert message in error["msg"]
        assert error["msg"].removeprefix("Value error, ").startswith("dataset town: ")
