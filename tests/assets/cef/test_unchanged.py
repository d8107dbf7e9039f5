"""Claims about a source that has not changed: it is not read again, and every change is noticed."""

import hmac
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.cef import asset, ingestion, parts, validation
from assets.cef.asset import build_cef
from assets.cef.survey import synthetic_survey
from assets.release import contents
from assets.release.dataset import DatasetDeclaration
from resources.custody import Custody
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse
from tests.assets.cef import test_detailed_files as detailed
from tests.assets.cef.test_ingestion import UNITS, Town
from tests.assets.cef.test_survey import parameters
from tests.deployments import resources_of
from tests.depth import deep_cases, quick_cases
from tests.lake import make_lake
from tests.postgres import Server


class Office:
    """A deployment that materializes the CEF of one dataset, and counts how often its source is read."""

    def __init__(self, folder: Path, declaration: DatasetDeclaration, patched: pytest.MonkeyPatch) -> None:
        self.folder, self.declaration = folder, declaration
        self.warehouse = Warehouse(folder=str(folder / "warehouse"), threads=1)
        self.custody = Custody(folder=str(folder / "custody"))
        self.read = 0
        patched.setattr(parts, "ingest", self._counted)

    def _counted(self, *given: Any) -> Any:
        self.read += 1
        return ingestion.ingest(*given)

    def materialize(self) -> tuple[bool, str, str]:
        """Whether the source was read; the data version; and the page's text on the source."""
        before = self.read
        result = dg.materialize(
            build_cef(self.declaration, self.folder),
            resources=resources_of(self.warehouse, self.custody),
            instance=dg.DagsterInstance.ephemeral(),
        )
        assert all(check.passed for check in result.get_asset_check_evaluations())
        ((materialization,),) = (result.asset_materializations_for_node(f"{self.declaration.name}__cef"),)
        tags, source = materialization.tags or {}, materialization.metadata["source"].value
        return self.read > before, tags["dagster/data_version"], str(source)

    def materialize_while(self, meanwhile: Callable[[], None], patched: pytest.MonkeyPatch) -> dict[str, bool]:
        """Which checks pass if `meanwhile` is called after the session that reads the source and before the
        publication."""
        published = parts.publish_contents

        def publish_contents(*given: Any) -> None:
            meanwhile()
            published(*given)

        with patched.context() as patch:
            patch.setattr(parts, "publish_contents", publish_contents)
            result = dg.materialize(
                build_cef(self.declaration, self.folder),
                resources=resources_of(self.warehouse, self.custody),
                instance=dg.DagsterInstance.ephemeral(),
                raise_on_error=False,
            )
        return {check.check_name: check.passed for check in result.get_asset_check_evaluations()}

    def alter(self, zone: Zone, *statements: str) -> None:
        with duckdb.connect(str(self.warehouse.path(zone))) as connection:
            for text in statements:
                connection.execute(text)

    def contents(self) -> dict[str, str]:
        with self.warehouse.session(reads=[Zone.PUBLIC]) as session:
            return dict(session.rows("warehouse/all", source=Table(Zone.PUBLIC, self.declaration.name, "cef_contents")))


@pytest.fixture
def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    office = Office(tmp_path, Town(tmp_path).write().declare(), monkeypatch)
    assert office.materialize()[0]
    return office


def of_csv(folder: Path) -> DatasetDeclaration:
    return Town(folder).write().declare()


def of_parquet(folder: Path) -> DatasetDeclaration:
    town = Town(folder)
    for name, (header, *rows) in (("households", town.units), ("persons", town.persons)):
        values = [[row[place] or None for row in rows] for place in range(len(header))]
        pq.write_table(pa.table(dict(zip(header, values, strict=True))), folder / f"{name}.parquet")
    return town.declare("parquet")


def of_geography(folder: Path) -> DatasetDeclaration:
    town = Town(folder).write()
    (folder / "places.csv").write_text("serial,county\n1,001\n2,001\n3,010\n4,100\n")
    units = {"path": "households.csv", "geography_path": "places.csv", "columns": UNITS}
    return town.declare(units=units)


def of_block_files(folder: Path) -> DatasetDeclaration:
    for table, content in detailed.texts(detailed.good()).items():
        (folder / detailed.NAMES[table]).write_bytes(content or b"")
    return detailed.declared()


def generated(folder: Path) -> DatasetDeclaration:
    return synthetic_survey(parameters(households=30, waves=1), name="panel", cap=1)


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize(
    "declare",
    [
        of_geography,
        generated,
        *(pytest.param(each, marks=pytest.mark.deep) for each in (of_csv, of_block_files, of_parquet)),
    ],
)
def test_a_source_that_has_not_changed_is_not_read_again(
    declare: Callable[[Path], DatasetDeclaration], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = Office(tmp_path, declare(tmp_path), monkeypatch)
    read, version, source = office.materialize()
    assert read
    assert ("sketch" in office.contents()) == (declare is not generated), "records that are generated are about nobody"
    assert office.materialize() == (
        False,
        version,
        f"{source}: unchanged since the stored tables were read from it, so it was not read again",
    )
    for file in tmp_path.glob("*.*"):
        os.utime(file, ns=(1, 1))
    assert not office.materialize()[0], "a file is compared by its content, not by its date"


def replace_within(path: Path, old: bytes, new: bytes) -> None:
    """Change bytes of a file, but neither its size nor its date."""
    status, content = path.stat(), path.read_bytes()
    assert content.count(old) == 1
    assert len(old) == len(new)
    path.write_bytes(content.replace(old, new))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize(
    ("declare", "file", "old", "new"),
    [
        pytest.param(of_csv, "households.csv", b"3,010,rented", b"3,011,rented", marks=pytest.mark.deep),
        (of_csv, "persons.csv", b"41,1,1a", b"42,1,1a"),
        (of_geography, "places.csv", b"4,100", b"4,101"),
    ],
)
def test_one_changed_byte_of_any_file_is_read(
    declare: Callable[[Path], DatasetDeclaration],
    file: str,
    old: bytes,
    new: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Wrong programs: compare sizes and dates; or compare only the files of records."""
    office = Office(tmp_path, declare(tmp_path), monkeypatch)
    _, version, _ = office.materialize()
    replace_within(tmp_path / file, old, new)
    read, other, source = office.materialize()
    assert read
    assert other != version
    assert "unchanged" not in source


@pytest.mark.prove
def test_the_same_file_in_another_place_is_not_read_again(town: Office) -> None:
    (town.folder / "moved").mkdir()
    for name in ("households.csv", "persons.csv"):
        (town.folder / name).rename(town.folder / "moved" / name)
    moved = {
        name: records.model_copy(update={"path": f"moved/{Path(str(records.path)).name}"})
        for name, records in town.declaration.tables.items()
    }
    town.declaration = town.declaration.model_copy(update=moved)
    assert not town.materialize()[0]


@pytest.mark.prove
@deep_cases(1)
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"title": "Another title"}, marks=pytest.mark.deep),
        {"units": {"path": "households.csv", "columns": UNITS | {"rooms": UNITS["rooms"] | {"maximum": 13}}}},
        pytest.param({"persons": None}, marks=pytest.mark.deep),
    ],
)
def test_another_declaration_is_read_with(town: Office, changes: dict[str, Any]) -> None:
    town.declaration = Town(town.folder).declare(**changes)
    assert town.materialize()[0]
    assert not town.materialize()[0]


@pytest.mark.prove
def test_a_geography_file_that_is_declared_and_not_there_is_missed(town: Office) -> None:
    """Wrong program: takes it for a declaration without this path, because a missing file has no version either."""
    located = town.declaration.units.model_copy(update={"geography_path": "nowhere.csv"})
    town.declaration = town.declaration.model_copy(update={"units": located})
    with pytest.raises(dg.Failure, match=r"nowhere\.csv"):
        town.materialize()


@pytest.mark.prove
def test_another_seed_of_a_generated_dataset_is_generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office(tmp_path, generated(tmp_path), monkeypatch)
    _, version, _ = office.materialize()
    office.declaration = synthetic_survey(parameters(households=30, waves=1, seed=8), name="panel", cap=1)
    read, other, _ = office.materialize()
    assert read
    assert other != version


@pytest.mark.deep
def test_another_version_of_the_code_reads_again(town: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asset, "CODE_VERSION", "another")
    assert town.materialize()[0]


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize(
    "alteration",
    [
        "UPDATE town.units SET rooms = 6 WHERE serial = 1",
        pytest.param("DELETE FROM town.persons WHERE person = '3a'", marks=pytest.mark.deep),
        pytest.param("INSERT INTO town.persons FROM town.persons", marks=pytest.mark.deep),
        pytest.param("ALTER TABLE town.units ADD COLUMN more INTEGER", marks=pytest.mark.deep),
        "DROP TABLE town.persons",
        "CREATE TABLE town.households AS SELECT 1 AS left_over",
    ],
)
def test_an_altered_stored_table_is_read_again(town: Office, alteration: str) -> None:
    before = town.contents()
    town.alter(Zone.CONFIDENTIAL, alteration)
    assert town.materialize()[0]
    assert town.contents() == before
    assert not town.materialize()[0]


@pytest.mark.prove
def test_stored_rows_in_another_order_are_still_what_was_read(town: Office) -> None:
    town.alter(Zone.CONFIDENTIAL, "CREATE OR REPLACE TABLE town.units AS FROM town.units ORDER BY serial DESC")
    assert not town.materialize()[0]


@pytest.mark.deep
def test_a_table_that_is_altered_before_its_version_is_published_is_not_what_was_read(
    town: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong program: publishes the version of the table as stored at publication."""
    replace_within(town.folder / "persons.csv", b"41,1,1a", b"42,1,1a")

    def meanwhile() -> None:
        town.alter(Zone.CONFIDENTIAL, "UPDATE town.units SET rooms = 6 WHERE serial = 1")

    checks = town.materialize_while(meanwhile, monkeypatch)
    assert (checks["schema_and_keys"], checks["as_read"]) == (True, False)
    assert town.materialize()[0], "the altered table is not unchanged"
    assert not town.materialize()[0]


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize("kept", ["as it was", "put back"])
def test_a_record_of_the_source_that_was_forged_without_the_key_is_not_believed(town: Office, kept: str) -> None:
    """Wrong programs: believe a record without its seal, or with the seal of another record."""
    first = town.contents()
    with duckdb.connect(str(town.warehouse.path(Zone.PUBLIC))) as connection:
        ((seal,),) = connection.execute("FROM town.cef_seal").fetchall()
    replace_within(town.folder / "persons.csv", b"41,1,1a", b"42,1,1a")
    town.materialize()
    replace_within(town.folder / "persons.csv", b"42,1,1a", b"41,1,1a")
    forgery = f"UPDATE town.cef_contents SET version = '{first['source']}' WHERE content = 'source'"
    town.alter(Zone.PUBLIC, forgery, *([f"UPDATE town.cef_seal SET seal = '{seal}'"] if kept == "put back" else []))
    assert town.materialize()[0], "the stored tables are those of the other file"
    assert town.contents() == first


@pytest.mark.prove
def test_a_record_under_another_custody_is_not_believed(town: Office) -> None:
    town.custody = Custody(folder=str(town.folder / "another"))
    assert town.materialize()[0]


@pytest.mark.deep
def test_a_file_that_changes_while_it_is_read_is_refused_even_with_its_size_and_date(
    town: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the version of the later content would be recorded for the tables of the earlier one."""
    before = town.contents()
    replace_within(town.folder / "households.csv", b"3,010,rented", b"3,011,rented")
    judged = ingestion.unit_findings

    def meanwhile(*given: Any) -> Any:
        replace_within(town.folder / "households.csv", b"3,011,rented", b"3,012,rented")
        return judged(*given)

    monkeypatch.setattr(ingestion, "unit_findings", meanwhile)
    with pytest.raises(dg.Failure, match=r"households\.csv: changed while it was read"):
        town.materialize()
    assert town.contents() == before
    monkeypatch.undo()
    with town.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        rows = session.arrow("warehouse/all", source=Table(Zone.CONFIDENTIAL, "town", "units"))
    assert rows["county"].to_pylist() == ["001", "001", "010", "100"]


@pytest.mark.deep
def test_what_is_recorded_of_the_source_cannot_be_made_without_the_key(town: Office) -> None:
    found = town.contents()
    assert found.keys() == {"cef", "units", "persons", "source", "ordered", "sketch", "checked"}
    assert len(set(found.values())) == 7
    content = (town.folder / "persons.csv").read_bytes()
    assert found["persons"] == hmac.new(town.custody.version_key(), content, sha256).hexdigest()
    assert sha256(content).hexdigest() not in found.values()
    town.custody = Custody(folder=str(town.folder / "another"))
    town.materialize()
    assert not set(found.values()) & set(town.contents().values())


def asks_rules(town: Office, patched: pytest.MonkeyPatch) -> bool:
    """Whether the checks evaluate the rules of keys on the stored tables again, instead of reusing the findings."""
    asked: list[bool] = []

    def cef_findings(*given: Any) -> Any:
        asked.append(True)
        return validation.cef_findings(*given)

    with patched.context() as patch:
        patch.setattr(asset, "cef_findings", cef_findings)
        dg.materialize(
            build_cef(town.declaration, town.folder),
            selection=dg.AssetSelection.checks_for_assets(dg.AssetKey([town.declaration.name, "cef"])),
            resources=resources_of(town.warehouse, town.custody),
            instance=dg.DagsterInstance.ephemeral(),
            raise_on_error=False,
        )
    return bool(asked)


def test_rules_are_asked_once_of_the_same_records_by_the_same_code(
    town: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong programs: a record that holds for other records, another declaration, other code, or without its seal."""
    assert not asks_rules(town, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(contents, "hash_code", lambda *modules: "other code")
        assert asks_rules(town, monkeypatch)
        patch.setattr(contents, "hash_code", lambda *modules: None)
        assert asks_rules(town, monkeypatch), "nobody knows which code runs"
    declared = town.declaration
    town.declaration = declared.model_copy(update={"title": "Another title"})
    assert asks_rules(town, monkeypatch)
    town.declaration = declared
    town.alter(Zone.CONFIDENTIAL, "UPDATE town.units SET rooms = 6 WHERE serial = 1")
    assert asks_rules(town, monkeypatch)
    town.materialize()
    assert not asks_rules(town, monkeypatch)
    town.alter(Zone.PUBLIC, "UPDATE town.cef_contents SET version = 'a' WHERE content = 'persons'")
    assert asks_rules(town, monkeypatch), "without its seal, the record is not believed"


def alter_in_lake(warehouse: Warehouse) -> None:
    """Alter a stored table, as another process would that writes to the same lake."""
    units = Table(Zone.CONFIDENTIAL, "town", "units")
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        stored = session.arrow("warehouse/all", source=units)
        altered = pa.Table.from_pylist([row | {"rooms": 6} for row in stored.to_pylist()], schema=stored.schema)
        session.create(units, "warehouse/all", source=session.register("altered", altered))


def in_lake(postgres: Server, folder: Path, patched: pytest.MonkeyPatch) -> Office:
    """The office of a town with its tables in a lake."""
    lake = make_lake(postgres, folder / "lake")
    lake.name_services(patched)
    office = Office(folder, of_csv(folder), patched)
    office.warehouse = lake.warehouse()
    return office


@pytest.mark.prove
@pytest.mark.parametrize("moment", ["after the commit", "after the session"])
def test_in_a_lake_a_table_that_another_writer_altered_is_not_what_was_read(
    moment: str, postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong programs: take versions from the stored tables after the end of the transaction, or of the session."""
    office = in_lake(postgres, tmp_path, monkeypatch)
    committed = Session.transaction
    altered: list[bool] = []

    @contextmanager
    def transaction(session: Session) -> Iterator[None]:
        with committed(session):
            yield
        if Zone.CONFIDENTIAL in session.zones and not altered:
            altered.append(True)
            alter_in_lake(office.warehouse)

    if moment == "after the commit":
        monkeypatch.setattr(Session, "transaction", transaction)
    else:
        altered.append(True)
    meanwhile = partial(alter_in_lake, office.warehouse) if moment == "after the session" else lambda: None
    checks = office.materialize_while(meanwhile, monkeypatch)
    assert altered
    assert (checks["schema_and_keys"], checks["as_read"]) == (True, False)
    assert office.materialize()[0], "the altered table is not unchanged"
    assert not office.materialize()[0]


@pytest.mark.prove
def test_in_a_lake_a_source_that_has_not_changed_is_not_read_again_either(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = in_lake(postgres, tmp_path, monkeypatch)
    read, version, _ = office.materialize()
    assert read
    assert office.materialize()[:2] == (False, version)
    alter_in_lake(office.warehouse)
    assert office.materialize()[:2] == (True, version)
    replace_within(tmp_path / "persons.csv", b"41,1,1a", b"42,1,1a")
    assert office.materialize()[0]
