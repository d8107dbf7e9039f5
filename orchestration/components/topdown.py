"""The component of a redistricting release by TopDown."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from assets.release.dataset import DatasetDeclaration
from assets.release.method import Method
from assets.topdown.declaration import TopDownDeclaration
from assets.topdown.method import TopDownMethod
from assets.topdown.plan import allocations_for, scaled
from assets.topdown.release import TopDownRelease
from orchestration.components.release import ReleaseComponent
from orchestration.environment import dask_scheduler


@dataclass
class TopDown(ReleaseComponent):
    """Redistricting data (P.L. 94-171) by TopDown: tables P1 to P5 and H1, microdata and noisy measurements."""

    declared_by = TopDownDeclaration
    release_type = TopDownRelease
    method = TopDownMethod

    def release(self, dataset: DatasetDeclaration, published: Path) -> TopDownRelease:
        return replace(super().release(dataset, published), scheduler=dask_scheduler())

    @property
    def partitioned(self) -> bool:
        return self.declaration.partitions is not None

    def fields_for_margins(self, method: Method[Any, Any, Any], margins: Mapping[str, Fraction]) -> Mapping[str, Any]:
        return allocations_for(method.release.design, margins)

    def scaled(self, method: Method[Any, Any, Any], factor: Fraction) -> Mapping[str, Any]:
        return scaled(method.release.design, factor)
