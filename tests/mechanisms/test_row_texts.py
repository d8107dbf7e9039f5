"""Lines have every number as Python's decimals write it, after the texts that they begin with."""

from decimal import Decimal
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.row_texts import write_lines

LEAST, LARGEST = -(2**63), 2**63 - 1


def written(texts: list[bytes], rows: list[list[int]], digits: list[int], separator: str = ",") -> bytes:
    bounds = np.array([0, *accumulate(map(len, texts))], dtype=np.int64)
    columns = np.array(rows, dtype=np.int64).reshape(len(texts), len(digits)).T
    return bytes(write_lines((np.frombuffer(b"".join(texts), dtype=np.uint8), bounds), columns, digits, separator))


@given(st.lists(st.integers(0, 19), max_size=4).flatmap(
    lambda digits: st.tuples(
        st.just(digits),
        st.lists(st.tuples(st.binary(max_size=4), st.lists(
            st.one_of(st.integers(-200, 200), st.integers(LEAST, LARGEST), st.just(LEAST)),
            min_size=len(digits), max_size=len(digits),
        )), max_size=3),
        st.sampled_from(",;\t"),
    )
))  # fmt: skip
def test_any_numbers_with_any_digits(case: tuple[list[int], list[tuple[bytes, list[int]]], str]) -> None:
    """Wrong programs: a sign lost below one, zeros after the point left out, a row that begins where another ends,
    -2^63 refused, which has no opposite."""
    digits, rows, separator = case
    expected = b""
    for text, numbers in rows:
        own = (Decimal(number).scaleb(-after) for number, after in zip(numbers, digits, strict=True))
        expected += text + b"".join(f"{separator}{number:f}".encode() for number in own) + b"\n"
    assert written([text for text, _ in rows], [numbers for _, numbers in rows], digits, separator) == expected


@pytest.mark.parametrize(
    ("bounds", "shape"),
    [
        *[([0, 1], (1, 2)), ([0, 1], (2, 1)), ([0, 1], (1, 0)), ([0, 2], (1, 1)), ([-1, 1], (1, 1))],
        *[([0, 2, 1], (1, 2)), ([0, -1, 1], (1, 2))],
    ],
)
def test_no_line_is_written_from_outside_the_arrays(bounds: list[int], shape: tuple[int, int]) -> None:
    """Wrong programs: columns and rows exchanged; only the first and last bound checked. The kernel then reads and
    writes beyond its arrays."""
    with pytest.raises(ValueError, match=r"of shape|follow each other in 1 bytes"):
        write_lines((np.frombuffer(b"0", dtype=np.uint8), np.array(bounds)), np.ones(shape, dtype=np.int64), [0])
