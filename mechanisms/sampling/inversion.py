"""Lazy inversion: exact draws from a symmetric distribution on the integers, with about one word per draw.

**The guarantee.** Consecutive words are the digits of a real number U, uniform on [0, 1), in base 2^64. A draw is the
integer x with F(x − 1) <= U < F(x), which has probability F(x) − F(x − 1) exactly; each distribution gives rigorous
bounds of its F. There is no rounding; digits are read only as needed.

**Why one word is nearly always enough.** After one word u, U is only known to satisfy u <= 2^64·U < u + 1. Let
c(x) = floor(2^64·F(x)). No F(x) is a multiple of 2^−64 (its bounds are tightened until they show this), so F(x) lies
strictly between c(x)/2^64 and (c(x) + 1)/2^64. If u equals no c(x), then no F(x) lies in the interval of U, and x is
the first integer with c(x) > u, with any further digits. If u equals some c(x), the draw is undecided. The number
formed by two words is then compared with the floors of 2^128·F(x), then by three words, and so on. The words 0 and 2^64
− 1 equal c(x) for all x far out in the tails, so values beyond the table need no special treatment.

A draw is undecided with a probability of about the table's size over 2^64: for σ² = 92,416, one in 3·10^15. Tests use
words of few bits.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mechanisms.sampling.fixed_point import Bounds
from mechanisms.sampling.stream import NumberedWords, WordReader, Words, WordSource

WORD_BITS = 64

_TABLES_KEPT = 32
_FINEST_GUIDE = 20


class Symmetric(Hashable, Protocol):
    """A hashable distribution on the integers with P(−x) = P(x). F(x) is irrational where it is neither 0 nor 1."""

    def cumulative(self, precision: int) -> Iterator[Bounds]:
        """Bounds of F(0), F(1), … at `precision` binary places, without end. A greater precision tightens them. The
        lower bound is less than 1 even where F is 1, so digits after the word 2^64 − 1 decide, as in an endless
        tail."""


@dataclass(frozen=True, eq=False)
class Table:
    """The look-up table for the first word.

    Attributes:
        floors: uint64, shape (2·half,), ascending: c(x) for x = −half, …, half − 1, from 0 to the greatest word.
        guide: uint32: for each value of a word's leading bits, the index of the first floor not less than the least
            such word.
        shift: the number of bits after the leading ones.
    """

    floors: Words
    guide: NDArray[np.uint32]
    shift: np.uint64
    half: np.int64


def sample(distribution: Symmetric, count: int, source: WordSource, word_bits: int = WORD_BITS) -> NDArray[np.int64]:
    """Independent exact draws, shape (count,).

    Words of the source, 0 .. 2^word_bits − 1, are used in order: one for each draw, and further ones while a draw is
    undecided. No word is read after the last draw, so drawing a and then b values gives the same values as drawing
    a + b.
    """
    from mechanisms.sampling.kernels import look_up

    table = tabulate(distribution, word_bits)
    values = np.empty(count, dtype=np.int64)
    reader, done = WordReader(source), 0
    while done < count:
        words = reader.ahead(count - done)
        settled = look_up(words, table.floors, table.guide, table.shift, table.half, values[done:])
        reader.use(settled)
        done += settled
        if settled < len(words):
            values[done] = _decide(distribution, reader.one(), reader, word_bits)
            done += 1
    return values


def sample_at(
    distribution: Symmetric, positions: NDArray[np.int64], source: NumberedWords, word_bits: int = WORD_BITS
) -> NDArray[np.int64]:
    """The draws of some positions, shape (positions,). The draw of a position depends on no other: the draw takes the
    word of its position, and words `after` it while undecided."""
    from mechanisms.sampling.kernels import look_up

    table = tabulate(distribution, word_bits)
    words, values, done = source.words_at(positions), np.empty(len(positions), dtype=np.int64), 0
    while done < len(positions):
        done += look_up(words[done:], table.floors, table.guide, table.shift, table.half, values[done:])
        if done < len(positions):
            further = WordReader(source.after(int(positions[done])))
            values[done] = _decide(distribution, int(words[done]), further, word_bits)
            done += 1
    return values


@lru_cache(maxsize=_TABLES_KEPT)
def tabulate(distribution: Symmetric, word_bits: int = WORD_BITS) -> Table:
    """The table for words of `word_bits` bits, from 2 to 64."""
    floors = np.array(_floors(distribution, word_bits), dtype=np.uint64)
    leading = min(word_bits, len(floors).bit_length() + 3, _FINEST_GUIDE)
    shift = np.uint64(word_bits - leading)
    least = np.arange(1 << leading, dtype=np.uint64) << shift
    guide = np.searchsorted(floors, least).astype(np.uint32)
    for array in (floors, guide):
        array.flags.writeable = False
    return Table(floors, guide, shift, np.int64(len(floors) // 2))


def _decide(distribution: Symmetric, word: int, reader: WordReader, word_bits: int) -> int:
    number, bits = word, word_bits
    while True:
        number = number << word_bits | reader.one()
        bits += word_bits
        floors = _finer_floors(distribution, bits)
        index = bisect_left(floors, number)
        if floors[index] != number:
            return index - len(floors) // 2


def _floors(distribution: Symmetric, bits: int) -> list[int]:
    """floor(2^bits · F(x)) for all x for which it is neither 0 nor 2^bits − 1, and for one more at each end."""
    precision = 2 * bits + 64
    while (upper := _certain_floors(distribution, bits, precision)) is None:
        precision *= 2
    greatest = (1 << bits) - 1
    # F(−x − 1) = 1 − F(x), and 2^bits · F(x) is not whole.
    return [greatest - floor for floor in reversed(upper)] + upper


_finer_floors = lru_cache(maxsize=_TABLES_KEPT)(_floors)


def _certain_floors(distribution: Symmetric, bits: int, precision: int) -> list[int] | None:
    """The floors for x = 0, 1, … up to the first that is 2^bits − 1; None if the bounds do not decide one."""
    greatest, spare = (1 << bits) - 1, precision - bits
    floors: list[int] = []
    for low, high in distribution.cumulative(precision):
        floor = low >> spare
        # Strictly between two whole numbers; F is less than 1 in any case.
        if low == floor << spare or (floor < greatest and high >= (floor + 1) << spare):
            return None
        floors.append(floor)
        if floor == greatest:
            return floors
    raise AssertionError("a cumulative distribution is without end")
