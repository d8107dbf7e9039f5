"""The fields of a release by permutation swapping and of its products, and the design that follows from them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, Self

from pydantic import (
    BeforeValidator,
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
from assets.release.declaration import Part
from assets.release.names import find_repeated
from assets.release.numbers import FRACTION, Epsilon, SwapRate, exact_fraction, exact_swap_rate, limited_fraction, shown
from assets.release.published import Product
from assets.release.release import ReleaseDeclaration
from mechanisms.accounting.specification import PERSON_RECORD
from mechanisms.swapping.design import Case, Rates, SecondStir, SwappingDesign
from mechanisms.swapping.response import Response

ACCEPTED = "accepted"

MOST_TOTALS = 6
"""The most columns over which a product has totals: 64 combinations of them. DuckDB runs out of memory at 14."""

ESTIMATED = ("estimate", "standard_error", "lower", "upper", "greatest_bias")
"""The columns that a product has besides `count` if counts before the swap are estimated."""


def _validate_most_unique(value: object) -> Fraction | None:
    if value == ACCEPTED:
        return None
    share = exact_fraction(value)
    if not 0 <= share <= 1:
        raise ValueError(f"{shown(value)} is not a share from 0 to 1, such as 1/100, nor {ACCEPTED}")
    return share


def _validate_fitting(given: object) -> tuple[int | str | bool, ...]:
    """The matching values: one, or a nonempty list."""
    values = given if isinstance(given, list | tuple) else [given]
    if not values or not all(isinstance(value, int | str) for value in values):
        raise ValueError(
            f"{shown(given)} is neither a value (a number, a text or a boolean) nor a nonempty list of values"
        )
    return tuple(values)


def _validate_swap_rate(value: object) -> object:
    """A rate, or rates that differ. Errors refer only to the form that was given."""
    return StratumRates.model_validate(value) if isinstance(value, Mapping) else exact_swap_rate(value)


def _number_or_text(pattern: str, **limits: int) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": "number", **limits}, {"type": "string", "pattern": pattern}]})


MostUnique = Annotated[
    Fraction | None,
    BeforeValidator(_validate_most_unique),
    PlainSerializer(lambda share: ACCEPTED if share is None else share),
    _number_or_text(f"{FRACTION}|^{ACCEPTED}$", minimum=0, maximum=1),
]


class ExperimentDeclaration(Part):
    """Repeated draws that compare several swap rates; allowed on a synthetic dataset only."""

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
        PlainValidator(_validate_fitting),
        WithJsonSchema({"type": ["integer", "string", "boolean", "array"], "minItems": 1}),
    ],
]
"""By variable, the value or values that match."""

Keep = Annotated[
    Fraction,
    BeforeValidator(limited_fraction(lambda keep: 0 < keep < 1, "a probability strictly between 0 and 1")),
    _number_or_text(FRACTION, exclusiveMinimum=0, exclusiveMaximum=1),
]
"""The probability with which a record keeps its value."""


class StratumCase(Part):
    """The swap rate of some strata."""

    when: Conditions = Field(
        default_factory=dict,
        description="For match variables, the value or values to which the case applies. A case without conditions "
        "always applies.",
    )
    rate: SwapRate = Field(description="The swap rate: a fraction such as 1/2.")


class RiskCase(StratumCase):
    """The swap rate of some records."""

    when: Conditions = Field(
        default_factory=dict,
        description="For holding variables, which include the match variables, the value or values to which the case "
        "applies. A case without conditions applies to all records, or to all that `at_most` fits.",
    )
    at_most: Annotated[int, Field(ge=1, strict=True)] | SkipJsonSchema[None] = Field(
        None,
        description="The case applies to a record only if at most this many records are like it, the record included.",
    )


class StratumRates(Part):
    """Swap rates that differ between strata: cases, or one ε for all strata."""

    by: Annotated[list[StratumCase], Field(min_length=1, max_length=1000)] | SkipJsonSchema[None] = Field(
        None,
        description="The cases, in order. Each stratum gets the rate of the first case that applies to it; at least "
        "one must apply.",
    )
    epsilon: Epsilon | SkipJsonSchema[None] = Field(
        None,
        description="One ε for all strata: each gets the smallest rate, in steps of a millionth, with at most this ε.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.by is None) == (self.epsilon is None):
            raise ValueError("declare either by, or epsilon")
        return self


class Risk(Part):
    """Swap rates that differ between records, by match and holding values or by how rare these are."""

    cases: Annotated[list[RiskCase], Field(min_length=1, max_length=1000)] = Field(
        description="The cases, in order. Each record gets the rate of the first case that applies to it; at least "
        "one must apply."
    )
    rarity_of: Annotated[list[str], Field(min_length=1)] | SkipJsonSchema[None] = Field(
        None,
        description="The match and holding variables on which two records must agree to count as alike. By default, "
        "all of them, and all variables of the persons who move with a unit.",
    )


class SecondStirDeclaration(Part):
    """A second swap, within coarser strata."""

    match: list[str] = Field(
        description="Some of the match variables: records are swapped again if they agree on these."
    )
    swap_rate: SwapRate = Field(description="The probability with which a record is selected again.")


def _ordered(conditions: Conditions) -> tuple[tuple[str, tuple[Given, ...]], ...]:
    return tuple(sorted(conditions.items()))


class SwappedProduct(Product):
    """A table of counts, tabulated from the swapped data."""

    totals: list[str] = Field(
        default_factory=list,
        description="At most 6 columns to add totals over, in additional rows. For each, a column <column>_total "
        "marks these rows.",
    )
    zeros: bool = Field(default=True, description="Whether empty cells are listed, with count 0.")
    source: Annotated[str, WithJsonSchema({"const": "swapped"})] = Field(
        default="swapped", description="The source of the table: `swapped` only, because ε covers no other data."
    )

    @field_validator("source")
    @classmethod
    def _refuse_original_data(cls, source: str) -> str:
        if source != "swapped":
            raise ValueError(
                f"a product is tabulated from the swapped data only, not from {source!r}: "
                "the original data are not covered by ε"
            )
        return source

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.name in ("saturated", "saturated_persons"):
            raise ValueError(f"the name {self.name} belongs to the saturated contingency table")
        if len(self.totals) > MOST_TOTALS or len(set(self.totals)) < len(self.totals):
            raise ValueError(
                f"product {self.name}: totals: at most {MOST_TOTALS} columns, each once: every combination of them has "
                "rows of its own"
            )
        taken = {name.casefold() for name in (*self.columns, "count", *ESTIMATED)}
        for name, flag in self.flags.items():
            if name not in self.columns:
                raise ValueError(f"product {self.name}: totals: {name} is not a column of the product")
            if flag.casefold() in taken:
                raise ValueError(
                    f"product {self.name}: totals: {flag}, which marks totals over {name}, is a column too"
                )
        return self

    @property
    def flags(self) -> dict[str, str]:
        """By column with totals, the name of the column that marks them."""
        return {name: f"{name}_total" for name in self.totals}


def name_products(products: Sequence[SwappedProduct]) -> dict[str, str]:
    """By product name, its words on a page: its title, or its name if the title is not unique."""
    alike = Counter(product.title for product in products)
    return {
        product.name: product.title if product.title and alike[product.title] == 1 else product.name
        for product in products
    }


class SwappingDeclaration(ReleaseDeclaration):
    """The YAML declaration of a release by permutation swapping."""

    unit: str | SkipJsonSchema[None] = Field(
        None,
        min_length=1,
        description="The records to swap: the dataset's record_name (the default), or person if units have persons.",
    )
    match: list[str] = Field(
        default_factory=list, description="The match variables: records are swapped only if they agree on these."
    )
    swap: Annotated[list[str], Field(min_length=1)] = Field(
        description="The variables whose values the records exchange."
    )
    risk: Risk | SkipJsonSchema[None] = Field(
        None,
        description="Instead of `swap_rate`: rates that depend on a record's match and holding values, or on how many "
        "records are like it.",
    )
    swap_rate: Annotated[SwapRate | StratumRates, BeforeValidator(_validate_swap_rate)] | SkipJsonSchema[None] = Field(
        None,
        validate_default=True,
        description="The probability with which a record is selected: a fraction such as 1/2. Or a mapping with "
        "`by` (rates of strata) or `epsilon` (one ε for all strata).",
    )
    exempt: Conditions = Field(
        default_factory=dict,
        description="For match variables, the values of records that are never swapped, such as imputed ones.",
    )
    second_stir: SecondStirDeclaration | SkipJsonSchema[None] = Field(
        None, description="A second swap after the first one, within coarser strata."
    )
    noise_before: dict[str, Keep] = Field(
        default_factory=dict,
        description="Randomized response before the swap: for each holding variable, the probability with which a "
        "record keeps its value.",
    )
    variables: list[str] | SkipJsonSchema[None] = Field(
        None,
        description="The variables of units and persons that take part besides match and swap variables. Other "
        "variables are published nowhere. By default, all variables take part.",
    )
    publishes_unique_records: MostUnique = Field(
        Fraction(1, 100),
        description="The greatest permitted share of records that are unique in an invariant: no other record has "
        "the same values there, so these values are published exactly. `accepted` permits any share.",
    )
    products: list[SwappedProduct] = Field(default_factory=list, description="The tables to publish.")
    saturated: bool = Field(
        True,
        strict=True,
        description="Whether the counts by all variables together are published (the saturated contingency table), "
        "from which all products follow.",
    )
    withheld: bool = Field(
        False,
        strict=True,
        description="Whether the swapped records stay in the confidential zone, where hypercubes count them with "
        "noise. This release itself then publishes and charges nothing.",
    )
    experiment: ExperimentDeclaration | SkipJsonSchema[None] = Field(
        None, description="On a synthetic dataset: repeated draws that compare swap rates."
    )

    @property
    def charges(self) -> bool:
        return not self.withheld

    @field_validator("swap_rate", mode="wrap")
    @classmethod
    def _require_one_kind_of_rate(
        cls, given: object, validate: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> object:
        # A wrong risk has its own error.
        risk = info.data.get("risk", Risk)
        if given is None and risk is None:
            raise PydanticKnownError("missing")
        if given is not None and risk is not None and "risk" in info.data:
            raise ValueError("declare either swap_rate or risk")
        return None if given is None else validate(given)

    @field_validator("match", "swap", "variables")
    @classmethod
    def _check_variables(cls, variables: list[str] | None) -> list[str] | None:
        if repeated := find_repeated(variables or ()):
            raise ValueError(f"{repeated[0]} is named twice")
        return variables

    @property
    def rates(self) -> Rates:
        """The rates of the first stir. Raises ValueError if rates of strata depend on more than match variables."""
        if self.risk is not None:
            rarity = None if self.risk.rarity_of is None else tuple(sorted(set(self.risk.rarity_of)))
            return Rates(tuple(Case(_ordered(case.when), case.at_most, case.rate) for case in self.risk.cases), rarity)
        assert self.swap_rate is not None
        if isinstance(self.swap_rate, Fraction):
            return Rates.single(self.swap_rate)
        cases = self.swap_rate.by or []
        for name in (name for case in cases for name in case.when):
            if name not in self.match:
                raise ValueError(f"swap_rate: by: {name} is not a match variable; declare risk instead")
        return Rates(tuple(Case(_ordered(case.when), None, case.rate) for case in cases), None, self.swap_rate.epsilon)

    def design(self, dataset: DatasetDeclaration, **_: Any) -> SwappingDesign:
        """The design: the strata and rates of the swap, and the variables that stay unchanged."""
        unit = self.unit or dataset.record_name
        if unit not in {dataset.record_name, *(["person"] if dataset.persons else [])}:
            raise ValueError(f"unit: {dataset.name} has no records called {unit}")
        of_units, of_persons = self._participating(dataset)
        swaps_persons = unit != dataset.record_name
        if swaps_persons and dataset.list_dependent([*of_units, *of_persons]):
            unit = PERSON_RECORD
        holding = (*of_units, *(of_persons if swaps_persons else ()))
        stir = self.second_stir
        return SwappingDesign(
            unit=unit,
            match=tuple(self.match),
            swap=tuple(self.swap),
            held=tuple(name for name in holding if name not in {*self.match, *self.swap}),
            swap_rate=self.rates,
            persons=() if swaps_persons else tuple(of_persons),
            exempt=_ordered(self.exempt),
            second_stir=SecondStir(tuple(sorted(set(stir.match))), stir.swap_rate) if stir else None,
            noise=self._responses({**of_units, **of_persons}),
        )

    def _participating(self, dataset: DatasetDeclaration) -> list[dict[str, Column]]:
        tables = [dataset.units.variables, dataset.persons.variables if dataset.persons else {}]
        if self.variables is None:
            return tables
        for name in self.variables:
            if not any(name in variables for variables in tables):
                raise ValueError(f"variables: {dataset.name} has no variable {name}")
        chosen = {*self.variables, *self.match, *self.swap}
        return [{name: column for name, column in variables.items() if name in chosen} for variables in tables]

    def _responses(self, columns: Mapping[str, Column]) -> tuple[Response, ...]:
        responses = []
        for name, keep in self.noise_before.items():
            if name not in columns:
                raise ValueError(f"noise_before: {name} is no variable of the release")
            try:
                responses.append(Response(name, keep, columns[name].domain_size))
            except ValueError as error:
                raise ValueError(f"noise_before: {name}: {error}") from None
        return tuple(responses)
