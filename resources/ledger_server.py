"""The entries of the ledger in a PostgreSQL server, and the migrations of its schema `stirred`.

The database itself refuses an entry that does not continue the last one, and any change of an entry; the charging role
can only append. A process locks the table `turns` before it reads the chain and keeps the lock until it closes the
ledger, so that processes append one after the other. Only the charging role can take this lock. All other roles read
without a lock (`ledger` reads the anchor before and after), and cannot make other processes wait. The anchor stays
outside the server, in the custody.

Only libpq gets server, database, role and password, from its environment (PGHOST, PGUSER, PGPASSFILE, PGDATABASE, …).
They are in no setting. Messages of libpq about a failed connection are not repeated, because they may quote them.
`ledger_storage` has the interface, and `ledger` imports this module only where the ledger is on a server.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import astuple, fields
from typing import Any

import psycopg
from psycopg import errors

from resources.chain import Entry
from resources.faults import name_error
from resources.ledger_storage import Loaded, StorageError
from resources.statements import SQL, SQL_FOLDER, render
from resources.storage import BusyError, TransientError, find_passing_cause, keep_trying

_FOLDER = "ledger/server"

# All columns, so that an added column shows.
_ENTRIES = SQL("entries", "SELECT * FROM stirred.entries ORDER BY sequence")
_APPEND = SQL("append", "INSERT INTO stirred.entries VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)")
_APPLIED = SQL("applied", "SELECT coalesce(max(number), 0)::INTEGER FROM stirred.migrations")
_RECORD_MIGRATION = SQL(
    "record_migration", "INSERT INTO stirred.migrations (number, name) VALUES (%(number)s, %(name)s)"
)
_LOCK = SQL("lock", "BEGIN; LOCK TABLE stirred.turns IN EXCLUSIVE MODE")
_LOCK_SHARED = SQL("lock_shared", "BEGIN; LOCK TABLE stirred.turns IN SHARE MODE")
_REQUIRE_LOCK = SQL("require_lock", "SELECT 1")
# A process that lost the connection with its lock just now may still commit.
_AWAIT_COMMITS = SQL("await_commits", "DO 'BEGIN LOCK TABLE stirred.appends IN SHARE MODE; END'")

_COLUMNS = [(field.name, "int8" if field.name == "sequence" else "text") for field in fields(Entry)]

_Connection = psycopg.Connection[tuple[Any, ...]]
_Values = Mapping[str, Any] | Sequence[Any] | None

_LOST = "the connection to the ledger's server was lost"

_PASSING = {
    "08": _LOST,
    "40": _LOST,
    "53": "the ledger's server has too little disk, memory or connections left",
    "57": _LOST,
}
"""Transient failures by class of error: lost connections, conflicts, a server short of resources, and a server that is
stopping or starting."""

_MIGRATE = "let the owner of the schema run stirred ledger migrate"


class ServerLedger:
    """An open ledger in a server.

    Attributes:
        locked: whether other processes wait to append until it is closed.
    """

    def __init__(self, connection: _Connection, locking: _Connection, *, locked: bool) -> None:
        self._connection = connection
        self._locking = locking
        self.locked = locked

    def load(self) -> Loaded:
        with _translate_errors("entries"):
            cursor = _run(self._connection, _ENTRIES)
            if [(column.name, column.type_display) for column in cursor.description or ()] != _COLUMNS:
                return (), ("the table of entries was altered from entry 1 on: its columns are not the ledger's",)
            return tuple(Entry(*row) for row in cursor), ()

    def append(self, entry: Entry, before_commit: Callable[[], None]) -> None:
        try:
            with self._connection.transaction():
                try:
                    _fetch_rows(self._connection, _APPEND, astuple(entry))
                finally:
                    # If this lock was lost, another process may have read the chain before this entry was inserted.
                    _fetch_rows(self._locking, _REQUIRE_LOCK)
                before_commit()
        except psycopg.Error:
            # Only errors of the commit itself remain, because `_fetch_rows` handles its own.
            raise TransientError(
                f"{_LOST} while entry {entry.sequence} was committed; whether "
                "the entry is there, and counts, the ledger says: launch again, which charges nothing twice"
            ) from None


@contextmanager
def open_server(patience: float, *, to_append: bool, kept: bool = False) -> Iterator[ServerLedger]:
    """Open the ledger in the schema `stirred` of the database that libpq's environment names.

    Args:
        patience: the number of seconds to wait while another process has the ledger.
        to_append: whether all other processes are kept out, not only appending ones.
        kept: whether appending processes are already kept out, so that reading takes no lock, for which it would wait
            behind the next appending process.

    Raises:
        BusyError: if another process has the ledger for longer.
        TransientError: if the server cannot be reached.
        StorageError: if the schema has another version, or the role lacks the right to read or append, or has further
            rights.
    """
    with ExitStack() as opened:
        connection = locking = _begin_session(opened, patience)
        version, latest = _read_version(connection), len(_list_migrations())
        if version < latest:
            raise StorageError(
                f"the ledger's schema on the server is number {version}, and this version of Stirred needs number "
                f"{latest}: {_MIGRATE}"
            )
        ((appends, changes, locks),) = _fetch_rows(connection, "rights")
        if to_append:
            if changes:
                raise StorageError(
                    "the role of PGUSER may change entries of the ledger, or what guards them; nothing was charged; "
                    "charge as a role that is a member of stirred_charge alone"
                )
            if not appends:
                raise StorageError(
                    "the role of PGUSER may not append to the ledger; nothing was charged; "
                    "charge as a role that is a member of stirred_charge"
                )
            # In a separate transaction: the anchor is written once more after an entry is committed, and no process may
            # append between the chain and the anchor.
            locking = _begin_session(opened, patience)
            _fetch_rows(locking, _LOCK)
            _fetch_rows(connection, _AWAIT_COMMITS)
        elif locks and not kept:
            _fetch_rows(connection, _LOCK_SHARED)
        yield ServerLedger(connection, locking, locked=locks)


def migrate() -> tuple[str, ...]:
    """Apply every migration that the server does not have yet, each in a separate transaction; return their names.

    The role of libpq's environment becomes the owner of the schema `stirred`. It needs the right to create schemas in
    the database, and to create roles unless `stirred_charge` and `stirred_audit` exist.

    Raises StorageError if the server cannot be reached, refuses a migration, or has a later schema. Earlier migrations
    stay applied.
    """
    names = []
    with closing(_connect()) as connection:
        _fetch_rows(connection, "begin_session", {"patience": "1min"})
        for number, name in enumerate(_list_migrations(), start=1):
            with _translate_errors(f"migration {name}"), connection.transaction():
                _run(connection, "prepare_migration")
                if number > _read_version(connection):
                    _run(connection, f"migrations/{name}")
                    _run(connection, _RECORD_MIGRATION, {"number": number, "name": name})
                    names.append(name)
    return tuple(names)


def _list_migrations() -> list[str]:
    """The names of all migrations in order. Each begins with its number, from 1 without gaps."""
    return sorted(path.stem for path in (SQL_FOLDER / _FOLDER / "migrations").glob("*.sql"))


def _read_version(connection: _Connection) -> int:
    """The number of the last migration that was applied."""
    with _translate_errors("applied"):
        try:
            ((number,),) = _run(connection, _APPLIED)
        except (errors.UndefinedTable, errors.InvalidSchemaName):
            raise StorageError(f"the database of PGDATABASE has no ledger: {_MIGRATE}") from None
        except errors.InsufficientPrivilege:
            raise StorageError(
                "the role of PGUSER may not read the ledger: make it a member of stirred_charge or stirred_audit"
            ) from None
    latest = len(_list_migrations())
    if number > latest:
        raise StorageError(
            f"the ledger's schema on the server is number {number}, which a later version of Stirred made; this "
            f"version knows number {latest}: upgrade Stirred"
        )
    return int(number)


def _begin_session(opened: ExitStack, patience: float) -> _Connection:
    """A connection whose statements wait at most `patience` seconds for a lock. `opened` closes it."""
    connection = opened.enter_context(closing(keep_trying(_connect)))
    _fetch_rows(connection, "begin_session", {"patience": f"{max(1, round(1000 * patience))}ms"})
    return connection


def _connect() -> _Connection:
    try:
        return psycopg.connect(autocommit=True, client_encoding="utf8", application_name="stirred")
    except (psycopg.Error, UnicodeError) as error:
        refusal = TransientError if find_passing_cause(error) else StorageError
        raise refusal(
            "the ledger's server cannot be reached, or refuses the log-in or the database, with the variables of libpq "
            "(PGHOST, PGPORT, PGUSER, PGPASSFILE, PGDATABASE, PGSERVICE, PGSSLMODE, PGSSLROOTCERT); psql with the same "
            "variables shows the reason"
        ) from None


def _run(connection: _Connection, source: str | SQL, values: _Values = None) -> psycopg.Cursor[tuple[Any, ...]]:
    return connection.execute(render(source if isinstance(source, SQL) else f"{_FOLDER}/{source}").encode(), values)


def _fetch_rows(connection: _Connection, source: str | SQL, values: _Values = None) -> list[tuple[Any, ...]]:
    with _translate_errors(str(source)):
        cursor = _run(connection, source, values)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    """Translate the server's refusals of a statement: keep the messages of our own functions, and only the kind of all
    other errors.

    Messages of other errors may name a role, a database or a value.
    """
    try:
        yield
    except errors.LockNotAvailable:
        raise BusyError("another process has held the ledger for too long; nothing was charged; launch again") from None
    except psycopg.Error as error:
        # An error without a state does not come from the server.
        passing = _PASSING.get((error.sqlstate or "08")[:2])
        if passing and isinstance(error, psycopg.OperationalError):
            raise TransientError(f"{passing} in {name}; launch again") from None
        message = error.diag.message_primary if isinstance(error, errors.RaiseException) else None
        raise StorageError(f"the ledger's server refuses {name}: {message or name_error(error)}") from None
