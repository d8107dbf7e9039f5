"""The records of a tract, which publications are made from and guesses are compared with: the truth.

The process of attacks imports this module as little as it could open the records.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from assets.release.dataset import DatasetDeclaration
from mechanisms.risk.tiers import AGE_STARTS, RACES, REDISTRICTING, WITH_TRACT, YEAR_STARTS, Counts, Tier
from resources.warehouse import Session

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Tract:
    """The persons of a tract, by household. Households, group quarters among them, and blocks are numbered.

    Attributes:
        block: by household, its block; shape (households,).
        block_group: by block, its block group; ascending; shape (blocks,).
        quarters: by household, whether it is group quarters.
        household: by person, the household; shape (persons,).
        adult: by person, whether 18 or older.
        frame, category: by person, as the tier numbers them.
    """

    tier: Tier
    blocks: int
    block: Codes
    block_group: Codes
    quarters: NDArray[np.bool_]
    household: Codes
    adult: NDArray[np.bool_]
    frame: Codes
    category: Codes

    @cached_property
    def sizes(self) -> Counts:
        """The persons of each household."""
        return np.bincount(self.household, minlength=len(self.block))

    @cached_property
    def adults(self) -> Counts:
        return np.bincount(self.household, weights=self.adult, minlength=len(self.block)).astype(np.int64)

    @property
    def place(self) -> Codes:
        """The block of each person."""
        return self.block[self.household]

    @property
    def whole(self) -> "Tract | None":
        """The tract as a single block, in the tier of its own tables; None if there are none."""
        of_tract = self.tier.of_tract
        if of_tract is None:
            return None
        one = np.zeros(1, dtype=np.int64)
        return replace(self, tier=of_tract.tables, blocks=1, block=np.zeros_like(self.block), block_group=one)

    def count(self, block: Codes | None = None) -> Counts:
        """The persons by block and type, shape (blocks, frames, categories), also with households in other blocks."""
        frames, categories = self.tier.shape
        place = (self.block if block is None else block)[self.household]
        types = (place * frames + self.frame) * categories + self.category
        counted = np.bincount(types, minlength=self.blocks * frames * categories)
        return counted.reshape(self.blocks, frames, categories)

    def without(self, person: int) -> "Tract":
        """The same tract in the world where one person has not taken part. The household is smaller, or empty."""
        household, frame, category = (np.delete(codes, person) for codes in (self.household, self.frame, self.category))
        adult = np.delete(self.adult, person)
        return replace(self, household=household, adult=adult, frame=frame, category=category)


def list_tracts(session: Session, dataset: DatasetDeclaration) -> list[tuple[str, str, str]]:
    """State, county and tract of every tract that has persons, in order."""
    units, persons = dataset.cef_tables()
    return session.rows("laboratory/tracts", units=units, persons=persons)


def read_tract(session: Session, dataset: DatasetDeclaration, tier: Tier, names: tuple[str, str, str]) -> Tract:
    units, persons = dataset.cef_tables()
    values = dict(zip(("state", "county", "tract"), names, strict=True))
    by_sex = tier is not REDISTRICTING
    read = session.arrow("laboratory/persons", values, units=units, persons=persons, sex=by_sex)
    column = {name: read[name].to_numpy().astype(np.int64) for name in read.column_names}
    adult = column["age"] >= 18
    starts = YEAR_STARTS if tier is WITH_TRACT else AGE_STARTS
    group = np.searchsorted(starts, column["age"], side="right") - 1
    frame = column["sex"] * len(starts) + group if by_sex else adult.astype(np.int64)
    _, first = np.unique(column["unit"], return_index=True)
    return Tract(
        tier,
        int(column["block"].max()) + 1,
        column["block"][first],
        column["block_group"][np.unique(column["block"], return_index=True)[1]],
        column["quarters"][first] == 1,
        column["unit"],
        adult,
        frame,
        column["hispanic"] * RACES + column["race"],
    )
