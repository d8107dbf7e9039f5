"""No one is counted twice: records in new files or under other declarations are recognized as the same people."""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.cef.ingestion import ingest
from assets.charge.assessment import NO_REASON
from assets.ledger.view import list_entry_records
from assets.release.contents import (
    CONTENTS,
    find_unchanged_version,
    forget_sketches,
    hash_files,
    publish_contents,
    read_contents,
    read_sketch_name,
)
from assets.release.dataset import DatasetDeclaration
from mechanisms.accounting.losses import PureLoss
from mechanisms.accounting.specification import Flavor, Specification
from resources.chain import DIFFERENT_PEOPLE, Details
from resources.custody import SKETCHES, Custody, CustodyMode
from resources.ledger import Ledger, LedgerError, PopulationError
from resources.statements import SQL, Table, Zone
from resources.warehouse import Warehouse
from tests.deployments import TO_PUBLICATION, UNITS, households, small_deployment, write_csv
from tests.depth import deep_cases

Rows = list[dict[str, Any]]

COLUMNS: dict[str, dict[str, Any]] = {
    "person": {"type": "integer", "role": "key"},
    "county": {"type": "string", "role": "geography", "pattern": "[0-9]{3}"},
    "age": {"type": "integer", "minimum": 0, "maximum": 99},
    "sex": {"type": "string", "values": ["f", "m"]},
    "income": {"type": "integer", "minimum": 0, "maximum": 9999},
}
SPECIFICATION = Specification(Flavor("persons", (), "person", None), PureLoss(Fraction(1)))


def people(seed: int = 1, number: int = 300) -> Rows:
    """Persons who are numbered one after the other, as in files about any other people."""
    drawn = Random(seed)
    return [
        {
            "person": person,
            "county": f"{drawn.choice((1, 3, 5, 7)):03}",
            "age": drawn.randint(0, 95),
            "sex": drawn.choice("fm"),
            "income": drawn.randint(0, 80) * 50,
        }
        for person in range(1, number + 1)
    ]


@dataclass
class Office:
    """A deployment without jobs, which charges datasets by the functions that its stages call."""

    root: Path

    def __post_init__(self) -> None:
        self.warehouse = Warehouse(folder=str(self.root / "warehouse"), threads=1)
        self.custody = Custody(folder=str(self.root / "custody"), databases=self.warehouse.folder)
        self.ledger = Ledger(warehouse=self.warehouse, custody=self.custody)

    def read(self, name: str, rows: Rows, columns: Mapping[str, Any] = COLUMNS, path: str = "") -> Details:
        """Write a file in a new order, read it, and return the details that a charge would record."""
        file = self.root / (path or f"{name}.csv")
        rows = Random(name).sample(rows, len(rows))
        if file.suffix == ".parquet":
            pq.write_table(pa.Table.from_pylist(rows), file)
        else:
            write_csv(file, rows)
        declared = {"path": str(file), "columns": columns}
        self.dataset = DatasetDeclaration.model_validate(
            {"name": name, "title": name, "reader": file.suffix[1:], "cap": 10, "units": declared}
        )
        key = self.custody.version_key()
        files = hash_files(self.dataset, self.root, key)
        with self.warehouse.session(writes=Zone.CONFIDENTIAL) as session:
            versions = ingest(session, self.dataset, self.root, key, files)
        publish_contents(self.warehouse, self.custody, self.dataset, versions, files, "read from")
        with self.warehouse.session(reads=[Zone.PUBLIC]) as session:
            contents = read_contents(session, self.custody, self.dataset)
            return Details(name, contents, sketch=read_sketch_name(session, self.custody, self.dataset))

    def charge(self, details: Details) -> None:
        name = details.population
        self.ledger.reserve(
            name, "tables", self.custody.draw_id({"of": name}), SPECIFICATION, CustodyMode.ESCROWED, None, details
        )

    def find_resemblance(self, details: Details) -> str:
        return self.ledger.find_resemblance(self.ledger.read(), details.population, details)


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    """An office that has charged a census."""
    monkeypatch.delenv("STIRRED_MASTER_KEY", raising=False)
    office = Office(tmp_path)
    office.charge(office.read("census", people()))
    return office


def without(*names: str) -> dict[str, Any]:
    return {name: column for name, column in COLUMNS.items() if name not in names}


def pick(rows: Rows, *names: str) -> Rows:
    return [{name: row[name] for name in names} for row in rows]


SAME: dict[str, Callable[[], tuple[Rows, Mapping[str, Any]]]] = {
    "other blanks": lambda: ([row | {"sex": f" {row['sex']}"} for row in people()], without("sex")),
    "columns in another order": lambda: (people(), dict(reversed(COLUMNS.items()))),
    "a column left out of the declaration": lambda: (people(), without("age")),
    "the key left out of the declaration": lambda: (people(), without("person")),
    "another name for a column": lambda: (people(), without("age") | {"years": COLUMNS["age"] | {"source": "age"}}),
    "an integer declared as string": lambda: (people(), COLUMNS | {"age": {"type": "string", "pattern": "[0-9]+"}}),
    "a top-code that nobody reaches": lambda: (
        people(),
        COLUMNS | {"income": COLUMNS["income"] | {"maximum": 9000, "top_coded": True}},
    ),
    "bands": lambda: (
        people(),
        COLUMNS | {"income": {"type": "integer", "bands": {"low": {"below": 2000}, "high": {"at_least": 2000}}}},
    ),
    "no column in common with the census but in the file": lambda: (people(), {"sex": COLUMNS["sex"]}),
    "a record more": lambda: ([*people(), people(2)[7] | {"person": 301}], COLUMNS),
    "a record less": lambda: (people()[1:], COLUMNS),
    "a file without key and another column": lambda: (
        pick(people(), "county", "age", "income"),
        without("person", "sex"),
    ),
    "two columns of the file": lambda: (pick(people(), "income", "age"), without("person", "sex", "county")),
    "other names and codes in the file": lambda: (
        [
            {"id": f"0{row['person']}", "g": int(row["sex"] == "f"), "a": f"{row['age']:03}", "i": row["income"]}
            for row in people()
        ],
        {
            "id": {"type": "string", "role": "key"},
            "g": {"type": "integer", "minimum": 0, "maximum": 1},
            "a": {"type": "string", "pattern": "[0-9]{3}"},
            "i": COLUMNS["income"],
        },
    ),
    "a half of the people": lambda: (people()[::2], COLUMNS),
}
"""Files and declarations about the same people."""


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize("case", SAME)
def test_the_same_people_are_refused_under_another_population(office: Office, case: str) -> None:
    """Wrong programs: a sketch of the CEF, of names, of rows in their order, or of whole records alone."""
    rows, columns = SAME[case]()
    details = office.read("twin", rows, columns)
    with pytest.raises(
        PopulationError, match=r"dataset twin of population twin seems to be about the same people as"
    ) as e:
        office.charge(details)
    assert "dataset census, which was charged to population census in entry 1" in str(e.value)
    assert "50% of the smaller one or more are in both; declare population: census for twin" in str(e.value)
    assert len(office.ledger.entries()) == 1
    office.charge(replace(details, population="census"))


def test_a_parquet_file_with_columns_that_cannot_be_declared_is_recognized(office: Office) -> None:
    rows = [{**row, "age": float(row["age"]), "notes": ["a"]} for row in people()]
    assert "same people" in office.find_resemblance(office.read("twin", rows, without("age"), "twin.parquet"))


@pytest.mark.deep
def test_different_people_with_the_same_columns_and_numbers_are_charged(office: Office) -> None:
    """Wrong program: sketches numbers and codes alone, which are the same in any two files."""
    for seed in range(2, 6):
        office.charge(office.read(f"other{seed}", people(seed)))
    assert len(office.ledger.entries()) == 5


def test_words_allow_the_charge_and_stay_in_the_ledger(office: Office) -> None:
    details = office.read("twin", people()[1:])
    words = {"by": "Ada", "run": "1", DIFFERENT_PEOPLE: "a test of the form, with invented records"}
    office.charge(replace(details, authorization=words))
    assert office.ledger.entries()[-1].parse_details().authorization == words
    assert list_entry_records(office.ledger.entries())[-1][DIFFERENT_PEOPLE] == words[DIFFERENT_PEOPLE]
    assert office.ledger.verify() == ()


@pytest.mark.deep
def test_a_missing_sketch_is_no_reason_to_charge(office: Office) -> None:
    """Wrong program: leaves a sketch that it cannot read out of the comparison."""
    (kept,) = (Path(office.custody.folder) / SKETCHES).iterdir()
    details = office.read("other", people(2))
    content = kept.read_bytes()
    for damaged in (b"", content[:-1], bytes([content[0] ^ 1]) + content[1:], None):
        kept.unlink(missing_ok=True)
        if damaged is not None:
            kept.write_bytes(damaged)
        with pytest.raises(PopulationError, match=r"cannot be compared with dataset census.* missing in the custody"):
            office.charge(details)
    kept.write_bytes(content)
    own = Path(office.custody.folder) / SKETCHES / details.sketch
    own.unlink()
    with pytest.raises(LedgerError, match="the sketch of dataset other is missing"):
        # This holds even without any earlier sketch: later ones could not be compared with it.
        office.ledger.find_resemblance(office.ledger.read(), "other", replace(details, population="census"))
    with pytest.raises(LedgerError, match=r"the sketch of dataset other is missing .* materialize its cef again"):
        office.charge(details)
    assert find_unchanged_version(office.warehouse, office.custody, office.dataset, "read from") is None, (
        "it is read again"
    )
    assert office.read("other", people(2)) == details
    assert own.exists()
    assert find_unchanged_version(office.warehouse, office.custody, office.dataset, "read from")
    office.charge(details)


def test_every_population_with_the_same_sketch_is_named(office: Office) -> None:
    """Wrong program: names the last one alone."""
    known = office.ledger.entries()[0].parse_details()
    allowed = {"by": "Ada", "run": "1", DIFFERENT_PEOPLE: "a test of the form, with invented records"}
    office.charge(replace(known, population="second", contents=("other",), authorization=allowed))
    found = office.find_resemblance(office.read("twin", people()[1:]))
    assert re.findall(r"was charged to population (\w+)", found) == ["census", "second"]


@pytest.mark.prove
def test_sketches_that_nobody_charged_are_deleted_once_their_records_are_gone(office: Office) -> None:
    """Wrong programs: delete sketches of a CEF that can still be charged, or of one that another process is reading.

    An altered table of versions prevents neither the deletion of the others nor a charge.
    """
    folder = Path(office.custody.folder) / SKETCHES
    charged, waiting = {path.name for path in folder.iterdir()}, office.read("waiting", people(2)).sketch
    replaced = office.read("changed", people(3)).sketch
    current = office.read("changed", people(4)).sketch
    killed, just_read = f".{'ab' * 32}.0123456789abcdef", "cd" * 32
    before_it = f".{just_read}.0123456789abcdef"
    for name in (killed, just_read, before_it):
        (folder / name).write_bytes(b"")
    for path in folder.iterdir():
        if path.name != just_read:
            os.utime(path, (0, 0))
    with office.warehouse.session(writes=Zone.PUBLIC) as session:
        altered = SQL("tests/altered", "SELECT 'a' AS a, 'b' AS b, 1 AS c")
        session.create(Table(Zone.PUBLIC, "altered", CONTENTS), altered)
    forget_sketches(office.ledger)
    left = {*charged, waiting, current, just_read, before_it}
    assert {path.name for path in folder.iterdir()} == left
    assert {replaced, killed}.isdisjoint(left)
    office.charge(office.read("waiting", people(2)))
    with office.warehouse.session(writes=Zone.PUBLIC) as session:
        session.drop_schema(Zone.PUBLIC, "waiting")
        session.drop_schema(Zone.PUBLIC, "changed")
    for path in folder.iterdir():
        os.utime(path, (0, 0))
    forget_sketches(office.ledger)
    assert {path.name for path in folder.iterdir()} == {*charged, waiting}


def test_sketches_say_nothing_without_the_key_and_are_nowhere_but_in_the_custody(office: Office) -> None:
    """Equal records have equal names only with equal versions; a sketch is closed to others, and cannot be read."""
    first = office.ledger.entries()[0].parse_details()
    again = office.read("twin", people())
    assert again.sketch != first.sketch, "a name shows no more than that versions are equal"
    files = sorted((Path(office.custody.folder) / SKETCHES).iterdir())
    assert {file.name for file in files} == {first.sketch, again.sketch}
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    (one, other) = (file.read_bytes() for file in files)
    assert len(one) == len(other)
    blocks = [{content[at : at + 8] for at in range(0, len(content), 8)} for content in (one, other)]
    assert not blocks[0] & blocks[1], "the same sketch under two names has no word in common"
    content = office.custody.open_sketch(first.sketch)
    assert content == office.custody.open_sketch(again.sketch)
    assert content is not None
    databases = b"".join(file.read_bytes() for file in Path(office.warehouse.folder).rglob("*.duckdb"))
    assert content[64:128] not in databases


def test_entries_of_earlier_versions_are_recognized_as_before(office: Office) -> None:
    old = replace(office.ledger.entries()[0].parse_details(), sketch="")
    assert "sketch" not in json.loads(old.as_text()), "the text of an entry without a sketch is as it was"
    assert Details("a", ("b",)).as_text() == '{"authorization":{},"contents":["b"],"draw":{},"population":"a"}'


@pytest.mark.deep
def test_a_release_of_different_people_is_charged_in_words_that_its_certificate_states(tmp_path: Path) -> None:
    small_deployment(tmp_path).run("cef", "invariants", "charge")
    rows = [{"id": row["serial"] + 1000, **row} for row in reversed(households(119))]
    write_csv(tmp_path / "again.csv", rows)
    units = {"path": str(tmp_path / "again.csv"), "columns": UNITS}
    twin = small_deployment(tmp_path, dataset={"name": "twin", "units": units})
    twin.run("cef", "invariants")
    refusal = twin.refusal("charge")
    assert "to population twin. Nobody has authorized it." in refusal, "charging: automatic is no such authorization"
    assert "charged to two populations: dataset twin of population twin seems to be about the same people" in refusal
    assert f'--different-people "{NO_REASON}"' in refusal
    given = dict(re.findall(r'(authorized_loss|authorized_draw): "(.*)"', refusal)) | {"authorized_by": "Ada Lovelace"}
    for words in ("", NO_REASON, "because", "two lines\nof reasons why", "x" * 301):
        twin.authorization = given | {DIFFERENT_PEOPLE: words}
        assert "does not say why these are different people" in twin.refusal("charge")
    assert len(twin.ledger) == 1
    twin.authorization = given | {DIFFERENT_PEOPLE: " <b>A pretest</b> with invented households "}
    twin.run(*TO_PUBLICATION[2:], "ledger")
    words = "<b>A pretest</b> with invented households"
    reserved = [entry for entry in twin.ledger if entry.kind == "reserve"]
    assert [entry.parse_details().authorization.get(DIFFERENT_PEOPLE) for entry in reserved] == [None, words]
    files = twin.published()
    assert json.loads(files["certificate.json"])["ledger"][DIFFERENT_PEOPLE] == words
    assert b"&lt;b&gt;A pretest&lt;/b&gt; with invented households" in files["certificate.html"]
    sketches = list((tmp_path / "custody" / SKETCHES).iterdir())
    assert len(sketches) == 2
    public = b"".join(
        file.read_bytes() for file in tmp_path.rglob("*") if file.is_file() and SKETCHES not in file.parts
    )
    assert not any(sketch.read_bytes()[:32] in public for sketch in sketches)
