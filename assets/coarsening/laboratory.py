"""Coarsening in the laboratory: blocks are merged within their block groups, and rare combinations in a place move."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import numpy as np
from pydantic import Field

from assets.laboratory.points import Draw, Grid, Point
from assets.laboratory.publication import join_frames, split_frames
from assets.laboratory.records import Tract
from assets.release.declaration import Part
from mechanisms.coarsening.design import CoarseningDesign, coarsen, move_small_combinations
from mechanisms.risk.tiers import RACES


@dataclass(frozen=True)
class Coarsened(Point):
    """Records of places that are large enough. The key consists of the attributes that an attacker knows beforehand.
    Race and ethnicity are published unchanged, or belong to the key too."""

    place_threshold: int
    least: int
    by_race: bool

    method = "coarsening"
    tiers = ("T1", "T2")
    random = False

    @property
    def parameters(self) -> str:
        return f"places of {self.place_threshold}, combinations of {self.least}{' by race' if self.by_race else ''}"

    def can_publish(self, tract: Tract) -> bool:
        return len(tract.household) > self.place_threshold

    def draw(self, tract: Tract, key: bytes) -> Draw:
        histograms = tract.count()
        # An uninhabited block is also published together with others.
        histograms[histograms.sum(axis=(1, 2)) == 0, 0, 0] = -1
        block, frame, category = np.nonzero(histograms)
        numbers = np.maximum(histograms[block, frame, category], 0)
        known = split_frames(tract.tier, frame)
        keys = np.stack([*known, *np.divmod(category, RACES)] if self.by_race else known, axis=1)
        places = np.stack([tract.block_group[block], block], axis=1)
        _, place, moved = coarsen(places, keys, numbers, self.place_threshold, self.least)
        frame = join_frames(tract.tier, moved)
        category = moved[:, 2] * RACES + moved[:, 3] if self.by_race else category
        published = np.zeros((int(place.max()) + 1, *tract.tier.shape), dtype=np.int64)
        np.add.at(published, (place, frame, category), numbers)
        of_block = np.zeros(tract.blocks, dtype=np.int64)
        of_block[block] = place
        exact = self.publish(tract, published[of_block], None)
        totals = np.broadcast_to(published.sum(axis=0), exact.counts.shape)
        moves = None if self.by_race else partial(move_small_combinations, least=self.least)
        coarse, units = replace(exact, totals=totals, places=of_block, moves=moves), tract.count_units()
        return Draw(replace(coarse, units=None if units is None else coarse.add_up(units)), np.zeros(0), None)


class Thresholds(Part):
    """The thresholds of a coarsening."""

    place: Annotated[int, Field(ge=2, strict=True)] = Field(
        description="The least number of persons in a published place."
    )
    least: Annotated[int, Field(ge=2, strict=True)] = Field(
        description="The least number of persons with the same values of the key."
    )
    by_race: bool = Field(
        False, description="Whether race and ethnicity are in the key, besides what the attacker already knows."
    )


class CoarseningGrid(Grid):
    """Coarsening, for each set of thresholds."""

    thresholds: tuple[Thresholds, ...] = Field(min_length=1, description="The thresholds.")

    def points(self) -> Sequence[Point]:
        designs = [(CoarseningDesign("persons", (), each.place, (), each.least, ()), each) for each in self.thresholds]
        return [Coarsened(design.place_threshold, design.least, each.by_race) for design, each in designs]
