"""SafeTab-H as a method: how it fills in the hooks of charge, draw, gates and publication."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import dagster as dg
import numpy as np

from assets.measurement.batches import Batch
from assets.measurement.method import MEASUREMENTS, build_counts, parameters_gate
from assets.release.dataset import CEF
from assets.release.draw import Draw, Inputs
from assets.release.gate import Gate
from assets.release.method import CHARGE, PLAN, release_hook, session_hook
from assets.release.release import Release
from assets.release.statement import Statement
from assets.safetab.counting import COUNT_COLUMNS, require_households_in_groups
from assets.safetab.gates import find_farthest
from assets.safetab.groups import build_groups, groups_gate
from assets.safetab.households import (
    COLUMNS,
    build_household_tables,
    complete_gate,
    household_table_recipes,
    read_exact_batches,
    read_stored_batches,
    write_measurements,
)
from assets.safetab.method import SafeTabMethod
from assets.safetab.published import column_descriptions, household_products
from assets.safetab.release import COUNTS, GROUPS, SafeTabHRelease
from assets.safetab.statement import household_statement
from assets.tabulation.asset import TABLES, tables_gate
from mechanisms.safetab.design import MECHANISM_H
from mechanisms.sampling.quantiles import Uncapped
from resources.custody import Custody
from resources.statements import Table, Zone
from resources.warehouse import Session


class SafeTabHMethod(SafeTabMethod[SafeTabHRelease, Batch]):
    mechanism = MECHANISM_H
    stages = (PLAN, GROUPS, COUNTS, CHARGE, MEASUREMENTS, TABLES)
    publishes_also_from = (PLAN, GROUPS)
    draw_follows = (GROUPS, COUNTS)
    drawn_columns = COLUMNS
    counted_in = GROUPS
    exact = session_hook(read_exact_batches)
    stored = session_hook(read_stored_batches)
    tables = release_hook(household_products)

    @property
    def reads_publications_of(self) -> Sequence[Release]:
        return [self.release.detail]

    def own_assets(self) -> Sequence[dg.AssetsDefinition]:
        release = self.release
        return [
            build_groups(release),
            build_counts(
                self,
                [CEF, GROUPS],
                "The exact counts of households of every group by type and tenure. Cells without households are left "
                "out.",
                COUNT_COLUMNS,
                reads=[Zone.PUBLIC],
            ),
            build_household_tables(release, column_descriptions(household_products(release))),
        ]

    @property
    def groups(self) -> Table:
        return self.release.public(GROUPS)

    def require_countable(self, session: Session, custody: Custody) -> None:
        super().require_countable(session, custody)
        require_households_in_groups(session, self.release, self.counts_table)

    def distributions(self) -> Mapping[str, Uncapped]:
        return {line.label: line.noise for line in self.release.design.measured}

    def store(self, session: Session, batches: Iterator[Batch]) -> None:
        write_measurements(session, self.release, batches)

    def perturb(self, session: Session, key: bytes) -> Iterator[Batch]:
        for batch in super().perturb(session, key):
            yield batch if self.release.design.negative_counts else replace(batch, values=np.maximum(batch.values, 0))

    def unlikely(self, pairs: Iterable[tuple[Batch, Batch]]) -> list[str]:
        """Clipped numbers say less about their noise, so that only cells far above 0 are tested then."""
        distributions = self.distributions()
        return super().unlikely(
            pairs
            if self.release.design.negative_counts
            else (_far_above_zero(exact, noisy, find_farthest(distributions[exact.query])) for exact, noisy in pairs)
        )

    def further_gates(self) -> Sequence[Gate[SafeTabHRelease]]:
        release = self.release
        recipes = tables_gate(lambda session: household_table_recipes(session, release))
        return [parameters_gate(), groups_gate(), recipes, complete_gate()]

    def charge_description(self) -> str:
        design = self.release.design
        return f"""All region types, levels and tables are charged together, with a line for each. Budgets are declared
for one household added or removed. The charge is the loss for one household's record changed: twice the sum of the
lines' {design.noise.symbol}. The groups and their detail are read from the publication of {self.release.detail.name},
and cost nothing here."""

    def draw_description(self) -> str:
        return """For every published group, the exact count of every measured cell of its table of household types and
of its table of tenures, plus independent noise; empty cells and groups without households too."""

    def statement(self, draw: Draw[Inputs], output_version: str) -> Statement:
        return household_statement(self.release, draw.inputs, output_version)


def _far_above_zero(exact: Batch, noisy: Batch, least: int) -> tuple[Batch, Batch]:
    chosen = exact.values >= least
    return replace(exact, values=exact.values[chosen]), replace(noisy, values=noisy.values[chosen])
