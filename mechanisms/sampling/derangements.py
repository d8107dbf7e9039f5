"""Uniform derangements: permutations without a fixed point.

Source: Martínez, Panholzer and Prodinger, "Generating random derangements" (ANALCO 2008), the rejection method with
early refusal.

A Fisher-Yates shuffle from the top down makes every permutation equally likely and settles one position in each step.
The shuffle starts again as soon as a position keeps its own element, so a finished shuffle is uniform over the
permutations without a fixed point.
"""

import numpy as np
from numba import njit

from mechanisms.sampling.integers import remainder_is_fair

FINISHED = 0


@njit(cache=True, nogil=True)
def derange(permutation, size, unsettled, words, cursor, top):  # type: ignore[no-untyped-def]
    """Continue a shuffle until it is finished or the words are used up.

    Args:
        permutation: int32, shape (at least size,): the shuffle so far, changed in place.
        size: how many positions are permuted; at least 2.
        unsettled: how many positions, from the first, are not settled yet; `size + 1` to begin.
        words: uint64: random words from 0 to `top`.
        cursor: index of the first unused word.
        top: uint64: the greatest word.

    Returns:
        (unsettled, cursor) after the last word used. `unsettled` is `FINISHED` once `permutation[:size]` is a
        derangement, uniform among all.
    """
    while True:
        if unsettled > size:
            for position in range(size):
                permutation[position] = position
            unsettled = size
        while unsettled > 1:
            if cursor == words.size:
                return unsettled, cursor
            word = words[cursor]
            cursor += 1
            bound = np.uint64(unsettled)
            remainder = word % bound
            if not remainder_is_fair(word, remainder, bound, top):
                continue
            last, other = unsettled - 1, np.int64(remainder)
            settled = permutation[other]
            permutation[other] = permutation[last]
            permutation[last] = settled
            if settled == last:
                unsettled = size + 1
                break
            unsettled -= 1
        if unsettled == 1:
            if permutation[0] != 0:
                return FINISHED, cursor
            unsettled = size + 1
