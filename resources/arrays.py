"""Conversions between Arrow arrays of texts or of lists of integers or decimals and NumPy arrays."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


def read_texts(texts: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of texts, and the positions where each text begins and the last one ends, shape (texts + 1,)."""
    texts = texts.cast(pa.large_string())
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64, count=len(texts) + 1, offset=8 * texts.offset)
    return np.frombuffer(data or b"", dtype=np.uint8), bounds


def read_lists(lists: pa.Array, size: int) -> NDArray[np.signedinteger]:
    """The integers in lists, or the decimals of at most 18 digits in units of their last digit, shape (rows, size).
    Raises ValueError unless every row has a list of this size."""
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    numbers = lists.flatten()
    is_decimal = pa.types.is_decimal128(numbers.type) and numbers.type.precision <= 18
    if (
        lists.null_count
        or numbers.null_count
        or not (is_decimal or pa.types.is_integer(numbers.type))
        or not pc.all(pc.equal(pc.list_value_length(lists), size), min_count=0).as_py()
    ):
        raise ValueError(f"not every row has a list of {size:,} numbers")
    if not is_decimal:
        return np.asarray(numbers.to_numpy().reshape(-1, size))
    halves = np.frombuffer(numbers.buffers()[1] or b"", dtype="<i8")[2 * numbers.offset :]
    return halves[: 2 * len(numbers) : 2].reshape(-1, size)


def to_lists(numbers: NDArray[np.signedinteger], digits: int | None = None) -> pa.ListArray:
    """A list for each row of an array: of integers, or of decimals as `to_decimals` makes them."""
    values = numbers.ravel()
    elements = pa.array(values) if digits is None else to_decimals(np.ascontiguousarray(values, np.int64), digits)
    return pa.ListArray.from_arrays(np.arange(len(numbers) + 1, dtype=np.int32) * numbers.shape[1], elements)


def to_decimals(numbers: NDArray[np.int64], digits: int) -> pa.Array:
    """Numbers of 64 bits, in units of the last of the given digits after the point, as DuckDB stores them too."""
    return pa.Array.from_buffers(pa.decimal64(18, digits), len(numbers), [None, pa.py_buffer(numbers)])
