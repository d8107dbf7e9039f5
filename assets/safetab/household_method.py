"""SafeTab-H as a method: how it fills in the hooks of charge, draw, gates and publication.

Which cells there are follows from the published groups alone. They are measured line by line, household types before
tenures, group by group.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa

from assets.gates.shared import count_problem
from assets.measurement.batches import Batch
from assets.measurement.method import MEASUREMENTS, GridError, build_counts, parameters_gate
from assets.release.dataset import CEF
from assets.release.draw import Draw, Inputs
from assets.release.gate import Gate, ReleaseContext
from assets.release.method import CHARGE, PLAN, release_hook
from assets.release.release import Release
from assets.release.statement import Statement
from assets.safetab.counting import COUNT_COLUMNS, require_households_in_groups
from assets.safetab.gates import find_farthest
from assets.safetab.groups import build_groups, groups_gate
from assets.safetab.measurements import COLUMNS_OF_GROUPS
from assets.safetab.method import SafeTabMethod
from assets.safetab.published import column_descriptions, household_products
from assets.safetab.release import COUNTS, GROUPS, SafeTabHRelease
from assets.safetab.statement import household_statement
from assets.safetab.tables import build_household_tables, household_table_recipes, measured_tables, name_product
from assets.tabulation.asset import TABLES, tables_gate
from mechanisms.safetab.design import MECHANISM_H, MeasuredTable
from mechanisms.safetab.details import HOUSEHOLD_CELLS, HOUSEHOLD_TABLES
from mechanisms.sampling.quantiles import Uncapped
from resources.custody import Custody
from resources.statements import Table, Zone
from resources.warehouse import Session

COLUMNS = {
    **COLUMNS_OF_GROUPS,
    "table_name": "Table, T03001 to T04002",
    "data_cell": "Measured cell of the table",
    "count": "Noisy count",
}


class SafeTabHMethod(SafeTabMethod[SafeTabHRelease, Batch]):
    mechanism = MECHANISM_H
    stages = (PLAN, GROUPS, COUNTS, CHARGE, MEASUREMENTS, TABLES)
    publishes_also_from = (PLAN, GROUPS)
    draw_follows = (GROUPS, COUNTS)
    drawn_columns = COLUMNS
    counted_in = GROUPS
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

    def exact(self, session: Session) -> Iterator[Batch]:
        finest = np.eye(HOUSEHOLD_CELLS, dtype=np.int64)
        for line in self.release.design.measured:
            parts = [
                {"detail": table.detail, "place": place, "finest": cell}
                for table in HOUSEHOLD_TABLES[line.family]
                for cell, place in zip(*np.nonzero(table.fold(finest)), strict=True)
            ]
            counts = session.arrow(
                "safetab/households_exact",
                line.region_and_level,
                parts=session.register("parts", pa.Table.from_pylist(parts)),
                counts=self.counts_table,
                **self._identify_cells(session, line),
            )
            yield Batch(line.label, counts["count"].to_numpy())

    def stored(self, session: Session) -> Iterator[Batch]:
        table, schema, total = self.release.public(MEASUREMENTS), self.release.schema, 0
        if list(session.columns(table)) != list(COLUMNS):
            raise GridError(f"{schema}: the columns are not {', '.join(COLUMNS)}")
        for line in self.release.design.measured:
            names = self._identify_cells(session, line)
            stored = session.arrow("safetab/households_stored", line.region_and_level, measurements=table, **names)
            order = stored["draw_order"].to_numpy()
            if stored["count"].null_count or not np.array_equal(order, np.arange(len(order))):
                raise GridError(f"{schema}: {line.label}: not every cell is measured exactly once")
            total += len(stored)
            yield Batch(line.label, stored["count"].to_numpy())
        if total != session.count(table):
            raise GridError(f"{schema}: measurements of other groups or cells than those declared")

    def store(self, session: Session, batches: Iterator[Batch]) -> None:
        table = self.release.public(MEASUREMENTS)
        session.create(table, "safetab/no_measurements", households=True)
        for line, batch in zip(self.release.design.measured, batches, strict=True):
            rows = pa.table({"draw_order": np.arange(len(batch.values)), "count": batch.values})
            names = self._identify_cells(session, line) | {"table": table, "rows": session.register("rows", rows)}
            session.run("safetab/households_append", line.region_and_level, **names)

    def _identify_cells(self, session: Session, line: MeasuredTable) -> dict[str, Any]:
        """Identifiers of `safetab/household_cells`: the groups, and the measured cells of each detail."""
        cells = [
            {"detail": table.detail, "table_name": table.name, "place": place, "data_cell": data_cell}
            for table in HOUSEHOLD_TABLES[line.family]
            for place, data_cell in enumerate(table.basis)
        ]
        registered = session.register("cells", pa.Table.from_pylist(cells))
        return {"groups": self.groups, "cells": registered, "family": line.family.lower()}

    def perturb(self, session: Session, key: bytes) -> Iterator[Batch]:
        for batch in super().perturb(session, key):
            yield batch if self.release.design.negative_counts else replace(batch, values=np.maximum(batch.values, 0))

    def unlikely(self, pairs: Iterable[tuple[Batch, Batch]]) -> list[str]:
        """Clipped numbers say less about their noise, so that only cells far above 0 are tested then."""
        if self.release.design.negative_counts:
            return super().unlikely(pairs)
        farthest = {query: find_farthest(noise) for query, noise in self.distributions().items()}

        def far_above_zero() -> Iterator[tuple[Batch, Batch]]:
            for exact, noisy in pairs:
                far = exact.values >= farthest[exact.query]
                yield replace(exact, values=exact.values[far]), replace(noisy, values=noisy.values[far])

        return super().unlikely(far_above_zero())

    def further_gates(self) -> Sequence[Gate[SafeTabHRelease]]:
        release = self.release
        return [
            parameters_gate(),
            groups_gate(),
            tables_gate(lambda session: household_table_recipes(session, release)),
            Gate("groups_complete", TABLES, "Every group is in exactly one table of each family.", _find_incomplete),
        ]

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


def _find_incomplete(context: ReleaseContext[SafeTabHRelease]) -> list[str]:
    release, problems = context.release, []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for family, tables in measured_tables(release).items():
            measured = [line.region_and_level for line in release.design.measured if line.family == family]
            (groups,) = session.row(
                "safetab/groups_not_once",
                measured=session.register(f"measured_{family}", pa.Table.from_pylist(measured)),
                groups=release.public(GROUPS),
                tables=[release.public(name_product(table)) for table in tables],
            )
            problems += count_problem(int(groups), f"{family}: groups that are not in exactly one table")
    return problems
