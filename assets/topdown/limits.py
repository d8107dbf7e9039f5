"""The limits of every histogram of every place: bounds and fixed totals, derived from the invariants.

This module derives the limits. `mechanisms.topdown.feasibility` propagates them over the tree and decides whether they
can be satisfied. Only public tables are read, so that an infeasible declaration is refused before anything is charged.
Source: Bailie, Gong and Meng, Section 4.

In each place, the number of persons in a type of group quarters is at least the number of occupied facilities of this
type, and at most 99,999 times that number. The number of persons in households is at most 99,999 times the number of
housing units, including vacant ones. Without facilities or housing units, these counts are structural zeros. A
statistic that is not an invariant gives no bounds.
"""

import numpy as np
from numpy.typing import NDArray

from assets.topdown.release import INVARIANTS, TopDownRelease
from assets.topdown.tree import Tree, read_tree
from mechanisms.topdown.design import GROUP_QUARTERS, HOUSING_UNITS, POPULATION
from mechanisms.topdown.feasibility import InfeasibleError, Limits, propagate
from mechanisms.topdown.schema import PERSONS, UNITS, Schema
from resources.warehouse import Session

MOST_PERSONS = 99_999
"""The maximal number of persons in one household or one group-quarters facility."""

HOUSEHOLDS = 0
"""The code of `hhgq` that stands for households; the others are types of group quarters."""

_MOST = 10**9
_EXACT = 2**53


def limits_of(session: Session, release: TopDownRelease) -> dict[str, tuple[Limits, ...]]:
    """The limits of all places, by histogram, the root's level first.

    Raises:
        InfeasibleError: if no histograms satisfy all limits; the message has histogram, level, rule and count.
        SpineError: if the stored spine is not that of the release.
    """
    tree = read_tree(session, release)
    held = {name: _counts(session, release, tree, name, level) for name, level in release.design.invariants.items()}
    places = tree.places(release.finest)
    lower, upper = _bounds(PERSONS, places)
    if GROUP_QUARTERS in held:
        facilities = held[GROUP_QUARTERS]
        lower[:, HOUSEHOLDS + 1 :] = facilities
        upper[:, HOUSEHOLDS + 1 :] = MOST_PERSONS * facilities
    if HOUSING_UNITS in held:
        upper[:, HOUSEHOLDS] = MOST_PERSONS * held[HOUSING_UNITS][:, 0]
    nobody = PERSONS.groups.answer(PERSONS.possible[None].astype(np.int64))[0] == 0
    upper[:, nobody] = 0
    populations, housing = (_totals(release, held, name) for name in (POPULATION, HOUSING_UNITS))
    return {
        PERSONS.name: _propagated(release, PERSONS, tree, lower, upper, populations),
        UNITS.name: _propagated(release, UNITS, tree, *_bounds(UNITS, places), housing),
    }


def _counts(session: Session, release: TopDownRelease, tree: Tree, name: str, level: str) -> NDArray[np.int64]:
    """The counts of an invariant at its level, shape (places, categories)."""
    table, places = release.public(INVARIANTS), tree.places(level)
    rows = session.arrow("topdown/limits_held", {"invariant": name, "level": level}, invariants=table)
    number, category, count = (rows[column].to_numpy() for column in ("number", "category", "count"))
    categories = np.arange(1, PERSONS.groups.size) if name == GROUP_QUARTERS else np.zeros(1)
    if not np.array_equal(number, np.repeat(np.arange(places), len(categories))) or not np.array_equal(
        category, np.tile(categories, places)
    ):
        raise InfeasibleError(
            f"{table}: {name}: {len(rows):,} counts, not {len(categories)} for each of {places:,} places"
        )
    return np.asarray(count, dtype=np.int64).reshape(places, len(categories))


def _bounds(schema: Schema, places: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lower and upper bounds that exclude nothing."""
    shape = (places, schema.groups.size)
    return np.zeros(shape, dtype=np.int64), np.full(shape, unbounded(*shape), dtype=np.int64)


def unbounded(places: int, groups: int) -> int:
    """The upper bound of a group's count in a place if no invariant bounds it.

    It is a billion, or less in trees with over a million places, so that sums over all places and groups stay below
    2^53, and neither 64-bit integers nor floating-point numbers lose precision. For ten million blocks, it is 112
    million.
    """
    return min(_MOST, _EXACT // (places * groups))


def _totals(release: TopDownRelease, held: dict[str, NDArray[np.int64]], name: str) -> list[NDArray[np.int64] | None]:
    """By level, the totals fixed by an invariant; None at other levels."""
    level = release.design.invariants.get(name)
    return [held[name][:, 0] if each == level else None for each in release.levels]


def _propagated(
    release: TopDownRelease,
    schema: Schema,
    tree: Tree,
    lower: NDArray[np.int64],
    upper: NDArray[np.int64],
    totals: list[NDArray[np.int64] | None],
) -> tuple[Limits, ...]:
    try:
        return propagate(tree.levels, tree.parents, lower, upper, totals)
    except InfeasibleError as error:
        held = ", ".join(f"{name} by {level}" for name, level in release.design.invariants.items())
        raise InfeasibleError(
            f"release {release.dataset.name}/{release.name}: invariants: no histograms of {schema.name} satisfy the "
            f"invariants ({held}): {error}"
        ) from None
