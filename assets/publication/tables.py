"""The tables of a publication as its readers have them: by name, from the Parquet files in its folder."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from assets.release.signature import SignedFolder


@dataclass(frozen=True)
class PublishedTables:
    """The tables in the folder of a publication.

    Attributes:
        signed: the folder as it was signed; None to read it unverified.
    """

    folder: Path
    signed: SignedFolder | None = None
    _read: dict[str, bytes] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, signed: SignedFolder) -> "PublishedTables":
        """What was signed, even if somebody exchanges files meanwhile."""
        return cls(signed.folder, signed)

    def __contains__(self, name: str) -> bool:
        file = f"{name}.parquet"
        return file in self.signed.digests if self.signed else (self.folder / file).exists()

    def read(self, name: str, **options: Any) -> pa.Table:
        """A table, with options of `pyarrow.parquet.read_table`. Raises VerificationError if its file is not as it was
        signed; unverified, OSError and ArrowException if it cannot be read."""
        file = f"{name}.parquet"
        if not self.signed:
            return pq.read_table(self.folder / file, **options)
        # Some are read for one query after the other, and verified once.
        if file not in self._read:
            self._read[file] = self.signed.read(file)
        return pq.read_table(pa.BufferReader(self._read[file]), **options)
