"""Storage of the ledger's entries, to which one process at a time appends.

This module has the interface that `ledger` uses, and the storage in a DuckDB file, which is the default. The storage in
a PostgreSQL server is in `ledger_server`. Both have the same fields of the same entries in the same order. `chain` and
`ledger` have the common parts: the links between entries, and the rules of charging.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Protocol

from resources.chain import Entry
from resources.statements import SQL, Table, Zone, quote
from resources.warehouse import Session, Warehouse, WarehouseError

_APPEND = SQL("ledger/append", "INSERT INTO {{ table }} BY NAME SELECT unnest($entry)")
_ADD_DETAILS = SQL("ledger/add_details", "ALTER TABLE {{ table }} ADD COLUMN details VARCHAR")
_MARK_MOVED = SQL("ledger/mark_moved", "ALTER TABLE {{ table }} RENAME TO {{ moved }}")

ENTRIES = Table(Zone.LEDGER, "main", "entries")
MOVED = Table(Zone.LEDGER, "main", "entries_moved_to_server")
"""The table of entries of a file after the ledger was moved. Earlier versions, which do not know servers, find no
entries there."""

_COLUMNS = {field.name: "BIGINT" if field.name == "sequence" else "VARCHAR" for field in fields(Entry)}
_EARLIER_COLUMNS = {name: kind for name, kind in _COLUMNS.items() if name != "details"}
"""The columns of ledgers from before reservations had details. The column `details` is added with the next entry."""

Loaded = tuple[tuple[Entry, ...], tuple[str, ...]]
"""Entries in order, and the problems that make them untrustworthy, each a sentence."""


class StorageError(WarehouseError):
    """The server of the ledger refuses a request or a log-in. The message contains no credential."""


class OpenLedger(Protocol):
    """An open ledger. If it is `locked`, no other process appends to it until it is closed."""

    locked: bool

    def load(self) -> Loaded:
        """All entries, with an unverified chain. The problems are those of the tables with the entries."""

    def append(self, entry: Entry, before_commit: Callable[[], None]) -> None:
        """Append an entry that continues the last one. If this returns, the entry is stored; if this raises, it may be
        stored.

        `before_commit` is called right before the commit.
        """


class FileLedger:
    """An open ledger in a DuckDB file. DuckDB keeps other processes out while a session writes."""

    locked = True

    def __init__(self, session: Session) -> None:
        self._session = session

    def load(self) -> Loaded:
        if self._session.columns(MOVED):
            return (), (f"the entries in {Zone.LEDGER.database} do not count: they were moved to a server",)
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
            self._session.run(_APPEND, {"entry": asdict(entry)}, table=ENTRIES)
            before_commit()

    def mark_moved(self) -> None:
        """Rename the table of entries, so that no process appends to them or counts them. Repeated calls have no
        effect."""
        if not self._session.columns(MOVED):
            with self._session.transaction():
                self._session.run("ledger/create", table=ENTRIES)
                self._session.run(_MARK_MOVED, table=ENTRIES, moved=quote(MOVED.name))


@contextmanager
def open_file(warehouse: Warehouse, *, to_append: bool) -> Iterator[FileLedger]:
    """Open the ledger in the warehouse's zone `ledger`, after other processes have finished appending."""
    reads, writes = ((), Zone.LEDGER) if to_append else ([Zone.LEDGER], None)
    with warehouse.session(reads, writes) as session:
        yield FileLedger(session)
