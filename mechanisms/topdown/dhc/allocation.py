"""ρ of every query of the DHC at every level, as in the Census Bureau's production code for the United States and for
Puerto Rico. Numbers are ten-thousandths."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TypeVar

import numpy as np

from mechanisms.topdown.allocation import Allocation, AllocationError, allocate
from mechanisms.topdown.dhc.households import HOUSEHOLDS, UNITS
from mechanisms.topdown.dhc.persons import PERSONS
from mechanisms.topdown.schema import DETAILED, Schema

Parts = TypeVar("Parts", tuple[int, int, int, int], tuple[int, ...])

LEVELS = (
    "US",
    "State",
    "County",
    "Prim",
    "Tract_Subset_Group",
    "Tract_Subset",
    "Block_Group",
    "Block",
)
"""The levels from the widest to the finest; Puerto Rico's begin with State. A prim is the part of a county in one
county subdivision and one place; tract subsets lie in one tract and one prim."""

PERSON_QUERIES = (
    "age_18_64_116 * relgq_4_groups",
    "age_18_64_116 * sex",
    "age_38_groups * sex",
    "hispanic * sex",
    "sex * relgq_4_groups",
    "gq_constr_groups * age_10_groups",
    "popSehsdTargetsRelship",
    "hispanic * sex * age_40_groups * relship_and_eight_level_GQ * cenrace",
    "relgq * age_40_groups * hispanic * cenrace * sex",
    DETAILED,
)

HOUSEHOLD_QUERIES = (
    "multig * hisp * hhtenshort_2lev",
    "hisp * hhtenshort_2lev",
    "hisp * hhtenshort_2lev * race",
    "partner_type_detailed_own_child_status * sex * hhtenshort_2lev",
    "coupled_hh_type * hisp * hhtenshort_2lev",
    "sex * hisp * hhtenshort_3lev * race * DetailedCoupleTypeMultGenDetOwnChildSize",
    "sex * hisp * hhtenshort_3lev * race * hhage * DetailedCoupleTypeMultGenDetOwnChildSize",
    "hhtenshort_3lev * hhage * DetailedCoupleTypeMultGenDetOwnChildSize",
    DETAILED,
)


def count_times(schema: Schema, query: str) -> int:
    """The number of times that ρ of a query counts for a change of one person."""
    if schema.name != PERSONS.name:
        return {UNITS.name: 2, HOUSEHOLDS.name: 4}[schema.name]
    alone, together = schema.marginal(query).find(np.array([0, schema.size // schema.attributes[0].size]))
    return 1 if alone == together else 3


def divide(
    schema: Schema, queries: Sequence[str], parts: Mapping[str, Sequence[int]], unit: Fraction = Fraction(1, 10**4)
) -> Allocation:
    """The allocation with the given ρ of each query, by level, in multiples of `unit`. Raises AllocationError for a
    level without ρ."""
    if empty := [level for level, of_level in parts.items() if not sum(of_level)]:
        raise AllocationError(f"the level {empty[0]} has no ρ")
    total = sum(sum(of_level) for of_level in parts.values())
    return allocate(
        schema,
        total * unit,
        {level: Fraction(sum(of_level), total) for level, of_level in parts.items()},
        {
            level: {query: Fraction(part, sum(of_level)) for query, part in zip(queries, of_level, strict=True) if part}
            for level, of_level in parts.items()
        },
    )


def _persons(parts: Mapping[str, tuple[int, int, int, int]]) -> Allocation:
    """From ρ by level of the first query, of `gq_constr_groups`, of `popSehsdTargetsRelship` and of every other."""
    return divide(
        PERSONS,
        PERSON_QUERIES,
        {level: (first, *[own] * 4, quarters, kin, *[own] * 3) for level, (first, quarters, kin, own) in parts.items()},
    )


def _households(parts: Mapping[str, tuple[int, ...]]) -> tuple[Allocation, Allocation]:
    """Households and units, from ρ by level of the households' queries and of the units'."""
    return (
        divide(HOUSEHOLDS, HOUSEHOLD_QUERIES, {level: of_level[:-1] for level, of_level in parts.items()}),
        divide(UNITS, (DETAILED,), {level: of_level[-1:] for level, of_level in parts.items()}),
    )


def _name_levels(*parts: Parts) -> dict[str, Parts]:
    return dict(zip(LEVELS[-len(parts) :], parts, strict=True))


PERSON_ALLOCATION = _persons(
    _name_levels(
        (73, 292, 73, 73),
        (999, 3996, 999, 999),
        (310, 1240, 1240, 310),
        (478, 1912, 478, 478),
        (478, 1912, 478, 478),
        (868, 3472, 3472, 868),
        (430, 430, 430, 430),
        (11, 11, 11, 11),
    )
)
"""Persons of the United States: ρ = 24811/5000."""

PERSON_ALLOCATION_OF_PUERTO_RICO = _persons(
    _name_levels(
        (1009, 4045, 1011, 1011),
        (320, 1280, 1280, 320),
        (490, 1961, 490, 490),
        (490, 1961, 490, 490),
        (878, 3512, 3512, 878),
        (446, 446, 446, 446),
        (11, 11, 11, 11),
    )
)
"""Persons of Puerto Rico."""

_HOMES = _households(
    _name_levels(
        (792, 212, 212, 792, 792, 257, 257, 212, 1049, 259),
        (714, 193, 191, 1428, 714, 3216, 3216, 193, 3931, 3216),
        (986, 266, 1500, 1972, 3944, 1380, 1380, 266, 1380, 1380),
        (973, 214, 1500, 1946, 973, 973, 973, 214, 973, 973),
        (973, 214, 1500, 1946, 973, 973, 973, 214, 973, 973),
        (1150, 310, 1750, 2300, 4601, 1610, 1610, 310, 1610, 1610),
        (291, 78, 442, 581, 1162, 407, 407, 78, 407, 407),
        (11, 3, 17, 22, 44, 15, 15, 3, 15, 15),
    )
)
HOUSEHOLD_ALLOCATION = _HOMES[0]
"""Households of the United States: ρ = 15401/2000 together with units."""

UNIT_ALLOCATION = _HOMES[1]
"""Units of the United States."""

_HOMES_OF_PUERTO_RICO = _households(
    _name_levels(
        (748, 202, 200, 1496, 748, 3368, 3368, 202, 4117, 3364),
        (1041, 281, 1584, 2082, 4164, 1457, 1457, 281, 1457, 1457),
        (1054, 232, 1624, 2107, 1054, 1054, 1054, 232, 1054, 1054),
        (1054, 232, 1624, 2107, 1054, 1054, 1054, 232, 1054, 1054),
        (1205, 325, 1833, 2410, 4820, 1687, 1687, 325, 1687, 1687),
        (346, 93, 526, 691, 1382, 484, 484, 93, 484, 484),
        (11, 3, 17, 22, 44, 15, 15, 3, 15, 15),
    )
)
HOUSEHOLD_ALLOCATION_OF_PUERTO_RICO = _HOMES_OF_PUERTO_RICO[0]
"""Households of Puerto Rico."""

UNIT_ALLOCATION_OF_PUERTO_RICO = _HOMES_OF_PUERTO_RICO[1]
"""Units of Puerto Rico."""
