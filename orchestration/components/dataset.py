"""The component of a dataset: a source declared in YAML becomes the asset of its CEF.

This module turns YAML into a declaration. The fields of a declaration are in `assets.release.dataset`.
"""

from dataclasses import dataclass

import dagster as dg
from pydantic import BaseModel

from assets.cef.asset import build_cef
from assets.conventions import OWNERS
from assets.release.dataset import DatasetDeclaration


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
            name: records.model_copy(
                update={
                    path: context.resolve_value(getattr(records, path), as_type=str)
                    for path in ("path", "geography_path")
                }
            )
            for name, records in model.tables.items()
        }
        return cls(model.model_copy(update=tables))

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        return dg.ComponentTypeSpec(owners=OWNERS, produces=["asset", "asset_check"])

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The CEF with its checks."""
        cef, *checks = build_cef(self.declaration, context.project_root)
        return dg.Definitions(assets=[cef], asset_checks=checks)
