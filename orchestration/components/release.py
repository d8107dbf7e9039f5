"""What the components of all releases share: their common fields, their definitions, and the lookup of their dataset.

Nothing here depends on the mechanism. Each mechanism declares its own fields in a module of its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import dagster as dg
from pydantic import BaseModel

from assets.charge.asset import build_charge, build_preflight
from assets.charge.drawing import build_draw
from assets.conventions import OWNERS
from assets.gates.shared import build_gates
from assets.planning.asset import build_plan
from assets.publication.asset import build_publication
from assets.release.dataset import DatasetDeclaration
from assets.release.method import PLAN, Method
from assets.release.plan import PlanRequest
from assets.release.published import require_placeable
from assets.release.release import DeclarationError, Release, ReleaseDeclaration
from assets.release.withheld import WithheldRecords
from orchestration.automation import release_jobs, release_schedule, source_sensor
from orchestration.components.dataset import Dataset
from orchestration.components.publisher import declared_publisher
from orchestration.components.scaffolding import ExampleScaffolder
from orchestration.environment import deployment_folders, published_address
from orchestration.launch import PUBLICATION_OF
from orchestration.planning import DeclaredRelease, PlannedDeclaration, plan_declaration

COMPONENTS = "orchestration.components"
"""The package that files name components by."""


@dg.scaffold_with(ExampleScaffolder)
@dataclass
class DeclaresReleases(dg.Component, dg.Resolvable, ABC):
    """A component that declares releases in YAML: a single one, or several that belong together."""

    declaration: Any

    declared_by: ClassVar[type[ReleaseDeclaration]]
    """The fields of the declaration."""

    @classmethod
    def model(cls) -> type[BaseModel]:
        """The attributes, as `dg check yaml` validates them: those of the declaration."""
        return cls.declared_by

    @classmethod
    def resolve_from_model(cls, context: dg.ResolutionContext, model: BaseModel) -> Self:
        """The component for a declaration. Template variables are not filled in."""
        return cls(cls.declared_by.model_validate(model))

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        return dg.ComponentTypeSpec(owners=OWNERS, produces=["asset", "asset_check", "job", "schedule", "sensor"])

    @property
    def named(self) -> str:
        """The name under which it is declared, `dataset/release`."""
        return f"{self.declaration.dataset}/{self.declaration.name}"

    @abstractmethod
    def releases(self, others: "Sequence[DeclaresReleases]" = ()) -> "Sequence[ReleaseComponent]":
        """The releases that it declares.

        Args:
            others: all that the deployment declares, of which a release may be made.
        """

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The assets, checks, jobs, schedules and sensors of all its releases."""
        others = context.component_tree.get_all_components(DeclaresReleases)  # type: ignore[type-abstract]
        return dg.Definitions.merge(*(release.release_defs(context) for release in self.releases(others)))


def releases_of(declared: "Sequence[DeclaresReleases]") -> "list[ReleaseComponent]":
    """All releases that the components of a deployment declare."""
    return [release for component in declared for release in component.releases(declared)]


@dataclass
class ReleaseComponent(DeclaresReleases, DeclaredRelease):
    """A release declared in YAML. A subclass for each mechanism names its declaration, its release and its method."""

    release_type: ClassVar[type[Release]]
    """The release with its declaration, dataset and design."""

    def release(self, dataset: DatasetDeclaration, published: Path) -> Any:
        sources = self.sources(dataset, published)
        return self.release_type.from_declaration(self.declaration, dataset, published, published_address(), **sources)

    def sources(self, dataset: DatasetDeclaration, published: Path) -> Mapping[str, Any]:
        """The fields of the release that follow from more than its declaration and its dataset; none by default.

        Raises:
            DeclarationError: if the declaration names something that there is not.
        """
        return {}

    def releases(self, others: Sequence[DeclaresReleases] = ()) -> "Sequence[ReleaseComponent]":
        return [self]

    def withheld_records(self, dataset: DatasetDeclaration, published: Path) -> WithheldRecords | None:
        """The records that the release withholds, for another one to count from; None if it withholds none."""
        return None

    @property
    def charges(self) -> bool:
        """Whether the release has a draw and a charge."""
        return True

    @property
    def partitioned(self) -> bool:
        """Whether some of its stages are made in partitions, each in a run of its own."""
        return False

    @property
    def type_name(self) -> str:
        return f"{COMPONENTS}.{type(self).__name__}"

    def with_fields(self, given: Mapping[str, Any]) -> Self:
        return replace(self, declaration=self.declared_by.model_validate(given))

    @property
    def job(self) -> str:
        """The name of the release's job."""
        return f"{self.declaration.dataset}__{self.declaration.name}"

    @property
    def publishing_job(self) -> str:
        """The name of the job that publishes the release: its own, unless it has partitions."""
        return f"{PUBLICATION_OF}__{self.job}" if self.partitioned else self.job

    def key(self, stage: str) -> dg.AssetKey:
        """The asset key of a stage of the release."""
        return dg.AssetKey([self.declaration.dataset, self.declaration.name, stage])

    def release_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The release's assets, checks and job, and its schedule and sensor if declared."""
        dataset = dataset_of(self.declaration, declared_datasets(context))
        release = self.release(dataset, deployment_folders(context.project_root)[1])
        method = self.method(replace(release, publisher=declared_publisher(context)))
        if method.charges != self.charges:
            raise ValueError(f"{method.release.schema}: component and method disagree on whether anything is charged")
        return dg.Definitions.merge(
            release_definitions(self, method), automated(method, self.declaration, context.project_root)
        )


def release_definitions(component: ReleaseComponent, method: Method[Any, Any, Any]) -> dg.Definitions:
    """The assets and checks of a release: those of its mechanism, and those that all releases share.

    Args:
        component: the declared release.
        method: how it is made.

    Raises:
        DeclarationError: if what it publishes could not be written, or its loss is infinite and the dataset does not
            allow that.
    """
    method.release.require_allowed()
    if method.charges:
        require_placeable(method.release, method.tables())

    def plan_of(request: PlanRequest) -> PlannedDeclaration:
        return plan_declaration(component, method.release.dataset, method.release.published, request)

    assets, checks = [build_plan(method, plan_of), *method.own_assets()], build_gates(method)
    if method.charges:
        publication, files_check = build_publication(method)
        assets += [build_preflight(method), build_charge(method), build_draw(method), publication]
        checks.append(files_check)
    return dg.Definitions(assets=assets, asset_checks=checks)


def declared_datasets(context: dg.ComponentLoadContext) -> dict[str, DatasetDeclaration]:
    """All datasets of the deployment, by name."""
    return {item.declaration.name: item.declaration for item in context.component_tree.get_all_components(Dataset)}


def dataset_of(declaration: ReleaseDeclaration, datasets: dict[str, DatasetDeclaration]) -> DatasetDeclaration:
    """The dataset that a release declares as its source.

    Raises:
        DeclarationError: if no dataset has that name, or if `watch_source` is set and the dataset has no source file.
    """
    name = f"release {declaration.dataset}/{declaration.name}"
    dataset = datasets.get(declaration.dataset)
    if dataset is None:
        raise DeclarationError(
            f"{name}: dataset: there is no dataset {declaration.dataset}; declared are {', '.join(sorted(datasets))}"
        )
    if declaration.watch_source and not any(table.path for table in dataset.tables.values()):
        raise DeclarationError(f"{name}: watch_source: {dataset.name} is built in and has no source file to watch")
    return dataset


def automated(method: Method[Any, Any, Any], declaration: ReleaseDeclaration, root: Path) -> dg.Definitions:
    """The release's jobs, and its schedule and sensor if declared."""
    release = method.release
    schedules = [release_schedule(release, declaration.schedule)] if declaration.schedule else []
    sensors = [source_sensor(release, f"{declaration!r} {release.dataset!r}", root)] if declaration.watch_source else []
    return dg.Definitions.merge(
        release_jobs(
            release,
            method.charges,
            method.reads_publications_of,
            with_plan=PLAN in method.stages,
            partitions=method.partitions,
        ),
        dg.Definitions(schedules=schedules, sensors=sensors),
    )
