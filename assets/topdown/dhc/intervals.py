"""The asset `intervals` of a DHC release: for the cells of its tables that completely drawn queries determine, the
linear estimate from the measurements of both releases, and a 90% interval, which follow without replicates.

`mechanisms.topdown.dhc.linear` has the mathematics. Only public tables are read, so nothing is charged.
"""

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache

import dagster as dg
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.measurement.method import MEASUREMENTS, GridError
from assets.release.stage import LazyRecipes, Recipes
from assets.tabulation.asset import build_tables
from assets.topdown.asking import stack_lists
from assets.topdown.dhc.given import read_units
from assets.topdown.dhc.products import cell_names
from assets.topdown.dhc.release import LINEAR, REDISTRICTING, TEXTS, DHCRelease
from assets.topdown.intervals import DIGITS, name_cells
from assets.topdown.release import INTERVALS
from assets.topdown.spine import read_codes, read_tree
from mechanisms.topdown.dhc.design import SCHEMAS
from mechanisms.topdown.dhc.households import UNITS
from mechanisms.topdown.dhc.levels import plan_levels
from mechanisms.topdown.dhc.linear import (
    Answers,
    Model,
    combine,
    fit,
    model_homes,
    model_persons,
    share,
)
from mechanisms.topdown.dhc.persons import PERSONS
from mechanisms.topdown.dhc.tables import DHC_TABLES
from mechanisms.topdown.dhc.tree import add_answers, climb
from mechanisms.topdown.information import round_intervals
from resources.statements import Table
from resources.warehouse import Recipe, Session, to_decimals

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]


def build_dhc_intervals(release: DHCRelease) -> dg.AssetsDefinition:
    return build_tables(
        release,
        [MEASUREMENTS, REDISTRICTING],
        TEXTS("intervals", name=release.redistricting.name),
        lambda session: intervals_recipes(session, release),
        stage=INTERVALS,
    )


def interval_table(release: DHCRelease, name: str) -> Table:
    return release.public(f"{name.lower()}_{INTERVALS}")


@cache
def find_cells(name: str) -> tuple[Numbers, Floats]:
    """The positions of the cells of one of `tables_of_intervals` that are determined, and how, as of
    `Model.express_table`."""
    table = DHC_TABLES[name]
    model = model_persons() if table.schema.name == PERSONS.name else model_homes()
    return model.express_table(table)


def intervals_recipes(session: Session, release: DHCRelease) -> Recipes:
    """The recipe of every table of the asset. They read what this function registers, in the same session."""
    models = {PERSONS.name: model_persons(), UNITS.name: model_homes()}
    of_models = {
        histogram: [name for name in release.tables_of_intervals if DHC_TABLES[name].schema.name in model.of_cell]
        for histogram, model in models.items()
    }
    of_table = {interval_table(release, name): (of, name) for of, names in of_models.items() for name in names}

    @lru_cache(maxsize=1)
    def estimate(histogram: str) -> Sequence[tuple[Floats, Numbers, Numbers]]:
        sums = np.concatenate([find_cells(name)[1] for name in of_models[histogram]])
        return _estimate(session, release, models[histogram], histogram, sums)

    def list_rows(histogram: str, name: str) -> Iterator[pa.Table]:
        names, cells = of_models[histogram], find_cells(name)[0].tolist()
        first = sum(len(find_cells(other)[0]) for other in names[: names.index(name)])
        for level, (linear, lower, upper) in zip(release.levels, estimate(histogram), strict=True):
            codes = read_codes(session, release, level)
            columns = {"level": pa.repeat(level, len(codes)), "geoid": codes}
            for number, cell in enumerate(cells, first):
                hundredths = np.rint(linear[:, number] * 10**DIGITS).astype(np.int64)
                own = to_decimals(hundredths, DIGITS), lower[:, number], upper[:, number]
                columns |= dict(zip(name_cells(cell_names(name)[cell]), own, strict=True))
            yield pa.table(columns)

    def make(table: Table) -> Recipe:
        pieces, rows = session.register_in_turn("rows_of_table", list_rows(*of_table[table]))
        return "warehouse/all", pieces, {"source": rows}

    return LazyRecipes(list(of_table), make)


def _estimate(
    session: Session, release: DHCRelease, model: Model, histogram: str, sums: Floats
) -> Sequence[tuple[Floats, Numbers, Numbers]]:
    """By level: the linear estimates of sums of the model, and the ends of their intervals, shape (places, sums)."""
    shared = share(model)
    levels = read_answers(session, release, model)
    shapes = [(len(level.parents), len(sums)) for level in levels]
    other = [
        read_shared(session, release, histogram, level, (places, len(shared.sums)))
        for level, (places, _) in zip(release.levels, shapes, strict=True)
    ]
    found = [(np.empty(each), np.empty(each, dtype=np.int64), np.empty(each, dtype=np.int64)) for each in shapes]
    for depth, linear in fit(model, levels, sums, shared.sums):
        estimate, variance = combine(linear, *(each[linear.places] for each in other[depth]))
        most = np.full(estimate[:, : len(sums)].shape, np.inf)
        if depth:
            most = found[depth - 1][2][levels[depth].parents[linear.places]].astype(np.float64)
        ends = round_intervals(estimate[:, : len(sums)], variance[:, : len(sums)], most)
        for kept, values in zip(found[depth], (estimate[:, : len(sums)], *ends), strict=True):
            kept[linear.places] = values
    return found


def read_answers(session: Session, release: DHCRelease, model: Model) -> list[Answers]:
    """The stored answers to a model's queries, by level from the root's. Raises GridError unless they are complete."""
    tree, design = read_tree(session, release), release.design
    parents = [np.zeros(1, dtype=np.int64), *tree.parents]
    planned = {name: plan_levels(design.allocations[name], parents) for name in SCHEMAS}
    homes = read_units(session, release, tree.places(release.finest))[:, :2].sum(axis=1, keepdims=True)
    levels = []
    for depth, units in enumerate(climb(homes[:, : model.known], parents, add_answers)):
        of_level = {name: each[depth] for name, each in planned.items()}
        level, places = release.levels[depth], len(parents[depth])
        measured = np.flatnonzero(planned[PERSONS.name][depth].runs >= 0)
        answers = []
        for each in model.answered:
            values = {"histogram": each.schema.name, "level": level, "query": each.query}
            rows = session.arrow("topdown/answers_of_query", values, measurements=release.public(MEASUREMENTS))
            size, own = each.schema.marginal(each.query).size, np.zeros((places, each.size), dtype=np.int64)
            found = stack_lists(rows["answers"].combine_chunks(), size, pa.int32())
            if found is None or rows["number"].to_pylist() != measured.tolist():
                raise GridError(f"{release.schema}: {each.schema.name} {level} {each.query}: not drawn in full")
            own[measured] = found[:, : each.size]
            answers.append(own)
        levels.append(Answers(of_level, parents[depth], np.concatenate(answers, axis=1), units))
    return levels


def read_shared(
    session: Session, release: DHCRelease, histogram: str, level: str, shape: tuple[int, int]
) -> tuple[Floats, Floats]:
    """What is stored of the sums that both releases measured, shape (places, sums), and of their covariances, shape
    (places, sums, sums). Raises GridError unless it is complete."""
    values, (places, sums) = {"histogram": histogram, "level": level}, shape
    rows = session.arrow("topdown/linear_of_level", values, linear=release.public(LINEAR))
    estimate, covariance = (
        stack_lists(rows[name].combine_chunks(), size, pa.float64())
        for name, size in (("estimate", sums), ("covariance", sums**2))
    )
    if estimate is None or covariance is None or rows["number"].to_pylist() != list(range(places)):
        raise GridError(f"{release.public(LINEAR)}: {histogram} {level}: not every place has {sums} sums once")
    if not (np.isfinite(estimate).all() and np.isfinite(covariance).all()):
        raise GridError(f"{release.public(LINEAR)}: {histogram} {level}: a sum or a covariance is not finite")
    return estimate, covariance.reshape(places, sums, sums)
