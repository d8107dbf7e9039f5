"""Hashes of tables, from batches of their rows: the parts of content versions, which `warehouse` reads and combines.

A table is hashed as a sequence of rows, column by column, which takes the least time; or as a multiset of rows, whose
digests are added up.
"""

import hmac
import json
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from resources.arrays import read_texts
from resources.machine import count_cores

LARGE = 100_000
"""The number of rows from which a table is large: DuckDB would take longer to add up its digests."""

ROWS_HASHED = 100_000
"""The number of rows of a large table that are in memory at a time while it is hashed."""

_VALUES_HASHED = 1_600_000
"""The approximate number of a table's values in memory at a time while its columns are hashed."""

_PLAIN = ("VARCHAR", *(f"{sign}{kind}" for sign in ("", "U") for kind in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")))
"""The types of columns that are hashed directly; others are hashed as texts."""

_DECIMAL = re.compile(r"DECIMAL\(\d+,\d+\)")

Digests = tuple[str, list[tuple[str, str]], int, list[list[str]]]
"""Name, columns and number of rows of a table, and the digests of its columns."""


def hash_content(content: object, key: bytes | None) -> str:
    """The SHA-256 of a JSON value, or with a key its HMAC: 64 hexadecimal digits."""
    message = json.dumps(content, separators=(",", ":")).encode()
    return hmac.new(key, message, sha256).hexdigest() if key else sha256(message).hexdigest()


def count_rows_at_a_time(columns: int) -> int:
    """The number of rows with the given number of columns in memory at a time while their values are hashed."""
    return min(ROWS_HASHED, max(1, _VALUES_HASHED // columns))


def is_plain(kind: str, *, decimals: bool) -> bool:
    """Whether a column of this type is hashed directly; others are hashed as texts."""
    return kind in _PLAIN or (decimals and bool(_DECIMAL.fullmatch(kind)))


def digest_columns(batches: Iterable[pa.RecordBatch], columns: int) -> tuple[int, list[list[str]]]:
    """The number of rows in batches, and the digests of each column, in the order of rows."""
    rows, digests = 0, [[sha256() for _ in range(3)] for _ in range(columns)]

    def add(batch: pa.RecordBatch, own: range, first: int) -> None:
        for number in own:
            for part, digest in zip(_encode_column(batch.column(number), first), digests[number], strict=True):
                digest.update(part)

    # Columns are hashed side by side, while the next batch is read.
    threads = count_cores()
    with ThreadPoolExecutor(threads) as hashing:
        running: list[Future[None]] = []
        for batch in batches:
            for future in running:
                future.result()
            shares = (range(first, columns, threads) for first in range(threads))
            running = [hashing.submit(add, batch, own, rows) for own in shares]
            rows += batch.num_rows
        for future in running:
            future.result()
    return rows, [[digest.hexdigest() for digest in of_column] for of_column in digests]


def add_up_rows(batches: Iterable[pa.RecordBatch], salt: str) -> tuple[int, ...]:
    """The number of rows, and two sums of 64 bits of the digests of the salt and each row's text, as
    `warehouse/multiset_hash` adds them up. The salt has a multiple of 64 characters."""
    # Numba takes a while to import, and few processes have large tables.
    from mechanisms.row_digests import sum_of_digests

    def add_up(batch: pa.RecordBatch) -> tuple[int, int, int]:
        return (batch.num_rows, *sum_of_digests(salt.encode(), *read_texts(batch.column(0))))

    # The next batch is read meanwhile.
    sums = [(0, 0, 0)]
    with ThreadPoolExecutor(1) as hashing:
        running: Future[tuple[int, int, int]] | None = None
        for batch in batches:
            following = hashing.submit(add_up, batch)
            if running:
                sums.append(running.result())
            running = following
        if running:
            sums.append(running.result())
    return tuple(map(sum, zip(*sums, strict=True)))


def _encode_column(column: pa.Array, first: int) -> Iterator[bytes | memoryview]:
    """The numbers of the rows in which a column is NULL, the lengths of its texts, and its texts, integers or decimals.

    Joined over batches, these parts are unique to the values and do not depend on where a batch ends.
    """
    yield (np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)) + first).astype("<i8").tobytes()
    if pa.types.is_integer(column.type):
        yield b""
        yield pc.fill_null(column, 0).to_numpy().astype("<i8").tobytes()
    elif pa.types.is_decimal(column.type):
        plain = pc.fill_null(column, 0)
        size = plain.type.byte_width
        yield b""
        yield plain.buffers()[1][plain.offset * size : (plain.offset + len(plain)) * size]
    else:
        data, offsets = read_texts(pc.fill_null(column, ""))
        yield np.diff(offsets).astype("<i8").data
        yield data[offsets[0] : offsets[-1]].data
