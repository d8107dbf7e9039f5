"""Reading a stream in blocks without reading too far.

Samplers whose draws take one word or more share this reader. A block is never longer than the number of draws to come,
and each draw takes at least one word. So no word is left over after the last draw, and the words that a draw uses do
not depend on the size of the blocks.
"""

from typing import Protocol

import numpy as np

from mechanisms.sampling.types import Words

WORDS_AT_A_TIME = 1 << 15


class WordSource(Protocol):
    """A source of random words in order, such as `RandomStream`."""

    def words(self, count: int) -> Words:
        """The next `count` words, shape (count,), uint64."""


class WordReader:
    """The words of a stream, one after the other."""

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
