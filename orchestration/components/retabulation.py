"""The component of a retabulation: the tables of a release's published microdata, for further places."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from assets.release.dataset import CEF, DatasetDeclaration
from assets.release.release import DeclarationError, Publisher
from assets.retabulation.declaration import Retabulation as Declared
from assets.retabulation.declaration import RetabulationDeclaration
from orchestration.components.publisher import declared_publisher
from orchestration.components.release import DeclaresReleases, declared_datasets, releases_of
from orchestration.components.scaffolding import JobComponent
from orchestration.environment import deployment_folders, read_published_address


@dataclass
class Retabulation(JobComponent):
    """Tables of a release's published microdata for further places, such as school districts. Nothing is charged."""

    declared_by = RetabulationDeclaration
    produces = ("asset", "asset_check", "job", "schedule")

    @property
    def in_words(self) -> str:
        of = f"{self.declaration.dataset}/{self.declaration.of}"
        return f"a retabulation of {of}. It charges nothing, and its tables are the files that it publishes"

    def require(self, datasets: Mapping[str, DatasetDeclaration], others: Sequence[DeclaresReleases]) -> None:
        from assets.retabulation.asset import build_retabulation

        build_retabulation(self.find(datasets, others, Path(), Publisher.model_validate({}), Path()))

    def find(
        self,
        datasets: Mapping[str, DatasetDeclaration],
        others: Sequence[DeclaresReleases],
        published: Path,
        publisher: Publisher,
        root: Path,
    ) -> Declared:
        """The declared retabulation. Raises DeclarationError if the dataset or the release is not declared, or the
        release publishes no microdata that can be counted."""
        declaration: RetabulationDeclaration = self.declaration
        dataset = datasets.get(declaration.dataset)
        component = {each.named: each for each in releases_of(others)}.get(f"{declaration.dataset}/{declaration.of}")
        if dataset is None or component is None:
            missing = "dataset" if dataset is None else "of"
            raise DeclarationError(
                f"retabulation {self.named}: {missing}: there is no {'dataset' if dataset is None else 'release'} "
                f"{getattr(declaration, missing)}"
            )
        method = component.method(component.release(dataset, published))
        if method.microdata is None or not method.microdata.tables:
            raise DeclarationError(
                f"retabulation {self.named}: of: {declaration.of} publishes no microdata that name their block"
            )
        source, address = method.release, read_published_address()
        release = Declared(
            declaration, dataset, None, published, source, method.microdata, root, publisher=publisher, address=address
        )
        release.require_no_records(datasets.values())
        return release

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        from assets.retabulation.asset import build_retabulation
        from orchestration.automation import define_uncharged_job

        others = context.component_tree.get_all_components(DeclaresReleases)  # type: ignore[type-abstract]
        publisher, root = declared_publisher(context.component_tree), context.project_root
        release = self.find(declared_datasets(context), others, deployment_folders(root)[1], publisher, root)
        words = "The published records again, for further places."
        return dg.Definitions.merge(build_retabulation(release), define_uncharged_job(release, words, release.key(CEF)))
