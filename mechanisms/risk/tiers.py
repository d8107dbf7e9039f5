"""The tiers of a comparison: the published tables of a block, and the types of records that they count.

Two publications can be compared only within a tier, because finer types or further tables change every measure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

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
FLAGS = np.array(
    [
        sum(1 << SIX_RACES.index(race) for race in races) | ethnicity << len(SIX_RACES)
        for ethnicity in range(2)
        for races in RACE_COMBINATIONS
    ]
)
"""The six races and Hispanic origin of each category, as bits."""

OUTSIDE = -1
"""Stands for the cell of a type that a table does not count."""

AGE_STARTS = (*range(23), 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85)
"""The first ages of the 38 groups of the Census Bureau's reconstruction: single years up to 21, then those of P12."""
YEAR_STARTS = (*range(101), 105, 110)
"""The first ages of the groups of PCT12: single years up to 99, 100 to 104, 105 to 109, and older."""
_P12_STARTS = (0, 5, 10, 15, 18, 20, 21, *AGE_STARTS[22:])
_SEXES = ("male", "female")


@dataclass(frozen=True, eq=False)
class Tier:
    """A tier.

    Attributes:
        frames: the values, in words, of the traits that an attacker knows beforehand.
        tables: by name, the cell of every type, shape (frames, categories); `OUTSIDE` if the table does not count it.
        of_tract: the tables that are published only for the whole tract, if there are any.
        categories: the values, in words, of the traits that an attacker wants to know.
        weights: by name of a table, the amount that a record of each frame adds, shape (frames,); 1 for omitted tables.
        possible: the types that can exist, shape (frames, categories).
        sizes: by frame, the persons of a record; 1 if omitted.
        thresholds: if the tables have the same content in increasing detail, one of which is published for each
            category: the least totals of all but the first.
        of_units: tables of group quarters and housing units, which the tier's records do not cover: by name, the
            values, in words, of their cells. Every method publishes them.
        of_types: whether tables of a block count many types together without distinguishing them; its records may then
            be households, and linear estimates replace reconstruction.
    """

    name: str
    title: str
    frames: tuple[str, ...]
    tables: Mapping[str, NDArray[np.int32]]
    of_tract: "TractTables | None" = None
    categories: tuple[str, ...] = CATEGORIES
    weights: Mapping[str, Counts] = field(default_factory=dict)
    possible: NDArray[np.bool_] | None = None
    sizes: Counts | None = None
    thresholds: tuple[int, ...] = ()
    of_units: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    of_types: bool = False

    def __reduce__(self) -> Any:
        """Another process finds the same tier by its name."""
        return (find_tier, (self.name,)) if TIERS.get(self.name) is self else super().__reduce__()

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

    @cached_property
    def table_of_units(self) -> NDArray[np.int64]:
        """The position of the table of each cell of `of_units`, shape (cells,)."""
        return np.repeat(np.arange(len(self.of_units)), [len(cells) for cells in self.of_units.values()])

    @cached_property
    def rows_by_race(self) -> NDArray[np.int64]:
        """The cells of each row of a table whose columns are races that exclude each other, shape (rows, races): P1,
        or P12A to P12G by sex and age. No rows in other tiers."""
        names = list(self.tables)
        columns = [name for name in names if name[:-1] == "P12" and name[-1] in "ABCDEFG"]
        if not columns and "P1" not in names:
            return np.zeros((0, 0), dtype=np.int64)
        cells = [np.flatnonzero(self.table_of_cell == names.index(name)) for name in columns or ("P1",)]
        return np.stack(cells, axis=1) if columns else np.stack(cells)

    @cached_property
    def weight(self) -> Counts:
        """By table and type, shape (tables, types), the amount that a record adds to its cell."""
        ones = np.ones(len(self.frames), dtype=np.int64)
        of_frames = np.array([self.weights.get(name, ones) for name in self.tables])
        return np.repeat(of_frames, len(self.categories), axis=1)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.frames), len(self.categories)

    @cached_property
    def factors(self) -> NDArray[np.float64]:
        """The amount that a record of each type adds to each cell, shape (cells, frames, categories)."""
        factors = np.zeros((len(self.table_of_cell), self.cells.shape[1]))
        for cells, weight in zip(self.cells, self.weight, strict=True):
            inside = np.flatnonzero(cells != OUTSIDE)
            factors[cells[inside], inside] = weight[inside]
        return factors.reshape(-1, *self.shape)

    @property
    def category_of_cell(self) -> NDArray[np.int64]:
        """For tables with separate cells for each category, the category of each cell, shape (cells,)."""
        widths = [(int(cells.max()) + 1) // len(self.groups) for cells in self.tables.values()]
        return np.concatenate([np.repeat(np.arange(len(self.groups)), width) for width in widths])

    def tabulate(self, histograms: Counts) -> Counts:
        """The counts of all tables, shape (blocks, cells), of histograms, shape (blocks, frames, categories)."""
        types = histograms.reshape(len(histograms), -1)
        counts = np.zeros((len(histograms), len(self.table_of_cell)), dtype=histograms.dtype)
        block, kind = np.nonzero(types)
        for cells, weight in zip(self.cells[:, kind], self.weight[:, kind], strict=True):
            inside = cells != OUTSIDE
            np.add.at(counts, (block[inside], cells[inside]), (types[block, kind] * weight)[inside])
        return counts

    def choose(self, counts: Counts) -> NDArray[np.bool_]:
        """Which cells are published, shape (blocks, cells): for each category, the cells of the table in the detail
        that its total has reached."""
        chosen = np.ones_like(counts, dtype=np.bool_)
        if self.thresholds:
            details, first = np.searchsorted(self.thresholds, counts[:, : len(self.groups)], side="right"), 0
            for detail, cells in enumerate(self.tables.values()):
                of_table = int(cells.max()) + 1
                width = of_table // len(self.groups)
                chosen[:, first : first + of_table] = np.repeat(details == detail, width, axis=1)
                first += of_table
        return chosen

    @property
    def groups(self) -> tuple[str, ...]:
        """The categories that tables count, if not all; these are the first ones."""
        return self.categories[: int(next(iter(self.tables.values())).max()) + 1]


@dataclass(frozen=True)
class TractTables:
    """The tables of a whole tract, which distinguish ages that tables of blocks do not.

    Attributes:
        tables: these tables as a tier of the same types.
        group: by frame, the frame of `coarse` to which it belongs.
        coarse: the tier of the same tables of blocks, with frames that they do not distinguish merged.
        by_group: `tables`, added up to types of `coarse`.
        ages: the number of ages; a frame is a sex and an age.
    """

    tables: Tier
    group: NDArray[np.int64]
    coarse: Tier
    by_group: Tier
    ages: int

    def add_up(self, counts: Counts) -> Counts:
        """Counts of the cells of `by_group`, shape (cells,), from those of `tables`."""
        frames, groups = len(self.tables.frames), len(self.by_group.frames)
        added = np.zeros((len(self.tables.tables), groups), dtype=np.int64)
        np.add.at(added.T, self.group, counts.reshape(-1, frames).T)
        return added.ravel()

    def join(self, histograms: Counts) -> Counts:
        """Histograms of `coarse`, shape (blocks, groups, categories), from those of frames."""
        joined = np.zeros((len(histograms), len(self.coarse.frames), histograms.shape[2]), dtype=np.int64)
        np.add.at(joined.transpose(1, 0, 2), self.group, histograms.transpose(1, 0, 2))
        return joined


_OF_UNITS = {
    "P5": (
        *("correctional facilities for adults", "juvenile facilities", "nursing facilities"),
        *("other institutional facilities", "college housing", "military quarters"),
        "other noninstitutional facilities",
    ),
    "H1": ("occupied", "vacant"),
}
"""The persons of each type of group quarters, and the occupied and vacant housing units."""


def _redistricting(adult: NDArray[np.bool_]) -> dict[str, NDArray[np.int32]]:
    """P1 to P4: race, and race of persons not Hispanic with the total of Hispanic persons; of everyone, and of
    adults."""
    category = np.arange(len(CATEGORIES))
    race, ethnicity = category % RACES, np.minimum(category, RACES)
    tables = {}
    for names, members in ((("P1", "P2"), np.ones_like(adult)), (("P3", "P4"), adult)):
        for name, cells in zip(names, (race, ethnicity), strict=True):
            tables[name] = np.where(members[:, None], cells, OUTSIDE).astype(np.int32)
    return tables


def _select_races() -> list[NDArray[np.bool_]]:
    """The persons of the tables by sex and age, A to O: races alone, two or more races, Hispanic persons, and of
    persons who are not Hispanic, races alone and two or more races."""
    category = np.arange(len(CATEGORIES))
    race, hispanic = category % RACES, category >= RACES
    races = [*(race == number for number in range(len(SIX_RACES))), race >= len(SIX_RACES)]
    return [*races, hispanic, *(members & ~hispanic for members in races)]


def _by_sex_and_age(ages: tuple[int, ...]) -> dict[str, NDArray[np.int32]]:
    """P12, P12A to P12I and P14: sex by age, also of races alone, of two or more races, of Hispanic persons, and of
    White persons who are not Hispanic; and sex by single years under 20. Frames are sex by `ages`, the first ones."""
    starts = np.array(ages)
    group = np.searchsorted(_P12_STARTS, starts, side="right") - 1
    sex = np.arange(len(_SEXES))
    by_group = (sex[:, None] * len(_P12_STARTS) + group).ravel()
    by_year = np.where(starts < 20, sex[:, None] * 20 + np.minimum(starts, 19), OUTSIDE).ravel()
    members = {"P12": np.ones(len(CATEGORIES), dtype=np.bool_)}
    members |= {f"P12{letter}": of_table for letter, of_table in zip("ABCDEFGHI", _select_races(), strict=False)}
    tables = {name: np.where(of_table, by_group[:, None], OUTSIDE) for name, of_table in members.items()}
    tables["P14"] = np.broadcast_to(by_year[:, None], (len(by_year), len(CATEGORIES)))
    return {name: cells.astype(np.int32) for name, cells in tables.items()}


def _of_tract(name: str, ages: tuple[int, ...]) -> Tier:
    """PCT12 and PCT12A to PCT12O: sex by these ages, also by race and ethnicity."""
    frame = np.arange(len(_SEXES) * len(ages))[:, None]
    members = [np.ones(len(CATEGORIES), dtype=np.bool_), *_select_races()]
    names = ["PCT12", *(f"PCT12{letter}" for letter in "ABCDEFGHIJKLMNO")]
    tables = {
        table: np.where(of_table, frame, OUTSIDE).astype(np.int32)
        for table, of_table in zip(names, members, strict=True)
    }
    return Tier(name, "tables of a tract", _name_frames(ages), tables)


def _name_frames(ages: tuple[int, ...]) -> tuple[str, ...]:
    ends = [*(start - 1 for start in ages[1:]), None]
    named = [
        f"{first} or older" if last is None else str(first) if last == first else f"{first} to {last}"
        for first, last in zip(ages, ends, strict=True)
    ]
    return tuple(f"{sex}, {age}" for sex in _SEXES for age in named)


def _summarize(name: str, title: str, ages: tuple[int, ...], of_tract: TractTables | None = None) -> Tier:
    tables = _redistricting(np.tile(np.array(ages) >= 18, len(_SEXES))) | _by_sex_and_age(ages)
    return Tier(name, title, _name_frames(ages), tables, of_tract, of_units=_OF_UNITS)


REDISTRICTING = Tier(
    "T1",
    "redistricting tables",
    ("under 18", "18 or older"),
    _redistricting(np.array([False, True])),
    of_units=_OF_UNITS,
)
"""P1 to P4 of a block, which together determine its number of persons of each type; P5 and H1."""

SUMMARY_FILE = _summarize("T2", "tables of Summary File 1 by sex and age", AGE_STARTS)
"""The tables of T1, P12, P12A to P12I and P14 of a block."""

_GROUPS = np.searchsorted(AGE_STARTS, YEAR_STARTS, side="right") - 1
_BY_YEAR = TractTables(
    _of_tract("T3 of the tract", YEAR_STARTS),
    np.concatenate([sex * len(AGE_STARTS) + _GROUPS for sex in range(len(_SEXES))]),
    SUMMARY_FILE,
    _of_tract("T3 of the tract, by age group", AGE_STARTS),
    len(YEAR_STARTS),
)
WITH_TRACT = _summarize("T3", "the same, and single years of age by tract", YEAR_STARTS, _BY_YEAR)
"""The tables of T2 of a block, and PCT12 and PCT12A to PCT12O of the tract."""

HOUSEHOLD_TYPES = (
    *("married couple with own children", "married couple without"),
    *("cohabiting couple with own children", "cohabiting couple with other relatives", "cohabiting couple, no family"),
    *("man alone", "man with own children", "man with other relatives", "man with others"),
    *("woman alone", "woman with own children", "woman with other relatives", "woman with others"),
)
"""The types of households; a man or woman without a spouse or partner. Own children are under 18."""
_OF_COUPLES_AND_OTHERS = np.array([0, 0, 1, 1, 1, 2, 3, 3, 3, 4, 5, 5, 5])
"""The part of PH2 that each type is in."""
_OF_CHILDREN = np.array([0, OUTSIDE, 1, OUTSIDE, OUTSIDE, OUTSIDE, 2, OUTSIDE, OUTSIDE, OUTSIDE, 3, OUTSIDE, OUTSIDE])
"""The part of PH6 that counts its own children."""
MOST_PERSONS = 10
"""The most persons of a household that PHSafe counts."""
_MOST_CHILDREN = 6
"""The most children of a household that PH3 and PH6 count."""
TENURES = ("mortgage", "owned free and clear", "rented")


def number_household(persons: Counts, minors: Counts, tenure: Counts) -> Counts:
    """The frames of households by their persons, from 1, minors, and tenure."""
    return (persons * (persons + 1) // 2 - 1 + minors) * len(TENURES) + tenure


def _describe_households() -> Tier:
    """PHSafe's tables, by the householder's race and ethnicity: each is a pair of a run and a set of iterations: all
    persons, A to G, or H and I.

    A record is a household, without the relationships of its persons. So all persons of a family count as relatives,
    and all minors of a household with own children as own children. PH3 and PH6 are only for all persons: PH3's
    iterations are those of the children, and PH6 has none.
    """
    frames = [
        (persons, minors, tenure)
        for persons in range(1, MOST_PERSONS + 1)
        for minors in range(persons + 1)
        for tenure in range(len(TENURES))
    ]
    persons, minors, tenure = np.array(frames).T
    kind, ethnicity, race = (
        part.ravel() for part in np.indices((len(HOUSEHOLD_TYPES), 2, len(SIX_RACES) + 1)).astype(np.int64)
    )
    hispanic = ethnicity == 1
    iterations = {
        "*": np.zeros_like(race),
        "A-G": race,
        "H,I": np.where(hispanic, 0, np.where(race == 0, 1, OUTSIDE)),
    }
    family, alone = np.isin(kind, (0, 1, 2, 3, 6, 7, 10, 11)), np.isin(kind, (5, 9))
    of_children = _OF_CHILDREN[kind]
    everybody, ones, whole = np.ones_like(family), np.ones_like(persons), np.zeros_like(persons)
    runs = (
        ("PH1_num, under 18", minors, whole, everybody),
        ("PH1_num, 18 and over", persons - minors, whole, everybody),
        ("PH1_denom", ones, whole, everybody),
        ("PH4, under 18", minors, whole, family),
        ("PH4, 18 and over", persons - minors, whole, family),
        ("PH5_denom", ones, whole, family),
        ("PH7", persons, tenure, everybody),
        ("PH8_denom", ones, tenure // 2, everybody),
    )
    tables, weights = {}, {}
    for name, weight, part, members in runs:
        for code, iteration in iterations.items():
            number = int(iteration.max()) + 1
            cells = np.where(members & (iteration != OUTSIDE), part[:, None] * number + iteration, OUTSIDE)
            tables[f"{name} {code}"], weights[f"{name} {code}"] = cells.astype(np.int32), weight
    children, others = np.minimum(minors, _MOST_CHILDREN), int(of_children.max()) + 1
    for name, weight, of_kind in (
        ("PH2 *", persons, _OF_COUPLES_AND_OTHERS[kind]),
        ("PH3 *", children, np.where(of_children == OUTSIDE, others, of_children)),
        ("PH6 *", children, of_children),
    ):
        tables[name] = np.broadcast_to(of_kind, (len(frames), len(kind))).astype(np.int32)
        weights[name] = weight
    tables = {
        name: np.where(weights[name][:, None] > 0, cells, OUTSIDE).astype(np.int32) for name, cells in tables.items()
    }
    races = [*(f"{race} alone" for race in SIX_RACES), "two or more races"]
    return Tier(
        "T4-households",
        "tables of households by the householder's race and ethnicity",
        tuple(f"{size} persons, {of_them} under 18, {TENURES[number]}" for size, of_them, number in frames),
        tables,
        categories=tuple(
            f"{HOUSEHOLD_TYPES[number]}, {races[of_race]}, {'Hispanic' if of_ethnicity else 'not Hispanic'}"
            for number, of_ethnicity, of_race in zip(kind, hispanic, race, strict=True)
        ),
        weights=weights,
        possible=((persons == 1)[:, None] == alone) & ((minors > 0)[:, None] | (of_children == OUTSIDE)),
        sizes=persons,
        of_types=True,
    )


HOUSEHOLDS = _describe_households()

REGIONAL_GROUPS = (
    *("European", "Middle Eastern or North African", "Other White"),
    *("Sub-Saharan African", "Caribbean", "Other Black or African American"),
    *("Alaska Native", "American Indian", "Canadian Indian and French American Indian", "Central American Indian"),
    *("Mexican Indian", "South American Indian", "Caribbean Indian", "Mesoamerican Indian"),
    *("East Asian", "Central Asian", "South Asian", "Southeast Asian", "Other Asian"),
    *("Polynesian", "Micronesian", "Melanesian"),
)
"""The regional groups of SafeTab for a race alone, in the order of their codes."""
GROUP_AGES = (_P12_STARTS, (0, 18, 45, 65), (0, 5, 18, 25, 35, 45, 55, 65, 75))
"""The first ages of the finest age groups of SafeTab-P, and of those of its first two details."""


def _describe_groups() -> Tier:
    """SafeTab-P's tables of regional groups: the total, or sex by 4, 9 or 23 age groups. Its own thresholds would leave
    only totals of blocks."""
    finest, *_ = GROUP_AGES
    sex, age = (part.ravel() for part in np.indices((len(_SEXES), len(finest))))
    group = np.arange(len(REGIONAL_GROUPS) + 1)
    tables = {"total": np.broadcast_to(group, (len(sex), len(group)))}
    for starts in (*GROUP_AGES[1:], finest):
        cell = sex * len(starts) + (np.searchsorted(starts, np.array(finest), side="right") - 1)[age]
        tables[f"sex by {len(starts)} age groups"] = group * len(_SEXES) * len(starts) + cell[:, None]
    return Tier(
        "T4-groups",
        "totals, or sex by age, of regional groups of race",
        _name_frames(finest),
        {
            name: np.where(group < len(REGIONAL_GROUPS), cells, OUTSIDE).astype(np.int32)
            for name, cells in tables.items()
        },
        categories=(*REGIONAL_GROUPS, "none of these alone"),
        thresholds=(10, 30, 100),
        of_types=True,
    )


DETAILED_GROUPS = _describe_groups()

AGES: Mapping[str, tuple[int, ...]] = {"T2": AGE_STARTS, "T3": YEAR_STARTS, "T4-groups": GROUP_AGES[0]}
"""By name, the first ages of the age groups of tiers whose frames are sexes by age groups."""

TIERS = {tier.name: tier for tier in (REDISTRICTING, SUMMARY_FILE, WITH_TRACT, HOUSEHOLDS, DETAILED_GROUPS)}


def find_tier(name: str) -> Tier:
    return TIERS[name]
