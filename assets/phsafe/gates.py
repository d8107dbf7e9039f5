"""The gates that PHSafe adds to those of all releases and of noisy counts."""

from collections.abc import Mapping

from assets.gates.shared import count_problem, differing_table
from assets.measurement.grid import GridCounts
from assets.measurement.method import parameters_gate
from assets.phsafe.counts import JOINED, join_recipe
from assets.phsafe.estimates import estimate_tables
from assets.phsafe.release import PHSafeRelease
from assets.phsafe.tables import ESTIMATES, finished_table, list_measured_files, measured_table, table_recipes
from assets.release.gate import Gate, ReleaseContext
from assets.release.stage import store_rows
from assets.tabulation.asset import tables_gate
from mechanisms.phsafe.runs import FILES
from resources.statements import Table, Zone

Context = ReleaseContext[PHSafeRelease]


def join_gate() -> Gate[PHSafeRelease]:
    return Gate("join_of_the_cef", JOINED, "The stored truncated join is that of the current CEF.", _join)


def finished_gates(release: PHSafeRelease) -> list[Gate[PHSafeRelease]]:
    return [
        parameters_gate(),
        Gate(
            "estimates_of_the_measurements",
            "postprocessed",
            "The stored estimates are those of the current measurements.",
            _estimates,
        ),
        Gate(
            "intervals_in_order",
            "postprocessed",
            "Every estimate is nonnegative and finite, and lies in its interval.",
            _intervals,
        ),
        tables_gate(lambda session: table_recipes(session, release)),
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
        return differing_table(session, context.release.confidential(JOINED), join_recipe(session, context.release))


def _estimates(context: Context) -> list[str]:
    method = context.method
    assert isinstance(method, GridCounts)
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        again = store_rows(session, "made", estimate_tables(method, session))
        return differing_table(session, context.release.public(ESTIMATES), again)


def _intervals(context: Context) -> list[str]:
    words = "estimates that are negative, not finite or outside their interval"
    return _out_of_order(context, {context.release.public(ESTIMATES): words})


def _plausible(context: Context) -> list[str]:
    words = "cells that are negative or outside their interval"
    release = context.release
    return _out_of_order(context, {finished_table(release, name): f"{name}: {words}" for name in release.products})


def _out_of_order(context: Context, tables: Mapping[Table, str]) -> list[str]:
    """The problems of tables of estimates, each with its words."""
    problems = []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for table, words in tables.items():
            (rows,) = session.row("phsafe/out_of_order", table=table)
            problems += count_problem(int(rows), words)
    return problems


def _derived(context: Context) -> list[str]:
    release, problems = context.release, []
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for name in list_measured_files(release.design):
            file = FILES[name]
            if file.run == name:
                continue
            pairs = [(cell, part) for cell, parts in file.cells.items() for part in parts]
            (cells,) = session.row(
                "phsafe/differing_sums",
                {"cells": [cell for cell, _ in pairs], "parts": [part for _, part in pairs]},
                derived=measured_table(release, name),
                derived_cell=f"{name.upper()}_DATA_CELL",
                source=measured_table(release, file.run),
                source_cell=f"{file.run.upper()}_DATA_CELL",
            )
            problems += count_problem(int(cells), f"cells of {name} that are not sums of cells of {file.run}")
    return problems
