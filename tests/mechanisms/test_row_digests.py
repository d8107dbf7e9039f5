"""The sums of many digests equal `hashlib`'s, for texts of any size next to any others."""

from hashlib import sha256
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.row_digests import BLOCK, sum_of_digests


def summed(prefix: bytes, texts: list[bytes]) -> tuple[int, int]:
    offsets = np.array([0, *accumulate(map(len, texts))], dtype=np.int64)
    return sum_of_digests(prefix, np.frombuffer(b"".join(texts), dtype=np.uint8), offsets)


def expected(prefix: bytes, texts: list[bytes]) -> tuple[int, int]:
    digests = [sha256(prefix + text).digest() for text in texts]
    return tuple(sum(int.from_bytes(digest[half : half + 8], "big") for digest in digests) for half in (0, 8))


def test_every_size_up_to_some_blocks_alone_and_beside_all_others() -> None:
    texts = [bytes((7 * size + place) % 256 for place in range(size)) for size in range(4 * BLOCK + 2)]
    assert summed(b"", texts) == expected(b"", texts)
    for text in texts:
        assert summed(b"", [text]) == expected(b"", [text])


@given(st.integers(0, 3), st.lists(st.binary(max_size=200), max_size=50))
def test_any_texts_after_any_prefix(blocks: int, texts: list[bytes]) -> None:
    prefix = bytes(range(blocks * BLOCK))
    assert summed(prefix, texts) == expected(prefix, texts)


def test_the_sums_do_not_overflow() -> None:
    texts = [number.to_bytes(2, "big") for number in range(10_000)]
    found = summed(b"", texts)
    assert found == expected(b"", texts)
    assert min(found) > 2**64


def test_a_prefix_that_is_not_whole_blocks_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 64"):
        summed(b"short", [b""])
