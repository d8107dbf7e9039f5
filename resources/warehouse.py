"""The warehouse: its zones as DuckDB databases under the aliases `confidential`, `public` and `ledger`.

This module opens them, runs named statements, writes tables atomically, and computes the content version of tables by
`digests`. The stages that define the tables are in `assets`, and the SQL is in `sql/`. `storage` and `lake` keep,
attach, create and compact a zone; `additions` defines the entries that a zone may have.

A session attaches only the zones it names, so that a stage that needs only public tables cannot read confidential ones.

Only their owner can access the folder and its files. Spilled data of a session are encrypted under a key that DuckDB
generates for the session and keeps only in memory.
"""

import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
from dagster import ConfigurableResource
from pydantic import Field, PrivateAttr

from resources.additions import NAME, find_addition
from resources.digests import (
    LARGE,
    Digests,
    add_up_rows,
    count_rows_at_a_time,
    digest_columns,
    hash_content,
    is_plain,
)
from resources.faults import forbid_core_files, name_error
from resources.instances import LARGEST, borrow_instance
from resources.keyfiles import flush_file
from resources.lake import LakeZone
from resources.machine import count_cores
from resources.packed import PACKED
from resources.spill import create_spill_folder
from resources.statements import SQL, Fragment, Table, Zone, quote, quote_literal, render
from resources.storage import (
    ATTACH,
    DETACH,
    ISOLATED,
    LOAD,
    DatabaseFile,
    HeldFile,
    Removal,
    Storage,
    TransientError,
    WarehouseError,
    find_passing_cause,
    find_passing_words,
    keep_trying,
    refuse_exposed,
    signed_extension,
)

_COLUMNS = SQL("warehouse/columns", "DESCRIBE {{ table }}")
# DuckDB numbers the rows of a transaction from a large number on.
_BOUNDS = SQL(
    "warehouse/bounds",
    "SELECT current_setting('threads')::INTEGER, min(rowid), max(rowid), count(*) FROM {{ table }}",
)
_COPY_DATABASE = SQL("warehouse/copy_database", "COPY FROM DATABASE {{ zone }} TO {{ copy }}")
_CREATE_SCHEMA = SQL("warehouse/create_schema", "CREATE SCHEMA IF NOT EXISTS {{ zone }}.{{ schema }}")
_DROP = SQL("warehouse/drop", "DROP {% if view %}VIEW{% else %}TABLE{% endif %} IF EXISTS {{ table }}")
_DROP_SCHEMA = SQL("warehouse/drop_schema", "DROP SCHEMA IF EXISTS {{ zone }}.{{ schema }} CASCADE")
# Columns that are not hashed directly become texts.
_IN_ORDER = SQL("warehouse/in_order", "SELECT {% include 'warehouse/as_plain.sql' %} FROM {{ table }}")
_PLAN = SQL("warehouse/plan", "EXPLAIN SELECT * FROM {{ table }}")
# Up to the size of the buffer, threads compute a result ahead of the one that reads it.
_PREPARE = SQL("warehouse/prepare", "SET streaming_buffer_size = '128MB'")
# Length-prefixed texts ('-' for NULL) are unique to their values, and `concat` leaves NULL out.
_ROW_TEXTS = SQL(
    "warehouse/row_texts",
    "{% set large = true %}SELECT {% include 'warehouse/row_text.sql' %} AS row_text FROM {{ table }}",
)
_SCHEMAS = SQL(
    "warehouse/schemas",
    "SELECT schema_name FROM duckdb_schemas() WHERE database_name = $zone AND NOT internal ORDER BY schema_name",
)
_SORTED = SQL("warehouse/sorted", "SELECT {% include 'warehouse/as_plain.sql' %} FROM {{ table }} ORDER BY ALL")
# FSST takes longest to try. Without it, noise takes half as much space again, and texts take more only if they differ.
_STORE_SIMPLY = SQL("warehouse/store_simply", "SET disabled_compression_methods = 'fsst'")
# The extension `httpfs` is loaded only for its cipher.
_STAY_OFF_NETWORK = SQL(
    "warehouse/stay_off_network", "SET disabled_filesystems = 'HTTPFileSystem,S3FileSystem,HuggingFaceFileSystem'"
)

_BY_STATISTICS = "filter_pushdown,join_filter_pushdown,statistics_propagation,row_group_pruner,top_n"
"""DuckDB's optimizers that skip, count or compute rows from a file's or catalog's statistics about its values."""
_BEFORE_PUSHDOWN = "filter_pullup"
"""An optimizer that turns conditions of joins into filters, and leaves it to `filter_pushdown` to restore the joins."""

_SETTINGS = {**ISOLATED, "temp_file_encryption": True, "allow_unsigned_extensions": True}
"""The settings of every session. Extensions come from `signed_extension` alone, which checks their signature."""

_WITHOUT_STATISTICS = {"disabled_optimizers": f"{_BY_STATISTICS},{_BEFORE_PUSHDOWN}"}
"""With these settings, no statement relies on stored minima, maxima and counts, which a writer of a zone can forge:
every statement reads the same rows as the content version."""

SESSIONS = 32
"""The number of successive sessions for which an instance of DuckDB has connections."""

_CIPHER = "httpfs"
"""The extension with the cipher for spilled data and for an encrypted lake; DuckDB's built-in cipher only decrypts."""

REQUESTS_REPEATED = 7
"""The number of times that DuckDB repeats a request if the S3 server does not answer, or cannot serve it."""

_TURN = 2.0
"""The seconds after which a session is not reused for further reads (`Warehouse.in_turns`)."""

_SMALL = 8 << 20
"""Bytes of databases and sources up to which a session has one thread. If another thread runs a statement, DuckDB's
client polls for its end without a pause, which costs more than two threads save in short statements."""

_BYTES_FOR_A_VALUE = 4
"""The bytes of a file that are hashed in at most a quarter of the time of a table's value."""

_REMEMBERED = 256
"""The number of tables whose digests a process remembers: a few megabytes."""

_ROWS_TOGETHER = 2**14
"""For a part with fewer rows, the statement would take longer than the rows."""

_HEAD = re.compile(rf"CREATE (TEMP )?VIEW ({NAME}\.)?{NAME} AS ")
"""The beginning of a view's text, if its columns are named as in its statement."""

# Arrow's own threads, which read Parquet files.
pa.set_cpu_count(count_cores())

T = TypeVar("T")

Values = Mapping[str, Any] | Iterable[Mapping[str, Any]]
"""The values bound in a statement; several, if a table is made in pieces, one after the other in bounded memory. An
iterator yields each when its piece is made."""

Source = str | SQL
"""The name of a statement's file in `sql/`, or a statement of one line."""

Read = tuple[str, ...]
"""A session's note of an object that its statements read: the kind, such as "table", and the address."""

Recipe = tuple[Source, Values, Mapping[str, Any]]
"""The recipe of a table: its statement, the values bound in it, and its identifiers."""

UNITED = "warehouse/united"
"""The statement that appends the rows of several `tables` with the same `columns`."""

_remembered: OrderedDict[tuple[str, Table], Digests] = OrderedDict()
_remembering = Lock()


class Session:
    """A connection to the zones that a stage named. Open it with `Warehouse.session`."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        zones: Collection[Zone],
        results: dict[Hashable, tuple[Any, frozenset[Read]]] | None = None,
        *,
        shared: bool = False,
        on_servers: bool = False,
        attached: Collection[Zone] | None = None,
        reads: set[Read] | None = None,
        files: Mapping[Zone, HeldFile] = MappingProxyType({}),
    ) -> None:
        """
        Args:
            results: results computed from tables that the session only reads, with the objects read by then; None if
                the session writes.
            shared: whether other processes can write the zone that the session writes, also between its transactions.
            on_servers: whether a zone is on servers, whose messages may quote a role, a key or an address.
            attached: the zones of the connection, which may be more.
            reads: where the session notes the objects that its statements read; sessions can share it.
            files: by zone, the files that no other process writes until the session ends.
        """
        self._connection = connection
        self.zones = frozenset(zones)
        self._attached = frozenset(zones if attached is None else attached)
        self._results = results
        self._reads = set[Read]() if reads is None else reads
        self._files = files
        self._held = dict[Table, Fragment]()
        self._kept = frozenset[Table]()
        self._in_transaction = False
        self.shared = shared
        self._on_servers = on_servers

    def run(self, name: Source, values: Mapping[str, Any] | None = None, /, **names: Any) -> "Session":
        """Run `sql/<name>.sql` with its identifiers filled in and its values bound.

        Raises WarehouseError if the statement fails. If the session sees confidential data, or a zone is on servers,
        the message contains only the statement's name and the kind of failure, because DuckDB's message may quote a
        value or a key.
        """
        self._execute(name, values, names)
        return self

    def rows(self, name: Source, values: Mapping[str, Any] | None = None, /, **names: Any) -> list[tuple[Any, ...]]:
        """All rows of a statement's result, for results known to be small."""
        with self.translate_errors(name):
            return self._execute(name, values, names).fetchall()

    def row(self, name: Source, values: Mapping[str, Any] | None = None, /, **names: Any) -> tuple[Any, ...]:
        (row,) = self.rows(name, values, **names)
        return row

    def arrow(self, name: Source, values: Mapping[str, Any] | None = None, /, **names: Any) -> pa.Table:
        with self.translate_errors(name):
            return self._execute(name, values, names).to_arrow_table()

    def batches(
        self, name: Source, rows: int, values: Mapping[str, Any] | None = None, /, **names: Any
    ) -> Iterator[pa.RecordBatch]:
        """A statement's result as record batches of about `rows` rows; the whole result is never in memory."""
        with self.translate_errors(name):
            yield from self._execute(name, values, names).to_arrow_reader(rows)

    def create(self, table: Table, name: Source, values: Values | None = None, /, **names: Any) -> None:
        """Create or replace a table with a statement's result.

        On failure, the table stays unchanged; for a table made in pieces, this needs a transaction.
        """
        self._require_seen(name, table)
        self.run(_CREATE_SCHEMA, zone=quote(table.zone.value), schema=quote(table.schema))
        copy = self.stage(f"copy of {table}", name, values, **names) if table in self._kept else None
        if copy:
            name, values, names = "warehouse/all", None, {"source": copy}
        self._make("CREATE OR REPLACE TABLE", table.text, name, values, names)
        self._held.pop(table, None)
        if copy:
            self._held[table] = copy

    def create_view(self, view: Table, name: Source, /, **names: Any) -> None:
        """Create or replace `view` with a statement, which may name only tables of the view's zone."""
        self.run(_CREATE_SCHEMA, zone=quote(view.zone.value), schema=quote(view.schema))
        self._execute(name, None, names, f"CREATE OR REPLACE VIEW {view.text} AS\n", as_stored=True)

    def is_view_of(self, view: Table, name: Source, /, **names: Any) -> bool:
        """Whether `view` is the view that `create_view` makes of this statement; the tables it names must exist.

        The grouping of a union is ignored, because DuckDB reads a view back from a file with its tables in pairs.
        """
        temporary = "view as made"
        self._execute(name, None, names, f"CREATE OR REPLACE TEMPORARY VIEW {quote(temporary)} AS\n", as_stored=True)
        stored = self._read_definition(view.zone.value, view.schema, view.name)
        return stored is not None and stored == self._read_definition("temp", "main", temporary)

    def _read_definition(self, database: str, schema: str, view: str) -> list[str] | None:
        """The statement of a view in words, as DuckDB writes them; None if the view does not exist, or renames
        columns."""
        if database != "temp":
            self._reads.add(("view", database, schema, view))
        for (text,) in self.rows("warehouse/view", {"database": database, "schema": schema, "view": view}):
            if head := _HEAD.match(text):
                return str(text[head.end() :]).replace("(", " ").replace(")", " ").split()
        return None

    def keeps_order(self, table: Table) -> bool:
        """Whether the rows come in the same order at every read. Rows of a join come in the order in which threads make
        them."""
        ((_, plan),) = self.rows(_PLAN, table=table)
        return "JOIN" not in plan

    def drop(self, table: Table) -> None:
        """Drop the table or view of that name, if it exists; a table cannot replace a view, nor a view a table."""
        names = {"database": table.zone.value, "schema": table.schema, "view": table.name}
        self._execute(_DROP, None, {"view": bool(self.rows("warehouse/view", names)), "table": table}, as_stored=True)
        self._held.pop(table, None)

    def tables(self, zone: Zone, schema: str) -> dict[str, bool]:
        """The names of the tables and views of a schema, and whether each is a view."""
        self._reads.add(("tables", zone.value, schema))
        return dict(self.rows("warehouse/tables", {"zone": zone.value, "schema": schema}))

    def stage(self, temporary: str, name: Source, values: Values | None = None, /, **names: Any) -> Fragment:
        """Keep a statement's result as a temporary table of this session; return its quoted name."""
        address = quote(temporary)
        self._make("CREATE OR REPLACE TEMPORARY TABLE", address.text, name, values, names)
        return address

    def hold(self, tables: Iterable[Table]) -> None:
        """Read tables of a lake once: this connection, though not its siblings, reads a copy of each from then on.

        Otherwise, an attacker who can write the files of a lake could replace one between two reads, of which only the
        first verifies the seal. A missing table stays missing for this connection, unless the connection creates it.
        """
        for table in tables if self._on_servers else ():
            if table not in self._held:
                copy = f"copy of {table}"
                there = self._describe(table)
                self._held[table] = self.stage(copy, "warehouse/all", source=table) if there else quote(copy)

    def keep(self, tables: Iterable[Table]) -> None:
        """Have `create` keep copies of public tables of a lake, which this connection reads from then on.

        Without copies, an attacker who can write the files could replace one between its creation and its seal.
        """
        if self._on_servers:
            self._kept |= {table for table in tables if table.zone is Zone.PUBLIC}

    def spread(self, tables: Iterable[Table]) -> None:
        """Have all threads read tables that the transaction made in a file, until it ends.

        DuckDB divides only committed rows among threads, so the tables are read as a union of parts.
        """
        for table in tables if self._in_transaction and not self._on_servers else ():
            if "rowid" in map(str.lower, self._describe(table)):
                # Such a column hides DuckDB's numbers of the rows, and may have NULLs, which would be in no part.
                continue
            threads, first, last, rows = self.row(_BOUNDS, table=table)
            if threads > 1 and rows > threads * _ROWS_TOGETHER:
                starts = [first + (last - first) * part // threads for part in range(1, threads)]
                parts = render("warehouse/parts", {"table": table, "starts": starts})
                self._held[table] = Fragment(parts)

    def _make(self, how: str, address: str, name: Source, values: Values | None, names: Mapping[str, Any]) -> None:
        begin = prefix = f"{how} {address} AS\n"
        for bound in [values] if values is None or isinstance(values, Mapping) else values:
            self._execute(name, bound, names, prefix)
            prefix = f"INSERT INTO {address}\n"
        if prefix == begin:
            raise ValueError(f"statement {name}: {address} would be made of no pieces")

    def register(self, name: str, table: pa.Table | pa.RecordBatchReader) -> Fragment:
        """Make an Arrow table, or batches that are read once, available to this session's statements as `name`.

        Returns the quoted name.
        """
        self._connection.register(name, table)
        return quote(name)

    def register_in_turn(self, name: str, parts: Iterable[pa.Table]) -> tuple[Iterator[Mapping[str, Any]], Fragment]:
        """Values for making a table in pieces, each from the next parts, which are then available under a name; and the
        quoted name. Parts with few rows are combined."""

        def register() -> Iterator[Mapping[str, Any]]:
            waiting = list[pa.Table]()
            for part in parts:
                waiting.append(part)
                if sum(map(len, waiting)) >= _ROWS_TOGETHER:
                    self.register(name, pa.concat_tables(waiting))
                    waiting.clear()
                    yield {}
            if waiting:
                self.register(name, pa.concat_tables(waiting))
                yield {}

        return register(), quote(name)

    @contextmanager
    def open_sibling(
        self, zones: Collection[Zone] | None = None, reads: set[Read] | None = None
    ) -> Iterator["Session"]:
        """Another connection to the same content, such as for another thread, without this connection's temporary
        tables.

        It reads the given zones of the session; None for all. It notes the objects that it reads, by default where this
        session does. If the block raises, a statement that another thread still runs is ended.
        """
        with closing(self._connection.cursor()) as connection:
            try:
                yield Session(
                    connection,
                    self.zones if zones is None else zones,
                    self._results,
                    shared=self.shared,
                    on_servers=self._on_servers,
                    attached=self._attached,
                    reads=self._reads if reads is None else reads,
                    files=self._files,
                )
            except BaseException:
                connection.interrupt()
                raise

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything written inside the block together; if the block raises, roll it back."""
        with self.translate_errors("begin"):
            self._connection.begin()
        self._in_transaction = True
        try:
            yield
        except BaseException:
            # After some failures, DuckDB has already rolled back, which it reports as a second failure.
            with suppress(duckdb.Error):
                self._connection.rollback()
            raise
        finally:
            self._in_transaction = False
            if not self._on_servers:
                # Only lakes have copies to keep; the parts of `spread` end with the transaction.
                self._held.clear()
        with self.translate_errors("commit"):
            self._connection.commit()

    def columns(self, table: Table | Fragment) -> dict[str, str]:
        """Names and DuckDB types of a table's columns, in order; empty if there is no such table."""
        if isinstance(table, Fragment):
            return self._describe(table)
        return self.compute_once(("columns", table), partial(self._describe, table)) if table.zone in self.zones else {}

    def _describe(self, table: Table | Fragment) -> dict[str, str]:
        with self.translate_errors(_COLUMNS):
            try:
                described = self._connection.execute(render(_COLUMNS, {"table": self._find_held(table)})).fetchall()
            except (duckdb.CatalogException, duckdb.BinderException):
                # The table does not exist, or is a view of tables that no longer exist.
                return {}
        return {name: kind for name, kind, *_ in described}

    def schemas(self, zone: Zone) -> list[str]:
        self._reads.add(("schemas", zone.value))
        return [name for (name,) in self.rows(_SCHEMAS, {"zone": zone.value})]

    def drop_schema(self, zone: Zone, schema: str) -> None:
        """Delete a schema with its content, if it exists. `Warehouse.compact` removes the remains."""
        self.run(_DROP_SCHEMA, zone=quote(zone.value), schema=quote(schema))

    def copy_zone(self, zone: Zone, path: Path) -> None:
        """Copy the current content of a zone into a new database file, without remains of deleted data."""
        alias = quote(f"copy of {zone.value}")
        self.run(ATTACH, path=quote_literal(path), alias=alias, read_only=False)
        self.run(_COPY_DATABASE, zone=quote(zone.value), copy=alias)
        self.run(DETACH, alias=alias)
        flush_file(path)

    @property
    def only_reads(self) -> bool:
        """Whether the session's content stays the same, so that `compute_once` runs each function once."""
        return self._results is not None

    def compute_once(self, name: Hashable, compute: Callable[[], T]) -> T:
        """The result of a function, which must follow from the stored tables alone.

        If the session only reads, the function runs once for the session and its siblings, for each `name`.
        """
        self._require_seen("once", name)
        if self._results is None:
            return compute()
        if name not in self._results:
            result = compute()
            # These may be more objects than the result depends on, if the session read others before.
            self._results[name] = result, frozenset(self._reads)
        result, reads = self._results[name]
        self._reads |= reads
        return result

    def count(self, table: Table | Fragment) -> int:
        return int(self.row("warehouse/count", table=table)[0])

    def content_version(self, tables: Sequence[Table], key: bytes | None = None) -> str:
        """A content hash of tables as multisets of rows: 64 hexadecimal digits.

        The hash adds up 128 bits of each row's SHA-256 digest (a multiset hash), so neither the order of rows nor
        DuckDB's storage format matters. Names of tables (without zone and schema), columns and types are hashed too.

        Args:
            key: at least 32 bytes, which make the result an HMAC that cannot be tested against guessed data; None for
                tables that anyone may see. Anything that depends on confidential content needs a key.
        """
        return self.version_of_sums([(table, self.content_sums(table, key)) for table in tables], key)

    def content_sums(self, table: Table, key: bytes | None = None) -> tuple[int, ...]:
        """The sums behind the content version of a table: the sums of its parts, added up. With a key, the sums do not
        allow tests of guessed rows either, but show by how much two tables differ."""
        salt = key.hex() if key else ""
        columns = list(self.columns(table))
        return self.compute_once(("sums", table, salt), partial(self.sum_digests, table, columns, salt))

    def version_of_sums(self, sums: Iterable[tuple[Table, Sequence[int]]], key: bytes | None = None) -> str:
        """The content version of tables with these sums."""
        content = [
            [table.name, list(self.columns(table).items()), [str(number) for number in of_table]]
            for table, of_table in sums
        ]
        return hash_content(content, key)

    def sorted_version(self, table: Table, key: bytes | None = None) -> str:
        """As `content_version`, but of one table, with sorted rows and columns hashed one by one.

        For millions of rows, this takes a fraction of the time, but rows that do not fit in memory are sorted on disk.
        """
        return hash_content(self.compute_once(("sorted", table), partial(self._digest_columns, _SORTED, table)), key)

    def hash_sorted(self, table: Table | Fragment) -> str:
        """As `sorted_version` without a key, of a table that may be staged, regardless of its name."""
        return hash_content(self._digest_columns(_SORTED, table)[1:], None)

    def ordered_version(self, tables: Sequence[Table], key: bytes) -> str:
        """As `content_version`, of tables as sequences of rows, in the order in which DuckDB reads them.

        It takes a fraction of the time. Tables with the same version have the same content. Tables with different
        versions may differ only in the order of rows.
        """
        return hash_content([self._digest_in_order(table) for table in tables], key)

    def identify(self, read: Sequence[str]) -> Any:
        """Plain values that identify the content of a noted object; for tables, the digests of their columns in the
        order of rows. Raises ValueError for a kind that sessions do not note.
        """
        match read:
            case ["table", zone, schema, name]:
                table = Table(Zone(zone), schema, name)
                return self.columns(table) and self._digest_in_order(table)
            case ["tables", zone, schema]:
                return self.tables(Zone(zone), schema)
            case ["view", database, schema, view]:
                return self._read_definition(database, schema, view)
            case ["schemas", zone]:
                return self.schemas(Zone(zone))
        raise ValueError("no session notes such a thing")

    def has_lists(self, read: Sequence[str]) -> bool:
        """Whether a noted object is a table with lists, packed or not, which take long to hash."""
        match read:
            case ["table", zone, schema, name]:
                kinds = self.columns(Table(Zone(zone), schema, name)).values()
                return any(kind == PACKED or kind.endswith("]") for kind in kinds)
        return False

    def _digest_in_order(self, table: Table) -> Digests:
        return self.compute_once(("in order", table), partial(self._recall_digests, table))

    def _recall_digests(self, table: Table) -> Digests:
        """The digests of a table in the order of its rows. For a large table in a file, this process remembers the
        digests with the version of the file, which takes less time to compute: a file with that version has the same
        table."""
        file = self._files.get(table.zone)
        with self.translate_errors(_IN_ORDER):
            version = file.find_version() if file and self._is_large_in(file, table) else None
        if not (file and version):
            return self._digest_columns(_IN_ORDER, table)
        with _remembering:
            digests = _remembered.get((version, table))
        if digests is None:
            digests = self._digest_columns(_IN_ORDER, table)
            # A table that a session has just written was not read from the file. If the file has changed meanwhile, in
            # spite of DuckDB's lock, the table may not have been read from it either.
            if file.read_only and file.hash() == version:
                with _remembering:
                    _remembered[version, table] = digests
                    while len(_remembered) > _REMEMBERED:
                        _remembered.popitem(last=False)
        return digests

    def _is_large_in(self, file: HeldFile, table: Table) -> bool:
        """Whether hashing a committed table takes much longer than hashing the whole file."""
        if self._in_transaction and not file.read_only:
            return False
        return self.count(table) * len(self.columns(table)) * _BYTES_FOR_A_VALUE > file.size

    def _digest_columns(self, name: Source, table: Table | Fragment) -> Digests:
        """Name, columns and number of rows of a table, and the digests of its columns, as a statement reads them."""
        columns = self.columns(table)
        # The sorted versions of published tables have decimals as texts.
        plain = {column: is_plain(kind, decimals=name is _IN_ORDER) for column, kind in columns.items()}
        batches = self.batches(name, count_rows_at_a_time(len(columns)), table=table, columns=plain)
        rows, digests = digest_columns(batches, len(columns))
        return table.name if isinstance(table, Table) else "", list(columns.items()), rows, digests

    def sum_digests(self, table: Table | Fragment, columns: list[str], salt: str = "") -> tuple[int, ...]:
        """The number of rows of a table, and the sums of the digests of some columns of each row, after a salt, as in a
        content version. For large tables, this takes less time than in DuckDB."""
        if self.count(table) < LARGE or len(salt) % 64:
            return self.row("warehouse/multiset_hash", {"salt": salt}, table=table, columns=columns)
        batches = self.batches(_ROW_TEXTS, count_rows_at_a_time(1), table=table, columns=columns)
        return add_up_rows(batches, salt)

    def _execute(
        self,
        name: Source,
        values: Mapping[str, Any] | None,
        names: Mapping[str, Any],
        prefix: str = "",
        *,
        as_stored: bool = False,
    ) -> duckdb.DuckDBPyConnection:
        """Run a statement, which may name only tables of the session's zones; `as_stored` reads the tables, never their
        copies."""
        self._require_seen(name, names)
        text = prefix + render(name, names if as_stored else self._find_held(names))
        with self.translate_errors(name):
            return self._connection.execute(text, dict(values) if values else None)

    def _find_held(self, value: Any) -> Any:
        """A value with copies in place of held tables."""
        if not self._held:
            return value
        if isinstance(value, Table):
            return self._held.get(value, value)
        if isinstance(value, Mapping):
            return {name: self._find_held(part) for name, part in value.items()}
        return type(value)(map(self._find_held, value)) if type(value) in (list, tuple) else value

    def _require_seen(self, name: Source, value: object) -> None:
        if isinstance(value, Table):
            if value.zone not in self.zones:
                raise WarehouseError(f"statement {name}: this session does not see the zone of {value}")
            self._reads.add(("table", value.zone.value, value.schema, value.name))
        if isinstance(value, Mapping):
            value = list(value.values())
        if isinstance(value, list | tuple):
            for part in value:
                self._require_seen(name, part)

    @contextmanager
    def translate_errors(self, name: Source) -> Iterator[None]:
        """Raise DuckDB's errors inside the block as WarehouseError, as `run` does."""
        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            if cause := find_passing_cause(error):
                raise TransientError(f"statement {name} failed: {cause}") from None
            of_files = isinstance(error, duckdb.IOException | OSError) and Zone.CONFIDENTIAL not in self.zones
            # For a missing table or column, the message quotes the statement, and names that resemble the missing one.
            of_names = isinstance(error, duckdb.CatalogException | duckdb.BinderException)
            if of_names or self._on_servers or (Zone.CONFIDENTIAL in self._attached and not of_files):
                raise WarehouseError(f"statement {name} failed: {name_error(error)}") from None
            raise WarehouseError(f"statement {name} failed: {error}") from None


class Warehouse(ConfigurableResource):
    """The zones of one deployment, in DuckDB files or in a lake.

    Attributes:
        folder: the folder of the database files.
        memory_limit: the memory limit of each session, in DuckDB's notation; beyond it DuckDB spills to disk.
        threads: the number of threads of each session; 0 for one thread if all its data are small, and all cores
            otherwise.
        spill_folder: the parent of the folders that sessions spill into; empty for `spill/` inside `folder`.
        patience: the number of seconds that a session waits for a database in use by another process.
        lake: the place of the Parquet files of each zone in a lake: a folder, or `s3://bucket/prefix`. All other zones
            are DuckDB files.
        object_storage: the address of the S3 server, such as `http://host:8333`; empty for Amazon's.
        authorities: the file with the certificates of the authorities that may sign the S3 server's certificate; empty
            for the system's.
        by_statistics: whether statements skip rows by stored minima, maxima and counts (see `relying_on_statistics`).
    """

    folder: str
    memory_limit: str = "2GiB"
    threads: int = 0
    spill_folder: str = ""
    patience: float = 600.0
    lake: dict[str, str] = Field(default_factory=dict)
    object_storage: str = ""
    authorities: str = ""
    by_statistics: bool = False

    def relying_on_statistics(self) -> "Warehouse":
        """This warehouse, for tables that are too large to be read completely for each of their pieces.

        An attacker who can write a zone could forge its stored minima, maxima and counts, and so hide rows from
        statements.
        """
        return Warehouse(**{**dict(self), "by_statistics": True})

    @property
    def is_held(self) -> bool:
        """Whether all sessions read the same content (`snapshot`)."""
        return False

    def noting(self, reads: set[Read]) -> "Warehouse":
        """This warehouse, which must be held, with sessions that note the objects that they read."""
        raise ValueError("what changes between two sessions is not noted")

    def path(self, zone: Zone) -> Path:
        return Path(self.folder) / zone.database

    def holds(self, zone: Zone) -> bool:
        """Whether a zone was ever written. Raises WarehouseError if a zone in a lake cannot be opened."""
        return self._storage(zone).holds(self.session)

    @contextmanager
    def session(
        self,
        reads: Collection[Zone] = (),
        writes: Zone | None = None,
        folder: Path | None = None,
        source_bytes: int | None = None,
    ) -> Iterator[Session]:
        """Open a connection to only the named zones. This sets the umask of the process to 077, and prevents core files
        of its crashes.

        Zones that are read stay the same until the session ends: no process writes a file meanwhile, and a lake is read
        in its state at the beginning.

        Args:
            reads: zones that are attached read-only; each must have been written before.
            writes: the one zone that can be written (a DuckDB transaction writes only one database).
            folder: the one folder whose files statements can read and write. Without it, none if the public zone is
                attached: a writer of the public database could leave a view there that reads a key.
            source_bytes: the size of the source that fills the confidential zone; None if it is not known.

        Raises:
            TransientError: if a server cannot be reached after several tries, or another process holds a zone for
                longer than `patience`.
            WarehouseError: if a zone to read is missing or cannot be read; if a folder or file cannot be written; if
                users other than the owner have any access to the folder or to the storage of a zone; or if DuckDB
                refuses a setting or an extension.
        """
        storages = [self._storage(zone) for zone in reads if zone is not writes]
        written = [self._storage(writes)] if writes else []
        threads = self.threads or self._count_threads(storages, written, folder, source_bytes)
        opened, session = keep_trying(partial(self._open, storages, written, folder, threads))
        with opened:
            yield session

    def _open(
        self, storages: Sequence[Storage], written: Sequence[Storage], folder: Path | None, threads: int
    ) -> tuple[ExitStack, Session]:
        """A session, and the stack to close after it. Errors: see `session`."""
        zones = {storage.zone for storage in (*storages, *written)}
        with ExitStack() as opened:
            connection, held = opened.enter_context(self._attach(storages, written, folder, threads))
            session = Session(
                connection,
                zones,
                None if written else {},
                shared=any(storage.shared for storage in written),
                on_servers=any(storage.shared for storage in (*storages, *written)),
                files=held,
            )
            with session.translate_errors("warehouse/carried"):
                _refuse_additions(connection, [*storages, *written])
            return opened.pop_all(), session

    def _count_threads(
        self, read: Sequence[Storage], written: Sequence[Storage], folder: Path | None, source_bytes: int | None
    ) -> int:
        """One thread if all data that a session reads are small; all cores if not, or if their size is not known."""
        storages = [*read, *written]
        fills = written and (folder or [storage.zone for storage in storages] == [Zone.CONFIDENTIAL])
        if (fills and source_bytes is None) or not all(storage.paths for storage in storages):
            return count_cores()
        sizes = (_measure(path) for storage in storages for path in storage.paths)
        return 1 if sum(sizes) + (source_bytes or 0) <= _SMALL else count_cores()

    @contextmanager
    def snapshot(self, reads: Collection[Zone], folder: Path | None = None) -> Iterator["Warehouse"]:
        """This warehouse, with zones that stay the same until the block ends. Parameters and errors: see `session`."""
        with self.session(reads=reads, folder=folder) as session:
            snapshot = _WarehouseSnapshot(**dict(self))
            snapshot.take(session, folder)
            yield snapshot

    @contextmanager
    def in_turns(self) -> Iterator["Warehouse"]:
        """This warehouse, for a stage that reads the public zone often and briefly, and writes in between.

        Sessions that read only the public zone are connections beside a shared session. The shared session ends with
        the first of them that ends after `_TURN`, before a session of another kind, and with the block. A stage that
        does other work must not leave the shared session open meanwhile, because an open session keeps other processes
        from writing.
        """
        turns = _WarehouseInTurns(**dict(self))
        try:
            yield turns
        finally:
            turns.end_turn()

    @contextmanager
    def private_folder(self) -> Iterator[Path]:
        """A new folder for the parts of public tables (`open_part`), with mode 0700.

        It is removed when the block ends, or, if the process is killed, when another process opens a session or such a
        folder. Raises WarehouseError if it cannot be created.
        """
        _keep_private()
        with ExitStack() as opened:
            try:
                folder = opened.enter_context(create_spill_folder(self._spill))
            except OSError as error:
                raise WarehouseError(f"{error.filename or self._spill} cannot be written ({error.strerror})") from None
            yield folder.absolute()

    @property
    def _spill(self) -> Path:
        return Path(self.spill_folder or Path(self.folder) / "spill")

    def compact(self, zone: Zone, age: timedelta = timedelta()) -> Removal:
        """Remove permanently the data that were deleted or replaced in a zone longer than `age` ago.

        A file is rewritten completely. In a lake, files and their keys are deleted, and a session that has been open
        for longer than `age` may fail. Raises TransientError if another process holds the zone for over `patience`.
        """
        return self._storage(zone).compact(self.session, age)

    def _storage(self, zone: Zone) -> Storage:
        if data := self.lake.get(zone.value):
            return LakeZone(zone, data, self.patience)
        return DatabaseFile(zone, self.path(zone), self.patience)

    @contextmanager
    def _attach(
        self, read: Sequence[Storage], written: Sequence[Storage], folder: Path | None, threads: int
    ) -> Iterator[tuple[duckdb.DuckDBPyConnection, Mapping[Zone, HeldFile]]]:
        """A connection with these zones attached, which reaches no other files if it is confined (see `session`), and
        by zone the files that are read."""
        _keep_private()
        # Always in one order, so that two processes never each hold a file for which the other waits.
        home, storages = Path(self.folder), sorted([*read, *written], key=lambda storage: storage.zone)
        try:
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            refuse_exposed("warehouse folder", home, "chmod 700")
        except OSError as error:
            raise WarehouseError(f"{error.filename or home} cannot be written ({error.strerror})") from None
        confinement, paths = "", [path for storage in storages for path in storage.paths]
        if folder or any(storage.zone is Zone.PUBLIC for storage in storages):
            folders = [
                *(place for storage in storages for place in storage.folders),
                *([folder.absolute()] if folder else []),
            ]
            confinement = render("warehouse/confine", {"folders": _quote_list(folders), "paths": _quote_list(paths)})
        held = dict[Zone, HeldFile]()
        with ExitStack() as opened:
            # It ends after they were detached.
            after = opened.enter_context(ExitStack())
            if in_files := all(storage.paths for storage in storages):
                settings = (self.memory_limit, threads, self.by_statistics, self._spill, confinement)
                # The next session is of another folder, or a large instance is closed.
                alone = folder or sum(map(_measure, paths)) > LARGEST
                open_instance = partial(self._open_instance, storages, 1 if alone else SESSIONS, confinement, threads)
                connection = opened.enter_context(borrow_instance(settings, open_instance))
            else:
                # A confined session cannot attach a zone on a server, so it is confined after attaching.
                connection = self._open_instance(storages, 1, "", threads, opened).pop()
            for storage in storages:
                if file := storage.attach(connection, read_only=storage in read):
                    held[storage.zone] = file
                    after.callback(file.close)
            if confinement and not in_files:
                try:
                    connection.execute(confinement)
                except duckdb.Error as error:
                    raise WarehouseError(f"DuckDB cannot confine a session: {name_error(error)}") from None
            yield connection, held

    def _open_instance(
        self, storages: Sequence[Storage], sessions: int, confinement: str, threads: int, opened: ExitStack
    ) -> list[duckdb.DuckDBPyConnection]:
        """Connections to a new instance of DuckDB, with the extensions that the storages need and without attached
        databases."""
        try:
            spill_folder = opened.enter_context(create_spill_folder(self._spill))
        except OSError as error:
            raise WarehouseError(f"{error.filename or self._spill} cannot be written ({error.strerror})") from None
        needed = dict.fromkeys([_CIPHER, *(name for storage in storages for name in storage.extensions)])
        try:
            settings = {
                **_SETTINGS,
                "memory_limit": self.memory_limit,
                "temp_directory": str(spill_folder),
                "threads": threads,
            }
            if not self.by_statistics:
                settings |= _WITHOUT_STATISTICS
            connection = opened.enter_context(closing(duckdb.connect(config=settings)))
            for extension in needed:
                connection.execute(render(LOAD, {"extension": signed_extension(extension)}))
            connection.execute(render(_STORE_SIMPLY))
            # A confined instance accepts no settings, not even for a connection. With one thread, no result is computed
            # ahead.
            connections = [opened.enter_context(closing(connection.cursor())) for _ in range(sessions)]
            if threads > 1:
                for each in connections:
                    each.execute(render(_PREPARE))
            if any(storage.on_network for storage in storages):
                # DuckDB itself reads the keys and the region from the environment.
                scheme, _, host = self.object_storage.rpartition("://")
                server = {"host": quote_literal(host.rstrip("/")), "encrypted": scheme != "http"}
                server |= {"given": bool(host), "retries": REQUESTS_REPEATED}
                server |= {"authorities": quote_literal(self.authorities)}
                connection.execute(render("warehouse/reach_storage", server))
            else:
                connection.execute(render(_STAY_OFF_NETWORK))
            if confinement:
                connection.execute(confinement)
        except duckdb.Error as error:
            raise WarehouseError(
                "DuckDB cannot open a session with these limits of memory and threads, this folder to spill into "
                f"and this S3 server: {name_error(error)}"
            ) from None
        return connections


class _WarehouseSnapshot(Warehouse):
    """A warehouse whose sessions are connections beside a session that is always open."""

    _session: Session = PrivateAttr()
    _folder: Path | None = PrivateAttr()
    _reads: set[Read] | None = PrivateAttr()

    def take(self, session: Session, folder: Path | None, reads: set[Read] | None = None) -> None:
        self._session, self._folder, self._reads = session, folder, reads

    @property
    def is_held(self) -> bool:
        return True

    def noting(self, reads: set[Read]) -> Warehouse:
        warehouse = _WarehouseSnapshot(**dict(self))
        warehouse.take(self._session, self._folder, reads)
        return warehouse

    @contextmanager
    def session(
        self,
        reads: Collection[Zone] = (),
        writes: Zone | None = None,
        folder: Path | None = None,
        source_bytes: int | None = None,
    ) -> Iterator[Session]:
        """Raises ValueError if the session would write a zone, or reach another zone or another folder."""
        if writes or folder not in (None, self._folder) or not self._session.zones.issuperset(reads):
            raise ValueError("a held warehouse is read, and only the zones and the folder that it was opened with")
        with self._session.open_sibling(reads, set() if self._reads is None else self._reads) as session:
            yield session


class _WarehouseInTurns(Warehouse):
    """A warehouse whose sessions are connections beside a session that is reopened from time to time."""

    _opened: ExitStack = PrivateAttr(default_factory=ExitStack)
    _session: Session | None = PrivateAttr(default=None)
    _since: float = PrivateAttr(default=0.0)

    def end_turn(self) -> None:
        self._session = None
        self._opened.close()

    @contextmanager
    def session(
        self,
        reads: Collection[Zone] = (),
        writes: Zone | None = None,
        folder: Path | None = None,
        source_bytes: int | None = None,
    ) -> Iterator[Session]:
        if writes or folder or list(reads) != [Zone.PUBLIC]:
            self.end_turn()
            with super().session(reads, writes, folder, source_bytes) as session:
                yield session
            return
        if self._session is None:
            self._session, self._since = self._opened.enter_context(super().session(reads)), time.monotonic()
        with self._session.open_sibling() as session:
            yield session
        if time.monotonic() - self._since > _TURN:
            self.end_turn()


def _measure(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _quote_list(texts: Iterable[object]) -> Fragment:
    return Fragment(f"[{', '.join(quote_literal(text).text for text in texts)}]::VARCHAR[]")


def _keep_private() -> None:
    """Set the umask of this process to 077 permanently, so that only their owner can access new files, and prevent core
    files.

    DuckDB creates databases, logs (`.wal`) and temporary files at any time and from its own threads, so callers cannot
    set their modes. The umask belongs to the whole process: a session that restored it at its end would widen it for
    sessions in other threads. Files for other users get their modes individually (`placement`).
    """
    os.umask(0o077)
    forbid_core_files()


def _refuse_additions(connection: duckdb.DuckDBPyConnection, storages: Sequence[Storage]) -> None:
    """Refuse a zone with other entries than tables and views as Stirred writes them.

    A text in a column with a collation can equal other texts. A computed value could depend on the statement that reads
    it (`current_query`), and so show the gates other values than the publication. A table has columns of plain types
    and, in the ledger, keys; a view combines the rows of tables of its zone or, in the public zone, joins them by name.

    Macros and comments of columns are not searched, which would take DuckDB longer than all the rest: neither such
    views nor Stirred's statements call a function of a zone or read a comment.

    Raises WarehouseError for any other table or view, for an index, a sequence or a type, and for a name that would
    make an error that quotes it look like the error of a lost server.
    """
    names = {storage.zone.value: storage.name for storage in storages}
    if not names:
        return
    # Written out, because DuckDB imports pandas for the first parameter of a process.
    listed = ", ".join(quote_literal(zone).text for zone in names)
    zones: dict[str, Any] = {"zones": Fragment(f"({listed})")}
    catalogs = [(quote_literal(each.zone.value), quote_literal(each.catalog)) for each in storages]
    zones["catalogs"] = catalogs if all(storage.catalog for storage in storages) else []
    carried = connection.execute(render("warehouse/carried", zones)).fetchall()
    if any(kind == "view" for _, _, kind, *_ in carried):
        # DuckDB takes longer for the texts of its own views than for all the rest.
        views = connection.execute(render("warehouse/views", zones)).fetchall()
        carried = [*views, *(row for row in carried if row[2] != "view")]
    for zone, name, kind, definition, is_commented in carried:
        addition = find_addition(zone, kind, definition) or ("has a comment" if is_commented else "")
        if find_passing_words(f"{name} {definition}"):
            addition = "has a name like an error of a server"
            name = next(filter(find_passing_words, name.split("\n")), "a table") if kind == "names" else name
        if addition:
            raise WarehouseError(
                f"{names[zone]} was altered: Stirred did not write {name}, which {addition}. Nothing was changed. Drop "
                "it, and materialize its stage again"
            )
