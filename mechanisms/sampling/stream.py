"""A draw's random stream: AES-256-CTR read as 64-bit words, in blocks, and never too far; and coins from words."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

Words = NDArray[np.uint64]

TOP_WORD = np.uint64(2**64 - 1)
"""The greatest word. Tests use smaller ones and try every word."""

WORDS_AT_A_TIME = 1 << 15

_ZEROS = bytes(1 << 20)


class WordSource(Protocol):
    """A source of random words in order, such as `RandomStream`."""

    def words(self, count: int) -> Words:
        """The next `count` words, shape (count,), uint64."""


def _derive(key: bytes, label: str) -> bytes:
    if len(key) != 32:
        raise ValueError("a stream's key has 32 bytes")
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=f"stirred stream {label}".encode()).derive(key)


class RandomStream:
    """An endless sequence of independent uniform 64-bit words, fixed by its secret key of 32 bytes and its label. The
    number of words requested at a time does not change the sequence. Streams of one key under different labels are
    independent, so the parts of a draw can be made in any order."""

    def __init__(self, key: bytes, label: str) -> None:
        self._keystream = Cipher(algorithms.AES(_derive(key, label)), modes.CTR(bytes(16))).encryptor()

    def words(self, count: int) -> Words:
        size = 8 * count
        buffer = bytearray(size)
        view = memoryview(buffer)
        for start in range(0, size, len(_ZEROS)):
            stop = min(start + len(_ZEROS), size)
            self._keystream.update_into(_ZEROS[: stop - start], view[start:stop])
        return np.frombuffer(buffer, dtype="<u8")


class NumberedWords:
    """The words of a stream by their positions, in any order: word n is the n-th of `RandomStream`, counted from 0."""

    def __init__(self, key: bytes, label: str) -> None:
        self._key, self._label = key, label
        self._blocks = Cipher(algorithms.AES(_derive(key, label)), modes.ECB()).encryptor()

    def words_at(self, positions: NDArray[np.int64]) -> Words:
        """Shape of `positions`, which are not negative."""
        # The counter of CTR is a block's number; a block has two words.
        counters = np.zeros((positions.size, 2), dtype=">u8")
        counters[:, 1] = positions >> 1
        blocks = np.frombuffer(self._blocks.update(counters.tobytes()), dtype="<u8").reshape(-1, 2)
        return blocks[np.arange(positions.size), positions & 1]

    def after(self, position: int) -> RandomStream:
        """Further words of one position."""
        return RandomStream(self._key, f"{self._label} after {position}")


class WordReader:
    """The words of a source one after the other, for draws that take one word or more. A block is never longer than the
    number of draws to come, and each draw takes at least one word. So no word is left over after the last draw, and the
    words that a draw uses do not depend on the size of the blocks."""

    def __init__(self, source: WordSource) -> None:
        self._source = source
        self._block: Words = np.empty(0, dtype=np.uint64)
        self._used = 0

    def ahead(self, most: int) -> Words:
        """Unused words, at least one: the rest of the last block, or else up to `most` new ones."""
        if self._used == len(self._block):
            self._block, self._used = self._source.words(min(most, WORDS_AT_A_TIME)), 0
        return self._block[self._used :]

    def use(self, count: int) -> None:
        self._used += count

    def one(self) -> int:
        word = int(self.ahead(1)[0])
        self.use(1)
        return word


@dataclass(frozen=True)
class Coin:
    """A coin of exactly rational bias, shown by whole words, so that no float is compared: a word above `last_fair` is
    rejected; of the others, those below `heads` show heads."""

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
