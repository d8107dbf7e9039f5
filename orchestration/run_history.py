"""The history of runs, which Dagster keeps in SQLite files by default."""

import atexit
import os
import sqlite3
from collections import OrderedDict
from contextlib import suppress
from threading import Lock
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

_MOST = 4
"""The number of files that are held open: the index, the list of runs, and the events of the latest runs."""

_held: OrderedDict[str, sqlite3.Connection] = OrderedDict()
_lock = Lock()


def hold_history() -> None:
    """From now on, keep each history file open that this process opens, and let no event wait for the disk.

    Dagster opens and closes a file for each event. If no other connection has the file open, SQLite then moves its log
    into it, and waits for the disk several times, which took a quarter of the time of small releases. After a power
    failure, the last events may be missing, but the files are intact, because they have logs.
    """
    if not event.contains(Engine, "connect", _hold):
        event.listen(Engine, "connect", _hold)
        event.listen(Engine, "close", _tell)


def _hold(connection: Any, record: Any) -> None:
    if isinstance(connection, sqlite3.Connection):
        # If this fails, Dagster may still be able to use the file; otherwise it raises its own error.
        with suppress(sqlite3.Error):
            _hold_file(connection, record.info)


def _hold_file(connection: sqlite3.Connection, info: dict[Any, Any]) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        return
    connection.execute("PRAGMA synchronous = NORMAL")
    _, _, path = connection.execute("PRAGMA database_list").fetchone()
    info[_hold] = path
    with _lock:
        if path not in _held:
            _held[path] = sqlite3.connect(path, check_same_thread=False)
            # SQLite opens a file when a statement reads it.
            _held[path].execute("PRAGMA schema_version").fetchone()
        _held.move_to_end(path)
        if len(_held) > _MOST:
            _held.popitem(last=False)[1].close()


def _tell(connection: Any, record: Any) -> None:
    """Dagster's UI shows new events when their file changes; an event in the log alone does not change the file."""
    if _hold in record.info and connection.total_changes:
        with suppress(OSError):
            os.utime(record.info[_hold])


@atexit.register
def _close() -> None:
    # Dagster's threads may still write.
    with _lock:
        for connection in _held.values():
            connection.close()
