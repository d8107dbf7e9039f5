"""The component of a synthetic census: a few parameters become the asset of a CEF in the production layout.

This module turns YAML into the declaration. `assets.cef.synthetic` generates the census.
"""

from dataclasses import dataclass
from typing import Self

import dagster as dg
from pydantic import BaseModel, Field, model_validator

from assets.cef.census import (
    CensusDeclaration,
    PlaceNames,
    Recodes,
    refuse_recodes_named_like_detailed_codes,
)
from assets.cef.synthetic import SyntheticPopulation, synthetic_census
from orchestration.components.dataset import Dataset, GeneratedAttributes


class SyntheticAttributes(GeneratedAttributes, SyntheticPopulation):
    """The YAML attributes of a synthetic census."""

    recoded_units: Recodes = Field(
        default_factory=dict, description="Further columns of units, each recoded from a column of the layout."
    )
    recoded_persons: Recodes = Field(default_factory=dict, description="The same for persons.")
    place_names: PlaceNames = Field(
        default_factory=dict, description=CensusDeclaration.model_fields["place_names"].description
    )

    @model_validator(mode="after")
    def _check_recodes(self) -> Self:
        refuse_recodes_named_like_detailed_codes(self.detailed_codes, self.recoded_persons)
        return self


@dataclass
class SyntheticCensus(Dataset):
    """A generated census of any number of households in any states, always marked as synthetic."""

    @classmethod
    def model(cls) -> type[BaseModel]:
        """The attributes, as `dg check yaml` validates them."""
        return SyntheticAttributes

    @classmethod
    def resolve_from_model(cls, context: dg.ResolutionContext, model: BaseModel) -> "SyntheticCensus":
        """The component for the declared attributes. Template variables are not filled in."""
        declared = SyntheticAttributes.model_validate(model)
        population = SyntheticPopulation(
            **{field: getattr(declared, field) for field in SyntheticPopulation.model_fields}
        )
        return cls(
            synthetic_census(
                population,
                **declared.declared(),
                recoded_units=declared.recoded_units,
                recoded_persons=declared.recoded_persons,
                place_names=declared.place_names,
            )
        )
