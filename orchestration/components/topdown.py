"""The component of a redistricting release by TopDown: a few lines of YAML become its asset graph.

The YAML fields are in `topdown_declaration`. What a release must satisfy is in `assets.topdown.release`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from assets.release.dataset import DatasetDeclaration
from assets.release.method import Method
from assets.topdown.method import TopDownMethod
from assets.topdown.plan import allocations_for, scaled
from assets.topdown.release import TopDownRelease, available_products
from orchestration.components.release import ReleaseComponent, declared
from orchestration.components.topdown_declaration import TopDownDeclaration, topdown_design, topdown_spine
from orchestration.environment import dask_scheduler


@dataclass
class TopDown(ReleaseComponent):
    """Redistricting data (P.L. 94-171) by TopDown: tables P1 to P5 and H1, microdata and noisy measurements."""

    declared_by = TopDownDeclaration
    method = TopDownMethod

    def release(self, dataset: DatasetDeclaration, published: Path) -> TopDownRelease:
        return build_release(self.declaration, dataset, published)

    @property
    def partitioned(self) -> bool:
        return self.declaration.partitions is not None

    def fields_for_margins(self, method: Method[Any, Any, Any], margins: Mapping[str, Fraction]) -> Mapping[str, Any]:
        return allocations_for(method.release.design, margins)

    def scaled(self, method: Method[Any, Any, Any], factor: Fraction) -> Mapping[str, Any]:
        return scaled(method.release.design, factor)


def build_release(declaration: TopDownDeclaration, dataset: DatasetDeclaration, published: Path) -> TopDownRelease:
    """Build the release from its declaration.

    Raises:
        DeclarationError: if the declaration contradicts itself or the dataset.
    """
    design = topdown_design(declaration)
    return TopDownRelease(
        **declared(declaration, dataset, published),
        design=design,
        spine=topdown_spine(declaration),
        delta=declaration.delta,
        products=tuple(declaration.products) or available_products(design),
        processes=declaration.processes,
        replicates=declaration.replicates,
        partitions=declaration.partitions or "",
        scheduler=dask_scheduler(),
    )
