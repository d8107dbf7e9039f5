"""Forged statistics: the minima and maxima of values in a file or a catalog.

The values themselves stay unchanged. DuckDB skips rows by statistics, so a statement that trusts them loses rows.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

_HEADER = 4096
HEADERS, BLOCK = 3 * _HEADER, 262_144
HEADER_NUMBERS = _HEADER + 8, 2 * _HEADER + 8
_FACTOR, _START = np.uint64(0xBF58476D1CE4E5B9), 5381
"""Of a DuckDB file: the bytes of each of its three headers, of all, and of a block; where the numbers of the last two
headers are, of which DuckDB reads the one of the greater number; and the numbers of a checksum."""

Bounds = tuple[str, str]
"""The least and the largest text of a column, or of a part of it: 8 letters at most."""


def forge_file(path: Path, bounds: Mapping[Bounds, Bounds]) -> None:
    """Replace bounds of texts in a DuckDB file, and make its checksums right. All must be there."""
    content = bytearray(path.read_bytes())
    for old, new in bounds.items():
        stated, at = _write_bounds(old), -1
        assert stated in content, old
        while (at := content.find(stated, at + 1)) >= 0:
            content[at : at + len(stated)] = _write_bounds(new)
    path.write_bytes(seal_blocks(content))


def seal_blocks(content: bytearray) -> bytearray:
    """Make the checksums of the headers and the blocks of a DuckDB file right, in place."""
    for start in (*range(0, HEADERS, _HEADER), *range(HEADERS, len(content), BLOCK)):
        end = start + (_HEADER if start < HEADERS else BLOCK)
        words = np.frombuffer(bytes(content[start + 8 : end]), dtype="<u8")
        checksum = int(np.bitwise_xor.reduce(words * _FACTOR)) ^ _START
        content[start : start + 8] = checksum.to_bytes(8, "little")
    return content


def bound_texts(content: bytearray) -> Iterator[int]:
    """The positions of the bounds of text columns in a DuckDB file: 8 letters of the least and of the largest text."""
    for found in re.finditer(rb"\xc8\x00\x08.{8}\xc9\x00\x08.{8}", content, re.DOTALL):
        yield from (found.start() + 3, found.start() + 14)


def forge_footer(path: Path, replaced: Mapping[bytes, bytes]) -> None:
    """Replace bytes in the metadata of a Parquet file by others of the same length. All must be there."""
    content = path.read_bytes()
    at = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    footer = content[at:]
    for old, new in replaced.items():
        assert old in footer, old
        assert len(old) == len(new)
        footer = footer.replace(old, new)
    path.write_bytes(content[:at] + footer)


def _write_bounds(bounds: Bounds) -> bytes:
    least, largest = (text.encode().ljust(8, b"\0") for text in bounds)
    return b"\xc8\x00\x08" + least + b"\xc9\x00\x08" + largest
