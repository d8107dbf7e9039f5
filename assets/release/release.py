"""A release as one value: the fields that every release declares, and the names of its tables and assets.

Each mechanism adds its own fields in its package (for example `assets.swapping.release`).
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import dagster as dg

from assets.release.dataset import DatasetDeclaration
from assets.release.publisher import UNDECLARED, Publisher
from mechanisms.refusal import RefusedError
from resources.custody import CustodyMode
from resources.statements import Table, Zone


class DeclarationError(RefusedError, ValueError):
    """A release cannot be carried out as declared. The message names the release, the field and the rule."""


@dataclass(frozen=True)
class Release:
    """The fields that every release declares.

    Attributes:
        dataset: the dataset that the release is made from.
        name: the name of the release, unique in the dataset.
        title: the name of the release in words.
        description: what is published, for readers.
        custody: whether the draw's key can be derived again.
        published: the parent folder of all publications.
        publisher: who publishes.
        address: the address under which that folder is served; "" if it is not.
    """

    dataset: DatasetDeclaration
    name: str
    title: str
    description: str
    custody: CustodyMode
    published: Path
    publisher: Publisher = field(default=UNDECLARED, kw_only=True)
    address: str = field(default="", kw_only=True)

    def refuse(self, reason: str) -> NoReturn:
        """Reject the declaration for a reason.

        Raises:
            DeclarationError: always.
        """
        raise DeclarationError(f"release {self.dataset.name}/{self.name}: {reason}")

    @property
    def has_finite_loss(self) -> bool:
        """Whether the loss of the release is finite, as declared; a mechanism for which none is says so here."""
        return True

    def require_allowed(self) -> None:
        """Refuse a release without a finite loss unless its dataset allows such releases.

        Raises:
            DeclarationError: if it does not.
        """
        if not self.has_finite_loss and not self.dataset.allows_unbounded_releases:
            self.refuse(
                "no finite loss bounds it (ε = ∞); such a release is made only of a dataset that is synthetic or "
                "declares unbounded_releases: allowed"
            )

    @property
    def can_replay(self) -> bool:
        """Whether the custodian can replay the draw."""
        return self.custody is CustodyMode.ESCROWED

    @property
    def schema(self) -> str:
        """The schema of the release's tables in both zones, `<dataset>__<release>`."""
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

    @property
    def composition_key(self) -> dg.AssetKey:
        """The asset key of the composition of all charges to the population."""
        return dg.AssetKey([self.dataset.population, "composition"])

    def dataset_key(self, stage: str) -> dg.AssetKey:
        """The asset key of a stage that all releases of the dataset share."""
        return dg.AssetKey([self.dataset.name, stage])

    @property
    def folder(self) -> Path:
        """The folder of the publication."""
        return self.published / self.dataset.name / self.name
