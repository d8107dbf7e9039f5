"""The command `stirred`: what people do with a deployment, thin over its jobs and functions.

Exit codes: 0 done; 1 refused, failed, or something does not hold; 2 wrong usage; 3 a charge needs an authorization.
"""

# A module here declares commands and prints results. It is imported when one of its commands is named, and imports
# Dagster, DuckDB and the project's layers only in the function of a command that runs, so that help and completion
# need none of them. The work is in `orchestration` and below, or in the modules `following`, `plan_report` and
# `drafting`, which no command's declaration needs.

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click

REFUSED, UNAUTHORIZED = 1, 3


class LazyCommand(NamedTuple):
    """Where a command is declared, as the name of a module here and of the command in it, and its help in one line."""

    module: str
    command: str
    help: str


class LazyGroup(click.Group):
    """A group that imports a command when it is named, and ends with one sentence where something is refused."""

    def __init__(self, *given: Any, lazy: Mapping[str, LazyCommand], **options: Any) -> None:
        super().__init__(*given, **options)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return None
        module, name, _ = self.lazy[cmd_name]
        command: click.Command = getattr(import_module(f"{__name__}.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        limit = formatter.width - 6 - max(map(len, self.lazy))
        commands = [click.Command(name, help=self.lazy[name].help) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(str(command.name), command.get_short_help_str(limit)) for command in commands])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            from orchestration.cli.failures import explanation

            if (sentence := explanation(error)) is None:
                raise
            raise click.ClickException(sentence) from None


COMMANDS = {
    "audit": LazyCommand("publications", "audit", "Ask everything again that can be proved, and write a report."),
    "backup": LazyCommand(
        "storage",
        "backup",
        "Write a back-up of databases, anchor and publications to FOLDER, which must be empty or new.",
    ),
    "budget": LazyCommand("status", "budget", "What was charged, by what, authorized by whom, and what is left."),
    "check": LazyCommand(
        "status", "check", "Check every declaration, and name each problem with file, line, field and rule."
    ),
    "completion": LazyCommand(
        "completion", "completion", "Print the script with which SHELL completes commands, options and releases."
    ),
    "explore": LazyCommand(
        "publications", "explore", "Open a local page on budgets, plans, published tables and the audit."
    ),
    "launch": LazyCommand("launch", "launch", "Make RELEASE (dataset/release), from its source to its publication."),
    "ledger": LazyCommand(
        "storage",
        "ledger",
        "Keep the ledger in a PostgreSQL server, which PGHOST, PGUSER, PGDATABASE and PGPASSFILE name.",
    ),
    "new": LazyCommand("new", "new", "Write a first declaration, for a person to read and change."),
    "plan": LazyCommand(
        "plan",
        "plan",
        "What RELEASE would charge, how exact it would be, what it would take, and what launching it will do.",
    ),
    "preflight": LazyCommand("launch", "preflight", "What launching RELEASE would charge, and why."),
    "restore": LazyCommand("storage", "restore", "Restore the back-up in FOLDER into a home without databases."),
    "status": LazyCommand(
        "status", "status", "Releases, their editions and last runs, and what each population has spent and has left."
    ),
    "table": LazyCommand(
        "publications",
        "table",
        "Build a table from the published hypercubes of RELEASE, with standard errors and 90% intervals.",
    ),
    "unblock": LazyCommand(
        "storage",
        "unblock",
        "End runs whose process was killed, and free their slots in the queue of writers; without RUN, list them.",
    ),
    "verify": LazyCommand(
        "publications", "verify", "Check the editions of a release in FOLDER with nothing but the public key."
    ),
    "withdraw": LazyCommand(
        "publications", "withdraw", "Withdraw NAME (dataset/release, or a dataset with all its releases) for good."
    ),
}

main = LazyGroup(
    "main", lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}, help=__doc__, callback=lambda: None
)
