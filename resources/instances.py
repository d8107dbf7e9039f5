"""Instances of DuckDB that a session leaves with nothing in them, for the next session of this process.

A new instance takes 20 ms of processor time, a third of what the stages of a small release take. An attached database
takes one.
"""

import atexit
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock

import duckdb

from resources.statements import SQL, quote, render

_MOST = 4
"""The number of instances that wait for a session: those of the zones that a stage and its gates read and write."""

_LARGEST = 8 << 20
"""Bytes of databases after which an instance is closed, because it keeps hundreds of megabytes that it has freed."""

_ATTACHED = SQL("warehouse/attached", "SELECT database_name, path FROM duckdb_databases() WHERE path IS NOT NULL")
_DETACH = SQL("warehouse/detach", "DETACH {{ alias }}")
_LEFT = SQL(
    "warehouse/left", "SELECT 1 FROM duckdb_tables() UNION ALL SELECT 1 FROM duckdb_views() WHERE NOT internal LIMIT 1"
)

_waiting: OrderedDict[tuple[int, Hashable], tuple[duckdb.DuckDBPyConnection, ExitStack]] = OrderedDict()
_lock = Lock()


@contextmanager
def borrow_instance(
    settings: Hashable, open_instance: Callable[[ExitStack], duckdb.DuckDBPyConnection]
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to an instance with nothing attached, which no other session has.

    It waits for another session if the block ends without an error, and leaves no table and no view but in small
    databases that can be detached. Otherwise it is closed.

    Args:
        settings: what an instance is opened with; only sessions with the same settings have it one after the other.
        open_instance: opens an instance, which is closed with what else belongs to it when the stack is closed.
    """
    # A process that was forked has the instances of its parent without their threads.
    key = (os.getpid(), settings)
    with _lock:
        connection, opened = _waiting.pop(key, (None, ExitStack()))
    with ExitStack() as closing:
        closing.push(opened)
        if connection is None:
            connection = open_instance(opened)
        yield connection
        if _detach_all(connection):
            closing.pop_all()
            _wait(key, connection, opened)


def _detach_all(connection: duckdb.DuckDBPyConnection) -> bool:
    """Detach the databases of an instance, if they are small. Returns whether nothing is left."""
    try:
        attached = connection.execute(render(_ATTACHED)).fetchall()
        if sum(Path(path).stat().st_size for _, path in attached) > _LARGEST:
            return False
        for name, _ in attached:
            connection.execute(render(_DETACH, {"alias": quote(name)}))
        return not connection.execute(render(_LEFT)).fetchall()
    except (duckdb.Error, OSError):
        # Such as a full disk, so that the log stays, as if the instance were closed.
        return False


def _wait(key: tuple[int, Hashable], connection: duckdb.DuckDBPyConnection, opened: ExitStack) -> None:
    with _lock:
        # There may be one already, of a session beside this one.
        surplus = [_waiting.pop(key)] if key in _waiting else []
        _waiting[key] = connection, opened
        if len(_waiting) > _MOST:
            surplus.append(_waiting.popitem(last=False)[1])
    for _, other in surplus:
        other.close()


@atexit.register
def close_waiting() -> None:
    """Close the instances that wait, and remove what belongs to them."""
    with _lock:
        instances = [instance for (process, _), instance in _waiting.items() if process == os.getpid()]
        _waiting.clear()
    for _, opened in instances:
        opened.close()
