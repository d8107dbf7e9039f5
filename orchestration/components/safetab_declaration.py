"""The YAML declarations of releases by SafeTab-P and SafeTab-H, and the designs that follow from them.

This module defines the fields, their domains and their JSON schema. What a design must satisfy is in
`mechanisms.safetab.design`. The components are in `safetab`.
"""

from collections.abc import Container, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from assets.measurement.declaration import Definition, State
from assets.release.names import ReleaseName, SourcePath
from assets.release.numbers import Budget, Delta, Margin, Share
from assets.release.release import DeclarationError
from assets.safetab.lists import ListsFileError, read_lists
from assets.safetab.release import SafeTabPRelease
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
from orchestration.components.release import ReleaseDeclaration
from orchestration.environment import PROJECT

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

    def refuse(self, error: Exception) -> DeclarationError:
        """The error that a design is not valid, with the name of the release."""
        return DeclarationError(f"release {self.dataset}/{self.name}: {error}")


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


def safetab_p_design(declaration: SafeTabPDeclaration, lists: CodeLists) -> SafeTabPDesign:
    """The declared design of SafeTab-P.

    Raises:
        DeclarationError: if it is not valid; the message names the release, the field and the rule.
    """
    states, share = tuple(sorted(declaration.states)), declaration.stage_1_share
    stabilities = _stabilities(lists, _with_iterations(lists, states), declaration.max_race_codes)
    margins = {line_of(pair): margin for pair, margin in MARGINS.items() if pair in stabilities and BUDGETS_P[pair]}
    production = {line_of(pair): budget for pair, budget in BUDGETS_P.items() if pair in stabilities}
    try:
        by_pair("moe", declaration.moe)
        _require_groups(declaration, stabilities, states, "the lists have no iteration of this level for such regions")
        return SafeTabPDesign(
            states=states,
            noise=declaration.noise.noise,
            stabilities=stabilities,
            budgets=by_pair("budgets", _budgets(declaration, stabilities, production, margins, share)),
            thresholds={**THRESHOLDS_P, **by_pair("thresholds", _tuples(declaration.thresholds))},
            stage_1_share=share,
            zero_suppression_chance=declaration.zero_suppression_chance,
            negative_counts=declaration.negative_counts,
            max_race_codes=declaration.max_race_codes,
        )
    except DesignError as error:
        raise declaration.refuse(error) from None


def safetab_h_design(declaration: SafeTabHDeclaration, persons: SafeTabPRelease) -> SafeTabHDesign:
    """The declared design of SafeTab-H, for the groups of a release by SafeTab-P.

    Raises:
        DeclarationError: as `safetab_p_design`.
    """
    states, max_race_codes = persons.design.states, persons.design.max_race_codes
    stabilities = _stabilities(persons.lists, persons.pairs, max_race_codes)
    production = {
        line_of(pair, family): budget
        for family, budgets in BUDGETS_H.items()
        for pair, budget in budgets.items()
        if pair in stabilities
    }
    margins = {
        line_of(pair, family): MARGINS[pair]
        for family, budgets in BUDGETS_H.items()
        for pair, budget in budgets.items()
        if pair in stabilities and budget
    }
    try:
        by_family("moe", declaration.moe)
        _require_groups(declaration, stabilities, states, f"release {persons.name} measures no totals there")
        thresholds = by_family("thresholds", _tuples(declaration.thresholds))
        return SafeTabHDesign(
            states=states,
            noise=declaration.noise.noise,
            stabilities=stabilities,
            budgets=by_family("budgets", _budgets(declaration, stabilities, production, margins)),
            thresholds={family: {**THRESHOLDS_H[family], **thresholds[family]} for family in THRESHOLDS_H},
            negative_counts=declaration.negative_counts,
            max_race_codes=max_race_codes,
        )
    except DesignError as error:
        raise declaration.refuse(error) from None


def declared_lists(declaration: SafeTabPDeclaration) -> CodeLists:
    """The declared lists of codes and iterations.

    Raises:
        DeclarationError: if a file is missing or breaks a rule.
    """
    try:
        return _production_lists() if declaration.lists == "production" else read_lists(PROJECT / declaration.lists)
    except ListsFileError as error:
        raise DeclarationError(f"release {declaration.dataset}/{declaration.name}: lists: {error}") from None


@cache
def _production_lists() -> CodeLists:
    return read_lists()


def _with_iterations(lists: CodeLists, states: Sequence[str]) -> list[Pair]:
    """The region types and levels that the states and the lists have."""
    runs = {"PR" if state == PUERTO_RICO else "US" for state in states}
    return [pair for pair in PAIRS if pair[0].run in runs and lists.universe(*pair)]


def _stabilities(lists: CodeLists, pairs: Sequence[Pair], max_race_codes: int) -> dict[Pair, int]:
    """Δ of region types and levels."""
    return {pair: lists.stability(*pair, max_race_codes) for pair in pairs}


def _require_groups(
    declaration: SafeTabPDeclaration | SafeTabHDeclaration, pairs: Container[Pair], states: Sequence[str], without: str
) -> None:
    """Refuse a declared line whose regions exist but have no groups: it would be charged, and nothing measured.

    The lines of production that have no groups are left out.

    Raises:
        DesignError: if there is such a line.
    """
    runs = {"PR" if state == PUERTO_RICO else "US" for state in states}
    budgets = declaration.budgets if isinstance(declaration.budgets, Mapping) else {}
    for field, given in (("budgets", budgets), ("moe", declaration.moe)):
        for line, number in given.items():
            pair, _ = pair_of(field, line)
            if number and pair not in pairs and pair[0].run in runs:
                raise DesignError(f"{field}: {line}: there are no groups, as {without}")


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
    noise, own = declaration.noise.noise, declaration.budgets
    if isinstance(own, Mapping):
        return budgets_of(noise, stabilities, own, declaration.moe, stage_1_share)
    needed = declaration.moe
    if noise is Noise.LAPLACE:
        needed = {line: Fraction(margin) for line, margin in margins.items()} | needed
    rest = {} if noise is Noise.LAPLACE else {line: each for line, each in production.items() if line not in needed}
    return budgets_of(noise, stabilities, rest, needed, stage_1_share)


def _tuples(thresholds: str | Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    return {} if isinstance(thresholds, str) else {line: tuple(each) for line, each in thresholds.items()}
