"""SafeTab-P in the laboratory: totals, or sex by age, of regional groups of race, of each block instead of each tract,
in the detail that a first noisy total chooses."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np
from pydantic import Field

from assets.laboratory.points import Draw, Grid, Point
from assets.laboratory.publication import Choice
from assets.laboratory.records import Tract
from assets.release.numbers import Rho
from assets.safetab.lists import read_lists
from mechanisms.noise import Noise
from mechanisms.risk.posterior import GaussianLaw
from mechanisms.risk.tiers import Tier
from mechanisms.safetab.adaptive import GroupNoise, draw_block
from mechanisms.safetab.design import SafeTabPDesign
from mechanisms.safetab.lists import MOST_RACE_CODES, CodeLists, Iteration, RegionType
from mechanisms.safetab.planning import BUDGETS_P, STAGE_1_SHARE, ZERO_SUPPRESSION_CHANCE

_PAIR = (RegionType.TRACT, 1)


@dataclass(frozen=True)
class SafeTab(Point):
    """The "alone" groups, with a multiple of the 2020 Census's budget for regional groups of tracts. The thresholds are
    the tier's."""

    factor: Fraction

    method = "SafeTab-P"
    tiers = ("T4-groups",)

    @property
    def parameters(self) -> str:
        return f"budget × {float(self.factor):g}"

    def require(self, tier: Tier) -> None:
        super().require(tier)
        self._find_design(tier)

    def _find_design(self, tier: Tier) -> SafeTabPDesign:
        return SafeTabPDesign(
            states=("01",),
            noise=Noise.GAUSSIAN,
            stabilities={_PAIR: _read_production().stability(*_PAIR, MOST_RACE_CODES)},
            budgets={_PAIR: self.factor * BUDGETS_P[_PAIR]},
            thresholds={_PAIR: tier.thresholds},
            stage_1_share=STAGE_1_SHARE,
            zero_suppression_chance=ZERO_SUPPRESSION_CHANCE,
        )

    def draw(self, tract: Tract, key: bytes) -> Draw:
        tier, counts = tract.tier, tract.count()
        (measured,) = self._find_design(tier).measured
        kept = draw_block(
            measured,
            [str(place) for place in range(len(counts))],
            list_groups(),
            counts.sum(axis=1)[:, : len(tier.groups)],
            lambda places, groups: counts[places, :, groups],
            GroupNoise([measured], key),
        )
        noisy = np.zeros((len(counts), len(tier.table_of_cell)), dtype=np.int64)
        published = np.zeros_like(noisy, dtype=np.bool_)
        for groups in kept:
            for place, group, cells in zip(groups.regions, groups.iterations, groups.cells, strict=True):
                of_group = (tier.table_of_cell == groups.detail) & (tier.category_of_cell == group)
                noisy[place, of_group], published[place, of_group] = cells, True
                noisy[place, group] = cells.sum()
        stage_2 = float(measured.stage_2.exact_variance)
        choice = Choice(float(measured.stage_1.exact_variance), stage_2, measured.cut_off)
        law = GaussianLaw(np.full(noisy.shape[1], stage_2))
        publication = replace(self.publish(tract, noisy, law), published=published, choice=choice)
        return Draw(publication, np.zeros(0), None)


@cache
def _read_production() -> CodeLists:
    return read_lists()


def list_groups() -> list[Iteration]:
    """The regional groups of persons who belong to no other group ("alone"), in the order of their codes."""
    return [iteration for iteration in _read_production().universe(*_PAIR) if iteration.alone]


def list_codes() -> dict[str, int]:
    """By code of race, the number of its "alone" group."""
    numbers = {iteration.code: number for number, iteration in enumerate(list_groups())}
    return {code: numbers[iteration] for iteration, code in _read_production().pairs if iteration in numbers}


class SafeTabGrid(Grid):
    """SafeTab-P, for each factor of its budget."""

    factors: tuple[Rho, ...] = Field(
        min_length=1,
        description="Multiples of the 2020 Census's budget for regional groups of tracts, which has factor 1.",
    )

    def points(self) -> Sequence[Point]:
        return [SafeTab(factor) for factor in self.factors]
