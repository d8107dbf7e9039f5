"""The recipes of a hypercube's published tables, from the noisy measurements alone."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from assets.conventions import preview
from assets.measurement.grid import GridCounts
from assets.table_builder.asking import HYPERCUBE, Publication, as_decimals, fitted_numbers, parts_of_step
from assets.table_builder.counting import categories, table_name
from assets.table_builder.release import HypercubeRelease
from mechanisms.table_builder.hypercube import Margins
from mechanisms.table_builder.hypercube import Table as Variables
from resources.statements import Table
from resources.warehouse import Recipe, Session

FIGURES = ("measured", "estimate", "standard_error", "lower", "upper")
"""The columns with figures, which are left out where an estimate is not published."""


def table_recipes(session: Session, method: GridCounts[HypercubeRelease]) -> Mapping[Table, Recipe]:
    """By published table: its rows, computed from the stored measurements."""
    release = method.release
    measured = {}
    for table, batch in zip(release.design.tables, method.stored(session), strict=True):
        cells = np.zeros(release.design.cells(table), dtype=np.int64)
        cells[release.possible_in(table)] = batch.values
        measured[table] = cells.reshape(release.design.shape(table))
    grid, possible = release.grid_step, release.possible if release.cube.structural_zeros else None
    numbers = fitted_numbers(release.design, measured, possible, grid)
    published = Publication(release.design, dict(categories(release)), grid, release.quantity, numbers, possible, {})
    made = {HYPERCUBE: _hypercube(release, published, measured)}
    for product in release.cube.products:
        made[f"product_{product.name}"] = _without_suppressed(release, published.ask(product.by, product.where))
    return {
        release.public(name): ("warehouse/all", {}, {"source": session.register(f"made_{name}", rows)})
        for name, rows in made.items()
    }


def _hypercube(
    release: HypercubeRelease, published: Publication, measured: Mapping[Variables, NDArray[np.int64]]
) -> pa.Table:
    parts = []
    for table in release.design.tables:
        cells = release.possible_in(table)
        answer = published.answer(published.question(table, {}))
        places = dict(zip(table, np.unravel_index(cells, release.design.shape(table)), strict=True))
        part: dict[str, Any] = {"table_name": pa.repeat(table_name(table), len(cells)), "cell": pa.array(cells)}
        for name in release.cube.variables:
            values = published.categories[name]
            part[name] = values.take(pa.array(places[name])) if name in places else pa.nulls(len(cells), values.type)
        for name in release.cube.variables if release.design.margins is not Margins.SUMMED else ():
            part[f"{name}_total"] = pa.repeat(name not in places, len(cells))
        steps = measured[table].ravel()[cells]
        part["measured"] = as_decimals(steps * parts_of_step(published.grid)) if release.amount else pa.array(steps)
        parts.append(_without_suppressed(release, pa.table(part | published.figures(answer, cells))))
    return pa.concat_tables(parts)


def _without_suppressed(release: HypercubeRelease, rows: pa.Table) -> pa.Table:
    """The rows with a column that marks estimates below the threshold, whose figures are left out."""
    if not release.cube.suppress_below:
        return rows
    below = pc.less(rows["estimate"].cast(pa.float64()), float(release.cube.suppress_below))
    for name in FIGURES:
        if name in rows.column_names:
            kept = pc.if_else(below, pa.scalar(None, rows.schema.field(name).type), rows[name])
            rows = rows.set_column(rows.column_names.index(name), name, kept)
    return rows.append_column("suppressed", below)


def shown_first(session: Session, release: HypercubeRelease) -> Mapping[str, Any]:
    columns = list(session.columns(release.public(HYPERCUBE)))
    first = session.rows("warehouse/first_rows", {"rows": 8}, columns=columns, source=release.public(HYPERCUBE))
    rows = [_show(release, dict(zip(columns, row, strict=True))) for row in first]
    return {"first cells": preview(["cell", "estimate", "standard error", "90% interval"], rows)}


def _show(release: HypercubeRelease, row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    cell = ", ".join(f"{name} {row[name]}" for name in release.cube.variables if not row.get(f"{name}_total"))
    if row["estimate"] is None:
        return cell, "not published", "", ""
    # Without a break in the middle of an interval.
    interval = f"{row['lower']:,.1f}\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}{row['upper']:,.1f}"
    return cell, f"{row['estimate']:,.1f}", f"{row['standard_error']:,.2f}", interval
