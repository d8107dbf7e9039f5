"""The interface between a mechanism and the stages that all releases share: charge, draw, gates and publication.

A mechanism's package fills in `Method` (`assets.swapping.method` is the simplest example). Mechanisms that add noise
to exact counts start from `assets.measurement`, which fills in most of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar, Generic, TypeVar, final

import dagster as dg

from assets.release.draw import Draw, Inputs, is_drawn
from assets.release.gate import Gate
from assets.release.published import PublishedTable
from assets.release.release import Release
from assets.release.statement import Statement
from mechanisms.accounting.specification import Specification
from resources.custody import Custody
from resources.statements import Zone
from resources.warehouse import Session

CHARGE, PUBLICATION = "charge", "publication"
"""Names of the stages that are the same for every release."""

R = TypeVar("R", bound=Release)
I = TypeVar("I", bound=Inputs)  # noqa: E741 - the draw's inputs
O = TypeVar("O")  # noqa: E741 - the draw's output


class Method(ABC, Generic[R, I, O]):
    """How one release is charged, drawn, checked and published.

    The shared gates are no part of this interface, and a mechanism cannot leave them out: `assets.gates.shared` adds
    them to `own_gates`. A mechanism says only which stage each of them belongs to.
    """

    mechanism: ClassVar[str]
    """The mechanism's name, in draw ids and names of random streams."""

    version: ClassVar[int]
    """Raised when the same stream would give other output: an old draw could not be replayed then."""

    draw_stage: ClassVar[str]
    """The stage that draws."""

    drawn_table: ClassVar[str]
    """The table that shows the draw's output."""

    drawn_words: ClassVar[str]
    """The output in words, in the plural."""

    drawn_columns: ClassVar[Mapping[str, str]] = {}
    """What the columns of `drawn_table` say."""

    draw_kinds: ClassVar[AbstractSet[str]] = frozenset({"duckdb", "numba"})
    """What the draw is made with, for its asset's page."""

    draw_follows: ClassVar[Sequence[str]] = ()
    """The release's stages that the draw is made from, besides the charge."""

    draws_from_cef: ClassVar[bool] = False
    """Whether the draw reads the CEF itself."""

    closing_stage: ClassVar[str] = "tables"
    """The last stage before the publication: the walk from confidential data is checked there."""

    charge_follows: ClassVar[Sequence[str]]
    """The stages that the charge is computed from."""

    charge_crossing: ClassVar[str | None] = None
    """Why the charge may leave the confidential zone, if it is computed from confidential tables."""

    charge_columns: ClassVar[Mapping[str, str]] = {}
    """The columns that `charge_facts` adds to the charge's row, and what they say."""

    publishes_also_from: ClassVar[Sequence[str]] = ()
    """Stages that a publication is made from, besides charge, draw and closing stage."""

    draws_from: ClassVar[Sequence[Zone]] = (Zone.CONFIDENTIAL, Zone.PUBLIC)
    """The zones that a draw is made from, public ones among them."""

    def __init__(self, release: R) -> None:
        self.release = release

    @property
    def charges(self) -> bool:
        """Whether anything is charged, drawn and published at all."""
        return True

    @property
    @abstractmethod
    def stages(self) -> Sequence[str]:
        """All stages of the release in the order in which their gates are checked; without the publication."""

    @abstractmethod
    def own_assets(self) -> Sequence[dg.AssetsDefinition]:
        """The assets of all stages but charge, draw and publication, which the shared packages build."""

    @abstractmethod
    def own_gates(self) -> Sequence[Gate[R]]:
        """The gates that this mechanism adds to the shared ones."""

    @abstractmethod
    def parameters(self) -> Mapping[str, Any]:
        """Everything declared that the draw depends on, as plain exact values.

        Two declarations that mean the same give equal values: what has no order of its own is sorted.
        """

    @abstractmethod
    def inputs(self, session: Session) -> I:
        """What the draw is made from, read from public tables."""

    @abstractmethod
    def specification(self, inputs: I) -> Specification:
        """The DP specification of the draw."""

    @final
    def describe(self, session: Session, custody: Custody) -> Draw[I]:
        """The draw that the release's parameters and public tables call for."""
        inputs = self.inputs(session)
        draw_id = custody.draw_id(
            {
                "dataset": self.release.dataset.name,
                "release": self.release.name,
                "stage": self.draw_stage,
                "partition": None,
                "mechanism": self.mechanism,
                "version": self.version,
                "parameters": {**self.parameters(), "custody": self.release.custody.value},
                "inputs": dict(inputs.versions),
            }
        )
        return Draw(draw_id, self.specification(inputs), inputs)

    def require_chargeable(self, session: Session) -> None:
        """Refuse, before anything is charged, what could not be carried out afterwards."""

    @abstractmethod
    def charge_facts(self, inputs: I) -> Mapping[str, str | int | float]:
        """What the charge's row says beyond draw, commitment and ledger entry; all of it public."""

    @abstractmethod
    def charge_description(self) -> str:
        """How the loss follows, in Markdown."""

    @abstractmethod
    def draw_description(self) -> str:
        """What is drawn, in Markdown."""

    def draw_metadata(self, session: Session) -> Mapping[str, Any]:
        """What the draw's page shows beyond draw, ledger entry and columns; all of it public."""
        return {}

    @abstractmethod
    def make(self, session: Session, draw: Draw[I], custody: Custody) -> O:
        """The draw's output, the same whenever it is made.

        Raises:
            StaleInputError: if the confidential input is not the one that was charged.
            CustodyError: if the draw's key is gone.
        """

    @abstractmethod
    def version_of(self, draw: Draw[I], output: O) -> str:
        """The content hash of an output of `make`."""

    @abstractmethod
    def write(self, session: Session, draw: Draw[I], output: O) -> str:
        """Store an output; returns its content hash."""

    @abstractmethod
    def read_version(self, session: Session, draw: Draw[I]) -> str | None:
        """The content hash of what is stored; None if it is not whole."""

    @final
    def stored_version(self, session: Session, draw: Draw[I]) -> str | None:
        """The content hash of the stored output; None unless its label says that it is this draw's."""
        return self.read_version(session, draw) if is_drawn(session, self.release, draw) else None

    @abstractmethod
    def tables(self) -> Sequence[PublishedTable]:
        """What is published."""

    @abstractmethod
    def statement(self, draw: Draw[I], output_version: str) -> Statement:
        """What the certificate says of the mechanism."""
