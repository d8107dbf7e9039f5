"""SafeTab designs: the measurements of each region type and level, their noise, and the resulting guarantee.

This module defines the rules of SafeTab-P and SafeTab-H designs, and why the charge is twice the budget;
`mechanisms.design`, their losses line by line and their DP specifications. `adaptive` draws the measurements of
SafeTab-P. Source: SafeTab-P's and SafeTab-H's specifications, budget, algorithm, guarantee and validation.

**Unbounded neighbors** (one person added or removed; for SafeTab-H one household). A person is in at most Δ groups of a
region type and level, and in one cell of each. A measurement of a group that the person is in spends ρ/Δ of the pair's
budget ρ. A group that is measured as a total only spends it at once; any other group spends γρ/Δ at stage 1 and, for
every outcome of stage 1, (1 − γ)ρ/Δ at stage 2. Noise of variance σ² = Δ/2b spends b/Δ on a change by 1, so the pair
costs ρ. In pure DP, noise of scale Δ/b spends b/Δ.

**Bounded neighbors** (one record changed). The loss is twice the budget, not four times as in general. The record
leaves at most Δ groups of a pair and joins at most Δ. A group that is only left or only joined changes by 1, and costs
ρ/Δ as above. In a group that is both, the total does not change, and of the cells of stage 2 two change by 1, which
costs at most 2ρ/Δ and counts twice among the 2Δ. So the pair costs at most 2ρ, for every outcome of stage 1. In pure DP
the same holds for ε.

**Both runs.** No person is in both the run of the states and the run of Puerto Rico, so their losses do not add up. A
region type and its namesake share a line with the greater of their two budgets. A move between the runs costs the sum
of both budgets, which is at most twice the greater one on every line.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

from mechanisms.design import LARGEST_DENOMINATOR, DesignError, LinesDesign
from mechanisms.noise import Noise
from mechanisms.safetab.details import DETAILS, HOUSEHOLD_TABLES
from mechanisms.safetab.lists import LEVELS, MOST_RACE_CODES, RegionType
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
"""A region type and a level."""

Key = Pair | tuple[RegionType, int, str]
"""The key of a line: a region type and a level, and in SafeTab-H the family of tables, `T3` or `T4`."""

_PR = STATES[PUERTO_RICO]


def format_label(key: Key) -> str:
    return " ".join(str(part) for part in key)


@dataclass(frozen=True, kw_only=True)
class MeasuredLine:
    """The measurements of the groups of a region type and level, one line of the draw: with ρ or ε for unbounded
    neighbors, Δ (the most of these groups that a record can be in), the least totals of details 1, 2 and 3, or of
    detail 1 (T4), and whether negative measurements stay; otherwise they become 0."""

    region_type: RegionType
    level: int
    budget: Fraction
    stability: int
    thresholds: tuple[int, ...]
    negative_counts: bool

    @property
    def key(self) -> Key:
        return self.region_type, self.level

    @property
    def label(self) -> str:
        return format_label(self.key)

    @property
    def region_and_level(self) -> dict[str, Any]:
        return {"region_type": self.region_type.value, "level": self.level}


@dataclass(frozen=True, kw_only=True)
class Measured(MeasuredLine):
    """The measurements of SafeTab-P, with the noise of the total of a group whose iteration is `detailed_only`, of the
    total that determines the detail (`stage_1`), and of the published numbers of any other group: its total, or each
    cell of its detail (`stage_2`). A total of detail 0 is published only if it is greater than c, the `cut_off`; if
    that is None, all are published."""

    total_only: Uncapped
    stage_1: Uncapped
    stage_2: Uncapped
    cut_off: int | None

    def query(self, part: str) -> str:
        """The name of a stream: of `total only`, of `stage 1`, or of `total`, the totals of stage 2, from which every
        group takes one number in any detail. With `cells`, a group's region and iteration follow."""
        return f"{self.label} {part}"

    @property
    def distributions(self) -> Mapping[str, Uncapped]:
        """The distribution of each query whose groups follow one another; the noise of cells is that of `stage_2`."""
        by_part = {"total only": self.total_only, "stage 1": self.stage_1, "total": self.stage_2}
        return {self.query(part): noise for part, noise in by_part.items()}


@dataclass(frozen=True, kw_only=True)
class MeasuredTable(MeasuredLine):
    """The measurements of SafeTab-H for the family `T3` or `T4`, with the noise of every basis cell."""

    family: str
    noise: Uncapped

    @property
    def key(self) -> Key:
        return self.region_type, self.level, self.family


def noise_of_measurement(noise: Noise, stability: int, budget: Fraction) -> Uncapped:
    """The noise of one measurement that spends b of a budget, with variance Δ/2b or scale Δ/b."""
    if noise is Noise.GAUSSIAN:
        return DiscreteGaussian(stability / (2 * budget))
    return DiscreteLaplace(stability / budget)


L = TypeVar("L", bound=MeasuredLine)


@dataclass(frozen=True, kw_only=True)
class _Design(LinesDesign, Generic[L]):
    """The common part of SafeTab-P and SafeTab-H designs.

    Attributes:
        states: FIPS codes. The states form the run US, Puerto Rico the run PR.
        stabilities: Δ of each region type and level that is measured.
        budgets: by line, ρ or ε for unbounded neighbors. Lines with 0 or without a budget are not measured.
        thresholds: by line, the least totals of details 1, 2 and 3, or of detail 1 (T4), not decreasing.
        max_race_codes: the number of race codes of a record that are used, from the first.

    Raises DesignError for a state that is unknown or given twice; a number out of range; a budget for a region type
    without regions; missing thresholds or a missing stability; or a design without measurements.
    """

    stabilities: Mapping[Pair, int]
    budgets: Mapping[Key, Fraction]
    thresholds: Mapping[Key, Sequence[int]]
    negative_counts: bool = True
    max_race_codes: int = MOST_RACE_CODES

    multiverse = ("which blocks have at least one housing unit or group quarters",)
    """The regions follow from these blocks."""
    protected: ClassVar[str]
    parts: ClassVar[str] = "table"
    """The unit that has a budget, in words."""

    def __post_init__(self) -> None:
        self.require_states()
        if not 1 <= self.max_race_codes <= MOST_RACE_CODES:
            raise DesignError(f"max_race_codes: a record has 1 to {MOST_RACE_CODES} race codes")
        for key in self.thresholds:
            self._check_thresholds(key)
        for key, budget in self.budgets.items():
            self._check_budget(f"budgets: {format_label(key)}", key[:2], budget)
            if budget:
                self._check_thresholds(key)
                if any(noise.exact_variance > LARGEST_VARIANCE for noise in self._noises(key)):
                    raise DesignError(
                        f"budgets: {format_label(key)}: the budget makes noise of a variance above "
                        f"{LARGEST_VARIANCE:,}, which drowns any count"
                    )
        if not self.measured:
            raise DesignError(f"budgets: nothing is measured, as no {self.parts} has a budget above 0")

    def _check_budget(self, field: str, pair: Pair, budget: Fraction) -> None:
        region_type, level = pair
        if level not in LEVELS:
            raise DesignError(f"{field}: a level is 1 or 2")
        self.require_budget(field, budget)
        if budget and region_type.run not in find_runs(self.states):
            without = f"{_PR} is not" if region_type.run == "PR" else f"no state besides {_PR} is"
            raise DesignError(f"{field}: there are no regions of this type, as {without} among the states")
        if budget and self.stabilities.get(pair, 0) < 1:
            raise DesignError(f"{field}: there are no groups: Δ, the most that a person is in, is missing")

    def _check_thresholds(self, key: Key) -> None:
        field, thresholds = f"thresholds: {format_label(key)}", self.thresholds.get(key, ())
        count = len(HOUSEHOLD_TABLES[key[2]] if len(key) == 3 else DETAILS) - 1
        if len(thresholds) != count:
            needed = "one threshold is" if count == 1 else f"{count} thresholds are"
            raise DesignError(f"{field}: {needed} needed, and there are {len(thresholds)}")
        if list(thresholds) != sorted(thresholds):
            raise DesignError(f"{field}: thresholds do not decrease")
        if any(abs(threshold) > LARGEST_THRESHOLD for threshold in thresholds):
            raise DesignError(f"{field}: a threshold lies between −{LARGEST_THRESHOLD:,} and {LARGEST_THRESHOLD:,}")

    @abstractmethod
    def _noises(self, key: Any) -> tuple[Uncapped, ...]:
        """The noise of all measurements of a line."""

    @abstractmethod
    def _measure(self, key: Any, common: Mapping[str, Any]) -> L:
        """The measurements of a line, from the fields that all lines have."""

    def _noise(self, key: Key, budget: Fraction) -> Uncapped:
        return noise_of_measurement(self.noise, self.stabilities[key[:2]], budget)

    @cached_property
    def measured(self) -> tuple[L, ...]:
        """The measured lines, in the order of the draw: by region type, by level, then T3 and T4."""
        order = list(RegionType)
        return tuple(
            self._measure(
                key,
                {
                    "region_type": key[0],
                    "level": key[1],
                    "budget": self.budgets[key],
                    "stability": self.stabilities[key[:2]],
                    "thresholds": tuple(self.thresholds[key]),
                    "negative_counts": self.negative_counts,
                },
            )
            for key in sorted(self.budgets, key=lambda key: (order.index(key[0]), *key[1:]))
            if self.budgets[key]
        )

    @cached_property
    def _shared(self) -> dict[tuple[Any, ...], list[L]]:
        """The measured lines by shared line: a region type and its namesake share one."""
        shared: dict[tuple[Any, ...], list[L]] = {}
        for line in self.measured:
            shared.setdefault((line.region_type.shared_name, *line.key[1:]), []).append(line)
        return shared

    @cached_property
    def budgets_by_line(self) -> list[tuple[str, Fraction]]:
        return [
            (
                " ".join([" and ".join(line.region_type for line in lines), *map(str, rest)]),
                max(line.budget for line in lines),
            )
            for (_, *rest), lines in self._shared.items()
        ]

    @property
    def changes_by_line(self) -> list[tuple[Uncapped, int]]:
        """In each of the 2Δ groups that a record leaves or joins, one number of stage 1 and one of stage 2 change; two
        and none in a group that it leaves and joins, which counts twice."""
        return [
            (
                min((noise for line in lines for noise in self._noises(line.key)), key=lambda one: one.exact_variance),
                4 * max(line.stability for line in lines),
            )
            for lines in self._shared.values()
        ]

    def domain(self, dataset: str) -> str:
        return (
            f"all possible files of {self.protected} with the variables of {dataset}, each in a block that has a unit"
        )

    def as_record(self) -> dict[str, Any]:
        """The design as exact plain values in a fixed order, equal for designs that release the same."""
        return {
            "noise": self.noise.value,
            "states": sorted(self.states),
            "max_race_codes": self.max_race_codes,
            "negative_counts": self.negative_counts,
            "measured": {
                line.label: {
                    "budget": str(line.budget),
                    "stability": line.stability,
                    "thresholds": list(line.thresholds),
                }
                for line in self.measured
            },
        }


@dataclass(frozen=True, kw_only=True)
class SafeTabPDesign(_Design[Measured]):
    """The population groups that SafeTab-P measures, their detail, and their noise. γ, the `stage_1_share`, is the part
    of a budget that chooses the detail, strictly between 0 and 1. Below the state, the total of an empty group of
    detail 0 is suppressed with a probability of at least `zero_suppression_chance`; 0 turns suppression off."""

    stage_1_share: Fraction = Fraction(1, 10)
    zero_suppression_chance: Fraction = Fraction(0)

    protected = "persons"
    parts = "region type and level"

    def __post_init__(self) -> None:
        _check_number("stage_1_share", self.stage_1_share, strictly=True)
        _check_number("zero_suppression_chance", self.zero_suppression_chance, strictly=False)
        super().__post_init__()

    def _noises(self, key: Pair) -> tuple[Uncapped, Uncapped, Uncapped]:
        """The noise of totals only, of stage 1, and of stage 2."""
        budget, share = self.budgets[key], self.stage_1_share
        return self._noise(key, budget), self._noise(key, share * budget), self._noise(key, (1 - share) * budget)

    def _measure(self, key: Pair, common: Mapping[str, Any]) -> Measured:
        total_only, stage_1, stage_2 = self._noises(key)
        suppressed = self.zero_suppression_chance > 0 and not key[0].detailed
        cut_off = quantile(stage_2, self.zero_suppression_chance) if suppressed else None
        return Measured(**common, total_only=total_only, stage_1=stage_1, stage_2=stage_2, cut_off=cut_off)

    def as_record(self) -> dict[str, Any]:
        return super().as_record() | {
            "stage_1_share": str(self.stage_1_share),
            "zero_suppression_chance": str(self.zero_suppression_chance),
        }


@dataclass(frozen=True, kw_only=True)
class SafeTabHDesign(_Design[MeasuredTable]):
    """The tables of households that SafeTab-H measures for the groups published by SafeTab-P, and their noise.
    Thresholds apply to SafeTab-P's totals of groups (T1)."""

    unit = "household"
    changes_per_unit = 1
    protected = "households"

    def _noises(self, key: Key) -> tuple[Uncapped, ...]:
        return (self._noise(key, self.budgets[key]),)

    def _measure(self, key: tuple[RegionType, int, str], common: Mapping[str, Any]) -> MeasuredTable:
        (noise,) = self._noises(key)
        return MeasuredTable(**common, family=key[2], noise=noise)


def find_runs(states: Iterable[str]) -> set[str]:
    """The runs that count states: `US`, or `PR`."""
    return {"PR" if state == PUERTO_RICO else "US" for state in states}


def _check_number(field: str, number: Fraction, strictly: bool) -> None:
    if not 0 <= number < 1 or (strictly and number == 0):
        raise DesignError(f"{field}: the number is {'above' if strictly else 'at least'} 0 and below 1, not {number}")
    if number.denominator > LARGEST_DENOMINATOR:
        raise DesignError(f"{field}: the number's denominator is at most a trillion")
