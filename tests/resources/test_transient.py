"""Claims about servers that are lost for a moment: PostgreSQL and S3. The interrupted work can be repeated.

The servers themselves make the messages that identify the loss, so these tests notice a version with other words.
"""

import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from resources import storage
from resources.ledger import Ledger
from resources.ledger_storage import StorageError
from resources.statements import Table, Zone
from resources.storage import TransientError, find_passing_cause
from resources.warehouse import Session, Warehouse, WarehouseError
from tests.lake import Lake, make_lake
from tests.postgres import CHARGER, LOCKED, PASSWORD, Server, logged_in
from tests.resources.test_ledger import moved, reserve

pytestmark = pytest.mark.deep

SHOWN = Table(Zone.PUBLIC, "village", "shown")
UNITS = Table(Zone.CONFIDENTIAL, "village", "units")
OTHER_ANSWERS = ("refused", "500", "503", "429", "408")
LOST, UNREACHABLE = "the connection to a server was lost", "a server cannot be reached"


@pytest.fixture
def lake(postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A lake with a table in each zone, without repeated attempts."""
    made = make_lake(postgres, tmp_path)
    made.name_services(monkeypatch)
    monkeypatch.setattr(storage, "WAITS", ())
    for table in (SHOWN, UNITS):
        write(made.warehouse(), table, "before")
    return made


def write(warehouse: Warehouse, table: Table, value: str) -> None:
    with warehouse.session(writes=table.zone) as session:
        put(session, table, value)


def put(session: Session, table: Table, value: str) -> None:
    session.create(table, "warehouse/all", source=session.register("values", pa.table({"value": [value]})))


def read(warehouse: Warehouse, table: Table = SHOWN) -> str:
    with warehouse.session(reads=[table.zone]) as session:
        return str(session.row("warehouse/all", source=table)[0])


def transient(act: Callable[[], Any]) -> str:
    """The message about a lost server, without the words of the server, which must never reach a log."""
    with pytest.raises(TransientError) as caught:
        act()
    shown = "".join(traceback.format_exception(caught.value))
    assert "ducklake_" not in shown
    assert "service=" not in shown
    return str(caught.value)


@contextmanager
def stopped(postgres: Server) -> Iterator[None]:
    postgres.control("-m", "immediate", "stop")
    try:
        yield
    finally:
        postgres.control("start", "-l", "/dev/null")


def end_connections(lake: Lake, zone: Zone, waiting: str = "") -> int:
    """End the connections to a catalog, or those that wait for a lock alone; return how many there were."""
    role = lake.role(zone)
    ended = lake.catalogs[zone].run(
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}' {waiting}"
    )
    return len(ended)


@contextmanager
def ended_in(lake: Lake, zone: Zone, tables: str) -> Iterator[None]:
    """Make each reader of a catalog's tables wait, and end its connection."""
    catalog = lake.catalogs[zone]
    with psycopg.connect(host=catalog.folder, dbname=catalog.name, user="postgres") as blocking:
        found = blocking.execute(f"SELECT tablename FROM pg_tables WHERE tablename LIKE '{tables}'".encode())
        for (name,) in found.fetchall():
            blocking.execute(f"LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE".encode())

        def end() -> None:
            while not end_connections(lake, zone, "AND wait_event_type = 'Lock'"):
                time.sleep(0.01)

        ending = threading.Thread(target=end)
        ending.start()
        yield
        ending.join()


@pytest.mark.parametrize("table", [UNITS, pytest.param(SHOWN, marks=pytest.mark.fault)])
def test_a_catalog_that_is_lost_while_it_is_read_or_written_says_nothing_of_the_tables(
    lake: Lake, table: Table
) -> None:
    """Wrong program: raises a different class of error at each moment, which a gate took for a verdict on the
    tables."""
    warehouse, zone = lake.warehouse(), table.zone
    with warehouse.session(reads=[zone]) as session:
        with ended_in(lake, zone, "ducklake%"):
            assert transient(lambda: session.count(table)) == f"statement warehouse/count failed: {LOST}"
        assert session.count(table) == 1
    with warehouse.session(writes=zone) as session:
        with ended_in(lake, zone, "ducklake%"):
            assert transient(lambda: put(session, table, "lost")).endswith(LOST)

        def write_and_lose() -> None:
            with session.transaction():
                put(session, table, "lost")
                assert end_connections(lake, zone)

        assert transient(write_and_lose) == f"statement commit failed: {LOST}"
    assert read(warehouse, table) == "before"
    # While the zone is attached, and while it is searched for computing objects.
    for tables in ("ducklake%", "ducklake_view"):
        with ended_in(lake, zone, tables):
            transient(lambda: read(warehouse, table))


@contextmanager
def full_disk(lake: Lake, zone: Zone) -> Iterator[None]:
    """Make PostgreSQL answer each writer of a catalog as if its disk were full."""
    lake.catalogs[zone].run(
        "CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        """RAISE 'could not extend file "base/16397/16759": No space left on device' USING ERRCODE = 'disk_full'; """
        "END $$; CREATE TRIGGER fill BEFORE INSERT ON ducklake_snapshot EXECUTE FUNCTION fill()"
    )
    yield
    lake.catalogs[zone].run("DROP FUNCTION fill CASCADE")


def test_a_catalog_whose_disk_is_full_says_nothing_of_the_tables(lake: Lake) -> None:
    """Wrong program: a refusal, after which the user must launch the job again."""
    warehouse = lake.warehouse()
    with warehouse.session(writes=Zone.PUBLIC) as session, full_disk(lake, Zone.PUBLIC):
        assert transient(lambda: put(session, SHOWN, "lost")).endswith("the disk of a server is full")
    assert read(warehouse) == "before"


def test_a_server_that_is_back_in_time_is_waited_for(
    lake: Lake, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong programs: make no second attempt, or make one that does not attach the other zone again."""
    warehouse = lake.warehouse()
    with stopped(postgres):
        assert "PostgreSQL cannot be reached" in transient(lambda: read(warehouse))
        attempts = []

        def start(seconds: float) -> None:
            attempts.append(seconds)
            if len(attempts) == 2:
                postgres.control("restart", "-l", "/dev/null")

        monkeypatch.setattr(storage, "WAITS", (0.25, 0.5, 1.0))
        monkeypatch.setattr(storage.time, "sleep", start)
        with warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC) as session:
            session.create(SHOWN, "warehouse/all", source=UNITS)
        assert attempts == [0.25, 0.5]
        monkeypatch.undo()
        postgres.control("-m", "immediate", "stop")


def test_a_refusal_of_the_server_is_none_that_passes(lake: Lake, postgres: Server) -> None:
    """A wrong password is not tried again, and the error does not promise that it passes."""
    warehouse, passwords, services = lake.warehouse(), lake.root / "passwords", lake.root / "services"
    for file, old, new in (
        (passwords, "planted", "wrong"),
        (services, "dbname=", "dbname=no_"),
        (services, "user=", "user=no_"),
        (services, "[stirred_public]", "[other]"),
    ):
        kept = file.read_text()
        file.write_text(kept.replace(old, new))
        with pytest.raises(WarehouseError, match="cannot open the catalog"):
            read(warehouse)
        file.write_text(kept)
    role = lake.role(Zone.PUBLIC)
    postgres.administration.run(f"ALTER ROLE {role} CONNECTION LIMIT 0")
    assert "cannot open the catalog" in transient(lambda: read(warehouse))


def test_what_postgresql_says_of_itself_is_recognized(postgres: Server) -> None:
    """Each message is the server's own. Wrong program: a list with a typing error."""
    database = postgres.migrated()

    def connect(**others: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(host=database.folder, dbname=database.name, user="postgres", **others)

    def cause(act: Callable[[], Any]) -> str | None:
        with pytest.raises(psycopg.Error) as caught:
            act()
        return find_passing_cause(caught.value)

    with connect() as one, connect() as other:
        one.execute("CREATE TABLE numbers AS SELECT 1 AS number UNION SELECT 2")
        one.commit()
        for connection in (one, other):
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute("SELECT * FROM numbers")
        one.execute("UPDATE numbers SET number = 3")
        one.commit()
        assert "at the same time" in (cause(lambda: other.execute("UPDATE numbers SET number = 4")) or "")
        other.rollback()
        other.execute("SET statement_timeout = 1")
        assert "too long" in (cause(lambda: other.execute("SELECT pg_sleep(60)")) or "")
        other.rollback()
        assert cause(lambda: other.execute("SELECT 1 / 0")) is None
        other.rollback()
        # The server ends once all clients have left, and accepts no new one.
        postgres.control("-m", "smart", "-W", "stop")
        while "takes no connection" not in (cause(connect) or ""):
            time.sleep(0.01)
    while cause(connect) != UNREACHABLE:
        time.sleep(0.01)
    postgres.control("start", "-l", "/dev/null")
    assert cause(lambda: psycopg.connect(host="127.0.0.1", port=1)) == UNREACHABLE
    assert cause(lambda: psycopg.connect(host="no-such-host.invalid")) == UNREACHABLE


@contextmanager
def answering(what: str) -> Iterator[str]:
    """The address of an S3 server that refuses connections, drops them, or answers every request with a state."""
    with socket.socket() as server, ExitStack() as opened:
        server.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        if what != "refused":
            server.listen()

            def serve() -> None:
                while True:
                    try:
                        client = server.accept()[0]
                    except OSError:
                        return
                    with client:
                        if what != "dropped":
                            client.recv(1 << 16)
                            client.sendall(f"HTTP/1.1 {what} X\r\nContent-Length: 0\r\n\r\n".encode())

            threading.Thread(target=serve, daemon=True).start()
            opened.callback(lambda: server.shutdown(socket.SHUT_RDWR))
        yield address


@pytest.mark.parametrize("table", [UNITS, pytest.param(SHOWN, marks=pytest.mark.fault)])
@pytest.mark.parametrize("what", ["dropped", "403", *(pytest.param(x, marks=pytest.mark.fault) for x in OTHER_ANSWERS)])
def test_an_s3_server_that_is_lost_says_nothing_of_the_tables_and_one_that_refuses_does(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, table: Table
) -> None:
    made = make_lake(postgres, tmp_path)
    for name, value in {**made.environment, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("resources.warehouse.REQUESTS_REPEATED", 0)
    with answering(what) as address:
        data = {zone: f"s3://lake/{zone}/" for zone in made.data}
        warehouse = made.warehouse(lake=data, object_storage=address)
        if what == "403":
            with pytest.raises(WarehouseError):
                write(warehouse, table, "x")
        else:
            said = transient(lambda: write(warehouse, table, "x"))
            assert said.endswith(f"answers {what}" if what.isdigit() else UNREACHABLE)


def test_a_ledger_whose_server_is_lost_is_none_with_a_problem(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same holds for a ledger that another process holds.

    Wrong programs: give a verdict of the gate `ledger_intact`, or the same error for a wrong password and a lost
    server.
    """
    monkeypatch.delenv("STIRRED_MASTER_KEY", raising=False)
    monkeypatch.setattr(storage, "WAITS", ())
    database = postgres.migrated()
    with logged_in(database.environment()):
        ledger: Ledger = moved(tmp_path)
        reserve(ledger, "first")
        with stopped(postgres):
            for act in (ledger.verify, ledger.entries, lambda: reserve(ledger, "second")):
                assert transient(act).startswith("the ledger's server cannot be reached")
        with ledger._open(to_append=True) as opened:
            database.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{CHARGER}'")
            assert "was lost in entries" in transient(opened.load)
        assert ledger.verify() == ()
        assert reserve(ledger, "second").sequence == 2
        hurried = Ledger(
            warehouse=Warehouse(**dict(ledger.warehouse) | {"patience": 0.1}), custody=ledger.custody, on_server=True
        )
        with ledger._open(to_append=True):
            for act in (hurried.verify, lambda: reserve(hurried, "third")):
                assert "another process has held the ledger for too long" in transient(act)
    with logged_in(database.environment(LOCKED) | {"PGPASSWORD": f"{PASSWORD}!"}), pytest.raises(StorageError):
        ledger.entries()
