"""Suppression in the laboratory: the tables of each block without the cells that are small or give small ones away."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from pydantic import Field

from assets.laboratory.points import Draw, Grid, Point
from assets.laboratory.records import Tract
from assets.release.declaration import Part
from mechanisms.risk.posterior import SuppressedLaw
from mechanisms.risk.tiers import TIERS, Counts
from mechanisms.suppression.design import SuppressionDesign


@dataclass(frozen=True)
class Suppressed(Point):
    """The tables of the tier. The tables of one block are linked; blocks have no cell in common."""

    threshold: int
    width: int

    method = "suppression"
    tiers = ("T1", "T2")
    random = False

    @property
    def parameters(self) -> str:
        return f"below {self.threshold}, width {self.width}"

    def draw(self, tract: Tract, key: bytes) -> Draw:
        law = SuppressedLaw(self.threshold)
        blocks = tract.tier.tabulate(tract.count())
        counts = np.stack([_suppress(tract.tier.name, self, block.tobytes()) for block in blocks])
        published, units = self.publish(tract, np.where(counts < 0, law.suppressed, counts), law), tract.count_units()
        if units is not None:
            # These counts have no secondary suppression: P1 reveals a cell of P5 if nobody lives in a household.
            units = np.where((units > 0) & (units < self.threshold), law.suppressed, units)
        return Draw(replace(published, units=units), np.zeros(0), None)


@lru_cache(maxsize=2000)
def _suppress(tier: str, point: Suppressed, counts: bytes) -> Counts:
    """The counts of a block's cells. They are cached: without randomness, most blocks are the same in the world without
    a person."""
    from mechanisms.suppression.linked import suppress

    true = np.frombuffer(counts, dtype=np.int64)
    primary = np.flatnonzero((true > 0) & (true < point.threshold)).tolist()
    return suppress(TIERS[tier].cells.astype(np.int64), true, primary, point.width)


class Widths(Part):
    """The threshold and the width of a suppression."""

    threshold: int = Field(ge=3, strict=True, description="Counts above 0 and below this are suppressed.")
    width: int = Field(
        ge=1,
        strict=True,
        description="The least width of the interval in which the tables leave each suppressed count.",
    )


class SuppressionGrid(Grid):
    """Suppression, for each threshold with its width."""

    rules: tuple[Widths, ...] = Field(min_length=1, description="The thresholds and widths.")

    def points(self) -> Sequence[Point]:
        designs = [SuppressionDesign("persons", rule.threshold, rule.width, ()) for rule in self.rules]
        return [Suppressed(design.threshold, design.width) for design in designs]
