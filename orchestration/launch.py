"""Jobs that are launched from the command line, and followed until they end.

A job runs in this process, as Dagster's command line runs it, from the definitions of its dataset alone, and everything
that Dagster prints goes to a file. What happens is read from the instance, where the UI reads it too. The run is marked
as one of this code location, as those that the UI launches are: otherwise its job's page and the timeline would not
show it.

In a cluster, the job is put into the queue of the instance instead, where the daemon launches it, and launches it again
if its process dies. It goes on if the command that follows it is ended.
"""

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Event
from typing import Any, TypeVar
from uuid import uuid4

import dagster as dg
from sqlalchemy import Connection, Engine, ExceptionContext, create_engine, inspect
from sqlalchemy.event import listens_for

from assets.conventions import read_description
from orchestration.environment import is_cluster
from orchestration.run_locks import end_lost_runs
from resources.faults import conceal, name_error
from resources.project import CODE, PROJECT

BEFORE, PUBLICATION_OF = "before", "publication"
"""The names of jobs of a release with partitions begin with these: of what is made before a further round, and of what
is made after all of them. Those of a round begin with its name."""

PARTITION = "dagster/partition"
"""Dagster's tag of a run of one partition."""

OF_DATASET = "dataset__"
"""The attribute of a dataset in `orchestration.datasets` begins with this: its name alone may be that of a module."""

BY_COMMAND = "stirred/launch"
"""The tag of a run that the command line launched, and that it follows with the runs after it."""

T = TypeVar("T")

_WORKSPACE = CODE / "deploy" / "workspace.yaml"
LOCATION, _REPOSITORY = "stirred", "__repository__"
OF_LOCATION = {".dagster/repository": f"{_REPOSITORY}@{LOCATION}"}
"""The tags of all runs of this code location."""

_BETWEEN_LOOKS = 1.0
_SHARE_OF_TIME, _LONGEST_BETWEEN_LOOKS = 1 / 8, 20.0
"""A queued run is looked at after an eighth of the time that it has taken."""

_EVENTS_AT_ONCE = 1000

_LOST = ("OperationalError", "InterfaceError", "DagsterPostgresException")
"""Errors of SQLAlchemy and Dagster's storage if the instance's database is lost or locked."""

_BLOCKED = "Step blocked by limit for pool"
"""What Dagster says of a step that has no slot in the queue of writers yet."""

LONGEST_UNTIL_RETRY = 600.0
"""The number of seconds after which nobody waits any more for a retry that should have begun."""

_WAITED_SILENTLY = 5.0
"""The number of seconds after which a lost instance is reported: it may be lost for good."""

GIVEN_UP = "stirred/given_up"
"""The tag of a lost run that could not be launched again; its value is the run, as a run by hand has the same tags."""


@dataclass(frozen=True)
class Step:
    """Something that happened in a run.

    Attributes:
        kind: "planned", "begun" or "made" for an asset, "passed" or "failed" for a check, "refused" for a step that
            raised, "waits" for the instance whose database is lost, or for another run that writes.
        seconds: how long it took; 0 if it has only begun.
        words: what a failed check or step says, or what is waited for.
        metadata: the metadata of an asset, or of a failed step, by name.
    """

    kind: str
    asset: str
    check: str = ""
    seconds: float = 0.0
    words: str = ""
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended.

    Attributes:
        run_id: the run, or the last one if the queue launched it again; empty if there was none.
        log: the file with everything that Dagster printed.
    """

    run_id: str
    success: bool
    log: Path
    runs: frozenset[str] = frozenset()


@listens_for(Engine, "handle_error")
def _hide_statement(context: ExceptionContext) -> None:
    """Keep the statement and its values, such as an event, out of what Dagster records if its own database fails.

    Below the first line of its message (`LINE 1`, `DETAIL`), PostgreSQL quotes the statement and the row.
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
    # What a run is planned to make is stored at once, and not asset by asset and check by check.
    os.environ["DAGSTER_EVENT_BATCH_SIZE"] = str(_EVENTS_AT_ONCE)
    home.mkdir(parents=True, exist_ok=True)
    settings = home / "dagster.yaml"
    if not settings.exists():
        settings.symlink_to(CODE / ("deploy/dagster.yaml" if is_cluster() else "dagster.yaml"))


def open_instance() -> dg.DagsterInstance:
    """The instance. On a server, it keeps a connection: to open one takes ten times as long as a question of a look."""
    prepare_instance()
    return _keep_connection(dg.DagsterInstance.get())


def _keep_connection(instance: dg.DagsterInstance) -> dg.DagsterInstance:
    instance.optimize_for_webserver(statement_timeout=60_000, pool_recycle=3600, max_overflow=20)
    return instance


@contextmanager
def _keep_connections() -> Iterator[None]:
    """Have every instance that is opened in this process keep a connection, also that of Dagster's command, which opens
    one for each thing that a run is planned to make, and more: 143 for a job of 16 assets, a third of its time."""
    get = dg.DagsterInstance.get
    dg.DagsterInstance.get = staticmethod(lambda: _keep_connection(get()))  # type: ignore[method-assign]
    try:
        yield
    finally:
        dg.DagsterInstance.get = staticmethod(get)  # type: ignore[method-assign]


def run_job(
    instance: dg.DagsterInstance,
    release: str,
    home: Path,
    *,
    job: str = "",
    partition: str = "",
    config: Mapping[str, Any] = {},
    report: Callable[[Step], None] = lambda step: None,
    queued: str = "",
) -> RunOutcome:
    """Run a job of a release until it ends; in a cluster, queue it and wait until it ends.

    Args:
        instance: the instance that Dagster's command uses too, named by `DAGSTER_HOME`.
        release: the name of the release, `dataset/release`.
        home: the deployment's folder. A file in its folder `logs` gets what Dagster prints; it is replaced.
        job: what the job's name begins with, such as `preflight`; empty for the job that makes the release.
        partition: the key of the partition that a partitioned job makes.
        config: the configuration of the run.
        report: called for everything that happens, in order; unless the job is queued, in another thread.
        queued: the name of `queue_job`, if the job is in the queue already.
    """
    log = _name_log(release, home, job, partition)
    if is_cluster():
        # In this thread, so that whoever ends the command ends its following, and not the run.
        name = queued or queue_job(instance, release, home, job=job, partition=partition, config=config, report=report)
        runs = _follow(instance, name, report)
    else:
        dataset, name, ended = release.partition("/")[0], uuid4().hex, Event()
        command = ["execute", "-m", f"{__package__}.datasets", "-a", f"{OF_DATASET}{dataset}", "-d", str(PROJECT)]
        with ThreadPoolExecutor(1) as threads:
            following = threads.submit(_follow, instance, name, report, ended, home)
            try:
                _give_job(command, name, release, job, partition, config, log)
            finally:
                ended.set()
            runs = following.result()
    last = runs[-1] if runs else None
    run_ids = frozenset(run.run_id for run in runs)
    return RunOutcome(last.run_id if last else "", bool(last and last.is_success), log, run_ids)


def list_jobs(rounds: Sequence[str]) -> list[tuple[str, str]]:
    """How the names begin of a release's further jobs: of each round of partitions, and of the job after it."""
    return list(zip(rounds, [*(f"{BEFORE}_{name}" for name in rounds[1:]), PUBLICATION_OF], strict=False))


def queue_job(
    instance: dg.DagsterInstance,
    release: str,
    home: Path,
    *,
    job: str,
    partition: str,
    config: Mapping[str, Any] = {},
    report: Callable[[Step], None],
) -> str:
    """In a cluster, put a job into the queue; return the name under which its runs are followed. See `run_job`.

    Dagster's command is given again if it lost the database before the run was in the queue.
    """
    name, log = uuid4().hex, _name_log(release, home, job, partition)

    def give() -> None:
        runs = instance.get_runs(dg.RunsFilter(tags={BY_COMMAND: name}))
        # A run that has not started was stored, and is not in the queue.
        if all(run.status is dg.DagsterRunStatus.NOT_STARTED for run in runs):
            with _keep_connections():
                lost = _give_job(["launch", "-w", str(_WORKSPACE)], name, release, job, partition, config, log)
            if lost:
                raise lost

    ask(report, give)
    return name


def _name_job(release: str, job: str) -> str:
    return "__".join([*([job] if job else []), *release.split("/")])


def _name_log(release: str, home: Path, job: str, partition: str) -> Path:
    return home / "logs" / f"{'-'.join([_name_job(release, job), *([partition] if partition else [])])}.log"


def _give_job(
    command: Sequence[str],
    name: str,
    release: str,
    job: str,
    partition: str,
    config: Mapping[str, Any],
    log: Path,
) -> Exception | None:
    """Have Dagster's command run or queue a job under a name. See `run_job` and `_run_dagster`."""
    tags = OF_LOCATION | {BY_COMMAND: name} | ({PARTITION: partition} if partition else {})
    arguments = ["job", *command, "-j", _name_job(release, job), "--tags", json.dumps(tags)]
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with NamedTemporaryFile("w", suffix=".yaml") as configuration:
        if config:
            # JSON is YAML.
            json.dump(config, configuration)
            configuration.flush()
            arguments += ["-c", configuration.name]
        return _run_dagster(arguments, log)


def _run_dagster(arguments: Sequence[str], log: Path) -> Exception | None:
    """Run the command `dagster` in this process. Its output goes to a file, and that of this command where it went.

    What it raises goes to the file too, as from a process of its own: then there is no run, or one that has failed. An
    error of the instance's database is returned.
    """
    (command,) = entry_points(group="console_scripts", name="dagster")
    main, given = command.load(), sys.argv
    with log.open("wb") as file, _divert_output(file.fileno()), suppress(SystemExit):
        sys.argv = [command.name, *arguments]
        try:
            main()
        except Exception as error:
            traceback.print_exception(conceal(error))
            if type(error).__name__ in _LOST:
                return error
        finally:
            sys.argv = given
    return None


@contextmanager
def _divert_output(file: int) -> Iterator[None]:
    """Have libraries and other processes write to a file, while `sys.stdout` keeps writing where it wrote before."""
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


def ask(report: Callable[[Step], None], question: Callable[..., T], *given: Any, **options: Any) -> T:
    """What the instance answers. While its database is lost or locked it is asked again, for as long as for a retry.

    A longer wait is reported once. The classes of the errors are told by their names, because a deployment on files has
    no package for PostgreSQL.
    """
    lost_at: float | None = None
    reported = False
    while True:
        try:
            return question(*given, **options)
        except Exception as error:
            now = time.monotonic()
            lost_at = now if lost_at is None else lost_at
            if type(error).__name__ not in _LOST or now - lost_at > LONGEST_UNTIL_RETRY:
                raise
            if not reported and now - lost_at > _WAITED_SILENTLY:
                reported = True
                minutes = f"{LONGEST_UNTIL_RETRY / 60:.0f} minutes"
                words = f"The database of Dagster's instance cannot be read: {name_error(error)}. Trying again for up"
                report(Step("waits", "", words=f"{words} to {minutes}; a run that has begun goes on"))
        time.sleep(_BETWEEN_LOOKS)


def _follow(
    instance: dg.DagsterInstance,
    name: str,
    report: Callable[[Step], None],
    ended: Event | None = None,
    home: Path | None = None,
) -> Sequence[dg.DagsterRun]:
    """Report what happens until the job has ended, or the queue with it; return the runs, the last one last.

    The queue has ended with it if there is no run, and no retry to come (`awaits_retry`).

    Args:
        ended: set when Dagster's command has ended, which runs the job; None if the command has put it into the queue.
        home: the deployment's folder, if the command runs the job, which may wait for a run whose process is killed.
    """
    run_id, cursor, begun, first = "", None, dict[str, float](), time.monotonic()
    last_alive = first
    kept: list[Connection] = []
    asked = partial(ask, report)
    while True:
        over = ended is None or ended.is_set()
        if home:
            asked(end_lost_runs, instance, home)
        if ended is None or not run_id:
            runs = asked(instance.get_runs, dg.RunsFilter(tags={BY_COMMAND: name}))[::-1]
        if runs and runs[-1].run_id != run_id:
            run_id, cursor = runs[-1].run_id, None
            asked(_locate, instance, run_id)
            kept.extend(_open_history(instance, run_id))
        if ended is None and runs:
            if not runs[-1].is_finished:
                last_alive = time.monotonic()
            patient = time.monotonic() - last_alive < LONGEST_UNTIL_RETRY
            over = runs[-1].is_finished and not (patient and asked(awaits_retry, instance, runs[-1]))
        while run_id:
            connection = asked(instance.get_records_for_run, run_id, cursor=cursor)
            cursor = connection.cursor
            for record in connection.records:
                for step in _steps(record.event_log_entry, begun):
                    report(step)
            if not connection.has_more:
                break
        if over:
            # The run itself may have written over it.
            asked(_locate, instance, run_id)
            for file in kept:
                file.close()
            return asked(instance.get_runs, dg.RunsFilter(tags={BY_COMMAND: name}))[::-1]
        if ended is None:
            share = _SHARE_OF_TIME * (time.monotonic() - first)
            time.sleep(min(max(_BETWEEN_LOOKS, share), _LONGEST_BETWEEN_LOOKS))
        else:
            ended.wait(_BETWEEN_LOOKS)


def _open_history(instance: dg.DagsterInstance, run_id: str) -> Iterator[Connection]:
    """Connections to the files of a local instance that a run writes.

    Dagster opens and closes a file for every event. The last one to close it moves everything from the log of SQLite
    into it, which takes longer than the event.
    """
    for name in ("runs.db", "runs/index.db", f"runs/{run_id}.db"):
        path = Path(instance.root_directory, "history", name)
        if path.exists():
            connection = create_engine(f"sqlite:///{path}").connect()
            # SQLite opens a file when it is first read.
            inspect(connection).get_table_names()
            yield connection


def awaits_retry(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether a run failed because something was lost, and is to be launched again, but was not yet.

    Dagster's own tag says so too, but may be missing for a moment, and says the contrary if Dagster once could not
    launch it, or could not reach its own database within a step.
    """
    if run.status is not dg.DagsterRunStatus.FAILURE or not instance.run_retries_enabled:
        return False
    refused = (
        run.tags.get("dagster/failure_reason") == "STEP_FAILURE"
        and run.tags.get("dagster/retry_on_asset_or_op_failure", "false") != "true"
        and not _lost_its_database(instance, run)
    )
    most = run.tags.get("dagster/max_retries", instance.run_retries_max_retries)
    exhausted = int(run.tags.get("dagster/retry_number", 0)) >= int(most)
    return not (refused or exhausted or run.tags.get(GIVEN_UP) == run.run_id or "dagster/auto_retry_run_id" in run.tags)


def _lost_its_database(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether Dagster itself could not reach the database in each step that failed. Errors of a step's own code never
    have these names (`conceal_faults`)."""
    failures = instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE).records
    events = [record.event_log_entry.dagster_event for record in failures]
    errors = [event.step_failure_data.error if event else None for event in events]
    return bool(errors) and all(error is not None and error.cls_name in _LOST for error in errors)


def _locate(instance: dg.DagsterInstance, run_id: str) -> None:
    run = instance.get_run_by_id(run_id) if run_id else None
    if run is not None and run.remote_job_origin is None:
        # Dagster has no public class of this, but a form in which it is stored, which stays.
        location = {"__class__": "RegisteredRepositoryLocationOrigin", "location_name": LOCATION}
        repository = {
            "__class__": "ExternalRepositoryOrigin",
            "repository_location_origin": location,
            "repository_name": _REPOSITORY,
        }
        job = {
            "__class__": "ExternalPipelineOrigin",
            "external_repository_origin": repository,
            "pipeline_name": run.job_name,
        }
        origin: Any = dg.deserialize_value(json.dumps(job))
        instance.run_storage.replace_job_origin(run, origin)


def _steps(entry: dg.EventLogEntry, begun: dict[str, float]) -> Iterator[Step]:
    event = entry.dagster_event
    if event is None:
        return
    if event.event_type is dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED:
        assert event.asset_key is not None
        yield Step("planned", "/".join(event.asset_key.path))
    if event.step_key is None:
        return
    taken = entry.timestamp - begun.get(event.step_key, entry.timestamp)
    match event.event_type:
        case dg.DagsterEventType.STEP_START:
            begun[event.step_key] = entry.timestamp
            yield Step("begun", event.step_key)
        case dg.DagsterEventType.ASSET_MATERIALIZATION:
            made = event.materialization
            assert made.asset_key is not None
            yield Step("made", "/".join(made.asset_key.path), seconds=taken, metadata=_plain_values(made.metadata))
        case dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            check = event.asset_check_evaluation_data
            kind, words = ("passed", "") if check.passed else ("failed", read_description(check.description or ""))
            # A step may evaluate several checks, one after the other.
            begun[event.step_key] = entry.timestamp
            yield Step(kind, "/".join(check.asset_key.path), check.check_name, taken, words)
        case dg.DagsterEventType.ENGINE_EVENT if _BLOCKED in (event.message or ""):
            words = "Waiting for another run, which writes to this deployment. `stirred unblock` lists it"
            yield Step("waits", event.step_key, words=words)
        case dg.DagsterEventType.STEP_FAILURE:
            failed = event.step_failure_data.user_failure_data
            metadata = _plain_values(failed.metadata) if failed else None
            yield Step("refused", event.step_key, seconds=taken, words=_failure_message(event), metadata=metadata)


def _plain_values(metadata: Mapping[str, dg.MetadataValue[Any]]) -> dict[str, Any]:
    return {name: value.value for name, value in metadata.items()}


def _failure_message(event: dg.DagsterEvent) -> str:
    failed = event.step_failure_data
    if failed.user_failure_data and failed.user_failure_data.description:
        return str(failed.user_failure_data.description)
    # Dagster's own error is around that of the step.
    error = failed.error.cause or failed.error if failed.error else None
    return error.message.strip() if error else "it failed"
