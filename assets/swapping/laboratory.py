"""Permutation swapping in the laboratory: households of a tract are swapped between its blocks."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from assets.laboratory.points import Draw, Grid, Point
from assets.laboratory.records import Tract
from assets.release.numbers import SwapRate
from mechanisms.sampling.stream import RandomStream
from mechanisms.swapping.likelihood import compute_log_ratios
from mechanisms.swapping.loss import theorem_1

_MOST_PAIRS = 200
"""The most pairs of a stratum of which likelihood ratios are computed."""


@dataclass(frozen=True)
class Swapped(Point):
    """Exact tables of records whose households were swapped at a rate, among those of the tract that match."""

    rate: Fraction
    match: tuple[str, ...]

    method = "swapping"
    tiers = ("T1", "T2")

    @property
    def parameters(self) -> str:
        return f"{float(self.rate):g} by {' and '.join(self.match)}"

    def draw(self, tract: Tract, key: bytes) -> Draw:
        from mechanisms.swapping.permutation import permute_strata

        matched = np.stack([{"persons": tract.sizes, "adults": tract.adults}[name] for name in self.match], axis=1)
        # Group quarters stay where they are, and a household of nobody is a vacant unit.
        occupied = np.flatnonzero((tract.sizes > 0) & ~tract.quarters)
        strata, stratum = np.unique(matched[occupied], axis=0, return_inverse=True)
        block, ratios, largest = tract.block.copy(), [np.zeros(0)], 0
        for number, values in enumerate(strata.tolist()):
            members = occupied[stratum.ravel() == number]
            if len(members) < 2:
                continue
            largest = max(largest, len(members))
            # A stream for each stratum: a person who is left out changes the swaps of two strata alone.
            stream, order = RandomStream(key, f"stratum {values}"), np.arange(len(members), dtype=np.int32)
            permute_strata(np.array([0, len(members)]), order, (self.rate,), stream)
            block[members] = tract.block[members[order]]
            ratios.append(compute_log_ratios(order.astype(np.int64), self.rate, _choose_pairs(len(members))))
        bound = 2 * float(theorem_1(largest, self.rate))
        return Draw(self.publish_tables(tract, block), np.concatenate(ratios), bound)


def _choose_pairs(size: int) -> NDArray[np.int64]:
    """Pairs of positions, spread over all: which households have which is arbitrary."""
    pairs = np.stack(np.triu_indices(size, 1), axis=1)
    return pairs[:: -(-len(pairs) // _MOST_PAIRS)]


class SwappingGrid(Grid):
    """Permutation swapping, for each of the swap rates."""

    rates: tuple[SwapRate, ...] = Field(min_length=1, description="The swap rates.")
    match: tuple[Literal["persons", "adults"], ...] = Field(
        ("persons",), min_length=1, description="The match variables: the persons, or the adults, of a household."
    )

    def points(self) -> Sequence[Point]:
        return [Swapped(rate, self.match) for rate in self.rates]
