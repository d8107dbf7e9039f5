"""The compiled loops of `inversion`, `goodness` and p-tables, in a module that only draws and gates on draws import."""

import numpy as np
from numba import njit

_IN_CACHE = 4096


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
def count_by_bin(values, edges):  # type: ignore[no-untyped-def]
    """The number of values in each bin, shape (edges + 1,): bin b has the values that are greater than b of the
    edges."""
    above = np.zeros(edges.size + 2, dtype=np.int64)
    above[0] = values.size
    # A few at a time stay in the processor's cache.
    for first in range(0, values.size, _IN_CACHE):
        part = values[first : first + _IN_CACHE]
        for place in range(edges.size):
            above[place + 1] += np.sum(part > edges[place])
    return above[:-1] - above[1:]


@njit(cache=True, nogil=True)
def count_differences_by_bin(values, positions, subtracted, edges):  # type: ignore[no-untyped-def]
    """The same for values, some of them less the numbers `subtracted`; a position can be given several times."""
    counts, sums = count_by_bin(values, edges), np.zeros(values.size, dtype=np.int64)
    for place in range(positions.size):
        sums[positions[place]] += subtracted[place]
    for position in positions:
        if sums[position] != 0:
            value = np.int64(values[position])
            counts[np.searchsorted(edges, value)] -= 1
            counts[np.searchsorted(edges, value - sums[position])] += 1
            sums[position] = 0
    return counts


@njit(cache=True, nogil=True)
def decide_words(words, numbers, starts, floors, exact, changes, drawn):  # type: ignore[no-untyped-def]
    """Decide words in order, into `drawn`. Returns how many were decided before the first undecided one."""
    for place in range(words.size):
        word = words[place]
        low, high = starts[numbers[place]], starts[numbers[place] + 1] - 1
        # The first interval whose upper end is above the word; the last interval's upper end is 1.
        while low < high:
            middle = (low + high) // 2
            if floors[middle] > word or (floors[middle] == word and not exact[middle]):
                high = middle
            else:
                low = middle + 1
        if low < starts[numbers[place] + 1] - 1 and floors[low] == word:
            return place
        drawn[place] = changes[low]
    return words.size


@njit(cache=True, nogil=True)
def find_changes(numbers, keys, starts, ends, changes):  # type: ignore[no-untyped-def]
    """The change of the first interval of each cell's row whose upper end is above its key."""
    drawn = np.empty(numbers.size, dtype=np.int64)
    for place in range(numbers.size):
        low, high = starts[numbers[place]], starts[numbers[place] + 1] - 1
        while low < high:
            middle = (low + high) // 2
            if ends[middle] > keys[place]:
                high = middle
            else:
                low = middle + 1
        drawn[place] = changes[low]
    return drawn
