"""The component of an S-DHC release by PHSafe: a few lines of YAML become its asset graph.

The YAML fields are in `phsafe_declaration`. What a release must satisfy is in `assets.phsafe.release`.
"""

from dataclasses import dataclass
from pathlib import Path

from assets.phsafe.method import PHSafeMethod
from assets.phsafe.release import PHSafeRelease, available_products
from assets.release.dataset import DatasetDeclaration
from orchestration.components.phsafe_declaration import PHSafeDeclaration, phsafe_design
from orchestration.components.release import ReleaseComponent, declared


@dataclass
class PHSafe(ReleaseComponent):
    """The Supplemental Demographic and Housing Characteristics File (S-DHC) by PHSafe, with all its checks."""

    declared_by = PHSafeDeclaration
    method = PHSafeMethod

    @property
    def charges(self) -> bool:
        return bool(self.declaration.private)

    def release(self, dataset: DatasetDeclaration, published: Path) -> PHSafeRelease:
        return build_release(self.declaration, dataset, published)


def build_release(declaration: PHSafeDeclaration, dataset: DatasetDeclaration, published: Path) -> PHSafeRelease:
    """Build the release from its declaration.

    Raises:
        DeclarationError: if the declaration contradicts itself or the dataset.
    """
    design = phsafe_design(declaration)
    return PHSafeRelease(
        **declared(declaration, dataset, published),
        design=design,
        delta=declaration.delta,
        products=tuple(declaration.products) or available_products(design),
        interval=declaration.interval,
        delimiter=declaration.measurement_format.delimiter,
        private=declaration.private,
    )
