"""The asset `tables` of a TopDown release, and the codes of its published files.

This module adds up the estimates of every level to the cells of the redistricting tables, and lists the queries and
their cells, which decode the measurements. Gates verify that the microdata, which `records` makes, have the same
counts. `mechanisms.topdown.schema` defines the histograms, and `mechanisms.topdown.redistricting` the cells of the
redistricting tables.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from decimal import ROUND_HALF_EVEN, Context, Decimal
from itertools import pairwise

import dagster as dg
import numpy as np
import pyarrow as pa

from assets.cef.census import CODES as CENSUS_CODES
from assets.conventions import preview
from assets.release.stage import store_rows
from assets.tabulation.asset import build_tables
from assets.topdown.reading import find_scope
from assets.topdown.release import (
    ABOVE,
    INVARIANTS,
    MICRODATA,
    QUERIES,
    QUERY_CELLS,
    SPINE,
    TABLES,
    TEXTS,
    TopDownRelease,
)
from assets.topdown.spine import count_places, find_ranges, read_states, stage_places
from mechanisms.topdown.design import GROUP_QUARTERS, SCHEMAS, STATISTICS, TopDownDesign, level_of_states, words
from mechanisms.topdown.redistricting import CODES, REDISTRICTING, RedistrictingTable
from mechanisms.topdown.schema import Schema
from resources.processes import in_threads
from resources.statements import SQL, Fragment, Table
from resources.warehouse import UNITED, Recipe, Session

_OF_LEVEL = SQL("topdown/of_level", "SELECT * FROM {{ table }} WHERE level = $level")

RECORD_COLUMNS = {
    "record": "Number of the record, from 1; the order is by place and codes, not that of any file",
    "geoid": "Code of the place of the finest level",
    "hhgq": "Household or type of group quarters, with the codes of GQTYPE",
    "votingage": "Voting age",
    "hispanic": "Hispanic or Latino origin, with the codes of CENHISP",
    "cenrace": "Race, alone or in combination, with the codes of CENRACE",
    "occupancy": "Whether the housing unit is occupied",
}

INPUT_CODES: Mapping[str, tuple[str, ...]] = {
    **{name: tuple(map(str, labels)) for name, labels in CODES.items()},
    "hhgq": tuple(CENSUS_CODES["GQTYPE"]),
    "hispanic": tuple(CENSUS_CODES["CENHISP"]),
    "cenrace": tuple(CENSUS_CODES["CENRACE"]),
}
"""By attribute or recode, its codes in published files, in the order of the histograms: the census files' codes for the
type of group quarters, Hispanic origin and race. The census files have no codes for the others."""

ATTRIBUTE_WORDS = {
    "hhgq": "household or type of group quarters",
    "hhinstlevels": "household or kind of group quarters",
    "votingage": "voting age",
    "hispanic": "Hispanic origin",
    "cenrace": "race",
    "occupancy": "occupancy",
}
"""The attributes and recodes of the histograms in words."""

PLACES = 18
PLACES_AT_A_TIME = 100_000
"""The number of places whose redistricting tables are in memory at a time, about 2 kB each."""

PLACES_SHOWN = 2
"""The number of places of the second level that the asset's page shows beside the root."""

_PLACE_NAMES = pa.schema({"geoid": pa.string(), "name": pa.string()})
_VARIANCE = pa.decimal128(38, PLACES)
_CONTEXT = Context(prec=38, rounding=ROUND_HALF_EVEN)


def register_codes(session: Session, schema: Schema) -> Fragment:
    """Register the codes of published files by cell, from the marginals of the histogram.

    All readers of records decode them with these codes, so that the gate on records counts independently of the code
    that made them.
    """
    codes = {
        attribute.name: np.array(INPUT_CODES[attribute.name])[schema.marginal(attribute.name).cells]
        for attribute in schema.attributes
    }
    return session.register(f"codes_of_{schema.name}", pa.table({"cell": np.arange(schema.size), **codes}))


def build_redistricting(release: TopDownRelease) -> dg.AssetsDefinition:
    return build_tables(
        release,
        [release.estimated, *([MICRODATA] if release.partitioned else [])],
        TEXTS("tables", tables=[f"{table.name} ({table.title})" for table in redistricting_tables(release)]),
        lambda session: tables_recipe(session, release, as_stored=True),
        shown=lambda session: {
            f"{table.name}: {table.title}": _preview_highest(session, release, table)
            for table in redistricting_tables(release)
        },
    )


def redistricting_tables(release: TopDownRelease) -> tuple[RedistrictingTable, ...]:
    """The redistricting tables that a release publishes, in the standard order."""
    return tuple(REDISTRICTING[name] for name in TABLES if name in release.products)


def redistricting_table(release: TopDownRelease, name: str) -> Table:
    return release.public(name.lower())


def tables_recipe(session: Session, release: TopDownRelease, *, as_stored: bool = False) -> dict[Table, Recipe]:
    """The recipe of every table of the asset, from estimates, spine, invariants and design. If `as_stored`, the recipes
    of tables made by state are those of `united_recipes`.

    The recipes read staged estimates, and work only in the same session.
    """
    made: dict[Table, Recipe] = {
        release.public(QUERIES): store_rows(session, "made_queries", queries(release.design)),
        release.public(QUERY_CELLS): store_rows(session, "made_query_cells", query_cells(release.design)),
    }
    for name in exact_products(release):
        names = {"invariants": release.public(INVARIANTS), "by_type": name == GROUP_QUARTERS}
        made[exact_table(release, name)] = ("topdown/exact", {"invariant": name}, names)
    if as_stored:
        made |= united_recipes(session, release)
    whole = [table for table in redistricting_tables(release) if redistricting_table(release, table.name) not in made]
    if whole:
        pieces = _pieces([(0, places) for places in count_places(session, release).values()])
        estimates = [release.public(release.estimates(level)) for level in release.levels]
        recipes = _count_tables(session, release, whole, release.public(SPINE), pieces, dict(enumerate(estimates)))
        made |= {redistricting_table(release, name): recipe for name, recipe in recipes.items()}
    return made


def state_recipes(session: Session, release: TopDownRelease, state: str) -> dict[Table, Recipe]:
    """The recipes of one state's tables: the rows of the state and of the places in it, from their estimates."""
    top, ranges = find_ranges(session, release, state)
    places = stage_places(session, release, state)
    estimates = {
        depth: find_scope(release, level, state).table(release)
        for depth, level in enumerate(release.levels)
        if depth >= top
    }
    tables = [table for table in redistricting_tables(release) if table.name in release.tabulated_by_state]
    recipes = _count_tables(session, release, tables, places, _pieces(ranges, top), estimates)
    return {release.public(release.of_state(name.lower(), state)): recipe for name, recipe in recipes.items()}


def united_recipes(session: Session, release: TopDownRelease) -> dict[Table, Recipe]:
    """The recipes of the tables made by state, if any: for each, a table of the rows above the states, from the
    estimates, and the view that appends the rows of all states to it."""
    tables = [table for table in redistricting_tables(release) if table.name in release.tabulated_by_state]
    if not tables:
        return {}
    states, places = read_states(session, release), count_places(session, release)
    above = release.levels[: release.levels.index(level_of_states(release.levels))]
    spine, pieces = release.public(SPINE), _pieces([(0, places[level]) for level in above])
    estimates = dict(enumerate(release.public(release.estimates(level)) for level in above))
    recipes: dict[Table, Recipe] = {}
    for name, recipe in _count_tables(session, release, tables, spine, pieces, estimates).items():
        table = redistricting_table(release, name)
        first = release.public(f"{table.name}_{ABOVE}")
        of_states = [release.public(release.of_state(table.name, state)) for state in states]
        recipes[first] = recipe
        recipes[table] = UNITED, {}, {"tables": [first, *of_states], "columns": list(session.columns(of_states[0]))}
    return recipes


def _count_tables(
    session: Session,
    release: TopDownRelease,
    tables: Sequence[RedistrictingTable],
    places: Table | Fragment,
    pieces: Sequence[Mapping[str, int]],
    estimates: Mapping[int, Table],
) -> dict[str, Recipe]:
    """By name, the recipes of tables of some places of the spine, from the estimates of their levels, by depth."""
    first, last = min(estimates), max(estimates)
    levels = list(estimates.items())
    counts = session.stage(f"estimates_from_{first}_to_{last}", "topdown/estimates_of_levels", levels=levels)
    named = release.dataset.place_names
    rows = pa.table({"geoid": list(named), "name": list(named.values())}, schema=_PLACE_NAMES)
    place_names = session.register("place_names", rows)
    names = {"spine": release.public(SPINE), "places": places, "names": place_names}

    def read(table: RedistrictingTable, piece: Mapping[str, int]) -> tuple[pa.Table, pa.Table]:
        of_table = {**piece, "histogram": table.schema.name, "cells": table.schema.size}
        counted = session.arrow("topdown/counts_tabulated", of_table, counts=counts, places=places)
        return session.arrow("topdown/places_tabulated", piece, **names), counted

    def list_rows(table: RedistrictingTable) -> Iterator[pa.Table]:
        # A thread adds up one piece while the previous one is stored.
        described = (read(table, piece) for piece in pieces)
        with closing(in_threads(lambda piece, _: _add_cells(table, *piece), described, 1)) as rows:
            yield from rows

    recipes: dict[str, Recipe] = {}
    for table in tables:
        values, rows = session.register_in_turn(f"rows_of_{table.name}", list_rows(table))
        recipes[table.name] = ("warehouse/all", values, {"source": rows})
    return recipes


def _add_cells(table: RedistrictingTable, places: pa.Table, counted: pa.Table) -> pa.Table:
    """Places with the cells of a table, from counts by position of the place and by cell of the histogram."""
    position, cell, count = (counted[name].to_numpy() for name in ("position", "cell", "count"))
    leaf, leaves = table.leaf_of[cell], np.zeros((len(table.leaves), len(places)), dtype=np.int64)
    is_counted = leaf >= 0
    # With one index, NumPy takes a tenth of the time.
    np.add.at(leaves.ravel(), (leaf * len(places) + position)[is_counted], count[is_counted])
    for each, counts in zip(table.cells, table.add_leaves(leaves), strict=True):
        places = places.append_column(each.name, pa.array(counts))
    return places


def exact_products(release: TopDownRelease) -> tuple[str, ...]:
    return tuple(name for name in STATISTICS if name in release.products)


def exact_table(release: TopDownRelease, name: str) -> Table:
    return release.public(f"exact_{name}")


def queries(design: TopDownDesign) -> pa.Table:
    """A row for each query of a histogram at a level, with its budget and variance (`published` has the columns)."""
    rows = []
    for query in design.measured:
        allocation = design.allocations[query.histogram]
        rows.append(
            {
                "histogram": query.histogram,
                "level": query.level,
                "query": query.query,
                "share_of_level": str(allocation.levels[query.level]),
                "share_of_query": str(allocation.queries[query.level][query.query]),
                "rho": str(query.loss.rho),
                "parameter": str(query.variance),
                "variance": query.noise.exact_variance.quantize(Decimal(1).scaleb(-PLACES), context=_CONTEXT),
                "cells": query.marginal.size,
            }
        )
    texts = ("histogram", "level", "query", "share_of_level", "share_of_query", "rho", "parameter")
    schema = pa.schema([*((name, pa.string()) for name in texts), ("variance", _VARIANCE), ("cells", pa.int64())])
    return pa.Table.from_pylist(rows, schema=schema)


def query_cells(design: TopDownDesign) -> pa.Table:
    """The cells counted by the answers: a row for each cell of each query, in the order of the answers.

    Each attribute and recode of all histograms has a column, with the code shared by all records in the cell; NULL if
    the query's cells do not determine it.
    """
    parts = []
    for histogram, query in dict.fromkeys((measured.histogram, measured.query) for measured in design.measured):
        schema = SCHEMAS[histogram]
        size = schema.marginal(query).size
        columns = {name: pa.nulls(size, pa.string()) for name in code_columns()}
        columns |= {name: _determined_codes(schema, query, name) for name in _names(schema)}
        named = {"histogram": pa.repeat(histogram, size), "query": pa.repeat(query, size)}
        parts.append(pa.table(named | {"position": pa.array(np.arange(size))} | columns))
    return pa.concat_tables(parts)


def code_columns() -> tuple[str, ...]:
    return tuple(name for schema in SCHEMAS.values() for name in _names(schema))


def _names(schema: Schema) -> list[str]:
    return [*(attribute.name for attribute in schema.attributes), *(recode.name for recode in schema.recodes)]


def _determined_codes(schema: Schema, query: str, name: str) -> pa.Array:
    """The published code of each cell in an attribute or recode; NULL if the query's cells do not determine it."""
    marginal, codes = schema.marginal(query), schema.marginal(name).cells
    of_cells = np.zeros(marginal.size, dtype=np.int64)
    of_cells[marginal.cells] = codes
    if not np.array_equal(of_cells[marginal.cells], codes):
        return pa.nulls(marginal.size, pa.string())
    return pa.array(np.array(INPUT_CODES[name])[of_cells])


def _pieces(ranges: Sequence[tuple[int, int]], top: int = 0) -> list[dict[str, int]]:
    """The bounds of pieces of places, by depth and number: the first place, the place after the last, and the range of
    numbers, from `least` up to but excluding `end`, that contains all numbers of the piece.

    `ranges` are the first number and the number after the last, by level from depth `top`."""
    firsts, lasts = np.array(ranges).T
    ends = np.cumsum(lasts - firsts)
    cuts = np.arange(0, ends[-1], PLACES_AT_A_TIME)
    below = np.searchsorted(ends, cuts, side="right")
    numbers = cuts - np.concatenate([[0], ends])[below] + firsts[below]
    bounds = [*zip((top + below).tolist(), numbers.tolist(), strict=True), (top + len(ends), 0)]
    return [
        {"depth": depth, "number": number, "to_depth": to_depth, "to_number": to_number}
        | ({"least": number, "end": to_number} if depth == to_depth else {"least": 0, "end": int(lasts.max())})
        for (depth, number), (to_depth, to_number) in pairwise(bounds)
    ]


def _preview_highest(session: Session, release: TopDownRelease, table: RedistrictingTable) -> dg.MetadataValue:
    """All cells of a table at the root and in the first places of the next level, for the asset's page."""
    columns: dict[str, str] = {"cell": f"What is counted: {table.universe}"}
    counts: list[list[str]] = []
    for level, most in zip(release.levels, (1, PLACES_SHOWN), strict=False):
        rows = session.rows(_OF_LEVEL, {"level": level}, table=redistricting_table(release, table.name))
        for _, _, geoid, *more in sorted(rows, key=lambda row: str(row[2]))[:most]:
            columns[geoid or words(level)] = f"The count in the place {words(level)} {geoid}".rstrip()
            counts.append([f"{cell:,}" for cell in more[-len(table.cells) :]])
    labels = ["\u2003" * (len(cell.path) - 1) + cell.path[-1] for cell in table.cells]
    return preview(columns, zip(labels, *counts, strict=True))
