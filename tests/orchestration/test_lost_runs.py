"""Claims about runs that lost a server or their process: they are launched again, but refused runs are not."""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import dagster as dg
import pytest
from sqlalchemy.exc import OperationalError, ProgrammingError

from assets import stages
from assets.conventions import WRITES, StageKind
from assets.publication.asset import publish
from assets.stages import stage, stage_check
from assets.topdown.declaration import OF_LEVELS
from orchestration import following, jobs
from orchestration.definitions import defs
from orchestration.following import BY_COMMAND, GIVEN_UP, Run, Step, ask, follow
from orchestration.jobs import awaits_retry, lost_runs
from orchestration.launch import _Here
from resources import storage
from resources.storage import TransientError
from resources.warehouse import Warehouse, WarehouseError
from tests.deployments import small_deployment

KEY = dg.AssetKey(["town"])
QUEUE = {"enabled": True, "max_retries": 2, "retry_on_asset_or_op_failure": False}
LOST = TransientError("statement cef/units failed: the connection to a server was lost")


@pytest.fixture
def instance(monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    """An instance that launches runs again like the instance of `deploy/dagster.yaml`, but repeats steps at once."""
    monkeypatch.setattr(stages, "_WAITS", (0, 0))
    with dg.DagsterInstance.ephemeral(settings={"run_retries": QUEUE}) as made:
        yield made


def run(instance: dg.DagsterInstance, of_stage: Callable[[], None], of_check: Callable[[], None], **tags: str) -> Any:
    """A run of a stage and its check, which may raise."""

    @stage(KEY, "town", StageKind.COUNTS, "Units.")
    def units() -> dg.MaterializeResult:
        of_stage()
        return dg.MaterializeResult()

    @stage_check(KEY, "counted", "They are counted.")
    def counted() -> dg.AssetCheckResult:
        of_check()
        return dg.AssetCheckResult(passed=True)

    job = dg.define_asset_job("make")
    made = dg.Definitions(assets=[units], asset_checks=[counted], jobs=[job], executor=dg.in_process_executor)
    given = {f"dagster/{name}": value for name, value in tags.items()}
    return made.resolve_job_def("make").execute_in_process(instance=instance, raise_on_error=False, tags=given)


def test_outside_of_a_run_nothing_is_repeated() -> None:
    """The benchmarks call the functions of stages themselves."""
    calls = []

    @stage(KEY, "town", StageKind.COUNTS, "Units.")
    def units() -> dg.MaterializeResult:
        calls.append(1)
        raise LOST

    with pytest.raises(TransientError):
        units()
    assert calls == [1]


def failing(times: int, error: Exception = LOST) -> Callable[[], None]:
    """A function whose first `times` calls raise an error."""
    left = [error] * times

    def fail() -> None:
        if left:
            raise left.pop()

    return fail


def explain(failed: dg.DagsterEvent) -> str:
    """The error text of a failed step."""
    said = failed.step_failure_data.user_failure_data
    return (said.description if said else None) or ""


def test_a_step_that_lost_a_server_is_repeated_and_then_its_run(instance: dg.DagsterInstance) -> None:
    """Wrong programs: repeat never or endlessly, or count a lost server as a refusal."""
    assert run(instance, failing(2), failing(2)).success
    for steps in ((failing(3), failing(0)), (failing(0), failing(3))):
        result = run(instance, *steps)
        (failed,) = (event for event in result.all_events if event.is_step_failure)
        words = explain(failed)
        assert words.startswith("statement cef/units failed: the connection to a server was lost.\nThis is no verdict")
        found = instance.get_run_by_id(result.run_id)
        assert found
        assert found.tags["dagster/will_retry"] == "true"
        assert awaits_retry(instance, found)


def test_what_is_refused_is_not_launched_again_even_if_the_run_before_was_lost(instance: dg.DagsterInstance) -> None:
    """Wrong program: sets a tag that the next run inherits."""
    for tags in ({}, {"retry_on_asset_or_op_failure": "true"}):
        result = run(instance, failing(1, WarehouseError("units.csv: no records")), failing(0), **tags)
        found = instance.get_run_by_id(result.run_id)
        assert found
        assert found.tags["dagster/will_retry"] == "false"
        assert not awaits_retry(instance, found)


def test_a_later_step_does_not_take_back_that_the_run_is_launched_again(instance: dg.DagsterInstance) -> None:
    """In a run that is itself launched again. Wrong program: each step removes the inherited tag."""

    @stage(dg.AssetKey(["one"]), "town", StageKind.COUNTS, "Units.")
    def one() -> dg.MaterializeResult:
        raise LOST

    @stage(dg.AssetKey(["other"]), "town", StageKind.COUNTS, "Units.")
    def other() -> dg.MaterializeResult:
        return dg.MaterializeResult()

    tags = {"dagster/retry_on_asset_or_op_failure": "true", "dagster/retry_number": "1"}
    job = dg.Definitions(assets=[one, other], jobs=[dg.define_asset_job("make")]).resolve_job_def("make")
    result = job.execute_in_process(instance=instance, raise_on_error=False, tags=tags)
    found = instance.get_run_by_id(result.run_id)
    assert found
    assert found.tags["dagster/retry_on_asset_or_op_failure"] == "true"


def test_no_gate_takes_a_lost_server_for_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not while zones are opened for all gates of a stage, for one, or for the publication."""
    monkeypatch.setattr(stages, "_WAITS", ())
    monkeypatch.setattr(storage, "WAITS", ())
    deployment = small_deployment(tmp_path)

    def lose(*_: Any, **__: Any) -> Any:
        raise LOST

    monkeypatch.setattr(Warehouse, "_open", lose)
    result = deployment._execute("checks", [], raise_on_error=False)
    failed = {check.check_name for check in result.get_asset_check_evaluations() if not check.passed}
    assert failed == {"files_as_published"}, "there are none"
    words = [explain(event) for event in result.all_events if event.is_step_failure]
    assert len(words) > 4
    assert {each.partition("\n")[0] for each in words} == {f"{LOST}."}
    with pytest.raises(TransientError):
        publish(deployment.context)


def lost_run(instance: dg.DagsterInstance, **tags: str) -> str:
    """A run whose process was lost, and which Dagster's daemon has overlooked."""
    made = stored_run(instance, **tags)
    instance.report_run_failed(made, "The run's process is gone.")
    return made.run_id


def stored_run(instance: dg.DagsterInstance, parent: str | None = None, root: str | None = None, **tags: str) -> Any:
    """A run that is not in the queue."""

    @dg.job
    def make() -> None: ...

    above = {"dagster/parent_run_id": parent, "dagster/root_run_id": root} if parent and root else {}
    given = {BY_COMMAND: "name", **above, **tags}
    return instance.create_run_for_job(make, tags=given, parent_run_id=parent, root_run_id=root)


def test_a_run_whose_process_is_gone_is_reported_once_the_report_can_be_stored(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong programs: Dagster alone, whose thread for it ends with the first report that a full disk refuses; and
    reports of runs with a process, of runs that ended between two looks, or of other processes' runs."""
    found = list[dg.DagsterRunStatus]()
    gone = multiprocessing.get_context("fork").Process(target=lambda: None)
    gone.start()
    os.waitid(os.P_PID, gone.pid or 0, os.WEXITED | os.WNOWAIT)

    @dg.op
    def look(context: dg.OpExecutionContext) -> None:
        def see() -> None:
            tick(instance)
            run = instance.get_run_by_id(context.run_id)
            found.append(run.status if run else dg.DagsterRunStatus.CANCELED)

        see()
        monkeypatch.setattr(dg.DagsterInstance, "run_launcher", dg.DefaultRunLauncher())
        see()
        monkeypatch.setattr(jobs, "_find_process", lambda *_: gone.pid)
        with monkeypatch.context() as earlier:
            earlier.setattr(jobs, "_BEGAN", time.time())
            see()
        with monkeypatch.context() as full:
            full.setattr(instance, "report_run_failed", Mock(side_effect=OperationalError("INSERT", {}, Exception())))
            with pytest.raises(OperationalError):
                see()
        see()

    @dg.job(executor_def=dg.in_process_executor, tags=following.OF_LOCATION)
    def make() -> None:
        look()

    with suppress(Exception):
        make.execute_in_process(instance=instance)
    assert found == [dg.DagsterRunStatus.STARTED] * 3 + [dg.DagsterRunStatus.FAILURE]


def test_the_process_of_a_run_is_the_one_that_runs_it(instance: dg.DagsterInstance) -> None:
    result = run(instance, lambda: None, lambda: None)
    assert jobs._find_process(instance, result.run_id) == os.getpid()
    assert jobs._find_process(instance, "none") is None


def reports(instance: dg.DagsterInstance, run_id: str) -> int:
    return len(instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.RUN_FAILURE).records)


def tick(instance: dg.DagsterInstance) -> None:
    assert isinstance(lost_runs(dg.build_sensor_context(instance=instance)), dg.SkipReason)


def test_a_lost_run_that_was_overlooked_is_reported_again_until_it_is_launched(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong programs: trust the order of two writes of Dagster; report without end; and a sensor that one run with a
    tag that is no number, which any user who launches can set, keeps from looking at any other run."""
    run_id = lost_run(instance)
    launched = lost_run(instance, **{"dagster/auto_retry_run_id": run_id})
    last = lost_run(instance, **{"dagster/retry_number": "2"})
    odd = [lost_run(instance, **{f"dagster/{name}": "many"}) for name in ("max_retries", "retry_number")]
    tick(instance)
    assert reports(instance, run_id) == 1, "the daemon has a minute to see it"
    monkeypatch.setattr(jobs, "OVERLOOKED_AFTER", timedelta())
    for times in range(2, 2 + jobs.REPORTS):
        tick(instance)
        assert reports(instance, run_id) == times
        # The daemon launches such a run again when it sees this report.
        found = instance.get_run_by_id(run_id)
        assert found
        assert found.status is dg.DagsterRunStatus.FAILURE
        assert found.tags["dagster/will_retry"] == "true"
    tick(instance)
    tick(instance)
    assert reports(instance, run_id) == 1 + jobs.REPORTS
    given_up = instance.get_run_by_id(run_id)
    assert given_up
    assert given_up.tags[GIVEN_UP] == run_id
    assert not awaits_retry(instance, given_up)
    assert [reports(instance, other) for other in (launched, last, *odd)] == [1] * 4


def test_the_last_run_allowed_is_put_into_the_queue_although_it_is_stored_already(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a killed run, if the disk of Dagster's database is full while the daemon launches the next one again.
    Wrong program: uses Dagster's own count of runs, which counts the waiting run as one too many."""
    monkeypatch.setattr(jobs, "OVERLOOKED_AFTER", timedelta())
    first = stored_run(instance, **{"dagster/auto_retry_run_id": "second"})
    instance.report_run_failed(first, "The run's process is gone.")
    group = {"root": first.run_id}
    second = stored_run(instance, first.run_id, **group, **{"dagster/retry_number": "1"})
    stored_run(instance, second.run_id, **group, **{"dagster/retry_number": "2"})
    instance.report_run_failed(second, "The run's process is gone.")

    def is_launched_again() -> str:
        found = instance.get_run_by_id(second.run_id)
        assert found
        return found.tags["dagster/will_retry"]

    assert is_launched_again() == "false"
    tick(instance)
    assert is_launched_again() == "true", "the daemon then puts the run that waits into the queue"


def test_a_run_in_which_dagster_lost_its_own_database_is_launched_again(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster reads the instance before a step's function begins, and stores a failure to read it as a failure of the
    step. Wrong program: treats the same error of the step's own code, which is a fault, alike."""
    monkeypatch.setattr(jobs, "OVERLOOKED_AFTER", timedelta())
    lost = OperationalError("SELECT", {}, Exception("server closed the connection"))
    faulty = run(instance, failing(1, lost), failing(0)).run_id
    with monkeypatch.context() as restarted:
        of_steps = "dagster._core.execution.plan.execute_plan.core_dagster_event_sequence_for_step"
        restarted.setattr(of_steps, Mock(side_effect=lost))
        overlooked = run(instance, failing(0), failing(0)).run_id
    tick(instance)
    assert [reports(instance, run_id) for run_id in (faulty, overlooked)] == [1, 2]
    found = instance.get_run_by_id(overlooked)
    assert found
    assert found.tags["dagster/will_retry"] == "true"


def test_a_wait_for_the_database_of_the_instance_is_reported_after_some_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Wrong programs: stay silent for ten minutes, or report each moment in which SQLite is locked."""
    clock = [0.0]
    monkeypatch.setattr(following.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(following.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    told: list[tuple[float, str]] = []

    def look(lost_until: float) -> None:
        if clock[0] < lost_until:
            raise OperationalError("SELECT", (), OSError("/secret/runs.db"))

    def report(step: Step) -> None:
        told.append((clock[0], step.words))

    ask(report, look, 4.0)
    assert told == []
    with pytest.raises(OperationalError):
        ask(report, look, 10_000.0)
    ((when, words),) = told
    assert when < 15
    assert "cannot be read: OperationalError. Trying again for up to 10 minutes" in words


class Queued(_Here):
    """The runs of an instance, as if its daemon launched lost runs again."""

    def awaits_retry(self, run: Run) -> bool:
        found = self._instance.get_run_by_id(run.run_id)
        return found is not None and awaits_retry(self._instance, found)


def follow_queued(instance: dg.DagsterInstance, home: Path) -> list[str]:
    """Follow a job in the queue; the runs, the last one last."""
    return [run.run_id for run in follow(Queued(instance, home), "name", lambda step: None)]


def test_following_ends_when_there_is_neither_a_run_nor_a_retry_to_come(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Wrong programs: follow for as long as Dagster's tag promises a retry, or look 1,200 times in ten minutes."""
    clock = [0.0]
    monkeypatch.setattr(following.time, "monotonic", lambda: clock[-1])
    monkeypatch.setattr(following.time, "sleep", lambda seconds: clock.append(clock[-1] + seconds))
    run_id = lost_run(instance)
    assert follow_queued(instance, tmp_path) == [run_id]
    assert clock[-1] >= following.LONGEST_UNTIL_RETRY
    assert len(clock) < 60
    instance.add_run_tags(run_id, {GIVEN_UP: run_id})
    looks = len(clock)
    follow_queued(instance, tmp_path)
    assert len(clock) == looks


def test_following_goes_on_while_the_database_of_the_instance_is_lost(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each connection of the pool is found lost by another query. Wrong programs: end the command with the first query
    that fails, or repeat only some queries, while the run goes on."""
    monkeypatch.setattr(following, "_BETWEEN_LOOKS", 0.0)
    run_id = lost_run(instance)
    instance.add_run_tags(run_id, {GIVEN_UP: run_id, "dagster/failure_reason": "STEP_FAILURE"})
    failed: list[str] = []

    def lose_every_second(name: str) -> None:
        question, numbers = getattr(instance, name), count()

        def ask(*given: Any, **options: Any) -> Any:
            if next(numbers) % 2 == 0:
                failed.append(name)
                raise OperationalError("SELECT", {}, Exception())
            return question(*given, **options)

        monkeypatch.setattr(instance, name, ask)

    for name in ("get_runs", "get_records_for_run"):
        lose_every_second(name)
    assert follow_queued(instance, tmp_path) == [run_id]
    assert failed == ["get_runs", "get_records_for_run", "get_records_for_run"]
    monkeypatch.setattr(instance, "get_runs", Mock(side_effect=ProgrammingError("SELECT", {}, Exception())))
    with pytest.raises(ProgrammingError):
        follow_queued(instance, tmp_path)


@pytest.mark.deep
def test_every_job_of_a_deployment_says_what_it_writes() -> None:
    """Wrong program: leaves out a job that another module makes, so that two runs of one dataset could run at once."""
    graph = defs().resolve_asset_graph()
    found = {job.name: job for job in defs().resolve_all_job_defs() if job.name != "__ASSET_JOB"}
    assert len(found) > 20
    # The writes of these jobs do not depend on the declarations.
    assert [found.pop(name).tags[WRITES] for name in ("audit", "withdraw")] == ["audit", "withdrawals"]
    assert {name for name in found if name.count("hypercubes")} >= {"two_states__hypercubes"}
    for name, job in found.items():
        keys = set(job.asset_layer.executable_asset_keys) & graph.materializable_asset_keys
        written = {key.path[0] for key in keys if key.path[-1] != "composition"}
        if not name.startswith(OF_LEVELS):
            assert job.tags[WRITES] in written, name
        else:
            assert WRITES not in job.tags


def test_withdrawals_and_audits_wait_for_the_runs_that_write(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong programs: a withdrawal that only other withdrawals wait for, two that wait for each other, and one that
    does not wait for a state that the queue launches meanwhile."""

    def begin(name: str, **tags: str) -> dg.DagsterRun:
        made = instance.create_run_for_job(dg.GraphDefinition(name).to_job(), tags=tags)
        instance.report_dagster_event(dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, made.job_name), made.run_id)
        return made

    def wait(dataset: str | None, run_id: str = "") -> list[str]:
        """The jobs that are waited for; each ends while another one is slept."""
        reported, slept, waited, ended = list[str](), list[float](), list[str](), set[str]()

        def end_one(seconds: float) -> None:
            slept.append(seconds)
            if reported and (left := [run for run in runs if run.run_id in reported[-1] and run.run_id not in ended]):
                instance.report_run_canceled(left[0])
                ended.add(left[0].run_id)
                waited.append(left[0].job_name)
                if waited == ["village__counts"]:
                    runs.append(begin(states, **{following.PARTITION: "02"}))
            assert len(slept) < 9

        monkeypatch.setattr(time, "sleep", end_one)
        jobs.wait_for_writers(instance, dataset, reported.append, run_id)
        return waited

    runs = [
        begin("village__counts", **{WRITES: "village"}),
        begin(states := "states__village__redistricting", **{following.PARTITION: "01"}),
        begin("town__counts", **{WRITES: "town"}),
        begin("withdraw", **{WRITES: "withdrawals"}),
        begin("withdraw", **{WRITES: "withdrawals"}),
        begin("cef__village", **{following.PARTITION: "n"}),
    ]
    assert wait("village", runs[3].run_id) == [], "runs on files take turns by steps"
    monkeypatch.setenv("STIRRED_DEPLOYMENT", "cluster")
    assert wait("village", runs[3].run_id) == ["village__counts", states, "cef__village", states]
    own = instance.get_run_by_id(runs[3].run_id)
    assert own
    assert own.tags[WRITES] == "village", "the queue launches no run of the dataset beside it"
    assert wait("village", runs[4].run_id) == ["withdraw"], "the earlier one goes first"
    assert wait("village") == ["withdraw"]
    assert wait(None) == ["town__counts"]
