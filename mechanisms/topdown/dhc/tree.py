"""From the finest places up to the root: histograms and answers, added up level by level.

`parents` has, by level from the root's, the position of each place's parent in the level above, in ascending order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from mechanisms.topdown.schema import Counts

Numbers = NDArray[np.int64]
Of = TypeVar("Of")
Integers = TypeVar("Integers", bound=NDArray[np.integer[Any]])


@dataclass(frozen=True)
class Held:
    """The answers of all places of a level to a query, most of which are 0. A slice of places gives their answers as an
    array, shape (places, answers)."""

    counts: Counts
    answers: int

    def __getitem__(self, places: slice) -> Numbers:
        own = slice(*np.searchsorted(self.counts.number, [places.start, places.stop]))
        found = np.zeros((places.stop - places.start, self.answers), dtype=np.int64)
        found[self.counts.number[own] - places.start, self.counts.cell[own]] = self.counts.count[own]
        return found


def climb(finest: Of, parents: Sequence[Numbers], add_up: Callable[[Of, Numbers], Of]) -> list[Of]:
    """By level, from the root's: `finest`, and the results of `add_up` for a level and the positions of its parents."""
    levels = [finest]
    for above in parents[:0:-1]:
        levels.insert(0, add_up(levels[0], above))
    return levels


def collect(number: Numbers, cell: Numbers, count: Numbers) -> Counts:
    """The histograms of records or counts in any order."""
    cells = int(cell.max(initial=0)) + 1
    own, position = np.unique(number * cells + cell, return_inverse=True)
    return Counts(own // cells, own % cells, np.bincount(position, count, len(own)).astype(np.int64))


def add_counts(below: Counts, above: Numbers) -> Counts:
    return collect(above[below.number], below.cell, below.count)


@overload
def add_answers(below: Held, above: Numbers) -> Held: ...
@overload
def add_answers(below: Integers, above: Numbers) -> Integers: ...
def add_answers(below: Held | Integers, above: Numbers) -> Held | Integers:
    """Answers of shape (places, answers)."""
    if isinstance(below, Held):
        return Held(add_counts(below.counts, above), below.answers)
    starts = np.searchsorted(above, np.arange(above[-1] + 1))
    return np.add.reduceat(below, starts, axis=0)  # type: ignore[return-value]
