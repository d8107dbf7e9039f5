"""Runs that a command launches and follows until they end, on this machine (`orchestration.launch`) or in a deployment
whose webserver it asks (`orchestration.queue`).

Importing Dagster takes longer than a whole queued launch, so this module does not import it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Event
from typing import Any, Protocol, TypeVar

from mechanisms.refusal import RefusedError
from resources.faults import name_error

WEBSERVER = "STIRRED_WEBSERVER"
"""The variable with the address of the webserver that queues the jobs of a deployment."""

COUNTING = "counts"
"""The prefix of the job of a release that reads and counts one partition of its dataset."""

BEFORE, PUBLICATION_OF = "before", "publication"
"""Prefixes of the jobs of a release with partitions: the job before a further round, and the job after all rounds. The
jobs of a round begin with its name."""

PARTITION = "dagster/partition"
"""Dagster's tag of a run of one partition."""

BY_COMMAND = "stirred/launch"
"""The tag of a run that the command line launched and follows, together with the runs after it."""

GIVEN_UP = "stirred/given_up"
"""The tag of a lost run that could not be launched again. Its value is the run's id, because a rerun by hand copies the
tags."""

LOCATION, REPOSITORY = "stirred", "__repository__"
OF_LOCATION = {".dagster/repository": f"{REPOSITORY}@{LOCATION}"}
"""The tags of all runs of this code location."""

BLOCKED = "Step blocked by limit for pool"
"""Dagster's message for a step that has no slot in the queue of writers yet."""

INTERRUPTED = "The run was interrupted. Launch again: finished stages and a charge stay valid."
WAITS_FOR_WRITER = "Waiting for another run, which writes to this deployment. `stirred unblock` lists it"

LONGEST_UNTIL_RETRY = 600.0
"""The number of seconds to wait for a retry that should have begun."""

LOST_DATABASE = ("OperationalError", "InterfaceError", "DagsterPostgresException")
"""Errors of SQLAlchemy and Dagster's storage if the instance's database is lost or locked."""

T = TypeVar("T")

_BETWEEN_LOOKS = 1.0
_SHARE_OF_TIME, _LONGEST_BETWEEN_LOOKS = 1 / 8, 20.0
"""The time between two looks at a queued run, as a share of its duration so far, and its limit in seconds."""

_WAITED_SILENTLY = 5.0
"""The number of seconds after which a lost server is reported, because it may be lost for good."""


class WebserverLostError(RefusedError):
    """The webserver, or a service that it needs, cannot be reached; a later request may succeed."""


@dataclass(frozen=True)
class Step:
    """An event in a run.

    Attributes:
        kind: "planned", "begun" or "made" for an asset, "passed" or "failed" for a check, "refused" for a step that
            raised, "waits" for a lost server, or for another run that writes.
        seconds: its duration; 0 if it has only begun.
        words: the message of a failed check or step, or the object of the wait.
        metadata: the metadata of an asset or a failed step, by name.
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
        log: the file with Dagster's whole output, or the address of the run's page.
        runs: the run, and the earlier ones that the queue launched again.
    """

    run_id: str
    success: bool
    log: str
    runs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Run:
    """A run in Dagster's terms: its id, its status in capitals, and its tags."""

    run_id: str
    status: str
    tags: Mapping[str, str]

    @property
    def has_ended(self) -> bool:
        return self.status in ("SUCCESS", "FAILURE", "CANCELED")


@dataclass(frozen=True)
class RunEvent:
    """A step in Dagster's log.

    Attributes:
        step: the event.
        key: Dagster's name of the step.
        at: the time, in seconds.
    """

    step: Step
    key: str = ""
    at: float = 0.0


@dataclass(frozen=True)
class Page:
    """A part of a run's log.

    Attributes:
        events: in order.
        cursor: where the next part begins.
        has_more: whether the next part already exists.
    """

    events: Sequence[RunEvent]
    cursor: str | None
    has_more: bool


class Runs(Protocol):
    """A source of runs."""

    def find(self, name: str) -> Sequence[Run]:
        """The runs launched under a name, the last one last."""

    def read(self, run_id: str, cursor: str | None) -> Page:
        """The events of a run after a cursor, or from its beginning."""

    def awaits_retry(self, run: Run) -> bool:
        """Whether a run that has ended is due to be launched again, and has not been yet."""


def list_jobs(rounds: Sequence[str]) -> list[tuple[str, str]]:
    """The prefixes of a release's further jobs: for each round of partitions, its own job and the job after it."""
    return list(zip(rounds, [*(f"{BEFORE}_{name}" for name in rounds[1:]), PUBLICATION_OF], strict=False))


def tag(name: str, partition: str) -> dict[str, str]:
    """The tags by which a run is found under a name; with a key, the run makes this partition."""
    return OF_LOCATION | {BY_COMMAND: name} | ({PARTITION: partition} if partition else {})


def name_job(release: str, job: str = "") -> str:
    """The name of a job of a release; its prefix is empty for the job that makes the release."""
    return "__".join([*([job] if job else []), *release.split("/")])


def ask(report: Callable[[Step], None], question: Callable[..., T], *given: Any, **options: Any) -> T:
    """Dagster's answer to a question. While its database or webserver is lost, the question is repeated, for up to
    `LONGEST_UNTIL_RETRY`.

    A longer wait is reported once. Errors are recognized by the names of their classes, because a deployment on files
    has no package for PostgreSQL.
    """
    lost_at: float | None = None
    reported = False
    while True:
        try:
            return question(*given, **options)
        except Exception as error:
            now = time.monotonic()
            lost_at = now if lost_at is None else lost_at
            is_lost = isinstance(error, WebserverLostError) or type(error).__name__ in LOST_DATABASE
            if not is_lost or now - lost_at > LONGEST_UNTIL_RETRY:
                raise
            if not reported and now - lost_at > _WAITED_SILENTLY:
                reported = True
                what = str(error)
                if not isinstance(error, WebserverLostError):
                    what = f"The database of Dagster's instance cannot be read: {name_error(error)}"
                words = f"{what}. Trying again for up to {LONGEST_UNTIL_RETRY / 60:.0f} minutes; a run that has begun"
                report(Step("waits", "", words=f"{words} goes on"))
        time.sleep(_BETWEEN_LOOKS)


def follow(runs: Runs, name: str, report: Callable[[Step], None], ended: Event | None = None) -> Sequence[Run]:
    """Report the events of a job until it is over; return its runs, the last one last.

    A queued job is over if it has no run, or its last run has ended and no retry is to come.

    Args:
        ended: set when the job that this process runs has ended; None if the job is in the queue.
    """
    cursors, begun, first = dict[str, str | None](), dict[str, float](), time.monotonic()
    last_alive, read = first, set[str]()
    while True:
        over = ended is not None and ended.is_set()
        found = ask(report, runs.find, name)
        # A run may have been launched again since the last look: its remaining events are reported too.
        for run in (each for each in found if each.run_id not in read):
            more = True
            while more:
                page = ask(report, runs.read, run.run_id, cursors.get(run.run_id))
                cursors[run.run_id], more = page.cursor, page.has_more
                for event in page.events:
                    report(_take_time(event, begun))
            if run.has_ended and run is not found[-1]:
                read.add(run.run_id)
        if ended is None:
            if not found:
                return found
            if not found[-1].has_ended:
                last_alive = time.monotonic()
            patient = time.monotonic() - last_alive < LONGEST_UNTIL_RETRY
            over = found[-1].has_ended and not (patient and ask(report, runs.awaits_retry, found[-1]))
        if over:
            return found
        if ended is None:
            share = _SHARE_OF_TIME * (time.monotonic() - first)
            time.sleep(min(max(_BETWEEN_LOOKS, share), _LONGEST_BETWEEN_LOOKS))
        else:
            ended.wait(_BETWEEN_LOOKS)


def conclude(runs: Sequence[Run], log: str) -> RunOutcome:
    """The outcome of a job, from its runs, the last one last; without runs, it has not succeeded."""
    last = runs[-1] if runs else Run("", "", {})
    return RunOutcome(last.run_id, last.status == "SUCCESS", log, frozenset(run.run_id for run in runs))


def is_retried(run: Run, most: int | None, errors: Sequence[str]) -> bool:
    """Whether a run failed because a process or server was lost, and is due to be launched again, but has not been yet.

    Dagster's own tag also tells this, but may be missing for a moment, and is wrong if Dagster once could not launch
    the run, or could not reach its own database within a step.

    Args:
        most: how often the queue launches a run again, unless its tags set another number; None if it never does.
        errors: the classes of the errors with which steps of the run failed. Errors of a step's own code never have the
            names of lost databases (`conceal_faults`).
    """
    if run.status != "FAILURE" or most is None:
        return False
    refused = (
        run.tags.get("dagster/failure_reason") == "STEP_FAILURE"
        and run.tags.get("dagster/retry_on_asset_or_op_failure", "false") != "true"
        and not (errors and all(name in LOST_DATABASE for name in errors))
    )
    try:
        exhausted = int(run.tags.get("dagster/retry_number", 0)) >= int(run.tags.get("dagster/max_retries", most))
    except ValueError:
        # Anyone who launches can give a run such a tag, and Dagster does not launch it again either.
        exhausted = True
    return not (refused or exhausted or run.tags.get(GIVEN_UP) == run.run_id or "dagster/auto_retry_run_id" in run.tags)


def _take_time(event: RunEvent, begun: dict[str, float]) -> Step:
    since = begun.get(event.key, event.at)
    if event.step.kind in ("begun", "passed", "failed"):
        # A step may evaluate several checks, one after the other.
        begun[event.key] = event.at
    if event.step.kind in ("planned", "begun", "waits"):
        return event.step
    return replace(event.step, seconds=event.at - since)
