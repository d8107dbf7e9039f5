"""PHSafe's noise for tables of persons in households, and estimates with intervals from noisy counts."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.noise import Noise
from mechanisms.phsafe.averages import estimate_averages
from mechanisms.phsafe.design import (
    PHSafeDesign,
    RunDesign,
    budget_for_margin,
    design_run,
    find_level,
    margin_of_error,
    production,
)
from mechanisms.phsafe.estimation import Estimates, Interval, estimate_counts
from mechanisms.phsafe.runs import RUN, RUNS, SHELLS
from stirred.noise import draw, read_counts
from stirred.random import Randomness
from stirred.results import Draw

__all__ = [
    "RUNS",
    "SHELLS",
    "Estimates",
    "Interval",
    "Measured",
    "Noise",
    "PHSafeDesign",
    "RunDesign",
    "budget_for_margin",
    "design_run",
    "estimate_averages",
    "estimate_counts",
    "margin_of_error",
    "measure",
    "production",
]

Key = tuple[str, str]
"""A run and a level, such as `("PH4", "state_*")`."""


@dataclass(frozen=True, repr=False, eq=False)
class Measured(Draw):
    """The noisy counts of all runs and levels of a design, int64, of the shapes of the counts."""

    design: PHSafeDesign
    values: Mapping[Key, NDArray[np.int64]]

    @property
    def _title(self) -> str:
        return f"PHSafe's counts of {len(self.values)} runs and levels, for {len(self.design.states)} states"

    def estimate(self, run: str, level: str, interval: Interval = Interval.SHORTEST) -> Estimates:
        """Estimates of the true counts with 90% credible intervals, which cost nothing. Raises KeyError if the level of
        the run was not measured."""
        if (run, level) not in self.values:
            raise KeyError(f"{run} {level} was not measured; {'; '.join(map(' '.join, self.values))} was")
        noise = self.design.noise_of(RUN[run], find_level(RUN[run], "estimate", level))
        variance = float(noise.exact_variance)
        return estimate_counts(self.values[run, level], variance, 1, self.design.noise, interval)


def measure(
    design: PHSafeDesign, counts: Mapping[Key, ArrayLike], *, randomness: Randomness, name: str = "the data"
) -> Measured:
    """Noisy counts of all runs of a design.

    Args:
        design: the runs with their truncation, levels and budgets, such as `production(["01"])`.
        counts: by run and level, the exact counts, with the run's basis cells (those that it counts) as the last axis.
            Counts of persons include at most τ persons of each unit, the run's truncation: the guarantee depends on it.

    Raises ValueError if counts of a run and level are missing or not released, or have other cells than the run's, and
    TypeError if they are not integers.
    """
    released = {(one.run.name, one.level.name): one for one in design.released}
    if differing := sorted(set(released) ^ set(counts)):
        raise ValueError(f"{len(differing)} runs and levels are not both given and released, such as {differing[0]}")
    values = {}
    for key, (run, level, _) in released.items():
        exact = read_counts(counts[key])
        if exact.shape[-1:] != (len(RUN[run.name].cells),):
            raise ValueError(f"{key}: the last axis has the {len(run.cells)} basis cells of {run.name}")
        values[key] = exact + draw(design.noise_of(run, level), exact.size, randomness=randomness).reshape(exact.shape)
    return Measured(design.specification(name), design, values)
