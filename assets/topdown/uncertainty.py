"""The asset `uncertainty`: the errors of all cells of the redistricting tables from the replicates, and a summary.

`replicates` makes the replicates, and `mechanisms.topdown.replicates` has the rules. The asset reads only public
tables. A gate makes the tables again.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import product

import dagster as dg
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.conventions import preview
from assets.release.prose import Prose
from assets.release.statement import Accuracy
from assets.tabulation.asset import build_tables
from assets.topdown.histograms import add_up_finest
from assets.topdown.release import REPLICATES, SPINE, SUMMARY, TEXTS, UNCERTAINTY, TopDownRelease, TreeRelease
from assets.topdown.spine import read_tree
from assets.topdown.tables import redistricting_tables
from mechanisms.topdown.design import SCHEMAS, words
from mechanisms.topdown.redistricting import RedistrictingTable
from mechanisms.topdown.replicates import Moments, add_deviations, compute_intervals
from mechanisms.topdown.schema import Schema, Sums
from resources.statements import Table
from resources.warehouse import Recipe, Session

PLACES_AT_A_TIME = 8192

SIZES = (0, 1, 10, 100, 1_000, 10_000)
"""The minimum count of each size of cell."""

COLUMNS = {
    "level": "Geographic level",
    "geoid": "Code of the place",
    "cell": "Standard name of the cell",
    "estimate": "The published count",
    "standard_error": "Square root of the mean squared deviation of the replicates from the published count",
    "lower": "Lower end of the 90% interval",
    "upper": "Upper end of the 90% interval",
    "bias": "Mean deviation of the replicates: how much too high the count is expected to be",
    "table_name": "The redistricting table",
    "least": "The least published count of a cell of this size",
    "most": "The greatest published count of a cell of this size; empty if there is no limit",
    "cells": "Number of cells in all places of the level",
    "mean_absolute_error": "Mean absolute deviation of the replicates from the published counts",
}

_HUNDREDTHS = 100
_PLACES = 4
_DECIMAL = pa.decimal128(18, _PLACES)


def build_uncertainty(release: TopDownRelease) -> dg.AssetsDefinition:
    return build_tables(
        release,
        [REPLICATES],
        TEXTS(
            "uncertainty",
            tables=[table.name for table in redistricting_tables(release)],
            replicates=release.declaration.replicates,
        ),
        lambda session: uncertainty_recipes(session, release),
        COLUMNS,
        lambda session: {"errors by level": preview_summary(session, release, redistricting_tables(release)[0].name)},
        stage=UNCERTAINTY,
    )


def uncertainty_table(release: TreeRelease, name: str) -> Table:
    return release.public(f"{name.lower()}_{UNCERTAINTY}")


def uncertainty_recipes(session: Session, release: TopDownRelease) -> dict[Table, Recipe]:
    """The recipe of every table of the asset, from the estimates of the finest level and the replicates.

    The recipes read relations registered by this function, and work only in the same session.
    """
    recipes: dict[Table, Recipe] = {}
    summary = Summary()
    for schema in SCHEMAS.values():
        tables = [table for table in redistricting_tables(release) if table.schema is schema]
        if not tables:
            continue
        errors: dict[str, list[pa.Table]] = {table.name: [] for table in tables}
        for depth, first, moments in _compute_moments(session, release, schema, tables):
            for table, of_table in zip(tables, _split(moments, tables), strict=True):
                errors[table.name].append(list_errors(of_table, release.declaration.replicates, depth, first))
                summary.add(table.name, release.levels[depth], of_table)
        for table in tables:
            cells = pa.table({"position": np.arange(len(table.cells)), "cell": [cell.name for cell in table.cells]})
            names = {
                "spine": release.public(SPINE),
                "cells": session.register(f"cells_of_{table.name}", cells),
                "errors": session.register(f"errors_of_{table.name}", pa.concat_tables(errors[table.name])),
            }
            recipes[uncertainty_table(release, table.name)] = ("topdown/uncertainty", {}, names)
    named = [table.name for table in redistricting_tables(release)]
    made = summary.list_rows(named, release.levels, release.declaration.replicates)
    rows = session.register("made_summary", made)
    recipes[release.public(SUMMARY)] = ("warehouse/all", {}, {"source": rows})
    return recipes


class Summary:
    """Sums over all cells of a table at a level, by size of cell, shape (3, sizes): the number of cells, the sums of
    distances and the sums of deviations."""

    def __init__(self) -> None:
        self._sums = defaultdict[tuple[str, str], NDArray[np.int64]](lambda: np.zeros((3, len(SIZES)), np.int64))

    def add(self, table: str, level: str, moments: Moments) -> None:
        sums, size = self._sums[table, level], np.searchsorted(SIZES, moments.estimate.ravel(), side="right") - 1
        np.add.at(sums[0], size, 1)
        np.add.at(sums[1], size, moments.distances.ravel())
        np.add.at(sums[2], size, moments.deviations.ravel())

    def list_rows(self, tables: Sequence[str], levels: Sequence[str], replicates: int) -> pa.Table:
        """A row for each table, level and size with cells, in the order of tables, levels and sizes."""
        rows = []
        for table, level in product(tables, levels):
            for size, (cells, distances, deviations) in enumerate(self._sums[table, level].T.tolist()):
                if cells:
                    pairs = cells * replicates
                    most = SIZES[size + 1] - 1 if size + 1 < len(SIZES) else None
                    means = _round(Fraction(distances, pairs)), _round(Fraction(deviations, pairs))
                    rows.append((table, level, SIZES[size], most, cells, *means))
        kinds = {
            **dict.fromkeys(("table_name", "level"), pa.string()),
            **dict.fromkeys(("least", "most", "cells"), pa.int64()),
            **dict.fromkeys(("mean_absolute_error", "bias"), _DECIMAL),
        }
        return pa.Table.from_pylist(
            [dict(zip(kinds, row, strict=True)) for row in rows], schema=pa.schema(list(kinds.items()))
        )


def _compute_moments(
    session: Session, release: TopDownRelease, schema: Schema, tables: Sequence[RedistrictingTable]
) -> Iterator[tuple[int, int, Moments]]:
    """The depth of the level, the first place, and the moments of all cells of the tables side by side, for each batch
    of places."""
    tree, replicates = read_tree(session, release), release.public(REPLICATES)
    sums = Sums(np.concatenate([[cell.counted for cell in table.cells] for table in tables]))
    read, finest = partial(add_up_finest, session, tree, schema), release.public(release.estimates(release.finest))
    for depth, level in enumerate(release.levels):
        places = tree.places(level)
        for first in range(0, places, PLACES_AT_A_TIME):
            own = level, first, min(first + PLACES_AT_A_TIME, places)
            published = read(finest, *own)
            others = (
                sums.of(read(replicates, *own, replicate=number + 1), 0, own[2] - first)
                for number in range(release.declaration.replicates)
            )
            yield depth, first, add_deviations(sums.of(published, 0, own[2] - first), others)


def _split(moments: Moments, tables: Sequence[RedistrictingTable]) -> Iterator[Moments]:
    ends = np.cumsum([len(table.cells) for table in tables])[:-1]
    arrays = [np.split(array, ends, axis=1) for array in vars(moments).values()]
    return (Moments(*of_table) for of_table in zip(*arrays, strict=True))


def list_errors(moments: Moments, replicates: int, depth: int, first: int, *, median: bool = False) -> pa.Table:
    """The cells that are not 0 in the published tables or a replicate, with their errors."""
    place, position = np.nonzero((moments.estimate != 0) | (moments.squares != 0))
    own = Moments(*(array[place, position] for array in vars(moments).values()))
    errors = compute_intervals(own, replicates, median=median)
    return pa.table(
        {
            "depth": np.full(len(place), depth),
            "number": first + place,
            "position": position,
            "estimate": own.estimate,
            "standard_error": np.rint(errors.standard_error * _HUNDREDTHS).astype(np.int64),
            "lower": errors.lower,
            "upper": errors.upper,
            "bias": np.rint(errors.bias * _HUNDREDTHS).astype(np.int64),
        }
    )


def _round(mean: Fraction) -> Decimal:
    return Decimal(round(mean * 10**_PLACES)).scaleb(-_PLACES)


def preview_summary(session: Session, release: TreeRelease, first: str) -> dg.MetadataValue:
    """The errors of a table by level and size of cell."""
    rows = session.rows("warehouse/all", source=release.public(SUMMARY))
    return preview(
        {
            "level": f"Errors of {first}",
            "count": "Size of cell: the published count",
            "error": COLUMNS["mean_absolute_error"],
            "bias": COLUMNS["bias"],
        },
        [
            (words(level), describe_size(least, most), error, bias)
            for table, level, least, most, _, error, bias in rows
            if table == first
        ],
    )


def describe_errors(
    session: Session, release: TreeRelease, replicates: int, tables: Collection[str], texts: Prose = TEXTS
) -> Accuracy:
    """The errors of some tables by level and size of cell, for the certificate."""
    rows = session.rows("warehouse/all", source=release.public(SUMMARY))
    return Accuracy(
        summary=texts("accuracy in the certificate", replicates=replicates),
        columns=("Table", "Level", "Published count", "Cells", "Mean absolute error", "Bias"),
        rows=tuple(
            (table, words(level), describe_size(least, most), cells, float(error), float(bias))
            for table, level, least, most, cells, error, bias in rows
            if table in tables
        ),
        note=texts("accuracy in the certificate, note"),
    )


def describe_size(least: int, most: int | None) -> str:
    if most is None:
        return f"{least:,} and more"
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"
