"""The redistricting tables P1 to P5 and H1, cell by cell, as sums of histogram cells. Source: the table shells of the
2020 Census State Redistricting Data (P.L. 94-171) Summary File."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mechanisms.races import RACE_COMBINATIONS, race_label
from mechanisms.topdown.schema import PERSONS, UNITS, Schema

CODES: Mapping[str, Mapping[int, str]] = {
    "hhgq": {
        0: "Household",
        1: "Correctional facilities for adults",
        2: "Juvenile facilities",
        3: "Nursing facilities/Skilled-nursing facilities",
        4: "Other institutional facilities",
        5: "College/University student housing",
        6: "Military quarters",
        7: "Other noninstitutional facilities",
    },
    "hhinstlevels": {0: "Household", 1: "Institutionalized population", 2: "Noninstitutionalized population"},
    "votingage": {0: "Under 18 years", 1: "18 years and over"},
    "hispanic": {0: "Not Hispanic or Latino", 1: "Hispanic or Latino"},
    "cenrace": {code: race_label(races) for code, races in enumerate(RACE_COMBINATIONS)},
    "occupancy": {0: "Occupied", 1: "Vacant"},
}

_NUMBERS = ("one race", "two races", "three races", "four races", "five races", "six races")

_Cells = NDArray[np.bool_]
_Path = tuple[str, ...]
_Row = tuple[_Path, _Cells]


@dataclass(frozen=True)
class TableCell:
    """A cell of a table, the sum of the `counted` histogram cells, shape (cells of the histogram,). It has a standard
    name, such as `P0010001`, and the labels of the cells that contain it, from the table's total, and its own label. A
    label of a cell with parts ends in `:`."""

    name: str
    path: _Path
    counted: _Cells = field(repr=False, compare=False)

    @property
    def label(self) -> str:
        """The standard label, such as `!!Total:!!Population of one race:!!White alone`."""
        return "".join(f"!!{part}" for part in self.path)


@dataclass(frozen=True)
class RedistrictingTable:
    """A table, `P1` to `P5` or `H1`. Its cells, in the standard order with the total first, are leaves, which are
    disjoint, and sums of leaves."""

    name: str
    title: str
    universe: str
    schema: Schema
    cells: tuple[TableCell, ...]

    @cached_property
    def leaves(self) -> tuple[TableCell, ...]:
        parents = {cell.path[:-1] for cell in self.cells}
        return tuple(cell for cell in self.cells if cell.path not in parents)

    @cached_property
    def leaf_of(self) -> NDArray[np.int64]:
        """Shape (cells of the histogram,): the position of the leaf that counts each histogram cell; -1 for none."""
        counted = np.array([leaf.counted for leaf in self.leaves])
        return np.where(counted.any(axis=0), counted.argmax(axis=0), -1)

    def add_leaves(self, leaves: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """The counts of all cells in some places, from those of the leaves, shape (leaves, places)."""
        counts = dict(zip((leaf.path for leaf in self.leaves), leaves, strict=True))
        # The parts of a cell come after it.
        for cell in reversed(self.cells):
            if whole := cell.path[:-1]:
                counts[whole] = counts[whole] + counts[cell.path] if whole in counts else counts[cell.path]
        return [counts[cell.path] for cell in self.cells]


def _codes(name: str) -> NDArray[np.int32]:
    return PERSONS.marginal(name).cells


def _by_race(path: _Path, counted: _Cells) -> Iterator[_Row]:
    numbers = np.array([len(races) for races in RACE_COMBINATIONS])[_codes("cenrace")]
    several = (*path, "Population of two or more races:")
    for number, words in enumerate(_NUMBERS, 1):
        if number == 2:
            yield several, counted & (numbers > 1)
        place = (*(path if number == 1 else several), f"Population of {words}:")
        yield place, counted & (numbers == number)
        for code, races in enumerate(RACE_COMBINATIONS):
            if len(races) == number:
                yield (*place, race_label(races)), counted & (_codes("cenrace") == code)


def _race(counted: _Cells) -> Iterator[_Row]:
    total = ("Total:",)
    yield total, counted
    yield from _by_race(total, counted)


def _hispanic_by_race(counted: _Cells) -> Iterator[_Row]:
    hispanic = _codes("hispanic") == 1
    yield ("Total:",), counted
    yield ("Total:", "Hispanic or Latino"), counted & hispanic
    rest = ("Total:", "Not Hispanic or Latino:")
    yield rest, counted & ~hispanic
    yield from _by_race(rest, counted & ~hispanic)


def _group_quarters() -> Iterator[_Row]:
    yield ("Total:",), _codes("hhgq") > 0
    for level in (1, 2):
        kind = ("Total:", f"{CODES['hhinstlevels'][level]}:")
        yield kind, _codes("hhinstlevels") == level
        for code in np.unique(_codes("hhgq")[_codes("hhinstlevels") == level]):
            yield (*kind, CODES["hhgq"][int(code)]), _codes("hhgq") == code


def _occupancy() -> Iterator[_Row]:
    yield ("Total:",), np.ones(UNITS.size, dtype=bool)
    for code, words in CODES["occupancy"].items():
        yield ("Total:", words), UNITS.marginal("occupancy").cells == code


def _table(name: str, title: str, universe: str, schema: Schema, rows: Iterator[_Row]) -> RedistrictingTable:
    stem = f"{name[0]}{int(name[1:]):03}"
    cells = tuple(TableCell(f"{stem}{number:04}", path, counted) for number, (path, counted) in enumerate(rows, 1))
    return RedistrictingTable(name, title, universe, schema, cells)


_EVERYBODY = np.ones(PERSONS.size, dtype=bool)
_ADULTS = _codes("votingage") == 1
_BY_RACE = "Hispanic or Latino, and not Hispanic or Latino by race"
_GROWN = "population 18 years and over"
_IN_QUARTERS = "Group quarters population by major group quarters type"

REDISTRICTING: Mapping[str, RedistrictingTable] = {
    table.name: table
    for table in (
        _table("P1", "Race", "Total population", PERSONS, _race(_EVERYBODY)),
        _table("P2", _BY_RACE, "Total population", PERSONS, _hispanic_by_race(_EVERYBODY)),
        _table("P3", f"Race for the {_GROWN}", f"Total {_GROWN}", PERSONS, _race(_ADULTS)),
        _table("P4", f"{_BY_RACE} for the {_GROWN}", f"Total {_GROWN}", PERSONS, _hispanic_by_race(_ADULTS)),
        _table("P5", _IN_QUARTERS, "Population in group quarters", PERSONS, _group_quarters()),
        _table("H1", "Occupancy status", "Housing units", UNITS, _occupancy()),
    )
}
