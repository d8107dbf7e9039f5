"""Reading the lists of codes and iterations from a folder with four files, and published totals of population groups
from one file, in the layout of SafeTab's input.

The files are pipe-separated text with a header. Their rows end in LF or CR LF, every value is text, and `Null` is a
literal word. There is no quoting. `mechanisms.safetab.lists` has the rules between rows and files.

The lists of the 2020 Census are in `PRODUCTION`. `NOTICE.txt` beside them names their source.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from mechanisms.refusal import RefusedError
from mechanisms.safetab.lists import (
    CODES_FILE,
    ETHNICITY_FILE,
    MAP_FILE,
    RACE_FILE,
    CodeLists,
    Iteration,
    ListsError,
    RegionType,
    format_count,
)
from resources.regular import read_regular

PRODUCTION = Path(__file__).with_name("lists")
"""The folder of the lists of the 2020 Census."""

LARGEST = 1 << 26
"""The greatest size of a file in bytes: three hundred times the size of the largest production list."""

_ITERATION_CODE = ("[0-9]{4}", "an iteration's code has four digits")
_CODE = ("[1-9][0-9]{3}", "a race or ethnicity code has four digits, the first from 1 to 9")
_NAME = (".+", "a name is not empty")
_LEVEL = ("[012]", "a level is 0, 1 or 2")
_ALONE = ("True|False", "the field is True or False")
_FLAG = ("True|False|Null", "the field is True, False or Null")

_ITERATION = {"ITERATION_CODE": _ITERATION_CODE, "ITERATION_NAME": _NAME, "LEVEL": _LEVEL}
_FLAGS = {"DETAILED_ONLY": _FLAG, "COARSE_ONLY": _FLAG}

FIELDS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    RACE_FILE: {**_ITERATION, "ALONE": _ALONE, **_FLAGS},
    ETHNICITY_FILE: {**_ITERATION, **_FLAGS},
    CODES_FILE: {"RACE_ETH_CODE": _CODE, "RACE_ETH_NAME": _NAME},
    MAP_FILE: {"ITERATION_CODE": _ITERATION_CODE, "RACE_ETH_CODE": _CODE},
}
"""By file, its fields in order, each with the regular expression for its values and the rule in words."""

TOTALS: Mapping[str, tuple[str, str]] = {
    "REGION_ID": ("1|([0-9]{2}|[0-9]{4}|[0-9]{5}|[0-9]{7}|[0-9]{11})", "a region is 1, or has 2, 4, 5, 7 or 11 digits"),
    "REGION_TYPE": ("|".join(RegionType), "a type of regions is one of SafeTab's"),
    "ITERATION_CODE": _ITERATION_CODE,
    "COUNT": ("-?[0-9]{1,15}", "a total is an integer"),
}
"""The fields of pop-group-totals.txt, in the same form."""

_TRUTH = {"True": True, "False": False, "Null": None}


class ListsFileError(RefusedError):
    """The lists are missing, cannot be read, or break a rule. The message names file, field, rule and count."""


def read_lists(folder: Path = PRODUCTION) -> CodeLists:
    """The lists in a folder. Raises ListsFileError if a file is missing or not UTF-8 text, its header is not the exact
    one, a row has too few or too many fields, or a rule of a field, or between rows and files, is broken."""
    try:
        codes = _read_rows(folder / CODES_FILE, FIELDS[CODES_FILE])
        names = dict(codes)
        if len(names) < len(codes):
            repeated = format_count(len(codes) - len(names), "row")
            raise ListsError(f"{CODES_FILE}: RACE_ETH_CODE: a code is repeated: {repeated}")
        race = tuple(_iteration(*row) for row in _read_rows(folder / RACE_FILE, FIELDS[RACE_FILE]))
        ethnicity = tuple(
            _iteration(*row[:3], "Null", *row[3:])
            for row in _read_rows(folder / ETHNICITY_FILE, FIELDS[ETHNICITY_FILE])
        )
        pairs = tuple((iteration, code) for iteration, code in _read_rows(folder / MAP_FILE, FIELDS[MAP_FILE]))
        return CodeLists(names, race, ethnicity, pairs)
    except OSError as error:
        raise ListsFileError(f"{error.filename}: the file cannot be read ({error.strerror})") from None
    except ListsError as error:
        raise ListsFileError(f"{folder}: {error}") from None


def read_totals(path: Path) -> pa.Table:
    """Published totals of groups, in the layout of SafeTab-P's T1. Raises ListsFileError as `read_lists` does, or if a
    group occurs twice."""
    try:
        rows = _read_rows(path, TOTALS)
        if repeated := len(rows) - len({tuple(row[:3]) for row in rows}):
            raise ListsError(f"{path.name}: a group is there twice: {format_count(repeated, 'row')}")
    except OSError as error:
        raise ListsFileError(f"{path}: the file cannot be read ({error.strerror})") from None
    except ListsError as error:
        raise ListsFileError(f"{path.parent}: {error}") from None
    *texts, counts = zip(*rows, strict=True)
    return pa.table(dict(zip(TOTALS, [*texts, list(map(int, counts))], strict=True)))


def _iteration(code: str, name: str, level: str, *flags: str) -> Iteration:
    return Iteration(code, name, int(level), *(_TRUTH[flag] for flag in flags))


def _read_rows(path: Path, fields: Mapping[str, tuple[str, str]]) -> list[list[str]]:
    """The rows of a file in order, without the header; every value keeps its rule."""
    file = path.name
    try:
        text = read_regular(path, LARGEST).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ListsError(f"{file}: the file is not UTF-8 text") from None
    if not text.strip():
        raise ListsError(f"{file}: the file is empty")
    # Only these two end a line; names may contain other Unicode line separators.
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    if lines[0] != "|".join(fields):
        raise ListsError(f"{file}: the first line must be {'|'.join(fields)}")
    rows = [line.split("|") for line in lines[1:]]
    if not rows:
        raise ListsError(f"{file}: the file has no rows after the header")
    wrong = sum(len(row) != len(fields) for row in rows)
    if wrong:
        raise ListsError(f"{file}: all fields: a row has {len(fields)} fields: {format_count(wrong, 'row')}")
    for place, (field, (pattern, rule)) in enumerate(fields.items()):
        fits = re.compile(pattern).fullmatch
        wrong = sum(not fits(row[place]) for row in rows)
        if wrong:
            raise ListsError(f"{file}: {field}: {rule}: {format_count(wrong, 'row')}")
    return rows
