"""Permutation swapping by enumeration: exact output distributions of the algorithm and of wrong ones.

Several tests compare the code with this module, which never calls the code under test. The probabilities follow from
Bailie, Gong and Meng, Algorithm 1, and every permutation and every contingency table is tried.

A mechanism is the probability of a permutation as a function of the lengths of its cycles (fixed points are cycles of
length 1) and of the swap rate p. The mechanisms compared here depend on these two alone.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import permutations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Cycles: TypeAlias = tuple[int, ...]
Mechanism: TypeAlias = Callable[[Cycles, Fraction], Fraction]


def derangement_number(size: int) -> int:
    """d(size), by inclusion and exclusion."""
    return sum((-1) ** fixed * math.factorial(size) // math.factorial(fixed) for fixed in range(size + 1))


def moved(cycles: Cycles) -> int:
    """How many records a permutation moves: the selected ones, if the permutation came from a derangement."""
    return sum(length for length in cycles if length > 1)


def selected_exactly(chosen: int, records: int, swap_rate: Fraction) -> Fraction:
    """The probability that independent selection picks one given set of `chosen` records, and no other record."""
    return swap_rate**chosen * (1 - swap_rate) ** (records - chosen)


def selected_one(records: int, swap_rate: Fraction) -> Fraction:
    """The probability that independent selection picks a single record."""
    return records * selected_exactly(1, records, swap_rate)


def algorithm_1(cycles: Cycles, swap_rate: Fraction) -> Fraction:
    """The Permutation Swapping Algorithm (Bailie, Gong and Meng, above E.5)."""
    records, chosen = sum(cycles), moved(cycles)
    selection = selected_exactly(chosen, records, swap_rate) / (1 - selected_one(records, swap_rate))
    return selection / derangement_number(chosen)


def shuffled(cycles: Cycles, swap_rate: Fraction) -> Fraction:
    """Wrong: the selected records are shuffled, and may be fixed; if one alone is selected, there is no new draw."""
    records, chosen = sum(cycles), moved(cycles)
    return sum(
        (
            math.comb(records - chosen, more)
            * selected_exactly(chosen + more, records, swap_rate)
            / math.factorial(chosen + more)
            for more in range(records - chosen + 1)
        ),
        Fraction(0),
    )


def shuffled_anew(cycles: Cycles, swap_rate: Fraction) -> Fraction:
    """Wrong: as `shuffled`, but with a new draw if exactly one record was selected."""
    records, single = sum(cycles), selected_one(sum(cycles), swap_rate)
    unchanged = single if moved(cycles) == 0 else 0
    return (shuffled(cycles, swap_rate) - unchanged) / (1 - single) if records > 1 else Fraction(1)


def capped(cycles: Cycles, swap_rate: Fraction) -> Fraction:
    """Wrong: at most one swap of two records; if more were selected, there is a new draw."""
    records, chosen = sum(cycles), moved(cycles)
    kept = sum(math.comb(records, few) * selected_exactly(few, records, swap_rate) for few in (0, 2))
    return selected_exactly(chosen, records, swap_rate) / kept if chosen <= 2 else Fraction(0)


def single_released(cycles: Cycles, swap_rate: Fraction) -> Fraction:
    """Wrong: if exactly one record was selected, there is no new draw and the record is released unchanged."""
    records, chosen = sum(cycles), moved(cycles)
    selection = selected_exactly(chosen, records, swap_rate) + (selected_one(records, swap_rate) if not chosen else 0)
    return selection / derangement_number(chosen)


def cyclic(cycles: Cycles, swap_rate: Fraction) -> Fraction:
    """Wrong: the selected records are permuted by a single cycle (Sattolo's shuffle), not by any derangement."""
    chosen = moved(cycles)
    if chosen not in (0, max(cycles)):
        return Fraction(0)
    return algorithm_1(cycles, swap_rate) * derangement_number(chosen) / math.factorial(max(chosen - 1, 0))


@cache
def permutations_by_cycles(records: int) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[Cycles, ...]]:
    """Every permutation, shape (records!, records); the index of its cycle type; the cycle types."""
    every = list(permutations(range(records)))
    types = [cycle_type(permutation) for permutation in every]
    distinct = tuple(sorted(set(types)))
    return np.array(every), np.array([distinct.index(cycles) for cycles in types]), distinct


def cycle_type(permutation: tuple[int, ...]) -> Cycles:
    """The lengths of a permutation's cycles, ascending."""
    lengths, seen = [], set()
    for start in range(len(permutation)):
        length, position = 0, start
        while position not in seen:
            seen.add(position)
            position, length = permutation[position], length + 1
        lengths += [length] if length else []
    return tuple(sorted(lengths))


@dataclass(frozen=True)
class Stratum:
    """The two margins of a stratum, records by holding value and by swap value. All its tables share them."""

    holding: tuple[int, ...]
    swap: tuple[int, ...]

    @property
    def records(self) -> int:
        return sum(self.holding)

    @property
    def has_distinct_records(self) -> bool:
        return len(self.holding) > 1 or len(self.swap) > 1

    @property
    def tables(self) -> NDArray[np.int64]:
        """Every contingency table with these margins: shape (tables, holding values × swap values)."""
        return np.array([sum(rows, ()) for rows in _fill(self.holding, self.swap)])


def _fill(rows: tuple[int, ...], columns: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    if not rows:
        yield ()
        return
    for row in _parts(rows[0], columns):
        left = tuple(column - part for column, part in zip(columns, row, strict=True))
        for rest in _fill(rows[1:], left):
            yield (row, *rest)


def _parts(total: int, limits: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if len(limits) == 1:
        if total <= limits[0]:
            yield (total,)
        return
    for first in range(min(total, limits[0]) + 1):
        for rest in _parts(total - first, limits[1:]):
            yield (first, *rest)


@cache
def _transitions(stratum: Stratum) -> NDArray[np.int64]:
    """How many permutations of each cycle type turn one table into another: shape (from, to, cycle types)."""
    every, type_of, types = permutations_by_cycles(stratum.records)
    tables = stratum.tables
    cells, values = tables.shape[1], len(stratum.swap)
    weights = cells ** np.arange(stratum.records)
    place = {int(np.repeat(np.arange(cells), table) @ weights): index for index, table in enumerate(tables)}
    counts = np.zeros((len(tables), len(tables), len(types)), dtype=np.int64)
    for index, table in enumerate(tables):
        holding, swap = np.divmod(np.repeat(np.arange(cells), table), values)
        released = np.sort(holding * values + swap[every], axis=1) @ weights
        reached, inverse = np.unique(released, return_inverse=True)
        targets = np.array([place[int(key)] for key in reached])
        np.add.at(counts[index], (targets[inverse], type_of), 1)
    return counts


@dataclass(frozen=True)
class Universe:
    """All data sets, as contingency tables, that share both margins in every stratum."""

    strata: tuple[Stratum, ...]

    @property
    def largest_stratum(self) -> int:
        """b: the largest stratum that holds two distinct records, 0 if there is none."""
        return max((stratum.records for stratum in self.strata if stratum.has_distinct_records), default=0)

    def distances(self) -> NDArray[np.int64]:
        """Hamming distance of every pair of members, up to the order of records: shape (members, members)."""
        total = np.zeros((1, 1), dtype=np.int64)
        for stratum in self.strata:
            tables = stratum.tables
            within = np.abs(tables[:, None] - tables[None]).sum(axis=2) // 2
            total = (total[:, None, :, None] + within[None, :, None, :]).reshape(
                len(total) * len(within), len(total) * len(within)
            )
        return total

    def distributions(self, mechanism: Mechanism, swap_rate: Fraction) -> NDArray[np.object_]:
        """Probability of each output (column) given each member (row), times one denominator: whole numbers."""
        product = np.ones((1, 1), dtype=object)
        for stratum in self.strata:
            types = permutations_by_cycles(stratum.records)[2]
            exact = [mechanism(cycles, swap_rate) for cycles in types]
            denominator = math.lcm(*(probability.denominator for probability in exact))
            weights = np.array([int(probability * denominator) for probability in exact], dtype=object)
            product = np.kron(product, _transitions(stratum).astype(object) @ weights)
        return product


def bound_holds(universe: Universe, mechanism: Mechanism, swap_rate: Fraction, exponential: Fraction) -> bool:
    """Whether P_x(c) <= exponential^d(x, x') P_x'(c) for every pair x, x' and output c, without rounding.

    Args:
        exponential: e^ε.
    """
    weights, distances = universe.distributions(mechanism, swap_rate), universe.distances()
    for distance in np.unique(distances):
        one, other = np.nonzero(distances == distance)
        upper, lower = exponential.numerator ** int(distance), exponential.denominator ** int(distance)
        if not np.all(weights[one] * lower <= weights[other] * upper):
            return False
    return True


def attained_loss(universe: Universe, mechanism: Mechanism, swap_rate: Fraction) -> float:
    """The smallest valid ε: max of |ln P_x(c) - ln P_x'(c)| / d(x, x'); infinite if supports differ."""
    weights, distances = universe.distributions(mechanism, swap_rate), universe.distances()
    possible = weights > 0
    if np.any(possible != possible[0]):
        return math.inf
    logarithms = np.vectorize(math.log, otypes=[float])(weights[:, possible[0]])
    return max(
        (
            float(np.max(np.abs(logarithms[one] - logarithms[other]))) / int(distances[one, other])
            for one, other in zip(*np.nonzero(np.triu(distances)), strict=True)
        ),
        default=0.0,
    )


def margins(records: int, fewest: int, most: int) -> list[tuple[int, ...]]:
    """Every way to divide records among `fewest` to `most` values, all of them used, up to the values' names."""
    return [
        parts
        for values in range(fewest, most + 1)
        for parts in _parts(records, (records,) * values)
        if all(parts) and list(parts) == sorted(parts)
    ]
