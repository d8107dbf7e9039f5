"""Records that one release makes and withholds, for another release to count from: an interface between mechanisms.

`assets.swapping` withholds swapped records, and `assets.table_builder` counts hypercubes from them. Neither package
depends on the other; a component passes the records from one to the other.
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
        parameters: the parameters of the records, as exact plain values.
        kept_together: sets of columns: the counts of records by the columns of a set equal the counts of the dataset's
            own records.
        unit: the specification's word for a record.
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
        """The DP specification that is charged for tables with noise; `tables` is their loss for one changed counted
        record."""

    @abstractmethod
    def own_loss(self, session: Session, custody: Custody) -> Specification:
        """The further specification of the tables that follows from the making of the records. Raises SealError if its
        inputs are missing, were altered, or follow from another CEF."""

    @abstractmethod
    def require_current(self, session: Session, custody: Custody) -> None:
        """Raise StaleInputError unless the stored records follow from the stored CEF and the declaration."""

    @abstractmethod
    def problems(self, context: ReleaseContext) -> list[str]:
        """The problems of the stored records, as gates report them; empty if there are none."""
