"""The fields of a release by targeted pair swapping, and the design that follows from them."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from assets.cef.census import CensusDeclaration
from assets.release.columns import Role
from assets.release.dataset import DatasetDeclaration
from assets.release.declaration import Part
from assets.release.numbers import Factor, Share, SwapRate
from assets.release.published import Product
from assets.release.release import ReleaseDeclaration
from mechanisms.pair_swapping.design import PairSwappingDesign, RiskFactors, Steps


class ImputedDeclaration(Part):
    """Which households are imputed; they are never swapped."""

    column: str = Field(description="A variable of the units.")
    values: Annotated[list[str], Field(min_length=1)] = Field(
        description="The column's values for imputed households, as text."
    )


class Step(Part):
    """A factor that applies from a number up to the number of the next step; below all steps, the factor is 1."""

    at_least: Annotated[int, Field(ge=1, strict=True)] = Field(description="The least number.")
    factor: Factor = Field(description="The factor of the weight: 0, or a fraction of integers up to 64.")


class ShareStep(Part):
    """A factor that applies from a share up to the share of the next step; below all steps, the factor is 1."""

    at_least: Share = Field(description="The least share.")
    factor: Factor = Field(description="The factor of the weight: 0, or a fraction of integers up to 64.")


class UniqueRace(Part):
    """The factor of a household with a person whose race no other unit of the block has."""

    variable: str = Field("CENRACE", description="The variable of persons that has the race.")
    factor: Factor = Field(description="The factor of the weight: 0, or a fraction of integers up to 64.")


class ImputedItems(Part):
    """Factors by how much of a household's record is imputed."""

    variable: str = Field(
        description="An integer variable of the units: the number or percentage of imputed items in the record."
    )
    steps: Annotated[list[Step], Field(min_length=1)] = Field(description="Steps in ascending order.")


class RiskFactorsDeclaration(Part):
    """Factors that multiply a household's weight in the selection. The weight itself rises with the largest place in
    which the household is unique."""

    block_size: list[Step] = Field(
        default_factory=list, description="Factors by the number of households in the block; steps in ascending order."
    )
    unique_race: UniqueRace | SkipJsonSchema[None] = Field(
        None, description="The factor for a household with a person whose race no other unit of the block has."
    )
    block_imputation: list[ShareStep] = Field(
        default_factory=list,
        description="Factors by the share of the block's households that are imputed; steps in ascending order.",
    )
    imputed_items: ImputedItems | SkipJsonSchema[None] = Field(
        None, description="Factors by how much of the household's own record is imputed."
    )
    always_selected: Literal["block", "block_group", "tract", "county"] | SkipJsonSchema[None] = Field(
        None, description="Households that are unique on the key variables in a place of this kind are always selected."
    )


class PairSwappingDeclaration(ReleaseDeclaration):
    """The YAML declaration of a release by targeted pair swapping."""

    key: Annotated[list[str], Field(min_length=1)] = Field(
        description="The key variables of units: a household that is unique on them has a higher risk, and is selected "
        "more often."
    )
    swap_rate: SwapRate = Field(description="The share of each state's households that is selected, such as 1/25.")
    imputed: ImputedDeclaration | SkipJsonSchema[None] = Field(
        None, description="Which households are imputed and never swapped; by default, none."
    )
    risk_factors: RiskFactorsDeclaration | SkipJsonSchema[None] = Field(
        None, description="Further factors of a household's weight in the selection; none by default."
    )
    products: list[Product] = Field(default_factory=list, description="The tables of counts to publish.")

    def design(self, dataset: DatasetDeclaration, **_: Any) -> PairSwappingDesign:
        """The design: the key, the rate, and the columns of a unit's place, which partners exchange together."""
        variables = dataset.units.variables if isinstance(dataset, CensusDeclaration) else {}
        place = tuple(name for name, column in variables.items() if column.role is Role.GEOGRAPHY)
        return PairSwappingDesign(dataset.record_name, tuple(self.key), self.swap_rate, place, self._risk_factors())

    def _risk_factors(self) -> RiskFactors:
        given = self.risk_factors
        if given is None:
            return RiskFactors()
        if given.block_imputation and self.imputed is None:
            raise ValueError("risk_factors: block_imputation: declare imputed, which marks imputed households")
        race, items = given.unique_race, given.imputed_items
        return RiskFactors(
            _as_steps(given.block_size),
            None if race is None else (race.variable, race.factor),
            _as_steps(given.block_imputation),
            None if items is None else (items.variable, _as_steps(items.steps)),
            given.always_selected,
        )


def _as_steps(steps: Sequence[Step | ShareStep]) -> Steps:
    return tuple((Fraction(step.at_least), step.factor) for step in steps)
