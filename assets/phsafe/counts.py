"""Exact counts: every cell of every released population group, before noise.

This module aggregates joined records to the grid of counts, which follows from the declaration alone. `join` reads the
records.
"""

from collections.abc import Collection, Sequence

import pyarrow as pa

from mechanisms.phsafe.runs import RUN, RUNS, Level
from resources.statements import Table
from resources.warehouse import Recipe, Session


def write_counts(
    session: Session,
    joined: Table,
    target: Table,
    states: Sequence[str],
    released: Collection[tuple[str, Level]],
) -> None:
    """Aggregate joined records to population groups and write their counts, zeros included.

    The table has the columns `draw_order`, `run`, `level`, `region_id` and `region_type` (`1` and `USA`, or FIPS code
    and `STATE`), `iteration_code`, `data_cell` and `count`. `draw_order` numbers the rows from 0 by run and level in
    the orders of `RUNS` and `LEVELS`, then by region, iteration and cell. Noise is drawn in this order, which does not
    depend on the records.

    Args:
        joined: the output of `write_truncated_join` for these runs.
        states: FIPS codes of the released states, which together form the nation.
        released: the released pairs of a run's name and a level; others get no rows.

    Raises:
        ValueError: if a run is unknown or cannot be released for a level.
    """
    name, values, names = grid_counts(session, joined, states, released)
    session.create(target, name, values, **names)


def grid_counts(
    session: Session, joined: Table, states: Sequence[str], released: Collection[tuple[str, Level]]
) -> Recipe:
    """The recipe of the table that `write_counts` writes, with the same arguments and errors."""
    for name, level in released:
        if name not in RUN or level not in RUN[name].levels:
            raise ValueError(f"there is no run {name} for level {level.name}")
    grid = [
        (
            run.name,
            level.name,
            level.geography.region_type,
            list(level.regions(states)),
            list(level.iterations.codes),
            list(run.cells),
        )
        for run in RUNS
        for level in run.levels
        if (run.name, level) in released
    ]
    columns = {
        "number": pa.array(range(len(grid)), pa.int64()),
        **{
            name: pa.array([row[position] for row in grid], kind) for position, (name, kind) in enumerate(_GRID.items())
        },
    }
    return "phsafe/exact_counts", {}, {"joined": joined, "released": session.register("released", pa.table(columns))}


_GRID = {
    "run": pa.string(),
    "level": pa.string(),
    "region_type": pa.string(),
    "regions": pa.list_(pa.string()),
    "iterations": pa.list_(pa.string()),
    "cells": pa.list_(pa.int32()),
}
