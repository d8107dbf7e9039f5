"""What the finished tables and measurement files of a PHSafe release gate.

Here belongs the evaluation of a promise, on the tables as they are at that moment.
"""

from assets.gates.shared import differing_table, said
from assets.phsafe.estimates import estimates
from assets.phsafe.measurements import MEASUREMENTS, in_order
from assets.phsafe.parameters import parameter_tables
from assets.phsafe.release import PHSafeRelease
from assets.phsafe.tables import ESTIMATES, finished_table, measured_files, measured_table, statements
from assets.release.method import Gate, ReleaseContext
from mechanisms.phsafe.runs import DERIVED
from resources.statements import Zone
from resources.warehouse import Recipe

Context = ReleaseContext[PHSafeRelease]


def finished_gates() -> list[Gate[PHSafeRelease]]:
    """What post-processing keeps."""
    return [
        Gate(
            "estimates_of_the_measurements",
            "postprocessed",
            "The estimates are those of the measurements as they are.",
            _estimates,
        ),
        Gate(
            "intervals_in_order",
            "postprocessed",
            "Every estimate is 0 or more and finite, and lies in its interval.",
            _intervals,
        ),
        Gate("parameters_as_declared", "parameters", "The parameters published are the declared ones.", _parameters),
        Gate("tables_of_the_estimates", "tables", "Every table is what estimates and measurements say.", _tables),
        Gate("derived_files", "tables", "PH5_num is PH4, and PH8_num the sums of PH7's cells.", _derived),
        Gate(
            "finished_tables_plausible",
            "tables",
            "No finished table holds a negative number, and every estimate lies in its interval.",
            _plausible,
        ),
    ]


def _estimates(context: Context) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        made = estimates(release, in_order(session, release.public(MEASUREMENTS)))
        again: Recipe = ("warehouse/all", {}, {"source": session.register("made", made)})
        return differing_table(session, release.public(ESTIMATES), again)


def _intervals(context: Context) -> list[str]:
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        (rows,) = session.row("phsafe/out_of_order", table=context.release.public(ESTIMATES))
    return said(int(rows), "estimates that are negative, not finite or outside their interval")


def _parameters(context: Context) -> list[str]:
    problems = []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for table, declared in parameter_tables(context.release).items():
            again: Recipe = ("warehouse/all", {}, {"source": session.register("declared", declared)})
            problems += differing_table(session, table, again)
    return problems


def _tables(context: Context) -> list[str]:
    problems = []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for table, made in statements(session, context.release).items():
            problems += differing_table(session, table, made)
    return problems


def _derived(context: Context) -> list[str]:
    release, problems = context.release, []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for derived in DERIVED:
            if derived.name not in measured_files(release.design):
                continue
            pairs = [(cell, part) for cell, parts in derived.cells.items() for part in parts]
            (cells,) = session.row(
                "phsafe/differing_sums",
                {"cells": [cell for cell, _ in pairs], "parts": [part for _, part in pairs]},
                derived=measured_table(release, derived.name),
                derived_cell=f"{derived.name.upper()}_DATA_CELL",
                source=measured_table(release, derived.source),
                source_cell=f"{derived.source.upper()}_DATA_CELL",
            )
            problems += said(int(cells), f"cells of {derived.name} that are not the sums of {derived.source}'s")
    return problems


def _plausible(context: Context) -> list[str]:
    problems = []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for name in context.release.products:
            (rows,) = session.row("phsafe/out_of_order", table=finished_table(context.release, name))
            problems += said(int(rows), f"{name}: cells that are negative or outside their interval")
    return problems
