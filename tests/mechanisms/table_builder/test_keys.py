"""Claims about record keys, cell keys and the words that follow from them."""

from collections.abc import Callable

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.sampling.goodness import find_misfits
from mechanisms.table_builder.keys import KeyedWords, record_keys
from mechanisms.table_builder.p_table import PTable, Row, bin_results

KEY = bytes(range(32))
BLOCKS = st.lists(st.integers(0, 2**128 - 1), max_size=20)


def halves(numbers: list[int]) -> np.ndarray:
    return np.array([[number >> 64, number % 2**64] for number in numbers], dtype=np.uint64).reshape(-1, 2)


def whole(keys: np.ndarray) -> list[int]:
    return [(upper << 64) + lower for upper, lower in keys.tolist()]


def aes(use: str, number: int) -> int:
    """AES-256 of one block, as the standard writes it: most significant byte first."""
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=f"stirred table builder {use}".encode()).derive(KEY)
    cipher = Cipher(algorithms.AES(derived), modes.ECB()).encryptor()
    return int.from_bytes(cipher.update(number.to_bytes(16, "big")), "big")


@given(BLOCKS)
def test_record_keys_are_aes_of_the_identifiers(numbers: list[int]) -> None:
    assert whole(record_keys(KEY, halves(numbers))) == [aes("record keys", number) for number in numbers]


@given(BLOCKS, st.integers(0, 5))
def test_words_of_cell_consistency_are_aes_of_the_cell_key(keys: list[int], number: int) -> None:
    expected = [aes(f"cell words {number // 2}", key) for key in keys]
    expected = [each >> 64 if number % 2 == 0 else each % 2**64 for each in expected]
    words = KeyedWords(KEY, halves(keys))
    assert words.words(number).tolist() == expected
    assert [words.word(number, cell) for cell in range(len(keys))] == expected


@given(BLOCKS, st.integers(0, 5))
def test_words_of_query_consistency_are_the_cbc_mac_of_key_and_place(keys: list[int], number: int) -> None:
    use = f"query words {number // 2} age by sex, universe: all"
    expected = [aes(use, aes(use, key) ^ place) for place, key in enumerate(keys)]
    expected = [each >> 64 if number % 2 == 0 else each % 2**64 for each in expected]
    words = KeyedWords(KEY, halves(keys), "age by sex, universe: all")
    assert words.words(number).tolist() == expected
    assert [words.word(number, cell) for cell in range(len(keys))] == expected


@pytest.mark.parametrize("length", [0, 16, 31, 33])
def test_a_key_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        record_keys(bytes(length), halves([1]))
    with pytest.raises(ValueError, match="32 bytes"):
        KeyedWords(bytes(length), halves([1]))


@pytest.mark.parametrize("query", [None, "a"])
@pytest.mark.parametrize("changed", [1, 1 << 63, 1 << 64, 1 << 127])
def test_every_half_of_a_cell_key_counts(changed: int, query: str | None) -> None:
    """Keys cut to 64 bits, from either end, would leave these words as they are."""
    before, after = (KeyedWords(KEY, halves([key]), query) for key in (12345, 12345 ^ changed))
    assert before.word(0, 0) != after.word(0, 0)
    assert before.word(1, 0) != after.word(1, 0)


def test_record_keys_have_128_bits() -> None:
    """Each bit is set in nearly half of 4,096 keys: below 1,700 or above 2,400 with probability under 1e-20."""
    keys = record_keys(KEY, halves(list(range(4096))))
    bits = np.unpackbits(np.ascontiguousarray(keys).view(np.uint8).reshape(4096, 16), axis=1).sum(axis=0)
    assert bits.min() > 1700
    assert bits.max() < 2400
    assert len(set(whole(keys))) == 4096


def test_under_cell_consistency_the_same_records_have_the_same_words_in_every_table() -> None:
    first, second = (KeyedWords(KEY, halves(keys)) for keys in ([5, 7, 0], [9, 0, 0, 7, 5]))
    assert first.words(0)[[0, 1, 2]].tolist() == second.words(0)[[4, 3, 1]].tolist()


def test_all_empty_cells_have_the_same_words_under_cell_consistency_and_different_ones_under_query() -> None:
    empty = halves([0] * 1000)
    assert len(set(KeyedWords(KEY, empty).words(0).tolist())) == 1
    one, other = (KeyedWords(KEY, empty, query).words(0).tolist() for query in ("a", "b"))
    assert len({*one, *other}) == 2000


@pytest.mark.parametrize(
    "other",
    [
        lambda: KeyedWords(b"x" * 32, halves([3])),
        lambda: KeyedWords(KEY, halves([3]), "a"),
        lambda: KeyedWords(KEY, halves([4])),
    ],
)
def test_another_key_query_or_cell_key_gives_other_words(other: Callable[[], KeyedWords]) -> None:
    assert KeyedWords(KEY, halves([3])).word(0, 0) != other().word(0, 0)


@pytest.mark.parametrize("query", [None, "a"])
def test_results_drawn_by_keys_have_the_probabilities_of_the_table(query: str | None) -> None:
    """The gates' chi-square test: false alarms at most once in a billion runs."""
    table = PTable((Row((0, 1), (2, 1)), Row((-1, 0, 2), (1, 1, 1)), Row((-2, 0, 1), (3, 5, 6))))
    counts = np.arange(30_000) % 5
    words = KeyedWords(KEY, record_keys(KEY, halves(list(range(30_000)))), query)
    assert find_misfits(bin_results(counts, table.draw_by_cell(counts, words), table)) == []


def test_cells_that_are_in_several_tables_are_tested_once() -> None:
    """Here each of 900 cells is in 15 tables. Counted 15 times, their exact results raise an alarm."""
    table = PTable((Row((0,), (1,)), Row((-1, 0, 2), (1, 1, 1)), Row((-2, 0, 1), (3, 5, 6))))
    keys = np.tile(record_keys(KEY, halves(list(range(900)))), (15, 1))
    counts = np.tile(np.arange(900) % 5, 15)
    results = table.draw_by_cell(counts, KeyedWords(KEY, keys))
    assert find_misfits(bin_results(counts, results, table))
    once = np.sort(np.unique(keys, axis=0, return_index=True)[1])
    assert once.tolist() == list(range(900))
    assert find_misfits(bin_results(counts[once], results[once], table)) == []
