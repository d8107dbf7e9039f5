"""What PHSafe counts: population groups, levels of them, and the nine runs with their basis cells.

This module defines the names and numbers that the runs, their output files and the finished tables share. The SQL in
`sql/phsafe` assigns records to cells; `design` gives the loss of a run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property


class Geography(StrEnum):
    """A geographic summary level."""

    NATION = "nation"
    STATE = "state"

    @property
    def region_type(self) -> str:
        return "USA" if self is Geography.NATION else "STATE"


class Iterations(StrEnum):
    """A set of disjoint race and ethnicity iterations: no record belongs to two of them."""

    ALL = "*"
    RACE = "A-G"
    ETHNICITY = "H,I"

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(_CODES[self])


_CODES = {Iterations.ALL: "*", Iterations.RACE: "ABCDEFG", Iterations.ETHNICITY: "HI"}

ITERATIONS = {
    "*": "Total population",
    "A": "White alone",
    "B": "Black or African American alone",
    "C": "American Indian and Alaska Native alone",
    "D": "Asian alone",
    "E": "Native Hawaiian and Other Pacific Islander alone",
    "F": "Some Other Race alone",
    "G": "Two or More Races",
    "H": "Hispanic or Latino",
    "I": "White alone, not Hispanic or Latino",
}
"""Iteration codes and their meanings (Section 2.2)."""


@dataclass(frozen=True)
class Level:
    """A population group level: every region of a geographic level with every iteration of a set (Section 2.3)."""

    geography: Geography
    iterations: Iterations

    def regions(self, states: Sequence[str]) -> tuple[str, ...]:
        """Identifiers of the level's regions in ascending order: the nation's, or the states' FIPS codes."""
        return (NATION_ID,) if self.geography is Geography.NATION else tuple(sorted(states))

    @property
    def name(self) -> str:
        """The level's name in declarations of budgets, such as `nation_A-G`."""
        return f"{self.geography.value}_{self.iterations.value}"


LEVELS = tuple(Level(geography, iterations) for geography in Geography for iterations in Iterations)
"""All six population group levels, the nation's first."""


class Iterated(StrEnum):
    """Whose race and ethnicity determine the iteration of a record."""

    HOUSEHOLDER = "householder"
    PERSON = "person"
    NOBODY = "nobody"
    """The run has the iteration `*` only."""


@dataclass(frozen=True)
class Run:
    """One of PHSafe's independent queries (Algorithms 1 and 2).

    Attributes:
        counts: "persons" joined with their units under a truncation threshold, or "units".
        cells: numbers of the basis cells. Every counted record is in exactly one.
    """

    name: str
    counts: str
    iterated: Iterated
    cells: tuple[int, ...]

    @property
    def joins(self) -> bool:
        return self.counts == "persons"

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        if self.iterated is Iterated.NOBODY:
            return tuple(level for level in LEVELS if level.iterations is Iterations.ALL)
        return LEVELS

    def stability(self, truncation: int | None) -> int:
        """Δ, the most records that adding or removing one person can change: 2τ + 2 joined (Lemma 6), or 2 units."""
        if self.joins != (truncation is not None):
            raise ValueError(f"{self.name} counts {self.counts}, so its truncation is not {truncation}")
        return 2 if truncation is None else 2 * truncation + 2


RUNS = (
    Run("PH1_num", "persons", Iterated.HOUSEHOLDER, (2, 3)),
    Run("PH1_denom", "units", Iterated.HOUSEHOLDER, (1,)),
    Run("PH2", "persons", Iterated.NOBODY, (3, 4, 6, 7, 9, 10, 12, 13)),
    Run("PH3", "persons", Iterated.PERSON, (2, 4, 5, 6, 7, 9, 10)),
    Run("PH4", "persons", Iterated.HOUSEHOLDER, (2, 3)),
    Run("PH5_denom", "units", Iterated.HOUSEHOLDER, (1,)),
    Run("PH6", "persons", Iterated.NOBODY, (*range(3, 7), *range(8, 12), *range(13, 17), *range(18, 22))),
    Run("PH7", "persons", Iterated.HOUSEHOLDER, (2, 3, 4)),
    Run("PH8_denom", "units", Iterated.HOUSEHOLDER, (2, 3)),
)
"""The nine runs, in the order of the tables that they supply."""

RUN = {run.name: run for run in RUNS}


@dataclass(frozen=True)
class MeasuredFile:
    """A file of measurements: those of a run, or sums of them. As post-processing, sums cost nothing (Section 6.4.1).

    Attributes:
        cells: by cell of the file, the cells of the run that are added up.
    """

    name: str
    run: str
    cells: Mapping[int, tuple[int, ...]]


_FILES = (
    *(MeasuredFile(run.name, run.name, {cell: (cell,) for cell in run.cells}) for run in RUNS),
    MeasuredFile("PH5_num", "PH4", {2: (2,), 3: (3,)}),
    MeasuredFile("PH8_num", "PH7", {2: (2, 3), 3: (4,)}),
)

FILES = {file.name: file for file in sorted(_FILES, key=lambda file: (file.name[:3], file.name[4:] != "num"))}
"""The eleven files of production by name, numerators before denominators."""

NATION_ID = "1"
