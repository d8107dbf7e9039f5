"""Claims about zones in a lake: access to zones, the state after a failure, deletion, and messages of errors."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pytest

from resources import storage
from resources.custody import Custody
from resources.keyfiles import CustodyError
from resources.lake import LakeZone
from resources.statements import SQL, Table, Zone
from resources.storage import Removal, TransientError
from resources.warehouse import Warehouse, WarehouseError
from tests.depth import deep_cases, quick_cases
from tests.lake import COMPUTING, UNLOGGED, ZONES, Lake, make_lake
from tests.postgres import Server

pytestmark = pytest.mark.deep

UNITS = Table(Zone.CONFIDENTIAL, "village", "units")
SHOWN = Table(Zone.PUBLIC, "village", "shown")
CANARY = "planted-7c01f2e9"


@pytest.fixture
def lake(postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    made = make_lake(postgres, tmp_path)
    made.name_services(monkeypatch)
    return made


@pytest.fixture
def warehouse(lake: Lake) -> Warehouse:
    return lake.warehouse(patience=5.0)


def write(warehouse: Warehouse, table: Table, values: list[Any]) -> None:
    with warehouse.session(writes=table.zone) as session:
        session.create(table, "warehouse/all", source=session.register("values", pa.table({"value": values})))


def read(warehouse: Warehouse, table: Table) -> list[Any]:
    with warehouse.session(reads=[table.zone]) as session:
        return [value for (value,) in session.rows("warehouse/all", source=table)]


def refusal(warehouse: Warehouse, **access: Any) -> str:
    with pytest.raises((WarehouseError, TransientError)) as caught, warehouse.session(**access):
        pass
    return str(caught.value)


def parquet(lake: Lake) -> list[Path]:
    return sorted((lake.root / "lake").rglob("*.parquet"))


# Zones -----------------------------------------------------------------------------------------------------


def test_a_session_sees_the_zones_it_named_and_writes_one(warehouse: Warehouse) -> None:
    """Wrong program: leaves a commit to DuckLake's ten attempts, with which 14 of 48 commits of 16 writers failed."""
    assert not any(warehouse.holds(zone) for zone in ZONES)
    assert "nothing has been written to the public zone yet" in refusal(warehouse, reads=[Zone.PUBLIC])
    for table in (UNITS, SHOWN):
        write(warehouse, table, [table.name])
    assert all(warehouse.holds(zone) for zone in ZONES)
    for table, hidden in ((UNITS, SHOWN), (SHOWN, UNITS)):
        assert read(warehouse, table) == [table.name]
        with warehouse.session(reads=[table.zone]) as session:
            assert session.columns(hidden) == {}
            with pytest.raises(WarehouseError):
                session.count(hidden)
            with pytest.raises(WarehouseError):
                session.create(table, "warehouse/all", source=table)
    with warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC) as session:
        attempts = session._connection.execute("SELECT current_setting('ducklake_max_retry_count')").fetchone()
        assert attempts == (200,)
        with pytest.raises(WarehouseError):
            session.create(UNITS, "warehouse/all", source=SHOWN)
        session.create(SHOWN, "warehouse/all", source=UNITS)
    assert read(warehouse, SHOWN) == ["units"]


def test_a_session_that_reads_sees_one_state_whoever_writes_meanwhile(warehouse: Warehouse) -> None:
    write(warehouse, SHOWN, ["before"])
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        write(warehouse, SHOWN, ["after"])
        write(warehouse, Table(Zone.PUBLIC, "village", "later"), ["after"])
        assert session.rows("warehouse/all", source=SHOWN) == [("before",)]
        assert session.columns(Table(Zone.PUBLIC, "village", "later")) == {}
    assert read(warehouse, SHOWN) == ["after"]


def test_a_table_that_is_held_is_read_once(warehouse: Warehouse) -> None:
    """Wrong programs: read a table that replaced this one after its content version was computed, or that was missing
    then. The copy has the same version, whatever the types of its columns."""
    columns = (
        "'a' AS t, 1::UTINYINT AS u, 2::BIGINT AS b, 3.25::DECIMAL(9, 2) AS d, DATE '2020-02-29' AS day, true AS f"
    )
    listed = SQL("test/listed", f"SELECT {columns}, 0.5::DOUBLE AS real, [1, 2]::INTEGER[] AS list")
    with warehouse.session(writes=SHOWN.zone) as session:
        session.create(SHOWN, listed)
    with warehouse.session(writes=SHOWN.zone) as session:
        before = session.content_version([SHOWN]), session.columns(SHOWN), session.rows("warehouse/all", source=SHOWN)
        absent = Table(Zone.PUBLIC, "village", "absent")
        session.hold([SHOWN, absent])
        for table in (SHOWN, absent):
            write(warehouse, table, ["other"])
        assert session.columns(absent) == {}, "compared and drawn by, it could be two different tables"
        after = session.content_version([SHOWN]), session.columns(SHOWN), session.rows("warehouse/all", source=SHOWN)
        view = Table(Zone.PUBLIC, "village", "view")
        session.create_view(view, "warehouse/all", source=SHOWN)
        assert session.rows("warehouse/all", source=view) == [("other",)], "of what is stored"
    assert after == before


def test_a_state_that_is_compacted_while_a_session_begins_is_no_verdict(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong program: refuses because the state to attach is gone. The session is opened again, at the next state."""
    write(warehouse, SHOWN, ["before"])
    attach = LakeZone._attach_instead

    def attach_late(zone: LakeZone, *given: Any) -> None:
        monkeypatch.setattr(LakeZone, "_attach_instead", attach)
        write(warehouse, SHOWN, ["after"])
        warehouse.compact(Zone.PUBLIC)
        attach(zone, *given)

    monkeypatch.setattr(LakeZone, "_attach_instead", attach_late)
    assert read(warehouse, SHOWN) == ["after"]


def test_a_session_costs_the_same_however_many_tables_there_are(
    lake: Lake, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong programs: DuckDB's list of tables, which fetches the statistics of each, and the lake attached twice."""
    tables = [Table(Zone.PUBLIC, "village", f"t{number}") for number in range(3)]
    for table in tables:
        write(warehouse, table, [1])
    attached: list[bool] = []
    attach = LakeZone._attach
    monkeypatch.setattr(
        LakeZone, "_attach", lambda *given, **how: attached.append(how.get("alone", False)) or attach(*given, **how)
    )
    # A session that read the statistics would wait for them in vain.
    catalog = lake.catalogs[Zone.PUBLIC]
    with psycopg.connect(host=catalog.folder, dbname=catalog.name, user="postgres") as blocking:
        blocking.execute("LOCK TABLE ducklake_table_stats, ducklake_table_column_stats IN ACCESS EXCLUSIVE MODE")
        monkeypatch.setenv("PGOPTIONS", "-c lock_timeout=2s")
        for access, how in (({"reads": [Zone.PUBLIC]}, [True, False]), ({"writes": Zone.PUBLIC}, [False])):
            attached.clear()
            with warehouse.session(**access) as session:
                assert session.tables(Zone.PUBLIC, "village") == {table.name: False for table in tables}
            assert attached == how


@deep_cases(1)
@pytest.mark.parametrize(
    "forged",
    [
        "(one INTEGER, two VARCHAR DEFAULT 5)",
        "(value VARCHAR DEFAULT 5)",
        "(one INTEGER, two VARCHAR DEFAULT (random() * 5)::INTEGER)",
        "(one INTEGER, two VARCHAR DEFAULT current_query())",
        "(value VARCHAR NOT NULL)",
        "(one JSON)",
        "(one STRUCT(one VARCHAR))",
        '("no connection to the server" INTEGER)',
        "(one INTEGER); COMMENT ON TABLE public.village.forged IS 'looked at'",
    ],
)
def test_a_table_that_carries_more_than_columns_is_refused(warehouse: Warehouse, forged: str) -> None:
    """DuckLake itself refuses collations, keys, checks, enumerations, indexes and sequences. Wrong programs: treat
    columns of one name and type as equal in spite of other differences; and mistake a table for a view of its name
    elsewhere."""
    write(warehouse, SHOWN, ["one"])
    with warehouse.session(writes=Zone.PUBLIC) as session:
        session.create_view(Table(Zone.PUBLIC, "town", "forged"), "warehouse/united", tables=[SHOWN], columns=["value"])
    with warehouse.session(writes=Zone.PUBLIC) as session:
        session._connection.execute(f"CREATE TABLE public.village.forged {forged}")
    for access in ({"reads": [Zone.PUBLIC]}, {"writes": Zone.PUBLIC}):
        assert "the catalog of the public zone was altered: Stirred did not write village.forged" in refusal(
            warehouse, **access
        )


def test_the_table_whose_name_is_like_an_error_of_a_server_is_named(warehouse: Warehouse) -> None:
    """Wrong programs: the names of tables are not looked at, or all of them are shown."""
    write(warehouse, SHOWN, ["one"])
    write(warehouse, Table(Zone.PUBLIC, "village", "there is no connection to the server"), ["one"])
    said = refusal(warehouse, reads=[Zone.PUBLIC])
    assert (
        "did not write village.there is no connection to the server, which has a name like an error of a server."
        in said
    )


@deep_cases(2)
@pytest.mark.parametrize(
    "forged",
    [
        "SELECT content FROM read_text('/etc/hostname')",
        "SELECT a.value FROM {DUCKLAKE_CATALOG}.village.shown AS a WHERE random() < 0.5",
        "SELECT upper(a.value) AS value FROM {DUCKLAKE_CATALOG}.village.shown AS a",
        "SELECT a.value, current_query() FROM {DUCKLAKE_CATALOG}.village.shown AS a",
        "SELECT a.value FROM {DUCKLAKE_CATALOG}.village.shown AS a; SELECT 1",
    ],
)
def test_a_view_whose_text_was_altered_in_the_catalog_is_refused(lake: Lake, warehouse: Warehouse, forged: str) -> None:
    """The check reads the text that DuckLake runs. A view that only joins is accepted, as in files."""
    write(warehouse, SHOWN, ["one"])
    view = Table(Zone.PUBLIC, "village", "joined")
    with warehouse.session(writes=Zone.PUBLIC) as session:
        session._connection.execute(f"CREATE VIEW {view.text} AS SELECT a.value FROM public.village.shown AS a")
    assert read(warehouse, view) == ["one"]
    text = forged.replace("'", "''")
    lake.catalog(Zone.PUBLIC, f"UPDATE ducklake_view SET sql = '{text}'")
    for access in ({"reads": [Zone.PUBLIC]}, {"writes": Zone.PUBLIC}):
        with pytest.raises(WarehouseError), warehouse.session(**access):
            pass


@deep_cases(3)
@pytest.mark.parametrize("altered", COMPUTING)
def test_a_catalog_that_computes_what_it_shows_is_refused(lake: Lake, warehouse: Warehouse, altered: str) -> None:
    """Such a catalog could show the gates other files than the publication, whatever DuckDB's catalog contains."""
    write(warehouse, SHOWN, ["one"])
    lake.catalog(Zone.PUBLIC, f"SET ROLE {lake.role(Zone.PUBLIC)}; {altered}")
    for access in ({"reads": [Zone.PUBLIC]}, {"writes": Zone.PUBLIC}):
        assert "the catalog of the public zone (service stirred_public) was altered" in refusal(warehouse, **access)


def test_generated_columns_and_enumerations_are_not_there(warehouse: Warehouse) -> None:
    """The zones do not need them. If DuckLake adds generated columns, the check must recognize them."""
    write(warehouse, SHOWN, ["one"])
    with warehouse.session(writes=Zone.PUBLIC) as session, pytest.raises(duckdb.NotImplementedException):
        session._connection.execute("CREATE TABLE public.village.g (a INTEGER, b INTEGER GENERATED ALWAYS AS (a + 1))")


def test_a_catalog_that_points_at_other_files_shows_none(lake: Lake, warehouse: Warehouse, tmp_path: Path) -> None:
    """An attacker who can write to the public catalog cannot have a file elsewhere published."""
    write(warehouse, SHOWN, ["one"])
    secret = tmp_path / "secret.parquet"
    duckdb.sql("SELECT 'secret' AS value").write_parquet(str(secret))
    lake.catalog(
        Zone.PUBLIC,
        f"UPDATE ducklake_data_file SET path = '{secret}', path_is_relative = false, "
        f"file_size_bytes = {secret.stat().st_size}, footer_size = NULL RETURNING 1",
    )
    with pytest.raises(WarehouseError, match="disabled by configuration"):
        read(warehouse, SHOWN)


def test_a_lake_and_a_file_give_the_same_content_version(lake: Lake, warehouse: Warehouse, tmp_path: Path) -> None:
    """For every type that a table may have."""
    on_files = Warehouse(folder=str(tmp_path / "files"), threads=1)
    text = """SELECT i::BIGINT AS a, -i::SMALLINT AS b, i::HUGEINT * 10::HUGEINT ** 30 AS c, i::UBIGINT AS d,
        (i / 7)::DECIMAL(38, 4) AS e, i / 7 AS f, 'x' || i AS g, i % 2 = 0 AS h, [i, NULL] AS j,
        nullif(i, 3)::UTINYINT AS k, DATE '2020-04-01' + i::INTEGER AS l, chr(i::INTEGER)::BLOB AS answers
        FROM range(5) AS r(i)"""
    versions, sorted_versions = set(), set()
    for store in (warehouse, on_files):
        with store.session(writes=Zone.PUBLIC) as session:
            session._connection.execute(f"CREATE SCHEMA public.village; CREATE TABLE {SHOWN.text} AS {text}")
            versions.add(session.content_version([SHOWN]))
            keys = Table(Zone.PUBLIC, "village", "keys")
            session._connection.execute(f"CREATE TABLE {keys.text} AS SELECT a, g FROM {SHOWN.text}")
            sorted_versions.add(session.sorted_version(keys, bytes(32)))
        with store.session(reads=[Zone.PUBLIC]) as session:
            assert session.content_version([SHOWN]) in versions
    assert len(versions) == len(sorted_versions) == 1


# The confidential catalog and its files ---------------------------------------------------------------------


def test_files_are_encrypted_and_no_other_role_reads_their_keys(lake: Lake, warehouse: Warehouse) -> None:
    write(warehouse, UNITS, [CANARY])
    write(warehouse, SHOWN, ["shown"])
    assert lake.catalog(Zone.CONFIDENTIAL, "SELECT count(*), count(encryption_key) FROM ducklake_data_file") == [(1, 1)]
    assert lake.catalog(Zone.CONFIDENTIAL, "SELECT * FROM ducklake_inlined_data_tables") == []
    (confidential, _) = parquet(lake)
    assert CANARY.encode() not in confidential.read_bytes()
    with pytest.raises(duckdb.Error, match="encrypted"):
        duckdb.read_parquet(str(confidential)).fetchall()
    services = (lake.root / "services").read_text().split("[stirred_public]")
    # The public role at the confidential catalog.
    changed = services[0].replace(f"user={lake.role(Zone.CONFIDENTIAL)}", f"user={lake.role(Zone.PUBLIC)}")
    (lake.root / "services").write_text("[stirred_public]".join([changed, services[1]]))
    said = refusal(warehouse, reads=[Zone.CONFIDENTIAL])
    assert "permission denied for database" in said
    assert "service=" not in said


def test_a_catalog_that_any_role_can_connect_to_is_refused(lake: Lake, warehouse: Warehouse, postgres: Server) -> None:
    postgres.administration.run(f"GRANT CONNECT ON DATABASE {lake.role(Zone.CONFIDENTIAL)} TO PUBLIC")
    assert "must be closed to all roles but its own" in refusal(warehouse, writes=Zone.CONFIDENTIAL)
    assert parquet(lake) == []


def test_no_statement_on_the_confidential_catalog_is_in_the_log_of_its_server(
    lake: Lake, warehouse: Warehouse, postgres: Server
) -> None:
    """Two writers at once are normal: the commit of the second is refused at first and repeated. Wrong program: a
    server that logs the refused statement, with minima, maxima and the keys of files."""
    path = Path(postgres.administration.folder) / "log"
    before = len(path.read_text())
    write(warehouse, UNITS, ["before"])
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session, session.transaction():
        source = session.register("values", pa.table({"value": [CANARY]}))
        session.create(Table(Zone.CONFIDENTIAL, "village", "other"), "warehouse/all", source=source)
        write(warehouse, UNITS, [CANARY])
    # The server is that of other tests too.
    log = path.read_text()[before:]
    assert 'duplicate key value violates unique constraint "ducklake_snapshot_pkey"' in log
    assert CANARY not in log
    assert "INSERT INTO" not in log
    assert len(UNLOGGED) == 6
    role = lake.role(Zone.CONFIDENTIAL)
    for setting in UNLOGGED:
        name = setting.split()[1]
        other = {"log_min_error_statement": "fatal", "log_error_verbosity": "default", "log_statement": "ddl"}
        postgres.administration.run(f"ALTER ROLE {role} SET {name} = {other.get(name, 1)}")
        assert "its server may write statements into its log" in refusal(warehouse, reads=[Zone.CONFIDENTIAL]), name
        postgres.administration.run(f"ALTER ROLE {role} {setting}")
    assert read(warehouse, UNITS) == [CANARY]


def test_a_confidential_catalog_without_encryption_is_refused(lake: Lake, warehouse: Warehouse) -> None:
    write(warehouse, UNITS, ["one"])
    lake.catalog(Zone.CONFIDENTIAL, "UPDATE ducklake_metadata SET value = 'false' WHERE key = 'encrypted' RETURNING 1")
    assert "its files are not encrypted" in refusal(warehouse, reads=[Zone.CONFIDENTIAL])


def test_a_data_folder_that_others_can_read_is_refused(lake: Lake, warehouse: Warehouse) -> None:
    write(warehouse, UNITS, ["one"])
    Path(lake.data["confidential"]).chmod(0o750)
    assert "must be closed to all but its owner (chmod 700)" in refusal(warehouse, reads=[Zone.CONFIDENTIAL])


@pytest.mark.parametrize("wrong", ["password", "server", "data path"])
def test_no_password_and_no_connection_string_is_in_an_error(
    lake: Lake, warehouse: Warehouse, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "WAITS", ())
    for table in (UNITS, SHOWN):
        write(warehouse, table, ["one"])
    passwords, services = lake.root / "passwords", lake.root / "services"
    store = warehouse
    if wrong == "password":
        passwords.write_text(passwords.read_text().replace("planted-password", "planted-password-wrong"))
    elif wrong == "server":
        services.write_text(services.read_text().replace("host=", "host=/nowhere"))
    else:
        store = lake.warehouse(lake={zone: path.replace("/lake/", "/elsewhere/") for zone, path in lake.data.items()})
    for zone in ZONES:
        for access in ({"reads": [zone]}, {"writes": zone}):
            said = refusal(store, **access)
            assert said.startswith(f"cannot open the catalog of the {zone.value} zone (service stirred_{zone.value}): ")
            for secret in ("planted", "service=", lake.role(zone), lake.catalogs[zone].folder, "nowhere"):
                assert secret not in said
    log = Path(lake.catalogs[Zone.PUBLIC].folder) / "log"
    assert "planted-password" not in (log.read_text() if log.exists() else "")


class Echo(BaseHTTPRequestHandler):
    """A server that refuses every request and repeats it in its answer, as S3 servers do."""

    def do_GET(self) -> None:
        body = f"<Error><Code>InvalidAccessKeyId</Code><A>{self.path}</A><B>{self.headers}</B></Error>".encode()
        self.send_response(403, "Forbidden")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


def test_no_key_and_no_address_is_in_an_error_of_an_s3_server(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same holds for the error of an unreachable server."""
    monkeypatch.setattr("resources.warehouse.REQUESTS_REPEATED", 0)
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"):
        monkeypatch.setenv(f"AWS_{name}", f"planted-{name}")
    data = {zone.value: f"s3://planted-bucket-{zone.value}/planted/" for zone in ZONES}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    said = []
    for address in (f"http://127.0.0.1:{server.server_port}", "http://127.0.0.1:1"):
        for table in (SHOWN, UNITS):
            with pytest.raises((WarehouseError, TransientError), match="failed: ") as caught:
                write(lake.warehouse(lake=data, object_storage=address), table, ["planted-value"])
            assert caught.value.__suppress_context__
            said.append(str(caught.value))
    server.shutdown()
    for secret in ("planted", "127.0.0.1", "X-Amz", "AWS4"):
        assert secret not in "".join(said)


# Several processes -------------------------------------------------------------------------------------------

SPAWN = multiprocessing.get_context("spawn")


def write_often(folder: str, lake: dict[str, str], name: str, times: int) -> None:
    warehouse = Warehouse(folder=folder, threads=1, lake=lake)
    for number in range(times):
        write(warehouse, Table(Zone.PUBLIC, "village", name), [number])


@pytest.mark.fault
def test_processes_that_begin_a_lake_and_write_different_tables_do_not_fail(warehouse: Warehouse, lake: Lake) -> None:
    # The first process makes the new catalog. Each process makes its own schema: DuckLake makes each once.
    processes = [SPAWN.Process(target=begin, args=(warehouse.folder, lake.data, f"s{number}")) for number in range(3)]
    assert ended(processes) == [0] * 3
    write(warehouse, SHOWN, ["one"])
    processes = [
        SPAWN.Process(target=write_often, args=(warehouse.folder, lake.data, f"t{number}", 8)) for number in range(3)
    ]
    assert ended(processes) == [0] * 3
    assert [read(warehouse, Table(Zone.PUBLIC, "village", f"t{number}")) for number in range(3)] == [[7]] * 3


def begin(folder: str, lake: dict[str, str], schema: str) -> None:
    write(Warehouse(folder=folder, threads=1, lake=lake), Table(Zone.PUBLIC, schema, "units"), ["one"])


def ended(processes: list[Any]) -> list[int]:
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    return [process.exitcode for process in processes]


def test_of_two_that_write_the_same_table_the_second_fails_whole_and_says_so(warehouse: Warehouse) -> None:
    other = Table(Zone.PUBLIC, "village", "other")
    write(warehouse, SHOWN, ["before"])
    with warehouse.session(writes=Zone.PUBLIC) as session:
        with pytest.raises(TransientError, match="another process wrote the same table"):  # noqa: PT012, SIM117
            with session.transaction():
                session.create(other, "warehouse/all", source=SHOWN)
                session.create(SHOWN, SQL("tests/no_rows", "FROM {{ source }} LIMIT 0"), source=SHOWN)
                write(warehouse, SHOWN, ["the other's"])
        assert session.columns(other) == {}
    assert read(warehouse, SHOWN) == ["the other's"]


def write_and_die(folder: str, lake: dict[str, str]) -> None:
    with Warehouse(folder=folder, threads=1, lake=lake).session(writes=Zone.CONFIDENTIAL) as session:
        source = session.register("values", pa.table({"value": [CANARY]}))
        with session.transaction():
            session.create(UNITS, "warehouse/all", source=source)
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.prove
def test_a_killed_writer_leaves_the_table_as_it_was(warehouse: Warehouse, lake: Lake) -> None:
    write(warehouse, UNITS, ["before"])
    assert ended([SPAWN.Process(target=write_and_die, args=(warehouse.folder, lake.data))]) == [-signal.SIGKILL]
    assert read(warehouse, UNITS) == ["before"]
    before, orphan = parquet(lake)
    assert CANARY.encode() not in before.read_bytes() + orphan.read_bytes()
    assert warehouse.compact(Zone.CONFIDENTIAL).files == 0, "a file of a writer that may still run is kept"
    for path in (before, orphan):
        os.utime(path, (0, 0))
    assert warehouse.compact(Zone.CONFIDENTIAL).files == 1
    assert len(parquet(lake)) == 1
    assert read(warehouse, UNITS) == ["before"]


# Deletion -----------------------------------------------------------------------------------------------------


def test_nothing_is_left_of_what_was_replaced_or_dropped(warehouse: Warehouse, lake: Lake) -> None:
    """Neither a file, nor its key, nor a minimum of its columns, not even in the pages of PostgreSQL."""
    write(warehouse, UNITS, [f"{CANARY}-replaced"])
    write(warehouse, Table(Zone.CONFIDENTIAL, "village__secret", "units"), [f"{CANARY}-dropped"])
    keys = [key for (key,) in lake.catalog(Zone.CONFIDENTIAL, "SELECT encryption_key FROM ducklake_data_file")]
    assert found(lake, [CANARY, *keys]), "the test shows nothing otherwise"
    write(warehouse, UNITS, ["kept"])
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        session.drop_schema(Zone.CONFIDENTIAL, "village__secret")
    assert warehouse.compact(Zone.CONFIDENTIAL, timedelta(days=1)) == Removal(0, 0), "sessions may still read them"
    files = parquet(lake)
    sizes = sum(path.stat().st_size for path in files)
    removed = warehouse.compact(Zone.CONFIDENTIAL)
    (left,) = parquet(lake)
    assert removed == Removal(2, sizes - left.stat().st_size)
    assert not found(lake, [CANARY, *keys])
    assert read(warehouse, UNITS) == ["kept"]
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert "village__secret" not in session.schemas(Zone.CONFIDENTIAL)
    assert warehouse.compact(Zone.CONFIDENTIAL) == Removal(0, 0)


def found(lake: Lake, texts: list[str]) -> set[str]:
    """The files of the confidential catalog's database that contain one of some texts."""
    number = lake.catalog(Zone.CONFIDENTIAL, "SELECT oid FROM pg_database WHERE datname = current_database()")[0][0]
    lake.catalog(Zone.CONFIDENTIAL, "CHECKPOINT; SELECT 1")
    folder = Path(lake.catalog(Zone.CONFIDENTIAL, "SHOW data_directory")[0][0]) / "base" / str(number)
    return {
        path.name for path in folder.iterdir() if path.is_file() for text in texts if text.encode() in path.read_bytes()
    }


# The custody ------------------------------------------------------------------------------------------------


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize("given", [False, True], ids=["key in a file", "key in the environment"])
def test_no_key_is_made_for_a_lake_that_has_tables(
    lake: Lake, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: bool
) -> None:
    """Wrong program: looks only at the volume, which is empty if another one is mounted by mistake.

    A catalog without tables is no evidence: retention makes one in a new deployment.
    """
    monkeypatch.delenv("STIRRED_MASTER_KEY", raising=False)
    if given:
        monkeypatch.setenv("STIRRED_MASTER_KEY", "5a" * 32)

    def custody(volume: str) -> Custody:
        home = tmp_path / volume
        return Custody(folder=str(home / "custody"), databases=str(home / "warehouse"), lake=lake.data)

    new = custody("one")
    warehouse.compact(Zone.CONFIDENTIAL)
    key = new.version_key()
    write(warehouse, UNITS, [CANARY])
    assert new.version_key() == key
    assert not custody("other").anchor()
    with pytest.raises(CustodyError, match=r"the confidential zone in the lake has tables, .* missing.* Restore"):
        custody("other").version_key()
    assert not (tmp_path / "other" / "custody").exists()
    assert new.version_key() == key


# An S3 server -------------------------------------------------------------------------------------------------


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server with a certificate that `office.pem` signed."""
    from tests.object_storage import object_storage

    with object_storage(tmp_path / "s3", authority=tmp_path / "office.pem") as storage:
        for variable, value in storage.environment.items():
            monkeypatch.setenv(variable, value)
        yield storage


def test_zones_on_an_s3_server(lake: Lake, s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong programs: accept a server that anyone could impersonate, or treat a wrong certificate as a lost server."""
    from tests.object_storage import certify

    monkeypatch.delenv("STIRRED_MASTER_KEY", raising=False)
    data = {zone.value: f"s3://{s3.bucket}/{zone.value}/" for zone in ZONES}
    warehouse = lake.warehouse(lake=data, object_storage=s3.address, authorities=str(tmp_path / "office.pem"))
    certify(tmp_path / "other.pem", tmp_path / "unused.pem")
    with monkeypatch.context() as patched:
        patched.setattr("resources.warehouse.REQUESTS_REPEATED", 0)
        for file, said in (
            ("", "no authority"),
            ("other.pem", "no authority"),
            ("services", "is not a file with readable certi"),
        ):
            distrustful = warehouse.model_copy(update={"authorities": file and str(tmp_path / file)})
            in_fixed_words = rf"^statement warehouse/all failed: \w+ \([^:/]*{said}[^:/]*\)$"
            for table in (UNITS, SHOWN):
                with pytest.raises(WarehouseError, match=in_fixed_words):
                    write(distrustful, table, [CANARY])
    write(warehouse, UNITS, [CANARY])
    write(warehouse, SHOWN, ["shown"])
    assert (read(warehouse, UNITS), read(warehouse, SHOWN)) == ([CANARY], ["shown"])
    lost = Custody(folder=str(tmp_path / "lost"), databases=str(tmp_path / "lost too"), lake=data)
    with pytest.raises(CustodyError, match="the confidential zone in the lake has tables"):
        lost.version_key()
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        for elsewhere in (f"s3://{s3.bucket}/confidential/x.parquet", f"{s3.address}/x.parquet", "/etc/hostname"):
            with pytest.raises(duckdb.PermissionException, match="disabled by configuration"):
                session._connection.execute("FROM read_blob($address)", {"address": elsewhere})
    write(warehouse, UNITS, ["later"])
    assert warehouse.compact(Zone.CONFIDENTIAL).files == 1
    assert read(warehouse, UNITS) == ["later"]
    for variable, value in s3.environment.items():
        if "SECRET" in variable:
            monkeypatch.setenv(variable, f"wrong-{value}")
    monkeypatch.setattr("resources.warehouse.REQUESTS_REPEATED", 0)
    for table in (UNITS, SHOWN):
        with pytest.raises(WarehouseError) as caught:
            read(warehouse, table)
        assert not any(value in str(caught.value) for value in s3.secrets)


@pytest.mark.prove
def test_the_extensions_of_the_embedded_deployment_are_not_those_of_a_lake(tmp_path: Path) -> None:
    code = f"""if True:
        import sys
        from resources.statements import Zone
        from resources.warehouse import Warehouse
        with Warehouse(folder={str(tmp_path / "w")!r}).session(writes=Zone.CONFIDENTIAL) as session:
            loaded = session._connection.execute("FROM duckdb_extensions() WHERE loaded").fetchall()
        found = sorted({{"httpfs", "ducklake", "postgres_scanner"}} & {{row[0] for row in loaded}})
        print(found, "psycopg" in sys.modules)
    """
    said = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "['httpfs'] False\n"
