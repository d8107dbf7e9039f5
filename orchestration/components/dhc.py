"""The component of a DHC release by TopDown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from assets.release.dataset import DatasetDeclaration
from assets.release.release import DeclarationError
from assets.topdown.dhc.declaration import DHCDeclaration
from assets.topdown.dhc.release import DHCRelease
from orchestration.components.release import DeclaresReleases, ReleaseComponent
from orchestration.components.topdown import TopDown

if TYPE_CHECKING:
    import pyarrow as pa

    from resources.ledger import Ledger


@dataclass
class DHC(ReleaseComponent):
    """Demographic and Housing Characteristics (DHC) by TopDown, consistent with a redistricting release: tables,
    microdata and noisy measurements of persons, households and units."""

    redistricting: TopDown | None = field(default=None, compare=False)
    """The component that the field `consistent_with` names, after its lookup among the others."""

    declared_by = DHCDeclaration
    release_type = DHCRelease
    method_name = "assets.topdown.dhc.method:DHCMethod"

    def releases(self, others: Sequence[DeclaresReleases] = ()) -> Sequence[ReleaseComponent]:
        known = {component.named: component for component in others if isinstance(component, TopDown)}
        named = f"{self.declaration.dataset}/{self.declaration.consistent_with}"
        return [replace(self, redistricting=known.get(named, self.redistricting))]

    def sources(self, dataset: DatasetDeclaration, published: Path) -> Mapping[str, Any]:
        if self.redistricting is None:
            raise DeclarationError(
                f"release {self.named}: consistent_with: {dataset.name} has no release "
                f"{self.declaration.consistent_with} by TopDown, or its declaration is refused too"
            )
        return {"redistricting": self.redistricting.release(dataset, published)}

    def with_fields(self, given: Mapping[str, Any]) -> Self:
        changed = super().with_fields(given)
        if changed.declaration.consistent_with != self.declaration.consistent_with:
            raise DeclarationError(
                f"release {self.named}: consistent_with: declare the release within another one first, and plan it then"
            )
        return changed

    @staticmethod
    def regenerate(
        method: Any, ledger: "Ledger", histogram: str, level: str, query: str, geoids: Sequence[str]
    ) -> "pa.Table":
        """Answers of a settled draw, as `assets.topdown.dhc.regeneration.regenerate`."""
        from assets.topdown.dhc.regeneration import regenerate

        return regenerate(method, ledger, histogram, level, query, geoids)
