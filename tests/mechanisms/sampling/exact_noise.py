"""Helpers for the tests of noise: exact probabilities, words of a toy size, and a battery of statistical tests.

This module computes the probabilities from the definition, P(x) ∝ w(|x|), in decimals with 200 digits. The samplers
use a different arithmetic and method: binary fractions with bounds.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, norm

from mechanisms.sampling.noise import CappedLaplace, DiscreteGaussian, DiscreteLaplace
from mechanisms.sampling.stream import Words
from tests.mechanisms.sampling.chi_square import FALSE_ALARM, Probabilities, alarm

Noise = DiscreteGaussian | DiscreteLaplace | CappedLaplace

DIGITS = 200
NEGLIGIBLE = 100
"""Values whose weight is below 10^-100 are left out."""


class OutOfWordsError(Exception):
    """A sampler requested more words than were given."""


class ToyStream:
    """Given words, in order. Counts how many of them were requested."""

    def __init__(self, words: Sequence[int]) -> None:
        self._words = np.array(words, dtype=np.uint64)
        self.used = 0

    def words(self, count: int) -> Words:
        """The next words."""
        if self.used + count > len(self._words):
            raise OutOfWordsError
        self.used += count
        return self._words[self.used - count : self.used]


@dataclass(frozen=True)
class Reference:
    """P and F of −reach … reach, to about 100 decimal places. With a cap, the reach is one beyond it."""

    reach: int
    probabilities: tuple[Decimal, ...]
    cumulative: tuple[Decimal, ...]

    def probability(self, value: int) -> Decimal:
        """P(x)."""
        return self.probabilities[value + self.reach] if abs(value) <= self.reach else Decimal(0)

    def floor(self, value: int, bits: int) -> int:
        """floor(2^bits · F(x)) for |x| < reach; the decimals must determine it."""
        with localcontext(Context(prec=DIGITS)):
            scaled = self.cumulative[value + self.reach] * (1 << bits)
            if not self.probabilities[-1]:
                # F is 0 or 1 exactly beyond a cap, and the table has the floor of a number just below 1.
                if value + 1 >= self.reach:
                    return (1 << bits) - 1
                if value <= -self.reach:
                    return 0
            floor = int(scaled)
            doubt = Decimal(10) ** (bits // 3 + 2 - NEGLIGIBLE)
            assert floor == 0 or doubt < scaled - floor
            assert floor == (1 << bits) - 1 or scaled - floor < 1 - doubt
        return floor

    def moment(self, power: int) -> Decimal:
        """The mean of x^power."""
        with localcontext(Context(prec=DIGITS)):
            return sum(
                (chance * (place - self.reach) ** power for place, chance in enumerate(self.probabilities)), Decimal(0)
            )

    def fractions(self, most: int | None = None) -> Probabilities:
        """P as rational numbers; values beyond ±most count as ±most."""
        with localcontext(Context(prec=DIGITS)):
            most = self.reach if most is None else most
            chances = {value: self.probability(value) for value in range(1 - most, most)}
            chances[most] = chances[-most] = (1 - sum(chances.values())) / 2
            return {value: Fraction(int(chance * 2**200), 2**200) for value, chance in chances.items()}


@lru_cache
def reference(noise: Noise) -> Reference:
    """Probabilities from the definition."""
    with localcontext(Context(prec=DIGITS)):
        if isinstance(noise, DiscreteGaussian):
            twice = 2 * Decimal(noise.variance.numerator) / noise.variance.denominator
            reach = int((twice * NEGLIGIBLE * 3).sqrt()) + 1
            last = (-(reach * reach) / twice).exp()
            ratio, fall = (-1 / twice).exp(), (-2 / twice).exp()
        else:
            scale = Decimal(noise.scale.numerator) / noise.scale.denominator
            reach = noise.cap if isinstance(noise, CappedLaplace) else int(scale * NEGLIGIBLE * 3) + 1
            last = (-reach / scale).exp()
            ratio, fall = (-1 / scale).exp(), Decimal(1)
        positive, weight = [], Decimal(1)
        for _ in range(reach):
            weight *= ratio
            ratio *= fall
            positive.append(weight)
        assert abs(weight / last - 1) < Decimal("1e-180")
        if isinstance(noise, CappedLaplace):
            positive, reach = [*positive, Decimal(0)], reach + 1
        weights = [*reversed(positive), Decimal(1), *positive]
        total = sum(weights)
        probabilities = [weight / total for weight in weights]
        return Reference(reach, tuple(probabilities), tuple(accumulate(probabilities)))


def quantiles(noise: Noise, words: Sequence[int], word_bits: int) -> list[tuple[int, int]]:
    """The definition of lazy inversion: each draw that the words decide, and how many words had been read by then.

    A draw is decided as soon as all numbers that begin with its digits have the same quantile.
    """
    exact = reference(noise)
    with localcontext(Context(prec=DIGITS)):
        drawn, low, width = [], Decimal(0), Decimal(1)
        for read, word in enumerate(words, start=1):
            width /= 1 << word_bits
            low += word * width
            first, last = bisect_right(exact.cumulative, low), bisect_right(exact.cumulative, low + width)
            if first == last and abs(first - exact.reach) < exact.reach:
                drawn.append((first - exact.reach, read))
                low, width = Decimal(0), Decimal(1)
    return drawn


def outermost(noise: Noise, draws: int) -> int:
    """The greatest value that is expected at least ten times, or 1 if that is greater."""
    most = reference(noise).reach
    while draws * reference(noise).probability(most) < 10 and most > 1:
        most -= 1
    return most


def rounded_to_integers(cumulative: Callable[[NDArray[np.float64]], NDArray[np.float64]], most: int) -> Probabilities:
    """P of a continuous distribution's values, rounded to integers; those beyond ±most count as ±most."""
    edges = np.concatenate([[-np.inf], np.arange(-most, most) + 0.5, [np.inf]])
    chances = np.diff(cumulative(edges))
    return {value: Fraction(chance) for value, chance in zip(range(-most, most + 1), chances.tolist(), strict=True)}


def alarms(values: NDArray[np.int64], noise: Noise) -> set[str]:
    """The tests that find draws to be from another distribution, each with a false-alarm rate of one in a million.

    The chi-square test merges values that are expected fewer than ten times. The tail tests compare the counts beyond
    3, 4 and 5 standard deviations with the binomial distribution. Mean and variance are compared with the exact ones,
    with exact standard errors: sums over so many draws are normal.
    """
    draws, exact = len(values), reference(noise)
    found = set()

    most = outermost(noise, draws)
    clipped = np.clip(values, -most, most)
    counts = np.bincount(clipped + most, minlength=2 * most + 1)
    if alarm(dict(zip(range(-most, most + 1), counts.tolist(), strict=True)), exact.fractions(most)):
        found.add("chi-square")

    variance = float(exact.moment(2))
    for deviations in (3, 4, 5):
        bound = math.ceil(deviations * math.sqrt(variance))
        beyond = float(2 * sum(exact.probability(value) for value in range(bound, exact.reach + 1)))
        count = int(np.count_nonzero(np.abs(values) >= bound))
        rarity = min(binom.cdf(count, draws, beyond), binom.sf(count - 1, draws, beyond))
        if rarity < FALSE_ALARM / 6:
            found.add("tails")

    critical = norm.isf(FALSE_ALARM / 2)
    if abs(float(np.mean(values))) > critical * math.sqrt(variance / draws):
        found.add("mean")
    squares = float(np.mean(np.square(values, dtype=np.float64)))
    if abs(squares - variance) > critical * math.sqrt((float(exact.moment(4)) - variance**2) / draws):
        found.add("variance")
    return found
