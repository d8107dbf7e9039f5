"""Targeted swapping of pairs: risks, selection, and the partner of each selected household.

Source: Bailie, Gong and Meng, Appendix C, which collects what the Census Bureau has published about the procedure of
2010. This module chooses the unpublished parts: the weights of risks, and the order of preferences.

Every step is linear in the number of households, except sorting within a block and the few groups in which more than
one selected household has no selected partner. The result depends only on the content of the tables and on the draw's
words, one for each household.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mechanisms.pair_swapping.design import ALWAYS, WEIGHTS, RiskFactors, Steps
from mechanisms.sampling.stream import RandomStream, Words

VERSION = 1
"""The mechanism's version. Increase it only when the same stream would give another result."""

Codes = NDArray[np.int32]
Risks = NDArray[np.int8]

LEVELS = 4
"""The places within a state, from the nearest: block group, tract and county, and then the state itself."""

NOBODY = -1

_FIRST, _NEVER = np.int64(-1), np.int64(2**63 - 1)

_BITS_OF_FACTORS = 24
"""The bits of a product of four factors, each of up to 64."""

_SPARE_BITS = 5
"""The bits dropped from a word, so that a weighted word fits in 63 bits: the greatest weight has 5 bits."""


@dataclass(frozen=True)
class Places:
    """The places of each block. Codes of a level ascend with those of the blocks in it, so every level is nested.

    `above`, of shape (4, blocks), has the codes of the block group, the tract, the county and the state of each block.
    Raises ValueError if the codes of a level do not ascend, or two blocks share a place but not a wider one.
    """

    above: Codes

    def __post_init__(self) -> None:
        if self.above.ndim != 2 or len(self.above) != LEVELS:
            raise ValueError(f"there are {LEVELS} levels of places above the block")
        steps = np.diff(self.above, axis=1)
        if np.any(steps < 0):
            raise ValueError("the codes of places ascend with those of blocks")
        if np.any((steps[1:] != 0) & (steps[:-1] == 0)):
            raise ValueError("blocks of one place share every wider place")


@dataclass(frozen=True)
class Households:
    """The households that may be swapped, in ascending order of block.

    Block, group (the values that partners share: state, adults, minors and tenure) and key (the values of the key
    variables) are codes of shape (households,). Raises ValueError if blocks do not ascend, a code is out of range, or a
    group is in two states.
    """

    block: Codes
    group: Codes
    key: Codes
    places: Places

    def __post_init__(self) -> None:
        if not len(self.block) == len(self.group) == len(self.key):
            raise ValueError("the columns of households have one length")
        if any(np.any(codes < 0) for codes in (self.block, self.group, self.key)):
            raise ValueError("the codes of households are not negative")
        if np.any(self.block[1:] < self.block[:-1]):
            raise ValueError("households are in ascending order of block")
        if len(self.block) and self.block[-1] >= self.places.above.shape[1]:
            raise ValueError("every household's block has its places")
        state_of_group = np.empty(int(self.group.max(initial=-1)) + 1, dtype=np.int32)
        state_of_group[self.group] = self.state
        if not np.array_equal(state_of_group[self.group], self.state):
            raise ValueError("households of one group are in one state")

    @property
    def state(self) -> Codes:
        return self.places.above[-1][self.block]


@dataclass(frozen=True)
class Traits:
    """The inputs of the risk factors, each of shape (households,): the number of households in the block, and the
    number of them that are imputed; whether a member has a race that no one outside the household in the block has; and
    the number of imputed items.
    """

    block_households: Codes
    block_imputed: Codes
    unique_race: Codes
    imputed_items: Codes


@dataclass(frozen=True)
class Weights:
    """The factor of each household in addition to the weight of its risk, `numerator` / `denominator`, each at most
    2^24, and which households are always selected; shape (households,)."""

    numerator: NDArray[np.int64]
    denominator: NDArray[np.int64]
    always: NDArray[np.bool_]


@dataclass(frozen=True)
class Swapped:
    """The result of a draw, of shape (households,): the position of each household's partner in the exchange, or
    `NOBODY`, and whether the household was selected."""

    partner: Codes
    selected: NDArray[np.bool_]

    def of(self, values: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.where(self.partner == NOBODY, values, values[self.partner])

    def contradicts(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the result is impossible in the world in which the households at two positions have each other's
        place, shape (pairs,). No two households may be alike.

        From that world, the result is the exchange of the two followed by this draw. The combination is a set of
        disjoint exchanges only if both stay, or exchange their places with each other.
        """
        both_stay = (self.partner[one] == NOBODY) & (self.partner[other] == NOBODY)
        return np.asarray(~both_stay & (self.partner[one] != other))


def risks(households: Households) -> Risks:
    """The risk of every household: 1 if another household in its block has its key values; 2, 3 or 4 if it is unique in
    its block, block group or tract, but in no wider place; and 5 if it is unique in its county."""
    key, block, above = map(_of_kernels, (households.key, households.block, households.places.above))
    by_key = _sorted_by(key, np.arange(len(key), dtype=np.int32))
    risk = np.empty(len(by_key), dtype=np.int8)
    _risks(by_key, key, block, above, risk)
    return risk


def _of_kernels(codes: Codes) -> Codes:
    """Codes in the type that kernels are compiled for; codes from a database are read-only, a different type."""
    return np.require(codes, np.int32, ["C", "W"])


def weigh(factors: RiskFactors, traits: Traits, risk: Risks) -> Weights:
    """The weights that follow from declared factors."""
    numerator, denominator = np.ones(len(risk), dtype=np.int64), np.ones(len(risk), dtype=np.int64)
    ones = np.ones(len(risk), dtype=np.int64)
    _, of_race = factors.unique_race or ("", Fraction(1))
    _, of_items = factors.imputed_items or ("", ())
    race: Steps = ((Fraction(1), of_race),)
    for steps, part, whole in (
        (factors.block_size, traits.block_households, ones),
        (race, traits.unique_race, ones),
        (factors.block_imputation, traits.block_imputed, traits.block_households),
        (of_items, traits.imputed_items, ones),
    ):
        reached = np.zeros(len(risk), dtype=np.int64)
        for least, _ in steps:
            reached += part.astype(np.int64) * least.denominator >= whole.astype(np.int64) * least.numerator
        by_step = [Fraction(1), *(factor for _, factor in steps)]
        numerator *= np.array([factor.numerator for factor in by_step])[reached]
        denominator *= np.array([factor.denominator for factor in by_step])[reached]
    least_risk = 2 + ALWAYS.index(factors.always_selected) if factors.always_selected else len(WEIGHTS) + 1
    return Weights(numerator, denominator, risk >= least_risk)


def swap_pairs(
    households: Households, swap_rate: Fraction, stream: RandomStream, weights: Weights | None = None
) -> Swapped:
    """One draw of the procedure, the same for the same stream and households. The words break ties at random.

    1. In every state, ⌊swap rate × households⌋ are selected: the ones with the smallest word / weight of the risk, so a
       higher risk makes selection more probable (sequential Poisson sampling; Ohlsson, 1998). `weights` multiply the
       weight of the risk; households that are always selected come first, even beyond the rate.
    2. The selected households of each group are paired with each other, as many as possible whose blocks differ: first
       within block groups, then within tracts, counties and the state. The households left out have the lowest risk
       among those that could be left out.
    3. Each remaining selected household is paired with an unselected one of its group in another block: the nearest,
       and among equally near ones the one with the highest risk. If there is none, it is not swapped.
    """
    return pairs_of_words(households, swap_rate, stream.words(len(households.block)), weights)


def pairs_of_words(
    households: Households, swap_rate: Fraction, words: Words, weights: Weights | None = None
) -> Swapped:
    """`swap_pairs` with the words given, one for each household."""
    if not 0 < swap_rate <= 1:
        raise ValueError(f"a swap rate is above 0 and at most 1, not {swap_rate}")
    risk = risks(households)
    uniform = (words >> np.uint64(_SPARE_BITS)).astype(np.int64)
    selected = _selected(households.state, _rank(risk, uniform, weights), swap_rate)
    # The highest risk first, and equal risks in random order.
    order = (np.int64(len(WEIGHTS)) - risk) << np.int64(64 - _SPARE_BITS) | uniform
    partner = np.full(len(selected), NOBODY, dtype=np.int32)
    group, block, above = map(_of_kernels, (households.group, households.block, households.places.above))
    groups = int(group.max(initial=-1)) + 1
    by_group = _sorted_by(group, np.arange(len(selected), dtype=np.int32))
    starts = np.zeros(groups + 1, dtype=np.int64)
    np.cumsum(np.bincount(group, minlength=groups), out=starts[1:])
    _pair(starts, by_group, block, above, selected, risk, order, partner)
    return Swapped(partner, selected)


def _rank(risk: Risks, uniform: NDArray[np.int64], weights: Weights | None) -> NDArray[np.int64]:
    """Word / weight, rounded down with declared weights; `_FIRST` if always selected, `_NEVER` for a weight of 0."""
    least_weight = np.array([max(WEIGHTS) // weight for weight in WEIGHTS], dtype=np.int64)
    if weights is None:
        return uniform * least_weight[risk - 1]
    # Of 59 bits, 35 remain: with 4 of the risk and 24 of the denominator, 63.
    ranked = (uniform >> _BITS_OF_FACTORS) * least_weight[risk - 1] * weights.denominator
    ranked = np.where(weights.numerator == 0, _NEVER, ranked // np.maximum(weights.numerator, 1))
    return np.where(weights.always, _FIRST, ranked)


def _selected(state: Codes, ranked: NDArray[np.int64], swap_rate: Fraction) -> NDArray[np.bool_]:
    """Which households are selected; the states ascend."""
    chosen = np.zeros(len(state), dtype=np.bool_)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(state)) + 1, [len(state)]])
    for first, last in pairwise(starts.tolist()):
        part = ranked[first:last]
        number = number_due(swap_rate, last - first, int((part == _FIRST).sum()), int((part == _NEVER).sum()))
        if number:
            limit = np.partition(part, number - 1)[number - 1]
            below = part < limit
            at_limit = np.flatnonzero(part == limit)[: number - int(below.sum())]
            chosen[first:last] = below
            chosen[first + at_limit] = True
    return chosen


def number_due(swap_rate: Fraction, households: int, always: int = 0, never: int = 0) -> int:
    """The number of a state's households to select: the rate's share, but at least all that always are, and none that
    never are."""
    return min(max(int(swap_rate * households), always), households - never)


def _sorted_by(codes: Codes, positions: Codes) -> Codes:
    """Positions in ascending order of their codes, and in their order among equal codes."""
    sizes = np.bincount(codes)
    starts = np.cumsum(sizes) - sizes
    ordered = np.empty_like(positions)
    _scatter(codes, positions, starts, ordered)
    return ordered


@njit(cache=True, nogil=True)
def _scatter(codes, positions, starts, ordered):  # type: ignore[no-untyped-def]
    """Put each position behind those of its code; `starts` is changed."""
    for position in positions:
        code = codes[position]
        ordered[starts[code]] = position
        starts[code] += 1


@njit(cache=True, nogil=True)
def _risks(by_key, key, block, above, risks):  # type: ignore[no-untyped-def]
    """Fill in the risks; households of one key are in order of block, so only neighbors have to be compared."""
    for place in range(by_key.size):
        position = by_key[place]
        risk = 5
        for other in (place - 1, place + 1):
            if 0 <= other < by_key.size and key[by_key[other]] == key[position]:
                risk = min(risk, 1 + _steps_apart(block[position], block[by_key[other]], above))
        risks[position] = risk


@njit(cache=True, nogil=True)
def _steps_apart(one, other, above):  # type: ignore[no-untyped-def]
    """0 for one block, 1 for one block group, 2 for one tract, 3 for one county, and 4 beyond."""
    if one == other:
        return 0
    for level in range(3):
        if above[level, one] == above[level, other]:
            return level + 1
    return 4


@njit(cache=True, nogil=True)
def _pair(starts, by_group, block, above, selected, risk, order, partner):  # type: ignore[no-untyped-def]
    largest = np.diff(starts).max() if starts.size > 1 else 0
    left = np.empty(largest, dtype=np.int32)
    scores = np.empty(largest, dtype=np.int64)
    candidates = np.empty(largest, dtype=np.int32)
    for group in range(starts.size - 1):
        members = by_group[starts[group] : starts[group + 1]]
        number = 0
        for position in members:
            if selected[position]:
                left[number] = position
                number += 1
        _sort_within_blocks(left, number, block, order)
        for level in range(LEVELS):
            if number:
                number = _pair_within(left, number, above[level], block, order, partner)
        if number:
            _pair_with_others(left, number, members, block, above, selected, risk, order, partner, scores, candidates)


@njit(cache=True, nogil=True)
def _sort_within_blocks(positions, number, block, order):  # type: ignore[no-untyped-def]
    """Sort positions, which are in order of block, by the order of preference within each block."""
    first = 0
    while first < number:
        last = first + 1
        while last < number and block[positions[last]] == block[positions[first]]:
            last += 1
        if last - first > 1:
            part = positions[first:last].copy()
            ranked = np.argsort(order[part])
            for place in range(part.size):
                positions[first + place] = part[ranked[place]]
        first = last


@njit(cache=True, nogil=True)
def _pair_within(positions, number, places, block, order, partner):  # type: ignore[no-untyped-def]
    """Pair positions within each place, in other blocks, as many as possible; keep the rest in front, in order.

    In a place, let L of m households be in the block that has the most. If 2L > m, the m - L others are paired with the
    first of that block. Otherwise, with one left out if m is odd, household i is paired with household i + m/2 in the
    order of blocks: a block with both would have more than m/2.
    """
    kept = 0
    first = 0
    while first < number:
        place = places[block[positions[first]]]
        last = first
        largest, largest_first = 0, first
        while last < number and places[block[positions[last]]] == place:
            begin = last
            while last < number and block[positions[last]] == block[positions[begin]]:
                last += 1
            if last - begin > largest:
                largest, largest_first = last - begin, begin
        size = last - first
        if 2 * largest > size:
            matched = size - largest
            other = first
            for step in range(matched):
                if other == largest_first:
                    other += largest
                one, two = positions[largest_first + step], positions[other]
                partner[one], partner[two] = two, one
                other += 1
            for step in range(matched, largest):
                positions[kept] = positions[largest_first + step]
                kept += 1
        else:
            omitted = -1
            if size % 2:
                omitted = first
                for step in range(first + 1, last):
                    if order[positions[step]] > order[positions[omitted]]:
                        omitted = step
            half = size // 2
            for step in range(half):
                one = first + step
                two = one + half
                if omitted != -1:
                    one += one >= omitted
                    two += two >= omitted
                partner[positions[one]], partner[positions[two]] = positions[two], positions[one]
            if omitted != -1:
                positions[kept] = positions[omitted]
                kept += 1
        first = last
    return kept


@njit(cache=True, nogil=True)
def _pair_with_others(  # type: ignore[no-untyped-def]
    left, number, members, block, above, selected, risk, order, partner, scores, candidates
):
    """Pair a group's remaining households, all in one block, with unselected ones: the nearest, then the riskiest."""
    here = block[left[0]]
    if number == 1:
        best, best_steps = -1, 0
        for position in members:
            if selected[position] or block[position] == here:
                continue
            steps = _steps_apart(here, block[position], above)
            if best == -1 or steps < best_steps or (steps == best_steps and order[position] < order[best]):
                best, best_steps = position, steps
        if best != -1:
            partner[left[0]], partner[best] = best, left[0]
        return
    taken = 0
    for steps in range(1, 5):
        near = 0
        for position in members:
            if not selected[position] and _steps_apart(here, block[position], above) == steps:
                candidates[near], scores[near] = position, order[position]
                near += 1
        ranked = np.argsort(scores[:near])
        for place in range(min(near, number - taken)):
            one, two = left[taken], candidates[ranked[place]]
            partner[one], partner[two] = two, one
            taken += 1
        if taken == number:
            return
