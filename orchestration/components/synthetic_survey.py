"""The component of a synthetic survey: a few parameters and a sampling design become the asset of a CEF.

This module turns YAML into the declaration. `assets.cef.survey` generates the survey.
"""

from dataclasses import dataclass
from typing import Self

import dagster as dg
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from assets.cef.survey import SurveyParameters, refuse_other_columns, synthetic_survey
from assets.release.columns import Column
from assets.release.dataset import Cap, Charging, DatasetDeclaration
from assets.release.declaration import Declaration
from assets.release.names import ColumnName, DatasetName
from orchestration.components.dataset import Dataset

_described = DatasetDeclaration.model_fields


class SyntheticSurveyAttributes(Declaration, SurveyParameters):
    """The YAML attributes of a synthetic survey."""

    declares = "dataset"

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    name: DatasetName
    title: str = Field("", description="The dataset's name in words; by default it names the states.")
    description: str = Field("", description="What the dataset is for; how it was generated is added.")
    population: DatasetName | SkipJsonSchema[None] = Field(None, description=_described["population"].description)
    cap: Cap = Field(description=_described["cap"].description)
    charging: Charging | SkipJsonSchema[None] = Field(None, description=_described["charging"].description)
    recoded_units: dict[ColumnName, Column] = Field(
        default_factory=dict, description="Further columns of households, each recoded from one that is generated."
    )
    recoded_persons: dict[ColumnName, Column] = Field(default_factory=dict, description="The same for persons.")

    @model_validator(mode="after")
    def _check_recodes(self) -> Self:
        refuse_other_columns(self, self.recoded_units, self.recoded_persons)
        return self


@dataclass
class SyntheticSurvey(Dataset):
    """A generated survey: persons in sampled households over up to twelve waves, always marked as synthetic.

    Each person is one record, whatever the number of waves. The weights follow from the declared design.
    """

    @classmethod
    def model(cls) -> type[BaseModel]:
        """The attributes, as `dg check yaml` validates them."""
        return SyntheticSurveyAttributes

    @classmethod
    def resolve_from_model(cls, context: dg.ResolutionContext, model: BaseModel) -> "SyntheticSurvey":
        """The component for the declared attributes. Template variables are not filled in."""
        declared = SyntheticSurveyAttributes.model_validate(model)
        parameters = SurveyParameters(**{field: getattr(declared, field) for field in SurveyParameters.model_fields})
        return cls(
            synthetic_survey(
                parameters,
                name=declared.name,
                title=declared.title,
                description=declared.description,
                population=declared.population or declared.name,
                cap=declared.cap,
                charging=declared.charging,
                recoded_units=declared.recoded_units,
                recoded_persons=declared.recoded_persons,
            )
        )
