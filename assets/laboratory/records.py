"""The records of a tract: the source of publications, and the truth to compare guesses with.

The process of attacks neither imports this module nor can open the records.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from assets.cef.census import RACE_CODES
from assets.release.dataset import DatasetDeclaration
from mechanisms.races import SIX_RACES
from mechanisms.risk.tiers import (
    AGE_STARTS,
    AGES,
    DETAILED_GROUPS,
    HOUSEHOLDS,
    MOST_PERSONS,
    OUTSIDE,
    RACES,
    REDISTRICTING,
    Counts,
    Tier,
    number_household,
)
from resources.warehouse import Session

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Tract:
    """The persons of a tract, or of a county with its tracts, by household. Households (which include group quarters)
    and blocks are numbered.

    Attributes:
        block: by household, its block; shape (households,).
        block_group, tract: by block, its block group, and the tract of a county; ascending; shape (blocks,).
        quarters: by household, 0 for a housing unit, otherwise the type of group quarters, from 1; shape (households,).
        household: by person, the household; shape (persons,).
        adult: by person, whether 18 or older; by household, the number of adults if records are households.
        frame, category: by person, the tier's number of each.
        vacant: by block, the housing units without persons; shape (blocks,). None if the tier counts no units.
    """

    tier: Tier
    blocks: int
    block: Codes
    block_group: Codes
    tract: Codes
    quarters: Codes
    household: Codes
    adult: NDArray[Any]
    frame: Codes
    category: Codes
    vacant: Counts | None = None

    @cached_property
    def sizes(self) -> Counts:
        """The persons of each household."""
        of_records = None if self.tier.sizes is None else self.tier.sizes[self.frame]
        return np.bincount(self.household, weights=of_records, minlength=len(self.block)).astype(np.int64)

    @cached_property
    def adults(self) -> Counts:
        return np.bincount(self.household, weights=self.adult, minlength=len(self.block)).astype(np.int64)

    @property
    def place_in_household(self) -> Codes:
        """By person, the position within the household, which does not depend on other households."""
        order = np.argsort(self.household, kind="stable")
        records = np.bincount(self.household, minlength=len(self.block))
        places = np.zeros_like(order)
        places[order] = np.arange(len(order)) - np.repeat(np.cumsum(records) - records, records)
        return places

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
        block = np.zeros_like(self.block)
        return replace(self, tier=of_tract.tables, blocks=1, block=block, block_group=one, tract=one, vacant=None)

    @property
    def is_county(self) -> bool:
        """Whether there are several tracts."""
        return bool(self.tract.any())

    def count(self) -> Counts:
        """The persons by block and type, shape (blocks, frames, categories)."""
        frames, categories = self.tier.shape
        types = (self.place * frames + self.frame) * categories + self.category
        counted = np.bincount(types, minlength=self.blocks * frames * categories)
        return counted.reshape(self.blocks, frames, categories)

    def count_units(self) -> Counts | None:
        """The cells of the tier's tables of units, shape (blocks, cells): the persons of each type of group quarters,
        and the occupied and the vacant housing units. A unit that its last person leaves is vacant. None if the tier
        counts no units."""
        if self.vacant is None:
            return None
        kinds, housing = len(self.tier.of_units["P5"]), self.quarters == 0
        persons = np.zeros((self.blocks, kinds + 1), dtype=np.int64)
        np.add.at(persons, (self.block, self.quarters), self.sizes)
        occupied, empty = (
            np.bincount(self.block[housing & there], minlength=self.blocks)
            for there in (self.sizes > 0, self.sizes == 0)
        )
        return np.column_stack([persons[:, 1:], occupied, self.vacant + empty])

    def add_up(self, counts: Counts) -> Counts:
        """By block, the sum over its tract of counts of blocks, shape (blocks, …)."""
        if not self.is_county:
            return np.broadcast_to(counts.sum(axis=0), counts.shape)
        sums = np.zeros((int(self.tract.max()) + 1, *counts.shape[1:]), dtype=counts.dtype)
        np.add.at(sums, self.tract, counts)
        return np.asarray(sums[self.tract])

    def with_records(self, counts: Counts) -> "Tract":
        """The same blocks with other records, given their counts, shape (blocks, frames, categories). Each person is a
        one-person household, and units are not counted."""
        types = np.repeat(np.arange(counts.size), counts.ravel())
        block, frame, category = np.unravel_index(types, counts.shape)
        adult = self.tier.tables["P3"][frame, 0] != OUTSIDE
        alone, none = np.arange(len(types)), np.zeros(len(types), dtype=np.int64)
        found = {"household": alone, "adult": adult, "frame": frame, "category": category}
        return replace(self, block=block, quarters=none, vacant=None, **found)

    def without(self, person: int) -> "Tract":
        """The same tract in the world where one person did not take part, whose household is smaller or empty."""
        household, frame, category = (np.delete(codes, person) for codes in (self.household, self.frame, self.category))
        adult = np.delete(self.adult, person)
        return replace(self, household=household, adult=adult, frame=frame, category=category)


def list_tracts(session: Session, dataset: DatasetDeclaration) -> list[tuple[str, ...]]:
    """State, county and tract of every tract that has persons, in order."""
    units, persons = dataset.cef_tables()
    return session.rows("laboratory/tracts", units=units, persons=persons)


def read_tract(
    session: Session,
    dataset: DatasetDeclaration,
    tier: Tier,
    names: tuple[str, ...],
    groups: Mapping[str, int] | None = None,
) -> Tract:
    """The records of the named tract, or of the county if `names` has no tract. `groups` maps codes of race to numbers
    of groups, for a tier of groups."""
    tables = dict(zip(("units", "persons"), dataset.cef_tables(), strict=True))
    values: dict[str, Any] = dict(zip(("state", "county", "tract"), names, strict=False))
    if tier is HOUSEHOLDS:
        return _read_households(session.arrow("laboratory/households", values | {"most": MOST_PERSONS}, **tables))
    by_sex = tier is not REDISTRICTING
    if tier is DETAILED_GROUPS:
        codes = pa.table({"code": list(groups or {}), "number": list((groups or {}).values())})
        names_of = {"groups": session.register("groups", codes), "columns": list(RACE_CODES)}
        read = session.arrow("laboratory/groups", values, **names_of, **tables)
        none = len(tier.categories) - 1
        read = read.set_column(read.column_names.index("category"), "category", pc.fill_null(read["category"], none))
    else:
        asked = {"sex": by_sex, "of_units": bool(tier.of_units), "of_tract": "tract" in values}
        read = session.arrow("laboratory/persons", values, **asked, **tables)
    column = {name: read[name].to_numpy().astype(np.int64) for name in read.column_names}
    adult = column["age"] >= 18
    starts = AGES.get(tier.name, AGE_STARTS)
    group = np.searchsorted(starts, column["age"], side="right") - 1
    frame = column["sex"] * len(starts) + group if by_sex else adult.astype(np.int64)
    _, first = np.unique(column["unit"], return_index=True)
    blocks, first_of_block = np.unique(column["block"], return_index=True)
    return Tract(
        tier,
        len(blocks),
        column["block"][first],
        column["block_group"][first_of_block],
        column["tract"][first_of_block] if "tract" in column else np.zeros_like(blocks),
        column["quarters"][first],
        column["unit"],
        adult,
        frame,
        column["category"] if tier is DETAILED_GROUPS else column["hispanic"] * RACES + column["race"],
        column["vacant"][first_of_block] if tier.of_units else None,
    )


def _read_households(read: pa.Table) -> Tract:
    """Each record is a household of its own."""
    column = {name: read[name].to_numpy().astype(np.int64) for name in read.column_names}
    persons, minors, blocks = column["persons"], column["minors"], int(column["block"].max()) + 1
    return Tract(
        HOUSEHOLDS,
        blocks,
        column["block"],
        column["block_group"][np.unique(column["block"], return_index=True)[1]],
        np.zeros(blocks, dtype=np.int64),
        np.zeros(len(persons), dtype=np.int64),
        np.arange(len(persons)),
        persons - minors,
        number_household(persons, minors, column["tenure"]),
        (column["type"] * 2 + column["hispanic"]) * (len(SIX_RACES) + 1) + column["race"],
    )
