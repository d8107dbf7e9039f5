"""Storage of a zone of the warehouse: the interface that `warehouse` uses, and the storage in a DuckDB file.

`lake` keeps a zone in Parquet files with a catalog in PostgreSQL. Stages work the same on both: a session attaches
either under the zone's name, and runs the same statements on it.
"""

import logging
import os
import re
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from secrets import token_hex
from typing import Any, ClassVar, TypeVar

import duckdb

from mechanisms.refusal import RefusedError
from resources.faults import OF_CERTIFICATES, name_error
from resources.keyfiles import flush_folder
from resources.statements import SQL, Fragment, Zone, quote, quote_literal, render

ISOLATED: dict[str, Any] = {"autoinstall_known_extensions": False, "autoload_known_extensions": False, "threads": 1}
"""DuckDB loads no extension by itself: all come from `signed_extension`. Without a number of threads, it would start
one for each core of a node of which this process has only a part."""

LOAD = SQL("warehouse/load", "LOAD {{ extension }}")
ATTACH = SQL("warehouse/attach", "ATTACH {{ path }} AS {{ alias }}{% if read_only %} (READ_ONLY){% endif %}")
DETACH = SQL("warehouse/detach", "DETACH {{ alias }}")
_CHECKPOINT = SQL("warehouse/checkpoint", "CHECKPOINT {{ zone }}")

_LOGS = (".wal", ".wal.checkpoint", ".wal.recovery")
"""The suffixes of the logs that DuckDB writes beside a file and reads when it opens the file."""

_UNNOTICED = 3.0
"""The seconds after which a person at a terminal is told the reason for a wait."""

_REMEDY = "Nothing was changed. If the file is damaged, restore it (docs/how-to/back-up.md)"

OpenSession = Callable[..., AbstractContextManager[Any]]

WAITS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""The seconds before each new attempt to open data on an unreachable server: 15.5 in all."""

_PASSING = {
    "a server cannot be reached": re.compile(
        r"Connection refused|No such file or directory(?=\s+Is the server running)|Connection timed out|"
        r"timeout expired|No route to host|Network is unreachable|could not translate host name|failed to resolve host|"
        " error for HTTP "
    ),
    "the connection to a server was lost": re.compile(
        "server closed the connection|no connection to the server|connection to server was lost|"
        "Connection reset by peer|SSL connection has been closed|SSL SYSCALL error|could not (receive|send) data|"
        # DuckDB cannot end a transaction on a connection that was lost.
        'terminating connection|Failed to execute query "(ROLLBACK|COMMIT)"'
    ),
    "a server takes no connection now": re.compile(
        "the database system is|connection slots are reserved|too many (clients|connections)"
    ),
    "a server took too long": re.compile("canceling statement due to"),
    "the disk of a server is full": re.compile(
        r'could not [^"\n]*"(base|global|pg_\w+)/[^"\n]*"[^\n]*: No space left on device', re.IGNORECASE
    ),
    "another process wrote the same table, or made the same schema, at the same time, or too many wrote at once. "
    "Nothing was written": re.compile(
        "Transaction conflict|Exceeded the maximum retry count|could not serialize access|deadlock detected"
    ),
}
"""Transient failures, and parts of messages that show them. DuckDB raises errors of many classes for them."""

_QUOTING = (duckdb.DataError, duckdb.IntegrityError, duckdb.InvalidInputException)
"""Errors whose messages quote values, which could contain any text."""

_BYTES_AT_A_TIME = 1 << 20

T = TypeVar("T")


class WarehouseError(RefusedError):
    """A statement or a file of the warehouse failed. The message never contains confidential data."""


class TransientError(Exception):
    """A server could not be reached, was lost, or was busy with others, which passes by itself.

    This error is no statement about the stored data and no refusal, so no caller may take it for a finding. A read, or
    a write in one transaction, can be tried again. The message never contains confidential data.
    """


class BusyError(TransientError):
    """Another process has held a file or the ledger for too long. Waiting again right away is of no use."""


class NothingWrittenError(WarehouseError):
    """A zone that was never written cannot be read."""


@dataclass(frozen=True)
class Removal:
    """The result of a compaction: the removed files, and their size in bytes as far as it is known."""

    files: int
    size: int


def find_passing_cause(error: Exception) -> str | None:
    """Why a statement failed, in fixed words, if the failure is transient; None otherwise."""
    if isinstance(error, duckdb.HTTPException) and (error.status_code >= 500 or error.status_code in (408, 429)):
        return f"the object storage answers {error.status_code}"
    message = str(error)
    if isinstance(error, _QUOTING) or any(part in message for part in OF_CERTIFICATES):
        return None
    return find_passing_words(message)


def find_passing_words(text: str) -> str | None:
    """The cause of `_PASSING` that a text shows. Errors quote names of tables and columns, so no name may contain such
    a part."""
    return next((cause for cause, parts in _PASSING.items() if parts.search(text)), None)


def keep_trying(attempt: Callable[[], T]) -> T:
    """The result of an attempt that writes all or nothing, repeated after each of `WAITS` if necessary.

    Raises TransientError if the last attempt fails too, and BusyError and any other error at once.
    """
    for seconds in WAITS:
        try:
            return attempt()
        except BusyError:
            raise
        except TransientError:
            time.sleep(seconds)
    return attempt()


FileState = tuple[int, ...] | None
"""The inode number, size and change time of a database file, which show that it was written even if its modification
time is set back; None if a log belongs to it."""


def find_state(file: os.stat_result, logs: Iterable[Path]) -> FileState:
    """The state of a database file with these logs, if they exist."""
    return None if any(log.exists() for log in logs) else (file.st_ino, file.st_size, file.st_ctime_ns)


class HeldFile:
    """The database file of a zone while a session has attached it, so that no other process writes it."""

    def __init__(self, paths: Collection[Path], attached: "FileState", *, read_only: bool) -> None:
        """
        Args:
            paths: the database, and the logs that DuckDB may keep beside it (`DatabaseFile.paths`).
            attached: their state right before DuckDB attached them.
        """
        self._path, *self._logs = paths
        self._attached, self.read_only = attached, read_only
        self._descriptor: int | None = None
        self._version: str | None = None

    @property
    def size(self) -> int:
        """In bytes."""
        return self._path.stat().st_size

    def find_version(self) -> str | None:
        """The SHA-256 of all data committed to the zone, as stored; computed once.

        None if a log belongs to it, or if the file is not the attached one (`Storage.compact`), or was written since:
        DuckDB may continue with data that it had read.
        """
        if self._version is None:
            self._version = self.hash()
        return self._version if self._is_as_attached() else None

    def hash(self) -> str | None:
        """The version, computed again."""
        if not self._is_as_attached():
            return None
        digest, position = sha256(), 0
        while part := os.pread(self._open(), _BYTES_AT_A_TIME, position):
            digest.update(part)
            position += len(part)
        return digest.hexdigest() if self._is_as_attached() else None

    def _is_as_attached(self) -> bool:
        return self._attached is not None and find_state(os.fstat(self._open()), self._logs) == self._attached

    def _open(self) -> int:
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDONLY)
        return self._descriptor

    def close(self) -> None:
        """Call it after the file was detached: if a process closes any descriptor of a file, it loses DuckDB's lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)


class Storage(ABC):
    """The storage of one zone."""

    zone: Zone

    extensions: ClassVar[Collection[str]] = ()
    """The extensions of DuckDB that the storage needs, in the order of loading."""
    shared: ClassVar[bool] = False
    """Whether other processes can write the zone while a session that writes it is open."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the storage in errors."""

    @property
    def catalog(self) -> str:
        """The database under which DuckLake attaches the zone's catalog; empty without a catalog."""
        return ""

    @property
    def paths(self) -> Collection[Path]:
        """The files that a session must reach to attach the zone; none if the zone has no files of its own."""
        return ()

    @property
    def folders(self) -> Collection[str]:
        """The folders that a session must reach after it attached the zone."""
        return ()

    @property
    def on_network(self) -> bool:
        """Whether these folders are on a server."""
        return False

    @abstractmethod
    def holds(self, session: OpenSession) -> bool:
        """Whether the zone was ever written."""

    @abstractmethod
    def attach(self, connection: duckdb.DuckDBPyConnection, *, read_only: bool) -> HeldFile | None:
        """Attach the zone under its name. For writing, a missing zone is created first.

        Returns the file, which no other process writes until it is detached; None if the zone is stored otherwise.

        Raises WarehouseError if the zone cannot be opened or created, or is open to users other than its owner.
        """

    @abstractmethod
    def compact(self, session: OpenSession, age: timedelta) -> Removal:
        """Remove data that were replaced or deleted longer than `age` ago."""


@cache
def signed_extension(name: str) -> Fragment:
    """The path of an extension such as `httpfs`, as a literal, which DuckDB has loaded from its wheel in this process.

    DuckDB checks the extension's signature here, once per process. That takes 50 ms, because it reads the whole file.
    Sessions then find the library in memory and do not check it again.

    Raises:
        WarehouseError: if the extension is not installed for this version of DuckDB, or DuckDB refuses it.
    """
    try:
        folder = files(f"duckdb_extension_{name}") / "extensions" / f"v{duckdb.__version__}"
    except ModuleNotFoundError:
        raise WarehouseError(
            f"DuckDB's extension {name} is not installed. Install Stirred with its extra cluster: pip install "
            "'stirred[cluster]'"
        ) from None
    path = quote_literal(folder / f"{name}.duckdb_extension")
    with closing(duckdb.connect(config=ISOLATED)) as connection:
        try:
            connection.execute(render(LOAD, {"extension": path}))
        except duckdb.Error as error:
            raise WarehouseError(
                f"DuckDB refuses its extension {name}, whose file is missing or has a wrong signature or version: "
                f"{name_error(error)}. Install the extension again"
            ) from None
    return path


def refuse_exposed(what: str, path: Path, remedy: str) -> None:
    """Raise WarehouseError if users other than the owner have any access to a folder or file."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise WarehouseError(f"{what} {path} must be closed to all but its owner ({remedy}); its mode is {mode:04o}")


@dataclass(frozen=True)
class DatabaseFile(Storage):
    """A DuckDB file, which one process at a time can write, and only its owner can access.

    Attributes:
        patience: the number of seconds to wait for a file in use by another process.
    """

    zone: Zone
    path: Path
    patience: float

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def paths(self) -> Collection[Path]:
        """The database and the logs that DuckDB keeps beside it."""
        return [self.path.with_name(f"{self.path.name}{ending}").absolute() for ending in ("", *_LOGS)]

    def holds(self, session: OpenSession) -> bool:
        return self.path.exists()

    def attach(self, connection: duckdb.DuckDBPyConnection, *, read_only: bool) -> HeldFile:
        """As `Storage.attach`. Raises BusyError if another process holds the file for longer than `patience`."""
        if "?" in str(self.path):
            # DuckDB would look for the log of a database `a?b/c.duckdb` in `a.wal?b/c.duckdb`.
            folder = self.path.parent
            raise WarehouseError(f"cannot open {self.path.name}: DuckDB takes no path with `?`, such as {folder}")
        if not read_only:
            self.create()
        path, (_, *logs) = self.path, self.paths
        if read_only and not path.exists():
            raise NothingWrittenError(
                f"nothing has been written to the {self.zone.value} zone yet ({path.name} is missing)"
            )
        for file in (path, *logs):
            if file.exists() and not file.is_file():
                # Opening a named pipe would wait for ever.
                raise WarehouseError(f"cannot open {path.name}: {file} is no file. {_REMEDY}")
            with suppress(FileNotFoundError):
                refuse_exposed("database file", file, "chmod 600")
        alias = quote(self.zone.value)
        text = render(ATTACH, {"path": quote_literal(path), "alias": alias, "read_only": read_only})
        begun, told = time.monotonic(), False
        while True:
            try:
                before = path.stat()
                attached = find_state(before, logs)
                connection.execute(text)
                if path.stat().st_ino == before.st_ino:
                    return HeldFile(self.paths, attached, read_only=read_only)
                # `compact` replaced the file after it was opened here.
                connection.execute(render(DETACH, {"alias": alias}))
            except duckdb.Error as error:
                if "lock on file" not in str(error) and "Unique file handle conflict" not in str(error):
                    reason = f"{name_error(error)} in {path.parent}. {_REMEDY}"
                    raise WarehouseError(f"cannot open {path.name}: {reason}") from None
                waited = time.monotonic() - begun
                if waited > _UNNOTICED and not told:
                    told = True
                    words = f"{path.name} is in use by another process; waiting for at most {self.patience:g} s"
                    logging.getLogger(__name__).warning(words)
                if waited > self.patience:
                    reason = f"another process has held it for over {self.patience:g} s"
                    raise BusyError(f"cannot open {path.name}: {reason}") from None
            time.sleep(0.05)

    def create(self) -> None:
        """Create the file atomically: DuckDB cannot open a file whose creation was interrupted.

        Afterwards no temporary file is left, not even one of a process that was killed or found the disk full.
        """
        path = self.path
        try:
            if not path.exists():
                fresh = path.with_name(f".{path.name}.{token_hex(8)}")
                duckdb.connect(str(fresh), config=ISOLATED).close()
                # Not found: the process that was first has removed it already.
                with suppress(FileExistsError, FileNotFoundError):
                    path.hardlink_to(fresh)
            for left in path.parent.glob(f".{path.name}.*"):
                left.unlink(missing_ok=True)
        except (duckdb.Error, OSError) as error:
            raise WarehouseError(f"{path} cannot be created: {name_error(error)}") from None

    def compact(self, session: OpenSession, age: timedelta) -> Removal:
        """Rewrite the file, so that neither it nor its log has remains of deleted rows of any age.

        The new file takes the place of the old one in one step. Readers of the old one may continue; writers wait. If
        the process is killed, either file is in place, and a copy may be left that the next call overwrites. A file
        system may keep blocks of a deleted file; only an encrypted or overwritten disk does not.
        """
        path = self.path
        # Not named like the temporary files of `create`, which removes those of other processes.
        fresh = path.with_name(f".compacted-{path.name}")
        while True:
            with session(writes=self.zone) as writing:
                writing.run(_CHECKPOINT, zone=quote(self.zone.value))
            with session(reads=[self.zone], folder=path.parent) as reading:
                if path.with_name(f"{path.name}.wal").exists():
                    # Another process wrote in between, and was killed. Its log does not belong to the new file.
                    continue
                fresh.unlink(missing_ok=True)
                reading.copy_zone(self.zone, fresh)
                freed = path.stat().st_size - fresh.stat().st_size
                fresh.replace(path)
                flush_folder(path.parent)
                return Removal(1, max(0, freed))
