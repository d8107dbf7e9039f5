"""The component of a reestimation: redistricting data from published noisy measurements, estimated anew."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from assets.release.dataset import DatasetDeclaration
from assets.release.release import DeclarationError, Publisher
from assets.topdown.reestimation.declaration import Measurements, ReestimationDeclaration
from assets.topdown.reestimation.declaration import Reestimation as Declared
from assets.topdown.release import TopDownRelease
from orchestration.components.publisher import declared_publisher
from orchestration.components.release import DeclaresReleases, declared_datasets, releases_of
from orchestration.components.scaffolding import JobComponent
from orchestration.environment import deployment_folders, read_published_address

if TYPE_CHECKING:
    import pyarrow as pa

    from assets.publication.tables import PublishedTables
    from orchestration.deployment import Deployment


@dataclass
class Reestimation(JobComponent):
    """Redistricting data estimated anew from published noisy measurements: of a release, or of the Census Bureau."""

    declared_by = ReestimationDeclaration
    produces = ("asset", "asset_check", "job", "schedule")

    @property
    def in_words(self) -> str:
        of = self.declaration.folder or f"{self.declaration.dataset}/{self.declaration.of}"
        return f"a reestimation of {of}. It charges nothing, and its tables are the files that it publishes"

    def require(self, datasets: Mapping[str, DatasetDeclaration], others: Sequence[DeclaresReleases]) -> None:
        from assets.topdown.reestimation.asset import build_reestimation

        build_reestimation(self.find(datasets, others, Path(), Publisher.model_validate({}), Path()))

    def find(
        self,
        datasets: Mapping[str, DatasetDeclaration],
        others: Sequence[DeclaresReleases],
        published: Path,
        publisher: Publisher,
        root: Path,
    ) -> Declared:
        """The declared reestimation. Raises DeclarationError if the release is not declared, is none by TopDown, or
        does not publish its noisy measurements with all that is exact in it."""
        declaration: ReestimationDeclaration = self.declaration
        given = Measurements(
            declaration.dataset, declaration.source, declaration.description, source=declaration.source
        )
        of = None
        if declaration.of:
            of = self._find_release(datasets, others, published)
            title, source = of.dataset.title, f"{of.title} ({of.dataset.name}/{of.name})"
            given = replace(given, title=title, source=source, synthetic=of.dataset.synthetic)
        return Declared(
            declaration, given, declaration.options, published, of, root,
            publisher=publisher, address=read_published_address(),
        )  # fmt: skip

    def _find_release(
        self, datasets: Mapping[str, DatasetDeclaration], others: Sequence[DeclaresReleases], published: Path
    ) -> TopDownRelease:
        name = f"{self.declaration.dataset}/{self.declaration.of}"
        dataset = datasets.get(self.declaration.dataset)
        component = {each.named: each for each in releases_of(others)}.get(name)
        if dataset is None or component is None:
            field = "dataset" if dataset is None else "of"
            missing = "dataset" if dataset is None else "release"
            raise DeclarationError(
                f"reestimation {self.named}: {field}: there is no {missing} {getattr(self.declaration, field)}"
            )
        release = component.release(dataset, published)
        if not isinstance(release, TopDownRelease):
            raise DeclarationError(f"reestimation {self.named}: of: {self.declaration.of} is no TopDown release")
        return release

    def add_up_places(
        self, deployment: "Deployment", files: "PublishedTables", codes: Path, tables: Sequence[str]
    ) -> "pa.Table":
        """The sum of the places of a file, as `assets.topdown.asking.add_up_places`."""
        from assets.release.codes import read_codes
        from assets.topdown.asking import add_up_places
        from assets.topdown.reestimation.measurements import read_published
        from resources.project import PROJECT

        datasets, releases = deployment.declared
        named = {dataset.name: dataset for dataset in datasets}
        publisher = Publisher.model_validate({})
        release = self.find(named, list(releases.values()), deployment.published, publisher, PROJECT)
        measured = read_published(release, files, deployment.ledger.custody, deployment.ledger)
        return add_up_places(files, [code for (code,) in read_codes(codes, 1)], tables, measured)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        from assets.topdown.reestimation.asset import build_reestimation
        from orchestration.automation import define_uncharged_job

        others = context.component_tree.get_all_components(DeclaresReleases)  # type: ignore[type-abstract]
        publisher, root = declared_publisher(context.component_tree), context.project_root
        release = self.find(declared_datasets(context), others, deployment_folders(root)[1], publisher, root)
        words = "Published noisy measurements, estimated anew."
        return dg.Definitions.merge(build_reestimation(release), define_uncharged_job(release, words))
