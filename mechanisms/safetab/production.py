"""The budgets and thresholds of the 2020 Census, for SafeTab-P and SafeTab-H.

Source: the production configurations of SafeTab-P 5.0.0 (`NMFv7-2020`) and SafeTab-H 3.0.0 (`NMFv5`), and their
published losses: Bailie, Gong and Meng, Table 4.
"""

from collections.abc import Mapping
from fractions import Fraction

from mechanisms.safetab.design import Key, Pair
from mechanisms.safetab.details import HOUSEHOLD_TABLES
from mechanisms.safetab.lists import LEVELS
from mechanisms.safetab.regions import RegionType

ZERO_SUPPRESSION_CHANCE = Fraction(9999, 10_000)
"""The chance with which the total of an empty group below the state is suppressed."""

STAGE_1_SHARE = Fraction(1, 10)
"""γ, the part of a budget that chooses the detail."""

PAIRS: tuple[Pair, ...] = tuple((region_type, level) for region_type in RegionType for level in LEVELS)


def _budget(pair: Pair, level_1: str, level_2: str, level_2_below: str) -> Fraction:
    """The budget of level 1, which AIANNH areas have none of, or of level 2 for the nation and states, or below."""
    region_type, level = pair
    if level == 2:
        return Fraction(level_2 if region_type.detailed else level_2_below)
    return Fraction(0 if region_type is RegionType.AIANNH else level_1)


BUDGETS_P: Mapping[Key, Fraction] = {pair: _budget(pair, "0.008", "2.134", "0.159") for pair in PAIRS}
"""ρ of SafeTab-P for unbounded neighbors."""

BUDGETS_H: Mapping[Key, Fraction] = {
    (*pair, family): _budget(pair, "0.006915", "1.9208", "0.142869") for family in HOUSEHOLD_TABLES for pair in PAIRS
}
"""ρ of SafeTab-H for unbounded neighbors."""

_LEVEL_2_BELOW = (971, 4971, 19_971)


def _thresholds_p(pair: Pair) -> tuple[int, ...]:
    if pair[1] == 1:
        return (4971, 19_971, 149_971)
    return (471, 971, 6971) if pair[0].detailed else _LEVEL_2_BELOW


def _thresholds_t3(pair: Pair) -> tuple[int, ...]:
    region_type, level = pair
    if level == 2 or region_type.detailed:
        return _thresholds_p(pair)
    # 149,970 instead of 149,971 is so in the configuration.
    return _LEVEL_2_BELOW if region_type is RegionType.AIANNH else (4971, 19_971, 149_970)


THRESHOLDS_P: Mapping[Key, tuple[int, ...]] = {pair: _thresholds_p(pair) for pair in PAIRS}

THRESHOLDS_H: Mapping[Key, tuple[int, ...]] = {
    (*pair, family): _thresholds_t3(pair)[: len(tables) - 1]
    for family, tables in HOUSEHOLD_TABLES.items()
    for pair in PAIRS
}
"""The thresholds of SafeTab-H, on totals of T1: three of T3, and of T4 the first of these."""

MARGINS: Mapping[Pair, int] = {pair: 50 if pair[1] == 1 else 3 if pair[0].detailed else 11 for pair in PAIRS}
"""The targets for the 95% margin of error of one measurement of stage 2, or of one basis cell."""
