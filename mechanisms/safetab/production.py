"""The budgets and thresholds of the 2020 Census, for SafeTab-P and SafeTab-H.

Source: the production configurations of SafeTab-P 5.0.0 (`NMFv7-2020`) and SafeTab-H 3.0.0 (`NMFv5`), and their
published losses: Bailie, Gong and Meng, Table 4.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from mechanisms.noise import Noise
from mechanisms.safetab.design import Pair, SafeTabHDesign, SafeTabPDesign
from mechanisms.safetab.details import HOUSEHOLD_TABLES
from mechanisms.safetab.lists import LEVELS
from mechanisms.safetab.regions import RegionType
from mechanisms.states import PUERTO_RICO

ZERO_SUPPRESSION_CHANCE = Fraction(9999, 10_000)
"""The chance with which the total of an empty group below the state is suppressed."""

STAGE_1_SHARE = Fraction(1, 10)
"""γ, the part of a budget that chooses the detail."""

PUBLISHED_BOUNDED_P = Fraction("19.776")
"""ρ of SafeTab-P for bounded neighbors as published: four times the unbounded one, the general conversion."""

PUBLISHED_BOUNDED_H = Fraction("17.790604")
"""ρ of SafeTab-H for bounded neighbors as published: twice the unbounded one."""

PAIRS: tuple[Pair, ...] = tuple((region_type, level) for region_type in RegionType for level in LEVELS)


def _by_pair(level_1: str, level_2: str, level_2_below: str) -> Mapping[Pair, Fraction]:
    """Budgets of level 1, which AIANNH areas have none of, and of level 2 for the nation and states, and below."""
    return {
        (region_type, level): Fraction(
            (level_2 if region_type.detailed else level_2_below)
            if level == 2
            else 0
            if region_type is RegionType.AIANNH
            else level_1
        )
        for region_type, level in PAIRS
    }


BUDGETS_P: Mapping[Pair, Fraction] = _by_pair("0.008", "2.134", "0.159")
"""ρ of SafeTab-P for unbounded neighbors."""

BUDGETS_H: Mapping[str, Mapping[Pair, Fraction]] = {
    family: _by_pair("0.006915", "1.9208", "0.142869") for family in HOUSEHOLD_TABLES
}
"""ρ of SafeTab-H for unbounded neighbors, of T3 and of T4."""

_LEVEL_1 = (4971, 19_971, 149_971)
_LEVEL_2_STATES = (471, 971, 6971)
_LEVEL_2_BELOW = (971, 4971, 19_971)

THRESHOLDS_P: Mapping[Pair, tuple[int, ...]] = {
    pair: _LEVEL_1 if pair[1] == 1 else _LEVEL_2_STATES if pair[0].detailed else _LEVEL_2_BELOW for pair in PAIRS
}

_THRESHOLDS_T3 = {
    **THRESHOLDS_P,
    # 149,970 instead of 149,971 is so in the configuration.
    **{pair: (4971, 19_971, 149_970) for pair in PAIRS if pair[1] == 1 and not pair[0].detailed},
    (RegionType.AIANNH, 1): _LEVEL_2_BELOW,
}
THRESHOLDS_H: Mapping[str, Mapping[Pair, tuple[int, ...]]] = {
    "T3": _THRESHOLDS_T3,
    "T4": {pair: thresholds[:1] for pair, thresholds in _THRESHOLDS_T3.items()},
}
"""The thresholds of SafeTab-H, on totals of T1."""

MARGINS: Mapping[Pair, int] = {pair: 50 if pair[1] == 1 else 3 if pair[0].detailed else 11 for pair in PAIRS}
"""The targets for the 95% margin of error of one measurement of stage 2, or of one basis cell."""

PLACES_P, PLACES_H = 3, 6
"""The decimals to which the budgets that meet these targets are rounded."""


def production_p(states: Sequence[str], stabilities: Mapping[Pair, int]) -> SafeTabPDesign:
    """SafeTab-P's design of the 2020 Census, for some states.

    Raises:
        DesignError: if a state does not exist or is repeated, or a stability is missing.
    """
    return SafeTabPDesign(
        states=tuple(states),
        noise=Noise.GAUSSIAN,
        stabilities=stabilities,
        budgets=_released(BUDGETS_P, states),
        thresholds=THRESHOLDS_P,
        stage_1_share=STAGE_1_SHARE,
        zero_suppression_chance=ZERO_SUPPRESSION_CHANCE,
    )


def production_h(states: Sequence[str], stabilities: Mapping[Pair, int]) -> SafeTabHDesign:
    """SafeTab-H's design of the 2020 Census, for some states. Arguments and errors are those of `production_p`."""
    return SafeTabHDesign(
        states=tuple(states),
        noise=Noise.GAUSSIAN,
        stabilities=stabilities,
        budgets={family: _released(budgets, states) for family, budgets in BUDGETS_H.items()},
        thresholds=THRESHOLDS_H,
    )


def _released(budgets: Mapping[Pair, Fraction], states: Sequence[str]) -> Mapping[Pair, Fraction]:
    runs = {"PR" if state == PUERTO_RICO else "US" for state in states}
    return {pair: budget for pair, budget in budgets.items() if pair[0].run in runs}
