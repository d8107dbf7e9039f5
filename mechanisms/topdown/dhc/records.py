"""The codes of published microdata, by code of the histograms' attributes: the layouts of the 2020 privacy-protected
microdata files of persons and units. Source: the writers of the Census Bureau's production code."""

from collections.abc import Mapping

from mechanisms.topdown.dhc.households import TYPES, Couple, HouseholdType
from mechanisms.topdown.dhc.persons import MAJOR_TYPE, QUARTERS, RELATIONSHIPS

INSTITUTIONS = 4
"""The major types of group quarters from 1 up to this one are institutional."""

PLACE = {"TABBLKST": (1, 2), "TABBLKCOU": (3, 3), "TABTRACTCE": (6, 6), "TABBLKGRPCE": (12, 1), "TABBLK": (12, 4)}
"""The columns of a block, by their first character in its code and their length."""


def list_relationships() -> list[Mapping[str, str]]:
    """By `relgq`: the residence and relationship of a person."""
    rows = list[Mapping[str, str]]()
    for code in range(len(RELATIONSHIPS)):
        relationship = 20 if code < 2 else 19 + code
        alone = "1" if code == 0 else "2"
        rows.append({"RTYPE": "3", "GQTYPE": "000", "RELSHIP": str(relationship), "LIVE_ALONE": alone})
    for quarters, major in zip(QUARTERS, MAJOR_TYPE[1:], strict=True):
        relationship = 37 if major <= INSTITUTIONS else 38
        rows.append({"RTYPE": "5", "GQTYPE": str(quarters), "RELSHIP": str(relationship), "LIVE_ALONE": "0"})
    return rows


def list_households() -> list[Mapping[str, str | int]]:
    """By sex of the householder and `hhtype_dhch`: the traits of a household."""
    return [{"sex": sex, "type": code, **_describe(each, sex)} for sex in range(2) for code, each in enumerate(TYPES)]


def _describe(each: HouseholdType, sex: int) -> Mapping[str, str | int]:
    return {
        "HHSIZE": each.size,
        "HHT": str(_household_type(each, sex)),
        "HHT2": f"{_household_type_2(each, sex):02}",
        "CPLT": "0" if each.size == 1 else str(int(each.couple) or 5),
        "UPART": "0" if each.size == 1 else str(_partners(each, sex)),
        "MULTG": "0" if each.size <= 2 else str(1 + each.multigenerational),
        "PAOC": str(int(each.own) or 4),
        "PAC": str(int(each.others) or 4),
        "TP18": str(int(each.minors)),
    }


def _household_type(each: HouseholdType, sex: int) -> int:
    if each.married:
        return 1
    if each.relatives:
        return 2 + sex
    return (4 if each.size == 1 else 5) + 2 * sex


def _household_type_2(each: HouseholdType, sex: int) -> int:
    if each.couple:
        return (1 if each.married else 3) + (not each.own)
    first = 5 if sex else 9
    if each.size == 1:
        return first
    if each.own:
        return first + 1
    return first + (2 if each.relatives else 3)


def _partners(each: HouseholdType, sex: int) -> int:
    return {
        Couple.SAME_SEX_COHABITING: (1, 3),
        Couple.OPPOSITE_SEX_COHABITING: (2, 4),
    }.get(each.couple, (5, 5))[sex]


PRESENT = ("000", "100", "110", "111")
"""By `elderly`: whether a person is 60, 65 and 75 or older."""
