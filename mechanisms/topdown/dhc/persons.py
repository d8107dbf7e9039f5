"""Persons in the DHC: by relationship or group-quarters type, sex, single year of age, Hispanic origin and race. All
cells of a redistricting count are cells of one `REDISTRICTING` marginal."""

from collections.abc import Sequence

import numpy as np

from mechanisms.topdown.schema import Attribute, Recode, Schema

RELATIONSHIPS = (
    "Householder, living alone",
    "Householder, not living alone",
    "Opposite-sex spouse",
    "Opposite-sex unmarried partner",
    "Same-sex spouse",
    "Same-sex unmarried partner",
    "Biological child",
    "Adopted child",
    "Stepchild",
    "Brother or sister",
    "Parent",
    "Grandchild",
    "Parent-in-law",
    "Son-in-law or daughter-in-law",
    "Other relative",
    "Roommate or housemate",
    "Foster child",
    "Other nonrelative",
)
"""The relationships of persons in households, by their code of `relgq`."""

HOUSEHOLD_CODES = len(RELATIONSHIPS)
"""The codes of `relgq` from this one up are types of group quarters."""

QUARTERS = (101, 102, 103, 104, 105, 106, 201, 202, 203, 301, 401, 402, 403, 404, 405, 501, 601, 602, 701, 801, 802,
            900, 901, 997)  # fmt: skip
"""The types of group quarters, by their census codes; 997 combines the types 702, 704, 706, 903 and 904."""

_MAJOR = (6, 3, 1, 5, 1, 2, 6)
"""The number of these types in each major type, in the order of the redistricting data's `hhgq` from 1."""

MAJOR_TYPE = (0, *np.repeat(np.arange(1, 8), _MAJOR).tolist())
"""The major type of each type of group quarters, counted from 1; households are 0."""

OLDEST = 115


def _relationships(*groups: Sequence[int]) -> tuple[int, ...]:
    """The code of each of the 42 relationships and types: the position of the group that has it."""
    return tuple(next(number for number, group in enumerate(groups) if code in group) for code in range(42))


def _ages(*first: int) -> tuple[int, ...]:
    """The code of each age: the position of its interval, whose first ages are given."""
    return tuple((np.searchsorted(first, np.arange(OLDEST + 1), side="right") - 1).tolist())


_HOUSEHOLD = [[code] for code in range(18)]
_BY_MAJOR_TYPE = [range(18, 24), range(24, 27), range(27, 28), range(28, 33), range(33, 34), range(34, 36)]
_FIVE_YEARS = (*range(25, 61, 5), 62, 65, 67, *range(70, 111, 5))

_SPAN = range(OLDEST + 1)

PERSONS = Schema(
    name="persons",
    attributes=(
        Attribute("relgq", 42),
        Attribute("sex", 2),
        Attribute("age", OLDEST + 1),
        Attribute("hispanic", 2),
        Attribute("cenrace", 63),
    ),
    recodes=(
        Recode("relgq_4_groups", "relgq", _relationships(range(2), range(2, 18), range(18, 33), range(33, 42))),
        Recode("popSehsdTargetsRelship", "relgq", _relationships(*_HOUSEHOLD, range(18, 42))),
        Recode("relship_and_eight_level_GQ", "relgq", _relationships(*_HOUSEHOLD, *_BY_MAJOR_TYPE, range(36, 42))),
        Recode("hhgq8lev", "relgq", _relationships(range(18), *_BY_MAJOR_TYPE, range(36, 42))),
        Recode("gqlevels", "relgq", _relationships(range(18), *([code] for code in range(18, 42)))),
        Recode(
            "gq_constr_groups",
            "relgq",
            _relationships(
                range(18), [32], range(18, 23), [33, *range(37, 42)], [23, 31, 34, 35], [*range(24, 31), 36]
            ),
        ),
        Recode("votingage", "age", _ages(0, 18)),
        Recode("age_18_64_116", "age", _ages(0, 18, 65)),
        Recode("age_10_groups", "age", _ages(0, 3, 15, 16, 17, 18, 20, 25, 30, 35)),
        Recode("age_40_groups", "age", _ages(*range(19), 20, *_FIVE_YEARS)),
        Recode("age_38_groups", "age", _ages(*range(16), 18, 20, *_FIVE_YEARS)),
    ),
    impossible=(
        {"relgq": range(6), "age": _SPAN[:15]},
        {"relgq": range(6, 9), "age": _SPAN[90:]},
        {"relgq": (10, 12), "age": _SPAN[:30]},
        {"relgq": 11, "age": _SPAN[75:]},
        {"relgq": 13, "age": (*_SPAN[:15], *_SPAN[90:])},
        {"relgq": 16, "age": _SPAN[21:]},
        {"relgq": range(18, 23), "age": _SPAN[:15]},
        {"relgq": (23, 31, 34, 35), "age": (*_SPAN[:17], *_SPAN[66:])},
        {"relgq": range(24, 27), "age": _SPAN[26:]},
        {"relgq": 27, "age": _SPAN[:20]},
        {"relgq": 32, "age": (*_SPAN[:3], *_SPAN[31:])},
        {"relgq": 33, "age": (*_SPAN[:16], *_SPAN[66:])},
        {"relgq": (37, 38), "age": _SPAN[:16]},
        {"relgq": 39, "age": (*_SPAN[:16], *_SPAN[76:])},
    ),
)
"""1,227,744 cells, of which 905,184 are possible. Production's code also has a rule for type 901 (`relgq` 40), which
its configuration omits."""

REDISTRICTING = "hhgq8lev * votingage * hispanic * cenrace"
"""The query whose answers are the redistricting data's histogram of persons, cell by cell in its order."""

QUARTERS_TYPES = "gqlevels"
"""Households, and the types of group quarters."""
