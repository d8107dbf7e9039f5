"""Coins of exactly rational bias, shown by whole words: some words are rejected, so that no float is compared."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

TOP_WORD = np.uint64(2**64 - 1)
"""The greatest word. Tests use smaller ones and try every word."""


@dataclass(frozen=True)
class Coin:
    """A coin that shows heads with an exactly rational probability.

    A word above `last_fair` is rejected. Of the others, those below `heads` show heads.
    """

    heads: np.uint64
    last_fair: np.uint64

    @classmethod
    def of(cls, probability: Fraction, top: int = int(TOP_WORD)) -> "Coin":
        """The coin for words from 0 to `top`."""
        if not 0 < probability < 1:
            raise ValueError("a coin's probability lies strictly between 0 and 1")
        run = (top + 1) // probability.denominator
        if run == 0:
            raise ValueError("the probability's denominator exceeds the number of words")
        heads, last_fair = run * probability.numerator, run * probability.denominator - 1
        return cls(np.uint64(heads), np.uint64(last_fair))
