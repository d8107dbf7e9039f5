"""A hypercube as a method: its hooks for charge, draw, gates and publication."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.gates.shared import count_problem
from assets.measurement.grid import GridCounts, Query
from assets.measurement.method import COUNTS, MEASUREMENTS, Batch, build_counts, plan_gate
from assets.measurement.parts import PartCounts
from assets.planning.lines import budgets_for_margins
from assets.release.contents import find_content_problems, read_cef_version
from assets.release.dataset import CEF
from assets.release.draw import Draw, Inputs, StaleInputError
from assets.release.gate import Gate, ReleaseContext, session_gate
from assets.release.method import CHARGE, PLAN, Fact, release_hook, session_hook, statement_hook
from assets.release.stage import Recipes
from assets.table_builder.asking import as_parts
from assets.table_builder.cells import (
    added_recipe,
    categories,
    counts_recipe,
    list_cells,
    part_recipe,
    perturbed_cells,
    query_of,
    table_name,
    unlikely_results,
)
from assets.table_builder.plan import hypercube_plan, planned_lines
from assets.table_builder.release import HYPERCUBE, HypercubeInputs, HypercubeRelease
from assets.table_builder.statement import PROSE, RECORDS, describe_charge, hypercube_statement
from assets.table_builder.tables import (
    FIGURES,
    column_descriptions,
    planned_tables,
    published_tables,
    shown_first,
    table_recipes,
)
from assets.tabulation.asset import TABLES, build_tables, tables_gate
from mechanisms.table_builder.hypercube import (
    MECHANISM,
    VERSION,
    Consistency,
    Margins,
)
from resources.custody import Custody
from resources.warehouse import Recipe, Session

Context = ReleaseContext[HypercubeRelease]


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
    keeps_verdicts = True
    stages = (PLAN, COUNTS, CHARGE, MEASUREMENTS, TABLES)
    publishes_also_from = (PLAN,)
    drawn_columns = CELL_COLUMNS
    described: ClassVar[Mapping[str, str]] = {"counts": "counts", "tables": "tables"}
    """By stage, the heading of the text for its page."""
    build_grid = release_hook(list_cells)
    counts_recipe = session_hook(counts_recipe)
    recipes_of_parts: ClassVar[
        tuple[Callable[[Session, Any], Recipe], Callable[[Session, Any, Mapping[str, Any]], Recipe]]
    ] = (part_recipe, added_recipe)
    plan = release_hook(hypercube_plan)
    plan_tables = release_hook(planned_tables)
    tables = release_hook(published_tables)
    column_descriptions = release_hook(column_descriptions)
    shown_first = session_hook(shown_first)
    charge_description = release_hook(describe_charge)
    statement = statement_hook(hypercube_statement)

    @property
    def part_counts(self) -> PartCounts[Any] | None:
        """None for withheld records, which are not made in partitions."""
        return None if self.release.withheld else PartCounts.of(self.release, COUNTS, *self.recipes_of_parts)

    def fields_for_margins(self, margins: Mapping[str, Fraction]) -> Mapping[str, Any]:
        design = self.release.design
        if design.p_table is not None:
            raise ValueError("margins: the noise is that of the p-table, so change p_table")
        lines = planned_lines(self.release)
        budgets = budgets_for_margins(lines, margins, design.largest_of_table, as_shares=True)
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
            build_counts(self, [CEF, *withheld], PROSE(self.described["counts"]), CELL_COLUMNS),
            build_tables(
                release,
                [MEASUREMENTS],
                PROSE(self.described["tables"]),
                self.table_recipes,
                self.column_descriptions(),
                self.shown_first,
            ),
        ]

    def table_recipes(self, session: Session) -> Recipes:
        return table_recipes(session, self)

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
        release, suppressed = self.release, bool(self.release.cube.suppress_below)
        gates = [
            plan_gate(self, "plan_as_declared", "The stored plan is the one that follows from the declaration."),
            session_gate("cells_complete", TABLES, _check_cells),
        ]
        gates += self.withheld_gates()
        if suppressed:
            gates.append(session_gate("small_estimates_absent", TABLES, _check_small_estimates))
        if release.design.margins is Margins.FITTED and not suppressed:
            gates.append(session_gate("margins_agree", TABLES, _check_margins))
        return [*gates, tables_gate(self.table_recipes)]

    def withheld_gates(self) -> Sequence[Gate[HypercubeRelease]]:
        if (withheld := self.release.withheld) is None:
            return []
        words = f"The records that are counted are those that {withheld.name} made from the current CEF."
        return [Gate("withheld_as_made", COUNTS, words, withheld.problems)]

    def inputs(self, session: Session, custody: Custody) -> HypercubeInputs:
        """With cell consistency the noise depends on the records themselves, not only on their counts."""
        release, versions = self.release, dict(super().inputs(session, custody).versions)
        if release.design.consistency is Consistency.CELL:
            versions[RECORDS] = read_cef_version(session, custody, release.dataset)
        return HypercubeInputs(versions, release.withheld.own_loss(session, custody) if release.withheld else None)

    def require_counted(self, session: Session, draw: Draw[Inputs], custody: Custody) -> None:
        """With cell consistency, also refuse stored records that differ from the records read from the source."""
        super().require_counted(session, draw, custody)
        if RECORDS in draw.inputs.versions and (
            problems := find_content_problems(session, custody, self.release.dataset)
        ):
            raise StaleInputError(problems[0])

    def charge_facts(self, inputs: Inputs) -> dict[str, Fact]:
        design, bounded = self.release.design, self.release.specification.charge
        return {
            "unbounded": (str(design.unbounded), "Loss for one record added or removed, exact"),
            "bounded": (str(bounded), "Loss for one record changed, exact; this is charged"),
            "measured_tables": (len(design.tables), "Number of measured tables"),
        }

    def draw_description(self) -> str:
        return PROSE("draw")


def _read(session: Session, context: Context, name: str = HYPERCUBE) -> pa.Table:
    return session.arrow("warehouse/all", source=context.release.public(name))


def _check_cells(session: Session, context: Context) -> list[str]:
    """Every cell of every measured table is published once, and no structural zero is published."""
    release, rows, problems = context.release, _read(session, context), []
    for table in release.design.tables:
        name = table_name(table)
        cells = rows.filter(pc.equal(rows["table_name"], name))["cell"].to_numpy()
        wrong = np.setxor1d(cells, release.possible_in(table)).size + len(cells) - len(np.unique(cells))
        problems += count_problem(int(wrong), f"{name}: cells that are missing, superfluous or there twice")
    declared = pa.array([table_name(table) for table in release.design.tables])
    others = len(rows) - (pc.sum(pc.is_in(rows["table_name"], declared)).as_py() or 0)
    return problems + count_problem(others, "rows of tables that are not measured")


def _check_small_estimates(session: Session, context: Context) -> list[str]:
    """No figure is published for an estimate below the threshold."""
    cube, problems = context.release.cube, []
    for name in (HYPERCUBE, *(f"product_{product.name}" for product in cube.products)):
        rows = _read(session, context, name)
        small = pc.less(rows["estimate"].cast(pa.float64()), float(cube.suppress_below))
        shown = sum(
            pc.sum(pc.and_(rows["suppressed"], pc.is_valid(rows[column]))).as_py() or 0
            for column in FIGURES
            if column in rows.column_names
        )
        problems += count_problem((pc.sum(small).as_py() or 0) + shown, f"{name}: figures below the threshold")
    return problems


def _check_margins(session: Session, context: Context) -> list[str]:
    """Every published margin is exactly the sum of its inner cells."""
    design, rows, published, problems = context.release.design, _read(session, context), {}, []
    for table in design.tables:
        part = rows.filter(pc.equal(rows["table_name"], table_name(table)))
        cells = np.zeros(design.cells(table), dtype=np.int64)
        cells[part["cell"].to_numpy()] = as_parts(part["estimate"])
        published[table] = cells.reshape(design.shape(table))
    for table in design.tables:
        wrong = np.count_nonzero(design.margin(published[design.inner], table) != published[table])
        problems += count_problem(int(wrong), f"{table_name(table)}: cells that are not the sum of their inner cells")
    return problems
