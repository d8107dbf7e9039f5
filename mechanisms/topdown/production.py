"""The allocations of the 2020 Census's redistricting release, as exact shares.

`design` has the noise that follows from them. Source: the parameter files that the Census Bureau published with its
production code for P.L. 94-171 (United States, persons and units), and Bailie, Gong and Meng, Section 4.
"""

from fractions import Fraction

from mechanisms.topdown.design import allocate
from mechanisms.topdown.schema import PERSONS, UNITS

LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
"""The geographic levels of production, from the widest to the finest."""

_PERSON_QUERIES = (
    "total", "cenrace", "hispanic", "votingage", "hhinstlevels", "hhgq", "hispanic * cenrace", "votingage * cenrace",
    "votingage * hispanic", "votingage * hispanic * cenrace", "detailed",
)  # fmt: skip


def _shares(denominator: int, *numerators: int) -> tuple[Fraction, ...]:
    return tuple(Fraction(numerator, denominator) for numerator in numerators)


_PERSON_SHARES = {
    "US": _shares(4097, 0, 52, 26, 26, 26, 26, 130, 130, 26, 442, 3213),
    "State": _shares(4097, 3773, 6, 6, 6, 6, 6, 12, 12, 6, 34, 230),
    "County": _shares(4097, 3126, 10, 10, 10, 10, 10, 28, 28, 10, 101, 754),
    "Tract": _shares(4102, 1567, 8, 5, 5, 5, 5, 1933, 20, 5, 67, 482),
    "Block_Group": _shares(4099, 1705, 3, 3, 3, 3, 3, 1055, 9, 3, 24, 1288),
    "Block": _shares(4097, 5, 9, 5, 5, 5, 5, 21, 21, 5, 71, 3945),
}

PERSON_ALLOCATION = allocate(
    PERSONS,
    Fraction(542, 339) ** 2,
    dict(zip(LEVELS, _shares(4099, 104, 1440, 447, 687, 1256, 165), strict=True)),
    {
        level: {query: share for query, share in zip(_PERSON_QUERIES, shares, strict=True) if share}
        for level, shares in _PERSON_SHARES.items()
    },
)
"""Persons: ρ = 2.56. The nation's `total` is not measured: it is the sum of the states' totals, which are invariant."""

UNIT_ALLOCATION = allocate(
    UNITS,
    Fraction(3379, 12343) ** 2,
    dict(zip(LEVELS, _shares(4100, 20, 20, 350, 1456, 1759, 495), strict=True)),
    {level: {"detailed": Fraction(1)} for level in LEVELS},
)
"""Units: ρ = 0.07, all for counts of occupied and vacant units."""
