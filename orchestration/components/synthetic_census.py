"""The component of a synthetic census: a few parameters become the asset of a CEF in the production layout.

This module turns YAML into the declaration. `assets.cef.synthetic` generates the census.
"""

from dataclasses import dataclass
from typing import Self

import dagster as dg
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from assets.cef.census import (
    CensusDeclaration,
    PlaceNames,
    Recodes,
    refuse_recodes_named_like_detailed_codes,
)
from assets.cef.synthetic import SyntheticPopulation, synthetic_census
from assets.release.dataset import Cap, Charging, UnboundedReleases
from assets.release.declaration import Declaration
from assets.release.names import DatasetName
from orchestration.components.dataset import Dataset

_described = CensusDeclaration.model_fields


class SyntheticAttributes(Declaration, SyntheticPopulation):
    """The YAML attributes of a synthetic census."""

    declares = "dataset"

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    name: DatasetName
    title: str = Field("", description="The dataset's name in words; by default it names the states.")
    description: str = Field("", description="What the dataset is for; how it was generated is added.")
    population: DatasetName | SkipJsonSchema[None] = Field(None, description=_described["population"].description)
    cap: Cap = Field(description=_described["cap"].description)
    charging: Charging | SkipJsonSchema[None] = Field(None, description=_described["charging"].description)
    unbounded_releases: UnboundedReleases | SkipJsonSchema[None] = Field(
        None, description=_described["unbounded_releases"].description
    )
    recoded_units: Recodes = Field(
        default_factory=dict, description="Further columns of units, each recoded from a column of the layout."
    )
    recoded_persons: Recodes = Field(default_factory=dict, description="The same for persons.")
    place_names: PlaceNames = Field(default_factory=dict, description=_described["place_names"].description)

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
                name=declared.name,
                title=declared.title,
                description=declared.description,
                population=declared.population or declared.name,
                cap=declared.cap,
                charging=declared.charging,
                unbounded_releases=declared.unbounded_releases,
                recoded_units=declared.recoded_units,
                recoded_persons=declared.recoded_persons,
                place_names=declared.place_names,
            )
        )
