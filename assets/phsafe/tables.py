"""The recipes of the published tables: finished tables from estimates, and measurement files from measurements."""

import pyarrow as pa

from assets.measurement.method import MEASUREMENTS
from assets.phsafe.release import PHSafeRelease
from mechanisms.phsafe.design import PHSafeDesign
from mechanisms.phsafe.runs import FILES, ITERATIONS, SHELL
from mechanisms.states import STATES
from resources.statements import Fragment, Table
from resources.warehouse import Recipe, Session

ESTIMATES = "estimates"
NATION = "Nation"


def list_measured_files(design: PHSafeDesign) -> tuple[str, ...]:
    """The names of those of the eleven measurement files whose runs a design releases."""
    released = {run.name for run in design.released_runs}
    return tuple(name for name, file in FILES.items() if file.run in released)


def measured_table(release: PHSafeRelease, name: str) -> Table:
    return release.public(f"measured_{name.lower()}")


def finished_table(release: PHSafeRelease, name: str) -> Table:
    return release.public(f"finished_{name.lower()}")


def table_recipes(session: Session, release: PHSafeRelease) -> dict[Table, Recipe]:
    made: dict[Table, Recipe] = {
        measured_table(release, name): file_recipe(session, name, release.public(MEASUREMENTS), noisy=True)
        for name in list_measured_files(release.design)
    }
    names = _names(session, release)
    for name in release.products:
        shell = SHELL[name]
        cells = pa.table({"cell": [cell.number for cell in shell.cells], "label": [cell.label for cell in shell.cells]})
        made[finished_table(release, name)] = (
            "phsafe/finished",
            {"table_name": name},
            {
                "estimates": release.public(ESTIMATES),
                "type": Fragment("DECIMAL(18, 2)" if shell.averages else "BIGINT"),
                "cells": session.register(f"cells_{name}", cells),
                **names,
            },
        )
    return made


def file_recipe(session: Session, name: str, counts: Table, *, noisy: bool) -> Recipe:
    """The recipe of a file in the production format, from the measurements or the exact counts of its run."""
    pairs = [(cell, part) for cell, parts in FILES[name].cells.items() for part in parts]
    mapping = session.register(
        f"parts_{name}", pa.table({"cell": [cell for cell, _ in pairs], "data_cell": [part for _, part in pairs]})
    )
    return (
        "phsafe/measured",
        {"run": FILES[name].run},
        {"measurements": counts, "parts": mapping, "cell_column": f"{name.upper()}_DATA_CELL", "noisy": noisy},
    )


def _names(session: Session, release: PHSafeRelease) -> dict[str, Fragment]:
    regions = {code: STATES[code] for code in release.design.states} | {"1": NATION}
    return {
        "regions": session.register("regions", pa.table({"region_id": list(regions), "name": list(regions.values())})),
        "iterations": session.register(
            "iterations", pa.table({"iteration_code": list(ITERATIONS), "name": list(ITERATIONS.values())})
        ),
    }
