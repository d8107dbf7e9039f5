"""Values are hashed by their meaning, however a file writes them."""

import numpy as np
import pyarrow as pa

from assets.cef.sketch import hash_values

FACTORS = np.random.default_rng(1).integers(1 << 63, size=258, dtype=np.uint64)

ALIKE = (
    ("7", "07", "7.0", " 7", "+7", "007.000", "7."),
    ("-7", "-07.0"),
    ("0", "-0", "0.00", "00"),
    ("1.1", "01.10"),
    ("1.01",),
    ("11",),
    ("70",),
    ("110",),
    ("true", "TRUE", " True"),
    ("", " ", None),
    ("a7",),
    ("a07",),
    ("007-1",),
    ("7-1",),
    ("0.5", "00.50", "+0.5", "0,5", "+00,50", ".5", "+,50"),
    ("-7.25", "-7,25"),
    ("1,234,5",),
    ("é" * 128,),
    ("é" * 127 + "e",),
)
"""Texts that are one value each."""


def test_equal_values_have_one_hash_and_others_have_others() -> None:
    """Wrong program: hashes texts, so that a column declared or written as a number has other hashes."""
    texts = [text for alike in ALIKE for text in alike]
    words, places = hash_values(pa.array(texts, pa.string()), FACTORS)
    hashes = iter(words[places].tolist())
    found = [{next(hashes) for _ in alike} for alike in ALIKE]
    assert [len(of_value) for of_value in found] == [1] * len(ALIKE)
    assert len(set.union(*found)) == len(ALIKE)


def test_hashes_need_the_key() -> None:
    values = pa.array(["1", "2", "3"])
    one, other = (hash_values(values, FACTORS ^ np.uint64(key))[0].tolist() for key in (0, 1))
    assert not set(one) & set(other)
