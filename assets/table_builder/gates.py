"""The gates that a hypercube has besides those of all noisy counts."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.gates.shared import count_problem
from assets.measurement.method import COUNTS
from assets.release.gate import Gate, ReleaseContext, session_gate
from assets.table_builder.asking import as_parts
from assets.table_builder.cells import table_name
from assets.table_builder.release import HYPERCUBE, HypercubeRelease
from assets.table_builder.tables import FIGURES
from assets.tabulation.asset import TABLES
from mechanisms.table_builder.hypercube import Margins
from resources.warehouse import Session

Context = ReleaseContext[HypercubeRelease]


def hypercube_gates(release: HypercubeRelease) -> Sequence[Gate[HypercubeRelease]]:
    gates = [session_gate("cells_complete", TABLES, _check_cells)]
    if withheld := release.withheld:
        words = f"The records that are counted are those that {withheld.name} made of the current CEF."
        gates.append(Gate("withheld_as_made", COUNTS, words, withheld.problems))
    if release.cube.suppress_below:
        gates.append(session_gate("small_estimates_absent", TABLES, _check_small_estimates))
    if release.design.margins is Margins.FITTED and not release.cube.suppress_below:
        gates.append(session_gate("margins_agree", TABLES, _check_margins))
    return gates


def _read(session: Session, context: Context, name: str = HYPERCUBE) -> pa.Table:
    return session.arrow("warehouse/all", source=context.release.public(name))


def _check_cells(session: Session, context: Context) -> list[str]:
    """Every cell of every measured table is published once, and no structural zero is."""
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
