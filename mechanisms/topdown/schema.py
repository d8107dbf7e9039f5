"""What TopDown counts: histograms over named attributes, and marginals of them. Queries are never matrices: a marginal
is an array that gives the marginal cell of each cell."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Cells = NDArray[np.int32]
Number = TypeVar("Number", np.int64, np.float64)

TOTAL = "total"
DETAILED = "detailed"
_PRODUCT = " * "


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
class Marginal:
    """A query: the histogram, added up over all attributes that it does not name. It has the marginal cell of each cell
    of the histogram, and the attributes that define its cells, as they are or recoded."""

    query: str
    cells: Cells
    size: int
    involved: frozenset[str]

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

    def locate(self, marginal: Marginal, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The counts that add up to the answers in the places from `first` up to `last`: to which answer, and how much.
        Answers are numbered by place and marginal cell, from those of the place `first`."""
        own = slice(*np.searchsorted(self.number, [first, last]))
        return (self.number[own] - first) * marginal.size + marginal.cells[self.cell[own]], self.count[own]

    def answer(self, marginal: Marginal, first: int, last: int) -> NDArray[np.int64]:
        """The answers in the places from `first` up to `last`, shape (places, marginal cells)."""
        answers = np.zeros((last - first) * marginal.size, dtype=np.int64)
        np.add.at(answers, *self.locate(marginal, first, last))
        return answers.reshape(last - first, marginal.size)


@dataclass(frozen=True)
class Schema:
    """A histogram: every combination of the attributes' codes is a cell, the last attribute changing fastest. The
    counts of the attribute `bounded`, if any, have bounds in every geographic unit. No record has the `impossible`
    combinations, as codes by attribute. The queries of `rounding` are rounded in turn, before the cells. Each refines
    the one before. Counts by the recode `combined`, which is no query, are estimated before the cells where
    `estimation` holds parts."""

    name: str
    attributes: tuple[Attribute, ...]
    recodes: tuple[Recode, ...] = ()
    bounded: str | None = None
    impossible: tuple[Mapping[str, int], ...] = ()
    rounding: tuple[str, ...] = (TOTAL,)
    combined: Recode | None = None
    _marginals: dict[str, Marginal] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def size(self) -> int:
        return prod(attribute.size for attribute in self.attributes)

    @cached_property
    def possible(self) -> NDArray[np.bool_]:
        """Shape (cells,): whether a record can be in the cell."""
        ruled_out = np.zeros(self.size, dtype=bool)
        for combination in self.impossible:
            ruled_out |= reduce(np.logical_and, (self.codes[name] == code for name, code in combination.items()))
        return ~ruled_out

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
        sizes = {name: int(codes.max()) + 1 for name, codes in self.codes.items()}
        origins = {name: name for name in sizes} | {recode.name: recode.attribute for recode in self.recodes}
        names = {TOTAL: [], DETAILED: [attribute.name for attribute in self.attributes]}.get(
            query, query.split(_PRODUCT)
        )
        unknown = [name for name in names if name not in sizes]
        if unknown:
            raise QueryError(f"{self.name}: the query {query!r} names {unknown}; there are {', '.join(sizes)}")
        if len({origins[name] for name in names}) < len(names):
            raise QueryError(f"{self.name}: the query {query!r} names an attribute twice")
        cells = np.zeros(self.size, dtype=np.int32)
        for name in names:
            cells = cells * sizes[name] + self.codes[name]
        size = prod(sizes[name] for name in names)
        return Marginal(query, cells.astype(np.int32), size, frozenset(origins[name] for name in names))

    @cached_property
    def codes(self) -> dict[str, Cells]:
        """By attribute and recode, the code of each cell."""
        names = [attribute.name for attribute in self.attributes]
        sizes = [attribute.size for attribute in self.attributes]
        codes = dict(zip(names, np.indices(sizes, dtype=np.int32).reshape(len(sizes), -1), strict=True))
        recoded = {recode.name: np.array(recode.codes, np.int32)[codes[recode.attribute]] for recode in self.recodes}
        return codes | recoded


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
Nobody under 18 lives in a nursing facility (the edit constraint)."""

UNITS = Schema(name="units", attributes=(Attribute("occupancy", 2),))
"""Housing units, occupied or vacant (H1)."""

HOUSEHOLDS, OCCUPIED = 0, 0
"""The code of `hhgq` that stands for households, where the others are types of group quarters; and that of occupied
units."""

UNITS_BY_OCCUPANCY = replace(UNITS, bounded="occupancy", rounding=(TOTAL, "occupancy"))
"""The same histogram, with bounds of the occupied and of the vacant units: persons' estimates bound the former."""
