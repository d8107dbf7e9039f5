"""The asset `spine` of a TopDown release: the places of the units in the CEF, checked to form a tree.

This module makes the table `spine` from declared codes, looks up places in it, and reads it for computations on the
tree. The list of places is an invariant of every release; `invariants` has the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.conventions import StageKind, preview, public_table_metadata
from assets.gates.shared import differing_table
from assets.release.codes import CodesError, require_own_codes
from assets.release.dataset import CEF
from assets.release.names import can_end_names
from assets.release.stage import build_stage
from assets.topdown.release import SPINE, TEXTS, SpineError, TreeRelease
from mechanisms.topdown.design import level_of_states, words
from mechanisms.topdown.replicates import find_starts
from resources.statements import Fragment, Table
from resources.warehouse import Recipe, Session

SPINE_COLUMNS = {
    "level": "Geographic level",
    "depth": "Number of the level; 0 for the root",
    "number": "Number of the place within its level",
    "geoid": "Code of the place",
    "parent": "Number of the parent in the level above",
}


@dataclass(frozen=True)
class Tree:
    """The places of each level from the root, numbered from 0, with the children of one parent next to each other.

    `parents` has, for each level below the root, the number of each place's parent in the level above, shape (places,).
    """

    levels: tuple[str, ...]
    parents: tuple[NDArray[np.int64], ...]

    def places(self, level: str) -> int:
        depth = self.levels.index(level)
        return len(self.parents[depth - 1]) if depth else 1

    def starts(self, level: str) -> NDArray[np.int64]:
        """Shape (parents + 1,), as `mechanisms.topdown.replicates.find_starts`."""
        return find_starts(self.parents, self.levels.index(level))

    def starts_within(self, level: str, above: str) -> NDArray[np.int64]:
        """The first place of a level in each place of a level above it, followed by the number of all places."""
        starts = np.arange(self.places(above) + 1)
        for below in self.levels[self.levels.index(above) + 1 : self.levels.index(level) + 1]:
            starts = self.starts(below)[starts]
        return starts

    def range_within(self, level: str, above: str, number: int | None) -> tuple[int, int]:
        """The first place of a level in the place `number` of a level above it, and the number after the last; of all
        places if `number` is None."""
        if number is None:
            return 0, self.places(level)
        first, last = self.starts_within(level, above)[number : number + 2]
        return int(first), int(last)

    def ranges_below(self, level: str, number: int) -> list[tuple[int, int]]:
        """The ranges of a place and of the places below it: for each level from `level` to the finest, the first
        number, and the number after the last."""
        return self.extend_below(level, number, number + 1)

    def extend_below(self, level: str, first: int, last: int) -> list[tuple[int, int]]:
        """As `ranges_below`, for the places from `first` up to `last`."""
        ranges = [(first, last)]
        for parents in self.parents[self.levels.index(level) :]:
            first, last = np.searchsorted(parents, ranges[-1])
            ranges.append((int(first), int(last)))
        return ranges

    def find_above(self, level: str, first: int, last: int) -> NDArray[np.int64]:
        """The places of a level that contain the finest places from `first` up to `last`."""
        places = np.arange(first, last)
        for parents in reversed(self.parents[self.levels.index(level) :]):
            places = parents[places]
        return places


def build_spine(release: TreeRelease) -> dg.AssetsDefinition:
    def describe(session: Session, tables: Sequence[Table]) -> Mapping[str, Any]:
        levels = [
            (words(level), f"{places:,}", f"{most:,}") for level, places, most in summarize_levels(session, release)
        ]
        return {
            **public_table_metadata(session, *tables),
            "places by level": preview(["level", "places", "most places below one"], levels),
        }

    return build_stage(
        release,
        SPINE,
        StageKind.INVARIANTS,
        TEXTS("spine", levels=[words(level) for level in release.levels]),
        [CEF],
        lambda session: {release.public(SPINE): spine_recipe(session, release)},
        SPINE_COLUMNS,
        metadata=describe,
        finish=lambda session, _: require_nameable(session, release),
    )


def spine_recipe(session: Session, release: TreeRelease) -> Recipe:
    """The recipe of the spine, from the CEF. Raises SpineError if a place lies in two places of the level above, or if
    two places have the same code."""
    levels, units = release.levels, release.stage_units(session)
    for level, code in release.spine.items():
        try:
            require_own_codes(session, units, code.columns, release.dataset)
        except CodesError as error:
            raise SpineError(f"{release.schema}: spine: {level}: {error}") from None
    places = session.stage(
        "places",
        "topdown/places",
        {"root": levels[0]},
        units=units,
        codes=[(level, code.columns, code.prefix) for level, code in release.spine.items()],
        finest_columns=release.spine[release.finest].columns,
        columns=list(dict.fromkeys(column for code in release.spine.values() for column in code.columns)),
    )
    for above, level in pairwise(levels):
        straddling, codes = session.row("topdown/straddling", places=places, level=level, above=above)
        if straddling:
            raise SpineError(
                f"{release.schema}: spine: {straddling:,} of {codes:,} codes of {words(level)}s lie in more than one "
                f"{words(above)}; the spine must be a tree"
            )
    return "topdown/spine", {"levels": list(levels)}, {"places": places, "levels": list(levels)}


def stage_spine(session: Session, release: TreeRelease) -> Fragment:
    """Stage the spine of the CEF, which places the records. With the stored spine instead, a writer to the public zone
    could make one place count as many, each measured with separate noise, or as a place of a larger level, whose counts
    are published exactly. Raises SpineError as `spine_recipe`."""
    source, values, names = spine_recipe(session, release)
    return session.stage("spine of the CEF", source, values, **names)


def require_current_spine(session: Session, release: TreeRelease) -> None:
    """Refuse a stored spine that does not follow from the stored CEF, before it is sealed. Raises SpineError."""
    session.hold([release.public(SPINE)])
    if differing_table(session, release.public(SPINE), spine_recipe(session, release)):
        raise _of_other_records(release)


def require_tree_of_the_cef(session: Session, release: TreeRelease) -> None:
    """Refuse a tree or state codes, as cached in this session, that do not follow from the stored CEF. Raises
    SpineError."""
    spine, tree = stage_spine(session, release), read_tree(session, release)
    due = _read_tree(session, release, spine)
    same = tree.levels == due.levels and all(map(np.array_equal, tree.parents, due.parents))
    if not same or read_states(session, release) != _read_states(session, release, spine):
        raise _of_other_records(release)


def _of_other_records(release: TreeRelease) -> SpineError:
    return SpineError(
        f"{release.schema}: the stored spine is not that of the current records; materialize {SPINE} again"
    )


def require_nameable(session: Session, release: TreeRelease) -> None:
    """Refuse partitions whose keys, the codes of states in the stored spine, cannot be part of the names of tables."""
    if release.partitioned:
        codes = read_codes(session, release, level_of_states(release.levels)).to_pylist()
        if not can_end_names(codes):
            raise SpineError(
                f"{release.schema}: partitions: the codes of states become names of tables, so they must consist of "
                "ASCII letters and digits, and differ in more than upper and lower case"
            )


def stage_ancestry(session: Session, release: TreeRelease, spine: Table | Fragment | None = None) -> Fragment:
    """Stage the places that contain each place of the finest level, with the columns finest, depth and number, from a
    spine, by default the stored one."""
    spine = spine or release.public(SPINE)
    return session.stage("ancestry", "topdown/ancestry", {"finest": release.finest}, spine=spine)


def find_ranges(session: Session, release: TreeRelease, state: str) -> tuple[int, list[tuple[int, int]]]:
    """The depth of the level of the states; and for each level from there down, the first place of a state and the
    place after its last."""
    level, number = level_of_states(release.levels), read_states(session, release).index(state)
    return release.levels.index(level), read_tree(session, release).ranges_below(level, number)


def stage_places(session: Session, release: TreeRelease, state: str) -> Fragment:
    """Stage the state and the places in it, as rows of the spine."""
    top, ranges = find_ranges(session, release, state)
    bounds = [{"depth": top + below, "first": first, "last": last} for below, (first, last) in enumerate(ranges)]
    names = {"spine": release.public(SPINE), "ranges": session.register("ranges", pa.Table.from_pylist(bounds))}
    return session.stage("places_of_state", "topdown/places_of_state", **names)


def placement(session: Session, release: TreeRelease) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values and identifiers of statements that place the units of the CEF on its spine."""
    return _place(release, stage_spine(session, release))


def _place(release: TreeRelease, spine: Fragment) -> tuple[dict[str, Any], dict[str, Any]]:
    units, persons = release.dataset.cef_tables()
    columns = release.spine[release.finest].columns
    names = {"units": units, "persons": persons, "spine": spine, "finest_columns": columns}
    return {"finest": release.finest}, names


def place_by_code(session: Session, release: TreeRelease) -> tuple[dict[str, Any], dict[str, Any]]:
    """As `placement`, without a spine, which a partition of the dataset does not have: codes take the place of
    numbers."""
    columns, units = release.spine[release.finest].columns, release.dataset.cef_tables()[0]
    return _place(
        release, session.stage("codes", "topdown/codes", {"finest": release.finest}, units=units, columns=columns)
    )


def summarize_levels(session: Session, release: TreeRelease) -> list[tuple[str, int, int]]:
    """For each level from the root: its name, its number of places, and the largest number of children of a place."""
    rows = session.rows("topdown/by_level", spine=release.public(SPINE))
    return [(level, places, most) for level, _, places, most in rows]


def count_places(session: Session, release: TreeRelease) -> dict[str, int]:
    return {level: places for level, places, _ in summarize_levels(session, release)}


def read_codes(
    session: Session,
    release: TreeRelease,
    level: str,
    first: int = 0,
    last: int = 2**62,
    spine: Table | Fragment | None = None,
) -> pa.ChunkedArray:
    """The codes of a level's places from `first` up to but excluding `last`, in the order of their numbers, by default
    from the stored spine."""
    values = {"level": level, "first": first, "last": last}
    return session.arrow("topdown/geoids", values, spine=spine or release.public(SPINE))["geoid"]


def read_states(session: Session, release: TreeRelease) -> list[str]:
    """The codes of the states, in the order of their numbers. Raises SpineError if two states share a code."""
    return session.compute_once(
        ("states", release.schema), lambda: _read_states(session, release, release.public(SPINE))
    )


def _read_states(session: Session, release: TreeRelease, spine: Table | Fragment) -> list[str]:
    level = level_of_states(release.levels)
    states: list[str] = read_codes(session, release, level, spine=spine).to_pylist()
    if len(set(states)) < len(states):
        raise SpineError(f"{release.public(SPINE)}: {pluralize(level)} with the same code")
    return states


def read_tree(session: Session, release: TreeRelease) -> Tree:
    """The stored spine. Raises SpineError if its levels differ from the release's, if there is no single root, or if
    places are not numbered in the order of their parents."""
    return session.compute_once(("tree", release.schema), lambda: _read_tree(session, release, release.public(SPINE)))


def _read_tree(session: Session, release: TreeRelease, table: Table | Fragment) -> Tree:
    rows = session.arrow("topdown/parents", spine=table)
    depth, number, parent = (rows[name].to_numpy() for name in ("depth", "number", "parent"))
    ends = np.searchsorted(depth, np.arange(len(release.levels)), side="right")
    parents = np.split(parent, ends)
    if len(parents[-1]) or len(parents[0]) != 1:
        raise SpineError(f"{table}: places of other levels than {', '.join(release.levels)}, or no single root")
    for level, above, own, numbers in zip(
        release.levels[1:], parents, parents[1:], np.split(number, ends)[1:], strict=False
    ):
        ordered = np.array_equal(numbers, np.arange(len(numbers))) and bool(np.all(np.diff(own) >= 0))
        if not ordered or not len(own) or not 0 <= own[0] <= own[-1] < len(above):
            raise SpineError(f"{table}: {level}: places are not numbered from 0 in the order of their parents")
    return Tree(release.levels, tuple(parents[1:-1]))


def pluralize(level: str) -> str:
    one = words(level)
    if one.isupper():
        return one
    return f"{one[:-1]}ies" if one.endswith("y") else f"{one}s"
