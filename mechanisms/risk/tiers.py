"""The tiers of a comparison: which tables are published of a block, and which types of records they count.

Two publications can be compared only within a tier, because finer types or further tables change every measure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mechanisms.races import RACE_COMBINATIONS, SIX_RACES, race_label

Counts = NDArray[np.int64]
Shares = NDArray[np.float64]

RACES = len(RACE_COMBINATIONS)
CATEGORIES = tuple(
    f"{race_label(races)}, {words}" for words in ("not Hispanic", "Hispanic") for races in RACE_COMBINATIONS
)
"""Race and ethnicity: first the 63 combinations of races of persons who are not Hispanic."""

OUTSIDE = -1
"""In place of the cell of a type that a table does not count."""

AGE_STARTS = (*range(23), 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85)
"""The first ages of the 38 groups of the Census Bureau's reconstruction: single years up to 21, then those of P12."""
_P12_STARTS = (0, 5, 10, 15, 18, 20, 21, *AGE_STARTS[22:])
_SEXES = ("male", "female")


@dataclass(frozen=True)
class Tier:
    """A tier.

    Attributes:
        frames: the values, in words, of what an attacker knows beforehand.
        tables: by name, the cell of every type, shape (frames, categories); `OUTSIDE` if the table does not count it.
    """

    name: str
    title: str
    frames: tuple[str, ...]
    tables: Mapping[str, NDArray[np.int32]]

    @cached_property
    def cells(self) -> NDArray[np.int32]:
        """By table and type, shape (tables, types), the cell's number among those of all tables; or `OUTSIDE`."""
        numbered, first = [], 0
        for cells in self.tables.values():
            flat = cells.ravel()
            numbered.append(np.where(flat == OUTSIDE, OUTSIDE, flat + first))
            first += int(flat.max()) + 1
        return np.array(numbered, dtype=np.int32)

    @cached_property
    def table_of_cell(self) -> NDArray[np.int64]:
        """The position of each cell's table, shape (cells,)."""
        return np.repeat(np.arange(len(self.tables)), [int(cells.max()) + 1 for cells in self.tables.values()])

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.frames), len(CATEGORIES)

    def tabulate(self, histograms: Counts) -> Counts:
        """The counts of all tables, shape (blocks, cells), of histograms, shape (blocks, frames, categories)."""
        types = histograms.reshape(len(histograms), -1)
        counts = np.zeros((len(histograms), len(self.table_of_cell)), dtype=histograms.dtype)
        for cells in self.cells:
            inside = np.flatnonzero(cells != OUTSIDE)
            np.add.at(counts.T, cells[inside], types.T[inside])
        return counts


def _redistricting(adult: NDArray[np.bool_]) -> dict[str, NDArray[np.int32]]:
    """P1 to P4: race, and race of those not Hispanic beside the total of Hispanic persons; of all, and of adults."""
    category = np.arange(len(CATEGORIES))
    race, ethnicity = category % RACES, np.minimum(category, RACES)
    tables = {}
    for names, members in ((("P1", "P2"), np.ones_like(adult)), (("P3", "P4"), adult)):
        for name, cells in zip(names, (race, ethnicity), strict=True):
            tables[name] = np.where(members[:, None], cells, OUTSIDE).astype(np.int32)
    return tables


def _by_sex_and_age() -> dict[str, NDArray[np.int32]]:
    """P12, P12A to P12I and P14: sex by age, also of races alone, of two or more races, of Hispanic persons, and of
    White persons who are not Hispanic; and sex by single years under 20."""
    starts = np.array(AGE_STARTS)
    group = np.searchsorted(_P12_STARTS, starts, side="right") - 1
    sex = np.arange(len(_SEXES))
    by_group = (sex[:, None] * len(_P12_STARTS) + group).ravel()
    by_year = np.where(starts < 20, sex[:, None] * 20 + np.minimum(starts, 19), OUTSIDE).ravel()
    category = np.arange(len(CATEGORIES))
    race, hispanic = category % RACES, category >= RACES
    members = {"P12": np.ones_like(hispanic)}
    members |= {f"P12{letter}": race == number for number, letter in enumerate("ABCDEF")}
    members |= {"P12G": race >= len(SIX_RACES), "P12H": hispanic, "P12I": (race == 0) & ~hispanic}
    tables = {name: np.where(of_table, by_group[:, None], OUTSIDE) for name, of_table in members.items()}
    tables["P14"] = np.broadcast_to(by_year[:, None], (len(by_year), len(category)))
    return {name: cells.astype(np.int32) for name, cells in tables.items()}


def _name_ages() -> list[str]:
    ends = [*(start - 1 for start in AGE_STARTS[1:]), None]
    return [
        f"{first} or older" if last is None else str(first) if last == first else f"{first} to {last}"
        for first, last in zip(AGE_STARTS, ends, strict=True)
    ]


REDISTRICTING = Tier("T1", "redistricting tables", ("under 18", "18 or older"), _redistricting(np.array([False, True])))
"""P1 to P4 of a block, which together determine how many persons of each type it has."""

SUMMARY_FILE = Tier(
    "T2",
    "tables of Summary File 1 by sex and age",
    tuple(f"{sex}, {age}" for sex in _SEXES for age in _name_ages()),
    _redistricting(np.tile(np.array(AGE_STARTS) >= 18, len(_SEXES))) | _by_sex_and_age(),
)
"""The tables of T1, P12, P12A to P12I and P14 of a block."""

TIERS = {tier.name: tier for tier in (REDISTRICTING, SUMMARY_FILE)}
