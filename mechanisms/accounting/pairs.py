"""Dominating pairs: the two distributions of outcomes that a part of a release tells apart best.

A pair (P, Q) dominates a measurement if δ(ε) = sup_S P(S) − e^ε Q(S) is, at every ε, not below that of any neighbors in
either order (Zhu, Dong and Wang, "Optimal Accounting of Differential Privacy via Characteristic Function", 2022).
Measurements with independent noise are then dominated by the product of their pairs, whose privacy losses L = ln P/Q
are independent. `curves` composes them.

The noise of a cell is N under Q, and d + N under P. All noise here is log-concave on the integers, so P/Q increases,
the best tests are thresholds, and their power increases with d. So the pair of the largest shift of a cell dominates
the pairs of all smaller shifts, and that of a cell which does not change.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.losses import ApproximateLoss, ConcentratedLoss, InfiniteLoss, Loss

CUT = 12.5
"""The standard deviations of a discrete Gaussian beyond which outcomes count as told apart with certainty."""

LARGEST_VARIANCE = 10**9
"""The largest σ² of which every outcome is listed. Beyond it, only ρ = d²/2σ² is used."""

LARGEST_LATTICE = 20_000
"""The most atoms of the sum of several cells' losses. Above it, the cells are composed one by one."""

NEGLIGIBLE = 1e-32
"""The δ at which the bound of a ρ-zCDP curve ends."""

POINTS = 1000
"""The points of the bound of a ρ-zCDP curve, on either side of ε = 0."""

LARGEST_EPSILON, LARGEST_BELOW = 500.0, 30.0
"""The greatest |ε| of these points, above and below 0. More is told apart with certainty, or is not told apart."""


@dataclass(frozen=True)
class Atoms:
    """The distribution under P of a privacy loss.

    Attributes:
        losses: finite losses in any order, shape (atoms,).
        masses: their probabilities, shape (atoms,), with relative errors below 10^-12.
        infinite: the probability of outcomes that are impossible under Q.
        cut: a bound on the probability of the outcomes that were left out. It counts as infinite loss.
        times: how many independent measurements have this loss.
    """

    losses: NDArray[np.float64]
    masses: NDArray[np.float64]
    infinite: float = 0.0
    cut: float = 0.0
    times: int = 1


class Pair(ABC):
    """A dominating pair. Equal pairs are composed together."""

    @abstractmethod
    def find_atoms(self, times: int) -> Atoms:
        """The loss of `times` independent measurements with this pair, each or their sum."""

    def as_record(self) -> dict[str, Any] | None:
        """Exact plain values, of which `read_pair` makes an equal pair; None for a pair that is not recorded."""
        return None


@dataclass(frozen=True)
class NoisePair(Pair):
    """A cell with noise that changes by `shift`."""

    distribution: ClassVar[str]

    def as_record(self) -> dict[str, Any]:
        return {"distribution": self.distribution} | {
            name: str(value) if isinstance(value, Fraction) else value for name, value in vars(self).items()
        }


@dataclass(frozen=True)
class GaussianPair(NoisePair):
    """A cell with discrete Gaussian noise of parameter σ² that changes by `shift`.

    At the noise x = 0, ±1, … the loss is d(d + 2x)/2σ², so that sums over equal cells stay on one lattice.
    """

    distribution = "discrete Gaussian"

    variance: Fraction
    shift: int = 1

    def find_atoms(self, times: int) -> Atoms:
        if self.variance > LARGEST_VARIANCE:
            return _bound_concentrated(float(times * self.shift**2 / (2 * self.variance)))
        variance = float(self.variance)
        reach = math.ceil(CUT * math.sqrt(variance)) + 1
        noise = np.arange(-reach, reach + 1, dtype=np.float64)
        masses = np.exp(-np.square(noise) / (2 * variance))
        masses /= masses.sum()
        # The terms beyond the reach fall faster than a geometric series with the ratio of the last two terms.
        ratio = math.exp(-(2 * reach + 1) / (2 * variance))
        beyond = 2 * float(masses[-1]) * ratio / (1 - ratio)
        cells = 1
        cut = beyond
        while times % 2 == 0 and times > 1 and 2 * masses.size <= LARGEST_LATTICE:
            masses = np.convolve(masses, masses)
            cells, times, cut = 2 * cells, times // 2, 2 * cut
        sums = np.arange(masses.size, dtype=np.float64) - masses.size // 2
        losses = self.shift * (cells * self.shift + 2 * sums) / (2 * variance)
        return Atoms(losses, masses, cut=times * cut, times=times)


@dataclass(frozen=True)
class LaplacePair(NoisePair):
    """A cell with discrete Laplace noise of scale t that changes by `shift`. With q = exp(−1/t) and the noise x under
    P, measured towards Q, the loss is (d − 2x)/t for 0 <= x <= d, and d/t or −d/t on the sides."""

    distribution = "discrete Laplace"

    scale: Fraction
    shift: int = 1

    def find_atoms(self, times: int) -> Atoms:
        rate = float(1 / self.scale)
        noise = np.arange(self.shift + 1, dtype=np.float64)
        masses = math.tanh(rate / 2) * np.exp(-rate * noise)
        masses[0] = 1 / (1 + math.exp(-rate))
        masses[-1] = math.exp(-rate * self.shift) / (1 + math.exp(-rate))
        return Atoms((self.shift - 2 * noise) * rate, masses, times=times)


@dataclass(frozen=True)
class CappedPair(NoisePair):
    """A cell with discrete Laplace noise of scale t, capped at ±D, that changes by `shift`: noise within d of the upper
    end gives results that are impossible under Q."""

    distribution = "capped discrete Laplace"

    scale: Fraction
    cap: int
    shift: int = 1

    def find_atoms(self, times: int) -> Atoms:
        rate = float(1 / self.scale)
        noise = np.arange(-self.cap, self.cap + 1, dtype=np.float64)
        masses = np.exp(-rate * np.abs(noise))
        masses /= masses.sum()
        shared = max(0, noise.size - self.shift)
        losses = rate * (np.abs(noise + self.shift) - np.abs(noise))
        return Atoms(losses[:shared], masses[:shared], infinite=float(masses[shared:].sum()), times=times)


@dataclass(frozen=True)
class TabulatedPair(Pair):
    """The worst of several pairs at every ε anew. A pair is a sequence of the exact probabilities of its outcomes under
    P and Q. For neighbors in either order, both orders of a pair are alternatives."""

    alternatives: frozenset[tuple[tuple[Fraction, Fraction], ...]]

    def find_atoms(self, times: int) -> Atoms:
        """The curve of a pair is a convex polygon in e^ε with corners at the ratios P/Q. The greatest of several is
        bounded by the chords between its points at all ratios."""
        ratios = sorted({p / q for outcomes in self.alternatives for p, q in outcomes if p and q})
        deltas = [
            max(
                sum((max(Fraction(), p - ratio * q) for p, q in outcomes), Fraction()) for outcomes in self.alternatives
            )
            for ratio in ratios
        ]
        points = list(zip([Fraction(), *ratios], [Fraction(1), *deltas], strict=True))
        slopes = [(low - high) / (right - left) for (left, low), (right, high) in pairwise(points)] + [Fraction()]
        masses = [ratio * (before - after) for ratio, (before, after) in zip(ratios, pairwise(slopes), strict=True)]
        return Atoms(
            np.array([_logarithm(ratio) for ratio in ratios]),
            np.array([float(mass) for mass in masses]),
            infinite=float(deltas[-1]),
            times=times,
        )


@dataclass(frozen=True)
class LossPair(Pair):
    """What is known of a measurement by its loss alone.

    For (ε, δ): with probability δ the outcomes are told apart, and otherwise the loss is ε or −ε (Kairouz, Oh and
    Viswanath, 2015, whose pair dominates every such mechanism). For ρ-zCDP: the greatest curve that the conversion by
    Canonne, Kamath and Steinke allows in both orders.
    """

    loss: Loss

    def find_atoms(self, times: int) -> Atoms:
        if isinstance(self.loss, ConcentratedLoss):
            return _bound_concentrated(float(self.loss.rho * times))
        if isinstance(self.loss, InfiniteLoss):
            return Atoms(np.empty(0), np.empty(0), infinite=1.0, times=times)
        delta = float(self.loss.delta) if isinstance(self.loss, ApproximateLoss) else 0.0
        epsilon = float(self.loss.epsilon if isinstance(self.loss, ApproximateLoss) else self.loss)
        likely = (1 - delta) / (1 + math.exp(-epsilon))
        return Atoms(
            np.array([epsilon, -epsilon]), np.array([likely, (1 - delta) - likely]), infinite=delta, times=times
        )


def read_pair(record: dict[str, Any]) -> Pair:
    """The pair of a record of `as_record`. Raises KeyError for a distribution that is unknown."""
    kinds: dict[str, type[NoisePair]] = {kind.distribution: kind for kind in (GaussianPair, LaplacePair, CappedPair)}
    fields = {
        name: Fraction(value) if isinstance(value, str) else value
        for name, value in record.items()
        if name != "distribution"
    }
    return kinds[record["distribution"]](**fields)


def _logarithm(ratio: Fraction) -> float:
    if Fraction(1, 2) < ratio < 2:
        return math.log1p(float(ratio - 1))
    return math.log(ratio.numerator) - math.log(ratio.denominator)


def _bound_concentrated(rho: float) -> Atoms:
    """The distribution of a loss whose curve is not below that of any ρ-zCDP mechanism.

    With x = α − 1, δ(ε) is at most exp(x(ρα − ε)) · x^x / α^α for every x > 0 (Canonne, Kamath and Steinke 2020,
    Proposition 12), and at −ε by the same for the other order: δ(−ε) = 1 − e^−ε + e^−ε δ(ε). The curve is convex in
    e^ε, so that the lower hull of these bounds at some ε bounds it everywhere.
    """
    if rho == 0:
        return Atoms(np.zeros(1), np.ones(1))
    end = min(rho + math.sqrt(-4 * rho * math.log(NEGLIGIBLE)), LARGEST_EPSILON)
    epsilons = np.linspace(0, end, POINTS)
    x = np.geomspace(1e-3, 1e3, POINTS)[:, None] * max(1.0, 1 / math.sqrt(rho))
    logarithms = x * (rho * (1 + x) - epsilons) + x * np.log(x) - (1 + x) * np.log1p(x)
    above = np.exp(np.minimum(logarithms.min(axis=0), 0.0))
    below = (-np.expm1(-epsilons) + np.exp(-epsilons) * above)[epsilons < LARGEST_BELOW]
    # Less 1, so that their differences are precise where ρ is small.
    ratios = np.concatenate(([-1.0], np.expm1(-epsilons[: below.size][:0:-1]), np.expm1(epsilons)))
    deltas = np.concatenate(([1.0], below[:0:-1], above))
    corners = [0]
    for point in range(1, ratios.size):
        while len(corners) > 1:
            last, before = corners[-1], corners[-2]
            slope = (deltas[point] - deltas[before]) / (ratios[point] - ratios[before])
            if deltas[last] < deltas[before] + slope * (ratios[last] - ratios[before]):
                break
            corners.pop()
        corners.append(point)
    ratios, deltas = ratios[corners], deltas[corners]
    slopes = np.append(np.diff(deltas) / np.diff(ratios), 0.0)
    masses = (1 + ratios[1:]) * np.maximum(np.diff(slopes), 0.0)
    return Atoms(np.log1p(ratios[1:]), masses, infinite=float(deltas[-1]))
