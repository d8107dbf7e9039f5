"""The table builder in the laboratory: hypercubes of block, age, race and ethnicity, and p-tables."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from pydantic import Field

from assets.laboratory.points import Draw, Grid, Point, count_cells
from assets.laboratory.records import Tract
from assets.release.numbers import Epsilon
from assets.table_builder.declaration import MadePTable
from mechanisms.risk.posterior import LaplaceLaw, TabulatedLaw
from mechanisms.risk.tiers import CATEGORIES, OUTSIDE, REDISTRICTING, Counts, Tier
from mechanisms.sampling.noise import Noise
from mechanisms.sampling.stream import RandomStream, Words
from mechanisms.table_builder.hypercube import MECHANISM, Hypercube
from mechanisms.table_builder.keys import KeyedWords, record_keys
from mechanisms.table_builder.p_table import PTable

_LOW = np.uint64(2**32 - 1)


@dataclass(frozen=True)
class NoisyHypercube(Point):
    """A hypercube with discrete Laplace noise, whose margins are sums. In tiers other than T1, where each block would
    have thousands of cells, the point measures the tier's tables instead, each with an equal share of ε."""

    epsilon: Fraction

    method = "hypercube"
    tiers = ("T1", "T2", "T3")

    @property
    def parameters(self) -> str:
        return f"ε = {float(self.epsilon):g}"

    def require(self, tier: Tier) -> None:
        super().require(tier)
        self._find_design(tier)

    def _find_design(self, tier: Tier) -> tuple[Hypercube, int]:
        """The design of a table, and the number of tables."""
        tables = 1 if tier is REDISTRICTING else len(tier.tables)
        tables += 0 if tier.of_tract is None else len(tier.of_tract.tables.tables)
        # The number of blocks does not matter, because a record is in one cell.
        sizes = {"block": 1, "frame": tier.shape[0], "category": len(CATEGORIES)}
        return Hypercube(sizes, self.epsilon / tables), tables

    def draw(self, tract: Tract, key: bytes) -> Draw:
        whole, (design, tables) = tract.whole, self._find_design(tract.tier)
        noise = Noise(MECHANISM, {"inner": design.distribution(design.inner)}, key)
        noisy, around = (
            exact if exact is None else exact + noise.of_next("inner", exact.size).reshape(exact.shape)
            for exact in (count_cells(tract), None if whole is None else count_cells(whole))
        )
        assert noisy is not None
        law = LaplaceLaw(float(tables / self.epsilon))
        units = self._publish_units(tract, key)
        published = replace(self.publish(tract, noisy, law, around), units=units)
        return Draw(published, None, tables * float(design.bounded))

    def _publish_units(self, tract: Tract, key: bytes) -> Counts | None:
        """Further tables, in which each person or housing unit is in one cell, with a separate ε."""
        units = tract.count_units()
        if units is None:
            return None
        design = Hypercube({"block": 1, "cell": units.shape[1]}, self.epsilon)
        noise = Noise(MECHANISM, {"units": design.distribution(design.inner)}, key)
        return units + noise.of_next("units", units.size).reshape(units.shape)


@dataclass(frozen=True)
class PerturbedCounts(Point):
    """Counts that a p-table perturbs by their cell keys, without a finite loss: the same records in a cell get the same
    change in every table. In T1 the cells are the hypercube's, and margins are their sums; in other tiers they are the
    cells of the tables."""

    name: str
    table: PTable

    method = "p-table"
    tiers = ("T1", "T2", "T3")

    @property
    def parameters(self) -> str:
        return self.name

    def draw(self, tract: Tract, key: bytes) -> Draw:
        largest = max(max(map(abs, row.changes)) for row in self.table.rows)
        whole = tract.whole
        around = None if whole is None else self._perturb(whole, key)
        changes = np.array(
            [
                [float(row.probabilities.get(step, 0)) for step in range(-largest, largest + 1)]
                for row in self.table.rows
            ]
        )
        published = self.publish(tract, self._perturb(tract, key), TabulatedLaw(changes), around)
        units = tract.count_units()
        if units is not None:
            # These draws assume that no two cells of these tables have the same records.
            units = self.table.draw(units.ravel(), RandomStream(key, f"{MECHANISM} units")).reshape(units.shape)
        return Draw(replace(published, units=units), None, None)

    def _perturb(self, tract: Tract, key: bytes) -> Counts:
        exact = count_cells(tract)
        if tract.tier is REDISTRICTING:
            # No two cells have a record in common.
            perturbed = self.table.draw(exact.ravel(), RandomStream(key, MECHANISM))
        else:
            perturbed = self.table.draw_by_cell(exact.ravel(), KeyedWords(key, _add_up_keys(tract, key)))
        return perturbed.reshape(exact.shape)


def _add_up_keys(tract: Tract, key: bytes) -> Words:
    """The key of each cell of all tables of each block, shape (blocks × cells, 2): the sum of its records' keys."""
    # Leaving out a person does not change the keys of other households.
    keys = record_keys(key, np.stack([tract.household, tract.place_in_household], axis=1).astype(np.uint64))
    halves = [keys[:, 0] >> np.uint64(32), keys[:, 0], keys[:, 1] >> np.uint64(32), keys[:, 1]]
    types, cells = tract.frame * tract.tier.shape[1] + tract.category, len(tract.tier.table_of_cell)
    sums = np.zeros((4, tract.blocks * cells), dtype=np.uint64)
    for of_table in tract.tier.cells:
        own = of_table[types]
        counted = np.flatnonzero(own != OUTSIDE)
        for place, half in enumerate(halves):
            np.add.at(sums[place], tract.place[counted] * cells + own[counted], half[counted] & _LOW)
    for place in (3, 2, 1):
        sums[place - 1] += sums[place] >> np.uint64(32)
    high, low = ((sums[place] & _LOW) << np.uint64(32) | (sums[place + 1] & _LOW) for place in (0, 2))
    return np.stack([high, low], axis=1)


class HypercubeGrid(Grid):
    """Hypercubes, for each ε."""

    epsilons: tuple[Epsilon, ...] = Field(min_length=1, description="ε for a record added or removed.")

    def points(self) -> Sequence[Point]:
        return [NoisyHypercube(epsilon) for epsilon in self.epsilons]


class PTableGrid(Grid):
    """P-tables of greatest entropy."""

    tables: tuple[MadePTable, ...] = Field(min_length=1, description="Their parameters.")

    def points(self) -> Sequence[Point]:
        return [PerturbedCounts(_name(made), made.table) for made in self.tables]


def _name(made: MadePTable) -> str:
    name = f"D = {made.largest_change}, V = {float(made.variance):g}"
    return f"{name}, js = {made.threshold}" if made.threshold else name
