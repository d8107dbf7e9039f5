"""The jobs of the whole deployment: `withdraw`, `audit` and, in a cluster, `delete_replaced`, with their schedules and
sensors.

In a cluster, the sensor `lost_runs` makes sure that a lost run is launched again. Jobs, schedules and sensors of single
releases are in `automation`.
"""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from assets.confidentiality import list_deployed_nodes
from assets.conventions import NO_CONFIG, POOL, WRITES
from assets.publication.audit import Verdict, audit, write_report
from assets.publication.withdrawal import WithdrawalError, withdraw
from assets.release.method import Method
from assets.retention import RETENTION_KEY, build_retention
from assets.stages import REPEATS_STEPS, guard_step
from orchestration.automation import define_job
from orchestration.environment import is_cluster
from orchestration.following import GIVEN_UP, OF_LOCATION, PARTITION, Run, is_retried
from resources.ledger import Ledger

REPORTS = 3
"""How often the failure of a lost run is reported again."""

OVERLOOKED_AFTER, LOST_LATELY = timedelta(minutes=1), timedelta(days=1)
"""The least and the greatest age of a run's failure for it to be reported again."""

_WILL_RETRY = "dagster/will_retry"
"""Dagster's tag for whether its daemon launches a failed run again."""

_TURN = 10.0
"""The seconds in which the queue launches the runs that it has already chosen, and between two looks at runs."""

_IN_PROGRESS = (dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING)

_BEGAN = time.time()
"""When this process began, which launches all later runs."""


class Withdrawal(dg.Config):
    """The release or dataset to withdraw, and the person who withdraws it."""

    dataset: str = Field(description="The name of the dataset.")
    release: str = Field(description="The name of the release; * for the whole dataset with all its releases.")
    by: str = Field(description="The name of the person who withdraws it, for the ledger.")


def withdraw_job(published: Path) -> dg.JobDefinition:
    """The job `withdraw`, whose one operation is `withdrawal`. It cannot be undone."""

    @dg.op(name="withdrawal", pool=POOL)
    @guard_step()
    def withdraw_op(context: dg.OpExecutionContext, config: Withdrawal, ledger: Ledger) -> None:
        wait_for_writers(context.instance, config.dataset, context.log.info, context.run_id)
        try:
            release = None if config.release == "*" else config.release
            context.log.info(str(withdraw(ledger, published, config.dataset, release, config.by)))
        except WithdrawalError as error:
            raise dg.Failure(str(error), allow_retries=False) from None

    words = "Removes the tables, publications and ephemeral keys of a release or a dataset, for good. The ledger keeps "
    words += "what was charged and records the withdrawal."
    return define_job("withdraw", withdraw_op, words, writes="withdrawals")


def audit_job(methods: Sequence[Method[Any, Any, Any]], published: Path, reports: Path) -> dg.JobDefinition:
    """The job `audit`, which fails if a claim does not hold; `reports` is the folder of its report."""

    @dg.op(name="audit_report", pool=POOL, config_schema=NO_CONFIG)
    @guard_step()
    def audit_op(context: dg.OpExecutionContext, ledger: Ledger) -> None:
        wait_for_writers(context.instance, None, context.log.info, context.run_id)
        record = audit(methods, list_deployed_nodes(context), ledger, published, now())
        _, page = write_report(record, reports)
        context.add_output_metadata({"report": dg.MetadataValue.path(str(page)), **record["counts"]})
        if record["verdict"] == Verdict.FAILS:
            raise dg.Failure(f"The audit found problems; the report is {page}", allow_retries=False)

    words = "Verifies the ledger, the stored tables of releases that charge, every seal, signature and checksum, and "
    words += "repeats every draw whose key is kept. Writes a report. Charges nothing, and deletes only keys that killed"
    words += " processes left and sketches that are no longer needed."
    return define_job("audit", audit_op, words, writes="audit")


def wait_for_writers(
    instance: dg.DagsterInstance, dataset: str | None, report: Callable[[str], None], run_id: str = ""
) -> None:
    """In a cluster, wait until the runs in progress that write a dataset, or all runs, have ended.

    On files, steps take turns. In a lake they run side by side, so that a withdrawal would remove tables while a run
    makes them, and an audit would find a release half-made. The queue launches no further run of the dataset until the
    waiting run has ended, except for the states of a release that it already holds: a withdrawal waits for those too.
    Of two withdrawals that wait at the same time, the earlier one goes first.

    Args:
        dataset: the dataset; None for all runs in progress.
        report: called with the runs to wait for, if there are any.
        run_id: the waiting run; empty for a command, for which later runs do not wait.
    """
    if not is_cluster():
        return
    own = instance.get_run_record_by_id(run_id) if run_id else None
    if own and dataset:
        instance.add_run_tags(run_id, {WRITES: dataset})
        time.sleep(_TURN)
    while waited := _list_writers(instance, dataset, own):
        report(f"Waiting for the end of the runs {', '.join(waited)}")
        while instance.get_runs_count(dg.RunsFilter(run_ids=waited, statuses=_IN_PROGRESS)):
            time.sleep(_TURN)
        if dataset is None:
            # In a busy deployment, some run is always in progress.
            break


def _list_writers(instance: dg.DagsterInstance, dataset: str | None, own: dg.RunRecord | None) -> list[str]:
    """The runs in progress for which `wait_for_writers` waits."""
    return sorted(
        record.dagster_run.run_id
        for record in instance.get_run_records(dg.RunsFilter(statuses=_IN_PROGRESS))
        if dataset is None
        or record.dagster_run.tags.get(WRITES) == dataset
        or (PARTITION in record.dagster_run.tags and f"__{dataset}__" in f"{record.dagster_run.job_name}__")
        if not own or record.dagster_run.job_name != own.dagster_run.job_name or record.storage_id < own.storage_id
    )


def audit_automation(audits: dg.JobDefinition, releases: Iterable[str]) -> dg.Definitions:
    """A schedule and a sensor that launch an audit, both off by default; `releases` are names of jobs."""
    made = frozenset(releases)

    @dg.run_status_sensor(
        name="audit_after_release",
        run_status=dg.DagsterRunStatus.SUCCESS,
        request_job=audits,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="An example, off by default: launches an audit after every release that was made.",
    )
    def audit_after_release(context: dg.RunStatusSensorContext) -> dg.RunRequest | dg.SkipReason:
        run = context.dagster_run
        if run.job_name not in made:
            return dg.SkipReason(f"{run.job_name} makes no release")
        return dg.RunRequest(run_key=run.run_id, job_name=audits.name)

    schedule = dg.ScheduleDefinition(
        name="weekly_audit",
        job_name=audits.name,
        cron_schedule="0 5 * * 1",
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description="An example, off by default: an audit every Monday at 5:00 UTC.",
    )
    return dg.Definitions(schedules=[schedule], sensors=[audit_after_release])


def retention_automation() -> dg.Definitions:
    """The asset that deletes replaced data from a lake, its job, and the schedule that launches it."""
    return dg.Definitions(
        assets=[build_retention()],
        # No job may have the name of an operation, which for the asset is `retention`.
        jobs=[
            define_job(
                "delete_replaced",
                dg.AssetSelection.assets(RETENTION_KEY),
                "Deletes replaced data from the lake.",
                writes="retention",
            )
        ],
        schedules=[
            dg.ScheduleDefinition(
                name="daily_retention",
                job_name="delete_replaced",
                cron_schedule="0 3 * * *",
                default_status=dg.DefaultScheduleStatus.RUNNING,
                description="Deletes replaced data from the lake, every day at 3:00 UTC.",
            )
        ],
    )


@dg.sensor(
    name="lost_runs",
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Has the queue launch runs again whose process was lost, if it has overlooked them.",
)
def lost_runs(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    """Report the failure of a lost run once more if it should have been launched again, but was not. Dagster's daemon
    overlooks a run if it reads the failure before the run's status shows it, and gives a run up if the code location
    does not answer, or if Dagster could not reach its own database within a step. The daemon reacts to a second report
    as to the first, and launches a run again only once. If it stored a replacement but could not put it into the queue,
    it counts the replacement as launched, and the last one allowed would stay there: the tag tells it to launch the
    lost run again all the same. A run whose process is gone is reported if Dagster has not reported it."""
    instance, reported = context.instance, 0
    for run in _find_without_process(instance):
        instance.report_run_failed(run, "The run's process is gone.")
    failed = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE], updated_after=datetime.now(UTC) - LOST_LATELY)
    for record in instance.get_run_records(failed):
        run = record.dagster_run
        if not awaits_retry(instance, run) or datetime.now(UTC) - record.update_timestamp < OVERLOOKED_AFTER:
            continue
        if len(instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.RUN_FAILURE).records) > REPORTS:
            instance.add_run_tags(run.run_id, {GIVEN_UP: run.run_id})
            continue
        instance.add_run_tags(run.run_id, {REPEATS_STEPS: "true"})
        instance.report_run_failed(run, "The run was lost and not launched again, so its failure is reported again.")
        instance.add_run_tags(run.run_id, {_WILL_RETRY: "true"})
        reported += 1
    return dg.SkipReason(f"{reported} lost runs were reported again")


def awaits_retry(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether a run failed because a process or server was lost, and is due to be launched again, but has not been
    yet."""
    most = instance.run_retries_max_retries if instance.run_retries_enabled else None
    failures = instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE).records
    events = [record.event_log_entry.dagster_event for record in failures]
    errors = [event.step_failure_data.error if event else None for event in events]
    names = [(error.cls_name or "") if error else "" for error in errors]
    return is_retried(Run(run.run_id, run.status.value, run.tags), most, names)


def _find_without_process(instance: dg.DagsterInstance) -> Iterator[dg.DagsterRun]:
    """The runs that count as running although their process, a child of this one, has ended. Dagster's code server
    reports them itself, but stops once a report could not be stored, such as on a full disk of the database."""
    if not isinstance(instance.run_launcher, dg.DefaultRunLauncher):
        # Runs are processes of other machines.
        return
    running = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED], tags=OF_LOCATION)
    for record in instance.get_run_records(running):
        if (record.start_time or 0) > _BEGAN and _has_ended(_find_process(instance, record.dagster_run.run_id)):
            # The run may already have ended when its process did.
            now = instance.get_run_by_id(record.dagster_run.run_id)
            if now and now.status is dg.DagsterRunStatus.STARTED:
                yield now


def _find_process(instance: dg.DagsterInstance, run_id: str) -> int | None:
    """The id of a run's process, from the first engine event that has one."""
    for record in instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT).records:
        event = record.event_log_entry.dagster_event
        if event and "pid" in event.engine_event_data.metadata:
            return int(str(event.engine_event_data.metadata["pid"].value))
    return None


def _has_ended(process: int | None) -> bool:
    if process is None:
        return False
    # Also reaps the ended child processes of this one, which count as processes until then.
    multiprocessing.active_children()
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
