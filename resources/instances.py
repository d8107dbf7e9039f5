"""Empty instances of DuckDB that a session leaves for the next session of this process.

A new instance takes 20 ms of processor time, a third of the time of a small release's stages. Attaching a database
takes 1 ms.
"""

import atexit
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock

import duckdb

from resources.statements import SQL, Fragment, quote, quote_literal, render
from resources.storage import ATTACH, DETACH

_MOST = 4
"""The number of instances that wait for a session: enough for the zones that a stage and its gates read and write."""

LARGEST = 48 << 20
"""The bytes of databases above which an instance is closed, because it holds on to hundreds of freed megabytes."""

_ATTACHED = SQL("warehouse/attached", "SELECT database_name, path FROM duckdb_databases() WHERE path IS NOT NULL")
_USE = SQL("warehouse/use", "USE {{ alias }}")
_SPILLS_INTO = SQL("warehouse/spills_into", "SELECT current_setting('temp_directory')")

_MEMORY, _OTHER = quote("memory"), quote("other memory")
"""DuckDB's own in-memory database, in which statements create objects by default, and its substitute."""

Connections = list[duckdb.DuckDBPyConnection]

_waiting: OrderedDict[tuple[int, Hashable], tuple[Connections, ExitStack]] = OrderedDict()
_lock = Lock()


@contextmanager
def borrow_instance(
    settings: Hashable, open_instance: Callable[[ExitStack], Connections]
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to an instance without attached databases, which no other session uses.

    The connection is closed at the end, with all that belongs to it, such as temporary tables and prepared statements.
    The instance waits for another session if the block ends without an error, its databases are small and can be
    detached, and connections are left. Otherwise it is closed. Its database in memory, which may have tables, views,
    types or macros by then, is replaced by an empty one.

    Args:
        settings: the settings of an instance; only sessions with the same settings reuse it.
        open_instance: opens an instance, and returns connections to it, one for each session. Closing the stack closes
            them and all other resources of the instance.
    """
    # A forked process has the instances of its parent without their threads.
    key = (os.getpid(), settings)
    with _lock:
        connections, opened = _waiting.pop(key, (None, ExitStack()))
    if connections and not Path(connections[-1].execute(render(_SPILLS_INTO)).fetchall()[0][0]).exists():
        # For example, a cleaner removes old files in `/tmp`.
        opened.close()
        connections = None
    with ExitStack() as closing:
        closing.push(opened)
        if connections is None:
            connections = open_instance(opened)
        connection = connections.pop()
        yield connection
        if connections and _detach_all(connection, connections[-1]):
            connection.close()
            closing.pop_all()
            _wait(key, connections, opened)


def _detach_all(connection: duckdb.DuckDBPyConnection, following: duckdb.DuckDBPyConnection) -> bool:
    """Detach the databases of an instance, if they are small, and leave an empty one in memory for a connection.

    Returns whether all are detached.
    """
    try:
        attached = connection.execute(render(_ATTACHED)).fetchall()
        if sum(Path(path).stat().st_size for _, path in attached) > LARGEST:
            return False
        for name, _ in attached:
            connection.execute(render(DETACH, {"alias": quote(name)}))
        # A connection cannot detach the database that it uses.
        _attach_memory(connection, _OTHER)
        connection.execute(render(_USE, {"alias": _OTHER}))
        connection.execute(render(DETACH, {"alias": _MEMORY}))
        following.execute(render(DETACH, {"alias": _OTHER}))
        _attach_memory(following, _MEMORY)
        return True
    except (duckdb.Error, OSError):
        # For example on a full disk, so that the log stays, as if the instance were closed.
        return False


def _attach_memory(connection: duckdb.DuckDBPyConnection, alias: Fragment) -> None:
    connection.execute(render(ATTACH, {"path": quote_literal(":memory:"), "alias": alias, "read_only": False}))


def _wait(key: tuple[int, Hashable], connections: Connections, opened: ExitStack) -> None:
    with _lock:
        # Another session may have left one already.
        surplus = [_waiting.pop(key)] if key in _waiting else []
        _waiting[key] = connections, opened
        own = [each for each in _waiting if each[0] == os.getpid()]
        surplus += [_waiting.pop(each) for each in own[:-_MOST]]
    for _, other in surplus:
        other.close()


@atexit.register
def close_waiting() -> None:
    """Close the waiting instances, and remove their data."""
    with _lock:
        own = [_waiting.pop(key) for key in list(_waiting) if key[0] == os.getpid()]
    for _, opened in own:
        opened.close()
