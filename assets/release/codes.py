"""Files of codes that people give beside a dataset: the blocks of a district, or the place of every block."""

import csv
from pathlib import Path

from assets.release.dialect import SEPARATORS
from assets.texts import find_unseen
from mechanisms.refusal import RefusedError

_FORMS = {1: "one code", 2: "two codes, of a block and of its place"}
_OTHER_SEPARATORS = {";": SEPARATORS[";"], "\t": SEPARATORS["tab"], "|": SEPARATORS["|"]}


class CodesError(RefusedError, ValueError):
    """A file that is no list of codes. The message has the file, the rule and the count, and no code."""


def read_codes(path: Path, width: int) -> list[list[str]]:
    """The lines of a CSV file in UTF-8 with so many codes each, 1 or 2, below a header or without one; as they are
    written, so that zeros at the beginning count. Raises CodesError.

    A first line is a header if its first text has no digit, or if it alone has a letter and no other is as long: a code
    that was taken for a header would silently be left out.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            rows = [
                [cell.strip() for cell in row] for row in csv.reader(lines, strict=True) if any(map(str.strip, row))
            ]
    except OSError:
        raise CodesError(f"{path.name} cannot be read") from None
    except UnicodeDecodeError:
        raise CodesError(f"{path.name} is not in UTF-8") from None
    except csv.Error:
        raise CodesError(f"{path.name} is not CSV: a quote is never closed, or text follows it") from None
    for separator, words in _OTHER_SEPARATORS.items():
        if rows and all(separator in ",".join(row) for row in rows):
            raise CodesError(f"{path.name} is separated by {words}; write commas")
    if not rows:
        raise CodesError(f"{path.name} is empty")
    if _is_header(rows[0][0], [row[0] for row in rows[1:]]):
        del rows[0]
    if not rows:
        raise CodesError(f"{path.name} has a header and no code below it")
    if wrong := sum(len(row) != width or not all(row) or any(map(find_unseen, row)) for row in rows):
        raise CodesError(
            f"{path.name}: {wrong:,} of {len(rows):,} lines do not have {_FORMS[width]}, in letters that can be seen"
        )
    return rows


def _is_header(first: str, others: list[str]) -> bool:
    if not any(map(str.isdigit, first)):
        return True
    if not others or len(first) in map(len, others):
        return False
    return any(map(str.isalpha, first)) and not any(map(str.isalpha, "".join(others)))
