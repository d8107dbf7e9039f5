"""The parameters of coarsening, and the two rules that change records: pure functions of integer arrays.

Codes are positions in the order of values; rows are combinations of values with the number of their records.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.design import DesignError
from mechanisms.refusal import RefusedError

MECHANISM = "coarsening"

VERSION = 1
"""Increase it when the same counts would give other records."""

Codes = NDArray[np.int64]


class TooFewRecordsError(RefusedError):
    """The records are fewer than a place must have."""


@dataclass(frozen=True)
class CoarseningDesign:
    """The rules for published places and combinations.

    Attributes:
        of: units or persons.
        geography: the columns of places, coarsest first.
        place_threshold: the least number of records of a published place.
        key: the variables by which a person may be recognized, in alphabetical order.
        least: the least number of records of a combination of place and key.
        kept: further published variables, in alphabetical order.

    Raises DesignError if a variable is named twice or the numbers contradict.
    """

    of: str
    geography: tuple[str, ...]
    place_threshold: int
    key: tuple[str, ...]
    least: int
    kept: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", tuple(sorted(self.key)))
        object.__setattr__(self, "kept", tuple(sorted(self.kept)))
        if repeated := [name for name in self.columns if self.columns.count(name) > 1]:
            raise DesignError(f"key: {repeated[0]} is named twice among geography, key and kept")
        if self.least > self.place_threshold:
            raise DesignError("least: a combination cannot need more records than a place, which is place_threshold")

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.geography, *self.key, *self.kept)

    def as_record(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}


def coarsen(places: Codes, key: Codes, counts: Codes, place_threshold: int, least: int) -> tuple[Codes, Codes, Codes]:
    """Both rules: by row, the number of levels of its place that it keeps, the number of its published place, and its
    key.

    Args:
        places: shape (rows, levels), coarsest first.
        key: shape (rows, variables).
        counts: shape (rows,).

    Raises TooFewRecordsError if there are records, but fewer than a place must have.
    """
    depth = merge_small_places(places, counts, place_threshold)
    published = np.where(np.arange(places.shape[1]) < depth[:, None], places, -1)
    _, place = np.unique(published, axis=0, return_inverse=True)
    return depth, place.ravel(), move_small_combinations(place.ravel(), key, counts, least)


def merge_small_places(places: Codes, counts: Codes, threshold: int) -> Codes:
    """The number of levels of its place that each row keeps; below them, the row is in the rest of the last one.

    At each level, places below the threshold are withheld, and become the rest of the place above. While the rest is
    below the threshold too, the next smallest place joins it. Of places of equal size, the first in order does.

    Args:
        places: shape (rows, levels), coarsest first.
        counts: shape (rows,).

    Raises TooFewRecordsError if there are records, but fewer than the threshold.
    """
    if len(counts) and counts.sum() < threshold:
        raise TooFewRecordsError("all records together are fewer than place_threshold")
    rows, levels = places.shape
    depth = np.zeros(rows, dtype=np.int64)
    for level in range(levels):
        inside = np.flatnonzero(depth == level)
        if not len(inside):
            break
        named, child = np.unique(places[inside, : level + 1], axis=0, return_inverse=True)
        child = child.ravel()
        sizes = np.bincount(child, weights=counts[inside], minlength=len(named)).astype(np.int64)
        _, above = np.unique(named[:, :level], axis=0, return_inverse=True)
        above = above.ravel()
        order = np.lexsort((np.arange(len(named)), sizes, above))
        kept = np.ones(len(named), dtype=np.bool_)
        rest: dict[int, int] = {}
        for place in order:
            before = rest.get(int(above[place]), 0)
            if sizes[place] < threshold or 0 < before < threshold:
                kept[place] = False
                rest[int(above[place])] = before + int(sizes[place])
        depth[inside[kept[child]]] = level + 1
    return depth


def move_small_combinations(places: Codes, key: Codes, counts: Codes, least: int) -> Codes:
    """The key of each row after those of combinations that are too small moved to another one of their place.

    A combination below `least` takes the nearest one that is not: the one that differs in the fewest variables, then by
    the fewest steps in their lists of values, then the most frequent, then the first in order. If all are below, all
    records of the place take the most frequent one.

    Args:
        places: the number of the published place, shape (rows,).
        key: shape (rows, variables).
        counts: shape (rows,).
    """
    named, combination = np.unique(np.column_stack([places, key]), axis=0, return_inverse=True)
    combination = combination.ravel()
    sizes = np.bincount(combination, weights=counts, minlength=len(named)).astype(np.int64)
    new = named[:, 1:].copy()
    bounds = np.flatnonzero(np.diff(named[:, 0], prepend=-1, append=-1)) if len(named) else np.zeros(1, dtype=np.int64)
    for start, end in pairwise(bounds):
        inside = np.arange(start, end)
        large = inside[sizes[inside] >= least]
        if not len(large):
            large = inside[[np.argmax(sizes[inside])]]
        for small in inside[sizes[inside] < least]:
            steps = np.abs(named[large, 1:] - named[small, 1:])
            nearest = np.lexsort((large, -sizes[large], steps.sum(axis=1), (steps > 0).sum(axis=1)))[0]
            new[small] = named[large[nearest], 1:]
    return np.asarray(new[combination])
