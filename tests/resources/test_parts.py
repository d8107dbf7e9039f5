"""Tables that are made in parts outside any session: private, in order, all at once or not at all."""

import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pytest

from resources.parts import open_part, store_parts
from resources.statements import Table, Zone
from resources.warehouse import Warehouse, WarehouseError

TABLE = Table(Zone.PUBLIC, "s", "t")
SCHEMA = pa.schema([("number", pa.int64()), ("answers", pa.list_(pa.int32()))])


@pytest.fixture
def store(tmp_path: Path) -> Warehouse:
    return Warehouse(folder=str(tmp_path / "warehouse"), threads=2)


def rows(part: int, count: int = 2000) -> pa.Table:
    numbers = range(part * count, (part + 1) * count)
    return pa.table({"number": list(numbers), "answers": [[number, -number] for number in numbers]}, schema=SCHEMA)


def write(path: Path, part: int) -> Path:
    with open_part(path, SCHEMA) as writer:
        for start in range(0, 2000, 500):
            writer.write_table(rows(part).slice(start, 500))
    return path


def stored(store: Warehouse) -> pa.Table:
    with store.session(reads=[Zone.PUBLIC]) as session:
        return session.arrow("warehouse/all", source=TABLE)


@pytest.mark.prove
def test_parts_of_other_processes_are_stored_in_the_order_that_is_given(store: Warehouse) -> None:
    order = [3, 0, 4, 1, 2]
    with store.private_folder() as folder, ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        paths = dict(zip(range(5), pool.map(write, [folder / str(part) for part in range(5)], range(5)), strict=True))
        with store.session(writes=Zone.PUBLIC, folder=folder) as session, session.transaction():
            store_parts(session, TABLE, [paths[part] for part in order])
    assert stored(store).equals(pa.concat_tables([rows(part) for part in order]))
    assert not folder.exists()


def test_the_folder_is_private_and_gone_when_the_block_ends_however_it_ends(store: Warehouse) -> None:
    before = os.umask(0)
    try:
        with pytest.raises(KeyboardInterrupt), store.private_folder() as folder:  # noqa: PT012
            assert folder.is_absolute()
            assert folder.stat().st_mode & 0o777 == 0o700
            assert write(folder / "part", 0).stat().st_mode & 0o077 == 0
            raise KeyboardInterrupt
    finally:
        os.umask(before)
    assert not folder.exists()


KILLED = """
import os, signal, sys
from resources.warehouse import Warehouse
with Warehouse(folder=sys.argv[1]).private_folder() as folder:
    (folder / "part").write_text("left")
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.prove
def test_what_a_killed_process_left_is_removed_by_the_next_session(store: Warehouse) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, store.folder], capture_output=True, text=True, check=False)
    left = Path(done.stdout.strip())
    assert (left / "part").exists()
    with store.session(writes=Zone.PUBLIC):
        assert not left.exists()


def test_a_part_that_is_missing_or_cut_off_leaves_the_table_as_it_was(store: Warehouse) -> None:
    with store.private_folder() as folder:
        whole, cut = write(folder / "whole", 0), write(folder / "cut", 1)
        cut.write_bytes(cut.read_bytes()[:-100])
        with store.session(writes=Zone.PUBLIC, folder=folder) as session, session.transaction():
            store_parts(session, TABLE, [whole])
        for wrong in (cut, folder / "missing"):
            with pytest.raises(WarehouseError), store.session(writes=Zone.PUBLIC, folder=folder) as session:
                store_parts(session, TABLE, [whole, wrong])
    assert stored(store).equals(rows(0))


def test_only_files_of_the_named_folder_are_stored(store: Warehouse, tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", 0)
    with (
        store.private_folder() as folder,
        store.session(writes=Zone.PUBLIC, folder=folder) as session,
        pytest.raises(WarehouseError, match="Permission"),
    ):
        store_parts(session, TABLE, [outside])


def test_confidential_tables_are_not_made_of_parts(store: Warehouse) -> None:
    with (
        store.private_folder() as folder,
        store.session(writes=Zone.CONFIDENTIAL, folder=folder) as session,
        pytest.raises(ValueError, match="not public"),
    ):
        store_parts(session, Table(Zone.CONFIDENTIAL, "s", "t"), [folder / "part"])
