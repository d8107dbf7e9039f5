"""A level's own answers to a query, for many siblings at a time, in compiled loops.

Siblings are asked about the same cells. Their answers are in one array: by place, and within a place by cell.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mechanisms.topdown.dhc.counting import read_only
from mechanisms.topdown.schema import Counts, Marginal

Numbers = NDArray[np.int64]

_AT_ONCE = 2**20
"""The most answers in memory at a time, unless the answers of some siblings to one query are more."""


@dataclass(frozen=True)
class Lists:
    """Lists of marginal cells, ascending; one begins at each of the `starts` but the last, which ends the last one."""

    starts: Numbers
    cells: Numbers

    def __len__(self) -> int:
        return len(self.starts) - 1


def join_lists(lists: Sequence[Lists]) -> Lists:
    """Lists one after the other."""
    if len(lists) == 1:
        return lists[0]
    begun = np.cumsum([0, *(len(each.cells) for each in lists)])
    starts = [each.starts[:-1] + begin for each, begin in zip(lists, begun, strict=False)]
    return Lists(np.append(np.concatenate(starts), begun[-1]), np.concatenate([each.cells for each in lists]))


@dataclass(frozen=True)
class Asked:
    """A request for answers of some places of a level: for each of several families, all marginal cells of a list.

    Attributes:
        first, last: shape (families,): the first of some siblings and the one after the last, in ascending order.
        lists, of_family: the lists, and the position of each family's list.
    """

    query: str
    first: Numbers
    last: Numbers
    lists: Lists
    of_family: Numbers

    @classmethod
    def of_siblings(cls, query: str, first: int, last: int, cells: Numbers) -> "Asked":
        """A single family, the places from `first` up to `last`."""
        lists = Lists(np.array([0, len(cells)]), cells)
        return cls(query, np.array([first]), np.array([last]), lists, np.zeros(1, dtype=np.int64))

    def choose(self, chosen: NDArray[Any]) -> "Asked":
        """The request for some of the places, by their position."""
        places = self.places[chosen]
        return Asked(self.query, places, places + 1, self.lists, self.of_place[chosen])

    def cut(self) -> Iterator["Asked"]:
        """The request in parts that fit in memory."""
        ends = np.cumsum(self.sizes * (self.last - self.first))
        runs = np.maximum(ends - 1, 0) // _AT_ONCE
        for own in np.split(np.arange(len(ends)), np.flatnonzero(np.diff(runs)) + 1):
            if own.size:
                yield Asked(self.query, self.first[own], self.last[own], self.lists, self.of_family[own])

    @property
    def sizes(self) -> Numbers:
        """Shape (families,): the number of cells of each family."""
        return np.diff(self.lists.starts)[self.of_family]

    @cached_property
    def places(self) -> Numbers:
        """All places, in order."""
        children = self.last - self.first
        within = np.arange(children.sum()) - np.repeat(np.cumsum(children) - children, children)
        return np.repeat(self.first, children) + within

    @cached_property
    def ends(self) -> Numbers:
        """Shape (places + 1,): where the answers of each place begin, and where the last ones end."""
        return np.append(0, np.cumsum(np.repeat(self.sizes, self.last - self.first)))

    @property
    def of_place(self) -> Numbers:
        """The list of each place."""
        return np.repeat(self.of_family, self.last - self.first)

    def list_families(self) -> Iterator[tuple[int, int, Numbers, slice]]:
        """By family: the first place and the one after the last, the cells, and the slice of the answers."""
        lists = zip(self.lists.starts[self.of_family].tolist(), self.sizes.tolist(), strict=True)
        begin = 0
        for first, last, (start, size) in zip(self.first.tolist(), self.last.tolist(), lists, strict=True):
            end = begin + (last - first) * size
            yield first, last, self.lists.cells[start : start + size], slice(begin, end)
            begin = end

    def repeat_cells(self) -> Numbers:
        """The marginal cell of each answer."""
        cells = np.empty(self.ends[-1], dtype=np.int64)
        _repeat(self.lists.starts, self.lists.cells, self.of_place, self.ends, cells)
        return cells

    def number(self, size: int, first: int) -> Numbers:
        """The number of each answer among all answers of a query with `size` cells, with places counted from
        `first`."""
        return np.repeat((self.places + first) * size, np.diff(self.ends)) + self.repeat_cells()

    def add_exact(self, marginal: Marginal, counts: Counts, answers: Numbers, sign: int = 1) -> None:
        """Add the exact answers, or subtract them with the sign -1."""
        first, last = (np.searchsorted(counts.number, self.places + step) for step in (0, 1))
        if not len(first):
            return
        begin, end = first[0], last[-1]
        found, count = marginal.find(counts.cell[begin:end]), read_only(counts.count[begin:end])
        lists = self.lists.starts, self.lists.cells, self.of_place
        _add_exact(*lists, self.ends, first - begin, last - begin, found, count, sign, answers)


def list_cells(marginal: Marginal, counts: Counts, places: Numbers) -> Lists:
    """For each of some places, the marginal cells that its counts add up to."""
    first, last = (np.searchsorted(counts.number, places + step) for step in (0, 1))
    return _reach(marginal, counts.cell, first, last)


def reach_lists(marginal: Marginal, lists: Lists) -> Lists:
    """The marginal cells that the cells of each list add up to."""
    return _reach(marginal, lists.cells, lists.starts[:-1], lists.starts[1:])


def _reach(marginal: Marginal, own: Numbers, first: Numbers, last: Numbers) -> Lists:
    cells = np.empty((last - first).sum(), dtype=np.int64)
    starts = np.zeros(len(first) + 1, dtype=np.int64)
    _list_cells(marginal.find(own), first, last, marginal.size, starts, cells)
    return Lists(starts, cells[: starts[-1]])


def add_below(
    asked: Asked, parents: Numbers, answers: NDArray[np.float64], sums: NDArray[np.float64], ends: Numbers
) -> None:
    """Add the answers of some places to the answers of their parents, in order. The latter begin in `sums` at
    `ends`."""
    _add_below(asked.ends, ends[parents], answers, sums)


@dataclass(frozen=True)
class Kept:
    """Answers that are stored: by place, ascending, where its cells and its answers begin and end in two arrays."""

    place: Numbers
    first_cell: Numbers
    last_cell: Numbers
    first_answer: Numbers
    last_answer: Numbers
    cells: NDArray[np.int32]
    answers: NDArray[np.int32]

    def ask(self, query: str) -> Asked:
        """The request for all of these answers to a query."""
        sizes = self.last_cell - self.first_cell
        starts = np.append(0, np.cumsum(sizes, dtype=np.int64))
        own = np.repeat(self.first_cell - starts[:-1], sizes) + np.arange(starts[-1])
        lists = Lists(starts, self.cells[own].astype(np.int64))
        return Asked(query, self.place, self.place + 1, lists, np.arange(len(self.place)))

    def pick(self, asked: Asked, *, whole: bool) -> Numbers | None:
        """The requested answers; None if one of them is not stored, or with `whole`, if more answers of a place are
        stored."""
        position = np.minimum(np.searchsorted(self.place, asked.places), max(0, len(self.place) - 1))
        picked = np.empty(asked.ends[-1], dtype=np.int64)
        if not len(position):
            return picked
        if not len(self.place) or np.any(self.place[position] != asked.places):
            return None
        bounds = self.first_cell, self.last_cell, self.first_answer, self.last_answer
        bounds_of_places = np.array([bound[position] for bound in bounds], dtype=np.int64)
        lists = asked.lists.starts, asked.lists.cells, asked.of_place
        kept = read_only(self.cells), read_only(self.answers)
        return picked if _pick(*lists, asked.ends, bounds_of_places, *kept, whole, picked) else None


@njit(cache=True, nogil=True)
def _list_cells(found, first, last, size, starts, cells):  # type: ignore[no-untyped-def]
    """Many of the `size` marginal cells are marked, a few are sorted."""
    end, reached = 0, np.zeros(0, np.bool_)
    for place in range(len(first)):
        own = found[first[place] : last[place]]
        if len(own) >= size // 8:
            if not len(reached):
                reached = np.zeros(size, np.bool_)
            for cell in own:
                reached[cell] = True
            for cell in range(size):
                if reached[cell]:
                    cells[end] = cell
                    end += 1
            reached[:] = False
        else:
            previous = -1
            for cell in np.sort(own):
                if cell != previous:
                    cells[end] = cell
                    end += 1
                    previous = cell
        starts[place + 1] = end


@njit(cache=True, nogil=True)
def _add_below(ends, of_parent, answers, sums):  # type: ignore[no-untyped-def]
    for place in range(len(of_parent)):
        own = of_parent[place] - ends[place]
        for position in range(ends[place], ends[place + 1]):
            sums[own + position] += answers[position]


@njit(cache=True, nogil=True)
def _repeat(starts, listed, of_place, ends, cells):  # type: ignore[no-untyped-def]
    for place in range(len(of_place)):
        own = starts[of_place[place]]
        for position in range(ends[place], ends[place + 1]):
            cells[position] = listed[own + position - ends[place]]


@njit(cache=True, nogil=True)
def _add_exact(starts, listed, of_place, ends, first, last, found, count, sign, answers):  # type: ignore[no-untyped-def]
    for place in range(len(of_place)):
        begin, end = starts[of_place[place]], starts[of_place[place] + 1]
        for each in range(first[place], last[place]):
            position = begin + np.searchsorted(listed[begin:end], found[each])
            if position < end and listed[position] == found[each]:
                answers[ends[place] + position - begin] += sign * count[each]


@njit(cache=True, nogil=True)
def _pick(starts, listed, of_place, ends, bounds, cells, answers, whole, picked):  # type: ignore[no-untyped-def]
    """Whether all cells are found; the cells of both are ascending."""
    for place in range(len(of_place)):
        begin, end = starts[of_place[place]], starts[of_place[place] + 1]
        first_cell, last_cell, first_answer, last_answer = bounds[:, place]
        kept = last_cell - first_cell
        if kept != last_answer - first_answer or kept < end - begin or (whole and kept > end - begin):
            return False
        own = 0
        for position in range(begin, end):
            while own < kept and cells[first_cell + own] != listed[position]:
                own += 1
            if own == kept:
                return False
            picked[ends[place] + position - begin] = answers[first_answer + own]
            own += 1
    return True
