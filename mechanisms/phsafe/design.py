"""A PHSafe design: the released runs, their truncation and budgets, and the resulting guarantee.

This module defines a design's rules; `mechanisms.design`, its losses line by line and its DP specification; `runs`, the
counts of the runs. Source: Sexton et al., Section 5 and Table 10.

Budgets are for unbounded neighbors (one person added or removed). The charge is the loss for bounded neighbors (one
person's record changed in any way). It is twice the budget, not four times as in general, for this reason. A changed
record touches at most two units: the one that the person leaves and the one that the person joins. For each unit, at
most τ joined records leave their cells and at most τ enter cells (in a run that counts units: one and one). Let the
vectors a and b count the records that leave and enter each cell; no entry is negative, and each vector sums to at most
2τ. The squared L2 distance is |b − a|² = |a|² + |b|² − 2a·b <= |a|² + |b|² <= 2(2τ)² < 2Δ², whichever cells the records
are in: two changes never add up in one cell to 4Δ². For units it is 2·2² = 2Δ². So bounded ρ is 2ρ (Theorems 3 and 4).
The L1 distance is at most 4τ < 2Δ, and for units 4 = 2Δ, so bounded ε is 2ε, as group privacy of two also says.

A margin of error m of a noisy count means that the noise is beyond ±m in at most one draw in ten. For the discrete
Gaussian, the planned margin is m = z·σ with σ² = Δ²/2ρ, as for the continuous one; the exact margin is an integer near
it. The factor z is 1.645, which the table of production budgets uses (Table 10). The formula printed in the paper
(Corollary 2) has 1.64, which gives budgets 0.6% smaller. For the discrete Laplace of scale Δ/ε, margins and budgets
both follow from the exact distribution.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from mechanisms.design import DesignError, LinesDesign
from mechanisms.noise import Noise
from mechanisms.phsafe.runs import RUN, RUNS, Geography, Iterations, Level, Run
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace
from mechanisms.sampling.quantiles import LARGEST_SEARCHED_VARIANCE, Uncapped, half_width, laplace_budget
from mechanisms.states import PUERTO_RICO, STATES

LARGEST_VARIANCE = 10**18
"""The largest variance of one count's noise: σ is then a billion, more than the persons in any census but two."""

LARGEST_TRUNCATION = 99_999
"""The most persons that a unit of the production layout can hold."""

MECHANISM = "PHSafe"

VERSION = 2
"""The mechanism's version. Increase it when the same key would give other noise, as an old draw cannot be replayed."""

Z = Fraction(1645, 1000)
"""The normal distribution's 95% quantile, to the three decimals that production used."""

BEYOND = Fraction(1, 10)
"""The share of draws beyond a margin of error."""

PLACES = 6
"""Decimals of a budget that is computed from a margin, as in Sexton et al., Table 10."""

_UNIT = Fraction(1, 10**PLACES)

_PR = STATES[PUERTO_RICO]


class Released(NamedTuple):
    """One independent measurement: a run at a level, with its budget for unbounded neighbors."""

    run: Run
    level: Level
    budget: Fraction

    @property
    def label(self) -> str:
        return f"{self.run.name} {self.level.name}"


@dataclass(frozen=True)
class RunDesign:
    """The declared parameters of one run: τ, the persons kept of each unit, or None for a run that counts units; and by
    name of level, ρ or ε for unbounded neighbors. A level with 0 or without a budget is not released."""

    truncation: int | None = None
    budgets: Mapping[str, Fraction] = field(default_factory=dict)


@dataclass(frozen=True)
class PHSafeDesign(LinesDesign):
    """The released population groups and their noise.

    States are FIPS codes, or Puerto Rico's alone. An omitted run is not released. Raises DesignError for a state that
    is unknown, given twice, or given with Puerto Rico; a run or level that does not exist; a truncation that is
    missing, unsuitable or out of range; a budget out of range; a level of the nation for Puerto Rico; or a design that
    releases nothing.
    """

    runs: Mapping[str, RunDesign]

    multiverse = ("whether a block has a housing unit or not",)

    def __post_init__(self) -> None:
        self.require_states()
        if PUERTO_RICO in self.states and len(self.states) > 1:
            raise DesignError(
                f"states: {_PR} is released by itself, with a budget of its own; it cannot be in one design with states"
            )
        for name, run in self.runs.items():
            if name not in RUN:
                raise DesignError(f"runs: there is no run {name}; runs are {', '.join(RUN)}")
            require_truncation(RUN[name], run.truncation)
            for level in run.budgets:
                find_level(RUN[name], "budget", level)
        for released in self.released:
            self._check_budget(released)
        if not self.released:
            raise DesignError("runs: nothing is released, as no level has a budget above 0")

    def _check_budget(self, released: Released) -> None:
        run, level, budget = released
        field_name = f"runs: {run.name}: budget: {level.name}"
        self.require_budget(field_name, budget)
        if noise_of_count(self.noise, self.stability(run), budget).exact_variance > LARGEST_VARIANCE:
            raise DesignError(
                f"{field_name}: {self.noise.symbol} = {float(budget):g} at Δ = {self.stability(run)} makes noise of a "
                f"variance above {LARGEST_VARIANCE:g}, which drowns any count"
            )
        if level.geography is Geography.NATION and PUERTO_RICO in self.states:
            raise DesignError(f"{field_name}: {_PR} has no levels of the nation")

    @cached_property
    def released(self) -> tuple[Released, ...]:
        """All measurements, in the order of runs and levels."""
        return tuple(
            Released(run, level, budget)
            for run in RUNS
            if run.name in self.runs
            for level in run.levels
            if (budget := self.runs[run.name].budgets.get(level.name, Fraction(0))) != 0
        )

    @cached_property
    def released_runs(self) -> tuple[Run, ...]:
        return tuple(dict.fromkeys(measurement.run for measurement in self.released))

    @property
    def thresholds(self) -> dict[str, int | None]:
        """By name of released run, τ, or None if it counts units."""
        return {run.name: self.truncation(run) for run in self.released_runs}

    def truncation(self, run: Run) -> int | None:
        """τ of a run, or None if it counts units."""
        return self.runs[run.name].truncation

    def stability(self, run: Run) -> int:
        """Δ of a run: the most records of its query that adding or removing one person can change."""
        return run.stability(self.truncation(run))

    def noise_of(self, run: Run, level: Level) -> Uncapped:
        """The noise of every count of a run at a level: σ² = Δ²/2ρ, or scale Δ/ε. Raises KeyError if it is not
        released."""
        return noise_of_count(self.noise, self.stability(run), self._budgets[run.name, level.name])

    @cached_property
    def _budgets(self) -> dict[tuple[str, str], Fraction]:
        return {(run.name, level.name): budget for run, level, budget in self.released}

    @cached_property
    def regions(self) -> frozenset[str]:
        return frozenset(region for _, level, _ in self.released for region in level.regions(self.states))

    @cached_property
    def region_types(self) -> frozenset[str]:
        return frozenset(level.geography.region_type for _, level, _ in self.released)

    @cached_property
    def iterations(self) -> frozenset[str]:
        return frozenset(code for _, level, _ in self.released for code in level.iterations.codes)

    def groups(self, level: Level) -> int:
        """The number of population groups of a level: regions times iterations."""
        return len(level.regions(self.states)) * len(level.iterations.codes)

    @cached_property
    def budgets_by_line(self) -> tuple[tuple[str, Fraction], ...]:
        return tuple((measurement.label, measurement.budget) for measurement in self.released)

    @property
    def changes_by_line(self) -> tuple[tuple[Uncapped, int], ...]:
        """If one person changes, at most 2τ records leave cells and 2τ enter others. In runs that count units, two
        leave and two enter."""
        return tuple((self.noise_of(run, level), 2 * self.stability(run)) for run, level, _ in self.released)

    def domain(self, dataset: str) -> str:
        return (
            f"all possible files of persons with the variables of {dataset}, each in a housing unit or group "
            "quarters, with the units and what follows from the persons in them"
        )

    def as_record(self) -> dict[str, Any]:
        """The design as exact plain values in a fixed order, equal for designs that release the same."""
        return {
            "noise": self.noise.value,
            "states": sorted(self.states),
            "runs": {
                run.name: {
                    "truncation": self.truncation(run),
                    "budgets": {level.name: str(budget) for other, level, budget in self.released if other is run},
                }
                for run in self.released_runs
            },
        }


def noise_of_count(noise: Noise, stability: int, budget: Fraction) -> Uncapped:
    """The noise of one count: of variance Δ²/2ρ, or of scale Δ/ε, where Δ is the stability of its run."""
    if noise is Noise.GAUSSIAN:
        return DiscreteGaussian(Fraction(stability**2) / (2 * budget))
    return DiscreteLaplace(Fraction(stability) / budget)


def margin_of_error(noise: Noise, stability: int, budget: Fraction) -> float:
    """The 90% margin of error that a budget gives: z·Δ/√(2ρ), or the exact one of the discrete Laplace."""
    if noise is Noise.GAUSSIAN:
        return math.sqrt(Z**2 * stability**2 / (2 * budget))
    return float(half_width(noise_of_count(noise, stability, budget), 1, 1 - BEYOND))


def budget_for_margin(noise: Noise, stability: int, margin: Fraction) -> Fraction:
    """The budget that a 90% margin of error m requires, in millionths. For Gaussian noise, ρ = (z²/2)·Δ²/m², rounded
    (half to even), which reproduces every row of the production table; for Laplace noise, the least ε whose exact
    margin is at most m. Raises ValueError if the margin is not positive, or ρ would round to 0."""
    if margin <= 0:
        raise ValueError("a margin of error must be greater than 0")
    if noise is Noise.LAPLACE:
        return laplace_budget(stability, math.floor(margin), 1 - BEYOND, _UNIT)
    budget = round(Z**2 / 2 * stability**2 / margin**2 / _UNIT) * _UNIT
    if not budget:
        raise ValueError(
            f"a margin of {float(margin):g} takes a ρ that rounds to 0 at {PLACES} decimals; "
            "ask for a smaller margin, or give the budget itself"
        )
    return budget


def exact_margin(noise: Uncapped) -> int | None:
    """The least m with P(|X| <= m) >= 0.9, exactly; None for a discrete Gaussian of too large a variance."""
    if isinstance(noise, DiscreteGaussian) and noise.variance > LARGEST_SEARCHED_VARIANCE:
        return None
    return half_width(noise, 1, 1 - BEYOND)


def require_truncation(run: Run, truncation: int | None) -> None:
    """Refuse a run of persons with no threshold or one out of range, and a run of units with one (`DesignError`)."""
    where = f"runs: {run.name}: truncation"
    if not run.joins and truncation is not None:
        raise DesignError(f"{where}: {run.name} counts units, of which there are none to truncate; leave it out")
    if run.joins and truncation is None:
        raise DesignError(f"{where}: {run.name} counts persons, and needs a truncation threshold")
    if truncation is not None and not 1 <= truncation <= LARGEST_TRUNCATION:
        raise DesignError(
            f"{where}: a truncation threshold lies between 1 and {LARGEST_TRUNCATION:,} persons, not at {truncation:,}"
        )


def find_level(run: Run, field_name: str, name: str) -> Level:
    """The level of a run by its name, or a `DesignError`."""
    levels = {level.name: level for level in run.levels}
    if name not in levels:
        known = f"levels of {run.name} are {', '.join(levels)}"
        raise DesignError(f"runs: {run.name}: {field_name}: there is no level {name}; {known}")
    return levels[name]


def design_run(
    name: str,
    noise: Noise,
    truncation: int | None,
    budgets: Mapping[str, Fraction],
    margins: Mapping[str, Fraction],
) -> RunDesign:
    """The design of a run in which some levels have a budget and others a target for their 90% margin of error. Raises
    DesignError if the run or a level does not exist, the truncation does not suit the run, a level has both a budget
    and a target, or no budget meets a target."""
    if name not in RUN:
        raise DesignError(f"runs: there is no run {name}; runs are {', '.join(RUN)}")
    run = RUN[name]
    require_truncation(run, truncation)
    completed = dict(budgets)
    for level, margin in margins.items():
        find_level(run, "moe", level)
        if level in budgets:
            raise DesignError(f"runs: {name}: {level}: a level has a budget or an moe target, not both")
        try:
            completed[level] = budget_for_margin(noise, run.stability(truncation), margin)
        except ValueError as error:
            raise DesignError(f"runs: {name}: moe: {level}: {error}") from None
    return RunDesign(truncation, completed)


PRODUCTION_TRUNCATION = {"PH1_num": 10, "PH2": 10, "PH3": 6, "PH4": 10, "PH6": 6, "PH7": 10}
"""τ of the 2020 Census (Table 10)."""


def production_margin(run: Run, level: Level) -> int:
    """The target for the 90% margin of error in the 2020 Census (Table 10)."""
    if level.geography is Geography.NATION:
        return 500
    if level.iterations is not Iterations.RACE:
        return 200
    return 20 if run.name == "PH3" else 68


def production(states: Sequence[str], noise: Noise = Noise.GAUSSIAN) -> PHSafeDesign:
    """The design of the 2020 Census for some states, or for Puerto Rico without the levels of the nation. Gaussian
    budgets are from Table 10; Laplace budgets follow from the same truncation and margins."""
    left_out = {Geography.NATION} if PUERTO_RICO in states else set()
    return PHSafeDesign(
        tuple(states),
        noise,
        {
            run.name: design_run(
                run.name,
                noise,
                PRODUCTION_TRUNCATION.get(run.name),
                {},
                {
                    level.name: Fraction(production_margin(run, level))
                    for level in run.levels
                    if level.geography not in left_out
                },
            )
            for run in RUNS
        },
    )
