"""Measures of a file of records, as offices compute them for microdata: keys that few records have, special uniques,
and the distance to the records from which the file was made.

A file is given by its counts of records: by place, frame and category, or by kinds of records, which have a number for
each variable. It has a record of every person, so its frequencies are those of the population and no model of a sample
is needed.
"""

from collections.abc import Mapping
from itertools import combinations
from math import factorial

import numpy as np
from numpy.typing import NDArray

from mechanisms.risk.tiers import Counts, Shares

Kinds = NDArray[np.int64]
"""Kinds of records, shape (kinds, variables)."""

LARGEST_UNIQUE = 3
"""The most variables of the minimal sample uniques searched for."""


def measure_keys(counts: Counts) -> Mapping[str, float]:
    """Shares of the records of a file, by the number F of records with the same key, a place and frame; counts of shape
    (places, frames, categories).

    `below 2`, `below 3` and `below 5` violate k-anonymity. `individual risk` is the mean of 1/F, the chance to find a
    record by its key. `one category` violates 2-diversity: of several records of a key, all have the same category.
    """
    of_key, persons = counts.sum(axis=2), max(1, int(counts.sum()))
    shares = {f"below {most}": float(of_key[of_key < most].sum() / persons) for most in (2, 3, 5)}
    same = (of_key > 1) & (counts.max(axis=2) == of_key)
    return shares | {
        "individual risk": float(np.count_nonzero(of_key) / persons),
        "one category": float(of_key[same].sum() / persons),
    }


def find_special_uniques(kinds: Kinds, counts: Counts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each kind, the score of its minimal sample uniques of at most `LARGEST_UNIQUE` variables, and the number of
    variables of the smallest one; 0 and 0 if it has none. `counts` has the records of each kind, shape (kinds,).

    A set of variables is a minimal sample unique of a record if no other record has its values, and every smaller set
    is shared. With M variables, one of k adds (M − k)! to the score (Elliot, Manning and Ford, "A computational
    algorithm for handling the special uniques problem", 2002).
    """
    variables = kinds.shape[1]
    scores, smallest = (np.zeros(len(kinds), dtype=np.int64) for _ in range(2))
    unique: dict[tuple[int, ...], NDArray[np.bool_]] = {}
    for size in range(1, min(LARGEST_UNIQUE, variables) + 1):
        for chosen in combinations(range(variables), size):
            _, group = np.unique(kinds[:, chosen], axis=0, return_inverse=True)
            alone = np.bincount(group.ravel(), weights=counts)[group.ravel()] == 1
            smaller = [unique[fewer] for fewer in combinations(chosen, size - 1) if fewer]
            minimal = alone & ~np.any(smaller, axis=0) if smaller else alone
            unique[chosen] = alone
            scores += np.where(minimal, factorial(variables - size), 0)
            smallest = np.where(minimal & (smallest == 0), size, smallest)
    return scores, smallest


def measure_distances(kinds: Kinds, others: Kinds) -> NDArray[np.int64]:
    """For each kind, the number of variables in which it differs from the nearest of the others; the number of all
    variables plus one if there are none. Both have the same variables."""
    nearest = np.full(len(kinds), kinds.shape[1] + 1)
    for other in others:
        nearest = np.minimum(nearest, (kinds != other).sum(axis=1))
    return nearest


def compare_distances(kinds: Kinds, counts: Counts, truth: Kinds, holdout: Kinds) -> Shares:
    """The number of records of each kind that are nearer to the true records of a place than to equally many holdout
    records of other people; ties count half. If the holdout has the distribution of the true records, half of the
    records are nearer in a file that repeats no one."""
    own, other = (measure_distances(kinds, each) for each in (truth, holdout))
    return np.asarray(counts * np.where(own == other, 0.5, own < other))
