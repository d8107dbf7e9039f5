"""Histograms as the warehouse has them: the recipe of the exact ones from the CEF, and how any of them are read.

The exact histograms stay confidential; a keyed version of them becomes part of the draw id. `spine` and `invariants`
have what is published exactly.
"""

from collections.abc import Mapping

import numpy as np

from assets.topdown.release import HISTOGRAMS, TopDownRelease, TreeRelease
from assets.topdown.spine import placement
from mechanisms.refusal import RefusedError
from mechanisms.topdown.design import SCHEMAS
from mechanisms.topdown.schema import PERSONS, Counts
from resources.statements import Fragment, Table
from resources.warehouse import Recipe, Session


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
