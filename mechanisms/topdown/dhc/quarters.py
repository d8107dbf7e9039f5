"""The limits that the redistricting data and the facilities of each block set on persons by type of group quarters.

The redistricting data have the persons of each block by `hhgq8lev`, voting age, Hispanic origin and race: its groups. A
group in group quarters has one major type, and no person lives in a type without a facility in the block. So the
persons of a group in a set S of types of its major type are at most the persons of the group in all blocks that have a
facility of S, and at least those in the blocks whose facilities of the major type are all of S. These limits are those
of `feasibility`: whole numbers that satisfy them can be divided among the children of any place.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.refusal import RefusedError
from mechanisms.topdown.dhc.persons import HOUSEHOLD_CODES, MAJOR_TYPE, PERSONS, QUARTERS_TYPES, REDISTRICTING
from mechanisms.topdown.dhc.tree import Held
from mechanisms.topdown.feasibility import Limits, Sets, list_members
from mechanisms.topdown.schema import Counts

_TYPES = np.array(MAJOR_TYPE[1:]) - 1
"""Shape (types,): the major type of each type of group quarters, both from 0."""

FIRST_TYPE = np.searchsorted(_TYPES, np.arange(7))
"""Shape (major types,): the first type of each."""

GROUPS = PERSONS.marginal(REDISTRICTING).size
_MAJOR_OF_GROUP = np.arange(GROUPS) // (GROUPS // 8)


class QuartersError(RefusedError, ValueError):
    """Persons in group quarters of a block without a facility of the type. The message has the number of such
    blocks."""


@dataclass(frozen=True)
class Quarters:
    """By place of a level, group, and set of types of which the persons' blocks have facilities, the number of persons:
    one row each, in this order. Bit t of `types` is the t-th type of the group's major type."""

    place: NDArray[np.int64]
    group: NDArray[np.int64]
    types: NDArray[np.int64]
    count: NDArray[np.int64]

    def add_up(self, parents: NDArray[np.int64]) -> "Quarters":
        """The persons of the level above; `parents` has the position of each place's parent."""
        return _collect(parents[self.place], self.group, self.types, self.count)

    def take(self, first: int, last: int) -> "Quarters":
        """The persons of the places from `first` up to `last`."""
        own = slice(*np.searchsorted(self.place, [first, last]))
        return Quarters(self.place[own], self.group[own], self.types[own], self.count[own])

    @staticmethod
    def find_kinds(cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """The kind of each cell: its type of group quarters, from 1; 0 for households, which have no limits."""
        return PERSONS.marginal(QUARTERS_TYPES).find(cells).astype(np.int64)

    def limit(self, first: int, last: int, group: int, kinds: NDArray[np.int64]) -> Limits:
        """The limits of a group's persons in the places from `first` up to `last`, by kind; kinds outside `kinds` are
        empty."""
        present = kinds - 1 - FIRST_TYPE[np.searchsorted(FIRST_TYPE, kinds[0] - 1, side="right") - 1]
        of_places = self.take(first, last)
        own = of_places.group == group
        place, types, count = of_places.place[own] - first, of_places.types[own], of_places.count[own]
        members = (list_members(len(present)) << present).sum(axis=1)
        most = np.zeros((last - first, len(members)), dtype=np.int64)
        for number, members_of_set in enumerate(members):
            np.add.at(most[:, number], place, np.where(types & members_of_set, count, 0))
        totals = np.bincount(place, count, last - first).astype(np.int64)
        least = totals[:, None] - most[:, ::-1]
        single = 1 << np.arange(len(present))
        units = np.arange(last - first)
        return Limits(least[:, single], most[:, single], totals, Sets(units, least, most))


def count_quarters(redistricting: Held | NDArray[np.int64], facilities: NDArray[np.int64]) -> Quarters:
    """The persons of the finest level, from the redistricting data's persons, shape (places, groups), and the
    facilities of each type, shape (places, 24). Raises QuartersError if a person lives in a major type without a
    facility."""
    found = _match_quarters(redistricting, facilities)
    require_facilities(_count_homeless(found))
    return _collect(*vars(found).values())


def count_homeless(redistricting: Held, facilities: NDArray[np.int64]) -> int:
    """The number of places in which a person lives in a major type without a facility."""
    return _count_homeless(_match_quarters(redistricting, facilities))


def _count_homeless(quarters: Quarters) -> int:
    return len(np.unique(quarters.place[quarters.types == 0]))


def require_facilities(homeless: int) -> None:
    """Raise QuartersError if the number of such blocks is not 0."""
    if homeless:
        raise QuartersError(f"{homeless:,} blocks have persons in a type of group quarters without a facility")


def _match_quarters(redistricting: Held | NDArray[np.int64], facilities: NDArray[np.int64]) -> Quarters:
    """The persons in any order; the set of types is empty where there is no facility."""
    bits = np.zeros((len(facilities), 7), dtype=np.int64)
    for number, major in enumerate(_TYPES):
        bits[:, major] |= (facilities[:, number] > 0).astype(np.int64) << (number - FIRST_TYPE[major])
    if isinstance(redistricting, Held):
        own = _MAJOR_OF_GROUP[redistricting.counts.cell] > 0
        place, group, count = (each[own] for each in vars(redistricting.counts).values())
    else:
        place, group = np.nonzero(redistricting * (_MAJOR_OF_GROUP > 0))
        count = redistricting[place, group]
    return Quarters(place, group, bits[place, _MAJOR_OF_GROUP[group] - 1], count)


def _collect(
    place: NDArray[np.int64], group: NDArray[np.int64], types: NDArray[np.int64], count: NDArray[np.int64]
) -> Quarters:
    keys, inverse = np.unique((place * GROUPS + group) * 64 + types, return_inverse=True)
    counts = np.bincount(inverse, count, len(keys)).astype(np.int64)
    return Quarters(keys // (GROUPS * 64), keys // 64 % GROUPS, keys % 64, counts)


def find_short(counts: Counts, facilities: NDArray[np.int64]) -> NDArray[np.int64]:
    """The blocks in which a type of group quarters has fewer persons than facilities."""
    cells = PERSONS.marginal(QUARTERS_TYPES).find(counts.cell)
    in_quarters = cells > 0
    persons = np.zeros((len(facilities), 25), dtype=np.int64)
    np.add.at(persons, (counts.number[in_quarters], cells[in_quarters]), counts.count[in_quarters])
    return np.flatnonzero((persons[:, 1:] < facilities).any(axis=1))


def fill_facilities(counts: Counts, facilities: NDArray[np.int64]) -> Counts:
    """The blocks with a person in every facility, where moves achieve this: one type after the other, persons move
    between types of a major type, with all other attributes unchanged, from the type with the most persons beyond its
    facilities. Moves are not undone, even if others would fill more. The redistricting data's counts, and empty types,
    stay as they are."""
    short = find_short(counts, facilities)
    ends = np.searchsorted(counts.number, [short, short + 1])
    kept = ~np.isin(counts.number, short)
    number, cell, count = [counts.number[kept]], [counts.cell[kept]], [counts.count[kept]]
    for block, first, last in zip(short.tolist(), *ends.tolist(), strict=True):
        own = dict(zip(counts.cell[first:last].tolist(), counts.count[first:last].tolist(), strict=True))
        _fill_block(own, facilities[block])
        filled = sorted((key, value) for key, value in own.items() if value)
        number.append(np.full(len(filled), block))
        cell.append(np.array([key for key, _ in filled], dtype=np.int64))
        count.append(np.array([value for _, value in filled], dtype=np.int64))
    order = np.lexsort((np.concatenate(cell), np.concatenate(number)))
    return Counts(*(np.concatenate(each)[order] for each in (number, cell, count)))


def _fill_block(own: dict[int, int], facilities: NDArray[np.int64]) -> None:
    """Fill a block's facilities, in the histogram `own` by cell."""
    step = PERSONS.size // PERSONS.attributes[0].size
    beyond = -facilities
    for cell, count in own.items():
        if cell // step >= HOUSEHOLD_CODES:
            beyond[cell // step - HOUSEHOLD_CODES] += count
    for short in np.flatnonzero(beyond < 0).tolist():
        givers = np.flatnonzero((_TYPES[short] == _TYPES) & (beyond > 0))
        for giver in givers[np.argsort(-beyond[givers], kind="stable")].tolist():
            for cell in sorted(key for key in own if key // step == giver + HOUSEHOLD_CODES):
                target = cell + (short - giver) * step
                moved = min(own[cell], int(beyond[giver]), int(-beyond[short]))
                if moved > 0 and PERSONS.possible[target]:
                    own[cell] -= moved
                    own[target] = own.get(target, 0) + moved
                    beyond[giver] -= moved
                    beyond[short] += moved
