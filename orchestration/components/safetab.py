"""The components of releases by SafeTab-P and SafeTab-H."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

from assets.release.dataset import DatasetDeclaration
from assets.release.release import DeclarationError
from assets.safetab.declaration import SafeTabHDeclaration, SafeTabPDeclaration
from assets.safetab.lists import ListsFileError, read_lists
from assets.safetab.release import SafeTabHRelease, SafeTabPRelease
from mechanisms.safetab.lists import CodeLists
from orchestration.components.release import DeclaresReleases, ReleaseComponent
from resources.project import PROJECT


@dataclass
class SafeTabP(ReleaseComponent):
    """Total population and sex by age of detailed race and ethnicity groups (Detailed DHC-A)."""

    declared_by = SafeTabPDeclaration
    release_type = SafeTabPRelease
    method_name = "assets.safetab.method:SafeTabPMethod"

    def sources(self, dataset: DatasetDeclaration, published: Path) -> dict[str, Any]:
        return {"lists": read_declared_lists(self.declaration)}


@dataclass
class SafeTabH(ReleaseComponent):
    """Household type and tenure of detailed race and ethnicity groups (Detailed DHC-B)."""

    persons: SafeTabP | None = field(default=None, compare=False)
    """The component that the field `detail` names, after its lookup among the others."""

    declared_by = SafeTabHDeclaration
    release_type = SafeTabHRelease
    method_name = "assets.safetab.household_method:SafeTabHMethod"

    def releases(self, others: Sequence[DeclaresReleases] = ()) -> Sequence[ReleaseComponent]:
        known = {component.named: component for component in others if isinstance(component, SafeTabP)}
        detail = f"{self.declaration.dataset}/{self.declaration.detail}"
        return [replace(self, persons=known.get(detail, self.persons))]

    def sources(self, dataset: DatasetDeclaration, published: Path) -> dict[str, Any]:
        if self.declaration.totals is not None:
            return {"lists": read_declared_lists(self.declaration), "detail": None}
        if self.persons is None:
            raise DeclarationError(
                f"release {self.named}: detail: {dataset.name} has no release {self.declaration.detail} by SafeTab-P, "
                "or its declaration is refused too"
            )
        detail: SafeTabPRelease = self.persons.release(dataset, published)
        return {"lists": detail.lists, "detail": detail}

    def with_fields(self, given: Mapping[str, Any]) -> Self:
        changed = super().with_fields(given)
        if changed.declaration.detail != self.declaration.detail:
            raise DeclarationError(
                f"release {self.named}: detail: declare the release with the groups of another one first, and plan it "
                "then"
            )
        return changed


def read_declared_lists(declaration: SafeTabPDeclaration | SafeTabHDeclaration) -> CodeLists:
    """The declared lists of codes and iterations. Raises DeclarationError if a file is missing or breaks a rule."""
    lists = declaration.lists or "production"
    try:
        return _read_production_lists() if lists == "production" else read_lists(PROJECT / lists)
    except ListsFileError as error:
        raise DeclarationError(f"release {declaration.dataset}/{declaration.name}: lists: {error}") from None


@cache
def _read_production_lists() -> CodeLists:
    return read_lists()
