"""Permutation swapping in the laboratory: households are swapped between the blocks of a tract or county, optionally
after randomized response on race and ethnicity."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from assets.laboratory.points import Changed, Changing, Grid
from assets.laboratory.publication import Swaps
from assets.laboratory.records import Tract
from assets.release.declaration import Part
from assets.release.numbers import SwapRate
from assets.swapping.declaration import Keep
from mechanisms.risk.tiers import TIERS
from mechanisms.sampling.stream import RandomStream
from mechanisms.swapping.likelihood import compute_log_ratios
from mechanisms.swapping.loss import theorem_1
from mechanisms.swapping.response import Response, shifts

_MOST_PAIRS = 200
"""The most pairs of a stratum for which likelihood ratios are computed."""


@dataclass(frozen=True)
class Swapped(Changing):
    """Exact tables of records whose households were swapped at a rate, among the matching households of the tract or
    county.

    Attributes:
        rare_rate: the rate of households with a person whose race and ethnicity at most `at_most` households of the
            tract have, if it differs.
        second_rate: the rate of a second stir, within the tract, after a first stir within block groups; None for one
            stir.
    """

    rate: Fraction
    match: tuple[str, ...]
    rare_rate: Fraction | None = None
    at_most: int = 0
    second_rate: Fraction | None = None

    method = "swapping"
    tiers = tuple(TIERS)

    @property
    def parameters(self) -> str:
        words = f"{float(self.rate):g} by {' and '.join(self.match)}"
        if self.rare_rate is not None:
            words += f", {float(self.rare_rate):g} if rare"
        return words if self.second_rate is None else f"{words}, then {float(self.second_rate):g}"

    @property
    def swaps(self) -> Swaps:
        stay = 1 - (self.second_rate or 0)
        rare = None if self.rare_rate is None else float(1 - (1 - self.rare_rate) * stay)
        return Swaps(float(1 - (1 - self.rate) * stay), rare, self.at_most)

    def change(self, tract: Tract, key: bytes) -> Changed:
        """The change, with likelihood ratios if there is a single rate."""
        block, rare = tract.block.copy(), self._find_rare(tract)
        if self.second_rate is None:
            ratios, loss = self._stir(tract, block, self._find_places(tract), (self.rate, rare), (key, ""))
            return Changed(replace(tract, block=block), ratios, 2 * loss)
        within = tract.block_group[tract.block]
        _, first = self._stir(tract, block, within, (self.rate, rare), (key, "first "))
        _, second = self._stir(
            tract, block, np.zeros_like(block), (self.second_rate, np.zeros_like(rare)), (key, "second ")
        )
        return Changed(replace(tract, block=block), np.zeros(0), 2 * (first + second))

    def _stir(
        self,
        tract: Tract,
        block: NDArray[np.int64],
        within: NDArray[np.int64],
        rates: tuple[Fraction, NDArray[np.bool_]],
        random: tuple[bytes, str],
    ) -> tuple[NDArray[np.float64], float]:
        """Swap the blocks of households, by changing `block`, within places; return the likelihood ratios and ε.
        `rates` has the rate and a mask of the households with the rare rate; `random` has the key and the prefix of the
        streams' names."""
        from mechanisms.swapping.permutation import permute_strata

        rate, rare = rates
        by_name = {"persons": tract.sizes, "adults": tract.adults}
        matched = np.stack([within, *(by_name[name] for name in self.match)], axis=1)
        # Group quarters do not move, and a household without persons is a vacant unit.
        occupied = np.flatnonzero((tract.sizes > 0) & (tract.quarters == 0))
        strata, stratum = np.unique(matched[occupied], axis=0, return_inverse=True)
        ratios, losses = [np.zeros(0)], [0.0]
        for number, values in enumerate(strata.tolist()):
            members = occupied[stratum.ravel() == number]
            if len(members) < 2:
                continue
            # A stream for each stratum, so leaving out a person changes the swaps of two strata only.
            stream = RandomStream(random[0], f"{random[1]}stratum {values}")
            order = np.arange(len(members), dtype=np.int32)
            used = [rate, self.rare_rate or rate]
            permute_strata(np.array([0, len(members)]), order, used, stream, rare[members].astype(np.int32))
            block[members] = block[members[order]]
            if not rare.any():
                ratios.append(compute_log_ratios(order.astype(np.int64), rate, _choose_pairs(len(members))))
            present = [used[kind] for kind in np.unique(rare[members]).astype(int).tolist()]
            losses.append(max(float(theorem_1(len(members), each)) for each in present))
        return np.concatenate(ratios), max(losses)

    def _find_places(self, tract: Tract) -> NDArray[np.int64]:
        """By household, the place within which it is swapped: the same for all."""
        return np.zeros_like(tract.block)

    def _find_rare(self, tract: Tract) -> NDArray[np.bool_]:
        if self.rare_rate is None:
            return np.zeros(len(tract.block), dtype=np.bool_)
        held = np.unique(np.stack([tract.household, tract.category]), axis=1)
        households = np.bincount(held[1])
        rare = np.zeros(len(tract.block), dtype=np.bool_)
        rare[held[0][households[held[1]] <= self.at_most]] = True
        return rare


@dataclass(frozen=True)
class SwappedInGroups(Swapped):
    """The same among the households of a block group."""

    @property
    def parameters(self) -> str:
        return f"{super().parameters}, in block groups"

    def _find_places(self, tract: Tract) -> NDArray[np.int64]:
        return tract.block_group[tract.block]


@dataclass(frozen=True)
class SwappedInTracts(Swapped):
    """The same among the households of a tract of a county."""

    needs_counties = True

    @property
    def parameters(self) -> str:
        return f"{super().parameters}, in tracts"

    def _find_places(self, tract: Tract) -> NDArray[np.int64]:
        return tract.tract[tract.block]


@dataclass(frozen=True)
class Randomized(Changing):
    """Exact tables after randomized response on race and ethnicity: each person keeps the true category with a
    probability, and otherwise gets one of the other categories with equal probability."""

    keep: Fraction

    method = "noise"
    tiers = ("T1", "T2", "T3")

    @property
    def parameters(self) -> str:
        return f"{float(self.keep):g} kept"

    def change(self, tract: Tract, key: bytes) -> Changed:
        response = Response("category", self.keep, tract.tier.shape[1])
        category, place = tract.category.copy(), tract.place_in_household
        for number in range(int(place.max(initial=-1)) + 1):
            # A word for each household, so leaving out a person does not change the words of other households.
            moves, members = shifts(response, len(tract.block), RandomStream(key, f"person {number}")), place == number
            category[members] += moves[tract.household[members]]
        return Changed(replace(tract, category=category % response.size), np.zeros(0), None)


def _choose_pairs(size: int) -> NDArray[np.int64]:
    """Pairs of positions, evenly spaced among all pairs. The households' positions are arbitrary."""
    pairs = np.stack(np.triu_indices(size, 1), axis=1)
    return pairs[:: -(-len(pairs) // _MOST_PAIRS)]


class RareRate(Part):
    """A rate of its own for households with rare persons."""

    rate: SwapRate = Field(description="Their swap rate.")
    at_most: int = Field(
        ge=1,
        strict=True,
        description="A person is rare if at most this many households of the tract have a person of the same race and "
        "ethnicity.",
    )


class SwappingGrid(Grid):
    """Permutation swapping, for each of the swap rates."""

    rates: tuple[SwapRate, ...] = Field(min_length=1, description="The swap rates.")
    match: tuple[Literal["persons", "adults"], ...] = Field(
        ("persons",), min_length=1, description="The match variables: a household's number of persons, or of adults."
    )
    in_tracts: bool = Field(
        False, description="With `counties`: whether swaps within tracts are compared too, besides those in the county."
    )
    rare: RareRate | SkipJsonSchema[None] = Field(
        None, description="Further swaps to compare, in which households with rare persons have a rate of their own."
    )
    in_block_groups: bool = Field(False, description="Whether swaps within block groups are compared too.")
    then_p_tables: bool = Field(False, description="Whether each swap followed by each of `p_tables` is compared too.")
    second_rate: SwapRate | SkipJsonSchema[None] = Field(
        None,
        description="Further swaps to compare: a first swap within block groups, and then a second one in the tract, "
        "at this rate.",
    )
    noise_before: Keep | SkipJsonSchema[None] = Field(
        None,
        description="Further swaps to compare: each swap after randomized response, in which race and ethnicity stay "
        "as they are with this probability; only in tiers T1 to T3.",
    )

    def points(self) -> Sequence[Swapped]:
        points = [Swapped(rate, self.match) for rate in self.rates]
        if self.in_block_groups:
            points += [SwappedInGroups(rate, self.match) for rate in self.rates]
        if self.in_tracts:
            points += [SwappedInTracts(rate, self.match) for rate in self.rates]
        if self.rare is not None:
            points += [Swapped(rate, self.match, self.rare.rate, self.rare.at_most) for rate in self.rates]
        if self.second_rate is not None:
            points += [Swapped(rate, self.match, second_rate=self.second_rate) for rate in self.rates]
        return points
