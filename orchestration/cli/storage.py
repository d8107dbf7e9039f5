"""The commands on stored state: `backup`, `restore`, `ledger` and `unblock`."""

from pathlib import Path

import click

from orchestration.cli.printing import echo


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--with-keys", is_flag=True, help="Copy the keys too.")
def backup(folder: Path, with_keys: bool) -> None:
    """Write a backup of databases, anchor and publications. FOLDER must be empty or new."""
    from orchestration.backup import back_up
    from orchestration.deployment import Deployment

    deployment = Deployment()
    back_up(deployment.ledger, deployment.published, folder, with_keys=with_keys)
    echo(f"{deployment.home} and {deployment.published}: backed up to {folder}")
    if deployment.ledger.on_server:
        echo("The ledger's entries are not in it: back up their server as well, with its own tools.")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
def restore(folder: Path) -> None:
    """Restore the backup in FOLDER. The deployment must have no databases."""
    from orchestration import backup
    from resources.project import deployment_folders

    home, published = deployment_folders()
    withdrawn = backup.restore(folder, home, published)
    echo(f"{home} and {published}: restored from {folder}")
    if withdrawn:
        echo(
            f"Withdrawn, and therefore not published again: {', '.join(withdrawn)}. The databases may have their "
            "tables: withdraw each that was not launched since."
        )


@click.group()
def ledger() -> None:
    """Keep the ledger in a PostgreSQL server. PGHOST, PGUSER, PGDATABASE and PGPASSFILE name it."""


@ledger.command(name="migrate")
def migrate_ledger() -> None:
    """Make or update the ledger's tables on the server. Run this as the role that owns them."""
    try:
        from resources.ledger_server import migrate
    except ImportError:
        raise click.ClickException("this needs psycopg: install Stirred with the extra cluster") from None
    applied = migrate()
    echo(f"Applied: {', '.join(applied)}." if applied else "Nothing to apply: the ledger's schema is up to date.")


@ledger.command(name="move")
def move_ledger() -> None:
    """Move the ledger from its file to the server. The file keeps its entries, and is never appended to again.

    The command checks the chain, the anchor and every copied entry, and refuses a server that has other entries.
    Repeat a move that was interrupted. Set STIRRED_LEDGER=postgres first, for every process of the deployment.
    """
    from orchestration.deployment import Deployment
    from resources.statements import Zone

    count = Deployment().ledger.move_to_server()
    echo(f"The ledger is on the server, with {count} entries; {Zone.LEDGER.database} is not appended to any more.")


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--begun", is_flag=True, help="Without RUN: list all runs that have begun and not ended instead.")
@click.option(
    "--lost", is_flag=True, help="End the named runs as failed, so that a cluster's queue launches them again."
)
def unblock(runs: tuple[str, ...], begun: bool, lost: bool) -> None:
    """End runs whose process was killed, and free their slots. Runs that write need a slot. Without RUN, list the runs
    that hold one.

    On one machine, the next run ends those whose process is gone. A run that hangs, or that ran on another machine,
    cannot be distinguished from a slow one, so a person must name it.
    """
    if runs and begun:
        raise click.UsageError("--begun lists runs, and names none")
    if lost and not runs:
        raise click.UsageError("--lost: name the runs that are lost")
    from dagster import DagsterRunStatus, RunsFilter

    from orchestration.launch import open_instance

    with open_instance() as instance:
        storage = instance.event_log_storage
        if begun:
            statuses = [DagsterRunStatus.STARTING, DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]
            for run in instance.get_runs(RunsFilter(statuses=statuses)):
                echo(run.run_id)
        elif not runs:
            holders = sorted(storage.get_concurrency_run_ids())
            heading = "Runs that hold a slot in the queue of writers:"
            echo("\n".join([heading, *holders] if holders else ["No run holds a slot in the queue of writers."]))
        for run_id in runs:
            named = instance.get_run_by_id(run_id)
            if named is None:
                raise click.ClickException(f"there is no run {run_id}")
            if not named.is_finished and lost:
                instance.report_run_failed(named, "The run's process is gone.")
            elif not named.is_finished:
                instance.report_run_canceled(named, message="The run's process was killed; the run was ended by hand.")
            storage.free_concurrency_slots_for_run(run_id)
            echo(f"{run_id}: ended, its slot is free")
