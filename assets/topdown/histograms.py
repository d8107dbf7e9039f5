"""Histograms in the warehouse: the recipe of the exact histograms from the CEF, and functions that read any histograms.

The exact histograms stay confidential; a keyed version of them becomes part of the draw id. `spine` and `invariants`
contain the exact published statistics.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.measurement.method import GridError
from assets.topdown.release import HISTOGRAMS, TopDownRelease, TreeRelease
from assets.topdown.spine import Tree, place_by_code, placement, read_states, read_tree, stage_spine
from mechanisms.refusal import RefusedError
from mechanisms.topdown.design import SCHEMAS, level_of_states
from mechanisms.topdown.schema import PERSONS, Counts, Schema
from resources.statements import SQL, Fragment, Table
from resources.warehouse import Recipe, Session

MOST = 2**31 - 1
"""The maximum count of a cell."""

CELLS_AT_A_TIME = 2**20
"""The number of counts in a batch: of parents whose families are estimated together, or of places tabulated together. A
family is not divided."""

_CELLS_OF_PLACES = SQL(
    "topdown/cells_of_places",
    "SELECT number, count(*) AS cells {% include 'topdown/chosen_counts.sql' %} GROUP BY number",
)


_RULES = ("of unknown cells", f"that are not from 1 to {MOST:,}", "repeated")


class ImpossibleRecordsError(RefusedError, ValueError):
    """The CEF contains records that the edit constraints rule out. The message names the rule and the number of
    records."""


def histograms_recipe(session: Session, release: TopDownRelease) -> Recipe:
    return _count_placed(*placement(session, release))


def part_recipe(session: Session, release: TopDownRelease) -> Recipe:
    """The recipe of the histograms of a partition, for `added_recipe`."""
    return _count_placed(*place_by_code(session, release))


def _count_placed(values: Mapping[str, Any], names: Mapping[str, Any]) -> Recipe:
    attributes = [vars(attribute) for attribute in PERSONS.attributes]
    return "topdown/histograms", values, {**names, "attributes": attributes}


def added_recipe(session: Session, release: TreeRelease, counted: Mapping[str, Any]) -> Recipe:
    """The recipe of the histograms from those of all partitions, named as in `assets.measurement.parts`."""
    names = {**counted, "spine": stage_spine(session, release)}
    return "topdown/histograms_added_up", {"finest": release.finest}, names


def require_possible(session: Session, release: TopDownRelease) -> None:
    """Raise ImpossibleRecordsError if the stored histograms count records that the edit constraints rule out."""
    if impossible := sum(count_impossible(session, release.confidential(HISTOGRAMS)).values()):
        raise ImpossibleRecordsError(
            f"{release.schema}: {impossible:,} persons of the CEF are minors in nursing facilities, which the edit "
            "constraint rules out"
        )


def count_impossible(session: Session, histograms: Table) -> Mapping[str, int]:
    """By histogram, the number of records in cells that the edit constraints rule out."""
    records = {}
    for histogram, schema in SCHEMAS.items():
        values = {"histogram": histogram, "impossible": np.flatnonzero(~schema.possible).tolist()}
        records[histogram] = int(session.row("topdown/impossible", values, histograms=histograms)[0])
    return records


def roll_up(
    session: Session, release: TreeRelease, histograms: Table, histogram: str, level: str, state: str = ""
) -> Fragment:
    """Stage a histogram of a table at one level, of one state or of all, with the columns number, cell and count,
    without empty cells. Each record counts in one place, independent of the stored spine (`read_tree`)."""
    tree, above = read_tree(session, release), level_of_states(release.levels)
    number = read_states(session, release).index(state) if state else None
    first, last = tree.range_within(release.finest, above, number)
    places = pa.table({"finest": np.arange(first, last), "number": tree.find_above(level, first, last)})
    return session.stage(
        "rolled_up",
        "topdown/rolled_up",
        {"histogram": histogram},
        histograms=histograms,
        places=session.register("places_of_level", places),
    )


def read_counts(
    session: Session, counts: Table | Fragment, size: int, first: int = 0, last: int = 2**62, **chosen: str | int
) -> Counts:
    """The counts of the places from `first` up to `last`, of the chosen level, histogram and replicate; the histogram
    has `size` cells. Raises GridError as `check_counts`."""
    values = {"first": first, "last": last, **chosen}
    rows = session.arrow("topdown/counts", values, counts=counts, chosen=list(chosen))
    return check_counts(session, counts, size, rows, **chosen)


def check_counts(session: Session, counts: Table | Fragment, size: int, rows: pa.Table, **chosen: str | int) -> Counts:
    """The counts in rows read from a table, sorted by place and cell. Raises GridError if a count is of a cell outside
    the `size` cells of the histogram, is not from 1 to `MOST`, or is repeated."""
    columns = [rows[name] for name in ("number", "cell", "count")]
    whole = all(pa.types.is_integer(column.type) and not column.null_count for column in columns)
    if whole:
        number, cell, count = (column.to_numpy() for column in columns)
        known = cell.min(initial=0) >= 0 and cell.max(initial=0) < size
        positive = count.min(initial=1) > 0 and count.max(initial=1) <= MOST
        # The rows are mostly stored in order; checking that is faster than sorting in DuckDB.
        steps, within = np.diff(number), np.diff(cell)
        if np.any((steps < 0) | ((steps == 0) & (within < 0))):
            order = np.lexsort((cell, number))
            number, cell, count = number[order], cell[order], count[order]
            steps, within = np.diff(number), np.diff(cell)
        if known and positive and not np.any((steps == 0) & (within == 0)):
            return Counts(number, cell, count)
    values = {"size": size, "most": MOST, "first": -(2**63), "last": 2**63 - 1, **chosen}
    found = session.row("topdown/wrong_counts", values, counts=counts, chosen=list(chosen))
    problems = [f"{wrong:,} counts {rule}" for wrong, rule in zip(found, _RULES, strict=True) if wrong]
    raise GridError(f"{counts}: {', '.join(problems) or 'places, cells or counts that are not whole numbers'}")


def cut_places(
    session: Session,
    counts: Table | Fragment,
    first: int,
    last: int,
    times: int | NDArray[np.int64] = 1,
    least: int = 0,
    **chosen: str | int,
) -> list[tuple[int, int]]:
    """Runs of places from `first` up to `last`, of the chosen level if there are several, with up to `CELLS_AT_A_TIME`
    counts each; a single place may have more. A place is taken to have at least `least` counts. Each count is weighted
    by `times`: one number, or one for each place."""
    values = {"first": first, "last": last, **chosen}
    rows = session.arrow(_CELLS_OF_PLACES, values, counts=counts, chosen=list(chosen))
    cells = np.zeros(last - first, dtype=np.int64)
    cells[rows["number"].to_numpy() - first] = rows["cells"].to_numpy()
    runs = np.maximum(np.cumsum(times * np.maximum(cells, least)) - 1, 0) // CELLS_AT_A_TIME
    ends = np.append(np.flatnonzero(np.diff(runs)) + 1, last - first) + first
    return list(pairwise([first, *ends.tolist()]))


def add_up_finest(
    session: Session, tree: Tree, schema: Schema, finest: Table, level: str, first: int, last: int, **chosen: int
) -> Counts:
    """The counts of a histogram in the places from `first` up to `last` of a level, renumbered from 0, added up from a
    table of counts of the finest level, of the chosen replicate if there are several. Raises GridError."""
    begin, end = tree.extend_below(level, first, last)[-1]
    own = pa.table({"finest": np.arange(begin, end), "number": tree.find_above(level, begin, end) - first})
    rows = session.arrow(
        "topdown/added_up",
        {"first": begin, "last": end, "histogram": schema.name, **chosen},
        counts=finest,
        places=session.register("places_added_up", own),
        chosen=list(chosen),
    )
    return check_counts(session, finest, schema.size, rows, histogram=schema.name, **chosen)
