"""The fields of releases by SafeTab-P and SafeTab-H, and the designs that follow from them.

What a design must satisfy is in `mechanisms.safetab.design`; what it must satisfy of the dataset, in
`assets.safetab.release`.
"""

from collections.abc import Container, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from assets.measurement.declaration import Definition, State
from assets.release.dataset import DatasetDeclaration
from assets.release.names import ReleaseName, SourcePath
from assets.release.numbers import Budget, Delta, Margin, Share
from assets.release.release import ReleaseDeclaration
from mechanisms.accounting.specification import DELTA
from mechanisms.design import DesignError
from mechanisms.noise import Noise
from mechanisms.safetab.design import Pair, SafeTabHDesign, SafeTabPDesign
from mechanisms.safetab.lines import budgets_of, by_family, by_pair, line_of, pair_of
from mechanisms.safetab.lists import CodeLists
from mechanisms.safetab.production import (
    BUDGETS_H,
    BUDGETS_P,
    MARGINS,
    PAIRS,
    STAGE_1_SHARE,
    THRESHOLDS_H,
    THRESHOLDS_P,
    ZERO_SUPPRESSION_CHANCE,
)
from mechanisms.states import PUERTO_RICO

Threshold = Annotated[int, Field(strict=True)]


def _kind(value: object) -> str:
    return "own" if isinstance(value, Mapping) else "production"


Production = Annotated[Literal["production"], Tag("production")]
Budgets = Annotated[Production | Annotated[dict[str, Budget], Tag("own")], Discriminator(_kind)]
Thresholds = Annotated[Production | Annotated[dict[str, list[Threshold]], Tag("own")], Discriminator(_kind)]

_BUDGETS = (
    "production: those of the 2020 Census. Otherwise by line, such as {example}: ρ, or ε with noise: pure, for one "
    "{unit} added or removed; lines left out are not measured."
)
_MOE = "By line: the 95% margin of error of one measured number, from which the budget follows."


class SafeTabDeclaration(ReleaseDeclaration):
    """The fields that releases by SafeTab-P and by SafeTab-H share."""

    noise: Definition = Field(
        Definition.ZCDP, description="zcdp: discrete Gaussian, budgets are ρ; pure: discrete Laplace, budgets are ε."
    )
    moe: dict[str, Margin] = Field(default_factory=dict, description=_MOE)
    negative_counts: bool = Field(True, description="Whether negative numbers stay; otherwise they become 0.")
    delta: Delta = Field(DELTA, description="δ at which the loss is stated as (ε, δ).")


class SafeTabPDeclaration(SafeTabDeclaration):
    """The YAML declaration of a release of total population and sex by age of detailed race and ethnicity groups."""

    states: Annotated[list[State], Field(min_length=1)] = Field(
        description="FIPS codes in quotes, such as '06'. The states form the nation; '72' is Puerto Rico, by itself."
    )
    lists: SourcePath = Field(
        "production",
        description="production: the iterations of the 2020 Census. Otherwise a folder with the four lists, "
        "absolute or relative to the project's root.",
    )
    budgets: Budgets = Field("production", description=_BUDGETS.format(example="TRACT 2", unit="person"))
    thresholds: Thresholds = Field(
        "production",
        description="production: those of the 2020 Census. Otherwise by line: three totals, from which a group is "
        "published in more detail.",
    )
    stage_1_share: Share = Field(
        STAGE_1_SHARE, description="γ, the share of a budget with which the detail of each group is chosen."
    )
    zero_suppression_chance: Share = Field(
        ZERO_SUPPRESSION_CHANCE,
        description="Below the states, totals are left out so that an empty group's is with this probability; 0: none.",
    )
    max_race_codes: int = Field(8, ge=1, le=8, strict=True, description="How many race codes of a record are read.")

    def design(self, dataset: DatasetDeclaration, **sources: Any) -> SafeTabPDesign:
        """What is measured of the groups in the lists, for the states in ascending order."""
        lists: CodeLists = sources["lists"]
        states, share = tuple(sorted(self.states)), self.stage_1_share
        pairs = [pair for pair in PAIRS if pair[0].run in _runs(states) and lists.universe(*pair)]
        stabilities = {pair: lists.stability(*pair, self.max_race_codes) for pair in pairs}
        margins = {line_of(pair): margin for pair, margin in MARGINS.items() if pair in stabilities and BUDGETS_P[pair]}
        production = {line_of(pair): budget for pair, budget in BUDGETS_P.items() if pair in stabilities}
        by_pair("moe", self.moe)
        _require_groups(self, stabilities, states, "the lists have no iteration of this level for such regions")
        return SafeTabPDesign(
            states=states,
            noise=self.noise.noise,
            stabilities=stabilities,
            budgets=by_pair("budgets", _budgets(self, stabilities, production, margins, share)),
            thresholds={**THRESHOLDS_P, **by_pair("thresholds", _thresholds(self))},
            stage_1_share=share,
            zero_suppression_chance=self.zero_suppression_chance,
            negative_counts=self.negative_counts,
            max_race_codes=self.max_race_codes,
        )


class SafeTabHDeclaration(SafeTabDeclaration):
    """The YAML declaration of a release of household type and tenure of detailed race and ethnicity groups."""

    detail: ReleaseName = Field(
        description="The release by SafeTab-P of the same dataset whose published totals say which groups there are "
        "and in what detail. States, lists and race codes are those of that release."
    )
    budgets: Budgets = Field("production", description=_BUDGETS.format(example="TRACT 2 T3", unit="household"))
    thresholds: Thresholds = Field(
        "production",
        description="production: those of the 2020 Census. Otherwise by line: three published totals (T3) or one (T4), "
        "from which there are more cells.",
    )

    def design(self, dataset: DatasetDeclaration, **sources: Any) -> SafeTabHDesign:
        """What is measured of the groups of the release by SafeTab-P."""
        lists, detail = sources["lists"], sources["detail"]
        states, max_race_codes = detail.design.states, detail.design.max_race_codes
        stabilities = {pair: lists.stability(*pair, max_race_codes) for pair in detail.pairs}
        lines = [
            (line_of(pair, family), budget, MARGINS[pair])
            for family, budgets in BUDGETS_H.items()
            for pair, budget in budgets.items()
            if pair in stabilities
        ]
        production = {line: budget for line, budget, _ in lines}
        margins = {line: margin for line, budget, margin in lines if budget}
        by_family("moe", self.moe)
        _require_groups(self, stabilities, states, f"release {detail.name} measures no totals there")
        thresholds = by_family("thresholds", _thresholds(self))
        return SafeTabHDesign(
            states=states,
            noise=self.noise.noise,
            stabilities=stabilities,
            budgets=by_family("budgets", _budgets(self, stabilities, production, margins)),
            thresholds={family: {**THRESHOLDS_H[family], **thresholds[family]} for family in THRESHOLDS_H},
            negative_counts=self.negative_counts,
            max_race_codes=max_race_codes,
        )


def _runs(states: Sequence[str]) -> set[str]:
    return {"PR" if state == PUERTO_RICO else "US" for state in states}


def _budgets(
    declaration: SafeTabPDeclaration | SafeTabHDeclaration,
    stabilities: Mapping[Pair, int],
    production: Mapping[str, Fraction],
    margins: Mapping[str, int],
    stage_1_share: Fraction = Fraction(0),
) -> dict[str, Fraction]:
    """By line, the declared budgets, those that declared margins need, or those of production.

    In pure DP, the budgets of production are those that its margins of error need.
    """
    noise, declared = declaration.noise.noise, declaration.budgets
    if isinstance(declared, Mapping):
        return budgets_of(noise, stabilities, declared, declaration.moe, stage_1_share)
    needed = declaration.moe
    if noise is Noise.LAPLACE:
        needed = {line: Fraction(margin) for line, margin in margins.items()} | needed
        production = {}
    rest = {line: budget for line, budget in production.items() if line not in needed}
    return budgets_of(noise, stabilities, rest, needed, stage_1_share)


def _require_groups(
    declaration: SafeTabPDeclaration | SafeTabHDeclaration, pairs: Container[Pair], states: Sequence[str], without: str
) -> None:
    """Refuse a declared line whose regions exist but have no groups: it would be charged, and nothing measured.

    The lines of production that have no groups are left out.

    Raises:
        DesignError: if there is such a line.
    """
    declared = declaration.budgets if isinstance(declaration.budgets, Mapping) else {}
    for field, by_line in (("budgets", declared), ("moe", declaration.moe)):
        for line, number in by_line.items():
            pair, _ = pair_of(field, line)
            if number and pair not in pairs and pair[0].run in _runs(states):
                raise DesignError(f"{field}: {line}: there are no groups, as {without}")


def _thresholds(declaration: SafeTabPDeclaration | SafeTabHDeclaration) -> dict[str, tuple[int, ...]]:
    """The thresholds by line, as far as they are not those of production."""
    declared = declaration.thresholds if isinstance(declaration.thresholds, Mapping) else {}
    return {line: tuple(thresholds) for line, thresholds in declared.items()}
