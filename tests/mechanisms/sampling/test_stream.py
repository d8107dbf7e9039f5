"""A stream is AES-256-CTR, fixed by its key and label, however it is read."""

import hmac
from hashlib import sha256

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.sampling.stream import NumberedWords, RandomStream
from tests.depth import deep_cases, quick_cases

KEY = bytes(range(32))
MEBIBYTE_OF_WORDS = (1 << 20) // 8
PINNED = ["5701316aaa73f1db", "482eff580c68748b", "08b862ca6d6cfa81"]


def stream(label: str = "test") -> RandomStream:
    return RandomStream(KEY, label)


def one_block_at_a_time(key: bytes, label: str, blocks: int) -> bytes:
    """The keystream by its definition: HKDF-SHA256 (RFC 5869) by hand, then AES of the counters 0, 1, 2, …"""
    extracted = hmac.digest(bytes(32), key, sha256)
    expanded = hmac.digest(extracted, f"stirred stream {label}".encode() + b"\x01", sha256)
    cipher = Cipher(algorithms.AES(expanded), modes.ECB()).encryptor()
    return b"".join(cipher.update(counter.to_bytes(16, "big")) for counter in range(blocks))


def test_words_are_the_little_endian_keystream_of_aes_256_in_counter_mode() -> None:
    expected = one_block_at_a_time(KEY, "test", 500)
    assert stream().words(1000).tobytes() == expected
    assert int(stream().words(1)[0]) == int.from_bytes(expected[:8], "little")


def test_first_words_have_not_changed() -> None:
    assert [f"{word:016x}" for word in stream("permutation swapping").words(3).tolist()] == PINNED


@given(st.lists(st.integers(0, 70), max_size=12))
def test_the_number_of_words_requested_at_a_time_does_not_matter(counts: list[int]) -> None:
    pieces = stream()
    joined = np.concatenate([pieces.words(count) for count in counts] or [np.empty(0, dtype=np.uint64)])
    assert np.array_equal(joined, stream().words(sum(counts)))


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize("first", [1, MEBIBYTE_OF_WORDS - 1, MEBIBYTE_OF_WORDS, MEBIBYTE_OF_WORDS + 1])
def test_blocks_join_without_a_seam_where_the_zeros_are_used_again(first: int) -> None:
    whole, pieces = stream().words(3 * MEBIBYTE_OF_WORDS), stream()
    joined = np.concatenate([pieces.words(first), pieces.words(3 * MEBIBYTE_OF_WORDS - first)])
    assert np.array_equal(joined, whole)
    assert len(np.unique(whole)) == len(whole)


def test_streams_of_other_labels_and_keys_share_no_word() -> None:
    streams = [RandomStream(KEY, label) for label in ("", "a", "b", "ab", "a ")]
    streams.append(RandomStream(bytes(32), "a"))
    words = np.concatenate([each.words(10_000) for each in streams])
    assert len(np.unique(words)) == len(words)


@pytest.mark.parametrize("size", [0, 16, 24, 31, 33, 64])
def test_a_key_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        RandomStream(bytes(size), "test")


@given(positions=st.lists(st.integers(0, 400), max_size=20))
def test_numbered_words_are_those_of_the_stream_in_any_order(positions: list[int]) -> None:
    numbered = NumberedWords(KEY, "test").words_at(np.array(positions, dtype=np.int64))
    assert np.array_equal(numbered, stream().words(401)[positions])


def test_a_position_far_away_has_the_word_of_its_counter() -> None:
    """A nation's answers are numbered far beyond 2^32."""
    position = 2**45 + 1
    derived = hmac.digest(hmac.digest(bytes(32), KEY, sha256), b"stirred stream test\x01", sha256)
    block = Cipher(algorithms.AES(derived), modes.ECB()).encryptor().update((position // 2).to_bytes(16, "big"))
    found = NumberedWords(KEY, "test").words_at(np.array([position]))
    assert found.tolist() == [int.from_bytes(block[8:], "little")]


def test_further_words_of_positions_are_streams_of_their_own() -> None:
    numbered = NumberedWords(KEY, "test")
    streams = (stream(), numbered.after(0), numbered.after(1))
    assert np.unique([each.words(4) for each in streams]).size == 12
