"""The asset `replicates`: the whole algorithm again on the published counts, as often as the release declares.

A replicate runs noise and estimation on the estimates of the finest level, which the microdata show, in the place of
the CEF, with the same design and the same invariants. `mechanisms.topdown.replicates` makes it; `workers` runs several
side by side; `uncertainty` makes errors of their deviations. Only public tables are read, so nothing is charged.

The key of a replicate's noise follows from the draw id and the replicate's number alone, and both are public: every
reader of microdata, spine, exact statistics and certificate can make the same replicates. That is safe because they are
computed from what is published. A draw's key is an HMAC under the custody, or random, and the streams of draws have
other labels, so no replicate has the noise of a draw.

Each finished replicate is stored in one transaction, with its hash and with what it was made of, under the custody's
seal. A run that was killed continues with those that are missing. Replicates of another draw, of other estimates, or
with numbers that are no longer declared are deleted. All counts are integers, which depend neither on time nor on the
number of processes.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass
from hashlib import sha256

import dagster as dg
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.conventions import StageKind, public_table_metadata, table_schema
from assets.gates.shared import count_problem
from assets.release.draw import StaleInputError
from assets.release.gate import ReleaseContext
from assets.release.seal import is_sealed, seal_stage
from assets.release.stage import release_stage
from assets.topdown.estimation import (
    SECONDS_BETWEEN_REPORTS,
    Report,
    drawn_id,
    estimates_version,
    levels_not_as_made,
    processes_of,
)
from assets.topdown.limits import limits_of
from assets.topdown.release import REPLICATES, TopDownRelease
from assets.topdown.tree import read_tree
from assets.topdown.workers import Replicated, on_cluster, replicated, side_by_side
from mechanisms.topdown.design import SCHEMAS, words
from mechanisms.topdown.replicates import Counts, Limited
from resources.custody import Custody
from resources.statements import SQL, Table, Zone
from resources.warehouse import Session, Warehouse

_APPEND = SQL("topdown/append", "INSERT INTO {{ table }} FROM {{ rows }}")

VERSION = 1
"""The version of the method. Increase it when the same estimates would give other replicates."""

COLUMNS = {
    "replicate": "Number of the replicate, from 1",
    "histogram": "Histogram: persons or units",
    "number": "Number of the place of the finest level, as in the spine",
    "cell": "Number of the cell in the histogram",
    "count": "Count of the replicate; cells with count 0 are left out",
}

_TYPES = {name: "VARCHAR" if name == "histogram" else "BIGINT" for name in COLUMNS}


@dataclass(frozen=True, order=True)
class Made:
    """How a replicate was made; stored for each.

    Attributes:
        made_of: a digest of everything that it follows from.
        content: the SHA-256 of its counts.
        seconds: the processor time.
    """

    replicate: int
    made_of: str
    content: str
    seconds: float


@dataclass(frozen=True)
class Basis:
    """What all replicates of a release follow from.

    Attributes:
        made_of: `Made.made_of` of current replicates.
        parents: for each level below the root, the parent of each place.
    """

    draw_id: str
    made_of: str
    parents: Sequence[NDArray[np.int64]]
    counts: Mapping[str, Counts]
    limits: Limited


def build_replicates(release: TopDownRelease) -> dg.AssetsDefinition:
    @release_stage(
        release,
        REPLICATES,
        StageKind.POSTPROCESSING,
        _DESCRIPTION.format(replicates=release.declaration.replicates, finest=words(release.finest)),
        [release.estimated],
        kinds={"duckdb", "numba", "highs"},
    )
    def replicates(context: dg.AssetExecutionContext, warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        def report(done: int, declared: int) -> None:
            context.log.info(f"{done:,} of {declared:,} replicates")

        made = make_replicates(warehouse, custody, release, report)
        table = release.public(REPLICATES)
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            metadata = public_table_metadata(session, table)
            schema = table_schema(session.columns(table), COLUMNS)
        contents = json.dumps([each.content for each in made])
        return dg.MaterializeResult(
            data_version=dg.DataVersion(sha256(contents.encode()).hexdigest()),
            metadata={
                **metadata,
                "replicates": len(made),
                "processor time (s)": sum(each.seconds for each in made),
                "dagster/column_schema": schema,
            },
        )

    return replicates


def make_replicates(
    warehouse: Warehouse, custody: Custody, release: TopDownRelease, report: Report
) -> tuple[Made, ...]:
    """Make and store the replicates that are missing; return how all of them were made, by number.

    Args:
        warehouse: the warehouse, whose public zone is read and written.
        release: a release with replicates. The result does not depend on its number of processes.
        report: called every few seconds, and at the end, with the number of replicates that are stored.

    Raises:
        StaleInputError: if the estimates do not come from the stored measurements, or are replaced in the meantime.
        NotSolvedError, NotRoundedError: if a replicate cannot be estimated.
        WorkerError: if one of the processes ends prematurely.
    """
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        wrong, _ = levels_not_as_made(session, custody, release)
        if wrong:
            level, by_state = wrong[0].level, release.is_by_state(wrong[0].level)
            stage = release.estimated if by_state and not wrong[0].state else release.estimates(level)
            raise StaleInputError(
                f"{release.schema}: the estimates of {wrong[0]} are not those of the stored measurements; materialize "
                f"{stage} first"
            )
        basis = basis_of(session, custody, release)
        stored = stored_replicates(session, custody, release)
        kept = {each.replicate: each for each in stored if _is_current(session, release, basis, each)}
        clean = bool(stored) and len(kept) == len(stored) and not _surplus(session, release, kept)
    if not clean:
        with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
            _discard(session, custody, release, kept)
    missing = [number for number in range(1, release.declaration.replicates + 1) if number not in kept]
    tasks = (_task(release, basis, number) for number in missing)
    reported = time.monotonic()
    processes = min(processes_of(release), max(len(missing), 1))
    found = (
        on_cluster(replicated, tasks, release.scheduler)
        if release.scheduler
        else side_by_side(replicated, tasks, processes)
    )
    with closing(found) as results:
        for number, counts, seconds in results:
            made = Made(number, basis.made_of, content_of(counts), seconds)
            kept[number] = made
            with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
                if _made_of(session, custody, release) != basis.made_of:
                    raise StaleInputError(f"{release.schema}: estimates were replaced while replicates were made")
                rows = session.register("rows", _as_rows(number, counts))
                session.run(_APPEND, table=release.public(REPLICATES), rows=rows)
                _account(session, custody, release, kept)
            if len(kept) == release.declaration.replicates or time.monotonic() - reported >= SECONDS_BETWEEN_REPORTS:
                report(len(kept), release.declaration.replicates)
                reported = time.monotonic()
    return tuple(kept[number] for number in sorted(kept))


def basis_of(session: Session, custody: Custody, release: TopDownRelease) -> Basis:
    """What current replicates follow from, as it is stored.

    Raises:
        StaleInputError: if the estimates of the finest level were altered.
    """
    estimates = release.public(release.estimates(release.finest))
    counts = {
        histogram: _counts(session.arrow("topdown/estimated", {"histogram": histogram}, estimates=estimates))
        for histogram in SCHEMAS
    }
    parents = read_tree(session, release).parents
    made_of = _made_of(session, custody, release)
    return Basis(drawn_id(session, release), made_of, parents, counts, limits_of(session, release))


def key_of(draw_id: str, replicate: int) -> bytes:
    """The public key of a replicate's noise, 32 bytes."""
    return sha256(f"stirred replicate {replicate} of draw {draw_id}".encode()).digest()


def content_of(counts: Mapping[str, Counts]) -> str:
    """The SHA-256 of a replicate's counts, in the order of histograms, places and cells."""
    digest = sha256()
    for histogram in SCHEMAS:
        of = counts[histogram]
        digest.update(f"{histogram} {len(of.count)}\n".encode())
        for array in (of.number, of.cell, of.count):
            digest.update(np.ascontiguousarray(array, dtype="<i8").data)
    return digest.hexdigest()


def stored_replicates(session: Session, custody: Custody, release: TopDownRelease) -> tuple[Made, ...]:
    """How the stored replicates were made, by number; none if the account of them was altered."""
    account, table = _made_table(release), release.public(REPLICATES)
    if session.columns(table) != _TYPES or not is_sealed(session, custody, release.schema, REPLICATES, [account]):
        return ()
    return tuple(sorted(Made(*row) for row in session.rows("warehouse/all", source=account)))


def read_replicate(session: Session, release: TopDownRelease, replicate: int) -> dict[str, Counts]:
    return {histogram: read_histogram(session, release, replicate, histogram) for histogram in SCHEMAS}


def read_histogram(session: Session, release: TopDownRelease, replicate: int, histogram: str) -> Counts:
    values = {"replicate": replicate, "histogram": histogram}
    return _counts(session.arrow("topdown/replicate", values, replicates=release.public(REPLICATES)))


def replicates_as_made(context: ReleaseContext[TopDownRelease]) -> list[str]:
    """Problems with the stored replicates: missing or altered ones, and one that is made again and differs.

    The draw id chooses the one that is made again.
    """
    release = context.release
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        stored = stored_replicates(session, context.custody, release)
        if [each.replicate for each in stored] != list(range(1, release.declaration.replicates + 1)):
            return [f"the stored replicates are not those from 1 to {release.declaration.replicates}, or were altered"]
        try:
            basis = basis_of(session, context.custody, release)
        except StaleInputError as error:
            return [str(error)]
        problems = [
            f"replicate {each.replicate}: altered, or made from other estimates"
            for each in stored
            if not _is_current(session, release, basis, each)
        ]
        surplus = _surplus(session, release, [each.replicate for each in stored])
        problems += count_problem(surplus, "rows of no replicate")
    chosen = stored[chosen_replicate(basis.draw_id, release.declaration.replicates) - 1]
    _, counts, _ = replicated(_task(release, basis, chosen.replicate))
    if content_of(counts) != chosen.content:
        problems.append(f"replicate {chosen.replicate}: made again, it differs")
    return problems


def chosen_replicate(draw_id: str, replicates: int) -> int:
    return 1 + int(sha256(draw_id.encode()).hexdigest(), 16) % replicates


def _made_of(session: Session, custody: Custody, release: TopDownRelease) -> str:
    """A digest of the current estimates, which are made of draw, design, spine, invariants and limits."""
    estimates = estimates_version(session, custody, release)
    if estimates is None:
        raise StaleInputError(
            f"{release.schema}: the estimates of {release.finest} were altered; materialize {release.estimated} first"
        )
    return sha256(json.dumps([VERSION, estimates]).encode()).hexdigest()


def _task(release: TopDownRelease, basis: Basis, number: int) -> Replicated:
    key = key_of(basis.draw_id, number)
    return Replicated(number, key, release.design, basis.parents, basis.counts, basis.limits)


def _is_current(session: Session, release: TopDownRelease, basis: Basis, made: Made) -> bool:
    """Whether a stored replicate is declared, was made from the current estimates, and is as it was made."""
    return (
        1 <= made.replicate <= release.declaration.replicates
        and made.made_of == basis.made_of
        and content_of(read_replicate(session, release, made.replicate)) == made.content
    )


def _surplus(session: Session, release: TopDownRelease, replicates: Iterable[int]) -> int:
    (rows,) = session.row(
        "topdown/surplus_replicates",
        {"replicates": list(replicates), "histograms": list(SCHEMAS)},
        replicates=release.public(REPLICATES),
    )
    return int(rows)


def _discard(session: Session, custody: Custody, release: TopDownRelease, kept: Mapping[int, Made]) -> None:
    parts = [_as_rows(number, read_replicate(session, release, number)) for number in sorted(kept)]
    rows = pa.concat_tables(parts) if parts else _NO_ROWS
    session.create(release.public(REPLICATES), "warehouse/all", source=session.register("kept", rows))
    _account(session, custody, release, kept)


def _account(session: Session, custody: Custody, release: TopDownRelease, kept: Mapping[int, Made]) -> None:
    rows = [astuple(kept[number]) for number in sorted(kept)]
    names = ("replicate", "made_of", "content", "seconds")
    types = (pa.int64(), pa.string(), pa.string(), pa.float64())
    columns = {
        name: pa.array([row[position] for row in rows], kind)
        for position, (name, kind) in enumerate(zip(names, types, strict=True))
    }
    session.create(_made_table(release), "warehouse/all", source=session.register("made", pa.table(columns)))
    seal_stage(session, custody, release.schema, REPLICATES, [_made_table(release)])


def _made_table(release: TopDownRelease) -> Table:
    return release.public(f"{REPLICATES}_made")


def _counts(rows: pa.Table) -> Counts:
    return Counts(*(rows[name].to_numpy() for name in ("number", "cell", "count")))


_NO_ROWS = pa.table(
    {name: pa.nulls(0, pa.string() if kind == "VARCHAR" else pa.int64()) for name, kind in _TYPES.items()}
)


def _as_rows(number: int, counts: Mapping[str, Counts]) -> pa.Table:
    return pa.concat_tables(
        pa.table(
            {
                "replicate": np.full(len(of.count), number),
                "histogram": pa.repeat(histogram, len(of.count)),
                "number": of.number,
                "cell": of.cell,
                "count": of.count,
            }
        )
        for histogram, of in counts.items()
    )


_DESCRIPTION = """{replicates} replicates for the errors of the tables. Each runs the whole algorithm, noise and
estimation, on the estimates of every {finest} in the place of the true counts, with the same budgets and invariants and
with noise of its own.

This stage reads only public tables, so it charges nothing. The key of a replicate's noise follows from the draw id and
its number, so that every reader of the microdata, the spine and the exact statistics can make the replicates again.
Each is stored when it is finished, so a new run makes only those that are missing."""
