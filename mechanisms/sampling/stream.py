"""A draw's random stream: AES-256-CTR read as 64-bit words.

This module turns a key into words. `resources.custody` derives the key.
"""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from mechanisms.sampling.types import Words

_ZEROS = bytes(1 << 20)


class RandomStream:
    """An endless sequence of independent uniform 64-bit words, fixed by its key and label.

    The number of words requested at a time does not change the sequence. Streams of one key under different labels are
    independent, so the parts of a draw can be made in any order.

    Args:
        key: 32 bytes, secret.
        label: the use of this stream.
    """

    def __init__(self, key: bytes, label: str) -> None:
        if len(key) != 32:
            raise ValueError("a stream's key has 32 bytes")
        stream_key = HKDF(algorithm=SHA256(), length=32, salt=None, info=f"stirred stream {label}".encode())
        self._keystream = Cipher(algorithms.AES(stream_key.derive(key)), modes.CTR(bytes(16))).encryptor()

    def words(self, count: int) -> Words:
        """The next `count` words, shape (count,), uint64."""
        size = 8 * count
        buffer = bytearray(size)
        view = memoryview(buffer)
        for start in range(0, size, len(_ZEROS)):
            stop = min(start + len(_ZEROS), size)
            self._keystream.update_into(_ZEROS[: stop - start], view[start:stop])
        return np.frombuffer(buffer, dtype="<u8")
