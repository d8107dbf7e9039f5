"""Whether declared invariants and inequalities can be met, in every geographic unit and on every path down the tree.

`assets.topdown.invariants` derives the bounds and the fixed totals; `sets` finds children's counts that satisfy all
limits.

The groups are, for example, types of group quarters. In a unit of the finest level, the counts lie between the bounds
of each group and add up to the unit's total, if that is fixed. The integers that satisfy this are those of a
generalized polymatroid: {x: least(S) <= Σ x_g over S <= most(S) for every set S of groups}. The possible sums over the
children of a parent form the sum of their polymatroids. It is given by the sums of their functions, and integers that
satisfy the summed functions are sums of integers that satisfy the children's (Frank and Tardos, 1988). If the parent's
own total t is fixed, its functions become max(least(S), t − most(the other groups)) and min(most(S), t − least(the
other groups)); such counts exist if and only if t lies between least and most of all groups together. So the functions
are added up from the finest level to the root. Only limits that cannot be met are rejected, and all counts that satisfy
a parent's functions can be divided among its children.

The functions of a single group are its bounds. Usually the bounds and the total imply all other functions: always in
units of the finest level, and above it wherever no total ties a child's counts together. The functions are stored only
where they restrict more, such as for a parent of two children with fixed totals, one with only groups 0 and 1 and one
with only groups 2 and 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.refusal import RefusedError

FREE = -1

MOST_GROUPS = 12
"""The most groups, because all their sets are enumerated."""

_AT_A_TIME = 2048
"""The units whose functions are computed together; the functions of a whole level are never in memory."""

_Functions = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The least and the most of every set of groups, shape (units, 2**groups) each."""


class InfeasibleError(RefusedError, ValueError):
    """Invariants and inequalities that contradict each other. The message gives level, rule and number of units."""


@dataclass(frozen=True)
class Sets:
    """Limits of the counts of sets of groups, in the units, at ascending positions, whose bounds and total do not imply
    them. Limits have the shape (concerned, 2**groups). Group g is in the sets whose number has bit g."""

    units: NDArray[np.int64]
    least: NDArray[np.int64]
    most: NDArray[np.int64]


@dataclass(frozen=True)
class Limits:
    """The limits on the histograms of a level's units: the least and the greatest counts, shape (units, groups); fixed
    totals, shape (units,), −1 where a total is not fixed; and the limits of sets that the others do not imply, if
    any."""

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    totals: NDArray[np.int64]
    sets: Sets | None = None

    def between(self, first: int, last: int) -> "Limits":
        sets = None
        if self.sets is not None:
            own = slice(*np.searchsorted(self.sets.units, [first, last]))
            if own.start < own.stop:
                sets = Sets(self.sets.units[own] - first, self.sets.least[own], self.sets.most[own])
        return Limits(self.lower[first:last], self.upper[first:last], self.totals[first:last], sets)


def list_members(groups: int) -> NDArray[np.int64]:
    """Shape (2**groups, groups): 1 where a group is in a set, 0 where it is not."""
    return np.arange(2**groups)[:, None] >> np.arange(groups) & 1


def propagate(
    levels: Sequence[str],
    parents: Sequence[NDArray[np.int64]],
    lower: NDArray[np.int64],
    upper: NDArray[np.int64],
    totals: Sequence[NDArray[np.int64] | None],
) -> tuple[Limits, ...]:
    """By level, the tightest bounds of all units, and sets where bounds and totals do not suffice.

    A total that is the sum of fixed totals is fixed too. Raises InfeasibleError if no histograms satisfy everything.

    Args:
        levels: names, from the root's to the finest.
        parents: for every level but the first, shape (units,): the position of each unit's parent in the level above.
        lower, upper: shape (units of the finest level, groups): bounds of the groups' counts.
        totals: for every level, shape (units,): fixed totals, `FREE` where a total is not fixed; None if none is.
    """
    if lower.shape[1] > MOST_GROUPS:
        raise InfeasibleError(f"bounds of {lower.shape[1]} groups; there can be {MOST_GROUPS}")
    finest = _tighten(levels[-1], lower, upper, _totals_or_free(totals[-1], len(lower)))
    return propagate_above(levels, parents, finest, totals[:-1])


def propagate_above(
    levels: Sequence[str],
    parents: Sequence[NDArray[np.int64]],
    finest: Limits,
    totals: Sequence[NDArray[np.int64] | None],
) -> tuple[Limits, ...]:
    """As `propagate`, from the tightened limits of the finest level without its totals, so that subtrees can be
    propagated one by one."""
    limits = [finest]
    for position in reversed(range(len(levels) - 1)):
        level, below, above = levels[position], limits[-1], parents[position]
        units = int(above.max(initial=-1)) + 1
        if len(np.unique(above)) != units:
            raise InfeasibleError(f"{level}: {units - len(np.unique(above))} units have no unit below them")
        lower, upper = _sum(below.lower, above, units), _sum(below.upper, above, units)
        free = _sum((below.totals == FREE)[:, None], above, units)[:, 0] > 0
        implied = np.where(free, FREE, _sum(below.totals[:, None], above, units)[:, 0])
        declared = _totals_or_free(totals[position], units)
        differing = (declared != FREE) & (implied != FREE) & (declared != implied)
        _refuse(level, "the fixed totals of the units below add up to another than the fixed total", differing)
        fixed = np.where(declared == FREE, implied, declared)
        limits.append(_add_sets(level, _tighten(level, lower, upper, fixed), below, above))
    return tuple(reversed(limits))


def limit_by_occupancy(
    levels: Sequence[str],
    parents: Sequence[NDArray[np.int64]],
    limits: Sequence[Limits],
    households: NDArray[np.int64] | None = None,
) -> tuple[Limits, ...]:
    """By level, limits of the occupied and the vacant units, from limits of units and the persons in households of each
    unit of the finest level, if they are known: at least one unit is occupied if a person lives in a household, and at
    most as many as there are persons. The other arguments are as in `propagate`."""
    most, least = limits[-1].upper[:, [0, -1]], np.zeros((len(limits[-1].totals), 2), dtype=np.int64)
    if households is not None:
        most[:, 0] = np.minimum(most[:, 0], households)
        least[:, 0] = most[:, 0] > 0
    return propagate(levels, parents, least, most, [of_level.totals for of_level in limits])


def concatenate(parts: Sequence[Limits]) -> Limits:
    ends = np.cumsum([0, *(len(part.totals) for part in parts)])
    sets = [
        Sets(part.sets.units + first, part.sets.least, part.sets.most)
        for part, first in zip(parts, ends, strict=False)
        if part.sets is not None
    ]
    return Limits(
        np.concatenate([part.lower for part in parts]),
        np.concatenate([part.upper for part in parts]),
        np.concatenate([part.totals for part in parts]),
        _concatenate_sets(sets) if sets else None,
    )


def _concatenate_sets(parts: Sequence[Sets]) -> Sets:
    return Sets(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("units", "least", "most")))


def _totals_or_free(totals: NDArray[np.int64] | None, units: int) -> NDArray[np.int64]:
    return np.full(units, FREE, dtype=np.int64) if totals is None else totals


def _sum(values: NDArray[np.generic], above: NDArray[np.int64], units: int) -> NDArray[np.int64]:
    summed = np.zeros((units, values.shape[1]), dtype=np.int64)
    if len(above) and np.all(above[:-1] <= above[1:]):
        firsts = np.flatnonzero(np.diff(above, prepend=-1))
        summed[above[firsts]] = np.add.reduceat(values, firsts, axis=0, dtype=np.int64)
    else:
        np.add.at(summed, above, values.astype(np.int64))
    return summed


def _refuse(level: str, rule: str, offenders: ArrayLike) -> None:
    count, units = int(np.sum(offenders)), np.size(offenders)
    if count:
        raise InfeasibleError(f"{level}: {rule}, in {count} of {units} units")


def _tighten(level: str, lower: NDArray[np.int64], upper: NDArray[np.int64], totals: NDArray[np.int64]) -> Limits:
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


def _add_sets(level: str, limits: Limits, below: Limits, above: NDArray[np.int64]) -> Limits:
    """The limits of units with their sets, where `limits` has only the sums of their children's bounds."""
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
        least, most = _sum_functions(below, tied, children, number_above[children] - first, len(units))
        totals = limits.totals[units]
        short[units] = (totals != FREE) & (totals < least[:, -1])
        excessive[units] = (totals != FREE) & (totals > most[:, -1])
        least, most = _fix_totals(least, most, totals)
        lower[units], upper[units] = least[:, single], most[:, single]
        implied_least, implied_most = _functions_of_bounds(lower[units], upper[units], totals)
        stricter = ((least != implied_least) | (most != implied_most)).any(axis=1)
        beyond.append(Sets(units[stricter], least[stricter], most[stricter]))
    _refuse(level, "the fixed total is less than the units below must add up to", short)
    _refuse(level, "the fixed total is more than the units below can add up to", excessive)
    sets = _concatenate_sets(beyond)
    return Limits(lower, upper, limits.totals, sets if sets.units.size else None)


def _sum_functions(
    below: Limits, tied: NDArray[np.bool_], children: NDArray[np.int64], parent: NDArray[np.int64], parents: int
) -> _Functions:
    """The sums of children's functions. Those that bounds and totals imply are computed for a few units at a time."""
    loose = ~tied[children]
    lower, upper = (_sum(bounds[children[loose]], parent[loose], parents) for bounds in (below.lower, below.upper))
    least, most = _functions_of_bounds(lower, upper, np.full(parents, FREE))
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
        own = _functions_of_bounds(below.lower[units], below.upper[units], below.totals[units])
        np.add.at(least, parent[some], own[0])
        np.add.at(most, parent[some], own[1])
    return least, most


def _functions_of_bounds(lower: NDArray[np.int64], upper: NDArray[np.int64], totals: NDArray[np.int64]) -> _Functions:
    in_set = list_members(lower.shape[1]).T
    return _fix_totals(lower @ in_set, upper @ in_set, totals)


def _fix_totals(least: NDArray[np.int64], most: NDArray[np.int64], totals: NDArray[np.int64]) -> _Functions:
    """The functions under fixed totals. The complement of a set has the set's number, counted from the end."""
    total, fixed = totals[:, None], (totals != FREE)[:, None]
    return (
        np.where(fixed, np.maximum(least, total - most[:, ::-1]), least),
        np.where(fixed, np.minimum(most, total - least[:, ::-1]), most),
    )
