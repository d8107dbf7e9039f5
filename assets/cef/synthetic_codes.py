"""The detailed codes of a synthetic census: which codes there are for each race, and how they are looked up in SQL.

`race_codes_2020.csv` has the codes of race and Hispanic origin of the 2020 Census except 9950, not Hispanic. Its
columns `race` (1 to 6, in the order of `SIX_RACES`) and `hispanic` are facts: the major race, and whether the origin
is Hispanic, that the iterations of level 0 give to a code. They are from the lists with which SafeTab-P was run for
that census (`assets/safetab/lists`). The order of rows is invented: within a race, codes that stand early are frequent.
"""

import csv
from functools import cache
from pathlib import Path
from typing import Any

from assets.cef.detailed_codes import NO_CODE
from mechanisms.races import RACE_COMBINATIONS, SIX_RACES

RACE_CODES_2020 = Path(__file__).with_name("race_codes_2020.csv")

NOT_HISPANIC = "9950"
"""The code in QSPAN of a person who is not Hispanic."""

HISPANIC_LIST = len(SIX_RACES) + 1
"""The number of the list of Hispanic origins, after those of the six races. As races, they are Some Other Race."""

_MULTIPLIERS = (48_271, 69_621, 16_807, 39_373, 742_938, 62_089_911, 630_360_016, 950_706_376, 1_226_874_159)
"""Multipliers for arithmetic modulo the prime 2^31 − 1: one for each list, and two for the further codes of a person. A
word times each of them gives numbers that are used as separate draws."""


@cache
def _codes() -> dict[int, list[str]]:
    """The codes of each list, by its number: the six races without Hispanic origins, then Hispanic origins."""
    lists: dict[int, list[str]] = {number: [] for number in range(1, HISPANIC_LIST + 1)}
    with RACE_CODES_2020.open(newline="") as lines:
        for row in csv.DictReader(lines):
            lists[HISPANIC_LIST if row["hispanic"] == "1" else int(row["race"])].append(row["code"])
    return lists


def code_names() -> dict[str, Any]:
    lists, first = [], 0
    for (number, codes), multiplier in zip(_codes().items(), _MULTIPLIERS, strict=False):
        lists.append({"number": number, "first": first, "size": len(codes), "multiplier": multiplier})
        first += len(codes)
    return {"lists": lists, "extra_multipliers": list(_MULTIPLIERS[HISPANIC_LIST:])}


def code_values() -> dict[str, Any]:
    """The values bound in `cef/synthetic_codes.sql`: all codes, list by list, and the races of each CENRACE as bits."""
    return {
        "codes": [code for codes in _codes().values() for code in codes],
        "combinations": [sum(1 << SIX_RACES.index(race) for race in races) for races in RACE_COMBINATIONS],
        "no_code": NO_CODE,
        "not_hispanic": NOT_HISPANIC,
    }
