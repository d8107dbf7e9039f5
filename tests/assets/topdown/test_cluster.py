"""Estimation by the workers of a Dask cluster: only public data are sent, and lost workers change nothing."""

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from assets.release.release import DeclarationError
from assets.topdown import estimation, reading, workers
from assets.topdown.estimation import estimate_level
from assets.topdown.reading import Scope
from orchestration.environment import dask_scheduler
from resources.processes import WorkerError
from resources.statements import Zone
from tests.assets.topdown.table_oracle import custody_of, release_of, village, written

ROOT = Path(__file__).resolve().parents[3]
SENDERS = {"estimation", "information", "replicates"}


@dataclass(frozen=True)
class Secret(workers.Task):
    """A task with an additional field, a key."""

    key: bytes = b""


def silent(done: int, parents: int) -> None:
    assert 0 < done <= parents


@pytest.mark.parametrize("task", [b"key", {"key": b"key"}, Secret(0, 1, {}, key=b"key"), None])
def test_nothing_but_the_two_kinds_of_tasks_is_sent(task: Any) -> None:
    sent: list[Any] = []

    def submit(*given: Any) -> Any:
        sent.append(given)

    with pytest.raises(TypeError, match="is not sent to a cluster"):
        workers._send(submit, workers.estimate_task, task)
    assert sent == []
    workers._send(submit, workers.estimate_task, workers.Task(0, 1, {}))
    assert len(sent) == 1


@pytest.mark.prove
def test_only_estimation_and_replicates_reach_a_cluster() -> None:
    """Only the pool's module imports the package, and no module that draws imports the functions that send."""
    senders, importers = set(), set()
    for layer in ("assets", "mechanisms", "orchestration", "resources"):
        for path in (ROOT / layer).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
                module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
                if any(name.split(".")[0] in ("distributed", "dask") for name in (module, *names)):
                    importers.add(path.relative_to(ROOT).as_posix())
                if module == "assets.topdown.workers" and {"perform", "on_cluster"} & set(names):
                    senders.add(path.stem)
                if "assets.topdown.workers" in names or (module == "assets.topdown" and "workers" in names):
                    senders.add(path.stem)
    assert importers == {"assets/topdown/workers.py"}
    assert senders == SENDERS


@pytest.mark.parametrize("address", ["host:8786", "tcp://host", "http://host:1", "tcp://user:word@host:8786", " "])
def test_an_address_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("STIRRED_DASK", address)
    with pytest.raises(DeclarationError, match=r"STIRRED_DASK is not an address such as tls://host:8786"):
        dask_scheduler()


@pytest.mark.parametrize(
    ("host", "accepted"),
    [
        ("tcp://127.0.0.1", True),
        ("tcp://[::1]", True),
        ("tcp://localhost", True),
        ("tls://node7.example", True),
        ("tls://[fe80::1]", True),
        ("tcp://node7.example", False),
        ("tcp://127.0.0.1.example", False),
        ("tcp://localhost.example", False),
        ("tcp://0.0.0.0", False),
        ("tcp://[fe80::1]", False),
    ],
)
def test_without_tls_only_this_machine_is_a_scheduler(
    monkeypatch: pytest.MonkeyPatch, host: str, accepted: bool
) -> None:
    """Results are unpickled in the run's process, so a hostile scheduler could read the run's keys."""
    monkeypatch.setattr("orchestration.environment.find_spec", lambda name: object())
    monkeypatch.setenv("STIRRED_DASK", f"{host}:8786")
    if accepted:
        assert dask_scheduler() == f"{host}:8786"
    else:
        with pytest.raises(DeclarationError, match="tcp:// is for this machine alone"):
            dask_scheduler()


def test_a_worker_with_other_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WorkerError, match="other code"):
        workers._with_same_code(len, [], "0" * 64)
    assert workers._with_same_code(len, [1], workers.hash_code()) == 1


class Lost:
    """A client whose cluster is lost, and the futures that it submits."""

    def __init__(self, *given: Any, **named: Any) -> None:
        pass

    def __enter__(self) -> "Lost":
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def nthreads(self) -> dict[str, int]:
        return {"worker": 1}

    def submit(self, *given: Any, **named: Any) -> "Lost":
        return self

    def result(self) -> Any:
        raise CancelledError


def test_a_cluster_that_is_lost_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed, "Client", Lost)
    with pytest.raises(WorkerError, match="was lost; what was stored is kept"):
        list(workers.on_cluster(workers.estimate_task, iter([workers.Task(0, 1, {})]), "tcp://127.0.0.1:8786"))


def test_a_cluster_with_certificates_is_not_asked_without_any() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(WorkerError, match=r"distributed\.comm\.tls names none"):
        list(workers.on_cluster(workers.estimate_task, iter([]), "tls://127.0.0.1:9"))


def test_a_level_of_which_a_result_is_missing_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    country = village()
    release = release_of(country)
    warehouse = written(tmp_path, release, country)

    def too_few(*given: Any) -> Any:
        yield from list(workers.perform(*given))[:-1]

    monkeypatch.setattr(estimation, "perform", too_few)
    with pytest.raises(WorkerError, match="Nation: 0 of 1 parents were estimated; nothing was stored"):
        estimate_level(warehouse, custody_of(warehouse), release, Scope("Nation"), silent)
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        assert "level_nation" not in session.tables(Zone.PUBLIC, release.schema)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, protocol="tcp://"
    ) as made:
        yield made


@pytest.mark.fault
def test_a_worker_that_is_killed_changes_nothing(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    country = village(seed=4)
    release = release_of(country)
    alone = written(tmp_path / "alone", release, country)
    expected = {
        level: estimate_level(alone, custody_of(alone), release, Scope(level), silent) for level in release.levels
    }
    monkeypatch.setattr(reading, "PLACES_AT_A_TIME", 3)
    monkeypatch.setattr(reading, "PLACES_OF_A_TASK", 1)
    monkeypatch.setattr(estimation, "SECONDS_BETWEEN_REPORTS", 0.0)
    monkeypatch.setattr(workers, "AHEAD", 1)
    warehouse = written(tmp_path / "cluster", release, country)
    remote = replace(release, scheduler=cluster.scheduler_address)
    killed: list[int] = []

    def kill_one(done: int, parents: int) -> None:
        if done < parents and not killed:
            victim = next(iter(cluster.workers.values())).pid
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    for level in release.levels:
        made = estimate_level(warehouse, custody_of(warehouse), remote, Scope(level), kill_one)
        assert made.content == expected[level].content
        assert made.made_of == expected[level].made_of
    assert len(killed) == 1


@pytest.mark.fault
def test_a_scheduler_that_is_killed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler dies in the middle of a level. That level is not stored, and another run continues."""
    distributed = pytest.importorskip("distributed")
    country = village()
    release = release_of(country)
    warehouse = written(tmp_path / "cluster", release, country)
    file = tmp_path / "scheduler.json"
    scheduler = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "distributed.cli.dask_scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--no-dashboard",
            "--scheduler-file",
            str(file),
        ]
    )
    worker = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(file), "--no-dashboard"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        with distributed.Client(scheduler_file=str(file), set_as_default=False, timeout=600) as client:
            client.wait_for_workers(1, timeout=600)
            address = client.scheduler.address
        monkeypatch.setattr(reading, "PLACES_OF_A_TASK", 1)
        monkeypatch.setattr(estimation, "SECONDS_BETWEEN_REPORTS", 0.0)
        monkeypatch.setattr(workers, "AHEAD", 1)
        monkeypatch.setattr(workers, "_CONNECT", 5)
        remote = replace(release, scheduler=address)
        for level in ("Nation", "State", "County"):
            estimate_level(warehouse, custody_of(warehouse), remote, Scope(level), silent)
        with pytest.raises(WorkerError, match=r"Dask cluster .*(was lost|connection broke)"):
            estimate_level(
                warehouse, custody_of(warehouse), remote, Scope("Block"), lambda done, parents: scheduler.kill()
            )
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    assert estimate_level(warehouse, custody_of(warehouse), release, Scope("Block"), silent).parents == 5


@pytest.mark.deep
def test_a_cluster_that_is_not_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(workers, "_CONNECT", 2)
    country = village()
    release = replace(release_of(country), scheduler="tcp://127.0.0.1:9")
    warehouse = written(tmp_path, release, country)
    with pytest.raises(WorkerError, match="cannot be reached"):
        estimate_level(warehouse, custody_of(warehouse), release, Scope("Nation"), silent)
