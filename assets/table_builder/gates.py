"""The gates that a hypercube has besides those of all noisy counts."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.gates.shared import count_problem, differing_table
from assets.measurement.method import COUNTS
from assets.release.gate import Gate, ReleaseContext
from assets.release.method import PLAN
from assets.release.stage import store_rows
from assets.table_builder.asking import as_parts
from assets.table_builder.cells import table_name
from assets.table_builder.release import HYPERCUBE, HypercubeRelease
from assets.table_builder.tables import FIGURES, planned_tables
from assets.tabulation.asset import TABLES
from mechanisms.table_builder.hypercube import Margins
from resources.statements import Zone

Context = ReleaseContext[HypercubeRelease]


def hypercube_gates(release: HypercubeRelease) -> Sequence[Gate[HypercubeRelease]]:
    words = "Every cell of every measured table is published once, and no structural zero is."
    gates = [
        Gate("plan_as_declared", PLAN, "The stored plan is the one that follows from the declaration.", _planned),
        Gate("cells_complete", TABLES, words, _complete),
    ]
    if withheld := release.withheld:
        words = f"The records that are counted are those that {withheld.name} made of the current CEF."
        gates.append(Gate("withheld_as_made", COUNTS, words, withheld.problems))
    if release.cube.suppress_below:
        words = "No figure is published for an estimate below the threshold."
        gates.append(Gate("small_estimates_absent", TABLES, words, _small))
    if release.design.margins is Margins.FITTED and not release.cube.suppress_below:
        words = "Every published margin is exactly the sum of its inner cells."
        gates.append(Gate("margins_agree", TABLES, words, _agree))
    return gates


def _planned(context: Context) -> list[str]:
    problems = []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for table, rows in planned_tables(context.release).items():
            problems += differing_table(session, table, store_rows(session, table.name, rows))
    return problems


def _read(context: Context, name: str) -> pa.Table:
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        return session.arrow("warehouse/all", source=context.release.public(name))


def _complete(context: Context) -> list[str]:
    release, rows, problems = context.release, _read(context, HYPERCUBE), []
    for table in release.design.tables:
        name = table_name(table)
        cells = rows.filter(pc.equal(rows["table_name"], name))["cell"].to_numpy()
        wrong = np.setxor1d(cells, release.possible_in(table)).size + len(cells) - len(np.unique(cells))
        problems += count_problem(int(wrong), f"{name}: cells that are missing, superfluous or there twice")
    declared = pa.array([table_name(table) for table in release.design.tables])
    others = len(rows) - (pc.sum(pc.is_in(rows["table_name"], declared)).as_py() or 0)
    return problems + count_problem(others, "rows of tables that are not measured")


def _small(context: Context) -> list[str]:
    cube, problems = context.release.cube, []
    for name in (HYPERCUBE, *(f"product_{product.name}" for product in cube.products)):
        rows = _read(context, name)
        small = pc.less(rows["estimate"].cast(pa.float64()), float(cube.suppress_below))
        shown = sum(
            pc.sum(pc.and_(rows["suppressed"], pc.is_valid(rows[column]))).as_py() or 0
            for column in FIGURES
            if column in rows.column_names
        )
        problems += count_problem((pc.sum(small).as_py() or 0) + shown, f"{name}: figures below the threshold")
    return problems


def _agree(context: Context) -> list[str]:
    design, rows, published, problems = context.release.design, _read(context, HYPERCUBE), {}, []
    for table in design.tables:
        part = rows.filter(pc.equal(rows["table_name"], table_name(table)))
        cells = np.zeros(design.cells(table), dtype=np.int64)
        cells[part["cell"].to_numpy()] = as_parts(part["estimate"])
        published[table] = cells.reshape(design.shape(table))
    for table in design.tables:
        wrong = np.count_nonzero(design.margin(published[design.inner], table) != published[table])
        problems += count_problem(int(wrong), f"{table_name(table)}: cells that are not the sum of their inner cells")
    return problems
