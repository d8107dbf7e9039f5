"""The asset `intervals` of a DHC release: the linear estimates, standard errors and 90% intervals of table cells, from
the measurements of this release and of the redistricting data, without replicates. They cover the cells determined by
completely drawn queries of either release.

`mechanisms.topdown.dhc.linear` has the mathematics. The asset reads only public tables, so it costs no budget.
"""

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import dagster as dg
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.measurement.method import MEASUREMENTS, GridError
from assets.release.stage import LazyRecipes, Recipes
from assets.tabulation.asset import build_tables
from assets.topdown.asking import stack_lists
from assets.topdown.dhc.given import read_units
from assets.topdown.dhc.levels import list_parents, plan_histograms
from assets.topdown.dhc.products import cell_names
from assets.topdown.dhc.release import LINEAR, REDISTRICTING, TEXTS, DHCRelease
from assets.topdown.intervals import DIGITS, name_cells, name_error
from assets.topdown.release import INTERVALS
from assets.topdown.spine import read_codes, read_tree
from mechanisms.topdown.dhc.design import DHCDesign
from mechanisms.topdown.dhc.households import UNITS
from mechanisms.topdown.dhc.linear import (
    Answers,
    Model,
    Told,
    combine,
    express_before,
    find_models,
    fit,
    share,
)
from mechanisms.topdown.dhc.persons import PERSONS
from mechanisms.topdown.dhc.tables import DHC_TABLES
from mechanisms.topdown.dhc.tree import add_answers, climb
from mechanisms.topdown.information import round_intervals
from resources.arrays import to_decimals
from resources.statements import Table
from resources.warehouse import Recipe, Session

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


class Determined(NamedTuple):
    """The determined cells of a table.

    Attributes:
        positions: the positions of the cells, ascending.
        other: by cell, the position in `Shared.others`; -1 if this release's own answers determine the cell.
        sums: the cells determined by own answers, in order, as in `Model.express`.
    """

    positions: Numbers
    other: Numbers
    sums: Floats


def find_cells(design: DHCDesign, name: str) -> Determined:
    """The determined cells of one of `tables_of_intervals`."""
    models = find_models(design)
    return _find_cells(models[PERSONS.name if DHC_TABLES[name].schema.name == PERSONS.name else UNITS.name], name)


@cache
def _find_cells(model: Model, name: str) -> Determined:
    table = DHC_TABLES[name]
    own, sums = model.express_table(table)
    other = dict.fromkeys(own.tolist(), -1)
    if table.schema.name == PERSONS.name:
        before, numbers = express_before(table), _number_others(model)
        other |= {position: numbers[before[position].tobytes()] for position in set(before) - set(other)}
    positions = np.array(sorted(other), dtype=np.int64)
    return Determined(positions, np.array([other[position] for position in positions.tolist()]), sums)


@cache
def _number_others(model: Model) -> dict[bytes, int]:
    return {counted.tobytes(): number for number, counted in enumerate(share(model).others)}


def intervals_recipes(session: Session, release: DHCRelease) -> Recipes:
    """The recipe of every table of the asset. The recipes read relations registered by this function, in the same
    session."""
    models = find_models(release.design)
    of_models = {
        histogram: [name for name in release.tables_of_intervals if DHC_TABLES[name].schema.name in model.of_cell]
        for histogram, model in models.items()
    }
    of_table = {interval_table(release, name): (of, name) for of, names in of_models.items() for name in names}

    @lru_cache(maxsize=1)
    def estimate(histogram: str) -> Sequence[Estimated]:
        sums = np.concatenate([_find_cells(models[histogram], name).sums for name in of_models[histogram]])
        return _estimate(session, release, models[histogram], histogram, sums)

    def list_rows(histogram: str, name: str) -> Iterator[pa.Table]:
        names, model = of_models[histogram], models[histogram]
        cells = _find_cells(model, name)
        before, every = (
            sum(len(_find_cells(model, each).sums) for each in some) for some in (names[: names.index(name)], names)
        )
        numbers = np.where(cells.other < 0, before + np.cumsum(cells.other < 0) - 1, every + cells.other)
        for level, found in zip(release.levels, estimate(histogram), strict=True):
            codes = read_codes(session, release, level)
            columns = {"level": pa.repeat(level, len(codes)), "geoid": codes}
            for position, number in zip(cells.positions.tolist(), numbers.tolist(), strict=True):
                cell = cell_names(name)[position]
                linear, error = (_to_hundredths(each[:, number]) for each in (found.estimate, found.error))
                of_cell = linear, found.lower[:, number], found.upper[:, number]
                columns |= dict(zip(name_cells(cell), of_cell, strict=True)) | {name_error(cell): error}
            yield pa.table(columns)

    def make(table: Table) -> Recipe:
        pieces, rows = session.register_in_turn("rows_of_table", list_rows(*of_table[table]))
        return "warehouse/all", pieces, {"source": rows}

    return LazyRecipes(list(of_table), make)


def _to_hundredths(values: Floats) -> pa.Array:
    return to_decimals(np.rint(values * 10**DIGITS).astype(np.int64), DIGITS)


class Estimated(NamedTuple):
    """The linear estimates of sums at a level, their standard errors, and the ends of their intervals, shape (places,
    sums)."""

    estimate: Floats
    error: Floats
    lower: Numbers
    upper: Numbers


def _estimate(session: Session, release: DHCRelease, model: Model, histogram: str, sums: Floats) -> Sequence[Estimated]:
    """By level, the estimates of the model's `sums`, followed by the sums that only the redistricting data measured."""
    shared = share(model)
    levels = read_answers(session, release, model)
    wanted = np.r_[: len(sums), len(sums) + len(shared.sums) + np.arange(len(shared.others))]
    told = [
        read_told(session, release, histogram, name, (len(level.parents), len(shared.counted), len(shared.sums)))
        for name, level in zip(release.levels, levels, strict=True)
    ]
    found = [
        Estimated(*(np.empty((len(level.parents), len(wanted)), kind) for kind in (float, float, np.int64, np.int64)))
        for level in levels
    ]
    for depth, linear in fit(model, levels, sums, shared.sums):
        estimate, variance = (each[:, wanted] for each in combine(linear, told[depth].take(linear.places)))
        most = np.full(estimate.shape, np.inf)
        if depth:
            most = found[depth - 1].upper[levels[depth].parents[linear.places]].astype(np.float64)
        own = estimate, np.sqrt(np.maximum(variance, 0.0)), *round_intervals(estimate, variance, most)
        for kept, values in zip(found[depth], own, strict=True):
            kept[linear.places] = values
    return found


def read_answers(session: Session, release: DHCRelease, model: Model) -> list[Answers]:
    """The stored answers to a model's queries, by level from the root. Raises GridError unless they are complete."""
    tree = read_tree(session, release)
    parents, planned = list_parents(tree), plan_histograms(release, tree)
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


def read_told(session: Session, release: DHCRelease, histogram: str, level: str, shape: tuple[int, int, int]) -> Told:
    """The stored estimates of the sums measured by the redistricting data; the first of these sums are shared. `shape`
    is the shape of the covariances, (places, sums, shared). Raises GridError unless the estimates are complete."""
    table, (places, sums, shared) = release.public(LINEAR), shape
    if "variance" not in session.columns(table):
        raise GridError(f"{table}: made by an earlier version; make the stage {REDISTRICTING} again")
    rows = session.arrow("topdown/linear_of_level", {"histogram": histogram, "level": level}, linear=table)
    sizes = {"estimate": sums, "variance": sums, "covariance": sums * shared}
    found = {name: stack_lists(rows[name].combine_chunks(), size, pa.float64()) for name, size in sizes.items()}
    lists = [own for own in found.values() if own is not None]
    if len(lists) < len(found) or rows["number"].to_pylist() != list(range(places)):
        raise GridError(f"{table}: {histogram} {level}: not every place has {sums} sums once")
    if not all(np.isfinite(own).all() for own in lists):
        raise GridError(f"{table}: {histogram} {level}: a sum, a variance or a covariance is not finite")
    estimate, variance, covariance = lists
    return Told(estimate, variance, covariance.reshape(shape))
