"""The component of a dataset: a source declared in YAML becomes the asset of its CEF.

This module turns YAML into a declaration. The fields of a declaration are in `assets.release.dataset`.
"""

from dataclasses import dataclass
from typing import Any

import dagster as dg
from pydantic import BaseModel, Field, TypeAdapter
from pydantic.json_schema import SkipJsonSchema

from assets.cef.asset import build_cef
from assets.conventions import OWNERS
from assets.release.dataset import Cap, Charging, DatasetDeclaration, UnboundedReleases
from assets.release.declaration import Declaration
from assets.release.names import DatasetName, SourcePath
from assets.release.numbers import shown
from assets.release.release import DeclarationError
from orchestration.components.scaffolding import ExampleScaffolder


def filled_path(context: dg.ResolutionContext, dataset: str, field: str, path: str) -> str:
    """A declared path with its template variables filled in.

    Raises:
        DeclarationError: if a template variable is unknown, or the result is not a path; the message does not contain
            the values of variables.
    """
    try:
        return _PATH.validate_python(context.resolve_value(path, as_type=str))
    except Exception as error:
        # Template variables are expressions, which can fail in any way.
        raise DeclarationError(
            f"dataset {dataset}: {field}: the template variables in {shown(path)} cannot be filled in, or do not give "
            f"a possible path ({type(error).__name__})"
        ) from None


_PATH = TypeAdapter(SourcePath)


described = DatasetDeclaration.model_fields


class DatasetAttributes(Declaration):
    """The YAML attributes of every dataset that is declared by other fields than those of `DatasetDeclaration`."""

    declares = "dataset"

    name: DatasetName
    title: str = Field(min_length=1, description=described["title"].description)
    description: str = Field("", description=described["description"].description)
    population: DatasetName | SkipJsonSchema[None] = Field(None, description=described["population"].description)
    cap: Cap = Field(description=described["cap"].description)
    charging: Charging | SkipJsonSchema[None] = Field(None, description=described["charging"].description)
    unbounded_releases: UnboundedReleases | SkipJsonSchema[None] = Field(
        None, description=described["unbounded_releases"].description
    )

    def declared(self) -> dict[str, Any]:
        """These attributes as keyword arguments of `DatasetDeclaration`."""
        given = {field: getattr(self, field) for field in DatasetAttributes.model_fields}
        return given | {"population": self.population or self.name}


class FileAttributes(DatasetAttributes):
    """The YAML attributes of every such dataset that is read from files."""

    synthetic: bool = Field(False, description=described["synthetic"].description)


class GeneratedAttributes(DatasetAttributes):
    """The YAML attributes of every generated dataset."""

    title: str = Field("", description="The dataset's name in words; by default it names the states.")
    description: str = Field("", description="What the dataset is for; how it was generated is added.")


@dg.scaffold_with(ExampleScaffolder)
@dataclass
class Dataset(dg.Component, dg.Resolvable):
    """One vintage of confidential microdata, read from CSV or Parquet and checked against its declaration.

    The attributes are those of `DatasetDeclaration`. Paths may contain template variables such as
    `{{ env.CEF_FOLDER }}`. Everything else is taken literally, so that the code "01" remains text.
    """

    declaration: DatasetDeclaration

    @classmethod
    def model(cls) -> type[BaseModel]:
        """The attributes, as `dg check yaml` validates them: those of the declaration."""
        return DatasetDeclaration

    @classmethod
    def resolve_from_model(cls, context: dg.ResolutionContext, model: BaseModel) -> "Dataset":
        """The component for a declaration, with the template variables of paths filled in."""
        if not isinstance(model, DatasetDeclaration):
            raise TypeError(f"a dataset is declared by a DatasetDeclaration, not by a {type(model).__name__}")
        tables = {
            table: records.model_copy(
                update={
                    field: filled_path(context, model.name, f"{table}.{field}", path)
                    for field in ("path", "geography_path")
                    if (path := getattr(records, field)) is not None
                }
            )
            for table, records in model.tables.items()
        }
        return cls(model.model_copy(update=tables))

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        return dg.ComponentTypeSpec(owners=OWNERS, produces=["asset", "asset_check"])

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The CEF with its checks."""
        cef, *checks = build_cef(self.declaration, context.project_root)
        return dg.Definitions(assets=[cef], asset_checks=checks)
