"""The common parts of the components of a retabulation and of a reestimation. Each has its own module for the rest."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import dagster as dg

from assets.release.dataset import DatasetDeclaration
from assets.release.release import DeclarationError, Publisher
from orchestration.components.publisher import declared_publisher
from orchestration.components.release import DeclaresReleases, ReleaseComponent, declared_datasets, releases_of
from orchestration.components.scaffolding import JobComponent
from resources.project import deployment_folders


@dataclass
class UnchargedComponent(JobComponent):
    """A product made from published data alone, such as a release's, and published as files, without a charge."""

    produces = ("asset", "asset_check", "job", "schedule")

    kind: ClassVar[str]
    """Its kind, in words."""

    @abstractmethod
    def find(
        self,
        datasets: Mapping[str, DatasetDeclaration],
        others: Sequence[DeclaresReleases],
        published: Path,
        publisher: Publisher,
        root: Path,
    ) -> Any:
        """The declared objects. Raises DeclarationError if it cannot be made from the other declarations."""

    @abstractmethod
    def build(self, found: Any) -> dg.Definitions:
        """The assets and checks of the objects found. Raises DeclarationError if the product could not be written."""

    @property
    def in_words(self) -> str:
        of = getattr(self.declaration, "folder", None) or f"{self.declaration.dataset}/{self.declaration.of}"
        return f"a {self.kind} of {of}. It charges nothing, and its tables are the files that it publishes"

    def require(self, datasets: Mapping[str, DatasetDeclaration], others: Sequence[DeclaresReleases]) -> None:
        self.build(self.find(datasets, others, Path(), Publisher.model_validate({}), Path()))

    def find_source(
        self, datasets: Mapping[str, DatasetDeclaration], others: Sequence[DeclaresReleases]
    ) -> tuple[DatasetDeclaration, ReleaseComponent]:
        """The dataset, and the release named by the field `of`. Raises DeclarationError unless both are declared."""
        declaration = self.declaration
        dataset = datasets.get(declaration.dataset)
        component = {each.named: each for each in releases_of(others)}.get(f"{declaration.dataset}/{declaration.of}")
        if dataset is None or component is None:
            field, missing = ("dataset", "dataset") if dataset is None else ("of", "release")
            name = getattr(declaration, field)
            raise DeclarationError(f"{self.kind} {self.named}: {field}: there is no {missing} {name}")
        return dataset, component

    def find_deployed(self, context: dg.ComponentLoadContext) -> Any:
        """`find` in a deployment."""
        others = context.component_tree.get_all_components(DeclaresReleases)  # type: ignore[type-abstract]
        publisher, root = declared_publisher(context.component_tree), context.project_root
        return self.find(declared_datasets(context), others, deployment_folders(root)[1], publisher, root)
