"""The fields of a release by targeted pair swapping, and the design that follows from them."""

from typing import Annotated, Any

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from assets.cef.census import CensusDeclaration
from assets.release.columns import Role
from assets.release.dataset import DatasetDeclaration
from assets.release.declaration import Part
from assets.release.numbers import SwapRate
from assets.release.published import Product
from assets.release.release import ReleaseDeclaration
from mechanisms.pair_swapping.design import PairSwappingDesign


class ImputedDeclaration(Part):
    """Which households are imputed; they are never swapped."""

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

    def design(self, dataset: DatasetDeclaration, **_: Any) -> PairSwappingDesign:
        """The key, the rate, and the columns of a unit's place, all of which partners exchange together."""
        variables = dataset.units.variables if isinstance(dataset, CensusDeclaration) else {}
        place = tuple(name for name, column in variables.items() if column.role is Role.GEOGRAPHY)
        return PairSwappingDesign(dataset.record_name, tuple(self.key), self.swap_rate, place)
