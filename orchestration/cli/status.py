"""The commands on the state of the whole deployment: `status`, `budget` and `check`."""

import sys
from dataclasses import asdict
from typing import Any

import click

from orchestration.cli.printing import REFUSED, as_json, echo, print_json, print_table


@click.command()
@as_json
def status(as_json: bool) -> None:
    """Show all releases, and the budget of each population.

    Releases have their draws, editions and last runs. After them are retabulations and everything else without a
    charge, and then the spent and remaining budgets."""
    from orchestration.deployment import Deployment
    from orchestration.launch import open_instance

    deployment = Deployment()
    reading = deployment.ledger.read()
    with open_instance() as instance:
        releases, budgets = deployment.statuses(instance, reading.entries), deployment.budgets(reading)
        others = deployment.other_statuses(instance, reading.entries)
    if as_json:
        print_json({"releases": releases, "others": others, "populations": budgets})
        return
    rows = []
    for release in releases:
        charges = ", ".join(release["charges"]) or "nothing"
        published, last_run = _write_state(release)
        rows.append([release["release"], str(release["draws"]), published, charges, last_run])
    print_table("Releases", ["release", "draws", "published", "charged", "last run (UTC)"], rows)
    for release in releases:
        ended = {"failure": "failed", "canceled": "was canceled"}.get(release["last_run"])
        if ended and _is_latest_published(release):
            words = f"its last run {ended}, but its last charge is drawn and published, as edition {release['edition']}"
            echo(f"{release['release']}: {words}")
    echo()
    if others:
        rows = [[other["name"], other["kind"], *_write_state(other)] for other in others]
        print_table("Made without a charge", ["name", "what", "published", "last run (UTC)"], rows)
        echo()
    _print_budgets(budgets)


@click.command()
@as_json
def budget(as_json: bool) -> None:
    """Show every charge and withdrawal, and the rest of each cap. Charges have their release and authorization."""
    from assets.ledger.view import list_entry_records, write_minute
    from assets.release.signature import find_set_back
    from assets.texts import show_line
    from orchestration.deployment import Deployment

    deployment = Deployment()
    editions = deployment.list_signed()
    reading = deployment.ledger.read()
    problems = reading.problems or find_set_back(editions, reading.entries)
    budgets = deployment.budgets(reading)
    entries = list_entry_records(reading.entries)
    if as_json:
        print_json({"populations": budgets, "ledger": entries, "problems": list(problems)})
    else:
        _print_budgets(budgets)
        echo()
        keys = ("entry", "kind", "release", "charged")
        print_table(
            "Ledger" + (", not intact" if problems else ", intact"),
            ["entry", "what", "release", "charged", "authorized or withdrawn by", "when (UTC)", "draw"],
            [
                [
                    *(str(entry[key]) for key in keys),
                    entry["authorized_by"] or entry["withdrawn_by"],
                    write_minute(entry["recorded_at"]),
                    entry["draw_id"][:12],
                ]
                for entry in entries
            ],
        )
        for entry in entries:
            if entry["different_people"]:
                echo(f"Entry {entry['entry']}: different people because {show_line(entry['different_people'])}")
            if entry["public_because"]:
                echo(f"Entry {entry['entry']}: public because {show_line(entry['public_because'])}")
    for problem in problems:
        echo(problem, err=True)
    if problems:
        sys.exit(REFUSED)


def _write_state(status: dict[str, Any]) -> tuple[str, str]:
    """The published edition, if any, and the last run."""
    from assets.ledger.view import write_minute

    unpublished = "withdrawn" if status.get("withdrawn") else "no"
    published = {True: f"edition {status['edition']}", False: unpublished, None: "unknown"}[status["published"]]
    run, at = status["last_run"], status["last_run_at"]
    last_run = f"{run.replace('_', ' ')}, {write_minute(at)}" if run else "never"
    return published, last_run


def _is_latest_published(release: dict[str, Any]) -> bool:
    """Whether every charge is drawn and the last draw is published, which also holds after a run that was killed at its
    end."""
    draws = release["draws"]
    return release["published"] and len(release["charges"]) == draws == int(release["edition"].partition(".")[0])


def _print_budgets(budgets: list[dict[str, Any]]) -> None:
    keys = {"population": "population", "charged": "charged", "cap": "cap", "left": "left", "a new charge": "charging"}
    print_table("Populations", list(keys), [[row[key] for key in keys.values()] for row in budgets])
    for row in budgets:
        if row["beside"]:
            echo(f"{row['population']}: {row['beside']}")
        if row["contributor"]:
            echo(
                f"{row['population']}: for one contributor, whose answers are in several records: {row['contributor']}"
            )


@click.command()
@as_json
def check(as_json: bool) -> None:
    """Check every declaration. Each problem is named with file, line, field and rule."""
    from orchestration.checking import declaration_problems
    from orchestration.declarations import component_tree
    from resources.project import deployment_folders

    tree = component_tree()
    problems = declaration_problems(tree, deployment_folders()[1])
    if as_json:
        print_json([asdict(problem) for problem in problems])
    for problem in problems:
        echo(f"{tree.defs_module_path}/{problem}" if problem.file else problem, err=True)
    if not all(problem.warning for problem in problems):
        sys.exit(REFUSED)
    if not as_json:
        echo("All declarations can be loaded.")
