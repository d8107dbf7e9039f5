"""A gate: a rule that a release must satisfy before it is published, and what the rule is checked against.

Gates that every release has are in `assets.gates.shared`, those of one mechanism in its own package.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from assets.confidentiality import Node
from assets.release.release import Release
from resources.custody import Custody
from resources.ledger import Ledger
from resources.warehouse import Warehouse

if TYPE_CHECKING:
    from assets.release.method import Method

R = TypeVar("R", bound=Release)


@dataclass(frozen=True)
class ReleaseContext(Generic[R]):
    """A release's method, and what its gates are checked against.

    Attributes:
        method: of the release.
        warehouse: the tables.
        custody: the keys.
        ledger: the charges.
        nodes: the deployment's asset graph, for the walk from confidential data to the publication.
    """

    method: "Method[R, Any, Any]"
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
    """One rule that blocks the publication of a release that breaks it.

    Attributes:
        name: of the asset check.
        stage: the asset that must satisfy the rule.
        words: the rule as a sentence, for the check's page and the certificate.
        problems: returns what breaks the rule, in words with counts and without values; empty if nothing does.
    """

    name: str
    stage: str
    words: str
    problems: Callable[[ReleaseContext[R]], list[str]]
