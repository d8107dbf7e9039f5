"""Whether declared invariants and inequalities can be met, in every geographic unit and by every way down the tree.

Here belongs the arithmetic on bounds that is done before anything is charged. How bounds follow from facilities and
housing units, and which totals are invariant, belongs with the release.

Bounds of groups (such as types of group quarters) are added up from the finest level to the root, and tightened by
fixed totals on the way. Then any parent within its bounds can be divided among its children: what children can add up
to is the sum of their bases, generalized polymatroids given by the most and the least of every set of groups, and sums
of those are given by the sums of the functions (Frank and Tardos, 1988), for integers too. Where no child's total is
fixed, bounds are all there is to it. Where one is, the functions of the parent are compared with the sums of its
children's over all sets of groups; a declaration is refused where bounds of single groups do not say enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

FREE = -1
"""Stands for a total that is not fixed."""

MOST_GROUPS = 12
"""Sets of groups are enumerated, so that there must not be many."""


class InfeasibleError(ValueError):
    """Invariants and inequalities that contradict each other; the message has level, rule and count of units."""


@dataclass(frozen=True)
class Limits:
    """What the histograms of a level's units must satisfy.

    Attributes:
        lower, upper: shape (units, groups): the least and the greatest counts.
        totals: shape (units,): fixed totals; `FREE` where they are not.
    """

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    totals: NDArray[np.int64]


def propagate(
    levels: Sequence[str],
    parents: Sequence[NDArray[np.int64]],
    lower: NDArray[np.int64],
    upper: NDArray[np.int64],
    totals: Sequence[NDArray[np.int64] | None],
) -> tuple[Limits, ...]:
    """The limits of all units of all levels.

    Args:
        levels: names, from the root's to the finest.
        parents: for every level but the first, shape (units,): the position of each unit's parent in the level above.
        lower, upper: shape (units of the finest level, groups): bounds of the groups' counts.
        totals: for every level, shape (units,): fixed totals, `FREE` where they are not; None if none is.

    Returns:
        By level, bounds as tight as totals make them. A total is fixed, too, where it is the sum of fixed ones.

    Raises:
        InfeasibleError: if no histograms satisfy everything, or if it depends on more than bounds which do.
    """
    if lower.shape[1] > MOST_GROUPS:
        raise InfeasibleError(f"bounds of {lower.shape[1]} groups; there can be {MOST_GROUPS}")
    found: list[Limits] = []
    for position in reversed(range(len(levels))):
        level = levels[position]
        declared = totals[position]
        if found:
            below, above = found[-1], parents[position]
            units = int(above.max(initial=-1)) + 1
            if len(np.unique(above)) != units:
                raise InfeasibleError(f"{level}: {units - len(np.unique(above))} units have no unit below them")
            lower, upper = _sum(below.lower, above, units), _sum(below.upper, above, units)
            free = _sum((below.totals == FREE)[:, None], above, units)[:, 0] > 0
            implied = np.where(free, FREE, _sum(below.totals[:, None], above, units)[:, 0])
        else:
            implied = np.full(len(lower), FREE, dtype=np.int64)
        if declared is None:
            declared = np.full(len(lower), FREE, dtype=np.int64)
        differing = (declared != FREE) & (implied != FREE) & (declared != implied)
        _refuse(level, "the fixed totals of the units below add up to another than the fixed total", differing)
        fixed = np.where(declared == FREE, implied, declared)
        limits = _tightened(level, lower, upper, fixed)
        if found:
            _require_divisible(level, limits, found[-1], parents[position])
        found.append(limits)
    return tuple(reversed(found))


def _sum(values: NDArray[np.generic], above: NDArray[np.int64], units: int) -> NDArray[np.int64]:
    summed = np.zeros((units, values.shape[1]), dtype=np.int64)
    np.add.at(summed, above, values.astype(np.int64))
    return summed


def _refuse(level: str, rule: str, offenders: ArrayLike) -> None:
    count, units = int(np.sum(offenders)), np.size(offenders)
    if count:
        raise InfeasibleError(f"{level}: {rule}, in {count} of {units} units")


def _tightened(level: str, lower: NDArray[np.int64], upper: NDArray[np.int64], totals: NDArray[np.int64]) -> Limits:
    _refuse(level, "a lower bound is negative", (lower < 0).any(axis=1))
    _refuse(level, "a lower bound exceeds the upper", (lower > upper).any(axis=1))
    fixed = totals != FREE
    _refuse(level, "the fixed total is less than the lower bounds' sum", fixed & (totals < lower.sum(axis=1)))
    _refuse(level, "the fixed total is more than the upper bounds' sum", fixed & (totals > upper.sum(axis=1)))
    total, rows = totals[:, None], fixed[:, None]
    others_least = lower.sum(axis=1, keepdims=True) - lower
    others_most = upper.sum(axis=1, keepdims=True) - upper
    return Limits(
        np.where(rows, np.maximum(lower, total - others_most), lower),
        np.where(rows, np.minimum(upper, total - others_least), upper),
        totals,
    )


def _require_divisible(level: str, limits: Limits, below: Limits, above: NDArray[np.int64]) -> None:
    units, groups = limits.lower.shape
    concerned = _sum((below.totals != FREE)[:, None], above, units)[:, 0] > 0
    if not concerned.any():
        return
    insufficient = np.zeros(units, dtype=bool)
    for number in range(1, 2**groups):
        chosen = (number >> np.arange(groups)) & 1 == 1
        least, most = _extremes(limits, chosen)
        child_least, child_most = _extremes(below, chosen)
        insufficient |= most > _sum(child_most[:, None], above, units)[:, 0]
        insufficient |= least < _sum(child_least[:, None], above, units)[:, 0]
    _refuse(level, "bounds alone do not say which counts the units below can add up to", insufficient & concerned)


def _extremes(limits: Limits, chosen: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The least and the most that a set of groups can have together."""
    least, most = limits.lower[:, chosen].sum(axis=1), limits.upper[:, chosen].sum(axis=1)
    rest_least, rest_most = limits.lower[:, ~chosen].sum(axis=1), limits.upper[:, ~chosen].sum(axis=1)
    fixed = limits.totals != FREE
    return (
        np.where(fixed, np.maximum(least, limits.totals - rest_most), least),
        np.where(fixed, np.minimum(most, limits.totals - rest_least), most),
    )
