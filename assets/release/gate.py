"""A gate: a rule that a release must satisfy before it is published, and the context in which it is evaluated.

The gates of all releases are in `assets.gates.shared`. Those of one mechanism are in its package.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from assets.confidentiality import Nodes
from assets.release.release import Release
from mechanisms.refusal import RefusedError
from resources.custody import Custody
from resources.ledger import Ledger, Reading
from resources.statements import Zone
from resources.warehouse import Session, Warehouse

if TYPE_CHECKING:
    from assets.release.method import Method

R = TypeVar("R", bound=Release)

_RUNS_KEPT = 8


class Verdicts:
    """The verdicts of gates that a run has already reached, so that its publication need not reach them again.

    A gate may keep a verdict only if it follows from values that the gate can name at little cost, and that cannot stay
    the same when the verdict changes. The replay of a draw follows from the draw id, which covers the exact counts and
    the parameters, from the commitment to the key, and from the version of the output that the replay gave. A gate that
    relies on a kept verdict must therefore have read those values again: the draw id from the sealed tables, the
    settled version in the ledger, and the commitment by opening the key. Whether the stored tables still have the
    content that these values name is the matter of other gates (`settled`, `counts_as_charged`), which keep none.

    A gate names the values of what it read itself, so a table that was altered while a gate read it, and is restored
    afterwards, has no verdict. Verdicts are kept in memory, for one run of a process: no database holds them, and the
    code that reached one is the code that relies on it. Only that a gate passed is kept, and nothing outside a run.
    """

    def __init__(self, *, in_a_run: bool = False) -> None:
        self.in_a_run = in_a_run
        self._kept: set[tuple[str | None, ...]] = set()

    def holds(self, *basis: str | None) -> bool:
        """Whether a gate found no problem on this basis: a name, and the values that its verdict follows from."""
        return None not in basis and basis in self._kept

    def keep(self, *basis: str | None) -> None:
        """Keep that a gate found no problem on this basis. Without a value in it, nothing is kept."""
        if self.in_a_run and None not in basis:
            self._kept.add(basis)


@lru_cache(_RUNS_KEPT)
def find_verdicts(run_id: str) -> Verdicts:
    """The verdicts of a run in this process. Those of the last few runs are kept."""
    return Verdicts(in_a_run=True)


@dataclass(frozen=True)
class ReleaseContext(Generic[R]):
    """The context in which a release's gates are evaluated: with the asset graph, and the verdicts of a run so far."""

    method: "Method[R, Any, Any]"
    warehouse: Warehouse
    custody: Custody
    ledger: Ledger
    nodes: Nodes
    verdicts: Verdicts = field(default_factory=Verdicts, compare=False)

    @property
    def release(self) -> R:
        return self.method.release

    @cached_property
    def reading(self) -> Reading:
        """The ledger as it is when the first gate of this context reads it, so that all gates see one state.

        A context that is made of this one (`snapshot`) reads it anew. No key is opened because of it.
        """
        return self.ledger.read()

    @contextmanager
    def snapshot(self, folder: Path | None = None) -> Iterator[Self]:
        """This context with tables whose content stays the same until the block ends. Raises WarehouseError if a zone
        cannot be read. `folder` is the only one whose files statements can read and write."""
        with self.warehouse.snapshot([Zone.CONFIDENTIAL, Zone.PUBLIC], folder) as warehouse:
            yield replace(self, warehouse=warehouse)


@dataclass(frozen=True)
class Gate(Generic[R]):
    """A rule that a release must satisfy; otherwise its publication is blocked.

    Attributes:
        words: the rule as a sentence, for the check's page and the certificate.
        problems: returns its violations, in words with counts and without values.
    """

    name: str
    stage: str
    words: str
    problems: Callable[[ReleaseContext[R]], list[str]]

    def evaluate(self, context: ReleaseContext[R]) -> list[str]:
        """The violations of the rule; that it cannot be evaluated on the stored tables is one too.

        Raises TransientError if a server cannot be reached, which says nothing about the stored tables.
        """
        try:
            return self.problems(context)
        except RefusedError as error:
            return [f"it cannot be evaluated: {error}"]


def session_gate(
    name: str,
    stage: str,
    check: Callable[[Session, ReleaseContext[R]], Iterable[str]],
    reads: Sequence[Zone] = (Zone.PUBLIC,),
) -> Gate[R]:
    """A gate whose check, in a session that reads some zones, claims its rule (`read_claim`)."""

    def find_problems(context: ReleaseContext[R]) -> list[str]:
        with context.warehouse.session(reads=reads) as session:
            return list(check(session, context))

    return Gate(name, stage, read_claim(check), find_problems)


def read_claim(check: Callable[..., Iterable[str]]) -> str:
    """The rule of a gate, which the certificate states: the first paragraph of the docstring of its check."""
    if check.__doc__ is None:
        raise RuntimeError("certificates state what gates hold, which Python was told to leave out (-OO)")
    return " ".join(check.__doc__.split("\n\n")[0].split())
