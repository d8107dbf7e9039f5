"""The component of a retabulation: the tables of a release's published microdata, for further places."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from assets.release.dataset import CEF, DatasetDeclaration
from assets.release.release import DeclarationError, Publisher
from assets.retabulation.declaration import Retabulation as Declared
from assets.retabulation.declaration import RetabulationDeclaration
from orchestration.components.release import DeclaresReleases
from orchestration.components.uncharged import UnchargedComponent
from orchestration.environment import read_published_address


@dataclass
class Retabulation(UnchargedComponent):
    """Tables of a release's published microdata for further places, such as school districts. Nothing is charged."""

    declared_by = RetabulationDeclaration
    kind = "retabulation"

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
        dataset, component = self.find_source(datasets, others)
        method = component.method(component.release(dataset, published))
        microdata = method.microdata
        if microdata is None or not microdata.tables:
            raise DeclarationError(
                f"retabulation {self.named}: of: {declaration.of} publishes no microdata that name their block"
            )
        source, address = method.release, read_published_address()
        release = Declared(
            declaration, dataset, None, published, source, microdata, root, publisher=publisher, address=address
        )
        release.require_no_records(datasets.values())
        return release

    def build(self, found: Declared) -> dg.Definitions:
        from assets.retabulation.asset import build_retabulation

        return build_retabulation(found)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        from orchestration.automation import define_uncharged_job

        release, words = self.find_deployed(context), "The published records again, for further places."
        return dg.Definitions.merge(self.build(release), define_uncharged_job(release, words, release.key(CEF)))
