"""The tables of a hypercube that the stages `plan` (from the declaration alone) and `tables` (from the measurements)
store, with their descriptions in the data dictionary."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from math import sqrt
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from assets.conventions import preview
from assets.measurement.grid import GridCounts
from assets.publication.tables import PublishedTables
from assets.release.columns import ARROW, Role, describe_columns, explain_amount
from assets.release.published import ERRORS, SUPPRESSED, PublishedColumn, PublishedTable, describe_column, error_columns
from assets.release.stage import store_rows
from assets.table_builder.asking import ESTIMATED, Publication, as_decimals, fitted_numbers, parts_of_step
from assets.table_builder.cells import categories, query_of, table_name
from assets.table_builder.declaration import SubTableDeclaration
from assets.table_builder.release import CATEGORIES, HYPERCUBE, LARGER_PLACES, P_TABLE, TABLES, HypercubeRelease
from assets.table_builder.statement import PROSE
from mechanisms.sampling.noise import DiscreteGaussian
from mechanisms.table_builder.asking import Question, margin_of_one
from mechanisms.table_builder.hypercube import Margins
from mechanisms.table_builder.hypercube import Table as Variables
from resources.statements import Table
from resources.warehouse import Recipe, Session

AFTER_A_SWAP = PROSE("interval, after a swap")
"""The sentence on what intervals after a swap do not cover."""

FIGURES = ("measured", *ERRORS)
"""The columns of figures, which are empty where an estimate is not published."""

_ARROW = {"string": pa.string(), "integer": pa.int64(), "decimal": ESTIMATED}

TABLE_COLUMNS = {
    "table_name": ("string", "The measured table: its variables"),
    "counted": ("string", "What is counted or added up"),
    "cells": ("integer", "Number of measured cells"),
    "budget": ("string", "ε or ρ of the table for one record added or removed, exact"),
    "charged": ("string", "Loss of the table for one record changed, exact"),
    "noise": ("string", "Distribution of the noise"),
    "parameter": (
        "string",
        "Scale of the discrete Laplace or of permute-and-flip, or σ² of the discrete Gaussian, exact, in steps; "
        "SHA-256 of a p-table",
    ),
    "cap": ("integer", "The greatest noise, in steps; empty without a cap"),
    "margins": ("string", "How margins are made: summed, independent or fitted"),
    "grid": ("decimal", "What one step stands for: 1 record, or the step of the grid"),
    "least": ("integer", "The least number of steps that a record adds"),
    "most": ("integer", "The greatest number of steps that a record adds"),
    "standard_error": ("decimal", "Standard deviation of the noise of a cell"),
    "margin": ("decimal", "Noise is within this margin with a probability of at least 90%"),
}
"""The columns of the measured tables: their types and descriptions."""

CATEGORY_COLUMNS = {
    "variable": ("string", "The variable"),
    "number": ("integer", "Number of the category, from 0"),
    "category": ("string", "The category, as text; empty for records without a value"),
    "label": ("string", "The category in words; empty if it has no label"),
}
LARGER_PLACES_COLUMNS = {
    "variable": ("string", "The variable"),
    "number": ("integer", "Number of its category, as in categories"),
    "category": ("string", "The category, as text"),
    "larger": ("string", "The name of the larger place"),
    "place_number": ("integer", "Number of the larger place that the category lies in, from 0"),
    "place": ("string", "The larger place, as text"),
    "label": ("string", "The larger place in words; empty if it has no label"),
}
"""The columns of `larger_places`, which exists if variables are places in larger places that are not variables."""
P_TABLE_COLUMNS = {
    "count": ("integer", "The exact count"),
    "change": ("integer", "What is added to it"),
    "probability": ("string", "Probability of the change, exact"),
}
"""The columns of `p_table`, which exists if a p-table perturbs the counts."""

OPTIONAL = frozenset({"cap", "category", "label", "numbers", "branching", "steps", "widest"})
"""The columns of these tables that may be empty."""


def round_figure(number: float) -> Decimal:
    return Decimal(number).quantize(Decimal("0.0001"))


def planned_tables(
    release: HypercubeRelease, measured: Sequence[Mapping[str, Any]] | None = None
) -> dict[Table, pa.Table]:
    """The tables that the stage `plan` stores, by default with the measured tables of the hypercube."""
    rows = measured or [_table_row(release, table) for table in release.design.tables]
    category_rows = [
        {
            "variable": name,
            "number": number,
            "category": None if value is None else str(value),
            "label": release.columns[name].labels.get(value, None) if value is not None else None,
        }
        for name, values in categories(release)
        for number, value in enumerate(values.to_pylist())
    ]
    tables = {
        release.public(TABLES): as_table(rows, TABLE_COLUMNS),
        release.public(CATEGORIES): as_table(category_rows, CATEGORY_COLUMNS),
    }
    if release.larger_places:
        place_rows = [
            {
                "variable": variable,
                "number": number,
                "category": str(category),
                "larger": larger,
                "place_number": release.list_categories(larger).index(place),
                "place": str(place),
                "label": release.known_columns[larger].labels.get(place),
            }
            for larger, (variable, lies_in) in release.larger_places.items()
            for number, (category, place) in enumerate(zip(release.domains[variable], lies_in, strict=True))
        ]
        tables[release.public(LARGER_PLACES)] = as_table(place_rows, LARGER_PLACES_COLUMNS)
    if release.design.p_table is None:
        return tables
    p_table_rows = [
        {"count": count, "change": change, "probability": str(probability)}
        for count, row in enumerate(release.design.p_table.rows)
        for change, probability in row.probabilities.items()
    ]
    return tables | {release.public(P_TABLE): as_table(p_table_rows, P_TABLE_COLUMNS)}


def as_table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, tuple[str, str]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), pa.schema([(name, _ARROW[kind]) for name, (kind, _) in columns.items()]))


def _table_row(release: HypercubeRelease, table: Variables) -> dict[str, Any]:
    design, query = release.design, query_of(release, table)
    loss = next((line.loss for line in design.lines if line.label == query.name), design.bounded)
    if design.p_table:
        parameter = design.p_table.version
    else:
        noise = design.distribution(table)
        parameter = str(noise.variance if isinstance(noise, DiscreteGaussian) else noise.scale)
    return {
        "table_name": query.name,
        "counted": release.quantity,
        "cells": query.cells,
        "budget": str(design.budget_of(table)),
        "charged": str(release.charged(loss)),
        "noise": query.noise,
        "parameter": parameter,
        "cap": design.cap,
        "margins": design.margins.value,
        "grid": round_figure(float(release.grid_step)),
        "least": design.least,
        "most": design.most,
        "standard_error": round_figure(sqrt(design.variance(table)) * float(release.grid_step)),
        "margin": round_figure(margin_of_one(design, table) * float(release.grid_step)),
    }


def table_recipes(session: Session, method: GridCounts[HypercubeRelease]) -> Mapping[Table, Recipe]:
    release = method.release
    measured = {}
    for table, batch in zip(release.design.tables, method.stored(session), strict=True):
        cells = np.zeros(release.design.cells(table), dtype=np.int64)
        cells[release.possible_in(table)] = batch.values
        measured[table] = cells.reshape(release.design.shape(table))
    grid, possible = release.grid_step, release.possible if release.structural_zeros else None
    numbers = fitted_numbers(release.design, measured, possible, grid)
    known = dict(categories(release))
    larger_places = {}
    for name, (variable, lies_in) in release.larger_places.items():
        places = release.list_categories(name)
        known[name] = pa.array(places, ARROW[release.known_columns[name].type])
        larger_places[name] = variable, [places.index(place) for place in lies_in]
    published = Publication(release.design, known, grid, release.quantity, numbers, possible, {}, larger_places)
    made = {HYPERCUBE: _estimate_hypercube(release, published, measured)}
    for product in release.cube.products:
        made[f"product_{product.name}"] = _without_suppressed(release, published.ask(product.by, product.where))
    return {release.public(name): store_rows(session, f"made_{name}", rows) for name, rows in made.items()}


def _estimate_hypercube(
    release: HypercubeRelease, published: Publication, measured: Mapping[Variables, NDArray[np.int64]]
) -> pa.Table:
    parts = []
    for table in release.design.tables:
        cells = release.possible_in(table)
        answer = published.answer(Question(release.design, table, {}, published.possible))
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
    """The rows, with a column that marks estimates below the threshold; the figures of these are emptied."""
    if not release.cube.suppress_below:
        return rows
    below = pc.less(rows["estimate"].cast(pa.float64()), float(release.cube.suppress_below))
    for name in FIGURES:
        if name in rows.column_names:
            kept = pc.if_else(below, pa.scalar(None, rows.schema.field(name).type), rows[name])
            rows = rows.set_column(rows.column_names.index(name), name, kept)
    return rows.append_column(SUPPRESSED, below)


def shown_first(session: Session, release: HypercubeRelease) -> Mapping[str, Any]:
    columns = list(session.columns(release.public(HYPERCUBE)))
    first = session.rows("warehouse/first_rows", {"rows": 8}, columns=columns, source=release.public(HYPERCUBE))
    rows = [_show(release, dict(zip(columns, row, strict=True))) for row in first]
    return {"first cells": preview(["cell", "estimate", "standard error", "90% interval"], rows)}


def _show(release: HypercubeRelease, row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    cell = ", ".join(f"{name} {row[name]}" for name in release.cube.variables if not row.get(f"{name}_total"))
    if row["estimate"] is None:
        return cell, "not published", "", ""
    # Keep the interval on one line.
    interval = f"{row['lower']:,.1f}\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}{row['upper']:,.1f}"
    return cell, f"{row['estimate']:,.1f}", f"{row['standard_error']:,.2f}", interval


def published_tables(release: HypercubeRelease) -> list[PublishedTable]:
    interval = explain_interval(release)
    products = (
        describe_product(release, product, _figures(release), (), interval) for product in release.cube.products
    )
    return [_describe_hypercube(release), *products, *describe_planned_tables(release)]


def describe_planned_tables(release: HypercubeRelease) -> list[PublishedTable]:
    planned = [
        describe_planned(release, TABLES, "The measured tables and their noise", TABLE_COLUMNS, "table_name"),
        describe_planned(
            release, CATEGORIES, "The categories of the variables", CATEGORY_COLUMNS, "variable", "number"
        ),
    ]
    if release.larger_places:
        key = ("variable", "number", "larger")
        title = "The larger places that variables lie in"
        planned.append(describe_planned(release, LARGER_PLACES, title, LARGER_PLACES_COLUMNS, *key))
    if release.design.p_table:
        planned.append(describe_planned(release, P_TABLE, "The p-table", P_TABLE_COLUMNS, "count", "change"))
    return planned


def column_descriptions(release: HypercubeRelease) -> dict[str, str]:
    return describe_columns(release.columns) | {
        column.name: column.description
        for column in _describe_hypercube(release).columns
        if column.name not in release.columns
    }


def describe_planned(
    release: HypercubeRelease, name: str, title: str, columns: Mapping[str, tuple[str, str]], *key: str
) -> PublishedTable:
    described = (PublishedColumn(column, *words, required=column not in OPTIONAL) for column, words in columns.items())
    return PublishedTable(name, title, PROSE(name, design=release.design), release.public(name), tuple(described), key)


def explain_interval(release: HypercubeRelease, of: str = "") -> str:
    """The method of the intervals of its estimates, or of its quantiles or statistics (`of`)."""
    words = PROSE(f"interval, {of or 'fitted'}" if of or release.design.margins is Margins.FITTED else "interval")
    return f"{words} {AFTER_A_SWAP}" if release.withheld else words


def remark_on_intervals(answering: Iterable[PublishedTables]) -> str:
    """The remark that the intervals of an answer do not cover a swap, if those of the publications do not; "" if they
    do. Raises as `PublishedTables.read`."""
    methods = [method for files in answering for method in files.read_interval_methods()]
    return AFTER_A_SWAP if any(AFTER_A_SWAP in method for method in methods) else ""


def _describe_hypercube(release: HypercubeRelease) -> PublishedTable:
    amount = release.amount
    totals = release.design.margins is not Margins.SUMMED
    adding_up = PROSE(f"adding up, {release.design.margins.value}")
    return PublishedTable(
        HYPERCUBE,
        release.title,
        f"{release.description} {adding_up}".strip(),
        release.public(HYPERCUBE),
        (
            PublishedColumn("table_name", "string", "The measured table: its variables"),
            PublishedColumn("cell", "integer", "Number of the cell in its table"),
            *(
                describe_column(name, release.columns[name], f"{name}_total" if totals else "")
                for name in release.cube.variables
            ),
            *(
                PublishedColumn(f"{name}_total", "boolean", f"Whether the row is a total over {name}")
                for name in (release.cube.variables if totals else ())
            ),
            PublishedColumn(
                "measured",
                "decimal" if amount else "integer",
                f"Noisy {_quantity_in_words(release)}, as drawn; it may be negative",
                required=not release.cube.suppress_below,
                unit=_unit(release),
            ),
            *_figures(release),
        ),
        ("table_name", "cell"),
        geography=find_geography(release, release.cube.variables),
        dimensions=tuple(release.cube.variables),
        interval=explain_interval(release),
    )


def describe_product(
    release: HypercubeRelease,
    product: SubTableDeclaration,
    figures: Sequence[PublishedColumn],
    keys: tuple[str, ...],
    interval: str,
) -> PublishedTable:
    """A product with its figures; `keys` are the columns that distinguish several figures of one cell."""
    counted = "; ".join(
        f"{name}: {', '.join('no value' if value is None else str(value) for value in values)}"
        for name, values in product.where.items()
    )
    return PublishedTable(
        product.name,
        product.title or product.name.replace("_", " "),
        ("" if keys else f"Each estimate is a {_quantity_in_words(release)}. ")
        + "Built from the hypercube, at no further loss."
        + (f" Counted are only {counted}." if counted else ""),
        release.public(f"product_{product.name}"),
        (*(describe_column(name, release.known_columns[name]) for name in product.by), *figures),
        (*product.by, *keys),
        geography=_nested(release, product.by) or find_geography(release, product.by),
        interval=interval,
    )


def _figures(release: HypercubeRelease) -> tuple[PublishedColumn, ...]:
    negative = release.design.margins is Margins.FITTED or release.design.least < 0
    columns = error_columns(
        "decimal",
        "Estimate; it may be negative" if negative else "Estimate: what was measured, or 0 if that is negative",
        "Standard error of the estimate, from the noise alone",
        _unit(release),
        optional=ERRORS if release.cube.suppress_below else (),
    )
    if not release.cube.suppress_below:
        return columns
    words = f"Whether the estimate is below {float(release.cube.suppress_below):g} and not published"
    return (*columns, PublishedColumn(SUPPRESSED, "boolean", words))


def _quantity_in_words(release: HypercubeRelease) -> str:
    if release.amount is None:
        return "count"
    name = release.amount.column
    column = release.known_columns[name]
    return f"sum of {explain_amount(name, column, *(['an empty value counts as 0'] if column.nullable else []))}"


def _unit(release: HypercubeRelease) -> str:
    return release.amount.column if release.amount else release.cube.of


def find_geography(release: HypercubeRelease, names: Sequence[str]) -> tuple[str, ...]:
    """The column of places, if there is exactly one. Several that are not nested are separate dimensions."""
    places = [name for name in names if release.known_columns[name].role is Role.GEOGRAPHY]
    return tuple(places) if len(places) == 1 else ()


def _nested(release: HypercubeRelease, names: Sequence[str]) -> tuple[str, ...]:
    """A larger place and the variable that lies in it, if exactly these are the places among the names; else empty."""
    places = [name for name in names if release.known_columns[name].role is Role.GEOGRAPHY]
    pairs = ((larger, name) for name, above in release.nesting.items() for larger in above)
    return next((pair for pair in pairs if set(pair) == set(places)), ())
