"""Integer group counts for siblings that satisfy the limits of sets of groups, where bounds and totals do not suffice.

The counts are the nearest to the estimates. `feasibility` derives the limits; `estimation` uses the counts.

The children's group counts are the integers y that minimize Σ |y − x|, where x are the real values. The possible counts
of one child form a generalized polymatroid, and so do those of all children together. Counts that add up to the
parent's form another one. The intersection of two integral generalized polymatroids is integral (Edmonds, 1970; Frank
and Tardos, 1988), also if an element is split into several that count together. So |y − x| is made linear between
neighboring integers by splitting y into parts above and below them, and all vertices of the linear program are
integers. The program is feasible if the parent satisfies its own limits.

A unit has 2**groups sets, few of which matter. The program starts without sets. The sets that its vertex violates are
added until it violates none. A vertex of this program that satisfies all sets is also a vertex of the program with all
sets, and therefore its optimum in integers.
"""

import highspy
import numpy as np
from numpy.typing import NDArray

from mechanisms.topdown.feasibility import FREE, Limits, Sets, list_members
from mechanisms.topdown.rounding import NotRoundedError

_BROKEN = 1e-5
"""A limit is violated if it is exceeded by more than this. The solver's tolerance is a hundredth of it."""

_INTEGRAL = 1e-6


def satisfies_sets(sets: Sets | None, counts: NDArray[np.int64]) -> bool:
    """Whether group counts, shape (units, groups), satisfy the limits of all sets."""
    return sets is None or bool(np.all(_excess(sets, counts) <= 0))


def nearest_counts(real: NDArray[np.float64], limits: Limits, parent: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """The integer group counts that satisfy all limits, those of `feasibility.propagate`, and are nearest to real ones
    of shape (children, groups), by the sum of distances. They add up to the parent's, shape (groups,), within its own
    limits; None at the root. Raises NotRoundedError if there are no such counts, or the solver did not find them."""
    program = _Program(real, limits)
    if parent is not None:
        for group, count in enumerate(parent):
            program.require(program.group == group, count - program.base[:, group].sum())
    for child in np.flatnonzero(limits.totals != FREE):
        program.require(program.child == child, limits.totals[child] - program.base[child].sum())
    counts = program.solve()
    if limits.sets is not None:
        counts = _solve_with_sets(limits.sets, program, counts)
    whole = np.rint(counts).astype(np.int64)
    sound = np.abs(counts - whole).max(initial=0) <= _INTEGRAL
    sound &= bool(np.all((limits.lower <= whole) & (whole <= limits.upper))) and satisfies_sets(limits.sets, whole)
    sound &= bool(np.all((limits.totals == FREE) | (limits.totals == whole.sum(axis=1))))
    if not sound or (parent is not None and not np.array_equal(whole.sum(axis=0), parent)):
        raise NotRoundedError(f"{len(real)} children: the group counts that were found break a limit")
    return whole


def _solve_with_sets(sets: Sets, program: "_Program", counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """The program's optimum under the sets: each unit's most violated set is added, until none is violated."""
    in_set = list_members(counts.shape[1]).astype(bool)
    added = np.zeros(sets.least.shape, dtype=bool)
    while True:
        excess = _excess(sets, counts)
        worst = excess.argmax(axis=1)
        broken = np.flatnonzero(excess.max(axis=1) > _BROKEN)
        if not broken.size:
            return counts
        if added[broken, worst[broken]].any():
            raise NotRoundedError(f"{len(counts)} children: HiGHS does not keep to the limits it was given")
        added[broken, worst[broken]] = True
        for row in broken:
            child, chosen = sets.units[row], in_set[worst[row]]
            already = program.base[child, chosen].sum()
            least, most = sets.least[row, worst[row]] - already, sets.most[row, worst[row]] - already
            program.require((program.child == child) & chosen[program.group], least, most)
        counts = program.solve()


def _excess(sets: Sets, counts: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.int64] | NDArray[np.float64]:
    """The amount by which each set's limits are violated, shape (concerned, 2**groups); not positive if they are
    satisfied."""
    sums = counts[sets.units] @ list_members(counts.shape[1]).T
    return np.maximum(sets.least - sums, sums - sets.most)


class _Program:
    """The linear program. A column is a part of a count above, or below, the integer below the real value, moved into
    the bounds: `base`, shape (children, groups). `child` and `group`, shape (columns,), are those of each column's
    count."""

    def __init__(self, real: NDArray[np.float64], limits: Limits) -> None:
        lower, upper = limits.lower, limits.upper
        self.base = np.clip(np.floor(real).astype(np.int64), lower, upper)
        one_more = np.minimum(upper - self.base, 1)
        widths = np.stack([one_more, upper - self.base - one_more, self.base - lower])
        of_one_more = np.abs(self.base + 1 - real) - np.abs(self.base - real)
        cost = np.stack([of_one_more, np.ones_like(real), np.ones_like(real)])
        part, self.child, self.group = np.nonzero(widths)
        self._sign = np.array([1.0, 1.0, -1.0])[part]
        self._solver = highspy.Highs()
        for option, setting in (("output_flag", False), ("threads", 1), ("solver", "simplex")):
            self._solver.setOptionValue(option, setting)
        columns = np.arange(len(part), dtype=np.int32)
        bounds = widths[part, self.child, self.group].astype(np.float64)
        self._solver.addVars(len(columns), np.zeros(len(columns)), bounds)
        self._solver.changeColsCost(len(columns), columns, cost[part, self.child, self.group])

    def require(self, columns: NDArray[np.bool_], least: int, most: int | None = None) -> None:
        """Require the sum that some columns add to their counts to lie between limits, or to equal one number."""
        chosen = np.flatnonzero(columns).astype(np.int32)
        greatest = least if most is None else most
        self._solver.addRow(float(least), float(greatest), len(chosen), chosen, self._sign[chosen])

    def solve(self) -> NDArray[np.float64]:
        """Shape (children, groups): the counts of an optimal vertex."""
        if not self.child.size:
            return self.base.astype(np.float64)
        self._solver.run()
        status = self._solver.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            name = self._solver.modelStatusToString(status)
            raise NotRoundedError(f"{len(self.base)} children: counts of groups within all limits: HiGHS gives {name}")
        counts = self.base.astype(np.float64)
        np.add.at(counts, (self.child, self.group), self._sign * np.asarray(self._solver.getSolution().col_value))
        return counts
