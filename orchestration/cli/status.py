"""The commands on the state of the whole deployment: `status`, `budget` and `check`."""

import sys
from dataclasses import asdict
from typing import Any

import click

from orchestration.cli.printing import REFUSED, as_json, print_json, print_table


@click.command()
@as_json
def status(as_json: bool) -> None:
    """Releases, their editions and last runs, and what each population has spent and has left."""
    from orchestration.deployment import Deployment
    from orchestration.launch import open_instance

    deployment = Deployment()
    with open_instance() as instance:
        releases, budgets = deployment.statuses(instance), deployment.budgets(deployment.ledger.read())
    if as_json:
        print_json({"releases": releases, "populations": budgets})
        return
    print_table(
        "Releases",
        ["release", "editions", "published", "charged", "last run"],
        [
            [
                release["release"],
                str(release["editions"]),
                {True: "yes", False: "no", None: "unknown"}[release["published"]],
                ", ".join(release["charges"]) or "nothing",
                f"{release['last_run']}, {release['last_run_at'][:16].replace('T', ' ')}"
                if release["last_run"]
                else "never",
            ]
            for release in releases
        ],
    )
    click.echo()
    _print_budgets(budgets)


@click.command()
@as_json
def budget(as_json: bool) -> None:
    """What was charged, by what, authorized by whom, and what is left."""
    from assets.ledger.view import list_entry_records
    from orchestration.deployment import Deployment

    deployment = Deployment()
    reading = deployment.ledger.read()
    problems, budgets = reading.problems, deployment.budgets(reading)
    entries = list_entry_records(reading.entries)
    if as_json:
        print_json({"populations": budgets, "ledger": entries, "problems": list(problems)})
    else:
        _print_budgets(budgets)
        click.echo()
        print_table(
            "Ledger" + (", not intact" if problems else ", intact"),
            ["entry", "what", "release", "charged", "authorized by", "when (UTC)", "draw"],
            [
                [
                    str(entry["entry"]), str(entry["kind"]), str(entry["release"]), str(entry["charged"]),
                    str(entry["authorized_by"]), str(entry["recorded_at"])[:16].replace("T", " "),
                    str(entry["draw_id"])[:12],
                ]
                for entry in entries
            ],
        )  # fmt: skip
    for problem in problems:
        click.echo(problem, err=True)
    if problems:
        sys.exit(REFUSED)


def _print_budgets(budgets: list[dict[str, Any]]) -> None:
    print_table(
        "Populations",
        ["population", "charged", "cap", "left", "a new charge"],
        [[row["population"], row["charged"], row["cap"], row["left"], row["charging"]] for row in budgets],
    )
    for row in budgets:
        if row["beside"]:
            click.echo(f"{row['population']}: {row['beside']}")


@click.command()
@as_json
def check(as_json: bool) -> None:
    """Check every declaration, and name each problem with file, line, field and rule."""
    from orchestration.checking import declaration_problems
    from orchestration.deployment import component_tree
    from orchestration.environment import deployment_folders

    tree = component_tree()
    problems = declaration_problems(tree, deployment_folders()[1])
    if as_json:
        print_json([asdict(problem) for problem in problems])
    for problem in problems:
        click.echo(f"{tree.defs_module_path}/{problem}" if problem.file else problem, err=True)
    if problems:
        sys.exit(REFUSED)
    if not as_json:
        click.echo("All declarations can be loaded.")
