"""SafeTab-P as a method, and what it shares with SafeTab-H: how they fill in the hooks of charge, draw, gates and
publication."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import dagster as dg

from assets.conventions import preview
from assets.measurement.batches import Batch, BatchedCounts
from assets.measurement.method import MEASUREMENTS, budget_facts, build_counts
from assets.planning.lines import budgets_for_margins
from assets.release.dataset import CEF, Size
from assets.release.draw import Draw, Inputs
from assets.release.method import CHARGE, PLAN, Fact, release_hook, session_hook
from assets.release.statement import Statement
from assets.safetab.counting import COUNT_COLUMNS, counts_recipe, require_countable_records
from assets.safetab.gates import find_unlikely_noise, person_gates
from assets.safetab.measurements import (
    COLUMNS,
    KeptCells,
    measure_batches,
    read_exact_batches,
    read_stored_batches,
    require_storable,
    write_measurements,
)
from assets.safetab.plan import parameter_tables, planned_lines, safetab_plan
from assets.safetab.published import column_descriptions, person_products
from assets.safetab.records import AREA_COLUMNS
from assets.safetab.regions import build_regions, require_regions
from assets.safetab.release import COUNTS, REGIONS, SafeTabPRelease, SafeTabRelease
from assets.safetab.statement import person_statement
from assets.safetab.tables import build_person_tables
from assets.tabulation.asset import TABLES
from mechanisms.design import LARGEST_BUDGET
from mechanisms.safetab.adaptive import GroupNoise
from mechanisms.safetab.design import MECHANISM_P, VERSION
from mechanisms.sampling.noise import Distribution
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
    plan = release_hook(safetab_plan)
    plan_tables = release_hook(parameter_tables)

    def fields_for_margins(self, margins: Mapping[str, Fraction]) -> Mapping[str, Any]:
        budgets = budgets_for_margins(planned_lines(self.release), margins, LARGEST_BUDGET)
        return {"budgets": budgets, "moe": None}

    def scale_budgets(self, factor: Fraction) -> Mapping[str, Any]:
        return {"budgets": {line.name: factor * line.budget for line in planned_lines(self.release)}, "moe": None}

    @property
    @abstractmethod
    def counted_in(self) -> str:
        """The stage, and its public table, that says where records are counted."""

    @property
    def groups(self) -> Table | None:
        """The groups that are counted; None for all."""
        return None

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
        return session.sorted_version(self.counts_table, self.release.version_key(custody))

    def require_countable(self, session: Session, custody: Custody) -> None:
        require_countable_records(session, self.release)

    def charged_tables(self) -> Mapping[str, Sequence[Table]]:
        return {**super().charged_tables(), self.counted_in: [self.release.public(self.counted_in)]}

    def inputs(self, session: Session, custody: Custody) -> Inputs:
        public = session.content_version([self.release.public(self.counted_in)], self.release.version_key(custody))
        return Inputs({**super().inputs(session, custody).versions, self.counted_in: public})

    def charge_facts(self, inputs: Inputs) -> dict[str, Fact]:
        design = self.release.design
        return budget_facts(design, len(design.lines), "one record", "one record", "lines of the charge")


class SafeTabPMethod(SafeTabMethod[SafeTabPRelease, KeptCells]):
    mechanism = MECHANISM_P
    stages = (PLAN, REGIONS, COUNTS, CHARGE, MEASUREMENTS, TABLES)
    publishes_also_from = (PLAN, REGIONS)
    draw_follows = (REGIONS, COUNTS)
    drawn_columns = COLUMNS
    counted_in = REGIONS
    exact = session_hook(read_exact_batches)
    stored = session_hook(read_stored_batches)
    further_gates = release_hook(person_gates)
    tables = release_hook(person_products)

    def own_assets(self) -> Sequence[dg.AssetsDefinition]:
        release = self.release
        return [
            build_regions(release),
            build_counts(
                self,
                [CEF],
                "The exact counts of every group by sex and 23 age groups. Cells without persons are left out.",
                COUNT_COLUMNS,
            ),
            build_person_tables(release, column_descriptions(person_products(release))),
        ]

    def require_chargeable(self, session: Session) -> None:
        """Refuse, before the charge, a run without regions, and more numbers than can be stored."""
        if session.columns(self.release.public(REGIONS)):
            require_regions(session, self.release)
            require_storable(session, self.release)

    def query_names(self) -> Sequence[str]:
        return [line.label for line in self.release.design.measured]

    def distributions(self) -> Mapping[str, Distribution]:
        """None: which noise a cell has depends on the detail of its group, so the hooks that need it are defined."""
        return {}

    def store(self, session: Session, batches: Iterator[KeptCells]) -> None:
        write_measurements(session, self.release, batches)

    def perturb(self, session: Session, key: bytes) -> Iterator[KeptCells]:
        return measure_batches(session, self.release, GroupNoise(self.release.design.measured, key))

    def unlikely(self, pairs: Iterable[tuple[KeptCells, KeptCells]]) -> list[str]:
        return find_unlikely_noise(self.release, pairs)

    def charge_description(self) -> str:
        symbol = self.release.design.noise.symbol
        return f"""All region types and levels are charged together, with a line for each. A group's detail is chosen by
a first noisy total, which takes its share of the line's budget and is not published. Budgets are declared for one
person added or removed. The charge is the loss for one person's record changed: twice the sum of the lines' {symbol},
because a change takes one from at most Δ cells and adds one to at most Δ others. Region types of the United States and
of Puerto Rico share a line with the greater of their budgets, because nobody is in both."""

    def draw_description(self) -> str:
        return """For every population group, empty ones too: a noisy total, which says in what detail the group is
published and is kept nowhere; then fresh noise for the total, or for sex by 4, 9 or 23 age groups. Below the states,
totals that are hardly above zero are left out."""

    def draw_metadata(self, session: Session) -> Mapping[str, Any]:
        rows = session.rows("safetab/kept", measurements=self.release.public(MEASUREMENTS))
        return {
            "published groups": preview(
                ["region type", "level", "detail", "groups"],
                [(kind, level, detail, f"{groups:,}") for kind, level, detail, groups in rows],
            )
        }

    def statement(self, draw: Draw[Inputs], output_version: str) -> Statement:
        return person_statement(self.release, draw.inputs, output_version)
