"""Extended swaps by enumeration: exact kernels between all contingency tables.

Like `enumeration`, this module never calls the code under test. A *table* counts records by holding value (row) and
swap value (column). The rows are divided into strata, by holding values alone. A *kernel* is a matrix of exact
probabilities from tables to tables: a stir is one, and so is randomized response. Mechanisms are products of kernels,
so that two stirs, or noise and then a stir, are enumerated one after the other.

The probability of a permutation of rows follows from Bailie, Gong and Meng, Appendix E, with a swap rate for each
record: the selected records are chosen independently, one alone is chosen anew, and a uniform derangement permutes
them.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import permutations, product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tests.mechanisms.swapping.enumeration import derangement_number

Table: TypeAlias = tuple[tuple[int, ...], ...]
"""Counts by holding value and, within it, by swap value."""

Kernel: TypeAlias = NDArray[np.object_]
"""Probabilities as fractions: shape (from, to)."""

Rate: TypeAlias = Callable[[int, int, Table], Fraction]
"""The swap rate of a record, from its holding value, its swap value and the table. Only wrong rates depend on the last
two."""


def by_holding(*rates: str | Fraction) -> Rate:
    """The swap rate of a record by its holding value."""
    exact = [Fraction(rate) for rate in rates]
    return lambda holding, swap, table: exact[holding]


def tables(rows: Sequence[int], columns: Sequence[int]) -> list[Table]:
    """Every table with both margins."""
    return list(_tables(tuple(rows), tuple(columns)))


@cache
def _tables(rows: tuple[int, ...], columns: tuple[int, ...]) -> tuple[Table, ...]:
    if not rows:
        return ((),)
    found = []
    for first in product(*(range(column + 1) for column in columns)):
        if sum(first) == rows[0]:
            left = tuple(column - part for column, part in zip(columns, first, strict=True))
            found += [(first, *rest) for rest in _tables(rows[1:], left) if sum(left) == sum(rows[1:])]
    return tuple(found)


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Every way to divide a number of records among values, some of which may have none."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


def records(table: Table) -> list[tuple[int, int]]:
    """The records of a table, as (holding value, swap value), in ascending order."""
    return [
        (holding, swap) for holding, row in enumerate(table) for swap, count in enumerate(row) for _ in range(count)
    ]


def tabulated(rows: Sequence[tuple[int, int]], shape: tuple[int, int]) -> Table:
    """The table of records."""
    counts = [[0] * shape[1] for _ in range(shape[0])]
    for holding, swap in rows:
        counts[holding][swap] += 1
    return tuple(map(tuple, counts))


def distance(one: Table, other: Table) -> int:
    """The fewest records in which two data sets of the same size differ."""
    mine, theirs = np.array(one), np.array(other)
    return int(np.abs(mine - theirs).sum()) // 2


@cache
def _permutations(size: int) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Every permutation of a stratum, with the positions that it moves."""
    return tuple(
        (order, tuple(place for place, new in enumerate(order) if place != new)) for order in permutations(range(size))
    )


def permutation_probabilities(rates: Sequence[Fraction]) -> dict[tuple[int, ...], Fraction]:
    """The probability of every permutation of a stratum, whose records have these swap rates."""
    if len(rates) < 2:
        return {tuple(range(len(rates))): Fraction(1)}
    none = math.prod((1 - rate for rate in rates), start=Fraction(1))
    odds = [rate / (1 - rate) for rate in rates]
    kept = 1 - none * sum(odds, Fraction(0))

    def weight(selected: tuple[int, ...]) -> Fraction:
        return none * math.prod((odds[place] for place in selected), start=Fraction(1)) / kept

    return {
        order: none
        * math.prod((odds[place] for place in moved), start=Fraction(1))
        / kept
        / derangement_number(len(moved))
        for order, moved in _permutations(len(rates))
    }


def stir(states: Sequence[Table], strata: Sequence[int], rate: Rate) -> Kernel:
    """The kernel of one stir.

    Args:
        states: the tables, all of one shape. They contain every possible result of a stir of each.
        strata: the stratum of each holding value.
        rate: the swap rate of a record.
    """
    index = {table: place for place, table in enumerate(states)}
    kernel = np.full((len(states), len(states)), Fraction(0), dtype=object)
    for start, table in enumerate(states):
        outcomes: dict[tuple[tuple[int, int], ...], Fraction] = {(): Fraction(1)}
        for stratum in sorted(set(strata)):
            within = [record for record in records(table) if strata[record[0]] == stratum]
            chances = permutation_probabilities([rate(*record, table) for record in within])
            stirred: dict[tuple[tuple[int, int], ...], Fraction] = {}
            for order, chance in chances.items():
                rows = tuple(sorted((within[place][0], within[new][1]) for place, new in enumerate(order)))
                stirred[rows] = stirred.get(rows, Fraction(0)) + chance
            outcomes = {
                before + rows: chance * more for before, chance in outcomes.items() for rows, more in stirred.items()
            }
        for rows, chance in outcomes.items():
            kernel[start, index[tabulated(rows, (len(table), len(table[0])))]] += chance
    return kernel


Weight: TypeAlias = Callable[[Sequence[tuple[int, int]], tuple[int, ...]], int]
"""How likely a derangement of selected records is, in proportion, from all records and the new order of their swap
values; 0 for one that is not allowed."""


def alike(rows: Sequence[tuple[int, int]], order: tuple[int, ...]) -> int:
    """The weight of Algorithm 1."""
    return 1


def not_vacuous(rows: Sequence[tuple[int, int]], order: tuple[int, ...]) -> int:
    """No derangement that leaves the table as it was (Bailie, Gong and Meng, Appendix C.2)."""
    after = [(rows[place][0], rows[new][1]) for place, new in enumerate(order)]
    return int(sorted(after) != sorted(rows))


def moving_all(rows: Sequence[tuple[int, int]], order: tuple[int, ...]) -> int:
    """No derangement that leaves a selected record its swap value."""
    return int(all(place == new or rows[place][1] != rows[new][1] for place, new in enumerate(order)))


def preferring_near(factor: int) -> Weight:
    """Each record that gets another of the first two swap values, which are near each other, multiplies by a factor."""

    def weigh(rows: Sequence[tuple[int, int]], order: tuple[int, ...]) -> int:
        near = (place != new and rows[place][1] < 2 and rows[new][1] < 2 for place, new in enumerate(order))
        return int(factor ** sum(near))

    return weigh


def stir_by_weight(states: Sequence[Table], rate: Fraction, weight: Weight) -> Kernel:
    """The kernel of a stir of one stratum whose derangements are not equally likely.

    Records are selected anew if no derangement of them has a weight, as a single one never has.
    """
    index = {table: place for place, table in enumerate(states)}
    kernel = np.full((len(states), len(states)), Fraction(0), dtype=object)
    for start, table in enumerate(states):
        rows = records(table)
        by_selection: dict[tuple[int, ...], dict[tuple[int, ...], int]] = {}
        for order, selected in _permutations(len(rows)):
            by_selection.setdefault(selected, {})[order] = weight(rows, order) if selected else 1
        chances = {
            selected: rate ** len(selected) * (1 - rate) ** (len(rows) - len(selected))
            for selected, weights in by_selection.items()
            if any(weights.values())
        }
        for selected, chance in chances.items():
            weights = by_selection[selected]
            for order, own in weights.items():
                after = tabulated([(rows[place][0], rows[new][1]) for place, new in enumerate(order)], _shape(table))
                kernel[start, index[after]] += chance / sum(chances.values()) * Fraction(own, sum(weights.values()))
    return kernel


def _shape(table: Table) -> tuple[int, int]:
    return len(table), len(table[0])


def randomized_response(states: Sequence[Table], keep: Fraction) -> Kernel:
    """The kernel that keeps each record's holding value with a probability, and else gives it another one uniformly."""
    index = {table: place for place, table in enumerate(states)}
    kernel = np.full((len(states), len(states)), Fraction(0), dtype=object)
    for start, table in enumerate(states):
        values, shape = len(table), (len(table), len(table[0]))
        outcomes = {tabulated([], shape): Fraction(1)}
        for holding, swap in records(table):
            after: dict[Table, Fraction] = {}
            for reached, chance in outcomes.items():
                for new in range(values):
                    counts = [list(row) for row in reached]
                    counts[new][swap] += 1
                    noisy = tuple(map(tuple, counts))
                    more = chance * (keep if new == holding else (1 - keep) / (values - 1))
                    after[noisy] = after.get(noisy, Fraction(0)) + more
            outcomes = after
        for reached, chance in outcomes.items():
            kernel[start, index[reached]] += chance
    return kernel


def laplace(states: Sequence[Table], ratio: Fraction) -> Kernel:
    """The kernel that adds independent discrete Laplace noise to every cell, on a window of outputs that is enough.

    P(noise = k) is proportional to `ratio`^|k|. The columns are the outputs with every cell from 0 to the number of
    records. An output beyond this window has the probability of the nearest output in it times a power of `ratio`
    that does not depend on the input. So no ratio of two probabilities is greater beyond the window than in it: a bound
    that holds in the window holds everywhere.
    """
    most = sum(map(sum, states[0]))
    normalizer = (1 - ratio) / (1 + ratio)
    cells = np.array([sum(table, ()) for table in states])
    outputs = np.array(list(product(range(most + 1), repeat=cells.shape[1])))
    away = np.abs(cells[:, None, :] - outputs[None, :, :]).sum(axis=2)
    powers = np.array([normalizer ** cells.shape[1] * ratio**exponent for exponent in range(int(away.max()) + 1)])
    return powers[away]


def largest_ratio(kernel: Kernel, pairs: Sequence[tuple[int, int]]) -> Fraction | float:
    """The largest P(output | one) / P(output | other) over pairs and outputs; infinite if one is impossible alone."""
    largest: Fraction | float = Fraction(1)
    for one, other in pairs:
        for mine, theirs in set(zip(kernel[one], kernel[other], strict=True)):
            if mine and not theirs:
                return math.inf
            if theirs:
                largest = max(largest, mine / theirs)
    return largest


def attained_loss(kernel: Kernel, states: Sequence[Table]) -> float:
    """The smallest ε for which the kernel's probabilities satisfy the definition; infinite if supports differ."""
    if np.any((kernel > 0) != (kernel[0] > 0)):
        return math.inf
    logarithms = np.vectorize(lambda chance: math.log(chance) if chance else 0.0, otypes=[float])(kernel)
    return max(
        float(np.max(np.abs(logarithms[one] - logarithms[other]))) / distance(states[one], states[other])
        for one, other in every_pair(states)
    )


def holds(kernel: Kernel, states: Sequence[Table], exponential: Fraction, pairs: Sequence[tuple[int, int]]) -> bool:
    """Whether P(output | one) <= exponential^distance P(output | other) for all pairs and outputs, without rounding."""
    return all(
        not np.any(kernel[one] > exponential ** distance(states[one], states[other]) * kernel[other])
        for one, other in pairs
    )


def every_pair(states: Sequence[Table]) -> list[tuple[int, int]]:
    """All ordered pairs of different tables."""
    return [(one, other) for one in range(len(states)) for other in range(len(states)) if one != other]
