"""Reading a stream in blocks without reading too far.

Here belongs only that: samplers of which some draws take one word and some take more share it. A block is never
longer than the number of draws to come, each of which takes a word at least; so when the last draw is made no word
has been read in vain, and the words a draw sees do not depend on the size of the blocks.
"""

from typing import Protocol

import numpy as np

from mechanisms.sampling.types import Words

WORDS_AT_A_TIME = 1 << 15


class WordSource(Protocol):
    """What gives random words in order, as `RandomStream` does."""

    def words(self, count: int) -> Words:
        """The next `count` words, shape (count,), uint64."""


class WordReader:
    """The words of a stream, one after the other.

    Args:
        source: where the words come from.
    """

    def __init__(self, source: WordSource) -> None:
        self._source = source
        self._block: Words = np.empty(0, dtype=np.uint64)
        self._used = 0

    def ahead(self, most: int) -> Words:
        """Words not used yet, at least one: those left of the last block, or else up to `most` new ones."""
        if self._used == len(self._block):
            self._block, self._used = self._source.words(min(most, WORDS_AT_A_TIME)), 0
        return self._block[self._used :]

    def use(self, count: int) -> None:
        """Count the first `count` words of `ahead` as used."""
        self._used += count

    def one(self) -> int:
        """The next word."""
        word = int(self.ahead(1)[0])
        self.use(1)
        return word
