"""The eight finished tables of the S-DHC: their cells, and the measured basis cells that each cell is made of.

The table shells are those of Sexton et al., Tables 1 to 8. `estimation` and `averages` estimate the cells.
"""

from dataclasses import dataclass

from mechanisms.phsafe.runs import FILES, RUN


@dataclass(frozen=True)
class Part:
    """Basis cells of one run that are added up."""

    run: str
    cells: tuple[int, ...]


@dataclass(frozen=True)
class Cell:
    """A cell of a finished table: a count, or an average.

    Attributes:
        number: in the table, from 1.
        depth: of indentation, from 0.
        per: an average's denominator; None for a count.
        least: the least plausible value of the average: the least number of persons per household or family.
    """

    number: int
    label: str
    depth: int
    counted: Part
    per: Part | None = None
    least: int = 0


@dataclass(frozen=True)
class Shell:
    """A finished table, `PH1` to `PH8`; the universe is what it describes."""

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

SHELL = {shell.name: shell for shell in SHELLS}


def list_measured_labels(name: str) -> dict[int, str]:
    """By number, the labels of the cells of a file of measurements: those of the finished tables made of them."""
    return {cell: _label(FILES[name].run, parts) for cell, parts in FILES[name].cells.items()}


def _label(run: str, measured: tuple[int, ...]) -> str:
    """The label of some measured cells: that of the smallest finished cell that counts them, below those around it."""
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
