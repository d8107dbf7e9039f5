"""p-tables of greatest entropy: made from a largest change, a variance and a threshold.

For every count a, the probabilities p(v) of the changes v solve a convex program: maximize −Σ p log p subject to
Σ p = 1, Σ p·v = 0 and Σ p·v² <= V, over the changes with |v| <= D whose result a + v is neither negative nor blocked
(1 … js). Further, p(0) may have a lower bound, and p may have to fall with |v| on either side. Zero stays zero. All
counts from D + js + 1 on share a row.

Sources: Giessing (2016); the parameters are those of sdcTools' R package `ptable`, which lowers the bound of p(0) where
the variance would stay below V.

**Exactness.** The probabilities are whole multiples of 2^-64, and every constraint holds exactly. Only the entropy is
approximate: `MadeTable.gaps` bounds the difference of the program's greatest entropy and a row's.

**Method.** Newton's method with a logarithmic barrier minimizes the dual; its probabilities satisfy the constraints up
to rounding errors. These are moved a little towards a rational point that satisfies every inequality strictly, and
rounded. The errors of the sum and of the mean are then moved between 0 and the changes next to it, and every constraint
is checked exactly. If one does not hold, the probabilities are moved further, by a 10^-10 part at most.

**The certificate.** For any multipliers m >= 0 of the inequalities Gp <= h and any k of the mean, the entropy of every
p that satisfies the constraints is at most log Σ exp(−k·v − (Gᵀm)(v)) + h·m (weak duality), computed in 40 decimals.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.rounding import as_decimal
from mechanisms.table_builder.p_table import PTable, Row

PLACES = 64
"""The binary places of the probabilities."""
MOST = 25
"""The greatest D."""

_PARTS_DRAWN_BACK = [Fraction(1, 10**places) for places in (14, 13, 12, 11, 10)]
_CERTAIN = 40
_SHARPEST, _SHARPER = 1e13, 10.0
_STEPS, _SETTLED, _VISIBLE = 100, 0.1, 1e-12
_MOST_OF_THE_WAY = 0.95


class ImpossibleTableError(ValueError):
    """No p-table satisfies the constraints. The message names the parameter, the rule and the count."""


@dataclass(frozen=True)
class Parameters:
    """The constraints of a p-table: D from 1 to 25; V > 0, the greatest variance of every row; js from 0 to D, the
    threshold up to which no result but 0 occurs; the least probability that a count is published as it is, if js allows
    it; and whether a greater change to the same side is never more probable, given once or for each count from 1 to the
    last with a row of its own (sdcTools' `mono`, which with js = 0 ends at D)."""

    largest_change: int
    variance: Fraction
    threshold: int = 0
    probability_to_stay: Fraction = Fraction(0)
    monotone: bool | tuple[bool, ...] = True

    def __post_init__(self) -> None:
        if not 1 <= self.largest_change <= MOST:
            raise ImpossibleTableError(f"largest_change: D is from 1 to {MOST}, not {self.largest_change}")
        if self.variance <= 0:
            raise ImpossibleTableError(f"variance: V is greater than 0, not {self.variance}")
        if not 0 <= self.probability_to_stay <= 1:
            raise ImpossibleTableError(
                f"probability_to_stay: a probability is from 0 to 1, not {self.probability_to_stay}"
            )
        if not 0 <= self.threshold <= self.largest_change:
            raise ImpossibleTableError(
                f"threshold: js is from 0 to D = {self.largest_change}, not {self.threshold}; a count of "
                f"{self.largest_change + 1} could neither stay nor become 0"
            )
        lengths = {self.last} | (set() if self.threshold else {self.largest_change})
        if not isinstance(self.monotone, bool) and len(self.monotone) not in lengths:
            raise ImpossibleTableError(
                f"monotone: it is true, false, or a list with one for each count from 1 to {self.last}, not for "
                f"{len(self.monotone)} counts"
            )
        for count in range(1, self.threshold + 1):
            least = count * (self.threshold + 1 - count)
            if self.variance < least:
                raise ImpossibleTableError(
                    f"variance: count {count} must become 0 or at least {self.threshold + 1} without a change of the "
                    f"mean, which takes a variance of {least} or more; V is {self.variance}"
                )

    @property
    def last(self) -> int:
        """The last count with a row of its own."""
        return self.largest_change + self.threshold + 1

    def is_monotone(self, count: int) -> bool:
        if isinstance(self.monotone, bool):
            return self.monotone
        return self.monotone[min(count, len(self.monotone)) - 1]


@dataclass(frozen=True)
class MadeTable:
    """A p-table with the gaps of its rows: upper bounds, in nats, on the additional entropy of another row; 0 if no
    other row satisfies the constraints."""

    table: PTable
    gaps: tuple[float, ...]


def make(parameters: Parameters) -> MadeTable:
    """The p-table of greatest entropy. Raises ImpossibleTableError if a gap exceeds 10^-9."""
    rows, gaps = [Row((0,), (1,))], [0.0]
    for count in range(1, parameters.last + 1):
        row, gap = _row(parameters, count)
        if not gap <= 1e-9:
            raise ImpossibleTableError(f"count {count}: the solver came no nearer to the greatest entropy than {gap}")
        rows.append(row)
        gaps.append(gap)
    return MadeTable(PTable(tuple(rows)), tuple(gaps))


def _row(parameters: Parameters, count: int) -> tuple[Row, float]:
    largest, threshold = parameters.largest_change, parameters.threshold
    changes = [change for change in range(-largest, largest + 1) if count + change == 0 or count + change > threshold]
    blocked = count <= threshold
    if min(changes) == 0 or (not blocked and parameters.probability_to_stay == 1):
        return Row((0,), (1,)), 0.0
    if blocked and (len(changes) == 2 or parameters.variance == count * (threshold + 1 - count)):
        return Row((-count, threshold + 1 - count), (threshold + 1 - count, count)), 0.0
    program = _Program.of(parameters, changes, parameters.is_monotone(count))
    start = _interior(parameters, changes)
    optimum, multipliers, of_mean = program.solve()
    tries = (_round_exactly(program, optimum, start, part) for part in _PARTS_DRAWN_BACK)
    exact = next((chances for chances in tries if chances is not None), None)
    if exact is None:
        raise ImpossibleTableError(
            f"variance: V = {parameters.variance} is too small for D = {largest}: in multiples of 2^-{PLACES}, no "
            f"probabilities of count {count} were found that satisfy every constraint exactly"
        )
    gap = program.bound(multipliers, of_mean) - _entropy(exact)
    units = {change: int(chance * 2**PLACES) for change, chance in zip(changes, exact, strict=True) if chance}
    return Row(tuple(units), tuple(units.values())), float(max(Decimal(0), gap))


@dataclass(frozen=True)
class _Program:
    """The constraints of a row: Σ p = 1, Σ p·v = 0 over the changes v, and Gp <= h with G = `left` and h = `right`."""

    changes: list[int]
    left: list[list[int]]
    right: list[Fraction]

    @classmethod
    def of(cls, parameters: Parameters, changes: list[int], monotone: bool) -> "_Program":
        left, right = [[change**2 for change in changes]], [parameters.variance]
        if 0 in changes and parameters.probability_to_stay:
            left.append([-(change == 0) for change in changes])
            right.append(-parameters.probability_to_stay)
        if monotone:
            for nearer, further in _chains(changes):
                left.append([(change == further) - (change == nearer) for change in changes])
                right.append(Fraction(0))
        return cls(changes, left, right)

    def slack(self, chances: Sequence[Fraction]) -> list[Fraction]:
        """h − Gp, exactly."""
        return [right - _dot(line, chances) for line, right in zip(self.left, self.right, strict=True)]

    def solve(self) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Nearly the optimum, with nearly optimal multipliers of the inequalities and of the mean: the minimum of the
        dual log Σ exp(−k·v − (Gᵀm)(v)) + h·m over all k and m > 0, with the barrier −Σ log m / sharpness. It satisfies
        all constraints: the mean is 0, and the slack of an inequality is 1 / (sharpness·m)."""
        lines = np.vstack([self.changes, *self.left]).astype(float)
        right = np.array([0.0, *map(float, self.right)])
        multipliers = np.array([0.0, *np.ones(len(self.left))])
        sharpness = 1.0
        while sharpness <= _SHARPEST:
            multipliers = _centered(multipliers, sharpness, lines, right)
            sharpness *= _SHARPER
        return _softmax(-multipliers @ lines), multipliers[1:], float(multipliers[0])

    def bound(self, multipliers: NDArray[np.float64], of_mean: float) -> Decimal:
        """An upper bound of the entropy for any multipliers of 0 or more."""
        exact = [Fraction(max(0.0, float(multiplier))) for multiplier in multipliers]
        columns = zip(*self.left, strict=True)
        weights = [
            -Fraction(of_mean) * change - _dot(column, exact)
            for change, column in zip(self.changes, columns, strict=True)
        ]
        with localcontext(Context(prec=_CERTAIN)):
            greatest = max(weights)
            total = sum((as_decimal(weight - greatest).exp() for weight in weights), Decimal(0))
            return total.ln() + as_decimal(greatest + _dot(exact, self.right))


def _centered(
    multipliers: NDArray[np.float64], sharpness: float, lines: NDArray[np.float64], right: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The minimum of the dual with its barrier, by Newton's method. The first multiplier, of the mean, has no bound."""

    def value(at: NDArray[np.float64]) -> float:
        exponents = -at @ lines
        greatest = exponents.max()
        barrier = np.log(at[1:]).sum() / sharpness
        return float(np.log(np.exp(exponents - greatest).sum()) + greatest + right @ at - barrier)

    for _ in range(_STEPS):
        chances = _softmax(-multipliers @ lines)
        means = lines @ chances
        # In the scale of each multiplier, as inactive inequalities have very small multipliers.
        scale = np.array([1.0, *multipliers[1:]])
        inverse = np.array([0.0, *(1 / (sharpness * multipliers[1:]))])
        gradient = scale * (right - means - inverse)
        curvature = (scale[:, None] * ((lines * chances) @ lines.T - np.outer(means, means))) * scale
        curvature += np.diag(scale * inverse)
        step = _newton(curvature, gradient) * scale
        falling = step[1:] < 0
        length = min(1.0, _MOST_OF_THE_WAY * np.min(multipliers[1:][falling] / -step[1:][falling], initial=np.inf))
        expected, before = float(gradient / scale @ step), value(multipliers)
        if np.abs(gradient).max() < _SETTLED / sharpness:
            break
        # Steps below the rounding errors of the value are taken whole: Newton's method has then converged.
        while (
            -expected > _VISIBLE
            and value(multipliers + length * step) > before + 0.1 * length * expected
            and length > 1e-9
        ):
            length *= 0.5
        multipliers = multipliers + length * step
    return multipliers


def _newton(curvature: NDArray[np.float64], gradient: NDArray[np.float64]) -> NDArray[np.float64]:
    """Newton's step; where rounding errors leave no descent, the least-squares solution, which takes far longer."""
    try:
        step = np.linalg.solve(curvature, -gradient)
        if not np.all(np.isfinite(step)) or step @ gradient >= 0:
            raise np.linalg.LinAlgError
    except np.linalg.LinAlgError:
        step = np.linalg.lstsq(curvature, -gradient, rcond=1e-18)[0]
    return step.astype(np.float64)


def _softmax(exponents: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = np.exp(exponents - exponents.max())
    return np.asarray(weights / weights.sum())


def _chains(changes: list[int]) -> list[tuple[int, int]]:
    """Neighboring changes of one side, the nearer to 0 first; 0 is on both sides."""
    positive = [change for change in changes if change >= 0]
    negative = [change for change in reversed(changes) if change <= 0]
    return [*pairwise(positive), *pairwise(negative)]


def _interior(parameters: Parameters, changes: list[int]) -> list[Fraction]:
    """Positive probabilities with sum 1 and mean 0 that satisfy every inequality strictly: balanced weights that fall
    on each side, mixed with the distribution of least variance: no change or, where this is blocked, the two changes
    next to it."""
    falling = {change: Fraction(parameters.largest_change + 1 - abs(change)) for change in changes}
    moments = [sum(abs(change) * falling[change] for change in changes if change * side > 0) for side in (-1, 1)]
    weights = {change: falling[change] / moments[change > 0] for change in changes if change}
    total = sum(weights.values())
    spread = {change: weight / total for change, weight in weights.items()}
    variance = sum(change**2 * chance for change, chance in spread.items())
    if 0 in changes:
        least, base = Fraction(0), {0: Fraction(1)}
        share = min(Fraction(1, 4), (1 - parameters.probability_to_stay) / 2)
    else:
        down, up = _nearest(changes)
        least, base = Fraction(-down * up), {down: Fraction(up, up - down), up: Fraction(-down, up - down)}
        share = Fraction(1, 4)
    if variance > least:
        share = min(share, (parameters.variance - least) / (variance - least) / 2)
    return [share * spread.get(change, 0) + (1 - share) * base.get(change, 0) for change in changes]


def _round_exactly(
    program: _Program, optimum: NDArray[np.float64], start: Sequence[Fraction], part: Fraction
) -> list[Fraction] | None:
    """Multiples of 2^-64 near the optimum, moved by a part towards a start that satisfies every inequality strictly;
    None if they do not satisfy every constraint exactly."""
    changes, whole = program.changes, 2**PLACES
    mixed = [(1 - part) * Fraction(float(p)) + part * q for p, q in zip(optimum, start, strict=True)]
    units = {change: int(chance * whole) for change, chance in zip(changes, mixed, strict=True)}
    down, up = _nearest(changes)
    rest, moment = whole - sum(units.values()), -sum(change * number for change, number in units.items())
    if 0 in changes:
        lowered = max(0, -(moment // -down))
        raised = moment - lowered * down
        for change, more in ((down, lowered), (up, raised), (0, rest - lowered - raised)):
            units[change] += more
    else:
        # x·down + y·up + z·(up + 1) = moment and x + y + z = rest, with the least z.
        both, beyond = divmod(moment - down * rest, up - down)
        for change, more in ((down, rest - both), (up, both - beyond), (up + 1, beyond)):
            units[change] += more
    exact = [Fraction(units[change], whole) for change in changes]
    sound = sum(exact) == 1 and _dot(changes, exact) == 0 and min(exact) >= 0 and min(program.slack(exact)) >= 0
    return exact if sound else None


def _nearest(changes: Iterable[int]) -> tuple[int, int]:
    """The changes next to 0 on either side."""
    return max(change for change in changes if change < 0), min(change for change in changes if change > 0)


def _dot(factors: Iterable[Fraction | int], others: Iterable[Fraction]) -> Fraction:
    return sum((factor * other for factor, other in zip(factors, others, strict=True)), Fraction(0))


def _entropy(chances: Sequence[Fraction]) -> Decimal:
    with localcontext(Context(prec=_CERTAIN)):
        decimals = [as_decimal(chance) for chance in chances if chance]
        return -sum((chance * chance.ln() for chance in decimals), Decimal(0))
