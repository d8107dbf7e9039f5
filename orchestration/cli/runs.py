"""The work of `launch` and `preflight`: run the jobs of a release, print their progress, and report their outcome.

Jobs run in this process, or in a deployment whose webserver puts them into its queue. For a queued job, this module
imports only the code that asks the webserver and prints, because importing Dagster alone takes several times as long.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import click
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from assets.release.stage_names import (
    AUTHORIZED_BY_COMMAND,
    CEF,
    CHARGE,
    CHARGED,
    CHARGED_BY,
    LOSS,
    PREFLIGHT,
    PUBLICATION,
)
from assets.texts import show_line, show_lines
from mechanisms.accounting.composition import DoesNotCompose, compose_like
from mechanisms.accounting.losses import ConcentratedLoss, InfiniteLoss, Loss, PureLoss, format_loss
from mechanisms.refusal import RefusedError
from orchestration.cli.printing import REFUSED, UNAUTHORIZED, echo, make_console, print_json
from orchestration.cli.releases import list_declared_names
from orchestration.following import (
    COUNTING,
    INTERRUPTED,
    WEBSERVER,
    RunOutcome,
    Step,
    WebserverLostError,
    ask,
    conclude,
    follow,
    list_jobs,
    name_job,
)
from orchestration.queue import Queue, QueueError, UnknownJobError, find_webserver
from resources.chain import NOT_CHARGED, RESERVE
from resources.project import deployment_folders

if TYPE_CHECKING:
    import dagster as dg

    from assets.release.method import Partitions
    from orchestration.components.release import ReleaseComponent

T = TypeVar("T")
_UNKNOWN = "The page of the ledger says whether something was charged."

Load = Callable[[], "Sequence[ReleaseComponent]"]
Report = Callable[[Step], None]


@dataclass(frozen=True)
class _Launched:
    """The results of a launch.

    Attributes:
        steps: the steps of all runs, in order.
        outcome: the outcome of the last run.
        charges: the charged losses, in words, by release.
        charged: lines with the charges and their total; empty without charges.
        drew: whether there was a draw, from public data for example.
        uncharged: the message for a failed launch without a known charge.
        places: the folders of the publications, or the addresses of their pages.
        files: the names of the published files, if there are folders.
    """

    steps: Sequence[Step]
    outcome: RunOutcome
    charges: Mapping[str, str]
    charged: str
    drew: bool
    uncharged: str
    places: Sequence[str]
    files: Sequence[str]


def launch_release(release: str, authorization: Mapping[str, str], *, verbose: bool, as_json: bool) -> None:
    """Launch a release, or several that are declared together, report charges and publications, and exit. The
    authorization is the configuration of the charge, empty if none was given; `verbose` prints Dagster's log."""
    load = cache(partial(load_launched, release))
    launched = (_launch_queued if find_webserver() else _launch_here)(release, authorization, load, quiet=as_json)
    steps, outcome = launched.steps, launched.outcome
    if verbose:
        _print_log(outcome)
    refusal = next((step for step in steps if step.kind == "refused"), None)
    refused = refusal.words if refusal else "" if outcome.run_id else _explain_failure(outcome)
    failed = [step for step in steps if step.kind == "failed"]
    passed = sum(step.kind == "passed" for step in steps)
    if as_json:
        print_json(
            {
                "run": outcome.run_id,
                "success": outcome.success,
                "charged": list(launched.charges.values()),
                "charges": launched.charges,
                "checks_passed": passed,
                "checks_failed": [asdict(step) for step in failed],
                "refused": refused,
                "folders": launched.places,
                "files": launched.files,
                "log": outcome.log,
            }
        )
    elif outcome.success:
        draws = sum(path[-1] == CHARGE for path in _list_planned(steps))
        there = "the draw was there already" if draws == 1 else "the draws were there already"
        why = NOT_CHARGED if launched.drew else there if draws else f"{release} charges nothing"
        echo("\n" + (launched.charged or f"Nothing was charged: {why}."))
        echo(f"{passed} checks passed.")
        if launched.places:
            where = " in" if launched.files else "; on the page of each, certificate and folder are named:"
            echo(f"Published, with a certificate and the lines that read the files (README.txt){where}")
        for place in launched.places:
            echo(f"  {place}")
    else:
        for step in failed:
            echo(f"\n{step.asset}: {step.check} failed. {step.words}", err=True)
        words = refused or _explain_failure(outcome)
        lines = words, describe_charges(launched.charged, words, launched.uncharged), f"The log is {outcome.log}"
        echo("\n" + "\n".join(filter(None, lines)), err=True)
    if not outcome.success:
        asks = refusal and refusal.metadata and AUTHORIZED_BY_COMMAND in refusal.metadata
        sys.exit(UNAUTHORIZED if asks else REFUSED)


def print_preflights(release: str, *, as_json: bool) -> None:
    """Print the price of each release that is declared under a name, and the reason for the charge."""
    from assets.conventions import DRAW_ID, join_digits

    found = _run_preflight(release, quiet=as_json)
    preflights = {name: {**each, DRAW_ID: join_digits(str(each[DRAW_ID]))} for name, each in found.items()}
    if as_json:
        listed = list(preflights.values())
        print_json(listed[0] if len(listed) == 1 else listed)
        return
    console = make_console()
    for of_release, preflight in preflights.items():
        if len(preflights) > 1:
            console.print(f"\n{show_line(of_release)}", style="bold", markup=False)
        for name, value in ((name, show_lines(str(value))) for name, value in preflight.items()):
            console.print(f"[bold]{escape(show_line(name))}[/bold]: ", end="")
            if value.startswith("```"):
                value = "\n" + indent("\n".join(value.splitlines()[1:-1]), "  ")
            console.print(value, markup=False, soft_wrap=not console.is_terminal)


def load_releases(name: str) -> "Sequence[ReleaseComponent]":
    """The releases that are declared under a name, from all declarations. Importing these takes a second."""
    from orchestration.deployment import Deployment

    return Deployment().releases(name)


def load_launched(name: str) -> "Sequence[ReleaseComponent]":
    """The releases that a launch of a name makes; none for a name without draws."""
    from orchestration.deployment import Deployment

    try:
        return load_releases(name)
    except click.UsageError:
        if name in Deployment().others:
            return []
        raise


def load_partitions(component: "ReleaseComponent") -> "Partitions":
    """The partitions of a partitioned release, whose stages must be imported for this."""
    from orchestration.deployment import Deployment

    return Deployment().find_method(component).partitions


def list_charges(charges: Mapping[str, Loss]) -> str:
    """A line for each charge, and one for their total if there are several; empty if there are none.

    Losses in (ε, δ) have no total of their own: the cap of their population determines their composition.
    """
    losses = list(charges.values())
    lines = {name: format_loss(loss) for name, loss in charges.items()}
    kinds = InfiniteLoss, ConcentratedLoss, PureLoss
    like = next((loss for kind in kinds for loss in losses if isinstance(loss, kind)), None)
    if like and len(losses) > 1:
        with suppress(DoesNotCompose):
            lines["in all"] = format_loss(compose_like(like, losses))
    return _print_charges(lines)


def _print_charges(lines: Mapping[str, str]) -> str:
    width = max(map(len, lines), default=0)
    return "\n".join(["Charged", *(f"  {name:{width}}  {loss}" for name, loss in lines.items())]) if lines else ""


def describe_charges(charged: str, failure: str, uncharged: str = "Nothing was charged.") -> str:
    """The charge of a failed launch. Most refusals say that nothing was charged, which is true of only one release of
    several."""
    if "othing was charged" in failure:
        return charged.replace("Charged", "But this launch charged", 1)
    return charged or uncharged


def _configure(release: str, authorization: Mapping[str, str], load: Load) -> dict[str, Any]:
    """The configuration of a run in this process. Raises `click.UsageError` if there is no such release, or it cannot
    be authorized. Declarations are loaded only for an authorization, or for a name that no file declares literally."""
    if not authorization and release in list_declared_names():
        return {}
    components = load()
    if not authorization:
        return {}
    from orchestration.deployment import require_single

    if not components:
        # The name belongs to another kind of object, such as a retabulation.
        raise click.UsageError(f"{release} charges nothing")
    return _authorize(_require_charging(require_single(release, components)).named, authorization)


def _authorize(release: str, authorization: Mapping[str, str]) -> dict[str, Any]:
    """The configuration of a run with the authorization of its charge."""
    return {"ops": {f"{name_job(release)}__{CHARGE}": {"config": dict(authorization)}}} if authorization else {}


def _list_planned(steps: Sequence[Step]) -> list[list[str]]:
    """The paths of the assets that runs planned to make, in the order of their names."""
    return [asset.split("/") for asset in sorted({step.asset for step in steps if step.kind == "planned"})]


def _require_charging(component: "ReleaseComponent") -> "ReleaseComponent":
    """The release. Raises an error if it charges nothing, as a withheld swap does."""
    if not component.charges:
        raise click.UsageError(f"{component.named} charges nothing")
    return component


def _run_preflight(release: str, *, quiet: bool) -> Mapping[str, Mapping[str, Any]]:
    """The metadata from the preflight of each release of a name, by release."""
    progress = _Progress(quiet=quiet)
    if address := find_webserver():
        try:
            _follow_queued(progress, Queue(address), release, job=PREFLIGHT)
        except UnknownJobError:
            raise click.UsageError(f"the deployment has no release {release}, or it charges nothing") from None
        expected = {"/".join(path[:-1]) for path in _list_planned(progress.steps) if path[-1] == PREFLIGHT}
    else:
        components = [_require_charging(component) for component in load_releases(release)]
        with _open_here() as instance:
            progress.show(partial(_run_here, instance, release, job=PREFLIGHT))
        expected = {component.named for component in components}
    outcome, found = progress.outcome, progress.find_made(PREFLIGHT)
    if not outcome.success or not expected or expected - found.keys():
        reasons = (step.words for step in progress.steps if step.kind in ("refused", "failed"))
        raise click.ClickException(f"{next(reasons, _explain_failure(outcome))}\nThe log is {outcome.log}")
    return found


def _explain_failure(outcome: RunOutcome) -> str:
    """Why a launch failed, as far as this process can know. If no run was started, it loads the deployment too."""
    if outcome.run_id:
        return "The run failed."
    from orchestration.checking import explain_cause, find_cause
    from orchestration.definitions import defs

    try:
        defs()
    except Exception as error:
        return f"No run was started: {explain_cause(find_cause(error))}"
    return "No run was started."


def _print_log(outcome: RunOutcome) -> None:
    if not find_webserver():
        echo(Path(outcome.log).read_text(), err=True)


def _launch_here(release: str, authorization: Mapping[str, str], load: Load, *, quiet: bool) -> _Launched:
    """Launch a release in this process, and read its charges from the ledger."""
    from orchestration.environment import deployment_resources
    from resources.ledger import Ledger

    config = _configure(release, authorization, load)
    home, published = deployment_folders()
    ledger = deployment_resources(home)["ledger"]
    assert isinstance(ledger, Ledger)
    progress = _Progress(quiet=quiet)
    with _open_here() as instance:
        _run_jobs_here(progress, instance, release, config, load)
    if not progress.outcome.run_id:
        # The process could not load the deployment, or knows no such release: loading here raises the same error.
        load()
    drawn = [
        entry
        for entry in ledger.entries()
        if entry.kind == RESERVE and entry.parse_details().authorization.get("run") in progress.runs
    ]
    losses = {
        f"{entry.dataset}/{entry.release}": entry.parse_specification().charge
        for entry in drawn
        if not entry.parse_details().public
    }
    folders = [published.joinpath(*path[:-1]) for path in progress.published]
    return _Launched(
        progress.steps,
        progress.outcome,
        {name: format_loss(loss) for name, loss in losses.items()},
        list_charges(losses),
        bool(drawn),
        "Nothing was charged.",
        [str(folder) for folder in folders],
        sorted({path.name for folder in folders for path in folder.iterdir() if path.is_file()}),
    )


def _launch_queued(release: str, authorization: Mapping[str, str], load: Load, *, quiet: bool) -> _Launched:
    """Have the queue launch a release. The metadata of its charges contain each loss and the run that charged it."""
    queue, progress = Queue(find_webserver()), _Progress(quiet=quiet)
    try:
        _run_jobs_queued(progress, queue, release, _authorize(release, authorization))
    except RefusedError as error:
        drawn = _find_drawn(progress)
        if isinstance(error, UnknownJobError) and not drawn:
            # For a name that is not declared either, loading raises an error that lists the declared names.
            load()
        if drawn or isinstance(error, WebserverLostError):
            echo(_print_charges(_find_charges(drawn)) or _UNKNOWN, err=True)
        raise
    drawn = _find_drawn(progress)
    charges = _find_charges(drawn)
    return _Launched(
        progress.steps,
        progress.outcome,
        charges,
        _print_charges(charges),
        bool(drawn),
        _UNKNOWN,
        [queue.show_asset("/".join(path)) for path in progress.published],
        [],
    )


def _find_drawn(progress: "_Progress") -> dict[str, Mapping[str, Any]]:
    """The metadata of the charges that the runs of this launch made, by release."""
    made = progress.find_made(CHARGE)
    return {name: metadata for name, metadata in made.items() if metadata.get(CHARGED_BY) in progress.runs}


def _find_charges(drawn: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The losses in words, without losses that are not charged because the data are public."""
    return {name: metadata[LOSS] for name, metadata in drawn.items() if CHARGED not in metadata}


def _open_here() -> "dg.DagsterInstance":
    """The instance in which this process runs jobs. Raises QueueError in a cluster, whose other processes would not
    know of the run."""
    from orchestration.environment import is_cluster
    from orchestration.launch import open_instance

    if is_cluster():
        raise QueueError(f"{WEBSERVER} is not set: in a cluster, jobs are put into the queue by the webserver there")
    return open_instance()


def _run_here(instance: "dg.DagsterInstance", release: str, report: Report, **options: Any) -> RunOutcome:
    from orchestration.launch import run_job

    return run_job(instance, release, deployment_folders()[0], report=report, **options)


def _run_jobs_here(
    progress: "_Progress", instance: "dg.DagsterInstance", release: str, config: Mapping[str, Any], load: Load
) -> None:
    """Run a release's job and, with partitions, the jobs after it, until one fails."""
    run = partial(_run_here, instance, release)
    if not progress.show(partial(run, config=config)) or progress.published:
        return
    parted = [(load_partitions(component), component.rounds) for component in load() if component.rounds]
    for partitions, of_part, after in [(each, *jobs) for each, rounds in parted for jobs in list_jobs(rounds)]:
        for job, key in [*((of_part, key) for key in progress.ask(partitions.list_keys, instance)), (after, "")]:
            if not progress.show(partial(run, job=job, partition=key), key):
                return


def _run_jobs_queued(progress: "_Progress", queue: Queue, release: str, config: Mapping[str, Any]) -> None:
    """Put a release's job into the queue, after the partitions of its dataset, and before its own partitions and the
    jobs after them; follow each until it ends.

    All partitions are in the queue at the same time, so partitions after a failed one are made too.
    """
    for job, of in ((COUNTING, release), (CEF, release.partition("/")[0])):
        with suppress(UnknownJobError):
            # Only a source in parts has these jobs, and the first job reads the parts too.
            if not _follow_queued(progress, queue, of, job=job, keys=progress.ask(queue.list_keys, of, job)):
                return
            break
    if not _follow_queued(progress, queue, release, config=config) or progress.published:
        return
    for of_part, after in progress.ask(queue.list_following, release):
        keys = progress.ask(queue.list_keys, release, of_part)
        if not (
            _follow_queued(progress, queue, release, job=of_part, keys=keys)
            and _follow_queued(progress, queue, release, job=after)
        ):
            return


def _follow_queued(
    progress: "_Progress",
    queue: Queue,
    release: str,
    *,
    job: str = "",
    keys: Sequence[str] = ("",),
    config: Mapping[str, Any] = {},
) -> bool:
    """Put a job into the queue, once for each key of a partition, and follow the runs until one fails."""
    names = {key: uuid4().hex for key in keys}
    for key, name in names.items():
        progress.ask(queue.launch, release, job=job, partition=key, config=config, name=name)

    def run(name: str, report: Report) -> RunOutcome:
        runs = follow(queue, name, report)
        if not runs:
            raise QueueError("The run was deleted while it was followed")
        return conclude(runs, queue.show_run(runs[-1].run_id))

    return all(progress.show(partial(run, name), key) for key, name in names.items())


class _Progress:
    """The events of runs, with a printed line for each asset that they make, unless `quiet`."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._outcomes = list[RunOutcome]()
        self.steps = list[Step]()

    @property
    def outcome(self) -> RunOutcome:
        """The outcome of the last job."""
        return self._outcomes[-1]

    @property
    def runs(self) -> frozenset[str]:
        """The runs of all jobs."""
        return frozenset().union(*(outcome.runs for outcome in self._outcomes))

    def find_made(self, stage: str) -> dict[str, Mapping[str, Any]]:
        """The metadata of a stage of the releases that made it, by release."""
        made = {step.asset: step.metadata or {} for step in self.steps if step.kind == "made"}
        return {asset.rpartition("/")[0]: made[asset] for asset in made if asset.endswith(f"/{stage}")}

    @property
    def published(self) -> list[list[str]]:
        """The paths of the publications that were made, unless the last job failed."""
        paths = _list_planned(self.steps) if self.outcome.success else []
        return [path for path in paths if path[-1] == PUBLICATION]

    def ask(self, question: Callable[..., T], *given: Any, **options: Any) -> T:
        """The queue's answer; a long wait for it is reported."""
        return ask(lambda wait: None if self._quiet else echo(f"  {wait.words}"), question, *given, **options)

    def show(self, run: Callable[[Report], RunOutcome], partition: str = "") -> bool:
        """Show the events of a run until it ends; returns whether it succeeded."""
        steps, outcome = _show(run, partition, quiet=self._quiet)
        self.steps += steps
        self._outcomes.append(outcome)
        return outcome.success


def _show(run: Callable[[Report], RunOutcome], partition: str, *, quiet: bool) -> tuple[list[Step], RunOutcome]:
    """Print a line for each asset that a run makes. Returns all events, and the outcome."""
    steps: list[Step] = []
    console = make_console(quiet=quiet)
    columns = (
        SpinnerColumn(),
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    # The output of libraries goes to the log.
    options: Any = {"console": console, "transient": True, "redirect_stdout": False, "redirect_stderr": False}
    with Progress(*columns, disable=not console.is_terminal, **options) as progress:
        bar = progress.add_task("loading", total=None)
        running = ""

        def show(line: str, of: str = "") -> None:
            """Print a line, or the rest of an asset's line; without a line end while the asset is being made."""
            nonlocal running
            name = f"  {f'{of} {partition}'.strip():60}" if of and of != running else ""
            start = "\n" if running and running != of else ""
            console.print(f"{start}{show_lines(f'{name}{line}')}", end="" if of and not line else "\n", markup=False)
            running = of if not line else ""

        def report(step: Step) -> None:
            steps.append(step)
            if step.kind == "planned":
                progress.update(bar, total=sum(step.kind == "planned" for step in steps))
            elif step.kind == "begun":
                asset = step.asset.replace("__", "/")
                progress.update(bar, description=escape(show_line(asset)))
                # A terminal shows the bar instead.
                if not console.is_terminal and any(asset == other.asset for other in steps if other.kind == "planned"):
                    show("", asset)
            elif step.kind == "made" and sum(step.asset == other.asset for other in steps if other.kind == "made") == 1:
                # One step makes all partitions of an asset.
                progress.advance(bar)
                show(f" {step.seconds:>7.1f} s", step.asset)
            elif step.kind == "failed":
                show(f"  {step.asset}: {step.check} failed")
            elif step.kind == "refused" and running == step.asset.replace("__", "/"):
                show("   interrupted" if step.words == INTERRUPTED else "   refused", running)
            elif step.kind == "waits" and not any(step.words == other.words for other in steps[:-1]):
                show(f"  {step.words}")

        outcome = run(report)
        if running:
            show("")
    return steps, outcome
