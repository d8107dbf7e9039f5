"""The component of a release by permutation swapping."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from assets.release.dataset import DatasetDeclaration
from assets.release.method import Method
from assets.release.plan import Plan, PlanRequest
from assets.swapping.declaration import SwappingDeclaration
from assets.swapping.method import Swapping
from assets.swapping.plan import rate_for, swapping_plan
from assets.swapping.release import SwappingRelease
from assets.swapping.withheld import WithheldSwap
from orchestration.components.release import ReleaseComponent


@dataclass
class PermutationSwapping(ReleaseComponent):
    """A release by the Permutation Swapping Algorithm, with its ε from Theorem 1 and all its checks."""

    declared_by = SwappingDeclaration
    release_type = SwappingRelease
    method = Swapping

    @property
    def charges(self) -> bool:
        return not self.declaration.withheld

    def plan(self, method: Method[Any, Any, Any], request: PlanRequest) -> Plan:
        return swapping_plan(method.release, request.largest_stratum)

    def fields_for_total(
        self, method: Method[Any, Any, Any], total: Fraction, request: PlanRequest
    ) -> Mapping[str, Any]:
        """One rate: the smallest, in millionths, whose ε is at most the total; or one ε for all strata."""
        return {"swap_rate": rate_for(method.release, request.largest_stratum, total)}

    def withheld_records(self, dataset: DatasetDeclaration, published: Path) -> WithheldSwap | None:
        return WithheldSwap.from_release(self.release(dataset, published)) if self.declaration.withheld else None
