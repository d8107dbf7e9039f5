"""The success of guesses that do not use the target's record: guessers who know all others of a place.

Both guessers leave the target out, so a person with a unique category is never guessed from her own answer. They are
computed from the truth, so only an evaluation may call them.
"""

import numpy as np
from numpy.typing import NDArray

from mechanisms.risk.matching import find_modes
from mechanisms.risk.tiers import Counts, Shares


def guess_by_mode(place: NDArray[np.int64], category: NDArray[np.int64], categories: int) -> Shares:
    """For each person, shape (persons,), the probability that the most frequent category among the others of the place
    is the person's. Ties are broken at random. For a person alone in a place, the mode of all others counts."""
    return _guess(place, category, categories, by_mode=True)


def guess_by_share(place: NDArray[np.int64], category: NDArray[np.int64], categories: int) -> Shares:
    """The same for a guess that is drawn from the shares of the others: (n_t − 1) / (n − 1)."""
    return _guess(place, category, categories, by_mode=False)


def _guess(place: NDArray[np.int64], category: NDArray[np.int64], categories: int, *, by_mode: bool) -> Shares:
    counts: Counts = np.zeros((int(place.max(initial=-1)) + 1, categories), dtype=np.int64)
    np.add.at(counts, (place, category), 1)
    # Persons of one place and category have the same others.
    kinds, of_person = np.unique(place * categories + category, return_inverse=True)
    places, own = kinds // categories, kinds % categories
    others = counts[places]
    others[np.arange(len(kinds)), own] -= 1
    everywhere = np.broadcast_to(counts.sum(axis=0), others.shape).copy()
    everywhere[np.arange(len(kinds)), own] -= 1
    if by_mode:
        guesses = find_modes(others, everywhere)
    else:
        used = np.where(others.sum(axis=1, keepdims=True) > 0, others, everywhere)
        guesses = used / np.maximum(1, used.sum(axis=1, keepdims=True))
    return np.asarray(guesses[np.arange(len(kinds)), own][of_person])
