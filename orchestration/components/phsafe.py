"""An S-DHC release by PHSafe as a Dagster component: a screen of YAML becomes its asset graph.

Here belongs how a declaration becomes assets, checks and a job. What may be declared belongs in `phsafe_declaration`,
what a release must satisfy in `assets.phsafe.release`.
"""

from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from assets.charge.asset import build_charge
from assets.gates.asset import build_gates
from assets.phsafe.measured import build_counts, build_noisy_measurements, build_truncated_join
from assets.phsafe.method import PHSafeMethod
from assets.phsafe.parameters import build_parameters
from assets.phsafe.postprocessed import build_exact_measurements, build_postprocessed, build_tables
from assets.phsafe.release import PHSafeRelease, available_products
from assets.publication.asset import build_publication
from assets.release.dataset import DatasetDeclaration
from orchestration.components.phsafe_declaration import PHSafeDeclaration, phsafe_design
from orchestration.components.release import (
    ReleaseComponent,
    automated,
    dataset_of,
    declared_datasets,
    published_folder,
)


@dataclass
class PHSafe(ReleaseComponent):
    """The Supplemental Demographic and Housing Characteristics File (S-DHC) by PHSafe, with all its checks."""

    declared_by = PHSafeDeclaration
    draws = "noisy_measurements"

    @property
    def charges(self) -> bool:
        """Whether there is a draw and a charge at all."""
        return bool(self.declaration.private)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The release's assets, checks and job, and its schedule and sensor if declared."""
        release = build_release(self.declaration, declared_datasets(context), published_folder(context))
        method = PHSafeMethod(release)
        assets = [build_parameters(release), build_truncated_join(release), build_counts(release)]
        if release.private:
            assets += [
                build_charge(method),
                build_noisy_measurements(method),
                build_postprocessed(release),
                build_tables(release),
                build_publication(method),
            ]
        else:
            assets.append(build_exact_measurements(release))
        return dg.Definitions.merge(
            dg.Definitions(assets=assets, asset_checks=build_gates(method)),
            automated(release, self.declaration, context.project_root),
        )


def build_release(
    declaration: PHSafeDeclaration, datasets: dict[str, DatasetDeclaration], published: Path
) -> PHSafeRelease:
    """The release of a declaration.

    Raises:
        DeclarationError: where the declaration contradicts itself or the dataset.
    """
    design = phsafe_design(declaration)
    return PHSafeRelease(
        dataset=dataset_of(declaration, datasets),
        name=declaration.name,
        title=declaration.title,
        description=declaration.description,
        custody=declaration.custody,
        published=published,
        design=design,
        delta=declaration.delta,
        products=tuple(declaration.products) or available_products(design),
        interval=declaration.interval,
        private=declaration.private,
    )
