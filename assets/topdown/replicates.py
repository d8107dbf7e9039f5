"""The asset `replicates`: the whole algorithm again on the published counts, as often as the release declares.

A replicate runs noise and estimation on the estimates of the finest level, which the microdata show, in the place of
the CEF, with the same design and the same invariants. `mechanisms.topdown.replicates` makes it; `workers` runs several
at a time; `uncertainty` makes errors of their deviations. Only public tables are read, so nothing is charged.

The key of a replicate's noise follows from the draw id and the replicate's number alone, and both are public: every
reader of microdata, spine, exact statistics and certificate can make the same replicates. A draw's key is an HMAC under
the custody, or random, and the streams of draws have other labels, so no replicate has the noise of a draw.

Each finished replicate is stored in one transaction, with its hash and with what it was made of, under the custody's
seal. A run that was killed continues with those that are missing. Replicates of another draw, of other estimates, or
with numbers that are no longer declared are deleted.
"""

import json
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from hashlib import sha256

import dagster as dg
import numpy as np
import pyarrow as pa

from assets.conventions import StageKind, public_table_metadata, table_schema
from assets.gates.shared import count_problem
from assets.release.draw import StaleInputError
from assets.release.gate import ReleaseContext
from assets.release.seal import is_sealed, seal_stage
from assets.release.stage import release_stage
from assets.topdown.estimation import (
    SECONDS_BETWEEN_REPORTS,
    Report,
    count_processes,
    find_wrong_levels,
    hash_estimates,
    read_draw_id,
)
from assets.topdown.histograms import read_counts
from assets.topdown.invariants import derive_all_limits
from assets.topdown.release import REPLICATES, TEXTS, TopDownRelease
from assets.topdown.spine import read_tree
from assets.topdown.workers import ReplicateTask, make_replicate, perform
from mechanisms.topdown.design import SCHEMAS, words
from mechanisms.topdown.schema import Counts
from resources.custody import Custody
from resources.statements import SQL, Table, Zone
from resources.warehouse import Session, Warehouse

_APPEND = SQL("topdown/append", "INSERT INTO {{ table }} FROM {{ rows }}")

VERSION = 1
"""Increase it when the same estimates would give other replicates."""

COLUMNS = {
    "replicate": "Number of the replicate, from 1",
    "histogram": "Histogram: persons or units",
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
    """How a stored replicate was made: of what, by a digest; with which counts, by theirs; in which processor time."""

    replicate: int
    made_of: str
    content: str
    seconds: float


@dataclass(frozen=True)
class Basis:
    """What all replicates of a release follow from; `made_of` is that of current accounts."""

    draw_id: str
    made_of: str
    template: ReplicateTask


def build_replicates(release: TopDownRelease) -> dg.AssetsDefinition:
    @release_stage(
        release,
        REPLICATES,
        StageKind.POSTPROCESSING,
        TEXTS("replicates", replicates=release.declaration.replicates, finest=words(release.finest)),
        [release.estimated],
        kinds={"duckdb", "numba", "highs"},
    )
    def replicates(context: dg.AssetExecutionContext, warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        def report(done: int, declared: int) -> None:
            context.log.info(f"{done:,} of {declared:,} replicates")

        made = make_replicates(release.adapt(warehouse), custody, release, report)
        table = release.public(REPLICATES)
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            metadata = public_table_metadata(session, table)
            schema = table_schema(session.columns(table), COLUMNS)
        contents = json.dumps([replicate.content for replicate in made])
        return dg.MaterializeResult(
            data_version=dg.DataVersion(sha256(contents.encode()).hexdigest()),
            metadata={
                **metadata,
                "replicates": len(made),
                "processor time (s)": sum(replicate.seconds for replicate in made),
                "dagster/column_schema": schema,
            },
        )

    return replicates


def make_replicates(
    warehouse: Warehouse, custody: Custody, release: TopDownRelease, report: Report
) -> tuple[Account, ...]:
    """Make and store the replicates that are missing; return how all of them were made, by number.

    Reports come every few seconds, and at the end. Raises StaleInputError if the estimates are not, or no longer, those
    of the stored measurements, and errors of the estimation as `estimate_level`.
    """
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        wrong, _ = find_wrong_levels(session, custody, release)
        if wrong:
            level, by_state = wrong[0].level, release.is_by_state(wrong[0].level)
            stage = release.estimated if by_state and not wrong[0].state else release.estimates(level)
            raise StaleInputError(
                f"{release.schema}: the estimates of {wrong[0]} are not those of the stored measurements; materialize "
                f"{stage} first"
            )
        basis = read_basis(session, custody, release)
        stored = read_accounts(session, custody, release)
        kept = {account.replicate: account for account in stored if _is_current(session, release, basis, account)}
        clean = bool(stored) and len(kept) == len(stored) and not _count_surplus(session, release, kept)
    if not clean:
        with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
            _discard(session, custody, release, kept)
    missing = [number for number in range(1, release.declaration.replicates + 1) if number not in kept]
    tasks = (_task(basis, number) for number in missing)
    reported, processes = time.monotonic(), min(count_processes(release), max(len(missing), 1))
    with closing(perform(make_replicate, tasks, processes, release.scheduler)) as replicates:
        for number, counts, seconds in replicates:
            kept[number] = Account(number, basis.made_of, hash_counts(counts), seconds)
            with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
                if _made_of(session, custody, release) != basis.made_of:
                    raise StaleInputError(f"{release.schema}: estimates were replaced while replicates were made")
                rows = session.register("rows", _as_rows(number, counts))
                session.run(_APPEND, table=release.public(REPLICATES), rows=rows)
                _write_accounts(session, custody, release, kept)
            if len(kept) == release.declaration.replicates or time.monotonic() - reported >= SECONDS_BETWEEN_REPORTS:
                report(len(kept), release.declaration.replicates)
                reported = time.monotonic()
    return tuple(kept[number] for number in sorted(kept))


def read_basis(session: Session, custody: Custody, release: TopDownRelease) -> Basis:
    """What current replicates follow from. Raises StaleInputError if the estimates of the finest level were altered."""
    estimates = release.public(release.estimates(release.finest))
    counts = {histogram: read_counts(session, estimates, histogram=histogram) for histogram in SCHEMAS}
    parents, made_of = read_tree(session, release).parents, _made_of(session, custody, release)
    template = ReplicateTask(0, b"", release.design, parents, counts, derive_all_limits(session, release))
    return Basis(read_draw_id(session, release), made_of, template)


def derive_key(draw_id: str, replicate: int) -> bytes:
    """The public key of a replicate's noise, 32 bytes."""
    return sha256(f"stirred replicate {replicate} of draw {draw_id}".encode()).digest()


def hash_counts(counts: Mapping[str, Counts]) -> str:
    """The SHA-256 of a replicate's counts, in the order of histograms, places and cells."""
    digest = sha256()
    for histogram in SCHEMAS:
        of = counts[histogram]
        digest.update(f"{histogram} {len(of.count)}\n".encode())
        for array in (of.number, of.cell, of.count):
            digest.update(np.ascontiguousarray(array, dtype="<i8").data)
    return digest.hexdigest()


def read_accounts(session: Session, custody: Custody, release: TopDownRelease) -> tuple[Account, ...]:
    """How the stored replicates were made, by number; none if the account of them was altered."""
    accounts, table = _accounts(release), release.public(REPLICATES)
    if session.columns(table) != _TYPES or not is_sealed(session, custody, release.schema, REPLICATES, [accounts]):
        return ()
    return tuple(sorted(Account(*row) for row in session.rows("warehouse/all", source=accounts)))


def read_replicate(session: Session, release: TopDownRelease, replicate: int) -> dict[str, Counts]:
    table = release.public(REPLICATES)
    return {histogram: read_counts(session, table, histogram=histogram, replicate=replicate) for histogram in SCHEMAS}


def check_replicates(context: ReleaseContext[TopDownRelease]) -> list[str]:
    """The stored replicates are those that were made from the current estimates, and one of them, chosen by the draw
    id, is the same when it is made again."""
    release = context.release
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        stored = read_accounts(session, context.custody, release)
        if [account.replicate for account in stored] != list(range(1, release.declaration.replicates + 1)):
            return [f"the stored replicates are not those from 1 to {release.declaration.replicates}, or were altered"]
        try:
            basis = read_basis(session, context.custody, release)
        except StaleInputError as error:
            return [str(error)]
        problems = [
            f"replicate {account.replicate}: altered, or made from other estimates"
            for account in stored
            if not _is_current(session, release, basis, account)
        ]
        surplus = _count_surplus(session, release, [account.replicate for account in stored])
        problems += count_problem(surplus, "rows of no replicate")
    chosen = stored[choose_replicate(basis.draw_id, release.declaration.replicates) - 1]
    _, counts, _ = make_replicate(_task(basis, chosen.replicate))
    if hash_counts(counts) != chosen.content:
        problems.append(f"replicate {chosen.replicate}: made again, it differs")
    return problems


def choose_replicate(draw_id: str, replicates: int) -> int:
    return 1 + int(sha256(draw_id.encode()).hexdigest(), 16) % replicates


def _made_of(session: Session, custody: Custody, release: TopDownRelease) -> str:
    """A digest of the current estimates, which are made of draw, design, spine, invariants and limits."""
    estimates = hash_estimates(session, custody, release)
    if estimates is None:
        raise StaleInputError(
            f"{release.schema}: the estimates of {release.finest} were altered; materialize {release.estimated} first"
        )
    return sha256(json.dumps([VERSION, estimates]).encode()).hexdigest()


def _task(basis: Basis, number: int) -> ReplicateTask:
    return replace(basis.template, replicate=number, key=derive_key(basis.draw_id, number))


def _is_current(session: Session, release: TopDownRelease, basis: Basis, account: Account) -> bool:
    """Whether a stored replicate is declared, was made from the current estimates, and is as it was made."""
    return (
        1 <= account.replicate <= release.declaration.replicates
        and account.made_of == basis.made_of
        and hash_counts(read_replicate(session, release, account.replicate)) == account.content
    )


def _count_surplus(session: Session, release: TopDownRelease, replicates: Iterable[int]) -> int:
    (rows,) = session.row(
        "topdown/surplus_replicates",
        {"replicates": list(replicates), "histograms": list(SCHEMAS)},
        replicates=release.public(REPLICATES),
    )
    return int(rows)


def _discard(session: Session, custody: Custody, release: TopDownRelease, kept: Mapping[int, Account]) -> None:
    parts = [_as_rows(number, read_replicate(session, release, number)) for number in sorted(kept)]
    rows = session.register("kept", pa.concat_tables([_ROWS.empty_table(), *parts]))
    session.create(release.public(REPLICATES), "warehouse/all", source=rows)
    _write_accounts(session, custody, release, kept)


def _write_accounts(session: Session, custody: Custody, release: TopDownRelease, kept: Mapping[int, Account]) -> None:
    rows = pa.Table.from_pylist([vars(kept[number]) for number in sorted(kept)], schema=_ACCOUNT)
    session.create(_accounts(release), "warehouse/all", source=session.register("made", rows))
    seal_stage(session, custody, release.schema, REPLICATES, [_accounts(release)])


def _accounts(release: TopDownRelease) -> Table:
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
