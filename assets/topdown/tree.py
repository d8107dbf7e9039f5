"""The spine as arrays: which places each level has, and in which place above they lie.

Here belongs reading the stored spine for those who compute on the tree. Making it from the CEF belongs in `spine`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assets.topdown.release import SPINE, TopDownRelease
from assets.topdown.spine import SpineError
from mechanisms.topdown.design import words
from resources.warehouse import Session


@dataclass(frozen=True)
class Tree:
    """Places by level, numbered from 0, the children of one parent next to each other.

    Attributes:
        levels: names, from the root's to the finest.
        parents: by level below the root, shape (places,): the number of each place's parent in the level above.
    """

    levels: tuple[str, ...]
    parents: tuple[NDArray[np.int64], ...]

    def places(self, level: str) -> int:
        """How many places a level has."""
        depth = self.levels.index(level)
        return len(self.parents[depth - 1]) if depth else 1

    def starts(self, level: str) -> NDArray[np.int64]:
        """Shape (parents + 1,): parent p's children are the level's places from `starts[p]` up to `starts[p + 1]`.

        The root is taken for the child of one parent, of which nothing is known.
        """
        depth = self.levels.index(level)
        if not depth:
            return np.array([0, 1])
        return np.searchsorted(self.parents[depth - 1], np.arange(self.places(self.levels[depth - 1]) + 1))


def read_tree(session: Session, release: TopDownRelease) -> Tree:
    """The stored spine.

    Raises:
        SpineError: if levels or numbers are not the release's, or places are not in the order of their parents.
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
    """Several places of a level, in words: counties."""
    one = words(level)
    if one.isupper():
        return one
    return f"{one[:-1]}ies" if one.endswith("y") else f"{one}s"
