"""Perturbation tables (p-tables): for every count, the distribution of the published count.

A p-table draws results from the words of a stream or from the keys of cells. `entropy` makes p-tables, `reading` reads
p-tables of other tools, and `judging` computes their loss.

Sources: Fraser and Wooton (2005); Marley and Leaver (2011); Giessing (2016).

**Exactness.** A row is a sequence of intervals of [0, 1), each of which stands for a change. Words are the binary
digits of a number U, uniform on [0, 1), and the interval that contains U is drawn. As in `sampling.inversion`, further
words are read only while U may still lie on either side of a boundary, so every result has exactly its probability.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, count
from math import lcm
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.hashes import SHA256, Hash
from numpy.typing import NDArray

from mechanisms.accounting.rounding import round_up
from mechanisms.sampling.goodness import BINS, BinCounts
from mechanisms.sampling.inversion import WORD_BITS
from mechanisms.sampling.stream import WordReader, Words, WordSource
from mechanisms.table_builder.keys import KeyedWords

_MOST_KEYS = 1 << 32


@dataclass(frozen=True)
class Row:
    """The changes that a count may undergo, in the order of their intervals; a change may have several intervals. The
    probability of an interval is its weight, a positive whole number, over the sum of weights."""

    changes: tuple[int, ...]
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.changes or len(self.changes) != len(self.weights):
            raise ValueError("a row has at least one change, and one weight for each")
        if min(self.weights) <= 0:
            raise ValueError("the weights of a row are greater than 0")

    @classmethod
    def of(cls, chances: Sequence[tuple[int, Fraction]]) -> "Row":
        whole = lcm(*(chance.denominator for _, chance in chances))
        return cls(tuple(change for change, _ in chances), tuple(int(chance * whole) for _, chance in chances))

    @cached_property
    def whole(self) -> int:
        return sum(self.weights)

    @cached_property
    def probabilities(self) -> dict[int, Fraction]:
        """The probability of each change that is possible, from the least change to the greatest."""
        weights = dict.fromkeys(sorted(set(self.changes)), 0)
        for change, weight in zip(self.changes, self.weights, strict=True):
            weights[change] += weight
        return {change: Fraction(weight, self.whole) for change, weight in weights.items()}

    @property
    def mean(self) -> Fraction:
        return sum((change * chance for change, chance in self.probabilities.items()), Fraction(0))

    @property
    def variance(self) -> Fraction:
        square = sum((change**2 * chance for change, chance in self.probabilities.items()), Fraction(0))
        return square - self.mean**2


@dataclass(frozen=True)
class PTable:
    """Probabilities P(a → b) that the count a is published as b: a row for each of the counts 0, 1, 2, … Greater counts
    use the last `cycle` rows in rotation."""

    rows: tuple[Row, ...]
    cycle: int = 1

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError("a p-table has at least one row")
        if not 1 <= self.cycle <= len(self.rows):
            raise ValueError(f"a cycle has between 1 row and all {len(self.rows)}, not {self.cycle}")
        for number, row in enumerate(self.rows):
            if number + min(row.changes) < 0:
                raise ValueError(f"count {number}: the result {number + min(row.changes)} is negative")

    @classmethod
    def of(cls, transitions: Sequence[Mapping[int, Fraction]], cycle: int = 1) -> "PTable":
        """The p-table whose results of the counts 0, 1, 2, … have these probabilities."""
        rows = []
        for number, results in enumerate(transitions):
            if any(chance < 0 for chance in results.values()):
                raise ValueError(f"count {number}: a probability is negative")
            total = sum(results.values(), Fraction(0))
            if total != 1:
                raise ValueError(f"count {number}: the probabilities sum to {total}, not to 1")
            rows.append(Row.of([(result - number, chance) for result, chance in sorted(results.items()) if chance]))
        return cls(tuple(rows), cycle)

    @property
    def last(self) -> int:
        """The last count with a row of its own."""
        return len(self.rows) - 1

    @property
    def zero_stays_zero(self) -> bool:
        return set(self.rows[0].changes) == {0}

    def row_numbers(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of the row that each count uses."""
        if counts.size and counts.min() < 0:
            raise ValueError("a count is not negative")
        beyond = (counts - len(self.rows)) % self.cycle + len(self.rows) - self.cycle
        return np.where(counts <= self.last, counts, beyond)

    def row(self, number: int) -> Row:
        return self.rows[int(self.row_numbers(np.array([number]))[0])]

    def probability(self, before: int, after: int) -> Fraction:
        return self.row(before).probabilities.get(after - before, Fraction(0))

    @cached_property
    def exact_variance(self) -> Decimal:
        """The greatest variance of a row, rounded up at the 18th decimal."""
        return round_up(max(row.variance for row in self.rows), 18)

    @cached_property
    def greatest_bias(self) -> Fraction:
        """The greatest absolute mean change of a row."""
        return max(abs(row.mean) for row in self.rows)

    @cached_property
    def version(self) -> str:
        """The SHA-256 of the intervals of all rows, 64 hexadecimal digits."""
        digest = Hash(SHA256())
        digest.update(f"cycle {self.cycle}".encode())
        for row in self.rows:
            intervals = (f"{change:+d}:{weight}" for change, weight in zip(row.changes, row.weights, strict=True))
            digest.update(f"\n{' '.join(intervals)}".encode())
        return digest.finalize().hex()

    def draw(self, counts: NDArray[np.int64], source: WordSource, word_bits: int = WORD_BITS) -> NDArray[np.int64]:
        """A result for each count, all independent, with exactly the stated probabilities. Words are uniform on 0 ..
        2^word_bits − 1 and used in order: one for each count, and more while a draw is undecided. No word is read after
        the last draw."""
        numbers, reader = self.row_numbers(counts), WordReader(source)
        changes = np.empty(len(counts), dtype=np.int64)
        done = 0
        while done < len(counts):
            words = reader.ahead(len(counts) - done)
            settled = self._look_up(words, numbers[done:], changes[done:], word_bits)
            reader.use(settled)
            done += settled
            if settled < len(words):
                changes[done] = _decide(self.rows[numbers[done]], reader.one, word_bits)
                done += 1
        return counts + changes

    def draw_by_cell(
        self, counts: NDArray[np.int64], source: KeyedWords, word_bits: int = WORD_BITS
    ) -> NDArray[np.int64]:
        """A result for each count, from the words of its cell. Equal counts with equal words have equal results."""
        numbers, words = self.row_numbers(counts), source.words(0)
        changes = np.empty(len(counts), dtype=np.int64)
        done = 0
        while (done := done + self._look_up(words[done:], numbers[done:], changes[done:], word_bits)) < len(counts):
            further = (source.word(number, done) for number in count())
            changes[done] = _decide(self.rows[numbers[done]], further.__next__, word_bits)
            done += 1
        return counts + changes

    def look_up(self, counts: NDArray[np.int64], key_sums: NDArray[np.int64]) -> NDArray[np.int64]:
        """The results as the Office for National Statistics looks them up: each cell key stands for an interval of
        length 1 in a row. The cell key is the sum of the record keys in a cell, modulo the number of keys, which is the
        sum of each row's weights. Raises ValueError if these sums of rows with several intervals differ or exceed
        2^32."""
        from mechanisms.sampling.kernels import find_changes

        keys, ends = self._keys_and_ends
        arrays = self._arrays
        return counts + find_changes(self.row_numbers(counts), key_sums % keys, arrays.starts, ends, arrays.changes)

    def _look_up(self, words: Words, numbers: NDArray[np.int64], changes: NDArray[np.int64], word_bits: int) -> int:
        from mechanisms.sampling.kernels import decide_words

        arrays = self._arrays if word_bits == WORD_BITS else _tabulate(self.rows, word_bits)
        return int(decide_words(words, numbers, *arrays, changes))

    @property
    def keys(self) -> int:
        """The number of different keys of cells in `look_up`."""
        return self._keys_and_ends[0]

    @cached_property
    def _keys_and_ends(self) -> tuple[int, NDArray[np.int64]]:
        """The number of keys, and the upper end of every interval in keys."""
        wholes = {row.whole for row in self.rows if len(row.weights) > 1} or {1}
        if len(wholes) != 1 or max(wholes) > _MOST_KEYS:
            raise ValueError("only a p-table with the same number of keys in every row can be looked up by keys")
        # The end of a row's last interval is never compared with a key.
        ends = [min(end, _MOST_KEYS) for row in self.rows for end in accumulate(row.weights)]
        return wholes.pop(), np.array(ends, dtype=np.int64)

    @cached_property
    def _arrays(self) -> "_Arrays":
        return _tabulate(self.rows, WORD_BITS)


class _Arrays(NamedTuple):
    """The rows, one after the other, for words of some size: where each row begins, shape (rows + 1,);
    floor(2^bits · F) for the upper end F of each interval but the last of its row, where it is the greatest word; and
    whether 2^bits · F is whole, so that a word equal to it lies above the boundary."""

    starts: NDArray[np.int64]
    floors: Words
    exact: NDArray[np.bool_]
    changes: NDArray[np.int64]


def _tabulate(rows: Sequence[Row], word_bits: int) -> _Arrays:
    ends = [divmod(end << word_bits, row.whole) for row in rows for end in accumulate(row.weights)]
    return _Arrays(
        np.array([0, *accumulate(len(row.changes) for row in rows)], dtype=np.int64),
        np.array([min(floor, (1 << word_bits) - 1) for floor, _ in ends], dtype=np.uint64),
        np.array([not rest for _, rest in ends], dtype=np.bool_),
        np.array([change for row in rows for change in row.changes], dtype=np.int64),
    )


def bin_results(counts: NDArray[np.int64], results: NDArray[np.int64], table: PTable) -> dict[str, BinCounts]:
    """By row, the results in bins of nearly equal probability, for the chi-square test of `sampling.goodness`."""
    numbers = table.row_numbers(counts)
    by_row = {}
    for number in np.unique(numbers).tolist():
        chances = table.rows[number].probabilities
        changes = np.array(list(chances))
        ends = np.cumsum([float(chance) for chance in chances.values()])
        bins = np.minimum((ends - 1e-9) * BINS, BINS - 1).astype(np.int64)
        drawn = (results - counts)[numbers == number]
        places = np.minimum(np.searchsorted(changes, drawn), len(changes) - 1)
        expected = np.bincount(bins, weights=np.diff(ends, prepend=0.0), minlength=BINS)
        observed = np.bincount(bins[places], minlength=BINS).astype(np.float64)
        by_row[f"row {number}"] = BinCounts(observed, len(drawn) * expected.astype(np.float64))
    return by_row


def count_impossible(counts: NDArray[np.int64], results: NDArray[np.int64], table: PTable) -> int:
    """The number of results with probability 0."""
    numbers = table.row_numbers(counts)
    most = max(max(map(abs, row.changes)) for row in table.rows)
    possible = np.zeros((len(table.rows), 2 * most + 3), dtype=np.bool_)
    for number, row in enumerate(table.rows):
        possible[number, np.array(row.changes) + most + 1] = True
    changes = np.clip(results - counts, -most - 1, most + 1)
    return int(np.count_nonzero(~possible[numbers, changes + most + 1]))


def _decide(row: Row, following: Callable[[], int], word_bits: int) -> int:
    """The change for a number U whose first digits leave it undecided, and whose digits `following` gives from the
    start. U lies between its digits and the next number with as many digits, and is decided when no boundary lies
    strictly in between."""
    number, bits = 0, 0
    ends = list(accumulate(row.weights))
    while True:
        number, bits = number << word_bits | following(), bits + word_bits
        # The first boundary above U's digits, and the first that is not below the next number.
        first = next(place for place, end in enumerate(ends) if end << bits > number * row.whole)
        if ends[first] << bits >= (number + 1) * row.whole:
            return row.changes[first]
