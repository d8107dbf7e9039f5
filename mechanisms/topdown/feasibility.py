"""Whether declared invariants and inequalities can be met, in every geographic unit and by every way down the tree.

Here belongs the arithmetic on bounds that is done before anything is charged. How bounds follow from facilities and
housing units, and which totals are invariant, belongs with the release; how children's counts are found that keep to
all of it, in `sets`.

Groups are such as types of group quarters. The counts of a unit of the finest level lie between bounds of every group
and add up to its total, if that is fixed. The integers that do are those of a generalized polymatroid: {x: least(S) <=
Σ x_g over S <= most(S) for every set S of groups}. What the children of a parent can add up to is the sum of theirs,
which is the one of the sums of the functions, for integers too: any integers that keep to the sums are sums of integers
that keep to the children's (Frank and Tardos, 1988). If the parent's own total t is fixed, its functions become
max(least(S), t − most(the other groups)) and min(most(S), t − least(the other groups)); there are such counts if and
only if t lies between least and most of all groups together. So the functions are added up from the finest level to the
root, nothing is refused but what cannot be met, and whatever keeps to a parent's functions can be divided among its
children.

The functions of one group are its bounds. Mostly bounds and total say what all the others are: always in units of the
finest level, and above where no child's counts are tied together by a total. They are kept where they say more, such as
in a parent of two children with fixed totals, one with groups 0 and 1 alone and one with groups 2 and 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

FREE = -1
"""Stands for a total that is not fixed."""

MOST_GROUPS = 12
"""Sets of groups are enumerated, so that there must not be many."""

_AT_A_TIME = 2048
"""Units whose functions are made together, so that not all of a level's are in memory."""

_Functions: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The least and the most of every set of groups, shape (units, 2**groups) each."""


class InfeasibleError(ValueError):
    """Invariants and inequalities that contradict each other; the message has level, rule and count of units."""


@dataclass(frozen=True)
class Sets:
    """What sets of groups can have together, in the units whose bounds and total do not say it.

    Attributes:
        units: shape (concerned,): which they are, in ascending order.
        least, most: shape (concerned, 2**groups): of every set of groups; group g is in the sets whose number has bit
            g.
    """

    units: NDArray[np.int64]
    least: NDArray[np.int64]
    most: NDArray[np.int64]


@dataclass(frozen=True)
class Limits:
    """What the histograms of a level's units must satisfy.

    Attributes:
        lower, upper: shape (units, groups): the least and the greatest counts.
        totals: shape (units,): fixed totals; `FREE` where they are not.
        sets: what is required beyond that; None if nothing is.
    """

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    totals: NDArray[np.int64]
    sets: Sets | None = None

    def between(self, first: int, last: int) -> "Limits":
        """Those of the units from `first` up to `last`."""
        sets = None
        if self.sets is not None:
            own = slice(*np.searchsorted(self.sets.units, [first, last]))
            if own.start < own.stop:
                sets = Sets(self.sets.units[own] - first, self.sets.least[own], self.sets.most[own])
        return Limits(self.lower[first:last], self.upper[first:last], self.totals[first:last], sets)


def members(groups: int) -> NDArray[np.int64]:
    """Shape (2**groups, groups): 1 where a group is in a set, 0 where it is not."""
    return np.arange(2**groups)[:, None] >> np.arange(groups) & 1


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
        By level, bounds as tight as they can be, and sets where bounds and totals do not say enough. A total is fixed,
        too, where it is the sum of fixed ones.

    Raises:
        InfeasibleError: if no histograms satisfy everything.
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
        found.append(_with_sets(level, limits, found[-1], parents[position]) if found else limits)
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


def _with_sets(level: str, limits: Limits, below: Limits, above: NDArray[np.int64]) -> Limits:
    """The limits of units of which only the bounds of their children were added up."""
    tied = (below.totals != FREE) & (below.lower < below.upper).any(axis=1)
    if below.sets is not None:
        tied[below.sets.units] = True
    concerned = np.unique(above[tied])
    if not concerned.size:
        return limits
    number = np.full(len(limits.totals), -1)
    number[concerned] = np.arange(len(concerned))
    number_above = number[above]
    lower, upper = limits.lower.copy(), limits.upper.copy()
    single = 1 << np.arange(lower.shape[1])
    beyond = []
    short, excessive = np.zeros((2, len(limits.totals)), dtype=bool)
    for first in range(0, len(concerned), _AT_A_TIME):
        units = concerned[first : first + _AT_A_TIME]
        children = np.flatnonzero((number_above >= first) & (number_above < first + len(units)))
        least, most = _added_up(below, tied, children, number_above[children] - first, len(units))
        totals = limits.totals[units]
        short[units] = (totals != FREE) & (totals < least[:, -1])
        excessive[units] = (totals != FREE) & (totals > most[:, -1])
        least, most = _held(least, most, totals)
        lower[units], upper[units] = least[:, single], most[:, single]
        said_least, said_most = _of_bounds(lower[units], upper[units], totals)
        unsaid = ((least != said_least) | (most != said_most)).any(axis=1)
        beyond.append(Sets(units[unsaid], least[unsaid], most[unsaid]))
    _refuse(level, "the fixed total is less than the units below must add up to", short)
    _refuse(level, "the fixed total is more than the units below can add up to", excessive)
    sets = Sets(
        np.concatenate([each.units for each in beyond]),
        np.concatenate([each.least for each in beyond]),
        np.concatenate([each.most for each in beyond]),
    )
    return Limits(lower, upper, limits.totals, sets if sets.units.size else None)


def _added_up(
    below: Limits, tied: NDArray[np.bool_], children: NDArray[np.int64], parent: NDArray[np.int64], parents: int
) -> _Functions:
    """The sums of children's functions. Those of units that bounds describe are made a few at a time."""
    loose = ~tied[children]
    lower, upper = (_sum(bounds[children[loose]], parent[loose], parents) for bounds in (below.lower, below.upper))
    least, most = _of_bounds(lower, upper, np.full(parents, FREE))
    row = np.full(len(below.totals), -1)
    if below.sets is not None:
        row[below.sets.units] = np.arange(len(below.sets.units))
        beyond = row[children] >= 0
        rows = row[children[beyond]]
        np.add.at(least, parent[beyond], below.sets.least[rows])
        np.add.at(most, parent[beyond], below.sets.most[rows])
    bounded = np.flatnonzero(~loose & (row[children] < 0))
    for first in range(0, len(bounded), _AT_A_TIME):
        some = bounded[first : first + _AT_A_TIME]
        units = children[some]
        own = _of_bounds(below.lower[units], below.upper[units], below.totals[units])
        np.add.at(least, parent[some], own[0])
        np.add.at(most, parent[some], own[1])
    return least, most


def _of_bounds(lower: NDArray[np.int64], upper: NDArray[np.int64], totals: NDArray[np.int64]) -> _Functions:
    """What bounds and totals say of every set."""
    in_set = members(lower.shape[1]).T
    return _held(lower @ in_set, upper @ in_set, totals)


def _held(least: NDArray[np.int64], most: NDArray[np.int64], totals: NDArray[np.int64]) -> _Functions:
    """The functions where totals are fixed. The other groups than a set's have its number from the end."""
    total, fixed = totals[:, None], (totals != FREE)[:, None]
    return (
        np.where(fixed, np.maximum(least, total - most[:, ::-1]), least),
        np.where(fixed, np.minimum(most, total - least[:, ::-1]), most),
    )
