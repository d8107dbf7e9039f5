"""Record keys, cell keys, and the words derived from a cell's key.

Every record has a key of 128 bits that only the holder of the draw's key can compute. A cell's key is the sum of the
keys of its records modulo 2^128 (`sql/table_builder/key_sums.sql`), so it depends only on the set of records in the
cell. `PTable.draw_by_cell` draws the result of a cell from the words derived from its key:

- *cell consistency*: from the key of the cell alone. The same set of records has the same words in every table. The
  key of all empty cells is 0.
- *query consistency*: from the key of the cell, the cell's place in its table, and the name of the query. The words of
  different cells and tables are independent.

Source: papers/002, Appendix C.

**The functions.** Record keys are AES-256 of the record's identifier. Words under cell consistency are AES-256 of the
cell's key. Words under query consistency are the CBC-MAC of two blocks, the cell's key and its place. Each use has a
secret key of its own (HKDF-SHA256 of the draw's key). AES is a permutation: its values for q different inputs differ
from those of a random function with an advantage of at most q²/2^129, below 2^-63 for 2^33 inputs. A CBC-MAC of two
blocks is a pseudorandom function with a bound of the same order (Bellare, Kilian and Rogaway, 2000).
"""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from mechanisms.sampling.stream import Words

_WORDS = 2
"""The words of a block. The first word of a key holds its upper 64 bits."""


def record_keys(key: bytes, identifiers: Words) -> Words:
    """The keys of records, shape (records, 2), upper half first, by the draw's secret key of 32 bytes. Identifiers have
    the same shape: 128 bits that no other record has."""
    return _encrypt(_derive(key, "record keys"), identifiers)


class KeyedWords:
    """The words of cells, for `PTable.draw_by_cell`, by the draw's secret key of 32 bytes and the keys of the cells,
    shape (cells, 2), upper half first. A cell's words do not depend on the number that another cell uses.

    Under query consistency, `query` is everything that defines the query, the table and its universe; under cell
    consistency it is None.
    """

    def __init__(self, key: bytes, keys: Words, query: str | None = None) -> None:
        self._key, self._keys, self._query = key, keys, query
        self._first = self._blocks(0, np.arange(len(keys)))

    def words(self, number: int) -> Words:
        """The word with this number of every cell, shape (cells,)."""
        block, place = divmod(number, _WORDS)
        blocks = self._first if block == 0 else self._blocks(block, np.arange(len(self._keys)))
        return np.ascontiguousarray(blocks[:, place])

    def word(self, number: int, cell: int) -> int:
        block, place = divmod(number, _WORDS)
        blocks = self._first[cell : cell + 1] if block == 0 else self._blocks(block, np.array([cell]))
        return int(blocks[0, place])

    def _blocks(self, number: int, cells: NDArray[np.int64]) -> Words:
        """The block with this number of some cells: each number has keys of its own."""
        keys = self._keys[cells]
        if self._query is None:
            return _encrypt(_derive(self._key, f"cell words {number}"), keys)
        secret = _derive(self._key, f"query words {number} {self._query}")
        mixed = _encrypt(secret, keys)
        mixed[:, 1] ^= cells.astype(np.uint64)
        return _encrypt(secret, mixed)


def _derive(key: bytes, use: str) -> bytes:
    if len(key) != 32:
        raise ValueError("a draw's key has 32 bytes")
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=f"stirred table builder {use}".encode()).derive(key)


def _encrypt(key: bytes, blocks: Words) -> Words:
    """AES-256 of every block, shape (blocks, 2). A block is its 128-bit number, most significant byte first."""
    numbers = np.ascontiguousarray(blocks, dtype=">u8").tobytes()
    # The block cipher itself, block by block: the inputs of a use are different, or meant to give equal words.
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return np.frombuffer(cipher.update(numbers), dtype=">u8").astype(np.uint64).reshape(-1, _WORDS)
