"""Claims about the warehouse: access to zones, the state after a failure, the data that a content version depends
on."""

import hmac
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter, OrderedDict
from contextlib import suppress
from hashlib import sha256
from itertools import combinations, product
from pathlib import Path

import dagster as dg
import duckdb
import jinja2
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resources import statements
from resources import warehouse as warehouse_module
from resources.statements import SQL_FOLDER, Table, Zone
from resources.storage import BusyError, DatabaseFile
from resources.warehouse import Session, Warehouse, WarehouseError
from tests.depth import deep_but, deep_cases, examples, quick_cases

UNITS = Table(Zone.CONFIDENTIAL, "ma1940", "units")
KEY = bytes(range(32))


@pytest.fixture
def warehouse(tmp_path):
    return Warehouse(folder=str(tmp_path / "warehouse"), threads=1, patience=1.0)


@pytest.fixture(autouse=True)
def texts(monkeypatch):
    """Statements of the tests' own beside those of `sql/`."""
    written = {"tests/copy.sql": "SELECT * FROM {{ source }}", "tests/one.sql": "SELECT 1 AS number"}
    loader = jinja2.ChoiceLoader([jinja2.DictLoader(written), jinja2.FileSystemLoader(SQL_FOLDER)])
    monkeypatch.setattr(statements._environment(), "loader", loader)
    return written


def make(warehouse, text, table=UNITS):
    """Make a table by a statement of DuckDB's."""
    warehouse.path(table.zone).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with duckdb.connect(str(warehouse.path(table.zone))) as connection:
        connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{table.schema}"')
        connection.execute(f'CREATE OR REPLACE TABLE "{table.schema}"."{table.name}" AS {text}')
    warehouse.path(table.zone).chmod(0o600)


def version(warehouse, text, key=None, table=UNITS):
    make(warehouse, text, table)
    with warehouse.session(reads=[table.zone]) as session:
        return session.content_version([table], key)


# Zones -----------------------------------------------------------------------------------------------------


@quick_cases(1)
@pytest.mark.parametrize("hidden", Zone)
def test_a_session_cannot_read_a_zone_it_did_not_name(warehouse, hidden):
    for zone in Zone:
        make(warehouse, "SELECT 77 AS secret", Table(zone, "s", "t"))
    shown = [zone for zone in Zone if zone is not hidden]
    with warehouse.session(reads=shown) as session:
        for zone in shown:
            assert session.rows("warehouse/count", table=Table(zone, "s", "t")) == [(1,)]
        with pytest.raises(WarehouseError):
            session.rows("warehouse/count", table=Table(hidden, "s", "t"))
        assert session.columns(Table(hidden, "s", "t")) == {}


BY_QUERY = "CASE WHEN current_query() LIKE 'COPY%' THEN one + 1 ELSE one END"


@deep_cases(8)
@quick_cases(2)
@pytest.mark.parametrize("zone", Zone)
@pytest.mark.parametrize(
    "forged",
    [
        "VIEW village.shown AS SELECT content FROM read_text('/etc/hostname')",
        f"VIEW village.shown AS SELECT {BY_QUERY} AS one FROM public.village.units",
        "VIEW village.shown AS SELECT a.one FROM public.village.units AS a WHERE random() < 0.5",
        "VIEW village.shown AS SELECT a.one, now() FROM public.village.units AS a",
        f"TABLE village.shown (one INTEGER, two INTEGER GENERATED ALWAYS AS ({BY_QUERY}))",
        f"TABLE village.shown (one INTEGER, two INTEGER AS ({BY_QUERY}))",
        "TABLE village.shown (one INTEGER, two INTEGER DEFAULT random())",
        """TABLE village.shown (one INTEGER, "a""b" INTEGER AS (one), "c" INTEGER)""",
        "TABLE village.shown (one VARCHAR COLLATE NOCASE)",
        "SEQUENCE village.shown",
        "TYPE village.shown AS ENUM ('one')",
    ],
)
def test_a_zone_that_carries_more_than_its_tables_is_refused(warehouse, zone, forged):
    """Such a zone could show the gates other values than the publication, show one value as another, or publish a
    key."""
    make(warehouse, "SELECT 1 AS one", Table(zone, "village", "units"))
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{warehouse.path(zone)}' AS {zone.value}")
        connection.execute(f"USE {zone.value}; CREATE {forged}".replace("public.", f"{zone.value}."))
    for access in ({"reads": [zone]}, {"writes": zone}):
        assert "Stirred did not write village.shown" in refusal(warehouse, **access)


def test_a_column_may_have_the_name_of_what_a_table_may_not_do(warehouse):
    table = Table(Zone.PUBLIC, "village", "units")
    make(warehouse, """SELECT 1 AS "GENERATED ALWAYS", 2 AS "DEFAULT", 3 AS "a DEFAULT ""b", 4 AS generated""", table)
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        assert list(session.columns(table)) == ["GENERATED ALWAYS", "DEFAULT", 'a DEFAULT "b', "generated"]


@pytest.mark.parametrize("zone", [Zone.CONFIDENTIAL, Zone.LEDGER])
def test_no_other_zone_may_show_public_tables_as_its_own(warehouse, zone):
    make(warehouse, "SELECT 1 AS one", Table(Zone.PUBLIC, "village", "units"))
    make(warehouse, "SELECT 1 AS one", Table(zone, "village", "units"))
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{warehouse.path(zone)}' AS {zone.value}")
        connection.execute(f"ATTACH '{warehouse.path(Zone.PUBLIC)}' AS public")
        connection.execute(f"CREATE VIEW {zone.value}.village.shown AS SELECT a.one FROM public.village.units AS a")
    assert "Stirred did not write village.shown" in refusal(warehouse, reads=[zone])


@pytest.mark.parametrize("access", [{"reads": [Zone.PUBLIC]}, {"writes": Zone.PUBLIC}])
def test_a_session_that_sees_the_public_zone_reads_files_of_one_folder_or_none(warehouse, texts, access, tmp_path):
    texts["tests/file.sql"] = "SELECT content FROM read_text($path)"
    key, wanted = tmp_path / "master.key", {"path": str(tmp_path / "master.key")}
    key.write_text("secret")
    make(warehouse, "SELECT 1 AS one", Table(Zone.PUBLIC, "village", "units"))
    with warehouse.session(**access) as session, pytest.raises(WarehouseError, match="disabled by configuration"):
        session.rows("tests/file", wanted)
    with warehouse.session(**access, folder=tmp_path) as session:
        assert session.rows("tests/file", wanted) == [("secret",)]


def test_a_session_writes_to_the_one_zone_it_named(warehouse, texts):
    for zone in Zone:
        make(warehouse, "SELECT 77 AS number", Table(zone, "s", "t"))
    texts["tests/insert.sql"] = "INSERT INTO {{ table }} VALUES (78)"
    with warehouse.session(reads=list(Zone), writes=Zone.PUBLIC) as session:
        session.run("tests/insert", table=Table(Zone.PUBLIC, "s", "t"))
        for zone in (Zone.CONFIDENTIAL, Zone.LEDGER):
            with pytest.raises(WarehouseError):
                session.run("tests/insert", table=Table(zone, "s", "t"))
    with warehouse.session(reads=list(Zone)) as session:
        assert [session.count(Table(zone, "s", "t")) for zone in Zone] == [1, 2, 1]


def test_a_zone_that_nobody_wrote_is_named_and_not_made(warehouse):
    with (
        pytest.raises(WarehouseError, match="nothing has been written to the confidential zone"),
        warehouse.session(reads=[Zone.CONFIDENTIAL]),
    ):
        pass
    assert [path.name for path in Path(warehouse.folder).rglob("*")] == ["spill"]


# Who can read it ------------------------------------------------------------------------------------------


def refusal(warehouse, **access):
    with pytest.raises(WarehouseError) as caught, warehouse.session(**access):
        pass
    return str(caught.value)


def test_a_folder_that_others_can_read_write_or_search_is_refused(warehouse):
    make(warehouse, "SELECT 1 AS number")
    folder = Path(warehouse.folder)
    for access in ({}, {"reads": [Zone.CONFIDENTIAL]}, {"writes": Zone.PUBLIC}):
        for mode in (0o740, 0o720, 0o710, 0o704, 0o702, 0o701, 0o755, 0o1777):
            folder.chmod(mode)
            assert refusal(warehouse, **access) == (
                f"warehouse folder {folder} must be closed to all but its owner (chmod 700); its mode is {mode:04o}"
            )
    folder.chmod(0o700)
    assert [path.name for path in folder.iterdir()] == ["confidential.duckdb"]
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert session.count(UNITS) == 1


@deep_cases(3)
@quick_cases(1)
@pytest.mark.parametrize("access", ["reads", "writes"])
@pytest.mark.parametrize("zone", Zone)
@pytest.mark.parametrize("name", ["{}.duckdb", "{}.duckdb.wal"])
def test_a_database_file_that_others_can_read_is_refused(warehouse, name, zone, access):
    make(warehouse, "SELECT 1 AS number", Table(zone, "s", "t"))
    path = Path(warehouse.folder) / name.format(zone.value)
    for mode in (0o640, 0o604, 0o620, 0o666):
        path.touch()
        path.chmod(mode)
        message = refusal(warehouse, **({"reads": [zone]} if access == "reads" else {"writes": zone}))
        assert (
            message == f"database file {path} must be closed to all but its owner (chmod 600); its mode is {mode:04o}"
        )


def test_a_zone_that_a_session_does_not_open_is_not_examined(warehouse):
    make(warehouse, "SELECT 1 AS number", Table(Zone.PUBLIC, "s", "t"))
    make(warehouse, "SELECT 1 AS number")
    warehouse.path(Zone.CONFIDENTIAL).chmod(0o644)
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        assert session.count(Table(Zone.PUBLIC, "s", "t")) == 1


# Writing ---------------------------------------------------------------------------------------------------


def test_a_table_is_made_of_parts_as_they_come_and_never_of_none(warehouse, monkeypatch):
    """Wrong programs: hold all parts in memory before storing the first; omit the last few rows; and keep an earlier
    table if no part comes."""
    monkeypatch.setattr("resources.warehouse._ROWS_TOGETHER", 3)
    stored = []
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:

        def count():
            for number in range(5):
                stored.append(session.count(UNITS) if session.columns(UNITS) else 0)
                yield pa.table({"number": [2 * number, 2 * number + 1]})

        for parts, rows in ((count(), 10), ([], 0)):
            pieces, part = session.register_in_turn("part", parts)
            if rows:
                session.create(UNITS, "warehouse/all", pieces, source=part)
            else:
                with pytest.raises(ValueError, match="of no pieces"):
                    session.create(UNITS, "warehouse/all", pieces, source=part)
            assert session.rows("warehouse/all", source=UNITS) == [(number,) for number in range(10)]
    assert stored == [0, 0, 4, 4, 8]


def test_a_failed_statement_leaves_the_table_as_it_was(warehouse, texts):
    make(warehouse, "SELECT 'kept' AS value FROM range(3)")
    texts["tests/late_failure.sql"] = (
        "SELECT CASE WHEN i = 999999 THEN 'x' ELSE '1' END::INTEGER AS value FROM range(1000000) AS r(i)"
    )
    texts["tests/wrong.sql"] = "SELECT nothing FROM nowhere"
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        for name in ("tests/late_failure", "tests/wrong"):
            with pytest.raises(WarehouseError):
                session.create(UNITS, name)
            assert session.count(UNITS) == 3
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert session.rows("tests/copy", source=UNITS) == [("kept",)] * 3


def test_a_transaction_is_kept_whole_or_not_at_all(warehouse):
    first, second, source = (Table(Zone.PUBLIC, "s", name) for name in ("first", "second", "source"))

    def create_both(session, source):
        with session.transaction():
            session.create(first, "tests/one")
            session.create(second, "tests/copy", source=source)

    with warehouse.session(writes=Zone.PUBLIC) as session:
        with pytest.raises(WarehouseError):
            create_both(session, Table(Zone.PUBLIC, "s", "nowhere"))
        assert session.columns(first) == session.columns(second) == {}
        session.create(source, "tests/one")
        create_both(session, source)
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        assert session.count(first) == session.count(second) == 1


@pytest.mark.parametrize("threads", [2, 3])
def test_uncommitted_rows_are_read_once_each_by_all_threads(warehouse, texts, monkeypatch, threads):
    """Wrong programs: parts that overlap or leave out rows, also such as come later; parts of numbers that the commit
    changes; parts by a column of the source that is called as DuckDB's number of a row, so that NULLs are in none."""
    monkeypatch.setattr(warehouse_module, "_ROWS_TOGETHER", 1)
    monkeypatch.setattr(warehouse_module, "_SMALL", 0)
    texts["tests/numbers.sql"] = "SELECT unnest(range($end)) AS number"
    texts["tests/read.sql"] = "SELECT number FROM {{ source }} ORDER BY number"
    texts["tests/plan.sql"] = "EXPLAIN SELECT sum(number) FROM {{ source }}"
    texts["tests/hidden.sql"] = 'SELECT number, CASE WHEN number < 9 THEN number END AS "RowID" FROM {{ source }}'
    hidden = Table(UNITS.zone, UNITS.schema, "hidden")
    with warehouse.model_copy(update={"threads": threads}).session(writes=Zone.CONFIDENTIAL) as session:
        with session.transaction():
            session.create(UNITS, "tests/numbers", {"end": 10})
            session.spread([UNITS])
            assert session.rows("tests/read", source=UNITS) == [(number,) for number in range(10)]
            assert str(session.rows("tests/plan", source=UNITS)).count("SEQ_SCAN") == threads
            session._connection.execute(f"INSERT INTO {UNITS} VALUES (10), (11)")
            session._connection.execute(f"DELETE FROM {UNITS} WHERE number = 0")
            assert session.rows("tests/read", source=UNITS) == [(number,) for number in range(1, 12)]
            session.create(hidden, "tests/hidden", source=UNITS)
            session.spread([hidden])
            assert session.rows("tests/read", source=hidden) == [(number,) for number in range(1, 12)]
        assert session.rows("tests/read", source=UNITS) == [(number,) for number in range(1, 12)]
        assert str(session.rows("tests/plan", source=UNITS)).count("SEQ_SCAN") == 1


@quick_cases(3)
@pytest.mark.parametrize("name", ['a"b', '"; DROP TABLE t; --', "select", "Größe", "a.b", "digest", "$salt"])
def test_tables_and_columns_may_have_any_name(warehouse, name):
    table = Table(Zone.PUBLIC, name, name)
    with warehouse.session(writes=Zone.PUBLIC) as session:
        lent = session.register(name, pa.table({name: [1, 2], "other": ["x", None]}))
        session.create(table, "tests/copy", source=lent)
        assert session.columns(table) == {name: "BIGINT", "other": "VARCHAR"}
        staged = session.stage(f"{name} staged", "ledger/entries", table=table, columns=["other", name])
        assert session.rows("tests/copy", source=staged) == [("x", 1), (None, 2)]
        assert len(session.content_version([table])) == 64


def test_results_come_as_rows_arrow_or_batches(warehouse):
    make(warehouse, "SELECT range AS number FROM range(10000)")
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        table = session.arrow("tests/copy", source=UNITS)
        batches = list(session.batches("tests/copy", 2048, source=UNITS))
        assert session.row("warehouse/count", table=UNITS) == (10000,)
    assert table.equals(pa.Table.from_batches(batches))
    assert len(batches) > 1
    assert table.column("number").to_pylist() == list(range(10000))


# Processes -------------------------------------------------------------------------------------------------


@pytest.fixture
def let_go(tmp_path, processes):
    """How to end another process, which writes to the public zone and keeps it until then."""
    holder, said = processes("begin", "hold", tmp_path)
    assert said == "held\n"
    held = True

    def end():
        nonlocal held
        if held:
            held = False
            assert processes("end", holder) == [0, ""]

    yield end
    end()


@pytest.mark.parametrize("access", [{"reads": [Zone.PUBLIC]}, {"writes": Zone.PUBLIC}])
def test_a_session_waits_for_the_process_that_holds_a_file(warehouse, let_go, access, monkeypatch):
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        let_go()

    monkeypatch.setattr("resources.storage.time.sleep", sleep)
    with warehouse.session(**access) as session:
        assert session.rows("tests/copy", source=Table(Zone.PUBLIC, "race", "held")) == [("written while held",)]
    assert len(waits) == 1


@pytest.mark.usefixtures("let_go")
def test_a_session_that_waited_too_long_says_for_what(warehouse, monkeypatch, caplog):
    """Wrong programs: a refusal, which a gate mistakes for a verdict, one more wait for each of `storage.WAITS`, and a
    command that shows no output for ten minutes."""
    monkeypatch.setattr("resources.storage._UNNOTICED", 0)
    impatient, waits, sleep = warehouse.model_copy(update={"patience": 0.1}), set(), time.sleep
    monkeypatch.setattr("resources.storage.time.sleep", lambda seconds: waits.add(seconds) or sleep(0.05))
    with (
        pytest.raises(BusyError, match=r"cannot open public\.duckdb: another process has held it for over 0\.1 s"),
        impatient.session(reads=[Zone.PUBLIC]),
    ):
        pass
    assert waits == {0.05}
    assert caplog.messages == ["public.duckdb is in use by another process; waiting for at most 0.1 s"]


def test_zones_are_opened_in_the_same_order_whichever_is_written(warehouse, monkeypatch):
    """Wrong program: opens the zones it reads first. Two processes then hold a file each and wait for the other's."""
    make(warehouse, "SELECT 1 AS one")
    make(warehouse, "SELECT 1 AS one", Table(Zone.PUBLIC, "race", "held"))
    attach, opened = DatabaseFile.attach, []

    def note(storage, connection, *, read_only):
        opened.append(storage.zone)
        attach(storage, connection, read_only=read_only)

    monkeypatch.setattr(DatabaseFile, "attach", note)
    for read, written in ((Zone.PUBLIC, Zone.CONFIDENTIAL), (Zone.CONFIDENTIAL, Zone.PUBLIC)):
        with warehouse.session(reads=[read], writes=written):
            pass
    assert opened[:2] == opened[2:]


@pytest.mark.deep
def test_held_zones_stay_as_they_are_whoever_reads_them(warehouse, tmp_path, monkeypatch):
    """Sessions come and go without writing meanwhile. One that closed a file would release it everywhere."""
    public, hashed = Table(Zone.PUBLIC, "ma1940", "units"), []
    for table in (UNITS, public):
        make(warehouse, "SELECT 1 AS number", table)
    sums = Session.sum_digests
    monkeypatch.setattr(Session, "sum_digests", lambda *arguments: hashed.append(1) or sums(*arguments))
    write = f"import duckdb; duckdb.connect({str(warehouse.path(Zone.PUBLIC))!r})"
    with warehouse.snapshot([Zone.CONFIDENTIAL, Zone.PUBLIC]) as held:
        found = set()
        for zones in ([Zone.PUBLIC], [Zone.CONFIDENTIAL, Zone.PUBLIC], [Zone.PUBLIC]):
            with held.session(reads=zones) as session:
                found.add(session.content_version([public], KEY))
                assert bool(session.columns(UNITS)) == (Zone.CONFIDENTIAL in zones)
                if Zone.CONFIDENTIAL in zones:
                    assert session.rows("tests/copy", source=UNITS) == [(1,)]
                else:
                    with pytest.raises(WarehouseError, match="does not see the zone of confidential"):
                        session.rows("tests/copy", source=UNITS)
                    with pytest.raises(WarehouseError, match="does not see"):
                        session.stage("listed", "tests/one", tables=[{"one": UNITS}])
                session.stage("kept", "tests/one")
            refused = subprocess.run([sys.executable, "-c", write], capture_output=True, text=True, check=False)
            assert "Could not set lock" in refused.stderr
        assert len(found) == len(hashed) == 1
        for beyond in ({"writes": Zone.PUBLIC}, {"reads": [Zone.LEDGER]}, {"reads": [Zone.PUBLIC], "folder": tmp_path}):
            with pytest.raises(ValueError, match="held"), held.session(**beyond):
                pass
    assert version(warehouse, "SELECT 2 AS number", KEY, public) not in found
    subprocess.run([sys.executable, "-c", write], check=True)


def test_a_session_that_writes_computes_versions_anew(warehouse):
    table = Table(Zone.PUBLIC, "ma1940", "units")
    with warehouse.session(writes=Zone.PUBLIC) as session:
        session.create(table, "tests/one")
        before = session.content_version([table])
        session.drop(table)
        session.create(table, "tests/copy", source=session.register("other", pa.table({"number": [2]})))
        assert session.content_version([table]) != before


@pytest.fixture
def computed(monkeypatch):
    """Treat all tables as large in their files and remember none; return the list of tables whose digests were
    computed."""
    tables, compute = [], Session._digest_columns

    def note(session, name, table):
        tables.append(table)
        return compute(session, name, table)

    monkeypatch.setattr("resources.warehouse._BYTES_FOR_A_VALUE", 10**9)
    monkeypatch.setattr("resources.warehouse._remembered", OrderedDict())
    monkeypatch.setattr(Session, "_digest_columns", note)
    return tables


def ordered(warehouse, **access):
    with warehouse.session(**(access or {"reads": [Zone.CONFIDENTIAL]})) as session:
        return session.ordered_version([UNITS], KEY)


def overwrite(path, content):
    """Write a file in place, so that neither its number nor its times tell."""
    before = path.stat()
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_version_is_recalled_as_long_as_the_file_has_the_same_bytes(warehouse, computed):
    """Wrong programs: recognize a file by its time or name, or forget a version that the session has written."""
    path = warehouse.path(Zone.CONFIDENTIAL)
    contents, versions = [], []
    for number in (1, 2, 3):
        make(warehouse, f"SELECT {number} AS number")
        contents.append(path.read_bytes())
    for content in contents[:2]:
        overwrite(path, content)
        versions.append(ordered(warehouse))
    assert versions[0] != versions[1]
    assert len(computed) == 2
    assert ordered(warehouse, reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC) == versions[1]
    overwrite(path, contents[0])
    assert ordered(warehouse) == versions[0]
    assert len(computed) == 2
    overwrite(path, contents[2])
    assert ordered(warehouse) not in versions
    assert len(computed) == 3
    overwrite(path, contents[0])
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        assert session.ordered_version([UNITS], KEY) == versions[0]
        assert len(computed) == 3
        with session.transaction():
            session.create(UNITS, "tests/copy", source=session.register("other", pa.table({"number": [4]})))
            written = session.ordered_version([UNITS], KEY)
        session._connection.execute("CHECKPOINT confidential")
        assert written == session.ordered_version([UNITS], KEY) not in versions
    # The version a session has written is recalled after another session has read it from the file.
    assert len(computed) == 5
    assert [ordered(warehouse), ordered(warehouse)] == [written, written]
    assert len(computed) == 6


def test_no_version_is_recalled_for_what_a_session_attached_before_the_file_had_its_bytes(warehouse, computed):
    """The bytes of an earlier version, or no log, replace those that DuckDB read when it attached the file."""
    path = warehouse.path(Zone.CONFIDENTIAL)
    log = path.with_name(f"{path.name}.wal")
    make(warehouse, "SELECT 1 AS number")
    first, content = ordered(warehouse), path.read_bytes()
    make(warehouse, "SELECT 2 AS number")
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert session.rows("warehouse/all", source=UNITS) == [(2,)]
        overwrite(path, content)
        assert session.ordered_version([UNITS], KEY) != first
    with duckdb.connect(str(path)) as connection:
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        connection.execute('UPDATE "ma1940"."units" SET number = 2')
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        log.unlink()
        assert session.ordered_version([UNITS], KEY) != first
        assert session.rows("warehouse/all", source=UNITS) == [(2,)]
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert session.ordered_version([UNITS], KEY) == first
        overwrite(path, content)
        assert not session._files[Zone.CONFIDENTIAL].find_version()


def test_no_version_is_remembered_with_a_file_that_it_may_not_be_of(warehouse, computed, monkeypatch):
    path = warehouse.path(Zone.CONFIDENTIAL)
    make(warehouse, "SELECT 1 AS number")
    first, content = ordered(warehouse), path.read_bytes()
    (remembered,) = warehouse_module._remembered.values()
    # A log belongs to the file.
    with duckdb.connect(str(path)) as connection:
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        connection.execute('UPDATE "ma1940"."units" SET number = 2')
    assert path.with_name(f"{path.name}.wal").exists()
    second = ordered(warehouse)
    assert second == ordered(warehouse) != first
    assert len(computed) == 3
    path.with_name(f"{path.name}.wal").unlink()
    # Another file takes its place, or it is written in spite of DuckDB's lock.
    make(warehouse, "SELECT 3 AS number")
    third, replacement = path.read_bytes(), path.with_name("replacement")
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        replacement.write_bytes(content)
        replacement.replace(path)
        assert session.ordered_version([UNITS], KEY) not in {first, second}
    overwrite(path, third)
    compute = Session._digest_columns

    def attack(session, name, table):
        overwrite(path, content)
        return remembered

    monkeypatch.setattr(Session, "_digest_columns", attack)
    ordered(warehouse)
    monkeypatch.setattr(Session, "_digest_columns", compute)
    overwrite(path, third)
    assert ordered(warehouse) not in {first, second}
    overwrite(path, content)
    assert ordered(warehouse) == first


@pytest.mark.usefixtures("computed")
def count_opened(path):
    """How many of this process's descriptors are of a file."""
    descriptors = (int(each.name) for each in Path("/dev/fd").iterdir())
    found = 0
    for descriptor in descriptors:
        # The one that lists the folder is closed by now.
        with suppress(OSError):
            found += os.path.samestat(os.fstat(descriptor), path.stat())
    return found


def test_nobody_writes_a_file_whose_version_a_session_has_computed(warehouse, computed):
    """Wrong program: loses DuckDB's lock when the process closes the descriptor through which it read the file."""
    make(warehouse, "SELECT 1 AS number")
    lock = (
        f"import fcntl; file = open({str(warehouse.path(Zone.CONFIDENTIAL))!r}, 'r+b'); "
        "fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)"
    )
    command = [sys.executable, "-S", "-c", lock]
    for _ in range(2):
        with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
            session.ordered_version([UNITS], KEY)
            assert subprocess.run(command, check=False, capture_output=True).returncode
            assert count_opened(warehouse.path(Zone.CONFIDENTIAL)) == 2
        # The instance waits for the next session without the file, which DuckDB and the session have closed.
        assert count_opened(warehouse.path(Zone.CONFIDENTIAL)) == 0
        subprocess.run(command, check=True)


def test_processes_that_make_a_zone_at_once_all_write_to_it(tmp_path, warehouse, processes):
    assert processes("race", tmp_path, "tables", 5) == ["written"] * 5
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        assert [session.count(Table(Zone.PUBLIC, "race", f"t{number}")) for number in range(5)] == [1] * 5


def test_a_process_killed_while_it_makes_a_zone_leaves_no_half_of_it(tmp_path, warehouse, processes):
    """DuckDB does not open a file whose headers are not all there, so no such file may get a zone's name."""
    torn = processes("torn_zone", tmp_path)
    assert [one["ended"] for one in torn] == [-signal.SIGXFSZ] * len(torn)
    assert not warehouse.path(Zone.PUBLIC).exists()
    with warehouse.session(writes=Zone.PUBLIC) as session:
        session.create(Table(Zone.PUBLIC, "s", "t"), "tests/one")
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        assert session.count(Table(Zone.PUBLIC, "s", "t")) == 1
    assert not list(Path(warehouse.folder).glob(".public*")), "nor anything else"


# Messages of errors ----------------------------------------------------------------------------------------

SECRET = "owner-6e29c1"
FAILURES = {
    "tests/cast.sql": "SELECT value::INTEGER AS number FROM {{ source }}",
    "tests/date.sql": "SELECT strptime(value, '%Y') AS year FROM {{ source }}",
    "tests/said.sql": "SELECT error(value) AS nothing FROM {{ source }}",
    "tests/list.sql": "SELECT ('[' || value || ']')::INTEGER[] AS list FROM {{ source }}",
    "tests/code.sql": "SELECT value::ENUM('owner', 'renter') AS tenure FROM {{ source }}",
    "tests/single.sql": "SELECT (SELECT value FROM {{ source }}) || value AS text FROM {{ source }}, range(2)",
    "tests/wrong.sql": "SELECT 'owner-6e29c1' FROM nowhere WHERE 'owner-6e29c1'",
}
USES = {
    "run": lambda session, name: session.run(name, source=UNITS),
    "rows": lambda session, name: session.rows(name, source=UNITS),
    "row": lambda session, name: session.row(name, source=UNITS),
    "arrow": lambda session, name: session.arrow(name, source=UNITS),
    "batches": lambda session, name: list(session.batches(name, 1, source=UNITS)),
    "stage": lambda session, name: session.stage("staged", name, source=UNITS),
    "create": lambda session, name: session.create(Table(Zone.CONFIDENTIAL, "s", "t"), name, source=UNITS),
}


QUICK = [
    (name, use)
    for (row, name), (column, use) in product(enumerate(FAILURES), enumerate(USES))
    if (row - column) % len(USES) < 2
]
"""Every failure with two uses, and every use with two failures."""


@deep_cases(4)
@quick_cases(4)
@pytest.mark.parametrize(("name", "use"), deep_but(QUICK, product(FAILURES, USES)))
def test_a_session_that_sees_confidential_data_quotes_none_of_it(warehouse, texts, name, use):
    # The value stands behind many others, so that it is met only while a result is being fetched.
    make(warehouse, f"SELECT CASE WHEN i = 50000 THEN '{SECRET}' ELSE '1' END AS value FROM range(50001) AS r(i)")
    texts.update(FAILURES)
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session, pytest.raises(WarehouseError) as caught:
        USES[use](session, name.removesuffix(".sql"))
    assert name.removesuffix(".sql") in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_confidential_value_is_not_quoted_by_a_constraint_or_at_commit(warehouse, texts):
    texts["tests/keys.sql"] = "CREATE TABLE {{ table }} (value VARCHAR PRIMARY KEY)"
    texts["tests/insert.sql"] = "INSERT INTO {{ table }} VALUES ($value)"
    table = Table(Zone.CONFIDENTIAL, "main", "keys")
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        session.run("tests/keys", table=table)
        session.run("tests/insert", {"value": SECRET}, table=table)
        with pytest.raises(WarehouseError) as caught:
            session.run("tests/insert", {"value": SECRET}, table=table)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_dagster_records_no_confidential_value_of_a_failed_stage(warehouse, texts):
    make(warehouse, f"SELECT '{SECRET}' AS value")
    texts.update(FAILURES)

    @dg.asset
    def stage(warehouse: Warehouse) -> None:
        with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
            session.rows("tests/cast", source=UNITS)

    with dg.DagsterInstance.ephemeral() as instance:
        run = dg.materialize([stage], resources={"warehouse": warehouse}, instance=instance, raise_on_error=False)
        records = " ".join(str(record) for record in instance.all_logs(run.run_id))
    assert not run.success
    assert "statement tests/cast failed: ConversionException" in records
    assert SECRET not in records


def test_a_session_that_sees_no_confidential_data_says_what_duckdb_says(warehouse, texts):
    table = Table(Zone.PUBLIC, "s", "t")
    make(warehouse, "SELECT 'public-77' AS value", table)
    texts.update(FAILURES)
    with warehouse.session(reads=[Zone.PUBLIC]) as session, pytest.raises(WarehouseError, match="public-77"):
        session.rows("tests/cast", source=table)


# Content versions ------------------------------------------------------------------------------------------


def test_a_content_version_does_not_depend_on_the_order_of_rows_or_on_storage(warehouse):
    rows = "SELECT i, i % 7 AS code, CASE WHEN i % 5 > 0 THEN 'v' || i END AS text FROM range({}) AS r(i)"
    one = version(warehouse, rows.format(5000))
    assert version(warehouse, rows.format(5000) + " ORDER BY hash(i)") == one
    assert version(warehouse, f"{rows.format(2500)} UNION ALL ({rows.format(5000)} WHERE i >= 2500)") == one
    with warehouse.model_copy(update={"threads": 2}).session(reads=[Zone.CONFIDENTIAL]) as session:
        assert session.content_version([UNITS]) == one
    assert version(warehouse, rows.format(4999)) != one
    assert len(bytes.fromhex(one)) == 32


DIFFERENT = {
    "no row": "SELECT 'a' AS x, 'b' AS y WHERE false",
    "one row": "SELECT 'a' AS x, 'b' AS y",
    "the row twice": "SELECT 'a' AS x, 'b' AS y FROM range(2)",
    "the row three times": "SELECT 'a' AS x, 'b' AS y FROM range(3)",
    "values exchanged across columns": "SELECT 'b' AS x, 'a' AS y",
    "columns exchanged": "SELECT 'b' AS y, 'a' AS x",
    "another column name": "SELECT 'a' AS x, 'b' AS z",
    "NULL": "SELECT NULL::VARCHAR AS x, 'b' AS y",
    "NULL elsewhere": "SELECT 'b' AS x, NULL::VARCHAR AS y",
    "the text NULL": "SELECT 'NULL' AS x, 'b' AS y",
    "the mark of NULL": "SELECT '-' AS x, 'b' AS y",
    "empty text": "SELECT '' AS x, 'b' AS y",
    "a space": "SELECT ' ' AS x, 'b' AS y",
    "1 and 23": "SELECT '1' AS x, '23' AS y",
    "12 and 3": "SELECT '12' AS x, '3' AS y",
    "123 and nothing": "SELECT '123' AS x, '' AS y",
    "a length prefix": "SELECT '1:b' AS x, '' AS y",
    "all in one column": "SELECT 'a1:b' AS x",
    "numbers": "SELECT 1::INTEGER AS x, 23::INTEGER AS y",
    "wider numbers": "SELECT 1::BIGINT AS x, 23::BIGINT AS y",
    "decimals": "SELECT 1::DECIMAL(9, 0) AS x, 23::DECIMAL(9, 0) AS y",
    "truth": "SELECT true AS x, false AS y",
    "the texts of truth": "SELECT 'true' AS x, 'false' AS y",
    "two pairs": "SELECT * FROM (VALUES ('a', 'c'), ('b', 'd')) AS r(x, y)",
    "the pairs matched otherwise": "SELECT * FROM (VALUES ('a', 'd'), ('b', 'c')) AS r(x, y)",
    "another pair twice": "SELECT * FROM (VALUES ('a', 'd'), ('a', 'd')) AS r(x, y)",
    "composed é": "SELECT chr(233) AS x, 'b' AS y",
    "decomposed é": "SELECT 'e' || chr(769) AS x, 'b' AS y",
}


@pytest.mark.deep
def test_tables_that_differ_have_different_content_versions(warehouse):
    for key in (None, KEY):
        found = {name: version(warehouse, text, key) for name, text in DIFFERENT.items()}
        for one, other in combinations(DIFFERENT, 2):
            assert found[one] != found[other], (one, other)


@pytest.mark.prove
def test_tables_that_differ_have_different_ordered_versions(warehouse):
    texts = DIFFERENT | {
        "a day": "SELECT DATE '2020-01-02' AS x, 1.5::DECIMAL(18, 4) AS y",
        "another day": "SELECT DATE '2020-01-03' AS x, 1.5::DECIMAL(18, 4) AS y",
        "another decimal": "SELECT DATE '2020-01-02' AS x, 1.6::DECIMAL(18, 4) AS y",
        "decimal zero": "SELECT DATE '2020-01-02' AS x, 0::DECIMAL(18, 4) AS y",
        "no decimal": "SELECT DATE '2020-01-02' AS x, NULL::DECIMAL(18, 4) AS y",
        "a truth": "SELECT true AS x, NULL::BOOLEAN AS y",
        "another truth": "SELECT false AS x, NULL::BOOLEAN AS y",
    }
    found = {}
    for name, text in texts.items():
        make(warehouse, text)
        with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
            found[name] = session.ordered_version([UNITS], KEY)
            assert session.ordered_version([UNITS], KEY) == found[name] != session.ordered_version([UNITS], bytes(32))
    for one, other in combinations(texts, 2):
        assert found[one] != found[other], (one, other)


@pytest.mark.prove
def test_an_ordered_version_is_the_same_after_a_million_rows_were_stored_and_depends_on_their_order(warehouse):
    """Wrong programs: rows that threads deliver in any order, and a batch that is left out."""
    found = []
    for order in ("i", "i", "1500000 - i"):
        make(warehouse, f"SELECT i, (i % 7)::VARCHAR AS x FROM range(1500000) AS r(i) ORDER BY {order}")
        with Warehouse(folder=warehouse.folder, threads=4).session(reads=[Zone.CONFIDENTIAL]) as session:
            found.append(session.ordered_version([UNITS], KEY))
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("large", [0, 10**9])
def test_a_content_version_is_what_its_definition_says(warehouse, monkeypatch, large):
    """Published versions and draw ids depend on it, in every implementation."""
    monkeypatch.setattr("resources.warehouse.LARGE", large)
    make(warehouse, "SELECT * FROM (VALUES (1, 'é:'), (NULL, NULL), (-20, ''), (-20, '')) AS t(x, y)")
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        for key in (None, KEY):
            salt = key.hex() if key else ""
            digests = [sha256((salt + row).encode()).digest() for row in ("1:13:é:", "--", *2 * ["3:-200:"])]
            lanes = [sum(int.from_bytes(digest[first : first + 8], "big") for digest in digests) for first in (0, 8)]
            content = [[UNITS.name, [["x", "INTEGER"], ["y", "VARCHAR"]], [str(number) for number in (4, *lanes)]]]
            message = json.dumps(content, separators=(",", ":")).encode()
            made = hmac.new(key, message, sha256) if key else sha256(message)
            assert session.content_version([UNITS], key) == made.hexdigest()


@quick_cases(1)
@pytest.mark.parametrize("key", [None, KEY, KEY + b"longer"])
def test_a_large_table_has_the_content_version_that_it_would_have_as_a_small_one(warehouse, monkeypatch, key):
    make(
        warehouse, "SELECT i, if(i % 5 > 0, repeat('é', i % 70), NULL) AS text, [i] AS list FROM range(10_000) AS r(i)"
    )
    monkeypatch.setattr("resources.digests.ROWS_HASHED", 2048)
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        small = session.content_version([UNITS], key)
        monkeypatch.setattr("resources.warehouse.LARGE", 1)
        assert session.content_version([UNITS], key) == small


def test_a_content_version_depends_on_the_key_and_only_a_key_makes_it(warehouse):
    text = DIFFERENT["one row"]
    versions = {version(warehouse, text, key) for key in (None, KEY, KEY[::-1], bytes(32))}
    assert len(versions) == 4
    assert version(warehouse, text, KEY) == version(warehouse, text, KEY)


def test_a_content_version_names_its_tables_and_their_order(warehouse):
    named = {name: Table(Zone.PUBLIC, "s", name) for name in ("one", "two")}
    for table in named.values():
        make(warehouse, DIFFERENT["one row"], table)
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        orders = (["one"], ["two"], ["one", "two"], ["two", "one"], ["one", "one"], [])
        found = {session.content_version([named[name] for name in order]) for order in orders}
    assert len(found) == len(orders)


def test_a_content_version_does_not_depend_on_zone_and_schema(warehouse):
    text = DIFFERENT["two pairs"]
    assert version(warehouse, text) == version(warehouse, text, table=Table(Zone.PUBLIC, "elsewhere", UNITS.name))


rows_of_text = st.lists(st.tuples(*2 * [st.none() | st.text(alphabet='a1:-", ', max_size=3)]), max_size=4)


@pytest.mark.deep
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_content_versions_are_equal_exactly_where_the_multisets_of_rows_are(warehouse, data):
    one = data.draw(rows_of_text)
    other = data.draw(st.permutations(one) | rows_of_text)
    found, sorted_ = [], []
    for rows in (one, other):
        with warehouse.session(writes=Zone.PUBLIC) as session:
            first, second = zip(*rows, strict=True) if rows else ((), ())
            lent = session.register(
                "lent", pa.table({"x": pa.array(first, pa.string()), "y": pa.array(second, pa.string())})
            )
            session.create(Table(Zone.PUBLIC, "s", "t"), "tests/copy", source=lent)
            found.append(session.content_version([Table(Zone.PUBLIC, "s", "t")]))
            sorted_.append(session.sorted_version(Table(Zone.PUBLIC, "s", "t"), KEY))
    same = Counter(one) == Counter(other)
    assert (found[0] == found[1]) == (sorted_[0] == sorted_[1]) == same


@pytest.mark.deep
def test_the_version_of_a_sorted_table_tells_tables_apart_and_depends_on_the_key(warehouse):
    found: dict[str, str] = {}
    for name, text in DIFFERENT.items():
        make(warehouse, text)
        with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
            found[name] = session.sorted_version(UNITS, KEY)
            assert len({found[name], session.sorted_version(UNITS, KEY[::-1]), session.sorted_version(UNITS)}) == 3
    for one, other in combinations(found, 2):
        assert found[one] != found[other], (one, other)


def test_the_version_of_a_sorted_table_stays_as_draws_were_charged_with_it(warehouse):
    """The table has the types of SafeTab's counts."""
    make(
        warehouse,
        "SELECT i::UTINYINT AS level, 'r' || i AS region, i::USMALLINT AS one, i::UINTEGER AS two, -i AS three "
        "FROM range(200) AS r(i)",
    )
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert session.sorted_version(UNITS, KEY) == "cfefa8784ecdfbfcd492de8379368c7b076d60f20894f2855f32e0bf15a99238"


def test_a_version_that_another_session_has_computed_is_told_to_nobody_who_does_not_see_the_table(warehouse):
    make(warehouse, "SELECT 1 AS x")
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        session.sorted_version(UNITS, KEY)
        session.ordered_version([UNITS], KEY)
        session.content_version([UNITS], KEY)
        with session.open_sibling([]) as other:
            with pytest.raises(WarehouseError, match="does not see the zone"):
                other.sorted_version(UNITS, KEY)
            with pytest.raises(WarehouseError, match="does not see the zone"):
                other.ordered_version([UNITS], KEY)
            with pytest.raises(WarehouseError, match="does not see the zone"):
                other.content_version([UNITS], KEY)


def test_what_a_sibling_still_reads_is_ended_when_its_block_raises(warehouse):
    """Rows that were read ahead are closed too, which closing the connection alone does not do."""
    make(warehouse, "SELECT i FROM range(20_000) AS r(i)")
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        with suppress(KeyboardInterrupt), session.open_sibling() as sibling:
            batches = sibling.batches("warehouse/all", 2048, source=UNITS)
            next(batches)
            raise KeyboardInterrupt
        with pytest.raises(WarehouseError, match="statement warehouse/all failed"):
            next(batches)
        assert session.count(UNITS) == 20_000


def test_the_version_of_a_sorted_table_does_not_depend_on_order_storage_or_batches(warehouse, monkeypatch):
    rows = "SELECT i, i % 7 AS code, CASE WHEN i % 5 > 0 THEN 'v' || i END AS text FROM range(5000) AS r(i)"
    found = set()
    for order, threads, size in (("i", 1, 1_000_000), ("hash(i)", 2, 1_000_000), ("i", 1, 2048)):
        make(warehouse, f"{rows} ORDER BY {order}")
        monkeypatch.setattr("resources.digests.ROWS_HASHED", size)
        with warehouse.model_copy(update={"threads": threads}).session(reads=[Zone.CONFIDENTIAL]) as session:
            found.add(session.sorted_version(UNITS, KEY))
    assert len(found) == 1
