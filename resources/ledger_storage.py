"""Where the entries of the ledger are stored, and how one process at a time appends to them.

This module has the interface that `ledger` uses, and the storage in a DuckDB file, which is the default. The storage in
a PostgreSQL server is in `ledger_server`. Both hold the same fields of the same entries in the same order; what an
entry says, how entries are linked, and what may be charged are the same for both, in `chain` and `ledger`.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, fields
from typing import Protocol

from resources.chain import Entry
from resources.statements import SQL, Table, Zone, quote
from resources.warehouse import Session, Warehouse, WarehouseError

_ADD_DETAILS = SQL("ledger/add_details", "ALTER TABLE {{ table }} ADD COLUMN details VARCHAR")
_MARK_MOVED = SQL("ledger/mark_moved", "ALTER TABLE {{ table }} RENAME TO {{ moved }}")

ENTRIES = Table(Zone.LEDGER, "main", "entries")
MOVED = Table(Zone.LEDGER, "main", "entries_moved_to_server")
"""The table of entries of a file after the ledger was moved. Versions that know no server find no entries there."""

_COLUMNS = {field.name: "BIGINT" if field.name == "sequence" else "VARCHAR" for field in fields(Entry)}
_EARLIER_COLUMNS = {name: kind for name, kind in _COLUMNS.items() if name != "details"}
"""The columns of ledgers written before reservations had details. The column is added with the next entry."""

Loaded = tuple[tuple[Entry, ...], tuple[str, ...]]
"""Entries in order, and the problems because of which they cannot be trusted, each a sentence."""


class StorageError(WarehouseError):
    """The server of the ledger refuses something or cannot be reached. The message contains no credential."""


class OpenLedger(Protocol):
    """An open ledger. No other process appends to it until it is closed."""

    def load(self) -> Loaded:
        """All entries. Their chain is not verified; the problems are those of the tables that hold them."""
        ...

    def append(self, entry: Entry, before_commit: Callable[[], None]) -> None:
        """Append an entry. It is there if this returns; if this raises, it is there or not.

        Args:
            entry: the entry, which continues the last one.
            before_commit: called when all but the commit was done.
        """
        ...


class LedgerStorage(Protocol):
    """Where entries are stored. Both methods wait while another process appends."""

    def exists(self) -> bool:
        """Whether there can be entries, so that `open_to_read` makes sense."""
        ...

    def open_to_read(self) -> AbstractContextManager[OpenLedger]: ...

    def open_to_append(self) -> AbstractContextManager[OpenLedger]:
        """Open the ledger for reading and appending, and keep every other process out."""
        ...


class FileLedger:
    """An open ledger in a DuckDB file. DuckDB keeps other processes out while a session writes."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def load(self) -> Loaded:
        if self._session.columns(MOVED):
            return (), (f"entries from 1 on do not count in {Zone.LEDGER.database}: they were moved to a server",)
        columns = self._session.columns(ENTRIES)
        if columns and columns not in (_COLUMNS, _EARLIER_COLUMNS):
            return (), ("the table of entries was altered from entry 1 on: its columns are not the ledger's",)
        rows = self._session.rows("ledger/entries", table=ENTRIES, columns=list(columns)) if columns else []
        return tuple(Entry(*row) for row in rows), ()

    def append(self, entry: Entry, before_commit: Callable[[], None]) -> None:
        with self._session.transaction():
            self._session.run("ledger/create", table=ENTRIES)
            if self._session.columns(ENTRIES) == _EARLIER_COLUMNS:
                self._session.run(_ADD_DETAILS, table=ENTRIES)
            self._session.run("ledger/append", asdict(entry), table=ENTRIES)
            before_commit()

    def mark_moved(self) -> None:
        """Leave the entries where nobody appends to them or counts them. Doing so again changes nothing."""
        if not self._session.columns(MOVED):
            with self._session.transaction():
                self._session.run("ledger/create", table=ENTRIES)
                self._session.run(_MARK_MOVED, table=ENTRIES, moved=quote(MOVED.name))


class FileStorage:
    """The entries in the warehouse's zone `ledger`."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def exists(self) -> bool:
        return self._warehouse.path(Zone.LEDGER).exists()

    @contextmanager
    def open_to_read(self) -> Iterator[FileLedger]:
        with self._warehouse.session(reads=[Zone.LEDGER]) as session:
            yield FileLedger(session)

    @contextmanager
    def open_to_append(self) -> Iterator[FileLedger]:
        with self._warehouse.session(writes=Zone.LEDGER) as session:
            yield FileLedger(session)
