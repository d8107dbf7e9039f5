"""Partitioned releases under Dagster's daemon: a sensor launches the next runs, and repeats a run whose process is
lost."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import dagster as dg
import pytest
import yaml

from assets.release.method import Partitions, Round
from orchestration import automation
from orchestration.following import BY_COMMAND
from tests.assets.topdown.test_partitions import FIRST, LAST, QUIET, STATES, data_files, execute
from tests.topdown_deployments import topdown_deployment

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[3]
DEFINITIONS = """
from pathlib import Path
from orchestration.components import TopDown
from tests.deployments import deploy
from tests.topdown_deployments import topdown_dataset, topdown_declaration

root = Path({root!r})
defs = deploy(root, topdown_dataset(root), TopDown(topdown_declaration(partitions="state"))).definitions
"""
LOCAL = ROOT / "dagster.yaml"
OF_LEVELS = Round("states", "level_state", ["level_county", "level_block"])


def eventually(found: Callable[[], T], seconds: float = 900) -> T:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.2)
    raise AssertionError("it did not happen")


def begin(
    instance: dg.DagsterInstance,
    draw: str,
    *,
    job: str = FIRST,
    stage: str = "level_state",
    fails: bool = False,
    skips: bool = False,
    **tags: str,
) -> str:
    """A run of a job before a round, with the fields that the sensor reads. A repeated run may skip finished stages."""

    @dg.op(name=stage)
    def op(context: dg.OpExecutionContext) -> None:
        if not skips:
            context.log_event(dg.AssetMaterialization(key_of(stage), metadata={"draw": draw}))
        if fails:
            raise dg.Failure("a check did not pass")

    made = dg.GraphDefinition(name=job, node_defs=[op]).to_job()
    return made.execute_in_process(run_config=QUIET, instance=instance, tags=tags, raise_on_error=False).run_id


def key_of(stage: str) -> dg.AssetKey:
    return dg.AssetKey(["town", "redistricting", stage])


def test_what_follows_a_run_waits_for_every_state_of_its_draw() -> None:
    """Wrong programs: count states of another draw, or of the time before the run; or continue after a failure."""
    instance = dg.DagsterInstance.ephemeral()
    release: Any = SimpleNamespace(schema="town__redistricting", key=key_of)
    partitions = Partitions("town__redistricting__states", [OF_LEVELS])

    def launched() -> list[tuple[str | None, str | None, str | None]]:
        answer = automation._launch_next(instance, release, partitions)
        return [(each.job_name, each.partition_key, each.run_key) for each in getattr(answer, "run_requests", [])]

    def made(state: str, draw: str, *stages: str) -> None:
        for stage in stages or OF_LEVELS.stages:
            event = dg.AssetMaterialization(key_of(stage), partition=state, metadata={"draw": draw})
            instance.report_runless_asset_event(event)

    instance.add_dynamic_partitions(partitions.name, ["01", "02"])
    assert launched() == []
    made("01", "one")
    first = begin(instance, "one")
    assert launched() == [(STATES, "01", f"{first}/01"), (STATES, "02", f"{first}/02")]
    made("01", "one")
    made("02", "one", "level_county")
    made("02", "another")
    assert launched() == [(STATES, "02", f"{first}/02")]
    made("02", "one", "level_block")
    assert launched() == [(LAST, None, f"{first}/publication")]
    for other in ({"fails": True}, {"job": "by_hand"}, {BY_COMMAND: "x"}):
        begin(instance, "one", **other)  # type: ignore[arg-type]
        assert launched() == []
    second = begin(instance, "one")
    assert launched() == [(STATES, "01", f"{second}/01"), (STATES, "02", f"{second}/02")]


def test_each_round_follows_the_one_before_it() -> None:
    """Wrong programs: begin the second round with the first, after a run of other stages, or after a run of the last
    draw; or launch the job between the rounds twice."""
    instance = dg.DagsterInstance.ephemeral()
    release: Any = SimpleNamespace(schema="town__redistricting", key=key_of)
    first = Round("measurements", "charge", ["noisy_measurements_of_states"])
    partitions = Partitions("town__redistricting__states", [first, OF_LEVELS])
    instance.add_dynamic_partitions(partitions.name, ["01", "02"])
    measuring, between = "measurements__town__redistricting", "before_states__town__redistricting"

    def launched() -> list[tuple[str | None, str | None, str | None]]:
        answer = automation._launch_next(instance, release, partitions)
        return [(each.job_name, each.partition_key, each.run_key) for each in getattr(answer, "run_requests", [])]

    def made(state: str, stage: str, draw: str = "one") -> None:
        event = dg.AssetMaterialization(key_of(stage), partition=state, metadata={"draw": draw})
        instance.report_runless_asset_event(event)

    begin(instance, "none", job=between)
    assert launched() == []
    run = begin(instance, "one", stage="charge")
    assert launched() == [(measuring, "01", f"{run}/01"), (measuring, "02", f"{run}/02")]
    made("01", "noisy_measurements_of_states")
    made("02", "noisy_measurements_of_states", "another")
    assert launched() == [(measuring, "02", f"{run}/02")]
    made("02", "noisy_measurements_of_states")
    assert launched() == [(between, None, f"{run}/before_states")]
    begin(instance, "one", job="by_hand")
    assert launched() == []
    second = begin(instance, "one", job=between)
    assert launched() == [(STATES, "01", f"{second}/01"), (STATES, "02", f"{second}/02")]
    for state in ("01", "02"):
        made(state, "level_block")
        assert launched() != [(LAST, None, f"{second}/publication")]
        made(state, "level_county")
    assert launched() == [(LAST, None, f"{second}/publication")]
    begin(instance, "two", stage="charge")
    assert [job for job, *_ in launched()] == [measuring] * 2


def test_what_follows_a_lost_run_follows_the_run_that_finished_it() -> None:
    """The run that made the level of the states was lost afterwards. It is launched again, and skips the level."""
    instance = dg.DagsterInstance.ephemeral()
    release: Any = SimpleNamespace(schema="town__redistricting", key=key_of)
    partitions = Partitions("town__redistricting__states", [OF_LEVELS])

    def launched() -> list[str | None]:
        answer = automation._launch_next(instance, release, partitions)
        return [each.run_key for each in getattr(answer, "run_requests", [])]

    def again(run: str, root: str, resumes: bool = True, **changes: Any) -> str:
        tags = {"dagster/parent_run_id": run, "dagster/root_run_id": root}
        if resumes:
            tags["dagster/is_resume_retry"] = "true"
        return begin(instance, "one", **tags, **changes)

    instance.add_dynamic_partitions(partitions.name, ["01"])
    earlier = begin(instance, "one")
    lost = again(earlier, earlier, fails=True)
    assert launched() == [], "a run that succeeded before does not count"
    begin(instance, "one", skips=True)
    again(lost, lost, skips=True, job="by_hand")
    assert launched() == [], "nor does a run of something else"
    again(lost, earlier, skips=True, fails=True)
    assert launched() == []
    again(lost, earlier, resumes=False, skips=True)
    assert launched() == [], "nor a run of steps that somebody chose"
    again(lost, earlier, skips=True)
    assert launched() == [f"{lost}/01"]
    alone = begin(instance, "one", fails=True)
    assert launched() == []
    again(alone, alone, skips=True)
    assert launched() == [f"{alone}/01"]
    again(alone, alone, skips=True, fails=True)
    assert launched() == [f"{alone}/01"]


def test_on_one_machine_the_runs_of_states_take_turns(tmp_path: Path) -> None:
    """A sensor requests all of them at once, and each keeps estimating processes."""
    shutil.copy(LOCAL, tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        settings = instance.get_concurrency_config().run_queue_config
    assert settings is not None
    assert settings.tag_concurrency_limits == [{"key": "dagster/partition", "limit": 1}]


@contextmanager
def daemon(home: Path, definitions: Path) -> Iterator[None]:
    command = [str(Path(sys.executable).with_name("dagster-daemon")), "run", "-f", str(definitions), "-d", str(ROOT)]
    with (home / "daemon.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.mark.fault
def test_a_state_whose_run_is_killed_is_made_again_and_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STIRRED_TEST_MASTER_KEY", "5a" * 32)
    plain = topdown_deployment(tmp_path / "plain")
    execute(plain, FIRST)
    parted = topdown_deployment(tmp_path / "town", partitions="state")
    home = tmp_path / "dagster"
    home.mkdir()
    settings = yaml.safe_load(LOCAL.read_text())
    settings["run_monitoring"] |= {"poll_interval_seconds": 2, "start_timeout_seconds": 300}
    (home / "dagster.yaml").write_text(yaml.safe_dump(settings))
    definitions = tmp_path / "town_definitions.py"
    definitions.write_text(DEFINITIONS.format(root=str(tmp_path / "town")))
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    dagster = str(Path(sys.executable).with_name("dagster"))
    with dg.DagsterInstance.get() as instance, daemon(home, definitions):
        launch = [dagster, "job", "launch", "-f", str(definitions), "-d", str(ROOT), "-j", FIRST]
        subprocess.run(launch, cwd=ROOT, check=True, capture_output=True)

        def begun() -> str:
            for run in instance.get_runs(dg.RunsFilter(job_name=STATES)):
                for record in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_START):
                    if record.step_key == "town__redistricting__level_county":
                        return run.run_id
            return ""

        victim = eventually(begun)
        said = " ".join(str(entry.message) for entry in instance.all_logs(victim))
        found = re.search(r"Executing steps in process \(pid: (\d+)\)", said) or re.search(r"pid: (\d+)", said)
        assert found
        os.kill(int(found[1]), signal.SIGKILL)
        publications = dg.RunsFilter(job_name=LAST)
        (last,) = eventually(lambda: [run for run in instance.get_runs(publications) if run.is_finished])
        runs = instance.get_runs(dg.RunsFilter(job_name=STATES))
        assert last.is_success
        assert instance.get_run_by_id(victim).status is dg.DagsterRunStatus.FAILURE
        again = [run for run in runs if run.root_run_id == victim]
        assert [run.status for run in again] == [dg.DagsterRunStatus.SUCCESS]
        assert again[0].tags["dagster/root_run_id"] == victim, "the sensor knows a run that is launched again by it"
        assert again[0].tags["dagster/is_resume_retry"] == "true"
        states = instance.get_dynamic_partitions("town__redistricting__states")
        assert len(runs) == len(states) + 1
        assert len(instance.get_runs(publications)) == 1
        records = instance.get_run_records(dg.RunsFilter(job_name=STATES))
        times = sorted((each.start_time or 0.0, each.end_time or 0.0) for each in records)
        assert all(end <= start for (_, end), (start, _) in pairwise(times)), "one state after the other"
    assert data_files(parted) == data_files(plain) != {}
    assert [entry.draw_id for entry in parted.ledger] == [entry.draw_id for entry in plain.ledger]
