"""A lake for tests: a catalog and a role for each zone in the tests' PostgreSQL server, and folders for the files.

Roles log in with a password, which libpq reads from its own file.
"""

import os
import re
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from resources.statements import Zone
from resources.warehouse import Warehouse
from tests.postgres import Database, Server

ROLES = Path(__file__).parents[1] / "deploy" / "postgres" / "roles.sql"
UNLOGGED = re.findall(r"ALTER ROLE stirred_confidential (SET log_.*);", ROLES.read_text())
"""The settings of the role of the confidential catalog that keep its statements out of the server's log."""

ZONES = (Zone.CONFIDENTIAL, Zone.PUBLIC)
_numbers = count(1)

COMPUTING = [
    "ALTER TABLE ducklake_data_file RENAME TO kept; "
    "CREATE VIEW ducklake_data_file AS SELECT * FROM kept WHERE current_query() NOT LIKE '%COPY%'",
    "CREATE TABLE child () INHERITS (ducklake_data_file)",
    "ALTER TABLE ducklake_data_file ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE ducklake_data_file ADD COLUMN own INTEGER GENERATED ALWAYS AS (1) STORED",
    "CREATE DOMAIN own AS BIGINT; ALTER TABLE ducklake_data_file ALTER record_count TYPE own",
    "CREATE FUNCTION max(VARCHAR) RETURNS BIGINT LANGUAGE SQL RETURN 1",
    "CREATE AGGREGATE max(BIGINT) (SFUNC = int8mi, STYPE = BIGINT)",
    "CREATE OPERATOR >= (FUNCTION = int8lt, LEFTARG = BIGINT, RIGHTARG = BIGINT)",
    "ALTER ROLE CURRENT_ROLE SET search_path = public, pg_catalog",
]
"""Statements by which the owner of a catalog makes its values computed."""


@dataclass(frozen=True)
class Lake:
    """An empty lake.

    Attributes:
        root: the folder of its files.
        catalogs: the database of each zone's catalog.
        environment: the variables with which libpq finds them.
        data: the data path of each zone.
    """

    root: Path
    catalogs: dict[Zone, Database]
    environment: dict[str, str]
    data: dict[str, str]

    def name_services(self, patch: pytest.MonkeyPatch) -> None:
        """Have libpq find the catalogs in this process, until the patch is undone."""
        for name, value in self.environment.items():
            patch.setenv(name, value)

    def warehouse(self, **changes: Any) -> Warehouse:
        """A warehouse whose zones, except the ledger, are in this lake."""
        return Warehouse(**{"folder": str(self.root / "warehouse"), "threads": 1, "lake": self.data} | changes)

    def role(self, zone: Zone) -> str:
        """The role that opens the catalog of a zone."""
        return self.catalogs[zone].name

    def password(self, zone: Zone) -> str:
        """The password of that role."""
        return f"planted-password-of-{self.role(zone)}"

    def catalog(self, zone: Zone, text: str) -> list[tuple[Any, ...]]:
        """The rows of a query that the administrator asks a zone's catalog."""
        return self.catalogs[zone].run(text)


def make_lake(server: Server, root: Path) -> Lake:
    """Make catalogs, roles and passwords as in the documentation."""
    root.mkdir(parents=True, exist_ok=True)
    number = f"{os.getpid()}_{next(_numbers)}"
    folder = server.administration.folder
    catalogs = {zone: Database(folder, f"{zone.value}_{number}") for zone in ZONES}
    passfile, services = root / "passwords", root / "services"
    lake = Lake(
        root,
        catalogs,
        {"PGSERVICEFILE": str(services), "PGPASSFILE": str(passfile)},
        {zone.value: f"{root / 'lake' / zone.value}/" for zone in ZONES},
    )
    rules = Path(folder) / "pg_hba.conf"
    for zone, catalog in catalogs.items():
        server.administration.run(f"CREATE ROLE {catalog.name} LOGIN PASSWORD '{lake.password(zone)}'")
        server.administration.run(f"CREATE DATABASE {catalog.name} OWNER {catalog.name}")
        server.administration.run(f"REVOKE CONNECT ON DATABASE {catalog.name} FROM PUBLIC")
        for setting in UNLOGGED:
            server.administration.run(f"ALTER ROLE {catalog.name} {setting}")
        rules.write_text(f"local all {catalog.name} scram-sha-256\n{rules.read_text()}")
    server.administration.run("SELECT pg_reload_conf()")
    passfile.write_text("".join(f"*:*:*:{lake.role(zone)}:{lake.password(zone)}\n" for zone in ZONES))
    passfile.chmod(0o600)
    services.write_text(
        "".join(
            f"[stirred_{zone.value}]\nhost={folder}\ndbname={catalog.name}\nuser={catalog.name}\n"
            for zone, catalog in catalogs.items()
        )
    )
    _wait_for_rules(lake)
    return lake


def _wait_for_rules(lake: Lake) -> None:
    """Wait until the server asks for passwords."""
    for catalog in lake.catalogs.values():
        while True:
            try:
                psycopg.connect(host=catalog.folder, dbname=catalog.name, user=catalog.name, password="wrong").close()
            except psycopg.OperationalError:
                break
