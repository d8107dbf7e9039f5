"""The estimation of a level, from its noisy measurements and the estimates of the level above, in one transaction.

This module reads the tables, divides the work into tasks, and writes and labels the results.
`mechanisms.topdown.estimation` estimates, and `workers` runs the pool of processes.

Next to the estimates of a level is an account of how they were made: from which draw, spine, invariants, limits and
estimates of the level above, by which version of the method, and from which measurements, with the SHA-256 of the
answers as they were read. The account is sealed under the custody (`assets.release.seal`) and contains the estimates'
content hash. If the stored estimates are made of what is stored now, they are not computed again. A new run therefore
continues at the level where a killed run stopped, with the same result: nothing depends on time, on order, or on the
number of processes. Because the answers are hashed as they are read, the gates notice if estimates were made from
measurements that were altered for a while and then restored.

No database is open during the computation. Measurements are read a few thousand places at a time, each time in a new
session, because a session that reads keeps other processes from writing and must not last for minutes. Each session
checks whether the measurements were drawn anew in the meantime. Results are kept in memory, without zero cells, and
written in one transaction at the end.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.release.draw import DRAWN, StaleInputError
from assets.release.seal import is_sealed, seal_stage
from assets.topdown.limits import limits_of
from assets.topdown.measurements import read_answers
from assets.topdown.release import INVARIANTS, SPINE, TopDownRelease
from assets.topdown.spine import geoids
from assets.topdown.streams import Stream, hashed, streams_of
from assets.topdown.tree import plural, read_tree
from assets.topdown.workers import Outcome, Task, outcomes
from mechanisms.topdown.design import SCHEMAS, words
from mechanisms.topdown.estimation import Families
from mechanisms.topdown.feasibility import Limits
from mechanisms.topdown.schema import Schema
from resources.custody import Custody
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse

VERSION = 1
"""The version of the method. Increase it when the same measurements would give other estimates."""

PLACES_AT_A_TIME = 4_000
"""The number of places read in one session: 40 MB of production's measurements."""

PLACES_OF_A_TASK = 400
"""The number of places given to a process at a time; fewer if a level has few. A parent's children are never split."""

SECONDS_BETWEEN_REPORTS = 5.0

Report = Callable[[int, int], None]
"""A function that is called with the number of finished parents and the number of all parents."""


class Digest(Protocol):
    """A running hash."""

    def update(self, data: memoryview, /) -> None:
        """Add bytes."""


Cells = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""Places, cells and counts of all nonzero cells, in order."""


@dataclass(frozen=True)
class Estimation:
    """How the estimates of a level were made; stored next to them.

    Attributes:
        made_of: a digest of everything that the estimates depend on, except the measurements themselves.
        read: the SHA-256 of the answers of each stream of the level as they were read, as JSON.
        content: the keyed content hash of the table of estimates.
        places: the number of places.
        parents: the number of their parents.
        solved: the number of pairs of a parent and a histogram whose children the constraints alone do not determine.
        gap: the largest duality gap of a real-valued solution, relative to its objective (absolute below 1).
        violation: the largest violation of a constraint by a real-valued solution; the integers violate none.
        seconds: the processor time over all processes.
    """

    made_of: str
    read: str
    content: str
    places: int
    parents: int
    solved: int
    gap: float
    violation: float
    seconds: float


@dataclass(frozen=True)
class _Basis:
    """The stored data that all levels depend on.

    Attributes:
        draw_id: the draw of the measurements.
        content: the keyed content hash of spine and invariants.
        limits: by histogram, the limits of each level.
    """

    draw_id: str
    content: str
    limits: Mapping[str, Sequence[Limits]]


@dataclass(frozen=True)
class _Plan:
    """Everything needed for a level except its measurements.

    Attributes:
        basis: what all levels depend on.
        made_of: `Estimation.made_of` of the level's estimates.
        starts: shape (parents + 1,): the children of each parent.
        parents: a description of each parent's children, for error messages.
        limits: the limits of the level's places, by histogram.
        above: the parents' estimates, by histogram; None at the root.
        streams: the streams of the level's measurements.
    """

    basis: _Basis
    made_of: str
    starts: NDArray[np.int64]
    parents: tuple[str, ...]
    limits: Mapping[str, Limits]
    above: Mapping[str, Cells] | None
    streams: tuple[Stream, ...]


def estimate_level(
    warehouse: Warehouse, custody: Custody, release: TopDownRelease, level: str, report: Report
) -> Estimation:
    """Estimate all places of a level and store their histograms, unless current estimates are stored already.

    Args:
        warehouse: the warehouse, whose public zone is read and written.
        custody: the custody that seals the account.
        release: the release. The result does not depend on its number of processes.
        level: one of its levels; the level above must be estimated already.
        report: called every few seconds, and at the end.

    Raises:
        StaleInputError: if the estimates of the level above do not come from the stored measurements, or the
            measurements are drawn anew during the estimation.
        GridError: if measurements are missing.
        NotSolvedError, NotRoundedError: if a parent's children cannot be estimated; the message names the parent.
        WorkerError: if one of the processes ends prematurely.
        InfeasibleError, SpineError: if the stored invariants or the stored spine are not those that were charged.
    """
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        basis = _basis(session, custody, release)
        above = _above(session, custody, release, basis, level)
        stored = stored_estimation(session, custody, release, level)
        if stored and stored.made_of == _made_of(release, basis, level, above):
            return stored
        plan = _plan(session, release, level, basis, above)
    found: list[Outcome] = []
    read = {stream.label: sha256() for stream in plan.streams}
    done, parents, reported = 0, len(plan.parents), time.monotonic()
    processes = min(processes_of(release), parents)
    with closing(outcomes(_tasks(warehouse, release, level, plan, read), processes)) as solved:
        for outcome in solved:
            found.append(outcome)
            done += outcome.parents
            if done == parents or time.monotonic() - reported >= SECONDS_BETWEEN_REPORTS:
                report(done, parents)
                reported = time.monotonic()
    with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
        if drawn_id(session, release) != basis.draw_id:
            raise StaleInputError(f"{release.schema}: measurements were drawn anew while {level} was estimated")
        answers = {label: digest.hexdigest() for label, digest in read.items()}
        return _write(session, custody, release, level, plan, answers, sorted(found, key=lambda each: each.first))


def stored_estimation(session: Session, custody: Custody, release: TopDownRelease, level: str) -> Estimation | None:
    """How the stored estimates of a level were made; None if there are none, or they or their account were altered."""
    table, account = _account(release, level)
    if not session.columns(table) or not is_sealed(
        session, custody, release.schema, release.estimates(level), [account]
    ):
        return None
    stored = Estimation(*session.row("warehouse/all", source=account))
    return stored if session.content_version([table], custody.seal_key()) == stored.content else None


def levels_not_as_made(
    session: Session, custody: Custody, release: TopDownRelease
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """How the stored estimates of all levels were made.

    Returns:
        The levels whose estimates were altered, or not made from the current draw, spine and invariants, up to the
        first whose account is no longer known; and by label, the SHA-256 of the answers of each stream as they were
        read.
    """
    basis = _basis(session, custody, release)
    wrong: list[str] = []
    read: dict[str, str] = {}
    above: Estimation | None = None
    for level in release.levels:
        stored = stored_estimation(session, custody, release, level)
        if stored is None or stored.made_of != _made_of(release, basis, level, above):
            wrong.append(level)
        if stored is None:
            break
        read |= json.loads(stored.read)
        above = stored
    return tuple(wrong), read


def processes_of(release: TopDownRelease) -> int:
    return release.processes or os.cpu_count() or 1


def _account(release: TopDownRelease, level: str) -> tuple[Table, Table]:
    """The table of a level's estimates, and the table that describes how they were made."""
    name = release.estimates(level)
    return release.public(name), release.public(f"{name}_made")


def _basis(session: Session, custody: Custody, release: TopDownRelease) -> _Basis:
    places = [release.public(SPINE), release.public(INVARIANTS)]
    content = session.content_version(places, custody.seal_key())
    return _Basis(drawn_id(session, release), content, limits_of(session, release))


def drawn_id(session: Session, release: TopDownRelease) -> str:
    (draw_id,) = session.row("warehouse/labelled", table=release.public(DRAWN), column="draw_id")
    return str(draw_id)


def _made_of(release: TopDownRelease, basis: _Basis, level: str, above: Estimation | None) -> str:
    """`Estimation.made_of` of current estimates. The estimates above are identified by what they are made of."""
    depth = release.levels.index(level)
    facts = [
        VERSION,
        release.design.as_record(),
        level in release.design.total_first,
        basis.draw_id,
        basis.content,
        level,
        [_digest(basis.limits[histogram][depth]) for histogram in SCHEMAS],
        [above.made_of, above.content] if above else None,
    ]
    return sha256(json.dumps(facts).encode()).hexdigest()


def _digest(limits: Limits) -> str:
    digest = sha256()
    sets = limits.sets
    beyond = () if sets is None else (sets.units, sets.least, sets.most)
    for array in (limits.lower, limits.upper, limits.totals, *beyond):
        digest.update(repr(array.shape).encode())
        digest.update(array.astype("<i8").tobytes())
    return digest.hexdigest()


def _above(session: Session, custody: Custody, release: TopDownRelease, basis: _Basis, level: str) -> Estimation | None:
    """How the stored estimates of the level above were made; None at the root.

    Raises:
        StaleInputError: if those of some level above are missing, altered, or made of other data.
    """
    above: Estimation | None = None
    for each in release.levels[: release.levels.index(level)]:
        stored = stored_estimation(session, custody, release, each)
        if stored is None or stored.made_of != _made_of(release, basis, each, above):
            raise StaleInputError(
                f"{release.schema}: the estimates of {each} are not those of the stored measurements; materialize "
                f"{release.estimates(each)} first"
            )
        above = stored
    return above


def _plan(session: Session, release: TopDownRelease, level: str, basis: _Basis, above: Estimation | None) -> _Plan:
    depth = release.levels.index(level)
    made_of = _made_of(release, basis, level, above)
    limits = {histogram: of_levels[depth] for histogram, of_levels in basis.limits.items()}
    starts = read_tree(session, release).starts(level)
    streams = tuple(stream for stream in streams_of(session, release) if stream.measured.level == level)
    if not depth:
        return _Plan(basis, made_of, starts, (level,), limits, None, streams)
    parent = release.levels[depth - 1]
    parents = tuple(f"{plural(level)} of {words(parent)} {geoid}" for geoid in geoids(session, release, parent))
    return _Plan(basis, made_of, starts, parents, limits, _estimated(session, release, parent), streams)


def _estimated(session: Session, release: TopDownRelease, level: str) -> dict[str, Cells]:
    found: dict[str, Cells] = {}
    for histogram in SCHEMAS:
        rows = session.arrow(
            "topdown/estimated", {"histogram": histogram}, estimates=release.public(release.estimates(level))
        )
        number, cell, count = (rows[name].to_numpy() for name in ("number", "cell", "count"))
        found[histogram] = (number, cell, count)
    return found


def _tasks(
    warehouse: Warehouse, release: TopDownRelease, level: str, plan: _Plan, digests: Mapping[str, Digest]
) -> Iterator[Task]:
    """All parents, one task at a time. No session is open between tasks. Answers are added to digests as they are read,
    in the order of the draw."""
    starts = plan.starts
    of_a_task = min(PLACES_OF_A_TASK, -(-int(starts[-1]) // (8 * processes_of(release))))
    for first, last in _parts(starts, 0, len(plan.parents), PLACES_AT_A_TIME):
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            if drawn_id(session, release) != plan.basis.draw_id:
                raise StaleInputError(f"{release.schema}: measurements were drawn anew while {level} was estimated")
            read = int(starts[first]), int(starts[last])
            answers = {
                histogram: _answers(session, release, histogram, plan.streams, read, digests) for histogram in SCHEMAS
            }
        for begin, end in _parts(starts, first, last, of_a_task):
            families = {
                histogram: _families(release, schema, level, plan, (begin, end), answers[histogram], read[0])
                for histogram, schema in SCHEMAS.items()
            }
            yield Task(int(starts[begin]), end - begin, families)


def _parts(starts: NDArray[np.int64], first: int, last: int, places: int) -> Iterator[tuple[int, int]]:
    """Ranges of parents with at most `places` children together; a parent with more has a range of its own."""
    while first < last:
        end = int(np.searchsorted(starts, starts[first] + places, side="right")) - 1
        end = min(max(end, first + 1), last)
        yield first, end
        first = end


def _answers(
    session: Session,
    release: TopDownRelease,
    histogram: str,
    streams: tuple[Stream, ...],
    places: tuple[int, int],
    digests: Mapping[str, Digest],
) -> dict[str, NDArray[np.int32]]:
    """By query, the stored answers of consecutive places, shape (places, marginal cells)."""
    first, last = places
    answers: dict[str, NDArray[np.int32]] = {}
    for stream in streams:
        measured = stream.measured
        if measured.histogram != histogram:
            continue
        if measured.query not in answers:
            answers[measured.query] = read_answers(session, release, measured, first, last).astype(np.int32)
        own = slice(max(stream.first, first) - first, max(min(stream.last, last) - first, 0))
        digests[stream.label].update(hashed(answers[measured.query][own]))
    return answers


def _families(
    release: TopDownRelease,
    schema: Schema,
    level: str,
    plan: _Plan,
    parents: tuple[int, int],
    answers: Mapping[str, NDArray[np.int32]],
    read: int,
) -> Families:
    """The families of a range of parents. The first row of `answers` belongs to the place with the number `read`."""
    begin, end = parents
    first, last = (int(start) for start in plan.starts[[begin, end]])
    limits = plan.limits[schema.name]
    histograms = None
    if plan.above is not None:
        number, cell, count = plan.above[schema.name]
        own = slice(*np.searchsorted(number, [begin, end]))
        histograms = np.zeros((end - begin, schema.size), dtype=np.int64)
        histograms[number[own] - begin, cell[own]] = count[own]
    return Families(
        schema,
        plan.parents[begin:end],
        plan.starts[begin : end + 1] - first,
        {measured.query: measured.variance for measured in release.design.measured_at(schema.name, level)},
        {query: rows[first - read : last - read] for query, rows in answers.items()},
        limits.between(first, last),
        level in release.design.total_first,
        histograms,
    )


def _write(
    session: Session,
    custody: Custody,
    release: TopDownRelease,
    level: str,
    plan: _Plan,
    read: Mapping[str, str],
    found: list[Outcome],
) -> Estimation:
    table, account = _account(release, level)
    rows: list[pa.Table] = []
    for histogram in SCHEMAS:
        number = np.concatenate([each.first + each.children[histogram].children for each in found])
        rows.append(
            pa.table(
                {
                    "histogram": pa.array([histogram]).take(pa.array(np.zeros(len(number), dtype=np.int64))),
                    "number": number,
                    "cell": np.concatenate([each.children[histogram].cells for each in found]),
                    "count": np.concatenate([each.children[histogram].counts for each in found]),
                }
            )
        )
    session.create(table, "topdown/estimates", found=session.register("found", pa.concat_tables(rows)))
    children = [of_task for each in found for of_task in each.children.values()]
    estimation = Estimation(
        plan.made_of,
        json.dumps(read),
        session.content_version([table], custody.seal_key()),
        int(plan.starts[-1]),
        len(plan.parents),
        sum(each.solved for each in children),
        max(each.gap for each in children),
        max(each.violation for each in children),
        sum(each.seconds for each in found),
    )
    session.create(account, "topdown/estimation", vars(estimation))
    seal_stage(session, custody, release.schema, release.estimates(level), [account])
    return estimation
