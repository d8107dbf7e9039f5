"""The Permutation Swapping Algorithm on a contingency table: Algorithm 1 of Bailie, Gong and Meng.

It reads and returns counts of records by (stratum, holding value, swap value), as codes, so the result cannot depend on
a record's identity or position. `permute` has one swap rate for all records; `stir` has rates by group of records,
several rounds, and noise before the first, as derived in `docs/mechanisms/swapping-extensions.md`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mechanisms.sampling.derangements import FINISHED, derange
from mechanisms.sampling.stream import TOP_WORD, WORDS_AT_A_TIME, Coin, RandomStream
from mechanisms.swapping.loss import EXEMPT, Stir
from mechanisms.swapping.response import Response, respond

VERSION = 2
"""The mechanism's version. Increase it only when the same stream would give another result. It is 2 since codes number
the values of variables in alphabetical order, independently of the order of declarations."""

Codes = NDArray[np.int32]
Counts = NDArray[np.int64]

_CELLS_AT_A_TIME = 1 << 20
_TALLIED = 1 << 24
"""Swap codes below this one are counted as they are; greater ones are numbered first, to count them in less memory."""

_SELECTING, _DERANGING = 0, 1


@dataclass(frozen=True)
class Contingency:
    """Counts of records by holding value and swap value, within strata: the nonzero cells.

    Columns have the shape (cells,): the codes of the values of the match variables, of all holding variables (which
    determine the stratum) and of the swap variables, and the records. Raises ValueError if the cells are not in
    strictly ascending order of (holding, swap), strata do not ascend with holding values, a holding value is in two
    strata, a code is negative, or a count is below 1. The order is fixed so that the result of a draw depends only on
    the content.
    """

    stratum: Codes
    holding: Codes
    swap: Codes
    count: Counts

    def __post_init__(self) -> None:
        if not len(self.stratum) == len(self.holding) == len(self.swap) == len(self.count):
            raise ValueError("the columns of a contingency table have one length")
        # Each part begins with the last cell of the part before. Many small arrays are faster than a few large ones.
        for first in range(0, len(self.count), _CELLS_AT_A_TIME):
            self._check(slice(max(0, first - 1), first + _CELLS_AT_A_TIME))

    def _check(self, cells: slice) -> None:
        stratum, holding, swap = self.stratum[cells], self.holding[cells], self.swap[cells]
        if np.any(self.count[cells] < 1):
            raise ValueError("a contingency table holds only cells with records")
        if any(np.any(codes < 0) for codes in (stratum, holding, swap)):
            raise ValueError("the codes of a contingency table are not negative")
        next_holding, same_holding = holding[:-1] < holding[1:], holding[:-1] == holding[1:]
        if not np.all(next_holding | (same_holding & (swap[:-1] < swap[1:]))):
            raise ValueError("the cells of a contingency table ascend by holding and swap value")
        same_stratum = stratum[:-1] == stratum[1:]
        if not np.all(same_stratum | (next_holding & (stratum[:-1] < stratum[1:]))):
            raise ValueError("a holding value determines its stratum, and strata ascend with holding values")


def permute(table: Contingency, swap_rate: Fraction, stream: RandomStream) -> Contingency:
    """One draw of the Permutation Swapping Algorithm: the saturated contingency table of the swapped records.

    In each stratum of two records or more, every record is selected with probability p, the swap rate, exact and
    strictly between 0 and 1; if exactly one is selected, the selection is repeated. A uniform derangement permutes the
    swap values of the selected records. The counts by holding value and those by stratum and swap value do not change
    (Bailie, Gong and Meng, Proposition 4). The same stream and table give the same result.
    """
    values, positions = _number_values(table.swap)
    swap = np.repeat(positions, table.count)
    permute_strata(_starts(table.stratum, table.count), swap, (swap_rate,), stream)
    return _count_swapped(table, swap, values)


def stir(
    table: Contingency,
    stirs: Sequence[Stir],
    streams: Sequence[RandomStream],
    responses: Sequence[Response] = (),
    noise: RandomStream | None = None,
) -> Contingency:
    """Several stirs, one after the other, with swap rates that differ between records, after noise on holding values.

    Args:
        stirs: for each stir, the stratum and the rate of every cell of the table. Its strata consist of strata of the
            stir before, and the strata of the table of those of the last one.
        responses: randomized response on the holding variables, before the first stir. With it, the strata of all stirs
            are those of the table, rates do not differ within a stratum, and a holding code is the code of its stratum
            times the number of combinations of holding values in it, plus the code of the combination.
        noise: the randomness of the noise; None without it.
    """
    values, positions = _number_values(table.swap)
    holding, swap = (np.repeat(codes, table.count) for codes in (table.holding, positions))
    if noise is not None:
        respond(holding, responses, noise)
    for of_cells, stream in zip(stirs, streams, strict=True):
        rate_class = np.repeat(of_cells.rate_class, table.count)
        permute_strata(_starts(of_cells.stratum, table.count), swap, of_cells.rates, stream, rate_class)
    if noise is None:
        return _count_swapped(table, swap, values)
    holding, swap, counts = count_cells((holding.astype(np.int64) << 32) | swap)
    combinations = math.prod(response.size for response in responses)
    return Contingency(holding // np.int32(combinations), holding, values[swap], counts)


def permute_strata(
    starts: Counts, values: Codes, rates: Sequence[Fraction], stream: RandomStream, rate_class: Codes | None = None
) -> None:
    """Permute values within strata, in place.

    Args:
        starts: shape (strata + 1,): stratum m holds the records from `starts[m]` up to `starts[m + 1]`.
        values: shape (records,): the swap value of each record.
        rates: the swap rates, strictly between 0 and 1; `EXEMPT` only with another one.
        rate_class: shape (records,): the position of each record's rate; the first one by default.
    """
    if rate_class is None:
        rate_class = np.zeros(len(values), dtype=np.int32)
    coins = [Coin(np.uint64(0), TOP_WORD) if rate == EXEMPT and len(rates) > 1 else Coin.of(rate) for rate in rates]
    heads, last_fair = (np.array([getattr(coin, name) for coin in coins]) for name in ("heads", "last_fair"))
    largest = int(np.diff(starts).max(initial=0))
    workspace = np.empty((3, largest), dtype=np.int32)
    state = (0, _SELECTING, 0, 0)
    while state[0] < len(starts) - 1:
        words = stream.words(WORDS_AT_A_TIME)
        state = _go_on(starts, values, rate_class, workspace, words, TOP_WORD, heads, last_fair, state)


@njit(cache=True, nogil=True)
def _go_on(starts, values, rate_class, workspace, words, top, heads, last_fair, state):  # type: ignore[no-untyped-def]
    """Continue through the strata from `state`, (stratum, phase, position in the phase, records selected), until the
    words are used up, or the strata: then stratum = strata. A stratum of exempt records, whose coin never shows heads,
    is left alone and uses no words."""
    stratum, phase, position, chosen = state
    selected, permutation, kept = workspace[0], workspace[1], workspace[2]
    cursor = 0
    while stratum < starts.size - 1:
        first = starts[stratum]
        size = starts[stratum + 1] - first
        if size < 2 or heads[rate_class[first]] == 0:
            stratum += 1
            continue
        if phase == _SELECTING:
            while position < size:
                if cursor == words.size:
                    return stratum, phase, position, chosen
                word = words[cursor]
                cursor += 1
                coin = rate_class[first + position]
                if word <= last_fair[coin]:
                    selected[chosen] = position
                    chosen += word < heads[coin]
                    position += 1
            if chosen == 1:
                position, chosen = 0, 0
                continue
            if chosen > 1:
                phase, position = _DERANGING, chosen + 1
        if phase == _DERANGING:
            position, cursor = derange(permutation, chosen, position, words, cursor, top)
            if position != FINISHED:
                return stratum, phase, position, chosen
            for record in range(chosen):
                kept[record] = values[first + selected[record]]
            for record in range(chosen):
                values[first + selected[record]] = kept[permutation[record]]
        stratum, phase, position, chosen = stratum + 1, _SELECTING, 0, 0
    return stratum, phase, position, chosen


def find_firsts(codes: Codes) -> NDArray[np.intp]:
    """The positions at which another code begins."""
    return np.flatnonzero(np.append(len(codes) > 0, codes[1:] != codes[:-1]))


def measure_strata(table: Contingency) -> tuple[int, int]:
    """The number of strata, and b: the size of the largest stratum with two distinct records, those of two cells; 0 if
    there is none."""
    firsts = find_firsts(table.stratum)
    cells = np.diff(firsts, append=len(table.stratum))
    sizes = np.add.reduceat(table.count, firsts)
    return len(firsts), int(sizes[cells > 1].max(initial=0))


def _starts(stratum: Codes, count: Counts) -> Counts:
    """Where each stratum starts among the records, shape (strata + 1,), from the strata and counts of cells."""
    sizes = np.add.reduceat(count, find_firsts(stratum))
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def _number_values(swap: Codes) -> tuple[Codes, Codes]:
    """Swap values in ascending order, and the position of each cell's value among them."""
    most = int(swap.max(initial=-1))
    if most < _TALLIED:
        return np.arange(most + 1, dtype=np.int32), swap
    values, positions = np.unique(swap, return_inverse=True)
    return values, positions.astype(np.int32)


def _count_swapped(table: Contingency, swap: Codes, values: Codes) -> Contingency:
    """The table of records with the holding values of `table`, in its order, whose swap values are those at the
    positions `swap`, of shape (records,), among ascending values. The positions are overwritten."""
    firsts = find_firsts(table.holding)
    ends = np.cumsum(np.add.reduceat(table.count, firsts))
    counts, cells_of = np.empty(len(swap), dtype=np.int32), np.empty(len(firsts), dtype=np.int64)
    tally = np.zeros(len(values), dtype=np.int32)
    cells = _tally(ends, swap, tally, counts, cells_of)
    stratum, holding = (np.repeat(codes[firsts], cells_of) for codes in (table.stratum, table.holding))
    return Contingency(stratum, holding, values[swap[:cells]], counts[:cells].astype(np.int64))


def count_cells(keys: NDArray[np.int64]) -> tuple[Codes, Codes, Counts]:
    """Holding value, swap value and number of records of each cell, in ascending order. Each key is the cell of a
    record: 2³² times the holding value plus the swap value. The keys are overwritten."""
    keys.sort()
    holding, swap = (np.empty(len(keys), dtype=np.int32) for _ in range(2))
    cells = _count_sorted(keys, holding, swap)
    return holding[:cells], swap[:cells], keys[:cells]


@njit(cache=True, nogil=True)
def _tally(ends, swap, tally, counts, cells_of):  # type: ignore[no-untyped-def]
    """Count records with the same holding value by swap value, and return the number of cells.

    Records are not sorted, only the cells of each holding value, whose records end at `ends`. The first swap values are
    replaced by those of the cells, ascending for each holding value; their counts, and the number of cells of each
    holding value, are filled in. `tally` has a 0 for every swap value, before and after.
    """
    cells = first = 0
    for group in range(ends.size):
        begun = cells
        for record in range(first, ends[group]):
            code = swap[record]
            if not tally[code]:
                swap[cells] = code
                cells += 1
            tally[code] += 1
        first = ends[group]
        swap[begun:cells].sort()
        for cell in range(begun, cells):
            counts[cell] = tally[swap[cell]]
            tally[swap[cell]] = 0
        cells_of[group] = cells - begun
    return cells


@njit(cache=True, nogil=True)
def _count_sorted(keys, holding, swap):  # type: ignore[no-untyped-def]
    """Fill in the cells of sorted keys, replace the first keys by their counts, and return the number of cells."""
    cells, last = 0, np.int64(-1)
    for record in range(keys.size):
        key = keys[record]
        if key == last:
            keys[cells - 1] += 1
            continue
        last = key
        holding[cells], swap[cells], keys[cells] = key >> 32, key & 0xFFFFFFFF, 1
        cells += 1
    return cells
