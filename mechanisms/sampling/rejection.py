"""Exact draws by rejection, for distributions too wide for a table: Algorithms 1 to 3 of Canonne, Kamath and Steinke,
"The Discrete Gaussian for Differential Privacy" (2020), in integers of any size.
"""

from collections.abc import Callable
from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from mechanisms.sampling.inversion import WORD_BITS
from mechanisms.sampling.stream import WordReader, WordSource


class Choices:
    """The two choices that the samplers use, made with random words: 0 .. 2^word_bits − 1, equally likely."""

    def __init__(self, reader: WordReader, word_bits: int = WORD_BITS) -> None:
        self._reader = reader
        self._word_bits = word_bits

    def below(self, bound: int) -> int:
        """An integer from 0 to bound − 1: the remainder of a number made of as few words as suffice. Numbers beyond the
        last whole run of `bound` are rejected, so that all remainders are equally likely."""
        words = -(-(bound - 1).bit_length() // self._word_bits)
        fair = (1 << words * self._word_bits) // bound * bound
        while True:
            number = 0
            for _ in range(words):
                number = number << self._word_bits | self._reader.one()
            if number < fair:
                return number % bound

    def coin(self, numerator: int, denominator: int) -> bool:
        """True with probability numerator / denominator."""
        return self.below(denominator) < numerator


def sample(draw: Callable[[Choices], int], count: int, source: WordSource) -> NDArray[np.int64]:
    """Independent draws, shape (count,), in the order of the words. No word is read after the last draw."""
    reader = WordReader(source)
    choices = Choices(reader)
    values = np.empty(count, dtype=np.int64)
    for place in range(count):
        reader.ahead(count - place)
        values[place] = draw(choices)
    return values


def bernoulli_exponential(numerator: int, denominator: int, choices: Choices) -> bool:
    """True with probability exp(−numerator / denominator), for a ratio of 0 or more (Algorithm 1)."""
    while numerator > denominator:
        if not bernoulli_exponential(1, 1, choices):
            return False
        numerator -= denominator
    trial = 1
    while choices.coin(numerator, denominator * trial):
        trial += 1
    return trial % 2 == 1


def laplace(scale: Fraction, choices: Choices) -> int:
    """A draw from P(x) ∝ exp(−|x| / scale) (Algorithm 2; t is the scale's numerator, s its denominator)."""
    while True:
        part = choices.below(scale.numerator)
        if not bernoulli_exponential(part, scale.numerator, choices):
            continue
        whole = 0
        while bernoulli_exponential(1, 1, choices):
            whole += 1
        size = (part + scale.numerator * whole) // scale.denominator
        negative = choices.coin(1, 2)
        if size or not negative:
            return -size if negative else size


def gaussian(variance: Fraction, choices: Choices) -> int:
    """A draw from P(x) ∝ exp(−x² / 2σ²), where σ² is the variance (Algorithm 3): a draw y from the discrete Laplace
    distribution with t = floor(σ) + 1 is kept with probability exp(−(|y| − σ²/t)² / 2σ²)."""
    numerator, denominator = variance.numerator, variance.denominator
    scale = isqrt(numerator // denominator) + 1
    while True:
        value = laplace(Fraction(scale), choices)
        distance = abs(value) * denominator * scale - numerator
        if bernoulli_exponential(distance**2, 2 * numerator * denominator * scale**2, choices):
            return value
