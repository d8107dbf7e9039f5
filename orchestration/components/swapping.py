"""The component of a release by permutation swapping: a few lines of YAML become its asset graph.

What a release must satisfy is in `assets.swapping.release`.
"""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import dagster as dg
from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, field_validator
from pydantic.json_schema import SkipJsonSchema

from assets.release.columns import Column
from assets.release.dataset import DatasetDeclaration
from assets.release.numbers import FRACTION, SwapRate, exact_fraction, shown
from assets.release.release import DeclarationError
from assets.swapping.method import Swapping
from assets.swapping.product import SwappedProduct
from assets.swapping.release import Experiment, SwappingRelease
from mechanisms.accounting.specification import PERSON_RECORD
from mechanisms.swapping.design import DesignError, SwappingDesign
from orchestration.components.release import ReleaseComponent, ReleaseDeclaration, declared


def _most_unique(value: object) -> Fraction | None:
    """A declared share of records from 0 to 1, or None for any share."""
    if value == ACCEPTED:
        return None
    share = exact_fraction(value)
    if not 0 <= share <= 1:
        raise ValueError(f"{shown(value)} is not a share from 0 to 1, such as 1/100, nor {ACCEPTED}")
    return share


ACCEPTED = "accepted"

MostUnique = Annotated[
    Fraction | None,
    BeforeValidator(_most_unique),
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
    swap_rate: SwapRate = Field(description="The probability with which a record is selected: a fraction such as 1/2.")
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
    experiment: ExperimentDeclaration | SkipJsonSchema[None] = Field(
        None, description="Draws that compare swap rates, on a synthetic dataset."
    )

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

    def release(self, dataset: DatasetDeclaration, published: Path) -> SwappingRelease:
        return build_release(self.declaration, dataset, published)


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
            swap_rate=declaration.swap_rate,
            persons=() if swaps_persons else tuple(of_persons),
        )
    except DesignError as error:
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
    )


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
