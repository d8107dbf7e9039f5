"""Privacy curves δ(ε) of several independent measurements together, bounded from above and below.

`pairs` has the pairs (P, Q) that dominate the measurements, and `atoms` their losses. These losses are independent
under P, so with L = L₁ + … + Lₙ the release has δ(ε) = E[max(0, 1 − e^(ε − L))], where an infinite loss counts as 1.

**Upper bound.** Each atom of a loss is divided between its neighbors on a grid of step h so that E[e^−L] stays: the
connect-the-dots rounding of Doroshenko, Ghazi, Kamath, Kumar and Manurangsi (2022). It replaces every curve by chords,
which are not below it, and composition keeps that order. L' is the loss after rounding. Its distribution is a
convolution, by FFT, tilted by e^(θL') with the θ that makes ε the mean, so that errors in floating point are relative
to the probabilities near ε. The narrowest parts are added up first, eight at a time, on a window outside of which their
sum has 10^-16 at most on either side (Chernoff). This rest wraps around it, and counts as an error. The result includes
bounds on the outcomes cut off, on L' beyond the last window and on the FFT's error, and `ROUNDING` for everything else.

**The FFT's error.** Each output of a transform of length N adds up its inputs in log₂N steps, with factors of
modulus 1. With u = 2^-53, its error is at most 8u·log₂N times the sum of the inputs' moduli, which is 1 here. The
spectra are bounded by 1, so the error of a product of K of them is at most the sum of their errors and of K roundings,
even if its factors are sums with errors of their own. By Parseval, Cauchy and Schwarz, a sum of outputs with weights w
errs by at most that times the Euclidean norm of w.

**Lower bound.** Write L' = L + D, the sum of n roundings Dᵢ. Given L, these are independent, E[e^−Dᵢ] = 1, and each
lies in an interval of length h. So by Hoeffding's lemma |D| exceeds r = s + nh²/8 with probability at most
2exp(−2s²/nh²), also after tilting by e^−D. Given L, rounding changes E[max(0, 1 − e^(ε − L'))] only if ε lies between L
and L', then by at most e^|D| − 1 if |D| <= r, and otherwise by at most e^−D or 1. So
δ(ε) >= δ'(ε) − (e^r − 1)·P(|L' − ε| <= r) − 2exp(−2s²/nh²). The gap is of second order in h.
"""

import math
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.atoms import Atoms, find_atoms
from mechanisms.accounting.composition import compose_concentrated
from mechanisms.accounting.losses import ConcentratedLoss
from mechanisms.accounting.pairs import LossPair, Pair

GAP = 1e-3
"""The largest difference between the upper and the lower bound of an ε."""

ROUNDING = 1e-8
"""The relative addition to δ for sums in floating point."""

_OF_MASSES, _OF_LOSSES = 1e-12, 1e-13
"""The same for each part's masses, and the addition to ε relative to the largest loss of each part."""

_OUTSIDE = 1e-16
"""The most tilted probability beyond the window."""

_RARE = 1e-4
"""The probability of the rare event of the lower bound, relative to δ."""

_GROUP = 8
"""The most parts that are added up by transforms of one length."""

_BATCH = 256
"""The most parts whose points are in memory at once."""

_BINS = 4_000
"""The bins of a group's points, from which the reach of their sum is found."""

_DEVIATIONS = 8.6
"""The standard deviations beyond which a normal distribution has `_OUTSIDE`."""

_LONGEST = 2**24
_REFINEMENTS = 8
_UNIT = 2.0**-53
_COARSE, _FEWEST_COARSE = 100_000, 100
_LARGEST_EXPONENT = 700.0


class Bounds(NamedTuple):
    lower: float
    upper: float


class CurveError(ArithmeticError):
    """A privacy curve could not be bounded closely enough."""


@dataclass(frozen=True)
class _Part:
    """The loss of a part, or of several together, on the grid: multiples of the step, shape (atoms,), and their
    probabilities. The part occurs `times` times. `error` bounds the Euclidean norm of the errors of the
    probabilities."""

    places: NDArray[np.int64]
    masses: NDArray[np.float64]
    times: int = 1
    error: float = 0.0

    @property
    def width(self) -> float:
        return float(np.ptp(self.places)) * math.sqrt(self.times)


@dataclass(frozen=True)
class _Window:
    """Probabilities of L' near some ε: P(L' = (first + k)·step) = exp(log_moment − θ·(first + k)·step) · entries[k].

    `outside` bounds the tilted probability on either side of the window, and `error` the Euclidean norm of the errors
    of the entries.
    """

    step: float
    first: int
    theta: float
    log_moment: float
    entries: NDArray[np.float64]
    outside: float
    error: float

    @property
    def epsilons(self) -> NDArray[np.float64]:
        return np.asarray((self.first + np.arange(self.entries.size)) * self.step, np.float64)


class Curve:
    """The privacy curve of independent measurements with these dominating pairs."""

    def __init__(self, pairs: Iterable[Pair]) -> None:
        atoms = [find_atoms(pair, times) for pair, times in _merge(pairs).items()]
        self._atoms = [part for part in atoms if part.losses.size]
        self._parts = sum(part.times for part in self._atoms)
        self._rounding = ROUNDING + _OF_MASSES * self._parts
        self._slack = _OF_LOSSES * sum(part.times * float(np.abs(part.losses).max()) for part in self._atoms)
        self._infinite = -math.expm1(sum(part.times * _log_less(part.infinite) for part in atoms))
        self._cut = sum(part.cut for part in atoms) + _OF_MASSES * self._infinite
        most = max(_FEWEST_COARSE, _COARSE // max(1, len(self._atoms)))
        self._moments = _Moments([_coarsen(part, most) for part in self._atoms])

    def bound_epsilon(self, delta: float, gap: float = GAP) -> Bounds:
        """Bounds of the least ε >= 0 with δ(ε) <= `delta`, 0 < δ < 1. Both are infinite if outcomes that rule out a
        record are more probable than δ. They differ by at most the gap, for ε below 1 relative to ε. Raises CurveError
        otherwise."""
        if self._infinite + self._cut >= delta:
            return Bounds(math.inf if self._infinite >= delta else 0.0, math.inf)
        if self._moments.most <= 0:
            return Bounds(0.0, 0.0)
        # δ(0) is at least the δ(0) of each part.
        if all(part.estimate_distance() <= delta for part in self._atoms) and self.bound_delta(0.0, gap).upper <= delta:
            return Bounds(0.0, 0.0)
        theta = self._find_theta(lambda theta: self._moments.estimate_delta(theta) > math.log(delta), gap)
        step = self._choose_step(theta, delta, gap * min(1.0, self._moments.at(theta)[1]))
        lowest, highest = 0.0, math.inf
        for _ in range(_REFINEMENTS):
            window = self._convolve(theta, step)
            upper, lower = self._bound_curve(window, delta)
            first = int(np.argmax(upper <= delta))
            if not first:
                break
            share = float((upper[first - 1] - delta) / (upper[first - 1] - upper[first]))
            before = float(window.epsilons[first - 1])
            highest = min(before + math.log1p(share * math.expm1(step)), self._moments.most) + self._slack
            above = np.flatnonzero(lower > delta)
            lowest = max(0.0, float(window.epsilons[above[-1]]) - self._slack) if above.size else 0.0
            if highest - lowest <= gap * min(1.0, highest):
                return Bounds(lowest, highest)
            step /= 2
        raise CurveError(f"ε at δ = {delta:g} lies from {lowest:g} to {highest:g}, which is not close enough")

    def bound_delta(self, epsilon: float, gap: float = GAP) -> Bounds:
        """Bounds of δ(ε), as far apart as its values at two ε that differ by about the gap."""
        if not self._atoms:
            return Bounds(1.0, 1.0)
        theta = self._find_theta(lambda theta: self._moments.at(theta)[1] < epsilon, gap)
        window = self._convolve(theta, self._choose_step(theta, None, gap))
        upper, _ = self._bound_curve(window, 1.0)
        epsilons = window.epsilons
        if epsilon < epsilons[0]:
            return Bounds(float(self._bound_curve(window, float(upper[0]))[1][0]), 1.0)
        if epsilon >= epsilons[-1]:
            further = math.exp(min(0.0, window.log_moment - theta * epsilon)) if epsilon < self._moments.most else 0.0
            return Bounds(max(0.0, self._infinite - self._cut), min(1.0, self._infinite + self._cut + further))
        near = int(np.searchsorted(epsilons, epsilon, side="right")) - 1
        if upper[near] <= self._infinite + self._cut:
            return Bounds(max(0.0, self._infinite - self._cut), self._infinite + self._cut)
        _, lower = self._bound_curve(window, float(upper[near]))
        share = math.expm1(max(0.0, epsilon - self._slack - epsilons[near])) / math.expm1(window.step)
        highest = float(upper[near] + share * (upper[near + 1] - upper[near]))
        return Bounds(max(0.0, float(lower[near + 1])), min(1.0, highest))

    def bound_powers(self, rates: Sequence[float], gap: float = GAP) -> list[float]:
        """Upper bounds of the largest true-positive rates at false-positive rates α: the least e^ε·α + δ(ε)."""
        if not self._atoms:
            return [1.0] * len(rates)
        window = self._convolve(0.0, self._choose_step(0.0, None, gap))
        upper, _ = self._bound_curve(window, 1.0)
        # At the largest finite loss, which is between two steps, δ is the probability of an infinite one.
        epsilons = np.append(window.epsilons, self._moments.most + self._slack)
        deltas = np.append(upper, self._infinite + self._cut)
        ratios = np.exp(np.minimum(epsilons, _LARGEST_EXPONENT))
        return [float(min(1.0, (ratios * rate + deltas).min())) for rate in rates]

    def _find_theta(self, is_small: Callable[[float], bool], gap: float) -> float:
        """The largest θ that is too small, by bisection of its logarithm; 0 if none is. Near the largest possible loss,
        a greater θ would have no effect."""
        low, high = -20.0, 20.0
        most = self._moments.most - gap / 4
        while high - low > 0.01:
            middle = math.exp((low + high) / 2)
            if is_small(middle) and self._moments.at(middle)[1] < most:
                low = math.log(middle)
            else:
                high = math.log(middle)
        return math.exp(low) if low > -20.0 else 0.0

    def _choose_step(self, theta: float, delta: float | None, gap: float) -> float:
        """The greatest step at which the lower bound should be within the gap: a float of three bits, so that products
        with places are exact."""
        rare = math.log(2 / _RARE) - (math.log(delta) if delta else self._moments.estimate_delta(theta))
        reach = math.sqrt(gap / (4 * (theta + 1)))
        step = reach / math.sqrt(self._parts * rare / 2)
        unit = 2.0 ** (math.floor(math.log2(step)) - 2)
        return math.floor(step / unit) * unit

    def _convolve(self, theta: float, step: float) -> _Window:
        log_moment, sums = 0.0, []
        for start in range(0, len(self._atoms), _BATCH):
            parts = [_round(atoms, step) for atoms in self._atoms[start : start + _BATCH]]
            moments = _Moments(
                [
                    Atoms(np.multiply(part.places, step, dtype=np.float64), part.masses, times=part.times)
                    for part in parts
                ]
            )
            logarithms, weights = moments.by_part(theta)
            log_moment += float(logarithms @ [part.times for part in parts])
            divided = np.split(weights, moments.starts[1:])
            sums.append(_add_up([_tilt(part, own) for part, own in zip(parts, divided, strict=True)]))
        whole = _add_up(sums) if len(sums) > 1 else sums[0]
        # Two points are added on either side of all losses.
        first, entries = int(whole.places[0]) - 2, np.pad(whole.masses, 2)
        return _Window(step, first, theta, log_moment, entries, 2 * _OUTSIDE, whole.error)

    def _bound_curve(self, window: _Window, delta: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Upper and lower bounds of δ at the points of a window, shape (points,) each; the lower ones are close near
        the given δ."""
        step, theta, size = window.step, window.theta, window.entries.size
        scale = np.exp(window.log_moment - theta * window.epsilons)
        # Over k > j, Σ b_k e^(−θx)(1 − e^−x) with x = (k − j)h grows, as j falls, by (1 − e^−h) Σ b_k e^(−(θ + 1)x).
        growth = -math.expm1(-step) * (_discount(window.entries, (theta + 1) * step) + window.entries)
        expected = scale * _discount(growth, theta * step)
        norm = math.sqrt(min(size, -1 / math.expm1(-2 * theta * step) if theta else size))
        imprecise = scale * norm * window.error
        beyond = window.outside * float(scale[-1])
        upper = expected * (1 + self._rounding) + imprecise + beyond + self._infinite + self._cut
        # A finite loss is at most the sum of all largest ones, each rounded up by less than a step.
        upper[window.epsilons > self._moments.most + self._parts * step] = self._infinite + self._cut

        rare = _RARE * delta
        reach = step * math.sqrt(self._parts * math.log(2 / rare) / 2) + self._parts * step * step / 8
        around = math.ceil(reach / step) + 1
        cumulated = np.concatenate(([0.0], np.cumsum(window.entries)))
        places = np.arange(size)
        near = cumulated[np.minimum(places + around + 1, size)] - cumulated[np.maximum(places - around, 0)]
        near = (near + math.sqrt(2 * around + 1) * window.error) * scale * math.exp(theta * around * step)
        lower = expected * (1 - self._rounding) + self._infinite - imprecise - window.outside * scale
        lower -= math.expm1(reach) * near + rare + self._cut
        return upper, np.minimum(lower, 1.0)


class _Moments:
    """K(θ) = Σ ln E[e^θL] over all parts, with its derivatives: the logarithm of the moment, the mean and the variance
    of the tilted loss."""

    def __init__(self, atoms: Sequence[Atoms]) -> None:
        self._losses = np.concatenate([np.empty(0), *(part.losses for part in atoms)])
        with np.errstate(divide="ignore"):
            self._logarithms = np.log(np.concatenate([np.empty(0), *(part.masses for part in atoms)]))
        self.starts = np.cumsum([0, *(part.losses.size for part in atoms[:-1])])
        self._sizes = np.array([part.losses.size for part in atoms])
        self._times = np.array([part.times for part in atoms], dtype=np.float64)
        self.most = sum(part.times * float(part.losses.max()) for part in atoms)

    def at(self, theta: float) -> tuple[float, float, float]:
        logarithms, weights = self.by_part(theta)
        means = np.add.reduceat(weights * self._losses, self.starts)
        centered = self._losses - np.repeat(means, self._sizes)
        variances = np.add.reduceat(weights * centered * centered, self.starts)
        return tuple(float(values @ self._times) for values in (logarithms, means, variances))  # type: ignore[return-value]

    def by_part(self, theta: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """ln E[e^θL] of each part, shape (parts,), and the tilted probabilities of all atoms."""
        exponents = self._logarithms + theta * self._losses
        largest = np.maximum.reduceat(exponents, self.starts)
        weights = np.exp(exponents - np.repeat(largest, self._sizes))
        sums = np.add.reduceat(weights, self.starts)
        return largest + np.log(sums), weights / np.repeat(sums, self._sizes)

    def estimate_delta(self, theta: float) -> float:
        """The approximate ln δ at the mean of the tilted loss, by the saddle point."""
        log_moment, mean, variance = self.at(theta)
        return log_moment - theta * mean - math.log(max(1.0, theta * (theta + 1) * math.sqrt(2 * math.pi * variance)))


def _merge(pairs: Iterable[Pair]) -> Mapping[Pair, int]:
    """The number of times that each pair occurs. All ρ without a known noise become one ρ."""
    counts = Counter(pairs)
    concentrated = [pair for pair in counts if isinstance(pair, LossPair) and isinstance(pair.loss, ConcentratedLoss)]
    total = compose_concentrated(pair.loss for pair in concentrated for _ in range(counts.pop(pair)))
    return counts | ({LossPair(total): 1} if total.rho or not counts else {})


def _coarsen(atoms: Atoms, most: int) -> Atoms:
    """The atoms on a coarse grid if there are more than `most`: good enough to choose θ and the step."""
    if atoms.losses.size <= most:
        return atoms
    step = float(np.ptp(atoms.losses)) / most
    rounded = _round(atoms, step)
    return Atoms(np.multiply(rounded.places, step), rounded.masses, times=atoms.times)


def _round(atoms: Atoms, step: float) -> _Part:
    """Each atom divided between its neighbors on the grid, so that E[e^−L] stays."""
    lower = np.floor(atoms.losses / step)
    share = np.expm1(lower * step - atoms.losses) / math.expm1(-step)
    places = lower.astype(np.int64)
    masses = np.concatenate((atoms.masses * (1 - share), atoms.masses * share))
    places = np.concatenate((places, places + 1))
    if np.ptp(places) < places.size:
        first = int(places.min())
        masses = np.bincount(places - first, masses).astype(np.float64, copy=False)
        places = np.arange(first, first + masses.size)
    return _Part(places, masses, atoms.times)


def _tilt(part: _Part, weights: NDArray[np.float64]) -> _Part:
    """The part with its tilted probabilities, except those that are negligible even together."""
    likely = weights > _OUTSIDE / weights.size
    return _Part(part.places[likely], weights[likely], part.times, _OUTSIDE)


def _add_up(parts: Sequence[_Part]) -> _Part:
    """The sum of all parts. The narrowest are added up first, by transforms that are as short as their sum."""
    left = sorted(parts, key=lambda part: part.width)
    while True:
        group, left = left[:_GROUP], left[_GROUP:]
        added = _convolve(group)
        if not left:
            return added
        insort(left, added, key=lambda part: part.width)


def _convolve(parts: Sequence[_Part]) -> _Part:
    """The sum of parts on a window, around which the rest wraps: at most `_OUTSIDE` on either side."""
    lowest, highest, shares = zip(*(_bin(part, _BINS // len(parts)) for part in parts), strict=True)
    times = np.array([part.times for part in parts])
    means = [float(top @ share) for top, share in zip(highest, shares, strict=True)]
    squares = [np.square(top - mean) @ share for top, mean, share in zip(highest, means, shares, strict=True)]
    mean, deviation = float(times @ means), math.sqrt(times @ squares) + 1e-9

    def find_end(sign: int, ends: Sequence[NDArray[np.float64]], reach: float = math.inf) -> float:
        """A place with at most `_OUTSIDE` beyond it on one side (Chernoff), as near to the mean as four rates show."""
        for rate in (_DEVIATIONS / deviation / 2**halved for halved in range(4)):
            with np.errstate(over="ignore", invalid="ignore"):
                moments = [np.exp(sign * rate * (end - mean)) for end, mean in zip(ends, means, strict=True)]
                grown = times @ [math.log(moment @ share) for moment, share in zip(moments, shares, strict=True)]
            reach = min(reach, (float(grown) - math.log(_OUTSIDE)) / rate)
            if reach < 1.2 * _DEVIATIONS * deviation:
                break
        return sign * min(
            reach, float(times @ [(sign * (end - mean)).max() for end, mean in zip(ends, means, strict=True)])
        )

    first, last = math.floor(mean + find_end(-1, lowest)), math.ceil(mean + find_end(1, highest))
    longest = 1 << max(1, last - first).bit_length()
    length = next(length for length in (5 * longest // 8, 3 * longest // 4, longest) if last - first < length)
    if length > _LONGEST:
        raise CurveError(f"{length:,} points are too many")
    spectrum, error = np.ones(length // 2 + 1, dtype=np.complex128), 0.0
    own = 8 * _UNIT * math.log2(length)
    for part in parts:
        transform = np.fft.rfft(np.bincount(part.places % length, part.masses, length))
        spectrum *= _power(transform, part.times)
        error += part.times * (part.error + own + 4 * _UNIT)
    entries = np.roll(np.fft.irfft(spectrum, length), -(first % length))[: last - first + 1]
    places = np.arange(first, last + 1)
    return _Part(places, np.maximum(entries, 0.0), error=error * 1.01 + own + 4 * _OUTSIDE)


def _bin(part: _Part, most: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The least and the greatest place of each of at most `most` bins, and the probabilities."""
    starts = np.arange(0, part.places.size, -(-part.places.size // most))
    lowest, highest = (of.reduceat(part.places, starts).astype(np.float64) for of in (np.minimum, np.maximum))
    return lowest, highest, np.add.reduceat(part.masses, starts)


def _power(spectrum: NDArray[np.complex128], times: int) -> NDArray[np.complex128]:
    """The spectrum to a positive whole power, by squaring."""
    power = np.ones_like(spectrum)
    while times:
        if times & 1:
            power *= spectrum
        spectrum, times = spectrum * spectrum, times >> 1
    return power


def _discount(entries: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    """Σ over k > j of entries[k]·exp(−rate·(k − j)), by j, in blocks within which powers of e do not overflow."""
    sums, later = np.empty(entries.size), 0.0
    length = max(1, int(min(entries.size, 300 / rate if rate else entries.size)))
    for end in range(entries.size, 0, -length):
        begin = max(0, end - length)
        falls = np.exp(-rate * np.arange(end - begin))
        discounted = np.cumsum((entries[begin:end] * falls)[::-1])[::-1]
        sums[begin:end] = np.append(discounted[1:], 0.0) / falls + later * falls[::-1]
        later = math.exp(-rate) * (float(entries[begin]) + float(sums[begin]))
    return sums


def _log_less(probability: float) -> float:
    return math.log1p(-probability) if probability < 1 else -math.inf
