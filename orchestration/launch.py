"""Jobs that the command line runs in this process, as Dagster's command line does, and follows until they end.

A job runs from the definitions of its dataset alone, and Dagster's whole output goes to a file. The events are read
from the instance, where the UI reads them too. The run is marked as one of this code location, like a run that the UI
launches: otherwise its job's page and the timeline would not show it.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Event
from typing import Any
from uuid import uuid4

import dagster as dg
from sqlalchemy import Engine, ExceptionContext
from sqlalchemy.event import listens_for

from assets.texts import read_description
from orchestration.environment import is_cluster
from orchestration.following import (
    BLOCKED,
    BY_COMMAND,
    INTERRUPTED,
    LOCATION,
    REPOSITORY,
    WAITS_FOR_WRITER,
    Page,
    Run,
    RunEvent,
    RunOutcome,
    Step,
    conclude,
    follow,
    name_job,
    tag,
)
from orchestration.run_locks import end_lost_runs
from resources.faults import conceal
from resources.project import CODE, PROJECT, make_private

OF_DATASET = "dataset__"
"""The prefix of a dataset's attribute in `orchestration.datasets`: its name alone may be the name of a module."""

_EVENTS_AT_ONCE = 1000


@listens_for(Engine, "handle_error")
def _hide_statement(context: ExceptionContext) -> None:
    """Keep the statement and its values, such as an event, out of Dagster's records if its own database fails.

    PostgreSQL quotes the statement and the row below the first line of its message (`LINE 1`, `DETAIL`).
    """
    if context.sqlalchemy_exception:
        context.sqlalchemy_exception.statement = context.sqlalchemy_exception.params = None
    for error in (context.original_exception, context.sqlalchemy_exception):
        if error and context.statement:
            error.args = (str(error.args[0]).partition("\n")[0],) if error.args else ()


def prepare_instance() -> None:
    """Name the folder of the Dagster instance, `var/dagster` by default, and make it if it is missing."""
    home = Path(os.environ.setdefault("DAGSTER_HOME", str(PROJECT / "var" / "dagster"))).absolute()
    os.environ["DAGSTER_HOME"] = str(home)
    # The plan of a run is stored at once, instead of asset by asset and check by check.
    os.environ["DAGSTER_EVENT_BATCH_SIZE"] = str(_EVENTS_AT_ONCE)
    # Its event log and the logs of runs state how many values break a declared rule.
    make_private(home)
    settings = home / "dagster.yaml"
    if not settings.exists():
        settings.symlink_to(CODE / ("deploy/dagster.yaml" if is_cluster() else "dagster.yaml"))


def open_instance() -> dg.DagsterInstance:
    """The instance. On a server, it keeps a connection open: opening one takes ten times as long as a query."""
    prepare_instance()
    instance = dg.DagsterInstance.get()
    instance.optimize_for_webserver(statement_timeout=60_000, pool_recycle=3600, max_overflow=20)
    return instance


def run_job(
    instance: dg.DagsterInstance,
    release: str,
    home: Path,
    *,
    job: str = "",
    partition: str = "",
    config: Mapping[str, Any] = {},
    report: Callable[[Step], None] = lambda step: None,
) -> RunOutcome:
    """Run a job of a release until it ends.

    Args:
        instance: the instance that Dagster's command uses too, named by `DAGSTER_HOME`.
        release: the name of the release, `dataset/release`.
        home: the deployment's folder. Dagster's output replaces a file in its folder `logs`.
        job: the prefix of the job's name, such as `preflight`; empty for the job that makes the release.
        partition: the key of the partition that a partitioned job makes.
        config: the configuration of the run.
        report: called for every event, in order, in another thread.
    """
    name, full, ended = uuid4().hex, name_job(release, job), Event()
    log = home / "logs" / f"{'-'.join([full, *([partition] if partition else [])])}.log"
    make_private(log.parent)
    attribute = f"{OF_DATASET}{release.partition('/')[0]}"
    arguments = ["job", "execute", "-m", f"{__package__}.datasets", "-a", attribute, "-d", str(PROJECT)]
    arguments += ["-j", full, "--tags", json.dumps(tag(name, partition))]

    def watch() -> Sequence[Run]:
        return follow(_Here(instance, home), name, report, ended)

    with ThreadPoolExecutor(1) as threads, NamedTemporaryFile("w", suffix=".yaml") as configuration:
        following = threads.submit(watch)
        if config:
            # JSON is YAML.
            json.dump(config, configuration)
            configuration.flush()
            arguments += ["-c", configuration.name]
        try:
            _run_dagster(arguments, log)
        finally:
            ended.set()
        runs = following.result()
    return conclude(runs, str(log))


def _run_dagster(arguments: list[str], log: Path) -> None:
    """Run the command `dagster` in this process. Its output goes to a file; this command's own goes where it went
    before.

    Errors go to the file too, as from a separate process: then there is no run, or a failed one. An interruption
    between two steps writes no error; the run has failed, or the next one ends it.
    """
    (command,) = entry_points(group="console_scripts", name="dagster")
    main, given = command.load(), sys.argv
    ends = SystemExit, dg.DagsterExecutionInterruptedError
    with log.open("wb") as file, _divert_output(file.fileno()), suppress(*ends):
        sys.argv = [command.name, *arguments]
        try:
            main()
        except Exception as error:
            traceback.print_exception(conceal(error))
        finally:
            sys.argv = given


@contextmanager
def _divert_output(file: int) -> Iterator[None]:
    """Have libraries and other processes write to a file, while `sys.stdout` keeps writing to its earlier target."""
    sys.stdout.flush()
    before = sys.stdout
    errors = os.dup(2)
    with os.fdopen(os.dup(1), "w", encoding=before.encoding) as screen:
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.stdout = screen
        try:
            yield
        finally:
            screen.flush()
            sys.stderr.flush()
            sys.stdout = before
            os.dup2(screen.fileno(), 1)
            os.dup2(errors, 2)
            os.close(errors)


class _Here:
    """The runs of an instance, as `orchestration.following.Runs` has them."""

    def __init__(self, instance: dg.DagsterInstance, home: Path) -> None:
        self._instance, self._home = instance, home

    def find(self, name: str) -> list[Run]:
        # The run may wait for another one whose process was killed.
        end_lost_runs(self._instance, self._home)
        runs = self._instance.get_runs(dg.RunsFilter(tags={BY_COMMAND: name}))[::-1]
        for run in runs[-1:]:
            _locate(self._instance, run)
        return [Run(run.run_id, run.status.value, run.tags) for run in runs]

    def read(self, run_id: str, cursor: str | None) -> Page:
        found = self._instance.get_records_for_run(run_id, cursor=cursor)
        events = [event for record in found.records for event in _list_events(record.event_log_entry)]
        return Page(events, found.cursor, found.has_more)

    def awaits_retry(self, run: Run) -> bool:
        """Dagster never launches a run of this process again."""
        return False


def _locate(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    if run.remote_job_origin is None:
        # Dagster has no public class for this, but its stored form does not change.
        location = {"__class__": "RegisteredRepositoryLocationOrigin", "location_name": LOCATION}
        repository = {
            "__class__": "ExternalRepositoryOrigin",
            "repository_location_origin": location,
            "repository_name": REPOSITORY,
        }
        job = {
            "__class__": "ExternalPipelineOrigin",
            "external_repository_origin": repository,
            "pipeline_name": run.job_name,
        }
        origin: Any = dg.deserialize_value(json.dumps(job))
        instance.run_storage.replace_job_origin(run, origin)


def _list_events(entry: dg.EventLogEntry) -> Iterator[RunEvent]:
    event = entry.dagster_event
    step = _read_step(event) if event else None
    if event and step:
        yield RunEvent(step, event.step_key or "", entry.timestamp)


def _read_step(event: dg.DagsterEvent) -> Step | None:
    match event.event_type:
        case dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED if event.asset_key:
            return Step("planned", "/".join(event.asset_key.path))
        case dg.DagsterEventType.STEP_START if event.step_key:
            return Step("begun", event.step_key)
        case dg.DagsterEventType.ASSET_MATERIALIZATION if event.asset_key:
            metadata = _plain_values(event.materialization.metadata)
            return Step("made", "/".join(event.asset_key.path), metadata=metadata)
        case dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            check = event.asset_check_evaluation_data
            kind, words = ("passed", "") if check.passed else ("failed", read_description(check.description or ""))
            return Step(kind, "/".join(check.asset_key.path), check.check_name, words=words)
        case dg.DagsterEventType.ENGINE_EVENT if event.step_key and BLOCKED in (event.message or ""):
            return Step("waits", event.step_key, words=WAITS_FOR_WRITER)
        case dg.DagsterEventType.STEP_FAILURE if event.step_key:
            failed = event.step_failure_data.user_failure_data
            given = _plain_values(failed.metadata) if failed else None
            return Step("refused", event.step_key, words=_failure_message(event), metadata=given)
    return None


def _plain_values(metadata: Mapping[str, dg.MetadataValue[Any]]) -> dict[str, Any]:
    return {name: value.value for name, value in metadata.items()}


def _failure_message(event: dg.DagsterEvent) -> str:
    failed = event.step_failure_data
    if failed.user_failure_data and failed.user_failure_data.description:
        return str(failed.user_failure_data.description)
    # Dagster's own error wraps the step's.
    error = failed.error.cause or failed.error if failed.error else None
    if error and error.cls_name == dg.DagsterExecutionInterruptedError.__name__:
        return INTERRUPTED
    return error.message.strip() if error else "it failed"
