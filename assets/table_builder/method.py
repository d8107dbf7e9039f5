"""A hypercube as a method: how it fills in the hooks of charge, draw, gates and publication."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.measurement.grid import GridCounts, Query
from assets.measurement.method import COUNTS, MEASUREMENTS, Batch, build_counts
from assets.release.contents import read_cef_version
from assets.release.dataset import CEF
from assets.release.draw import Draw, Inputs
from assets.release.gate import Gate
from assets.release.method import CHARGE, PLAN, Fact, release_hook, session_hook
from assets.release.statement import Statement
from assets.table_builder.counting import categories, counts_recipe, list_cells, table_name
from assets.table_builder.gates import hypercube_gates
from assets.table_builder.perturbation import noise_of, perturbed_cells, unlikely_results
from assets.table_builder.plan import budgets_for, hypercube_plan, planned_tables
from assets.table_builder.published import column_descriptions, published_tables
from assets.table_builder.release import HypercubeRelease
from assets.table_builder.statement import RECORDS, hypercube_statement
from assets.table_builder.tables import shown_first, table_recipes
from assets.tabulation.asset import TABLES, build_tables, tables_gate
from mechanisms.accounting.losses import format_loss
from mechanisms.accounting.specification import PERSON_RECORD, RECORDS_OF_OTHERS, Specification
from mechanisms.table_builder.hypercube import MECHANISM, VERSION, Consistency, Margins
from resources.custody import Custody
from resources.warehouse import Recipe, Session


@dataclass(frozen=True)
class HypercubeInputs(Inputs):
    """The inputs of a hypercube's draw.

    Attributes:
        withheld: the specification that the tables have besides, if they are counted from withheld records.
    """

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

    def fields_for_margins(self, margins: Mapping[str, Fraction]) -> Mapping[str, Any]:
        budgets = budgets_for(self.release, margins)
        total = sum(budgets.values(), Fraction())
        fields = dict(self.scale_budgets(total / self.release.design.budget))
        if self.release.declaration.hypercube.margins is not Margins.SUMMED:
            fields["shares"] = [{"by": list(table), "share": budget / total} for table, budget in budgets.items()]
        return fields

    def scale_budgets(self, factor: Fraction) -> Mapping[str, Any]:
        symbol = "epsilon" if self.release.declaration.hypercube.rho is None else "rho"
        return {symbol: factor * self.release.design.budget}

    def own_assets(self) -> Sequence[dg.AssetsDefinition]:
        release = self.release
        return [
            build_counts(
                self,
                [CEF, *([release.withheld.asset] if release.withheld else [])],
                "The exact cells of every measured table of the hypercube, zeros included. Which cells there are "
                "follows from the declaration alone.",
                CELL_COLUMNS,
            ),
            build_tables(
                release,
                [MEASUREMENTS],
                "The hypercube as it is published, and the declared tables that are built from it. Each number has its "
                "standard error and a 90% interval.",
                self._table_recipes,
                column_descriptions(release),
                lambda session: shown_first(session, release),
            ),
        ]

    def _table_recipes(self, session: Session) -> Mapping[Any, Recipe]:
        return table_recipes(session, self)

    def queries(self) -> Sequence[Query]:
        design = self.release.design
        return [
            Query(table_name(table), noise_of(design, table), self.release.cells_of(table)) for table in design.tables
        ]

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
        return [*hypercube_gates(self.release), tables_gate(self._table_recipes)]

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

    def charge_description(self) -> str:
        design, unit = self.release.design, self.release.unit
        unbounded, bounded, charge = map(
            format_loss, (design.unbounded, design.bounded, self.release.specification.charge)
        )
        if self.release.withheld:
            return f"""The budget of {unbounded} is declared for one record added or removed; a changed
record costs {bounded}. The hypercube is counted from the withheld records of
{self.release.withheld.name}, of which two change if both holding and swap values of one {unit} change. So the charge is
{charge}. The tables have the loss of the swap besides, where its margins are held
fixed; the certificate states both."""
        others = f" {RECORDS_OF_OTHERS[:1].upper()}{RECORDS_OF_OTHERS[1:]}." if unit == PERSON_RECORD else ""
        return f"""The budget of {unbounded} is declared for one {unit} added or removed. The charge is
the loss for one {unit} changed, {bounded}: a change takes a record out of one cell of every measured
table and puts it into another. There is a line for each of the {len(design.tables)} measured tables. Only the draw
id depends on the data, through a keyed version of the exact cells.{others}"""

    def draw_description(self) -> str:
        return """Every exact cell of every measured table plus independent noise of the table's distribution, empty
cells too. Noisy cells may be negative. A hypercube is drawn once: whoever asks the same of it gets the same answer."""

    def statement(self, draw: Draw[Inputs], output_version: str) -> Statement:
        inputs = draw.inputs
        swap = inputs.withheld if isinstance(inputs, HypercubeInputs) else None
        return hypercube_statement(self.release, inputs, output_version, swap)
