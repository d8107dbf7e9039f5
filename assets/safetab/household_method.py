"""SafeTab-H as a method: how it fills in the hooks of charge, draw, gates and publication."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg
import numpy as np

from assets.measurement.counts import build_counts
from assets.measurement.method import MEASUREMENTS, Batch, NoisyCounts
from assets.release.draw import Draw, Inputs
from assets.release.gate import Gate
from assets.release.method import CHARGE
from assets.release.published import PublishedTable
from assets.release.release import Release
from assets.release.statement import Statement
from assets.safetab.counting import COUNT_COLUMNS, require_households_in_groups
from assets.safetab.gates import farthest
from assets.safetab.groups import build_groups
from assets.safetab.household_gates import household_gates
from assets.safetab.households import (
    COLUMNS,
    build_household_tables,
    exact_batches,
    stored_batches,
    write_measurements,
)
from assets.safetab.method import CHARGE_COLUMNS, columns_of, facts_of, recipe_of_counts, require_countable
from assets.safetab.parameters import build_parameters
from assets.safetab.published import column_descriptions, household_products
from assets.safetab.release import COUNTS, GROUPS, PARAMETERS, SafeTabHRelease
from assets.safetab.statement import household_statement
from assets.tabulation.asset import TABLES
from mechanisms.accounting.specification import Specification
from mechanisms.safetab.design import MECHANISM_H, VERSION
from mechanisms.sampling.quantiles import Uncapped
from resources.custody import Custody
from resources.statements import Table, Zone
from resources.warehouse import Recipe, Session


class SafeTabHMethod(NoisyCounts[SafeTabHRelease, Batch]):
    """How a SafeTab-H release is charged, drawn, checked and published."""

    mechanism = MECHANISM_H
    version = VERSION
    stages = (PARAMETERS, GROUPS, COUNTS, CHARGE, MEASUREMENTS, TABLES)
    publishes_also_from = (PARAMETERS, GROUPS)
    charge_follows = (PARAMETERS, GROUPS, COUNTS)
    draw_follows = (GROUPS, COUNTS)
    drawn_columns = COLUMNS
    charge_columns = CHARGE_COLUMNS

    @property
    def reads_publications_of(self) -> Sequence[Release]:
        return [self.release.detail]

    def own_assets(self) -> Sequence[dg.AssetsDefinition]:
        release = self.release
        return [
            build_parameters(release),
            build_groups(release),
            build_counts(
                self,
                [release.dataset_key("cef"), release.key(GROUPS)],
                "The exact counts of households of every group by type and tenure. Cells without households are left "
                "out.",
                COUNT_COLUMNS,
                reads=[Zone.PUBLIC],
            ),
            build_household_tables(release, column_descriptions(household_products(release))),
        ]

    @property
    def counts_table(self) -> Table:
        return self.release.confidential(COUNTS)

    def counts_recipe(self, session: Session) -> Recipe:
        return recipe_of_counts(session, self.release, self.release.public(GROUPS))

    def counts_version(self, session: Session, custody: Custody) -> str:
        return session.sorted_version(self.counts_table, self.version_key(custody))

    def require_countable(self, session: Session, custody: Custody) -> None:
        require_countable(session, self.release)
        require_households_in_groups(session, self.counts_table, self.release.pairs)

    def distributions(self) -> Mapping[str, Uncapped]:
        return {each.label: each.noise for each in self.release.design.measured}

    def exact(self, session: Session) -> Iterator[Batch]:
        return exact_batches(session, self.release)

    def stored(self, session: Session) -> Iterator[Batch]:
        return stored_batches(session, self.release)

    def store(self, session: Session, batches: Iterator[Batch]) -> None:
        write_measurements(session, self.release, batches)

    def perturbed(self, session: Session, key: bytes) -> Iterator[Batch]:
        for batch in super().perturbed(session, key):
            yield batch if self.release.design.negative_counts else replace(batch, values=np.maximum(batch.values, 0))

    def unlikely(self, pairs: Iterable[tuple[Batch, Batch]]) -> list[str]:
        """Clipped numbers say less about their noise, so that only cells far above 0 are tested then."""
        distributions = self.distributions()
        return super().unlikely(
            pairs
            if self.release.design.negative_counts
            else (_far_above_zero(exact, noisy, farthest(distributions[exact.query])) for exact, noisy in pairs)
        )

    def further_gates(self) -> Sequence[Gate[SafeTabHRelease]]:
        return household_gates(self.release)

    def columns_read(self) -> Collection[str]:
        return columns_of(self.release)

    def counted_with(self) -> Mapping[str, Any]:
        return self.release.counted_with

    def parameters(self) -> Mapping[str, Any]:
        return {**self.release.counted_with, **self.release.design.as_record()}

    def charged_tables(self) -> Mapping[str, Sequence[Table]]:
        return {**super().charged_tables(), GROUPS: [self.release.public(GROUPS)]}

    def inputs(self, session: Session, custody: Custody) -> Inputs:
        groups = session.content_version([self.release.public(GROUPS)], self.version_key(custody))
        return Inputs({**super().inputs(session, custody).versions, GROUPS: groups})

    def specification(self, inputs: Inputs) -> Specification:
        return self.release.design.specification(self.release.dataset.name)

    def charge_facts(self, inputs: Inputs) -> dict[str, str | int | float]:
        return facts_of(self.release)

    def charge_description(self) -> str:
        design = self.release.design
        return f"""All region types, levels and tables are charged together, with a line for each. Budgets are declared
for one household added or removed. The charge is the loss for one household's record changed: twice the sum of the
lines' {design.noise.symbol}. The groups and their detail are read from the publication of {self.release.detail.name},
and cost nothing here."""

    def draw_description(self) -> str:
        return """For every published group, the exact count of every measured cell of its table of household types and
of its table of tenures, plus independent noise; empty cells and groups without households too."""

    def tables(self) -> Sequence[PublishedTable]:
        return household_products(self.release)

    def statement(self, draw: Draw[Inputs], output_version: str) -> Statement:
        return household_statement(self.release, draw.inputs, output_version)


def _far_above_zero(exact: Batch, noisy: Batch, least: int) -> tuple[Batch, Batch]:
    chosen = exact.values >= least
    return replace(exact, values=exact.values[chosen]), replace(noisy, values=noisy.values[chosen])
