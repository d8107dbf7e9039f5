"""Claims about p-tables: their structure, the row of every count, and that every result has exactly its probability.

With words of 1 to 5 bits, every sequence of words is tried, down to a depth at which almost none is undecided.
"""

from fractions import Fraction
from hashlib import sha256
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.accounting.rounding import round_up
from mechanisms.sampling.goodness import find_misfits
from mechanisms.sampling.stream import RandomStream
from mechanisms.table_builder import p_table
from mechanisms.table_builder.p_table import PTable, Row, bin_results, count_impossible
from tests.mechanisms.sampling.exact_noise import OutOfWordsError, ToyStream
from tests.mechanisms.sampling.word_tree import Finished, bracket

KEY = b"\x07" * 32


THIRDS = Row((-1, 0, 2), (1, 1, 1))
SHUFFLED = Row((1, -1, 1, 0, -1), (3, 2, 5, 7, 6))
"""One change in several intervals that are not neighbors, as sdcTools' `modify_cnt_ptable` makes them."""
KEYED = Row((0, 1, -1), (5, 2, 1))
"""Eighths: with 3 bits, every boundary lies on a word."""
TABLE = PTable((Row((0,), (1,)), THIRDS, SHUFFLED, KEYED), cycle=2)


@pytest.mark.parametrize(
    ("transitions", "rule"),
    [
        ([], "at least one row"),
        ([{0: Fraction(1)}, {0: Fraction(1, 2), 1: Fraction(1, 3)}], "count 1: the probabilities sum to 5/6"),
        ([{0: Fraction(1)}, {0: Fraction(3, 2), 1: Fraction(-1, 2)}], "count 1: a probability is negative"),
        ([{0: Fraction(1)}, {1: Fraction(1)}, {-1: Fraction(1)}], "count 2: the result -1 is negative"),
    ],
)
def test_a_table_with_a_wrong_row_is_refused(transitions: list[dict[int, Fraction]], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        PTable.of(transitions)
    with pytest.raises(ValueError, match="greater than 0"):
        Row((0, 1), (1, 0))


@pytest.mark.parametrize("cycle", [0, 3])
def test_a_cycle_is_some_of_the_rows(cycle: int) -> None:
    with pytest.raises(ValueError, match="cycle"):
        PTable((Row((0,), (1,)),) * 2, cycle)


def test_probabilities_are_those_stated() -> None:
    stated = [
        {0: Fraction(1)},
        {0: Fraction(1, 3), 2: Fraction(2, 3)},
        {1: Fraction(1, 7), 2: Fraction(6, 7), 9: Fraction(0)},
    ]
    table = PTable.of(stated)
    for before, results in enumerate(stated):
        for after in range(12):
            assert table.probability(before, after) == results.get(after, 0)
    assert table.probability(100, 99) == Fraction(1, 7)
    assert table.zero_stays_zero
    assert not PTable.of([{0: Fraction(1, 2), 1: Fraction(1, 2)}]).zero_stays_zero


def test_beyond_the_last_row_counts_share_it() -> None:
    assert PTable((Row((0,), (1,)),) * 3).row_numbers(np.arange(7)).tolist() == [0, 1, 2, 2, 2, 2, 2]


def test_a_cycle_of_250_is_the_rule_of_the_office_for_national_statistics() -> None:
    """A count above 750 uses row (count − 1) mod 250 + 501; up to 750, every count has its own."""
    table = PTable((Row((0,), (1,)),) * 751, cycle=250)
    counts = np.arange(5000)
    assert table.row_numbers(counts).tolist() == [n if n <= 750 else (n - 1) % 250 + 501 for n in range(5000)]


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ValueError, match="not negative"):
        TABLE.row_numbers(np.array([3, -1]))


# Exactness -------------------------------------------------------------------------------------------------


class OfOneCell:
    """The words of one cell, given one by one."""

    def __init__(self, words: tuple[int, ...]) -> None:
        self.given = words

    def words(self, number: int) -> np.ndarray:
        return np.array([self.word(number, 0)], dtype=np.uint64)

    def word(self, number: int, cell: int) -> int:
        if number >= len(self.given):
            raise OutOfWordsError
        return self.given[number]


def is_exact(before: int, word_bits: int, by_cell: bool) -> bool:
    tries = count()

    def step(words: tuple[int, ...], word: int) -> tuple[int, ...] | Finished:
        assert next(tries) < 100_000, "too many sequences are undecided"
        given = (*words, word)
        try:
            if by_cell:
                return Finished(int(TABLE.draw_by_cell(np.array([before]), OfOneCell(given), word_bits)[0]))
            return Finished(int(TABLE.draw(np.array([before]), ToyStream(given), word_bits)[0]))
        except OutOfWordsError:
            return given

    found = bracket(step, (), 1 << word_bits, Fraction(1, 10**4))
    return all(low <= TABLE.probability(before, after) <= high for after, (low, high) in found.items()) and set(
        found
    ) == {before + change for change in TABLE.row(before).probabilities}


@pytest.mark.parametrize("by_cell", [False, True])
@pytest.mark.parametrize("word_bits", [1, 2, 3, 5])
@pytest.mark.parametrize("before", [0, 1, 2, 3, 4, 5])
def test_over_all_sequences_of_toy_words_every_result_has_its_probability(
    before: int, word_bits: int, by_cell: bool
) -> None:
    assert is_exact(before, word_bits, by_cell)


@pytest.mark.parametrize("by_cell", [False, True])
def test_the_enumeration_finds_an_undecided_word_decided_without_further_words(
    monkeypatch: pytest.MonkeyPatch, by_cell: bool
) -> None:
    """Wrong by less than 2^-64 at full size, which only an enumeration reveals."""
    monkeypatch.setattr(p_table, "_decide", lambda row, following, bits: (following(), row.changes[0])[1])
    assert not is_exact(1, 3, by_cell)


def test_words_on_a_boundary_of_eighths_need_no_further_word() -> None:
    """The row's intervals are [0, 5/8), [5/8, 7/8) and [7/8, 1)."""
    for word, change in [
        (0, 0),
        (5 * 2**61 - 1, 0),
        (5 * 2**61, 1),
        (7 * 2**61 - 1, 1),
        (7 * 2**61, -1),
        (2**64 - 1, -1),
    ]:
        stream = ToyStream([word])
        assert TABLE.draw(np.array([3]), stream)[0] == 3 + change
        assert stream.used == 1


def test_at_64_bits_a_word_on_a_boundary_of_thirds_is_decided_by_the_next() -> None:
    third = 2**64 // 3
    for words, change in [([third - 1], -1), ([third + 1], 0), ([third, third - 1], -1), ([third, third + 1], 0)]:
        stream = ToyStream([*words, 0, 0])
        assert TABLE.draw(np.array([1]), stream)[0] == 1 + change
        assert stream.used == len(words)


@given(seed=st.integers(0, 2**32 - 1), word_bits=st.integers(1, 6), block=st.sampled_from([1, 2, 5, 1 << 15]))
def test_many_draws_use_the_words_in_order_for_any_block_size(seed: int, word_bits: int, block: int) -> None:
    generator = np.random.default_rng(seed)
    words, counts = generator.integers(0, 1 << word_bits, 4000).tolist(), generator.integers(0, 9, 40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mechanisms.sampling.stream.WORDS_AT_A_TIME", block)
        together, alone = ToyStream(words), ToyStream(words)
        results = TABLE.draw(counts, together, word_bits)
    assert [int(TABLE.draw(counts[place : place + 1], alone, word_bits)[0]) for place in range(40)] == results.tolist()
    assert together.used == alone.used


class OfCells:
    """Given words of several cells, shape (numbers, cells)."""

    def __init__(self, given: np.ndarray) -> None:
        self.given = given.astype(np.uint64)

    def words(self, number: int) -> np.ndarray:
        return self.given[number]

    def word(self, number: int, cell: int) -> int:
        return int(self.given[number, cell])


@given(seed=st.integers(0, 2**32 - 1), word_bits=st.integers(1, 6))
def test_what_a_cell_draws_depends_on_its_own_words_alone(seed: int, word_bits: int) -> None:
    generator = np.random.default_rng(seed)
    given_words, counts = generator.integers(0, 1 << word_bits, (200, 12)), generator.integers(0, 9, 12)
    results = TABLE.draw_by_cell(counts, OfCells(given_words), word_bits)
    for cell in range(12):
        alone = TABLE.draw_by_cell(counts[cell : cell + 1], OfCells(given_words[:, cell : cell + 1]), word_bits)
        assert alone[0] == results[cell]


# Looking up by keys ----------------------------------------------------------------------------------------


def test_a_key_is_looked_up_in_its_row() -> None:
    table = PTable((Row((0,), (8,)), Row((0, 1, -1), (5, 2, 1)), Row((-2, 2), (7, 1))))
    for before in range(4):
        listed = [0] * 8 if before == 0 else [0] * 5 + [1] * 2 + [-1] if before == 1 else [-2] * 7 + [2]
        sums = np.arange(40)
        assert table.look_up(np.full(40, before), sums).tolist() == [before + listed[key % 8] for key in range(40)]


def test_rows_with_other_numbers_of_keys_cannot_be_looked_up() -> None:
    with pytest.raises(ValueError, match="same number of keys"):
        TABLE.look_up(np.array([1]), np.array([0]))


# The gate's test -------------------------------------------------------------------------------------------

COUNTS = np.random.default_rng(12).integers(0, 7, 20_000)


def test_exact_draws_pass_the_test_of_the_gates_and_wrong_ones_do_not() -> None:
    """False alarms at most once in a billion runs; a wrong table passes with a probability below 1e-6."""
    results = TABLE.draw(COUNTS, RandomStream(KEY, "goodness"))
    assert find_misfits(bin_results(COUNTS, results, TABLE)) == []
    assert count_impossible(COUNTS, results, TABLE) == 0
    other_cycle = PTable(TABLE.rows, cycle=3).draw(COUNTS, RandomStream(KEY, "goodness"))
    wrong_weights = PTable((*TABLE.rows[:3], Row((0, 1, -1), (4, 3, 1))), 2).draw(COUNTS, RandomStream(KEY, "goodness"))
    for wrong in (other_cycle, wrong_weights, COUNTS):
        assert find_misfits(bin_results(COUNTS, wrong, TABLE))


def test_impossible_results_are_counted_wherever_they_are() -> None:
    results = COUNTS.copy()
    results[COUNTS == 0] += 1
    results[5], results[6] = COUNTS[5] + 1000, COUNTS[6] - 1000
    expected = sum(TABLE.probability(a, b) == 0 for a, b in zip(COUNTS.tolist(), results.tolist(), strict=True))
    assert count_impossible(COUNTS, results, TABLE) == expected > 2000


def test_the_greatest_variance_and_bias_are_those_of_a_row() -> None:
    assert TABLE.greatest_bias == max(abs(row.mean) for row in TABLE.rows) == Fraction(1, 3)
    assert TABLE.exact_variance == round_up(max(row.variance for row in TABLE.rows), 18)


def test_the_version_of_a_table_is_the_hash_of_its_cycle_and_its_intervals_in_order() -> None:
    text = "cycle 2\n+0:1\n+1:3 -1:2 +1:5 +0:7 -1:6"
    table = PTable((Row((0,), (1,)), Row((1, -1, 1, 0, -1), (3, 2, 5, 7, 6))), 2)
    assert table.version == sha256(text.encode()).hexdigest()
    others = [PTable(TABLE.rows, 3), PTable((*TABLE.rows[:3], Row((0, 1, -1), (5, 1, 2))), 2)]
    assert len({TABLE.version, *(other.version for other in others)}) == 3
    assert TABLE.version == PTable(TABLE.rows, 2).version
    assert Row((1, -1, 1), (1, 2, 1)).mean == 0
    assert Row((1, -1, 1), (1, 2, 1)).variance == 1
