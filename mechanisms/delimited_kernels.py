"""The automaton of `delimited`, compiled, in a module that only the reading of files imports."""

import numpy as np
from numba import njit

from mechanisms.delimited import Rule

_QUOTE, _LF, _CR = b'"\n\r'
_NONE = -1
_START, _PLAIN, _QUOTED, _CLOSED, _ESCAPED = range(5)
"""The automaton's places: at the start of a field, in an unquoted one, inside quotes, after a quote inside quotes, and
after an escape there."""
_BY_COLUMN = int(Rule.STRAY_RETURN) + 1
_LINE_FEED, _BOTH = 1, 2

STATE = np.dtype(
    [
        *((name, np.int64) for name in ("place", "after_return", "field", "flags", "length", "rows", "line_end")),
        *((name, np.int64) for name in ("breaks", "awaited", "lowest", "highest")),
    ]
)
"""The state between blocks: the automaton's place, whether the last byte was a carriage return outside quotes, the
field of the row and the rules that it violates, the bytes of the row, the rows so far, how the first one ended, whether
a field contained a line break, and the number of awaited bytes of a character with their bounds."""


@njit(cache=True, nogil=True)
def read(block, state, offenders, width, longest, separator, others):  # type: ignore[no-untyped-def]
    """Continue with a block of bytes. Offenders have the shape (rules, width + 1), the last column for whole rows.

    `others` are the codes of quote and escape, or None for those of RFC 4180, which are then compiled as constants.
    """
    quote, escape = (_QUOTE, _NONE) if others is None else others
    place, after_return, length = state.place, state.after_return, state.length
    awaited, lowest, highest = state.awaited, state.lowest, state.highest
    for byte in block:
        length += 1
        if awaited and lowest <= byte <= highest:
            awaited, lowest, highest = awaited - 1, 0x80, 0xBF
            continue
        if awaited or byte >= 0x80:
            if awaited:
                state.flags |= 1 << Rule.NOT_UTF8
            awaited, lowest, highest = _awaited(byte)
            if awaited < 0:
                state.flags |= 1 << Rule.NOT_UTF8
                awaited = 0
        if place == _QUOTED:
            if byte == quote:
                place = _CLOSED
            elif byte in (_LF, _CR):
                state.breaks = 1
            elif byte == escape:
                place = _ESCAPED
        elif escape >= 0 and place == _ESCAPED:
            if byte not in (quote, escape):
                _count_escape(state, offenders, width)
            place = _QUOTED
        elif byte == _LF:
            state.length = length - 1 - after_return
            _end_field(state, offenders, width)
            _end_row(place, _BOTH if after_return else _LINE_FEED, state, offenders, width, longest)
            place, after_return, length = _START, 0, 0
        else:
            if after_return:
                state.flags |= 1 << Rule.STRAY_RETURN
                place, after_return = _PLAIN, 0
            if byte == separator:
                _end_field(state, offenders, width)
                state.field += 1
                place = _START
            elif byte == _CR:
                after_return = 1
            elif byte == quote:
                if place == _PLAIN:
                    state.flags |= 1 << Rule.STRAY_QUOTE
                elif place == _CLOSED and escape >= 0:
                    state.flags |= 1 << Rule.TEXT_AFTER_QUOTE
                else:
                    # Either the field begins with a quote, or a quote inside it is doubled.
                    place = _QUOTED
            else:
                if place == _CLOSED:
                    state.flags |= 1 << Rule.TEXT_AFTER_QUOTE
                if byte == escape:
                    _count_escape(state, offenders, width)
                place = _PLAIN
    state.place, state.after_return, state.length = place, after_return, length
    state.awaited, state.lowest, state.highest = awaited, lowest, highest


@njit(cache=True, nogil=True)
def _awaited(byte):  # type: ignore[no-untyped-def]
    """The number of bytes that must follow a character's first byte, and the bounds of the next (Unicode, table
    3-7)."""
    if byte < 0x80:
        return 0, 0x80, 0xBF
    if 0xC2 <= byte <= 0xDF:
        return 1, 0x80, 0xBF
    if 0xE0 <= byte <= 0xEF:
        return 2, 0xA0 if byte == 0xE0 else 0x80, 0x9F if byte == 0xED else 0xBF
    if 0xF0 <= byte <= 0xF4:
        return 3, 0x90 if byte == 0xF0 else 0x80, 0x8F if byte == 0xF4 else 0xBF
    return -1, 0x80, 0xBF


@njit(cache=True, nogil=True)
def _count_escape(state, offenders, width):  # type: ignore[no-untyped-def]
    """Count the first stray escape of a field at once: with one rule more, `_end_field` takes a tenth longer."""
    if state.field < width and not state.flags >> Rule.STRAY_ESCAPE & 1:
        offenders[Rule.STRAY_ESCAPE, state.field] += 1
    state.flags |= 1 << Rule.STRAY_ESCAPE


@njit(cache=True, nogil=True)
def _end_field(state, offenders, width):  # type: ignore[no-untyped-def]
    if state.flags:
        if state.field < width:
            for rule in range(_BY_COLUMN):
                offenders[rule, state.field] += state.flags >> rule & 1
        state.flags = 0


@njit(cache=True, nogil=True)
def _end_row(place, line_end, state, offenders, width, longest):  # type: ignore[no-untyped-def]
    if state.field == 0 and place == _START:
        offenders[Rule.EMPTY_ROW, width] += 1
    elif state.field + 1 < width:
        offenders[Rule.FEWER_FIELDS, width] += 1
    elif state.field + 1 > width:
        offenders[Rule.MORE_FIELDS, width] += 1
    if state.length > longest:
        offenders[Rule.TOO_LONG, width] += 1
    if state.line_end == 0:
        state.line_end = line_end
    elif state.line_end != line_end:
        offenders[Rule.OTHER_LINE_END, width] += 1
    state.rows += 1
    state.field = 0


@njit(cache=True, nogil=True)
def finish(state, offenders, width, longest):  # type: ignore[no-untyped-def]
    if state.length == 0:
        return
    if state.place in (_QUOTED, _ESCAPED):
        # The rest of the text is in this field, so no further rule can be checked.
        offenders[Rule.UNCLOSED_QUOTE, width] += 1
        state.rows += 1
        return
    if state.awaited:
        state.flags |= 1 << Rule.NOT_UTF8
    if state.after_return:
        state.flags |= 1 << Rule.STRAY_RETURN
    _end_field(state, offenders, width)
    _end_row(_PLAIN if state.after_return else state.place, state.line_end, state, offenders, width, longest)
