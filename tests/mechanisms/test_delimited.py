"""The automaton accepts exactly the texts of the grammar, wherever they are cut into blocks, and counts offenders."""

import csv
import io
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.delimited import Form, Rule, form
from tests.depth import examples

LONGEST = 1000
ROW_END = re.compile(r"\r?\n|\Z")
FIELD = re.compile(r'"(?:[^"]|"")*"|[^",\r\n]*')


def read(text: bytes, width: int, block: int = 1 << 20, longest: int = LONGEST, separator: str = ",") -> Form:
    data = np.frombuffer(text, dtype=np.uint8)
    return form((data[start : start + block] for start in range(0, len(data), block)), width, longest, separator)


def rows_by_grammar(content: bytes) -> list[list[str]] | None:
    """The rows of a text, by regular expressions for a field and for the end of a row; None if it has another form."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    rows: list[list[str]] = []
    ends = set()
    place = 0
    while place < len(text):
        row = []
        while True:
            field = FIELD.match(text, place)
            assert field
            row.append(field[0])
            place = field.end()
            if text[place : place + 1] != ",":
                break
            place += 1
        end = ROW_END.match(text, place)
        if not end or row == [""]:
            return None
        ends |= {end[0]} - {""}
        place = end.end()
        rows.append(row)
    return rows if len(ends) <= 1 else None


PIECES = [
    b'"',
    b'""',
    b",",
    b"|",
    b"\n",
    b"\r\n",
    b"\r",
    b" ",
    b"a",
    "é".encode(),
    "€".encode(),
    "🙂".encode(),
    b"\0",
    b"\x80",
]
PIECES += [b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xf5", b"\xe0\x80\x80"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join)
NEARLY_WELL_FORMED = st.lists(
    st.lists(st.sampled_from([b"", b"a", b" b ", b'"c"', b'"d,\n""e"', b'"\r\n"', "ü".encode(), b'"']), max_size=3).map(
        b",".join
    ),
    max_size=5,
).flatmap(lambda rows: st.sampled_from([b"\n", b"\r\n"]).map(lambda end: b"".join(row + end for row in rows)))


@settings(max_examples=examples(500))
@given(text=TEXTS | NEARLY_WELL_FORMED, width=st.integers(1, 3), block=st.integers(1, 7))
def test_exactly_the_texts_of_the_grammar_are_well_formed(text: bytes, width: int, block: int) -> None:
    found = read(text, width, block)
    assert found == read(text, width), "where the blocks are cut does not matter"
    exchanged = text.translate(bytes.maketrans(b",|", b"|,"))
    assert found == read(exchanged, width, separator="|"), "a comma is then a letter like any other"
    rows = rows_by_grammar(text)
    well_formed = rows is not None and all(len(row) == width for row in rows)
    assert (found.offenders == {}) == well_formed
    if rows is not None and well_formed:
        assert found.rows == len(rows)
        assert found.breaks == any("\n" in field or "\r" in field for row in rows for field in row)
        read_by_csv = list(csv.reader(io.StringIO(text.decode(), newline=""), strict=True))
        assert read_by_csv == [[unquoted(field) for field in row] for row in rows]


AFTER_QUOTE = Rule.TEXT_AFTER_QUOTE


def unquoted(field: str) -> str:
    return field[1:-1].replace('""', '"') if field.startswith('"') else field


@pytest.mark.parametrize(
    ("text", "offenders"),
    [
        (b"a,b\n1,2\n", {}),
        (b"a,b\r\n1,2", {}),
        (b'a,b\n" 1 ","2,""\n"""\n', {}),
        (b"a,b\n1,2,\n3\n4\n5,6,7,8\n", {(Rule.MORE_FIELDS, None): 2, (Rule.FEWER_FIELDS, None): 2}),
        (b'a,b\n1,x"y"z\n"u",v"\n', {(Rule.STRAY_QUOTE, 1): 2}),
        (b'a,b\n "1",2\n', {(Rule.STRAY_QUOTE, 0): 1}),
        (b'a,b\n"1" ,2\n"3"4,"5"6"7"\n', {(AFTER_QUOTE, 0): 2, (AFTER_QUOTE, 1): 1, (Rule.STRAY_QUOTE, 1): 1}),
        (b'a,b\n1,"2\n3,4\n', {(Rule.UNCLOSED_QUOTE, None): 1}),
        (b'a,b\n"', {(Rule.UNCLOSED_QUOTE, None): 1}),
        (b"a,b\n\n1,2\n\n\n", {(Rule.EMPTY_ROW, None): 3}),
        (b"a\r\n1\r\n\r\n", {(Rule.EMPTY_ROW, None): 1}),
        (b"a,b\n1,2\r\n3,4\n5,6\r\n", {(Rule.OTHER_LINE_END, None): 2}),
        (b"a,b\r\n1,2\n", {(Rule.OTHER_LINE_END, None): 1}),
        (b"a,b\n1,x\ry\n\r2,3\n", {(Rule.STRAY_RETURN, 0): 1, (Rule.STRAY_RETURN, 1): 1}),
        (b"a,b\n1,2\r", {(Rule.STRAY_RETURN, 1): 1}),
        (b"a,b\n1,\xe9\n\xff\xfe,\xe2\x82\n", {(Rule.NOT_UTF8, 1): 2, (Rule.NOT_UTF8, 0): 1}),
        (b"a,b\n1,\xc3", {(Rule.NOT_UTF8, 1): 1}),
        (b"a,b\n1," + b"x" * 998 + b"\n", {}),
        (b'a,b\r\n"' + b"x" * 996 + b'",\r\n', {}),
        (b"a,b\n1," + b"x" * 999 + b"\n2," + b"y" * 999, {(Rule.TOO_LONG, None): 2}),
        (b"", {}),
    ],
)  # fmt: skip
def test_offenders_are_counted_by_rule_and_column(text: bytes, offenders: dict[tuple[Rule, int | None], int]) -> None:
    for block in (1, 3, 1 << 20):
        assert read(text, 2 if b"," in text else 1, block).offenders == offenders


ESCAPE = Rule.STRAY_ESCAPE


@pytest.mark.parametrize(
    ("text", "offenders"),
    [
        (b"a,b\n1,'x\\'y\\\\'\n", {}),
        (b"a,b\n'\\\\','\\','\n", {}),
        (b"a,b\n1,'x\\n\\ty'\n'\\\xc3\xa9',\n", {(ESCAPE, 1): 1, (ESCAPE, 0): 1}),
        (b"a,b\nx\\,\\\\y\n", {(ESCAPE, 0): 1, (ESCAPE, 1): 1}),
        (b"a,b\n'x''y',\n", {(AFTER_QUOTE, 0): 1, (Rule.STRAY_QUOTE, 0): 1}),
        (b"a,b\n1,'x\\'\n", {(Rule.UNCLOSED_QUOTE, None): 1}),
        (b'a,b\n"1",2"\n', {}),
    ],
)
def test_with_an_escape_only_quotes_and_escapes_inside_quotes_are_escaped(
    text: bytes, offenders: dict[tuple[Rule, int | None], int]
) -> None:
    """Fails for: a grammar that reads a doubled quote or an escaped letter as DuckDB guesses it."""
    for block in (1, 3, 1 << 20):
        data = np.frombuffer(text, dtype=np.uint8)
        blocks = (data[start : start + block] for start in range(0, len(data), block))
        assert form(blocks, 2, LONGEST, quote="'", escape="\\").offenders == offenders


def test_every_character_of_unicode_is_accepted() -> None:
    characters = "".join(chr(code) for code in range(0x80, 0x110000) if not 0xD800 <= code < 0xE000)
    assert read(f"a\n{characters}\n".encode(), 1, longest=1 << 30) == Form(2, {}, False)
