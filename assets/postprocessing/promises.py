"""What the finished tables and measurement files of a PHSafe release promise.

Here belongs the evaluation of a promise, on the tables as they are at that moment.
"""

from assets.gates.promises import differing_table, said
from assets.measurement.measurements import MEASUREMENTS, in_order
from assets.measurement.release import PHSafeRelease
from assets.method import House, Promise
from assets.parameters.asset import parameter_tables
from assets.postprocessing.estimates import estimates
from assets.postprocessing.tables import ESTIMATES, finished_table, measured_files, measured_table, statements
from mechanisms.phsafe.runs import DERIVED
from resources.statements import Zone
from resources.warehouse import Made

Here = House[PHSafeRelease]


def finished_promises() -> list[Promise[PHSafeRelease]]:
    """What post-processing keeps."""
    return [
        Promise(
            "estimates_of_the_measurements",
            "postprocessed",
            "The estimates are those of the measurements as they are.",
            _estimates,
        ),
        Promise(
            "intervals_in_order",
            "postprocessed",
            "Every estimate is 0 or more and finite, and lies in its interval.",
            _intervals,
        ),
        Promise("parameters_as_declared", "parameters", "The parameters published are the declared ones.", _parameters),
        Promise("tables_of_the_estimates", "tables", "Every table is what estimates and measurements say.", _tables),
        Promise("derived_files", "tables", "PH5_num is PH4, and PH8_num the sums of PH7's cells.", _derived),
        Promise(
            "finished_tables_plausible",
            "tables",
            "No finished table holds a negative number, and every estimate lies in its interval.",
            _plausible,
        ),
    ]


def _estimates(house: Here) -> list[str]:
    release = house.release
    with house.warehouse.session(reads=[Zone.PUBLIC]) as session:
        made = estimates(release, in_order(session, release.public(MEASUREMENTS)))
        again: Made = ("warehouse/all", {}, {"source": session.lend("made", made)})
        return differing_table(session, release.public(ESTIMATES), again)


def _intervals(house: Here) -> list[str]:
    with house.warehouse.session(reads=[Zone.PUBLIC]) as session:
        (rows,) = session.row("postprocessing/out_of_order", table=house.release.public(ESTIMATES))
    return said(int(rows), "estimates that are negative, not finite or outside their interval")


def _parameters(house: Here) -> list[str]:
    problems = []
    with house.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for table, declared in parameter_tables(house.release).items():
            again: Made = ("warehouse/all", {}, {"source": session.lend("declared", declared)})
            problems += differing_table(session, table, again)
    return problems


def _tables(house: Here) -> list[str]:
    problems = []
    with house.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for table, made in statements(session, house.release).items():
            problems += differing_table(session, table, made)
    return problems


def _derived(house: Here) -> list[str]:
    release, problems = house.release, []
    with house.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for derived in DERIVED:
            if derived.name not in measured_files(release.design):
                continue
            pairs = [(cell, part) for cell, parts in derived.cells.items() for part in parts]
            (cells,) = session.row(
                "postprocessing/differing_sums",
                {"cells": [cell for cell, _ in pairs], "parts": [part for _, part in pairs]},
                derived=measured_table(release, derived.name),
                derived_cell=f"{derived.name.upper()}_DATA_CELL",
                source=measured_table(release, derived.source),
                source_cell=f"{derived.source.upper()}_DATA_CELL",
            )
            problems += said(int(cells), f"cells of {derived.name} that are not the sums of {derived.source}'s")
    return problems


def _plausible(house: Here) -> list[str]:
    problems = []
    with house.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for name in house.release.products:
            (rows,) = session.row("postprocessing/out_of_order", table=finished_table(house.release, name))
            problems += said(int(rows), f"{name}: cells that are negative or outside their interval")
    return problems
