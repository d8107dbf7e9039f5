"""The output of results, as tables for people and as JSON for scripts, and the exit codes of refusals."""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

REFUSED, UNAUTHORIZED = 1, 3

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")


def echo(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text, without terminal codes and other invisible characters."""
    from assets.texts import show_lines

    click.echo(show_lines(str(text)), err=err, nl=nl)


def print_json(value: Any) -> None:
    """Print a value, with types unknown to JSON as text, and invisible characters by their numbers."""
    from assets.texts import find_unseen

    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    while unseen := find_unseen(text, "\n"):
        text = text.replace(unseen, json.dumps(unseen)[1:-1])
    click.echo(text)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Iterable[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    from assets.texts import show_line

    table = Table(box=None, pad_edge=False)
    listed = [list(row) for row in rows]
    for position, column in enumerate(columns):
        numbers = all(re.fullmatch(r"-?[\d,]+(\.\d+)?", row[position]) for row in listed)
        table.add_column(
            Text(show_line(column)),
            justify="right" if numbers else "left",
            overflow="fold",
            no_wrap=position in (0, 2) and len(columns) > 5,
        )
    for row in listed:
        # Names are shown literally, neither as markup nor as terminal codes.
        table.add_row(*(Text(show_line(cell)) for cell in row))
    console = make_console()
    # A table's own title is not wider than the table.
    console.print(Text(show_line(title)), style="bold")
    console.print(table, crop=False)


def make_console(*, quiet: bool = False) -> "Console":
    """The terminal; piped or redirected output is as wide as it needs to be."""
    from rich.console import Console

    return Console(highlight=False, quiet=quiet, width=None if sys.stdout.isatty() else 160)
