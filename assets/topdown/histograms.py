"""The exact histograms and the declared invariants, counted from the CEF.

The histograms stay confidential; a keyed version of them becomes part of the draw id. The invariants are public,
because the release declares them.
"""

import numpy as np

from assets.topdown.release import HISTOGRAMS, TopDownRelease
from assets.topdown.spine import placed, stage_ancestry
from mechanisms.refusal import RefusedError
from mechanisms.topdown.design import SCHEMAS
from mechanisms.topdown.schema import PERSONS
from resources.statements import Fragment
from resources.warehouse import Recipe, Session


class ImpossibleRecordsError(RefusedError, ValueError):
    """The CEF contains records that the edit constraints rule out. The message has the rule and their number."""


def histograms_recipe(release: TopDownRelease) -> Recipe:
    values, names = placed(release)
    attributes = [{"name": each.name, "size": each.size} for each in PERSONS.attributes]
    return "topdown/histograms", values, names | {"attributes": attributes}


def invariants_recipe(session: Session, release: TopDownRelease) -> Recipe:
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
    """Check that the stored histograms count no records that the edit constraints rule out.

    Raises:
        ImpossibleRecordsError: if they do.
    """
    if found := impossible_records(session, release):
        raise ImpossibleRecordsError(
            f"{release.schema}: {found:,} persons of the CEF are minors in nursing facilities, which the edit "
            "constraint rules out"
        )


def impossible_records(session: Session, release: TopDownRelease) -> int:
    """The number of records that the stored histograms count in impossible cells."""
    found = 0
    for histogram, schema in SCHEMAS.items():
        (records,) = session.row(
            "topdown/impossible",
            {"histogram": histogram, "impossible": np.flatnonzero(~schema.possible).tolist()},
            histograms=release.confidential(HISTOGRAMS),
        )
        found += int(records)
    return found


def stage_level(session: Session, release: TopDownRelease, histogram: str, level: str, ancestry: Fragment) -> Fragment:
    """Stage a histogram at one level, with the columns number, cell and count, without empty cells."""
    return session.stage(
        "rolled_up",
        "topdown/rolled_up",
        {"histogram": histogram},
        histograms=release.confidential(HISTOGRAMS),
        ancestry=ancestry,
        depth=release.levels.index(level),
    )
