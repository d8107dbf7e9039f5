"""An attacker who knows the swap rate looks for persons in the records of their own block, and in all others.

Each household stays with a known probability. Otherwise it moves to another block, more probably to a large one. So the
records of a cell, which is a frame of a block, are a binomial number of its own persons who stay, and a number of
others who arrive, assumed to be Poisson. By Bayes' theorem, the number of records is evidence of whether a person
stays, leaves or arrives.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mechanisms.risk.tiers import Counts, Shares

_NOBODY = 1e-9
"""The least expected number of arrivals in a cell."""
_LEAST = 1e-290
"""Replaces a probability below the least float."""


def weigh_places(known: Counts, records: Counts, stay: float) -> tuple[Shares, Shares]:
    """The likelihood ratios of the numbers of records, shape (blocks, frames), if a known person stays in the cell,
    against if she leaves it; and if a given person arrives, against if she does not. Both are 0 where there is no
    record.

    Args:
        known: the persons by block and frame, before any moves.
        records: the published records by block and frame.
        stay: the probability that a household stays, above 0 and below 1.
    """
    persons = known.sum(axis=1, keepdims=True)
    arriving = (1 - stay) * (known.sum(axis=0) - known) * persons / max(1, int(persons.sum()))
    own, found, mean = known.ravel(), records.ravel(), np.maximum(arriving.ravel(), _NOBODY)[:, None]
    numbers = np.arange(int(found.max(initial=0)) + 1)
    factorials = np.cumsum(np.log(np.maximum(numbers, 1)))
    # By cell, the probability of each number of records of the other persons.
    chances = np.exp(numbers * np.log(mean) - mean - factorials)
    stays, arrives = np.zeros(len(own)), np.zeros(len(own))
    for number in range(int(own.max(initial=0)) + 1):
        chances = np.maximum(chances, _LEAST)
        for ratios, others in ((arrives, number), (stays, number + 1)):
            cells = np.flatnonzero((own == others) & (found > 0))
            ratios[cells] = chances[cells, found[cells] - 1] / chances[cells, found[cells]]
        before = np.pad(chances, ((0, 0), (1, 0)))[:, :-1]
        chances = stay * before + (1 - stay) * chances
    return stays.reshape(known.shape), arrives.reshape(known.shape)


def share_records(
    known: Counts,
    records: Counts,
    persons: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    stay: Shares,
) -> Shares:
    """The posterior shares of the categories of each person, shape (persons, categories); 0 of all if no record of the
    frame can be hers. Persons of a household move together.

    Args:
        known: the persons by block and frame, as in `weigh_places`.
        records: the published records, shape (blocks, frames, categories).
        persons: the household, block and frame of each person.
        stay: by category, the probability that a person of the category stays in the block.
    """
    household, block, frame = persons
    found = records.sum(axis=2)
    frequent = float(np.average(stay, weights=records.sum(axis=(0, 1)) + _NOBODY))
    stays, arrives = (np.log(np.maximum(each, _LEAST)) for each in weigh_places(known, found, frequent))
    _, first, number = np.unique(household, return_index=True, return_inverse=True)
    home, of_block = block[first], np.maximum(known.sum(axis=1), _NOBODY)
    # ln of the weight of each block for each household; the weight of its own block is that of staying.
    weights = np.zeros((len(first), len(known)))
    np.add.at(weights, number, arrives[:, frame].T)
    left = np.maximum(of_block.sum() - of_block[home], _NOBODY)
    weights += np.log(of_block) - np.log(left)[:, None]
    own = np.zeros(len(first))
    np.add.at(own, number, stays[block, frame])
    weights[np.arange(len(first)), home] = own
    weights = np.exp(weights - weights.max(axis=1, keepdims=True))
    staying = weights[np.arange(len(first)), home].copy()
    weights[np.arange(len(first)), home] = 0
    shares = np.zeros((len(frame), records.shape[2]))
    for each, members in _group(frame):
        of_record = records[:, each] / np.maximum(1, found[:, each, None])
        here = staying[number[members], None] * of_record[block[members]]
        shares[members] = stay * here + (1 - stay) * (weights[number[members]] @ of_record)
    sums = shares.sum(axis=1, keepdims=True)
    return np.asarray(np.where(sums > 0, shares / np.where(sums > 0, sums, 1), 0))


def _group(frame: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each occupied frame, with the positions of its persons."""
    order = np.argsort(frame, kind="stable")
    frames, first = np.unique(frame[order], return_index=True)
    yield from zip(frames.tolist(), np.split(order, first[1:]), strict=True)
