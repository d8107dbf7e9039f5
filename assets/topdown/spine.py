"""The geographic spine: the places of the units in the CEF, checked to form a tree.

This module makes the table `spine` from declared codes, and provides lookups in it for other stages. The list of places
is an invariant of every release.
"""

import itertools
import re
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.topdown.release import SPINE, TopDownRelease, level_of_states
from mechanisms.refusal import RefusedError
from mechanisms.topdown.design import words
from resources.statements import Fragment, Table
from resources.warehouse import Recipe, Session

_CODE = re.compile(r"[A-Za-z0-9]+")


class SpineError(RefusedError, ValueError):
    """The codes of places do not form a tree. The message has level, rule and count."""


def spine_recipe(session: Session, release: TopDownRelease) -> Recipe:
    """The recipe of the spine, from the CEF.

    Raises:
        SpineError: if a place lies in more than one place of the level above.
    """
    units = release.dataset.cef_tables()[0]
    levels = release.levels
    places = session.stage(
        "places",
        "topdown/places",
        {"root": levels[0]},
        units=units,
        codes=[(level, code.columns, code.prefix) for level, code in release.spine.items()],
        finest_columns=release.spine[release.finest].columns,
    )
    for above, level in itertools.pairwise(levels):
        straddling, every = session.row("topdown/straddling", places=places, level=level, above=above)
        if straddling:
            raise SpineError(
                f"{release.schema}: spine: {straddling:,} of {every:,} codes of {words(level)}s lie in more than one "
                f"{words(above)}; the spine must be a tree"
            )
    return "topdown/spine", {"levels": list(levels)}, {"places": places, "levels": list(levels)}


def require_nameable(session: Session, release: TopDownRelease) -> None:
    """Refuse partitions whose keys, the codes of states in the stored spine, cannot be part of the names of tables.

    Raises:
        SpineError: if there are such codes.
    """
    if release.declaration.partitions:
        codes = geoids(session, release, level_of_states(release.levels)).tolist()
        if not all(_CODE.fullmatch(code) for code in codes) or len({code.lower() for code in codes}) < len(codes):
            raise SpineError(
                f"{release.schema}: partitions: the codes of states become names of tables, so they must consist of "
                "ASCII letters and digits, and differ in more than upper and lower case"
            )


def stage_ancestry(session: Session, release: TopDownRelease) -> Fragment:
    """Stage the places that each place of the finest level lies in, with the columns finest, depth and number."""
    return session.stage("ancestry", "topdown/ancestry", {"finest": release.finest}, spine=release.public(SPINE))


def placed(release: TopDownRelease) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values and identifiers of statements that place the units of the CEF on the spine."""
    units, persons = release.dataset.cef_tables()
    names: dict[str, Any] = {
        "units": units,
        "persons": persons,
        "spine": release.public(SPINE),
        "finest_columns": release.spine[release.finest].columns,
    }
    return {"finest": release.finest}, names


def summary(session: Session, spine: Table) -> list[tuple[str, int, int]]:
    """For each level from the root: its name, its number of places, and the largest number of children of a place."""
    return [(level, places, most) for level, _, places, most in session.rows("topdown/by_level", spine=spine)]


def places_of(session: Session, release: TopDownRelease) -> dict[str, int]:
    return {level: places for level, places, _ in summary(session, release.public(SPINE))}


def geoids(session: Session, release: TopDownRelease, level: str, first: int = 0, last: int = 2**62) -> NDArray[Any]:
    """The codes of a level's places from `first` up to but excluding `last`, in the order of their numbers."""
    return np.array(codes_of(session, release, level, first, last).to_pylist(), dtype=object)


def codes_of(
    session: Session, release: TopDownRelease, level: str, first: int = 0, last: int = 2**62
) -> pa.ChunkedArray:
    values = {"level": level, "first": first, "last": last}
    return session.arrow("topdown/geoids", values, spine=release.public(SPINE))["geoid"]
