"""The estimation of a level, from its noisy measurements and the estimates of the level above, in one transaction.
Units that are estimated after persons take one transaction for all levels.

`mechanisms.topdown.estimation` estimates, `reading` reads the tables, and `workers` runs the pool of processes; this
module writes and labels the results.

Next to the estimates of a level is an account of how they were made (`Estimation`), sealed under the custody. Stored
estimates that were made from the current inputs are not computed again. A new run therefore continues at the level
where a killed run stopped, with the same result, which is independent of time, order and the number of processes.
Because the answers are hashed as they are read, the gates notice estimates from measurements that were altered for a
while and then restored.

With full estimation, persons of all levels are estimated before units, in separate tables. Every level but the finest
is estimated from the `information` about it, and units within bounds set by the persons.

Memory is bounded by the largest state, because results are written to a private file as they arrive.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.measurement.method import MEASUREMENTS
from assets.release.account import read_account, store_account
from assets.release.draw import StaleInputError
from assets.topdown.information import (
    Account,
    Accounts,
    Key,
    find_wrong_information,
    hash_regions,
    list_made_of,
    list_parts,
    list_some,
    read_accounts,
    to_scope,
)
from assets.topdown.measurements import are_as_read
from assets.topdown.partitions import require_state
from assets.topdown.reading import (
    Reading,
    Scope,
    StateLimits,
    find_own,
    hash_facts,
    list_scopes,
    read_draw_id,
    read_regions,
    require_draw,
)
from assets.topdown.release import ABOVE, INFORMATION, INTERVALS, OCCUPANCY, RECORDS, TABLES, TopDownRelease
from assets.topdown.spine import read_states, read_tree
from assets.topdown.sums import SUMS
from assets.topdown.workers import Outcome, estimate_task, perform, spread_task
from mechanisms.topdown.decomposition import Floats
from mechanisms.topdown.design import SCHEMAS, level_of_states
from mechanisms.topdown.leaning import estimate_spread
from mechanisms.topdown.schema import PERSONS, UNITS, Counts
from resources.custody import Custody
from resources.parts import open_part, store_parts
from resources.processes import WorkerError
from resources.statements import Table, Zone
from resources.warehouse import UNITED, Session, Warehouse

VERSION = 3
"""Increase it when the same measurements would give different estimates, or when the form of the account changes."""

SECONDS_BETWEEN_REPORTS = 5.0

Report = Callable[[int, int], None]
"""A callback that takes the number of finished parents and the number of all parents."""

ScopeReport = Callable[[Scope, int, int], None]
"""A `Report` that also takes the scope."""

Basis = Sequence[Sequence[str] | None]
"""The inputs of estimates besides the answers and the estimates above; None for a missing input."""

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
        without_parts: the number of parents whose children could not be rounded with the counts by race, alone or
            combined, decided before.
        spreads: by code of the state, the τ² of places that lean on their housing units, as JSON.
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
    without_parts: int
    spreads: str


def estimate_level(
    warehouse: Warehouse, custody: Custody, release: TopDownRelease, scope: Scope, report: Report
) -> Estimation:
    """`estimate_levels` of one scope, which is not named in reports."""
    return estimate_levels(warehouse, custody, release, [scope], lambda _, done, parents: report(done, parents))[0]


def estimate_levels(
    warehouse: Warehouse, custody: Custody, release: TopDownRelease, scopes: Sequence[Scope], report: ScopeReport
) -> list[Estimation]:
    """Estimate all places of scopes, each scope from the one before, and store their histograms in one transaction,
    unless estimates from the current inputs are already stored. The estimates of all scopes but the last are kept in
    memory.

    Reports every few seconds, and at the end of a scope.

    Raises:
        PartitionError: if there is no such state.
        StaleInputError: if the estimates of the level above the first scope, or another input of a scope, do not come
            from the stored measurements, or if the measurements, the spine or the invariants are replaced meanwhile.
        GridError: if measurements are missing.
        NotSolvedError, NotRoundedError: if a parent's children cannot be estimated; the message names the parent.
        WorkerError: if one of the processes ends prematurely, or not all results came back.
        InfeasibleError, SpineError: if the stored invariants or the stored spine are not those that were charged.
    """
    made, state = list[Estimation](), scopes[0].state
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        if state:
            require_state(session, release, state)
        draw_id, tree = read_draw_id(session, release), read_tree(session, release)
        chain = _Chain(session, custody, release, draw_id, state)
        own = find_own(session, release, state, draw_id)
        above, bases = chain.require_above(scopes[0]), [chain.require_basis(scope) for scope in scopes]
        for scope, basis in zip(scopes, bases, strict=True):
            stored = read_estimation(session, custody, release, scope)
            if not stored:
                break
            region = hash_facts([region.digest for region in read_regions(session, release, tree, scope)])
            made_of = _made_of(release, draw_id, scope, region, above, basis)
            if stored.made_of != made_of or not are_as_read(session, release, stored.read, own):
                break
            made.append(stored)
            above = stored
        due = [
            _Due(
                scope,
                basis,
                [
                    Reading(
                        session,
                        warehouse,
                        release,
                        scope,
                        tree,
                        draw_id,
                        [chain.information[part].contents for part in chain.list_parts(scope)],
                        state=own,
                    )
                    for _ in range(1 + release.design.leans(scope.histogram, scope.level))
                ],
            )
            for scope, basis in zip(scopes[len(made) :], bases[len(made) :], strict=True)
        ]
    if not due:
        return made
    with warehouse.private_folder() as folder:
        counts: Mapping[str, Counts] = {}
        known = StateLimits()
        results = list[_Results]()
        for number, each in enumerate(due):
            each.reading.above, each.reading.known = counts, known
            results.append(_estimate(release, each, folder / str(number), report, keep=number + 1 < len(due)))
            counts = results[-1].counts()
        with warehouse.session(writes=Zone.PUBLIC, folder=folder) as session, session.transaction():
            require_draw(session, release, draw_id, scopes[0])
            for each, result in zip(due, results, strict=True):
                above = _store(session, custody, release, draw_id, each, result, above, chain.states)
                made.append(above)
    return made


@dataclass(frozen=True)
class _Due:
    """A scope to be estimated, with its basis and its readings: two if its places lean on housing units."""

    scope: Scope
    basis: Basis
    readings: Sequence[Reading]

    @property
    def reading(self) -> Reading:
        return self.readings[-1]


def _estimate(release: TopDownRelease, due: _Due, folder: Path, report: ScopeReport, keep: bool) -> "_Results":
    scope, (*first, reading) = due.scope, due.readings
    for before in first:
        reading.spreads = _estimate_spreads(release, before)
    parents, reported = reading.parents, time.monotonic()
    with closing(_Results(folder, reading.histograms, keep)) as results:
        outcomes = perform(estimate_task, reading.tasks(), reading.processes, release.scheduler)
        with closing(outcomes):
            for outcome in outcomes:
                results.add(outcome)
                if results.parents == parents or time.monotonic() - reported >= SECONDS_BETWEEN_REPORTS:
                    report(scope, results.parents, parents)
                    reported = time.monotonic()
    if results.parents != parents:
        raise WorkerError(f"{scope}: {results.parents:,} of {parents:,} parents were estimated; nothing was stored")
    read = reading.regions, reading.answers
    if any((before.regions, before.answers) != read for before in first):
        raise StaleInputError(f"{release.schema}: measurements or invariants changed while {scope} was estimated")
    return results


def _store(
    session: Session,
    custody: Custody,
    release: TopDownRelease,
    draw_id: str,
    due: _Due,
    results: "_Results",
    above: Estimation | None,
    states: Sequence[str],
) -> Estimation:
    scope, reading = due.scope, due.reading
    table = scope.table(release)
    if not scope.state:
        # If the release's estimates were in parts before, the table is a view.
        session.drop(table)
    store_parts(session, table, results.paths)
    region = hash_facts(reading.regions)
    estimation = Estimation(
        made_of=_made_of(release, draw_id, scope, region, above, due.basis),
        read=json.dumps(reading.answers),
        content=session.sorted_version(table, custody.seal_key()),
        places=reading.places,
        parents=reading.parents,
        solved=results.solved,
        gap=results.gap,
        violation=results.violation,
        seconds=results.seconds,
        held=region,
        draw_id=draw_id,
        without_parts=results.without_parts,
        spreads=json.dumps({states[number]: spread for number, spread in reading.spreads.items()}),
    )
    store_account(session, custody, table, estimation)
    return estimation


def read_estimation(session: Session, custody: Custody, release: TopDownRelease, scope: Scope) -> Estimation | None:
    """The account of the stored estimates of a scope; None if there are none, or if they or their account were
    altered."""
    table = scope.table(release)
    stored = read_level_account(session, custody, release, scope)
    if stored is None or session.sorted_version(table, custody.seal_key()) != stored.content:
        return None
    return stored


def find_wrong_levels(
    session: Session, custody: Custody, release: TopDownRelease
) -> tuple[tuple[Scope, ...], Mapping[str, str]]:
    """The scopes whose estimates were altered, or not made from the current draw, spine and invariants; and by label,
    the SHA-256 of the answers of each stream as the estimation read them.

    Scopes below one without a known account are left out. A whole level is wrong if its view does not show exactly the
    tables of all states. If the finest places were estimated from different answers than their information, all
    information above them is wrong, and so is every estimate, because all of them follow from the root.
    """
    tree, chain = read_tree(session, release), _Chain(session, custody, release, read_draw_id(session, release))
    regions, states = hash_regions(session, release, tree), chain.states
    of_states = regions[1:]
    wrong: list[Scope] = []
    read: dict[str, str] = {}
    if release.design.full:
        found, of_information = find_wrong_information(session, custody, release, chain.draw_id, states, regions)
        wrong, read = [to_scope(part, states) for part in found], dict(of_information)
    known: dict[Scope | None, Estimation] = {}
    differing = set[str]()
    for scope in list_scopes(release, states):
        above = scope.above(release)
        if above and above not in known:
            continue
        stored = read_estimation(session, custody, release, scope)
        if stored is None:
            wrong.append(scope)
            continue
        own = of_states if release.is_below_states(scope.level) else regions
        region = hash_facts([of_states[states.index(scope.state)]] if scope.state else own)
        answers = json.loads(stored.read)
        due = _made_of(release, chain.draw_id, scope, region, known.get(above), chain.read_basis(scope))
        if stored.made_of != due:
            wrong.append(scope)
        differing |= {label for label, digest in answers.items() if read.get(label, digest) != digest}
        read |= answers
        known[scope] = stored
    for level in release.levels:
        is_known = all(scope in known for scope in list_scopes(release, states) if scope.level == level)
        if is_known and not is_united(session, release, level, states):
            wrong.append(Scope(level))
    if differing:
        parts = list_made_of(session, custody, release, differing, states)
        wrong += [*(to_scope(part, states) for part in parts), *filter(None, known)]
    return tuple(dict.fromkeys(wrong)), read


def unite_states(session: Session, custody: Custody, release: TopDownRelease) -> list[Estimation]:
    """Make the views `level_…` over the tables of all states and histograms; return the accounts of these tables.

    The gate `estimates_as_made` verifies that the tables are unaltered. Raises StaleInputError if a part is missing, or
    was not made from the stored measurements and the estimates above, or if there are tables of other states.
    """
    chain = _Chain(session, custody, release, read_draw_id(session, release))
    states = chain.states
    known, stale = chain.walk(list_scopes(release, states))
    if stale:
        raise StaleInputError(
            f"{release.schema}: {len(stale):,} parts of the estimates are missing, or not those of the stored "
            f"measurements ({list_some(stale)}); materialize these partitions first"
        )
    if surplus := find_tables_of_other_states(session, release, states):
        raise StaleInputError(
            f"{release.schema}: there are tables of states that the spine does not have ({surplus[0]}); materialize "
            f"{release.estimates(level_of_states(release.levels))} first"
        )
    united = [scope for scope in list_scopes(release, states) if scope.state or scope.histogram]
    for level in dict.fromkeys(scope.level for scope in united):
        view = release.public(release.estimates(level))
        session.drop(view)
        names = {"tables": _tables_of(release, level, states), "columns": _ESTIMATES.names}
        session.create_view(view, UNITED, **names)
    return [known[scope] for scope in united]


def keep_states(session: Session, release: TopDownRelease) -> None:
    """Drop the measurements, estimates and records that do not fit the current release: those of states that are not in
    the spine, and those stored in other parts."""
    surplus = find_tables_of_other_states(session, release, read_states(session, release))
    if surplus:
        # A view may read dropped tables.
        stored = session.tables(Zone.PUBLIC, release.schema)
        intervals = [f"{name.lower()}_{INTERVALS}" for name in TABLES]
        for view in (*map(release.estimates, release.levels), *SCHEMAS, *map(str.lower, TABLES), *intervals):
            if stored.get(view):
                session.drop(release.public(view))
    for name in surplus:
        session.drop(release.public(name))


def find_tables_of_other_states(session: Session, release: TopDownRelease, states: Sequence[str]) -> list[str]:
    """The names of the stored tables of measurements, estimates, records, accounts and seals, and of tables made from
    records, that belong to no part of the release. Measurements stay in the parts in which they were drawn."""
    stored = session.tables(Zone.PUBLIC, release.schema)
    whole = {*SCHEMAS, *map(str.lower, TABLES)}
    intervals = [f"{name.lower()}_{INTERVALS}" for name in TABLES]
    due = {scope.table(release).name for scope in list_scopes(release, states)} | {*whole, *intervals, INTERVALS}
    due |= {MEASUREMENTS, SUMS}
    if release.partitioned or stored.get(MEASUREMENTS):
        due |= {f"{MEASUREMENTS}_{ABOVE}", *(release.of_state(MEASUREMENTS, state) for state in states)}
    if release.partitioned:
        by_state = (*release.made_by_state, RECORDS, SUMS)
        due |= {release.of_state(name, state) for name in by_state for state in states}
        due |= {f"{name.lower()}_{ABOVE}" for name in release.tabulated_by_state}
    if release.has_intervals_by_state:
        due |= {*release.list_interval_parts(states)}
    of_levels = [release.estimates(level) for level in release.levels]
    of_parts = [*SCHEMAS, *([] if release.design.full else [INFORMATION])]
    apart = [release.estimates(level, "", name) for level in release.levels for name in of_parts]
    apart += [*intervals, INTERVALS, *release.list_interval_parts([])]
    apart += [
        *whole,
        RECORDS,
        MEASUREMENTS,
        f"{MEASUREMENTS}_{ABOVE}",
        *(f"{name.lower()}_{ABOVE}" for name in TABLES),
        SUMS,
        *([] if release.design.full else [INFORMATION]),
    ]
    return [
        name
        for name in stored
        if (own := name.removesuffix("_seal").removesuffix("_made")) not in due
        and own not in of_levels
        and own.split("__")[0] in {*of_levels, *apart}
    ]


def hash_estimates(session: Session, custody: Custody, release: TopDownRelease) -> str | None:
    """A digest of the stored estimates of the finest level and of all their inputs; None if they were altered."""
    states = read_states(session, release)
    scopes = [scope for scope in list_scopes(release, states) if scope.level == release.finest]
    stored = [read_estimation(session, custody, release, scope) for scope in scopes]
    if not all(stored) or not is_united(session, release, release.finest, states):
        return None
    return hash_facts([[account.made_of, account.content] for account in stored if account])


def _tables_of(release: TopDownRelease, level: str, states: Sequence[str]) -> list[Table]:
    """The tables of the estimates of a level."""
    return [scope.table(release) for scope in list_scopes(release, states) if scope.level == level]


def is_united(session: Session, release: TopDownRelease, level: str, states: Sequence[str]) -> bool:
    """Whether the stored estimates of a level are exactly the tables of its scopes."""
    view, tables = release.public(release.estimates(level)), _tables_of(release, level, states)
    names = {"tables": tables, "columns": _ESTIMATES.names}
    return tables == [view] or session.is_view_of(view, UNITED, **names)


def read_level_account(session: Session, custody: Custody, release: TopDownRelease, scope: Scope) -> Estimation | None:
    """The account of estimates, whose table may have been altered; None if it was altered itself."""
    table = scope.table(release)

    def read() -> Estimation | None:
        return read_account(session, custody, table, Estimation) if session.columns(table) else None

    return session.compute_once(("account", table), read)


def _made_of(
    release: TopDownRelease, draw_id: str, scope: Scope, region: str, above: Estimation | None, basis: Basis
) -> str:
    """`Estimation.made_of` of current estimates. The digests of their inputs and content identify the estimates
    above."""
    design, of_above = release.design, [above.made_of, above.content] if above else None
    total_first = scope.level in design.total_first
    facts = [VERSION, design.as_record(), total_first, draw_id, scope.level, scope.state, region, of_above]
    if design.full:
        facts += [scope.histogram, release.design.is_types_first(scope.level), basis]
    if design.leans(scope.histogram, scope.level):
        facts.append("lean_on_housing_units")
    return hash_facts(facts)


def _estimate_spreads(release: TopDownRelease, reading: Reading) -> dict[int, float]:
    """By number of the state, the τ² of places that lean on their housing units."""
    sums: dict[int, list[Floats]] = {}
    with closing(perform(spread_task, reading.tasks(), reading.processes, release.scheduler)) as outcomes:
        for state, own in outcomes:
            sums.setdefault(state, []).append(own)
    return {state: estimate_spread(np.concatenate(own)) for state, own in sums.items()}


def read_spreads(session: Session, custody: Custody, release: TopDownRelease) -> dict[str, float]:
    """By code of the state, the τ² of the stored estimates; empty if no places lean."""
    spreads: dict[str, float] = {}
    for scope in list_scopes(release, read_states(session, release)):
        if release.design.leans(scope.histogram, scope.level):
            stored = read_level_account(session, custody, release, scope)
            spreads |= json.loads(stored.spreads) if stored else {}
    return spreads


class _Chain:
    """The stored inputs of estimates besides answers and limits: all of them, or those of one state."""

    def __init__(
        self, session: Session, custody: Custody, release: TopDownRelease, draw_id: str, state: str = ""
    ) -> None:
        self._session, self._custody, self._release, self.draw_id = session, custody, release, draw_id
        self.states = read_states(session, release)
        self.information: Accounts = {}
        self._accounts: dict[Scope, Estimation | None] = {}
        if release.design.full:
            self.information = read_accounts(session, custody, release, draw_id, self.states, state)

    def is_of_draw(self, stored: Estimation | None, scope: Scope, above: Estimation | None) -> TypeGuard[Estimation]:
        """Whether estimates were made from the draw, the estimates above, and the current information and persons. The
        spine and the invariants are not compared."""
        return stored is not None and stored.made_of == _made_of(
            self._release, self.draw_id, scope, stored.held, above, self.read_basis(scope)
        )

    def read_basis(self, scope: Scope) -> Basis:
        """The information from which a scope is estimated and, for units, the persons of the finest level; None for
        each account that is missing or of another draw."""
        accounts: list[Account | Estimation | None] = [self.information.get(part) for part in self.list_parts(scope)]
        persons = self._persons() if scope.histogram == UNITS.name else []
        accounts += map(self.read_account, persons)
        return [[account.made_of, account.content] if account else None for account in accounts]

    def read_account(self, scope: Scope) -> Estimation | None:
        """The account of estimates, whose table may have been altered; None if it was altered itself."""
        if scope not in self._accounts:
            self._accounts[scope] = read_level_account(self._session, self._custody, self._release, scope)
        return self._accounts[scope]

    def require_basis(self, scope: Scope) -> Basis:
        """`read_basis`. Raises StaleInputError unless everything is of the draw. Only the root of units verifies the
        persons; all units below follow from the same persons."""
        if None in self.read_basis(scope)[: len(self.list_parts(scope))]:
            raise self._stale(f"the tables of information about {scope.level} are", INFORMATION)
        if scope.histogram == UNITS.name and scope.above(self._release) is None:
            persons = [each for each in list_scopes(self._release, self.states) if each.histogram == PERSONS.name]
            _, stale = self.walk(persons)
            if not stale:
                stale = [
                    each
                    for each in self._persons()
                    if not read_estimation(self._session, self._custody, self._release, each)
                ]
            if stale:
                raise self._stale(f"the estimates of {stale[0]} are", self._release.estimates(stale[0].level))
        return self.read_basis(scope)

    def require_above(self, scope: Scope, *, again: bool = True) -> Estimation | None:
        """The account of the stored estimates of the level above; None at the root. Only these estimates are read
        again, not the ones above them. Raises StaleInputError if they are not of the draw."""
        above = scope.above(self._release)
        if above is None:
            return None
        further_above, stored = self.require_above(above, again=False), self.read_account(above)
        if again and stored:
            stored = read_estimation(self._session, self._custody, self._release, above)
        if not self.is_of_draw(stored, above, further_above):
            raise self._stale(
                f"the estimates of {above} are",
                OCCUPANCY if above.histogram == UNITS.name else self._release.estimates(above.level, above.state),
            )
        return stored

    def walk(self, scopes: Sequence[Scope]) -> tuple[dict[Scope | None, Estimation], list[Scope]]:
        """The accounts of the scopes that are of the draw, and the scopes that are not. Scopes below the latter are
        left out."""
        known: dict[Scope | None, Estimation] = {}
        stale = list[Scope]()
        for scope in scopes:
            above = scope.above(self._release)
            if above and above not in known:
                continue
            stored = self.read_account(scope)
            if self.is_of_draw(stored, scope, known.get(above)):
                known[scope] = stored
            else:
                stale.append(scope)
        return known, stale

    def list_parts(self, scope: Scope) -> list[Key]:
        """The parts of the information that a scope is estimated from."""
        return list_parts(self._release, scope, self.states) if self._release.design.full else []

    def _persons(self) -> list[Scope]:
        finest, scopes = self._release.finest, list_scopes(self._release, self.states)
        return [each for each in scopes if (each.level, each.histogram) == (finest, PERSONS.name)]

    def _stale(self, what: str, stage: str) -> StaleInputError:
        return StaleInputError(
            f"{self._release.schema}: {what} not those of the stored measurements; materialize {stage} first"
        )


class _Results:
    """The results of tasks, written to one file per histogram as they arrive, in order of places and cells."""

    def __init__(self, folder: Path, histograms: Sequence[str], keep: bool) -> None:
        folder.mkdir()
        self._histograms, self.paths = histograms, [folder / f"{histogram}.arrow" for histogram in histograms]
        self._kept: dict[str, list[tuple[NDArray[np.int64], ...]]] = {name: [] for name in histograms if keep}
        self._writers = [open_part(path, _ESTIMATES) for path in self.paths]
        self.parents = self.solved = self.without_parts = 0
        self.gap = self.violation = self.seconds = 0.0

    def add(self, outcome: Outcome) -> None:
        self.parents += outcome.parents
        self.seconds += outcome.seconds
        for histogram, writer in zip(self._histograms, self._writers, strict=True):
            own = outcome.children[histogram]
            cells = outcome.first + own.children, own.cells, own.counts
            if histogram in self._kept:
                self._kept[histogram].append(cells)
            columns = [pa.repeat(histogram, len(own.counts)), *cells]
            writer.write_table(pa.table(columns, schema=_ESTIMATES))
            self.solved += own.solved
            self.without_parts += own.without_parts
            self.gap, self.violation = max(self.gap, own.gap), max(self.violation, own.violation)

    def counts(self) -> dict[str, Counts]:
        """By histogram, the counts of all places, if they are kept."""
        return {name: Counts(*map(np.concatenate, zip(*cells, strict=True))) for name, cells in self._kept.items()}

    def close(self) -> None:
        for writer in self._writers:
            writer.close()
