"""The asset `intervals` of a release with full estimation: the linear estimate and a 90% interval of every cell of the
redistricting tables, computed from the measurements without replicates.

`mechanisms.topdown.information` has the mathematics. The linear estimates of a level are computed from those of the
level above, state by state below the states, and not kept. The tables have a row for each place, with the numbers of
all cells in lists, which become columns in the publication. The rows are hashed as they are written, and sealed
together with a digest of their inputs. The asset reads only public tables, so it costs no budget.

With partitions, each state has its own run for the rows below it (`intervals_of_states`). The run begins with the
linear estimate of the state, which the stage `linear_estimates` keeps. `intervals` makes the rows above, and a view.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.conventions import StageKind, list_some, preview, shorten_digest
from assets.measurement.method import MEASUREMENTS, GridError
from assets.release.draw import StaleInputError
from assets.release.method import DRAW
from assets.release.seal import is_sealed, seal_stage, store_sealed
from assets.release.stage import release_stage
from assets.stages import name_partition
from assets.topdown.information import Accounts, hash_regions, list_parts, read_accounts, to_rows
from assets.topdown.partitions import require_state, state_partitions
from assets.topdown.reading import (
    InformationDigest,
    Reading,
    Scope,
    StateLimits,
    find_own,
    hash_facts,
    read_draw_id,
    read_information,
)
from assets.topdown.release import (
    ABOVE,
    INFORMATION,
    INTERVALS,
    INTERVALS_OF_STATES,
    LINEAR,
    TEXTS,
    TopDownRelease,
)
from assets.topdown.spine import read_codes, read_states, read_tree
from assets.topdown.tables import redistricting_tables
from assets.topdown.workers import Task
from mechanisms.topdown.decomposition import Decomposition, Information
from mechanisms.topdown.design import SCHEMAS, level_of_states
from mechanisms.topdown.estimation import Families
from mechanisms.topdown.information import (
    CellSums,
    descend,
    estimate_finest_cells,
    finish_root,
    inform_finest,
    prepare_sums,
    round_intervals,
    sum_cells,
)
from mechanisms.topdown.redistricting import RedistrictingTable
from resources.arrays import read_lists, read_texts, to_lists
from resources.custody import Custody
from resources.parts import open_part, store_parts
from resources.processes import in_threads
from resources.statements import SQL, Table, Zone
from resources.warehouse import UNITED, Session, Warehouse

VERSION = 4
"""Increase it when the same information would give different intervals, or their storage changes."""

COLUMNS = {
    "linear_estimate": "The best linear unbiased estimate of the count from all measurements; it may be negative",
    "linear_lower": "Lower end of the 90% interval around the linear estimate",
    "linear_upper": "Upper end of the 90% interval around the linear estimate",
}
"""The columns of a cell, by suffix."""

DIGITS = 2
"""The decimal places of a linear estimate."""

_KINDS = pa.decimal64(18, DIGITS), pa.int32(), pa.int32()
_MADE = pa.schema([("level", pa.string()), ("geoid", pa.string()), *zip(COLUMNS, map(pa.list_, _KINDS), strict=True)])
"""The columns of a table; each list holds the numbers of all cells."""

_STORED = _MADE.set(2, pa.field(_MADE.names[2], pa.list_(pa.decimal128(18, DIGITS))))
"""The same columns as DuckDB returns them: all decimals have the width of the widest."""

_MOST = SQL("topdown/most", "SELECT most FROM {{ table }} WHERE histogram = $histogram AND number = $number")

_ROWS_READ = 4096

_ROWS_WRITTEN = 500
"""The number of rows written together; their numbers fit into a processor's cache."""


@dataclass(frozen=True)
class Linear:
    """The linear estimates of one histogram in consecutive places, and the upper ends of the intervals of all cells,
    shape (places, cells)."""

    information: Information
    most: NDArray[np.int64]

    def between(self, first: int, last: int) -> "Linear":
        return Linear(self.information.between(first, last), self.most[first:last])


def build_intervals(release: TopDownRelease) -> list[dg.AssetsDefinition]:
    """The asset `intervals`; with partitions, preceded by two others."""
    if not release.has_intervals_by_state:
        return [_build_intervals(release, of_states=False)]
    of_states, whole = (_build_intervals(release, of_states=each) for each in (True, False))
    return [_build_linear(release), of_states, whole]


def _build_intervals(release: TopDownRelease, *, of_states: bool) -> dg.AssetsDefinition:
    by_state: Mapping[str, Any] = {}
    if of_states:
        by_state = state_partitions(release).options
    before = [LINEAR] if of_states else [INTERVALS_OF_STATES] if release.has_intervals_by_state else []

    @release_stage(
        release,
        INTERVALS_OF_STATES if of_states else INTERVALS,
        StageKind.TABULATION,
        TEXTS("intervals", tables=[table.name for table in redistricting_tables(release)], of_states=of_states),
        [MEASUREMENTS, INFORMATION, *before],
        kinds={"duckdb", "numba"},
        **by_state,
    )
    def intervals(context: dg.AssetExecutionContext, warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        state = name_partition(context) if of_states else ""
        draw_id, version, rows = make_intervals(release.adapt(warehouse), custody, release, state)
        shown = [(table.name, f"{number:,}") for table, number in rows.items()]
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version),
            metadata={DRAW: shorten_digest(draw_id), "tables": preview(["table", "rows"], shown)},
        )

    return intervals


def _build_linear(release: TopDownRelease) -> dg.AssetsDefinition:
    @release_stage(
        release,
        LINEAR,
        StageKind.POSTPROCESSING,
        TEXTS("linear estimates"),
        [MEASUREMENTS, INFORMATION],
        kinds={"duckdb", "numba"},
    )
    def linear_estimates(warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        return dg.MaterializeResult(
            data_version=dg.DataVersion(make_linear(release.adapt(warehouse), custody, release)),
        )

    return linear_estimates


def interval_table(release: TopDownRelease, name: str) -> Table:
    return release.public(f"{name.lower()}_{INTERVALS}")


def interval_tables(release: TopDownRelease) -> list[Table]:
    return [interval_table(release, table.name) for table in redistricting_tables(release)]


def _stored_table(release: TopDownRelease, table: Table, state: str) -> Table:
    """The table with the rows below a state; without a state, the table with all other rows."""
    if state:
        return release.public(release.of_state(table.name, state))
    return release.public(f"{table.name}_{ABOVE}") if release.has_intervals_by_state else table


def name_cells(cell: str) -> list[str]:
    """The columns of a cell, in the order of `COLUMNS`."""
    return [f"{cell}_{ending}" for ending in COLUMNS]


def name_error(cell: str) -> str:
    """The column of the standard error of a linear estimate, if the table has one."""
    return f"{cell}_linear_standard_error"


def make_intervals(
    warehouse: Warehouse, custody: Custody, release: TopDownRelease, state: str = ""
) -> tuple[str, str, Mapping[Table, int]]:
    """Make and store the tables of one state or, without a state, all rows that no state's own run makes. Return the id
    of the draw, the digest of the inputs, and the number of rows of each table.

    Raises PartitionError if there is no such state; StaleInputError if the information does not come from the stored
    measurements, or if tables of other runs are missing or were not made from it; and GridError if the end of an
    interval is 2^31 or more.
    """
    tables = redistricting_tables(release)
    with warehouse.private_folder() as folder:
        paths = [folder / f"{table.name}.arrow" for table in tables]
        with ExitStack() as opened:
            writers = {
                table.name: opened.enter_context(open_part(path, _MADE))
                for table, path in zip(tables, paths, strict=True)
            }
            turns = opened.enter_context(warehouse.in_turns())
            descent = _Descent(turns, custody, release, writers, state)
            descent.run(state)
        with warehouse.session(writes=Zone.PUBLIC, folder=folder) as session, session.transaction():
            descent.require_unaltered(session, custody, state)
            made_of = descent.made_of(state)
            for table, path in zip(interval_tables(release), paths, strict=True):
                if not state:
                    # With partitions now or before, the table is a view.
                    session.drop(table)
                store_parts(session, _stored_table(release, table, state), [path])
            sealed = {"made_of": made_of, "content": descent.content}
            seal_stage(session, custody, release.schema, _sealed(release, state), [], sealed)
            if release.has_intervals_by_state and not state:
                _unite(session, release)
            made = [_stored_table(release, table, state) if state else table for table in interval_tables(release)]
            rows = {table: session.count(table) for table in made}
    return descent.draw_id, made_of, rows


def _sealed(release: TopDownRelease, state: str) -> str:
    """The name under which intervals are sealed."""
    return release.of_state(INTERVALS, state)


def _unite(session: Session, release: TopDownRelease) -> None:
    """Make the views over the tables of all states. The gate `intervals_as_made` verifies that these tables are
    unaltered. Raises StaleInputError if any is missing."""
    states = read_states(session, release)
    for table in interval_tables(release):
        united = _list_united(release, table, states)
        if missing := [each.name for each in united["tables"] if not session.columns(each)]:
            raise StaleInputError(
                f"{release.schema}: {len(missing):,} tables of intervals are missing ({list_some(missing)}); "
                f"materialize these partitions of {INTERVALS_OF_STATES} first"
            )
        session.create_view(table, UNITED, **united)


def _list_united(release: TopDownRelease, table: Table, states: Sequence[str]) -> dict[str, Any]:
    """The tables and columns of the view of a table."""
    return {"tables": [_stored_table(release, table, state) for state in ("", *states)], "columns": _STORED.names}


def are_intervals_as_made(session: Session, custody: Custody, release: TopDownRelease) -> bool:
    """Whether the stored tables were made from the current information and are unaltered."""
    try:
        accounts = _read_accounts(session, custody, release)
    except StaleInputError:
        return False
    states = read_states(session, release) if release.has_intervals_by_state else []
    made_of = {state: _made_of(release, accounts, states, state) for state in ("", *states)}
    if not all(_is_as_made(session, custody, release, *of_state) for of_state in made_of.items()):
        return False
    return not states or all(
        session.is_view_of(table, UNITED, **_list_united(release, table, states)) for table in interval_tables(release)
    )


def _is_as_made(session: Session, custody: Custody, release: TopDownRelease, state: str, made_of: str) -> bool:
    """Whether the tables stored by one run are unaltered."""
    content = {}
    for table in redistricting_tables(release):
        stored, digest = _stored_table(release, interval_table(release, table.name), state), _Digest()
        if list(session.columns(stored)) != _STORED.names:
            return False
        for batch in session.batches("warehouse/all", _ROWS_READ, source=stored):
            if batch.schema != _STORED:
                return False
            try:
                numbers = [read_lists(batch[name], len(table.cells)) for name in COLUMNS]
                digest.add(batch["level"], batch["geoid"], numbers)
            except ValueError:
                return False
        content[table.name] = digest.hexdigest()
    made = {"made_of": made_of, "content": content}
    return is_sealed(session, custody, release.schema, _sealed(release, state), [], made)


def make_linear(warehouse: Warehouse, custody: Custody, release: TopDownRelease) -> str:
    """Make and store the linear estimates of the states; return the digest of their inputs. Raises StaleInputError as
    `make_intervals`."""
    with warehouse.in_turns() as turns:
        descent = _Descent(turns, custody, release, {})
        found = descent.descend()
        with turns.session(writes=Zone.PUBLIC) as session, session.transaction():
            descent.require_unaltered(session, custody)
            rows = [
                to_rows(name, 0, linear.information).append_column("most", to_lists(linear.most))
                for name, linear in found.items()
            ]
            table, made_of = release.public(LINEAR), descent.made_of("")
            linear_rows = pa.concat_tables(rows)
            store_sealed(session, custody, release.schema, LINEAR, table, linear_rows, {"made_of": made_of})
    return made_of


class _Digest:
    """The SHA-256 of the rows of a table in order, independent of the batch size."""

    def __init__(self) -> None:
        self._digests = [sha256() for _ in range(4 + len(COLUMNS))]

    def add(self, levels: pa.Array, codes: pa.Array, numbers: Sequence[NDArray[np.signedinteger]]) -> None:
        """Add rows, with the numbers of each column in shape (rows, cells). Raises ValueError if a text is missing."""
        parts = list[NDArray[Any]]()
        for texts in (levels, codes):
            if texts.null_count:
                raise ValueError("a row has no level or no code")
            data, bounds = read_texts(texts)
            parts += [np.diff(bounds), data[bounds[0] : bounds[-1]]]
        for digest, part in zip(self._digests, [*parts, *numbers], strict=True):
            digest.update(np.ascontiguousarray(part.astype(part.dtype.newbyteorder("<"), copy=False)).data)

    def hexdigest(self) -> str:
        return hash_facts([digest.hexdigest() for digest in self._digests])


class _Descent:
    """A descent of the tree that writes the cells of places in order. It keeps the hashes of the answers and regions
    that it read. A run of one state reads no accounts or measurements of other states."""

    def __init__(
        self,
        warehouse: Warehouse,
        custody: Custody,
        release: TopDownRelease,
        writers: Mapping[str, pa.RecordBatchFileWriter],
        state: str = "",
    ) -> None:
        self._warehouse, self._custody, self._release = warehouse, custody, release
        self.answers, self.regions, self._known = dict[str, str](), set[str](), StateLimits()
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            if state:
                require_state(session, release, state)
            self.draw_id, self._tree = read_draw_id(session, release), read_tree(session, release)
            self._states = read_states(session, release)
            self._own = find_own(session, release, state, self.draw_id)
            self.accounts = _read_accounts(session, custody, release, state)
        tables = redistricting_tables(release)
        self._tables = {name: own for name in SCHEMAS if (own := [each for each in tables if each.schema.name == name])}
        self._rows = _Rows(self._tables, writers) if writers else None
        self._sums = {
            name: prepare_sums(
                Decomposition(release.design.schemas[name]),
                np.array([cell.counted for table in own for cell in table.cells]),
            )
            for name, own in self._tables.items()
        }

    @property
    def content(self) -> dict[str, str]:
        """By table, the SHA-256 of its rows."""
        return {name: digest.hexdigest() for name, digest in self._rows.digests.items()} if self._rows else {}

    def made_of(self, state: str) -> str:
        """A digest of the inputs of a state's tables; without a state, of the inputs of all other tables and of the
        linear estimates of the states."""
        return _made_of(self._release, self.accounts, self._states, state)

    def run(self, state: str = "") -> None:
        """Descend all levels. With a state, only the levels below it; without one, if each state has its own run, only
        the states and above."""
        if state:
            number = self._states.index(state)
            self._descend_below(number, self._read_linear(number))
        else:
            above = self.descend()
            for number in range(0 if self._release.has_intervals_by_state else len(self._states)):
                own = {name: linear.between(number, number + 1) for name, linear in above.items()}
                self._descend_below(number, own)
        if self._rows:
            self._rows.write()

    def _descend_below(self, number: int, above: Mapping[str, Linear]) -> None:
        levels, state = self._release.levels, self._states[number]
        for level in levels[levels.index(level_of_states(levels)) + 1 :]:
            above = self._to(Scope(level, state), above)

    def descend(self) -> Mapping[str, Linear]:
        """Descend from the root to the states; return the linear estimates of the states."""
        levels = self._release.levels
        above: Mapping[str, Linear] = {}
        for level in levels[: levels.index(level_of_states(levels)) + 1]:
            above = self._to(Scope(level), above)
        return above

    def require_unaltered(self, session: Session, custody: Custody, state: str = "") -> None:
        """Raise StaleInputError if the stored inputs, of one state if given, differ from those that were read."""
        release = self._release
        regions = hash_regions(session, release, read_tree(session, release), state)
        due = {hash_facts(regions), *(hash_facts([region]) for region in regions[1:] if region)}
        if (
            _read_accounts(session, custody, release, state) != self.accounts
            or not self.regions <= due
            or not self.answers.items() <= _read_answers(self.accounts).items()
        ):
            raise StaleInputError(
                f"{release.schema}: information, measurements or invariants were altered while intervals were made"
            )

    def _read_linear(self, number: int) -> dict[str, Linear]:
        """The stored linear estimate of a state. Raises StaleInputError unless it was made from the same
        information."""
        release, table, found = self._release, self._release.public(LINEAR), dict[str, Linear]()
        with self._warehouse.session(reads=[Zone.PUBLIC]) as session:
            made_of = {"made_of": self.made_of("")}
            if not is_sealed(session, self._custody, release.schema, LINEAR, [table], made_of):
                raise StaleInputError(
                    f"{release.schema}: the linear estimates of the states are not those of the stored information; "
                    f"materialize {LINEAR} first"
                )
            for name, sums in self._sums.items():
                place = table, release.design.schemas[name], number, number + 1
                information = read_information(session, *place, InformationDigest())
                values = {"histogram": name, "number": number}
                most = read_lists(session.arrow(_MOST, values, table=table)["most"].combine_chunks(), len(sums.squares))
                found[name] = Linear(information, most.astype(np.int64))
        return found

    def _to(self, scope: Scope, above: Mapping[str, Linear]) -> dict[str, Linear]:
        """The linear estimates of the places of a scope, by histogram, from those of their parents; none for the finest
        level, which has no level below it."""
        release = self._release
        with self._warehouse.session(reads=[Zone.PUBLIC]) as session:
            contents = [self.accounts[part].contents for part in list_parts(release, scope, self._states)]
            given = session, self._warehouse, release, scope, self._tree, self.draw_id, contents
            reading = Reading(*given, "", state=self._own)
            reading.known = self._known
            number = self._states.index(scope.state) if scope.state else None
            places = self._tree.range_within(scope.level, level_of_states(release.levels), number)
            codes = read_codes(session, release, scope.level, *places)
        found: dict[str, list[Linear]] = {name: [] for name in self._tables}
        begin, tasks = 0, _join_parents(reading.tasks(), above)
        with closing(in_threads(lambda task, _: self._estimate(*task), tasks, release.processes)) as outcomes:
            for estimates in outcomes:
                cells = dict[str, _Cells]()
                for name, (linear, own) in estimates.items():
                    cells[name] = own
                    if linear:
                        found[name].append(linear)
                end = begin + max((len(lower) for _, lower, _ in cells.values()), default=0)
                if self._rows:
                    self._rows.add(scope.level, codes[begin:end], cells)
                begin = end
        self.answers |= reading.answers
        self.regions.add(hash_facts(reading.regions))
        return {name: _concatenate(parts) for name, parts in found.items() if parts}

    def _estimate(self, task: Task, parents: Mapping[str, Linear]) -> dict[str, "tuple[Linear | None, _Cells]"]:
        """`_estimate` of the families of a task, by histogram."""
        return {name: _estimate(task.families[name], parents.get(name), sums) for name, sums in self._sums.items()}


_Cells = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]
"""The linear estimates of cells and the ends of their intervals, shape (places, cells)."""


class _Rows:
    """The rows of all tables, written and hashed a few hundred at a time."""

    def __init__(
        self, tables: Mapping[str, Sequence[RedistrictingTable]], writers: Mapping[str, pa.RecordBatchFileWriter]
    ) -> None:
        self._tables, self._writers = tables, writers
        self._levels, self._codes = list[pa.Array](), list[pa.Array]()
        self._cells: dict[str, list[_Cells]] = {histogram: [] for histogram in tables}
        self.digests = {name: _Digest() for name in writers}

    def add(self, level: str, codes: pa.ChunkedArray, cells: Mapping[str, _Cells]) -> None:
        """Add the next places, with their cells by histogram."""
        self._levels.append(pa.repeat(level, len(codes)))
        self._codes += codes.chunks
        for histogram, own in cells.items():
            self._cells[histogram].append(own)
        if sum(map(len, self._levels)) >= _ROWS_WRITTEN:
            self.write()

    def write(self) -> None:
        """Write the waiting rows."""
        if not self._levels:
            return
        levels, codes = (pa.chunked_array(each, pa.string()).combine_chunks() for each in (self._levels, self._codes))
        for histogram, waiting in self._cells.items():
            estimate, *ends = (np.concatenate(parts) for parts in zip(*waiting, strict=True))
            if any(end.max(initial=0) > np.iinfo(np.int32).max for end in ends):
                raise GridError("the end of an interval is 2^31 or more")
            first = 0
            for table in self._tables[histogram]:
                cells = slice(first, first + len(table.cells))
                hundredths = np.rint(estimate[:, cells] * 10**DIGITS).astype(np.int64)
                own = [hundredths, *(end[:, cells].astype(np.int32) for end in ends)]
                lists = [to_lists(numbers, digits) for numbers, digits in zip(own, (DIGITS, None, None), strict=True)]
                self._writers[table.name].write_table(pa.table([levels, codes, *lists], schema=_MADE))
                self.digests[table.name].add(levels, codes, own)
                first = cells.stop
            waiting.clear()
        self._levels.clear()
        self._codes.clear()


def _estimate(families: Families, parents: Linear | None, sums: CellSums) -> tuple[Linear | None, _Cells]:
    """The linear estimates of all children of the families (None at the finest level), the estimates of the cells, and
    the ends of their intervals. Without parents, the only child is the root."""
    if parents and not families.information:
        return None, estimate_finest_cells(sums, parents.information, parents.most, families)
    own = families.information or inform_finest(families)
    if parents is None:
        information, above = finish_root(own, families), np.full((1, len(sums.squares)), np.inf)
    else:
        information, above = descend(parents.information, families, own), parents.most.astype(np.float64)
    estimate, variance = sum_cells(sums, information)
    lower, most = round_intervals(estimate, variance, np.repeat(above, np.diff(families.starts), axis=0))
    return Linear(information, most), (estimate, lower, most)


def _join_parents(tasks: Iterator[Task], above: Mapping[str, Linear]) -> Iterator[tuple[Task, Mapping[str, Linear]]]:
    """Each task with the linear estimates of its parents, by histogram; the root has none."""
    parent = 0
    for task in tasks:
        yield task, {name: linear.between(parent, parent + task.parents) for name, linear in above.items()}
        parent += task.parents


def _concatenate(parts: Sequence[Linear]) -> Linear:
    information = Information.concatenate([part.information for part in parts])
    return Linear(information, np.concatenate([part.most for part in parts]))


def _read_accounts(session: Session, custody: Custody, release: TopDownRelease, state: str = "") -> Accounts:
    """The accounts of the current information: with a state, about the states and above and below that state. Raises
    StaleInputError if it is not of the draw."""
    draw_id, states = read_draw_id(session, release), read_states(session, release)
    accounts = read_accounts(session, custody, release, draw_id, states, state)
    below = [Scope(level, state) for level in release.levels if state and release.is_by_state(level)]
    due = [part for scope in (Scope(release.levels[0]), *below) for part in list_parts(release, scope, states)]
    if not accounts.keys() >= set(due):
        raise StaleInputError(
            f"{release.schema}: the information is not that of the stored measurements; materialize {INFORMATION} first"
        )
    return accounts


def _read_answers(accounts: Accounts) -> dict[str, str]:
    """By label, the hash of the answers of each stream behind the information."""
    return {label: digest for account in accounts.values() for label, digest in json.loads(account.read).items()}


def _made_of(release: TopDownRelease, accounts: Accounts, states: Sequence[str], state: str) -> str:
    """A digest of the information that one run reads. Without partitions, this is all information. With partitions, it
    is the information of the states and above and, for a state's run, below the state; other accounts are ignored."""
    own, number = list(accounts.values()), states.index(state) if state else None
    if release.has_intervals_by_state:
        own = [account for (_, below), account in accounts.items() if below in (None, number)]
    return hash_facts([VERSION, [[account.made_of, account.read, account.content] for account in own]])
