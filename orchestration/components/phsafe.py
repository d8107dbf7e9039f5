"""The component of an S-DHC release by PHSafe."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from assets.phsafe.declaration import PHSafeDeclaration
from assets.phsafe.method import PHSafeMethod
from assets.phsafe.plan import budgets_for
from assets.phsafe.release import PHSafeRelease
from assets.release.method import Method
from mechanisms.phsafe.design import PHSafeDesign
from orchestration.components.release import ReleaseComponent


@dataclass
class PHSafe(ReleaseComponent):
    """The Supplemental Demographic and Housing Characteristics File (S-DHC) by PHSafe, with all its checks."""

    declared_by = PHSafeDeclaration
    release_type = PHSafeRelease
    method = PHSafeMethod

    @property
    def charges(self) -> bool:
        return bool(self.declaration.private)

    def fields_for_margins(self, method: Method[Any, Any, Any], margins: Mapping[str, Fraction]) -> Mapping[str, Any]:
        return _runs(method.release.design, budgets_for(method.release.design, margins))

    def scaled(self, method: Method[Any, Any, Any], factor: Fraction) -> Mapping[str, Any]:
        budgets = budgets_for(method.release.design, {})
        scaled = {
            run: {level: factor * budget for level, budget in by_level.items()} for run, by_level in budgets.items()
        }
        return _runs(method.release.design, scaled)


def _runs(design: PHSafeDesign, budgets: Mapping[str, Mapping[str, Fraction]]) -> dict[str, Any]:
    """The field `runs` with these budgets; no budget follows from a margin then."""
    runs = {
        run: {"truncation": design.runs[run].truncation, "budget": by_level, "moe": None}
        for run, by_level in budgets.items()
    }
    return {"runs": runs}
