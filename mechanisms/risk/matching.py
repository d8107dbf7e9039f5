"""Linking an attacker's file to reconstructed records, as expected counts instead of random matchings.

The attacker has n_X persons in a frame, such as the men aged 30 of a block, and the reconstruction has n_R records
there, m_c of them of category c. Matched without replacement, in random order, a person is matched with probability
min(n_X, n_R) / n_X, and then to a record of category c with probability m_c / n_R (Algorithms 3 and 4 of the
Supplement to the Census Bureau's reconstruction, which draw one matching).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.risk.tiers import Counts, Shares


def match_persons(persons: Counts, records: Counts | Shares) -> Shares:
    """The probability that a person of a frame is matched to a record of each category, shape (…, categories). It sums
    to the probability of being matched at all.

    Args:
        persons: the attacker's persons by frame, shape (…).
        records: the reconstructed records, shape (…, categories).
    """
    found = records.sum(axis=-1)
    matched = np.minimum(persons, found) / np.maximum(1, persons * found)
    return np.asarray(matched[..., None] * records)


def find_modes(counts: Counts | Shares, otherwise: Counts | Shares) -> Shares:
    """The most frequent categories, shape (…, categories), as shares: 1 for the only one; ties share equally. Where all
    counts are 0, it is the mode of `otherwise`, which broadcasts."""
    empty = counts.max(axis=-1, keepdims=True) <= 0
    used = np.where(empty, otherwise, counts)
    modes = (used == used.max(axis=-1, keepdims=True)).astype(np.float64)
    return np.asarray(modes / modes.sum(axis=-1, keepdims=True))


def match_in_two_passes(persons: Counts, records: Counts, group: NDArray[np.int64]) -> Shares:
    """As `match_persons`, first by frame; then unmatched persons and records are matched by group of frames.

    Args:
        persons: shape (…, frames).
        records: shape (…, frames, categories).
        group: of each frame, shape (frames,).
    """
    shares = match_persons(persons, records)
    found = records.sum(axis=-1)
    matched = np.minimum(persons, found)
    left = records * (1 - matched / np.maximum(1, found))[..., None]
    # The number of unmatched records is certain; which ones they are is random, and only the expectation matters.
    of_group = match_persons(_add_up(persons - matched, group, -1), _add_up(left, group, -2))
    unmatched = (persons - matched) / np.maximum(1, persons)
    return np.asarray(shares + unmatched[..., None] * of_group[..., group, :])


def _add_up(counts: NDArray[Any], group: NDArray[np.int64], axis: int) -> NDArray[Any]:
    shape = list(counts.shape)
    shape[axis] = int(group.max()) + 1
    added = np.zeros(shape, dtype=counts.dtype)
    np.add.at(np.moveaxis(added, axis, 0), group, np.moveaxis(counts, axis, 0))
    return added


def measure_agreement_within_a_year(records: Counts, others: Counts, ages: int) -> float:
    """The share of records that are right if ages may differ by a year, matched one to one, equal ones first. Frames
    are groups of `ages` ages; shapes (blocks, frames, categories)."""
    matched, *_ = _match_within_a_year(records, others, ages)
    return float(matched / max(1, others.sum()))


def measure_agreement_with_one_error(records: Counts, others: Counts, ages: int, flags: NDArray[np.int64]) -> float:
    """The same, but two remaining records of a block also agree if their ages differ by at most a year and they differ
    in at most one of the sex and the flags. They are matched in order, as in the Census Bureau's study, so a pair of
    the best matching may be missed. `flags` has the flags of each category as bits, shape (categories,)."""
    matched, *left = _match_within_a_year(records, others, ages)
    ours, theirs = (counts.reshape(len(records), -1, ages, counts.shape[2]) for counts in left)
    for block, of_block in zip(ours, theirs, strict=True):
        sex, age, category = np.nonzero(of_block)
        number = of_block[sex, age, category]
        for kind in np.argwhere(block).tolist():
            different = (sex != kind[0]) + np.bitwise_count(flags[category] ^ flags[kind[2]])
            fitting = np.flatnonzero((np.abs(age - kind[1]) <= 1) & (different <= 1))
            before = np.cumsum(number[fitting]) - number[fitting]
            taken = np.clip(block[tuple(kind)] - before, 0, number[fitting])
            number[fitting] -= taken
            matched += taken.sum()
    return float(matched / max(1, others.sum()))


def _match_within_a_year(records: Counts, others: Counts, ages: int) -> tuple[int, Counts, Counts]:
    """The number of matches, and the rest of both, shapes (blocks × groups, ages, categories)."""
    ours, theirs = (counts.reshape(-1, ages, counts.shape[2]) for counts in (records, others))
    equal = np.minimum(ours, theirs)
    ours, theirs, matched = ours - equal, theirs - equal, int(equal.sum())
    # From the youngest on, a remaining record can only be matched to one older by a year.
    for age in range(1, ages):
        for one, other in ((ours, theirs), (theirs, ours)):
            pairs = np.minimum(one[:, age], other[:, age - 1])
            one[:, age] -= pairs
            other[:, age - 1] -= pairs
            matched += int(pairs.sum())
    return matched, ours, theirs


def measure_agreement(records: Counts, others: Counts) -> float:
    """Σ min over types and blocks, divided by the number of `others`: the share of records that are right."""
    return float(np.minimum(records, others).sum() / max(1, others.sum()))
