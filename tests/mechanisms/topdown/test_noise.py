"""A key gives the same noise for ever, and every histogram, level and query has noise of its own."""

from hashlib import sha256
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.sampling.goodness import binned, misfits
from mechanisms.topdown.design import TopDownDesign
from mechanisms.topdown.noise import VERSION, Noise
from mechanisms.topdown.production import LEVELS, PERSON_ALLOCATION, UNIT_ALLOCATION

KEY = bytes(range(32))
DESIGN = TopDownDesign(LEVELS, {"persons": PERSON_ALLOCATION, "units": UNIT_ALLOCATION}, {})
PINNED = "a1c9ce7a0f147f780f8a9ca64b0a358f85e9df2b51f3723ea13eb5c07e4292df"


def drawn(key: bytes, units: int) -> dict[str, np.ndarray]:
    noise = Noise(DESIGN, key)
    return {each.label: noise.of_next(each, units) for each in DESIGN.measured}


def test_a_key_gives_the_noise_that_it_always_gave() -> None:
    """If the digest changes, `VERSION` has to be raised with it: a charged draw could not be made again."""
    digest = sha256()
    for values in drawn(KEY, 3).values():
        digest.update(values.astype("<i8").tobytes())
    assert (VERSION, digest.hexdigest()) == (1, PINNED)


@settings(max_examples=20)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.sampled_from(DESIGN.measured))
def test_how_many_places_are_read_at_a_time_makes_no_difference(parts: list[int], measured) -> None:  # type: ignore[no-untyped-def]
    at_once = Noise(DESIGN, KEY).of_next(measured, sum(parts))
    noise = Noise(DESIGN, KEY)
    assert np.array_equal(at_once, np.concatenate([noise.of_next(measured, part) for part in parts]))


def test_every_measurement_has_noise_of_its_own() -> None:
    """Queries of equal size and variance would show a shared stream at once."""
    every = drawn(KEY, 40)
    assert len(every) == len(DESIGN.measured) == 71
    for one, other in combinations(every.values(), 2):
        if one.shape == other.shape:
            assert not np.array_equal(one, other)
            assert not np.array_equal(np.sign(one), np.sign(other))


def test_another_key_gives_other_noise() -> None:
    mine, other = drawn(KEY, 2), drawn(bytes(32), 2)
    assert all(not np.array_equal(mine[label], other[label]) for label in mine if mine[label].size > 60)


def test_noise_has_the_declared_distribution() -> None:
    """With a fixed key; were it free, the test would fail once in a billion times."""
    noise = Noise(DESIGN, KEY)
    assert misfits({each.label: binned(noise.of_next(each, 300).ravel(), each.noise) for each in DESIGN.measured}) == []


@pytest.mark.parametrize(("level", "wrong"), [("Block", "Tract"), ("Block_Group", "Block"), ("Tract", "Block_Group")])
def test_noise_of_another_level_is_told_apart(level: str, wrong: str) -> None:
    """Of the finest queries, whose σ² differ by a factor of 2 or more between these levels."""
    declared = {(each.histogram, each.level, each.query): each for each in DESIGN.measured}
    mine = declared["persons", level, "detailed"]
    values = Noise(DESIGN, KEY).of_next(declared["persons", wrong, "detailed"], 100).ravel()
    assert misfits({"wrong": binned(values, mine.noise)}) == ["wrong", "all together"]
