"""Exact choices from whole words: uniform integers, and coins of rational bias.

All other samplers are made of these two. Both reject some words and draw again, which makes the rest exactly uniform:
no remainder favors small numbers, and no floats are compared.

The greatest word, `top`, is a parameter: 2**64 - 1 in use, and small in tests, which try every word.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numba.extending import register_jitable

TOP_WORD = np.uint64(2**64 - 1)


@register_jitable(inline="always")
def remainder_is_fair(word, remainder, bound, top):  # type: ignore[no-untyped-def]
    """Whether a word's remainder modulo `bound` may be used as a uniform integer below `bound`.

    The word belongs to a run of `bound` words, one for each remainder. A run that `top` cuts short is rejected.
    All arguments are uint64, with 1 <= bound <= top.
    """
    return word - remainder <= top - (bound - np.uint64(1))


@dataclass(frozen=True)
class Coin:
    """A coin that shows heads with an exactly rational probability.

    A word above `last_fair` is rejected. Of the others, those below `heads` show heads.
    """

    heads: np.uint64
    last_fair: np.uint64

    @classmethod
    def of(cls, probability: Fraction, top: int = int(TOP_WORD)) -> "Coin":
        """The coin for words from 0 to `top`.

        Raises:
            ValueError: if the probability is not strictly between 0 and 1, or its denominator is too large
                for the words.
        """
        if not 0 < probability < 1:
            raise ValueError("a coin's probability lies strictly between 0 and 1")
        run = (top + 1) // probability.denominator
        if run == 0:
            raise ValueError("the probability's denominator exceeds the number of words")
        heads, last_fair = run * probability.numerator, run * probability.denominator - 1
        return cls(np.uint64(heads), np.uint64(last_fair))
