"""What the methods of SafeTab-P and SafeTab-H share: how records are counted, and what a charge follows from."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TypeVar

import pyarrow as pa

from assets.measurement.batches import Batch, BatchedCounts
from assets.measurement.method import budget_facts
from assets.release.dataset import Size
from assets.release.draw import Inputs
from assets.release.method import Fact
from assets.release.plan import Plan
from assets.safetab.counting import counts_recipe
from assets.safetab.plan import parameter_tables, safetab_plan
from assets.safetab.records import AREA_COLUMNS, require_countable_records
from assets.safetab.release import SafeTabRelease
from mechanisms.safetab.design import VERSION
from mechanisms.safetab.regions import PUERTO_RICO_ONLY
from resources.custody import Custody
from resources.statements import Table
from resources.warehouse import Recipe, Session

_TOLD_APART_BY = dict(zip(("STATE", "COUNTY", "TRACT", "PLACE", "AIANNH"), AREA_COLUMNS, strict=True))
"""By type of regions, the column that tells them apart. The nation is one region."""

R = TypeVar("R", bound=SafeTabRelease)
B = TypeVar("B", bound=Batch)


class SafeTabMethod(BatchedCounts[R, B]):
    """A method that counts records by detailed race and ethnicity, in regions or groups that are public.

    A subclass names the public table beside which counts are charged (`counted_in`), and defines the draw.
    """

    version = VERSION

    @property
    @abstractmethod
    def counted_in(self) -> str:
        """The stage, and its public table, that says where records are counted."""

    @property
    def groups(self) -> Table | None:
        """The groups that are counted; None for all."""
        return None

    def numbers(self, size: Size) -> int:
        """The population groups of all regions. Those of Puerto Rico are among them by the namesake of their type."""
        lists = self.release.lists
        groups = {
            (region_type.removeprefix(PUERTO_RICO_ONLY), level): len(lists.universe(region_type, level))
            for region_type, level in self.release.pairs
        }
        return sum(
            number * (size.places_of([_TOLD_APART_BY[name]]) if name in _TOLD_APART_BY else 1)
            for (name, _), number in groups.items()
        )

    def counts_recipe(self, session: Session) -> Recipe:
        release, design = self.release, self.release.design
        return counts_recipe(
            session,
            release.dataset,
            release.counted,
            release.lists,
            release.pairs,
            design.states,
            design.max_race_codes,
            self.groups,
        )

    def counts_version(self, session: Session, custody: Custody) -> str:
        return session.sorted_version(self.counts_table, self.release.version_key(custody))

    def require_countable(self, session: Session, custody: Custody) -> None:
        release = self.release
        require_countable_records(session, release.dataset, release.counted, release.lists.names, release.design.states)

    def charged_tables(self) -> Mapping[str, Sequence[Table]]:
        return {**super().charged_tables(), self.counted_in: [self.release.public(self.counted_in)]}

    def inputs(self, session: Session, custody: Custody) -> Inputs:
        public = session.content_version([self.release.public(self.counted_in)], self.release.version_key(custody))
        return Inputs({**super().inputs(session, custody).versions, self.counted_in: public})

    def plan(self) -> Plan:
        return safetab_plan(self.release)

    def plan_tables(self) -> Mapping[Table, pa.Table]:
        return parameter_tables(self.release)

    def charge_facts(self, inputs: Inputs) -> dict[str, Fact]:
        design = self.release.design
        return budget_facts(design, len(design.lines), "one record", "one record", "lines of the charge")
