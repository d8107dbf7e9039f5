"""The Demographic Profile (DP1): figures of persons, households and housing units, numbered as in the published table.

Its rows are sums of histogram cells, except median ages, the races tallied, and two vacancy rates.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mechanisms.races import RACE_COMBINATIONS, SIX_RACES
from mechanisms.topdown.dhc.counting import Tally
from mechanisms.topdown.dhc.households import HOUSEHOLDS, TYPES, UNITS, Couple, HouseholdType
from mechanisms.topdown.dhc.persons import HOUSEHOLD_CODES, OLDEST, PERSONS, QUARTERS
from mechanisms.topdown.dhc.tables import Cell, Table, Where, count_figures
from mechanisms.topdown.schema import Counts, Schema

PROFILE = "DP1"

TITLE = "Profile of general population and housing characteristics"

Rows = Iterator[tuple[tuple[str, ...], Where]]

_OVER_15 = {f"{age} years and over": range(age, OLDEST + 1) for age in (16, 18, 21, 62, 65)}
_FIRST_AGES = (*range(0, 86, 5), OLDEST + 1)
_RACES = {**{race: (code,) for code, race in enumerate(SIX_RACES)}, "Two or More Races": range(len(SIX_RACES), 63)}
_INSTITUTIONS = 500
"""The codes of institutions are below this."""

_MINORS = range(18)
_OWNERS, _RENTERS = (0, 1), (2, 3)
_FOR_RENT, _RENTED, _FOR_SALE, _SOLD = range(4, 8)


def _label_ages(first: int, end: int) -> str:
    if end > OLDEST:
        return f"{first} years and over"
    return f"{first} to {end - 1} years" if first else f"Under {end} years"


def _by_sex_and_age() -> Rows:
    ages = {_label_ages(*bounds): range(*bounds) for bounds in pairwise(_FIRST_AGES)}
    sexes: dict[str, Where] = {"Total": {}, "Male": {"sex": (0,)}, "Female": {"sex": (1,)}}
    for sex, where in sexes.items():
        label = f"{sex} population"
        yield (label,), where
        for age, codes in ages.items():
            yield (label, age), {**where, "age": codes}
        for age, codes in _OVER_15.items():
            yield (label, "Selected age categories", age), {**where, "age": codes}


def _by_race() -> Rows:
    yield ("Total population",), {}
    yield ("Total population", "One race"), {"cenrace": range(len(SIX_RACES))}
    for race, codes in _RACES.items():
        path = ("One race", race) if len(codes) == 1 else (race,)
        yield ("Total population", *path), {"cenrace": codes}


def _by_race_in_combination() -> Rows:
    for race in SIX_RACES:
        label = f"{race} alone or in combination with one or more other races"
        codes = [code for code, races in enumerate(RACE_COMBINATIONS) if race in races]
        yield ("Total races tallied", label), {"cenrace": codes}


def _by_origin() -> Rows:
    yield ("Total population",), {}
    yield ("Total population", "Hispanic or Latino (of any race)"), {"hispanic": (1,)}
    yield ("Total population", "Not Hispanic or Latino"), {"hispanic": (0,)}


def _by_origin_and_race() -> Rows:
    yield ("Total population",), {}
    for label, code in (("Hispanic or Latino", 1), ("Not Hispanic or Latino", 0)):
        yield ("Total population", label), {"hispanic": (code,)}
        for race, codes in _RACES.items():
            own = f"{race} alone" if len(codes) == 1 else race
            yield ("Total population", label, own), {"hispanic": (code,), "cenrace": codes}


def _by_relationship() -> Rows:
    homes = ("Total population", "In households")
    yield ("Total population",), {}
    yield homes, {"relgq": range(HOUSEHOLD_CODES)}
    for label, codes in {
        "Householder": (0, 1),
        "Opposite-sex spouse": (2,),
        "Same-sex spouse": (4,),
        "Opposite-sex unmarried partner": (3,),
        "Same-sex unmarried partner": (5,),
        "Child": (6, 7, 8),
        "Grandchild": (11,),
        "Other relatives": (9, 10, 12, 13, 14),
        "Nonrelatives": (15, 16, 17),
    }.items():
        yield (*homes, label), {"relgq": codes}
        if label in ("Child", "Grandchild"):
            yield (*homes, label, "Under 18 years"), {"relgq": codes, "age": _MINORS}
    quarters = ("Total population", "In group quarters")
    yield quarters, {"relgq": range(HOUSEHOLD_CODES, HOUSEHOLD_CODES + len(QUARTERS))}
    for label, institutional in (("Institutionalized population", True), ("Noninstitutionalized population", False)):
        own = [HOUSEHOLD_CODES + each for each, kind in enumerate(QUARTERS) if (kind < _INSTITUTIONS) == institutional]
        yield (*quarters, label), {"relgq": own}
        for sex, code in (("Male", 0), ("Female", 1)):
            yield (*quarters, label, sex), {"relgq": own, "sex": (code,)}


def _by_type() -> Rows:
    total = ("Total households",)

    def having(**fields: Sequence[object]) -> Where:
        return {"hhtype_dhch": [code for code, each in enumerate(TYPES) if _has(each, fields)]}

    yield total, {}
    own = tuple(range(1, 4))
    couples = {
        "Married couple household": (Couple.OPPOSITE_SEX_MARRIED, Couple.SAME_SEX_MARRIED),
        "Cohabiting couple household": (Couple.OPPOSITE_SEX_COHABITING, Couple.SAME_SEX_COHABITING),
    }
    for label, kinds in couples.items():
        yield (*total, label), having(couple=kinds)
        yield (*total, label, "With own children under 18"), having(couple=kinds, own=own)
    for sex, code in (("Male", 0), ("Female", 1)):
        path, where = (*total, f"{sex} householder, no spouse or partner present"), {"sex": (code,)}
        alone = {**where, **having(size=(1,))}
        yield path, {**where, **having(couple=(Couple.NONE,))}
        yield (*path, "Living alone"), alone
        yield (*path, "Living alone", "65 years and over"), {**alone, "hhage": range(6, 9)}
        yield (*path, "With own children under 18"), {**where, **having(couple=(Couple.NONE,), own=own)}
    yield (*total, "Households with individuals under 18 years"), having(minors=(True,))
    yield (*total, "Households with individuals 65 years and over"), {"elderly": (2, 3)}


def _has(each: HouseholdType, fields: Mapping[str, Sequence[object]]) -> bool:
    return all(getattr(each, name) in values for name, values in fields.items())


def _by_occupancy() -> Rows:
    total, vacant = ("Total housing units",), ("Total housing units", "Vacant housing units")
    yield total, {"tenvacgq": range(11)}
    yield (*total, "Occupied housing units"), {"tenvacgq": range(4)}
    yield vacant, {"tenvacgq": range(4, 11)}
    for label, codes in {
        "For rent": (_FOR_RENT,),
        "Rented, not occupied": (_RENTED,),
        "For sale only": (_FOR_SALE,),
        "Sold, not occupied": (_SOLD,),
        "For seasonal, recreational, or occasional use": (8,),
        "All other vacants": (9, 10),
    }.items():
        yield (*vacant, label), {"tenvacgq": codes}


def _by_tenure() -> Rows:
    yield ("Occupied housing units",), {"tenvacgq": range(4)}
    yield ("Occupied housing units", "Owner-occupied housing units"), {"tenvacgq": _OWNERS}
    yield ("Occupied housing units", "Renter-occupied housing units"), {"tenvacgq": _RENTERS}


def _name(number: int) -> str:
    return f"{PROFILE}_{number:04}C"


def _section(first: int, title: str, schema: Schema, rows: Rows) -> Table:
    cells = tuple(Cell(_name(number), (title, *path), where) for number, (path, where) in enumerate(rows, first))
    return Table(PROFILE, title, "", schema, cells, published=True)


_SECTIONS = (
    _section(1, "Sex and age", PERSONS, _by_sex_and_age()),
    _section(76, "Race", PERSONS, _by_race()),
    _section(86, "Total races tallied", PERSONS, _by_race_in_combination()),
    _section(92, "Hispanic or Latino", PERSONS, _by_origin()),
    _section(95, "Hispanic or Latino by race", PERSONS, _by_origin_and_race()),
    _section(112, "Relationship", PERSONS, _by_relationship()),
    _section(132, "Households by type", HOUSEHOLDS, _by_type()),
    _section(147, "Housing occupancy", UNITS, _by_occupancy()),
    _section(158, "Housing tenure", UNITS, _by_tenure()),
)

_MEDIAN_AGES = {_name(number): sex for number, sex in enumerate(("Both sexes", "Male", "Female"), 73)}
_TALLIED, _OF_OWNERS, _OF_RENTERS = map(_name, (85, 156, 157))
_RATES = {_OF_OWNERS: "Homeowner vacancy rate (percent)", _OF_RENTERS: "Rental vacancy rate (percent)"}

TENTHS = {**dict.fromkeys(_MEDIAN_AGES, "years"), **dict.fromkeys(_RATES, "percent")}
"""The figures with one decimal, and their units."""

LABELS: Mapping[str, str] = dict(
    sorted(
        {
            **{cell.name: cell.label for section in _SECTIONS for cell in section.cells},
            **{name: f"!!Median age by sex!!{sex}" for name, sex in _MEDIAN_AGES.items()},
            _TALLIED: "!!Total races tallied!!Total races tallied",
            **{name: f"!!Vacancy rates!!{label}" for name, label in _RATES.items()},
        }.items()
    )
)
"""By figure, in order, its label."""


ORDER = tuple(dict.fromkeys(section.schema.name for section in _SECTIONS))
"""The histograms, in the order of the figures that follow from each."""


def find_histogram(name: str) -> str:
    """The histogram that a count follows from."""
    return next(last.schema.name for last in reversed(_SECTIONS) if last.cells[0].name <= name)


def count_profile(histogram: str, counts: Counts, places: int) -> dict[str, NDArray[np.int64]]:
    """The figures that follow from a histogram, shape (places,), in order. Figures of `TENTHS` are in tenths, halves
    rounded up, and -1 where there is no person or unit."""
    cells, tally = _plan_tally(histogram)
    figures = np.concatenate([part for _, _, part in tally.count(counts, places)])
    found = dict(zip(cells, figures.T, strict=True))
    if histogram == PERSONS.name:
        found |= zip(_MEDIAN_AGES, count_figures(["P13"], counts, places)["P13"].T, strict=True)
        found[_TALLIED] = np.sum([found[_name(number)] for number in range(86, 92)], axis=0)
    if histogram == UNITS.name:
        units = counts.answer(UNITS.marginal("tenvacgq"), 0, places)
        found[_OF_OWNERS] = _find_rates(units, _FOR_SALE, (*_OWNERS, _FOR_SALE, _SOLD))
        found[_OF_RENTERS] = _find_rates(units, _FOR_RENT, (*_RENTERS, _FOR_RENT, _RENTED))
    return dict(sorted(found.items()))


@cache
def _plan_tally(histogram: str) -> tuple[list[str], Tally]:
    own = [section for section in _SECTIONS if section.schema.name == histogram]
    return [cell.name for section in own for cell in section.cells], Tally(own[0].schema, [each.leaves for each in own])


def _find_rates(units: NDArray[np.int64], vacant: int, among: Sequence[int]) -> NDArray[np.int64]:
    """The vacant units of a kind, in tenths of a percent of those of several kinds."""
    every = units[:, among].sum(axis=1)
    some = np.maximum(every, 1)
    return np.where(every > 0, (2_000 * units[:, vacant] + some) // (2 * some), -1)
