"""Histograms as the warehouse has them: the recipe of the exact ones from the CEF, and how any of them are read.

The exact histograms stay confidential; a keyed version of them becomes part of the draw id. `spine` and `invariants`
have what is published exactly.
"""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from assets.topdown.release import HISTOGRAMS, TopDownRelease, TreeRelease
from assets.topdown.spine import placement
from mechanisms.refusal import RefusedError
from mechanisms.topdown.design import SCHEMAS
from mechanisms.topdown.schema import PERSONS, Counts
from resources.statements import SQL, Fragment, Table
from resources.warehouse import Recipe, Session

CELLS_AT_A_TIME = 2**20
"""With each further so many counts of parents, the next families are estimated, and with so many of places, the next
places are tabulated. A family is not divided."""

_CELLS_OF_PLACES = SQL(
    "topdown/cells_of_places",
    "SELECT number, count(*) AS cells {% include 'topdown/chosen_counts.sql' %} GROUP BY number",
)


class ImpossibleRecordsError(RefusedError, ValueError):
    """The CEF contains records that the edit constraints rule out. The message has the rule and their number."""


def histograms_recipe(session: Session, release: TopDownRelease) -> Recipe:
    values, names = placement(release)
    attributes = [vars(attribute) for attribute in PERSONS.attributes]
    return "topdown/histograms", values, names | {"attributes": attributes}


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


def stage_level(session: Session, release: TreeRelease, histogram: str, level: str, ancestry: Fragment) -> Fragment:
    """Stage an exact histogram at one level, with the columns number, cell and count, without empty cells."""
    return session.stage(
        "rolled_up",
        "topdown/rolled_up",
        {"histogram": histogram},
        histograms=release.confidential(HISTOGRAMS),
        ancestry=ancestry,
        depth=release.levels.index(level),
    )


def read_counts(
    session: Session, counts: Table | Fragment, first: int = 0, last: int = 2**62, **chosen: str | int
) -> Counts:
    """The counts of the places from `first` up to `last`; of the level, histogram and replicate that are chosen."""
    values = {"first": first, "last": last, **chosen}
    rows = session.arrow("topdown/counts", values, counts=counts, chosen=list(chosen))
    return Counts(*(rows[name].to_numpy() for name in ("number", "cell", "count")))


def cut_places(
    session: Session, counts: Table | Fragment, first: int, last: int, times: int = 1, **chosen: str | int
) -> list[tuple[int, int]]:
    """The places from `first` up to `last`, of the chosen level if there are more, in runs whose counts are in memory
    together, so many times: `CELLS_AT_A_TIME`, or those of a single place with more."""
    values = {"first": first, "last": last, **chosen}
    rows = session.arrow(_CELLS_OF_PLACES, values, counts=counts, chosen=list(chosen))
    cells = np.zeros(last - first, dtype=np.int64)
    cells[rows["number"].to_numpy() - first] = rows["cells"].to_numpy()
    runs = np.maximum(np.cumsum(times * cells) - 1, 0) // CELLS_AT_A_TIME
    ends = np.append(np.flatnonzero(np.diff(runs)) + 1, last - first) + first
    return list(pairwise([first, *ends.tolist()]))
