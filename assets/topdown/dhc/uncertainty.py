"""The asset `uncertainty` of a DHC release: for every cell of its tables, the error by the replicates, and a summary.

As `assets.topdown.uncertainty` has it for redistricting tables, but for the cells that are 0 in a table and in every
replicate, which are left out. A median age has an error where the table and every replicate have one. Only public
tables are read.
"""

from collections.abc import Sequence

import dagster as dg
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.tabulation.asset import build_tables
from assets.topdown.dhc.products import cell_names, count_cells, describe_table, read_estimates, table_names
from assets.topdown.dhc.release import TEXTS, DHCRelease
from assets.topdown.dhc.replicates import DHCReplication
from assets.topdown.release import REPLICATES, SPINE, SUMMARY, UNCERTAINTY
from assets.topdown.replicates import read_replicate
from assets.topdown.spine import read_tree
from assets.topdown.uncertainty import COLUMNS, Summary, list_errors, preview_summary, uncertainty_table
from mechanisms.topdown.dhc.design import SCHEMAS
from mechanisms.topdown.dhc.tables import MEDIAN_AGES
from mechanisms.topdown.dhc.tree import add_counts, climb
from mechanisms.topdown.replicates import Moments, add_deviations
from mechanisms.topdown.schema import Counts
from resources.statements import Table
from resources.warehouse import Recipe, Session


def build_dhc_uncertainty(release: DHCRelease) -> dg.AssetsDefinition:
    first = next(name for name in table_names(release) if name not in MEDIAN_AGES)
    return build_tables(
        release,
        [REPLICATES],
        TEXTS("uncertainty", replicates=release.declaration.replicates),
        lambda session: uncertainty_recipes(session, release),
        COLUMNS,
        lambda session: {"errors by level": preview_summary(session, release, first)},
        stage=UNCERTAINTY,
    )


def uncertainty_recipes(session: Session, release: DHCRelease) -> dict[Table, Recipe]:
    """The recipe of every table of the asset. They read what this function registers, in the same session."""
    tree, declared, summary = read_tree(session, release), release.declaration.replicates, Summary()
    parents = [np.zeros(1, dtype=np.int64), *tree.parents]
    names = table_names(release)
    errors: dict[str, list[pa.Table]] = {name: [] for name in names}
    replicates = [read_replicate(session, DHCReplication(release), number + 1) for number in range(declared)]
    for histogram in SCHEMAS:
        finest = [
            read_estimates(session, release, histogram, release.finest),
            *(each[histogram] for each in replicates),
        ]
        of_levels = zip(*(climb(each, parents, add_counts) for each in finest), strict=True)
        for depth, (level, counts) in enumerate(zip(release.levels, of_levels, strict=True)):
            for name in (each for each in names if describe_table(each)[3] == histogram):
                moments = _find_moments(name, counts, tree.places(level))
                errors[name].append(list_errors(moments, declared, depth, 0, median=name in MEDIAN_AGES))
                if name not in MEDIAN_AGES:
                    summary.add(name, level, moments)
    recipes: dict[Table, Recipe] = {}
    for name in names:
        cells = cell_names(name)
        positions = pa.table({"position": np.arange(len(cells)), "cell": cells})
        recipes[uncertainty_table(release, name)] = (
            "dhc/uncertainty",
            {},
            {
                "spine": release.public(SPINE),
                "cells": session.register(f"cells_of_{name}", positions),
                "errors": session.register(f"errors_of_{name}", pa.concat_tables(errors[name])),
                "median": name in MEDIAN_AGES,
            },
        )
    rows = session.register("made_summary", summary.list_rows(names, release.levels, declared))
    recipes[release.public(SUMMARY)] = ("warehouse/all", {}, {"source": rows})
    return recipes


def _find_moments(name: str, counts: Sequence[Counts], places: int) -> Moments:
    """The moments of a table's cells, from the published counts and those of each replicate. Median ages are in tenths;
    those that are missing somewhere are 0 everywhere."""
    figures = [_count(name, each, places) for each in counts]
    if name in MEDIAN_AGES:
        known = np.all([each >= 0 for each in figures], axis=0)
        figures = [np.where(known, each, 0) for each in figures]
    return add_deviations(figures[0], figures[1:])


def _count(name: str, counts: Counts, places: int) -> NDArray[np.int64]:
    """The figures of a table, shape (places, cells); tenths of years for median ages, and -1 for none."""
    columns = count_cells(name, counts, places)
    if name in MEDIAN_AGES:
        return np.array([[-1 if age is None else int(age * 10) for age in each.to_pylist()] for each in columns]).T
    return np.column_stack([each.to_numpy() for each in columns])
