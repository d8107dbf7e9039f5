"""Integers packed in bytes come back unchanged from every way of storing them, and no other value is read as such."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from resources.packed import Packed, pack

EDGES = [0, 1, -1, 127, 128, -128, -129, 32_767, 32_768, -32_768, -32_769, 2**31 - 1, -(2**31)]


@st.composite
def pieces(draw: st.DrawFn) -> list[NDArray[np.int32]]:
    """Up to four arrays of rows with as many integers, some of which need more bytes than others."""
    size = draw(st.integers(1, 4))
    row = st.lists(st.sampled_from(EDGES[: draw(st.integers(1, len(EDGES)))]), min_size=size, max_size=size)
    rows = draw(st.lists(st.lists(row, max_size=3), min_size=1, max_size=4))
    return [np.array(each, dtype=np.int32).reshape(-1, size) for each in rows]


@given(pieces(), st.randoms(use_true_random=False), st.booleans(), st.integers(0, 2))
def test_integers_come_back_as_they_were(arrays: list[NDArray[np.int32]], random: Any, lists: bool, cut: int) -> None:
    """In any order of rows, from lists too. Wrong programs: the width of the first row for all; unsigned integers;
    an edge taken for a number of fewer bytes; rows of a slice read from the beginning of its buffers."""
    whole = np.concatenate(arrays)
    stored = pa.chunked_array([pack(each) for each in arrays])
    if lists:
        stored = pa.chunked_array([pa.array(whole.tolist(), pa.list_(pa.int32()))])
    whole, stored = whole[cut:], stored.slice(cut)
    packed = Packed.read(stored)
    order = np.array(random.sample(range(len(whole)), len(whole)), dtype=np.int64)
    np.testing.assert_array_equal(packed.take(order, whole.shape[1]), whole[order])
    assert packed.to_lists().to_pylist() == whole.tolist()


@pytest.mark.parametrize(("most", "width"), [(127, 1), (-128, 1), (128, 2), (-32_768, 2), (32_768, 4), (-32_769, 4)])
def test_integers_take_the_fewest_bytes_that_hold_them(most: int, width: int) -> None:
    (packed,) = pack(np.array([[0, most]], dtype=np.int32)).to_pylist()
    assert packed == bytes([width]) + b"".join(number.to_bytes(width, "little", signed=True) for number in (0, most))


NOT_THREE: list[Any] = [
    None,
    b"",
    b"\x01",
    b"\x01\x05\x05",
    b"\x01\x05\x05\x05\x05",
    b"\x00\x05\x05\x05",
    b"\x03\x05\x05\x05",
    b"\x02\x05\x05\x05",
    b"\x03" + bytes(9),
    b"\x08" + bytes(24),
]


@pytest.mark.parametrize("wrong", [*NOT_THREE, [1, 2], [1, 2, 3, 4], [1, None, 3], [None, 2, 3], []])
def test_other_bytes_and_lists_are_no_row_of_three_integers(wrong: Any) -> None:
    """Between valid rows. Wrong programs: read integers of an unused width, or part of the bytes; NULL as 0; rows
    shifted by earlier ones."""
    is_list, right = isinstance(wrong, list), np.array([[5, 6, 7]], dtype=np.int32)
    row, kind = ([5, 6, 7], pa.list_(pa.int32())) if is_list else (pack(right)[0].as_py(), pa.binary())
    packed = Packed.read(pa.array([row, wrong, row], kind))
    np.testing.assert_array_equal(packed.take(np.array([2, 0]), 3), [[5, 6, 7], [5, 6, 7]])
    with pytest.raises(ValueError, match="not every row has 3 integers"):
        packed.take(np.array([1]), 3)


@pytest.mark.parametrize("kind", [pa.string(), pa.list_(pa.int64()), pa.int32()])
def test_another_type_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(TypeError, match="neither packed integers nor lists"):
        Packed.read(pa.array([], kind))
