"""Instances of DuckDB that wait for the next session: the abilities and data of one session do not pass to another."""

import os
import shutil
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest

from resources import instances
from resources.instances import close_waiting
from resources.machine import count_cores
from resources.statements import SQL, Table, Zone
from resources.warehouse import Warehouse, WarehouseError
from tests.depth import quick_cases

ROWS = SQL("tests/rows", "SELECT unnest(range(10)) AS value")
READ_FILE = SQL("tests/read_file", "SELECT content FROM read_text($path)")


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    close_waiting()
    warehouse = Warehouse(folder=str(tmp_path / "warehouse"))
    for zone in (Zone.CONFIDENTIAL, Zone.PUBLIC):
        with warehouse.session(writes=zone) as session:
            session.create(Table(zone, "town", "numbers"), ROWS)
    return warehouse


def test_a_session_has_the_instance_that_an_equal_one_has_left(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    monkeypatch.setattr(
        Warehouse, "_open_instance", lambda *given, make=Warehouse._open_instance: made.append(1) or make(*given)
    )
    for access in ({"reads": [Zone.PUBLIC]}, {"writes": Zone.PUBLIC}, {"reads": [Zone.PUBLIC]}):
        with warehouse.session(**access) as session:
            session.stage("left", ROWS)
            assert session.count(Table(Zone.PUBLIC, "town", "numbers")) == 10
            assert session.rows("warehouse/tables", {"zone": "confidential", "schema": "town"}) == []
    assert len(made) <= 1
    with pytest.raises(duckdb.ConnectionException):
        # A session that has ended cannot use the instance any more.
        session._connection.execute("SELECT 1")
    # No connection holds the file, and no log remains to be replayed.
    assert [path.name for path in Path(warehouse.folder).glob("public*")] == ["public.duckdb"]
    with duckdb.connect(str(warehouse.path(Zone.PUBLIC))):
        pass


def test_only_what_is_known_to_be_small_is_read_and_written_on_one_thread(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails for one thread where a source, or parts in a folder, may be of any size, and for all cores always."""

    def count_threads(**access: Any) -> int:
        with warehouse.session(**access) as session:
            return int(session.row(SQL("tests/threads", "SELECT current_setting('threads')"))[0])

    cores = count_cores()
    parts = {"writes": Zone.PUBLIC, "folder": Path(warehouse.folder)}
    small = ({"reads": [Zone.PUBLIC]}, {"reads": [Zone.CONFIDENTIAL], "writes": Zone.PUBLIC}, {"writes": Zone.LEDGER})
    small += ({"writes": Zone.CONFIDENTIAL, "source_bytes": 100},)
    large = (parts, {"writes": Zone.CONFIDENTIAL}, {"writes": Zone.CONFIDENTIAL, "source_bytes": 1 << 30})
    assert [count_threads(**access) for access in small] == [1] * len(small)
    assert [count_threads(**access) for access in large] == [cores] * len(large)
    monkeypatch.setattr("resources.warehouse._SMALL", 1_000)
    assert count_threads(reads=[Zone.PUBLIC]) == cores


def test_sessions_at_once_have_instances_of_their_own(warehouse: Warehouse) -> None:
    with warehouse.session(reads=[Zone.PUBLIC]) as one, warehouse.session(reads=[Zone.PUBLIC]) as other:
        assert one._connection is not other._connection
    close_waiting()
    assert not instances._waiting


@quick_cases(1)
@pytest.mark.parametrize("first", [{"reads": [Zone.CONFIDENTIAL]}, {"reads": [Zone.PUBLIC], "folder": True}])
def test_no_session_reaches_files_because_another_one_could(
    warehouse: Warehouse, tmp_path: Path, first: dict[str, object]
) -> None:
    secret = tmp_path / "elsewhere" / "secret.txt"
    secret.parent.mkdir()
    secret.write_text("known")
    given = first | ({"folder": secret.parent} if "folder" in first else {})
    with warehouse.session(**given) as session:  # type: ignore[arg-type]
        assert session.row(READ_FILE, {"path": str(secret)}) == ("known",)
    for access in ({"reads": [Zone.PUBLIC]}, {"reads": [Zone.PUBLIC], "folder": tmp_path / "warehouse"}):
        for path in (secret, warehouse.path(Zone.CONFIDENTIAL)):
            if path.parent == access.get("folder"):
                continue
            with (
                pytest.raises(WarehouseError, match="disabled by configuration"),
                warehouse.session(**access) as session,
            ):
                session.rows(READ_FILE, {"path": str(path)})


def test_an_instance_of_a_session_that_fails_does_not_wait(warehouse: Warehouse) -> None:
    close_waiting()
    with suppress(WarehouseError), warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        session.run(SQL("tests/nothing", "FROM nothing"))
    assert not instances._waiting


MADE_IN_MEMORY = {
    "CREATE TABLE memory.main.numbers AS SELECT 1 AS one": "FROM memory.main.numbers",
    "CREATE VIEW one AS SELECT 1 AS one": "FROM one",
    "CREATE SEQUENCE numbering": "SELECT nextval('numbering')",
    "CREATE TYPE code AS ENUM ('a')": "SELECT 'a'::code",
    "CREATE SCHEMA memory.town": "CREATE TABLE memory.town.one (one INTEGER)",
    "CREATE MACRO strlen(text) AS 7": "SELECT error('as DuckDB has it') WHERE strlen('ab') = 2",
    "CREATE MACRO rows_of() AS TABLE SELECT 1 AS one": "FROM rows_of()",
}
"""Statements that create an object outside the zones, each with a statement that fails in an instance without it."""


def test_nothing_of_a_session_is_in_the_next_one(warehouse: Warehouse) -> None:
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        session.stage("staged", ROWS)
        session.register("registered", session.arrow(ROWS))
        for statement in ("SET VARIABLE kept = 'secret'", "PREPARE kept AS FROM confidential.town.numbers"):
            session._connection.execute(statement)
        for made in MADE_IN_MEMORY:
            session._connection.execute(made)
    assert instances._waiting
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert session.row(SQL("tests/kept", "SELECT getvariable('kept')")) == (None,)
        for statement in ("FROM staged", "FROM registered", "EXECUTE kept", *MADE_IN_MEMORY.values()):
            with pytest.raises(duckdb.Error):
                session._connection.execute(statement)


def test_every_session_of_an_instance_with_threads_computes_ahead(warehouse: Warehouse) -> None:
    threaded = Warehouse(folder=warehouse.folder, threads=2)
    for _ in range(2):
        with threaded.session(reads=[Zone.CONFIDENTIAL]) as session:
            assert session.row(SQL("tests/buffer", "SELECT current_setting('streaming_buffer_size')")) == ("122.0 MiB",)


def test_an_instance_of_large_databases_does_not_wait(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    close_waiting()
    monkeypatch.setattr(instances, "LARGEST", warehouse.path(Zone.PUBLIC).stat().st_size - 1)
    with warehouse.session(reads=[Zone.PUBLIC]):
        pass
    assert not instances._waiting


def test_few_instances_wait_and_their_folders_go_with_them(warehouse: Warehouse, tmp_path: Path) -> None:
    with ExitStack() as opened:
        for number in range(6):
            elsewhere = warehouse.model_copy(update={"spill_folder": str(tmp_path / f"spill {number}")})
            opened.enter_context(elsewhere.session())
    assert len([path for path in tmp_path.glob("spill */*") if path.is_dir()]) == 4
    close_waiting()
    assert list(tmp_path.glob("spill */*")) == []


@pytest.mark.deep
def test_a_session_spills_after_the_folder_of_a_waiting_instance_was_removed(tmp_path: Path) -> None:
    close_waiting()
    warehouse = Warehouse(folder=str(tmp_path / "warehouse"), threads=1, memory_limit="30MB")
    for _ in range(2):
        with warehouse.session() as session:
            session.stage("spilled", SQL("tests/many", "SELECT md5(i::VARCHAR) AS text FROM range(1000000) AS r(i)"))
        (folder,) = (path for path in (tmp_path / "warehouse" / "spill").iterdir() if path.is_dir())
        shutil.rmtree(folder)
    close_waiting()
    assert list((tmp_path / "warehouse" / "spill").iterdir()) == []


def test_a_forked_process_leaves_the_instances_of_its_parent_alone(warehouse: Warehouse, tmp_path: Path) -> None:
    with warehouse.session(reads=[Zone.PUBLIC]):
        pass
    found, folders = dict(instances._waiting), sorted(tmp_path.rglob("stirred-*"))
    if (child := os.fork()) == 0:
        # It has neither the threads nor the locks of its parent, so it may open none of them, and close none.
        close_waiting()
        os._exit(0 if instances._waiting == found else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert sorted(tmp_path.rglob("stirred-*")) == folders
