"""Bounded integers and coins are exact: every word of a toy size is tried, and every bound and bias.

Only a program with a different bias at 64 bits than at 3 to 10 bits could pass wrongly. The arithmetic is the same at
all sizes, and the coin's two 64-bit constants are compared as integers.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from mechanisms.sampling.derangements import remainder_is_fair
from mechanisms.sampling.stream import TOP_WORD, Coin

WORDS = 2**64


@njit
def accepted_by_remainder(bound, top):  # type: ignore[no-untyped-def]
    counts = np.zeros(bound, dtype=np.int64)
    for number in range(top + 1):
        word, fair_bound = np.uint64(number), np.uint64(bound)
        remainder = word % fair_bound
        counts[remainder] += remainder_is_fair(word, remainder, fair_bound, np.uint64(top))
    return counts


@pytest.mark.parametrize("bits", range(3, 11))
def test_every_remainder_is_accepted_for_the_same_greatest_number_of_words(bits: int) -> None:
    words = 2**bits
    for bound in range(1, words):
        assert set(accepted_by_remainder(bound, words - 1).tolist()) == {words // bound}


@pytest.mark.parametrize("bits", range(3, 11))
def test_the_same_check_rejects_a_plain_modulo(bits: int) -> None:
    words = 2**bits
    for bound in range(3, words):
        plain = np.bincount(np.arange(words) % bound)
        assert (len(set(plain.tolist())) == 1) == (words % bound == 0)


@given(bound=st.integers(1, WORDS - 1), data=st.data())
def test_at_64_bits_a_word_is_rejected_exactly_if_its_run_is_cut_short(bound: int, data: st.DataObject) -> None:
    whole_runs = WORDS // bound * bound
    near = st.integers(max(0, whole_runs - 3), min(WORDS - 1, whole_runs + 3))
    word = data.draw(st.one_of(near, st.integers(0, WORDS - 1)))
    arguments = (np.uint64(word), np.uint64(word % bound), np.uint64(bound), TOP_WORD)
    assert bool(remainder_is_fair(*arguments)) == (word < whole_runs)


@pytest.mark.parametrize("top", [1, 2, 7, 12, 63, 64])
def test_over_all_words_a_coin_shows_heads_with_exactly_its_probability(top: int) -> None:
    for denominator in range(2, top + 2):
        for numerator in range(1, denominator):
            coin = Coin.of(Fraction(numerator, denominator), top)
            accepted = [word for word in range(top + 1) if word <= coin.last_fair]
            heads = sum(bool(word < coin.heads) for word in accepted)
            assert Fraction(heads, len(accepted)) == Fraction(numerator, denominator)
            assert len(accepted) > top + 1 - denominator, "no word is refused without need"


@pytest.mark.parametrize(
    "probability", [Fraction(1, 2), Fraction(1, 3), Fraction(1, 10), Fraction(999_999_999, 1_000_000_000)]
)
def test_the_64_bit_constants_are_exact(probability: Fraction) -> None:
    coin = Coin.of(probability)
    heads, accepted = int(coin.heads), int(coin.last_fair) + 1
    assert heads * probability.denominator == accepted * probability.numerator
    assert WORDS - probability.denominator < accepted <= WORDS


@given(st.fractions(0, 1, max_denominator=2**63).filter(lambda probability: 0 < probability < 1))
def test_every_64_bit_coin_is_exact(probability: Fraction) -> None:
    coin = Coin.of(probability)
    assert Fraction(int(coin.heads), int(coin.last_fair) + 1) == probability
    assert coin.heads.dtype == coin.last_fair.dtype == np.uint64


@pytest.mark.parametrize("probability", [Fraction(0), Fraction(1), Fraction(6, 5), Fraction(-1, 2)])
def test_a_coin_that_always_or_never_shows_heads_is_refused(probability: Fraction) -> None:
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        Coin.of(probability)


@pytest.mark.parametrize(("denominator", "top"), [(9, 7), (2**64 + 1, 2**64 - 1)])
def test_a_bias_finer_than_the_words_is_refused(denominator: int, top: int) -> None:
    with pytest.raises(ValueError, match="denominator exceeds"):
        Coin.of(Fraction(1, denominator), top)
