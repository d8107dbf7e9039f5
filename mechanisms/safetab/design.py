"""SafeTab designs: what is measured for which regions and levels, with which noise, and the guarantee that results.

This module defines the rules of a design of SafeTab-P and of one of SafeTab-H, and why the charge is twice the budget;
`mechanisms.design`, their losses line by line and their DP specifications. `adaptive` draws what a design of SafeTab-P
measures. Source: SafeTab-P's and SafeTab-H's specifications, budget, algorithm, guarantee and validation.

**Unbounded neighbors** (one person added or removed; for SafeTab-H one household). A person is in at most Δ groups of a
region type and level, and in one cell of each. A measurement of a group that the person is in spends ρ/Δ of the pair's
budget ρ. A group that is measured as a total only spends it at once; any other group spends γρ/Δ at stage 1 and, for
every outcome of stage 1, (1 − γ)ρ/Δ at stage 2. Noise of variance σ² = Δ/2b spends b/Δ on a change by 1, so the pair
costs ρ. In pure DP, noise of scale Δ/b spends b/Δ.

**Bounded neighbors** (one record changed). The loss is twice the budget, and not four times as in general. The record
leaves at most Δ groups of a pair and joins at most Δ. A group that is only left or only joined changes by 1, and costs
ρ/Δ as above. In a group that is both, the total does not change, and of the cells of stage 2 two change by 1, which
costs at most 2ρ/Δ and counts twice among the 2Δ. So the pair costs at most 2ρ, for every outcome of stage 1. In pure DP
the same holds for ε.

**Both runs.** Nobody is in the run of the states and in that of Puerto Rico, so that their losses do not add up. A
region type and its namesake share a line with the greater of their two budgets. A move between the runs costs the sum
of both, which is at most twice the greater one on every line.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from mechanisms.design import LARGEST_DENOMINATOR, DesignError, LinesDesign
from mechanisms.noise import Noise
from mechanisms.safetab.details import DETAILS, HOUSEHOLD_TABLES, HouseholdTable
from mechanisms.safetab.lists import LEVELS, MOST_RACE_CODES
from mechanisms.safetab.regions import PUERTO_RICO_ONLY, RegionType
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace
from mechanisms.sampling.quantiles import Uncapped, quantile
from mechanisms.states import PUERTO_RICO, STATES

LARGEST_VARIANCE = 2**28
"""The largest variance of a measurement's noise: σ is then 16,384, and cut-offs are found in tenths of a second."""

LARGEST_THRESHOLD = 10**9

MECHANISM_P = "SafeTab-P"
MECHANISM_H = "SafeTab-H"

VERSION = 1
"""The version of both mechanisms. Increase it when the same key would give other noise."""

Pair = tuple[RegionType, int]

_PR = STATES[PUERTO_RICO]


@dataclass(frozen=True)
class Measured:
    """What SafeTab-P measures of the groups of a region type and level, which form one line of the draw.

    Attributes:
        budget: ρ or ε for unbounded neighbors.
        stability: Δ, the most of these groups that a person can be in.
        total_only: the noise of the total of a group whose iteration is `detailed_only`.
        stage_1: the noise of the total that determines the detail.
        stage_2: the noise of what is published of any other group: its total, or each cell of its detail.
        thresholds: the three least totals of details 1, 2 and 3.
        cut_off: c. A total of detail 0 is published only if it is greater; None if all are.
        negative_counts: whether negative measurements stay; otherwise they become 0.
    """

    region_type: RegionType
    level: int
    budget: Fraction
    stability: int
    total_only: Uncapped
    stage_1: Uncapped
    stage_2: Uncapped
    thresholds: tuple[int, ...]
    cut_off: int | None
    negative_counts: bool

    @property
    def label(self) -> str:
        return _label((self.region_type,), self.level)

    @property
    def query_total_only(self) -> str:
        return f"{self.label} total only"

    @property
    def query_stage_1(self) -> str:
        return f"{self.label} stage 1"

    @property
    def query_total(self) -> str:
        """The name of the stream of stage 2's totals. Every group takes one number from it, whatever its detail."""
        return f"{self.label} total"

    @property
    def query_cells(self) -> str:
        """What the name of the stream of a group's cells begins with; its region and iteration follow."""
        return f"{self.label} cells"

    @property
    def distributions(self) -> Mapping[str, Uncapped]:
        """The distribution of each query whose groups follow one another; the noise of cells is that of `stage_2`."""
        return {
            self.query_total_only: self.total_only,
            self.query_stage_1: self.stage_1,
            self.query_total: self.stage_2,
        }


@dataclass(frozen=True)
class MeasuredTable:
    """What SafeTab-H measures of the groups of a region type and level for T3 or T4: one line of the draw.

    Attributes:
        family: `T3` or `T4`.
        budget: ρ or ε for unbounded neighbors.
        stability: Δ, the most of these groups that a household can be in.
        noise: of every basis cell.
        thresholds: the least totals of T1 of details 1, 2 and 3 (T3), or 1 (T4).
        negative_counts: whether negative measurements stay; otherwise they become 0.
    """

    family: str
    region_type: RegionType
    level: int
    budget: Fraction
    stability: int
    noise: Uncapped
    thresholds: tuple[int, ...]
    negative_counts: bool

    @property
    def label(self) -> str:
        return _label((self.region_type,), self.level, self.family)

    @property
    def tables(self) -> tuple[HouseholdTable, ...]:
        return HOUSEHOLD_TABLES[self.family]


def _label(region_types: Sequence[RegionType], level: int, family: str = "") -> str:
    return f"{' and '.join(region_types)} {level} {family}".rstrip()


def noise_of_measurement(noise: Noise, stability: int, budget: Fraction) -> Uncapped:
    """The noise of one measurement: of variance Δ/2b, or of scale Δ/b.

    Args:
        stability: Δ, the most groups of the region type and level that a person can be in.
        budget: b, the part of ρ or ε that the measurement spends; greater than 0.
    """
    if noise is Noise.GAUSSIAN:
        return DiscreteGaussian(stability / (2 * budget))
    return DiscreteLaplace(stability / budget)


@dataclass(frozen=True, kw_only=True)
class _Design(LinesDesign):
    """What the designs of SafeTab-P and SafeTab-H share.

    Attributes:
        states: FIPS codes. Those of states form the run US, the one of Puerto Rico the run PR.
        stabilities: Δ of each region type and level that is measured.
        negative_counts: whether negative measurements stay; otherwise they become 0.
        max_race_codes: how many race codes of a record are used, from the first.
    """

    stabilities: Mapping[Pair, int]
    negative_counts: bool = True
    max_race_codes: int = MOST_RACE_CODES

    multiverse = ("which blocks have at least one housing unit or group quarters",)
    """The regions follow from these blocks."""
    protected: ClassVar[str]

    def _check_common(self) -> None:
        self.require_states()
        if not 1 <= self.max_race_codes <= MOST_RACE_CODES:
            raise DesignError(f"max_race_codes: a record has 1 to {MOST_RACE_CODES} race codes")

    def _check_budget(self, field: str, pair: Pair, budget: Fraction) -> None:
        region_type, level = pair
        if level not in LEVELS:
            raise DesignError(f"{field}: a level is 1 or 2")
        self.require_budget(field, budget)
        if budget and region_type.run not in self.runs:
            without = f"{_PR} is not" if region_type.run == "PR" else f"no state besides {_PR} is"
            raise DesignError(f"{field}: there are no regions of this type, as {without} among the states")
        if budget and self.stabilities.get(pair, 0) < 1:
            raise DesignError(f"{field}: there are no groups: Δ, the most that a person is in, is missing")

    def _check_noise(self, field: str, noise: Uncapped) -> None:
        if noise.exact_variance > LARGEST_VARIANCE:
            raise DesignError(
                f"{field}: the budget makes noise of a variance above {LARGEST_VARIANCE:,}, which drowns any count"
            )

    @property
    def runs(self) -> frozenset[str]:
        return frozenset("PR" if code == PUERTO_RICO else "US" for code in self.states)

    @property
    def _region_types(self) -> list[RegionType]:
        return [region_type for region_type in RegionType if region_type.run in self.runs]

    @property
    @abstractmethod
    def _measured(self) -> Sequence[Measured | MeasuredTable]:
        """Everything that is measured, in the order of the draw."""

    @cached_property
    def budgets_by_line(self) -> list[tuple[str, Fraction]]:
        """The labels and budgets of all lines, in order; a region type and its namesake share one."""
        shared: dict[tuple[str, int, str], list[Measured | MeasuredTable]] = {}
        for measured in self._measured:
            family = measured.family if isinstance(measured, MeasuredTable) else ""
            name = measured.region_type.removeprefix(PUERTO_RICO_ONLY)
            shared.setdefault((name, measured.level, family), []).append(measured)
        return [
            (
                _label([measured.region_type for measured in namesakes], level, family),
                max(measured.budget for measured in namesakes),
            )
            for (_, level, family), namesakes in shared.items()
        ]

    def domain(self, dataset: str) -> str:
        return (
            f"all possible files of {self.protected} with the variables of {dataset}, each in a block that has a unit"
        )

    def _common_record(self) -> dict[str, Any]:
        return {
            "noise": self.noise.value,
            "states": sorted(self.states),
            "max_race_codes": self.max_race_codes,
            "negative_counts": self.negative_counts,
        }

    def _measured_record(self) -> dict[str, Any]:
        return {
            measured.label: {
                "budget": str(measured.budget),
                "stability": measured.stability,
                "thresholds": list(measured.thresholds),
            }
            for measured in self._measured
        }


@dataclass(frozen=True, kw_only=True)
class SafeTabPDesign(_Design):
    """Which population groups SafeTab-P measures, in which detail, with which noise.

    Attributes:
        budgets: ρ or ε for unbounded neighbors of each region type and level. Those that have 0 or are left out are
            not measured.
        thresholds: of each region type and level, the least noisy totals of details 1, 2 and 3, not decreasing.
        stage_1_share: γ, the part of a budget that chooses the detail; strictly between 0 and 1.
        zero_suppression_chance: below the state, the total of an empty group of detail 0 is suppressed with at least
            this probability; 0 suppresses nothing.

    Raises:
        DesignError: for a state that is unknown or given twice; a number out of range; a budget for a region type of
            which there are no regions; thresholds or a stability that are missing; or if nothing is measured.
    """

    budgets: Mapping[Pair, Fraction]
    thresholds: Mapping[Pair, tuple[int, ...]]
    stage_1_share: Fraction = Fraction(1, 10)
    zero_suppression_chance: Fraction = Fraction(0)

    protected = "persons"

    def __post_init__(self) -> None:
        self._check_common()
        _check_number("stage_1_share", self.stage_1_share, strictly=True)
        _check_number("zero_suppression_chance", self.zero_suppression_chance, strictly=False)
        for pair, thresholds in self.thresholds.items():
            _check_thresholds(f"thresholds: {_label(pair[:1], pair[1])}", thresholds, len(DETAILS) - 1)
        for pair, budget in self.budgets.items():
            label = _label(pair[:1], pair[1])
            self._check_budget(f"budgets: {label}", pair, budget)
            if budget:
                _check_thresholds(f"thresholds: {label}", self.thresholds.get(pair, ()), len(DETAILS) - 1)
                for part in (budget, self.stage_1_share * budget, (1 - self.stage_1_share) * budget):
                    self._check_noise(f"budgets: {label}", self._noise(pair, part))
        if not self.measured:
            raise DesignError("budgets: nothing is measured, as no region type and level has a budget above 0")

    def _noise(self, pair: Pair, part: Fraction) -> Uncapped:
        return noise_of_measurement(self.noise, self.stabilities[pair], part)

    @cached_property
    def measured(self) -> tuple[Measured, ...]:
        """What is measured, in the order of the draw: by region type, then by level."""
        return tuple(
            self._measured_pair((region_type, level), budget)
            for region_type in self._region_types
            for level in LEVELS
            if (budget := self.budgets.get((region_type, level), Fraction())) != 0
        )

    @property
    def _measured(self) -> Sequence[Measured]:
        return self.measured

    def _measured_pair(self, pair: Pair, budget: Fraction) -> Measured:
        region_type, level = pair
        stage_2 = self._noise(pair, (1 - self.stage_1_share) * budget)
        suppressed = self.zero_suppression_chance > 0 and not region_type.detailed
        return Measured(
            region_type,
            level,
            budget,
            self.stabilities[pair],
            self._noise(pair, budget),
            self._noise(pair, self.stage_1_share * budget),
            stage_2,
            tuple(self.thresholds[pair]),
            quantile(stage_2, self.zero_suppression_chance) if suppressed else None,
            self.negative_counts,
        )

    def as_record(self) -> dict[str, Any]:
        """The design as exact plain values in a fixed order, equal for designs that release the same."""
        return self._common_record() | {
            "stage_1_share": str(self.stage_1_share),
            "zero_suppression_chance": str(self.zero_suppression_chance),
            "measured": self._measured_record(),
        }


@dataclass(frozen=True, kw_only=True)
class SafeTabHDesign(_Design):
    """Which tables of households SafeTab-H measures for the groups that SafeTab-P has published, with which noise.

    Attributes:
        budgets: by `T3` and `T4`, ρ or ε for unbounded neighbors of each region type and level. Those that have 0 or
            are left out are not measured.
        thresholds: by `T3` and `T4`, and by region type and level, the least totals of T1 of details 1, 2 and 3 (T3),
            not decreasing, or of detail 1 (T4).

    Raises:
        DesignError: as for SafeTab-P, and for a table that is neither T3 nor T4.
    """

    budgets: Mapping[str, Mapping[Pair, Fraction]]
    thresholds: Mapping[str, Mapping[Pair, tuple[int, ...]]]

    unit = "household"
    changes_per_unit = 1
    protected = "households"

    def __post_init__(self) -> None:
        self._check_common()
        for field, families in (("budgets", self.budgets), ("thresholds", self.thresholds)):
            for family in families:
                if family not in HOUSEHOLD_TABLES:
                    tables = ", ".join(HOUSEHOLD_TABLES)
                    raise DesignError(f"{field}: there is no table {family}; tables are {tables}")
        for family, of_family in self.thresholds.items():
            for pair, thresholds in of_family.items():
                _check_thresholds(f"thresholds: {_label(pair[:1], pair[1], family)}", thresholds, _details_of(family))
        for family, budgets in self.budgets.items():
            for pair, budget in budgets.items():
                label = _label(pair[:1], pair[1], family)
                self._check_budget(f"budgets: {label}", pair, budget)
                if budget:
                    thresholds = self.thresholds.get(family, {}).get(pair, ())
                    _check_thresholds(f"thresholds: {label}", thresholds, _details_of(family))
                    self._check_noise(f"budgets: {label}", self._noise(pair, budget))
        if not self.measured:
            raise DesignError("budgets: nothing is measured, as no table has a budget above 0")

    def _noise(self, pair: Pair, budget: Fraction) -> Uncapped:
        return noise_of_measurement(self.noise, self.stabilities[pair], budget)

    @cached_property
    def measured(self) -> tuple[MeasuredTable, ...]:
        """What is measured, in the order of the draw: by region type, level, then T3 and T4."""
        return tuple(
            MeasuredTable(
                family,
                region_type,
                level,
                budget,
                self.stabilities[region_type, level],
                self._noise((region_type, level), budget),
                tuple(self.thresholds[family][region_type, level]),
                self.negative_counts,
            )
            for region_type in self._region_types
            for level in LEVELS
            for family in HOUSEHOLD_TABLES
            if (budget := self.budgets.get(family, {}).get((region_type, level), Fraction())) != 0
        )

    @property
    def _measured(self) -> Sequence[MeasuredTable]:
        return self.measured

    def as_record(self) -> dict[str, Any]:
        return self._common_record() | {"measured": self._measured_record()}


def _details_of(family: str) -> int:
    return len(HOUSEHOLD_TABLES[family]) - 1


def _check_number(field: str, number: Fraction, strictly: bool) -> None:
    if not 0 <= number < 1 or (strictly and number == 0):
        raise DesignError(f"{field}: the number is {'above' if strictly else 'at least'} 0 and below 1, not {number}")
    if number.denominator > LARGEST_DENOMINATOR:
        raise DesignError(f"{field}: the number's denominator is at most a trillion")


def _check_thresholds(field: str, thresholds: Sequence[int], count: int) -> None:
    if len(thresholds) != count:
        needed = "one threshold is" if count == 1 else f"{count} thresholds are"
        raise DesignError(f"{field}: {needed} needed, and there are {len(thresholds)}")
    if list(thresholds) != sorted(thresholds):
        raise DesignError(f"{field}: thresholds do not decrease")
    if any(abs(threshold) > LARGEST_THRESHOLD for threshold in thresholds):
        raise DesignError(f"{field}: a threshold lies between −{LARGEST_THRESHOLD:,} and {LARGEST_THRESHOLD:,}")
