"""What every histogram of every place must satisfy: bounds and fixed totals, from what the release holds exactly.

Here belongs the way from declared invariants to limits. Whether they can be met, and how they add up over the tree, is
`mechanisms.topdown.feasibility`'s to say. Public tables only, so that a declaration which cannot be met is refused
before anything is charged. Source: Bailie, Gong and Meng, Section 4.

Persons of a group-quarters type are as many at least as its occupied facilities in a place, and at most 99,999 for each
of them; persons in households at most 99,999 for each housing unit, vacant ones included. Where there are none, these
are structural zeros. A statistic that is not held bounds nothing.
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
"""Of one household or one group-quarters facility."""

HOUSEHOLDS = 0
"""The code of `hhgq` that stands for households; the others are types of group quarters."""

_MOST = 10**9
_EXACT = 2**53


def limits_of(session: Session, release: TopDownRelease) -> dict[str, tuple[Limits, ...]]:
    """The limits of all places, by histogram, the root's level first.

    Raises:
        InfeasibleError: if no histograms satisfy everything; the message has histogram, level, rule and count.
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
    """Shape (places, categories): an invariant's counts at its level."""
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
    """Bounds that rule out nothing."""
    shape = (places, schema.groups.size)
    return np.zeros(shape, dtype=np.int64), np.full(shape, unbounded(*shape), dtype=np.int64)


def unbounded(places: int, groups: int) -> int:
    """The upper bound of a group's count in a place where nothing bounds it.

    A billion, or less in trees of over a million places: sums over all places and groups stay below 2^53, so that
    neither 64-bit integers nor floating point round them. It is 112 million for ten million blocks.
    """
    return min(_MOST, _EXACT // (places * groups))


def _totals(release: TopDownRelease, held: dict[str, NDArray[np.int64]], name: str) -> list[NDArray[np.int64] | None]:
    """By level, the fixed totals that an invariant says."""
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
            f"release {release.dataset.name}/{release.name}: invariants: no histograms of {schema.name} have what is "
            f"held ({held}): {error}"
        ) from None
