"""Markdown that the generated parts of pages share."""

from collections.abc import Iterable, Sequence


def cell(text: str) -> str:
    """A text as a cell of a table: on one line, and without what would end the cell or begin an HTML tag."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}", *lines, ""])


def section(level: int, title: str, text: str) -> str:
    """A heading with the paragraph below it."""
    return f"\n{'#' * level} {title}\n\n{text}\n"
