"""The asset `replicates`: repetitions of the whole algorithm on the published counts, as many as the release declares.

A replicate runs noise and estimation on the estimates of the finest level, which the microdata show, instead of the
CEF, with the same design and the same invariants. `mechanisms.topdown.replicates` makes a replicate; `workers` runs
several at a time; `uncertainty` computes errors from their deviations. The asset reads only public tables, so it costs
no budget. Each algorithm has its own `Replication`; the DHC's is in `assets.topdown.dhc.replicates`.

The key of a replicate's noise depends only on the draw id and the replicate's number, which are public: every reader of
microdata, spine, exact statistics and certificate can make the same replicates. A draw's key is an HMAC under the
custody, or random, and the streams of draws have different labels, so no replicate has the noise of a draw.

Each finished replicate is stored in one transaction, with its hash and a digest of its inputs, under the custody's
seal. After a killed run, the next run makes the missing replicates. Replicates of another draw, of other estimates, or
with numbers that are no longer declared are deleted.
"""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any, ClassVar, Generic, TypeVar

import dagster as dg
import numpy as np
import pyarrow as pa

from assets.conventions import StageKind, public_table_metadata, round_figures, table_schema
from assets.gates.shared import count_problem
from assets.measurement.method import GridError
from assets.release.draw import StaleInputError
from assets.release.gate import Gate, ReleaseContext, read_claim
from assets.release.seal import is_sealed, store_sealed
from assets.release.stage import release_stage
from assets.topdown.estimation import (
    SECONDS_BETWEEN_REPORTS,
    Report,
    find_wrong_levels,
    hash_estimates,
)
from assets.topdown.histograms import cut_places, read_counts
from assets.topdown.invariants import derive_all_limits
from assets.topdown.reading import read_draw_id
from assets.topdown.release import REPLICATES, SPINE, TopDownRelease, TreeRelease
from assets.topdown.spine import read_tree
from assets.topdown.workers import ReplicateTask, make_replicate, perform
from mechanisms.topdown.design import SCHEMAS
from mechanisms.topdown.schema import Counts, Schema
from resources.custody import Custody
from resources.statements import SQL, Table, Zone
from resources.warehouse import Session, Warehouse

_APPEND = SQL("topdown/append", "INSERT INTO {{ table }} FROM {{ rows }}")
_DELETE = SQL("topdown/delete_surplus", "DELETE FROM {{ replicates }} WHERE {% include 'topdown/surplus_rule.sql' %}")

VERSION = 1
"""Increase it when the same estimates would give different replicates."""

COLUMNS = {
    "replicate": "Number of the replicate, from 1",
    "histogram": "Histogram",
    "number": "Number of the place of the finest level, as in the spine",
    "cell": "Number of the cell in the histogram",
    "count": "Count of the replicate; cells with count 0 are left out",
}

_TYPES = {name: "VARCHAR" if name == "histogram" else "BIGINT" for name in COLUMNS}
_ROWS = pa.schema([(name, pa.string() if name == "histogram" else pa.int64()) for name in COLUMNS])
_ACCOUNT = pa.schema(
    [("replicate", pa.int64()), ("made_of", pa.string()), ("content", pa.string()), ("seconds", pa.float64())]
)


@dataclass(frozen=True, order=True)
class Account:
    """How a stored replicate was made: the digests of its inputs and its counts, and the processor time in seconds."""

    replicate: int
    made_of: str
    content: str
    seconds: float


Replicate = tuple[int, Mapping[str, Counts], float]
"""The number of a replicate, its counts of the finest level by histogram, and the processor time in seconds."""


@dataclass(frozen=True)
class Basis:
    """The common inputs of all replicates of a release. `made_of` is the value in current accounts, `template` a task
    without number and key."""

    draw_id: str
    made_of: str
    template: Any


Replicated = TypeVar("Replicated", bound=TreeRelease)


@dataclass(frozen=True)
class Replication(ABC, Generic[Replicated]):
    """How an algorithm's replicates are made. `schemas` are the histograms of a replicate."""

    release: Replicated

    schemas: ClassVar[Mapping[str, Schema]]

    @property
    @abstractmethod
    def declared(self) -> int:
        """The number of declared replicates."""

    @abstractmethod
    def read_made_of(self, session: Session, custody: Custody) -> str:
        """A digest of all inputs of replicates. Raises StaleInputError if the estimates are missing, as after a
        withdrawal, or were altered."""

    @abstractmethod
    def read_basis(self, session: Session, custody: Custody) -> Basis:
        """Raises StaleInputError as `read_made_of`."""

    def require_estimates(self, session: Session, custody: Custody) -> None:
        """Raise StaleInputError unless the estimates come from the stored measurements."""

    def complete(self, session: Session, custody: Custody, task: Any) -> Any:
        """A task completed with the inputs that only its own replicate needs."""
        return task

    @abstractmethod
    def perform(self, tasks: Iterator[Any], number: int) -> Generator[Replicate, None, None]:
        """Make `number` replicates, in order."""


class TopDownReplication(Replication[TopDownRelease]):
    schemas = SCHEMAS

    @property
    def declared(self) -> int:
        return self.release.declaration.replicates

    def read_made_of(self, session: Session, custody: Custody) -> str:
        stored = session.columns(self.release.public(SPINE))
        estimates = hash_estimates(session, custody, self.release) if stored else None
        if estimates is None:
            raise StaleInputError(
                f"{self.release.schema}: the estimates of {self.release.finest} are missing or were altered; "
                f"materialize {self.release.estimated} first"
            )
        return sha256(json.dumps([VERSION, estimates]).encode()).hexdigest()

    def read_basis(self, session: Session, custody: Custody) -> Basis:
        release = self.release
        estimates = release.public(release.estimates(release.finest))
        tree, made_of = read_tree(session, release), self.read_made_of(session, custody)
        counts = {
            name: read_counts(session, estimates, schema.size, 0, tree.places(release.finest), histogram=name)
            for name, schema in SCHEMAS.items()
        }
        template = ReplicateTask(0, b"", release.design, tree.parents, counts, derive_all_limits(session, release))
        return Basis(read_draw_id(session, release), made_of, template)

    def require_estimates(self, session: Session, custody: Custody) -> None:
        release = self.release
        wrong, _ = find_wrong_levels(session, custody, release)
        if wrong:
            level, by_state = wrong[0].level, release.is_by_state(wrong[0].level)
            stage = release.estimated if by_state and not wrong[0].state else release.estimates(level)
            raise StaleInputError(
                f"{release.schema}: the estimates of {wrong[0]} are not those of the stored measurements; materialize "
                f"{stage} first"
            )

    def perform(self, tasks: Iterator[ReplicateTask], number: int) -> Generator[Replicate, None, None]:
        yield from perform(make_replicate, tasks, min(self.release.processes, number), self.release.scheduler)


def build_replicates(how: Replication[Any], description: str, after: str) -> dg.AssetsDefinition:
    """The asset, which follows the stage `after`."""
    release, (*others, last) = how.release, how.schemas
    columns = {**COLUMNS, "histogram": f"Histogram: {', '.join(others)} or {last}"}

    @release_stage(
        release, REPLICATES, StageKind.POSTPROCESSING, description, [after], kinds={"duckdb", "numba", "highs"}
    )
    def replicates(context: dg.AssetExecutionContext, warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        def report(done: int, declared: int) -> None:
            context.log.info(f"{done:,} of {declared:,} replicates")

        made = make_replicates(release.adapt(warehouse), custody, how, report)
        table = release.public(REPLICATES)
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            metadata = public_table_metadata(session, table)
            schema = table_schema(session.columns(table), columns)
        contents = json.dumps([replicate.content for replicate in made])
        return dg.MaterializeResult(
            data_version=dg.DataVersion(sha256(contents.encode()).hexdigest()),
            metadata={
                **metadata,
                "replicates": len(made),
                "processor time (s)": round_figures(sum(replicate.seconds for replicate in made)),
                "dagster/column_schema": schema,
            },
        )

    return replicates


def make_replicates(
    warehouse: Warehouse, custody: Custody, how: Replication[Any], report: Report
) -> tuple[Account, ...]:
    """Make and store the missing replicates; return the accounts of all replicates, by number.

    Reports every few seconds, and at the end. Raises StaleInputError unless the estimates come from the stored
    measurements throughout, and errors of the estimation as `estimate_level`.
    """
    release = how.release
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        how.require_estimates(session, custody)
        basis = how.read_basis(session, custody)
        stored = read_accounts(session, custody, release)
        kept = {account.replicate: account for account in stored if is_current(session, how, basis.made_of, account)}
        clean = bool(stored) and len(kept) == len(stored) and not _count_surplus(session, how, kept)
    if not clean:
        with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
            _discard(session, custody, how, kept)
    missing = [number for number in range(1, how.declared + 1) if number not in kept]

    def list_tasks() -> Iterator[Any]:
        for number in missing:
            with warehouse.session(reads=[Zone.PUBLIC]) as session:
                task = _task(session, custody, how, basis, number)
            yield task

    reported = time.monotonic()
    with closing(how.perform(list_tasks(), max(len(missing), 1))) as replicates:
        for number, counts, seconds in replicates:
            kept[number] = Account(number, basis.made_of, hash_counts(counts), seconds)
            with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
                if how.read_made_of(session, custody) != basis.made_of:
                    raise StaleInputError(f"{release.schema}: estimates were replaced while replicates were made")
                rows = session.register("rows", _as_rows(number, counts))
                session.run(_APPEND, table=release.public(REPLICATES), rows=rows)
                _write_accounts(session, custody, release, kept)
            if len(kept) == how.declared or time.monotonic() - reported >= SECONDS_BETWEEN_REPORTS:
                report(len(kept), how.declared)
                reported = time.monotonic()
    return tuple(kept[number] for number in sorted(kept))


def derive_key(draw_id: str, replicate: int) -> bytes:
    """The public key of a replicate's noise, 32 bytes."""
    return sha256(f"stirred replicate {replicate} of draw {draw_id}".encode()).digest()


def hash_counts(counts: Mapping[str, Counts]) -> str:
    """The SHA-256 of a replicate's counts, in the order of histograms, places and cells."""
    return _hash_parts({histogram: [of] for histogram, of in counts.items()})


def _hash_parts(counts: Mapping[str, Iterable[Counts]]) -> str:
    """As `hash_counts`, with the counts of a histogram in parts. The hash is independent of the number of parts."""
    digests = {}
    for histogram, parts in counts.items():
        digest = sha256()
        for part in parts:
            digest.update(np.column_stack([part.number, part.cell, part.count]).astype("<i8", copy=False).data)
        digests[histogram] = digest.hexdigest()
    return sha256(json.dumps(list(digests.items())).encode()).hexdigest()


def read_accounts(session: Session, custody: Custody, release: TreeRelease) -> tuple[Account, ...]:
    """The accounts of the stored replicates, by number; none if their table was altered."""
    accounts, table = _accounts(release), release.public(REPLICATES)
    if session.columns(table) != _TYPES or not is_sealed(session, custody, release.schema, REPLICATES, [accounts]):
        return ()
    return tuple(sorted(Account(*row) for row in session.rows("warehouse/all", source=accounts)))


def hash_replicate(session: Session, how: Replication[Any], replicate: int) -> str:
    """As `hash_counts`, for a stored replicate."""
    table, places = how.release.public(REPLICATES), read_tree(session, how.release).places(how.release.finest)

    def read_parts(histogram: str) -> Iterator[Counts]:
        chosen: dict[str, Any] = {"histogram": histogram, "replicate": replicate}
        for first, last in cut_places(session, table, 0, places, **chosen):
            yield read_counts(session, table, how.schemas[histogram].size, first, last, **chosen)

    return _hash_parts({histogram: read_parts(histogram) for histogram in how.schemas})


def replicates_gate(how: Replication[Any]) -> Gate[Any]:
    return Gate("replicates_as_made", REPLICATES, read_claim(check_replicates), partial(check_replicates, how))


def check_replicates(how: Replication[Any], context: ReleaseContext[Any]) -> list[str]:
    """The stored replicates are those that were made from the current estimates, and one of them, chosen by the draw
    id, is the same when it is made again."""
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        stored = read_accounts(session, context.custody, how.release)
        if [account.replicate for account in stored] != list(range(1, how.declared + 1)):
            return [f"the stored replicates are not those from 1 to {how.declared}, or were altered"]
        try:
            basis = how.read_basis(session, context.custody)
            chosen = stored[choose_replicate(basis.draw_id, how.declared) - 1]
            task = _task(session, context.custody, how, basis, chosen.replicate)
        except StaleInputError as error:
            return [str(error)]
        problems = [
            f"replicate {account.replicate}: altered, or made from other estimates"
            for account in stored
            if not is_current(session, how, basis.made_of, account)
        ]
        surplus = _count_surplus(session, how, [account.replicate for account in stored])
        problems += count_problem(surplus, "rows of no replicate or place")
    ((_, counts, _),) = how.perform(iter([task]), 1)
    if hash_counts(counts) != chosen.content:
        problems.append(f"replicate {chosen.replicate}: made again, it differs")
    return problems


def choose_replicate(draw_id: str, replicates: int) -> int:
    return 1 + int(sha256(draw_id.encode()).hexdigest(), 16) % replicates


def _task(session: Session, custody: Custody, how: Replication[Any], basis: Basis, number: int) -> Any:
    task = replace(basis.template, replicate=number, key=derive_key(basis.draw_id, number))
    return how.complete(session, custody, task)


def is_current(session: Session, how: Replication[Any], made_of: str, account: Account) -> bool:
    """Whether a stored replicate is declared, was made from the current estimates, and is unaltered."""
    if not 1 <= account.replicate <= how.declared or account.made_of != made_of:
        return False
    try:
        return hash_replicate(session, how, account.replicate) == account.content
    except GridError:
        return False


def _count_surplus(session: Session, how: Replication[Any], replicates: Iterable[int]) -> int:
    table = how.release.public(REPLICATES)
    (rows,) = session.row("topdown/surplus_replicates", _list_due(session, how, replicates), replicates=table)
    return int(rows)


def _list_due(session: Session, how: Replication[Any], replicates: Iterable[int]) -> dict[str, Any]:
    """The replicates, histograms and places whose counts belong in the table."""
    places = read_tree(session, how.release).places(how.release.finest)
    return {"replicates": list(replicates), "histograms": list(how.schemas), "places": places}


def _discard(session: Session, custody: Custody, how: Replication[Any], kept: Mapping[int, Account]) -> None:
    table = how.release.public(REPLICATES)
    if kept:
        session.run(_DELETE, _list_due(session, how, kept), replicates=table)
    else:
        session.create(table, "warehouse/all", source=session.register("none", _ROWS.empty_table()))
    _write_accounts(session, custody, how.release, kept)


def _write_accounts(session: Session, custody: Custody, release: TreeRelease, kept: Mapping[int, Account]) -> None:
    rows = pa.Table.from_pylist([vars(kept[number]) for number in sorted(kept)], schema=_ACCOUNT)
    store_sealed(session, custody, release.schema, REPLICATES, _accounts(release), rows)


def _accounts(release: TreeRelease) -> Table:
    return release.public(f"{REPLICATES}_made")


def _as_rows(number: int, counts: Mapping[str, Counts]) -> pa.Table:
    return pa.concat_tables(
        pa.table(
            {
                "replicate": np.full(len(of.count), number),
                "histogram": pa.repeat(histogram, len(of.count)),
                "number": of.number,
                "cell": of.cell,
                "count": of.count,
            },
            schema=_ROWS,
        )
        for histogram, of in counts.items()
    )
