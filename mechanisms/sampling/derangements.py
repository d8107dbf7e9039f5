"""Uniform derangements, permutations without a fixed point: the rejection method with early refusal of Martínez,
Panholzer and Prodinger, "Generating random derangements" (ANALCO 2008).

A Fisher-Yates shuffle from the top down makes every permutation equally likely and settles one position in each step.
It starts again as soon as a position keeps its own element.
"""

import numpy as np
from numba import njit
from numba.extending import register_jitable

FINISHED = 0


@register_jitable(inline="always")
def remainder_is_fair(word, remainder, bound, top):  # type: ignore[no-untyped-def]
    """Whether a word's remainder modulo `bound` may be used as a uniform integer below `bound`: unless the word is in
    the run of `bound` words that `top` cuts short. All arguments are uint64, with 1 <= bound <= top."""
    return word - remainder <= top - (bound - np.uint64(1))


@njit(cache=True, nogil=True)
def derange(permutation, size, unsettled, words, cursor, top):  # type: ignore[no-untyped-def]
    """Continue a shuffle until it is finished or the words are used up.

    Args:
        permutation: int32, shape (at least size,): the shuffle so far, changed in place.
        size: the number of permuted positions, at least 2.
        unsettled: the number of positions, from the first, that are not settled yet; `size + 1` to begin.
        words: uint64, random from 0 to `top`, of which `cursor` is the first unused one.

    Returns (unsettled, cursor) after the last word used. `unsettled` is `FINISHED` once `permutation[:size]` is a
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
