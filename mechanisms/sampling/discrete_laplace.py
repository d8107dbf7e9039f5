"""The discrete Laplace distribution: P(x) ∝ exp(−|x| / t) on the integers.

The mechanisms relate a scale to a protection loss.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mechanisms.sampling import inversion, rejection
from mechanisms.sampling.fixed_point import Bounds, divide_up, exponential, rounded, shift_up
from mechanisms.sampling.stream import WordSource

LARGEST_TABULATED_SCALE = 2**15
"""Up to this scale, the table has fewer than 2^22 entries."""


@dataclass(frozen=True)
class DiscreteLaplace:
    """P(x) = (1 − q) / (1 + q) · q^|x| with q = exp(−1 / t), for all integers x.

    Attributes:
        scale: t, exact and greater than 0.
    """

    scale: Fraction

    def __post_init__(self) -> None:
        if not isinstance(self.scale, Fraction):
            raise TypeError("the scale of a discrete Laplace distribution is a Fraction, so that it is exact")
        if self.scale <= 0:
            raise ValueError("the scale of a discrete Laplace distribution is greater than 0")

    def sample(self, count: int, stream: WordSource) -> NDArray[np.int64]:
        """Independent exact draws, shape (count,): about a hundred million a second by inversion.

        If the scale is above `LARGEST_TABULATED_SCALE`, tens of thousands a second by rejection.
        """
        if self.scale > LARGEST_TABULATED_SCALE:
            return rejection.sample(lambda choices: rejection.laplace(self.scale, choices), count, stream)
        return inversion.sample(self, count, stream)

    def cumulative(self, precision: int) -> Iterator[Bounds]:
        """Bounds of F(0), F(1), … at `precision` binary places, 64 or more.

        F(x) = 1 − q^(x + 1) / (1 + q) for x >= 0.
        """
        one = 1 << precision
        q_low, q_high = exponential(1 / self.scale, precision)
        tail_low, tail_high = q_low * one // (one + q_low), divide_up(q_high * one, one + q_high)
        while True:
            yield one - tail_high, one - tail_low
            tail_low, tail_high = tail_low * q_low >> precision, shift_up(tail_high * q_high, precision)

    @cached_property
    def exact_variance(self) -> Decimal:
        """The variance 2q / (1 − q)² to 40 significant digits, with an error below one unit of the last."""
        return rounded(self._variance_bounds)

    def probabilities(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """P(x) for each x to float precision: for checks and charts, not for drawing."""
        rate = float(1 / self.scale)
        return math.tanh(rate / 2) * np.exp(-rate * np.abs(values))

    def _variance_bounds(self, precision: int) -> Bounds:
        one = 1 << precision
        low, high = exponential(1 / self.scale, precision)
        return (low << 2 * precision + 1) // (one - low) ** 2, divide_up(high << 2 * precision + 1, (one - high) ** 2)
