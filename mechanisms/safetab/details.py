"""The cells that are measured in each detail, for SafeTab-P and for SafeTab-H, and exact counts added up to them.

A group's *detail* (SafeTab's stat level) is the number of thresholds that its size reaches. SafeTab-P, details 0 to 3:
the total, or sex by 4, 9 or 23 age groups. SafeTab-H: one table of household types in details 0 to 3, one of tenures in
details 0 and 1. Source: SafeTab-P's and SafeTab-H's specifications, algorithm.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]

DETAILS = (0, 1, 2, 3)

SEXES = (1, 2)
"""QSEX: male and female."""

OLDEST = 115


def _groups(*first: int) -> tuple[tuple[int, int], ...]:
    return tuple(zip(first, (*(age - 1 for age in first[1:]), OLDEST), strict=True))


AGES: Mapping[int, tuple[tuple[int, int], ...]] = {
    1: _groups(0, 18, 45, 65),
    2: _groups(0, 5, 18, 25, 35, 45, 55, 65, 75),
    3: _groups(0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85),
}
"""By detail, the first and last age of each age group."""

FINEST = len(SEXES) * len(AGES[3])
"""The number of the finest cells of SafeTab-P: a cell's place is (QSEX − 1) · 23 + the age group's place."""


def cells(detail: int) -> int:
    """The number of cells measured in a detail of SafeTab-P: 1, 8, 18 or 46."""
    return len(SEXES) * len(AGES[detail]) if detail else 1


def find_details(totals: Counts, thresholds: Sequence[int]) -> Counts:
    """The detail of each total: the number of thresholds that it reaches. A total equal to a threshold reaches it."""
    return np.searchsorted(np.asarray(thresholds, dtype=np.int64), totals, side="right").astype(np.int64)


def fold(detail: int, counts: Counts) -> Counts:
    """Counts of a detail's cells, for each sex its age groups, from those of the 46 finest; cells are the last axis."""
    if not detail:
        return counts.sum(axis=-1, keepdims=True)
    first = [age for age, _ in AGES[3]]
    starts = [first.index(age) for age, _ in AGES[detail]]
    by_sex = counts.reshape(*counts.shape[:-1], len(SEXES), len(AGES[3]))
    return np.add.reduceat(by_sex, starts, axis=-1).reshape(*counts.shape[:-1], cells(detail))


HOUSEHOLD_TYPES = 5
TENURES = 4
HOUSEHOLD_CELLS = HOUSEHOLD_TYPES * TENURES
"""The number of the finest cells of SafeTab-H: a cell's place is (HOUSEHOLD_TYPE − 1) · 4 + TEN − 1."""


@dataclass(frozen=True)
class HouseholdTable:
    """A table of SafeTab-H. Its `detail` is the number of thresholds that a group must reach; `basis` has the measured
    cells, each with its codes of HOUSEHOLD_TYPE or TEN, and `margins` the cells that are sums of basis cells."""

    name: str
    detail: int
    basis: Mapping[int, tuple[int, ...]]
    margins: Mapping[int, tuple[int, ...]]

    @property
    def family(self) -> str:
        """`T3`, by household type, or `T4`, by tenure."""
        return f"T{int(self.name[1:3])}"

    @property
    def data_cells(self) -> Mapping[int, tuple[int, ...]]:
        """All data cells in order, each with the basis cells that add up to it."""
        return dict(sorted([*((cell, (cell,)) for cell in self.basis), *self.margins.items()]))

    def fold(self, counts: Counts) -> Counts:
        """Counts of the basis cells, in the order of `basis`, from those of the 20 finest; cells are the last axis."""
        table = counts.reshape(*counts.shape[:-1], HOUSEHOLD_TYPES, TENURES).sum(axis=-1 if self.family == "T3" else -2)
        parts = [table[..., [code - 1 for code in codes]] for codes in self.basis.values()]
        return np.stack([part.sum(axis=-1) for part in parts], axis=-1)


T3 = (
    HouseholdTable("T03001", 0, {0: (1, 2, 3, 4, 5)}, {}),
    HouseholdTable("T03002", 1, {1: (1, 2, 3), 6: (4, 5)}, {0: (1, 6)}),
    HouseholdTable("T03003", 2, {2: (1,), 3: (2, 3), 7: (4,), 8: (5,)}, {0: (2, 3, 7, 8), 1: (2, 3), 6: (7, 8)}),
    HouseholdTable(
        "T03004",
        3,
        {2: (1,), 4: (2,), 5: (3,), 7: (4,), 8: (5,)},
        {0: (2, 4, 5, 7, 8), 1: (2, 4, 5), 3: (4, 5), 6: (7, 8)},
    ),
)
"""The tables by household type; a table's place is its detail."""

T4 = (
    HouseholdTable("T04001", 0, {0: (1, 2, 3, 4)}, {}),
    HouseholdTable("T04002", 1, {1: (1,), 2: (2,), 3: (3, 4)}, {0: (1, 2, 3)}),
)
"""The tables by tenure; a table's place is its detail."""

HOUSEHOLD_TABLES: Mapping[str, tuple[HouseholdTable, ...]] = {"T3": T3, "T4": T4}

DATA_CELLS: Mapping[str, Mapping[int, str]] = {
    "T3": {
        0: "Total",
        1: "Family households",
        2: "Married couple family",
        3: "Other family",
        4: "Male householder, no spouse or partner present",
        5: "Female householder, no spouse or partner present",
        6: "Nonfamily households",
        7: "Householder living alone",
        8: "Householder not living alone",
    },
    "T4": {
        0: "Total",
        1: "Owned with a mortgage or a loan",
        2: "Owned free and clear",
        3: "Renter occupied",
    },
}
"""By family of tables, the label of each data cell."""
