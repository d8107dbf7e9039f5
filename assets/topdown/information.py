"""The asset `information` of a release with full estimation: the combined measurements at and below every place.

`mechanisms.topdown.information` has the mathematics, `reading` reads, and `workers` computes; `estimation` uses the
result for every level but the finest. From the finest places up, each table stores the information about the places of
a level, or about those in one state. A separate table, sealed under the custody, holds the accounts of how all
information was made. One transaction stores a few thousand places, of one or several levels, or one table. After a
killed run, the next run continues with the missing tables.

With partitions, each state's own run makes the information below the state (`information_of_states`) from the
measurements that it has drawn, with a table of its accounts. `information` then makes the rest, and refuses to run if
the information of a state is missing or stale.

Answers are hashed as they are read, and so is the information when it is read for the level above or for estimates. The
asset reads only public tables, so it costs no budget.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa

from assets.conventions import StageKind, list_some, round_figures, shorten_digest
from assets.measurement.method import MEASUREMENTS, GridError
from assets.release.draw import StaleInputError
from assets.release.method import DRAW
from assets.release.seal import is_sealed, store_sealed
from assets.release.stage import release_stage
from assets.stages import name_partition
from assets.topdown.measurements import are_as_read
from assets.topdown.partitions import require_state, state_partitions
from assets.topdown.reading import (
    PLACES_AT_A_TIME,
    InformationDigest,
    Reading,
    Scope,
    StateLimits,
    flatten,
    hash_facts,
    information_table,
    read_draw_id,
    read_information,
    read_regions,
    require_draw,
)
from assets.topdown.release import (
    INFORMATION,
    INFORMATION_OF_STATES,
    MEASUREMENTS_OF_STATES,
    TEXTS,
    TopDownRelease,
)
from assets.topdown.spine import Tree, read_states, read_tree
from assets.topdown.sums import AlteredSumsError, SumsAccount, drop_sums, read_sums_account, sums_tables
from assets.topdown.workers import Informed, inform_task, on_cluster
from mechanisms.topdown.decomposition import Information
from mechanisms.topdown.design import SCHEMAS, level_of_states
from resources.custody import Custody
from resources.parts import open_part, store_parts
from resources.processes import WorkerError, in_threads
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse

VERSION = 1
"""Increase it when the same measurements would give different information."""

COLUMNS = {
    "histogram": "Histogram: persons or units",
    "number": "Number of the place within its level, as in the spine",
    "present": "By combination of the attributes with bounds: whether the place can have such records",
    "estimate": "The best linear unbiased estimate, for each present combination and each code of the other attributes",
    "variance": "Components of its covariance: for each set of the other attributes, between present combinations",
}

_ROWS = pa.schema(
    [
        ("histogram", pa.string()),
        ("number", pa.int64()),
        ("present", pa.list_(pa.bool_())),
        ("estimate", pa.list_(pa.float64())),
        ("variance", pa.list_(pa.float64())),
    ]
)

Key = tuple[str, int | None]
"""The places stored together: all places of a level, or those in the state with a number."""


@dataclass(frozen=True)
class Account:
    """How information was made.

    Attributes:
        made_of: a digest of all its inputs except the measurements.
        read: the SHA-256 of the answers of each stream as they were read, as JSON.
        content: the SHA-256 of the information by histogram, as JSON.
        seconds: the processor time over all processes.
        held: a digest of the spine and the invariants as they were read.
    """

    made_of: str
    read: str
    content: str
    places: int
    seconds: float
    held: str
    draw_id: str

    @property
    def contents(self) -> Mapping[str, str]:
        contents: dict[str, str] = json.loads(self.content)
        return contents


Accounts = Mapping[Key, Account]

_KINDS: Mapping[Any, pa.DataType] = {str: pa.string(), int: pa.int64(), float: pa.float64()}
_ACCOUNTS = pa.schema(
    [("level", pa.string()), ("state", pa.int64()), *((each.name, _KINDS[each.type]) for each in fields(Account))]
)
"""The columns of the table of all accounts."""


def build_information(release: TopDownRelease) -> list[dg.AssetsDefinition]:
    """The asset `information`, preceded by the asset of the states' runs if each state has its own."""
    apart = [_build_information(release, of_states=True)] if release.informs_by_state else []
    return [*apart, _build_information(release, of_states=False)]


def _build_information(release: TopDownRelease, *, of_states: bool) -> dg.AssetsDefinition:
    by_state: Mapping[str, Any] = {}
    if of_states:
        by_state = state_partitions(release).options

    @release_stage(
        release,
        INFORMATION_OF_STATES if of_states else INFORMATION,
        StageKind.POSTPROCESSING,
        TEXTS("information", of_states=of_states, apart=release.informs_by_state),
        [MEASUREMENTS_OF_STATES]
        if of_states
        else [MEASUREMENTS, *([INFORMATION_OF_STATES] if release.informs_by_state else [])],
        kinds={"duckdb", "numba"},
        **by_state,
    )
    def information(context: dg.AssetExecutionContext, warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        state = name_partition(context) if of_states else ""
        made = make_information(release.adapt(warehouse), custody, release, context.log.info, state)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(hash_facts([account.content for account in made.values()])),
            metadata={
                DRAW: shorten_digest(next(iter(made.values())).draw_id),
                "tables": len(made),
                "places": sum(account.places for account in made.values()),
                "processor time (s)": round_figures(sum(account.seconds for account in made.values())),
            },
        )

    return information


def make_information(
    warehouse: Warehouse, custody: Custody, release: TopDownRelease, report: Callable[[str], None], state: str = ""
) -> Accounts:
    """Make and store the information that is missing or was not made from the stored answers; return its accounts, from
    the finest places up. If each state has its own run, a run makes only the information below one state, or about the
    states and above.

    Raises PartitionError if there is no such state; StaleInputError if measurements, spine or invariants are replaced
    meanwhile, or if the information below a state is missing or was not made from the stored inputs; and GridError if
    measurements are missing.
    """
    known = StateLimits()
    with warehouse.in_turns() as turns:
        with turns.session(reads=[Zone.PUBLIC]) as session:
            if state:
                require_state(session, release, state)
            draw_id, tree, states = (
                read_draw_id(session, release, state),
                read_tree(session, release),
                read_states(session, release),
            )
            regions = hash_regions(session, release, tree, state)
            keys = _list_own(release, states, state)
            made = {} if state else _take_below(session, custody, release, draw_id, states, regions)
            found = _read_known(session, custody, release, draw_id, states, [*made, *keys])
            wrong, _ = _find_wrong(session, release, keys, found, states, regions)
            stored = {
                key: found[key]
                for key in keys
                if key not in wrong and are_as_read(session, release, found[key].read, state)
            }
            of_states = {code: region for code, region in zip(states, regions[1:], strict=True) if region}
            sums = read_sums_account(session, custody, release, draw_id, of_states, state)
            surplus = [] if state else _list_surplus(session, release, states)
            tables = session.tables(Zone.PUBLIC, release.schema)
        if surplus:
            with turns.session(writes=Zone.PUBLIC) as session, session.transaction():
                for name in surplus:
                    session.drop(release.public(name))
        for together in _divide(release, tree, keys):
            with turns.private_folder() as folder:
                making = _Making(turns, folder, release, draw_id, tree, states, known, sums, state)
                for key in together:
                    further = key != together[-1]
                    below = [made[each] for each in _below(release, key, states)]
                    own = stored.get(key)
                    if own is None or own.made_of != _made_of(release, draw_id, key, own.held, below):
                        own = making.make(key, below, further)
                    made[key] = own
                making.store(custody)
            for key, account in making.made.items():
                report(f"{to_scope(key, states)}: {account.places:,} places")
        if any(table.name in tables for table in sums_tables(release, state)):
            with turns.session(writes=Zone.PUBLIC) as session, session.transaction():
                drop_sums(session, release, state)
    return {key: made[key] for key in keys}


def _list_own(release: TopDownRelease, states: Sequence[str], state: str) -> list[Key]:
    """The keys whose accounts share one table: those of a state, or all that have no separate state run."""
    number = states.index(state) if state else None
    return [key for key in _list_keys(release, states) if not release.informs_by_state or key[1] == number]


def _take_below(
    session: Session,
    custody: Custody,
    release: TopDownRelease,
    draw_id: str,
    states: Sequence[str],
    regions: Sequence[str],
) -> dict[Key, Account]:
    """The accounts of the information made by the states' own runs. The gate on estimates verifies that their answers
    are the stored ones. Raises StaleInputError if information is missing, or not of this draw, spine and invariants."""
    due = [key for state in states if release.informs_by_state for key in _list_own(release, states, state)]
    known = _read_known(session, custody, release, draw_id, states, due)
    stale = {
        to_scope(key, states).state
        for key in due
        if key not in known or known[key].held != _select_region(release, key, regions)
    }
    if stale:
        raise StaleInputError(
            f"{release.schema}: the information below {len(stale):,} states is missing, or not that of the stored "
            f"measurements ({list_some(sorted(stale))}); materialize these partitions of {INFORMATION_OF_STATES} first"
        )
    return dict(known)


def _list_surplus(session: Session, release: TopDownRelease, states: Sequence[str]) -> list[str]:
    """The names of stored tables of information that do not belong to the current release."""
    keys = _list_keys(release, states)
    due = {
        table.name for key in keys for table in (information_table(release, *key), _find_table(release, key, states))
    }
    return [
        name
        for name in session.tables(Zone.PUBLIC, release.schema)
        if name.startswith(f"{INFORMATION}_") and name.removesuffix("_seal") not in due
    ]


def read_accounts(
    session: Session, custody: Custody, release: TopDownRelease, draw_id: str, states: Sequence[str], state: str = ""
) -> Accounts:
    """The accounts of the stored information that, with all information below it, is of the draw. The spine and the
    invariants are not compared.

    With a state, only the accounts of information behind the estimates of its places, so that accounts of other states
    are not read. For the information of the states and above, only the draw id in its sealed account is then compared.
    The stage that joins the states and the gate `estimates_as_made` verify that it was made from the information below
    all states.
    """
    if not state or not release.informs_by_state:
        return _read_known(session, custody, release, draw_id, states, _list_keys(release, states))
    known = _read_known(session, custody, release, draw_id, states, _list_own(release, states, state))
    stored = _read_stored(session, custody, release, _accounts_table(release, ""))
    above = ((key, stored.get(key)) for key in _list_own(release, states, ""))
    return known | {key: account for key, account in above if account and account.draw_id == draw_id}


def _read_known(
    session: Session,
    custody: Custody,
    release: TopDownRelease,
    draw_id: str,
    states: Sequence[str],
    keys: Sequence[Key],
) -> dict[Key, Account]:
    """`read_accounts` for these keys, in order from the finest places up; the keys include all those below them."""
    known, tables = dict[Key, Account](), dict[Table, dict[Key, Account]]()
    for key in keys:
        table = _find_table(release, key, states)
        # A writing session caches nothing, so the tables are kept here.
        if table not in tables:
            tables[table] = _read_stored(session, custody, release, table)
        stored, below = tables[table], _below(release, key, states)
        account = stored.get(key) if all(each in known for each in below) else None
        if account and account.made_of == _made_of(
            release, draw_id, key, account.held, [known[each] for each in below]
        ):
            known[key] = account
    return known


def find_wrong_information(
    session: Session,
    custody: Custody,
    release: TopDownRelease,
    draw_id: str,
    states: Sequence[str],
    regions: Sequence[str],
) -> tuple[Sequence[Key], Mapping[str, str]]:
    """The information that is missing, was altered, or was not made from the current draw, spine and invariants; and by
    label, the SHA-256 of the answers of each stream as they were read. The regions come from `hash_regions`."""
    known = read_accounts(session, custody, release, draw_id, states)
    return _find_wrong(session, release, _list_keys(release, states), known, states, regions)


def _find_wrong(
    session: Session,
    release: TopDownRelease,
    keys: Sequence[Key],
    known: Accounts,
    states: Sequence[str],
    regions: Sequence[str],
) -> tuple[Sequence[Key], Mapping[str, str]]:
    """`find_wrong_information` for these keys, from the known accounts."""
    wrong, read = [], dict[str, str]()
    for key in keys:
        account = known.get(key)
        if (
            account is None
            or account.held != _select_region(release, key, regions)
            or not _is_as_made(session, release, key, account, states)
        ):
            wrong.append(key)
        else:
            read |= json.loads(account.read)
    return wrong, read


def list_made_of(
    session: Session, custody: Custody, release: TopDownRelease, labels: Collection[str], states: Sequence[str]
) -> list[Key]:
    """The stored information that follows from the answers of some streams, directly or through other information."""
    found = list[Key]()
    for key in _list_keys(release, states):
        stored = _read_stored(session, custody, release, _find_table(release, key, states))
        own = json.loads(stored[key].read) if key in stored else {}
        if not own.keys().isdisjoint(labels) or any(below in found for below in _below(release, key, states)):
            found.append(key)
    return found


def list_parts(release: TopDownRelease, scope: Scope, states: Sequence[str]) -> list[Key]:
    """The keys of the information about the places of a scope, in order; empty at the finest level."""
    if scope.level == release.finest:
        return []
    if not release.is_below_states(scope.level):
        return [(scope.level, None)]
    numbers = [states.index(scope.state)] if scope.state else range(len(states))
    return [(scope.level, number) for number in numbers]


def to_scope(key: Key, states: Sequence[str]) -> Scope:
    level, number = key
    return Scope(level, "" if number is None else states[number], INFORMATION)


def hash_regions(session: Session, release: TopDownRelease, tree: Tree, state: str = "") -> list[str]:
    """The digests of the inputs of limits: above the states, and for each state. If a state is given, all other digests
    are empty."""
    if not state:
        return [region.digest for region in read_regions(session, release, tree, Scope(release.levels[0]))]
    (own,) = read_regions(session, release, tree, Scope(release.finest, state))
    return ["", *(own.digest if each == state else "" for each in read_states(session, release))]


class _Making:
    """The information of one transaction, made from the information below, which is kept in memory if it is made here
    too."""

    def __init__(
        self,
        warehouse: Warehouse,
        folder: Path,
        release: TopDownRelease,
        draw_id: str,
        tree: Tree,
        states: Sequence[str],
        known: StateLimits,
        sums: SumsAccount | None,
        state: str,
    ) -> None:
        self._state = state
        self._warehouse, self._folder, self._release, self._draw_id = warehouse, folder, release, draw_id
        self._tree, self._states, self._known, self._sums = tree, states, known, sums
        self.made, self._results = dict[Key, Account](), dict[Key, _Results]()

    def make(self, key: Key, below: Sequence[Account], keep: bool) -> Account:
        """Make the information, and keep it in memory if the levels above may need it. If stored sums were altered, the
        answers are read instead."""
        try:
            return self._make(key, below, keep, self._sums)
        except AlteredSumsError:
            self._sums = None
            return self._make(key, below, keep, None)

    def _make(self, key: Key, below: Sequence[Account], keep: bool, sums: SumsAccount | None) -> Account:
        release, scope = self._release, _scope_below(self._release, key, self._states)
        with self._warehouse.session(reads=[Zone.PUBLIC]) as session:
            contents = [account.contents for account in below]
            given = session, self._warehouse, release, scope, self._tree, self._draw_id, contents
            reading = Reading(*given, "up", sums, self._state)
        of_parts = enumerate(_below(release, key, self._states))
        reading.known = self._known
        reading.information = {number: self._results[part].join() for number, part in of_parts if part in self.made}
        if release.scheduler:
            outcomes = on_cluster(inform_task, reading.tasks(), release.scheduler)
        else:
            outcomes = in_threads(lambda task, _: inform_task(task), reading.tasks(), reading.processes)
        with closing(_Results(self._folder, len(self.made), keep)) as results, closing(outcomes):
            for outcome in outcomes:
                results.add(outcome)
        if results.places != reading.parents:
            raise WorkerError(f"{scope}: {results.places:,} of {reading.parents:,} parents; nothing was stored")
        held = hash_facts(reading.regions)
        self._results[key] = results
        self.made[key] = Account(
            made_of=_made_of(release, self._draw_id, key, held, below),
            read=json.dumps(reading.answers),
            content=json.dumps({name: digest.hexdigest() for name, digest in results.digests.items()}),
            places=results.places,
            seconds=results.seconds,
            held=held,
            draw_id=self._draw_id,
        )
        return self.made[key]

    def store(self, custody: Custody) -> None:
        release = self._release
        if not self.made:
            return
        with self._warehouse.session(writes=Zone.PUBLIC, folder=self._folder) as session, session.transaction():
            require_draw(session, release, self._draw_id, Scope(next(iter(self.made))[0]), self._state)
            table = _accounts_table(release, self._state)
            accounts = _read_stored(session, custody, release, table) | self.made
            for key, results in self._results.items():
                store_parts(session, information_table(release, *key), results.paths)
            keys = _list_own(release, self._states, self._state)
            rows = [{"level": each[0], "state": each[1], **vars(own)} for each, own in accounts.items() if each in keys]
            made = pa.Table.from_pylist(rows, schema=_ACCOUNTS)
            store_sealed(session, custody, release.schema, table.name, table, made)


def _divide(release: TopDownRelease, tree: Tree, keys: Iterable[Key]) -> Iterator[list[Key]]:
    """The keys stored together: a few thousand places if they are of several levels or states."""
    together, places = list[Key](), 0
    for level, number in keys:
        first, last = tree.range_within(level, level_of_states(release.levels), number)
        if together and places + last - first > PLACES_AT_A_TIME:
            yield together
            together, places = [], 0
        together.append((level, number))
        places += last - first
    yield together


def _is_as_made(session: Session, release: TopDownRelease, key: Key, account: Account, states: Sequence[str]) -> bool:
    """Whether the stored information matches its account."""
    table = information_table(release, *key)
    tree = read_tree(session, release)
    first, last = tree.range_within(key[0], level_of_states(release.levels), key[1])
    for histogram, schema in release.design.schemas.items():
        digest = InformationDigest()
        try:
            for begin in range(first, last, PLACES_AT_A_TIME):
                read_information(session, table, schema, begin, min(begin + PLACES_AT_A_TIME, last), digest)
        except GridError:
            return False
        if digest.hexdigest() != account.contents.get(histogram):
            return False
    return session.count(table) == len(SCHEMAS) * (last - first)


def _list_keys(release: TopDownRelease, states: Sequence[str]) -> list[Key]:
    """From the finest places with information up."""
    return [key for level in release.levels[-2::-1] for key in list_parts(release, Scope(level), states)]


def _scope_below(release: TopDownRelease, key: Key, states: Sequence[str]) -> Scope:
    """The places from which information is made."""
    level, number = key
    below = release.levels[release.levels.index(level) + 1]
    return Scope(below, "" if number is None else states[number])


def _below(release: TopDownRelease, key: Key, states: Sequence[str]) -> list[Key]:
    return list_parts(release, _scope_below(release, key, states), states)


def _select_region(release: TopDownRelease, key: Key, regions: Sequence[str]) -> str:
    level, number = key
    if number is not None:
        return hash_facts([regions[1 + number]])
    below = release.levels[release.levels.index(level) + 1]
    return hash_facts(regions[1:] if release.is_below_states(below) else regions)


def _made_of(release: TopDownRelease, draw_id: str, key: Key, region: str, below: Iterable[Account]) -> str:
    of_below = [[account.made_of, account.content] for account in below]
    return hash_facts([VERSION, release.design.as_record(), draw_id, key, region, of_below])


def _accounts_table(release: TopDownRelease, state: str) -> Table:
    """The table of accounts that a run stores: those of one state, or all that have no separate state run."""
    return release.public(release.of_state(INFORMATION, state))


def _find_table(release: TopDownRelease, key: Key, states: Sequence[str]) -> Table:
    """The table with the account of a key."""
    _, number = key
    return _accounts_table(release, "" if number is None or not release.informs_by_state else states[number])


def _read_stored(session: Session, custody: Custody, release: TopDownRelease, table: Table) -> dict[Key, Account]:
    """The stored accounts of a table; none if they were altered."""

    def read() -> dict[Key, Account]:
        if list(session.columns(table)) != _ACCOUNTS.names or not is_sealed(
            session, custody, release.schema, table.name, [table]
        ):
            return {}
        rows = session.rows("warehouse/all", source=table)
        return {(level, state): Account(*account) for level, state, *account in rows}

    return session.compute_once(("accounts", table), read)


def to_rows(histogram: str, first: int, information: Information) -> pa.Table:
    """The rows of the table, of places from the number `first`."""
    places = len(information.present)
    columns: list[Any] = [pa.repeat(histogram, places), np.arange(first, first + places)]
    for counts, values in flatten(information):
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        columns.append(pa.ListArray.from_arrays(offsets, pa.array(values)))
    return pa.table(columns, schema=_ROWS)


class _Results:
    """The results of tasks, written to one file per histogram as they arrive, in order of places."""

    def __init__(self, folder: Path, number: int, keep: bool) -> None:
        self.paths = [folder / f"{histogram}-{number}.arrow" for histogram in SCHEMAS]
        self._writers = [open_part(path, _ROWS) for path in self.paths]
        self.digests = {histogram: InformationDigest() for histogram in SCHEMAS}
        self._kept: dict[str, list[Information]] = {histogram: [] for histogram in SCHEMAS if keep}
        self.places, self.seconds = 0, 0.0

    def add(self, outcome: Informed) -> None:
        for (histogram, digest), writer in zip(self.digests.items(), self._writers, strict=True):
            own = outcome.information[histogram]
            digest.add(own)
            if histogram in self._kept:
                self._kept[histogram].append(own)
            writer.write_table(to_rows(histogram, outcome.first, own))
            places = len(own.present)
        self.places += places
        self.seconds += outcome.seconds

    def join(self) -> dict[str, Information]:
        """By histogram, the kept information."""
        return {histogram: Information.concatenate(own) for histogram, own in self._kept.items()}

    def close(self) -> None:
        for writer in self._writers:
            writer.close()
