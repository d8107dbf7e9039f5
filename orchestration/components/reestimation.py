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
from orchestration.components.release import DeclaresReleases
from orchestration.components.uncharged import UnchargedComponent
from orchestration.environment import read_published_address

if TYPE_CHECKING:
    import pyarrow as pa

    from assets.publication.tables import PublishedTables
    from orchestration.deployment import Deployment


@dataclass
class Reestimation(UnchargedComponent):
    """Redistricting data estimated anew from noisy measurements that a release or the Census Bureau published."""

    declared_by = ReestimationDeclaration
    kind = "reestimation"

    def find(
        self,
        datasets: Mapping[str, DatasetDeclaration],
        others: Sequence[DeclaresReleases],
        published: Path,
        publisher: Publisher,
        root: Path,
    ) -> Declared:
        """The declared reestimation. Raises DeclarationError if the release is not declared, is not by TopDown, or does
        not publish its noisy measurements and all its invariants."""
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
        dataset, component = self.find_source(datasets, others)
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

    def build(self, found: Declared) -> dg.Definitions:
        from assets.topdown.reestimation.asset import build_reestimation

        return build_reestimation(found)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        from orchestration.automation import define_uncharged_job

        release, words = self.find_deployed(context), "Published noisy measurements, estimated anew."
        return dg.Definitions.merge(self.build(release), define_uncharged_job(release, words))
