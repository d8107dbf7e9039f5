"""A hypercube as a method: how it fills in the hooks of charge, draw, gates and publication."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.measurement.grid import GridCounts, Query
from assets.measurement.method import COUNTS, MEASUREMENTS, Batch, build_counts, plan_gate
from assets.planning.lines import budgets_for_margins
from assets.release.contents import read_cef_version
from assets.release.dataset import CEF
from assets.release.draw import Draw, Inputs
from assets.release.gate import Gate
from assets.release.method import CHARGE, PLAN, Fact, release_hook, session_hook
from assets.release.statement import Statement
from assets.table_builder.cells import (
    categories,
    counts_recipe,
    list_cells,
    perturbed_cells,
    query_of,
    table_name,
    unlikely_results,
)
from assets.table_builder.gates import hypercube_gates
from assets.table_builder.plan import hypercube_plan, planned_lines
from assets.table_builder.release import HypercubeRelease
from assets.table_builder.statement import PROSE, RECORDS, describe_charge, hypercube_statement
from assets.table_builder.tables import (
    column_descriptions,
    planned_tables,
    published_tables,
    shown_first,
    table_recipes,
)
from assets.tabulation.asset import TABLES, build_tables, tables_gate
from mechanisms.accounting.specification import Specification
from mechanisms.table_builder.hypercube import LARGEST_RATE, MECHANISM, VERSION, Consistency, Margins, NoiseFamily
from resources.custody import Custody
from resources.warehouse import Session


@dataclass(frozen=True)
class HypercubeInputs(Inputs):
    """The inputs of a hypercube's draw, with the specification that tables of withheld records have besides."""

    withheld: Specification | None = None


CELL_COLUMNS = {
    "draw_order": "Number of the cell in the order of the draw",
    "table_name": "The measured table: its variables",
    "cell": "Number of the cell in its table",
    "count": "Count, or sum in steps of the grid",
    "noise_distribution": "Distribution of the noise",
    "variance": "The exact variance of the noise, to 18 decimals, in squared steps of the grid",
}


class TableBuilderMethod(GridCounts[HypercubeRelease]):
    mechanism = MECHANISM
    version = VERSION
    stages = (PLAN, COUNTS, CHARGE, MEASUREMENTS, TABLES)
    publishes_also_from = (PLAN,)
    drawn_columns = CELL_COLUMNS
    build_grid = release_hook(list_cells)
    counts_recipe = session_hook(counts_recipe)
    plan = release_hook(hypercube_plan)
    plan_tables = release_hook(planned_tables)
    tables = release_hook(published_tables)
    charge_description = release_hook(describe_charge)

    def fields_for_margins(self, margins: Mapping[str, Fraction]) -> Mapping[str, Any]:
        design = self.release.design
        if design.p_table is not None:
            raise ValueError("margins: the noise is that of the p-table, so change p_table")
        most = LARGEST_RATE * design.sensitivity ** (2 if design.noise is NoiseFamily.GAUSSIAN else 1)
        budgets = budgets_for_margins(planned_lines(self.release), margins, most, as_shares=True)
        total = sum(budgets.values(), Fraction())
        fields = dict(self.scale_budgets(total / design.budget))
        if design.margins is not Margins.SUMMED:
            shares = {table: budgets[table_name(table)] / total for table in design.tables}
            fields["shares"] = [{"by": list(table), "share": share} for table, share in shares.items()]
        return fields

    def scale_budgets(self, factor: Fraction) -> Mapping[str, Any]:
        symbol = "epsilon" if self.release.declaration.hypercube.rho is None else "rho"
        return {symbol: factor * self.release.design.budget}

    def own_assets(self) -> Sequence[dg.AssetsDefinition]:
        release = self.release
        withheld = [release.withheld.asset] if release.withheld else []
        return [
            build_counts(self, [CEF, *withheld], PROSE("counts"), CELL_COLUMNS),
            build_tables(
                release,
                [MEASUREMENTS],
                PROSE("tables"),
                lambda session: table_recipes(session, self),
                column_descriptions(release),
                lambda session: shown_first(session, release),
            ),
        ]

    def queries(self) -> Sequence[Query]:
        return [query_of(self.release, table) for table in self.release.design.tables]

    def perturb(self, session: Session, key: bytes) -> Iterator[Batch]:
        if self.release.design.p_table is None:
            yield from super().perturb(session, key)
        else:
            yield from perturbed_cells(session, self.release, self.exact(session), key)

    def unlikely(self, pairs: Iterable[tuple[Batch, Batch]]) -> list[str]:
        design = self.release.design
        return super().unlikely(pairs) if design.p_table is None else unlikely_results(design, pairs)

    def described_cells(self) -> Iterable[pa.Table]:
        return [pa.table({name: values}) for name, values in categories(self.release)]

    def require_countable(self, session: Session, custody: Custody) -> None:
        if self.release.withheld:
            self.release.withheld.require_current(session, custody)

    def further_gates(self) -> Sequence[Gate[HypercubeRelease]]:
        plan = plan_gate(self, "plan_as_declared", "The stored plan is the one that follows from the declaration.")
        return [plan, *hypercube_gates(self.release), tables_gate(lambda session: table_recipes(session, self))]

    def inputs(self, session: Session, custody: Custody) -> HypercubeInputs:
        """With cell consistency the noise follows from which records there are, and not from their counts alone."""
        release, versions = self.release, dict(super().inputs(session, custody).versions)
        if release.design.consistency is Consistency.CELL:
            versions[RECORDS] = read_cef_version(session, custody, release.dataset)
        return HypercubeInputs(versions, release.withheld.own_loss(session, custody) if release.withheld else None)

    def charge_facts(self, inputs: Inputs) -> dict[str, Fact]:
        design, bounded = self.release.design, self.release.specification.charge
        return {
            "unbounded": (str(design.unbounded), "Loss for one record added or removed, exact"),
            "bounded": (str(bounded), "Loss for one record changed, exact; this is charged"),
            "measured_tables": (len(design.tables), "Number of measured tables"),
        }

    def draw_description(self) -> str:
        return PROSE("draw")

    def statement(self, draw: Draw[Inputs], output_version: str) -> Statement:
        inputs = draw.inputs
        swap = inputs.withheld if isinstance(inputs, HypercubeInputs) else None
        return hypercube_statement(self.release, inputs, output_version, swap)
