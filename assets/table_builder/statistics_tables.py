"""The tables of quantiles and moments that the stages `plan` and `tables` store, with their descriptions in the data
dictionary."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.conventions import preview
from assets.measurement.grid import GridCounts
from assets.release.columns import ARROW, title_columns
from assets.release.published import ERRORS, PublishedColumn, PublishedTable, describe_column, error_columns
from assets.release.stage import store_rows
from assets.table_builder.asking import ESTIMATED, Publication, Where, round_to_decimals
from assets.table_builder.cells import categories
from assets.table_builder.declaration import MomentsAttributes, QuantilesAttributes, write_share
from assets.table_builder.statement import PROSE
from assets.table_builder.statistics import StatisticRelease
from assets.table_builder.statistics_asking import (
    AT_BOUND,
    CORRELATION,
    DEVIATION,
    MEAN,
    MOMENTS,
    NODES,
    QUANTILES,
    RECORDS_OFF,
    SAMPLE_ERROR,
    SAMPLE_LOWER,
    SAMPLE_UPPER,
    SCALES,
    STATISTICS,
    PublishedStatistic,
)
from assets.table_builder.statistics_cells import queries_of
from assets.table_builder.tables import (
    as_table,
    describe_planned,
    describe_planned_tables,
    describe_product,
    explain_interval,
    find_geography,
    planned_tables,
    round_figure,
)
from mechanisms.table_builder.hypercube import Margins
from mechanisms.table_builder.moments import Moments
from mechanisms.table_builder.quantiles import Tree
from resources.statements import Table
from resources.warehouse import Recipe, Session

SCALE_COLUMNS = {
    "variable": ("string", "The variable"),
    "least": ("string", "The least number, exact; smaller ones are taken as it"),
    "most": ("string", "The greatest number, exact; greater ones are taken as it"),
    "grid": ("string", "The step of its numbers, exact"),
    "numbers": ("integer", "G: how many numbers it has; of quantiles"),
    "branching": ("integer", "How many intervals of a level make one of the level above; of quantiles"),
    "steps": ("integer", "M: how many steps there are on both sides of the middle; of moments"),
    "effect": ("string", "How many times the variance of a sample is that of as many records as steps are counted"),
    "widest": ("string", "The widest interval of an answer with figures, in multiples of the estimate; empty for any"),
}
"""The columns of `scales`: the public bounds of the variables."""

PRECISE = pa.decimal128(38, 8)
"""The type of figures that follow from moments; quantiles have four places, like the values of a column."""


def planned_statistic(release: StatisticRelease) -> dict[Table, pa.Table]:
    rows = []
    for part, query, line in zip(release.parts, queries_of(release), release.lines, strict=True):
        rows.append(
            {
                "table_name": part.name,
                "counted": f"{release.quantity}, {release.named}",
                "cells": query.cells,
                "budget": str(part.budget),
                "charged": str(release.charged(line.loss)),
                "noise": query.noise,
                "parameter": str(part.parameter),
                "margins": release.design.margins.value,
                "grid": round_figure(float(release.grid_step)),
                "least": release.design.least,
                "most": release.design.most,
                "standard_error": round_figure(part.deviation * float(part.step)),
                "margin": round_figure(part.margin),
            }
        )
    return planned_tables(release, rows) | {release.public(SCALES): as_table(list(_scale_rows(release)), SCALE_COLUMNS)}


def _scale_rows(release: StatisticRelease) -> Sequence[Mapping[str, Any]]:
    declared, shared = release.declaration.attributes, {"effect": str(release.effect)}
    if isinstance(declared, QuantilesAttributes):
        (name,), grid = release.variables, declared.values
        bounds = {"variable": name, "least": str(grid.lower), "most": str(grid.upper), "grid": str(grid.step)}
        size = grid.most - grid.least + 1
        return [bounds | shared | {"numbers": size, "branching": None if declared.at else declared.branching}]
    assert isinstance(declared, MomentsAttributes)
    shared |= {"widest": str(declared.widest)} if declared.widest is not None else {}
    return [
        {"variable": name, "least": str(scale.lower), "most": str(scale.upper), "grid": str(scale.half / scale.steps)}
        | shared
        | {"steps": scale.steps}
        for name, scale in release.scales.items()
    ]


def statistic_recipes(session: Session, method: GridCounts[Any]) -> Mapping[Table, Recipe]:
    """The recipes of the published noisy numbers, and of the statistics that follow from them for every cell."""
    release: StatisticRelease = method.release
    design, known = release.design, dict(categories(release))
    numbers, rows = [], []
    for part, batch in zip(release.parts, method.stored(session), strict=True):
        shape, possible = design.shape(part.table), release.possible_in(part.table)
        places = dict(zip(part.table, np.unravel_index(np.arange(design.cells(part.table)), shape), strict=True))
        whole = np.zeros((design.cells(part.table), part.size), dtype=np.int64)
        whole[possible] = batch.values.reshape(-1, part.size)
        numbers.append(whole.reshape(*shape, part.size))
        cells = np.repeat(possible, part.size)
        described: dict[str, pa.Array] = {
            "table_name": pa.repeat(part.name, len(cells)),
            "cell": pa.array(cells),
            "place": pa.array(np.tile(np.arange(part.size), len(possible))),
        }
        for name in release.cube.variables:
            nulls = pa.nulls(len(cells), known[name].type)
            described[name] = known[name].take(pa.array(places[name][cells])) if name in places else nulls
        for name in release.cube.variables if design.margins is not Margins.SUMMED else ():
            described[f"{name}_total"] = pa.repeat(name not in places, len(cells))
        described |= _describe_places(release, part.size, len(possible))
        table = pa.table(described | {"measured": pa.array(batch.values)})
        rows.append(table.filter(pc.equal(table["measured"], 1)) if release.drawn else table)
    masked = release.possible if release.structural_zeros else None
    larger = {}
    for name, (variable, lies_in) in release.larger_places.items():
        above = release.list_categories(name)
        known[name] = pa.array(above, ARROW[release.known_columns[name].type])
        larger[name] = variable, [above.index(place) for place in lies_in]
    cells_of = Publication(design, known, Fraction(1), release.quantity, {}, masked, {}, larger)
    declared = release.declaration.attributes
    widest = declared.widest if isinstance(declared, MomentsAttributes) else None
    scales = {release.variable.column: release.variable.grid} if release.variable else release.scales
    published = PublishedStatistic(
        cells_of, release.measured, scales, numbers, release.effect, widest, release.grid_step
    )

    def ask(by: Sequence[str], where: Where) -> pa.Table:
        if isinstance(declared, QuantilesAttributes):
            shares = declared.at or declared.published
            return _as_decimals(published.quantiles(release.variables[0], shares, by, where), ESTIMATED)
        return _as_decimals(published.summary(by, where), PRECISE)

    name, of_numbers = (QUANTILES, NODES) if release.variable else (STATISTICS, MOMENTS)
    made = {of_numbers: pa.concat_tables(rows), name: ask(release.cube.variables, {})}
    made |= {f"product_{product.name}": ask(product.by, product.where) for product in release.cube.products}
    return {release.public(name): store_rows(session, f"made_{name}", table) for name, table in made.items()}


def _describe_places(release: StatisticRelease, size: int, cells: int) -> dict[str, pa.Array]:
    """The meaning of a cell's numbers: the ends of intervals, or the factors of products."""
    if isinstance(release.measured, Moments):
        names = ["", *release.variables]
        factors = zip(*release.measured.pairs, strict=True)
        return {
            column: pa.array([names[place] for place in places] * cells)
            for column, places in zip(("first_factor", "second_factor"), factors, strict=True)
        }
    assert release.variable is not None
    grid, measured = release.variable.grid, release.measured
    width = 1
    if isinstance(measured, Tree):
        width = measured.branching ** (len(measured.sizes) - 1 - measured.sizes.index(size))
    firsts = np.arange(size) * width
    lasts = np.minimum(firsts + width, measured.numbers) - 1
    step = float(grid.step)
    return {
        name: round_to_decimals(np.tile((grid.least + ends) * step, cells))
        for name, ends in (("interval_first", firsts), ("interval_last", lasts))
    }


def _as_decimals(table: pa.Table, kind: pa.DataType) -> pa.Table:
    """The table with decimals instead of doubles, so that files preserve it exactly."""
    for place, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            table = table.set_column(place, field.name, table[field.name].cast(kind, safe=False))
    return table


def shown_first_statistic(session: Session, release: StatisticRelease) -> Mapping[str, Any]:
    table = release.public(QUANTILES if release.variable else STATISTICS)
    columns = list(session.columns(table))
    rows = session.rows("warehouse/first_rows", {"rows": 8}, columns=columns, source=table)
    texts = [_show(release, dict(zip(columns, row, strict=True))) for row in rows]
    return {"first cells": preview(["cell", "estimate", "90% interval"], texts)}


def _show(release: StatisticRelease, row: Mapping[str, Any]) -> tuple[str, str, str]:
    """The cell, the estimate, and the interval of the noise; a quantile that was drawn directly has no interval."""
    cell = ", ".join(f"{name} {row[name]}" for name in release.cube.variables)
    what = f"quantile {row['quantile']}" if release.variable else f"{row['statistic']} of {row['of']}"
    estimate, *ends = ("" if row.get(key) is None else f"{row[key]:,.6g}" for key in ("estimate", "lower", "upper"))
    interval = "\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}".join(filter(None, ends))
    return f"{cell}: {what}", estimate or "not published", interval


def _label_values(release: StatisticRelease) -> dict[str, dict[str, str]]:
    """By column that identifies an estimate, its values in words."""
    declared = release.declaration.attributes
    if isinstance(declared, QuantilesAttributes):
        shares = declared.at or declared.published
        return {
            "quantile": {write_share(share): f"{float(100 * share):g}% of the {_shared(release)}" for share in shares}
        }
    words = title_columns({name: release.known_columns[name] for name in release.variables})
    of = [(name,) for name in words] + list(combinations(words, 2))
    return {
        "statistic": {name: name.capitalize() for name in (MEAN, DEVIATION, CORRELATION)},
        "of": {", ".join(names): ", ".join(words[name] for name in names) for names in of},
    }


def _shared(release: StatisticRelease) -> str:
    """What a quantile is a share of, in words."""
    return f"sum of {release.amount.column}" if release.amount else "records"


def published_statistic(release: StatisticRelease) -> list[PublishedTable]:
    kinds = {"variables": release.variables, "weight": release.amount.column if release.amount else None}
    cells = [describe_column(name, release.columns[name]) for name in release.cube.variables]
    of_quantiles, labels = release.variable is not None, _label_values(release)
    unit = release.variables[0] if of_quantiles else "units of the variables"
    errors = error_columns(
        "decimal",
        "Estimate; empty if the noisy number of records is not above 0" if of_quantiles else "Estimate",
        "Standard error of the estimate, from the noise alone",
        unit,
        optional=("estimate", "standard_error") if of_quantiles else ERRORS,
    )
    sample = PublishedColumn(
        SAMPLE_ERROR, "decimal", "Standard error of the sample, without the noise", required=False, error_of="estimate"
    )
    if of_quantiles:
        share = PublishedColumn(
            "quantile", "string", f"The share of the {_shared(release)} up to the estimate", labels["quantile"]
        )
        off = "Bound: the estimate is off by fewer records, or units of the weight, with a probability of at least 90%"
        if release.drawn:
            estimate = PublishedColumn("estimate", "decimal", "Estimate, as drawn", unit=unit)
            described = [share, estimate, PublishedColumn(RECORDS_OFF, "decimal", off)]
        else:
            described = [
                share,
                *errors,
                sample,
                PublishedColumn(SAMPLE_LOWER, "decimal", "Lower end of the 90% interval of the sample"),
                PublishedColumn(SAMPLE_UPPER, "decimal", "Upper end of the 90% interval of the sample"),
                PublishedColumn(AT_BOUND, "string", "Which ends of the interval are bounds of the variable"),
            ]
        keys: tuple[str, ...] = ("quantile",)
        noisy = [
            PublishedColumn("interval_first", "decimal", "The least number of the interval"),
            PublishedColumn("interval_last", "decimal", "The greatest number of the interval"),
        ]
    else:
        described = [
            PublishedColumn("statistic", "string", "mean, standard deviation or correlation", labels["statistic"]),
            PublishedColumn("of", "string", "The variable, or the two variables", labels["of"]),
            *errors,
            sample,
        ]
        keys = ("statistic", "of")
        noisy = [
            PublishedColumn("first_factor", "string", "The first factor of the products; empty for 1"),
            PublishedColumn("second_factor", "string", "The second factor; empty for 1"),
        ]
    name, numbers = (QUANTILES, NODES) if of_quantiles else (STATISTICS, MOMENTS)
    interval = "" if release.drawn else explain_interval(release, name)
    texts = [f"{text}, drawn" if release.drawn else text for text in (name, numbers)]
    words = "1: the number that is drawn" if release.drawn else "Noisy number in steps, as drawn; it may be negative"
    cells_of_tables = cells
    if release.design.margins is not Margins.SUMMED:
        cells_of_tables = [
            describe_column(name, release.columns[name], f"{name}_total") for name in release.cube.variables
        ]
        noisy = [
            *(
                PublishedColumn(f"{name}_total", "boolean", f"Whether the row is a total over {name}")
                for name in release.cube.variables
            ),
            *noisy,
        ]
    return [
        PublishedTable(
            name,
            release.title,
            f"{release.description} {PROSE(texts[0], **kinds)}".strip(),
            release.public(name),
            (*cells, *described),
            (*release.cube.variables, *keys),
            geography=find_geography(release, release.cube.variables),
            interval=interval,
        ),
        *(describe_product(release, product, described, keys, interval) for product in release.cube.products),
        PublishedTable(
            numbers,
            f"{release.title}: noisy numbers",
            PROSE(texts[1], **kinds),
            release.public(numbers),
            (
                PublishedColumn("table_name", "string", "What is measured of every cell"),
                PublishedColumn("cell", "integer", "Number of the cell"),
                PublishedColumn("place", "integer", "Number of the range or sum, from 0"),
                *cells_of_tables,
                *noisy,
                PublishedColumn("measured", "integer", words),
            ),
            ("table_name", "cell", "place"),
        ),
        describe_planned(release, SCALES, "The bounds of the variables", SCALE_COLUMNS, "variable"),
        *describe_planned_tables(release),
    ]
