"""The component of a synthetic survey: a few parameters and a sampling design become the asset of a CEF.

This module turns YAML into the declaration. `assets.cef.survey` generates the survey.
"""

from dataclasses import dataclass
from typing import Self

import dagster as dg
from pydantic import BaseModel, Field, model_validator

from assets.cef.survey import SurveyParameters, refuse_other_columns, synthetic_survey
from assets.release.columns import Column
from assets.release.names import ColumnName
from orchestration.components.dataset import Dataset, GeneratedAttributes


class SyntheticSurveyAttributes(GeneratedAttributes, SurveyParameters):
    """The YAML attributes of a synthetic survey."""

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
                **declared.declared(),
                recoded_units=declared.recoded_units,
                recoded_persons=declared.recoded_persons,
            )
        )
