"""The command `stirred`, with which people work on a deployment.

Exit codes: 0 done; 1 refused, failed, or a claim does not hold; 2 wrong usage; 3 a charge needs an authorization.
"""

# The modules here declare commands and print results. They import Dagster, DuckDB and the project's layers only in the
# function of a command that runs, so that help and completion need none of them. The work is in `orchestration` and
# below, or in the modules `runs` and `plan_report`, which no command's declaration needs.

import gc
import io
import os
import sys
from pathlib import Path
from typing import Any

import click

from orchestration.cli.launch import launch, preflight
from orchestration.cli.new import new
from orchestration.cli.plan import plan
from orchestration.cli.printing import REFUSED, UNAUTHORIZED
from orchestration.cli.publications import audit, estimate, explore, export, regenerate, table, verify, withdraw
from orchestration.cli.releases import completion
from orchestration.cli.status import budget, check, status
from orchestration.cli.storage import backup, ledger, restore, unblock
from resources.machine import skip_last_collection

skip_last_collection()
# Garbage collection also stays rare while Python loads, or makes a small release: half a million objects are 50 MB.
gc.set_threshold(500_000)

__all__ = ["REFUSED", "UNAUTHORIZED", "main"]


class PlainGroup(click.Group):
    """A group that ends with one sentence if a command refuses."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Print in UTF-8 in every locale, as Python 3.15 does, and discard output without a stream. Bytes of a path
        that are not text are still printed as before."""
        for name in ("stdout", "stderr"):
            match getattr(sys, name):
                case None:
                    setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
                case io.TextIOWrapper() as stream:
                    stream.reconfigure(encoding="utf-8", errors=stream.errors)
        return super().main(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        from assets.texts import show_lines

        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort, BrokenPipeError):
            # click ends quietly if the reader of its output, such as `head`, has read enough.
            raise
        except click.ClickException as error:
            error.message = show_lines(error.message)  # type: ignore[misc]
            raise
        except Exception as error:
            if (sentence := explain_error(error)) is None:
                from resources.faults import conceal

                raise conceal(error) from None
            raise click.ClickException(show_lines(sentence)) from None


_UNWRITABLE = {
    "attempt to write a readonly database",
    "unable to open database file",
    "database or disk is full",
    "disk I/O error",
}
"""SQLite's messages, without values, about files that it cannot write."""


def explain_error(error: Exception) -> str | None:
    """The message of an expected error, with the mistake and the remedy; None for a fault in the code."""
    import dagster as dg
    from pydantic import ValidationError
    from sqlalchemy.exc import OperationalError
    from yaml import YAMLError

    from assets.publication.withdrawal import WithdrawalError
    from assets.release.release import DeclarationError
    from assets.release.signature import VerificationError
    from mechanisms.refusal import RefusedError
    from orchestration.backup import BackupError
    from orchestration.checking import explain_cause, find_cause
    from orchestration.explorer.launcher import ExplorerError
    from resources.storage import TransientError

    match error:
        case RefusedError() | BackupError() | ExplorerError() | VerificationError() | WithdrawalError():
            return str(error)
        case TransientError():
            return f"{error}. Try again later"
        case dg.Failure():
            return str(error.description)
        case FileExistsError() if error.errno is None:
            return str(error)
        case OSError():
            return f"{error.filename or 'writing'}: {error.strerror or type(error).__name__}"
        case OperationalError() if str(error.orig) in _UNWRITABLE:
            return f"Dagster's history: {error.orig}. Its folder must be writable, on a disk with free space"
    # Dagster wraps errors of declarations in errors of its own.
    cause = find_cause(error)
    if isinstance(cause, DeclarationError | ValidationError):
        return f"{explain_cause(cause)}\nstirred check names every problem with file and line."
    if isinstance(cause, YAMLError):
        # It may be a settings file with a password, and the message of the parser quotes it.
        mark = getattr(cause, "problem_mark", None)
        return f"{f'{mark.name}, line {mark.line + 1}' if mark else 'a file'}: it cannot be read as YAML"
    return None


main = PlainGroup("main", context_settings={"help_option_names": ["-h", "--help"]}, help=__doc__, callback=lambda: None)
for command in (
    *(
        audit,
        backup,
        budget,
        check,
        completion,
        estimate,
        explore,
        export,
        launch,
        ledger,
        new,
        plan,
        preflight,
        regenerate,
        restore,
        status,
        table,
    ),
    *(unblock, verify, withdraw),
):
    main.add_command(command)
