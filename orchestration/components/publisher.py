"""The component that names the publisher, once for all releases of a deployment."""

from dataclasses import dataclass

import dagster as dg

from assets.release.release import UNDECLARED, DeclarationError, Publisher
from orchestration.components.scaffolding import DeclaredComponent


@dataclass
class PublisherSettings(DeclaredComponent):
    """The authority, its contact and the license of the data, which every certificate and data dictionary states. A
    deployment declares it once, in a file such as `orchestration/defs/publisher/defs.yaml`, or not at all."""

    declared_by = Publisher

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """No definitions: releases look the publisher up."""
        return dg.Definitions()


def declared_publisher(tree: dg.ComponentTree) -> Publisher:
    """The declared publisher of the deployment. Raises DeclarationError if it is declared more than once."""
    declared = [item.declaration for item in tree.get_all_components(PublisherSettings)]
    if len(declared) > 1:
        raise DeclarationError(
            f"publisher of all releases: it is declared {len(declared)} times; declare it once for the deployment"
        )
    return declared[0] if declared else UNDECLARED
