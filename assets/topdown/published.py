"""The published tables of TopDown: redistricting tables, microdata, spine, exact statistics and noisy measurements.

This module describes them for the data dictionary. `tables` and earlier modules make them.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from assets.measurement.method import MEASUREMENTS
from assets.release.microdata import CountedTable, Counting, Microdata
from assets.release.prose import Prose
from assets.release.published import ESTIMATE, PublishedColumn, PublishedTable, error_columns
from assets.topdown.intervals import COLUMNS as OF_INTERVALS
from assets.topdown.intervals import interval_table, name_cells, name_error
from assets.topdown.measurements import COLUMNS
from assets.topdown.release import QUERIES, QUERY_CELLS, SPINE, SUMMARY, TEXTS, TopDownRelease, TreeRelease
from assets.topdown.tables import (
    INPUT_CODES,
    RECORD_COLUMNS,
    code_columns,
    exact_products,
    exact_table,
    redistricting_table,
    redistricting_tables,
)
from assets.topdown.uncertainty import COLUMNS as ERROR_COLUMNS
from assets.topdown.uncertainty import uncertainty_table
from mechanisms.topdown.design import GROUP_QUARTERS, SCHEMAS, STATISTICS, words
from mechanisms.topdown.redistricting import CODES, REDISTRICTING, RedistrictingTable
from mechanisms.topdown.schema import PERSONS, UNITS, Schema
from resources.statements import Table

_RECORD_TITLES = {PERSONS.name: "persons", UNITS.name: "housing units"}

_DEPTH = PublishedColumn("depth", "integer", "Number of the level; 0 for the root")
_GEOID = PublishedColumn("geoid", "string", "Code of the place")
_HISTOGRAM = PublishedColumn(
    "histogram",
    "string",
    "The histogram, by what it counts",
    {name: f"By {', '.join(attribute.name for attribute in schema.attributes)}" for name, schema in SCHEMAS.items()},
)


def published_tables(release: TopDownRelease) -> tuple[PublishedTable, ...]:
    """The declared products and, in every release, the spine and the lists of queries and of their cells."""
    return (
        *(describe_redistricting(release, table) for table in redistricting_tables(release)),
        *(_records(release, schema) for name, schema in SCHEMAS.items() if name in release.products),
        *(_exact(release, name) for name in exact_products(release)),
        *((_measurements(release),) if MEASUREMENTS in release.products else ()),
        *((describe_linear(release, table) for table in redistricting_tables(release)) if release.design.full else ()),
        *(_tables_of_errors(release) if release.declaration.replicates else ()),
        _queries(release),
        _query_cells(release),
        describe_spine(release),
    )


def list_microdata(release: TopDownRelease) -> Microdata:
    """The redistricting tables that follow from the published records, whether or not the release publishes them."""
    tables = {
        table.name: CountedTable(
            describe_redistricting(release, table),
            (
                Counting(
                    table.schema.name,
                    ("geoid",),
                    tuple(attribute.name for attribute in table.schema.attributes),
                    partial(_count_cells, table),
                ),
            ),
        )
        for table in REDISTRICTING.values()
        if table.schema.name in release.products
    }
    return Microdata(release.spine[release.finest].columns, release.finest, tables)


def _count_cells(table: RedistrictingTable, records: pa.Table, places: int) -> dict[str, NDArray[np.int64]]:
    keys = np.zeros(len(records), dtype=np.int64)
    for attribute in table.schema.attributes:
        codes = pc.index_in(records[attribute.name], pa.array(INPUT_CODES[attribute.name]))
        keys = keys * attribute.size + codes.to_numpy()
    number, count = records["number"].to_numpy(), records["count"].to_numpy()
    found = {}
    for cell in table.cells:
        counted = cell.counted[keys]
        found[cell.name] = np.zeros(places, dtype=np.int64)
        np.add.at(found[cell.name], number[counted], count[counted])
    return found


def _tables_of_errors(release: TopDownRelease) -> tuple[PublishedTable, ...]:
    replicates = release.declaration.replicates
    return (
        *(
            describe_errors(
                release, table.name, table.title, {cell.name: cell.label for cell in table.cells},
                _unit(table.schema), replicates,
            )
            for table in redistricting_tables(release)
        ),
        describe_summary(release, replicates),
    )  # fmt: skip


def describe_errors(
    release: TreeRelease,
    name: str,
    title: str,
    cells: Mapping[str, str],
    unit: str,
    replicates: int,
    *,
    kind: str = "integer",
    texts: Prose = TEXTS,
) -> PublishedTable:
    """The table of errors of another table, whose `cells` map names to labels."""
    stored = uncertainty_table(release, name)
    estimate, error = ERROR_COLUMNS["estimate"], ERROR_COLUMNS["standard_error"]
    return PublishedTable(
        stored.name,
        f"Errors of {name}: {title}",
        texts("errors", table=name, median=kind != "integer"),
        stored,
        (
            _level(release),
            _GEOID,
            PublishedColumn("cell", "string", ERROR_COLUMNS["cell"], cells),
            *error_columns(kind, estimate, error, unit),
            replace(_error("bias", "decimal"), error_of=ESTIMATE),
        ),
        ("level", "geoid", "cell"),
        geography=("level", "geoid"),
        levels=_levels(release),
        interval=texts("interval", replicates=replicates),
    )


def describe_summary(release: TreeRelease, replicates: int) -> PublishedTable:
    return PublishedTable(
        SUMMARY,
        "Errors of the tables by level and size of cell",
        f"Means over the cells of a size and over {replicates} replicates.",
        release.public(SUMMARY),
        (
            _error("table_name", "string"),
            _level(release),
            _error("least", "integer"),
            _error("most", "integer", required=False),
            _error("cells", "integer"),
            _error("mean_absolute_error", "decimal"),
            _error("bias", "decimal"),
        ),
        ("table_name", "level", "least"),
    )


def describe_linear(release: Any, table: RedistrictingTable) -> PublishedTable:
    cells = {cell.name: cell.label for cell in table.cells}
    stored, text = interval_table(release, table.name), TEXTS("table of intervals", table=table.name)
    described = describe_intervals(release, stored, f"{table.name}: {table.title}", text, cells, _unit(table.schema))
    return replace(described, numbers=dict(zip(OF_INTERVALS, zip(*map(name_cells, cells), strict=True), strict=True)))


def describe_intervals(
    release: TreeRelease,
    stored: Table,
    of: str,
    text: str,
    cells: Mapping[str, str],
    unit: str,
    *,
    standard_errors: bool = False,
) -> PublishedTable:
    """The table of intervals of another table, whose `cells` map names to labels."""
    columns = []
    for cell, label in cells.items():
        estimate, *ends = name_cells(cell)
        columns.append(PublishedColumn(estimate, "decimal", f"Linear estimate: {label}", unit=unit))
        for end, which in zip(ends, ("Lower", "Upper"), strict=True):
            around = f"{which} end of the 90% interval around {estimate}"
            columns.append(PublishedColumn(end, "integer", around, error_of=estimate))
        if standard_errors:
            error = f"Standard error of {estimate}"
            columns.append(PublishedColumn(name_error(cell), "decimal", error, unit=unit, error_of=estimate))
    return PublishedTable(
        stored.name,
        f"Intervals of {of}",
        text,
        stored,
        (_level(release), _GEOID, *columns),
        ("level", "geoid"),
        geography=("level", "geoid"),
        levels=_levels(release),
    )


def _error(name: str, kind: str, required: bool = True) -> PublishedColumn:
    return PublishedColumn(name, kind, ERROR_COLUMNS[name], required=required)


def describe_redistricting(release: Any, table: RedistrictingTable) -> PublishedTable:
    return PublishedTable(
        table.name.lower(),
        f"{table.name}: {table.title}",
        TEXTS("redistricting table", universe=table.universe, agreement=_agreement(release)),
        redistricting_table(release, table.name),
        (
            _DEPTH,
            _level(release),
            _GEOID,
            PublishedColumn(
                "name", "string", "Name of the place, if the dataset declares one", required=False, names="geoid"
            ),
            *(PublishedColumn(cell.name, "integer", cell.label, unit=_unit(table.schema)) for cell in table.cells),
        ),
        ("level", "geoid"),
        geography=("level", "geoid"),
        levels=_levels(release),
    )


def _records(release: TopDownRelease, schema: Schema) -> PublishedTable:
    return PublishedTable(
        schema.name,
        f"Privacy-protected microdata: {_RECORD_TITLES[schema.name]}",
        TEXTS("records", agreement=_agreement(release)),
        release.public(schema.name),
        (
            PublishedColumn("record", "integer", RECORD_COLUMNS["record"]),
            PublishedColumn("geoid", "string", f"Code of the {words(release.finest)}"),
            *(
                PublishedColumn(name, "string", RECORD_COLUMNS[name], _labels(name))
                for name in (attribute.name for attribute in schema.attributes)
            ),
        ),
        ("record",),
    )


def _exact(release: TopDownRelease, name: str) -> PublishedTable:
    level = release.design.invariants[name]
    types: tuple[PublishedColumn, ...] = ()
    if name == GROUP_QUARTERS:
        labels = {code: label for code, label in CODES["hhgq"].items() if code}
        types = (PublishedColumn("category", "integer", "Type of group quarters", labels),)
    return PublishedTable(
        name,
        f"Exact: {STATISTICS[name].format(level=words(level))}",
        TEXTS("exact statistic"),
        exact_table(release, name),
        (
            PublishedColumn("level", "string", "Geographic level", {level: ""}),
            _GEOID,
            *types,
            PublishedColumn("count", "integer", "Exact count", unit=STATISTICS[name].format(level="place")),
        ),
        ("level", "geoid", *(column.name for column in types)),
        geography=("level", "geoid"),
        levels=_levels(release),
    )


def _measurements(release: TopDownRelease) -> PublishedTable:
    return PublishedTable(
        MEASUREMENTS,
        "Noisy measurements",
        TEXTS("measurements"),
        release.public(MEASUREMENTS),
        (
            _HISTOGRAM,
            _level(release),
            _query(release),
            PublishedColumn("number", "integer", COLUMNS["number"]),
            _GEOID,
            PublishedColumn("answers", "integers", COLUMNS["answers"]),
        ),
        ("histogram", "level", "query", "number"),
    )


def _queries(release: TopDownRelease) -> PublishedTable:
    return PublishedTable(
        QUERIES,
        "Queries, budgets and variances",
        TEXTS("queries"),
        release.public(QUERIES),
        (
            _HISTOGRAM,
            _level(release),
            _query(release),
            PublishedColumn("share_of_level", "string", "The level's share of the histogram's ρ, as a fraction"),
            PublishedColumn("share_of_query", "string", "The query's share of the level's ρ, as a fraction"),
            PublishedColumn("rho", "string", "ρ of the query at the level (zCDP), as an exact fraction"),
            PublishedColumn("parameter", "string", "σ², the parameter of each answer's noise, as an exact fraction"),
            PublishedColumn("variance", "decimal", "Exact variance of the noise, to 18 decimals"),
            PublishedColumn("cells", "integer", "Number of answers for each place"),
        ),
        ("histogram", "level", "query"),
    )


def _query_cells(release: TopDownRelease) -> PublishedTable:
    return PublishedTable(
        QUERY_CELLS,
        "Cells of the queries",
        TEXTS("query cells"),
        release.public(QUERY_CELLS),
        (
            _HISTOGRAM,
            _query(release),
            PublishedColumn("position", "integer", "Position in the list of answers, from 0"),
            *(
                PublishedColumn(
                    name,
                    "string",
                    RECORD_COLUMNS.get(name, "Household or kind of group quarters"),
                    _labels(name),
                    required=False,
                )
                for name in code_columns()
            ),
        ),
        ("histogram", "query", "position"),
    )


def _labels(name: str) -> dict[str, str]:
    return dict(zip(INPUT_CODES[name], CODES[name].values(), strict=True))


def describe_spine(release: TreeRelease) -> PublishedTable:
    return PublishedTable(
        SPINE,
        "Geographic spine",
        "The tree of places: every place lies in exactly one place of the level above.",
        release.public(SPINE),
        (
            _DEPTH,
            _level(release),
            PublishedColumn("number", "integer", "Number of the place within its level, from 0"),
            _GEOID,
            PublishedColumn(
                "parent", "integer", "Number of the parent in the level above; empty for the root", required=False
            ),
        ),
        ("level", "number"),
    )


def _agreement(release: TopDownRelease) -> str:
    """Whether persons and units agree, in a sentence."""
    return TEXTS("agreement", finest=words(release.finest)) if release.design.full else TEXTS("apart")


def _unit(schema: Schema) -> str:
    return _RECORD_TITLES[schema.name]


def _levels(release: TreeRelease) -> dict[str, str]:
    return {level: above for above, level in pairwise(release.levels)}


def _level(release: TreeRelease) -> PublishedColumn:
    return PublishedColumn("level", "string", "Geographic level", dict.fromkeys(release.levels, ""))


def _query(release: TopDownRelease) -> PublishedColumn:
    queries = dict.fromkeys((measured.query for measured in release.design.measured), "")
    return PublishedColumn("query", "string", "The query: the attributes it counts by, joined by *", queries)
