"""Planning: the budgets of the 2020 Census, the budget that a margin of error requires, and the detail to expect.

A declaration gives some lines, by their names, budgets and others margins of error; both become the budgets of a design
here. The margin is that of one published measurement: a total or a cell of SafeTab-P's stage 2, or a basis cell of
SafeTab-H.

A margin m means that the noise is beyond ±m in at most one draw in twenty. For the discrete Gaussian, the planned
margin is m = z·σ with z = 1.96 and σ² = Δ/2b, as for the continuous one; the exact margin is an integer near it. For
the discrete Laplace, margins and budgets follow from the exact distribution. Source: SafeTab-H's error report.

Sources of budgets and thresholds: the production configurations of SafeTab-P 5.0.0 (`NMFv7-2020`) and SafeTab-H 3.0.0
(`NMFv5`), and their published losses: Bailie, Gong and Meng, Table 4.
"""

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, TypeVar

from mechanisms.design import LARGEST_BUDGET, DesignError
from mechanisms.noise import Noise
from mechanisms.safetab.design import LARGEST_VARIANCE, Key, Measured, Pair, format_label, noise_of_measurement
from mechanisms.safetab.details import HOUSEHOLD_TABLES, cells
from mechanisms.safetab.lists import LEVELS, RegionType
from mechanisms.sampling.quantiles import Uncapped, laplace_budget, noise_sum

Z = Fraction(196, 100)
"""The normal distribution's 97.5% quantile, to two decimals."""

COVERAGE = Fraction(95, 100)
"""The share of draws within a margin of error."""

PLACES = 6
"""The default decimals of a budget that is computed from a margin."""

_LINE = re.compile(r"(?P<region_type>[A-Z-]+) (?P<level>[12])(?: (?P<family>T[34]))?")

V = TypeVar("V")


def budget_for_margin(
    noise: Noise, stability: int, margin: Fraction, stage_1_share: Fraction = Fraction(0), places: int = PLACES
) -> Fraction:
    """The budget that a 95% margin of error m requires; γ is the `stage_1_share` of SafeTab-P. ρ = z²Δ/(2m²(1 − γ)),
    rounded to the given decimals (half to even), which reproduces the production budgets. ε is the least multiple of
    the last decimal for which the exact margin is not above m. Raises ValueError if the margin is not positive, or ρ
    would round to 0."""
    if margin <= 0:
        raise ValueError("a margin of error must be greater than 0")
    unit = Fraction(1, 10**places)
    if noise is Noise.LAPLACE:
        return laplace_budget(stability, math.floor(margin), COVERAGE, unit * (1 - stage_1_share)) / (1 - stage_1_share)
    budget = round(Z**2 * stability / (2 * margin**2 * (1 - stage_1_share)) / unit) * unit
    if not budget:
        raise ValueError(
            f"a margin of {float(margin):g} takes a ρ that rounds to 0 at {places} decimals; "
            "ask for a smaller margin, or give the budget itself"
        )
    return budget


def read_lines(field: str, given: Mapping[str, V], *, with_tables: bool) -> dict[Key, V]:
    """The values of lines by key instead of name. A key of SafeTab-H includes a family of tables. Raises DesignError if
    a line does not exist, lacks its family, or names a family that it cannot have."""
    values: dict[Key, V] = {}
    for line, value in given.items():
        match = _LINE.fullmatch(line)
        if match is None or match["region_type"] not in set(RegionType):
            kinds = ", ".join(RegionType)
            raise DesignError(
                f"{field}: {line!r} is not a line such as TRACT 2 (in SafeTab-H: TRACT 2 T3); region types are {kinds} "
                "and levels 1 and 2"
            )
        pair, family = (RegionType(match["region_type"]), int(match["level"])), match["family"]
        if family and not with_tables:
            raise DesignError(f"{field}: {line}: SafeTab-P has no tables {family}")
        if with_tables and not family:
            raise DesignError(f"{field}: {line}: say which tables: {line} T3, or {line} T4")
        values[(*pair, family) if family else pair] = value
    return values


def complete_budgets(
    noise: Noise,
    stabilities: Mapping[Pair, int],
    budgets: Mapping[Key, Fraction],
    margins: Mapping[Key, Fraction],
    stage_1_share: Fraction = Fraction(0),
) -> dict[Key, Fraction]:
    """The budgets of lines of which some have a budget and others a 95% margin of error. Raises DesignError if a line
    has both, or has no groups, or no budget within bounds meets a margin."""
    if not 0 <= stage_1_share < 1:
        raise DesignError(f"stage_1_share: the number is above 0 and below 1, not {stage_1_share}")
    completed = dict(budgets)
    for key, margin in margins.items():
        field, pair = f"moe: {format_label(key)}", key[:2]
        if key in budgets:
            raise DesignError(
                f"{field}: a line has a budget or a margin of error, not both, and budgets names this one too"
            )
        if pair not in stabilities:
            raise DesignError(
                f"{field}: there are no regions of this type in the declared states, or no groups in them"
            )
        try:
            budget = budget_for_margin(noise, stabilities[pair], margin, stage_1_share)
        except ValueError as error:
            raise DesignError(f"{field}: {error}") from None
        if budget > LARGEST_BUDGET:
            raise DesignError(
                f"{field}: a margin of {float(margin):g} takes {noise.symbol} = {float(budget):g}, which leaves hardly "
                f"any noise; the most is {LARGEST_BUDGET}"
            )
        least = (min(stage_1_share, 1 - stage_1_share) or 1) * budget
        if noise_of_measurement(noise, stabilities[pair], least).exact_variance > LARGEST_VARIANCE:
            raise DesignError(
                f"{field}: a margin of {float(margin):g} takes noise of a variance above {LARGEST_VARIANCE:,}"
            )
        completed[key] = budget
    return completed


class Chances(NamedTuple):
    """The probabilities of details 0 to 3, and of being published, of a group that is not measured as a total only."""

    details: tuple[float, ...]
    published: float


def chances(measured: Measured, size: int) -> Chances:
    """The chances of a group of some true size, with errors below 10^−12. The noises of the two stages are independent,
    so a total is suppressed with the product of the probabilities of detail 0 and of noise of at most c − n."""
    below = [_at_most(measured.stage_1, threshold - 1 - size) for threshold in measured.thresholds]
    details = tuple(upper - lower for lower, upper in pairwise([0.0, *below, 1.0]))
    if measured.cut_off is None:
        return Chances(details, 1.0)
    return Chances(details, 1 - details[0] * _at_most(measured.stage_2, measured.cut_off - size))


def expect_numbers_of_empty_group(measured: Measured) -> float:
    """The expected number of published numbers of an empty group of SafeTab-P that is not a total only. Nearly all
    groups of small regions are empty, so this determines the size of a release."""
    details, published = chances(measured, 0)
    detailed = sum(chance * cells(detail) for detail, chance in enumerate(details) if detail)
    return published - (1 - details[0]) + detailed


def _at_most(noise: Uncapped, value: int) -> float:
    """P(X <= value). The variance of a design's noise is small enough for a table in steps of 1."""
    table = noise_sum(noise, 1)
    if abs(value) > table.reach:
        return float(value > 0)
    return float(table.cumulative[value + table.reach] / table.cumulative[-1])


ZERO_SUPPRESSION_CHANCE = Fraction(9999, 10_000)
"""The chance with which the total of an empty group below the state is suppressed."""

STAGE_1_SHARE = Fraction(1, 10)
"""γ, the part of a budget that chooses the detail."""

PAIRS: tuple[Pair, ...] = tuple((region_type, level) for region_type in RegionType for level in LEVELS)


def _budget(pair: Pair, level_1: str, level_2: str, level_2_below: str) -> Fraction:
    """The budget of level 1 (none for AIANNH areas), of level 2 for the nation and states, or of level 2 below."""
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
    # The configuration has 149,970, not 149,971.
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
