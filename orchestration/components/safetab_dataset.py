"""The component of a dataset from the input files of SafeTab: persons, households and blocks become a CEF.

This module turns YAML into the declaration. The layout itself is in `assets.cef.detailed_files`.
"""

from dataclasses import dataclass

import dagster as dg
from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from assets.cef.detailed_files import detailed_files
from assets.release.names import SourcePath
from orchestration.components.dataset import Dataset, FileAttributes, filled_path


class SafeTabAttributes(FileAttributes):
    """The YAML attributes of a dataset from the input files of SafeTab."""

    persons: SourcePath = Field(
        description="The file of persons, person-records.txt: absolute, or relative to the project's root."
    )
    households: SourcePath | SkipJsonSchema[None] = Field(
        None, description="The file of households, household-records.txt, which a SafeTabH release needs."
    )
    blocks: SourcePath = Field(description="The file of blocks, GRF-C.txt.")


@dataclass
class SafeTabDataset(Dataset):
    """A census in the input files of SafeTab: persons, households and blocks, as text separated by `|`.

    Paths may contain template variables such as `{{ env.CEF_FOLDER }}`. Everything else is taken literally.
    """

    @classmethod
    def model(cls) -> type[BaseModel]:
        """The attributes, as `dg check yaml` validates them."""
        return SafeTabAttributes

    @classmethod
    def resolve_from_model(cls, context: dg.ResolutionContext, model: BaseModel) -> "SafeTabDataset":
        """The component for the declared attributes, with the template variables of paths filled in."""
        declared = SafeTabAttributes.model_validate(model)
        blocks, persons, households = (
            None if (path := getattr(declared, field)) is None else filled_path(context, declared.name, field, path)
            for field in ("blocks", "persons", "households")
        )
        return cls(
            detailed_files(
                str(blocks),
                str(persons),
                households,
                **declared.declared(),
                synthetic=declared.synthetic,
            )
        )
