"""Small countries at random, with everything that the DHC rests on, and histograms that a parent could have."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.topdown.dhc.persons import HOUSEHOLD_CODES, MAJOR_TYPE, PERSONS, QUARTERS_TYPES, REDISTRICTING
from mechanisms.topdown.schema import Counts, Schema

Numbers = NDArray[np.int64]


def count(schema: Schema, number: Numbers, cell: Numbers, times: Numbers | None = None) -> Counts:
    keys, inverse = np.unique(number * schema.size + cell, return_inverse=True)
    counts = np.bincount(inverse, times, len(keys)).astype(np.int64)
    return Counts(keys // schema.size, keys % schema.size, counts)


def add_up(schema: Schema, counts: Counts, parents: Numbers) -> Counts:
    return count(schema, parents[counts.number], counts.cell, counts.count)


@dataclass(frozen=True)
class Country:
    """Blocks in a tree, with persons and facilities. `parents` is by level, from the root's."""

    parents: list[Numbers]
    blocks: Numbers
    cells: Numbers
    facilities: Numbers

    @property
    def persons(self) -> list[Counts]:
        """By level, from the root's."""
        levels = [count(PERSONS, self.blocks, self.cells)]
        for above in self.parents[:0:-1]:
            levels.insert(0, add_up(PERSONS, levels[0], above))
        return levels

    def sum_up(self, finest: Numbers) -> list[Numbers]:
        levels = [finest]
        for above in self.parents[:0:-1]:
            summed = np.zeros((int(above.max()) + 1, finest.shape[1]), dtype=np.int64)
            np.add.at(summed, above, levels[0])
            levels.insert(0, summed)
        return levels

    @property
    def redistricting(self) -> list[Numbers]:
        blocks = len(self.parents[-1])
        return self.sum_up(self.persons[-1].answer(PERSONS.marginal(REDISTRICTING), 0, blocks))

    def redraw(self, random: np.random.Generator) -> list[Counts]:
        """By level, the histograms of other persons with the same redistricting data in the same facilities."""
        group = PERSONS.marginal(REDISTRICTING)
        types = PERSONS.marginal(QUARTERS_TYPES)
        drawn = np.empty_like(self.cells)
        for own in np.unique(group.find(self.cells)):
            possible = np.flatnonzero((group.cells == own) & PERSONS.possible)
            for person in np.flatnonzero(group.find(self.cells) == own):
                kinds = types.find(possible)
                allowed = possible[(kinds == 0) | (self.facilities[self.blocks[person], kinds - 1] > 0)]
                drawn[person] = random.choice(allowed)
        other = Country(self.parents, self.blocks, drawn, self.facilities)
        return other.persons


def draw_country(seed: int, *fans: int, persons: float = 12, races: int = 2, quarters: float = 0.6) -> Country:
    """Few races, ages and relationships, so that cells and groups are shared; many blocks with group quarters."""
    random = np.random.default_rng(seed)
    parents, places = [np.zeros(1, dtype=np.int64)], 1
    for fan in fans:
        children = random.integers(1, fan + 1, places)
        parents.append(np.repeat(np.arange(places), children))
        places = len(parents[-1])
    number, cell, facilities = [], [], np.zeros((places, 24), dtype=np.int64)
    for block in range(places):
        kinds = np.array([0, 1, 2, 6, 9, 11])[random.integers(0, 6, random.poisson(persons))]
        if random.random() < quarters:
            for kind in random.choice(24, random.integers(1, 5), replace=False).tolist():
                facilities[block, kind] = random.integers(1, 3)
                inmates = random.integers(facilities[block, kind], facilities[block, kind] + 8)
                kinds = np.append(kinds, np.full(inmates, HOUSEHOLD_CODES + kind))
        sex, hispanic = random.integers(0, 2, (2, len(kinds)))
        race = random.integers(0, races, len(kinds))
        age = np.array([random.choice(_AGES[kind]) for kind in kinds], dtype=np.int64)
        number.append(np.full(len(kinds), block))
        cell.append((((kinds * 2 + sex) * 116 + age) * 2 + hispanic) * 63 + race)
    return Country(parents, np.concatenate(number), np.concatenate(cell).astype(np.int64), facilities)


def _list_ages() -> list[list[int]]:
    possible = PERSONS.possible.reshape(42, 2, 116, 126)[:, 0, :, 0]
    return [[age for age in (4, 16, 17, 19, 22, 33, 40, 64, 66, 70, 80) if possible[code, age]] for code in range(42)]


_AGES = _list_ages()

MAJOR = np.array(MAJOR_TYPE[1:])
