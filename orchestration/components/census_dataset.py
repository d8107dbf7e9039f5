"""The component of a dataset in the production layout of the census: three files become the asset of its CEF.

This module turns YAML into the declaration. The layout itself is in `assets.cef.census`.
"""

from dataclasses import dataclass
from typing import Literal, Self

import dagster as dg
from pydantic import BaseModel, Field, model_validator

from assets.cef.census import (
    CensusDeclaration,
    PlaceNames,
    Recodes,
    census_persons,
    census_units,
    refuse_recodes_named_like_detailed_codes,
)
from assets.release.dataset import Reader
from assets.release.names import SourcePath
from orchestration.components.dataset import Dataset, FileAttributes, filled_path


class CensusAttributes(FileAttributes):
    """The YAML attributes of a dataset in the production layout."""

    place_names: PlaceNames = Field(
        default_factory=dict, description=CensusDeclaration.model_fields["place_names"].description
    )
    format: Literal["csv", "parquet"] = Field(description="csv or parquet, the same for all three files.")
    persons: SourcePath = Field(description="The file of persons: absolute, or relative to the project's root.")
    units: SourcePath = Field(description="The file of units.")
    geo: SourcePath = Field(description="The file that says where each unit lies.")
    group_quarters_types: bool = Field(
        False,
        description="Whether the file of units has the column GQTYPE, the type of group quarters, which a TopDown "
        "release needs. Its codes are then checked like all others.",
    )
    detailed_codes: bool = Field(
        False,
        description="Whether the file of persons has the columns QSEX, QRACE1 to QRACE8 and QSPAN, the sex and the "
        "detailed codes of race and Hispanic origin, which a SafeTab-P release needs.",
    )
    recoded_units: Recodes = Field(
        default_factory=dict, description="Further columns of units, each recoded from a column of units or geo."
    )
    recoded_persons: Recodes = Field(
        default_factory=dict, description="Further columns of persons, each recoded from a column of persons."
    )

    @model_validator(mode="after")
    def _check_recodes(self) -> Self:
        refuse_recodes_named_like_detailed_codes(self.detailed_codes, self.recoded_persons)
        return self


@dataclass
class CensusDataset(Dataset):
    """A census in the production layout: persons, units and their geography, checked against every rule of the layout.

    Paths may contain template variables such as `{{ env.CEF_FOLDER }}`. Everything else is taken literally.
    """

    @classmethod
    def model(cls) -> type[BaseModel]:
        """The attributes, as `dg check yaml` validates them."""
        return CensusAttributes

    @classmethod
    def resolve_from_model(cls, context: dg.ResolutionContext, model: BaseModel) -> "CensusDataset":
        """The component for the declared attributes, with the template variables of paths filled in."""
        declared = CensusAttributes.model_validate(model)
        persons, units, geo = (
            filled_path(context, declared.name, field, getattr(declared, field))
            for field in ("persons", "units", "geo")
        )
        return cls(
            CensusDeclaration(
                **declared.declared(),
                synthetic=declared.synthetic,
                place_names=declared.place_names,
                reader=Reader(declared.format),
                record_name="unit",
                units=census_units(units, geo, declared.group_quarters_types, declared.recoded_units),
                persons=census_persons(persons, declared.recoded_persons, declared.detailed_codes),
            )
        )
