"""Reading p-tables that other tools have written, from the text of their files: the export of sdcTools' R package
`ptable` (`pt_export`), and the CSV of the Office for National Statistics (package `cell-key-perturbation`).

**Exactness.** The users of `pt_export` draw from upper ends of intervals rounded to 8 decimals. So the probabilities
are the differences of these decimals, exactly. In the other form they are whole numbers of keys.
"""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from itertools import groupby

from mechanisms.table_builder.p_table import PTable, Row

ONS_ROWS = 750
"""The greatest count that the p-tables of the Office for National Statistics list."""
ONS_CYCLE = 250
"""Counts above it use row (count − 1) mod 250 + 501."""

LARGEST_CHANGE = 1000
"""The greatest change of a count that is read: forty times as much as in the p-tables of `entropy`."""

_SDCTOOLS = ("i", "j", "p", "v", "p_int_ub")
_ONS = ("pcv", "ckey", "pvalue")
_PLAIN = re.compile("-?[0-9]{1,15}")
_NEAR = Fraction(1, 10**6)
"""The greatest distance of a printed probability from the length of its interval."""


class PTableError(ValueError):
    """A text that is not a p-table of its form. The message names line, field, rule and count, but not the file."""


def read_sdctools(text: str) -> PTable:
    """The p-table that `pt_export` of sdcTools' `ptable` wrote for counts: columns i, j, p, v, p_int_ub, separated by
    semicolons. Further columns are ignored, such as `p_int_lb`, the upper end of the interval before. A row's intervals
    keep the order of the file, which `modify_cnt_ptable` shuffles. Counts beyond the last share its row."""
    rows = []
    by_count = groupby(_fields(text, ";", _SDCTOOLS), key=lambda line: _whole(line, "i"))
    for expected, (before, group) in enumerate(by_count):
        lines = list(group)
        if before != expected:
            raise _error(lines[0], "i", f"the counts must be 0, 1, 2, … in order; {before} is where {expected} belongs")
        rows.append(_intervals(lines, before))
    return PTable(tuple(rows))


def read_ons(text: str) -> PTable:
    """The p-table of the Office for National Statistics: columns pcv (the count), ckey (the cell key) and pvalue (the
    change), separated by commas. A count of 0 stays 0, as in the Office's package, which has no row for 0."""
    changes: dict[tuple[int, int], int] = {}
    for line in _fields(text, ",", _ONS):
        place = _whole(line, "pcv"), _whole(line, "ckey")
        if place in changes:
            raise _error(line, "ckey", f"count {place[0]} has key {place[1]} twice")
        if not 1 <= place[0] <= ONS_ROWS:
            raise _error(line, "pcv", f"counts are from 1 to {ONS_ROWS}, not {place[0]}")
        if place[1] < 0:
            raise _error(line, "ckey", f"keys are not negative, but one is {place[1]}")
        changes[place] = _change(line, "pvalue")
        if place[0] + changes[place] < 0:
            raise _error(line, "pvalue", f"the result of count {place[0]} is negative: {place[0] + changes[place]}")
    keys = max(key for _, key in changes) + 1
    missing = keys * ONS_ROWS - len(changes)
    if missing:
        raise PTableError(
            f"field ckey: every count from 1 to {ONS_ROWS} needs every key from 0 to {keys - 1} once; "
            f"{missing} lines are missing"
        )
    rows = [Row((0,), (keys,))]
    for number in range(1, ONS_ROWS + 1):
        merged = [(change, len(list(run))) for change, run in groupby(changes[number, key] for key in range(keys))]
        rows.append(Row(tuple(change for change, _ in merged), tuple(length for _, length in merged)))
    return PTable(tuple(rows), ONS_CYCLE)


Line = tuple[int, dict[str, str]]


def _fields(text: str, separator: str, required: Sequence[str]) -> Iterator[Line]:
    if not text.strip():
        raise PTableError("the file is empty")
    # A byte order mark is not part of the header.
    lines = text.removeprefix("\ufeff").splitlines()
    header = [name.strip().strip('"') for name in lines[0].split(separator)]
    for name in required:
        if header.count(name) != 1:
            raise PTableError(
                f"line 1: the header must have the field {name} once, separated by {separator!r}; it has it "
                f"{header.count(name)} times"
            )
    if len(lines) == 1:
        raise PTableError("line 2: a p-table has at least one line after the header; there is none")
    places = [(name, header.index(name)) for name in required]
    for number, line in enumerate(lines[1:], 2):
        values = line.split(separator)
        if len(values) != len(header):
            raise PTableError(
                f"line {number}: {len(header)} fields are needed, as in the header; there are {len(values)}"
            )
        yield number, {name: values[place].strip() for name, place in places}


def _whole(line: Line, field: str) -> int:
    known = _plain(line[1][field])
    if known is not None:
        return known
    number = _decimal(line, field)
    if number.denominator != 1:
        raise _error(line, field, "a whole number is needed; p-tables of magnitudes are not read")
    return int(number)


def _change(line: Line, field: str) -> int:
    change = _whole(line, field)
    if abs(change) > LARGEST_CHANGE:
        raise _error(line, field, f"a count is changed by at most {LARGEST_CHANGE:,}, not by {change:,}")
    return change


@lru_cache(maxsize=1 << 12)
def _plain(text: str) -> int | None:
    """A whole number written with digits only; None for anything else. A file repeats few of them very often."""
    return int(text) if _PLAIN.fullmatch(text) else None


def _decimal(line: Line, field: str) -> Fraction:
    try:
        number = Decimal(line[1][field])
        if number.is_finite() and abs(number.adjusted()) < 100:
            return Fraction(number)
    except InvalidOperation:
        pass
    raise _error(line, field, "a number is needed")


def _intervals(lines: Sequence[Line], before: int) -> Row:
    intervals, start = [], Fraction(0)
    for line in lines:
        change, end = _change(line, "v"), _decimal(line, "p_int_ub")
        if before + change < 0 or _whole(line, "j") != before + change:
            raise _error(line, "j", f"the result must be i + v = {before + change}, and not negative")
        if not start <= end <= 1:
            raise _error(line, "p_int_ub", "the upper ends of a count ascend from 0 to 1, and this one does not")
        if abs(_decimal(line, "p") - (end - start)) > _NEAR:
            raise _error(line, "p", f"p must be the length of its interval, {float(end - start)}")
        if end > start:
            intervals.append((change, end - start))
        start = end
    if start != 1:
        raise _error(lines[-1], "p_int_ub", f"the probabilities of count {before} sum to {float(start)}, not to 1")
    return Row.of(intervals)


def _error(line: Line, field: str, rule: str) -> PTableError:
    return PTableError(f"line {line[0]}, field {field}: {rule}")
