"""The component of a release by targeted pair swapping, as in the 2010 census; for comparison, without a finite loss.

What a release must satisfy is in `assets.pair_swapping.release`.
"""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import dagster as dg
from pydantic import ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from assets.cef.census import CensusDeclaration
from assets.pair_swapping.method import PairSwapping
from assets.pair_swapping.release import Imputed, PairSwappingRelease, place_columns
from assets.release.dataset import DatasetDeclaration
from assets.release.numbers import SwapRate
from assets.release.release import DeclarationError
from assets.tabulation.declaration import Product
from mechanisms.design import DesignError
from mechanisms.pair_swapping.design import PairSwappingDesign
from orchestration.components.release import ReleaseComponent, ReleaseDeclaration, declared


class ImputedDeclaration(dg.Model):
    """Which households are imputed; they are never swapped."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    column: str = Field(description="A variable of the units.")
    values: Annotated[list[str], Field(min_length=1)] = Field(description="Its values for imputed households, as text.")


class PairSwappingDeclaration(ReleaseDeclaration):
    """The YAML declaration of a release by targeted pair swapping."""

    key: Annotated[list[str], Field(min_length=1)] = Field(
        description="The key variables of units: a household that is unique on them has a higher risk, and is selected "
        "more often."
    )
    swap_rate: SwapRate = Field(description="The share of each state's households that is selected, such as 1/25.")
    imputed: ImputedDeclaration | SkipJsonSchema[None] = Field(
        None, description="Which households are imputed and never swapped; by default, none is marked."
    )
    products: list[Product] = Field(default_factory=list, description="The tables of counts to publish.")


@dataclass
class PairSwapping2010(ReleaseComponent):
    """Households swapped in pairs as in the 2010 census, for comparison. Its loss is infinite."""

    declared_by = PairSwappingDeclaration
    method = PairSwapping

    def release(self, dataset: DatasetDeclaration, published: Path) -> PairSwappingRelease:
        return build_release(self.declaration, dataset, published)


def build_release(
    declaration: PairSwappingDeclaration, dataset: DatasetDeclaration, published: Path
) -> PairSwappingRelease:
    """Build the release from its declaration.

    Raises:
        DeclarationError: if the declaration contradicts itself or the dataset.
    """
    rate: Fraction = declaration.swap_rate
    place = place_columns(dataset) if isinstance(dataset, CensusDeclaration) else ()
    try:
        design = PairSwappingDesign(dataset.record_name, tuple(declaration.key), rate, place)
    except DesignError as error:
        raise DeclarationError(f"release {declaration.dataset}/{declaration.name}: {error}") from None
    marked = declaration.imputed
    return PairSwappingRelease(
        **declared(declaration, dataset, published),
        design=design,
        imputed=Imputed(marked.column, tuple(marked.values)) if marked else None,
        products=tuple(declaration.products),
    )
