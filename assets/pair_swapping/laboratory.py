"""The pair swapping of 2010 in the laboratory: risky households of a tract exchange their blocks with similar ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from assets.laboratory.points import Changed, Changing, Grid, Point
from assets.laboratory.publication import Swaps
from assets.laboratory.records import Tract
from assets.release.numbers import SwapRate
from mechanisms.risk.tiers import TIERS
from mechanisms.sampling.stream import RandomStream

if TYPE_CHECKING:
    from mechanisms.pair_swapping.pairing import Households

_PAIRS = 500
"""The number of random pairs of households examined in a draw."""


@dataclass(frozen=True)
class PairSwapped(Changing):
    """Exact tables after the swap. Partners agree in their numbers of adults and minors. A household is at risk if no
    other household of its block or a larger place has the same races, ethnicities and ages of adults and minors."""

    rate: Fraction

    method = "pair swapping of 2010"
    tiers = tuple(TIERS)

    @property
    def parameters(self) -> str:
        return f"{float(self.rate):g}"

    @property
    def swaps(self) -> Swaps:
        return Swaps(float(self.rate))

    def change(self, tract: Tract, key: bytes) -> Changed:
        from mechanisms.pair_swapping.pairing import Households, Places, pairs_of_words

        # Words belong to households, so leaving out a person does not change the words of other households.
        words = RandomStream(key, "pairs").words(len(tract.block))
        occupied = np.flatnonzero((tract.sizes > 0) & (tract.quarters == 0))
        members = occupied[np.argsort(tract.block[occupied], kind="stable")]
        group = np.unique(np.stack([tract.sizes, tract.adults], axis=1)[members], axis=0, return_inverse=True)[1]
        above = np.zeros((4, tract.blocks), dtype=np.int32)
        above[:2] = tract.block_group, tract.tract
        households = Households(
            tract.block[members].astype(np.int32),
            group.ravel().astype(np.int32),
            _number_compositions(tract)[members].astype(np.int32),
            Places(above),
        )
        swapped = pairs_of_words(households, self.rate, words[members])
        block = tract.block.copy()
        block[members] = swapped.of(households.block)
        pairs = _choose_pairs(households, key)
        # Where both worlds are possible, their likelihood ratio is unknown.
        ratios = np.where(swapped.contradicts(*pairs), np.inf, np.nan)
        return Changed(replace(tract, block=block), ratios, None)


def _choose_pairs(households: "Households", key: bytes) -> NDArray[np.int64]:
    """Random pairs of households that match but are in different blocks, shape (2, pairs)."""
    order = np.argsort(households.group, kind="stable")
    groups = np.bincount(households.group)
    first = np.cumsum(groups) - groups
    words = RandomStream(key, "neighbors").words(2 * _PAIRS if len(order) else 0).reshape(2, -1)
    one = (words[0] % np.uint64(max(1, len(order)))).astype(np.int64)
    group = households.group[one]
    other = order[first[group] + (words[1] % groups[group].astype(np.uint64)).astype(np.int64)]
    apart = households.block[one] != households.block[other]
    return np.stack([one, other])[:, apart]


def _number_compositions(tract: Tract) -> NDArray[np.int64]:
    """By household, a number for the attributes of its persons, independent of their order."""
    kinds = tract.adult * tract.tier.shape[1] + tract.category
    order = np.lexsort((kinds, tract.household))
    ends = np.cumsum(tract.sizes)
    numbers: dict[bytes, int] = {}
    parts = (kinds[order][first:last].tobytes() for first, last in zip(ends - tract.sizes, ends, strict=True))
    return np.array([numbers.setdefault(part, len(numbers)) for part in parts], dtype=np.int64)


class PairSwappingGrid(Grid):
    """The pair swapping of 2010, for each of the swap rates."""

    rates: tuple[SwapRate, ...] = Field(min_length=1, description="The share of households that is selected.")

    def points(self) -> Sequence[Point]:
        return [PairSwapped(rate) for rate in self.rates]
