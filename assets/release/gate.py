"""A gate: a rule that a release must satisfy before it is published, and the context in which it is evaluated.

The gates of all releases are in `assets.gates.shared`. Those of one mechanism are in its package.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from assets.confidentiality import Node
from assets.release.release import Release
from assets.release.verdicts import Verdicts
from mechanisms.refusal import RefusedError
from resources.custody import Custody
from resources.ledger import Ledger, Reading
from resources.statements import Zone
from resources.warehouse import Warehouse

if TYPE_CHECKING:
    from assets.release.method import Method

R = TypeVar("R", bound=Release)


@dataclass(frozen=True)
class ReleaseContext(Generic[R]):
    """The context in which a release's gates are evaluated.

    Attributes:
        nodes: the deployment's asset graph, for the check of paths from confidential data to the publication.
        verdicts: those that the run has reached already, if the gates are evaluated in a run.
    """

    method: "Method[R, Any, Any]"
    warehouse: Warehouse
    custody: Custody
    ledger: Ledger
    nodes: Mapping[str, Node]
    verdicts: Verdicts = field(default_factory=Verdicts, compare=False)

    @property
    def release(self) -> R:
        return self.method.release

    @cached_property
    def reading(self) -> Reading:
        """The ledger as it is when the first gate of this context asks for it: what they say of it is of one moment.

        A context that is made of this one (`snapshot`) reads it anew. No key is opened because of it (`charged_key`).

        Raises:
            WarehouseError: if it cannot be read.
        """
        return self.ledger.read()

    @contextmanager
    def snapshot(self, folder: Path | None = None) -> Iterator[Self]:
        """This context with tables whose content stays the same until the block ends.

        Args:
            folder: the one folder whose files statements can read and write.

        Raises:
            WarehouseError: if a zone cannot be read.
        """
        with self.warehouse.snapshot([Zone.CONFIDENTIAL, Zone.PUBLIC], folder) as warehouse:
            yield replace(self, warehouse=warehouse)


@dataclass(frozen=True)
class Gate(Generic[R]):
    """A rule that a release must satisfy; otherwise its publication is blocked.

    Attributes:
        words: the rule as a sentence, for the check's page and the certificate.
        problems: returns the violations of the rule, in words with counts and without values; empty if there are none.
    """

    name: str
    stage: str
    words: str
    problems: Callable[[ReleaseContext[R]], list[str]]

    def evaluate(self, context: ReleaseContext[R]) -> list[str]:
        """The violations of the rule. If it cannot be evaluated on the stored tables, that is a violation too."""
        try:
            return self.problems(context)
        except RefusedError as error:
            return [f"it cannot be evaluated: {error}"]
