"""The stages `estimates`, `microdata` and `tables`: the products of a DHC release besides measurements and spine.

`estimates` fills the empty facilities of group quarters, and adds up the blocks to all levels. The estimates are
expanded to microdata in the layout of the 2020 Census, and tabulated.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import closing
from functools import cache
from itertools import groupby
from math import prod
from typing import Any, TypeVar

import dagster as dg
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.conventions import StageKind, preview
from assets.measurement.method import MEASUREMENTS
from assets.release.stage import LazyRecipes, Recipes, build_stage
from assets.tabulation.asset import build_tables
from assets.topdown.declaration import PRODUCTION_SPINE
from assets.topdown.dhc.declaration import TABLES
from assets.topdown.dhc.given import read_facilities
from assets.topdown.dhc.levels import estimates_of
from assets.topdown.dhc.release import ESTIMATES, MICRODATA, TEXTS, DHCRelease
from assets.topdown.histograms import cut_places, read_counts
from assets.topdown.release import SPINE
from assets.topdown.spine import read_tree, stage_ancestry
from mechanisms.topdown.design import words
from mechanisms.topdown.dhc.design import SCHEMAS
from mechanisms.topdown.dhc.persons import PERSONS, QUARTERS
from mechanisms.topdown.dhc.quarters import fill_facilities, find_short
from mechanisms.topdown.dhc.records import PLACE, PRESENT, list_households, list_relationships
from mechanisms.topdown.dhc.tables import (
    DHC_TABLES,
    ITERATIONS,
    MEDIAN_AGES,
    P_L_TABLES,
    count_figures,
)
from mechanisms.topdown.redistricting import REDISTRICTING
from mechanisms.topdown.schema import Counts, Schema
from resources.processes import Stopped, in_threads
from resources.statements import SQL, Fragment, Table
from resources.warehouse import Recipe, Session

Numbers = NDArray[np.int64]
Of = TypeVar("Of")

ESTIMATE_COLUMNS = {
    "level": "Geographic level",
    "histogram": "Histogram: persons, units or households",
    "number": "Number of the place within its level, as in the spine",
    "cell": "Number of the cell in the histogram",
    "count": "Estimated count; cells with count 0 are left out",
}

_PLACE_NAMES = pa.schema({"geoid": pa.string(), "name": pa.string()})
_COLUMNS = SQL("dhc/columns", "SELECT {{ columns | ids }} FROM {{ source }}")
_TENTHS = pa.decimal128(4, 1)

_CELLS_TOGETHER = 250
"""The maximum number of cells of tables counted together, unless a single table has more; about the size of the widest
table."""


def build_filled(release: DHCRelease) -> dg.AssetsDefinition:
    def describe(session: Session, tables: Sequence[Table]) -> Mapping[str, Any]:
        rows = session.rows("dhc/by_level", {"levels": list(release.levels)}, estimates=tables[0])
        filled = list_persons(session, release, tables[0], level=release.finest)
        unfilled = sum(len(find_short(persons, facilities)) for _, persons, facilities in filled)
        shown = [(words(level), histogram, f"{cells:,}", f"{count:,}") for level, histogram, cells, count in rows]
        return {
            "counts": preview(["level", "histogram", "cells", "records"], shown),
            "places with a facility in which nobody could be placed": unfilled,
        }

    return build_stage(
        release,
        ESTIMATES,
        StageKind.POSTPROCESSING,
        TEXTS("estimates", finest=words(release.finest)),
        [release.estimates(release.finest), MEASUREMENTS],
        lambda session: estimates_recipes(session, release),
        ESTIMATE_COLUMNS,
        metadata=describe,
    )


def list_persons(
    session: Session, release: DHCRelease, estimates: Table | Fragment, **chosen: str
) -> Iterator[tuple[int, Counts, Numbers]]:
    """The finest places in batches: the first place, the persons, and the facilities, shape (places, 24)."""
    places = read_tree(session, release).places(release.finest)
    for first, last in cut_places(session, estimates, 0, places, 1, 0, **chosen):
        persons = read_counts(session, estimates, PERSONS.size, first, last, histogram=PERSONS.name, **chosen)
        yield first, persons.shift(-first), read_facilities(session, release, last - first, first)


def estimates_recipes(session: Session, release: DHCRelease) -> dict[Table, Recipe]:
    estimates = estimates_of(session, release, release.finest)
    filled = (
        pa.table(vars(fill_facilities(persons, facilities).shift(first)))
        for first, persons, facilities in list_persons(session, release, estimates)
    )
    pieces, some = session.register_in_turn("some_persons", filled)
    names = {
        "estimates": estimates,
        "persons": session.stage("filled_persons", "warehouse/all", pieces, source=some),
        "ancestry": stage_ancestry(session, release),
    }
    values = {"of_persons": PERSONS.name, "histograms": list(SCHEMAS), "levels": list(release.levels)}
    return {release.public(ESTIMATES): ("dhc/estimates_of_all_levels", values, names)}


def read_estimates(session: Session, release: DHCRelease, histogram: str, level: str, first: int, last: int) -> Counts:
    """The estimates of the places from `first` up to `last` of a level, renumbered from 0."""
    table, size = release.public(ESTIMATES), SCHEMAS[histogram].size
    return read_counts(session, table, size, first, last, level=level, histogram=histogram).shift(-first)


def list_runs(session: Session, release: DHCRelease, times: int = 1) -> list[tuple[int, str, int, int]]:
    """The runs of places whose estimates, `times` over, fit into memory together, by level from the root: depth and
    level, the first place, and the place after the last."""
    tree, table = read_tree(session, release), release.public(ESTIMATES)
    return [
        (depth, level, *places)
        for depth, level in enumerate(release.levels)
        for places in cut_places(session, table, 0, tree.places(level), times, level=level)
    ]


def keep_few(read: Callable[..., Of], runs: Sized, release: DHCRelease) -> Callable[..., Of]:
    """A function that reads a histogram in the places of a run of `list_runs`. With few data, where each run is a
    level, it reads each histogram once; with more data, every group of tables reads it again."""
    return cache(read) if len(runs) == len(release.levels) else read


def build_microdata(release: DHCRelease) -> dg.AssetsDefinition:
    def describe(session: Session, tables: Sequence[Table]) -> Mapping[str, Any]:
        rows = {table.name: session.count(table) for table in tables}
        return {
            "tables": preview(["table", "records"], [(name, f"{count:,}") for name, count in rows.items()]),
            "dagster/row_count": sum(rows.values()),
        }

    sources = [release.public(ESTIMATES), release.public(SPINE)]
    return build_stage(
        release,
        MICRODATA,
        StageKind.TABULATION,
        TEXTS("microdata", level=words(release.finest)),
        [ESTIMATES],
        lambda session: microdata_recipes(session, release),
        metadata=describe,
        version=lambda session, tables, _: session.content_version(sources),
    )


def microdata_recipes(session: Session, release: DHCRelease) -> dict[Table, Recipe]:
    relationships = [{"relgq": code, **row} for code, row in enumerate(list_relationships())]
    lists = {"relationships": relationships, "households": list_households()}
    shared = {
        "estimates": release.public(ESTIMATES),
        "spine": release.public(SPINE),
        "place_columns": place_columns(release),
        **{name: session.register(name, pa.Table.from_pylist(rows)) for name, rows in lists.items()},
    }
    persons, households = (_steps(SCHEMAS[name]) for name in ("persons", "households"))
    finest = {"finest": release.finest}
    units = finest | {"present": list(PRESENT), "quarters": list(map(str, QUARTERS))}
    return {
        release.public("persons"): ("dhc/persons_records", finest, shared | {"inner": persons, "ages": 116}),
        release.public("units"): ("dhc/units_records", units, shared | {"inner": households}),
    }


def place_columns(release: DHCRelease) -> list[tuple[str, int, int]]:
    """The columns of a record's place in the census layout; none if places have a different code. Block groups that are
    taken as given do not follow from a block's code, so records have none."""
    if release.spine[release.finest] != PRODUCTION_SPINE["Block"]:
        return []
    follows = release.dataset.block_group == "first_digit"
    return [(name, first, length) for name, (first, length) in PLACE.items() if follows or name != "TABBLKGRPCE"]


def _steps(schema: Schema) -> dict[str, int]:
    """By attribute, the number of cells between two neighboring codes."""
    sizes = [attribute.size for attribute in schema.attributes]
    return {part.name: prod(sizes[number + 1 :]) for number, part in enumerate(schema.attributes)}


def build_dhc_tables(release: DHCRelease) -> dg.AssetsDefinition:
    return build_tables(
        release,
        [MICRODATA],
        TEXTS("tables", tables=[f"{name} ({title})" for name, title in list_titles(release)]),
        lambda session: tables_recipes(session, release),
    )


def list_titles(release: DHCRelease) -> Iterator[tuple[str, str]]:
    for name in table_names(release):
        yield name, describe_table(name)[0]


def table_names(release: DHCRelease) -> list[str]:
    return [name for name in TABLES if name in release.products]


def table_of(release: DHCRelease, name: str) -> Table:
    return release.public(f"table_{name.lower()}")


@cache
def describe_table(name: str) -> tuple[str, str, tuple[str, ...], str]:
    """The title of a table, its universe, the labels of its cells, and the name of its histogram."""
    if name in MEDIAN_AGES:
        iteration = name[3:]
        of = f" ({ITERATIONS[iteration]})" if iteration else ""
        return f"Median age by sex{of}", "Persons", ("Both sexes", "Male", "Female"), PERSONS.name
    if name in P_L_TABLES:
        table = REDISTRICTING[f"P{int(name[1:]) - 7}"]
        return table.title, table.universe, tuple(cell.label for cell in table.cells), PERSONS.name
    own = DHC_TABLES[name]
    return own.title, own.universe, tuple(cell.label for cell in own.cells), own.schema.name


def tables_recipes(session: Session, release: DHCRelease) -> Recipes:
    of_places, runs = release.dataset.place_names, list_runs(session, release)
    named = pa.table({"geoid": list(of_places), "name": list(of_places.values())}, schema=_PLACE_NAMES)
    places = session.arrow(
        "dhc/places", names=session.register("place_names", named), spine=release.public(SPINE)
    ).combine_chunks()
    tree = read_tree(session, release)
    begin = np.cumsum([0, *map(tree.places, release.levels)]).tolist()
    of_table = {table_of(release, name): name for name in table_names(release)}

    def read_run(*run: Any) -> Counts:
        with session.open_sibling() as own:
            return read_estimates(own, release, *run)

    read = keep_few(read_run, runs, release)

    def count(names: Sequence[str]) -> Iterator[pa.Table]:
        histogram = describe_table(names[0])[3]

        def count_run(run: tuple[int, str, int, int], stopped: Stopped) -> pa.Table:
            depth, level, first, last = run
            own, counts = places.slice(begin[depth] + first, last - first), read(histogram, level, first, last)
            columns = dict(zip(own.column_names, own.columns, strict=True))
            for name, figures in count_figures(names, counts, last - first).items():
                columns |= zip(cell_names(name), to_columns(name, figures), strict=True)
            return pa.table(columns)

        with closing(in_threads(count_run, runs, release.processes)) as tables:
            yield from tables

    groups = group_tables(of_table.values())
    alone = {name for name, *others in groups if not others}
    stage = stage_groups(session, groups, count)

    def make(table: Table) -> Recipe:
        name = of_table[table]
        if name in alone:
            pieces, counted = session.register_in_turn("counted", count([name]))
            return "warehouse/all", pieces, {"source": counted}
        return _COLUMNS, {}, {"columns": [*places.column_names, *cell_names(name)], "source": stage(name)[1]}

    return LazyRecipes(list(of_table), make)


def stage_groups(
    session: Session, groups: Sequence[Sequence[str]], find: Callable[[Sequence[str]], Iterator[pa.Table]]
) -> Callable[[str], tuple[Sequence[str], Fragment]]:
    """A function that returns the group of a table with the results of `find` for it. The results stay in a temporary
    table until a call for a table of another group."""
    together = {name: names for names in groups for name in names}
    staged: tuple[Sequence[str], Fragment] | None = None

    def stage(name: str) -> tuple[Sequence[str], Fragment]:
        nonlocal staged
        names = together[name]
        if staged is None or staged[0] != names:
            in_turn, found = session.register_in_turn("found_in_turn", find(names))
            staged = names, session.stage("found_together", "warehouse/all", in_turn, source=found)
        return staged

    return stage


def group_tables(names: Iterable[str]) -> list[list[str]]:
    """The groups of consecutive tables counted in one reading of their histogram, by number of cells."""
    groups = list[list[str]]()
    for _, of_histogram in groupby(names, lambda name: describe_table(name)[3]):
        room = 0
        for name in of_histogram:
            cells = len(cell_names(name))
            if room < cells:
                groups.append([])
                room = _CELLS_TOGETHER
            groups[-1].append(name)
            room -= cells
    return groups


def cell_names(name: str) -> list[str]:
    return [f"{name}_{number:03}N" for number, _ in enumerate(describe_table(name)[2], 1)]


def count_cells(name: str, counts: Counts, places: int) -> list[pa.Array]:
    """The cells of a table, one array per cell with all places."""
    return to_columns(name, count_figures([name], counts, places)[name])


def to_columns(name: str, figures: Numbers) -> list[pa.Array]:
    """The figures of a table, shape (places, cells), as one array per cell."""
    return list(map(to_tenths if name in MEDIAN_AGES else pa.array, np.ascontiguousarray(figures.T)))


def to_tenths(tenths: Numbers) -> pa.Array:
    """Numbers in tenths as decimals; NULL for negative ones. A decimal has 128 bits, whose upper half is 0 for a small
    number."""
    known, halves = pa.array(tenths >= 0), np.column_stack([np.maximum(tenths, 0), np.zeros_like(tenths)])
    return pa.Array.from_buffers(_TENTHS, len(tenths), [known.buffers()[1], pa.py_buffer(halves)])
