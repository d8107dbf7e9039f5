"""The work of `launch` and `preflight`: run the jobs of a release, print their progress, and report their outcome."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import dagster as dg
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from assets.charge.assessment import AUTHORIZED_BY_COMMAND
from assets.conventions import DRAW_ID, join_digits
from assets.release.dataset import CEF
from assets.release.method import CHARGE, PREFLIGHT, PUBLICATION, Partitions
from assets.texts import show_lines
from mechanisms.accounting.composition import DoesNotCompose, compose_like
from mechanisms.accounting.losses import ConcentratedLoss, InfiniteLoss, Loss, PureLoss, format_loss
from orchestration.cli.printing import REFUSED, UNAUTHORIZED, echo, make_console, print_json
from orchestration.cli.releases import find_parts, list_declared_names
from orchestration.environment import deployment_folders, deployment_resources, is_cluster
from orchestration.launch import RunOutcome, Step, ask, list_jobs, open_instance, queue_job, run_job
from resources.chain import NOT_CHARGED, RESERVE
from resources.ledger import Ledger

if TYPE_CHECKING:
    from orchestration.components.release import ReleaseComponent


def launch_release(release: str, authorization: Mapping[str, str], *, verbose: bool, as_json: bool) -> None:
    """Launch a release, or several that are declared together, report what was charged and published, and exit. The
    authorization is the configuration of the charge, empty if none was given; `verbose` prints Dagster's log."""
    home, published = deployment_folders()
    ledger = deployment_resources(home)["ledger"]
    assert isinstance(ledger, Ledger)
    load = cache(partial(load_launched, release))
    config = _configure(release, authorization, load)
    with open_instance() as instance:
        steps, outcome, first = _run_jobs(instance, home, release, config, load, quiet=as_json)
    if not outcome.run_id:
        # The process could not load the deployment, or knows no such release: the same error is raised here.
        load()
    if verbose:
        echo(outcome.log.read_text(), err=True)
    drawn = [
        entry
        for entry in ledger.entries()
        if entry.kind == RESERVE and entry.parse_details().authorization.get("run") in first.runs
    ]
    charges = {
        f"{entry.dataset}/{entry.release}": entry.parse_specification().charge
        for entry in drawn
        if not entry.parse_details().public
    }
    losses = [format_loss(loss) for loss in charges.values()]
    paths = _list_planned(steps) if outcome.success else []
    folders = [published.joinpath(*path[:-1]) for path in paths if path[-1] == PUBLICATION]
    files = sorted({path.name for folder in folders for path in folder.iterdir() if path.is_file()})
    refusal = next((step for step in steps if step.kind == "refused"), None)
    refused = refusal.words if refusal else "" if outcome.run_id else _explain_failure(outcome)
    failed = [step for step in steps if step.kind == "failed"]
    passed = sum(step.kind == "passed" for step in steps)
    if as_json:
        print_json(
            {
                "run": outcome.run_id,
                "success": outcome.success,
                "charged": losses,
                "charges": dict(zip(charges, losses, strict=True)),
                "checks_passed": passed,
                "checks_failed": [asdict(step) for step in failed],
                "refused": refused,
                "folders": [str(folder) for folder in folders],
                "files": files,
                "log": str(outcome.log),
            }
        )
    elif outcome.success:
        draws = sum(path[-1] == CHARGE for path in paths)
        there = "the draw was there already" if draws == 1 else "the draws were there already"
        why = NOT_CHARGED if drawn else there if draws else "this release charges nothing"
        echo("\n" + (list_charges(charges) or f"Nothing was charged: {why}."))
        echo(f"{passed} checks passed.")
        if folders:
            echo("Published, with a certificate and the lines that read the files (README.txt), in")
        for folder in folders:
            echo(f"  {folder}")
    else:
        for step in failed:
            echo(f"\n{step.asset}: {step.check} failed. {step.words}", err=True)
        words = refused or _explain_failure(outcome)
        lines = words, describe_charges(charges, words), f"The log is {outcome.log}"
        echo("\n" + "\n".join(filter(None, lines)), err=True)
    if not outcome.success:
        asks = refusal and refusal.metadata and AUTHORIZED_BY_COMMAND in refusal.metadata
        sys.exit(UNAUTHORIZED if asks else REFUSED)


def print_preflights(release: str, *, as_json: bool) -> None:
    """Print the price of each release that is declared under a name, and why it is charged."""
    components = load_releases(release)
    preflights = _run_preflight(release, components, quiet=as_json)
    if as_json:
        print_json(preflights[0] if len(preflights) == 1 else preflights)
        return
    # It imports Pygments.
    from rich.markdown import Markdown

    console = make_console()
    for component, preflight in zip(components, preflights, strict=True):
        if len(preflights) > 1:
            console.print(f"\n{component.named}", style="bold", markup=False)
        for name, value in ((name, show_lines(str(value))) for name, value in preflight.items()):
            console.print(f"[bold]{name}[/bold]: ", end="")
            console.print(Markdown(value) if value.startswith("```") else value, markup=False)


def load_releases(name: str) -> "Sequence[ReleaseComponent]":
    """The releases that are declared under a name, from all declarations, whose import takes a second."""
    from orchestration.deployment import Deployment

    return Deployment().releases(name)


def load_launched(name: str) -> "Sequence[ReleaseComponent]":
    """The releases that a launch of a name makes: none, if it is the name of what draws nothing."""
    from orchestration.deployment import Deployment

    try:
        return load_releases(name)
    except click.UsageError:
        if name in Deployment().others:
            return []
        raise


def load_partitions(component: "ReleaseComponent") -> Partitions:
    """The partitions of a release that has some; its stages are imported for that."""
    from orchestration.deployment import Deployment

    return Deployment().find_partitions(component)


def list_charges(charges: Mapping[str, Loss]) -> str:
    """A line for each charge, and one for their total if there are several; empty if there is none.

    Losses in (ε, δ) have no total of their own: the cap of their population says how they compose.
    """
    losses = list(charges.values())
    lines = [(name, format_loss(loss)) for name, loss in charges.items()]
    kinds = InfiniteLoss, ConcentratedLoss, PureLoss
    like = next((loss for kind in kinds for loss in losses if isinstance(loss, kind)), None)
    if like and len(losses) > 1:
        with suppress(DoesNotCompose):
            lines.append(("in all", format_loss(compose_like(like, losses))))
    width = max((len(name) for name, _ in lines), default=0)
    return "\n".join(["Charged", *(f"  {name:{width}}  {loss}" for name, loss in lines)]) if lines else ""


def describe_charges(charges: Mapping[str, Loss], failure: str) -> str:
    """What a failed launch charged. Most refusals say that nothing was, which is true of one release of several."""
    charged = list_charges(charges)
    if "othing was charged" in failure:
        return charged.replace("Charged", "But this launch charged", 1)
    return charged or "Nothing was charged."


def _configure(
    release: str, authorization: Mapping[str, str], load: "Callable[[], Sequence[ReleaseComponent]]"
) -> dict[str, Any]:
    """The configuration of a run. Raises `click.UsageError` if there is no such release, or it cannot be authorized.
    Declarations are loaded only for an authorization and for a name that no file declares as it is."""
    if not authorization and release in list_declared_names():
        return {}
    components = load()
    if not authorization:
        return {}
    from orchestration.deployment import require_single

    if not components:
        # It is the name of what is no release, such as a retabulation.
        raise click.UsageError(f"{release} charges nothing")
    operation = "__".join(_require_charging(require_single(release, components)).key(CHARGE).path)
    return {"ops": {operation: {"config": dict(authorization)}}}


def _list_planned(steps: Sequence[Step]) -> list[list[str]]:
    """The paths of the assets that runs were to make, in the order of their names."""
    return [asset.split("/") for asset in sorted({step.asset for step in steps if step.kind == "planned"})]


def _require_charging(component: "ReleaseComponent") -> "ReleaseComponent":
    """A release, refused if it charges nothing, as a withheld swap does."""
    if not component.charges:
        raise click.UsageError(f"{component.named} charges nothing")
    return component


def _run_preflight(release: str, components: "Sequence[ReleaseComponent]", *, quiet: bool) -> list[dict[str, Any]]:
    for component in components:
        _require_charging(component)
    with open_instance() as instance:
        steps, outcome = _run_job(instance, deployment_folders()[0], release, job=PREFLIGHT, quiet=quiet)
    metadata = {step.asset: step.metadata for step in steps if step.kind == "made"}
    preflights = [metadata.get("/".join(component.key(PREFLIGHT).path)) for component in components]
    if not outcome.success or None in preflights:
        reasons = (step.words for step in steps if step.kind in ("refused", "failed"))
        raise click.ClickException(f"{next(reasons, _explain_failure(outcome))}\nThe log is {outcome.log}")
    return [{**preflight, DRAW_ID: join_digits(str(preflight[DRAW_ID]))} for preflight in preflights if preflight]


def _explain_failure(outcome: RunOutcome) -> str:
    if outcome.run_id:
        return "The run failed."
    return "No run was started: the deployment cannot be loaded. stirred check names every problem."


def _run_jobs(
    instance: dg.DagsterInstance,
    home: Path,
    release: str,
    config: Mapping[str, Any],
    load: "Callable[[], Sequence[ReleaseComponent]]",
    *,
    quiet: bool,
) -> tuple[list[Step], RunOutcome, RunOutcome]:
    """Run a release's job, and if it has partitions, the jobs after it, until one fails; the last run and the first.

    In a cluster, all partitions are in the queue at the same time, and those after one that fails are made too. There,
    the partitions of the dataset come first; on one machine, the release's job reads them.
    """
    steps, dataset = list[Step](), release.partition("/")[0]
    parts = find_parts(dataset) if is_cluster() else []

    def report(wait: Step) -> None:
        if not quiet:
            echo(f"  {wait.words}")

    queue = partial(queue_job, instance, home=home, report=report)
    queued = {key: queue(dataset, job=CEF, partition=key) for key in parts}
    for key, name in queued.items():
        further, outcome = _run_job(instance, home, dataset, job=CEF, partition=key, quiet=quiet, queued=name)
        steps += further
        if not outcome.success:
            return steps, outcome, outcome
    further, first = _run_job(instance, home, release, config=config, quiet=quiet)
    steps, outcome = [*steps, *further], first
    published = any(path[-1] == PUBLICATION for path in _list_planned(steps))
    if not outcome.success or published:
        return steps, outcome, first
    parted = [(load_partitions(component), component.rounds) for component in load() if component.rounds]
    for partitions, of_part, after in [(each, *jobs) for each, rounds in parted for jobs in list_jobs(rounds)]:
        keys = ask(report, partitions.list_keys, instance)
        queued = {key: queue(release, job=of_part, partition=key) for key in keys if is_cluster()}
        for job, partition in [*((of_part, key) for key in keys), (after, "")]:
            name = queued.get(partition, "")
            further, outcome = _run_job(instance, home, release, job=job, partition=partition, quiet=quiet, queued=name)
            steps += further
            if not outcome.success:
                return steps, outcome, first
    return steps, outcome, first


def _run_job(
    instance: dg.DagsterInstance,
    home: Path,
    release: str,
    *,
    quiet: bool,
    job: str = "",
    partition: str = "",
    config: Mapping[str, Any] = {},
    queued: str = "",
) -> tuple[list[Step], RunOutcome]:
    """Run a job of a release; unless it is to be quiet, print a line for each asset that is made."""
    steps: list[Step] = []
    console = make_console(quiet=quiet)
    columns = (
        SpinnerColumn(),
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    # What libraries print goes to the log.
    options: Any = {"console": console, "transient": True, "redirect_stdout": False, "redirect_stderr": False}
    with Progress(*columns, disable=not console.is_terminal, **options) as progress:
        bar = progress.add_task("loading", total=None)
        running = ""

        def show(line: str, of: str = "") -> None:
            """Print a line, or the rest of the line of an asset; without its end while the asset is being made."""
            nonlocal running
            name = f"  {f'{of} {partition}'.strip():60}" if of and of != running else ""
            start = "\n" if running and running != of else ""
            console.print(f"{start}{name}{line}", end="" if of and not line else "\n", markup=False)
            running = of if not line else ""

        def report(step: Step) -> None:
            steps.append(step)
            if step.kind == "planned":
                progress.update(bar, total=sum(step.kind == "planned" for step in steps))
            elif step.kind == "begun":
                asset = step.asset.replace("__", "/")
                progress.update(bar, description=escape(asset))
                # A terminal has the bar.
                if not console.is_terminal and any(asset == other.asset for other in steps if other.kind == "planned"):
                    show("", asset)
            elif step.kind == "made" and sum(step.asset == other.asset for other in steps if other.kind == "made") == 1:
                # Of an asset in partitions, all are made by one step.
                progress.advance(bar)
                show(f" {step.seconds:>7.1f} s", step.asset)
            elif step.kind == "failed":
                show(f"  {step.asset}: {step.check} failed")
            elif step.kind == "refused" and running == step.asset.replace("__", "/"):
                show("   refused", running)
            elif step.kind == "waits" and not any(step.words == other.words for other in steps[:-1]):
                show(f"  {step.words}")

        outcome = run_job(
            instance, release, home, job=job, partition=partition, config=config, report=report, queued=queued
        )
        if running:
            show("")
    return steps, outcome
