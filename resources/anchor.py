"""The ledger's sealed head: where its chain ends, authenticated under the custody's master key.

A chain of hashes cannot reveal that its last entries were cut off, that the file was replaced by an earlier copy, or
that the whole chain was rebuilt. The anchor can. It is a small file outside the database, which `custody` keeps beside
the master key. `ledger` writes it, and compares it with the chain. It also says where the chain goes on, so that of a
file ledger and the server ledger that it was moved to only one can be appended to.
"""

import hmac
import json
from dataclasses import asdict, astuple, dataclass
from hashlib import sha256
from typing import Any

from resources.canonical import canonicalize

GENESIS = "0" * 64
"""The hash before the first entry."""


@dataclass(frozen=True)
class Anchor:
    """Where the chain ends.

    Attributes:
        sequence: the number of the last entry known to be committed; 0 before the first.
        hash: the hash of that entry; 64 zeros before the first.
        announced: the hash of the entry that is being appended, or None.
        on_server: whether the chain is in a PostgreSQL server instead of the deployment's file. Only there it goes on.
    """

    sequence: int = 0
    hash: str = GENESIS
    announced: str | None = None
    on_server: bool = False

    @property
    def charged(self) -> bool:
        """Whether the ledger holds an entry, or may hold the one that was announced."""
        return self.sequence > 0 or self.announced is not None

    def seal(self, key: bytes) -> bytes:
        """The content of the anchor's file, authenticated under a key."""
        facts = asdict(self) if self.on_server else self._to_fields()
        return canonicalize(facts | {"mac": self.compute_mac(key)})

    def compute_mac(self, key: bytes) -> str:
        """The HMAC-SHA256 of the anchor under a key, 64 hexadecimal digits."""
        facts = astuple(self) if self.on_server else tuple(self._to_fields().values())
        return hmac.new(key, canonicalize(list(facts)), sha256).hexdigest()

    def _to_fields(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "on_server"}


def unseal(content: bytes, key: bytes) -> Anchor | None:
    """The anchor in a file's content; None unless it was sealed with this key and not altered since."""
    try:
        record = json.loads(content)
        anchor = Anchor(record["sequence"], record["hash"], record["announced"], record.get("on_server", False))
        genuine = hmac.compare_digest(record["mac"], anchor.compute_mac(key))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return anchor if genuine else None
