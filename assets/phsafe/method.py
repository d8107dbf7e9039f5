"""PHSafe as a method: its hooks for charge, draw, gates and publication."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.gates.shared import count_problem, differing_table
from assets.measurement.grid import GridCounts, Query
from assets.measurement.method import COUNTS, MEASUREMENTS, GridError, budget_facts, build_counts, plan_gate
from assets.measurement.parts import PartCounts
from assets.phsafe.counts import (
    JOINED,
    added_recipe,
    build_truncated_join,
    counts_recipe,
    join_recipe,
    list_cells,
)
from assets.phsafe.plan import parameter_tables, phsafe_plan, runs_with_budgets
from assets.phsafe.published import published_tables
from assets.phsafe.release import PHSafeRelease
from assets.phsafe.statement import phsafe_statement
from assets.phsafe.tables import (
    ESTIMATES,
    build_exact_measurements,
    build_finished,
    build_postprocessed,
    estimate_tables,
    finished_table,
    list_measured_files,
    measured_table,
    table_recipes,
)
from assets.release.draw import Inputs
from assets.release.gate import Gate, ReleaseContext, session_gate
from assets.release.method import CHARGE, PLAN, Fact, release_hook, statement_hook
from assets.release.stage import store_rows
from assets.tabulation.asset import TABLES, recipes_gate, tables_gate
from mechanisms.noise import Noise
from mechanisms.phsafe.design import MECHANISM, VERSION
from mechanisms.phsafe.runs import FILES
from resources.custody import Custody
from resources.statements import Zone
from resources.warehouse import Recipe, Session

CELL_COLUMNS = {
    "draw_order": "Number of the cell in the order of the draw",
    "run": "The run",
    "level": "Population group level",
    "region_id": "1 for the nation, or the state's FIPS code",
    "region_type": "USA or STATE",
    "iteration_code": "Race and ethnicity iteration",
    "data_cell": "Basis cell of the run",
    "count": "Count",
    "noise_distribution": "Distribution of the noise",
    "variance": "The exact variance of the noise, to 18 decimals",
}


class PHSafeMethod(GridCounts[PHSafeRelease]):
    mechanism = MECHANISM
    version = VERSION
    keeps_verdicts = True
    stages = (PLAN, JOINED, COUNTS, CHARGE, MEASUREMENTS, "postprocessed", TABLES)
    publishes_also_from = (PLAN, "postprocessed")
    charge_follows = (PLAN, COUNTS)
    drawn_columns = CELL_COLUMNS
    plan = release_hook(phsafe_plan)
    plan_tables = release_hook(parameter_tables)
    tables = release_hook(published_tables)
    statement = statement_hook(phsafe_statement)

    def fields_for_margins(self, margins: Mapping[str, Fraction]) -> Mapping[str, Any]:
        return runs_with_budgets(self.release.design, margins)

    def scale_budgets(self, factor: Fraction) -> Mapping[str, Any]:
        return runs_with_budgets(self.release.design, {}, factor)

    @property
    def part_counts(self) -> PartCounts[PHSafeRelease] | None:
        return PartCounts.of(self.release, JOINED, join_recipe, added_recipe)

    def own_assets(self) -> Sequence[dg.AssetsDefinition]:
        release = self.release
        counted = (
            "The exact counts of every released region, iteration and basis cell, zeros included. The cells follow "
            "from the declaration alone."
        )
        before = [
            build_truncated_join(release, self.part_counts),
            build_counts(self, [JOINED], counted, CELL_COLUMNS, [Zone.PUBLIC]),
        ]
        if not self.release.declaration.charges:
            return [*before, build_exact_measurements(release)]
        return [*before, build_postprocessed(self), build_finished(release)]

    def queries(self) -> Sequence[Query]:
        """Every run at every level for which it is released, each with its own noise."""
        design, queries = self.release.design, []
        for released in design.released:
            cells = design.groups(released.level) * len(released.run.cells)
            queries.append(Query(released.label, design.noise_of(released.run, released.level), cells))
        return queries

    def build_grid(self) -> pa.Table:
        return list_cells(self.release.design)

    def counts_recipe(self, session: Session, /) -> Recipe:
        return counts_recipe(session, self.release.confidential(JOINED), self.grid)

    def require_countable(self, session: Session, custody: Custody) -> None:
        # Without this check, more persons of a unit could count than the noise covers.
        self.release.require_sealed(session, custody, JOINED, [self.release.confidential(JOINED)])

    def further_gates(self) -> Sequence[Gate[PHSafeRelease]]:
        release, parts = self.release, self.part_counts
        words, table = "The stored truncated join is that of the current CEF.", release.confidential(JOINED)
        joined = recipes_gate(
            "join_of_the_cef",
            JOINED,
            words,
            lambda session: {table: join_recipe(session, release)},
            [Zone.CONFIDENTIAL],
            parts.by_part() if parts else None,
        )
        if not release.declaration.charges:
            return [joined]
        return [
            joined,
            plan_gate(self),
            session_gate("estimates_of_the_measurements", "postprocessed", self._check_estimates),
            session_gate("intervals_in_order", "postprocessed", self._check_intervals),
            tables_gate(lambda session: table_recipes(session, release)),
            session_gate("derived_files", TABLES, self._check_derived_files),
            session_gate("finished_tables_plausible", TABLES, self._check_finished_tables),
        ]

    def _check_estimates(self, session: Session, context: ReleaseContext[PHSafeRelease]) -> list[str]:
        """The stored estimates are those of the current measurements."""
        try:
            again = store_rows(session, "made", estimate_tables(self, session))
        except GridError as error:
            return [str(error)]
        return differing_table(session, self.release.public(ESTIMATES), again)

    def _check_derived_files(self, session: Session, context: ReleaseContext[PHSafeRelease]) -> Iterator[str]:
        """PH5_num equals PH4, and PH8_num equals sums of cells of PH7."""
        for name in list_measured_files(self.release.design):
            file = FILES[name]
            if file.run == name:
                continue
            pairs = [(cell, part) for cell, parts in file.cells.items() for part in parts]
            (cells,) = session.row(
                "phsafe/differing_sums",
                {"cells": [cell for cell, _ in pairs], "parts": [part for _, part in pairs]},
                derived=measured_table(self.release, name),
                derived_cell=f"{name.upper()}_DATA_CELL",
                source=measured_table(self.release, file.run),
                source_cell=f"{file.run.upper()}_DATA_CELL",
            )
            yield from count_problem(int(cells), f"cells of {name} that are not sums of cells of {file.run}")

    def _check_intervals(self, session: Session, context: ReleaseContext[PHSafeRelease]) -> list[str]:
        """Every estimate is nonnegative and finite, and lies in its interval."""
        (rows,) = session.row("phsafe/out_of_order", table=self.release.public(ESTIMATES))
        return count_problem(int(rows), "estimates that are negative, not finite or outside their interval")

    def _check_finished_tables(self, session: Session, context: ReleaseContext[PHSafeRelease]) -> Iterator[str]:
        """No finished table contains a negative number, and every estimate lies in its interval."""
        for name in self.release.products:
            (rows,) = session.row("phsafe/out_of_order", table=finished_table(self.release, name))
            yield from count_problem(int(rows), f"{name}: cells that are negative or outside their interval")

    def charge_facts(self, inputs: Inputs) -> dict[str, Fact]:
        design, counted = self.release.design, "measured pairs of a run and a level"
        return budget_facts(design, len(design.released), "one person", "one person's record", counted)

    def charge_description(self) -> str:
        gaussian = self.release.design.noise is Noise.GAUSSIAN
        letter = self.release.design.bounded.symbol
        source = "Theorems 3 and 4 of Sexton et al." if gaussian else "group privacy of two"
        return f"""All runs are charged together, with a line for each run and level. Budgets are declared for one
person added or removed (unbounded neighbors). The charge is the loss for one person's record changed (bounded
neighbors), 2Σ{letter} over runs and levels ({source}). Only the draw id depends on the data, through a keyed version of
the exact counts."""

    def draw_description(self) -> str:
        design = self.release.design
        gaussian, laplace = "a discrete Gaussian of variance σ² = Δ² / 2ρ", "a discrete Laplace of scale Δ / ε"
        noise = gaussian if design.noise is Noise.GAUSSIAN else laplace
        return f"""Every exact count of {len(design.released)} pairs of a run and a level, plus independent noise:
{noise}, with the unbounded budget of its run and level. Noisy counts may be negative. The finished tables are computed
from them."""
