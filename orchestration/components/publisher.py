"""The component that says who publishes, once for all releases of a deployment."""

from dataclasses import dataclass

import dagster as dg
from pydantic import BaseModel

from assets.conventions import OWNERS
from assets.release.release import UNDECLARED, DeclarationError, Publisher
from orchestration.components.scaffolding import ExampleScaffolder


@dg.scaffold_with(ExampleScaffolder)
@dataclass
class PublisherSettings(dg.Component, dg.Resolvable):
    """The authority, its contact and the license of the data, which every certificate and data dictionary states.

    A deployment declares it once, or not at all.
    """

    declaration: Publisher

    @classmethod
    def model(cls) -> type[BaseModel]:
        """The attributes, as `dg check yaml` validates them: those of the declaration."""
        return Publisher

    @classmethod
    def resolve_from_model(cls, context: dg.ResolutionContext, model: BaseModel) -> "PublisherSettings":
        """The component for a declaration. Template variables are not filled in."""
        return cls(Publisher.model_validate(model))

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        return dg.ComponentTypeSpec(owners=OWNERS, produces=[])

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Nothing: releases look it up."""
        return dg.Definitions()


def declared_publisher(context: dg.ComponentLoadContext) -> Publisher:
    """Who publishes, as the deployment declares it.

    Raises:
        DeclarationError: if it is declared more than once.
    """
    declared = [item.declaration for item in context.component_tree.get_all_components(PublisherSettings)]
    if len(declared) > 1:
        raise DeclarationError(
            f"publisher of all releases: it is declared {len(declared)} times; declare it once for the deployment"
        )
    return declared[0] if declared else UNDECLARED
