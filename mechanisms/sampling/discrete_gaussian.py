"""The discrete Gaussian distribution N_Z(0, σ²): P(x) ∝ exp(−x² / 2σ²) on the integers.

The mechanisms relate a variance to a protection loss.
Source: Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020).
"""

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

LARGEST_TABULATED_VARIANCE = 2**35
"""Up to this σ², the table has fewer than 2^22 entries."""

_NEARLY_CONTINUOUS = 100


@dataclass(frozen=True)
class DiscreteGaussian:
    """P(x) = exp(−x² / 2σ²) / Z with Z = Σ_y exp(−y² / 2σ²), for all integers x.

    Attributes:
        variance: σ², exact and greater than 0. It is the distribution's parameter; the variance of the draws,
            `exact_variance`, is slightly less.
    """

    variance: Fraction

    def __post_init__(self) -> None:
        if not isinstance(self.variance, Fraction):
            raise TypeError("σ² of a discrete Gaussian distribution is a Fraction, so that it is exact")
        if self.variance <= 0:
            raise ValueError("σ² of a discrete Gaussian distribution is greater than 0")

    def sample(self, count: int, stream: WordSource) -> NDArray[np.int64]:
        """Independent exact draws, shape (count,): about a hundred million a second by inversion.

        If σ² is above `LARGEST_TABULATED_VARIANCE`, tens of thousands a second by rejection.
        """
        if self.variance > LARGEST_TABULATED_VARIANCE:
            return rejection.sample(lambda choices: rejection.gaussian(self.variance, choices), count, stream)
        return inversion.sample(self, count, stream)

    def cumulative(self, precision: int) -> Iterator[Bounds]:
        """Bounds of F(0), F(1), … at `precision` binary places, 64 or more.

        With w(y) = exp(−y² / 2σ²), F(x) = 1/2 + (w(0)/2 + w(1) + … + w(x)) / Z for x >= 0.
        """
        one = 1 << precision
        half = one >> 1
        total_low, total_high = self._moment(0, precision)
        share_low, share_high = (one << precision) // total_high, divide_up(one << precision, total_low)
        sum_low, sum_high = -half, -half
        for low, high, _ in self._weights(precision):
            sum_low, sum_high = sum_low + low, sum_high + high
            yield half + (sum_low * share_low >> precision), half + shift_up(sum_high * share_high, precision)

    @cached_property
    def exact_variance(self) -> Decimal:
        """The variance of the draws, to 40 significant digits, with an error below one unit of the last.

        For σ² > 100 it equals σ² to 40 digits. By Poisson summation the variance is
        σ² − 4π²σ⁴ · Σ k² e^(−2π²σ²k²) / Σ e^(−2π²σ²k²), over all integers k, which is below σ² by less than
        σ² · 10^−800.
        """
        if self.variance > _NEARLY_CONTINUOUS:
            return rounded(self._near_parameter)
        return rounded(self._variance_bounds)

    def probabilities(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """P(x) for each x to float precision: for checks and charts, not for drawing."""
        variance = float(self.variance)
        if variance > _NEARLY_CONTINUOUS:
            total = np.sqrt(2 * np.pi * variance)
        else:
            total = np.exp(-(np.arange(-400, 401) ** 2) / (2 * variance)).sum()
        return np.exp(-np.square(values, dtype=np.float64) / (2 * variance)) / total

    def _near_parameter(self, precision: int) -> Bounds:
        scaled = (self.variance.numerator << precision) // self.variance.denominator
        return scaled - 1, scaled + 1

    def _variance_bounds(self, precision: int) -> Bounds:
        total_low, total_high = self._moment(0, precision)
        low, high = self._moment(2, precision)
        return (low << precision) // total_high, divide_up(high << precision, total_low)

    def _moment(self, power: int, precision: int) -> Bounds:
        """Bounds of Σ |y|^power · w(y) over all integers y, for an even power.

        The sum stops at the first y whose lower bound of w is 0. The remaining terms fall at least as fast as a
        geometric series with the ratio of the first two, because w(y + 1) / w(y) falls with y.
        """
        one = 1 << precision
        sum_low = sum_high = 0
        for value, (low, high, ratio) in enumerate(self._weights(precision)):
            term = value**power
            if not low:
                next_term = (value + 1) ** power
                tail = divide_up(term * high * (term << precision), (term << precision) - next_term * ratio)
                break
            sum_low, sum_high = sum_low + term * low, sum_high + term * high
        at_zero = one if power == 0 else 0
        return 2 * sum_low - at_zero, 2 * (sum_high + tail) - at_zero

    def _weights(self, precision: int) -> Iterator[tuple[int, int, int]]:
        """Bounds of w(y), and an upper bound of w(y + 1) / w(y), for y = 0, 1, …

        w(y + 1) = w(y) · r(y) and r(y + 1) = r(y) · exp(−1/σ²), where r(0) = exp(−1 / 2σ²).
        """
        low = high = 1 << precision
        ratio_low, ratio_high = exponential(1 / (2 * self.variance), precision)
        fall_low, fall_high = exponential(1 / self.variance, precision)
        while True:
            yield low, high, ratio_high
            low, high = low * ratio_low >> precision, shift_up(high * ratio_high, precision)
            ratio_low, ratio_high = ratio_low * fall_low >> precision, shift_up(ratio_high * fall_high, precision)
