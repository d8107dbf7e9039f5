"""The counts of TopDown: histograms over named attributes, their marginals, and sums of cells. Queries are never
matrices: a marginal is an array that gives the marginal cell of each cell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Cells = NDArray[np.int32]
Number = TypeVar("Number", np.int64, np.float64)

TOTAL = "total"
DETAILED = "detailed"
_PRODUCT = " * "

_TABULATED = 2**16
"""The most cells of a histogram whose marginal cells are looked up instead of computed."""


class QueryError(ValueError):
    """A query that the histogram cannot answer."""


def add_up(counts: NDArray[Number], cells: NDArray[Any], size: int) -> NDArray[Number]:
    """Shape (units, size): counts of shape (units, cells), added up by each cell's entry in `cells`; integers exactly
    if the sums of their absolute values are below 2^53."""
    units = len(counts)
    sums = np.bincount((np.arange(units)[:, None] * size + cells).ravel(), counts.ravel(), units * size)
    return sums.reshape(units, size).astype(counts.dtype, copy=False)


@dataclass(frozen=True)
class Attribute:
    """An attribute of a record, with codes 0 up to `size` - 1."""

    name: str
    size: int


@dataclass(frozen=True)
class Recode:
    """A coarser reading of an attribute: `codes[code]` is the recode's code."""

    name: str
    attribute: str
    codes: tuple[int, ...]


@dataclass(frozen=True)
class Part:
    """An attribute as a query names it: a cell has the code `(cell // step) % size` of the attribute, and `recoded` of
    it if that is not empty; `codes` are possible."""

    step: int
    size: int
    recoded: Cells
    codes: int

    def code(self, cells: NDArray[Any]) -> NDArray[Any]:
        own = cells // self.step % self.size
        return self.recoded[own] if self.recoded.size else own


@dataclass(frozen=True)
class Marginal:
    """A query: the histogram, added up over all attributes that it does not name. It has the attributes that define its
    cells, as they are or recoded, in `parts`, and the number of cells of the histogram, `whole`."""

    query: str
    parts: tuple[Part, ...]
    size: int
    involved: frozenset[str]
    whole: int

    def find(self, cells: NDArray[Any]) -> Cells:
        """The marginal cell of each of some cells of the histogram, shape of `cells`. In a large histogram, a
        nonexistent cell counts as an existing one, so that the check of a forged table can name the error."""
        if self.whole <= _TABULATED:
            return self.cells[cells]
        step, of_first, of_last = self._halves
        first = cells // step
        return of_first.take(first, mode="wrap") + of_last[cells - first * step]

    def reach(self, cells: NDArray[Any]) -> NDArray[np.int64]:
        """The marginal cells that some cells of the histogram add up to, ascending."""
        found = self.find(cells)
        if found.size < self.size // 8:
            return np.unique(found).astype(np.int64)
        reached = np.zeros(self.size, dtype=np.bool_)
        reached[found] = True
        return np.flatnonzero(reached)

    @cached_property
    def cells(self) -> Cells:
        """The marginal cell of each cell of the histogram."""
        return self._compute(np.arange(self.whole, dtype=np.int32))

    @cached_property
    def _halves(self) -> tuple[int, Cells, Cells]:
        """A marginal cell is a sum of two parts: the part of the first attributes, by the cell divided by the step of
        the last of these, and the part of the others, by the remainder."""
        steps = {1, *(part.step for part in self.parts)}
        step = min(steps, key=lambda step: self.whole // step + step)
        of_last = self._compute(np.arange(step))
        return step, self._compute(np.arange(0, self.whole, step)), of_last - of_last[0]

    def _compute(self, cells: NDArray[Any]) -> Cells:
        found = np.zeros(cells.shape, dtype=np.int32)
        for part in self.parts:
            found = found * np.int32(part.codes) + part.code(cells).astype(np.int32, copy=False)
        return found

    def answer(self, histograms: NDArray[np.int64]) -> NDArray[np.int64]:
        """The exact answers, shape (units, size), for histograms of shape (units, cells)."""
        return add_up(histograms, self.cells, self.size)


@dataclass(frozen=True)
class Counts:
    """A histogram of some places, by its cells that are not zero, in order of place: the number of the place, the cell,
    and its count."""

    number: NDArray[np.int64]
    cell: NDArray[np.int64]
    count: NDArray[np.int64]

    def shift(self, by: int) -> "Counts":
        """The same counts with place numbers increased by `by`."""
        return Counts(self.number + by, self.cell, self.count)

    def locate(self, marginal: Marginal, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The counts that add up to the answers in the places from `first` up to `last`: the answer, and the amount.
        Answers are numbered by place and marginal cell, from those of the place `first`."""
        own = slice(*np.searchsorted(self.number, [first, last]))
        return (self.number[own] - first) * marginal.size + marginal.find(self.cell[own]), self.count[own]

    def answer(self, marginal: Marginal, first: int, last: int) -> NDArray[np.int64]:
        """The answers in the places from `first` up to `last`, shape (places, marginal cells)."""
        answers = np.zeros((last - first) * marginal.size, dtype=np.int64)
        np.add.at(answers, *self.locate(marginal, first, last))
        return answers.reshape(last - first, marginal.size)


class Sums:
    """Sums of cells of a histogram, such as those of a table: `counted` has the shape (sums, cells)."""

    def __init__(self, counted: NDArray[np.bool_]) -> None:
        self._size, cells = counted.shape
        cell, self._containing = np.nonzero(counted.T)
        self._starts = np.searchsorted(cell, np.arange(cells + 1))

    def of(self, counts: Counts, first: int, last: int) -> NDArray[np.int64]:
        """The sums of the places from `first` up to `last`, shape (places, sums)."""
        own = slice(*np.searchsorted(counts.number, [first, last]))
        begin = self._starts[counts.cell[own]]
        times = self._starts[counts.cell[own] + 1] - begin
        within = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        containing = self._containing[np.repeat(begin, times) + within]
        summed = np.zeros((last - first) * self._size, dtype=np.int64)
        position = np.repeat((counts.number[own] - first) * self._size, times) + containing
        np.add.at(summed, position, np.repeat(counts.count[own], times))
        return summed.reshape(last - first, self._size)


@dataclass(frozen=True)
class Schema:
    """A histogram: every combination of the attributes' codes is a cell, the last attribute changing fastest. The
    counts of the attribute `bounded`, if any, have bounds in every geographic unit. No record has one of the
    `impossible` combinations, each of which names one or more codes by attribute. The queries of `rounding` are rounded
    in turn, before the cells. Each refines the one before. Counts by the recode `combined`, which is not a query, are
    estimated before the cells if counts of groups are estimated first."""

    name: str
    attributes: tuple[Attribute, ...]
    recodes: tuple[Recode, ...] = ()
    bounded: str | None = None
    impossible: tuple[Mapping[str, int | Sequence[int]], ...] = ()
    rounding: tuple[str, ...] = (TOTAL,)
    combined: Recode | None = None
    _marginals: dict[str, Marginal] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def size(self) -> int:
        return prod(attribute.size for attribute in self.attributes)

    @cached_property
    def possible(self) -> NDArray[np.bool_]:
        """Shape (cells,): whether a record can be in the cell."""
        ruled_out = np.zeros([attribute.size for attribute in self.attributes], dtype=bool)
        for combination in self.impossible:
            chosen = [
                np.isin(np.arange(attribute.size), combination.get(attribute.name, range(attribute.size)))
                for attribute in self.attributes
            ]
            ruled_out[np.ix_(*chosen)] = True
        return ~ruled_out.ravel()

    @cached_property
    def groups(self) -> Marginal:
        """The marginal whose counts have bounds; `total` if no attribute's counts have."""
        return self.marginal(self.bounded or TOTAL)

    def marginal(self, query: str) -> Marginal:
        """The query of a name: `total`, `detailed`, an attribute, a recode, or several of them joined by ` * `. Raises
        QueryError if the name contains an unknown attribute or recode, or an attribute twice."""
        if query not in self._marginals:
            self._marginals[query] = self._build(query)
        return self._marginals[query]

    def _build(self, query: str) -> Marginal:
        parts, origins, step = {}, {}, self.size
        for attribute in self.attributes:
            step //= attribute.size
            parts[attribute.name] = Part(step, attribute.size, np.empty(0, dtype=np.int32), attribute.size)
            origins[attribute.name] = attribute.name
        for recode in self.recodes:
            origins[recode.name] = recode.attribute
            codes = np.array(recode.codes, dtype=np.int32)
            parts[recode.name] = replace(parts[recode.attribute], recoded=codes, codes=int(codes.max()) + 1)
        names = {TOTAL: [], DETAILED: [attribute.name for attribute in self.attributes]}.get(
            query, query.split(_PRODUCT)
        )
        unknown = [name for name in names if name not in parts]
        if unknown:
            raise QueryError(f"{self.name}: the query {query!r} names {unknown}; there are {', '.join(parts)}")
        if len({origins[name] for name in names}) < len(names):
            raise QueryError(f"{self.name}: the query {query!r} names an attribute twice")
        named = tuple(parts[name] for name in names)
        size = prod(part.codes for part in named)
        return Marginal(query, named, size, frozenset(origins[name] for name in names), self.size)

    def refines(self, fine: str, coarse: str) -> bool:
        """Whether every answer to the query `coarse` is a sum of answers to `fine`. Raises QueryError as `marginal`."""
        own = {part.step: part for part in self.marginal(fine).parts}
        for part in self.marginal(coarse).parts:
            cells = np.arange(part.size) * part.step
            of_fine = own[part.step].code(cells) if part.step in own else np.zeros_like(cells)
            if len(np.unique(np.column_stack([of_fine, part.code(cells)]), axis=0)) > len(np.unique(of_fine)):
                return False
        return True

    @cached_property
    def codes(self) -> dict[str, Cells]:
        """By attribute and recode, the code of each cell."""
        names = [part.name for part in self.attributes] + [part.name for part in self.recodes]
        return {name: self.marginal(name).cells for name in names}


PERSONS = Schema(
    name="persons",
    attributes=(Attribute("hhgq", 8), Attribute("votingage", 2), Attribute("hispanic", 2), Attribute("cenrace", 63)),
    recodes=(Recode("hhinstlevels", "hhgq", (0, 1, 1, 1, 1, 2, 2, 2)),),
    bounded="hhgq",
    impossible=({"hhgq": 3, "votingage": 0},),
    rounding=(TOTAL, "hhgq", "hhgq * hispanic", "hhgq * hispanic * cenrace"),
    combined=Recode("one race", "cenrace", tuple(min(code, 6) for code in range(63))),
)
"""Persons by household or group-quarters type (household; correctional, juvenile, nursing and other institutional;
college, military and other noninstitutional), voting age (under 18; 18 and over), Hispanic origin (no; yes) and race.
No person under 18 lives in a nursing facility (the edit constraint)."""

UNITS = Schema(name="units", attributes=(Attribute("occupancy", 2),))
"""Housing units, occupied or vacant (H1)."""

HOUSEHOLDS, OCCUPIED = 0, 0
"""The code of `hhgq` for households (the others are types of group quarters), and the code of occupied units."""

UNITS_BY_OCCUPANCY = replace(UNITS, bounded="occupancy", rounding=(TOTAL, "occupancy"))
"""The same histogram, with bounds of the occupied and of the vacant units: persons' estimates bound the former."""
