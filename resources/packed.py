"""Rows of integers packed in bytes: the width of the row's integers, 1, 2 or 4, and the integers, little-endian.

DuckDB stores and reads bytes in a fraction of the time that lists of integers take.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

PACKED = "BLOB"
"""The DuckDB type of a column of packed integers."""

LISTS = "INTEGER[]"
"""The former type of such a column, before integers were packed, which is still read."""

_WIDTHS = (1, 2, 4)

_LIST = pa.list_(pa.field("l", pa.int32()))
"""The type of lists from DuckDB, with DuckDB's name of their elements, so that published files have the same bytes."""


def pack(numbers: NDArray[np.int32]) -> pa.BinaryArray:
    """The rows of an array of shape (rows, numbers), in the narrowest integers that fit them all."""
    rows, size = numbers.shape
    least, most = (int(numbers.min()), int(numbers.max())) if numbers.size else (0, 0)
    width = next(width for width in _WIDTHS if -(1 << 8 * width - 1) <= least and most < 1 << 8 * width - 1)
    packed = np.empty((rows, 1 + size * width), dtype=np.uint8)
    packed[:, 0] = width
    packed[:, 1:] = np.ascontiguousarray(numbers, dtype=f"<i{width}").view(np.uint8).reshape(rows, size * width)
    offsets = np.arange(rows + 1, dtype=np.int32) * packed.shape[1]
    return pa.BinaryArray.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(packed)])


@dataclass(frozen=True)
class Packed:
    """Rows of integers as stored.

    Attributes:
        data: the bytes of all rows, one after the other.
        begins: the position of each row's integers in `data`, shape (rows,).
        widths: the bytes of each of a row's integers, shape (rows,).
        sizes: the number of a row's integers, shape (rows,); -1 where no packed integers are stored.
        header: the bytes before a row's integers.
    """

    data: NDArray[np.uint8]
    begins: NDArray[np.int64]
    widths: NDArray[np.int64]
    sizes: NDArray[np.int64]
    header: int

    @classmethod
    def read(cls, column: pa.Array | pa.ChunkedArray) -> Self:
        """The rows of a column, of the type `PACKED` or `LISTS`. Raises TypeError for another one."""
        rows = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if pa.types.is_binary(rows.type):
            return cls._read_packed(rows)
        if rows.type == pa.list_(pa.int32()):
            return cls._read_lists(rows)
        raise TypeError("neither packed integers nor lists of 32-bit integers")

    @classmethod
    def _read_packed(cls, rows: pa.BinaryArray) -> Self:
        _, offsets, content = rows.buffers()
        bounds = np.frombuffer(offsets, np.int32, len(rows) + 1, 4 * rows.offset).astype(np.int64)
        data = np.frombuffer(content or b"", dtype=np.uint8)
        lengths, stored = np.diff(bounds) - 1, rows.is_valid().to_numpy(zero_copy_only=False)
        stored &= lengths >= 0
        widths = np.ones(len(rows), dtype=np.int64)
        widths[stored] = data[bounds[:-1][stored]]
        stored &= np.isin(widths, _WIDTHS)
        widths[~stored] = 1
        sizes = np.where(stored & (lengths % widths == 0), lengths // widths, -1)
        return cls(data, bounds[:-1] + 1, widths, sizes, 1)

    @classmethod
    def _read_lists(cls, rows: pa.ListArray) -> Self:
        numbers = rows.flatten()
        sizes = pc.fill_null(pc.list_value_length(rows), -1).to_numpy().astype(np.int64)
        begins = np.cumsum(np.maximum(sizes, 0)) - np.maximum(sizes, 0)
        # A list with a missing number has too few.
        lacking = np.flatnonzero(numbers.is_null().to_numpy(zero_copy_only=False))
        sizes[np.searchsorted(begins, lacking, side="right") - 1] = -1
        data = pc.fill_null(numbers, 0).to_numpy().astype("<i4", copy=False).view(np.uint8)
        return cls(data, 4 * begins, np.full(len(rows), 4, dtype=np.int64), sizes, 0)

    def take(self, rows: NDArray[np.int64], size: int) -> NDArray[np.int32]:
        """The integers of some rows, shape (rows, size). Raises ValueError unless each row has `size` integers."""
        if np.any(self.sizes[rows] != size):
            raise ValueError(f"not every row has {size:,} integers")
        taken = np.empty((len(rows), size), dtype=np.int32)
        begins, widths = self.begins[rows], self.widths[rows]
        lengths = self.header + size * widths
        # Most rows follow each other.
        is_first = np.flatnonzero((np.diff(begins) != lengths[:-1]) | (np.diff(widths) != 0)) + 1
        for first, last in zip([0, *is_first], [*is_first, len(rows)], strict=True):
            if first < last:
                # An array of unaligned integers, which is not copied.
                strides = (lengths[first], widths[first])
                stored = np.ndarray((last - first, size), f"<i{widths[first]}", self.data, begins[first], strides)
                taken[first:last] = stored
        return taken

    def to_lists(self) -> pa.ListArray:
        """All rows as lists of 32-bit integers. Raises ValueError for a row without packed integers."""
        rows, lists = np.arange(len(self.sizes)), list[NDArray[Any]]()
        is_first = np.flatnonzero(np.diff(self.sizes)) + 1
        for own in np.split(rows, is_first):
            if own.size:
                lists.append(self.take(own, max(0, int(self.sizes[own[0]]))).ravel())
        offsets = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int32)
        numbers = lists[0] if len(lists) == 1 else np.concatenate([np.empty(0, np.int32), *lists])
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(numbers), type=_LIST)
