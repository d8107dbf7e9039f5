"""The grammar of delimited text (RFC 4180, in UTF-8), read byte by byte by the finite automaton of `delimited_kernels`.
A lenient reader guesses the intended content of a malformed field; this one reports the broken rule, where and how
often.

The grammar: a field is either quoted as a whole, with each quote inside it doubled, or contains no quote, no separator
and no line break. Blanks belong to the field. Every row has as many fields as the first one, and all rows end alike, in
LF or in CR LF; the last row may end with the file. In a text with an escape, quotes and escapes inside quotes follow an
escape, nothing is doubled, and nothing else is escaped.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class Rule(IntEnum):
    """A rule that a row can violate. Those up to `STRAY_ESCAPE` are violated in a column, the others by a whole row."""

    NOT_UTF8 = 0
    STRAY_QUOTE = 1
    """A quote in a field that does not begin with one."""
    TEXT_AFTER_QUOTE = 2
    """Text between the quote that closes a field and the separator or the end of the row."""
    STRAY_RETURN = 3
    """A carriage return outside quotes that is not followed by a line feed."""
    STRAY_ESCAPE = 4
    """An escape outside quotes, or before anything but a quote or an escape."""
    UNCLOSED_QUOTE = 5
    FEWER_FIELDS = 6
    """Fewer fields than the caller states."""
    MORE_FIELDS = 7
    EMPTY_ROW = 8
    """No byte between two ends of rows."""
    OTHER_LINE_END = 9
    """A row that ends in CR LF where the first one ends in LF, or the reverse."""
    TOO_LONG = 10


@dataclass(frozen=True)
class Form:
    """The form of a text: the number of its rows, malformed ones included; the number of rows that violate a rule, by
    rule and column, from 0, or None if the rule is about a whole row; and whether a field contains a line break."""

    rows: int
    offenders: Mapping[tuple[Rule, int | None], int]
    breaks: bool


def form(
    blocks: Iterable[NDArray[np.uint8]],
    width: int,
    longest: int,
    separator: str = ",",
    quote: str = '"',
    escape: str = "",
) -> Form:
    """Read a text to its end.

    Args:
        blocks: the bytes of the text, in order, cut anywhere.
        width: the number of fields that every row must have.
        longest: the number of bytes that a row may have, without its end.
        separator: an ASCII character, neither a quote nor a line break.
        quote: an ASCII character, or empty if no field is quoted.
        escape: an ASCII character, or empty if quotes inside quotes are doubled.
    """
    from mechanisms.delimited_kernels import STATE, finish, read

    state = np.zeros(1, dtype=STATE)
    offenders = np.zeros((len(Rule), width + 1), dtype=np.int64)
    # No byte has the code -1.
    codes = tuple(ord(character) if character else -1 for character in (quote, escape))
    others = None if codes == (ord('"'), -1) else codes
    for block in blocks:
        read(block, state[0], offenders, width, longest, ord(separator), others)
    finish(state[0], offenders, width, longest)
    by_rule = {
        (Rule(rule), None if column == width else int(column)): int(offenders[rule, column])
        for rule, column in np.argwhere(offenders)
    }
    return Form(int(state["rows"][0]), by_rule, bool(state["breaks"][0]))
