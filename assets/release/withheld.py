"""Records that one release makes and withholds, for another release to count from: an interface between mechanisms.

`assets.swapping` withholds swapped records, and `assets.table_builder` counts hypercubes from them. Neither knows the
other; a component hands the records of the one to the other.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

from assets.release.columns import Column
from assets.release.gate import ReleaseContext
from mechanisms.accounting.losses import Loss
from mechanisms.accounting.specification import Specification
from resources.custody import Custody
from resources.statements import Table
from resources.warehouse import Session


@dataclass(frozen=True)
class WithheldRecords(ABC):
    """The withheld records of a release, one row for each.

    Attributes:
        name: the release, as `dataset/release`.
        asset, table: the asset that makes the records, and their confidential table, which has no keys.
        parameters: what the records are made with, as exact plain values.
        kept_together: sets of columns: the counts of records by the columns of a set are those of the dataset's own
            records.
        unit: what a record is, as the specification calls it.
    """

    name: str
    asset: dg.AssetKey
    table: Table
    columns: Mapping[str, Column]
    parameters: Mapping[str, Any]
    kept_together: tuple[tuple[str, ...], ...]
    unit: str

    @abstractmethod
    def specification(self, tables: Loss) -> Specification:
        """The DP specification, which is charged, of tables with noise; `tables` is their loss for one counted record
        changed."""

    @abstractmethod
    def own_loss(self, session: Session, custody: Custody) -> Specification:
        """The specification that the tables have besides, because the records are what they are. Raises SealError if
        what it follows from is missing, was altered, or follows from another CEF."""

    @abstractmethod
    def require_current(self, session: Session, custody: Custody) -> None:
        """Raise StaleInputError unless the stored records follow from the stored CEF and the declaration."""

    @abstractmethod
    def problems(self, context: ReleaseContext) -> list[str]:
        """What is wrong with the records as they are stored, as gates say it; empty if nothing is."""
