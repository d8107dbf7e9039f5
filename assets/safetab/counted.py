"""What the methods of SafeTab-P and SafeTab-H share: how records are counted, and what a charge follows from."""

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import pyarrow as pa

from assets.measurement.batches import Batch, BatchedCounts
from assets.release.draw import Inputs
from assets.release.plan import Plan
from assets.release.size import Size
from assets.safetab.counting import counts_recipe, require_countable_records
from assets.safetab.plan import parameter_tables, safetab_plan
from assets.safetab.records import AREA_COLUMNS, columns_read
from assets.safetab.release import COUNTS, SafeTabRelease
from mechanisms.accounting.specification import Specification
from mechanisms.safetab.design import VERSION
from resources.custody import Custody
from resources.statements import Table
from resources.warehouse import Recipe, Session

_REGION_COLUMNS = dict(zip(("STATE", "COUNTY", "TRACT", "PLACE", "AIANNH"), AREA_COLUMNS, strict=True))
"""By type of regions, the column that identifies them. The nation is one region."""

R = TypeVar("R", bound=SafeTabRelease)
B = TypeVar("B", bound=Batch)


class SafeTabMethod(BatchedCounts[R, B]):
    """A method that counts records by detailed race and ethnicity, in regions or groups that are public."""

    version = VERSION
    charge_columns: ClassVar[Mapping[str, str]] = {
        "output_premetric": "How the loss is measured",
        "unbounded": "Loss for one record added or removed, exact",
        "bounded": "Loss for one record changed, exact; this is charged",
        "bounded_rounded_up": "Loss for one record changed, rounded up",
        "lines": "Number of lines of the charge",
    }

    @property
    @abstractmethod
    def counted_in(self) -> str:
        """The stage, and its public table, that says where records are counted."""

    @property
    def groups(self) -> Table | None:
        """The groups that are counted; None for all."""
        return None

    @property
    def counts_table(self) -> Table:
        return self.release.confidential(COUNTS)

    def numbers(self, size: Size) -> int:
        """The population groups of all regions; Puerto Rico is among the places of the shared name."""
        lists = self.release.lists
        groups = {
            (region_type.shared_name, level): len(lists.universe(region_type, level))
            for region_type, level in self.release.pairs
        }
        return sum(
            number * (size.places_of([_REGION_COLUMNS[name]]) if name in _REGION_COLUMNS else 1)
            for (name, _), number in groups.items()
        )

    def counts_recipe(self, session: Session) -> Recipe:
        return counts_recipe(session, self.release, self.groups)

    def counts_version(self, session: Session, custody: Custody) -> str:
        return session.sorted_version(self.counts_table, self.version_key(custody))

    def require_countable(self, session: Session, custody: Custody) -> None:
        require_countable_records(session, self.release)

    def columns_read(self) -> Collection[str]:
        read = columns_read(self.release.dataset, self.release.counted)
        return [column for columns in read.values() for column in columns]

    def counted_with(self) -> Mapping[str, Any]:
        return self.release.counted_with

    def parameters(self) -> Mapping[str, Any]:
        return {**self.release.counted_with, **self.release.design.as_record()}

    def charged_tables(self) -> Mapping[str, Sequence[Table]]:
        return {**super().charged_tables(), self.counted_in: [self.release.public(self.counted_in)]}

    def inputs(self, session: Session, custody: Custody) -> Inputs:
        public = session.content_version([self.release.public(self.counted_in)], self.version_key(custody))
        return Inputs({**super().inputs(session, custody).versions, self.counted_in: public})

    def specification(self, inputs: Inputs) -> Specification:
        return self.release.design.specification(self.release.dataset.name)

    def plan(self) -> Plan:
        return safetab_plan(self.release)

    def plan_tables(self) -> Mapping[Table, pa.Table]:
        return parameter_tables(self.release)

    def charge_facts(self, inputs: Inputs) -> dict[str, str | int | float]:
        design = self.release.design
        return {
            "output_premetric": design.bounded.output_premetric,
            "unbounded": str(design.unbounded),
            "bounded": str(design.bounded),
            "bounded_rounded_up": float(design.bounded.round_up()),
            "lines": len(design.lines),
        }
