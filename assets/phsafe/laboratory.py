"""PHSafe in the laboratory: its tables of households, measured of each block in place of a state.

Left out are the runs that count relatives and children, whose relationships the records of the tier do not have. No
household has more persons than the truncation threshold of all runs that are measured, so none are truncated.
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

_COUPLES = ("married", "cohabiting")


@dataclass(frozen=True)
class PHSafe(Point):
    """Counts with discrete Gaussian noise by the budgets of the 2020 Census for states, times a number."""

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
            # Married and cohabiting couples of opposite and of the same sex are two cells each.
            parts = np.array([2, 2, 1, 1, 1, 1]) if run == "PH2" else np.ones(len(of_table), dtype=np.int64)
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
        min_length=1, description="Multiples of the budgets of the 2020 Census for states; 1 are those."
    )

    def points(self) -> Sequence[Point]:
        return [PHSafe(factor) for factor in self.factors]
