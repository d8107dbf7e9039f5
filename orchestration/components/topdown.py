"""A redistricting release by TopDown as a Dagster component: a screen of YAML becomes its asset graph.

Here belongs how a declaration becomes assets, checks and a job. What may be declared belongs in `topdown_declaration`,
what a release must satisfy in `assets.topdown.release`.
"""

from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from assets.charge.asset import build_charge
from assets.gates.asset import build_gates
from assets.publication.asset import build_publication
from assets.release.dataset import DatasetDeclaration
from assets.topdown.accuracy import build_accuracy
from assets.topdown.estimated import build_estimates
from assets.topdown.measured import build_histograms, build_invariants, build_noisy_measurements, build_spine
from assets.topdown.method import TopDownMethod
from assets.topdown.microdata import build_microdata
from assets.topdown.release import TopDownRelease, available_products
from assets.topdown.tables import build_tables
from orchestration.components.release import (
    ReleaseComponent,
    automated,
    dataset_of,
    declared_datasets,
    published_folder,
)
from orchestration.components.topdown_declaration import TopDownDeclaration, topdown_design, topdown_spine


@dataclass
class TopDown(ReleaseComponent):
    """Redistricting data (P.L. 94-171) by TopDown: tables P1 to P5 and H1, microdata and noisy measurements."""

    declared_by = TopDownDeclaration
    draws = "noisy_measurements"

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The release's assets, checks and job, and its schedule and sensor if declared."""
        release = build_release(self.declaration, declared_datasets(context), published_folder(context))
        method = TopDownMethod(release)
        assets = [
            build_spine(release),
            build_histograms(release),
            build_invariants(release),
            build_charge(method),
            build_noisy_measurements(method),
            *build_estimates(release),
            build_microdata(release),
            build_tables(release),
            build_accuracy(release),
            build_publication(method),
        ]
        return dg.Definitions.merge(
            dg.Definitions(assets=assets, asset_checks=build_gates(method)),
            automated(release, self.declaration, context.project_root),
        )


def build_release(
    declaration: TopDownDeclaration, datasets: dict[str, DatasetDeclaration], published: Path
) -> TopDownRelease:
    """The release of a declaration.

    Raises:
        DeclarationError: where the declaration contradicts itself or the dataset.
    """
    design = topdown_design(declaration)
    return TopDownRelease(
        dataset=dataset_of(declaration, datasets),
        name=declaration.name,
        title=declaration.title,
        description=declaration.description,
        custody=declaration.custody,
        published=published,
        design=design,
        spine=topdown_spine(declaration),
        delta=declaration.delta,
        products=tuple(declaration.products) or available_products(design),
        processes=declaration.processes,
    )
