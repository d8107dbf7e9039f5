"""Claims about a whole cluster deployment, run from its files without containers: the queue, kills, bytes, secrets."""

import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import dagster as dg
import psycopg
import pytest
from pyarrow import fs

from resources.statements import Zone
from tests.deploy.cluster import (
    MASTER_KEY,
    RELEASE,
    Cluster,
    begin_launch,
    begun,
    contents,
    eventually,
    process_of,
    releases,
    rows,
    run_commands,
    running_cluster,
    start_all,
    start_code,
)
from tests.faults import rehearsal

DRAW = "two_states__swapped__swapped"


@pytest.mark.fault
def test_a_release_survives_two_kills_with_the_bytes_of_a_deployment_on_files(tmp_path: Path) -> None:
    """The run's process is killed in the draw, and the code location with the second run; the third one succeeds."""
    with running_cluster(tmp_path / "cluster") as cluster:
        expected = contents(cluster.on_files())
        start_all(cluster)
        with cluster.instance() as instance, (tmp_path / "launched").open("wb") as log:
            launched = begin_launch(cluster, log)
            first = eventually(lambda: begun(instance, 1, DRAW))
            os.kill(process_of(instance, first), signal.SIGKILL)
            eventually(lambda: instance.get_run_by_id(first).status is dg.DagsterRunStatus.FAILURE)
            second = eventually(lambda: begun(instance, 2))
            worker = process_of(instance, second)
            cluster.kill("code")
            eventually(lambda: not Path(f"/proc/{worker}").exists())
            assert instance.get_run_by_id(second).status is dg.DagsterRunStatus.STARTED
            start_code(cluster)
            eventually(lambda: instance.get_run_by_id(second).status is dg.DagsterRunStatus.FAILURE)
            assert launched.wait(900) == 0, (tmp_path / "launched").read_text()
            runs = releases(instance)
            assert [run.status.value for run in runs] == ["FAILURE", "FAILURE", "SUCCESS"]
            assert [run.parent_run_id for run in runs] == [None, first, second]
        found = contents(cluster.published)
        assert found.keys() == expected.keys()
        assert len([name for name in found if name.suffix in (".csv", ".parquet")]) >= 4
        assert {name for name in found if found[name] != expected[name]} == set()
        (reserved,) = rows(cluster, "owner", "SELECT count(*) FROM stirred.entries WHERE kind = 'reserve'")
        assert reserved == (1,)
        require_zones_apart(cluster)
        require_no_secret(cluster, (tmp_path / "launched").read_text())


@pytest.mark.fault
def test_a_lost_run_that_the_daemon_overlooks_is_launched_again(tmp_path: Path) -> None:
    """Dagster stores the event of a failure before the run's status, and the daemon looks in between.

    Fails for: trust in the daemon, which never looks again, so that `stirred launch` would follow forever.
    """
    with running_cluster(tmp_path / "cluster") as cluster:
        start_all(cluster)
        with cluster.instance() as instance, (tmp_path / "launched").open("wb") as log:
            launched = begin_launch(cluster, log)
            first = eventually(lambda: begun(instance, 1, DRAW))
            worker = process_of(instance, first)
            os.kill(worker, signal.SIGSTOP)
            store = instance.run_storage.handle_run_event

            def store_late(*event: Any) -> None:
                # The daemon looks every five seconds.
                time.sleep(20)
                store(*event)

            run = instance.get_run_by_id(first)
            assert run
            with mock.patch.object(instance.run_storage, "handle_run_event", store_late):
                instance.report_run_failed(run, "The run's process is gone.")
            os.kill(worker, signal.SIGKILL)
            assert launched.wait(900) == 0, (tmp_path / "launched").read_text()
            assert [run.status.value for run in releases(instance)] == ["FAILURE", "SUCCESS"]
            failures = instance.get_records_for_run(first, of_type=dg.DagsterEventType.RUN_FAILURE).records
            assert len(failures) == 2, "it was overlooked, and reported again once"


@pytest.mark.fault
def test_states_lose_a_run_the_daemon_and_both_servers_and_nobody_does_anything(tmp_path: Path) -> None:
    """`tests.faults.rehearsal`, of four small states: bytes of one run without partitions, after one charge."""
    with running_cluster(tmp_path / "cluster", rehearsal.RELEASE, 400) as cluster:
        cluster.at_once = 2
        figures = rehearsal.rehearse(cluster, ["10", "11", "44", "50"])
    assert figures["runs of states"]["SUCCESS"] == 4
    assert figures["runs of states"]["FAILURE"] >= 1


SYNC = """
import os, sys
from pyarrow import fs
key = {"access_key": os.environ["AWS_ACCESS_KEY_ID"], "secret_key": os.environ["AWS_SECRET_ACCESS_KEY"]}
s3 = fs.S3FileSystem(**key, endpoint_override=os.environ["AWS_ENDPOINT_URL"], region="us-east-1")
places = [(s3, path[5:]) if path.startswith("s3://") else (fs.LocalFileSystem(), path) for path in sys.argv[3:]]
(source, folder), (target, copy) = places
fs.copy_files(folder, copy, source, target)
"""
"""`aws s3 sync FROM TO`."""


@pytest.mark.fault
def test_a_cluster_is_backed_up_and_restored_by_the_commands_of_the_page(tmp_path: Path) -> None:
    """The whole cluster is lost in between. The audit finds no difference, and the release has its bytes and one
    charge."""
    with running_cluster(tmp_path / "cluster") as cluster:
        secrets, backup, aws = cluster.secrets, tmp_path / "back-up", tmp_path / "programs" / "aws"
        given, address = (secrets / "runs.env").read_text(), cluster.replaced["http://storage:8333"]
        port = int(re.findall(r"port=(\d+)", (secrets / "services" / "owner").read_text())[0])
        aws.parent.mkdir()
        aws.write_text(f"#!{sys.executable}{SYNC}")
        aws.chmod(0o755)

        def run(name: str) -> None:
            replaced = {"/srv/stirred": str(cluster.root / "srv"), "/safe/2026-11-22": str(backup)}
            replaced["https://storage.example"] = address
            done = run_commands(name, secrets, port, replaced, first=str(aws.parent))
            assert done.returncode == 0, done.stderr

        start_all(cluster)
        assert cluster.run("code", "stirred", "launch", RELEASE).returncode == 0
        expected = contents(cluster.published)
        for service in ("daemon", "webserver", "code"):
            cluster.kill(service)
        run("back-up")
        password = (secrets / "passwords" / "postgres").read_text()
        administrator = f"host=127.0.0.1 port={port} user=postgres dbname=postgres password={password}"
        with psycopg.connect(administrator, autocommit=True) as connection:
            for name in ("dagster", "ledger", "confidential", "public"):
                connection.execute(f"DROP DATABASE stirred_{name} WITH (FORCE)".encode())
        keys = dict(line.split("=") for line in given.splitlines())
        storage = fs.S3FileSystem(
            access_key=keys["AWS_ACCESS_KEY_ID"],
            secret_key=keys["AWS_SECRET_ACCESS_KEY"],
            endpoint_override=address,
            region="us-east-1",
        )
        for bucket in ("confidential", "public"):
            storage.delete_dir_contents(bucket)
        shutil.rmtree(cluster.root / "srv")
        for name in ("roles", "restore"):
            run(name)
        (secrets / "runs.env").chmod(0o600)
        (secrets / "runs.env").write_text(given)
        start_all(cluster)
        audited = cluster.run("code", "stirred", "audit")
        assert audited.returncode == 0, audited.stdout + audited.stderr
        assert contents(cluster.published) == expected
        assert cluster.run("code", "stirred", "launch", RELEASE).returncode == 0
        assert contents(cluster.published) == expected
        assert rows(cluster, "owner", "SELECT count(*) FROM stirred.entries WHERE kind = 'reserve'") == [(1,)]


def require_zones_apart(cluster: Cluster) -> None:
    """No process of the webserver or the daemon has a variable, role or service of a zone."""
    key = (cluster.secrets / "passwords" / "s3_runs").read_text()
    for service in ("webserver", "daemon"):
        group = cluster.running[service].pid
        members = [path for path in Path("/proc").glob("[0-9]*") if belongs(path, group)]
        assert members
        for process in members:
            environment = (process / "environ").read_bytes().decode()
            for word in ("AWS_", "STIRRED_LAKE", "STIRRED_MASTER_KEY", "STIRRED_SECRETS", MASTER_KEY, key):
                assert word not in environment, service
        given = Path(cluster.environment(service)["PGSERVICEFILE"]).read_text()
        assert re.findall(r"^\[(\w+)\]", given, re.M) == ["stirred_dagster"]
    with pytest.raises(psycopg.OperationalError, match="not found"):
        rows(cluster, "dagster", "SELECT 1", "stirred_confidential")
    # Their own passwords, tried at the other databases.
    for database in ("stirred_confidential", "stirred_public", "stirred_ledger"):
        with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
            rows(cluster, "dagster", "SELECT 1", f"stirred_dagster dbname={database}")


def belongs(process: Path, group: int) -> bool:
    """Whether a process belongs to a process group."""
    try:
        return os.getpgid(int(process.name)) == group
    except ProcessLookupError:
        return False


def require_no_secret(cluster: Cluster, printed: str) -> None:
    """No password and no key is in any log, or in Dagster's storage."""
    logs = [*cluster.root.glob("logs/*"), *cluster.root.glob("srv/home/logs/*"), cluster.database.log]
    logs += [cluster.root / "s3" / "log"]
    assert len(logs) >= 6
    texts = {str(path): path.read_text(errors="replace") for path in logs} | {"printed": printed}
    kept = rows(
        cluster, "dagster", "SELECT event FROM event_logs UNION ALL SELECT run_body FROM runs", "stirred_dagster"
    )
    texts["dagster"] = "".join(str(text) for (text,) in kept)
    assert len(texts["dagster"]) > 10_000
    for name, text in texts.items():
        assert not [secret for secret in cluster.kept_secret if secret in text], name
    for zone, keys in ((Zone.CONFIDENTIAL, True), (Zone.PUBLIC, False)):
        found = rows(
            cluster,
            "runs",
            "SELECT count(*), count(encryption_key) FROM ducklake_data_file",
            f"stirred_{zone.value}",
        )
        assert found[0][0]
        assert found[0][1] == (found[0][0] if keys else 0)
