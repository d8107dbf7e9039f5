"""Tables of the DHC, cell by cell, as sums of histogram cells; and median ages.

Sources: the variables of the published tables (names, order and numbers of cells). Where the shells of the technical
documentation were not at hand, rows follow from a table's title and its number of cells: these are not `published`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from mechanisms.races import SIX_RACES
from mechanisms.topdown.dhc.counting import Leaves, Tally
from mechanisms.topdown.dhc.households import HOUSEHOLDS, TYPES, UNITS, Couple, HouseholdType
from mechanisms.topdown.dhc.persons import HOUSEHOLD_CODES, OLDEST, PERSONS, QUARTERS, REDISTRICTING
from mechanisms.topdown.redistricting import REDISTRICTING as REDISTRICTING_TABLES
from mechanisms.topdown.schema import Counts, Schema

Where = Mapping[str, Sequence[int]]
"""By attribute, the codes that count; all codes of other attributes count."""

_Path = tuple[str, ...]
_Row = tuple[_Path, Where]


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its name in the Census Bureau's API, such as `P12_001N`, the labels of the cells that contain
    it and its own, and the records that it counts."""

    name: str
    path: _Path
    where: Where

    @property
    def label(self) -> str:
        """The standard label, such as `!!Total:!!Male:!!Under 5 years`."""
        return "".join(f"!!{part}" for part in self.path)


@dataclass(frozen=True)
class Table:
    """A table of a histogram. Its cells are in the standard order, the total first. `published`: rows are those of the
    published table."""

    name: str
    title: str
    universe: str
    schema: Schema
    cells: tuple[Cell, ...]
    published: bool

    def count(self, counts: Counts, places: int) -> NDArray[np.int64]:
        """The counts of all cells, shape (places, cells)."""
        return count_figures([self.name], counts, places)[self.name]

    @cached_property
    def leaves(self) -> Leaves:
        """Codes of one class are counted by the same cells."""
        classes, members = dict[str, NDArray[np.int64]](), np.ones((1, len(self.cells)), dtype=np.bool_)
        for part in self.schema.attributes:
            if any(part.name in cell.where for cell in self.cells):
                of_cells = np.zeros((part.size, len(self.cells)), dtype=np.bool_)
                for number, cell in enumerate(self.cells):
                    of_cells[list(cell.where.get(part.name, range(part.size))), number] = True
                own, of_code = np.unique(of_cells, axis=0, return_inverse=True)
                classes[part.name] = of_code.ravel()
                members = (members[:, None] & own).reshape(-1, len(self.cells))
        return Leaves(classes, members)


P_L_TABLES = ("P8", "P9", "P10", "P11")
"""The redistricting data's P1 to P4."""


MEDIAN_AGES = ("P13", *(f"P13{letter}" for letter in "ABCDEFGHI"))
"""Both sexes, male, female; and its iterations by race and origin."""


def list_figures(
    names: Sequence[str], counts: Counts, places: int
) -> Iterator[tuple[int, int, dict[str, NDArray[np.int64]]]]:
    """Some places at a time: the first place, the one after the last, and the figures of tables of one histogram by
    name, shape (places, cells). Median ages are in tenths of a year, and -1 where there is no person; halves are
    rounded up."""
    tally = _plan_tally(tuple(names))
    for first, last, figures in tally.count(counts, places):
        of_tables = zip(names, np.split(figures, tally.cells[1:-1], axis=1), strict=True)
        yield first, last, {name: _round_median_ages(own) if name in MEDIAN_AGES else own for name, own in of_tables}


def count_figures(names: Sequence[str], counts: Counts, places: int) -> dict[str, NDArray[np.int64]]:
    """The same for all places."""
    parts = [figures for _, _, figures in list_figures(names, counts, places)]
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


@cache
def _plan_tally(names: tuple[str, ...]) -> Tally:
    found = [_find_leaves(name) for name in names]
    return Tally(found[0][0], [leaves for _, leaves in found])


def _find_leaves(name: str) -> tuple[Schema, Leaves]:
    """The histogram and leaves of a table; for median ages, persons by sex and year of age."""
    if name in P_L_TABLES:
        attributes = {PERSONS.marginal(part.name).parts[0].step: part.name for part in PERSONS.attributes}
        parts = PERSONS.marginal(REDISTRICTING).parts
        classes = {attributes[part.step]: part.code(np.arange(part.size) * part.step) for part in parts}
        cells = REDISTRICTING_TABLES[f"P{int(name[1:]) - 7}"].cells
        return PERSONS, Leaves(classes, np.array([cell.counted for cell in cells]).T)
    if name in MEDIAN_AGES:
        classes = {"sex": np.arange(2), "age": np.arange(OLDEST + 1)}
        ages = np.eye(2 * (OLDEST + 1), dtype=np.bool_)
        for attribute, codes in (find_population(name[3:], PERSONS) if name[3:] else {}).items():
            size = PERSONS.marginal(attribute).size
            classes = {attribute: np.isin(np.arange(size), codes).astype(np.int64), **classes}
            ages = np.concatenate([np.zeros_like(ages), ages])
        return PERSONS, Leaves(classes, ages)
    return DHC_TABLES[name].schema, DHC_TABLES[name].leaves


def find_median_ages(counts: Counts, places: int, iteration: str = "") -> list[tuple[Fraction | None, ...]]:
    """By place, the median age of both sexes, of men and of women, of all persons or of an iteration; None where there
    is no person. Within the year of age of the middle person, persons are spread evenly."""
    parts = [figures for _, _, figures in _plan_tally((f"P13{iteration}",)).count(counts, places)]
    numerators, denominators = (part.tolist() for part in _find_median_ages(np.concatenate(parts)))
    return [
        tuple(Fraction(*parts) if parts[1] else None for parts in zip(*of_place, strict=True))
        for of_place in zip(numerators, denominators, strict=True)
    ]


def _round_median_ages(by_sex_and_age: NDArray[np.int64]) -> NDArray[np.int64]:
    """The median ages in tenths of a year, shape (places, 3); halves are rounded up; -1 where there is no person."""
    numerators, denominators = _find_median_ages(by_sex_and_age)
    some = np.maximum(denominators, 1)
    return np.where(denominators > 0, (20 * numerators + some) // (2 * some), -1)


def _find_median_ages(by_sex_and_age: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """From persons by place, and by sex and year of age, the median ages as fractions, both of the shape (places, 3);
    the denominator is 0 where there is no person."""
    by_sex = by_sex_and_age.reshape(-1, 2, OLDEST + 1)
    persons = np.concatenate([by_sex.sum(axis=1, keepdims=True), by_sex], axis=1)
    until = persons.cumsum(axis=2)
    total = until[..., -1]
    age = ((persons > 0) & (2 * until >= total[..., None])).argmax(axis=2)
    number, up_to = (np.take_along_axis(each, age[..., None], axis=2)[..., 0] for each in (persons, until))
    return 2 * (age + 1) * number + total - 2 * up_to, 2 * number


_SEXES = {"Male:": (0,), "Female:": (1,)}
_TOTAL: _Path = ("Total:",)
_EACH_RACE = {f"{race} alone": (code,) for code, race in enumerate(SIX_RACES)}
_PERSON_RACES = {**_EACH_RACE, "Two or More Races": range(6, 63)}
_HOUSEHOLDER_RACES = {**_EACH_RACE, "Two or More Races": (6,)}
_ORIGINS = {"Not Hispanic or Latino:": (0,), "Hispanic or Latino:": (1,)}
_PLAIN_ORIGINS = {"Not Hispanic or Latino": (0,), "Hispanic or Latino": (1,)}


def _years(first: int, last: int) -> str:
    if last >= OLDEST:
        return f"{first} years and over"
    if first == 0 and last:
        return f"Under {last + 1} years"
    if first == last:
        return "Under 1 year" if not first else f"{first} year{'s' if first > 1 else ''}"
    return f"{first} and {last} years" if last == first + 1 else f"{first} to {last} years"


def _ages(*firsts: int, end: int = OLDEST + 1) -> dict[str, Sequence[int]]:
    """Intervals of ages by label, whose first ages are given."""
    return {_years(a, b - 1): range(a, b) for a, b in zip(firsts, [*firsts[1:], end], strict=True)}


def _split(path: _Path, where: Where, attribute: str, parts: Mapping[str, Sequence[int]]) -> Iterator[_Row]:
    for label, codes in parts.items():
        yield (*path, label), {**where, attribute: codes}


def _by_sex(*rows: tuple[str, Mapping[str, Sequence[int]]], where: Where) -> Iterator[_Row]:
    """The total, and by sex the rows of an attribute."""
    yield _TOTAL, where
    for sex, own in _split(_TOTAL, where, "sex", _SEXES):
        yield sex, own
        for attribute, parts in rows:
            yield from _split(sex, own, attribute, parts)


_AGES_OF_P12 = _ages(0, 5, 10, 15, 18, 20, 21, 22, *range(25, 61, 5), 62, 65, 67, *range(70, 86, 5))
_SINGLE_AGES = _ages(*range(100), 100, 105, 110)

_INSTITUTIONS = {
    "Correctional facilities for adults:": range(101, 107),
    "Juvenile facilities:": range(201, 204),
    "Nursing facilities/Skilled-nursing facilities": (301,),
    "Other institutional facilities:": range(401, 406),
}
_NONINSTITUTIONS = {
    "College/University student housing": (501,),
    "Military quarters:": (601, 602),
    "Other noninstitutional facilities:": (701, 801, 802, 900, 901, 997),
}
_TYPES_OF_QUARTERS = {
    101: "Federal detention centers",
    102: "Federal prisons",
    103: "State prisons",
    104: "Local jails and other municipal confinement facilities",
    105: "Correctional residential facilities",
    106: "Military disciplinary barracks and jails",
    201: "Group homes for juveniles (non-correctional)",
    202: "Residential treatment centers for juveniles (non-correctional)",
    203: "Correctional facilities intended for juveniles",
    401: "Mental (psychiatric) hospitals and psychiatric units in other hospitals",
    402: "Hospitals with patients who have no usual home elsewhere",
    403: "In-patient hospice facilities",
    404: "Military treatment facilities with assigned patients",
    405: "Residential schools for people with disabilities",
    601: "Military quarters",
    602: "Military ships",
    701: "Emergency and transitional shelters (with sleeping facilities) for people experiencing homelessness",
    801: "Group homes intended for adults",
    802: "Residential treatment centers for adults",
    900: "Maritime/merchant vessels",
    901: "Workers' group living quarters and job corps centers",
    997: "Other noninstitutional facilities",
}


def _quarters(codes: Sequence[int]) -> tuple[int, ...]:
    return tuple(HOUSEHOLD_CODES + QUARTERS.index(code) for code in codes)


_IN_QUARTERS = {"relgq": range(HOUSEHOLD_CODES, 42)}


def _by_quarters(*, in_detail: bool) -> Iterator[_Row]:
    """By sex, three ages and type of group quarters: P18 and PCT19."""
    yield _TOTAL, _IN_QUARTERS
    kinds: dict[str, Mapping[str, Sequence[int]]] = {
        "Institutionalized population:": _INSTITUTIONS,
        "Noninstitutionalized population:": _NONINSTITUTIONS,
    }
    for sex, of_sex in _split(_TOTAL, _IN_QUARTERS, "sex", _SEXES):
        yield sex, of_sex
        for age, of_age in _split(sex, of_sex, "age", _ages(0, 18, 65)):
            path = (*age[:-1], f"{age[-1]}:")
            yield path, of_age
            for kind, types in kinds.items():
                every = [code for codes in types.values() for code in codes]
                yield (*path, kind), {**of_age, "relgq": _quarters(every)}
                for label, codes in types.items():
                    inner = (*path, kind, label if in_detail else label.rstrip(":"))
                    yield inner, {**of_age, "relgq": _quarters(codes)}
                    if in_detail and len(codes) > 1:
                        for code in codes:
                            yield (*inner, _TYPES_OF_QUARTERS[code]), {**of_age, "relgq": _quarters([code])}


_MINORS = range(18)
_RELATIVES = {
    "Opposite-sex spouse": (2,),
    "Same-sex spouse": (4,),
    "Opposite-sex unmarried partner": (3,),
    "Same-sex unmarried partner": (5,),
    "Biological child:": (6,),
    "Adopted child:": (7,),
    "Stepchild:": (8,),
    "Grandchild:": (11,),
    "Brother or sister": (9,),
    "Parent": (10,),
    "Parent-in-law": (12,),
    "Son-in-law or daughter-in-law": (13,),
    "Other relatives": (14,),
    "Nonrelatives": (15, 16, 17),
}


def _by_relationship() -> Iterator[_Row]:
    """P17: householders by sex, others by relationship, and children under 18."""
    yield _TOTAL, {}
    homes: _Path = (*_TOTAL, "In households:")
    householders: _Path = (*homes, "Householder:")
    yield homes, {"relgq": range(HOUSEHOLD_CODES)}
    yield householders, {"relgq": (0, 1)}
    for sex, of_sex in _split(householders, {"relgq": (0, 1)}, "sex", _SEXES):
        yield sex, of_sex
        yield (*sex, "Living alone"), {**of_sex, "relgq": (0,)}
        yield (*sex, "Not living alone"), {**of_sex, "relgq": (1,)}
    for path, where in _split(homes, {}, "relgq", _RELATIVES):
        yield path, where
        if path[-1].endswith(":"):
            yield (*path, "Under 18 years"), {**where, "age": _MINORS}
    quarters: _Path = (*_TOTAL, "In group quarters:")
    yield quarters, _IN_QUARTERS
    for label, kinds in (("Institutionalized", _INSTITUTIONS), ("Noninstitutionalized", _NONINSTITUTIONS)):
        every = [code for codes in kinds.values() for code in codes]
        yield (*quarters, f"{label} population"), {"relgq": _quarters(every)}


def _by_origin_and_race(attribute: str, race: str, races: Mapping[str, Sequence[int]]) -> Iterator[_Row]:
    yield _TOTAL, {}
    for path, where in _split(_TOTAL, {}, attribute, _ORIGINS):
        yield path, where
        yield from _split(path, where, race, races)


_TYPE, _TENURE, _OWNED, _RENTED = "hhtype_dhch", "hhtenshort_3lev", (0, 1), (2,)
_TENURES = {"Owner occupied:": _OWNED, "Renter occupied:": _RENTED}

_Condition = Callable[[HouseholdType], bool]


@cache
def _having(*conditions: _Condition) -> tuple[int, ...]:
    """The household types that meet all conditions."""
    return tuple(code for code, each in enumerate(TYPES) if all(condition(each) for condition in conditions))


def _is_family(each: HouseholdType) -> bool:
    return each.relatives


def _is_other_family(each: HouseholdType) -> bool:
    return each.relatives and not each.married


def _is_nonfamily(each: HouseholdType) -> bool:
    return not each.relatives


def _is_alone(each: HouseholdType) -> bool:
    return each.size == 1


def _is_not_alone(each: HouseholdType) -> bool:
    return each.size > 1


def _is_married(each: HouseholdType) -> bool:
    return each.married


def _is_cohabiting(each: HouseholdType) -> bool:
    return each.couple > Couple.SAME_SEX_MARRIED


def _is_single(each: HouseholdType) -> bool:
    return each.couple == Couple.NONE


def _has_own_children(each: HouseholdType) -> bool:
    return each.own > 0


def _has_no_own_children(each: HouseholdType) -> bool:
    return not each.own


_HOUSEHOLDER_SEXES = {"Male householder": (0,), "Female householder": (1,)}
_FAMILY, _OTHER, _NONFAMILY = "Family households:", "Other family:", "Nonfamily households:"


def _by_family() -> Iterator[_Row]:
    """P16."""
    family, nonfamily = (*_TOTAL, _FAMILY), (*_TOTAL, _NONFAMILY)
    yield _TOTAL, {}
    yield family, {_TYPE: _having(_is_family)}
    yield (*family, "Married couple family"), {_TYPE: _having(_is_married)}
    other = {_TYPE: _having(_is_other_family)}
    yield (*family, _OTHER), other
    for path, where in _split((*family, _OTHER), other, "sex", _HOUSEHOLDER_SEXES):
        yield (*path[:-1], f"{path[-1]}, no spouse present"), where
    yield nonfamily, {_TYPE: _having(_is_nonfamily)}
    yield (*nonfamily, "Householder living alone"), {_TYPE: _having(_is_alone)}
    yield (*nonfamily, "Householder not living alone"), {_TYPE: _having(_is_nonfamily, _is_not_alone)}


def _by_elderly() -> Iterator[_Row]:
    """P19."""
    yield _TOTAL, {}
    presence = {"Households with one or more people 65 years and over:": (2, 3),
                "Households with no people 65 years and over:": (0, 1)}  # fmt: skip
    for path, where in _split(_TOTAL, {}, "elderly", presence):
        yield path, where
        yield (*path, "1-person household"), {**where, _TYPE: _having(_is_alone)}
        several = (*path, "2-or-more-person household:")
        yield several, {**where, _TYPE: _having(_is_not_alone)}
        yield (*several, "Family households"), {**where, _TYPE: _having(_is_not_alone, _is_family)}
        yield (*several, "Nonfamily households"), {**where, _TYPE: _having(_is_not_alone, _is_nonfamily)}


def _by_couple() -> Iterator[_Row]:
    """P20."""
    yield _TOTAL, {}
    for label, condition in {
        "Married couple household:": _is_married,
        "Cohabiting couple household:": _is_cohabiting,
    }.items():
        yield (*_TOTAL, label), {_TYPE: _having(condition)}
        yield (*_TOTAL, label, "With own children under 18"), {_TYPE: _having(condition, _has_own_children)}
        yield (*_TOTAL, label, "With no own children under 18"), {_TYPE: _having(condition, _has_no_own_children)}
    for sex, code in {"Male": (0,), "Female": (1,)}.items():
        path = (*_TOTAL, f"{sex} householder, no spouse or partner present:")
        yield path, {"sex": code, _TYPE: _having(_is_single)}
        alone = {"sex": code, _TYPE: _having(_is_alone)}
        yield (*path, "Living alone:"), alone
        yield (*path, "Living alone:", "65 years and over"), {**alone, "hhage": range(6, 9)}
        rows = {
            "With own children under 18": (_has_own_children,),
            "With relatives, no own children under 18": (_is_family, _has_no_own_children),
            "With only nonrelatives present": (_is_nonfamily,),
        }
        for label, conditions in rows.items():
            yield (*path, label), {"sex": code, _TYPE: _having(_is_single, _is_not_alone, *conditions)}


_HOUSEHOLDER_AGES = {
    label: (code,)
    for code, label in enumerate(
        f"Householder {age} years{end}"
        for age, end in (("15 to 24", ""), ("25 to 34", ""), ("35 to 44", ""), ("45 to 54", ""), ("55 to 59", ""),
                         ("60 to 64", ""), ("65 to 74", ""), ("75 to 84", ""), ("85", " and over"))
    )
}  # fmt: skip
_BROAD_AGES = {
    "Householder 15 to 34 years": (0, 1),
    "Householder 35 to 64 years": range(2, 6),
    "Householder 65 years and over": range(6, 9),
}


def _by_family_and_age() -> Iterator[_Row]:
    """P22."""
    yield _TOTAL, {}
    for label, condition in {_FAMILY: _is_family, _NONFAMILY: _is_nonfamily}.items():
        path, where = (*_TOTAL, label), {_TYPE: _having(condition)}
        yield path, where
        yield from _split(path, where, "hhage", _HOUSEHOLDER_AGES)


def _by_tenure(attribute: str, parts: Mapping[str, Sequence[int]]) -> Iterator[_Row]:
    yield _TOTAL, {}
    for path, where in _split(_TOTAL, {}, _TENURE, _TENURES):
        yield path, where
        yield from _split(path, where, attribute, parts)


def _by_tenure_family_and_age() -> Iterator[_Row]:
    """H14."""
    yield _TOTAL, {}
    for tenure, own in _split(_TOTAL, {}, _TENURE, _TENURES):
        yield tenure, own

        def add_ages(path: _Path, where: Where) -> Iterator[_Row]:
            yield path, where
            yield from _split(path, where, "hhage", _BROAD_AGES)

        family, nonfamily = (*tenure, _FAMILY), (*tenure, _NONFAMILY)
        yield family, {**own, _TYPE: _having(_is_family)}
        yield from add_ages((*family, "Married couple family:"), {**own, _TYPE: _having(_is_married)})
        other = {**own, _TYPE: _having(_is_other_family)}
        yield (*family, _OTHER), other
        for label, code in _HOUSEHOLDER_SEXES.items():
            yield from add_ages((*family, _OTHER, f"{label}, no spouse present:"), {**other, "sex": code})
        yield nonfamily, {**own, _TYPE: _having(_is_nonfamily)}
        for label, code in _HOUSEHOLDER_SEXES.items():
            path = (*nonfamily, f"{label}:")
            yield path, {**own, "sex": code, _TYPE: _having(_is_nonfamily)}
            alone = {"Living alone:": _having(_is_alone), "Not living alone:": _having(_is_nonfamily, _is_not_alone)}
            for row, types in alone.items():
                yield from add_ages((*path, row), {**own, "sex": code, _TYPE: types})


def _plain(where: Where, attribute: str, parts: Mapping[str, Sequence[int]]) -> Iterator[_Row]:
    yield _TOTAL, where
    yield from _split(_TOTAL, where, attribute, parts)


_SIZES = {f"{n}-person household": _having(lambda each, n=n: each.size == n) for n in range(1, 7)} | {
    "7-or-more-person household": _having(lambda each: each.size == 7)
}
_VACANT = {
    label: (code,)
    for code, label in enumerate(
        ("For rent", "Rented, not occupied", "For sale only", "Sold, not occupied",
         "For seasonal, recreational, or occasional use", "For migrant workers", "Other vacant"),
        4,
    )
}  # fmt: skip
_OWNERS = {
    "Owned with a mortgage or a loan": (0,),
    "Owned free and clear": (1,),
    "Renter occupied": (2, 3),
}
_COUPLES = (
    ("Married couple household:", Couple.OPPOSITE_SEX_MARRIED, Couple.SAME_SEX_MARRIED),
    ("Cohabiting couple household:", Couple.OPPOSITE_SEX_COHABITING, Couple.SAME_SEX_COHABITING),
)


def _by_kind_of_couple() -> Iterator[_Row]:
    """PCT15."""
    yield _TOTAL, {}
    for label, *couples in _COUPLES:
        path: _Path = (*_TOTAL, label)
        opposite, same = (_having(lambda each, couple=couple: each.couple == couple) for couple in couples)
        yield path, {_TYPE: (*opposite, *same)}
        yield (*path, "Opposite-sex couple"), {_TYPE: opposite}
        of_one_sex = (*path, "Same-sex couple:")
        yield of_one_sex, {_TYPE: same}
        yield from _split(of_one_sex, {_TYPE: same}, "sex", _HOUSEHOLDER_SEXES)
    yield (*_TOTAL, "All other households"), {_TYPE: _having(_is_single)}


_GENERATIONS = {
    "Household has three or more generations": _having(lambda each: each.multigenerational),
    "Household does not have three or more generations": _having(lambda each: not each.multigenerational),
}

ITERATIONS = {
    **dict(zip("ABCDEF", SIX_RACES, strict=True)),
    "G": "Two or More Races",
    "H": "Hispanic or Latino",
    "I": "White alone, not Hispanic or Latino",
    **{letter: f"{race} alone, not Hispanic or Latino" for letter, race in zip("JKLMN", SIX_RACES[1:], strict=True)},
    "O": "Two or More Races, not Hispanic or Latino",
}
"""The populations of a table's iterations by letter: races alone (A to F) etc."""


def find_population(iteration: str, schema: Schema) -> Where:
    """The persons, or the householders, of an iteration."""
    race, origin = ("race", "hisp") if schema is HOUSEHOLDS else ("cenrace", "hispanic")
    races = list((_HOUSEHOLDER_RACES if schema is HOUSEHOLDS else _PERSON_RACES).values())
    if iteration == "H":
        return {origin: (1,)}
    if iteration in "ABCDEFG":
        return {race: races["ABCDEFG".index(iteration)]}
    return {race: races["IJKLMNO".index(iteration)], origin: (0,)}


@dataclass(frozen=True)
class _Shell:
    title: str
    universe: str
    schema: Schema
    rows: Callable[[], Iterator[_Row]]
    iterations: str = ""
    published: bool = True


_SHELLS = {
    "P1": _Shell("Total population", "Total population", PERSONS, lambda: iter([(_TOTAL, {})])),
    "P3": _Shell("Race", "Total population", PERSONS, lambda: _plain({}, "cenrace", _PERSON_RACES)),
    "P4": _Shell("Hispanic or Latino", "Total population", PERSONS, lambda: _plain({}, "hispanic", _PLAIN_ORIGINS)),
    "P5": _Shell(
        "Hispanic or Latino origin by race",
        "Total population",
        PERSONS,
        lambda: _by_origin_and_race("hispanic", "cenrace", _PERSON_RACES),
    ),
    "P12": _Shell(
        "Sex by age for selected age categories",
        "Total population",
        PERSONS,
        lambda: _by_sex(("age", _AGES_OF_P12), where={}),
        "ABCDEFGHI",
    ),
    "P14": _Shell(
        "Sex by single-year age for the population under 20 years",
        "Population under 20 years",
        PERSONS,
        lambda: _by_sex(("age", _ages(*range(20), end=20)), where={"age": range(20)}),
    ),
    "P17": _Shell(
        "Household type (including living alone) by relationship",
        "Total population",
        PERSONS,
        _by_relationship,
        published=False,
    ),
    "P18": _Shell(
        "Group quarters population by sex by age by major group quarters type",
        "Population in group quarters",
        PERSONS,
        lambda: _by_quarters(in_detail=False),
    ),
    "PCT12": _Shell(
        "Sex by single-year age",
        "Total population",
        PERSONS,
        lambda: _by_sex(("age", _SINGLE_AGES), where={}),
        "ABCDEFGHIJKLMNO",
    ),
    "PCT19": _Shell(
        "Group quarters population by sex by age by group quarters type",
        "Population in group quarters",
        PERSONS,
        lambda: _by_quarters(in_detail=True),
        published=False,
    ),
    "P15": _Shell(
        "Hispanic or Latino origin of householder by race of householder",
        "Households",
        HOUSEHOLDS,
        lambda: _by_origin_and_race("hisp", "race", _HOUSEHOLDER_RACES),
        published=False,
    ),
    "P16": _Shell("Household type", "Households", HOUSEHOLDS, _by_family, "ABCDEFGHIJKLMNO"),
    "P19": _Shell(
        "Households by presence of people 65 years and over, household size, and household type",
        "Households",
        HOUSEHOLDS,
        _by_elderly,
        published=False,
    ),
    "P20": _Shell(
        "Household type by relationship, own children under 18 years, and presence of others",
        "Households",
        HOUSEHOLDS,
        _by_couple,
        published=False,
    ),
    "P22": _Shell(
        "Household type by age of householder", "Households", HOUSEHOLDS, _by_family_and_age, published=False
    ),
    "H1": _Shell("Housing units", "Housing units", UNITS, lambda: iter([(_TOTAL, {"tenvacgq": range(11)})])),
    "H3": _Shell(
        "Occupancy status",
        "Housing units",
        UNITS,
        lambda: _plain({"tenvacgq": range(11)}, "tenvacgq", {"Occupied": range(4), "Vacant": range(4, 11)}),
    ),
    "H4": _Shell(
        "Tenure",
        "Occupied housing units",
        UNITS,
        lambda: _plain({"tenvacgq": range(4)}, "tenvacgq", _OWNERS),
    ),
    "H5": _Shell(
        "Vacancy status",
        "Vacant housing units",
        UNITS,
        lambda: _plain({"tenvacgq": range(4, 11)}, "tenvacgq", _VACANT),
    ),
    "H10": _Shell(
        "Tenure by race of householder",
        "Occupied housing units",
        HOUSEHOLDS,
        lambda: _by_tenure("race", _HOUSEHOLDER_RACES),
    ),
    "H12": _Shell(
        "Tenure by household size",
        "Occupied housing units",
        HOUSEHOLDS,
        lambda: _by_tenure(_TYPE, _SIZES),
        "ABCDEFGHI",
    ),
    "H13": _Shell(
        "Tenure by age of householder",
        "Occupied housing units",
        HOUSEHOLDS,
        lambda: _by_tenure("hhage", _HOUSEHOLDER_AGES),
        "ABCDEFGHI",
    ),
    "H14": _Shell(
        "Tenure by household type by age of householder",
        "Occupied housing units",
        HOUSEHOLDS,
        _by_tenure_family_and_age,
    ),
    "PCT14": _Shell(
        "Presence of multigenerational households",
        "Households",
        HOUSEHOLDS,
        lambda: _plain({}, _TYPE, _GENERATIONS),
        published=False,
    ),
    "PCT15": _Shell("Coupled households, by type", "Households", HOUSEHOLDS, _by_kind_of_couple, published=False),
}


def _list_tables() -> Iterator[Table]:
    for name, shell in _SHELLS.items():
        for letter in ("", *shell.iterations):
            population = find_population(letter, shell.schema) if letter else {}
            title = f"{shell.title} ({ITERATIONS[letter]})" if letter else shell.title
            cells = tuple(
                Cell(f"{name}{letter}_{number:03}N", path, {**where, **population})
                for number, (path, where) in enumerate(shell.rows(), 1)
            )
            yield Table(f"{name}{letter}", title, shell.universe, shell.schema, cells, shell.published)


DHC_TABLES: Mapping[str, Table] = {table.name: table for table in _list_tables()}
"""The tables by name, all except P8 to P11 and the median ages of P13."""
