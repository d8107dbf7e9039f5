"""A key always gives the same noise, and every query of a mechanism has independent noise."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mechanisms import noise as noises
from mechanisms.phsafe import design as phsafe
from mechanisms.sampling.goodness import bin_draws, find_misfits
from mechanisms.sampling.noise import Distribution, Noise
from mechanisms.topdown import design as topdown
from mechanisms.topdown.allocation import LEVELS, PERSON_ALLOCATION, UNIT_ALLOCATION

KEY = bytes(range(32))
TOPDOWN = topdown.TopDownDesign(LEVELS, {"persons": PERSON_ALLOCATION, "units": UNIT_ALLOCATION}, {})


@dataclass(frozen=True)
class Mechanism:
    """The noise of a mechanism's production design.

    Attributes:
        name: of the mechanism.
        version: must increase if the noise of a key changes.
        distributions: by query, in the order of the draw.
        counts: by query, how many counts a small release has.
        digest: SHA-256 of these counts' noise under `KEY`.
    """

    name: str
    version: int
    distributions: Mapping[str, Distribution]
    counts: Mapping[str, int]
    digest: str

    def drawn(self, key: bytes, times: int = 1) -> dict[str, NDArray[np.int64]]:
        """The noise by query, for `times` times as many counts as in the small release."""
        noise = Noise(self.name, self.distributions, key)
        return {query: noise.of_next(query, times * count) for query, count in self.counts.items()}


def by_phsafe(noise: noises.Noise, digest: str) -> Mechanism:
    """PHSafe's noise for two states."""
    design = phsafe.production(("10", "44"), noise)
    return Mechanism(
        phsafe.MECHANISM,
        phsafe.VERSION,
        {each.label: design.noise_of(each.run, each.level) for each in design.released},
        {each.label: design.groups(each.level) * len(each.run.cells) for each in design.released},
        digest,
    )


MECHANISMS = {
    "PHSafe in zCDP": by_phsafe(
        noises.Noise.GAUSSIAN, "decd976fbc5e8044917d9bbba08e7d5b6f3be79cca37287fa3cec1c24663efdd"
    ),
    "PHSafe in pure DP": by_phsafe(
        noises.Noise.LAPLACE, "fa646fbc3f21af411e985a6d6de0957e045677da4ddcee843c5a25046f7c2d2a"
    ),
    "TopDown": Mechanism(
        topdown.MECHANISM,
        topdown.VERSION,
        {each.label: each.noise for each in TOPDOWN.measured},
        {each.label: 3 * each.marginal.size for each in TOPDOWN.measured},
        "6e4ac998b76ba85b135aedf034e64cc828005026c9a8c0101f0cb9092a48825b",
    ),
}
"""The noise of PHSafe for two states, and of TopDown's replicates for three places of each level."""


@pytest.fixture(params=MECHANISMS)
def mechanism(request: pytest.FixtureRequest) -> Mechanism:
    return MECHANISMS[request.param]


def test_the_noise_of_a_key_has_not_changed(mechanism: Mechanism) -> None:
    """If a digest changes, the version must increase too, as a charged draw cannot be repeated."""
    digest = sha256()
    for values in mechanism.drawn(KEY).values():
        digest.update(values.astype("<i8").tobytes())
    assert (mechanism.version, digest.hexdigest()) == ({"PHSafe": 2, "TopDown": 3}[mechanism.name], mechanism.digest)


def test_every_query_has_independent_noise(mechanism: Mechanism) -> None:
    """If queries shared a stream, their noise would be equal or, where variances differ, of like size or like sign."""
    every = mechanism.drawn(KEY, times=13)
    assert len(every) == {"PHSafe": 46, "TopDown": 71}[mechanism.name]
    for one, other in combinations(every.values(), 2):
        shared = min(len(one), len(other))
        assert not np.array_equal(one[:shared], other[:shared])
        assert not np.array_equal(np.abs(one[:shared]), np.abs(other[:shared]))
        assert not np.array_equal(np.sign(one[:shared]), np.sign(other[:shared]))


def test_another_key_gives_other_noise(mechanism: Mechanism) -> None:
    mine, other = mechanism.drawn(KEY), mechanism.drawn(bytes(32))
    assert all(not np.array_equal(mine[query], other[query]) for query in mine if len(mine[query]) > 20)
    assert not np.array_equal(np.concatenate(list(mine.values())), np.concatenate(list(other.values())))


@settings(max_examples=20)
@given(
    st.lists(st.integers(0, 500), min_size=1, max_size=4),
    st.sampled_from([(mechanism, query) for mechanism in MECHANISMS.values() for query in mechanism.counts]),
)
def test_the_number_of_counts_read_at_a_time_does_not_matter(parts: list[int], at: tuple[Mechanism, str]) -> None:
    mechanism, query = at
    at_once = Noise(mechanism.name, mechanism.distributions, KEY).of_next(query, sum(parts))
    noise = Noise(mechanism.name, mechanism.distributions, KEY)
    assert np.array_equal(at_once, np.concatenate([noise.of_next(query, part) for part in parts]))


def test_noise_has_the_declared_distribution(mechanism: Mechanism) -> None:
    """The key is fixed. With random keys, the test would fail once in a billion times."""
    drawn = mechanism.drawn(KEY, times=100)
    assert (
        find_misfits({query: bin_draws(values, mechanism.distributions[query]) for query, values in drawn.items()})
        == []
    )


@pytest.mark.parametrize(("level", "wrong"), [("Block", "Tract"), ("Block_Group", "Block"), ("Tract", "Block_Group")])
def test_noise_of_another_level_is_found(level: str, wrong: str) -> None:
    """TopDown's finest queries, whose σ² differ by a factor of 2 or more between these levels."""
    distributions = MECHANISMS["TopDown"].distributions
    size = MECHANISMS["TopDown"].counts[f"persons {wrong} detailed"] // 3
    values = Noise("TopDown", distributions, KEY).of_next(f"persons {wrong} detailed", 100 * size)
    assert find_misfits({"wrong": bin_draws(values, distributions[f"persons {level} detailed"])}) == [
        "wrong",
        "all together",
    ]
