"""The tables of a publication as readers see them: by name, from the Parquet files in its folder."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from assets.release.signature import PACKAGE, SignedFolder


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
        """The tables as signed, even if files are replaced meanwhile."""
        return cls(signed.folder, signed)

    def __contains__(self, name: str) -> bool:
        file = f"{name}.parquet"
        return file in self.signed.digests if self.signed else (self.folder / file).exists()

    def read(self, name: str, **options: Any) -> pa.Table:
        """A table, with options of `pyarrow.parquet.read_table`. Raises VerificationError if its file is not as signed;
        without verification, OSError and ArrowException if the file cannot be read."""
        file = f"{name}.parquet"
        if not self.signed:
            return pq.read_table(self.folder / file, **options)
        # Some files are read again for each query, but verified only once.
        if file not in self._read:
            self._read[file] = self.signed.read(file)
        return pq.read_table(pa.BufferReader(self._read[file]), **options)

    def read_interval_methods(self) -> list[str]:
        """The methods of the tables' 90% intervals, in the words of the data dictionary. Raises as `read`."""
        dictionary = self.signed.read(PACKAGE) if self.signed else (self.folder / PACKAGE).read_bytes()
        resources = json.loads(dictionary)["resources"]
        return [resource["interval"]["method"] for resource in resources if "interval" in resource]
