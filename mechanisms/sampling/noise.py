"""The distributions of noise, and the noise of a draw: independent noise for every count of every query."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mechanisms.sampling import inversion, rejection
from mechanisms.sampling.fixed_point import Bounds, divide_up, exponential, round_bounds, round_bounds_up, shift_up
from mechanisms.sampling.stream import NumberedWords, RandomStream, WordSource

LARGEST_TABULATED_VARIANCE = 2**35
LARGEST_TABULATED_SCALE = 2**15
"""Up to this σ² or t, the table for inversion has fewer than 2^22 entries. Wider noise is drawn by rejection: tens of
thousands of draws a second instead of about a hundred million."""

WIDEST = 2**55
"""The largest σ or t. Wider noise might not fit 64-bit integers: of this one, less than 10^-55 is beyond 2^62."""

LARGEST_CAP = 2**21 - 2
"""Up to this D, the table has fewer than 2^22 entries."""

DIGITS = 6
"""Significant digits to which a probability is rounded up, as in a written δ."""

LEAST_PROBABILITY = Fraction(1, 10**300)
"""Smaller probabilities are rounded up to this one."""

_NEARLY_CONTINUOUS = 100
_NEGLIGIBLE = 700


def _require_positive(parameter: str, value: Fraction) -> None:
    if not isinstance(value, Fraction):
        raise TypeError(f"{parameter} is a Fraction, so that it is exact")
    if value <= 0:
        raise ValueError(f"{parameter} is greater than 0")


def _require_room(fits: bool) -> None:
    if not fits:
        raise ValueError("the noise is too wide for 64-bit integers: σ or the scale is above 2^55")


@dataclass(frozen=True)
class DiscreteGaussian:
    """P(x) = exp(−x² / 2σ²) / Z with Z = Σ_y exp(−y² / 2σ²), for all integers x: N_Z(0, σ²) of Canonne, Kamath and
    Steinke, "The Discrete Gaussian for Differential Privacy" (2020). `variance` is the parameter σ² > 0, exact. The
    variance of the draws, `exact_variance`, is slightly less."""

    variance: Fraction

    def __post_init__(self) -> None:
        _require_positive("σ² of a discrete Gaussian distribution", self.variance)

    def sample(self, count: int, stream: WordSource) -> NDArray[np.int64]:
        if self.variance > LARGEST_TABULATED_VARIANCE:
            _require_room(self.variance <= WIDEST**2)
            return rejection.sample(lambda choices: rejection.gaussian(self.variance, choices), count, stream)
        return inversion.sample(self, count, stream)

    def cumulative(self, precision: int) -> Iterator[Bounds]:
        """Bounds of F(0), F(1), … at `precision` binary places, 64 or more. With w(y) = exp(−y² / 2σ²),
        F(x) = 1/2 + (w(0)/2 + w(1) + … + w(x)) / Z for x >= 0."""
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

        For σ² > 100 it equals σ² to 40 digits: by Poisson summation it is σ² − 4π²σ⁴ · Σ k² e^(−2π²σ²k²) / Σ
        e^(−2π²σ²k²), over all integers k, which is below σ² by less than σ² · 10^−800.
        """
        if self.variance > _NEARLY_CONTINUOUS:
            return round_bounds(self._near_parameter)
        return round_bounds(self._variance_bounds)

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
        """Bounds of Σ |y|^power · w(y) over all integers y, for an even power. The sum stops at the first y whose lower
        bound of w is 0. The remaining terms fall at least as fast as a geometric series with the ratio of the first
        two, because w(y + 1) / w(y) falls with y."""
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
        """Bounds of w(y), and an upper bound of w(y + 1) / w(y), for y = 0, 1, … by w(y + 1) = w(y) · r(y) and
        r(y + 1) = r(y) · exp(−1/σ²), where r(0) = exp(−1 / 2σ²)."""
        low = high = 1 << precision
        ratio_low, ratio_high = exponential(1 / (2 * self.variance), precision)
        fall_low, fall_high = exponential(1 / self.variance, precision)
        while True:
            yield low, high, ratio_high
            low, high = low * ratio_low >> precision, shift_up(high * ratio_high, precision)
            ratio_low, ratio_high = ratio_low * fall_low >> precision, shift_up(ratio_high * fall_high, precision)


@dataclass(frozen=True)
class DiscreteLaplace:
    """P(x) = (1 − q) / (1 + q) · q^|x| with q = exp(−1 / t), for all integers x and the scale t."""

    scale: Fraction

    def __post_init__(self) -> None:
        _require_positive("the scale of a discrete Laplace distribution", self.scale)

    def sample(self, count: int, stream: WordSource) -> NDArray[np.int64]:
        if self.scale > LARGEST_TABULATED_SCALE:
            _require_room(self.scale <= WIDEST)
            return rejection.sample(lambda choices: rejection.laplace(self.scale, choices), count, stream)
        return inversion.sample(self, count, stream)

    def cumulative(self, precision: int) -> Iterator[Bounds]:
        """Bounds of F(0), F(1), … at `precision` binary places, 64 or more: F(x) = 1 − q^(x + 1) / (1 + q) for
        x >= 0."""
        one = 1 << precision
        q_low, q_high = exponential(1 / self.scale, precision)
        tail_low, tail_high = q_low * one // (one + q_low), divide_up(q_high * one, one + q_high)
        while True:
            yield one - tail_high, one - tail_low
            tail_low, tail_high = tail_low * q_low >> precision, shift_up(tail_high * q_high, precision)

    @cached_property
    def exact_variance(self) -> Decimal:
        """The variance 2q / (1 − q)² to 40 significant digits, with an error below one unit of the last."""
        return round_bounds(self._variance_bounds)

    def probabilities(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        rate = float(1 / self.scale)
        return math.tanh(rate / 2) * np.exp(-rate * np.abs(values))

    def _variance_bounds(self, precision: int) -> Bounds:
        one = 1 << precision
        low, high = exponential(1 / self.scale, precision)
        return (low << 2 * precision + 1) // (one - low) ** 2, divide_up(high << 2 * precision + 1, (one - high) ** 2)


@dataclass(frozen=True)
class CappedLaplace:
    """P(x) = q^|x| / Z with q = exp(−1 / t) and Z = 1 + 2q(1 − q^D) / (1 − q), for |x| <= D, the cap, and the scale t
    (the report on the SIPP, Appendix C, Table C-1, where D = 7)."""

    scale: Fraction
    cap: int

    def __post_init__(self) -> None:
        _require_positive("the scale of a capped discrete Laplace distribution", self.scale)
        if type(self.cap) is not int:
            raise TypeError("the cap of a capped discrete Laplace distribution is a whole number")
        if not 1 <= self.cap <= LARGEST_CAP:
            raise ValueError(f"the cap of a capped discrete Laplace distribution is from 1 to {LARGEST_CAP:,}")

    def sample(self, count: int, stream: WordSource) -> NDArray[np.int64]:
        return inversion.sample(self, count, stream)

    def cumulative(self, precision: int) -> Iterator[Bounds]:
        """Bounds of F(0), F(1), … at `precision` binary places, 64 or more. From x = D on, F(x) = 1 and its lower bound
        is just below 1. F(x) = 1 − (q^(x + 1) − q^(D + 1)) / (1 + q − 2q^(D + 1)) for 0 <= x <= D."""
        one = 1 << precision
        low, high = q_low, q_high = exponential(1 / self.scale, precision)
        last_low, last_high = exponential((self.cap + 1) / self.scale, precision)
        total_low, total_high = self._total(precision)
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
        """The variance to 40 significant digits, with an error below one unit of the last:
        2q·(1 + q − (D + 1)²·q^D + (2D² + 2D − 1)·q^(D + 1) − D²·q^(D + 2)) over (1 − q)²·(1 + q − 2q^(D + 1)), by the
        closed form of Σ x²·q^x."""
        return round_bounds(self._variance_bounds)

    def probabilities(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        rate, sizes = float(1 / self.scale), np.abs(values)
        total = 1 + 2 * math.exp(-rate) * math.expm1(-rate * self.cap) / math.expm1(-rate)
        return np.where(sizes <= self.cap, np.exp(-rate * np.minimum(sizes, self.cap)) / total, 0.0)

    def greatest(self, values: int) -> Fraction:
        """P(x > D − m), the probability of the m greatest values, rounded up to six significant digits or 10^−300;
        q^D / Z for m = 1. If two counts differ by m, these are the noises that lift the greater count beyond every
        result of the other."""
        if values > 2 * self.cap:
            return Fraction(1)
        if values == 0:
            return Fraction(0)
        if self.cap + 1 - values > _NEGLIGIBLE * self.scale:
            return LEAST_PROBABILITY
        above = round_bounds_up(lambda precision: self._greatest_bounds(values, precision), DIGITS)
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


Distribution = DiscreteGaussian | DiscreteLaplace | CappedLaplace


@dataclass(frozen=True)
class Perturbation:
    """Noise that is not added: its distribution depends on the count, and `exact_variance` is its greatest variance."""

    name: str
    exact_variance: Decimal


class Noise:
    """The noise of a draw, read query by query and in parts of any size, which do not change the numbers.

    Every query has its own stream, so its noise does not depend on other queries. The name of the mechanism begins the
    label of every stream; the key of the draw has 32 bytes, and is secret.
    """

    def __init__(self, mechanism: str, distributions: Mapping[str, Distribution], key: bytes) -> None:
        self._distributions = distributions
        self._mechanism, self._key = mechanism, key
        self._streams = {query: RandomStream(key, f"{mechanism} {query}") for query in distributions}

    def of_next(self, query: str, count: int) -> NDArray[np.int64]:
        """The noise of the next `count` counts of a query, shape (count,)."""
        return self._distributions[query].sample(count, self._streams[query])

    def from_the_beginning(self) -> "Noise":
        """The same noise, to be read once more."""
        return Noise(self._mechanism, self._distributions, self._key)


class NumberedNoise:
    """The noise of a draw whose queries have more answers than are read: each number depends only on the query and the
    answer's number, so the answers read are those of the complete draw. Arguments are as in `Noise`; every distribution
    has a table."""

    def __init__(self, mechanism: str, distributions: Mapping[str, DiscreteGaussian], key: bytes) -> None:
        if wide := [query for query, own in distributions.items() if own.variance > LARGEST_TABULATED_VARIANCE]:
            raise ValueError(f"σ² of {wide[0]} is above {LARGEST_TABULATED_VARIANCE:,}")
        self._distributions = distributions
        self._words = {query: NumberedWords(key, f"{mechanism} {query}") for query in distributions}

    def at(self, query: str, answers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The noise of some answers of a query, shape (answers,)."""
        return inversion.sample_at(self._distributions[query], answers, self._words[query])
