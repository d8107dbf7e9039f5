"""CSV files as text: decompressed and decoded, checked against the grammar of `delimited`, and read as a relation of
texts.

DuckDB itself reads a file in UTF-8. It decodes few other encodings, so other files are decoded here and kept in a
temporary table of the session, which spills encrypted. Either way, DuckDB reads the same text that was checked.
"""

import codecs
import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
import pyarrow as pa

from assets.cef.validation import EMPTY, Finding, SourceError
from assets.release.columns import ColumnType
from assets.release.dialect import UTF_8, UTF_16, Compression, Dialect
from mechanisms import delimited
from resources.statements import SQL, Fragment, quote, quote_literal, render
from resources.warehouse import Session

LONGEST_ROW = 1_000_000
"""The most bytes in a row of a CSV file. DuckDB refuses rows of more than two million."""

BLOCK_BYTES = 1 << 23
"""The bytes of a CSV file in memory at a time while its form is checked."""

GRAMMAR = {
    delimited.Rule.NOT_UTF8: "not UTF-8",
    delimited.Rule.STRAY_QUOTE: "quote in a field that does not begin with one",
    delimited.Rule.TEXT_AFTER_QUOTE: "text after the quote that closes the field",
    delimited.Rule.STRAY_RETURN: "carriage return outside quotes",
    delimited.Rule.STRAY_ESCAPE: "backslash that is not inside quotes before a quote or a backslash",
    delimited.Rule.UNCLOSED_QUOTE: "quote that is never closed",
    delimited.Rule.FEWER_FIELDS: "fewer fields than the header",
    delimited.Rule.MORE_FIELDS: "more fields than the header",
    delimited.Rule.EMPTY_ROW: "empty line",
    delimited.Rule.OTHER_LINE_END: "line end that differs from the header's",
    delimited.Rule.TOO_LONG: f"longer than {LONGEST_ROW:,} bytes",
}

BLANK = "is empty but for blanks, separators and ends of lines"

MAGIC: Mapping[bytes, Compression] = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}

_BYTE_ORDER_MARKS = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
_NO_UTF_8 = b"\xff"

_EVERYTHING = SQL("cef/decoded", "FROM {{ source }}")


@dataclass(frozen=True)
class TextSource:
    """A well-formed text file.

    Attributes:
        relation: a subquery that gives the declared columns.
        every_column: a subquery that gives all columns.
        stage: makes the temporary table that both read; None if they read the file.
    """

    relation: Fragment
    every_column: Fragment
    records: int
    stage: Callable[[Session], None] | None = None


def read_bytes(path: Path, compression: Compression) -> Iterator[bytes]:
    """The decompressed bytes of a file in blocks.

    Raises SourceError if the file is compressed differently, incomplete, or damaged.
    """
    with path.open("rb") as file:
        if compression == "none":
            yield from iter(partial(file.read, BLOCK_BYTES), b"")
            return
        if next((kind for magic, kind in MAGIC.items() if file.peek(4).startswith(magic)), "none") != compression:
            raise SourceError([Finding(path.name, f"not compressed by {compression}, as `csv` declares")])
        try:
            yield from iter(partial(pa.CompressedInputStream(file, compression).read, BLOCK_BYTES), b"")
        except OSError:
            raise SourceError([Finding(path.name, f"cut off or damaged: not a whole file of {compression}")]) from None


def is_utf_8(path: Path, compression: Compression, beyond_ascii: bool = False) -> bool:
    """Whether a file is in UTF-8 and, if `beyond_ascii`, has a character beyond ASCII."""
    decoder = codecs.getincrementaldecoder(UTF_8)()
    try:
        ascii_only = True
        for block in read_bytes(path, compression):
            ascii_only &= decoder.decode(block).isascii()
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return not (beyond_ascii and ascii_only)


def read_text(path: Path, dialect: Dialect) -> Iterator[bytes]:
    """The text in UTF-8, without a byte-order mark, in blocks. Bytes that encode no character become bytes that are not
    UTF-8. Raises SourceError as `read_bytes`, or if a text in UTF-16 has no byte-order mark."""
    blocks = read_bytes(path, dialect.compression)
    if dialect.encoding == UTF_8:
        yield next(blocks, b"").removeprefix(codecs.BOM_UTF8)
        yield from blocks
    elif dialect.encoding in UTF_16:
        yield from _decode_utf_16(path.name, dialect.encoding, blocks)
    else:
        characters = list_characters(dialect.encoding)
        for block in blocks:
            text, _ = codecs.charmap_decode(block, "surrogateescape", characters)
            yield text.encode("utf-8", "surrogatepass")


def _decode_utf_16(label: str, encoding: str, blocks: Iterator[bytes]) -> Iterator[bytes]:
    first = next(blocks, b"")
    marked = next((name for name, mark in _BYTE_ORDER_MARKS.items() if first.startswith(mark)), "")
    if encoding == "utf-16" and not marked:
        raise SourceError([Finding(label, "no byte-order mark: declare encoding utf-16-le or utf-16-be")])
    decoder = codecs.getincrementaldecoder(marked if encoding == "utf-16" else encoding)("surrogatepass")
    # In the other byte order, the mark is no character.
    yield decoder.decode(first).removeprefix("\ufeff").encode("utf-8", "surrogatepass")
    for block in blocks:
        yield decoder.decode(block).encode("utf-8", "surrogatepass")
    try:
        decoder.decode(b"", final=True)
    except UnicodeError:
        yield _NO_UTF_8


@cache
def list_characters(encoding: str) -> str:
    """The characters of the 256 bytes in an encoding of one byte per character, U+FFFE for a byte without one.

    The control characters U+0080 to U+009F do not count: ISO 8859 has them, but no text does.
    """
    characters = [bytes([byte]).decode(encoding, "replace") for byte in range(256)]
    return "".join("\ufffe" if "\x80" <= each <= "\x9f" or each == "\ufffd" else each for each in characters)


def require_text(path: Path, dialect: Dialect) -> None:
    """Raise SourceError if a file is empty or has only blanks, separators and ends of lines."""
    between = f" \t\r\n{dialect.delimiter}".encode()
    if not any(block.strip(between) for block in read_text(path, dialect)):
        raise SourceError([Finding(path.name, BLANK if path.stat().st_size else EMPTY)])


def read_beginning(path: Path, dialect: Dialect) -> bytes:
    """The first bytes of the text in UTF-8, at least as many as a row may have."""
    beginning = b""
    for block in read_text(path, dialect):
        beginning += block
        if len(beginning) >= LONGEST_ROW:
            break
    return beginning


def read_header(path: Path, dialect: Dialect) -> list[str]:
    """The names of the columns.

    Raises UnicodeError if the first row cannot be decoded, csv.Error if it is malformed (`judge` checks the other
    rows), and SourceError if there are no names.
    """
    require_text(path, dialect)
    beginning = read_beginning(path, dialect).decode("utf-8", "surrogateescape")
    names = next(read_rows(beginning, dialect), [])
    "".join(names).encode()
    if not names:
        raise SourceError([Finding(path.name, "has no header: its first line is blank")])
    return names


def read_rows(text: str, dialect: Dialect) -> Iterator[list[str]]:
    """The rows of a text, read by Python. Raises csv.Error where one is malformed."""
    return csv.reader(
        io.StringIO(text, newline=""),
        delimiter=dialect.delimiter,
        quoting=csv.QUOTE_MINIMAL if dialect.quote_character else csv.QUOTE_NONE,
        quotechar=dialect.quote_character or None,
        doublequote=not dialect.escape_character,
        escapechar=dialect.escape_character or None,
        strict=True,
    )


def judge(blocks: Iterable[bytes], width: int, dialect: Dialect) -> delimited.Form:
    """The form of a text whose rows have `width` fields."""
    arrays = (np.frombuffer(block, dtype=np.uint8) for block in blocks)
    return delimited.form(
        arrays, width, LONGEST_ROW, dialect.delimiter, dialect.quote_character, dialect.escape_character
    )


def open_text(
    path: Path, dialect: Dialect, columns: Mapping[str, tuple[str, ColumnType]], names: Sequence[str]
) -> TextSource:
    """A well-formed text file as a relation of texts.

    Args:
        columns: the names of the declared columns in the file, and their types, by their names in the relation.
        names: the names in the header.

    Raises SourceError if the file is malformed.
    """
    form = judge(read_text(path, dialect), len(names), dialect)
    sources = {source for source, _ in columns.values()}
    offenders: Counter[tuple[str, str]] = Counter()
    for (rule, position), rows in sorted(form.offenders.items()):
        # Only declared columns are named: in a damaged file, another name may be a value.
        declared = position is None or names[position] in sources
        column = names[position] if position is not None and declared else ""
        words = GRAMMAR[rule] if rule is not delimited.Rule.NOT_UTF8 or dialect.encoding == UTF_8 else ""
        words = words or f"not in {dialect.encoding}"
        offenders[column, words + ("" if declared else ", in a column that is not declared")] += rows
    if offenders:
        raise SourceError([Finding(path.name, rule, column, rows) for (column, rule), rows in offenders.items()])
    stage, decoded = None, Fragment("")
    if dialect.encoding != UTF_8:
        if dialect.encoding not in UTF_16 and is_utf_8(path, dialect.compression, beyond_ascii=True):
            # Every text in UTF-8 is also valid in an encoding of one byte per character.
            raise SourceError([Finding(path.name, f"in UTF-8, not in {dialect.encoding}")])
        name = f"decoded {token_hex(8)}"
        stage, decoded = partial(_load, path, dialect, len(names), name), quote(name)
    written: dict[str, Any] = {
        "width": len(names),
        # If threads begin in the middle of a file, they can take a line break in a field for the end of a row.
        "parallel": Fragment("false" if form.breaks else "true"),
        "decoded": decoded,
        "separator": quote_literal(dialect.delimiter),
        "quote": quote_literal(dialect.quote_character),
        "escape": quote_literal(dialect.escape_character or dialect.quote_character),
        "compression": quote_literal(dialect.compression),
        **describe_notation(dialect),
    }
    # Numbers and dates of all columns get the same form, so that files about the same people have the same sketch.
    every = {f"c{number}": (f"c{number}", "any") for number in range(len(names))}
    places = {name: number for number, name in enumerate(names)}
    typed = {name: (f"c{places[source]}", kind.value) for name, (source, kind) in columns.items()}
    text, whole = (Fragment(render("cef/read_csv", {**written, "columns": each})) for each in (typed, every))
    return TextSource(text, whole, form.rows - 1, stage)


def describe_notation(dialect: Dialect) -> dict[str, Any]:
    """The placeholders of `cef/as_usual.sql`."""
    return {
        "decimal_comma": dialect.decimal == ",",
        "dates": quote_literal(dialect.date_pattern) if dialect.date_pattern else Fragment(""),
        "format": quote_literal(dialect.date_format),
    }


def _load(path: Path, dialect: Dialect, width: int, name: str, session: Session) -> None:
    """Keep a well-formed text in a temporary table with the columns c0, c1 and so on."""
    from pyarrow import csv as arrow_csv

    names = [f"c{number}" for number in range(width)]
    text = io.BufferedReader(_Blocks(read_text(path, dialect)), BLOCK_BYTES)
    reader = arrow_csv.open_csv(
        text,
        arrow_csv.ReadOptions(block_size=BLOCK_BYTES, column_names=names, skip_rows=1),
        arrow_csv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote_character or False,
            double_quote=not dialect.escape_character,
            escape_char=dialect.escape_character or False,
            newlines_in_values=True,
            ignore_empty_lines=False,
        ),
        arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
        ),
    )
    session.stage(name, _EVERYTHING, source=session.register("decoded", reader))


class _Blocks(io.RawIOBase):
    """Blocks of bytes as a file."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._left = blocks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._left = memoryview(block)
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size
