"""The warehouse: DuckDB databases under the aliases `confidential`, `public` and `ledger`.

Here belongs opening them, running named statements, writing tables whole or not at all, and the content
hash of a table. What the tables mean belongs in `assets`; the SQL itself in `sql/`.

A session attaches only the zones it names, so that a stage which reads public tables only could not read
confidential ones if it tried. DuckDB lets one process write a file at a time: a session waits for its turn.

The folder and its files are closed to all but their owner, and what a session spills is encrypted under a key that
DuckDB makes for the session and keeps in memory only.
"""

import hmac
import json
import os
import stat
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from secrets import token_hex
from typing import Any

import duckdb
import pyarrow as pa
from dagster import ConfigurableResource

from resources.spill import spill_folder
from resources.statements import Fragment, Table, Zone, identifier, literal, statement

_ISOLATED: dict[str, Any] = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
_SETTINGS = {**_ISOLATED, "temp_file_encryption": True, "allow_unsigned_extensions": True}
"""Every session's: extensions come from `_extension` alone, which has their signature checked."""

Recipe = tuple[str, Mapping[str, Any], Mapping[str, Any]]
"""How a table is made: a statement's name, the values bound in it, and its identifiers."""


class WarehouseError(Exception):
    """A statement or a file of the warehouse failed. The message never holds confidential data."""


class Session:
    """One connection to the zones a stage named; open it with `Warehouse.session`."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, zones: Collection[Zone]) -> None:
        self._connection = connection
        self._zones = frozenset(zones)

    def run(self, name: str, values: Mapping[str, Any] | None = None, /, **names: Any) -> "Session":
        """Run `sql/<name>.sql` with its identifiers filled in and its values bound.

        Raises:
            WarehouseError: if DuckDB refuses. Where the session sees confidential data the message names
                the statement and the kind of failure only, because DuckDB's own words may quote a value.
        """
        self._execute(name, statement(name, names), values)
        return self

    def rows(self, name: str, values: Mapping[str, Any] | None = None, /, **names: Any) -> list[tuple[Any, ...]]:
        """All rows of a statement's result, for results known to be small."""
        with self._guarded(name):
            return self._execute(name, statement(name, names), values).fetchall()

    def row(self, name: str, values: Mapping[str, Any] | None = None, /, **names: Any) -> tuple[Any, ...]:
        """The single row of a statement's result."""
        (row,) = self.rows(name, values, **names)
        return row

    def arrow(self, name: str, values: Mapping[str, Any] | None = None, /, **names: Any) -> pa.Table:
        """A statement's result as an Arrow table."""
        with self._guarded(name):
            return self._execute(name, statement(name, names), values).to_arrow_table()

    def batches(
        self, name: str, rows: int, values: Mapping[str, Any] | None = None, /, **names: Any
    ) -> Iterator[pa.RecordBatch]:
        """A statement's result as record batches of about `rows` rows, never held whole."""
        with self._guarded(name):
            yield from self._execute(name, statement(name, names), values).to_arrow_reader(rows)

    def create(self, table: Table, name: str, values: Mapping[str, Any] | None = None, /, **names: Any) -> None:
        """Replace `table` by a statement's result; if that fails, the table stays as it was."""
        self.run("warehouse/create_schema", zone=identifier(table.zone.value), schema=identifier(table.schema))
        text = f"CREATE OR REPLACE TABLE {table.text} AS\n{statement(name, names)}"
        self._execute(name, text, values)

    def create_view(self, view: Table, name: str, /, **names: Any) -> None:
        """Replace `view` by a statement that is run whenever it is read; it may name tables of its zone only."""
        self._execute(name, f"CREATE OR REPLACE VIEW {view.text} AS\n{statement(name, names)}", None)

    def stage(self, temporary: str, name: str, values: Mapping[str, Any] | None = None, /, **names: Any) -> Fragment:
        """Keep a statement's result as a temporary table of this session; returns its quoted name."""
        address = identifier(temporary)
        text = f"CREATE OR REPLACE TEMPORARY TABLE {address} AS\n{statement(name, names)}"
        self._execute(name, text, values)
        return address

    def register(self, name: str, table: pa.Table) -> Fragment:
        """Show an Arrow table to this session's statements under `name`; returns its quoted name."""
        self._connection.register(name, table)
        return identifier(name)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything written inside becomes visible together, or not at all."""
        self._connection.begin()
        try:
            yield
        except BaseException:
            self._connection.rollback()
            raise
        with self._guarded("commit"):
            self._connection.commit()

    def columns(self, table: Table) -> dict[str, str]:
        """Names and DuckDB types of a table's columns, in order; empty if there is no such table."""
        return dict(
            self.rows(
                "warehouse/columns",
                {"zone": table.zone.value, "schema": table.schema, "table": table.name},
            )
        )

    def count(self, table: Table) -> int:
        """Number of rows of a table."""
        return int(self.row("warehouse/count", table=table)[0])

    def content_version(self, tables: Sequence[Table], key: bytes | None = None) -> str:
        """A content hash of tables as multisets of rows: 64 hexadecimal digits.

        The rows' SHA-256 digests are added up, 128 bits of each (a multiset hash), so neither the order of rows
        nor how DuckDB stores them matters. With a `key` it is an HMAC, which nobody without the key can try
        against guessed data: required for whatever depends on confidential content.

        Args:
            tables: their names without zone and schema, columns, types and rows are hashed, in this order.
            key: at least 32 bytes, or None for tables that anyone may see.
        """
        content = []
        for table in tables:
            columns = self.columns(table)
            row = self.row(
                "warehouse/multiset_hash",
                {"salt": key.hex() if key else ""},
                table=table,
                columns=list(columns),
            )
            content.append([table.name, list(columns.items()), [str(number) for number in row]])
        message = json.dumps(content, separators=(",", ":")).encode()
        return hmac.new(key, message, sha256).hexdigest() if key else sha256(message).hexdigest()

    def _execute(self, name: str, text: str, values: Mapping[str, Any] | None) -> duckdb.DuckDBPyConnection:
        with self._guarded(name):
            return self._connection.execute(text, dict(values) if values else None)

    @contextmanager
    def _guarded(self, name: str) -> Iterator[None]:
        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            if Zone.CONFIDENTIAL in self._zones:
                raise WarehouseError(f"statement {name} failed: {type(error).__name__}") from None
            raise WarehouseError(f"statement {name} failed: {error}") from error


class Warehouse(ConfigurableResource):
    """The DuckDB databases of one deployment.

    Attributes:
        folder: where the database files lie.
        memory_limit: of each session, in DuckDB's notation; beyond it DuckDB spills to disk.
        threads: of each session; 0 for all cores.
        spill_folder: where each session has a folder of its own to spill into; empty for `spill/` inside `folder`.
        patience: seconds a session waits for a database that another process holds.
    """

    folder: str
    memory_limit: str = "2GiB"
    threads: int = 0
    spill_folder: str = ""
    patience: float = 600.0

    def path(self, zone: Zone) -> Path:
        """The file of a zone."""
        return Path(self.folder) / f"{zone.value}.duckdb"

    @contextmanager
    def session(self, reads: Collection[Zone] = (), writes: Zone | None = None) -> Iterator[Session]:
        """Open a connection that sees the named zones and no other. It narrows the umask of the process to 077.

        Args:
            reads: zones attached read-only; each must have been written before.
            writes: the one zone that may be written (a DuckDB transaction writes one database).

        Raises:
            WarehouseError: if a zone to read is missing, if others can read, write or search the folder or a file
                of a zone, or if another process keeps a zone for longer than `patience`.
        """
        _keep_private()
        folder = Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _refuse_exposed("warehouse folder", folder, "chmod 700")
        readable = [zone for zone in reads if zone is not writes]
        with (
            spill_folder(Path(self.spill_folder or folder / "spill")) as spilled,
            closing(duckdb.connect(config=self._config(spilled))) as connection,
        ):
            connection.execute(statement("warehouse/prepare", {"extension": _extension()}))
            for zone in readable:
                self._attach(connection, zone, read_only=True)
            if writes:
                self._found(writes)
                self._attach(connection, writes, read_only=False)
            yield Session(connection, {*readable, *([writes] if writes else [])})

    def _config(self, spilled: Path) -> dict[str, Any]:
        config = {**_SETTINGS, "memory_limit": self.memory_limit, "temp_directory": str(spilled)}
        return {**config, "threads": self.threads} if self.threads else config

    def _found(self, zone: Zone) -> None:
        """Give a zone its file, whole: a process killed while DuckDB makes one would leave what DuckDB never opens."""
        path = self.path(zone)
        if path.exists():
            return
        fresh = path.with_name(f".{path.name}.{token_hex(8)}")
        duckdb.connect(str(fresh)).close()
        with suppress(FileExistsError):
            path.hardlink_to(fresh)
        fresh.unlink()

    def _attach(self, connection: duckdb.DuckDBPyConnection, zone: Zone, *, read_only: bool) -> None:
        path = self.path(zone)
        if read_only and not path.exists():
            raise WarehouseError(f"nothing has been written to the {zone.value} zone yet ({path.name} is missing)")
        for file in (path, path.with_name(f"{path.name}.wal")):
            with suppress(FileNotFoundError):
                _refuse_exposed("database file", file, "chmod 600")
        text = statement(
            "warehouse/attach_read_only" if read_only else "warehouse/attach",
            {"path": literal(path), "alias": identifier(zone.value)},
        )
        deadline = time.monotonic() + self.patience
        while True:
            try:
                connection.execute(text)
                return
            except duckdb.Error as error:
                held = "lock on file" in str(error) or "Unique file handle conflict" in str(error)
                if not held or time.monotonic() > deadline:
                    reason = f"another process holds it for over {self.patience:g} s" if held else str(error)
                    raise WarehouseError(f"cannot open {path.name}: {reason}") from None
            time.sleep(0.05)


@cache
def _extension() -> Fragment:
    """The extension that holds the cipher for what is spilled, as a literal; DuckDB's own cipher only decrypts.

    DuckDB checks its signature here, once in a process: that takes 50 ms, because it reads the whole file. Sessions
    find the library in memory and do not check it again.
    """
    folder = files("duckdb_extension_httpfs") / "extensions" / f"v{duckdb.__version__}"
    path = literal(folder / "httpfs.duckdb_extension")
    with closing(duckdb.connect(config=_ISOLATED)) as connection:
        connection.execute(statement("warehouse/load", {"extension": path}))
    return path


def _keep_private() -> None:
    """Create files for their owner alone from now on: sets the umask of this process to 077, for good.

    DuckDB itself creates databases, logs (`.wal`) and temporary files, whenever it wants to and from threads of its
    own, so no caller can give them a mode. The umask belongs to the whole process: if a session put the old one back
    at its end, a session of another thread would create its next files under that. As nothing widens it again,
    threads cannot disturb each other. What others may read is given its mode file by file (`placement`).
    """
    os.umask(0o077)


def _refuse_exposed(what: str, path: Path, remedy: str) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise WarehouseError(f"{what} {path} must be closed to all but its owner ({remedy}); its mode is {mode:04o}")
