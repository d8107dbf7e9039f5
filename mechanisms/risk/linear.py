"""An attacker's conclusions from noisy sums over many types: the best linear estimate, where the exact posterior of
`posterior` would be a sum over too many compositions.

A priori the persons of a frame are multinomial, with the mean n π and the covariance n (diag π − π π'). Published sums
y = A x + e of all frames of a place are then conditioned on as if all were normal. The attacker does not know the
shares π of a place either: expectation and maximization find the shares under which the published sums are likeliest.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.risk.tiers import Counts, Shares

_LEAST_VARIANCE = 0.01
"""Replaces the variance of an exact sum."""
_LEAST_SHARE = 1e-6
_CERTAIN = 1e-9
"""Intervals that reduce a variance by a smaller part than this are omitted."""


@dataclass(frozen=True)
class Sums:
    """Published sums.

    Attributes:
        factors: the amount that a record of each type adds to each sum, shape (sums, frames, categories).
        values: shape (sums,).
        variances: the variances of their noise, shape (sums,); 0 for an exact sum.
    """

    factors: NDArray[np.float64]
    values: NDArray[np.float64]
    variances: NDArray[np.float64]

    def also(self, factors: NDArray[np.float64], value: float, variance: float) -> "Sums":
        """These sums and another one, with factors of shape (frames, categories)."""
        return Sums(
            np.concatenate([self.factors, factors[None]]),
            np.append(self.values, value),
            np.append(self.variances, variance),
        )


def estimate_types(sums: Sums, persons: Counts, shares: Shares) -> Shares:
    """The expected records of each type, shape (frames, categories), that sum to the known persons of each frame, shape
    (frames,). `shares` is π of each frame, of the same shape as the answer."""
    number, mean = len(sums.values), persons[:, None] * shares
    expected = (sums.factors * shares).sum(axis=2, keepdims=True)
    moved = (mean * (sums.factors - expected)).reshape(number, -1)
    factors = sums.factors.reshape(number, -1)
    covariance = moved @ factors.T + np.diag(np.maximum(sums.variances, _LEAST_VARIANCE))
    surprise = sums.values - factors @ mean.ravel()
    found = np.maximum(mean + (np.linalg.solve(covariance, surprise) @ moved).reshape(mean.shape), 0)
    totals = found.sum(axis=1, keepdims=True)
    return np.asarray(np.where(totals > 0, persons[:, None] * found / np.where(totals > 0, totals, 1), mean))


def estimate_shares(sums: Sums, persons: Counts, start: Shares, steps: int) -> Shares:
    """π of each frame, shape (frames, categories), by steps of expectation and maximization from a start: frames with
    the same start have the same π. Fewer steps stay closer to it."""
    kinds, kind = np.unique(start, axis=0, return_inverse=True)
    groups = kind.ravel() == np.arange(len(kinds))[:, None]
    of_kind = groups @ persons
    # A sum counts the persons of a group of frames as much as it counts them on average.
    weights = groups * persons / np.maximum(1, of_kind)[:, None]
    joined = Sums(np.matmul(weights, sums.factors), sums.values, sums.variances)
    for _ in range(steps):
        found = estimate_types(joined, of_kind, kinds) + _LEAST_SHARE * (kinds > 0)
        kinds = found / found.sum(axis=1, keepdims=True)
    return np.asarray(kinds[kind.ravel()])


def observe_interval(
    mean: float, variance: float, noise: float, ends: tuple[float, float]
) -> tuple[float, float] | None:
    """The information about a count of this mean and variance in the fact that the count plus noise lies between two
    ends: the value and variance of a noisy count that would give the same two moments; None without information."""
    scale = math.sqrt(variance + noise)
    low, high = ((end - mean) / scale for end in ends)
    mass = _normal(high) - _normal(low)
    if not mass > 0 or not variance > 0:
        return None
    first, last = _density(low), _density(high)
    shift = (first - last) / mass
    narrowed = shift**2 - ((low * first if first else 0) - (high * last if last else 0)) / mass
    part = variance / (variance + noise)
    if not narrowed * part > _CERTAIN:
        return None
    then = variance * (1 - part * narrowed), mean + variance / scale * shift
    precision = 1 / then[0] - 1 / variance
    return (then[1] / then[0] - mean / variance) / precision, 1 / precision


def weigh_interval(counts: Counts, noise: float, ends: tuple[float, float]) -> Shares:
    """The logarithm of the probability that each count plus noise of a variance lies between two ends."""
    low, high = (((end - counts) / math.sqrt(noise)).tolist() for end in ends)
    # If both ends are on the same side, the difference of the tails is precise, and the difference of the rests is not.
    masses = [
        _normal(b) - _normal(a) if a + b < 0 else _normal(-a) - _normal(-b) for a, b in zip(low, high, strict=True)
    ]
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(masses, 0)))


def _normal(z: float) -> float:
    return math.erfc(-z / math.sqrt(2)) / 2


def _density(z: float) -> float:
    return 0.0 if math.isinf(z) else math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
