"""A gate: a rule that a release must satisfy before it is published, and the context in which it is evaluated.

The gates of all releases are in `assets.gates.shared`. Those of one mechanism are in its package.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from assets.confidentiality import Nodes
from assets.release.release import Release
from assets.release.verdicts import Verdicts, describe, hash_code
from mechanisms.refusal import RefusedError
from resources.chain import canonicalize
from resources.custody import Custody
from resources.ledger import Ledger, Reading
from resources.statements import Zone
from resources.warehouse import Read, Session, Warehouse

if TYPE_CHECKING:
    from assets.release.method import Method

R = TypeVar("R", bound=Release)

SHORTEST_KEPT = 0.2
"""The least seconds that a gate takes for its verdict to be kept: hashing the tables that it read takes less."""

_DERIVED = frozenset({"derive", "version_key", "seal_key", "seal", "draw_id"})
"""The methods of the custody whose results follow from its master key alone."""

_LEDGER, _OTHER = ("ledger",), ("something else",)


@dataclass(frozen=True)
class ReleaseContext(Generic[R]):
    """The context in which a release's gates are evaluated, with the asset graph and the kept verdicts. Without
    verdicts, every gate is evaluated."""

    method: "Method[R, Any, Any]"
    warehouse: Warehouse
    custody: Custody
    ledger: Ledger
    nodes: Nodes
    verdicts: Verdicts | None = field(default=None, compare=False)

    @property
    def release(self) -> R:
        return self.method.release

    @cached_property
    def reading(self) -> Reading:
        """The ledger as it is when the first gate of this context reads it, so that all gates see one state.

        A context made from this one (`snapshot`) reads the ledger anew. This opens no key.
        """
        return self.ledger.read()

    @contextmanager
    def snapshot(self, folder: Path | None = None) -> Iterator[Self]:
        """This context with tables whose content stays the same until the block ends. Statements can read and write
        files in `folder` only. Raises WarehouseError if a zone cannot be read."""
        with self.warehouse.snapshot(self.release.zones, folder) as warehouse:
            yield replace(self, warehouse=warehouse)


def find_verdicts(method: "Method[Any, Any, Any]", custody: Custody) -> Verdicts:
    """The kept verdicts of a release. If its declaration has no exact text, none are kept."""
    release, modules = method.release, {type(method).__module__}
    declared = [type(method).__qualname__, canonicalize(method.describe_declared()).decode()]
    try:
        described = json.dumps(describe(release, modules), sort_keys=True)
    except TypeError:
        return Verdicts(custody, release.schema, declared, None)
    declared.append(sha256(described.encode()).hexdigest())
    return Verdicts(custody, release.schema, declared, hash_code(*sorted(modules)))


class _NotedCustody:
    """A custody that notes each use of a method whose result does not follow from the master key."""

    def __init__(self, custody: Custody, reads: set[Read]) -> None:
        self._custody, self._reads = custody, reads

    def __getattr__(self, name: str) -> Any:
        if name not in _DERIVED:
            self._reads.add(_OTHER)
        return getattr(self._custody, name)


@dataclass(frozen=True)
class _NotedContext(ReleaseContext[R]):
    """A context that notes the reads of a gate: tables, the ledger as all gates see it, or another source. A gate that
    keeps verdicts itself needs no second one."""

    outer: ReleaseContext[R] = field(kw_only=True)
    reads: set[Read] = field(kw_only=True)

    def __getattribute__(self, name: str) -> Any:
        if name in ("ledger", "nodes", "snapshot", "verdicts"):
            self.reads.add(_OTHER)
        return super().__getattribute__(name)

    @property
    def reading(self) -> Reading:
        self.reads.add(_LEDGER)
        return self.outer.reading


@dataclass(frozen=True)
class ByPart(Generic[R]):
    """The evaluation of a rule part by part, for releases whose parts are made in runs of their own.

    Attributes:
        list_parts: the parts.
        holds_in: whether the rule holds in one part, from tables that do not change when other parts are made.
        joins: whether the rule holds if it holds in all parts.
    """

    list_parts: Callable[[ReleaseContext[R]], Sequence[str]]
    holds_in: Callable[[ReleaseContext[R], str], bool]
    joins: Callable[[ReleaseContext[R]], bool]


@dataclass(frozen=True)
class Gate(Generic[R]):
    """A rule that a release must satisfy; otherwise its publication is blocked.

    Attributes:
        words: the rule as a sentence, for the check's page and the certificate.
        problems: returns its violations, in words with counts and without values.
        by_part: the evaluation by the verdicts that the runs of parts keep, if they keep any. It may find that the rule
            holds only if there are no problems, and need not find it then.
    """

    name: str
    stage: str
    words: str
    problems: Callable[[ReleaseContext[R]], list[str]]
    by_part: ByPart[R] | None = None

    def evaluate(self, context: ReleaseContext[R]) -> list[str]:
        """The violations of the rule. A rule that cannot be evaluated on the stored tables is violated too. A kept
        verdict on the same content replaces the evaluation.

        Raises TransientError if a server cannot be reached, because this is no evidence against the stored tables.
        """
        try:
            # Without a snapshot, the content read could differ from the content hashed.
            is_held = context.warehouse.is_held and not isinstance(context, _NotedContext)
            if context.verdicts and context.method.keeps_verdicts and is_held:
                return self._evaluate_once(context, context.verdicts)
            return self.problems(context)
        except RefusedError as error:
            return [f"it cannot be evaluated: {error}"]

    def _evaluate_once(self, context: ReleaseContext[R], verdicts: Verdicts) -> list[str]:
        name, reads = f"{self.stage}: {self.name}", set[Read]()
        kept = verdicts.list_reads(name)
        if kept and (content := _identify(context, kept)) and verdicts.holds(name, content):
            return []
        noted, began = _note(context, reads), time.monotonic()
        problems = [] if self._holds_by_part(context, verdicts, reads) else self.problems(noted)
        is_kept = not problems and _OTHER not in reads and time.monotonic() - began >= SHORTEST_KEPT
        if is_kept and (content := _identify(context, sorted(reads))):
            verdicts.keep(name, content, reads=sorted(reads))
        return problems

    def _holds_by_part(self, context: ReleaseContext[R], verdicts: Verdicts, reads: set[Read]) -> bool:
        """Whether the rule holds, judging by its parts. `reads` gets all reads, including the reads behind kept
        verdicts on parts."""
        if self.by_part is None:
            return False
        noted = _note(context, reads)
        try:
            for part in self.by_part.list_parts(noted):
                if not self.holds_in(context, verdicts, part, reads):
                    return False
            return self.by_part.joins(noted)
        except RefusedError:
            # The evaluation of `problems` then reports the error.
            return False

    def holds_in(self, context: ReleaseContext[R], verdicts: Verdicts, part: str, reads: set[Read]) -> bool:
        """Whether the rule holds in a part. A kept verdict on the same content replaces the evaluation; a new verdict
        is kept. `reads` gets the reads of the evaluation or of the kept verdict."""
        if self.by_part is None:
            return False
        name, of_part, own = f"{self.stage}: {self.name}", verdicts.of_part(part), set[Read]()
        kept = of_part.list_reads(name)
        if kept and (content := _identify(context, kept)) and of_part.holds(name, content):
            reads.update(kept)
            return True
        holds = self.by_part.holds_in(_note(context, own), part)
        reads |= own
        if holds and _OTHER not in own and (content := _identify(context, sorted(own))):
            of_part.keep(name, content, reads=sorted(own))
        return holds


def _note(context: ReleaseContext[R], reads: set[Read]) -> ReleaseContext[R]:
    """A context that notes its reads."""
    return _NotedContext(
        context.method,
        context.warehouse.noting(reads),
        cast(Custody, _NotedCustody(context.custody, reads)),
        context.ledger,
        context.nodes,
        context.verdicts,
        outer=context,
        reads=reads,
    )


def _identify(context: ReleaseContext[Any], reads: Sequence[Read]) -> str:
    """A digest of the content that a gate read; "" if a part of it cannot be read, or would take longer to hash than
    most gates take."""
    content: list[Any] = []
    try:
        # The first run of a part may come before the public zone exists.
        zones = {Zone(zone) for _, zone, *_ in (read for read in reads if read != _LEDGER)}
        with context.warehouse.session(reads=zones) as session:
            if any(map(session.has_lists, reads)):
                return ""
        for read in reads:
            if read == _LEDGER:
                content.append([context.reading.problems, [astuple(entry) for entry in context.reading.entries]])
                continue
            # Each read has a session of its own, so that values computed from one table are not attributed to another.
            with context.warehouse.session(reads=zones) as session:
                content.append(session.identify(read))
    except (RefusedError, ValueError):
        return ""
    return sha256(json.dumps([reads, content]).encode()).hexdigest()


def session_gate(
    name: str,
    stage: str,
    check: Callable[[Session, ReleaseContext[R]], Iterable[str]],
    reads: Sequence[Zone] = (Zone.PUBLIC,),
    by_part: ByPart[R] | None = None,
) -> Gate[R]:
    """A gate whose check runs in a session that reads some zones, and states the rule in its docstring
    (`read_claim`)."""

    def find_problems(context: ReleaseContext[R]) -> list[str]:
        with context.warehouse.session(reads=reads) as session:
            return list(check(session, context))

    return Gate(name, stage, read_claim(check), find_problems, by_part)


def read_claim(check: Callable[..., Iterable[str]]) -> str:
    """The rule of a gate, which the certificate states: the first paragraph of the docstring of its check."""
    if check.__doc__ is None:
        raise RuntimeError("certificates state what gates hold, which Python was told to leave out (-OO)")
    return " ".join(check.__doc__.split("\n\n")[0].split())
