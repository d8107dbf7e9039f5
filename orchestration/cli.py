"""The command `stirred`: what people do with a deployment, thin over its jobs and functions.

Exit codes: 0 done; 1 refused, failed, or something does not hold; 2 wrong usage; 3 a charge needs an authorization.
"""

import csv
import json
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import click
import dagster as dg
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from assets.cef.census import CensusDeclaration
from assets.cef.findings import SourceError
from assets.cef.profile import profile
from assets.charge.assessment import AUTHORIZED_BY_COMMAND, would_leave
from assets.charge.preflight import PREFLIGHT
from assets.confidentiality import nodes_of
from assets.conventions import DRAW_ID, ZONE, in_one_piece
from assets.gates.shared import all_gates
from assets.ledger.page import last_replays
from assets.ledger.population import populations
from assets.planning.asset import format_lines, format_total
from assets.planning.expectation import Machine, UnknownError, expectation, format_expectation, this_machine
from assets.publication.audit import Verdict, audit, write_report
from assets.publication.signature import (
    CERTIFICATE,
    VerificationError,
    altered_files,
    fingerprint,
    identity,
    public_key,
    read_public_key,
    signed_identity,
)
from assets.publication.signature import verify as verified
from assets.publication.withdrawal import WithdrawalError
from assets.publication.withdrawal import withdraw as withdrawn
from assets.release.dataset import DatasetDeclaration, Reader
from assets.release.method import CHARGE, PLAN
from assets.release.names import Name
from assets.release.plan import PlanRequest
from assets.release.release import DeclarationError
from mechanisms.accounting.composition import DoesNotCompose, beside_finite, stated, symbol
from mechanisms.refusal import RefusedError
from orchestration import components
from orchestration.automation import PUBLICATION_OF, STATES
from orchestration.backup import BackupError, back_up
from orchestration.backup import restore as restored
from orchestration.checking import cause_of, declaration_problems
from orchestration.components import PHSafe, SafeTabH, SafeTabP, TableBuilder, TopDown
from orchestration.components.release import DeclaresReleases, ReleaseComponent, dataset_of, release_definitions
from orchestration.components.scaffolding import filled_example
from orchestration.definitions import declarations, declared_methods, deployment
from orchestration.environment import PROJECT, deployment_folders, deployment_resources
from orchestration.explorer.launcher import ExplorerError
from orchestration.explorer.launcher import explore as serve_explorer
from orchestration.jobs import now
from orchestration.launch import Ended, Step, launch, with_instance
from orchestration.planning import PlannedDeclaration, plan_declaration, together
from orchestration.proposal import Proposal, propose_dataset, propose_swapping, propose_tables, proposed_name
from resources.chain import RESERVE, SETTLE, Entry
from resources.custody import CustodyError
from resources.ledger import Ledger, LedgerError, Reading, remaining
from resources.statements import Zone
from resources.warehouse import Warehouse, WarehouseError

REFUSED, UNAUTHORIZED = 1, 3
NAME = TypeAdapter[str](Name)

_EXPECTED = (
    BackupError,
    CustodyError,
    DeclarationError,
    ExplorerError,
    LedgerError,
    RefusedError,
    SourceError,
    VerificationError,
    WarehouseError,
    WithdrawalError,
)
"""Errors whose message says what is wrong and what to do."""


class Deployed:
    """The deployment that the environment names, as its commands need it."""

    def __init__(self) -> None:
        self.home, self.published = deployment_folders()
        ledger = deployment_resources(self.home)["ledger"]
        assert isinstance(ledger, Ledger)
        self.ledger = ledger
        self.tree = dg.ComponentTree.for_project(Path(__file__).parent)

    @cached_property
    def declared(self) -> tuple[list[DatasetDeclaration], dict[str, ReleaseComponent]]:
        """The declared datasets, and the releases by `dataset/release`. Raises as `declarations`."""
        datasets, releases = declarations(self.tree)
        return datasets, {each.named: each for each in releases}

    def releases(self, name: str) -> Sequence[ReleaseComponent]:
        """The release of a name, or all that are declared together under it. Raises `click.UsageError` if none is."""
        singles = {single: [component] for single, component in self.declared[1].items()}
        known = {**self.together, **singles}
        if name not in known:
            raise click.UsageError(f"there is no release {name}; declared are {', '.join(sorted(known))}")
        return known[name]

    @cached_property
    def together(self) -> dict[str, Sequence[ReleaseComponent]]:
        """By the name under which they are declared, the releases that are declared together."""
        every = self.tree.get_all_components(DeclaresReleases)  # type: ignore[type-abstract]
        return {each.named: each.releases(every) for each in every}

    def release(self, name: str) -> ReleaseComponent:
        """A single declared release. Raises `click.UsageError` if there is none of that name."""
        found = self.releases(name)
        if len(found) > 1:
            raise click.UsageError(f"{name} is declared as {_names(found)}; name one of them")
        return found[0]

    def budgets(self, reading: Reading) -> list[dict[str, Any]]:
        """For each population: its datasets, cap, what was charged, and what remains."""
        found = []
        for population in populations(self.declared[0]):
            cap = population.cap
            row: dict[str, Any] = {
                "population": population.name,
                "datasets": [dataset.name for dataset in population.datasets],
                "cap": stated(cap),
                "charging": "asks" if population.datasets[0].asks else "automatic",
                "beside": "",
            }
            try:
                row["beside"] = beside_finite(reading.infinite_charges(population.name))
                charged = reading.charged(population.name, cap)
                row |= {"charged": stated(charged), "left": f"{symbol(cap)} = {remaining(charged, cap)}"}
            except DoesNotCompose as error:
                row |= {"charged": f"cannot be added up: {error}", "left": "unknown"}
            except LedgerError:
                row |= {"charged": "unknown: the ledger is not intact", "left": "unknown"}
            found.append(row)
        return found

    def statuses(self, instance: dg.DagsterInstance) -> list[dict[str, Any]]:
        """For each release: how often it was drawn, what it was charged, and its last run."""
        entries = self.ledger.entries()
        found = []
        for name, component in sorted(self.declared[1].items()):
            dataset, release = name.split("/")
            own = [each for each in entries if (each.dataset, each.release) == (dataset, release)]
            runs = [
                run
                for declared, made in self.together.items()
                if name in {each.named for each in made}
                for job in {component.job, declared.replace("/", "__")}
                for run in instance.get_run_records(dg.RunsFilter(job_name=job), limit=1)
            ]
            runs.sort(key=lambda run: run.create_timestamp, reverse=True)
            found.append(
                {
                    "release": name,
                    "title": component.declaration.title,
                    "editions": sum(each.kind == SETTLE for each in own),
                    "charges": [stated(each.declared().charge) for each in own if each.kind == RESERVE],
                    "published": self._is_published(dataset, release, own),
                    "last_run": runs[0].dagster_run.status.value.lower() if runs else None,
                    "last_run_at": runs[0].create_timestamp.isoformat(timespec="seconds") if runs else None,
                }
            )
        return found

    def _is_published(self, dataset: str, release: str, own: list[Entry]) -> bool | None:
        """Whether there is a certificate that this deployment signed, of a draw that its ledger holds; None if its keys
        cannot be read, so that nothing can be said.
        """
        folder = self.published / dataset / release
        if not own or not (folder / CERTIFICATE).exists():
            return False
        try:
            stated = signed_identity(folder, self.public_key)
        except CustodyError:
            return None
        return stated is not None and (stated.dataset, stated.release, stated.ledger_hash) in {
            (each.dataset, each.release, each.hash) for each in own
        }

    @cached_property
    def machine(self) -> Machine:
        """This machine, with the disks of the deployment."""
        return this_machine(self.home, self.published, in_lake=bool(self.ledger.warehouse.lake))

    @cached_property
    def public_key(self) -> Ed25519PublicKey:
        """The key that publications of this deployment are verified with."""
        return public_key(self.ledger.custody)


def _names(releases: Sequence[ReleaseComponent]) -> str:
    return ", ".join(sorted(each.named for each in releases))


class Command(click.Group):
    """A group whose commands end with one sentence where something is refused."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except _EXPECTED as error:
            raise click.ClickException(str(error)) from None
        except dg.Failure as failure:
            raise click.ClickException(str(failure.description)) from None
        except OSError as error:
            raise click.ClickException(f"{error.filename or 'writing'}: {error.strerror or error}") from None
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            # Dagster wraps what is wrong with a declaration in errors of its own.
            cause = cause_of(error)
            if not isinstance(cause, DeclarationError | ValidationError):
                raise
            raise click.ClickException(f"{cause}\nstirred check names every problem with file and line.") from None


as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")


def _show(found: Any) -> None:
    click.echo(json.dumps(found, indent=2, ensure_ascii=False, default=str))


def _table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    shown = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for position, column in enumerate(columns):
        shown.add_column(column, overflow="fold", no_wrap=position in (0, 2) and len(columns) > 5)
    for row in rows:
        # Names are shown as they are: neither as markup nor as codes of the terminal.
        shown.add_row(*(Text("".join(letter if letter.isprintable() else "�" for letter in cell)) for cell in row))
    _console().print(shown, crop=False)


def _console(*, quiet: bool = False) -> Console:
    """The terminal; what is piped or redirected is as wide as it needs to be."""
    return Console(highlight=False, quiet=quiet, width=None if sys.stdout.isatty() else 160)


@click.group(cls=Command, context_settings={"help_option_names": ["-h", "--help"]}, help=__doc__)
def main() -> None:
    pass


@main.command()
@as_json
def status(as_json: bool) -> None:
    """Releases, their editions and last runs, and what each population has spent and has left."""
    with_instance()
    deployed = Deployed()
    with dg.DagsterInstance.get() as instance:
        releases, budgets = deployed.statuses(instance), deployed.budgets(deployed.ledger.read())
    if as_json:
        _show({"releases": releases, "populations": budgets})
        return
    _table(
        "Releases",
        ["release", "editions", "published", "charged", "last run"],
        [
            [
                each["release"],
                str(each["editions"]),
                {True: "yes", False: "no", None: "unknown"}[each["published"]],
                ", ".join(each["charges"]) or "nothing",
                f"{each['last_run']}, {each['last_run_at'][:16].replace('T', ' ')}" if each["last_run"] else "never",
            ]
            for each in releases
        ],
    )
    click.echo()
    _budget(budgets)


def _budget(budgets: list[dict[str, Any]]) -> None:
    _table(
        "Populations",
        ["population", "charged", "cap", "left", "a new charge"],
        [[each["population"], each["charged"], each["cap"], each["left"], each["charging"]] for each in budgets],
    )
    for each in budgets:
        if each["beside"]:
            click.echo(f"{each['population']}: {each['beside']}")


@main.command()
@as_json
def check(as_json: bool) -> None:
    """Check every declaration, and name each problem with file, line, field and rule."""
    tree = dg.ComponentTree.for_project(Path(__file__).parent)
    problems = declaration_problems(tree, deployment_folders()[1])
    if as_json:
        _show([asdict(problem) for problem in problems])
    for problem in problems:
        click.echo(f"{tree.defs_module_path}/{problem}" if problem.file else problem, err=True)
    if problems:
        sys.exit(REFUSED)
    if not as_json:
        click.echo("All declarations can be loaded.")


@main.command()
@as_json
def budget(as_json: bool) -> None:
    """What was charged, by what, authorized by whom, and what is left."""
    deployed = Deployed()
    reading = deployed.ledger.read()
    problems, budgets = reading.problems, deployed.budgets(reading)
    entries = [
        {
            "entry": entry.sequence,
            "kind": entry.kind,
            "release": f"{entry.dataset}/{entry.release}",
            "population": entry.known().population,
            "charged": stated(entry.declared().charge) if entry.kind == RESERVE else "",
            "authorized_by": entry.known().authorization.get("by", ""),
            "recorded_at": entry.recorded_at,
            "draw_id": entry.draw_id,
        }
        for entry in reading.entries
    ]
    if as_json:
        _show({"populations": budgets, "ledger": entries, "problems": list(problems)})
    else:
        _budget(budgets)
        click.echo()
        _table(
            "Ledger" + (", not intact" if problems else ", intact"),
            ["entry", "what", "release", "charged", "authorized by", "when (UTC)", "draw"],
            [
                [
                    str(each["entry"]), str(each["kind"]), str(each["release"]), str(each["charged"]),
                    str(each["authorized_by"]), str(each["recorded_at"])[:16].replace("T", " "),
                    str(each["draw_id"])[:12],
                ]
                for each in entries
            ],
        )  # fmt: skip
    for problem in problems:
        click.echo(problem, err=True)
    if problems:
        sys.exit(REFUSED)


@main.group(cls=Command)
def new() -> None:
    """Write a first declaration, for a person to read and change."""


@new.command(name="dataset")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--name", help="The dataset's name; by default, the file's.")
@click.option("--persons", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="The file of persons.")
@click.option("--record-name", default="unit", show_default=True, help="What a record of FILE is called.")
@click.option("--cap", default="10", show_default=True, help="The cap: ε, or {rho: …}.")
@click.option("--key", help="The column of FILE that identifies a record, if it cannot be told by its name.")
@click.option("--unit", help="The column of persons that identifies their unit, if it is not called like the key.")
def new_dataset(
    file: Path,
    name: str | None,
    persons: Path | None,
    record_name: str,
    cap: str,
    key: str | None,
    unit: str | None,
) -> None:
    """Propose the declaration of a dataset from FILE, a CSV or Parquet file with one record for each unit."""
    deployed = Deployed()
    name = name or proposed_name(file.stem)
    readers = {".csv": Reader.CSV, ".parquet": Reader.PARQUET}
    files = [each for each in (file, persons) if each]
    for each in files:
        if each.suffix not in readers or each.suffix != file.suffix:
            raise click.UsageError(f"{each.name}: a dataset is read from .csv or from .parquet files, all alike")
    target = _new_declaration(deployed, name, "dataset")
    warehouse = deployment_resources(deployed.home)["warehouse"]
    assert isinstance(warehouse, Warehouse)
    with warehouse.session() as session:
        found = [(_declared_path(each), profile(session, readers[each.suffix], each)) for each in files]
    proposal = propose_dataset(name, readers[file.suffix], *found, record_name=record_name, cap=cap, key=key, unit=unit)
    _table("Proposed", ["table", "column", "type", "role", "domain"], [list(row) for row in proposal.columns])
    _write_declaration(deployed, target, proposal, f"stirred new release {name}")


_EXAMPLES: dict[str, tuple[type[ReleaseComponent], str]] = {
    "phsafe": (PHSafe, "s_dhc"),
    "topdown": (TopDown, "redistricting"),
    "safetab-p": (SafeTabP, "persons"),
    "safetab-h": (SafeTabH, "households"),
}
"""By kind, the component whose example is proposed, and the usual name of its release."""


@new.command(name="release")
@click.argument("dataset")
@click.option("--name", help="The release's name; by default, its kind.")
@click.option("--kind", type=click.Choice(["swapping", "tables", *_EXAMPLES]), help="The mechanism.")
def new_release(dataset: str, name: str | None, kind: str | None) -> None:
    """Propose the declaration of a release from DATASET."""
    deployed = Deployed()
    datasets = {each.name: each for each in deployed.declared[0]}
    if dataset not in datasets:
        raise click.UsageError(f"there is no dataset {dataset}; declared are {', '.join(sorted(datasets))}")
    census = isinstance(datasets[dataset], CensusDeclaration)
    if kind is None and census:
        raise click.UsageError(f"{dataset} is a census in the production layout: name the mechanism with --kind")
    if kind in ("phsafe", "topdown") and not census:
        raise click.UsageError(f"--kind {kind} needs a census in the production layout, and {dataset} is none")
    component, usual = _EXAMPLES.get(str(kind), (None, "tables" if kind == "tables" else "swapped"))
    name = name or usual
    target = _new_declaration(deployed, dataset, name)
    if component:
        proposal = Proposal(filled_example(f"{components.__name__}.{component.__name__}", dataset, name))
    else:
        proposal = (propose_tables if kind == "tables" else propose_swapping)(datasets[dataset], name)
    _write_declaration(deployed, target, proposal, f"stirred preflight {dataset}/{name}")


def _declared_path(path: Path) -> Path:
    """The path as it is declared: from the project's folder if it is below it, and absolute otherwise."""
    path = path.absolute()
    return path.relative_to(PROJECT) if path.is_relative_to(PROJECT) else path


def _new_declaration(deployed: Deployed, *folders: str) -> Path:
    """The file of a new declaration. Raises `click.UsageError` if it is there already."""
    for name in folders:
        try:
            NAME.validate_python(name)
        except ValidationError:
            raise click.UsageError(
                f"{name} is no possible name: lowercase letters, digits and single underscores; give --name"
            ) from None
    target = deployed.tree.defs_module_path.joinpath(*folders, "defs.yaml")
    if target.exists():
        raise click.UsageError(f"{target} is there already; change it, or give another --name")
    return target


def _write_declaration(deployed: Deployed, target: Path, proposal: Proposal, then: str) -> None:
    """Write a proposal, and say what to look at, and what to do then."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("x", encoding="utf-8") as file:
        file.write(proposal.text)
    click.echo(f"\nWrote {target}")
    for warning in proposal.warnings:
        click.echo(f"Look at this: {warning}")
    place = target.relative_to(deployed.tree.defs_module_path).as_posix()
    problems = declaration_problems(dg.ComponentTree.for_project(Path(__file__).parent), deployed.published)
    for problem in problems:
        click.echo(f"{deployed.tree.defs_module_path}/{problem}" if problem.file else problem, err=True)
    if any(problem.file == place for problem in problems):
        click.echo("Change what is refused, then run `stirred check`.", err=True)
        sys.exit(REFUSED)
    click.echo(f"Read it and change what is not right; `stirred check` names what is wrong. Then: {then}")


@main.command()
@click.argument("release")
@click.option(
    "--try", "tried", metavar="YAML", multiple=True, help="Fields of defs.yaml, such as 'swap_rate: 1/10'; repeatable."
)
@click.option(
    "--margin", metavar="LINE=NUMBER", multiple=True, help="The wanted 90% margin of error of a line; repeatable."
)
@click.option("--total", help="The wanted charge, ρ or ε as declared: all budgets are multiplied by one number.")
@click.option(
    "--largest-stratum", type=int, help="In swapping: b, if no edition with the same invariants is published."
)
@click.option(
    "--records",
    type=click.IntRange(min=1),
    help="The expected number of persons, or of units if there are none, for time, memory and disk.",
)
@click.option("--yaml", "as_yaml", is_flag=True, help="Print the planned defs.yaml only.")
@as_json
def plan(
    release: str,
    tried: tuple[str, ...],
    margin: tuple[str, ...],
    total: str | None,
    largest_stratum: int | None,
    records: int | None,
    as_yaml: bool,
    as_json: bool,
) -> None:
    """What RELEASE would charge, how exact it would be, what it would take, and what launching it will do.

    Reads no records. Time, memory and disk are those that a launch is expected to take on this machine.

    The options say what to try in place of what is declared. Nothing changes; --yaml prints the file that declares it.
    """
    deployed = Deployed()
    asked = PlanRequest(
        fields=_fields(tried),
        margins=dict(map(_margin, margin)),
        total=total,
        largest_stratum=largest_stratum,
        records=records,
    )
    components = deployed.releases(release)
    if len(components) > 1 and not (asked.is_empty and not as_yaml):
        raise click.UsageError(f"{release} is declared as {_names(components)}; name one of them")
    found = [_plan_of(deployed, component, asked) for component in components]
    if as_yaml:
        click.echo(found[0].text, nl=False)
        return
    if as_json:
        shown = [{**_stages(each), "plan": _plan_record(deployed, each, records)} for each in found]
        _show(shown[0] if len(shown) == 1 else shown)
        return
    for each in found:
        if len(found) > 1:
            click.echo(f"\n{each.component.named}\n")
        if asked.is_empty:
            _show_stages(_stages(each))
        _show_plan(deployed, each, records)


def _fields(tried: Sequence[str]) -> dict[str, Any]:
    """The fields to try, from YAML. Raises `click.UsageError` if a text is no mapping."""
    fields: dict[str, Any] = {}
    for text in tried:
        try:
            given = yaml.safe_load(text)
        except yaml.YAMLError:
            given = None
        if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
            raise click.UsageError(f"--try: {text!r} is not of the form 'FIELD: VALUE'")
        fields = together(fields, given)
    return fields


def _margin(text: str) -> tuple[str, str]:
    line, equals, number = text.rpartition("=")
    if not equals:
        raise click.UsageError(f"--margin: {text!r} is not of the form LINE=NUMBER")
    return line.strip(), number.strip()


def _plan_of(deployed: Deployed, component: ReleaseComponent, asked: PlanRequest) -> PlannedDeclaration:
    datasets = {each.name: each for each in deployed.declared[0]}
    return plan_declaration(component, dataset_of(component.declaration, datasets), deployed.published, asked)


def _plan_record(deployed: Deployed, found: PlannedDeclaration, records: int | None) -> dict[str, Any]:
    """A plan for scripts."""
    plan = found.plan
    try:
        expected: dict[str, Any] = expectation(found.method, records, deployed.machine).record
    except UnknownError as error:
        expected = {"unknown": str(error)}
    left, refusal = _left(deployed, found)
    return {
        "total": format_total(plan),
        "exactly": None if plan.loss is None else plan.loss.as_record(),
        "is_bound": plan.is_bound,
        "left": left,
        "refusal": plan.problem or refusal,
        "expected": expected,
        "lines": [asdict(line) for line in plan.lines],
        "facts": dict(plan.facts),
        "tables": {title: {"columns": header, "rows": rows} for title, (header, rows) in plan.tables.items()},
        "curves": [asdict(curve) for curve in plan.curves],
        "defs.yaml": found.text,
    }


def _left(deployed: Deployed, found: PlannedDeclaration) -> tuple[str, str]:
    """What remains of the cap, and why a charge would be refused."""
    try:
        return would_leave(found.method.release, found.plan.loss, deployed.ledger.read())
    except LedgerError as error:
        return f"What remains is not known: {error}", ""


def _show_plan(deployed: Deployed, found: PlannedDeclaration, records: int | None) -> None:
    plan = found.plan
    if plan.lines:
        header, rows = format_lines(plan)
        _table("Lines", list(header), [list(row) for row in rows])
        click.echo()
    for title, (header, rows) in plan.tables.items():
        _table(title, list(header), [list(row) for row in rows])
        click.echo()
    _table("Facts", ["what", ""], [[name, words] for name, words in plan.facts.items()])
    click.echo()
    told = format_expectation(found.method, records, deployed.machine)
    _table("A launch on this machine", ["what", ""], [[name, words] for name, words in told.items()])
    left, refusal = _left(deployed, found)
    click.echo(f"\nTotal: {format_total(plan)}")
    click.echo(left)
    if problem := plan.problem or refusal:
        click.echo(f"It would be refused: {problem}")
    name = found.component.named
    click.echo(f"\nWhat it costs with the records: stirred preflight {name}" if found.component.charges else "")
    click.echo("The file that declares it: the same command with --yaml")


def _show_stages(found: Mapping[str, Any]) -> None:
    _table("Stages", ["stage", "zone", "what"], [list(stage.values()) for stage in found["stages"]])
    click.echo()
    rules = [list(gate.values()) for gate in found["gates"]]
    _table("Gates, all before publication", ["stage", "gate", "rule"], rules)
    click.echo()
    tables = [[table["table"], table["title"], ", ".join(table["columns"])] for table in found["tables"]]
    _table("Tables", ["table", "title", "columns"], tables)
    click.echo()


def _stages(found: PlannedDeclaration) -> dict[str, Any]:
    """What launching a release will do, from its declaration alone: stages, gates and tables."""
    component, method = found.component, found.method
    order = {stage: position for position, stage in enumerate(method.stages)}
    # Neither is made by a launch.
    apart = {PREFLIGHT, *({PLAN} - set(method.stages))}
    stages = [
        {
            "stage": spec.key.path[-1],
            "zone": spec.tags[ZONE],
            "what": (spec.description or "").strip().partition("\n\n")[0].replace("\n", " "),
        }
        for spec in sorted(
            (
                spec
                for made in release_definitions(component, method).assets or ()
                if isinstance(made, dg.AssetsDefinition)
                for spec in made.specs
            ),
            key=lambda spec: order.get(spec.key.path[-1], len(order)),
        )
        if spec.key.path[-1] not in apart
    ]
    gates = [{"stage": gate.stage, "gate": gate.name, "rule": gate.words} for gate in all_gates(method)]
    tables = [
        {"table": table.name, "title": table.title, "columns": [column.name for column in table.columns]}
        for table in (method.tables() if method.charges else [])
    ]
    return {"release": component.named, "stages": stages, "gates": gates, "tables": tables}


@main.command(name="launch")
@click.argument("release")
@click.option("--authorize", metavar="LOSS", default="", help="The loss to be charged, as the refusal states it.")
@click.option("--draw", default="", help="The draw that is authorized, as the refusal states it.")
@click.option("--by", default="", help="Who authorizes the charge.")
@click.option("-v", "--verbose", is_flag=True, help="Print Dagster's log too.")
@as_json
def launch_command(release: str, authorize: str, draw: str, by: str, verbose: bool, as_json: bool) -> None:
    """Make RELEASE (dataset/release), from its source to its publication.

    A new draw on a dataset that asks is refused with its price (exit code 3). Launch it again with --authorize, --draw
    and --by as the refusal states them.
    """
    deployed = Deployed()
    made = deployed.releases(release)
    given = {"authorized_loss": authorize, "authorized_draw": draw, "authorized_by": by}
    config: dict[str, Any] = {}
    if any(given.values()):
        operation = "__".join(_charging(deployed.release(release)).key(CHARGE).path)
        config = {"ops": {operation: {"config": given}}}
    told, ended, first = _run_all(deployed, release, made, config, quiet=as_json)
    if verbose:
        click.echo(ended.log.read_text(), err=True)
    charged = [
        each
        for each in deployed.ledger.entries()
        if each.kind == RESERVE and each.known().authorization.get("run") in first.runs
    ]
    folders = [folder for each in made if (folder := deployed.published / each.named).exists() and ended.success]
    files = sorted({path.name for folder in folders for path in folder.iterdir() if path.is_file()})
    refusal = next((step for step in told if step.kind == "refused"), None)
    refused = refusal.words if refusal else ""
    failed = [step for step in told if step.kind == "failed"]
    passed = sum(step.kind == "passed" for step in told)
    losses = [stated(each.declared().charge) for each in charged]
    if as_json:
        found = {"run": ended.run_id, "success": ended.success, "charged": losses, "checks_passed": passed}
        found |= {"checks_failed": [asdict(step) for step in failed], "refused": refused}
        placed = {"folders": [str(folder) for folder in folders], "files": files}
        _show(found | placed | {"log": str(ended.log)})
    elif ended.success:
        why = "the draw was there already" if any(each.charges for each in made) else "this release charges nothing"
        click.echo(f"\nCharged {', '.join(losses)}." if losses else f"\nNothing was charged: {why}.")
        click.echo(f"{passed} checks passed.")
        if files:
            click.echo(f"Published in {', '.join(map(str, folders))}: {', '.join(files)}")
    else:
        for step in failed:
            click.echo(f"\n{step.asset}: {step.check} failed. {step.words}", err=True)
        click.echo(f"\n{refused or _without_words(ended)}", err=True)
        click.echo(
            f"\n{'Charged ' + ', '.join(losses) if losses else 'Nothing was charged'}. The log is {ended.log}", err=True
        )
    if not ended.success:
        asks = refusal and refusal.metadata and AUTHORIZED_BY_COMMAND in refusal.metadata
        sys.exit(UNAUTHORIZED if asks else REFUSED)


@main.command()
@click.argument("release")
@as_json
def preflight(release: str, as_json: bool) -> None:
    """What launching RELEASE would charge, and why. Draws nothing and charges nothing."""
    deployed = Deployed()
    components = deployed.releases(release)
    found = _preflights(deployed, release, components, quiet=as_json)
    if as_json:
        _show(found[0] if len(found) == 1 else found)
        return
    console = _console()
    for component, each in zip(components, found, strict=True):
        if len(found) > 1:
            console.print(f"\n{component.named}", style="bold", markup=False)
        for name, value in each.items():
            console.print(f"[bold]{name}[/bold]: ", end="")
            console.print(Markdown(value) if str(value).startswith("```") else str(value), markup=False)


def _charging(component: ReleaseComponent) -> ReleaseComponent:
    """A release, refused if it charges nothing, as a withheld swap does."""
    if not component.charges:
        raise click.UsageError(f"{component.named} charges nothing")
    return component


def _preflights(
    deployed: Deployed, release: str, components: Sequence[ReleaseComponent], *, quiet: bool
) -> list[dict[str, Any]]:
    """What launching a release would charge, and why, for each of the releases that are declared under its name."""
    for component in components:
        _charging(component)
    told, ended = _run(deployed, f"{PREFLIGHT}__{release.replace('/', '__')}", {}, quiet=quiet)
    stated_by = {step.asset: step.metadata for step in told if step.kind == "made"}
    found = [stated_by.get("/".join(component.key(PREFLIGHT).path)) for component in components]
    if not ended.success or None in found:
        said = next((step.words for step in told if step.kind in ("refused", "failed")), _without_words(ended))
        raise click.ClickException(f"{said}\nThe log is {ended.log}")
    return [{**each, DRAW_ID: in_one_piece(str(each[DRAW_ID]))} for each in found if each is not None]


def _without_words(ended: Ended) -> str:
    """What is known of a run in which no step failed."""
    if ended.run_id:
        return "The run failed."
    return "Nothing was run: the deployment cannot be loaded. stirred check names what is wrong."


def _run_all(
    deployed: Deployed, release: str, made: Sequence[ReleaseComponent], config: Mapping[str, Any], *, quiet: bool
) -> tuple[list[Step], Ended, Ended]:
    """Run a release's job, and if it has partitions, the jobs after it, until one fails; the last run and the first."""
    job = release.replace("/", "__")
    told, first = ended = _run(deployed, job, config, quiet=quiet)
    if not any(each.partitioned for each in made):
        return told, first, first
    with dg.DagsterInstance.get() as instance:
        states = sorted(instance.get_dynamic_partitions(f"{job}__{STATES}"))
    for after, partition in [*((STATES, state) for state in states), (PUBLICATION_OF, "")]:
        if not ended[1].success:
            break
        ended = _run(deployed, f"{after}__{job}", {}, quiet=quiet, partition=partition)
        told += ended[0]
    return told, ended[1], first


def _run(
    deployed: Deployed, job: str, config: Mapping[str, Any], *, quiet: bool, partition: str = ""
) -> tuple[list[Step], Ended]:
    """Run a job, and print a line for each asset that was made unless it is to be quiet."""
    with_instance()
    told: list[Step] = []
    console = _console(quiet=quiet)
    columns = (
        SpinnerColumn(),
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with dg.DagsterInstance.get() as instance, Progress(*columns, console=console, transient=True) as shown:
        bar = shown.add_task("loading", total=None)

        def tell(step: Step) -> None:
            told.append(step)
            if step.kind == "planned":
                shown.update(bar, total=sum(each.kind == "planned" for each in told))
            elif step.kind == "begun":
                shown.update(bar, description=escape(step.asset.replace("__", "/")))
            elif step.kind == "made":
                shown.advance(bar)
                name = f"{step.asset} {partition}".strip()
                console.print(f"  {name:60} {step.seconds:>7.1f} s", markup=False)
            elif step.kind == "failed":
                console.print(f"  {step.asset}: {step.check} failed", markup=False)

        log = deployed.home / "logs" / f"{'-'.join([job, *([partition] if partition else [])])}.log"
        ended = launch(instance, job, config, log, tell, partition)
    return told, ended


@main.command()
@click.argument("release")
@click.option("--by", default="", help="The variables to tabulate by, separated by commas.")
@click.option("--where", multiple=True, help="Categories that count: 'age in (00-14, 15-24)' or state=10; repeatable.")
@click.option("--per", help="Another release of hypercubes, whose counts or weights the sums are divided by: means.")
@as_json
def table(release: str, by: str, where: tuple[str, ...], per: str | None, as_json: bool) -> None:
    """Build a table from the published hypercubes of RELEASE, with standard errors and 90% intervals.

    The answer follows from the publication alone, so everyone gets the same one, and it costs nothing. Of several
    hypercubes, the one answers whose numbers have the least variance.
    """
    deployed = Deployed()
    variables = [each.strip() for each in by.split(",") if each.strip()]
    chosen: dict[str, list[str]] = {}
    for name, categories in map(_categories, where):
        if name in chosen:
            raise click.UsageError(f"--where: {name} is named twice; list all of its categories that count at once")
        chosen[name] = categories
    folders = [_hypercubes(deployed, each) for each in (release, *([per] if per else []))]
    names, found = TableBuilder.answered(folders, variables, chosen)
    if as_json:
        _show({"from": names, "rows": found.to_pylist()})
        return
    rows = [
        ["" if cell is None else f"{cell:,.2f}" if isinstance(cell, Decimal) else str(cell) for cell in row.values()]
        for row in found.to_pylist()
    ]
    _table(f"From {' per '.join(names)}", [name.replace("_", " ") for name in found.column_names], rows)


def _categories(text: str) -> tuple[str, list[str]]:
    """A variable and its categories, from `age in (a, b)`, `age in a, b` or `age=a`; a category may be in quotes."""
    parts = re.fullmatch(r"\s*(\S+?)\s*(?:=|\s+(?i:in)\b)\s*\(?(.*?)\)?\s*", text)
    if not parts:
        raise click.UsageError(f"--where: {text} is not of the form 'age in (a, b)' or age=a")
    found = next(csv.reader([parts[2]], skipinitialspace=True, quotechar="'" if "'" in parts[2] else '"'), [])
    return parts[1], [each.strip() for each in found]


def _hypercubes(deployed: Deployed, release: str) -> dict[str, Path]:
    """By name, the folders of those hypercubes of a release that are published, none of which was altered."""
    every = {each.named: deployed.published / each.named for each in deployed.releases(release)}
    folders = {name: folder for name, folder in every.items() if folder.exists()}
    if not folders:
        raise click.UsageError(f"{release} is not published; launch it first")
    for name, folder in folders.items():
        if problems := altered_files(folder, deployed.public_key):
            raise click.ClickException(f"{name}: the publication is not intact: {problems[0]}")
        signed = identity(folder)
        if (found := f"{signed.dataset}/{signed.release}") != name:
            raise click.ClickException(f"{name}: the publication in its folder is that of {found}")
    return folders


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--key", type=click.Path(path_type=Path), required=True, help="The public key (PEM), from a source that you trust."
)
def verify(folder: Path, key: Path) -> None:
    """Check the editions of a release in FOLDER with nothing but the public key."""
    known = read_public_key(key)
    intact, problems = verified(folder, known)
    if intact:
        click.echo(f"Intact, and signed with the key {fingerprint(known)}:")
    for edition, found in intact.items():
        click.echo(f"{edition}: {found}")
    for problem in problems:
        click.echo(f"{folder}: {problem}", err=True)
    if problems:
        sys.exit(REFUSED)


@main.command(name="audit")
@click.option(
    "--to", type=click.Path(path_type=Path), help="The folder of audit.html and audit.json; by default var/audit."
)
@as_json
def audit_command(to: Path | None, as_json: bool) -> None:
    """Ask everything again that can be proved, and write a report. Charges nothing and changes nothing."""
    deployed = Deployed()
    nodes = nodes_of(deployment(deployed.tree, deployed.home).resolve_all_asset_specs())
    methods = declared_methods(deployed.tree, deployed.published)
    record = audit(methods, nodes, deployed.ledger, deployed.published, now())
    _, page = write_report(record, to or deployed.home / "audit")
    if as_json:
        _show(record)
    else:
        click.echo("Claims: " + ", ".join(f"{verdict}: {count}" for verdict, count in record["counts"].items()))
        click.echo(f"The report is {page}")
    if record["verdict"] == Verdict.FAILS:
        sys.exit(REFUSED)


@main.command()
@click.option("--port", type=click.IntRange(0, 65535), default=8600, show_default=True, help="The port; 0 for any.")
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
@click.option(
    "--boundaries",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder of GeoJSON files, for maps.",
)
def explore(port: int, no_browser: bool, boundaries: Path | None) -> None:
    """Open a local page on budgets, plans, published tables and the audit. It reads only what is public.

    The page can be opened on this machine alone, until the command is interrupted.
    """
    with_instance()
    deployed = Deployed()
    datasets, releases = deployed.declared
    draws = [component.key(component.method.draw_stage) for component in releases.values() if component.charges]

    def replays() -> dict[str, str]:
        with dg.DagsterInstance.get() as instance:
            return last_replays(instance, draws)

    def told(address: str) -> None:
        click.echo(f"The explorer is at {address}; end it with Ctrl+C.")

    with suppress(KeyboardInterrupt):
        serve_explorer(
            deployed.home, deployed.published, datasets, replays, port, boundaries, told, browser=not no_browser
        )


@main.command(name="withdraw")
@click.argument("name")
@click.option("--by", required=True, help="Who withdraws it, for the ledger.")
def withdraw_command(name: str, by: str) -> None:
    """Withdraw NAME (dataset/release, or a dataset with all its releases) for good.

    Its tables, publications and ephemeral keys are removed. The ledger keeps what was charged and records the
    withdrawal. This cannot be undone.
    """
    deployed = Deployed()
    dataset, slash, release = name.partition("/")
    click.echo(withdrawn(deployed.ledger, deployed.published, dataset, release if slash else None, by))


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--with-keys", is_flag=True, help="Copy the keys too.")
def backup(folder: Path, with_keys: bool) -> None:
    """Write a back-up of databases, anchor and publications to FOLDER, which must be empty or new."""
    deployed = Deployed()
    back_up(deployed.ledger, deployed.published, folder, with_keys=with_keys)
    click.echo(f"{deployed.home} and {deployed.published}: backed up to {folder}")
    if deployed.ledger.on_server:
        click.echo("The ledger's entries are not in it: back up their server as well, with its own means.")


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
def restore(folder: Path) -> None:
    """Restore the back-up in FOLDER into a home without databases."""
    home, published = deployment_folders()
    restored(folder, home, published)
    click.echo(f"{home} and {published}: restored from {folder}")


@main.group()
def ledger() -> None:
    """Keep the ledger in a PostgreSQL server, which PGHOST, PGUSER, PGDATABASE and PGPASSFILE name."""


@ledger.command(name="migrate")
def migrate_command() -> None:
    """Make or update the ledger's tables on the server, as the role that owns them."""
    try:
        # Here, so that a deployment on files needs no driver for PostgreSQL.
        from resources.ledger_server import migrate
    except ImportError:
        raise click.ClickException("this needs psycopg: install Stirred with the extra cluster") from None
    applied = migrate()
    click.echo(f"Applied: {', '.join(applied)}." if applied else "Nothing to apply: the ledger's schema is up to date.")


@ledger.command(name="move")
def move_command() -> None:
    """Move the ledger from its file to the server. The file keeps its entries, and is never appended to again.

    Every entry is checked: chain, anchor, and that it is the same on the server. A server ledger that is not empty is
    refused. Set STIRRED_LEDGER=postgres first, for every process of the deployment.
    """
    count = Deployed().ledger.move_to_server()
    click.echo(
        f"The ledger is on the server, with {count} entries; {Zone.LEDGER.database} is not appended to any more."
    )


@main.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--begun", is_flag=True, help="List all runs that have begun and not ended, and nothing else.")
@click.option("--lost", is_flag=True, help="End them as failed, so that the queue of a cluster launches them again.")
def unblock(runs: tuple[str, ...], begun: bool, lost: bool) -> None:
    """End runs whose process was killed, and free their slots in the queue of writers; without RUN, list them.

    Dagster cannot tell a killed process from a slow one, so a person must name the run.
    """
    with_instance()
    with dg.DagsterInstance.get() as instance:
        storage = instance.event_log_storage
        if begun:
            for going in instance.get_runs(dg.RunsFilter(statuses=_BEGUN)):
                click.echo(going.run_id)
        elif not runs:
            holding = sorted(storage.get_concurrency_run_ids())
            heading = "Runs that hold a slot in the queue of writers:"
            click.echo("\n".join([heading, *holding] if holding else ["No run holds a slot in the queue of writers."]))
        for run_id in runs:
            run = instance.get_run_by_id(run_id)
            if run is None:
                raise click.ClickException(f"there is no run {run_id}")
            if not run.is_finished and lost:
                instance.report_run_failed(run, "The run's process is gone.")
            elif not run.is_finished:
                instance.report_run_canceled(run, message="The run's process was killed; the run was ended by hand.")
            storage.free_concurrency_slots_for_run(run_id)
            click.echo(f"{run_id}: ended, its slot is free")


_BEGUN = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]


if __name__ == "__main__":
    main()
