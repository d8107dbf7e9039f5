"""Runs that a command launched and follows until they end, on this machine (`orchestration.launch`) or in a deployment
whose webserver it asks (`orchestration.queue`).

Dagster takes longer to import than a queued launch takes in all, so nothing here imports it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Event
from typing import Any, Protocol, TypeVar

from mechanisms.refusal import RefusedError
from resources.faults import name_error

WEBSERVER = "STIRRED_WEBSERVER"
"""The variable with the address of the webserver that puts jobs into the queue of a deployment."""

COUNTING = "counts"
"""The name of the job of a release that reads and counts one partition of its dataset begins with this."""

BEFORE, PUBLICATION_OF = "before", "publication"
"""The names of jobs of a release with partitions begin with these: of what is made before a further round, and of what
is made after all of them. Those of a round begin with its name."""

PARTITION = "dagster/partition"
"""Dagster's tag of a run of one partition."""

BY_COMMAND = "stirred/launch"
"""The tag of a run that the command line launched, and that it follows with the runs after it."""

GIVEN_UP = "stirred/given_up"
"""The tag of a lost run that could not be launched again; its value is the run, as a run by hand has the same tags."""

LOCATION, REPOSITORY = "stirred", "__repository__"
OF_LOCATION = {".dagster/repository": f"{REPOSITORY}@{LOCATION}"}
"""The tags of all runs of this code location."""

BLOCKED = "Step blocked by limit for pool"
"""What Dagster says of a step that has no slot in the queue of writers yet."""

INTERRUPTED = "The run was interrupted. Launch again: finished stages and a charge stay valid."
WAITS_FOR_WRITER = "Waiting for another run, which writes to this deployment. `stirred unblock` lists it"

LONGEST_UNTIL_RETRY = 600.0
"""The number of seconds after which nobody waits any more for a retry that should have begun."""

LOST_DATABASE = ("OperationalError", "InterfaceError", "DagsterPostgresException")
"""Errors of SQLAlchemy and Dagster's storage if the instance's database is lost or locked."""

T = TypeVar("T")

_BETWEEN_LOOKS = 1.0
_SHARE_OF_TIME, _LONGEST_BETWEEN_LOOKS = 1 / 8, 20.0
"""A queued run is looked at after an eighth of the time that it has taken."""

_WAITED_SILENTLY = 5.0
"""The number of seconds after which a lost server is reported: it may be lost for good."""


class WebserverLostError(RefusedError):
    """The webserver cannot be reached, or what it needs cannot: asked again, it may answer."""


@dataclass(frozen=True)
class Step:
    """Something that happened in a run.

    Attributes:
        kind: "planned", "begun" or "made" for an asset, "passed" or "failed" for a check, "refused" for a step that
            raised, "waits" for a server that is lost, or for another run that writes.
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
        log: the file with everything that Dagster printed, or the address of the run's page.
        runs: the run, and those before it that the queue launched again.
    """

    run_id: str
    success: bool
    log: str
    runs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Run:
    """A run as Dagster has it: its id, its status in capitals, and its tags."""

    run_id: str
    status: str
    tags: Mapping[str, str]

    @property
    def has_ended(self) -> bool:
        return self.status in ("SUCCESS", "FAILURE", "CANCELED")


@dataclass(frozen=True)
class RunEvent:
    """A step as Dagster's log has it.

    Attributes:
        step: what happened.
        key: Dagster's name of the step.
        at: the second at which it happened.
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
        has_more: whether there is a next part already.
    """

    events: Sequence[RunEvent]
    cursor: str | None
    has_more: bool


class Runs(Protocol):
    """Where runs are found."""

    def find(self, name: str) -> Sequence[Run]:
        """The runs that were launched under a name, the last one last."""

    def read(self, run_id: str, cursor: str | None) -> Page:
        """What happened in a run since a cursor, or since it began."""

    def awaits_retry(self, run: Run) -> bool:
        """Whether a run that has ended is to be launched again, and was not yet."""


def list_jobs(rounds: Sequence[str]) -> list[tuple[str, str]]:
    """How the names begin of a release's further jobs: of each round of partitions, and of the job after it."""
    return list(zip(rounds, [*(f"{BEFORE}_{name}" for name in rounds[1:]), PUBLICATION_OF], strict=False))


def tag(name: str, partition: str) -> dict[str, str]:
    """The tags of a run that is found under a name, and makes a partition unless its key is empty."""
    return OF_LOCATION | {BY_COMMAND: name} | ({PARTITION: partition} if partition else {})


def name_job(release: str, job: str = "") -> str:
    """The name of a job of a release; what it begins with is empty for the job that makes the release."""
    return "__".join([*([job] if job else []), *release.split("/")])


def ask(report: Callable[[Step], None], question: Callable[..., T], *given: Any, **options: Any) -> T:
    """What Dagster answers. While its database or webserver is lost, it is asked again, for as long as for a retry.

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
    """Report what happens until the job has ended, or the queue with it; return the runs, the last one last.

    The queue has ended with it if there is no run, and no retry to come.

    Args:
        ended: set when the job has ended that this process runs; None if it is in the queue.
    """
    cursors, begun, first = dict[str, str | None](), dict[str, float](), time.monotonic()
    last_alive, read = first, set[str]()
    while True:
        over = ended is not None and ended.is_set()
        found = ask(report, runs.find, name)
        # A run may have been launched again since the last look: what it did until then is told too.
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
    """How a job ended, from its runs, the last one last; with none, nothing was run."""
    last = runs[-1] if runs else Run("", "", {})
    return RunOutcome(last.run_id, last.status == "SUCCESS", log, frozenset(run.run_id for run in runs))


def is_retried(run: Run, most: int | None, errors: Sequence[str]) -> bool:
    """Whether a run failed because something was lost, and is to be launched again, but was not yet.

    Dagster's own tag says so too, but may be missing for a moment, and says the contrary if Dagster once could not
    launch it, or could not reach its own database within a step.

    Args:
        most: how often the queue launches a run again unless its tags say so; None if it does so with no run.
        errors: the classes of the errors with which steps of the run failed. Those of a step's own code never have the
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
        # Whoever launches can give a run such a tag, and Dagster does not launch it again either.
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
