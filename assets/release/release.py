"""A release as one value: what every kind of release declares, and the names its tables and assets bear.

What one kind declares beyond it is in its mechanism's package (`assets.swapping.release`, `assets.phsafe.release`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import dagster as dg

from assets.release.dataset import DatasetDeclaration
from resources.custody import CustodyMode
from resources.statements import Table, Zone


class DeclarationError(ValueError):
    """A release that cannot be carried out as declared; the message names release, field and rule."""


@dataclass(frozen=True)
class Release:
    """What is declared of any release.

    Attributes:
        dataset: the dataset it is made from.
        name: of the release, unique in the dataset.
        title: in words.
        description: what is published, for a reader.
        custody: whether the draw's key can be had again.
        published: the folder under which publications are placed.
    """

    dataset: DatasetDeclaration
    name: str
    title: str
    description: str
    custody: CustodyMode
    published: Path

    def refuse(self, reason: str) -> NoReturn:
        """Say that the release cannot be as it is declared.

        Raises:
            DeclarationError: always.
        """
        raise DeclarationError(f"release {self.dataset.name}/{self.name}: {reason}")

    @property
    def can_replay(self) -> bool:
        """Whether the draw can be made again by whoever holds the custody."""
        return self.custody is CustodyMode.ESCROWED

    @property
    def schema(self) -> str:
        """The schema of the release's tables in either zone."""
        return f"{self.dataset.name}__{self.name}"

    def public(self, name: str) -> Table:
        """A table of the release that anyone may see."""
        return Table(Zone.PUBLIC, self.schema, name)

    def confidential(self, name: str) -> Table:
        """A table of the release that is never published."""
        return Table(Zone.CONFIDENTIAL, self.schema, name)

    def key(self, stage: str) -> dg.AssetKey:
        """The asset key of a stage of the release."""
        return dg.AssetKey([self.dataset.name, self.name, stage])

    def dataset_key(self, stage: str) -> dg.AssetKey:
        """The asset key of a stage that all releases of the dataset share."""
        return dg.AssetKey([self.dataset.name, stage])

    @property
    def folder(self) -> Path:
        """Where the publication is placed."""
        return self.published / self.dataset.name / self.name
