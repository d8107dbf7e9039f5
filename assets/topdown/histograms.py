"""Exact histograms and declared invariants, from the CEF.

Here belongs the counting. The histograms stay confidential: a keyed version of them names the draw. The invariants are
published as they are, because the release declares them.
"""

import numpy as np

from assets.topdown.release import HISTOGRAMS, INVARIANTS, TopDownRelease
from assets.topdown.spine import placed, stage_ancestry
from mechanisms.topdown.design import SCHEMAS
from mechanisms.topdown.schema import PERSONS
from resources.statements import Fragment
from resources.warehouse import Recipe, Session


class ImpossibleRecordsError(ValueError):
    """Records that no possible file holds; the message has the rule and their count."""


def histograms_recipe(release: TopDownRelease) -> Recipe:
    """How the histograms of the finest level are counted from the CEF."""
    values, names = placed(release)
    attributes = [{"name": each.name, "size": each.size} for each in PERSONS.attributes]
    return "topdown/histograms", values, names | {"attributes": attributes}


def invariants_recipe(session: Session, release: TopDownRelease) -> Recipe:
    """How the declared invariants are counted from the CEF."""
    held = [(name, release.levels.index(level)) for name, level in sorted(release.design.invariants.items())]
    if not held:
        return "topdown/no_invariants", {}, {}
    values, names = placed(release)
    types = PERSONS.marginal("hhgq").size
    ancestry = stage_ancestry(session, release)
    return (
        "topdown/invariants",
        values | {"names": [name for name, _ in held]},
        names | {"held": held, "types": types, "ancestry": ancestry},
    )


def require_possible(session: Session, release: TopDownRelease) -> None:
    """Refuse stored histograms of records that the edit constraints rule out.

    Raises:
        ImpossibleRecordsError: if there are any.
    """
    if found := impossible_records(session, release):
        raise ImpossibleRecordsError(
            f"{release.schema}: {found:,} persons of the CEF are minors in nursing facilities, which the edit "
            "constraint rules out"
        )


def impossible_records(session: Session, release: TopDownRelease) -> int:
    """How many records the stored histograms count in cells that no record can be in."""
    found = 0
    for histogram, schema in SCHEMAS.items():
        (records,) = session.row(
            "topdown/impossible",
            {"histogram": histogram, "impossible": np.flatnonzero(~schema.possible).tolist()},
            histograms=release.confidential(HISTOGRAMS),
        )
        found += int(records)
    return found


def write_invariants(session: Session, release: TopDownRelease) -> None:
    """Write the table `invariants`."""
    name, values, names = invariants_recipe(session, release)
    session.create(release.public(INVARIANTS), name, values, **names)


def stage_level(session: Session, release: TopDownRelease, histogram: str, level: str, ancestry: Fragment) -> Fragment:
    """A histogram rolled up to one level: columns number, cell, count; cells without any left out."""
    return session.stage(
        "rolled_up",
        "topdown/rolled_up",
        {"histogram": histogram},
        histograms=release.confidential(HISTOGRAMS),
        ancestry=ancestry,
        depth=release.levels.index(level),
    )
