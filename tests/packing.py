"""Packed integers in SQL, so that tests can alter them like lists."""

import duckdb
import numpy as np
import pyarrow as pa

from resources.packed import LISTS, PACKED, Packed, pack


def with_packing(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """A connection whose statements can call `packed`, of a list, and `unpacked`."""
    connection.create_function("packed", _pack, [LISTS], PACKED, type="arrow")
    connection.create_function("unpacked", _unpack, [PACKED], LISTS, type="arrow")
    return connection


def _pack(lists: pa.ChunkedArray) -> pa.Array:
    rows = (pack(np.array([row], dtype=np.int32)) for row in lists.to_pylist())
    return pa.array([row[0].as_py() for row in rows], pa.binary())


def _unpack(packed: pa.ChunkedArray) -> pa.Array:
    return Packed.read(packed).to_lists()
