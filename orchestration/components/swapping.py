"""A permutation-swapping release as a Dagster component: a screen of YAML becomes its asset graph.

Here belongs how YAML becomes a release. What a release must satisfy belongs in `assets.swapping.release`,
how its stages work in their rooms, how it is scheduled in `orchestration.automation`.
"""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import dagster as dg
from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

from assets.charge.asset import build_charge
from assets.gates.asset import build_gates
from assets.publication.asset import build_publication
from assets.release.dataset import DatasetDeclaration, exact_fraction
from assets.release.release import DeclarationError
from assets.swapping.invariants import build_invariants
from assets.swapping.method import Swapping
from assets.swapping.release import Experiment, SwappingRelease
from assets.swapping.swapped import build_swapped
from assets.swapping.tabulated import build_tables
from assets.swapping.utility import build_utility
from assets.tabulation.declaration import Product
from mechanisms.swapping.design import DesignError, SwappingDesign
from mechanisms.swapping.loss import odds
from orchestration.components.release import (
    ReleaseComponent,
    ReleaseDeclaration,
    automated,
    dataset_of,
    declared_datasets,
    published_folder,
)


def _swap_rate(value: object) -> Fraction:
    rate = exact_fraction(value)
    odds(rate)
    if rate.denominator > 10**9:
        raise ValueError("a swap rate's denominator is at most a billion")
    return rate


SwapRate = Annotated[
    Fraction,
    BeforeValidator(_swap_rate),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                {"type": "string", "pattern": r"^(0?\.[0-9]*[1-9][0-9]*|[1-9][0-9]*/[1-9][0-9]*)$"},
            ],
            "description": "strictly between 0 and 1, as a fraction such as 1/2 or a decimal such as 0.05",
        }
    ),
]


class ExperimentDeclaration(dg.Model):
    """Repeated draws at several swap rates, to compare them; on a synthetic dataset only."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    product: str = Field(description="The product whose error is measured.")
    swap_rates: Annotated[list[SwapRate], Field(min_length=1)] = Field(description="The swap rates to try.")
    draws: int = Field(20, ge=1, le=1000, description="Independent draws at each swap rate.")


class SwappingDeclaration(ReleaseDeclaration):
    """A release by permutation swapping, as it is declared."""

    unit: str | SkipJsonSchema[None] = Field(
        None,
        description="What is swapped: the dataset's record_name (the default), or person where units have persons.",
    )
    match: list[str] = Field(
        default_factory=list, description="The swap key: only records equal on these are swapped with each other."
    )
    swap: Annotated[list[str], Field(min_length=1)] = Field(description="The variables that are swapped.")
    swap_rate: SwapRate = Field(description="The probability with which a record is selected: a fraction such as 1/2.")
    products: list[Product] = Field(default_factory=list, description="The tables to publish.")
    experiment: ExperimentDeclaration | SkipJsonSchema[None] = Field(
        None, description="Draws that compare swap rates, on a synthetic dataset."
    )


@dataclass
class PermutationSwapping(ReleaseComponent):
    """A release by the Permutation Swapping Algorithm, with its ε from Theorem 1 and all its checks."""

    declared_by = SwappingDeclaration
    draws = "swapped"

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The release's assets, checks and job, and its schedule and sensor if declared."""
        release = build_release(self.declaration, declared_datasets(context), published_folder(context))
        method = Swapping(release)
        return dg.Definitions.merge(
            dg.Definitions(
                assets=[
                    build_invariants(release),
                    build_charge(method),
                    build_swapped(method),
                    build_tables(release),
                    *build_utility(release),
                    build_publication(method),
                ],
                asset_checks=build_gates(method),
            ),
            automated(release, self.declaration, context.project_root),
        )


def build_release(
    declaration: SwappingDeclaration, datasets: dict[str, DatasetDeclaration], published: Path
) -> SwappingRelease:
    """The release of a declaration.

    Raises:
        DeclarationError: where the declaration contradicts itself or the dataset.
    """
    name = f"release {declaration.dataset}/{declaration.name}"
    dataset = dataset_of(declaration, datasets)
    unit = declaration.unit or dataset.record_name
    if unit not in {dataset.record_name, *(["person"] if dataset.persons else [])}:
        raise DeclarationError(f"{name}: unit: {dataset.name} has no records called {unit}")
    persons_follow = dataset.persons is not None and unit == dataset.record_name
    variables = {**dataset.units.variables}
    if dataset.persons and not persons_follow:
        variables |= dataset.persons.variables
    roles = {*declaration.match, *declaration.swap}
    try:
        design = SwappingDesign(
            unit=unit,
            match=tuple(declaration.match),
            swap=tuple(declaration.swap),
            held=tuple(variable for variable in variables if variable not in roles),
            swap_rate=declaration.swap_rate,
            persons=persons_follow,
        )
    except DesignError as error:
        raise DeclarationError(f"{name}: {error}") from None
    experiment = declaration.experiment
    return SwappingRelease(
        dataset=dataset,
        name=declaration.name,
        title=declaration.title,
        description=declaration.description,
        design=design,
        products=tuple(declaration.products),
        custody=declaration.custody,
        experiment=Experiment(experiment.product, tuple(sorted(experiment.swap_rates)), experiment.draws)
        if experiment
        else None,
        published=published,
    )
