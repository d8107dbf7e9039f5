"""The components of releases by SafeTab-P and SafeTab-H: a few lines of YAML become their asset graphs.

The YAML fields are in `safetab_declaration`. What a release must satisfy is in `assets.safetab.release`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import dagster as dg

from assets.release.dataset import DatasetDeclaration
from assets.release.method import Method
from assets.release.release import DeclarationError
from assets.safetab.household_method import SafeTabHMethod
from assets.safetab.method import SafeTabPMethod
from assets.safetab.plan import budgets_for
from assets.safetab.release import SafeTabHRelease, SafeTabPRelease
from orchestration.components.release import DeclaresReleases, ReleaseComponent, declared
from orchestration.components.safetab_declaration import (
    SafeTabHDeclaration,
    SafeTabPDeclaration,
    declared_lists,
    safetab_h_design,
    safetab_p_design,
)


class _PlansByLine(ReleaseComponent):
    """What the plans of both mechanisms ask becomes the field `budgets`; none follows from a margin then."""

    def fields_for_margins(self, method: Method[Any, Any, Any], margins: Mapping[str, Fraction]) -> Mapping[str, Any]:
        return {"budgets": budgets_for(method.release, margins), "moe": None}

    def scaled(self, method: Method[Any, Any, Any], factor: Fraction) -> Mapping[str, Any]:
        budgets = budgets_for(method.release, {})
        return {"budgets": {line: factor * budget for line, budget in budgets.items()}, "moe": None}


@dataclass
class SafeTabP(_PlansByLine):
    """Total population and sex by age of detailed race and ethnicity groups (Detailed DHC-A), with all its checks."""

    declared_by = SafeTabPDeclaration
    method = SafeTabPMethod

    def release(self, dataset: DatasetDeclaration, published: Path) -> SafeTabPRelease:
        lists = declared_lists(self.declaration)
        return SafeTabPRelease(
            **declared(self.declaration, dataset, published),
            design=safetab_p_design(self.declaration, lists),
            lists=lists,
            delta=self.declaration.delta,
        )


@dataclass
class SafeTabH(_PlansByLine):
    """Household type and tenure of detailed race and ethnicity groups (Detailed DHC-B), with all its checks."""

    persons: SafeTabP | None = field(default=None, compare=False)
    """The component that the field `detail` names, once it is looked up among those declared beside."""

    declared_by = SafeTabHDeclaration
    method = SafeTabHMethod

    def releases(self, beside: Sequence[DeclaresReleases] = ()) -> Sequence[ReleaseComponent]:
        known = {each.named: each for each in beside if isinstance(each, SafeTabP)}
        return [replace(self, persons=known.get(f"{self.declaration.dataset}/{self.declaration.detail}"))]

    def release(self, dataset: DatasetDeclaration, published: Path) -> SafeTabHRelease:
        if self.persons is None:
            raise DeclarationError(
                f"release {self.named}: detail: {dataset.name} has no release {self.declaration.detail} by SafeTab-P"
            )
        persons = self.persons.release(dataset, published)
        return SafeTabHRelease(
            **declared(self.declaration, dataset, published),
            design=safetab_h_design(self.declaration, persons),
            lists=persons.lists,
            delta=self.declaration.delta,
            detail=persons,
        )

    def with_fields(self, given: Mapping[str, Any]) -> Self:
        found = super().with_fields(given)
        if found.declaration.detail != self.declaration.detail:
            raise DeclarationError(
                f"release {self.named}: detail: declare the release with the groups of another one first, and plan it "
                "then"
            )
        return found

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The release's assets, checks and job, and its schedule and sensor if declared."""
        if self.persons is not None:
            return super().build_defs(context)
        beside = context.component_tree.get_all_components(DeclaresReleases)  # type: ignore[type-abstract]
        (found,) = self.releases(beside)
        return ReleaseComponent.build_defs(found, context)
