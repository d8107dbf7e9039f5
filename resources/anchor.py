"""The ledger's sealed head: where its chain ends, authenticated under the custody's master key.

A chain of hashes cannot reveal that its last entries were cut off, that the file was replaced by an earlier copy, or
that the whole chain was rebuilt. The anchor can. It is a small file outside the database, which `custody` keeps beside
the master key. `ledger` writes it, and compares it with the chain.
"""

import hmac
import json
from dataclasses import asdict, astuple, dataclass
from hashlib import sha256

from resources.canonical import canonical

GENESIS = "0" * 64
"""The hash before the first entry."""


@dataclass(frozen=True)
class Anchor:
    """Where the chain ends.

    Attributes:
        sequence: the number of the last entry known to be committed; 0 before the first.
        hash: the hash of that entry; 64 zeros before the first.
        announced: the hash of the entry that is being appended, or None.
    """

    sequence: int = 0
    hash: str = GENESIS
    announced: str | None = None

    @property
    def charged(self) -> bool:
        """Whether the ledger holds an entry, or may hold the one that was announced."""
        return self.sequence > 0 or self.announced is not None

    def sealed(self, key: bytes) -> bytes:
        """The content of the anchor's file, authenticated under a key."""
        return canonical(asdict(self) | {"mac": self.mac(key)})

    def mac(self, key: bytes) -> str:
        """The HMAC-SHA256 of the anchor under a key, 64 hexadecimal digits."""
        return hmac.new(key, canonical(list(astuple(self))), sha256).hexdigest()


def opened(content: bytes, key: bytes) -> Anchor | None:
    """The anchor in a file's content; None unless it was sealed with this key and not altered since."""
    try:
        record = json.loads(content)
        anchor = Anchor(record["sequence"], record["hash"], record["announced"])
        genuine = hmac.compare_digest(record["mac"], anchor.mac(key))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return anchor if genuine else None
