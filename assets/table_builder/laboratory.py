"""The table builder in the laboratory: hypercubes of block, age, race and ethnicity, and p-tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from pydantic import Field

from assets.laboratory.points import Draw, Grid, Point
from assets.laboratory.records import Tract
from assets.release.numbers import Epsilon
from assets.table_builder.declaration import MadePTable
from mechanisms.risk.posterior import LaplaceLaw, TabulatedLaw
from mechanisms.risk.tiers import CATEGORIES
from mechanisms.sampling.noise import Noise
from mechanisms.sampling.stream import RandomStream
from mechanisms.table_builder.hypercube import MECHANISM, Hypercube
from mechanisms.table_builder.p_table import PTable


@dataclass(frozen=True)
class NoisyHypercube(Point):
    """A hypercube with discrete Laplace noise, whose margins are sums."""

    epsilon: Fraction

    method = "hypercube"

    @property
    def parameters(self) -> str:
        return f"ε = {float(self.epsilon):g}"

    def draw(self, tract: Tract, key: bytes) -> Draw:
        sizes = {"block": tract.blocks, "frame": tract.tier.shape[0], "category": len(CATEGORIES)}
        design = Hypercube(sizes, self.epsilon)
        noise = Noise(MECHANISM, {"inner": design.distribution(design.inner)}, key)
        exact = tract.count()
        noisy = exact + noise.of_next("inner", exact.size).reshape(exact.shape)
        law = LaplaceLaw(float(1 / self.epsilon))
        return Draw(self.publish_types(tract, noisy, law), np.zeros(0), float(design.bounded))


@dataclass(frozen=True)
class PerturbedCounts(Point):
    """Counts that a p-table perturbs, independently, without a finite loss."""

    name: str
    table: PTable

    method = "p-table"

    @property
    def parameters(self) -> str:
        return self.name

    def draw(self, tract: Tract, key: bytes) -> Draw:
        exact, largest = tract.count(), max(max(map(abs, row.changes)) for row in self.table.rows)
        perturbed = self.table.draw(exact.ravel(), RandomStream(key, MECHANISM)).reshape(exact.shape)
        changes = np.array(
            [
                [float(row.probabilities.get(step, 0)) for step in range(-largest, largest + 1)]
                for row in self.table.rows
            ]
        )
        return Draw(self.publish_types(tract, perturbed, TabulatedLaw(changes)), np.zeros(0), None)


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
