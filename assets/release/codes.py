"""Codes of places: codes joined from columns, and files of codes that users give beside a dataset, with the blocks of a
district or the place of every block."""

import csv
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from assets.release.dataset import DatasetDeclaration
from assets.release.dialect import SEPARATORS
from assets.texts import find_unseen
from mechanisms.refusal import RefusedError
from resources.regular import read_regular
from resources.statements import Fragment, Table
from resources.warehouse import Session

HEADERS = ("geoid", "code", "block", "blockid", "place", "tabblk", "tract", "county", "state", "district")
"""The names of columns of codes in files; digits may follow, as in `GEOID20`."""

LARGEST = 2**28
"""The size of the largest file that is read, in bytes. The blocks of the nation and their places take 200 MB."""

_FORMS = {1: "one code", 2: "two codes, of a block and of its place"}
_OTHER_SEPARATORS = {";": SEPARATORS[";"], "\t": SEPARATORS["tab"], "|": SEPARATORS["|"]}


class CodesError(RefusedError, ValueError):
    """A file that is no list of codes, or columns that give no codes. The message has the file or the columns, the rule
    and the count, and no code."""


def require_own_codes(
    session: Session, units: Fragment | Table, columns: Sequence[str], dataset: DatasetDeclaration
) -> None:
    """Refuse columns whose joined values give several places the same code, as 1 and 11 do with 11 and 1. Each of the
    layout's own columns has codes of equal length, so at least two recoded columns must be involved. Raises
    CodesError."""
    if len(recoded := dataset.recodes(columns)) > 1:
        alike, codes = session.row("topdown/joined_alike", units=units, columns=list(columns))
        if alike:
            raise CodesError(
                f"{alike:,} of {codes:,} codes are joined from different values of {', '.join(recoded)}; give all "
                "categories of each of these columns names of equal length"
            )


def read_codes(path: Path, width: int) -> list[list[str]]:
    """The lines of a CSV file in UTF-8 with `width` codes (1 or 2) each, with or without a header. Codes stay as
    written, so leading zeros count. Raises CodesError.

    A first line is a header if it begins with one of `HEADERS`. If it could be another header, the file is refused: a
    code taken for a header would be left out silently.
    """
    try:
        lines = StringIO(read_regular(path, LARGEST).decode("utf-8-sig"), newline="")
        rows = [[cell.strip() for cell in row] for row in csv.reader(lines, strict=True) if any(map(str.strip, row))]
    except OSError as error:
        raise CodesError(f"{path.name} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise CodesError(f"{path.name} is not in UTF-8") from None
    except csv.Error:
        raise CodesError(
            f"{path.name} is not CSV: a quote is never closed, text follows it, or a line has more than "
            f"{csv.field_size_limit():,} letters"
        ) from None
    for separator, words in _OTHER_SEPARATORS.items():
        if rows and all(separator in ",".join(row) for row in rows):
            raise CodesError(f"{path.name} is separated by {words}; write commas")
    if not rows:
        raise CodesError(f"{path.name} is empty")
    if rows[0][0].casefold().rstrip("0123456789_") in HEADERS:
        del rows[0]
    elif _resembles_header(rows[0][0], [row[0] for row in rows[1:]]):
        raise CodesError(
            f"{path.name}: its first line could be a header or a code; begin the file with a header, such as "
            f"{'geoid' if width == 1 else 'block,place'}"
        )
    if not rows:
        raise CodesError(f"{path.name} has a header and no code below it")
    if wrong := sum(len(row) != width or not all(row) or any(map(find_unseen, row)) for row in rows):
        raise CodesError(
            f"{path.name}: {wrong:,} of {len(rows):,} lines do not have {_FORMS[width]}, in letters that can be seen"
        )
    return rows


def _resembles_header(first: str, others: list[str]) -> bool:
    """Whether a text has no digit, or is the only one with a letter and has a length of its own."""
    if not any(map(str.isdigit, first)):
        return True
    if not others or len(first) in map(len, others):
        return False
    return any(map(str.isalpha, first)) and not any(map(str.isalpha, "".join(others)))
