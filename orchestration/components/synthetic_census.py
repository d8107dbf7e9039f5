"""A synthetic census as a Dagster component: a few parameters become the asset of a CEF in the production layout.

Here belongs how YAML becomes the declaration. How the census is made up belongs in `assets.cef.synthetic`.
"""

from dataclasses import dataclass

import dagster as dg
from pydantic import BaseModel, ConfigDict, Field

from assets.cef.synthetic import SyntheticPopulation, synthetic_census
from assets.release.dataset import Cap, DatasetDeclaration, DatasetName
from orchestration.components.dataset import Dataset

_described = DatasetDeclaration.model_fields


class SyntheticAttributes(SyntheticPopulation):
    """A synthetic census, as it is declared."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    name: DatasetName
    title: str = Field("", description="The dataset's name in words; by default it names the states.")
    description: str = Field("", description="What the dataset is for; what it was made from is added.")
    cap: Cap = Field(description=_described["cap"].description)


@dataclass
class SyntheticCensus(Dataset):
    """A made-up census of any number of households in any states, and always marked as synthetic."""

    @classmethod
    def model(cls) -> type[BaseModel]:
        """The attributes as `dg check yaml` holds them."""
        return SyntheticAttributes

    @classmethod
    def resolve_from_model(cls, context: dg.ResolutionContext, model: BaseModel) -> "SyntheticCensus":
        """The component of what was declared, taken as it is written."""
        declared = SyntheticAttributes.model_validate(model)
        population = SyntheticPopulation(seed=declared.seed, households=declared.households, states=declared.states)
        return cls(
            synthetic_census(
                population,
                name=declared.name,
                title=declared.title,
                description=declared.description,
                cap=declared.cap,
            )
        )
