"""Lines of a design by their names: `TRACT 2` for SafeTab-P, `TRACT 2 T3` for SafeTab-H.

A declaration names lines in this way, gives some of them budgets and others margins of error, and both become the
budgets of a design here.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import TypeVar

from mechanisms.design import LARGEST_BUDGET, DesignError
from mechanisms.noise import Noise
from mechanisms.safetab.design import (
    LARGEST_VARIANCE,
    Pair,
    noise_of_measurement,
)
from mechanisms.safetab.details import HOUSEHOLD_TABLES
from mechanisms.safetab.planning import budget_for_margin
from mechanisms.safetab.regions import RegionType

_LINE = re.compile(r"(?P<region_type>[A-Z-]+) (?P<level>[12])(?: (?P<family>T[34]))?")

V = TypeVar("V")


def line_of(pair: Pair, family: str = "") -> str:
    return f"{pair[0]} {pair[1]} {family}".rstrip()


def pair_of(field: str, line: str) -> tuple[Pair, str]:
    """The region type and level of a line, and its family of tables; "" if it has none.

    Raises:
        DesignError: if the text names no line.
    """
    found = _LINE.fullmatch(line)
    if found is None or found["region_type"] not in set(RegionType):
        kinds = ", ".join(RegionType)
        raise DesignError(
            f"{field}: {line!r} is no line such as TRACT 2 (in SafeTab-H: TRACT 2 T3); region types are {kinds}, and "
            "levels 1 and 2"
        )
    return (RegionType(found["region_type"]), int(found["level"])), found["family"] or ""


def by_pair(field: str, given: Mapping[str, V]) -> dict[Pair, V]:
    """Values of SafeTab-P's lines."""
    values = {}
    for line, value in given.items():
        pair, family = pair_of(field, line)
        if family:
            raise DesignError(f"{field}: {line}: SafeTab-P has no tables {family}")
        values[pair] = value
    return values


def by_family(field: str, given: Mapping[str, V]) -> dict[str, dict[Pair, V]]:
    """Values of SafeTab-H's lines, by family of tables.

    Raises:
        DesignError: if a line does not exist, or names no family.
    """
    values: dict[str, dict[Pair, V]] = {family: {} for family in HOUSEHOLD_TABLES}
    for line, value in given.items():
        pair, family = pair_of(field, line)
        if not family:
            raise DesignError(f"{field}: {line}: say which tables: {line} T3, or {line} T4")
        values[family][pair] = value
    return values


def budgets_of(
    noise: Noise,
    stabilities: Mapping[Pair, int],
    budgets: Mapping[str, Fraction],
    margins: Mapping[str, Fraction],
    stage_1_share: Fraction = Fraction(0),
) -> dict[str, Fraction]:
    """The budgets of lines of which some have a budget and others a 95% margin of error.

    Raises:
        DesignError: if a line does not exist or has both, or no budget within bounds meets a margin.
    """
    if not 0 <= stage_1_share < 1:
        raise DesignError(f"stage_1_share: the number is above 0 and below 1, not {stage_1_share}")
    found = dict(budgets)
    for line, margin in margins.items():
        pair, _ = pair_of("moe", line)
        if line in budgets:
            raise DesignError(
                f"moe: {line}: a line has a budget or a margin of error, not both, and budgets names this one too"
            )
        if pair not in stabilities:
            raise DesignError(
                f"moe: {line}: there are no regions of this type in the declared states, or no groups in them"
            )
        try:
            budget = budget_for_margin(noise, stabilities[pair], margin, stage_1_share)
        except ValueError as error:
            raise DesignError(f"moe: {line}: {error}") from None
        if budget > LARGEST_BUDGET:
            raise DesignError(
                f"moe: {line}: a margin of {float(margin):g} takes {noise.symbol} = {float(budget):g}, which leaves "
                f"hardly any noise; the most is {LARGEST_BUDGET}"
            )
        least = (min(stage_1_share, 1 - stage_1_share) or 1) * budget
        if noise_of_measurement(noise, stabilities[pair], least).exact_variance > LARGEST_VARIANCE:
            raise DesignError(
                f"moe: {line}: a margin of {float(margin):g} takes noise of a variance above {LARGEST_VARIANCE:,}"
            )
        found[line] = budget
    return found
