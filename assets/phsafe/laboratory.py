"""PHSafe in the laboratory: all its runs, measured for each block instead of each state.

The tier's tables count at most as many persons of a household as the truncation threshold of their run, so truncation
drops nobody.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from pydantic import Field

from assets.laboratory.points import Draw, Grid, Point
from assets.laboratory.records import Tract
from assets.release.numbers import Rho
from mechanisms.phsafe.design import MECHANISM, noise_of_count, production
from mechanisms.phsafe.runs import RUN, Geography, Iterations, Level
from mechanisms.risk.posterior import GaussianLaw
from mechanisms.sampling.noise import Noise

_PARTS = {"PH2": (2, 2, 1, 1, 1, 1), "PH3": (1, 1, 1, 1, 3), "PH6": (4, 4, 4, 4)}
"""By run, the numbers of its cells that make up each cell of the tier. PH2 separates couples of opposite and of the
same sex, PH3 three kinds of minors who are not own children, and PH6 four groups of ages."""


@dataclass(frozen=True)
class PHSafe(Point):
    """Counts with discrete Gaussian noise, with a multiple of the 2020 Census's budgets for states."""

    factor: Fraction

    method = "PHSafe"
    tiers = ("T4-households",)

    @property
    def parameters(self) -> str:
        return f"budgets × {float(self.factor):g}"

    def draw(self, tract: Tract, key: bytes) -> Draw:
        design, counts = production(("01",)), tract.tier.tabulate(tract.count())
        distributions = {}
        for name in tract.tier.tables:
            run, level = _find_line(name)
            budget = self.factor * design.runs[run].budgets[level]
            distributions[f"{run} {level}"] = noise_of_count(design.noise, design.stability(RUN[run]), budget)
        noise, noisy, variances = Noise(MECHANISM, distributions, key), counts.copy(), np.zeros(counts.shape[1])
        for number, name in enumerate(tract.tier.tables):
            run, level = _find_line(name)
            of_table = np.flatnonzero(tract.tier.table_of_cell == number)
            parts = np.array(_PARTS.get(run, [1] * len(of_table)))
            drawn = noise.of_next(f"{run} {level}", len(counts) * int(parts.sum())).reshape(len(counts), -1)
            noisy[:, of_table] += np.add.reduceat(drawn, np.cumsum(parts) - parts, axis=1)
            variances[of_table] = parts * float(distributions[f"{run} {level}"].exact_variance)
        return Draw(self.publish(tract, noisy, GaussianLaw(variances)), None, None)


def _find_line(table: str) -> tuple[str, str]:
    """The run and the level of a state that measure a table of the tier."""
    run, iterations = table.split(",")[0].split(" ")[0], table.rsplit(" ", 1)[1]
    return run, Level(Geography.STATE, Iterations(iterations)).name


class PHSafeGrid(Grid):
    """PHSafe, for each factor of its budgets."""

    factors: tuple[Rho, ...] = Field(
        min_length=1, description="Multiples of the budgets of the 2020 Census for states, which have factor 1."
    )

    def points(self) -> Sequence[Point]:
        return [PHSafe(factor) for factor in self.factors]
