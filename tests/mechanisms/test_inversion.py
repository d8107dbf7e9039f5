"""Lazy inversion gives every value with exactly its probability, and reads no word too many.

With words of 2 to 8 bits every sequence is tried, down to a depth where almost none is undecided; with 64 bits the
same code is led to its undecided branch by hand. Which wrong program would still pass? One that goes astray only
with 64-bit tables: their floors are compared one by one with another computation, and the look-up is tried on
each side of every floor.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.sampling import inversion, reader
from mechanisms.sampling.discrete_gaussian import DiscreteGaussian
from mechanisms.sampling.discrete_laplace import DiscreteLaplace
from mechanisms.sampling.inversion import Table, sample, tabulate
from mechanisms.sampling.stream import RandomStream
from tests.mechanisms.exact_noise import Noise, OutOfWordsError, ToyStream, quantiles, reference
from tests.mechanisms.word_tree import Finished, bracket

KEY = bytes(range(32))
NARROW: list[Noise] = [
    *(DiscreteGaussian(Fraction(variance)) for variance in ("1/100", "1/10", "1", "2", "17/3", "100")),
    *(DiscreteLaplace(Fraction(scale)) for scale in ("1/10", "1/2", "1", "22/7", "20")),
]
WIDE: list[Noise] = [
    *(DiscreteGaussian(Fraction(variance)) for variance in ("92416", "3000001/3")),
    DiscreteLaplace(Fraction(1000, 7)),
]


def step(noise: Noise, word_bits: int):  # type: ignore[no-untyped-def]
    """One draw, as a walk over sequences of words."""

    def one_more(words: tuple[int, ...], word: int) -> tuple[int, ...] | Finished:
        try:
            return Finished(int(sample(noise, 1, ToyStream([*words, word]), word_bits)[0]))
        except OutOfWordsError:
            return (*words, word)

    return one_more


def is_exact(noise: Noise, word_bits: int, width: Fraction = Fraction(1, 10**5)) -> bool:
    """Whether every value's probability lies within what all sequences of words give it, at most `width` apart."""
    found = bracket(step(noise, word_bits), (), 1 << word_bits, width)
    exact = reference(noise)
    return all(low <= Fraction(exact.probability(value)) <= high for value, (low, high) in found.items()) and all(
        value in found for value in range(-exact.reach, exact.reach + 1) if exact.probability(value) > width
    )


@pytest.mark.parametrize("word_bits", [2, 3, 5, 8])
@pytest.mark.parametrize("noise", NARROW, ids=str)
def test_over_all_sequences_of_toy_words_every_value_has_its_probability(noise: Noise, word_bits: int) -> None:
    assert is_exact(noise, word_bits)


def mended(change):  # type: ignore[no-untyped-def]
    """The table with a fault in it."""
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
    """Wrong by less than 2^−64 at full size, which nothing but an enumeration shows."""
    noise = DiscreteGaussian(Fraction(2))

    def rashly(noise: Noise, words: reader.WordReader, word_bits: int) -> int:
        table = tabulate(noise, word_bits)
        index = int(np.searchsorted(table.floors, np.uint64(words.one()))) + decision
        return min(index, len(table.floors) - 1) - int(table.half)

    monkeypatch.setattr(inversion, "_decide", rashly)
    assert not is_exact(noise, 8)


@pytest.mark.parametrize("word_bits", [2, 7, 8, 32, 63, 64])
@pytest.mark.parametrize("noise", [*NARROW, *WIDE], ids=str)
def test_every_floor_is_that_of_another_computation(noise: Noise, word_bits: int) -> None:
    table, exact = tabulate(noise, word_bits), reference(noise)
    half = int(table.half)
    assert table.floors.tolist() == [exact.floor(value, word_bits) for value in range(-half, half)]
    assert table.floors[0] == 0
    assert table.floors[-1] == (1 << word_bits) - 1
    assert (1 << word_bits) - 1 not in table.floors[:-1]


@pytest.mark.parametrize("noise", [*NARROW, *WIDE], ids=str)
def test_at_64_bits_a_word_beside_a_floor_decides_and_a_word_on_it_asks_for_another(noise: Noise) -> None:
    table, exact = tabulate(noise), reference(noise)
    half, greatest = int(table.half), 2**64 - 1
    for value in {*range(-half + 1, half - 1, max(1, half // 100)), -1, 0, half - 2} & set(range(-half + 1, half - 1)):
        floor, next_word = exact.floor(value, 64), exact.floor(value, 128) % 2**64
        above = value + 1
        while exact.floor(above, 64) == floor + 1:
            above += 1
        assert drawn(noise, [floor - 1]) == (value, 1) or exact.floor(value - 1, 64) >= floor - 1
        assert drawn(noise, [floor + 1]) == (above, 1) or exact.floor(value + 1, 64) == floor + 1
        assert drawn(noise, [floor, next_word - 1]) == (value, 2)
        assert drawn(noise, [floor, next_word + 1]) == (value + 1, 2)
        third = exact.floor(value, 192) % 2**64
        assert drawn(noise, [floor, next_word, third - 1]) == (value, 3)
        assert drawn(noise, [floor, next_word, third + 1]) == (value + 1, 3)
    tail = [value for value in range(half, exact.reach) if exact.floor(value, 128) % 2**64 < greatest][:3]
    for value in tail:
        next_word = exact.floor(value, 128) % 2**64
        assert drawn(noise, [greatest, next_word - 1]) == (value, 2)
        assert drawn(noise, [0, greatest - next_word + 1]) == (-value, 2)


def drawn(noise: Noise, words: list[int]) -> tuple[int, int]:
    """What the words give, and how many of them were read."""
    stream = ToyStream([*words, 12345, 12345])
    return int(sample(noise, 1, stream)[0]), stream.used


@given(
    noise=st.sampled_from(NARROW),
    word_bits=st.integers(2, 10),
    block=st.sampled_from([1, 2, 3, 7, 1 << 17]),
    seed=st.integers(0, 2**32 - 1),
    cut=st.integers(0, 60),
)
def test_many_draws_are_the_quantiles_one_after_the_other_for_any_size_of_block(
    noise: Noise, word_bits: int, block: int, seed: int, cut: int
) -> None:
    words = np.random.default_rng(seed).integers(0, 1 << word_bits, 60).tolist()
    expected = quantiles(noise, words, word_bits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "WORDS_AT_A_TIME", block)
        stream = ToyStream(words)
        first = sample(noise, min(cut, len(expected)), stream, word_bits)
        assert len(quantiles(noise, words[: stream.used], word_bits)) == len(first), "no word is read in vain"
        second = sample(noise, len(expected) - len(first), stream, word_bits)
    assert [*first.tolist(), *second.tolist()] == expected


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
    monkeypatch.setattr(reader, "WORDS_AT_A_TIME", 1000)
    stream = RandomStream(KEY, labels[0])
    pieces = [noise.sample(count, stream) for count in (0, 1, 999, 1000, 150_000, 148_000)]
    assert np.array_equal(np.concatenate(pieces), whole[labels[0]])


def test_a_table_is_made_once_and_cannot_be_changed() -> None:
    table = tabulate(DiscreteGaussian(Fraction(10, 4)))
    assert tabulate(DiscreteGaussian(Fraction(5, 2))) is table
    for array in (table.floors, table.guide):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
