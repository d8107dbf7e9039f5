"""The privacy losses of dominating pairs, as distributions on finitely many points. `pairs` describes the pairs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import singledispatch
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.losses import ApproximateLoss, ConcentratedLoss, InfiniteLoss
from mechanisms.accounting.pairs import CappedPair, GaussianPair, LaplacePair, LossPair, Pair, SpreadPair, TabulatedPair

CUT = 12.5
"""The standard deviations of a discrete Gaussian beyond which outcomes count as distinguished with certainty."""

LARGEST_VARIANCE = 10**9
"""The largest σ² for which every outcome is listed. Beyond it, only ρ = d²/2σ² is used."""

LEAST_SPREAD_VARIANCE = 30
"""The least σ² for which more than ρ is used if a change is spread over unknown numbers."""

SMOOTHING, SMOOTHED = Fraction(3, 2), 6e-13
"""r² of a spread change, and a bound on its κ."""

FINEST_VARIANCE = 10_000
"""The least σ² of the discrete noise that stands for continuous noise."""

LARGEST_LATTICE = 20_000
"""The most atoms of the sum of several cells' losses. Above it, the cells are composed one by one."""

LARGEST_STEPS = 2**18
"""The most losses of a cell with Laplace noise, such as a sum of large amounts on a fine grid."""

NEGLIGIBLE = 1e-32
"""The δ at which the bound of a ρ-zCDP curve ends."""

POINTS = 1000
"""The points of the bound of a ρ-zCDP curve, on either side of ε = 0."""

LARGEST_EPSILON, LARGEST_BELOW = 500.0, 30.0
"""The greatest |ε| of these points, above and below 0. Beyond, outcomes are distinguished with certainty, or not at
all."""


@dataclass(frozen=True)
class Atoms:
    """The distribution under P of a privacy loss.

    Attributes:
        losses: finite losses in any order, shape (atoms,).
        masses: their probabilities, shape (atoms,), with relative errors below 10^-12.
        infinite: the probability of outcomes that are impossible under Q.
        cut: a bound on the probability of omitted outcomes. It counts as infinite loss.
        times: the number of independent measurements with this loss.
    """

    losses: NDArray[np.float64]
    masses: NDArray[np.float64]
    infinite: float = 0.0
    cut: float = 0.0
    times: int = 1

    def estimate_distance(self) -> float:
        """The approximate δ(0) of one of these measurements."""
        return self.infinite - float(self.masses @ np.expm1(np.minimum(0.0, -self.losses)))


@singledispatch
def find_atoms(pair: Pair, times: int) -> Atoms:
    """The loss of `times` independent measurements with a pair, each or their sum."""
    raise TypeError(f"no privacy loss is known of {type(pair).__name__}")


@find_atoms.register
def _(pair: GaussianPair, times: int) -> Atoms:
    if pair.variance > LARGEST_VARIANCE:
        return _bound_concentrated(float(times * pair.shift**2 / (2 * pair.variance)))
    variance = float(pair.variance)
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
    losses = pair.shift * (cells * pair.shift + 2 * sums) / (2 * variance)
    return Atoms(losses, masses, cut=times * cut, times=times)


@find_atoms.register
def _(pair: SpreadPair, times: int) -> Atoms:
    if pair.variance < LEAST_SPREAD_VARIANCE or not pair.rho:
        return _bound_concentrated(float(pair.rho * times))
    doubled = 2 * pair.rho / (1 - SMOOTHING / pair.variance)
    shift = math.isqrt(math.ceil(doubled * FINEST_VARIANCE)) + 1
    atoms = find_atoms(GaussianPair(shift**2 / doubled - 2, shift), times)
    slack = (pair.numbers + 1) * SMOOTHED * (times // atoms.times)
    return replace(atoms, losses=atoms.losses + 2 * slack, masses=atoms.masses * math.exp(slack))


@find_atoms.register
def _(pair: LaplacePair, times: int) -> Atoms:
    """If there are so many outcomes that they are grouped, each gets the greatest loss of its group, an upper bound."""
    rate, size = float(1 / pair.scale), math.ceil(pair.shift / LARGEST_STEPS)
    begins = np.arange(1, pair.shift, size, dtype=np.float64)
    lengths = np.diff(begins, append=float(pair.shift))
    noise = np.concatenate([[0.0], begins, [float(pair.shift)]])
    masses = np.exp(-rate * noise) / (1 + math.exp(-rate))
    masses[1:-1] *= -np.expm1(-rate * lengths)
    return Atoms((pair.shift - 2 * noise) * rate, masses, times=times)


@find_atoms.register
def _(pair: CappedPair, times: int) -> Atoms:
    rate = float(1 / pair.scale)
    noise = np.arange(-pair.cap, pair.cap + 1, dtype=np.float64)
    masses = np.exp(-rate * np.abs(noise))
    masses /= masses.sum()
    shared = max(0, noise.size - pair.shift)
    losses = rate * (np.abs(noise + pair.shift) - np.abs(noise))
    return Atoms(losses[:shared], masses[:shared], infinite=float(masses[shared:].sum()), times=times)


@find_atoms.register
def _(pair: TabulatedPair, times: int) -> Atoms:
    """The curve of a pair is a convex polygon in e^ε with corners at the ratios P/Q. The greatest of several is
    bounded by the chords between its points at all ratios."""
    ratios = sorted({p / q for outcomes in pair.alternatives for p, q in outcomes if p and q})
    deltas = list(map(max, zip(*(_find_deltas(outcomes, ratios) for outcomes in pair.alternatives), strict=True)))
    points = list(zip([Fraction(), *ratios], [Fraction(1), *deltas], strict=True))
    slopes = [(low - high) / (right - left) for (left, low), (right, high) in pairwise(points)] + [Fraction()]
    masses = [ratio * (before - after) for ratio, (before, after) in zip(ratios, pairwise(slopes), strict=True)]
    return Atoms(
        np.array([_logarithm(ratio) for ratio in ratios]),
        np.array([float(mass) for mass in masses]),
        infinite=float(deltas[-1]),
        times=times,
    )


@find_atoms.register
def _(pair: LossPair, times: int) -> Atoms:
    if isinstance(pair.loss, ConcentratedLoss):
        return _bound_concentrated(float(pair.loss.rho * times))
    if isinstance(pair.loss, InfiniteLoss):
        return Atoms(np.empty(0), np.empty(0), infinite=1.0, times=times)
    delta = float(pair.loss.delta) if isinstance(pair.loss, ApproximateLoss) else 0.0
    epsilon = float(pair.loss.epsilon if isinstance(pair.loss, ApproximateLoss) else pair.loss)
    likely = (1 - delta) / (1 + math.exp(-epsilon))
    return Atoms(np.array([epsilon, -epsilon]), np.array([likely, (1 - delta) - likely]), infinite=delta, times=times)


def _find_deltas(outcomes: Sequence[tuple[Fraction, Fraction]], ratios: Sequence[Fraction]) -> list[Fraction]:
    """Σ max(0, P − e^ε Q) of the outcomes, at ascending e^ε."""
    below = sorted((p / q, p, q) for p, q in outcomes if q)
    here, there = sum((p for p, q in outcomes if not q), Fraction()), Fraction()
    deltas = []
    for ratio in reversed(ratios):
        while below and below[-1][0] > ratio:
            _, p, q = below.pop()
            here, there = here + p, there + q
        deltas.append(here - ratio * there)
    return deltas[::-1]


def _logarithm(ratio: Fraction) -> float:
    if Fraction(1, 2) < ratio < 2:
        return math.log1p(float(ratio - 1))
    return math.log(ratio.numerator) - math.log(ratio.denominator)


def _bound_concentrated(rho: float) -> Atoms:
    """The distribution of a loss whose curve is not below that of any ρ-zCDP mechanism.

    With x = α − 1, δ(ε) is at most exp(x(ρα − ε)) · x^x / α^α for every x > 0 (Canonne, Kamath and Steinke 2020,
    Proposition 12), and at −ε by the same for the other order: δ(−ε) = 1 − e^−ε + e^−ε δ(ε). The curve is convex in
    e^ε, so the lower hull of these bounds at some ε bounds it everywhere.
    """
    if rho == 0:
        return Atoms(np.zeros(1), np.ones(1))
    end = min(rho + math.sqrt(-4 * rho * math.log(NEGLIGIBLE)), LARGEST_EPSILON)
    epsilons = np.linspace(0, end, POINTS)
    x = np.geomspace(1e-3, 1e3, POINTS)[:, None] * max(1.0, 1 / math.sqrt(rho))
    logarithms = x * (rho * (1 + x) - epsilons) - x * np.log1p(1 / x) - np.log1p(x)
    above = np.exp(np.minimum(logarithms.min(axis=0), 0.0))
    below = (-np.expm1(-epsilons) + np.exp(-epsilons) * above)[epsilons < LARGEST_BELOW]
    # The ratios e^ε minus 1, whose differences are precise if ρ is small.
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
    # Where ρ is great, the bounds are 1 at all points, and no outcome has a finite loss.
    likely = masses > 0
    return Atoms(np.log1p(ratios[1:])[likely], masses[likely], infinite=float(deltas[-1]))
