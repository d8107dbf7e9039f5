"""The counts of PHSafe: population groups, their levels, the nine runs with their basis cells, and the finished tables.

These are the names and numbers that the runs, their output files and the eight tables of the S-DHC share. The shells of
the tables are from Sexton et al., Tables 1 to 8. The SQL in `sql/phsafe` assigns records to cells.
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
_GROUPS = {Iterations.ALL: "everybody", Iterations.RACE: "by race", Iterations.ETHNICITY: "by Hispanic origin"}

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
        """The name in declarations of budgets, such as `nation_A-G`."""
        return f"{self.geography.value}_{self.iterations.value}"

    @property
    def words(self) -> str:
        return f"{self.geography.value.capitalize()}, {_GROUPS[self.iterations]}"


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
    """One of PHSafe's independent queries (Algorithms 1 and 2). It counts "persons", joined with their units under a
    truncation threshold, or "units", each in exactly one of its basis cells, which `cells` numbers."""

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
    """A file of measurements of a run, or of sums of them. As post-processing, sums cost nothing (Section 6.4.1). By
    cell of the file, `cells` has the cells of the run that are added up."""

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


@dataclass(frozen=True)
class Part:
    run: str
    cells: tuple[int, ...]


@dataclass(frozen=True)
class Cell:
    """A cell of a finished table: a count, or an average. Numbers in a table begin with 1, depths of indentation with
    0. An average has a denominator, `per`, and the least plausible number of persons per household or family."""

    number: int
    label: str
    depth: int
    counted: Part
    per: Part | None = None
    least: int = 0


@dataclass(frozen=True)
class Shell:
    """A finished table, `PH1` to `PH8`, and the universe that it describes."""

    name: str
    title: str
    universe: str
    cells: tuple[Cell, ...]

    @property
    def runs(self) -> tuple[str, ...]:
        parts = [part for cell in self.cells for part in (cell.counted, cell.per) if part]
        return tuple(dict.fromkeys(part.run for part in parts))

    @property
    def averages(self) -> bool:
        return self.cells[0].per is not None


def _counts(run: str, *rows: tuple[int, str, int, tuple[int, ...]]) -> tuple[Cell, ...]:
    return tuple(Cell(number, label, depth, Part(run, cells)) for number, label, depth, cells in rows)


_AGES = ("Under 4 years", "4 and 5 years", "6 to 11 years", "12 to 17 years")

_FAMILIES = (
    "In married couple family",
    "In cohabiting couple family",
    "In male householder, no spouse or partner present family",
    "In female householder, no spouse or partner present family",
)


def _own_children() -> tuple[Cell, ...]:
    rows = [(1, "Total", 0, RUN["PH6"].cells)]
    for family, first in zip(_FAMILIES, (2, 7, 12, 17), strict=True):
        rows.append((first, family, 1, tuple(range(first + 1, first + 5))))
        rows += [(first + 1 + age, label, 2, (first + 1 + age,)) for age, label in enumerate(_AGES)]
    return _counts("PH6", *rows)


def _by_age(numerator: str, denominator: str, least: int) -> tuple[Cell, ...]:
    per = Part(denominator, RUN[denominator].cells)
    return (
        Cell(1, "Total", 0, Part(numerator, (2, 3)), per, least),
        Cell(2, "Under 18 years", 1, Part(numerator, (2,)), per),
        Cell(3, "18 years and over", 1, Part(numerator, (3,)), per),
    )


SHELLS = (
    Shell("PH1", "Average household size by age", "Households", _by_age("PH1_num", "PH1_denom", 1)),
    Shell(
        "PH2",
        "Household type for the population in households",
        "Population in households",
        _counts(
            "PH2",
            (1, "Total", 0, RUN["PH2"].cells),
            (2, "In married couple household", 1, (3, 4)),
            (3, "Opposite-sex married couple", 2, (3,)),
            (4, "Same-sex married couple", 2, (4,)),
            (5, "In cohabiting couple household", 1, (6, 7)),
            (6, "Opposite-sex cohabiting couple", 2, (6,)),
            (7, "Same-sex cohabiting couple", 2, (7,)),
            (8, "Male householder, no spouse or partner present", 1, (9, 10)),
            (9, "Living alone", 2, (9,)),
            (10, "Living with others", 2, (10,)),
            (11, "Female householder, no spouse or partner present", 1, (12, 13)),
            (12, "Living alone", 2, (12,)),
            (13, "Living with others", 2, (13,)),
        ),
    ),
    Shell(
        "PH3",
        "Household type by relationship for the population under 18 years",
        "Population in households under 18 years",
        _counts(
            "PH3",
            (1, "Total", 0, RUN["PH3"].cells),
            (2, "Householder, spouse, unmarried partner, or nonrelative", 1, (2,)),
            (3, "Own child", 1, (4, 5, 6, 7)),
            *((4 + place, label, 2, (4 + place,)) for place, label in enumerate(_FAMILIES)),
            (8, "Other relatives", 1, (9, 10)),
            (9, "Grandchild", 2, (9,)),
            (10, "Other relatives", 2, (10,)),
        ),
    ),
    Shell(
        "PH4",
        "Population in families by age",
        "Population in families",
        _counts("PH4", (1, "Total", 0, (2, 3)), (2, "Under 18 years", 1, (2,)), (3, "18 years and over", 1, (3,))),
    ),
    Shell("PH5", "Average family size by age", "Families", _by_age("PH4", "PH5_denom", 2)),
    Shell("PH6", "Family type and age for own children under 18 years", "Own children under 18 years", _own_children()),
    Shell(
        "PH7",
        "Total population in occupied housing units by tenure",
        "Population in occupied housing units",
        _counts(
            "PH7",
            (1, "Total", 0, (2, 3, 4)),
            (2, "Owned with a mortgage or a loan", 1, (2,)),
            (3, "Owned free and clear", 1, (3,)),
            (4, "Renter occupied", 1, (4,)),
        ),
    ),
    Shell(
        "PH8",
        "Average household size of occupied housing units by tenure",
        "Occupied housing units",
        (
            Cell(1, "Total", 0, Part("PH7", (2, 3, 4)), Part("PH8_denom", (2, 3)), 1),
            Cell(2, "Owner occupied", 1, Part("PH7", (2, 3)), Part("PH8_denom", (2,)), 1),
            Cell(3, "Renter occupied", 1, Part("PH7", (4,)), Part("PH8_denom", (3,)), 1),
        ),
    ),
)
"""The tables PH1 to PH8."""

SHELL = {shell.name: shell for shell in SHELLS}


def list_measured_labels(name: str) -> dict[int, str]:
    """By number, the labels of the cells of a file of measurements: those of the finished tables made of them."""
    return {cell: _label(FILES[name].run, parts) for cell, parts in FILES[name].cells.items()}


def _label(run: str, measured: tuple[int, ...]) -> str:
    """The label of some measured cells: the label of the smallest finished cell that counts them, after the labels of
    the cells that contain it."""
    labels = []
    for shell in SHELLS:
        above: list[str] = []
        for cell in shell.cells:
            above[cell.depth :] = [cell.label]
            for part, counted in ((cell.counted, ""), (cell.per, shell.universe)):
                if part and part.run == run and set(measured) <= set(part.cells):
                    words = [*([counted] if counted else []), *above[1:]]
                    labels.append((len(part.cells), ": ".join(words) or cell.label))
    return min(labels, key=lambda sized: sized[0])[1]
