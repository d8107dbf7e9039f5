"""Discrete noise for arrays of counts, drawn exactly, without floats, so that floating-point attacks do not apply."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assets.release.numbers import positive_fraction
from mechanisms.accounting.losses import ConcentratedLoss, Loss, PureLoss, format_loss
from mechanisms.accounting.specification import UNBOUNDED, Flavor, Specification
from mechanisms.design import LARGEST_BUDGET
from mechanisms.sampling.noise import CappedLaplace, DiscreteGaussian, DiscreteLaplace, Distribution
from mechanisms.sampling.quantiles import half_width
from stirred.accounting import Number
from stirred.random import Randomness
from stirred.results import Draw

__all__ = [
    "CappedLaplace",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "NoisyCounts",
    "add_gaussian",
    "add_laplace",
    "draw",
    "read_counts",
]


LARGEST_COUNT = 2**62


@dataclass(frozen=True, repr=False, eq=False)
class NoisyCounts(Draw):
    """Counts with independent noise of one distribution: `values`, int64, of the shape of the counts."""

    values: NDArray[np.int64]
    noise: DiscreteGaussian | DiscreteLaplace

    @property
    def standard_error(self) -> float:
        return float(self.noise.exact_variance) ** 0.5

    @property
    def margin(self) -> int:
        """The margin of error: the least m such that the noise of a count is within ±m with a probability of at least
        0.9, exactly."""
        return half_width(self.noise, 1, Fraction(9, 10))

    @property
    def _title(self) -> str:
        return f"{self.values.size:,} counts with noise of {self.noise}, σ = {self.standard_error:.4g}"


def draw(distribution: Distribution, size: int, *, randomness: Randomness) -> NDArray[np.int64]:
    """Independent exact draws of a distribution, shape (size,), int64."""
    return distribution.sample(size, randomness.next_stream())


def add_laplace(
    counts: ArrayLike, epsilon: Number, *, randomness: Randomness, l1: int = 1, **described: Any
) -> NoisyCounts:
    """Counts with discrete Laplace noise of scale l1 / ε, which loses ε (pure DP).

    Args:
        l1: the greatest sum of absolute differences between the counts of two neighbors: 1 if a record is in one count
            and neighbors differ by a record added or removed, 2 if it is changed.
        described: the words of the specification: `unit`, "record" by default; `neighbors`, "unbounded" (a record added
            or removed, the default) or "bounded" (changed); `domain`.

    Raises TypeError if counts are not integers, and ValueError for an ε that is not greater than 0 or above 1,000, or
    for noise too wide for 64-bit integers.
    """
    loss = PureLoss(positive_fraction(epsilon))
    return _add(counts, DiscreteLaplace(_sensitivity("l1", l1) / loss.rational), loss, randomness, described)


def add_gaussian(
    counts: ArrayLike, rho: Number, *, randomness: Randomness, squared_l2: int = 1, **described: Any
) -> NoisyCounts:
    """Counts with discrete Gaussian noise of variance squared_l2 / 2ρ, which loses ρ (zCDP; Canonne, Kamath and
    Steinke, 2020, Theorem 4).

    `squared_l2` is the greatest sum of squared differences between the counts of two neighbors. See `add_laplace` for
    the other arguments and the errors.
    """
    loss = ConcentratedLoss(positive_fraction(rho))
    noise = DiscreteGaussian(_sensitivity("squared_l2", squared_l2) / (2 * loss.rho))
    return _add(counts, noise, loss, randomness, described)


def read_counts(counts: ArrayLike) -> NDArray[np.int64]:
    """Counts as int64. Raises TypeError if they are not an array of integers, and ValueError if one is beyond ±2^62, so
    that noise would not fit."""
    if np.ma.is_masked(counts) or (not isinstance(counts, Sequence | int) and not hasattr(counts, "__array__")):
        raise TypeError(f"counts are an array of integers without missing ones, not {type(counts).__name__}")
    values = np.asarray(counts)
    if values.size and not np.issubdtype(values.dtype, np.integer):
        raise TypeError(f"counts are integers, not {values.dtype}")
    if ((values > LARGEST_COUNT) | (values < -LARGEST_COUNT)).any():
        raise ValueError("a count is beyond 2^62")
    return values.astype(np.int64)


def _add(
    counts: ArrayLike,
    noise: DiscreteGaussian | DiscreteLaplace,
    loss: Loss,
    randomness: Randomness,
    described: dict[str, Any],
) -> NoisyCounts:
    exact = read_counts(counts)
    if float(loss) > LARGEST_BUDGET:
        raise ValueError(f"{format_loss(loss)} leaves hardly any noise; the most is {LARGEST_BUDGET:,}")
    words = {"domain": "all possible files of records", "unit": "record", "neighbors": UNBOUNDED} | described
    flavor = Flavor(multiverse=(), changes_per_person=None, output_premetric=loss.output_premetric, **words)
    values = exact + draw(noise, exact.size, randomness=randomness).reshape(exact.shape)
    return NoisyCounts(Specification(flavor, loss), values, noise)


def _sensitivity(name: str, value: int) -> Fraction:
    if not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} is a whole number of 1 or more, not {value}")
    return Fraction(int(value))
