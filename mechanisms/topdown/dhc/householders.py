"""The limits that the redistricting data set on householders by Hispanic origin and race.

A block has at most as many householders of an origin and race as persons of it in households, so a set S of them has at
most min(occupied units, persons of S) householders: the rank function of a polymatroid. The sums over the blocks of a
place are the limits of the place. Whole numbers that satisfy them can be divided among its children (Frank and Tardos,
1988), as in `feasibility`, so that a family can always be estimated.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.refusal import RefusedError
from mechanisms.topdown.dhc.households import HOUSEHOLDS, ORIGIN_AND_RACE
from mechanisms.topdown.dhc.persons import PERSONS
from mechanisms.topdown.dhc.quarters import GROUPS
from mechanisms.topdown.dhc.tree import Held
from mechanisms.topdown.feasibility import Limits, Sets

RACES = 7
"""Six races alone, and two or more races, the codes from 6 of a person's race."""

_AT_ONCE = 2**22
"""The number of limits of blocks computed at once."""


class HouseholdersError(RefusedError, ValueError):
    """More occupied units than persons in households. The message has the number of blocks."""


@dataclass(frozen=True)
class Householders:
    """By block, in the order of its place in a level: the place, the occupied units, and the persons in households by
    Hispanic origin and race, shape (blocks, 14)."""

    place: NDArray[np.int64]
    occupied: NDArray[np.int64]
    persons: NDArray[np.int64]

    def add_up(self, parents: NDArray[np.int64]) -> "Householders":
        """The householders of the level above; `parents` has the position of each place's parent."""
        return Householders(parents[self.place], self.occupied, self.persons)

    def take(self, first: int, last: int) -> "Householders":
        """The householders of the places from `first` up to `last`."""
        own = slice(*np.searchsorted(self.place, [first, last]))
        return Householders(self.place[own], self.occupied[own], self.persons[own])

    @staticmethod
    def find_kinds(cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """The kind of each cell, from 1: its householder's origin and race."""
        return HOUSEHOLDS.marginal(ORIGIN_AND_RACE).find(cells).astype(np.int64) + 1

    def limit(self, first: int, last: int, group: int, kinds: NDArray[np.int64]) -> Limits:
        """The limits of householders in the places from `first` up to `last`, by kind; kinds outside `kinds` are empty.
        There is one group, of all households."""
        own, sets = self.take(first, last), 1 << len(kinds)
        most, step = np.zeros((last - first, sets), dtype=np.int64), max(1, _AT_ONCE // sets)
        for start in range(0, len(own.place), step):
            rows = slice(start, start + step)
            sums = np.zeros((len(own.place[rows]), 1), dtype=np.int64)
            for kind in kinds - 1:
                sums = np.concatenate([sums, sums + own.persons[rows, kind, None]], axis=1)
            np.minimum(sums, own.occupied[rows, None], out=sums)
            places, starts = np.unique(own.place[rows], return_index=True)
            most[places - first] += np.add.reduceat(sums, starts)
        totals = np.bincount(own.place - first, own.occupied, last - first).astype(np.int64)
        least, single = totals[:, None] - most[:, ::-1], 1 << np.arange(len(kinds))
        return Limits(least[:, single], most[:, single], totals, Sets(np.arange(last - first), least, most))


def count_householders(redistricting: Held | NDArray[np.int64], occupied: NDArray[np.int64]) -> Householders:
    """The householders of the finest level, from the redistricting data's persons, shape (places, groups), and occupied
    units, shape (places,). Raises HouseholdersError if there are more occupied units than persons in households."""
    persons = _count_persons(redistricting, len(occupied))
    require_persons(_count_unpeopled(persons, occupied))
    return Householders(np.arange(len(occupied)), occupied, persons)


def count_unpeopled(redistricting: Held, occupied: NDArray[np.int64]) -> int:
    """The places with more occupied units than persons in households."""
    return _count_unpeopled(_count_persons(redistricting, len(occupied)), occupied)


def _count_unpeopled(persons: NDArray[np.int64], occupied: NDArray[np.int64]) -> int:
    return int(np.count_nonzero(persons.sum(axis=1) < occupied))


def require_persons(unpeopled: int) -> None:
    """Raise HouseholdersError if the number of such blocks is not 0."""
    if unpeopled:
        raise HouseholdersError(f"{unpeopled:,} blocks have more occupied units than persons in households")


def _count_persons(redistricting: Held | NDArray[np.int64], places: int) -> NDArray[np.int64]:
    """Persons in households by Hispanic origin and race, shape (places, 14)."""
    if isinstance(redistricting, Held):
        place, group, count = vars(redistricting.counts).values()
    else:
        place, group = np.nonzero(redistricting)
        count = redistricting[place, group]
    own, codes = group < GROUPS // 8, PERSONS.attributes[-1].size
    kind = group // codes % 2 * RACES + np.minimum(group % codes, RACES - 1)
    persons = np.zeros((places, 2 * RACES), dtype=np.int64)
    np.add.at(persons, (place[own], kind[own]), count[own])
    return persons
