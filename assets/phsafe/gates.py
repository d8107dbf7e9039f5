"""The gates that PHSafe adds to those of all releases and of noisy counts."""

from assets.gates.shared import count_problem, differing_table
from assets.measurement.grid import GridCounts
from assets.measurement.method import GridError
from assets.phsafe.estimates import estimates
from assets.phsafe.join import JOINED, join_recipe
from assets.phsafe.plan import parameter_tables
from assets.phsafe.release import PHSafeRelease
from assets.phsafe.tables import ESTIMATES, finished_table, measured_files, measured_table, table_recipes
from assets.release.gate import Gate, ReleaseContext
from assets.release.method import PLAN
from assets.tabulation.asset import tables_gate
from mechanisms.phsafe.runs import DERIVED
from resources.statements import Zone
from resources.warehouse import Recipe

Context = ReleaseContext[PHSafeRelease]


def counting_gates() -> list[Gate[PHSafeRelease]]:
    return [Gate("join_of_the_cef", JOINED, "The stored truncated join is that of the current CEF.", _join)]


def finished_gates(method: GridCounts[PHSafeRelease]) -> list[Gate[PHSafeRelease]]:
    def estimated(context: Context) -> list[str]:
        return _estimates(context, method)

    return [
        Gate("parameters_as_declared", PLAN, "The published parameters are the declared ones.", _parameters),
        Gate(
            "estimates_of_the_measurements",
            "postprocessed",
            "The stored estimates are those of the current measurements.",
            estimated,
        ),
        Gate(
            "intervals_in_order",
            "postprocessed",
            "Every estimate is nonnegative and finite, and lies in its interval.",
            _intervals,
        ),
        tables_gate(lambda session: table_recipes(session, method.release)),
        Gate("derived_files", "tables", "PH5_num equals PH4, and PH8_num the sums of cells of PH7.", _derived),
        Gate(
            "finished_tables_plausible",
            "tables",
            "No finished table contains a negative number, and every estimate lies in its interval.",
            _plausible,
        ),
    ]


def _join(context: Context) -> list[str]:
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        design = context.release.design
        recipe = join_recipe(session, context.release.dataset, design.states, design.thresholds)
        return differing_table(session, context.release.confidential(JOINED), recipe)


def _estimates(context: Context, method: GridCounts[PHSafeRelease]) -> list[str]:
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        try:
            made = estimates(method, session)
        except GridError as error:
            return [str(error)]
        again: Recipe = ("warehouse/all", {}, {"source": session.register("made", made)})
        return differing_table(session, context.release.public(ESTIMATES), again)


def _intervals(context: Context) -> list[str]:
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        (rows,) = session.row("phsafe/out_of_order", table=context.release.public(ESTIMATES))
    return count_problem(int(rows), "estimates that are negative, not finite or outside their interval")


def _parameters(context: Context) -> list[str]:
    problems = []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for table, declared in parameter_tables(context.release).items():
            again: Recipe = ("warehouse/all", {}, {"source": session.register("declared", declared)})
            problems += differing_table(session, table, again)
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
            problems += count_problem(
                int(cells), f"cells of {derived.name} that are not sums of cells of {derived.source}"
            )
    return problems


def _plausible(context: Context) -> list[str]:
    problems = []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for name in context.release.products:
            (rows,) = session.row("phsafe/out_of_order", table=finished_table(context.release, name))
            problems += count_problem(int(rows), f"{name}: cells that are negative or outside their interval")
    return problems
