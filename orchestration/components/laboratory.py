"""The component of a laboratory: methods with their parameters, compared on one synthetic dataset."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import dagster as dg
from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from assets.coarsening.laboratory import CoarseningGrid
from assets.laboratory.declaration import LaboratoryDeclaration
from assets.laboratory.points import Point, RoundingGrid, Then
from assets.pair_swapping.laboratory import PairSwappingGrid
from assets.phsafe.laboratory import PHSafeGrid
from assets.release.dataset import DatasetDeclaration
from assets.release.declaration import Part
from assets.release.release import DeclarationError
from assets.safetab.laboratory import SafeTabGrid, list_codes
from assets.suppression.laboratory import SuppressionGrid
from assets.swapping.laboratory import Randomized, SwappingGrid
from assets.table_builder.laboratory import HypercubeGrid, PTableGrid
from assets.topdown.dhc.laboratory import DHCGrid
from assets.topdown.laboratory import TopDownGrid
from orchestration.components.release import declared_datasets
from orchestration.components.scaffolding import JobComponent
from resources.project import deployment_folders

PARTITION_RANGE_START, PARTITION_RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
"""Dagster's tags of a run that makes a range of partitions: the whole grid, from its first part to its last."""


class Methods(Part):
    """The methods that are compared, each with its parameters. The exact tables are always compared too, as “no
    protection”."""

    swapping: SwappingGrid | SkipJsonSchema[None] = Field(None, description="Permutation swapping of households.")
    pair_swapping: PairSwappingGrid | SkipJsonSchema[None] = Field(
        None, description="The targeted swapping of pairs, as in 2010."
    )
    topdown: TopDownGrid | SkipJsonSchema[None] = Field(
        None,
        description="TopDown's redistricting data, tier T1: once with the noisy measurements, once as microdata alone.",
    )
    dhc: DHCGrid | SkipJsonSchema[None] = Field(
        None, description="The DHC's persons, tier T2: once with the noisy measurements, once as microdata alone."
    )
    hypercubes: HypercubeGrid | SkipJsonSchema[None] = Field(
        None, description="Discrete Laplace noise: in tier T1 on a hypercube, in T2 and T3 on the tables."
    )
    p_tables: PTableGrid | SkipJsonSchema[None] = Field(None, description="Perturbation tables.")
    phsafe: PHSafeGrid | SkipJsonSchema[None] = Field(
        None, description="PHSafe's tables of households, tier T4-households."
    )
    safetab: SafeTabGrid | SkipJsonSchema[None] = Field(
        None, description="SafeTab-P's tables of regional groups, tier T4-groups."
    )
    rounding: RoundingGrid | SkipJsonSchema[None] = Field(None, description="Rounding to multiples.")
    coarsening: CoarseningGrid | SkipJsonSchema[None] = Field(
        None, description="Coarsening of blocks, and of rare combinations."
    )
    suppression: SuppressionGrid | SkipJsonSchema[None] = Field(
        None, description="Suppression of small counts, and of those that give them away."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.swapping and self.swapping.then_p_tables and not self.p_tables:
            raise ValueError("swapping: then_p_tables: no p_tables are declared")
        return self

    @property
    def points(self) -> Sequence[Point]:
        grids = [getattr(self, name) for name in type(self).model_fields]
        points = [point for grid in grids if grid for point in grid.points()]
        if self.swapping and self.swapping.then_p_tables:
            perturbed = self.p_tables.points() if self.p_tables else []
            points += [Then(swapped, second) for swapped in self.swapping.points() for second in perturbed]
        if self.swapping and self.swapping.noise_before is not None:
            noise = Randomized(self.swapping.noise_before)
            points += [Then(noise, swapped) for swapped in self.swapping.points()]
        return points


class LaboratoryAttributes(LaboratoryDeclaration):
    """The YAML attributes of a laboratory."""

    methods: Methods = Field(description="The methods that are compared, and their parameters.")

    @property
    def grid(self) -> Sequence[Point]:
        return self.methods.points

    @property
    def codes_of_groups(self) -> Mapping[str, int]:
        return list_codes() if self.tier == "T4-groups" else {}


@dataclass
class Laboratory(JobComponent):
    """A comparison of methods on synthetic records: what an attacker learns, and how far tables are from the truth."""

    declared_by = LaboratoryAttributes
    produces = ("asset", "job")

    @property
    def in_words(self) -> str:
        return "a laboratory. It charges and publishes nothing; the explorer's page Laboratory has its results"

    def require(self, datasets: Mapping[str, DatasetDeclaration], others: Sequence[Any]) -> None:
        self.dataset(datasets)

    def dataset(self, datasets: Mapping[str, DatasetDeclaration]) -> DatasetDeclaration:
        """The dataset on which it compares methods. Raises DeclarationError if there is none of that name, it is not
        synthetic, or it lacks columns."""
        dataset = datasets.get(self.declaration.dataset)
        if dataset is None:
            raise DeclarationError(
                f"laboratory {self.named}: dataset: there is no dataset {self.declaration.dataset}; declared are "
                f"{', '.join(sorted(datasets)) or 'none'}"
            )
        self.declaration.require_dataset(dataset)
        return dataset

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        from assets.laboratory.asset import build_laboratory, list_parts
        from orchestration.automation import define_job, select_upstream

        datasets = declared_datasets(context)
        declaration, dataset = self.declaration, self.dataset(datasets)
        sources = [context.project_root / path for each in datasets.values() for path in each.list_files()]
        folder = deployment_folders(context.project_root)[0] / "laboratory" / dataset.name / declaration.name
        assets = build_laboratory(declaration, dataset, sources, folder)
        selection = select_upstream(dg.AssetSelection.assets(*(key for asset in assets for key in asset.keys)))
        parts = list_parts(declaration).get_partition_keys()
        job = define_job(
            declaration.group,
            selection,
            f"{declaration.title}: all parts of the grid that are not stored yet, and the results. Single parts are "
            "partitions of the asset grid.",
            writes=dataset.name,
            tags={PARTITION_RANGE_START: parts[0], PARTITION_RANGE_END: parts[-1]},
        )
        return dg.Definitions(assets=assets, jobs=[job])
