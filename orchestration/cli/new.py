"""The commands `new dataset` and `new release`: write a proposed declaration to its place, and check it there."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestration.cli.printing import REFUSED, echo, print_table
from orchestration.cli.releases import DATASET

if TYPE_CHECKING:
    from orchestration.checking import Problem
    from orchestration.deployment import Deployment
    from orchestration.proposal import Proposal

_EXAMPLES = {
    "phsafe": ("PHSafe", "s_dhc"),
    "topdown": ("TopDown", "redistricting"),
    "dhc": ("DHC", "dhc"),
    "reestimation": ("Reestimation", "anew"),
    "safetab-p": ("SafeTabP", "persons"),
    "safetab-h": ("SafeTabH", "households"),
}
"""By kind: the component whose example is proposed, and the usual name of its release."""

_USUAL_NAMES = {"swapping": "swapped", "tables": "tables", "coarsening": "coarsened", "suppression": "suppressed"}
"""The usual names of releases whose declarations follow from the dataset's columns, by kind."""


@click.group()
def new() -> None:
    """Write a first declaration, for a person to read and change."""


@new.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True))
@click.option("--name", help="The dataset's name; by default, the file's.")
@click.option("--persons", type=click.Path(path_type=Path, exists=True), help="The file of persons.")
@click.option("--record-name", default="unit", show_default=True, help="The name of a record of FILE.")
@click.option("--cap", default="10", show_default=True, help="The cap: ε, or {rho: …}.")
@click.option("--key", help="The column of FILE that identifies a record, if its name does not show it.")
@click.option("--unit", help="The column of persons that identifies their unit, if its name differs from the key's.")
@click.option(
    "--csv",
    "given",
    multiple=True,
    metavar="FIELD=VALUE",
    help="The format of CSV files, such as encoding=windows-1252, if Stirred cannot recognize it; may be repeated.",
)
def dataset(
    file: Path,
    name: str | None,
    persons: Path | None,
    record_name: str,
    cap: str,
    key: str | None,
    unit: str | None,
    given: tuple[str, ...],
) -> None:
    """Propose the declaration of a dataset from FILE.

    FILE has one record for each unit: a file of CSV, Parquet, Stata, SPSS or SAS, or an IPUMS extract, given by its
    codebook (.xml).

    Separator, encoding, quotes, decimal mark, dates and compression (.gz, .zst) of a CSV file are recognized.
    """
    from dataclasses import replace

    from assets.cef.extracts import HOUSEHOLD
    from assets.cef.profile import profile
    from assets.release.dialect import parse_dialect
    from orchestration.deployment import Deployment
    from orchestration.extract import find_files, select_columns
    from orchestration.proposal import propose_dataset, propose_name, propose_title
    from resources.project import PROJECT

    def declare(path: Path) -> Path:
        """A path below the project's folder is declared relative to that folder."""
        absolute = path.absolute()
        return absolute.relative_to(PROJECT) if absolute.is_relative_to(PROJECT) else absolute

    deployment = Deployment()
    stem = file.name.split(".")[0]
    name, title = (name, propose_title(name)) if name else (propose_name(stem), propose_title(stem))
    files = [found for path in (file, persons) if path for found in find_files(path)]
    if len({found.reader for found in files}) > 1 or len(files) > 2:
        raise click.UsageError(
            "a dataset is read from one file of units and at most one of persons, of the same format"
        )
    target = _name_new_file(deployment, name, "dataset")
    csv = dict(each.partition("=")[::2] for each in given)
    try:
        parse_dialect(csv)
    except ValueError as error:
        raise click.UsageError(f"--csv {error}") from None
    profiles = []
    with deployment.ledger.warehouse.session() as session:
        for found in files:
            contents = profile(session, found.reader, found.path, found.described, found.variables, given=csv)
            fields = {"codebook": str(declare(found.codebook))} if found.codebook else {}
            fields |= {"record_type": found.record_type} if found.record_type else {}
            profiles.append((declare(found.path), select_columns(found, replace(contents, fields=fields))))
    if files[0].record_type and len(files) > 1:
        key, record_name = key or HOUSEHOLD, "household" if record_name == "unit" else record_name
    proposal = propose_dataset(
        name, files[0].reader, *profiles, record_name=record_name, cap=cap, key=key, unit=unit, title=title
    )
    print_table("Proposed", ["table", "column", "type", "role", "domain"], proposal.columns)
    _write_draft(deployment, target, proposal, f"stirred new release {name}")


@new.command()
@click.argument("dataset", type=DATASET)
@click.option("--name", help="The release's name; by default, its kind.")
@click.option(
    "--kind",
    type=click.Choice([*_USUAL_NAMES, *_EXAMPLES]),
    help="The mechanism; by default swapping, and required for a census in the production layout.",
)
def release(dataset: str, name: str | None, kind: str | None) -> None:
    """Propose the declaration of a release from DATASET."""
    from assets.cef.census import CensusDeclaration, find_place_names
    from orchestration import components
    from orchestration.components.release import COMPONENTS
    from orchestration.components.scaffolding import fill_in_example
    from orchestration.deployment import Deployment
    from orchestration.proposal import (
        Proposal,
        propose_coarsening,
        propose_suppression,
        propose_swapping,
        propose_tables,
    )

    deployment = Deployment()
    datasets = {declaration.name: declaration for declaration in deployment.declared[0]}
    if dataset not in datasets:
        raise click.UsageError(f"there is no dataset {dataset}; declared are {', '.join(sorted(datasets)) or 'none'}")
    census = isinstance(datasets[dataset], CensusDeclaration)
    if kind is None and census:
        raise click.UsageError(f"{dataset} is a census in the production layout: name the mechanism with --kind")
    if kind in ("phsafe", "topdown", "dhc", "reestimation") and not census:
        raise click.UsageError(f"--kind {kind} needs a census in the production layout, and {dataset} is none")
    kind = kind or "swapping"
    component, usual = _EXAMPLES.get(kind) or ("", _USUAL_NAMES[kind])
    name = name or usual
    target = _name_new_file(deployment, dataset, name)
    if component:
        places = datasets[dataset].units.stored.get("TABBLKST")
        codes = places.codes if places else ()
        named = [code for code in codes if code in find_place_names(datasets[dataset])]
        filled: dict[str, Any] = {"states": named or codes} if codes else {}
        for each in deployment.declared[1].values():
            if each.declaration.dataset != dataset:
                continue
            if isinstance(each, components.SafeTabP):
                filled["persons"] = each.declaration.name
            if isinstance(each, components.TopDown):
                filled["redistricting"] = each.declaration.name
        proposal = Proposal(fill_in_example(f"{COMPONENTS}.{component}", dataset, name, **filled))
    else:
        propose = {
            "swapping": propose_swapping,
            "tables": propose_tables,
            "coarsening": propose_coarsening,
            "suppression": propose_suppression,
        }[kind]
        proposal = propose(datasets[dataset], name)
    command = "launch" if kind == "reestimation" else "preflight"
    _write_draft(deployment, target, proposal, f"stirred {command} {dataset}/{name}")


def _name_new_file(deployment: "Deployment", *folders: str) -> Path:
    """The file of a new declaration. Raises `click.UsageError` if it already exists."""
    from pydantic import TypeAdapter, ValidationError

    from assets.release.names import Name
    from resources.project import DECLARATIONS

    for name in folders:
        try:
            TypeAdapter[str](Name).validate_python(name)
        except ValidationError:
            raise click.UsageError(
                f"{name} is not a possible name: lowercase letters, digits and single underscores; give --name"
            ) from None
    target = DECLARATIONS.joinpath(*folders, "defs.yaml")
    if target.exists():
        raise click.UsageError(f"{target} already exists; change it, or give another --name")
    return target


def _write_draft(deployment: "Deployment", target: Path, proposal: "Proposal", next_command: str) -> None:
    """Write a proposal to its place. If it is refused there, remove it again."""
    from orchestration.checking import declaration_problems
    from orchestration.declarations import component_tree
    from resources.project import DECLARATIONS

    place = target.relative_to(DECLARATIONS).as_posix()
    made = [parent for parent in target.parents if not parent.exists()]
    refused: list[Problem] | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as file:
            file.write(proposal.text)
        problems = declaration_problems(component_tree(), deployment.published)
        refused = [problem for problem in problems if problem.file == place and not problem.warning]
    finally:
        if refused != []:
            target.unlink(missing_ok=True)
            for parent in made:
                parent.rmdir()
    if refused:
        for problem in refused:
            echo(problem.text, err=True)
        echo("Nothing was written.", err=True)
        sys.exit(REFUSED)
    echo(f"\nWrote {target}")
    for warning in proposal.warnings:
        echo(f"Look at this: {warning}")
    for problem in problems:
        if problem.file == place or not problem.warning:
            echo(f"{DECLARATIONS}/{problem}" if problem.file else problem, err=True)
    echo(f"Read and correct it; `stirred check` names every problem. Then: {next_command}")
