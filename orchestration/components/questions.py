"""Questions to published hypercubes, as people write them on the command line."""

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from assets.table_builder.asking import QuestionError, least_variance, read_publication

__all__ = ["QuestionError", "answered", "condition"]


def answered(
    folders: Sequence[Mapping[str, Path]], by: Sequence[str], where: Mapping[str, Sequence[str | None]]
) -> tuple[list[str], pa.Table]:
    """The names of the hypercubes that answer, and their answer: sums, or means of one by the other.

    Args:
        folders: by name, the folders of the hypercubes that may answer; a second mapping for the denominators of means.
        by: the variables to tabulate by.
        where: by variable, the categories that count.

    Raises:
        QuestionError: if none can answer.
    """
    answering = []
    for each in folders:
        published = {name: read_publication(folder) for name, folder in each.items()}
        name = least_variance(published, by, where)
        answering.append((name, published[name]))
    (_, first), *rest = answering
    found = first.means(rest[0][1], by, where) if rest else first.ask(by, where)
    return [name for name, _ in answering], found


def condition(text: str) -> tuple[str, list[str | None]]:
    """A variable and its categories, from `age in (a, b)`, `age in a, b` or `age=a`; a category may be in quotes.

    Raises:
        QuestionError: if the text is of no such form.
    """
    parts = re.fullmatch(r"\s*(\S+?)\s*(?:=|\s+in\b)\s*\(?(.*?)\)?\s*", text)
    if not parts:
        raise QuestionError(f"--where: {text} is not of the form 'age in (a, b)' or age=a")
    found = next(csv.reader([parts[2]], skipinitialspace=True, quotechar="'" if "'" in parts[2] else '"'), [])
    return parts[1], [None if each.strip() == "null" else each.strip() for each in found]
