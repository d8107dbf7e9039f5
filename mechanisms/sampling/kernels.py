"""The compiled loops of `inversion` and `goodness`, in a module that only draws and gates on draws import."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def look_up(words, floors, guide, shift, half, values):  # type: ignore[no-untyped-def]
    """Decide words in order, into `values`. Returns how many were decided before the first undecided one."""
    for place in range(words.size):
        word = words[place]
        index = np.int64(guide[word >> shift])
        while floors[index] < word:
            index += 1
        if floors[index] == word:
            return place
        values[place] = index - half
    return words.size


@njit(cache=True, nogil=True)
def count_by_bin(values, edges, bins):  # type: ignore[no-untyped-def]
    """The number of values in each bin, shape (bins,): bin b has those that are greater than b of the edges."""
    counts = np.zeros(bins, dtype=np.int64)
    for value in values:
        place = 0
        for edge in edges:
            place += edge < value
        counts[place] += 1
    return counts
