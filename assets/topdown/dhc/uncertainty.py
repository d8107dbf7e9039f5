"""The asset `uncertainty` of a DHC release: the errors of its table cells from the replicates, and a summary.

It follows `assets.topdown.uncertainty`, the asset for redistricting tables. Cells that are 0 in a table and in every
replicate are left out. A median age has an error where the table and every replicate have one. The asset reads only
public tables.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import dagster as dg
import numpy as np
import pyarrow as pa

from assets.release.stage import LazyRecipes, Recipes, store_rows
from assets.tabulation.asset import build_tables
from assets.topdown.dhc.products import (
    cell_names,
    describe_table,
    group_tables,
    keep_few,
    list_runs,
    read_estimates,
    stage_groups,
    table_names,
)
from assets.topdown.dhc.release import TEXTS, DHCRelease
from assets.topdown.histograms import add_up_finest
from assets.topdown.release import REPLICATES, SPINE, SUMMARY, UNCERTAINTY
from assets.topdown.spine import Tree, read_tree
from assets.topdown.uncertainty import COLUMNS, Summary, list_errors, preview_summary, uncertainty_table
from mechanisms.topdown.dhc.design import SCHEMAS
from mechanisms.topdown.dhc.tables import MEDIAN_AGES, count_figures
from mechanisms.topdown.replicates import Moments, add_deviations
from mechanisms.topdown.schema import Counts
from resources.statements import Table
from resources.warehouse import Recipe, Session


def build_dhc_uncertainty(release: DHCRelease) -> dg.AssetsDefinition:
    first, *_ = list_first_tables(release)
    return build_tables(
        release,
        [REPLICATES],
        TEXTS("uncertainty", replicates=release.declaration.replicates),
        lambda session: uncertainty_recipes(session, release),
        COLUMNS,
        lambda session: {"errors by level": preview_summary(session, release, first)},
        stage=UNCERTAINTY,
    )


def list_first_tables(release: DHCRelease) -> Sequence[str]:
    """The first published table of counts of each histogram."""
    counted = {describe_table(name)[3]: name for name in reversed(table_names(release)) if name not in MEDIAN_AGES}
    return list(counted.values())[::-1]


def uncertainty_recipes(session: Session, release: DHCRelease) -> Recipes:
    """The recipe of every table of the asset. The recipes read relations registered by this function, in the same
    session. The summary's recipe adds up the errors of the other recipes. Tables with few cells are grouped: one
    reading of a run's counts gives the errors of a group, which stay in a temporary table until the next group. Memory
    holds the counts of one run."""
    declared, summary = release.declaration.replicates, Summary()
    of_table = {uncertainty_table(release, name): name for name in table_names(release)}
    runs, tree = list_runs(session, release, 1 + declared), read_tree(session, release)
    read = keep_few(partial(_read_counts, session, release, tree), runs, release)
    # A table is made from the errors of one run at a time; with few data, where each run is a level, from all at once.
    pieces = [(0, len(runs))] if len(runs) == len(release.levels) else [(run, run + 1) for run in range(len(runs))]

    def find_errors(names: Sequence[str]) -> Iterator[pa.Table]:
        histogram = describe_table(names[0])[3]
        for run, (depth, level, first, last) in enumerate(runs):
            counts = read(histogram, level, first, last)
            for number, (name, moments) in enumerate(_find_moments(names, counts, last - first)):
                if name not in MEDIAN_AGES:
                    summary.add(name, level, moments)
                errors = list_errors(moments, declared, depth, first, median=name in MEDIAN_AGES)
                of = {"of_table": np.full(len(errors), number), "run": np.full(len(errors), run)}
                yield pa.table(dict(zip(errors.column_names, errors.columns, strict=True)) | of)

    stage = stage_groups(session, group_tables(of_table.values()), find_errors)

    def make(table: Table) -> Recipe:
        if table not in of_table:
            rows = summary.list_rows(list(of_table.values()), release.levels, declared)
            return store_rows(session, "made_summary", rows)
        name = of_table[table]
        names, errors = stage(name)
        cells = cell_names(name)
        positions = pa.table({"position": np.arange(len(cells)), "cell": cells})
        values = [{"of_table": names.index(name), "first_run": first, "end": end} for first, end in pieces]
        given = {
            "spine": release.public(SPINE),
            "cells": session.register("cells_of_table", positions),
            "errors": errors,
            "median": name in MEDIAN_AGES,
        }
        return "dhc/uncertainty", values, given

    return LazyRecipes([*of_table, release.public(SUMMARY)], make)


def _read_counts(
    session: Session, release: DHCRelease, tree: Tree, histogram: str, level: str, first: int, last: int
) -> list[Counts]:
    """The published counts of some places of a level, and the counts of each replicate."""
    replicates = release.public(REPLICATES)
    return [
        read_estimates(session, release, histogram, level, first, last),
        *(
            add_up_finest(session, tree, SCHEMAS[histogram], replicates, level, first, last, replicate=number + 1)
            for number in range(release.declaration.replicates)
        ),
    ]


def _find_moments(names: Sequence[str], counts: Sequence[Counts], places: int) -> Iterator[tuple[str, Moments]]:
    """The moments of the cells of each table, from the published counts and the counts of each replicate. Median ages
    are in tenths; a median missing in any of them is 0 in all."""
    of_counts = [count_figures(names, each, places) for each in counts]
    for name in names:
        figures = [each[name] for each in of_counts]
        if name in MEDIAN_AGES:
            known = np.all([each >= 0 for each in figures], axis=0)
            figures = [np.where(known, each, 0) for each in figures]
        yield name, add_deviations(figures[0], figures[1:])
