"""The discrete Laplace distribution with a cap: P(x) ∝ exp(−|x| / t) on the integers from −D to D.

The mechanisms relate a scale and a cap to a protection loss. Source: the report on the SIPP, Appendix C, Table C-1.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mechanisms.sampling import inversion
from mechanisms.sampling.fixed_point import Bounds, divide_up, exponential, rounded, rounded_up, shift_up
from mechanisms.sampling.stream import WordSource

LARGEST_CAP = 2**21 - 2
"""Up to this D, the table has fewer than 2^22 entries."""

DIGITS = 6
"""Significant digits to which a probability is rounded up: as many as a δ is written with."""

LEAST_PROBABILITY = Fraction(1, 10**300)
"""Smaller probabilities are rounded up to this one."""

_NEGLIGIBLE = 700


@dataclass(frozen=True)
class CappedLaplace:
    """P(x) = q^|x| / Z with q = exp(−1 / t) and Z = 1 + 2q(1 − q^D) / (1 − q), for the integers |x| <= D.

    Attributes:
        scale: t, exact and greater than 0.
        cap: D, from 1 to `LARGEST_CAP`.
    """

    scale: Fraction
    cap: int

    def __post_init__(self) -> None:
        if not isinstance(self.scale, Fraction):
            raise TypeError("the scale of a capped discrete Laplace distribution is a Fraction, so that it is exact")
        if type(self.cap) is not int:
            raise TypeError("the cap of a capped discrete Laplace distribution is a whole number")
        if self.scale <= 0:
            raise ValueError("the scale of a capped discrete Laplace distribution is greater than 0")
        if not 1 <= self.cap <= LARGEST_CAP:
            raise ValueError(f"the cap of a capped discrete Laplace distribution is from 1 to {LARGEST_CAP:,}")

    def sample(self, count: int, stream: WordSource) -> NDArray[np.int64]:
        """Independent exact draws, shape (count,): about a hundred million a second."""
        return inversion.sample(self, count, stream)

    def cumulative(self, precision: int) -> Iterator[Bounds]:
        """Bounds of F(0), F(1), … at `precision` binary places, 64 or more; from F(D) = 1 on, the lower one is below 1.

        F(x) = 1 − (q^(x + 1) − q^(D + 1)) / (1 + q − 2q^(D + 1)) for 0 <= x <= D.
        """
        one = 1 << precision
        q_low, q_high = exponential(1 / self.scale, precision)
        last_low, last_high = exponential((self.cap + 1) / self.scale, precision)
        total_low, total_high = self._total(precision)
        low, high = q_low, q_high
        for _ in range(self.cap):
            yield (
                max(0, one - divide_up((high - last_low) << precision, total_low)),
                min(one, one - (max(0, low - last_high) << precision) // total_high),
            )
            low, high = low * q_low >> precision, shift_up(high * q_high, precision)
        while True:
            yield one - 1, one

    @cached_property
    def exact_variance(self) -> Decimal:
        """The variance to 40 significant digits, with an error below one unit of the last.

        By the closed form of Σ x²·q^x it is 2q·(1 + q − (D + 1)²·q^D + (2D² + 2D − 1)·q^(D + 1) − D²·q^(D + 2)) over
        (1 − q)²·(1 + q − 2q^(D + 1)).
        """
        return rounded(self._variance_bounds)

    def probabilities(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """P(x) for each x to float precision: for checks and charts, not for drawing."""
        rate, sizes = float(1 / self.scale), np.abs(values)
        total = 1 + 2 * math.exp(-rate) * math.expm1(-rate * self.cap) / math.expm1(-rate)
        return np.where(sizes <= self.cap, np.exp(-rate * np.minimum(sizes, self.cap)) / total, 0.0)

    def greatest(self, values: int) -> Fraction:
        """P(x > D − m), the probability of the m greatest values, rounded up to six significant digits or 10^−300.

        If noise is added to counts that differ by m, these are the noises whose sums are possible for the greater
        count alone. For m = 1 it is q^D / Z.
        """
        if values > 2 * self.cap:
            return Fraction(1)
        if values == 0:
            return Fraction(0)
        if self.cap + 1 - values > _NEGLIGIBLE * self.scale:
            return LEAST_PROBABILITY
        above = rounded_up(lambda precision: self._greatest_bounds(values, precision), DIGITS)
        return min(Fraction(1), Fraction(above))

    def _greatest_bounds(self, values: int, precision: int) -> Bounds:
        """P(x > a) = (q^(a + 1) − q^(D + 1)) / (1 + q − 2q^(D + 1)) for a = D − m >= 0; else 1 − P(x >= −a)."""
        one, above = 1 << precision, self.cap - values
        first = above + 1 if above >= 0 else -above
        low, high = exponential(first / self.scale, precision)
        last_low, last_high = exponential((self.cap + 1) / self.scale, precision)
        total_low, total_high = self._total(precision)
        low = (max(0, low - last_high) << precision) // total_high
        high = divide_up((high - last_low) << precision, total_low)
        return (low, high) if above >= 0 else (one - high, one - low)

    def _total(self, precision: int) -> Bounds:
        """Bounds of (1 − q)·Z = 1 + q − 2q^(D + 1)."""
        one = 1 << precision
        q_low, q_high = exponential(1 / self.scale, precision)
        last_low, last_high = exponential((self.cap + 1) / self.scale, precision)
        return max(1, one + q_low - 2 * last_high), one + q_high - 2 * last_low

    def _variance_bounds(self, precision: int) -> Bounds:
        one, cap = 1 << precision, self.cap
        q_low, q_high = exponential(1 / self.scale, precision)
        powers = [exponential(power / self.scale, precision) for power in (cap, cap + 1, cap + 2)]
        (first_low, first_high), (second_low, second_high), (third_low, third_high) = powers
        middle = 2 * cap**2 + 2 * cap - 1
        sum_low = one + q_low - (cap + 1) ** 2 * first_high + middle * second_low - cap**2 * third_high
        sum_high = one + q_high - (cap + 1) ** 2 * first_low + middle * second_high - cap**2 * third_low
        total_low, total_high = self._total(precision)
        rest_low, rest_high = max(1, one - q_high), one - q_low
        return (
            (2 * q_low * max(0, sum_low) << 2 * precision) // (rest_high**2 * total_high),
            divide_up(2 * q_high * sum_high << 2 * precision, rest_low**2 * total_low),
        )
