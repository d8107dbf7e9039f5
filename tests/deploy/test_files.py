"""The files in `deploy/`: each loads, names only existing things, holds no secret, and separates the zones."""

import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import uuid4

import dagster as dg
import psycopg
import pytest
import yaml
from dagster_k8s import K8sRunLauncher
from dagster_k8s.container_context import K8sContainerContext

from assets.conventions import WRITES
from orchestration.following import BY_COMMAND, ask
from orchestration.launch import open_instance
from resources.custody import CustodyMode
from resources.statements import Table, Zone
from resources.storage import TransientError
from resources.warehouse import Warehouse, WarehouseError
from tests.deploy.cluster import (
    DEPLOY,
    ROOT,
    compose,
    database_server,
    eventually,
    free_port,
    make_secrets,
    run_commands,
)
from tests.deployments import deploy, small_dataset, small_release
from tests.lake import ZONES, make_lake
from tests.object_storage import WEED, certify, object_storage, storage_port
from tests.postgres import Server
from tests.resources.test_ledger import moved, reserve

READING = ("stirred_auditor", "stirred_reader")
CONTROL, RUNS, ONCE = ("daemon", "webserver"), "code", ("migrate", "buckets")
SECRET_OF_A_ZONE = {"services_runs", "s3_runs", "stirred_confidential", "stirred_public", "stirred_office"}


def values() -> dict[str, Any]:
    """The values for Dagster's chart."""
    return dict(yaml.safe_load((DEPLOY / "helm-values.yaml").read_text()))


def instance_settings() -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / "dagster.yaml").read_text()))


def settings() -> dict[str, str]:
    """The variables of `cluster.env`."""
    lines = (DEPLOY / "cluster.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_the_compose_file_names_only_what_it_has() -> None:
    described = compose()
    services = described["services"]
    for name, service in services.items():
        assert set(service.get("secrets", [])) <= set(described["secrets"]), name
        assert set(service.get("networks", [])) <= set(described["networks"]), name
        assert set(service.get("depends_on", {})) <= set(services), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in described["volumes"] or source.startswith(("./", "${")), f"{name}: {volume}"
            assert not source.startswith("./") or (DEPLOY / source).exists(), f"{name}: {volume}"
        for file in service.get("env_file", []):
            assert (DEPLOY / file).exists()
        if "build" in service:
            assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).exists()
    used = {
        kind: {each for service in services.values() for each in service.get(kind, [])}
        for kind in ("secrets", "networks")
    }
    assert {kind: set(described[kind]) - used[kind] for kind in used} == {"secrets": set(), "networks": set()}


def test_the_compose_files_are_of_the_form_that_the_specification_of_compose_has() -> None:
    """The schema comes with the package, so the test needs no network."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    files = [DEPLOY / "compose.yaml", DEPLOY / "compose.tls.yaml"]
    done = subprocess.run([*command, *files], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout


def test_every_secret_of_the_compose_file_is_made_and_closed(tmp_path: Path) -> None:
    made = make_secrets(tmp_path / "secrets")
    for name, given in compose()["secrets"].items():
        path = Path(given["file"].replace("${STIRRED_SECRETS_FOLDER:-./secrets}", str(made)))
        assert path.read_text().strip(), name
    assert made.stat().st_mode & 0o077 == 0
    before = {path: path.read_bytes() for path in made.rglob("*") if path.is_file()}
    make_secrets(made)
    assert {path: path.read_bytes() for path in made.rglob("*") if path.is_file()} == before
    passwords = [path.read_text() for path in (made / "passwords").iterdir()]
    assert len(set(passwords)) == len(passwords)
    assert {len(password) for password in passwords} == {48}


@pytest.mark.deep
def test_secrets_that_were_interrupted_are_the_old_or_the_new_ones(tmp_path: Path) -> None:
    """Killed in the place of each fourth command that the script starts, and run again.

    Fails for: files that are removed first or written in place, and half a password that is kept.
    """
    programs, folder = tmp_path / "bin", tmp_path / "secrets"
    programs.mkdir()
    for name in ("cat", "chmod", "mkdir", "mv", "od", "rm", "rmdir", "tr"):
        (programs / name).write_text(
            f"#!/bin/sh\necho >>{tmp_path}/calls\n[ $(wc -l <{tmp_path}/calls) != $KILLED ] || kill -9 0\n"
            f'exec {shutil.which(name)} "$@"\n'
        )
        (programs / name).chmod(0o755)

    def run(ssl: str, killed: int = 0) -> int:
        (tmp_path / "calls").write_text("")
        own = {"PATH": f"{programs}:{os.environ['PATH']}", "STIRRED_SSL": ssl, "KILLED": str(killed)}
        command = [DEPLOY / "secrets.sh", folder, "127.0.0.1"]
        return subprocess.run(command, env=own, start_new_session=True).returncode

    def contents() -> dict[str, str]:
        return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("[!.]*") if path.is_file()}

    assert run("sslmode=require") == 0
    kept, lost = contents(), folder / "passwords" / "stirred_office"
    for number in range(1, 60, 4):
        before = contents()
        lost.unlink()
        ended = run(f"sslmode=verify-full port={number}", number)
        found = contents()
        if ended == 0:
            break
        assert run(f"sslmode=verify-full port={number}") == 0
        after = contents()
        assert before.keys() == after.keys() == kept.keys()
        for name in before:
            assert name == "passwords/stirred_office" or found[name] in (before[name], after[name]), (number, name)
        assert (
            found.get("passwords/stirred_office", after["passwords/stirred_office"])
            == after["passwords/stirred_office"]
        )
    assert number > 20
    assert not (folder / ".new").exists()


def test_secrets_are_made_once_by_two_at_once(tmp_path: Path) -> None:
    """Fails for: a second run that removes a file which the first is about to rename, or replaces its
    passwords."""
    slow = tmp_path / "od"
    slow.write_text(f'#!/bin/sh\nsleep 0.02\nexec {shutil.which("od")} "$@"\n')
    slow.chmod(0o755)
    command = [DEPLOY / "secrets.sh", tmp_path / "secrets", "127.0.0.1"]
    running = [subprocess.Popen(command, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}) for _ in range(2)]
    assert [each.wait(60) for each in running] == [0, 0]
    office = (tmp_path / "secrets" / "passwords" / "stirred_office").read_text()
    assert f"user=stirred_office\npassword={office}\n" in (tmp_path / "secrets" / "services" / "runs").read_text()


@pytest.mark.parametrize(
    ("host", "ssl", "made"),
    [
        *((host, "", True) for host in ("127.0.0.1", "localhost", "database", "/run/postgresql")),
        ("database.example", "", False),
        ("database.example", "sslrootcert=/etc/ca.pem", False),
        ("database.example", "sslmode=prefer sslrootcert=/etc/ca.pem", False),
        ("database.example", "sslrootcert=/etc/ca.pem sslmode=verify-full", True),
    ],
)
def test_secrets_for_another_machine_say_how_it_is_reached(tmp_path: Path, host: str, ssl: str, made: bool) -> None:
    """Otherwise libpq would silently continue without TLS."""
    folder = tmp_path / "secrets"
    own = {"PATH": os.environ["PATH"], "STIRRED_SSL": ssl}
    done = subprocess.run([DEPLOY / "secrets.sh", folder, host], env=own, capture_output=True, text=True)
    assert folder.exists() == made
    if made:
        assert (done.returncode, done.stderr) == (0, "")
        services = (folder / "services" / "runs").read_text().split()
        assert {*ssl.split(), "connect_timeout=10", "keepalives_idle=60"} <= set(services)
    else:
        assert (done.returncode, "set STIRRED_SSL" in done.stderr) == (1, True)


@pytest.mark.deep
def test_of_the_object_storage_only_the_gateway_can_be_reached(tmp_path: Path) -> None:
    """And by TLS if it has a certificate. Fails for: servers that ask for no key on every address.

    127.0.0.2 stands for the address in a network.
    """
    made, (s3, master, filer, volume) = make_secrets(tmp_path / "secrets"), (storage_port() for _ in range(4))
    services, over_tls = compose()["services"], yaml.safe_load((DEPLOY / "compose.tls.yaml").read_text())
    certify(made / "authorities.pem", made / "s3.pem")
    (made / "s3.key").write_bytes((made / "s3.pem").read_bytes())
    secrets = compose()["secrets"] | over_tls["secrets"]
    given = {
        f"/run/secrets/{name}": each["file"].replace("${STIRRED_SECRETS_FOLDER:-./secrets}", str(made))
        for name, each in secrets.items()
    } | {"/data": str(tmp_path), "8333": str(s3)}
    command = over_tls["services"]["storage"]["command"]
    assert command[:-2] == services["storage"]["command"]
    words = ["=".join(given.get(part, part) for part in word.split("=")) for word in command]
    ports = [f"-master.port={master}", f"-filer.port={filer}", f"-volume.port={volume}"]
    with subprocess.Popen([WEED, *words, *ports], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            eventually(lambda: listens("127.0.0.2", s3), 60)
            variables = over_tls["services"]["code"]["environment"]
            trust = ssl.create_default_context(cafile=given[variables["AWS_CA_BUNDLE"]])
            with socket.create_connection(("127.0.0.1", s3)) as plain:
                trust.wrap_socket(plain, server_hostname="127.0.0.1").close()
            own = {port: listens("127.0.0.1", port) for port in (master, filer, volume)}
            assert set(own.values()) == {True}
            others = [port + more for port in (master, filer, volume) for more in (0, 10_000)]
            assert [port for port in others if listens("127.0.0.2", port)] == []
        finally:
            server.kill()
    assert "networks" not in services["buckets"]
    assert services["buckets"]["network_mode"] == "service:storage"


def listens(address: str, port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex((address, port)) == 0


@pytest.mark.deep
def test_the_key_of_readers_reads_the_public_zone_alone(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even with the role of the confidential catalog; and without its service, the catalog cannot be opened either."""
    made, lake = make_secrets(tmp_path / "secrets"), make_lake(postgres, tmp_path / "lake")
    monkeypatch.setattr("resources.warehouse.REQUESTS_REPEATED", 0)
    lake.name_services(monkeypatch)

    def given(file: str) -> None:
        for line in (made / file).read_text().splitlines():
            monkeypatch.setenv(*line.split("=", 1))

    tables = {zone: Table(zone, "village", "units") for zone in ZONES}
    identities = (made / "s3.json").read_text()
    with object_storage(tmp_path / "s3", [zone.value for zone in ZONES], identities) as storage:
        data = {zone.value: f"s3://{zone.value}/lake/" for zone in ZONES}
        warehouse = lake.warehouse(lake=data, object_storage=storage.address)

        def read(zone: Zone) -> list[Any]:
            with warehouse.session(reads=[zone]) as session:
                return session.rows("warehouse/all", source=tables[zone])

        def write(zone: Zone) -> None:
            with warehouse.session(writes=zone) as session:
                session.create(tables[zone], "warehouse/label", {"text": "canary"}, column="value")

        given("runs.env")
        for zone in ZONES:
            write(zone)
            assert read(zone) == [("canary",)]
        given("reader.env")
        assert read(Zone.PUBLIC) == [("canary",)]
        with pytest.raises(WarehouseError):
            write(Zone.PUBLIC)
        with pytest.raises(WarehouseError) as refused:
            read(Zone.CONFIDENTIAL)
        assert "canary" not in str(refused.value)
        services = Path(lake.environment["PGSERVICEFILE"])
        services.write_text("[stirred_public]" + services.read_text().partition("[stirred_public]")[2])
        assert read(Zone.PUBLIC) == [("canary",)]
        with pytest.raises(WarehouseError, match="cannot open the catalog of the confidential zone"):
            read(Zone.CONFIDENTIAL)


def test_no_file_holds_a_secret() -> None:
    literal = re.compile(r"PASSWORD '|://[^\s/]*:[^\s/]*@")
    assert literal.search("ALTER ROLE office PASSWORD 'x'")
    for path in DEPLOY.rglob("*"):
        if path.is_file() and not {"secrets", "__pycache__"} & {*path.relative_to(DEPLOY).parts}:
            text = path.read_text()
            random = [word for word in re.findall(r"[A-Za-z0-9+/]{20,}", text) if re.search("[0-9]", word)]
            assert not literal.search(text), path
            assert not [word for word in random if "/" not in word], path


def test_only_the_code_location_of_the_compose_file_reaches_a_zone_or_the_custody() -> None:
    services = compose()["services"]
    for name in (*CONTROL, *ONCE):
        service = services[name]
        assert not SECRET_OF_A_ZONE & set(service.get("secrets", [])), name
        assert "volumes" not in service, name
        assert "env_file" not in service, name
        if name != "buckets":
            assert "lake" not in service["networks"], name
            assert "AWS" not in str(service["environment"]), name
            assert "STIRRED_LAKE" not in str(service["environment"]), name
            assert "MASTER_KEY" not in str(service["environment"]), name
    assert {"services_runs", "s3_runs"} == set(services[RUNS]["secrets"])
    with_custody = [
        name for name, service in services.items() if any("home:" in each for each in service.get("volumes", []))
    ]
    assert with_custody == [RUNS]
    assert services["webserver"]["ports"] == ["127.0.0.1:3000:3000"]
    assert [name for name, service in services.items() if "ports" in service] == ["webserver"]


def test_a_service_file_of_the_control_knows_the_database_of_dagster_alone(tmp_path: Path) -> None:
    made = make_secrets(tmp_path / "secrets")
    found = {path.name: re.findall(r"^\[(\w+)\]", path.read_text(), re.M) for path in (made / "services").iterdir()}
    assert found["dagster"] == ["stirred_dagster"]
    assert set(found["runs"]) == {"stirred_dagster", "stirred_ledger", "stirred_confidential", "stirred_public"}
    zones = [(made / "passwords" / name).read_text() for name in ("stirred_confidential", "stirred_office", "s3_runs")]
    assert not [password for password in zones if password in (made / "services" / "dagster").read_text()]


@pytest.mark.deep
def test_the_roles_can_do_what_they_need_and_nothing_else(tmp_path: Path) -> None:
    """The roles are created by `roles.sql`, which the server fixture runs twice, and need a password over TCP.

    Fails for: readers who fill the server's disk or take all its connections, in their database or in `postgres`.
    """
    port = free_port()
    made = make_secrets(tmp_path / "secrets", port)
    databases = ("stirred_dagster", "stirred_ledger", "stirred_confidential", "stirred_public")
    with database_server(made, port) as server:
        allowed = set()
        for role in (*databases[:1], "stirred_ledger_owner", *READING, "stirred_office", *databases[2:]):
            password = (made / "passwords" / role).read_text()
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                psycopg.connect(host="127.0.0.1", port=port, user=role, password="wrong", dbname="postgres")
            for database in (*databases, "postgres", "template1"):
                login = {"user": role, "password": password, "dbname": database}
                with (
                    suppress(psycopg.OperationalError),
                    psycopg.connect(host="127.0.0.1", port=port, **login) as connection,
                ):
                    allowed.add((role, database))
                    (rights,) = connection.execute(
                        "SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolbypassrls FROM pg_roles "
                        "WHERE rolname = current_user"
                    )
                    assert rights == (False,)
                    if role in READING:
                        for text in (*WRITING, "SET temp_file_limit = -1"):
                            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                                connection.execute(text.encode())
                        bounded = connection.execute(
                            "SELECT current_setting('temp_file_limit'), rolconnlimit FROM pg_roles "
                            "WHERE rolname = current_user"
                        )
                        assert bounded.fetchone() == ("1GB", 20)
        environment = os.environ | {"PGSERVICEFILE": str(made / "services" / "owner"), "PGSERVICE": "stirred_ledger"}
        with mock.patch.dict(os.environ, environment):
            from resources.ledger_server import migrate

            assert migrate()
        require_read_only(made, tmp_path)
        require_restorable(made, tmp_path, port)
        text = server.log.read_text()
    assert allowed == {
        ("stirred_dagster", "stirred_dagster"),
        ("stirred_ledger_owner", "stirred_ledger"),
        ("stirred_office", "stirred_ledger"),
        ("stirred_auditor", "stirred_ledger"),
        ("stirred_confidential", "stirred_confidential"),
        ("stirred_public", "stirred_public"),
        ("stirred_reader", "stirred_public"),
    }
    assert not [path for path in (made / "passwords").iterdir() if path.read_text() in text]


WRITING = (
    "CREATE TEMP TABLE others (number INT)",
    "SELECT lo_create(0)",
    "SELECT lo_creat(-1)",
    "SELECT lo_from_bytea(0, 'others')",
)
"""Statements that a role may run in every database that it can connect to, unless the right is revoked."""

CHANGES = (
    "DROP SCHEMA public CASCADE",
    "DROP TABLE ducklake_table",
    "DELETE FROM ducklake_table",
    "TRUNCATE ducklake_table",
    "UPDATE ducklake_data_file SET path = 'elsewhere'",
    "INSERT INTO ducklake_tag SELECT * FROM ducklake_tag",
    "ALTER TABLE ducklake_table ADD COLUMN note TEXT",
    "SELECT * FROM ducklake_table FOR KEY SHARE",
    "DO 'BEGIN LOCK TABLE ducklake_table IN ROW SHARE MODE; END'",
    "CREATE TABLE others (number INT)",
    "CREATE VIEW ducklake_others AS SELECT 1",
    "CREATE SCHEMA others",
    "CREATE FUNCTION others() RETURNS INT LANGUAGE sql AS 'SELECT 1'",
    "CREATE ROLE others",
    "SET ROLE stirred_public",
    "DROP DATABASE stirred_public",
)


def in_buckets(folder: Path) -> Warehouse:
    """A warehouse whose folders are those of buckets."""
    data = {zone.value: f"{folder / 'buckets' / zone.value / 'lake'}/" for zone in ZONES}
    return Warehouse(folder=str(folder / "stirred" / "home" / "warehouse"), threads=1, lake=data)


def require_read_only(made: Path, folder: Path) -> None:
    """The reader reads the public zone, also tables made after the roles, and has no other right to its catalog.

    Fails for: the role that owns the catalog, the right to read only the tables that existed before, and a
    compaction that waits for readers and blocks all others.
    """
    warehouse, table = in_buckets(folder), Table(Zone.PUBLIC, "village", "shown")
    connect = {"service": "stirred_public"}
    with mock.patch.dict(os.environ, {"PGSERVICEFILE": str(made / "services" / "runs")}):
        with warehouse.session(writes=Zone.PUBLIC) as session:
            session.create(table, "warehouse/label", {"text": "shown"}, column="value")
        with psycopg.connect(**connect) as owner:
            assert owner.execute("SHOW lock_timeout").fetchone() == ("1min",)
            owner.execute("CREATE TABLE late (number INT); INSERT INTO late VALUES (7)")
    with mock.patch.dict(os.environ, {"PGSERVICEFILE": str(made / "services" / "reader")}):
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            assert session.rows("warehouse/all", source=table) == [("shown",)]
        with pytest.raises(WarehouseError), warehouse.session(writes=Zone.PUBLIC) as session:
            session.create(table, "warehouse/label", {"text": "forged"}, column="value")
        with psycopg.connect(**connect, autocommit=True) as reader:
            assert reader.execute("SELECT number FROM late").fetchall() == [(7,)]
            for text in CHANGES:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    reader.execute(text.encode())
            reader.execute("BEGIN; SELECT * FROM ducklake_data_file")
            impatient = {"PGSERVICEFILE": str(made / "services" / "runs"), "PGOPTIONS": "-c lock_timeout=100ms"}
            with mock.patch.dict(os.environ, impatient), pytest.raises(TransientError, match="took too long"):
                warehouse.compact(Zone.PUBLIC)


SYNC = """#!/bin/sh
place() { case $1 in s3://*) echo "$BUCKETS/${1#s3://}" ;; *) echo "$1" ;; esac; }
mkdir -p "$(place "$4")" && cp -a "$(place "$3")/." "$(place "$4")"
"""
"""`aws s3 sync FROM TO`, with folders in the place of buckets."""


def require_restorable(made: Path, folder: Path, port: int) -> None:
    """The commands of the page back up the deployment and restore it into new databases, by the new roles.

    Fails for: a backup with the master key or another key, a backup during a run, and lost rights of the ledger
    and of readers.
    """
    administrator = {"host": "127.0.0.1", "port": port, "user": "postgres", "dbname": "postgres", "autocommit": True}
    administrator["password"] = (made / "passwords" / "postgres").read_text()
    backup, aws = folder / "back-up", folder / "programs" / "aws"
    aws.parent.mkdir()
    aws.write_text(SYNC)
    aws.chmod(0o755)
    (folder / "stirred" / "published").mkdir(parents=True)
    (folder / "stirred" / "published" / "index.html").write_text("shown")

    def run(name: str) -> subprocess.CompletedProcess[str]:
        replaced = {"/srv/stirred": str(folder / "stirred"), "/safe/2026-11-22": str(backup)}
        return run_commands(name, made, port, replaced, first=str(aws.parent), BUCKETS=str(folder / "buckets"))

    services = {"PGSERVICEFILE": str(made / "services" / "runs"), "PGSERVICE": "stirred_ledger"}
    with mock.patch.dict(os.environ, services):
        ledger = moved(folder / "stirred" / "home")
        reserve(ledger, "first")
        ledger.custody.commit("ab" * 32, CustodyMode.EPHEMERAL)
        entries, key = ledger.entries(), Path(ledger.custody.folder) / "master.key"
        with in_buckets(folder).session(writes=Zone.CONFIDENTIAL) as session:
            session.create(
                Table(Zone.CONFIDENTIAL, "village", "units"), "warehouse/label", {"text": "x"}, column="value"
            )
        with psycopg.connect(service="stirred_dagster", autocommit=True) as dagster:
            dagster.execute("CREATE TABLE runs (status TEXT)")
            dagster.execute("INSERT INTO runs VALUES ('SUCCESS'), ('QUEUED'), ('STARTED')")
            done = run("back-up")
            assert (done.returncode, done.stderr) == (1, "a run goes on\n")
            shutil.rmtree(backup)
            dagster.execute("DELETE FROM runs WHERE status = 'STARTED'")
        done = run("back-up")
        assert (done.returncode, done.stderr) == (0, "")
        with tarfile.open(backup / "home.tar") as archive:
            assert {name for name in archive.getnames() if "." in name} == {
                "custody/ledger.anchor",
                "warehouse/custody.fingerprint",
            }
        key.rename(folder / "master.key")
        for name in ("stirred", "buckets"):
            (folder / name).rename(folder / f"{name} lost")
        with psycopg.connect(**administrator) as connection:
            for name in ("dagster", "ledger", "confidential", "public"):
                connection.execute(f"DROP DATABASE stirred_{name} WITH (FORCE)".encode())
        for name in ("roles", "restore"):
            done = run(name)
            assert done.returncode == 0, done.stderr
        (folder / "master.key").rename(key)
        assert ledger.entries() == entries
        assert ledger.verify() == ()
        assert reserve(ledger, "second").sequence == 2
        with in_buckets(folder).session(reads=ZONES) as session:
            assert session.count(Table(Zone.CONFIDENTIAL, "village", "units")) == 1
            assert session.count(Table(Zone.PUBLIC, "village", "shown")) == 1
        assert (folder / "stirred" / "published" / "index.html").read_text() == "shown"
    with (
        mock.patch.dict(os.environ, {"PGSERVICEFILE": str(made / "services" / "reader")}),
        in_buckets(folder).session(reads=[Zone.PUBLIC]) as session,
    ):
        assert session.count(Table(Zone.PUBLIC, "village", "shown")) == 1


@pytest.mark.deep
def test_a_real_instance_loads_from_the_settings(tmp_path: Path) -> None:
    port = free_port()
    made = make_secrets(tmp_path / "secrets", port)
    (tmp_path / "dagster.yaml").write_text((DEPLOY / "dagster.yaml").read_text())
    variables = {"PGSERVICEFILE": str(made / "services" / "dagster"), "DAGSTER_HOME": str(tmp_path)}
    with database_server(made, port) as server, mock.patch.dict(os.environ, variables), open_instance() as instance:
        assert isinstance(instance.run_coordinator, dg.QueuedRunCoordinator)
        assert isinstance(instance.run_launcher, dg.DefaultRunLauncher)
        assert instance.get_runs() == []
        assert instance.run_retries_enabled
        assert not instance.run_retries_retry_on_asset_or_op_failure
        assert not instance.telemetry_enabled
        kept = str(instance.get_ref())
        opened = server.log.read_text().count("connection authorized")
        assert opened
        assert [instance.get_runs() for _ in range(3)] == [[], [], []]
        assert server.log.read_text().count("connection authorized") == opened, "a look costs no connection"
        server.run("-m", "immediate", "restart")
        assert ask(lambda step: None, instance.get_runs) == []
    assert not [path for path in (made / "passwords").iterdir() if path.read_text() in kept]


def test_the_queue_waits_for_the_code_location_in_each_deployment() -> None:
    """The chart's own form of the queue would silently lose these settings."""
    queue = values()["dagsterDaemon"]["runCoordinator"]
    assert queue["type"] == "CustomRunCoordinator"
    assert queue["config"]["customRunCoordinator"] == instance_settings()["run_coordinator"]


def test_the_queue_launches_no_run_that_chooses_the_content_of_its_pod(tmp_path: Path) -> None:
    """Dagster's own queue passes these tags to Kubernetes, so that every user who may launch gets the custody's
    keys."""
    tags = {"dagster-k8s/config": json.dumps({"container_config": {"command": ["cat", "master.key"]}})}
    other = dg.DagsterRun("village__shown", tags=tags)
    pod = K8sContainerContext.create_for_run(other, None, include_run_tags=True).run_k8s_config
    assert pod.container_config == {"command": ["cat", "master.key"]}, "Kubernetes would be asked for it"
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump({"run_coordinator": instance_settings()["run_coordinator"]}))
    usual = dg.DagsterRun("village__shown", tags={WRITES: "village"})
    with (
        dg.DagsterInstance.from_config(str(tmp_path)) as instance,
        mock.patch.object(dg.QueuedRunCoordinator, "submit_run") as queue,
    ):
        assert isinstance(instance.run_coordinator, dg.QueuedRunCoordinator)
        with pytest.raises(ValueError, match=r"^Tag dagster-k8s/config: no run chooses the command, image"):
            instance.run_coordinator.submit_run(mock.Mock(dagster_run=other))
        assert not queue.called
        instance.run_coordinator.submit_run(mock.Mock(dagster_run=usual))
        assert queue.called


@pytest.mark.parametrize(
    ("status", "tags", "parent", "launched"),
    [
        ("SUCCESS", {"dagster/retry_number": "1"}, "first", False),
        ("STARTED", {"dagster/retry_number": "1"}, "first", False),
        ("FAILURE", {"dagster/retry_number": "1"}, "first", True),
        # A user launched the job again in the UI, before or after: this is a separate request.
        ("SUCCESS", {}, "first", True),
        ("SUCCESS", {"dagster/retry_number": "2"}, "by hand", True),
    ],
)
def test_the_queue_launches_a_lost_run_again_only_once(
    tmp_path: Path, status: str, tags: Mapping[str, str], parent: str, launched: bool
) -> None:
    """Fails for: a run that Dagster could not store whole on a full disk, took for one that failed after five
    minutes, and launched again when the job had been published, and its declaration was another."""
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump({"run_coordinator": instance_settings()["run_coordinator"]}))
    ids = {name: str(uuid4()) for name in ("first", "by hand", "other", "half-stored", "again")}

    def add(name: str, status: str, parent: str = "", tags: Mapping[str, str] | None = None) -> dg.DagsterRun:
        group = {"dagster/parent_run_id": ids[parent], "dagster/root_run_id": ids["first"]} if parent else {}
        run = dg.DagsterRun(
            "village__shown",
            run_id=ids[name],
            status=dg.DagsterRunStatus(status),
            tags={BY_COMMAND: "one", **group, **(tags or {})},
            parent_run_id=ids.get(parent),
            root_run_id=ids["first"] if parent else None,
        )
        return instance.run_storage.add_run(run)

    with (
        dg.DagsterInstance.from_config(str(tmp_path)) as instance,
        mock.patch.object(dg.QueuedRunCoordinator, "submit_run") as queue,
    ):
        add("first", "FAILURE")
        add("by hand", "FAILURE", "first")
        add("half-stored", "FAILURE", "first", {"dagster/retry_number": "1"})
        add("other", status, parent, tags)
        again = add("again", "NOT_STARTED", "half-stored", {"dagster/retry_number": "2"})
        instance.run_coordinator.submit_run(mock.Mock(dagster_run=again))
        assert queue.called == launched
        found = instance.get_run_by_id(ids["again"])
        assert found.status is dg.DagsterRunStatus("NOT_STARTED" if launched else "CANCELED")
        assert found.tags[BY_COMMAND] == ("one" if launched else ""), "no command follows it"


def test_runs_that_write_the_same_dataset_wait_for_each_other(tmp_path: Path) -> None:
    limits = instance_settings()["concurrency"]["runs"]["tag_concurrency_limits"]
    assert limits == [{"key": WRITES, "value": {"applyLimitPerUniqueValue": True}, "limit": 1}]
    dataset = small_dataset(tmp_path)
    built = deploy(tmp_path, dataset, small_release(dataset))
    for name in (built.release.schema, f"preflight__{built.release.schema}"):
        assert built.definitions.resolve_job_def(name).tags[WRITES] == built.release.dataset.name


def test_the_values_for_the_chart_say_what_the_instance_says() -> None:
    given, own = values(), instance_settings()
    added = given["additionalInstanceConfig"]
    assert {name: added[name] for name in ("nux", "concurrency", "run_retries")} == {
        name: own[name] for name in ("nux", "concurrency", "run_retries")
    }
    monitored = given["dagsterDaemon"]["runMonitoring"]
    names = {
        "start_timeout_seconds": "startTimeoutSeconds",
        "cancel_timeout_seconds": "cancelTimeoutSeconds",
        "poll_interval_seconds": "pollIntervalSeconds",
        "free_slots_after_run_end_seconds": "freeSlotsAfterRunEndSeconds",
    }
    assert {name: monitored[value] for name, value in names.items()} | {"enabled": True} == own["run_monitoring"]
    assert given["telemetry"] == own["telemetry"]
    assert {name: given["retention"][name]["purgeAfterDays"] for name in ("schedule", "sensor")} == {
        name: own["retention"][name]["purge_after_days"] for name in ("schedule", "sensor")
    }
    # One setting limits how much runs at once.
    for name in ("dagster.yaml", "helm-values.yaml"):
        raised = yaml.safe_load((DEPLOY / name).read_text().replace("&at_once 4", "&at_once 56"))
        at_once = raised.get("additionalInstanceConfig", raised)["concurrency"]
        assert (at_once["runs"]["max_concurrent_runs"], at_once["pools"]["default_limit"]) == (56, 56)
    postgres = given["postgresql"]
    assert own["storage"]["postgres"]["postgres_url"].startswith(f"{postgres['postgresqlScheme']}://")
    assert not postgres["enabled"]
    assert postgres["postgresqlParams"]["sslmode"] == "verify-full"


def deployed() -> dict[str, Any]:
    (deployment,) = values()["dagster-user-deployments"]["deployments"]
    return dict(deployment)


def container_context() -> dict[str, Any]:
    """The chart's settings of the user deployment for the pods of runs."""
    given = deployed()
    return {
        "image_pull_policy": given["image"]["pullPolicy"],
        "env": given["env"],
        "env_secrets": [each["name"] for each in given["envSecrets"]],
        "volumes": given["volumes"],
        "volume_mounts": given["volumeMounts"],
        "resources": given["resources"],
        "labels": given["labels"],
    }


def test_the_launcher_of_the_chart_takes_its_values_and_the_pods_of_runs_get_zones_and_custody(tmp_path: Path) -> None:
    """The launcher and Kubernetes' own models read the values as the chart hands them over; no cluster is asked."""
    chosen = values()["runLauncher"]["config"]["k8sRunLauncher"]
    raw = chosen["runK8sConfig"]
    config = {
        "image_pull_policy": chosen["imagePullPolicy"],
        "load_incluster_config": False,
        "kubeconfig_file": str(tmp_path / "kubeconfig"),
        "service_account_name": "dagster",
        "job_namespace": "stirred",
        "instance_config_map": "dagster-instance",
        "dagster_home": values()["global"]["dagsterHome"],
        "postgres_password_secret": values()["global"]["postgresqlSecretName"],
        "fail_pod_on_run_failure": chosen["failPodOnRunFailure"],
        "run_k8s_config": {
            "container_config": {"security_context": raw["containerConfig"]["securityContext"]},
            "job_spec_config": {"ttl_seconds_after_finished": raw["jobSpecConfig"]["ttlSecondsAfterFinished"]},
        },
    }
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    written = {"run_launcher": {"module": "dagster_k8s", "class": "K8sRunLauncher", "config": config}}
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(written))
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert isinstance(instance.run_launcher, K8sRunLauncher)
        assert instance.run_launcher.supports_check_run_worker_health
    context = K8sContainerContext.create_from_config({"k8s": container_context()})
    mounted = {each["mount_path"] for each in context.run_k8s_config.container_config["volume_mounts"]}
    variables = {each["name"]: each.get("value") for each in context.run_k8s_config.container_config["env"]}
    of_one_node = {"AWS_ENDPOINT_URL", "STIRRED_CODE_HOST", "STIRRED_CODE_PORT"}
    assert set(settings()) - of_one_node <= set(variables)
    assert {variables["STIRRED_HOME"], variables["STIRRED_PUBLISHED"]} <= mounted
    assert str(Path(str(variables["STIRRED_SPILL_FOLDER"])).parent) in mounted
    assert str(Path(str(variables["PGSERVICEFILE"])).parent) in mounted
    port = values()["dagsterWebserver"]["service"]["port"]
    assert str(variables["STIRRED_WEBSERVER"]).endswith(f":{port}"), "the chart's service has the webserver's port"
    assert context.run_k8s_config.container_config["resources"]["limits"]["memory"]
    names = {each["name"] for each in deployed()["volumes"]}
    assert names == {each["name"] for each in deployed()["volumeMounts"]}


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: none
clusters: [{name: none, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: none, user: {}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
"""


@pytest.mark.parametrize("part", ["dagsterWebserver", "dagsterDaemon"])
def test_webserver_and_daemon_of_the_chart_reach_no_zone_and_no_custody(part: str) -> None:
    given = values()[part]
    assert not {"env", "envSecrets", "envConfigMaps", "volumes", "volumeMounts"} & set(given)
    assert given["labels"] == {"stirred/zones": "none"}
    (policy,) = values()["extraManifests"]
    assert policy["spec"]["podSelector"]["matchLabels"] == deployed()["labels"]
    (rule,) = policy["spec"]["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": given["labels"]}}]
    assert rule["ports"][0]["port"] == deployed()["port"]


def test_the_image_has_what_the_lock_pins_and_nothing_of_the_deployment() -> None:
    pins = re.compile(r"^([a-z0-9._-]+)(?:\[\w+\])?==([^ ;]+)", re.M)
    locked = set(pins.findall((ROOT / "requirements.lock").read_text()))
    pinned = set(pins.findall((ROOT / "requirements-cluster.lock").read_text()))
    assert pinned - locked == set()
    image = {name for name, _ in pinned}
    assert {"dagster-postgres", "dagster-k8s", "psycopg", "duckdb-extension-ducklake", "setuptools"} <= image
    assert "pytest" not in image
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    allowed = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert "*" in ignored
    assert not {"var", "published", ".git", "tests"} & allowed
    assert all((ROOT / name).exists() for name in allowed)
    copied = re.findall(r"^COPY (\S+)", (DEPLOY / "Dockerfile").read_text(), re.M)
    assert copied == ["requirements-cluster.lock", "."]


@pytest.mark.deep
def test_a_second_code_location_ends_no_run_of_the_first_one(tmp_path: Path) -> None:
    """Fails for: a script that treats every run as lost when it starts. `stirred` writes down its calls."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, does in (("stirred", f'echo "$@" >> "{tmp_path}/asked"'), ("dagster", "exec sleep 60")):
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)
    own = {"PATH": f"{programs}:{os.environ['PATH']}", "STIRRED_CODE_PORT": "1"}

    def start(home: str) -> subprocess.Popen[str]:
        given = own | {"STIRRED_HOME": str(tmp_path / home)}
        script = DEPLOY / "code-location.sh"
        return subprocess.Popen([script], env=given, stderr=subprocess.PIPE, text=True, start_new_session=True)

    def asked() -> int:
        return len((tmp_path / "asked").read_text().splitlines()) if (tmp_path / "asked").exists() else 0

    running = [start("home")]
    try:
        eventually(lambda: asked() == 1)
        second = start("home")
        said = second.communicate(timeout=600)[1]
        assert second.returncode == 1
        assert "another code location serves" in said
        assert asked() == 1
        running.append(start("of another deployment"))
        eventually(lambda: asked() == 2)
        os.killpg(running[0].pid, signal.SIGKILL)
        running.append(start("home"))
        eventually(lambda: asked() == 3)
    finally:
        for process in running:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=600)


def test_two_jobs_of_slurm_take_turns() -> None:
    lines = (DEPLOY / "stirred.sbatch").read_text().splitlines()
    assert "#SBATCH --dependency=singleton" in lines
    # Both have one name, because Slurm compares names.
    assert "#SBATCH --job-name=stirred" in lines


@pytest.mark.deep
def test_the_slurm_script_keeps_the_secrets_of_zones_from_daemon_and_webserver(tmp_path: Path) -> None:
    """The script runs with programs in place of the services, which record their environment."""
    project = tmp_path / "project"
    (project / ".venv" / "bin").mkdir(parents=True)
    (project / "deploy").symlink_to(DEPLOY)
    for name in ("stirred", "dagster", "dagster-daemon", "dagster-webserver"):
        program = project / ".venv" / "bin" / name
        program.write_text(f'#!/bin/sh\nenv > "{tmp_path}/{name}.env"\n' + "sleep 3\n" * (name != "stirred"))
        program.chmod(0o755)
    made = make_secrets(tmp_path / "secrets")
    site = tmp_path / "site.env"
    site.write_text(f"SECRETS={made}\nDAGSTER_HOME={tmp_path}/dagster\nSTIRRED_HOME={tmp_path}/home\n")
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PROJECT": str(project), "SITE": str(site)}
    variables["TMPDIR"] = str(tmp_path / "of_the_node")
    done = subprocess.run(["bash", DEPLOY / "stirred.sbatch"], env=variables, capture_output=True, timeout=600)
    assert done.returncode == 1  # as a service has ended
    found = {
        name: (tmp_path / f"{name}.env").read_text() for name in ("dagster", "dagster-daemon", "dagster-webserver")
    }
    key = (made / "passwords" / "s3_runs").read_text()
    assert f"AWS_SECRET_ACCESS_KEY={key}" in found["dagster"]
    assert f"STIRRED_HOME={tmp_path}/home" in found["dagster"]
    assert f"STIRRED_SPILL_FOLDER={tmp_path}/of_the_node/stirred-{os.getuid()}/spill" in found["dagster"]
    assert f"PGSERVICEFILE={made}/services/runs" in found["dagster"]
    for name in ("dagster-daemon", "dagster-webserver"):
        assert "AWS" not in found[name]
        assert "LAKE" not in found[name]
        assert f"PGSERVICEFILE={made}/services/dagster\n" in found[name]
    assert (tmp_path / "dagster" / "dagster.yaml").read_text() == (DEPLOY / "dagster.yaml").read_text()
