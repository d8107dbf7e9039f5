"""Claims about runs on one machine whose process was killed: the next run ends them, and no other."""

import fcntl
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.conventions import POOL
from orchestration.release_definitions import define_resources
from orchestration.run_locks import end_lost_runs, hold_lock

STARTED = dg.DagsterRunStatus.STARTED


@pytest.fixture
def instance(tmp_path: Path) -> dg.DagsterInstance:
    return dg.DagsterInstance.local_temp(str(tmp_path))


def begin(instance: dg.DagsterInstance) -> str:
    """A run that counts as running, and has a slot."""
    run_id = instance.create_run_for_job(job(lambda context: None), status=STARTED).run_id
    instance.event_log_storage.set_concurrency_slots(POOL, 4)
    instance.event_log_storage.claim_concurrency_slot(POOL, run_id, "town")
    return run_id


def job(of_step: Callable[[dg.OpExecutionContext], None], home: Path = Path()) -> dg.JobDefinition:
    @dg.op(pool=POOL)
    def town(context: dg.OpExecutionContext) -> None:
        of_step(context)

    @dg.job(resource_defs=define_resources(home).resources, executor_def=dg.in_process_executor)
    def make() -> None:
        town()

    return make


def in_process(home: Path, run_id: str) -> tuple[int, int]:
    """A process of a run, and one that it forked, as those that estimate are."""
    reading, writing = os.pipe()
    if (process := os.fork()) == 0:
        with hold_lock(home, run_id):
            if (forked := os.fork()) > 0:
                os.write(writing, forked.to_bytes(8))
            signal.pause()
        os._exit(0)
    return process, int.from_bytes(os.read(reading, 8))


def test_a_run_ends_those_whose_process_was_killed_and_no_others(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    """Wrong programs: use a lock that a forked process keeps (`flock`) or that does not outlive a first look; and a run
    that ends a running run, one that has shown no lock yet, or itself."""
    home = tmp_path / "home"
    killed, alive, unknown = (begin(instance) for _ in range(3))
    assert instance.event_log_storage.get_concurrency_run_ids() == {killed, alive, unknown}
    processes = [*in_process(home, killed), *in_process(home, alive)]
    seen: dict[str, Any] = {}

    def look(context: dg.OpExecutionContext) -> None:
        seen["holders"] = instance.event_log_storage.get_concurrency_run_ids()
        seen["locks"] = {path.name for path in (home / "runs").iterdir()}
        seen["own"] = context.run_id

    try:
        os.kill(processes[0], signal.SIGKILL)
        os.waitpid(processes[0], 0)
        for _ in range(2):
            assert job(look, home).execute_in_process(instance=instance).success
            statuses = {run: instance.get_run_by_id(run).status for run in (killed, alive, unknown)}  # type: ignore[union-attr]
            assert statuses == {killed: dg.DagsterRunStatus.FAILURE, alive: STARTED, unknown: STARTED}
            assert seen["holders"] == {alive, unknown, seen["own"]}
            assert seen["locks"] == {alive, seen["own"]}
            assert [path.name for path in (home / "runs").iterdir()] == [alive]
    finally:
        for process in processes[1:]:
            os.kill(process, signal.SIGKILL)


def test_a_run_that_begins_or_ends_meanwhile_is_not_ended(
    instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process looks while a process makes or removes its lock. A file that has the run's name before it is
    locked fails, and so does a lock that counts as lost because the run has just released it."""
    run_id, lock, looked = begin(instance), fcntl.lockf, list[int]()
    (tmp_path / "runs").mkdir()

    def look_first(descriptor: int, how: int) -> None:
        looked.append(how)
        if how == fcntl.LOCK_EX:
            end_lost_runs(instance, tmp_path)
        else:
            (tmp_path / "runs" / run_id).unlink()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "lockf", look_first)
    with hold_lock(tmp_path, run_id):
        pass
    (tmp_path / "runs" / run_id).touch()
    end_lost_runs(instance, tmp_path)
    assert looked == [fcntl.LOCK_EX, fcntl.LOCK_EX | fcntl.LOCK_NB]
    found = instance.get_run_by_id(run_id)
    assert found is not None
    assert found.status is STARTED
