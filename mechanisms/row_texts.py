"""Rows of numbers as lines of delimited text, in a fraction of the time that general writers take for many columns."""

from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

_DIGITS = 20
"""The most bytes of an integer of 64 bits, with its sign."""

_TOGETHER = 64
"""The rows that are transposed together: a processor's cache can hold them."""

_TEN = np.uint64(10)


def write_lines(
    begins: tuple[NDArray[np.uint8], NDArray[np.int64]],
    columns: NDArray[np.int64],
    digits: Sequence[int],
    separator: str = ",",
) -> memoryview:
    """The lines of some rows, each ended by a line feed.

    Args:
        begins: the texts that the lines begin with, one after the other, and where each begins and the last one ends,
            shape (rows + 1,).
        columns: the numbers, shape (columns, rows); a number in a column with n digits is divided by 10ⁿ.
        digits: by column, the digits after the decimal point.
        separator: an ASCII character.

    Raises ValueError if a shape is wrong, or a text lies outside the texts.
    """
    texts, bounds = begins
    rows = len(bounds) - 1
    if columns.shape != (len(digits), rows):
        raise ValueError(f"{len(digits)} columns of {rows} rows are expected, not numbers of shape {columns.shape}")
    if not 0 <= bounds[0] <= bounds[-1] <= len(texts) or np.any(np.diff(bounds) < 0):
        raise ValueError(f"texts do not follow each other in {len(texts)} bytes, from {bounds[0]} to {bounds[-1]}")
    longest = rows * (1 + sum(_DIGITS + 2 + own for own in digits)) + int(bounds[-1] - bounds[0])
    lines = np.empty(longest, dtype=np.uint8)
    # One type for each argument, so that the kernel is compiled only once.
    given = np.array(bounds), np.ascontiguousarray(columns), np.array(digits, np.int64)
    size = _write(texts, *given, ord(separator), lines)
    return lines[:size].data


@njit(cache=True, nogil=True)
def _write(texts, bounds, columns, digits, separator, lines):  # type: ignore[no-untyped-def]
    at, rows = 0, columns.shape[1]
    # A few rows at a time are stored side by side, because consecutive columns are far apart in memory.
    together = np.empty((_TOGETHER, columns.shape[0]), dtype=np.int64)
    for first in range(0, rows, _TOGETHER):
        last = min(first + _TOGETHER, rows)
        for column in range(columns.shape[0]):
            for row in range(first, last):
                together[row - first, column] = columns[column, row]
        for row in range(first, last):
            for position in range(bounds[row], bounds[row + 1]):
                lines[at] = texts[position]
                at += 1
            for column in range(columns.shape[0]):
                lines[at] = separator
                at = _write_number(together[row - first, column], digits[column], lines, at + 1)
            lines[at] = 10
            at += 1
    return at


@njit(cache=True, nogil=True)
def _write_number(number, after, lines, at):  # type: ignore[no-untyped-def]
    """Write a number with `after` digits after the point; return where the next text begins."""
    # Division by a constant is faster without a sign, and -2^63 has no opposite with one.
    rest = np.uint64(number)
    if number < 0:
        lines[at] = 45
        at += 1
        rest = np.uint64(0) - rest
    size, bound = 1, _TEN
    while size < _DIGITS - 1 and rest >= bound:
        size += 1
        bound *= _TEN
    size = max(size, after + 1)
    end = at + size + (after > 0)
    position = end
    for place in range(size):
        if place == after and after > 0:
            position -= 1
            lines[position] = 46
        following = rest // _TEN
        position -= 1
        lines[position] = np.uint64(48) + rest - _TEN * following
        rest = following
    return end
