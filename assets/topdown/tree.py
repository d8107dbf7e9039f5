"""The spine as arrays: the number of places of each level, and the parent of each place.

This module reads the stored spine for computations on the tree. `spine` makes it from the CEF.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assets.topdown.release import SPINE, TopDownRelease, level_of_states
from assets.topdown.spine import SpineError, geoids
from mechanisms.topdown.design import words
from resources.warehouse import Session


@dataclass(frozen=True)
class Tree:
    """The places of each level, numbered from 0, with the children of one parent next to each other.

    Attributes:
        levels: the names of the levels, from the root to the finest.
        parents: for each level below the root, the number of each place's parent in the level above, shape (places,).
    """

    levels: tuple[str, ...]
    parents: tuple[NDArray[np.int64], ...]

    def places(self, level: str) -> int:
        depth = self.levels.index(level)
        return len(self.parents[depth - 1]) if depth else 1

    def starts(self, level: str) -> NDArray[np.int64]:
        """The children of parent p are the places from `starts[p]` up to but excluding `starts[p + 1]`.

        The root counts as the only child of a single, unknown parent. The result has the shape (parents + 1,).
        """
        depth = self.levels.index(level)
        if not depth:
            return np.array([0, 1])
        return np.searchsorted(self.parents[depth - 1], np.arange(self.places(self.levels[depth - 1]) + 1))

    def starts_within(self, level: str, above: str) -> NDArray[np.int64]:
        """Of the places of a level, the first in each place of a level above it, and last the number of all places."""
        starts = np.arange(self.places(above) + 1)
        for each in self.levels[self.levels.index(above) + 1 : self.levels.index(level) + 1]:
            starts = self.starts(each)[starts]
        return starts

    def within(self, level: str, number: int) -> list[tuple[int, int]]:
        """A place's own number and the places below it: for each level from `level` to the finest, the first, and the
        number after that of the last."""
        ranges = [(number, number + 1)]
        for parents in self.parents[self.levels.index(level) :]:
            first, last = np.searchsorted(parents, ranges[-1])
            ranges.append((int(first), int(last)))
        return ranges


def states_of(session: Session, release: TopDownRelease) -> list[str]:
    """The codes of the places of the level of the states, in the order of their numbers.

    Raises:
        SpineError: if two have the same code.
    """
    above = level_of_states(release.levels)
    states: list[str] = geoids(session, release, above).tolist()
    if len(set(states)) < len(states):
        raise SpineError(f"{release.public(SPINE)}: {plural(above)} with the same code")
    return states


def read_tree(session: Session, release: TopDownRelease) -> Tree:
    """Read the stored spine.

    Raises:
        SpineError: if the stored levels are not those of the release, there is no single root, or places are not
            numbered in the order of their parents.
    """
    table = release.public(SPINE)
    rows = session.arrow("topdown/parents", spine=table)
    depth, number, parent = (rows[name].to_numpy() for name in ("depth", "number", "parent"))
    ends = np.searchsorted(depth, np.arange(len(release.levels)), side="right")
    parents = np.split(parent, ends)
    if len(parents[-1]) or len(parents[0]) != 1:
        raise SpineError(f"{table}: places of other levels than {', '.join(release.levels)}, or no single root")
    for level, above, own, numbers in zip(
        release.levels[1:], parents, parents[1:], np.split(number, ends)[1:], strict=False
    ):
        ordered = np.array_equal(numbers, np.arange(len(numbers))) and bool(np.all(np.diff(own) >= 0))
        if not ordered or not len(own) or not 0 <= own[0] <= own[-1] < len(above):
            raise SpineError(f"{table}: {level}: places are not numbered from 0 in the order of their parents")
    return Tree(release.levels, tuple(parents[1:-1]))


def plural(level: str) -> str:
    """The plural of a level's name in words, such as counties."""
    one = words(level)
    if one.isupper():
        return one
    return f"{one[:-1]}ies" if one.endswith("y") else f"{one}s"
