"""What one kind of release brings to the stages that all kinds share: charge, draw, gates and publication.

Here belong the house that a release is made in, its promises as values, and the interface that each mechanism fills in
(`assets.swapping.method`, `assets.phsafe.method`). The stages themselves belong in their rooms.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from assets.confidentiality import Node
from assets.release.draw import Draw
from assets.release.published import PublishedTable
from assets.release.release import Release
from assets.release.statement import Statement
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import Zone
from resources.warehouse import Session, Warehouse

R = TypeVar("R", bound=Release)
D = TypeVar("D", bound=Draw)


@dataclass(frozen=True)
class ReleaseContext(Generic[R]):
    """A release's method, and what its promises are checked against.

    Attributes:
        method: of the release.
        warehouse: the tables.
        custody: the keys.
        ledger: the charges.
        nodes: the deployment's asset graph, for the walk from confidential data to the publication.
    """

    method: "Method[R, Any]"
    warehouse: Warehouse
    custody: Custody
    ledger: Ledger
    nodes: Mapping[str, Node]

    @property
    def release(self) -> R:
        """The release, as declared."""
        return self.method.release


@dataclass(frozen=True)
class Gate(Generic[R]):
    """One gate.

    Attributes:
        name: of the check.
        stage: the asset that has to keep it.
        words: the promise as a sentence, for the check's page and the certificate.
        broken: finds what breaks it; each finding in words, with counts and without values.
    """

    name: str
    stage: str
    words: str
    problems: Callable[[ReleaseContext[R]], list[str]]


class Method(ABC, Generic[R, D]):
    """How one release is charged, drawn, checked and published."""

    draws_from: ClassVar[Sequence[Zone]]
    """The zones that a draw is made from, public ones among them."""

    charge_follows: ClassVar[Sequence[str]]
    """The stages that the charge is computed from."""

    charge_crossing: ClassVar[str | None] = None
    """Why the charge may leave the confidential zone, if it is computed from confidential tables."""

    charge_columns: ClassVar[Mapping[str, str]]
    """The columns that `charge_facts` adds to the charge's row, and what they say."""

    publishes_from: ClassVar[Sequence[str]]
    """The release's stages that a publication is made from."""

    def __init__(self, release: R) -> None:
        self.release = release

    @abstractmethod
    def describe(self, session: Session, custody: Custody) -> D:
        """The draw that the release's parameters and public tables call for."""

    def require_chargeable(self, session: Session) -> None:
        """Refuse, before anything is charged, what could not be carried out afterwards."""

    @abstractmethod
    def charge_facts(self, draw: D) -> Mapping[str, str | int | float]:
        """What the charge's row says beyond draw, commitment and ledger entry; all of it public."""

    @abstractmethod
    def charge_description(self) -> str:
        """How the loss follows, in Markdown."""

    @abstractmethod
    def stored_version(self, session: Session, draw: D) -> str | None:
        """The content hash of the stored output; None unless its label says that it is this draw's."""

    @abstractmethod
    def make(self, session: Session, draw: D, custody: Custody) -> Any:
        """The draw's output, the same whenever it is made.

        Raises:
            StaleInputError: if the confidential input is not the one that was charged.
            CustodyError: if the draw's key is gone.
        """

    @abstractmethod
    def version_of(self, draw: D, output: Any) -> str:
        """The content hash of an output of `make`."""

    @abstractmethod
    def write(self, session: Session, draw: D, output: Any) -> None:
        """Store an output, labelled with its draw."""

    @abstractmethod
    def gates(self) -> tuple[Gate[R], ...]:
        """All promises of the release, in the order of its stages."""

    @abstractmethod
    def tables(self) -> Sequence[PublishedTable]:
        """What is published."""

    @abstractmethod
    def statement(self, draw: D, output_version: str) -> Statement:
        """What the certificate says of the mechanism."""
