"""A zone kept in a lake: Parquet files in a folder or on an S3 server, and their catalog in a PostgreSQL database.

This module creates and attaches such a zone with DuckLake, and deletes replaced data in it. Each zone has a catalog of
its own. libpq finds the catalog, and the role that opens it, as the service `stirred_<zone>` in the environment of the
process (`PGSERVICEFILE`, `PGPASSFILE`), so no password passes through here, DuckDB, or a message.

The catalog is as confidential as the zone: it holds the keys of the files, and minima and maxima of columns. Files of
the confidential zone are encrypted, so they are unreadable without the catalog. No row of a table is in the catalog.

Several processes can write different tables at once. If two write the same table, the second one fails as a whole.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import duckdb

from resources.faults import name_error
from resources.statements import SQL, Fragment, Zone, quote, quote_literal, render
from resources.storage import (
    DETACH,
    NothingWrittenError,
    OpenSession,
    Removal,
    Storage,
    TransientError,
    WarehouseError,
    find_passing_cause,
    refuse_exposed,
)

_LAKE_CATALOG = SQL("warehouse/lake_catalog", "ATTACH {{ catalog }} AS {{ alias }} (TYPE postgres, READ_ONLY)")
_LAKE_CLEAN = SQL("warehouse/lake_clean", "FROM ducklake_cleanup_old_files({{ zone }}, cleanup_all => true)")
_LAKE_EXPIRE = SQL("warehouse/lake_expire", "CALL ducklake_expire_snapshots({{ zone }}, versions => {{ versions }})")
# Files without an entry in any catalog that are older than `age` seconds.
_LAKE_ORPHANS = SQL(
    "warehouse/lake_orphans", "FROM ducklake_delete_orphaned_files({{ zone }}, older_than => now() - to_seconds($age))"
)
_ABANDONED = timedelta(days=1)
"""The age from which a file without an entry in the catalog counts as abandoned, not as about to be entered."""

_NO_CATALOG = "creating a new DuckLake is explicitly disabled"
_CREATED_AT_ONCE = "Failed to initialize DuckLake"
_COMPACTED_MEANWHILE = "No snapshot found at version"


@dataclass(frozen=True)
class LakeZone(Storage):
    """One zone in a lake.

    Attributes:
        data: the place of its Parquet files: a folder, or `s3://bucket/prefix`. It ends with a slash.
        patience: the number of seconds to wait while another process creates the catalog.
    """

    zone: Zone
    data: str
    patience: float

    extensions = ("ducklake", "postgres_scanner")
    shared = True

    @property
    def service(self) -> str:
        return f"stirred_{self.zone.value}"

    @property
    def name(self) -> str:
        return f"the catalog of the {self.zone.value} zone"

    @property
    def catalog(self) -> str:
        return f"__ducklake_metadata_{self.zone.value}"

    @property
    def folders(self) -> Collection[str]:
        return [self.data]

    @property
    def on_network(self) -> bool:
        return self.data.startswith("s3://")

    def holds(self, session: OpenSession) -> bool:
        """Whether the zone was ever written. Raises WarehouseError if the catalog cannot be opened."""
        try:
            with session(reads=[self.zone]):
                return True
        except NothingWrittenError:
            return False

    def attach(self, connection: duckdb.DuckDBPyConnection, *, read_only: bool) -> None:
        """Attach the zone; for reading, in its present state, unaffected by later writers.

        Raises TransientError if its server cannot be reached, and WarehouseError if the catalog cannot be opened or
        created; if it is open to other roles than its owner, or if it is confidential, to its server's log; if it has a
        view, child table, policy, function, operator, type or search path that DuckLake did not make; if it belongs to
        files elsewhere, or to files of the confidential zone that are not encrypted; or if users other than the owner
        have any access to a folder of files.
        """
        if not self.on_network:
            self._keep_folder(create=not read_only)
        connection.execute(render("warehouse/lake_retries"))
        # For reading, only the catalog is attached first, in half the time: it has the state at which to attach the
        # lake.
        self._attach(connection, read_only=read_only, alone=read_only)
        try:
            state = connection.execute(render("warehouse/lake_state", {"catalog": quote_literal(self.catalog)}))
            snapshot, connectable, logged, computed = state.fetchall()[0]
        except duckdb.Error as error:
            refusal = TransientError if find_passing_cause(error) else WarehouseError
            if read_only and refusal is WarehouseError:
                self._attach_instead(connection)
            raise refusal(f"cannot read {self.name} (service {self.service}): {name_error(error)}") from None
        if connectable:
            raise WarehouseError(
                f"{self.name} (service {self.service}) must be closed to all roles but its own: REVOKE CONNECT ON "
                "DATABASE … FROM PUBLIC. Nothing was read or written"
            )
        if logged and self.zone is Zone.CONFIDENTIAL:
            raise WarehouseError(
                f"{self.name} (service {self.service}): its server may write statements into its log, and with them "
                "minima and maxima of columns and the keys of files. Run deploy/postgres/roles.sql again, or make its "
                "settings of log_… for the role. Nothing was read or written"
            )
        if computed:
            raise WarehouseError(
                f"{self.name} (service {self.service}) was altered: DuckLake did not make its view, child table, "
                "policy, function, operator, type or search path. Nothing was read or written. Drop it, or restore the "
                "database"
            )
        if read_only:
            self._attach_instead(connection, snapshot)

    def compact(self, session: OpenSession, age: timedelta) -> Removal:
        """Delete the files, and the catalog's entries and keys, of data replaced or dropped more than `age` ago.

        Files of writers that were killed are deleted too, if they are at least a day old.
        """
        names = {"zone": quote_literal(self.zone.value), "catalog": quote_literal(self.catalog)}
        with session(writes=self.zone) as writing:
            before = writing.row("warehouse/lake_size", **names)[0]
            ages = {"age": age.total_seconds()}
            if replaced := [number for (number,) in writing.rows("warehouse/lake_replaced", ages, **names)]:
                versions = Fragment(f"[{', '.join(map(str, replaced))}]")
                writing.run(_LAKE_EXPIRE, versions=versions, **names)
            cleaned = writing.rows(_LAKE_CLEAN, **names)
            orphans = writing.rows(_LAKE_ORPHANS, {"age": max(age, _ABANDONED).total_seconds()}, **names)
            after = writing.row("warehouse/lake_size", **names)[0]
            # PostgreSQL keeps deleted rows, and so the keys of deleted files, until a table is rewritten.
            writing.run("warehouse/lake_vacuum", **names)
        return Removal(len(cleaned) + len(orphans), before - after)

    def _keep_folder(self, *, create: bool) -> None:
        folder = Path(self.data)
        try:
            if create:
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if folder.exists():
                refuse_exposed("data folder", folder, "chmod 700")
        except OSError as error:
            raise WarehouseError(f"{folder} cannot be written ({error.strerror})") from None

    def _attach_instead(self, connection: duckdb.DuckDBPyConnection, snapshot: int = -1) -> None:
        """Attach the lake for reading, in place of its catalog alone. Raises NothingWrittenError if there is no lake
        yet."""
        connection.execute(render(DETACH, {"alias": quote(self.catalog)}))
        self._attach(connection, read_only=True, snapshot=snapshot)

    def _attach(
        self, connection: duckdb.DuckDBPyConnection, *, read_only: bool, alone: bool = False, snapshot: int = -1
    ) -> None:
        names = {
            "catalog": quote_literal(f"service={self.service}"),
            "source": quote_literal(f"ducklake:postgres:service={self.service}"),
            "alias": quote(self.catalog if alone else self.zone.value),
            "data": quote_literal(self.data),
            "encrypted": self.zone is Zone.CONFIDENTIAL,
            "read_only": read_only,
            "snapshot": snapshot,
        }
        text = render(_LAKE_CATALOG if alone else "warehouse/lake_attach", names)
        deadline = time.monotonic() + self.patience
        while True:
            try:
                connection.execute(text)
                return
            except duckdb.Error as error:
                message = str(error)
                if _NO_CATALOG in message:
                    raise NothingWrittenError(
                        f"nothing has been written to the {self.zone.value} zone yet (its catalog is empty)"
                    ) from None
                if _CREATED_AT_ONCE not in message or time.monotonic() > deadline:
                    passes = find_passing_cause(error) or _COMPACTED_MEANWHILE in message
                    refusal = TransientError if passes else WarehouseError
                    raise refusal(f"cannot open {self.name} (service {self.service}): {_explain(error)}") from None
            time.sleep(0.05)


def _explain(error: duckdb.Error) -> str:
    """Why DuckLake cannot attach a catalog, without DuckLake's message, which quotes the connection string, host and
    role."""
    message = str(error)
    if "does not match existing data path" in message:
        return "its files lie elsewhere. Set the data path that it was created with"
    if "the database is not encrypted" in message:
        return "its files are not encrypted. Give the zone an empty database"
    if "Unable to connect to Postgres" in message:
        return (
            f"{name_error(error)}: PostgreSQL cannot be reached, or refuses the log-in or the database; psql with the "
            "same service and variables of libpq shows the reason"
        )
    return f"DuckLake refuses it: {name_error(error)}"
