"""The randomness of draws: explicit, and either from the operating system or from a key that repeats them."""

import os

from mechanisms.sampling.stream import RandomStream

__all__ = ["Randomness", "from_key", "system"]


class Randomness:
    """A secret key of 32 bytes, of which every draw takes the next subkey. So no two draws share their noise, and the
    same key gives the same draws if the same calls are made in the same order.

    Who knows the key can remove all noise. It is neither printed nor part of a result.
    """

    def __init__(self, key: bytes, source: str) -> None:
        if len(key) != 32:
            raise ValueError(f"a key has 32 bytes, not {len(key)}")
        self._key, self._source, self._draws = key, source, 0

    def next_key(self) -> bytes:
        """The key of the next draw, 32 bytes."""
        self._draws += 1
        return RandomStream(self._key, f"api {self._draws}").words(4).tobytes()

    def next_stream(self) -> RandomStream:
        return RandomStream(self.next_key(), "api")

    def __repr__(self) -> str:
        return f"<randomness from {self._source}, {self._draws} draws so far>"


def system() -> Randomness:
    """New randomness from the operating system, which nobody can repeat."""
    return Randomness(os.urandom(32), "the system")


def from_key(key: bytes | str) -> Randomness:
    """The randomness of a key: 32 bytes, or 64 hexadecimal digits.

    Use a key for one data set only: the same noise on other data cancels out if the results are subtracted. Raises
    ValueError for a key of another length.
    """
    return Randomness(bytes.fromhex(key) if isinstance(key, str) else key, "a key")
