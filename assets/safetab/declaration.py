"""The fields of releases by SafeTab-P and SafeTab-H, and the designs that follow from them."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, Self

from pydantic import Field, StrictInt, Tag, model_validator
from pydantic.json_schema import SkipJsonSchema

from assets.measurement.declaration import PRODUCTION_OR_OWN, Definition, Production, State, refuse_unused_delta
from assets.release.dataset import DatasetDeclaration
from assets.release.declaration import Part
from assets.release.names import ReleaseName, SourcePath
from assets.release.numbers import Budget, Delta, Margin, ShareBelow1, ShareBetween
from assets.release.release import ReleaseDeclaration
from mechanisms.accounting.specification import DELTA
from mechanisms.design import DesignError
from mechanisms.safetab.design import Key, Pair, SafeTabHDesign, SafeTabPDesign, find_runs, format_label
from mechanisms.safetab.lists import MOST_RACE_CODES, CodeLists
from mechanisms.safetab.planning import (
    BUDGETS_H,
    BUDGETS_P,
    MARGINS,
    PAIRS,
    STAGE_1_SHARE,
    THRESHOLDS_H,
    THRESHOLDS_P,
    ZERO_SUPPRESSION_CHANCE,
    complete_budgets,
    read_lines,
)

Budgets = Annotated[Production | Annotated[dict[str, Budget], Tag("own")], PRODUCTION_OR_OWN]
Thresholds = Annotated[Production | Annotated[dict[str, list[StrictInt]], Tag("own")], PRODUCTION_OR_OWN]

_BUDGETS = (
    "production: as in the 2020 Census. Otherwise, for each line, such as {example} ({words}): ρ, or ε with "
    "noise: pure, for one {unit} added or removed; lines left out are not measured."
)
_STATES = "FIPS codes in quotes, such as '06'. The states form the nation; '72' is Puerto Rico, by itself."
_LISTS = (
    "production: the iterations of the 2020 Census. Otherwise a folder with files like those in assets/safetab/lists, "
    "absolute or relative to the project's root."
)
_RACE_CODES = "How many race codes of a record are read."
_NO_ITERATION = "the lists have no iteration of this level for such regions"
_MOE = (
    "For any line, such as TRACT 2, in place of its budget: the 95% margin of error of one measured number, from which "
    "the budget follows."
)


class SafeTabDeclaration(ReleaseDeclaration):
    """The fields that releases by SafeTab-P and by SafeTab-H share."""

    noise: Definition = Field(
        Definition.ZCDP, description="zcdp: discrete Gaussian, budgets are ρ; pure: discrete Laplace, budgets are ε."
    )
    moe: dict[str, Margin] = Field(default_factory=dict, description=_MOE)
    negative_counts: bool = Field(True, description="Whether negative numbers stay; otherwise they become 0.")
    delta: Delta = Field(DELTA, description="δ at which the loss is stated as (ε, δ).")

    @model_validator(mode="after")
    def _check_delta(self) -> Self:
        refuse_unused_delta(self.noise, self.model_fields_set)
        return self


class SafeTabPDeclaration(SafeTabDeclaration):
    """The YAML declaration of a release of total population and sex by age of detailed race and ethnicity groups."""

    states: Annotated[list[State], Field(min_length=1)] = Field(description=_STATES)
    lists: SourcePath = Field("production", description=_LISTS)
    budgets: Budgets = Field(
        "production",
        description=_BUDGETS.format(example="TRACT 2", words="tracts, iterations of level 2", unit="person"),
    )
    thresholds: Thresholds = Field(
        "production",
        description="production: as in the 2020 Census. Otherwise by line: the least totals with "
        "which a group is published in detail 1, 2 and 3.",
    )
    stage_1_share: ShareBetween = Field(
        STAGE_1_SHARE, description="γ, the share of a budget with which the detail of each group is chosen."
    )
    zero_suppression_chance: ShareBelow1 = Field(
        ZERO_SUPPRESSION_CHANCE,
        description="Below the states, totals up to a cut-off are left out. The cut-off is such that an empty group is "
        "left out with at least this probability. 0 leaves out none.",
    )
    max_race_codes: int = Field(8, ge=1, le=8, strict=True, description=_RACE_CODES)

    def design(self, dataset: DatasetDeclaration, **sources: Any) -> SafeTabPDesign:
        """The measurements of the groups in the lists, for the states in ascending order."""
        lists: CodeLists = sources["lists"]
        states, share = tuple(sorted(self.states)), self.stage_1_share
        stabilities = {pair: lists.stability(*pair, self.max_race_codes) for pair in find_pairs(lists, states)}
        return SafeTabPDesign(
            states=states,
            noise=self.noise.noise,
            stabilities=stabilities,
            budgets=_choose_budgets(self, BUDGETS_P, stabilities, states, _NO_ITERATION, share),
            thresholds={**THRESHOLDS_P, **_read_lines(self, "thresholds")},
            stage_1_share=share,
            zero_suppression_chance=self.zero_suppression_chance,
            negative_counts=self.negative_counts,
            max_race_codes=self.max_race_codes,
        )


class PublishedTotals(Part):
    """Totals of persons that SafeTab-P published elsewhere. They are public, so nothing is charged for them."""

    path: SourcePath = Field(description="The file, pop-group-totals.txt: absolute, or relative to the project's root.")
    source: str = Field(min_length=1, description="Who published the totals, and where. The certificate states it.")


class SafeTabHDeclaration(SafeTabDeclaration):
    """The YAML declaration of a release of household type and tenure of detailed race and ethnicity groups."""

    detail: ReleaseName | SkipJsonSchema[None] = Field(
        None,
        description="A release by SafeTab-P of the same dataset. Its published totals determine which groups there "
        "are and in what detail. It also determines the states, lists of iterations and number of race codes.",
    )
    totals: PublishedTotals | SkipJsonSchema[None] = Field(
        None,
        description="Instead of `detail`, for example if the dataset has no persons: a file of such totals. Then "
        "declare `states`, and `lists` and `max_race_codes` if they differ from production.",
    )
    states: list[State] | SkipJsonSchema[None] = Field(None, description=f"With `totals`. {_STATES}")
    lists: SourcePath | SkipJsonSchema[None] = Field(None, description=f"With `totals`. {_LISTS}")
    max_race_codes: Annotated[int, Field(ge=1, le=8, strict=True)] | SkipJsonSchema[None] = Field(
        None, description=f"With `totals`. {_RACE_CODES}"
    )
    budgets: Budgets = Field(
        "production",
        description=_BUDGETS.format(
            example="TRACT 2 T3", words="tracts, iterations of level 2, household types; T4: tenure", unit="household"
        ),
    )
    thresholds: Thresholds = Field(
        "production",
        description="production: as in the 2020 Census. Otherwise by line: the published totals from which on a "
        "group's table has more cells (three totals for T3, one for T4).",
    )

    @model_validator(mode="after")
    def _check_detail(self) -> Self:
        if (self.detail is None) is (self.totals is None):
            raise ValueError(
                "detail: name a release by SafeTab-P, or declare totals that were published: one of the two"
            )
        own = ("states", "lists", "max_race_codes")
        if self.detail is not None and (given := [field for field in own if getattr(self, field) is not None]):
            raise ValueError(f"{given[0]}: it follows from the release named in detail; leave it out")
        if self.totals is not None and not self.states:
            raise ValueError("states: they are required with totals")
        return self

    def design(self, dataset: DatasetDeclaration, **sources: Any) -> SafeTabHDesign:
        """The measurements of the groups of the release by SafeTab-P, or of the groups with published totals."""
        lists, detail = sources["lists"], sources["detail"]
        if detail is None:
            states, max_race_codes = tuple(sorted(self.states or ())), self.max_race_codes or MOST_RACE_CODES
            pairs, without = find_pairs(lists, states), _NO_ITERATION
        else:
            states, max_race_codes = detail.design.states, detail.design.max_race_codes
            pairs, without = detail.pairs, f"release {detail.name} measures no totals there"
        stabilities = {pair: lists.stability(*pair, max_race_codes) for pair in pairs}
        return SafeTabHDesign(
            states=states,
            noise=self.noise.noise,
            stabilities=stabilities,
            budgets=_choose_budgets(self, BUDGETS_H, stabilities, states, without),
            thresholds={**THRESHOLDS_H, **_read_lines(self, "thresholds")},
            negative_counts=self.negative_counts,
            max_race_codes=max_race_codes,
        )


def find_pairs(lists: CodeLists, states: Sequence[str]) -> list[Pair]:
    """The region types and levels of the runs of some states that have groups."""
    return [pair for pair in PAIRS if pair[0].run in find_runs(states) and lists.universe(*pair)]


def _choose_budgets(
    declaration: SafeTabPDeclaration | SafeTabHDeclaration,
    production: Mapping[Key, Fraction],
    stabilities: Mapping[Pair, int],
    states: Sequence[str],
    without: str,
    stage_1_share: Fraction = Fraction(0),
) -> dict[Key, Fraction]:
    """By line, the declared budgets, the budgets that declared margins need, or the budgets of production.

    In pure DP, the budgets of production are the budgets that its margins of error need. Lines of production without
    groups are left out. Raises DesignError if a line does not exist or has a budget and a margin, no budget within
    bounds meets a margin, or a declared line has regions but no groups (`without` gives the reason), because its charge
    would have no use.
    """
    margins, declared = _read_lines(declaration, "moe"), _read_lines(declaration, "budgets")
    for field, by_line in (("budgets", declared), ("moe", margins)):
        for key, number in by_line.items():
            if number and key[:2] not in stabilities and key[0].run in find_runs(states):
                raise DesignError(f"{field}: {format_label(key)}: there are no groups, as {without}")
    if isinstance(declaration.budgets, Mapping):
        return complete_budgets(declaration.noise.noise, stabilities, declared, margins, stage_1_share)
    budgets = {key: budget for key, budget in production.items() if key[:2] in stabilities}
    if declaration.noise is Definition.PURE:
        margins = {key: Fraction(MARGINS[key[:2]]) for key, budget in budgets.items() if budget} | margins
        budgets = {}
    budgets = {key: budget for key, budget in budgets.items() if key not in margins}
    return complete_budgets(declaration.noise.noise, stabilities, budgets, margins, stage_1_share)


def _read_lines(declaration: SafeTabPDeclaration | SafeTabHDeclaration, field: str) -> dict[Key, Any]:
    """The values of a field by line; empty if the field selects the values of production."""
    given = getattr(declaration, field)
    with_tables = isinstance(declaration, SafeTabHDeclaration)
    return read_lines(field, given if isinstance(given, Mapping) else {}, with_tables=with_tables)
