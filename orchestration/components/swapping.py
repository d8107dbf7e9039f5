"""The component of a release by permutation swapping: a few lines of YAML become its asset graph.

What a release must satisfy is in `assets.swapping.release`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Self

import dagster as dg
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticKnownError

from assets.release.columns import Column
from assets.release.dataset import DatasetDeclaration
from assets.release.method import Method
from assets.release.numbers import FRACTION, Epsilon, SwapRate, exact_fraction, exact_swap_rate, shown
from assets.release.plan import Plan, PlanRequest
from assets.release.release import DeclarationError
from assets.swapping.method import Swapping
from assets.swapping.offered import WithheldSwap
from assets.swapping.plan import rate_for, swapping_plan
from assets.swapping.product import SwappedProduct
from assets.swapping.release import Experiment, SwappingRelease
from mechanisms.accounting.specification import PERSON_RECORD
from mechanisms.swapping.design import SecondStir, SwappingDesign
from mechanisms.swapping.rates import Case, Rates
from mechanisms.swapping.response import Response
from orchestration.components.release import ReleaseComponent, ReleaseDeclaration, declared


def _most_unique(value: object) -> Fraction | None:
    """A declared share of records from 0 to 1, or None for any share."""
    if value == ACCEPTED:
        return None
    share = exact_fraction(value)
    if not 0 <= share <= 1:
        raise ValueError(f"{shown(value)} is not a share from 0 to 1, such as 1/100, nor {ACCEPTED}")
    return share


def _probability(value: object) -> Fraction:
    probability = exact_fraction(value)
    if not 0 < probability < 1:
        raise ValueError(f"{shown(value)} is not a probability strictly between 0 and 1")
    return probability


def _fitting(given: object) -> tuple[int | str | bool, ...]:
    """The values that fit: one, or a nonempty list."""
    values = given if isinstance(given, list | tuple) else [given]
    if not values or not all(isinstance(value, int | str) for value in values):
        raise ValueError(
            f"{shown(given)} is neither a value (a number, a text or a boolean) nor a nonempty list of values"
        )
    return tuple(values)


ACCEPTED = "accepted"

MostUnique = Annotated[
    Fraction | None,
    BeforeValidator(_most_unique),
    PlainSerializer(lambda share: ACCEPTED if share is None else share),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": 1},
                {"type": "string", "pattern": f"{FRACTION}|^{ACCEPTED}$"},
            ]
        }
    ),
]


class ExperimentDeclaration(dg.Model):
    """Repeated draws that compare several swap rates; allowed on a synthetic dataset only."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    product: str = Field(description="The product whose error is measured.")
    swap_rates: Annotated[list[SwapRate], Field(min_length=1, max_length=100)] = Field(
        description="The swap rates to try, each once."
    )
    draws: int = Field(20, ge=1, le=1000, strict=True, description="Independent draws at each swap rate.")

    @field_validator("swap_rates")
    @classmethod
    def _check_swap_rates(cls, swap_rates: list[Fraction]) -> list[Fraction]:
        if len(set(swap_rates)) < len(swap_rates):
            raise ValueError("a swap rate is given twice")
        return swap_rates


Given = int | str | bool
"""A value of a variable, as it is written in YAML."""

Conditions = dict[
    str,
    Annotated[
        tuple[Given, ...],
        PlainValidator(_fitting),
        WithJsonSchema({"type": ["integer", "string", "boolean", "array"], "minItems": 1}),
    ],
]
"""By variable, the value or values that fit."""

Keep = Annotated[
    Fraction,
    BeforeValidator(_probability),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                {"type": "string", "pattern": FRACTION},
            ]
        }
    ),
]
"""The probability that a value stays as it is."""


class StratumCase(dg.Model):
    """The swap rate of some strata."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    when: Conditions = Field(
        default_factory=dict,
        description="By match variable, the value or values that fit; a case without conditions fits all.",
    )
    rate: SwapRate = Field(description="The swap rate: a fraction such as 1/2.")


class RiskCase(StratumCase):
    """The swap rate of some records."""

    when: Conditions = Field(
        default_factory=dict,
        description="By match or holding variable, the value or values that fit; a case without conditions fits all.",
    )
    at_most: Annotated[int, Field(ge=1, strict=True)] | SkipJsonSchema[None] = Field(
        None, description="How many records at most are alike, the record included."
    )


class StratumRates(dg.Model):
    """Swap rates that differ between strata: cases, or one ε for all strata."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    by: Annotated[list[StratumCase], Field(min_length=1, max_length=1000)] | SkipJsonSchema[None] = Field(
        None, description="Cases, of which the first that fits gives a stratum its rate; every stratum needs one."
    )
    epsilon: Epsilon | SkipJsonSchema[None] = Field(
        None, description="One ε: each stratum gets the smallest rate that gives it, in millionths."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.by is None) == (self.epsilon is None):
            raise ValueError("declare either by, or epsilon")
        return self


class Risk(dg.Model):
    """Swap rates that differ between records, by match and holding values or by how rare these are."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    cases: Annotated[list[RiskCase], Field(min_length=1, max_length=1000)] = Field(
        description="Cases, of which the first that fits gives a record its rate; every record needs one."
    )
    rarity_of: Annotated[list[str], Field(min_length=1)] | SkipJsonSchema[None] = Field(
        None,
        description="Match and holding variables on which records that are alike agree; by default all, with persons.",
    )


class SecondStirDeclaration(dg.Model):
    """A second swap, within coarser strata."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    match: list[str] = Field(
        description="Some of the match variables: records are swapped again if they agree on these."
    )
    swap_rate: SwapRate = Field(description="The probability with which a record is selected again.")


def _given_rate(value: object) -> object:
    """A rate, or rates that differ; each with the errors of its own form alone."""
    return StratumRates.model_validate(value) if isinstance(value, Mapping) else exact_swap_rate(value)


class SwappingDeclaration(ReleaseDeclaration):
    """The YAML declaration of a release by permutation swapping."""

    unit: str | SkipJsonSchema[None] = Field(
        None,
        min_length=1,
        description="What is swapped: the dataset's record_name (the default), or person if units have persons.",
    )
    match: list[str] = Field(
        default_factory=list, description="The swap key: records are swapped only if they agree on these variables."
    )
    swap: Annotated[list[str], Field(min_length=1)] = Field(description="The variables that are swapped.")
    risk: Risk | SkipJsonSchema[None] = Field(
        None, description="In place of swap_rate: rates by match and holding values, or by how rare they are."
    )
    swap_rate: Annotated[SwapRate | StratumRates, BeforeValidator(_given_rate)] | SkipJsonSchema[None] = Field(
        None,
        validate_default=True,
        description="The probability with which a record is selected: a fraction such as 1/2; or by, with rates of "
        "strata; or epsilon, one ε for all strata.",
    )
    exempt: Conditions = Field(
        default_factory=dict,
        description="By match variable, the values of records that are never swapped, such as imputed ones.",
    )
    second_stir: SecondStirDeclaration | SkipJsonSchema[None] = Field(
        None, description="A second swap within coarser strata, after the first."
    )
    noise_before: dict[str, Keep] = Field(
        default_factory=dict,
        description="Randomized response before the swap: by holding variable, the probability that a value stays.",
    )
    variables: list[str] | SkipJsonSchema[None] = Field(
        None,
        description="The variables of units and persons that take part besides match and swap; all others appear "
        "nowhere. By default, all take part.",
    )
    publishes_unique_records: MostUnique = Field(
        Fraction(1, 100),
        description="The greatest share of records that may be the only one with their values of an invariant, which "
        "publishes these values exactly; or accepted, for any share.",
    )
    products: list[SwappedProduct] = Field(default_factory=list, description="The tables to publish.")
    saturated: bool = Field(
        True,
        strict=True,
        description="Whether the saturated contingency table is published, from which all products follow.",
    )
    withheld: bool = Field(
        False,
        strict=True,
        description="Whether the swapped records stay in the confidential zone, for a release that counts tables with "
        "noise from them; nothing is then published or charged by this release itself.",
    )
    experiment: ExperimentDeclaration | SkipJsonSchema[None] = Field(
        None, description="Draws that compare swap rates, on a synthetic dataset."
    )

    @field_validator("swap_rate", mode="wrap")
    @classmethod
    def _require_one_kind_of_rate(
        cls, given: object, validate: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> object:
        # A wrong risk has an error of its own.
        risk = info.data.get("risk", Risk)
        if given is None and risk is None:
            raise PydanticKnownError("missing")
        if given is not None and risk is not None and "risk" in info.data:
            raise ValueError("declare either swap_rate or risk")
        return None if given is None else validate(given)

    @field_validator("match", "swap", "variables")
    @classmethod
    def _check_variables(cls, variables: list[str] | None) -> list[str] | None:
        twice = sorted({name for name in variables or () if (variables or []).count(name) > 1})
        if twice:
            raise ValueError(f"{twice[0]} is named twice")
        return variables


@dataclass
class PermutationSwapping(ReleaseComponent):
    """A release by the Permutation Swapping Algorithm, with its ε from Theorem 1 and all its checks."""

    declared_by = SwappingDeclaration
    method = Swapping

    @property
    def charges(self) -> bool:
        return not self.declaration.withheld

    def release(self, dataset: DatasetDeclaration, published: Path) -> SwappingRelease:
        return build_release(self.declaration, dataset, published)

    def plan(self, method: Method[Any, Any, Any], asked: PlanRequest) -> Plan:
        return swapping_plan(method.release, asked.largest_stratum)

    def fields_for_total(self, method: Method[Any, Any, Any], total: Fraction, asked: PlanRequest) -> Mapping[str, Any]:
        """One rate: the smallest, in millionths, whose ε is at most the total; or one ε for all strata."""
        return {"swap_rate": rate_for(method.release, asked.largest_stratum, total)}

    def withheld_records(self, dataset: DatasetDeclaration, published: Path) -> WithheldSwap | None:
        return WithheldSwap(self.release(dataset, published)) if self.declaration.withheld else None


def build_release(declaration: SwappingDeclaration, dataset: DatasetDeclaration, published: Path) -> SwappingRelease:
    """Build the release from its declaration.

    Raises:
        DeclarationError: if the declaration contradicts itself or the dataset.
    """
    name = f"release {declaration.dataset}/{declaration.name}"
    unit = declaration.unit or dataset.record_name
    if unit not in {dataset.record_name, *(["person"] if dataset.persons else [])}:
        raise DeclarationError(f"{name}: unit: {dataset.name} has no records called {unit}")
    of_units, of_persons = _taking_part(declaration, dataset, name)
    columns = {**of_units, **of_persons}
    swaps_persons = unit != dataset.record_name
    if swaps_persons and any(column.follows_persons for column in of_units.values()):
        unit = PERSON_RECORD
    roles = {*declaration.match, *declaration.swap}
    try:
        design = SwappingDesign(
            unit=unit,
            match=tuple(declaration.match),
            swap=tuple(declaration.swap),
            held=tuple(each for each in (*of_units, *(of_persons if swaps_persons else ())) if each not in roles),
            swap_rate=_rates(declaration),
            persons=() if swaps_persons else tuple(of_persons),
            exempt=_conditions(declaration.exempt),
            second_stir=_second_stir(declaration),
            noise=_responses(declaration, columns),
        )
    except ValueError as error:
        raise DeclarationError(f"{name}: {error}") from None
    tried = declaration.experiment
    experiment = Experiment(tried.product, tuple(sorted(tried.swap_rates)), tried.draws) if tried else None
    return SwappingRelease(
        **declared(declaration, dataset, published),
        design=design,
        products=tuple(declaration.products),
        saturated=declaration.saturated,
        most_unique=declaration.publishes_unique_records,
        experiment=experiment,
        withheld=declaration.withheld,
    )


def _rates(declaration: SwappingDeclaration) -> Fraction | Rates:
    """The rates of the first stir."""
    if declaration.risk is not None:
        rarity = declaration.risk.rarity_of
        cases = tuple(Case(_conditions(case.when), case.at_most, case.rate) for case in declaration.risk.cases)
        return Rates(cases, None if rarity is None else tuple(sorted(set(rarity))))
    given = declaration.swap_rate
    if isinstance(given, StratumRates):
        for case in given.by or ():
            for variable in case.when:
                if variable not in declaration.match:
                    raise ValueError(f"swap_rate: by: {variable} is not a match variable; declare risk instead")
        by = tuple(Case(_conditions(case.when), None, case.rate) for case in given.by or ())
        return Rates(by, None, given.epsilon)
    if given is None:
        raise ValueError("swap_rate: Field required")
    return given


def _conditions(given: Conditions) -> tuple[tuple[str, tuple[Given, ...]], ...]:
    return tuple(sorted(given.items()))


def _second_stir(declaration: SwappingDeclaration) -> SecondStir | None:
    given = declaration.second_stir
    return SecondStir(tuple(sorted(set(given.match))), given.swap_rate) if given else None


def _responses(declaration: SwappingDeclaration, columns: Mapping[str, Column]) -> tuple[Response, ...]:
    responses = []
    for name, keep in declaration.noise_before.items():
        if name not in columns:
            raise ValueError(f"noise_before: {name} is no variable of the release")
        try:
            responses.append(Response(name, keep, columns[name].domain_size))
        except ValueError as error:
            raise ValueError(f"noise_before: {name}: {error}") from None
    return tuple(responses)


def _taking_part(
    declaration: SwappingDeclaration, dataset: DatasetDeclaration, name: str
) -> tuple[dict[str, Column], dict[str, Column]]:
    """The variables of units and of persons that take part in the release."""
    units, persons = dataset.units.variables, dataset.persons.variables if dataset.persons else {}
    if declaration.variables is not None:
        for variable in declaration.variables:
            if variable not in (*units, *persons):
                raise DeclarationError(f"{name}: variables: {dataset.name} has no variable {variable}")
        named = {*declaration.variables, *declaration.match, *declaration.swap}
        units, persons = ({each: every[each] for each in every if each in named} for every in (units, persons))
    return units, persons
