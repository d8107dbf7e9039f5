"""The asset `invariants` of a TopDown release, and the limits of every histogram of every place that follow from it.

The invariants are exact because the release declares them so. Limits are bounds and fixed totals: this module derives
them, and `mechanisms.topdown.feasibility` propagates them over the tree and decides whether they can be satisfied. The
derivation reads only public tables, so an infeasible declaration is refused before the charge. Source: Bailie, Gong and
Meng, Section 4.

In each place, the number of persons in a type of group quarters is at least the number of occupied facilities of this
type, and at most 99,999 times that number. The number of persons in households is at most 99,999 times the number of
housing units, including vacant ones. Without facilities or housing units, these counts are structural zeros. A
statistic that is not an invariant gives no bounds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.conventions import StageKind
from assets.measurement.method import ExactCounts
from assets.release.dataset import CEF
from assets.release.stage import build_stage
from assets.topdown.release import HISTOGRAMS, INVARIANTS, SPINE, TopDownRelease
from assets.topdown.spine import Tree, placement, read_states, read_tree, require_current_spine, stage_ancestry
from mechanisms.topdown.design import (
    GROUP_QUARTERS,
    HOUSING_UNITS,
    POPULATION,
    SCHEMAS,
    bound_groups,
    level_of_states,
    unbounded,
)
from mechanisms.topdown.feasibility import (
    InfeasibleError,
    Limits,
    concatenate,
    limit_by_occupancy,
    propagate,
    propagate_above,
)
from mechanisms.topdown.replicates import LevelLimits
from mechanisms.topdown.schema import PERSONS, UNITS
from resources.statements import SQL
from resources.warehouse import Recipe, Session

INVARIANT_COLUMNS = {
    "invariant": "The invariant",
    "level": "Geographic level",
    "number": "Number of the place within its level",
    "geoid": "Code of the place",
    "category": "Type of group quarters; 0 for other counts",
    "count": "Exact count",
}

_DECLARED = pa.schema([("invariant", pa.string()), ("depth", pa.int64()), ("categories", pa.list_(pa.int64()))])

_COUNTS_STORED = SQL(
    "topdown/counts_stored", "SELECT count(*) FROM {{ invariants }} WHERE invariant = $invariant AND level = $level"
)


@dataclass(frozen=True)
class Region:
    """A part of the spine with its invariants, which determine limits.

    Attributes:
        levels: from the level of the states to the finest, or from the root to the level of the states.
        parents: for every level but the first, the parent of each place, numbered within the part.
        invariants: by name, the counts, shape (places, categories).
        unbounded: by histogram, the upper bound of a group's count where no invariant bounds it.
        state: the code of the state of the places; empty for the levels above.
    """

    levels: tuple[str, ...]
    parents: tuple[NDArray[np.int64], ...]
    invariants: Mapping[str, NDArray[np.int64]]
    unbounded: Mapping[str, int]
    state: str = ""

    @property
    def digest(self) -> str:
        digest = sha256(repr((self.levels, self.state, sorted(self.unbounded.items()))).encode())
        for name, array in [*zip(self.levels[1:], self.parents, strict=True), *sorted(self.invariants.items())]:
            digest.update(f"{name} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array, dtype="<i8").data)
        return digest.hexdigest()


def invariants_recipe(session: Session, release: TopDownRelease) -> Recipe:
    """The recipe of the invariants, from the exact histograms and, for facilities, from the CEF."""
    rows = [
        {"invariant": name, "depth": release.levels.index(level), "categories": list_categories(name).tolist()}
        for name, level in release.design.invariants.items()
    ]
    values, names = placement(session, release)
    names |= {
        "histograms": release.confidential(HISTOGRAMS),
        "declared": session.register("declared", pa.Table.from_pylist(rows, schema=_DECLARED)),
        "ancestry": stage_ancestry(session, release, names["spine"]),
    }
    return "topdown/invariants", values, names


def build_invariants(method: ExactCounts[TopDownRelease, Any]) -> dg.AssetsDefinition:
    release = method.release
    declared = release.design.invariants_in_words
    begin = (
        "The statistics that are exact in this release, and may be published. The first one is in the table "
        f"`{SPINE}`, the others are in this one:"
        if declared
        else f"The release has no invariants except the list of places, which is in the table `{SPINE}`:"
    )
    statistics = [f"- {statistic}" for statistic in (release.design.places_in_words, *declared)]

    return build_stage(
        release,
        INVARIANTS,
        StageKind.INVARIANTS,
        "\n".join([begin, "", *statistics]),
        [CEF, SPINE, HISTOGRAMS],
        lambda session: {release.public(INVARIANTS): invariants_recipe(session, release)},
        INVARIANT_COLUMNS,
        prepare=method.require_current_counts,
        finish=lambda session, _: require_current_spine(session, release),
        sealed=[release.public(SPINE), release.public(INVARIANTS)],
    )


def derive_all_limits(session: Session, release: TopDownRelease) -> dict[str, tuple[Limits, ...]]:
    """The limits of all places, by histogram, the root's level first.

    Raises SpineError if the stored spine does not fit the release, and InfeasibleError if no histograms satisfy all
    limits; the message names histogram, level, rule and count, and below the level of the states, the state.
    """
    tree = read_tree(session, release)
    states = [derive_limits(release, region) for region in read_state_regions(session, release, tree)]
    above = derive_limits(release, read_upper_region(session, release, tree), [take_highest(state) for state in states])
    return {
        name: (
            *above[name],
            *(concatenate(parts) for parts in zip(*(state[name][1:] for state in states), strict=True)),
        )
        for name in above
    }


def require_feasible(session: Session, release: TopDownRelease) -> None:
    """Refuse invariants that no histograms satisfy. Only the limits of one state are in memory at a time."""
    tree = read_tree(session, release)
    states = [take_highest(derive_limits(release, region)) for region in read_state_regions(session, release, tree)]
    derive_limits(release, read_upper_region(session, release, tree), states)


def read_state_regions(session: Session, release: TopDownRelease, tree: Tree) -> Iterator[Region]:
    for number in range(tree.places(level_of_states(release.levels))):
        yield read_state_region(session, release, tree, number)


def read_state_region(session: Session, release: TopDownRelease, tree: Tree, number: int) -> Region:
    """The places of one state, from its level to the finest. Raises InfeasibleError if counts of invariants are
    missing."""
    depth = release.levels.index(level_of_states(release.levels))
    levels = release.levels[depth:]
    ranges = tree.ranges_below(levels[0], number)
    parents = tuple(
        numbers[slice(*own)] - above[0]
        for numbers, above, own in zip(tree.parents[depth:], ranges, ranges[1:], strict=False)
    )
    invariants = {
        name: _read_counts(session, release, name, level, *ranges[levels.index(level)])
        for name, level in release.design.invariants.items()
        if level in levels
    }
    return Region(levels, parents, invariants, _unbounded(release, tree), read_states(session, release)[number])


def read_upper_region(session: Session, release: TopDownRelease, tree: Tree) -> Region:
    """The places from the root to the level of the states, with the invariants above the states.

    Raises InfeasibleError unless an invariant has one count for each place and category.
    """
    depth = release.levels.index(level_of_states(release.levels))
    invariants = {}
    for name, level in release.design.invariants.items():
        places, values = tree.places(level), {"invariant": name, "level": level}
        (rows,) = session.row(_COUNTS_STORED, values, invariants=release.public(INVARIANTS))
        if rows != places * len(list_categories(name)):
            raise _incomplete(release, name, rows, places)
        if level in release.levels[:depth]:
            invariants[name] = _read_counts(session, release, name, level, 0, places)
    return Region(release.levels[: depth + 1], tree.parents[:depth], invariants, _unbounded(release, tree))


def derive_limits(
    release: TopDownRelease,
    region: Region,
    states: Sequence[Mapping[str, Limits]] | None = None,
    households: NDArray[np.int64] | None = None,
) -> LevelLimits:
    """The limits of the places of a region, its highest level first; above the states, from the limits of each state.
    If `households` gives the persons in households of the region's finest places, shape (places,), only the limits of
    units.

    Raises InfeasibleError if no histograms satisfy them; the message names the state.
    """
    limits: dict[str, Sequence[Limits]] = {}
    names = [UNITS.name] if households is not None else SCHEMAS
    for name in states[0] if states else names:
        totals = _totals(release, region, name)
        # Without parents, the finest level is the level of the states.
        places = len(region.parents[-1]) if region.parents else 1
        bounds = bound_groups(name, places, region.invariants, region.unbounded[name])
        try:
            if states is None:
                limits[name] = propagate(region.levels, region.parents, *bounds, totals)
                if release.design.full and name == UNITS.name:
                    limits[name] = limit_by_occupancy(region.levels, region.parents, limits[name], households)
            else:
                own = concatenate([state[name] for state in states])
                limits[name] = propagate_above(region.levels, region.parents, own, totals[:-1])
        except InfeasibleError as error:
            at = f" ({region.levels[0]} {region.state})" if release.levels.index(region.levels[0]) else ""
            invariants = ", ".join(f"{name} by {level}" for name, level in release.design.invariants.items())
            raise InfeasibleError(
                f"release {release.dataset.name}/{release.name}: invariants: no histograms of {name} satisfy the "
                f"invariants ({invariants}): {error}{at}"
            ) from None
    return limits


def take_highest(limits: LevelLimits) -> dict[str, Limits]:
    return {name: of_levels[0] for name, of_levels in limits.items()}


def _read_counts(
    session: Session, release: TopDownRelease, name: str, level: str, first: int, last: int
) -> NDArray[np.int64]:
    """The counts of an invariant in the places from `first` up to `last` of its level, shape (places, categories)."""
    values = {"invariant": name, "level": level, "first": first, "last": last}
    rows = session.arrow("topdown/invariant_counts", values, invariants=release.public(INVARIANTS))
    number, category, count = (rows[column].to_numpy() for column in ("number", "category", "count"))
    places, categories = last - first, list_categories(name)
    if not np.array_equal(number, np.repeat(np.arange(first, last), len(categories))) or not np.array_equal(
        category, np.tile(categories, places)
    ):
        raise _incomplete(release, name, len(rows), places)
    return np.asarray(count, dtype=np.int64).reshape(places, len(categories))


def list_categories(name: str) -> NDArray[np.int64]:
    return np.arange(1, PERSONS.groups.size) if name == GROUP_QUARTERS else np.zeros(1, dtype=np.int64)


def _incomplete(release: TopDownRelease, name: str, rows: int, places: int) -> InfeasibleError:
    return InfeasibleError(
        f"{release.public(INVARIANTS)}: {name}: {rows:,} counts, not {len(list_categories(name))} for each of "
        f"{places:,} places"
    )


def _unbounded(release: TopDownRelease, tree: Tree) -> dict[str, int]:
    places = tree.places(release.finest)
    return {name: unbounded(places, schema.groups.size) for name, schema in SCHEMAS.items()}


def _totals(release: TopDownRelease, region: Region, histogram: str) -> list[NDArray[np.int64] | None]:
    """By level, the totals fixed by an invariant; None at other levels."""
    name = {PERSONS.name: POPULATION, UNITS.name: HOUSING_UNITS}[histogram]
    fixed = release.design.invariants.get(name) if name in region.invariants else None
    return [region.invariants[name][:, 0] if level == fixed else None for level in region.levels]
