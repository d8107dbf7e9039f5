"""Linking an attacker's file to reconstructed records, as expected counts in place of random matchings.

The attacker has n_X persons in a frame, such as the men aged 30 of a block, and the reconstruction has n_R records
there, m_c of them of category c. Matched without replacement, in random order, a person is matched with probability
min(n_X, n_R) / n_X, and then to a record of category c with probability m_c / n_R (Algorithms 3 and 4 of the
Supplement to the Census Bureau's reconstruction, which draw one matching).
"""

import numpy as np

from mechanisms.risk.tiers import Counts, Shares


def match_persons(persons: Counts, records: Counts) -> Shares:
    """The probability that a person of a frame is matched to a record of each category, shape (…, categories). It sums
    to the probability to be matched at all.

    Args:
        persons: the attacker's persons by frame, shape (…).
        records: the reconstructed records, shape (…, categories).
    """
    found = records.sum(axis=-1)
    matched = np.minimum(persons, found) / np.maximum(1, persons * found)
    return np.asarray(matched[..., None] * records)


def find_modes(counts: Counts | Shares, otherwise: Counts | Shares) -> Shares:
    """The most frequent categories, shape (…, categories), as shares: 1 for the only one; ties share equally. Where
    nothing is counted, it is the mode of `otherwise`, which broadcasts."""
    empty = counts.max(axis=-1, keepdims=True) <= 0
    used = np.where(empty, otherwise, counts)
    modes = (used == used.max(axis=-1, keepdims=True)).astype(np.float64)
    return np.asarray(modes / modes.sum(axis=-1, keepdims=True))


def measure_agreement(records: Counts, others: Counts) -> float:
    """Σ min over types and blocks, divided by the number of the second ones: the share of records that are right."""
    return float(np.minimum(records, others).sum() / max(1, others.sum()))
