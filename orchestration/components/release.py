"""The common parts of the components of all releases: their fields, their definitions, and the lookup of their dataset.

This module does not depend on the mechanism. Each mechanism declares its own fields in a module of its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, Self

import dagster as dg
from pydantic import BaseModel

from assets.release.dataset import DatasetDeclaration
from assets.release.release import DeclarationError, Release, ReleaseDeclaration
from orchestration.components.dataset import Dataset
from orchestration.components.scaffolding import DeclaredComponent
from orchestration.environment import read_published_address
from orchestration.following import PUBLICATION_OF

COMPONENTS = "orchestration.components"
"""The package by which files name components."""

_ABOVE = __name__.removesuffix("orchestration.components.release")
"""The prefix of the names of the layers: empty in a checkout, `stirred.` in an installation."""


@dataclass
class DeclaresReleases(DeclaredComponent, ABC):
    """A component that declares releases in YAML: a single one, or several that belong together."""

    declared_by: ClassVar[type[ReleaseDeclaration]]
    produces = ("asset", "asset_check", "job", "schedule", "sensor")

    @property
    def named(self) -> str:
        """The name under which it is declared, `dataset/release`."""
        return f"{self.declaration.dataset}/{self.declaration.name}"

    @abstractmethod
    def releases(self, others: "Sequence[DeclaresReleases]" = ()) -> "Sequence[ReleaseComponent]":
        """The releases that it declares, which may depend on `others`, all declarations of the deployment."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        from orchestration.release_definitions import define_release

        others = context.component_tree.get_all_components(DeclaresReleases)  # type: ignore[type-abstract]
        return dg.Definitions.merge(*(define_release(release, context) for release in self.releases(others)))


def releases_of(declared: "Sequence[DeclaresReleases]") -> "list[ReleaseComponent]":
    return [release for component in declared for release in component.releases(declared)]


@dataclass
class ReleaseComponent(DeclaresReleases):
    """A release declared in YAML. A subclass for each mechanism names its declaration, its release and its method."""

    release_type: ClassVar[type[Release]]
    """The release with its declaration, dataset and design."""
    method_name: ClassVar[str]
    """The module and the class of its method."""

    @property
    def method(self) -> type[Any]:
        """The class that charges, draws, checks and publishes a release of this kind. The import is here because it
        loads every stage and kernel, which only runs and plans need."""
        return resolve_name(f"{_ABOVE}{self.method_name}")

    def release(self, dataset: DatasetDeclaration, published: Path) -> Any:
        """The declared release. Raises DeclarationError if the declaration contradicts itself or the dataset."""
        given = self.declaration, dataset, published, read_published_address()
        return self.release_type.from_declaration(*given, **self.sources(dataset, published))

    def sources(self, dataset: DatasetDeclaration, published: Path) -> Mapping[str, Any]:
        """The fields of the release that depend on more than its declaration and its dataset; none by default."""
        return {}

    def releases(self, others: Sequence[DeclaresReleases] = ()) -> "Sequence[ReleaseComponent]":
        return [self]

    @property
    def charges(self) -> bool:
        return bool(self.declaration.charges)

    @property
    def rounds(self) -> Sequence[str]:
        """The names of the rounds in which runs make stages in partitions, in order; empty without partitions."""
        rounds: Sequence[str] = self.declaration.rounds
        return rounds

    @property
    def type_name(self) -> str:
        return f"{COMPONENTS}.{type(self).__name__}"

    @property
    def draft(self) -> BaseModel:
        """The declaration whose fields a plan varies."""
        declaration: BaseModel = self.declaration
        return declaration

    @property
    def attributes(self) -> BaseModel:
        """The attributes of the file that declares it."""
        return self.draft

    def with_fields(self, given: Mapping[str, Any]) -> Self:
        """The same release with these fields of `draft`. Raises ValidationError if they are not valid."""
        return replace(self, declaration=self.declared_by.model_validate(given))

    @property
    def job(self) -> str:
        return f"{self.declaration.dataset}__{self.declaration.name}"

    @property
    def publishing_job(self) -> str:
        return f"{PUBLICATION_OF}__{self.job}" if self.rounds else self.job

    def key(self, stage: str) -> dg.AssetKey:
        return dg.AssetKey([self.declaration.dataset, self.declaration.name, stage])


def declared_datasets(context: dg.ComponentLoadContext) -> dict[str, DatasetDeclaration]:
    return {item.declaration.name: item.declaration for item in context.component_tree.get_all_components(Dataset)}


def dataset_of(declaration: ReleaseDeclaration, datasets: dict[str, DatasetDeclaration]) -> DatasetDeclaration:
    """The dataset that a release declares as its source. Raises DeclarationError if no dataset has that name, or if
    `watch_source` is set and the dataset has no source file."""
    name = f"release {declaration.dataset}/{declaration.name}"
    dataset = datasets.get(declaration.dataset)
    if dataset is None:
        raise DeclarationError(
            f"{name}: dataset: there is no dataset {declaration.dataset}; declared are "
            f"{', '.join(sorted(datasets)) or 'none'}"
        )
    if declaration.watch_source and not any(table.path for table in dataset.tables.values()):
        raise DeclarationError(f"{name}: watch_source: {dataset.name} is built in and has no source file to watch")
    return dataset
