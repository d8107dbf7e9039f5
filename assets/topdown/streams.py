"""The streams of a draw: one for each histogram, level and query, and below the level of the states, for each state.

A state's noise is that of its own streams. It depends neither on which other states a release has, nor on the order in
which streams are drawn, nor on how many are drawn at a time. This module lists the streams, names them, and defines the
version of measurements, which is a hash over the hashes of all streams.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.topdown.release import TopDownRelease, level_of_states
from assets.topdown.tree import read_tree, states_of
from mechanisms.sampling.stream import RandomStream
from mechanisms.topdown.design import MECHANISM, Measured, TopDownDesign
from resources.warehouse import Session


@dataclass(frozen=True)
class Stream:
    """The answers to one query in consecutive places of a level, whose noise is one random stream.

    Attributes:
        measured: the histogram, the level and the query.
        state: the code of the state that the places lie in; None at the level of the states and above.
        first: the number of the first place.
        last: the number after that of the last place.
    """

    measured: Measured
    state: str | None
    first: int
    last: int

    @property
    def label(self) -> str:
        """The name of the stream: a JSON array, so that no two streams have the same, whatever their codes contain."""
        return json.dumps([self.measured.histogram, self.measured.level, self.measured.query, self.state])

    @property
    def answers(self) -> int:
        return (self.last - self.first) * self.measured.marginal.size

    def random(self, key: bytes) -> RandomStream:
        """The random stream of the noise, from its beginning.

        Args:
            key: of the draw, 32 bytes, secret.
        """
        return RandomStream(key, f"{MECHANISM} {self.label}")


def streams_of(session: Session, release: TopDownRelease) -> tuple[Stream, ...]:
    """All streams of a release in the order of the draw, from the stored spine.

    Raises:
        SpineError: if the stored spine is not a tree with the levels of the release, or two states have one code.
    """
    tree, above = read_tree(session, release), level_of_states(release.levels)
    states = states_of(session, release)
    below = release.levels.index(above) + 1
    starts = {level: np.array([0, tree.places(level)]) for level in release.levels[:below]}
    starts |= {level: tree.starts_within(level, above) for level in release.levels[below:]}
    return streams(release.design, states, starts)


def streams(
    design: TopDownDesign, states: Sequence[str], starts: Mapping[str, NDArray[np.int64]]
) -> tuple[Stream, ...]:
    """All streams in the order of the draw: by histogram, level, state and query.

    Args:
        states: the codes of the states, in the order of their numbers.
        starts: for each level below that of the states, shape (states + 1,): the places of state s are those from
            `starts[s]` up to but excluding `starts[s + 1]`. For each level at or above it, shape (2,): 0 and the number
            of places.
    """
    return tuple(_streams(design, states, starts))


def _streams(design: TopDownDesign, states: Sequence[str], starts: Mapping[str, NDArray[np.int64]]) -> Iterator[Stream]:
    below = design.levels.index(level_of_states(design.levels)) + 1
    for histogram in design.allocations:
        for depth, level in enumerate(design.levels):
            measured = design.measured_at(histogram, level)
            of_states: Sequence[str | None] = states if depth >= below else [None]
            for number, state in enumerate(of_states):
                first, last = (int(start) for start in starts[level][number : number + 2])
                yield from (Stream(each, state, first, last) for each in measured)


def hashed(answers: NDArray[Any]) -> memoryview:
    """The bytes of answers that are hashed: 32-bit integers by place and cell."""
    return np.ascontiguousarray(answers, dtype="<i4").data


def version_of_streams(digests: Mapping[str, str]) -> str:
    """The version of measurements.

    Args:
        digests: by label, the SHA-256 of the answers of each stream, in the order of the draw.
    """
    return sha256(json.dumps(list(digests.items())).encode()).hexdigest()
