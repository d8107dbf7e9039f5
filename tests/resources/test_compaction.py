"""A compaction removes all deleted data and loses no other data, even if other processes write."""

import multiprocessing
import os
import signal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from resources.statements import Table, Zone
from resources.storage import DatabaseFile
from resources.warehouse import Warehouse
from tests.depth import deep_cases

CANARY = "planted-7c01f2e9-"
KEPT = Table(Zone.CONFIDENTIAL, "village", "units")
COUNTED = Table(Zone.CONFIDENTIAL, "village", "counted")


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(folder=str(tmp_path / "warehouse"), threads=1)


def write(warehouse: Warehouse, table: Table, values: list[str]) -> None:
    with warehouse.session(writes=table.zone) as session:
        source = session.register("values", pa.table({"value": values}))
        session.create(table, "warehouse/all", source=source)


def found(warehouse: Warehouse, text: str) -> set[str]:
    """The files below the warehouse that contain a text."""
    files = [path for path in Path(warehouse.folder).rglob("*") if path.is_file()]
    return {path.name for path in files if text.encode() in path.read_bytes()}


def plant(warehouse: Warehouse, rows: int = 5_000) -> None:
    """Confidential values of a release among others, some in the file and some still in its log. They are not
    compressed, so that the test can find them. Other values follow, so that DuckDB cannot just cut them off with the
    end of the file."""
    write(warehouse, KEPT, ["none yet"])
    path = str(warehouse.path(Zone.CONFIDENTIAL))
    with duckdb.connect(path) as connection:
        connection.execute("PRAGMA force_compression = 'uncompressed'; CREATE SCHEMA village__secret")
        connection.execute(
            "CREATE TABLE village__secret.units AS SELECT $value || i AS value FROM range($rows) AS r(i)",
            {"value": CANARY, "rows": rows},
        )
    write(warehouse, KEPT, [f"kept-{number}" for number in range(rows)])
    with duckdb.connect(path) as connection:
        connection.execute("PRAGMA disable_checkpoint_on_shutdown; CREATE TABLE village.shown AS FROM village.units")
        connection.execute("CREATE TABLE village__secret.late AS SELECT $value AS value", {"value": f"{CANARY}late"})
    name = warehouse.path(Zone.CONFIDENTIAL).name
    assert found(warehouse, CANARY) == {name, f"{name}.wal"}


def test_nothing_is_left_of_what_was_deleted(warehouse: Warehouse) -> None:
    plant(warehouse)
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        version = session.content_version([KEPT])
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        session.drop_schema(Zone.CONFIDENTIAL, "village__secret")
    assert found(warehouse, CANARY), "deleting alone leaves it in the file: the test shows nothing otherwise"
    warehouse.compact(Zone.CONFIDENTIAL)
    assert found(warehouse, CANARY) == set()
    path = warehouse.path(Zone.CONFIDENTIAL)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir() if each.is_file()] == [path.name]
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert session.schemas(Zone.CONFIDENTIAL) == ["village"]
        assert session.content_version([KEPT]) == version
        assert session.rows("warehouse/count", table=Table(Zone.CONFIDENTIAL, "village", "shown")) == [(5_000,)]


def test_a_session_that_opened_the_old_file_turns_to_the_new_one(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its writes would be lost with the old file."""
    write(warehouse, KEPT, ["one"])
    path = warehouse.path(Zone.CONFIDENTIAL)
    stat, calls = Path.stat, 0

    def replaced_meanwhile(self: Path, **named: bool) -> os.stat_result:
        nonlocal calls
        found = stat(self, **named)
        if self == path:
            calls += 1
            if calls == opened_after:
                # After this look at the file and before it is opened; afterwards its place is taken.
                return os.stat_result((*found[:1], found.st_ino + 1, *found[2:]))
        return found

    opened_after = 2  # the first look is at its mode
    monkeypatch.setattr(Path, "stat", replaced_meanwhile)
    write(warehouse, KEPT, ["two"])
    assert calls > opened_after + 1, "it did not open the file again"
    monkeypatch.undo()
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert session.count(KEPT) == 1


def test_a_session_that_begins_meanwhile_leaves_the_copy_alone(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions remove files that others left when they created a file."""
    write(warehouse, KEPT, ["one"])
    replace = Path.replace

    def another_session_first(self: Path, target: Path) -> Path:
        DatabaseFile(Zone.CONFIDENTIAL, warehouse.path(Zone.CONFIDENTIAL), 1.0).create()
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", another_session_first)
    warehouse.compact(Zone.CONFIDENTIAL)
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert session.count(KEPT) == 1


def count_up(folder: str, times: int) -> None:
    warehouse = Warehouse(folder=folder, threads=1)
    for _ in range(times):
        with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
            session._connection.execute(f"INSERT INTO {COUNTED.text} VALUES ('one')")


def compact(folder: str, times: int) -> None:
    for _ in range(times):
        Warehouse(folder=folder, threads=1).compact(Zone.CONFIDENTIAL)


@pytest.mark.fault
def test_nothing_is_lost_that_others_write_meanwhile(warehouse: Warehouse) -> None:
    write(warehouse, COUNTED, ["zero"])
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=count_up, args=(warehouse.folder, 60)) for _ in range(2)]
    processes.append(spawn.Process(target=compact, args=(warehouse.folder, 40)))
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert session.count(COUNTED) == 121


def compact_and_die(folder: str, at: str) -> None:
    def kill(*arguments: object, **named: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if at == "copied":
        Path.replace = kill  # type: ignore[method-assign, assignment]
    else:
        os.fsync = kill  # type: ignore[assignment]
    Warehouse(folder=folder, threads=1).compact(Zone.CONFIDENTIAL)


@deep_cases(1)
@pytest.mark.prove
@pytest.mark.parametrize("at", ["copied", "flushed"])
def test_a_kill_leaves_a_complete_file_and_the_next_compaction_ends_it(warehouse: Warehouse, at: str) -> None:
    plant(warehouse)
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        session.drop_schema(Zone.CONFIDENTIAL, "village__secret")
    process = multiprocessing.get_context("spawn").Process(target=compact_and_die, args=(warehouse.folder, at))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert session.count(KEPT) == 5_000
    warehouse.compact(Zone.CONFIDENTIAL)
    assert found(warehouse, CANARY) == set()
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert session.count(KEPT) == 5_000
