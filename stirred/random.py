"""The randomness of draws: explicit, and either from the operating system or from a key that repeats them."""

import os
from itertools import count
from typing import NoReturn

from mechanisms.sampling.stream import RandomStream

__all__ = ["Randomness", "from_key", "system"]


class Randomness:
    """A secret key of 32 bytes. Every draw takes the next of its subkeys, so no two draws share their noise, and the
    same key gives the same draws if the same calls are made in the same order.

    Anyone who knows the key can remove all noise. It is neither printed nor part of a result. A copy would draw the
    same noise again. So copying or pickling it raises TypeError, and drawing from it in another process, such as a
    fork, RuntimeError.
    """

    def __init__(self, key: bytes, source: str) -> None:
        if len(key) != 32:
            raise ValueError(f"a key has 32 bytes, not {len(key)}")
        self._key, self._source, self._process, self._draws, self._numbers = key, source, os.getpid(), 0, count(1)

    def next_key(self) -> bytes:
        """The key of the next draw, 32 bytes. Raises RuntimeError in another process."""
        if os.getpid() != self._process:
            raise RuntimeError("this randomness is of another process, which draws the same noise: make one here")
        # Threads may share it: no two get the same number.
        self._draws = number = next(self._numbers)
        return RandomStream(self._key, f"api {number}").words(4).tobytes()

    def next_stream(self) -> RandomStream:
        return RandomStream(self.next_key(), "api")

    def __reduce__(self) -> NoReturn:
        raise TypeError("randomness is neither copied nor pickled: the copy would draw the same noise again")

    def __repr__(self) -> str:
        return f"<randomness from {self._source}, {self._draws} draws so far>"


def system() -> Randomness:
    """New randomness from the operating system. No one can repeat it."""
    return Randomness(os.urandom(32), "the system")


def from_key(key: bytes | str) -> Randomness:
    """The randomness of a key: 32 bytes, or 64 hexadecimal digits.

    Use a key for one data set only: the same noise on other data cancels out if the results are subtracted. Raises
    ValueError for a key of another length.
    """
    return Randomness(bytes.fromhex(key) if isinstance(key, str) else key, "a key")
