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
from mechanisms.safetab.design import LARGEST_VARIANCE, Key, Pair, label_of, noise_of_measurement
from mechanisms.safetab.planning import budget_for_margin
from mechanisms.safetab.regions import RegionType

_LINE = re.compile(r"(?P<region_type>[A-Z-]+) (?P<level>[12])(?: (?P<family>T[34]))?")

V = TypeVar("V")


def read_lines(field: str, given: Mapping[str, V], *, with_tables: bool) -> dict[Key, V]:
    """Values of lines by what their names stand for.

    Args:
        with_tables: whether lines name a family of tables, as those of SafeTab-H.

    Raises:
        DesignError: if a line does not exist, or names no family or one too many.
    """
    values: dict[Key, V] = {}
    for line, value in given.items():
        match = _LINE.fullmatch(line)
        if match is None or match["region_type"] not in set(RegionType):
            kinds = ", ".join(RegionType)
            raise DesignError(
                f"{field}: {line!r} is no line such as TRACT 2 (in SafeTab-H: TRACT 2 T3); region types are {kinds}, "
                "and levels 1 and 2"
            )
        pair, family = (RegionType(match["region_type"]), int(match["level"])), match["family"]
        if family and not with_tables:
            raise DesignError(f"{field}: {line}: SafeTab-P has no tables {family}")
        if with_tables and not family:
            raise DesignError(f"{field}: {line}: say which tables: {line} T3, or {line} T4")
        values[(*pair, family) if family else pair] = value
    return values


def budgets_of(
    noise: Noise,
    stabilities: Mapping[Pair, int],
    budgets: Mapping[Key, Fraction],
    margins: Mapping[Key, Fraction],
    stage_1_share: Fraction = Fraction(0),
) -> dict[Key, Fraction]:
    """The budgets of lines of which some have a budget and others a 95% margin of error.

    Raises:
        DesignError: if a line has both, or has no groups, or no budget within bounds meets a margin.
    """
    if not 0 <= stage_1_share < 1:
        raise DesignError(f"stage_1_share: the number is above 0 and below 1, not {stage_1_share}")
    completed = dict(budgets)
    for key, margin in margins.items():
        field, pair = f"moe: {label_of(key)}", key[:2]
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
