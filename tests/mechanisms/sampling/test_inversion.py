"""Lazy inversion gives every value with exactly its probability, and reads no more words than it needs.

With words of 2 to 8 bits, every sequence is tried, down to a depth at which almost none is undecided. With 64 bits,
chosen words lead the same code to its undecided branch. Only a program that is wrong for 64-bit tables alone could pass
this. So their floors are compared one by one with another computation, and the look-up is tried on each side of every
floor.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Context, localcontext
from fractions import Fraction
from itertools import count, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.sampling import inversion
from mechanisms.sampling.inversion import Table, sample, sample_at, tabulate
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace
from mechanisms.sampling.stream import RandomStream, WordReader, Words
from tests.depth import deep_but, deep_cases, quick_cases
from tests.mechanisms.sampling.exact_noise import DIGITS, Noise, OutOfWordsError, ToyStream, quantiles, reference
from tests.mechanisms.sampling.word_tree import Finished, bracket

KEY = bytes(range(32))
NARROW: list[Noise] = [
    *(DiscreteGaussian(Fraction(variance)) for variance in ("1/100", "1/10", "1", "2", "17/3", "100")),
    *(DiscreteLaplace(Fraction(scale)) for scale in ("1/10", "1/2", "1", "22/7", "7")),
]
WIDE: list[Noise] = [
    *(DiscreteGaussian(Fraction(variance)) for variance in ("92416", "3000001/3")),
    DiscreteLaplace(Fraction(1000, 7)),
]


def step(noise: Noise, word_bits: int):  # type: ignore[no-untyped-def]
    """One draw, as a walk over sequences of words. It is abandoned when it takes far more words than it needs."""
    tries = count()

    def one_more(words: tuple[int, ...], word: int) -> tuple[int, ...] | Finished:
        assert next(tries) < 200_000, "too many sequences are undecided"
        try:
            return Finished(int(sample(noise, 1, ToyStream([*words, word]), word_bits)[0]))
        except OutOfWordsError:
            return (*words, word)

    return one_more


def is_exact(noise: Noise, word_bits: int, width: Fraction = Fraction(1, 10**5)) -> bool:
    """Whether the bounds from all sequences of words, at most `width` apart, contain every value's probability."""
    found = bracket(step(noise, word_bits), (), 1 << word_bits, width)
    exact = reference(noise)
    return all(low <= Fraction(exact.probability(value)) <= high for value, (low, high) in found.items()) and all(
        value in found for value in range(-exact.reach, exact.reach + 1) if exact.probability(value) > width
    )


WORDS = (2, 3, 5, 8)
WIDEST = NARROW[5], NARROW[9], NARROW[10]
QUICK = [(noise, bits) for noise, bits in product(NARROW, WORDS) if noise not in WIDEST or bits < 5]


@deep_cases(6)
@quick_cases(12)
@pytest.mark.parametrize(("noise", "word_bits"), deep_but(QUICK, product(NARROW, WORDS)), ids=str)
def test_over_all_sequences_of_toy_words_every_value_has_its_probability(noise: Noise, word_bits: int) -> None:
    assert is_exact(noise, word_bits)


def mended(change):  # type: ignore[no-untyped-def]
    """A function that makes the table with a fault."""
    return lambda noise, word_bits=64: change(tabulate(noise, word_bits))


FAULTS = {
    "values one too high": lambda table: replace(table, half=table.half - 1),
    "one floor one too low": lambda table: replace(table, floors=nudged(table, -1)),
    "one floor one too high": lambda table: replace(table, floors=nudged(table, 1)),
    "guide one too far": lambda table: replace(
        table, guide=np.minimum(table.guide + 1, len(table.floors) - 1).astype(np.uint32)
    ),
}


def nudged(table: Table, by: int) -> np.ndarray:
    floors = table.floors.copy()
    floors[len(floors) // 2] = np.uint64(int(floors[len(floors) // 2]) + by)
    return floors


@quick_cases(1)
@deep_cases(0)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("word_bits", [5, 8])
def test_the_enumeration_finds_a_faulty_table(monkeypatch: pytest.MonkeyPatch, fault: str, word_bits: int) -> None:
    noise = DiscreteGaussian(Fraction(2))
    monkeypatch.setattr(inversion, "tabulate", mended(FAULTS[fault]))
    assert not is_exact(noise, word_bits)


@pytest.mark.parametrize("decision", [0, 1])
def test_the_enumeration_finds_an_undecided_word_decided_without_further_words(
    monkeypatch: pytest.MonkeyPatch, decision: int
) -> None:
    """Wrong by less than 2^−64 at full size, which only an enumeration reveals."""
    noise = DiscreteGaussian(Fraction(2))

    def rashly(noise: Noise, word: int, words: WordReader, word_bits: int) -> int:
        table = tabulate(noise, word_bits)
        index = int(np.searchsorted(table.floors, np.uint64(word))) + decision
        return min(index, len(table.floors) - 1) - int(table.half)

    monkeypatch.setattr(inversion, "_decide", rashly)
    assert not is_exact(noise, 8)


@pytest.mark.parametrize("precision", [24, 40, 70])
@pytest.mark.parametrize("noise", NARROW, ids=str)
def test_bounds_of_the_cumulative_distribution_hold_and_are_close(noise: Noise, precision: int) -> None:
    """At such a low precision, a bound rounded in the wrong direction, or an omitted tail, soon shows."""
    exact = reference(noise)
    for value, (low, high) in zip(range(exact.reach), noise.cumulative(precision), strict=False):
        with localcontext(Context(prec=DIGITS)):
            assert low <= exact.cumulative[value + exact.reach] * 2**precision <= high
        assert high - low < 2**12


@pytest.mark.parametrize(
    ("noise", "word_bits"),
    [*((noise, bits) for noise in NARROW for bits in (2, 7, 8, 32, 63, 64)), *((noise, 64) for noise in WIDE)],
    ids=str,
)
def test_every_floor_is_that_of_another_computation(noise: Noise, word_bits: int) -> None:
    table, exact = tabulate(noise, word_bits), reference(noise)
    half = int(table.half)
    assert table.floors.tolist() == [exact.floor(value, word_bits) for value in range(-half, half)]
    assert table.floors[0] == 0
    assert table.floors[-1] == (1 << word_bits) - 1
    assert (1 << word_bits) - 1 not in table.floors[:-1]


@pytest.mark.parametrize("noise", [*NARROW, *WIDE], ids=str)
def test_at_64_bits_a_word_next_to_a_floor_decides_and_a_word_on_it_does_not(noise: Noise) -> None:
    exact, half = reference(noise), int(tabulate(noise).half)
    every = range(-half - 2, half + 2)
    chosen = {value for value in (*every[:: max(1, half // 50)], *every[:4], *every[-4:]) if abs(value) < exact.reach}
    sizes = set()
    for value in chosen:
        first, second, third = (exact.floor(value, bits) % 2**64 for bits in (64, 128, 192))
        tries = [[first - 1], [first + 1], [first, second - 1], [first, second + 1], [first, second]]
        for words in [*tries, [first, second, third - 1], [first, second, third + 1]]:
            if 0 <= words[-1] < 2**64:
                stream = ToyStream([*words, *[2**63] * 4])
                drawn = int(sample(noise, 1, stream)[0])
                assert (drawn, stream.used) == quantiles(noise, [*words, *[2**63] * 4], 64)[0]
                sizes.add(stream.used)
    assert {1, 2, 3} <= sizes


@given(
    noise=st.sampled_from(NARROW),
    word_bits=st.integers(2, 10),
    block=st.sampled_from([1, 2, 3, 7, 1 << 15]),
    seed=st.integers(0, 2**32 - 1),
    cut=st.integers(0, 60),
)
def test_many_draws_are_the_successive_quantiles_for_any_block_size(
    noise: Noise, word_bits: int, block: int, seed: int, cut: int
) -> None:
    words = np.random.default_rng(seed).integers(0, 1 << word_bits, 60).tolist()
    expected = quantiles(noise, words, word_bits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mechanisms.sampling.stream.WORDS_AT_A_TIME", block)
        stream = ToyStream(words)
        first = sample(noise, min(cut, len(expected)), stream, word_bits)
        assert stream.used == (expected[len(first) - 1][1] if len(first) else 0), "no word is read in vain"
        second = sample(noise, len(expected) - len(first), stream, word_bits)
    assert [*first.tolist(), *second.tolist()] == [value for value, _ in expected]


@pytest.mark.parametrize("noise", [NARROW[3], WIDE[0], WIDE[2]], ids=str)
def test_one_key_gives_the_same_draws_in_any_pieces_and_on_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, noise: Noise
) -> None:
    labels = [f"table {number}" for number in range(8)]
    whole = {label: noise.sample(300_000, RandomStream(KEY, label)) for label in labels}
    assert len({values.tobytes() for values in whole.values()}) == len(labels)
    for threads in (1, 2, 8):
        with ThreadPoolExecutor(threads) as pool:
            again = list(pool.map(lambda label: noise.sample(300_000, RandomStream(KEY, label)), labels))
        assert all(np.array_equal(values, whole[label]) for label, values in zip(labels, again, strict=True))
    monkeypatch.setattr("mechanisms.sampling.stream.WORDS_AT_A_TIME", 1000)
    stream = RandomStream(KEY, labels[0])
    pieces = [noise.sample(count, stream) for count in (0, 1, 999, 1000, 150_000, 148_000)]
    assert np.array_equal(np.concatenate(pieces), whole[labels[0]])


def test_a_table_is_made_once_and_cannot_be_changed() -> None:
    table = tabulate(DiscreteGaussian(Fraction(10, 4)))
    assert tabulate(DiscreteGaussian(Fraction(5, 2))) is table
    for array in (table.floors, table.guide):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


class NumberedToyWords:
    """The words 0, 1, 2, … at their positions, each followed by the same given words."""

    def __init__(self, further: list[int]) -> None:
        self.further, self.asked = further, list[int]()

    def words_at(self, positions: Words) -> Words:
        return positions.astype(np.uint64)

    def after(self, position: int) -> ToyStream:
        self.asked.append(position)
        return ToyStream(self.further)


@pytest.mark.parametrize("noise", NARROW, ids=str)
def test_a_draw_by_position_takes_its_own_word_and_further_ones_while_it_is_undecided(noise: Noise) -> None:
    """Each position's draw is the one that `sample` makes of its word and the further words: it does not depend on
    earlier draws, decided or not."""
    bits, further = 5, [9, 30, 2, 17, 11, 4, 25]
    words = NumberedToyWords(further)
    positions = np.array([*range(1 << bits), *reversed(range(1 << bits))])
    drawn = sample_at(noise, positions, words, bits)  # type: ignore[arg-type]
    expected = [int(sample(noise, 1, ToyStream([word, *further]), bits)[0]) for word in range(1 << bits)]
    assert drawn.tolist() == [*expected, *reversed(expected)]
    assert 0 < len(words.asked) == 2 * len(set(words.asked))
