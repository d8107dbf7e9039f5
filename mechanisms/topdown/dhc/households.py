"""Households and units in the DHC. A household has one of 522 types; an occupied unit is counted once among the
households and once among the units, which also include vacant units and group quarters."""

from dataclasses import dataclass
from enum import IntEnum
from itertools import product

from mechanisms.topdown.schema import Attribute, Recode, Schema

LARGEST = 7
"""The size that stands for seven persons and more."""


class Couple(IntEnum):
    """The couple in a household, by the sexes of both and whether they are married."""

    NONE, OPPOSITE_SEX_MARRIED, SAME_SEX_MARRIED, OPPOSITE_SEX_COHABITING, SAME_SEX_COHABITING = range(5)


class Children(IntEnum):
    """Children under 18, by age."""

    NONE, UNDER_6, FROM_6, BOTH = range(4)


_NEEDED = {Children.NONE: 0, Children.UNDER_6: 1, Children.FROM_6: 1, Children.BOTH: 2}
_PARTS = {
    Children.NONE: set[Children](),
    Children.UNDER_6: {Children.UNDER_6},
    Children.FROM_6: {Children.FROM_6},
    Children.BOTH: {Children.UNDER_6, Children.FROM_6},
}


@dataclass(frozen=True)
class HouseholdType:
    """Size; whether three generations live together; the couple of the householder; whether relatives live in the
    household; the householder's own children under 18; all children under 18 except householder, spouse and partner;
    and whether a person is under 18."""

    size: int
    multigenerational: bool
    couple: Couple
    relatives: bool
    own: Children
    others: Children
    minors: bool

    @property
    def married(self) -> bool:
        return self.couple in (Couple.OPPOSITE_SEX_MARRIED, Couple.SAME_SEX_MARRIED)

    @property
    def exists(self) -> bool:
        """Whether persons can form such a household."""
        rest = self.size - 1 - (self.couple > 0)
        own, others = _NEEDED[self.own], _NEEDED[self.others]
        children = own + 1 if own else 1 + max(1, others)
        return (
            _PARTS[self.own] <= _PARTS[self.others]
            and (self.minors or not self.others)
            and (self.relatives or not (self.married or self.own or self.multigenerational))
            and (rest >= 1 or not (self.couple and not self.married and self.relatives))
            and (self.size > 1 or not self.relatives)
            and rest >= others
            and (not self.multigenerational or rest >= max(children, others))
            and not (self.multigenerational and not self.couple and not self.others and self.minors)
        )

    @property
    def rank(self) -> tuple[int, ...]:
        """Types are numbered in this order."""
        couples = [int(self.couple == couple) for couple in (4, 3, 2, 1)]
        own = [int(not self.own), int(self.own > 0), *(int(self.own == code) for code in (3, 2, 1))]
        others = [int(not self.others), int(self.others > 0), *(int(self.others == code) for code in (3, 2, 1))]
        return (
            int(not self.couple), int(self.size > 1), *couples, int(not self.relatives), int(self.relatives), *own,
            *others, int(self.minors), int(self.multigenerational), self.size,
        )  # fmt: skip


def _list_types() -> tuple[HouseholdType, ...]:
    booleans = (False, True)
    combinations = product(range(1, LARGEST + 1), booleans, Couple, booleans, Children, Children, booleans)
    types = (HouseholdType(*combination) for combination in combinations)
    return tuple(sorted((each for each in types if each.exists), key=lambda each: each.rank))


TYPES = _list_types()
"""All types of households, by rank: a type's position is its number."""


def _number(keys: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The position of each type's key among all keys that occur, in ascending order."""
    positions = {key: position for position, key in enumerate(sorted(set(keys)))}
    return tuple(positions[key] for key in keys)


_U60, _A60, _A65, _A75 = (0, 1, 2, 3, 4), (5,), (6,), (7, 8)
"""Ages of the householder: under 60, 60 to 64, 65 to 74, and 75 and over."""

_MALE, _FEMALE = 0, 1

_Combination = dict[str, int | tuple[int, ...]]


def _impossible(code: int, each: HouseholdType) -> list[_Combination]:
    """The householder's sex and age with the oldest person's age that cannot be of a type."""
    both, own_under_6 = each.own == Children.BOTH, each.own in (Children.UNDER_6, Children.BOTH)
    only_minors = (
        each.size == 1
        or (each.size == 2 and (each.own > 0 or each.others > 0))
        or (each.size == 3 and not each.couple and both)
    )
    found: list[_Combination] = []
    if only_minors:
        found.append({"hhage": _U60, "elderly": (1, 2, 3)})
    if only_minors or (each.size == 2 and each.minors):
        found += [
            {"hhage": _A60, "elderly": (0, 2, 3)},
            {"hhage": _A65, "elderly": (0, 1, 3)},
            {"hhage": _A75, "elderly": (0, 1, 2)},
        ]
    if each.size == 1 and each.minors:
        found.append({"hhage": tuple(range(1, 9))})
    if each.couple and (each.size == 2 or (each.size == 3 and each.own > 0) or (each.size == 4 and both)):
        found.append({"hhage": 0, "elderly": 3})
    if own_under_6:
        found += [{"sex": _MALE, "hhage": _A75}, {"sex": _FEMALE, "hhage": _A60 + _A65 + _A75}]
    elif each.own:
        found.append({"sex": _FEMALE, "hhage": _A75})
    return [{"hhtype_dhch": code, **combination} for combination in found]


_COUPLES = (Couple.NONE, Couple.SAME_SEX_MARRIED, Couple.OPPOSITE_SEX_MARRIED, Couple.SAME_SEX_COHABITING,
            Couple.OPPOSITE_SEX_COHABITING)  # fmt: skip
_BY_OWN_CHILDREN = (Children.UNDER_6, Children.NONE, Children.FROM_6, Children.BOTH)


def _recode(name: str, codes: tuple[int, ...]) -> Recode:
    return Recode(name, "hhtype_dhch", codes)


HOUSEHOLDS = Schema(
    name="households",
    attributes=(
        Attribute("sex", 2),
        Attribute("hhage", 9),
        Attribute("hisp", 2),
        Attribute("race", 7),
        Attribute("elderly", 4),
        Attribute("hhtenshort_3lev", 3),
        Attribute("hhtype_dhch", len(TYPES)),
    ),
    recodes=(
        Recode("hhtenshort_2lev", "hhtenshort_3lev", (0, 0, 1)),
        _recode("multig", tuple(int(each.multigenerational) for each in TYPES)),
        _recode("coupled_hh_type", tuple((2, 1, 4, 3, 0).index(each.couple) for each in TYPES)),
        _recode(
            "partner_type_detailed_own_child_status",
            _number(
                [(int(each.couple > 0) + int(each.couple > 2), _BY_OWN_CHILDREN.index(each.own)) for each in TYPES]
            ),
        ),
        _recode(
            "DetailedCoupleTypeMultGenDetOwnChildSize",
            _number(
                [(_COUPLES.index(each.couple), int(each.multigenerational), int(each.own), each.size) for each in TYPES]
            ),
        ),
    ),
    impossible=(
        {"hhage": _A60, "elderly": 0},
        {"hhage": _A65, "elderly": (0, 1)},
        {"hhage": _A75, "elderly": (0, 1, 2)},
        *(combination for code, each in enumerate(TYPES) for combination in _impossible(code, each)),
    ),
)
"""1,578,528 cells, of which 1,111,572 are possible: of the householder, sex, age (15 to 24, 25 to 34, 35 to 44, 45 to
54, 55 to 59, 60 to 64, 65 to 74, 75 to 84, 85 and over), Hispanic origin and race (each alone; two or more); the oldest
person's age (under 60, 60 to 64, 65 to 74, 75 and over); tenure (owned with a mortgage, owned free and clear, not
owned); and the type."""

TENURE = "hhtenshort_3lev"

ORIGIN_AND_RACE = "hisp * race"
"""The householder's origin and race, in the order of the redistricting data's persons."""

UNITS = Schema(
    name="units",
    attributes=(Attribute("tenvacgq", 35),),
    recodes=(
        Recode("occupancy_and_gq_types", "tenvacgq", (*[0] * 4, *[1] * 7, *range(2, 26))),
        Recode("tenure_3lev", "tenvacgq", (0, 1, 2, 2, *[3] * 31)),
        Recode("tenure_vacant_and_gq_types", "tenvacgq", (0, 1, 2, 2, *[3] * 7, *range(4, 28))),
    ),
)
"""Units by tenure (with a mortgage, free and clear, rented, no payment), by kind of vacancy (for rent; rented, not
occupied; for sale; sold, not occupied; seasonal; migrant workers; other), and group quarters by type."""

OCCUPANCY = "occupancy_and_gq_types"
"""Occupied units, vacant units, and the types of group quarters."""

TENURE_AND_OTHERS = "tenure_vacant_and_gq_types"
"""Occupied units by tenure, vacant units, and the types of group quarters."""
