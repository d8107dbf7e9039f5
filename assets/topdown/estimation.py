"""The estimation of a level, from its noisy measurements and the estimates of the level above, in one transaction.

`mechanisms.topdown.estimation` estimates, and `workers` runs the pool of processes; this module reads the tables,
divides the work into tasks, and writes and labels the results.

Next to the estimates of a level is an account of how they were made (`Estimation`), sealed under the custody. If the
stored estimates are made of what is stored now, they are not computed again. A new run therefore continues at the level
where a killed run stopped, with the same result: nothing depends on time, on order, or on the number of processes.
Because the answers are hashed as they are read, the gates notice if estimates were made from measurements that were
altered for a while and then restored.

Memory is bounded by the largest state: limits are computed state by state, tables are read a few thousand places at a
time, and results go to a private Parquet file as they come. No database is open during the computation, because a
session that reads keeps other processes from writing. Each new session checks whether the measurements were drawn anew.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import TypeGuard

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.release.draw import DRAWN, StaleInputError
from assets.release.seal import is_sealed, seal_stage
from assets.topdown.histograms import read_counts
from assets.topdown.invariants import Region, derive_limits, read_state_region, read_upper_region, take_highest
from assets.topdown.measurements import Digests, Stream, read_answers, read_streams
from assets.topdown.release import TopDownRelease, level_of_states
from assets.topdown.spine import Tree, pluralize, read_codes, read_states, read_tree
from assets.topdown.workers import Outcome, Task, WorkerError, estimate_task, perform
from mechanisms.topdown.design import SCHEMAS, words
from mechanisms.topdown.estimation import Families, Measurement, divide_parents
from mechanisms.topdown.feasibility import Limits
from mechanisms.topdown.schema import DETAILED
from resources.custody import Custody
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse, open_part, store_parts

VERSION = 3
"""Increase it when the same measurements would give other estimates, or when the account of them has another form."""

PLACES_AT_A_TIME = 4_000
"""The number of places read in one session: 40 MB of production's measurements."""

PLACES_OF_A_TASK = 400
"""The number of places given to a process at a time; fewer if a level has few. A parent's children are never split."""

SECONDS_BETWEEN_REPORTS = 5.0

Report = Callable[[int, int], None]
"""It is called with the number of finished parents and the number of all parents."""

_MOST_NAMED = 8

_ESTIMATES = pa.schema(
    [("histogram", pa.string()), ("number", pa.int64()), ("cell", pa.int64()), ("count", pa.int64())]
)


@dataclass(frozen=True)
class Estimation:
    """How the estimates of a level were made; stored next to them.

    Attributes:
        made_of: a digest of everything that the estimates depend on, except the measurements themselves.
        read: the SHA-256 of the answers of each stream of the level as they were read, as JSON.
        content: the keyed content hash of the table of estimates.
        solved: the number of pairs of a parent and a histogram whose children the constraints alone do not determine.
        gap: the largest duality gap of a real-valued solution, relative to its objective (absolute below 1).
        violation: the largest violation of a constraint by a real-valued solution; the integers violate none.
        seconds: the processor time over all processes.
        held: a digest of the spine and the invariants as they were read, as far as the estimates depend on them.
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
    held: str
    draw_id: str


@dataclass(frozen=True)
class Scope:
    """The places that are estimated and stored together: those in the state of a code, or all of the level."""

    level: str
    state: str = ""

    def __str__(self) -> str:
        return f"{self.level} in {self.state}" if self.state else self.level


@dataclass(frozen=True)
class _Part:
    """Consecutive places whose limits, by histogram, are in memory together: those of a state, or all of a level above.

    The parents are numbered from `parent`; their starts, as of `mechanisms.topdown.replicates.find_starts`, have the
    shape (parents + 1,).
    """

    parent: int
    starts: NDArray[np.int64]
    streams: Sequence[Stream]
    limits: Mapping[str, Limits]


class _Reading:
    """What an estimation reads, task by task, with the hashes of answers and regions as they were read.

    No session is open between tasks, which have so many places and parents together.
    """

    def __init__(
        self, session: Session, warehouse: Warehouse, release: TopDownRelease, scope: Scope, tree: Tree, draw_id: str
    ) -> None:
        self.scope, self.regions = scope, list[str]()
        self._warehouse, self._release, self._tree, self._draw_id = warehouse, release, tree, draw_id
        self._streams = [
            stream
            for stream in read_streams(session, release)
            if stream.measured.level == scope.level and scope.state in ("", stream.state)
        ]
        self._starts = tree.starts(scope.level)
        first, last = min(stream.first for stream in self._streams), max(stream.last for stream in self._streams)
        self.places = last - first
        self.parents = int(np.searchsorted(self._starts, last) - np.searchsorted(self._starts, first))
        self.answers = Digests(self._streams)

    def tasks(self) -> Iterator[Task]:
        of_a_task = min(PLACES_OF_A_TASK, -(-self.places // (8 * count_processes(self._release))))
        for part in self._parts():
            for first, last in divide_parents(part.starts, 0, len(part.starts) - 1, PLACES_AT_A_TIME):
                with self._warehouse.session(reads=[Zone.PUBLIC]) as session:
                    _require_draw(session, self._release, self._draw_id, self.scope)
                    families = self._read_families(session, part, first, last)
                for begin, end in divide_parents(part.starts, first, last, of_a_task):
                    own = {name: of_batch.between(begin - first, end - first) for name, of_batch in families.items()}
                    yield Task(int(part.starts[begin]), end - begin, own)

    def _parts(self) -> Iterator[_Part]:
        release, tree = self._release, self._tree
        depth, top = (release.levels.index(level) for level in (self.scope.level, level_of_states(release.levels)))
        if depth <= top:
            states = []
            with self._warehouse.session(reads=[Zone.PUBLIC]) as session:
                regions = _read_regions(session, release, tree, self.scope)
                upper = next(regions)
                self.regions.append(upper.digest)
                for region in regions:
                    self.regions.append(region.digest)
                    states.append(take_highest(derive_limits(release, region)))
            limits = derive_limits(release, upper, states)
            yield _Part(0, self._starts, self._streams, {name: levels[depth] for name, levels in limits.items()})
            return
        with self._warehouse.session(reads=[Zone.PUBLIC]) as session:
            numbers = _states(session, release, tree, self.scope)
        for number in numbers:
            with self._warehouse.session(reads=[Zone.PUBLIC]) as session:
                region = read_state_region(session, release, tree, number)
            self.regions.append(region.digest)
            first, last = tree.ranges_below(release.levels[top], number)[depth - 1 - top]
            streams = [stream for stream in self._streams if stream.state == region.state]
            limits = derive_limits(release, region)
            own = {name: levels[depth - top] for name, levels in limits.items()}
            yield _Part(first, self._starts[first : last + 1], streams, own)

    def _read_families(self, session: Session, part: _Part, begin: int, end: int) -> dict[str, Families]:
        """By histogram, the parents of a part from `begin` up to `end`, with the measurements of their children."""
        release, level, above = self._release, self.scope.level, _scope_above(self._release, self.scope)
        first, last = (int(start) for start in part.starts[[begin, end]])
        origin = int(part.starts[0])
        parents = part.parent + begin, part.parent + end
        names: tuple[str, ...] = (level,)
        if above:
            codes = read_codes(session, release, above.level, *parents).to_pylist()
            names = tuple(f"{pluralize(level)} of {words(above.level)} {code}" for code in codes)
        families = {}
        for histogram, schema in SCHEMAS.items():
            streams = {stream.measured: stream for stream in part.streams if stream.measured.histogram == histogram}
            answers = read_answers(session, release, list(streams), first, last)
            self.answers.add({stream: answers[query] for query, stream in streams.items()})
            histograms = None
            if above:
                counts = read_counts(session, _tables(release, above)[0], *parents, histogram=histogram)
                histograms = counts.answer(schema.marginal(DETAILED), *parents)
            families[histogram] = Families(
                schema,
                names,
                part.starts[begin : end + 1] - first,
                tuple(Measurement(query.query, query.variance, answers[query]) for query in streams),
                part.limits[histogram].between(first - origin, last - origin),
                level in release.design.total_first,
                histograms,
            )
        return families


def estimate_level(
    warehouse: Warehouse, custody: Custody, release: TopDownRelease, scope: Scope, report: Report
) -> Estimation:
    """Estimate all places of a scope and store their histograms, unless current estimates are stored already.

    Reports come every few seconds, and at the end.

    Raises:
        StaleInputError: if the estimates of the level above do not come from the stored measurements, or the
            measurements, the spine or the invariants are replaced during the estimation.
        GridError: if measurements are missing.
        NotSolvedError, NotRoundedError: if a parent's children cannot be estimated; the message names the parent.
        WorkerError: if one of the processes ends prematurely, or not all results came back.
        InfeasibleError, SpineError: if the stored invariants or the stored spine are not those that were charged.
    """
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        draw_id, tree = read_draw_id(session, release), read_tree(session, release)
        above = _require_above(session, custody, release, draw_id, scope)
        stored = read_estimation(session, custody, release, scope)
        if stored:
            region = _hash([region.digest for region in _read_regions(session, release, tree, scope)])
            if stored.made_of == _made_of(release, draw_id, scope, region, above):
                return stored
        reading = _Reading(session, warehouse, release, scope, tree, draw_id)
    parents, reported = reading.parents, time.monotonic()
    with warehouse.private_folder() as folder, closing(_Results(folder)) as results:
        outcomes = perform(estimate_task, reading.tasks(), min(count_processes(release), parents), release.scheduler)
        with closing(outcomes):
            for outcome in outcomes:
                results.add(outcome)
                if results.parents == parents or time.monotonic() - reported >= SECONDS_BETWEEN_REPORTS:
                    report(results.parents, parents)
                    reported = time.monotonic()
        results.close()
        if results.parents != parents:
            raise WorkerError(f"{scope}: {results.parents:,} of {parents:,} parents were estimated; nothing was stored")
        with warehouse.session(writes=Zone.PUBLIC, folder=folder) as session, session.transaction():
            _require_draw(session, release, draw_id, scope)
            table, account = _tables(release, scope)
            if not scope.state:
                # In a release that had partitions before, it is a view.
                session.drop(table)
            store_parts(session, table, results.paths)
            region = _hash(reading.regions)
            estimation = Estimation(
                made_of=_made_of(release, draw_id, scope, region, above),
                read=json.dumps(reading.answers.by_label()),
                content=session.sorted_version(table, custody.seal_key()),
                places=reading.places,
                parents=parents,
                solved=results.solved,
                gap=results.gap,
                violation=results.violation,
                seconds=results.seconds,
                held=region,
                draw_id=draw_id,
            )
            row = pa.Table.from_pylist([vars(estimation)])
            session.create(account, "warehouse/all", source=session.register("made", row))
            seal_stage(session, custody, release.schema, table.name, [account])
            return estimation


def read_estimation(session: Session, custody: Custody, release: TopDownRelease, scope: Scope) -> Estimation | None:
    """How the stored estimates of a scope were made; None if there are none, or they or their account were altered."""
    table, _ = _tables(release, scope)
    stored = _read_account(session, custody, release, scope)
    if stored is None or session.sorted_version(table, custody.seal_key()) != stored.content:
        return None
    return stored


def find_wrong_levels(
    session: Session, custody: Custody, release: TopDownRelease
) -> tuple[tuple[Scope, ...], Mapping[str, str]]:
    """The scopes whose estimates were altered, or not made from the current draw, spine and invariants; and by label,
    the SHA-256 of the answers of each stream as they were read.

    Scopes below one whose account is no longer known are left out. The whole of a level is wrong if its view does not
    show exactly the tables of all states.
    """
    draw_id, tree = read_draw_id(session, release), read_tree(session, release)
    states = read_states(session, release)
    regions = [region.digest for region in _read_regions(session, release, tree, Scope(release.levels[0]))]
    of_states = regions[1:]
    wrong: list[Scope] = []
    read: dict[str, str] = {}
    known: dict[Scope | None, Estimation] = {}
    for scope in list_scopes(release, states):
        above = _scope_above(release, scope)
        if above and above not in known:
            continue
        stored = read_estimation(session, custody, release, scope)
        if stored is None:
            wrong.append(scope)
            continue
        own = of_states if release.is_below_states(scope.level) else regions
        region = _hash([of_states[states.index(scope.state)]] if scope.state else own)
        if stored.made_of != _made_of(release, draw_id, scope, region, known.get(above)):
            wrong.append(scope)
        read |= json.loads(stored.read)
        known[scope] = stored
    for level in release.levels:
        is_known = all(scope in known for scope in _scopes(release, level, states))
        if is_known and not _is_united(session, release, level, states):
            wrong.append(Scope(level))
    return tuple(wrong), read


def unite_states(session: Session, custody: Custody, release: TopDownRelease) -> list[Estimation]:
    """Make the views `level_…` over the tables of all states; return the accounts of these tables.

    Whether a table is as it was made, the gate `estimates_as_made` reads. Raises StaleInputError if a state is missing,
    or is not made from the stored measurements and the estimates above, or if there are tables of other states.
    """
    draw_id, states = read_draw_id(session, release), read_states(session, release)
    known: dict[Scope | None, Estimation] = {}
    stale = list[Scope]()
    for scope in list_scopes(release, states):
        above = _scope_above(release, scope)
        if above and above not in known:
            continue
        stored = _read_account(session, custody, release, scope)
        if _is_of_draw(stored, release, draw_id, scope, known.get(above)):
            known[scope] = stored
        else:
            stale.append(scope)
    if stale:
        some = ", ".join(map(str, stale[:_MOST_NAMED])) + (", …" if len(stale) > _MOST_NAMED else "")
        raise StaleInputError(
            f"{release.schema}: {len(stale):,} parts of the estimates are missing, or not those of the stored "
            f"measurements ({some}); materialize these partitions first"
        )
    if surplus := find_tables_of_other_states(session, release, states):
        raise StaleInputError(
            f"{release.schema}: there are estimates of states that the spine does not have ({surplus[0]}); materialize "
            f"{release.estimates(level_of_states(release.levels))} first"
        )
    for level in release.levels:
        if release.is_by_state(level):
            view = release.public(release.estimates(level))
            session.drop(view)
            session.create_view(view, "topdown/united", tables=_tables_of_states(release, level, states))
    return [known[scope] for scope in list_scopes(release, states) if scope.state]


def keep_states(session: Session, release: TopDownRelease) -> list[str]:
    """Drop the estimates of places in states that the spine does not have, or of all states if the release has no
    partitions; return the codes of the states that estimates are made for."""
    states = read_states(session, release) if release.declaration.partitions else []
    surplus = find_tables_of_other_states(session, release, states)
    if surplus:
        # A view may be over tables that are dropped.
        for level in release.levels:
            if session.tables(Zone.PUBLIC, release.schema).get(release.estimates(level)):
                session.drop(release.public(release.estimates(level)))
    for name in surplus:
        session.drop(release.public(name))
    return states


def find_tables_of_other_states(session: Session, release: TopDownRelease, states: Sequence[str]) -> list[str]:
    """The names of the stored tables of estimates, accounts and seals that are of none of these states."""
    below = [release.estimates(level) for level in release.levels if release.is_below_states(level)]
    endings = ("", "_made", "_seal")
    due = {f"{level}__{state}{ending}" for level in below for state in states for ending in endings}
    stored = session.tables(Zone.PUBLIC, release.schema)
    return [name for name in stored if name not in due and name.startswith(tuple(f"{level}__" for level in below))]


def hash_estimates(session: Session, custody: Custody, release: TopDownRelease) -> str | None:
    """A digest of the stored estimates of the finest level and of all that they were made of; None if altered."""
    states = read_states(session, release)
    scopes = _scopes(release, release.finest, states)
    stored = [read_estimation(session, custody, release, scope) for scope in scopes]
    if not all(stored) or not _is_united(session, release, release.finest, states):
        return None
    return _hash([[account.made_of, account.content] for account in stored if account])


def list_scopes(release: TopDownRelease, states: Sequence[str]) -> list[Scope]:
    """What is estimated and stored together, in order: all places of a level, or those of one state."""
    return [scope for level in release.levels for scope in _scopes(release, level, states)]


def count_processes(release: TopDownRelease) -> int:
    return release.declaration.processes or os.cpu_count() or 1


def read_draw_id(session: Session, release: TopDownRelease) -> str:
    (draw_id,) = session.row("warehouse/labelled", table=release.public(DRAWN), column="draw_id")
    return str(draw_id)


def _require_draw(session: Session, release: TopDownRelease, draw_id: str, scope: Scope) -> None:
    if read_draw_id(session, release) != draw_id:
        raise StaleInputError(f"{release.schema}: measurements were drawn anew while {scope} was estimated")


def _scopes(release: TopDownRelease, level: str, states: Sequence[str]) -> list[Scope]:
    return [Scope(level, state) for state in (states if release.is_by_state(level) else [""])]


def _tables_of_states(release: TopDownRelease, level: str, states: Sequence[str]) -> list[Table]:
    return [release.public(release.estimates(level, state)) for state in states]


def _is_united(session: Session, release: TopDownRelease, level: str, states: Sequence[str]) -> bool:
    """Whether what is read as the estimates of a level are the tables of its scopes, which must be stored."""
    view = release.public(release.estimates(level))
    return not release.is_by_state(level) or session.is_view_of(
        view, "topdown/united", tables=_tables_of_states(release, level, states)
    )


def _tables(release: TopDownRelease, scope: Scope) -> tuple[Table, Table]:
    """The table of estimates, and that of their account."""
    name = release.estimates(scope.level, scope.state)
    return release.public(name), release.public(f"{name}_made")


def _read_account(session: Session, custody: Custody, release: TopDownRelease, scope: Scope) -> Estimation | None:
    """The account of estimates, whose table may have been altered; None if it was altered itself."""
    table, account = _tables(release, scope)
    if not session.columns(table) or not is_sealed(session, custody, release.schema, table.name, [account]):
        return None
    stored = session.row("warehouse/all", source=account)
    return Estimation(*stored) if len(stored) == len(fields(Estimation)) else None


def _scope_above(release: TopDownRelease, scope: Scope) -> Scope | None:
    depth = release.levels.index(scope.level)
    if not depth:
        return None
    above = release.levels[depth - 1]
    return Scope(above, scope.state if release.is_by_state(above) else "")


def _made_of(release: TopDownRelease, draw_id: str, scope: Scope, region: str, above: Estimation | None) -> str:
    """`Estimation.made_of` of current estimates. The estimates above are identified by what they are made of."""
    design, of_above = release.design, [above.made_of, above.content] if above else None
    total_first = scope.level in design.total_first
    return _hash([VERSION, design.as_record(), total_first, draw_id, scope.level, scope.state, region, of_above])


def _hash(facts: Sequence[object]) -> str:
    return sha256(json.dumps(facts).encode()).hexdigest()


def _is_of_draw(
    stored: Estimation | None, release: TopDownRelease, draw_id: str, scope: Scope, above: Estimation | None
) -> TypeGuard[Estimation]:
    """Whether estimates were made of a draw and of the estimates above, whatever the spine and the invariants were."""
    return stored is not None and stored.made_of == _made_of(release, draw_id, scope, stored.held, above)


def _require_above(
    session: Session,
    custody: Custody,
    release: TopDownRelease,
    draw_id: str,
    scope: Scope,
    read: Callable[..., Estimation | None] = read_estimation,
) -> Estimation | None:
    """How the stored estimates of the level above were made; None at the root. Those above it are not read again."""
    above = _scope_above(release, scope)
    if above is None:
        return None
    further_above = _require_above(session, custody, release, draw_id, above, _read_account)
    stored = read(session, custody, release, above)
    if not _is_of_draw(stored, release, draw_id, above, further_above):
        raise StaleInputError(
            f"{release.schema}: the estimates of {above} are not those of the stored measurements; materialize "
            f"{release.estimates(above.level, above.state)} first"
        )
    return stored


def _read_regions(session: Session, release: TopDownRelease, tree: Tree, scope: Scope) -> Iterator[Region]:
    if not release.is_below_states(scope.level):
        yield read_upper_region(session, release, tree)
    for number in _states(session, release, tree, scope):
        yield read_state_region(session, release, tree, number)


def _states(session: Session, release: TopDownRelease, tree: Tree, scope: Scope) -> Sequence[int]:
    if scope.state:
        return [read_states(session, release).index(scope.state)]
    return range(tree.places(level_of_states(release.levels)))


class _Results:
    """The results of tasks, written to a file for each histogram as they come, in order of places and cells."""

    def __init__(self, folder: Path) -> None:
        self.paths = [folder / f"{histogram}.parquet" for histogram in SCHEMAS]
        self._writers = [open_part(path, _ESTIMATES) for path in self.paths]
        self.parents = self.solved = 0
        self.gap = self.violation = self.seconds = 0.0

    def add(self, outcome: Outcome) -> None:
        self.parents += outcome.parents
        self.seconds += outcome.seconds
        for histogram, writer in zip(SCHEMAS, self._writers, strict=True):
            own = outcome.children[histogram]
            columns = [pa.repeat(histogram, len(own.counts)), outcome.first + own.children, own.cells, own.counts]
            writer.write_table(pa.table(columns, schema=_ESTIMATES))
            self.solved += own.solved
            self.gap, self.violation = max(self.gap, own.gap), max(self.violation, own.violation)

    def close(self) -> None:
        for writer in self._writers:
            writer.close()
