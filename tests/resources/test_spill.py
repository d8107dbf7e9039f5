"""Claims about DuckDB's spilled files: only DuckDB can read them, no session disturbs another, and files left by a
killed process are soon removed."""

import os
import resource
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import jinja2
import pytest

from resources import spill, statements, storage, warehouse
from resources.instances import close_waiting
from resources.spill import create_spill_folder
from resources.statements import SQL_FOLDER, Table, Zone
from resources.warehouse import Warehouse, WarehouseError

TABLE = Table(Zone.CONFIDENTIAL, "s", "t")
PLANTED = b"planted-2f81c7"
ROWS = """
    SELECT 'planted-2f81c7-' || $session || '-' || i || md5(i::VARCHAR) || md5((i + 1)::VARCHAR) AS text
    FROM range(1500000) AS r(i)
"""
COUNTED = """
    SELECT count(*), count(DISTINCT text), count(*) FILTER (text LIKE 'planted-2f81c7-' || $session || '-%')
    FROM {{ source }}
"""


@pytest.fixture
def store(tmp_path):
    """A warehouse whose sessions spill data above 60 MB."""
    return Warehouse(folder=str(tmp_path / "warehouse"), threads=1, memory_limit="60MB")


@pytest.fixture(autouse=True)
def texts(monkeypatch):
    """Statements of the tests' own beside those of `sql/`."""
    written = {"tests/rows.sql": ROWS, "tests/counted.sql": COUNTED}
    loader = jinja2.ChoiceLoader([jinja2.DictLoader(written), jinja2.FileSystemLoader(SQL_FOLDER)])
    monkeypatch.setattr(statements._environment(), "loader", loader)


@pytest.fixture
def open_umask():
    """A process that creates files for everyone."""
    before = os.umask(0)
    yield
    os.umask(before)


def base(store):
    return Path(store.folder) / "spill"


def spilled(store):
    """The files that are spilled now."""
    return [path for path in base(store).glob("*/*") if path.is_file()]


def planted(files):
    """How often the planted text can be read in files."""
    return sum(path.read_bytes().count(PLANTED) for path in files)


def modes(folder):
    return {path: f"{path.stat().st_mode & 0o777:o}" for path in (folder, *folder.rglob("*"))}


def closed(folder):
    """The contents of a folder, after a check that only the owner has access to each."""
    found = modes(folder)
    assert found == {path: "700" if path.is_dir() else "600" for path in found}
    return {path.name for path in found}


# Encryption ------------------------------------------------------------------------------------------------


def spill_planted(store):
    """Spill rows that hold the planted text, and count it in the files while the session is open."""
    with store.session(writes=Zone.CONFIDENTIAL) as session:
        staged = session.stage("staged", "tests/rows", {"session": "one"})
        files = spilled(store)
        assert sum(path.stat().st_size for path in files) > 10_000_000
        found = planted(files)
        assert session.row("tests/counted", {"session": "one"}, source=staged) == (1500000,) * 3
    return found


@pytest.mark.deep
def test_what_is_spilled_cannot_be_read(store):
    assert spill_planted(store) == 0


@pytest.mark.prove
def test_without_encryption_it_could_be_read(store, monkeypatch):
    """The test above can fail."""
    monkeypatch.setitem(warehouse._SETTINGS, "temp_file_encryption", False)
    assert spill_planted(store) > 1000


@pytest.mark.parametrize("access", [{}, {"writes": Zone.CONFIDENTIAL}, {"writes": Zone.PUBLIC}])
def test_every_session_encrypts_with_a_secure_cipher(store, access):
    with store.session(**access) as session:
        found = dict(session._connection.execute("SELECT name, value FROM duckdb_settings()").fetchall())
    assert found["temp_file_encryption"] == "true"
    assert found["force_mbedtls_unsafe"] == "false"


def test_an_extension_that_was_altered_is_not_loaded(store, tmp_path, monkeypatch):
    place = tmp_path / "extensions" / f"v{duckdb.__version__}"
    place.mkdir(parents=True)
    name = "httpfs.duckdb_extension"
    content = bytearray((storage.files("duckdb_extension_httpfs") / place.relative_to(tmp_path) / name).read_bytes())
    content[len(content) // 2] ^= 1
    (place / name).write_bytes(content)
    monkeypatch.setattr(storage, "files", lambda package: tmp_path)
    storage.signed_extension.cache_clear()
    with pytest.raises(WarehouseError, match="signature"), store.session():
        pass


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/a.csv", "s3://a/a.csv", "hf://datasets/a/a/a.csv"])
def test_a_session_reads_nothing_over_the_network(store, address):
    with store.session() as session, pytest.raises(duckdb.PermissionException, match="disabled by configuration"):
        session._connection.execute("SELECT * FROM read_csv($address)", {"address": address})


# Folders ---------------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_folders_and_files_are_closed_to_others_whatever_the_umask(store, open_umask):
    with store.session(writes=Zone.CONFIDENTIAL) as session:
        session.create(TABLE, "tests/rows", {"session": "one"})
        session.run("tests/counted", {"session": "one"}, source=TABLE)
        session.stage("staged", "tests/rows", {"session": "one"})
        assert spilled(store)
        names = closed(Path(store.folder))
    assert {"confidential.duckdb", "confidential.duckdb.wal", "spill"} < names


def test_a_process_that_opened_a_session_leaves_no_core_file(store):
    """A crash of native code would write all its memory into one, with records and the master key. A limit of 0 would
    leave it to programs that take core files, on the host of a container too: Linux excepts 1 alone."""
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))
    with store.session():
        assert resource.getrlimit(resource.RLIMIT_CORE) == (1, most)


def test_the_folder_is_removed_at_the_end(store):
    with store.session() as session:
        session.stage("staged", "tests/rows", {"session": "one"})
        (folder,) = (path for path in base(store).iterdir() if path.is_dir())
        assert f"-{os.getpid()}-" in folder.name
    assert spilled(store) == []
    close_waiting()
    assert list(base(store).iterdir()) == []


@pytest.mark.prove
def test_the_folder_is_removed_when_the_session_fails(store):
    def fail():
        with store.session() as session:
            session.stage("staged", "tests/rows", {"session": "one"})
            assert spilled(store)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert list(base(store).iterdir()) == []
    with pytest.raises(WarehouseError), store.session(reads=[Zone.PUBLIC]):
        pass
    assert list(base(store).iterdir()) == []


@pytest.mark.prove
def test_the_spill_folder_may_lie_elsewhere(store, tmp_path):
    elsewhere = tmp_path / "scratch"
    with store.model_copy(update={"spill_folder": str(elsewhere)}).session() as session:
        session.stage("staged", "tests/rows", {"session": "one"})
        assert list(elsewhere.glob("*/duckdb_temp*"))
    assert not list(elsewhere.glob("*/duckdb_temp*"))
    close_waiting()
    assert list(elsewhere.iterdir()) == []
    assert not base(store).exists()


@pytest.mark.parametrize(("mode", "accepted"), [(0o770, False), (0o702, False), (0o1777, True), (0o755, True)])
def test_a_folder_in_which_others_could_replace_what_is_spilled_is_refused(store, tmp_path, mode, accepted):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    elsewhere = store.model_copy(update={"spill_folder": str(shared)})
    for opened in (elsewhere.session, elsewhere.private_folder):
        if accepted:
            with opened():
                assert list(shared.iterdir())
        else:
            with pytest.raises(WarehouseError, match="can be written by others"), opened():
                pass
        close_waiting()
        assert list(shared.iterdir()) == []


@pytest.mark.prove
def test_sessions_of_several_threads_spill_at_once_without_disturbing_each_other(store):
    def work(number):
        with store.session() as session:
            staged = session.stage("staged", "tests/rows", {"session": str(number)})
            return session.row("tests/counted", {"session": str(number)}, source=staged)

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(work, range(3))) == [(1500000,) * 3] * 3
    assert spilled(store) == []
    close_waiting()
    assert list(base(store).iterdir()) == []


# Sweeping --------------------------------------------------------------------------------------------------


def left_behind(folder, pid):
    """A folder and an unlocked lock file, as a killed process leaves them."""
    name = f"stirred-{pid}-0123456789abcdef"
    (folder / name).mkdir(parents=True, mode=0o700)
    (folder / name / "duckdb_temp_storage_DEFAULT-0.tmp").write_bytes(b"left")
    (folder / f"{name}.lock").touch(mode=0o600)
    return folder / name


def test_a_folder_is_swept_although_its_process_number_is_in_use_again(tmp_path):
    dead = left_behind(tmp_path, os.getpid())
    with create_spill_folder(tmp_path) as folder:
        assert not dead.exists()
        assert {path.name for path in tmp_path.iterdir()} == {folder.name, f"{folder.name}.lock"}


def test_a_folder_in_use_is_not_swept(tmp_path):
    with create_spill_folder(tmp_path) as first:
        (first / "spilled").touch()
        with create_spill_folder(tmp_path) as second:
            assert first != second
        assert (first / "spilled").exists()
        assert not second.exists()


def test_a_lock_of_somebody_else_sweeps_nothing(tmp_path, monkeypatch):
    """Wrong program: trusts a lock that any user can plant in `/tmp` beside a folder of this user, to have the folder
    removed."""
    (tmp_path / "stirred-data").mkdir()
    (tmp_path / "stirred-data.lock").touch()
    somebody = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody)
    spill.sweep(tmp_path)
    assert (tmp_path / "stirred-data").exists()


def test_what_is_not_a_spill_folder_is_left_alone(tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (tmp_path / "stirred-1-0123456789abcdef").symlink_to(precious)
    (tmp_path / "stirred-1-0123456789abcdef.lock").touch()
    (tmp_path / "stirred-2-0123456789abcdef.lock").symlink_to(precious)
    (precious / "file").touch()
    before = modes(tmp_path)
    with create_spill_folder(tmp_path):
        pass
    assert modes(tmp_path) == before


@pytest.mark.parametrize("swept", ["before it was locked", "while it was locked"])
def test_a_lock_that_a_sweep_was_quicker_to_take_is_given_up(tmp_path, monkeypatch, swept):
    """Between making its lock file and locking it, a process can meet another one's sweep."""
    held, takers = spill._try_lock, []

    def meets_a_sweep(descriptor):
        takers.append(descriptor)
        if len(takers) > 1:
            return held(descriptor)
        (lock,) = tmp_path.glob("*.lock")
        if swept == "while it was locked":
            return False
        lock.unlink()
        return held(descriptor)

    monkeypatch.setattr(spill, "_try_lock", meets_a_sweep)
    with create_spill_folder(tmp_path) as folder:
        assert len(takers) == 2
        assert Path(f"{folder}.lock").exists()


# Kills -----------------------------------------------------------------------------------------------------


@pytest.fixture
def killed(tmp_path, store, processes):
    """The files of a process that was killed while it sorted confidential rows and spilled them."""
    process, said = processes("begin", "spill", tmp_path)
    assert said == "begun\n"
    deadline = time.monotonic() + 600
    while sum(path.stat().st_size for path in spilled(store)) < 20_000_000:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    assert processes("end", process) == [-signal.SIGKILL, ""]
    return process


def test_a_killed_process_leaves_nothing_that_others_can_read(store, killed):
    names = closed(Path(store.folder))
    assert {"confidential.duckdb", "confidential.duckdb.wal"} < names
    left = spilled(store)
    assert sum(path.stat().st_size for path in left) > 10_000_000
    assert {path.parent.name.split("-")[1] for path in left} == {str(killed)}
    assert planted(left) == 0


def test_the_next_session_sweeps_what_a_killed_process_left(store, killed):
    assert spilled(store)
    with store.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert not [path for path in base(store).iterdir() if f"-{killed}-" in path.name]
        assert session.count(TABLE) == 1000
    close_waiting()
    assert list(base(store).iterdir()) == []


@pytest.mark.parametrize("planted", ["the folder itself", "one above it", "a link"])
def test_a_folder_that_somebody_else_made_where_everyone_can_is_refused(tmp_path, monkeypatch, planted):
    """The folder's owner can replace its contents, whatever its mode. Wrong program: checks only the mode of the
    folder."""
    (shared := tmp_path / "tmp").mkdir()
    shared.chmod(0o1777)
    given = shared / "stirred"
    (kept := tmp_path / "kept").mkdir()
    if planted == "a link":
        given.symlink_to(kept)
    else:
        given.mkdir()
        given.chmod(0o1777)
    base = given / "spill" if planted == "one above it" else given
    with create_spill_folder(base):
        pass
    if os.geteuid() == 0:
        os.chown(given, 4242, -1, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4242)
    with pytest.raises(WarehouseError, match=r"/tmp/stirred belongs to somebody else"), create_spill_folder(base):
        pass
    assert list(kept.iterdir()) == []
