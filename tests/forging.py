"""Statistics that somebody forges: the minima and maxima that a file or a catalog states of its values.

The values themselves stay. DuckDB skips rows by statistics, so a statement that trusts them loses rows.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

_HEADERS, _BLOCK = 3 * 4096, 262_144
_FACTOR, _START = np.uint64(0xBF58476D1CE4E5B9), 5381
"""Of a DuckDB file: the bytes before its blocks, the bytes of a block, and the numbers of a block's checksum."""

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
    """Make the checksums of the blocks of a DuckDB file right, in place."""
    for start in range(_HEADERS, len(content), _BLOCK):
        words = np.frombuffer(bytes(content[start + 8 : start + _BLOCK]), dtype="<u8")
        checksum = int(np.bitwise_xor.reduce(words * _FACTOR)) ^ _START
        content[start : start + 8] = checksum.to_bytes(8, "little")
    return content


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
