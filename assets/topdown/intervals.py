"""The asset `intervals` of a release with full estimation: for every cell of the redistricting tables, its linear
estimate and a 90% interval, which follow from the measurements without replicates.

`mechanisms.topdown.information` has the mathematics. The linear estimates of a level are computed from those of the
level above, state by state below the states, and not kept. The tables have a row for each place, with the numbers of
all cells in lists, which are columns once they are published. They are hashed as they are written, and sealed with what
they were made of. Only public tables are read, so nothing is charged.
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

from assets.conventions import StageKind, preview
from assets.measurement.method import MEASUREMENTS, GridError
from assets.release.draw import StaleInputError
from assets.release.seal import is_sealed, seal_stage
from assets.release.stage import release_stage
from assets.topdown.information import Accounts, hash_regions, list_parts, read_accounts
from assets.topdown.reading import (
    Reading,
    Scope,
    StateLimits,
    hash_facts,
    read_draw_id,
)
from assets.topdown.release import INFORMATION, INTERVALS, TEXTS, TopDownRelease
from assets.topdown.spine import read_codes, read_states, read_tree
from assets.topdown.tables import redistricting_tables
from assets.topdown.workers import Task
from mechanisms.topdown.decomposition import Decomposition, Information
from mechanisms.topdown.design import SCHEMAS, level_of_states
from mechanisms.topdown.estimation import Families
from mechanisms.topdown.information import (
    CellSums,
    descend,
    finish_root,
    inform_finest,
    prepare_sums,
    round_intervals,
    sum_cells,
)
from mechanisms.topdown.redistricting import RedistrictingTable
from resources.custody import Custody
from resources.processes import in_threads
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse, open_part, read_lists, read_texts, store_parts, to_lists

VERSION = 3
"""Increase it when the same information would give other intervals, or they are stored otherwise."""

COLUMNS = {
    "linear_estimate": "The best linear unbiased estimate of the count from all measurements; it may be negative",
    "linear_lower": "Lower end of the 90% interval around the linear estimate",
    "linear_upper": "Upper end of the 90% interval around the linear estimate",
}
"""By ending, the columns of a cell."""

DIGITS = 2
"""The digits of a linear estimate after the point."""

_LISTS = dict(zip(COLUMNS, (pa.list_(pa.decimal128(18, DIGITS)), *[pa.list_(pa.int32())] * 2), strict=True))
_STORED = pa.schema([("level", pa.string()), ("geoid", pa.string()), *_LISTS.items()])
"""The columns of a stored table, whose lists have the numbers of all cells."""

_ROWS_READ = 4096

_ROWS_WRITTEN = 500
"""The rows that are written together, whose numbers a processor's cache can hold."""


@dataclass(frozen=True)
class Linear:
    """Of one histogram and consecutive places: the linear estimates, and the upper ends of the intervals of all cells,
    shape (places, cells)."""

    information: Information
    most: NDArray[np.int64]

    def between(self, first: int, last: int) -> "Linear":
        return Linear(self.information.between(first, last), self.most[first:last])


def build_intervals(release: TopDownRelease) -> dg.AssetsDefinition:
    @release_stage(
        release,
        INTERVALS,
        StageKind.TABULATION,
        TEXTS("intervals", tables=[table.name for table in redistricting_tables(release)]),
        [MEASUREMENTS, INFORMATION],
        kinds={"duckdb", "numba"},
        # After the estimates, if both can be made: sessions take longer to open once tables have so many columns.
        op_tags={"dagster/priority": "-1"},
    )
    def intervals(warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        version = make_intervals(release.adapt(warehouse), custody, release)
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            rows = [(table.name, f"{session.count(table):,}") for table in interval_tables(release)]
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version), metadata={"tables": preview(["table", "rows"], rows)}
        )

    return intervals


def interval_table(release: TopDownRelease, name: str) -> Table:
    return release.public(f"{name.lower()}_{INTERVALS}")


def interval_tables(release: TopDownRelease) -> list[Table]:
    return [interval_table(release, table.name) for table in redistricting_tables(release)]


def name_cells(cell: str) -> list[str]:
    """The columns of a cell, in the order of `COLUMNS`."""
    return [f"{cell}_{ending}" for ending in COLUMNS]


def make_intervals(warehouse: Warehouse, custody: Custody, release: TopDownRelease) -> str:
    """Make and store the tables; return the digest of what they are made of. Raises StaleInputError if the information
    is not that of the stored measurements, and GridError if the end of an interval is 2^31 or more."""
    tables = redistricting_tables(release)
    with warehouse.private_folder() as folder:
        paths = [folder / f"{table.name}.arrow" for table in tables]
        with ExitStack() as opened:
            writers = {
                table.name: opened.enter_context(open_part(path, _STORED))
                for table, path in zip(tables, paths, strict=True)
            }
            turns = opened.enter_context(warehouse.in_turns())
            descent = _Descent(turns, custody, release, writers)
            descent.run()
        with warehouse.session(writes=Zone.PUBLIC, folder=folder) as session, session.transaction():
            regions = hash_regions(session, release, read_tree(session, release))
            if (
                _read_accounts(session, custody, release) != descent.accounts
                or descent.regions != {hash_facts(regions), *(hash_facts([region]) for region in regions[1:])}
                or not descent.answers.items() <= _read_answers(descent.accounts).items()
            ):
                raise StaleInputError(
                    f"{release.schema}: information, measurements or invariants were altered while intervals were made"
                )
            for table, path in zip(tables, paths, strict=True):
                store_parts(session, interval_table(release, table.name), [path])
            made_of = _made_of(descent.accounts)
            content = descent.content
            seal_stage(session, custody, release.schema, INTERVALS, [], {"made_of": made_of, "content": content})
    return made_of


def are_intervals_as_made(session: Session, custody: Custody, release: TopDownRelease) -> bool:
    """Whether the stored tables are those that were made from the current information."""
    try:
        made_of = _made_of(_read_accounts(session, custody, release))
    except StaleInputError:
        return False
    content = {}
    for table in redistricting_tables(release):
        stored, digest = interval_table(release, table.name), _Digest()
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
    return is_sealed(session, custody, release.schema, INTERVALS, [], {"made_of": made_of, "content": content})


class _Digest:
    """The SHA-256 of the rows of a table in order, which does not depend on how many are added at a time."""

    def __init__(self) -> None:
        self._digests = [sha256() for _ in range(4 + len(COLUMNS))]

    def add(self, levels: pa.Array, codes: pa.Array, numbers: Sequence[NDArray[np.signedinteger]]) -> None:
        """Some rows, with the numbers of shape (rows, cells) by column. Raises ValueError if a text is missing."""
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
    """The way down the tree, which writes the cells of places as it meets them. It keeps the hashes of the answers and
    of the regions that it read."""

    def __init__(
        self,
        warehouse: Warehouse,
        custody: Custody,
        release: TopDownRelease,
        writers: Mapping[str, pa.RecordBatchFileWriter],
    ) -> None:
        self._warehouse, self._release = warehouse, release
        self.answers, self.regions, self._known = dict[str, str](), set[str](), StateLimits()
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            self._draw_id, self._tree = read_draw_id(session, release), read_tree(session, release)
            self._states = read_states(session, release)
            self.accounts = _read_accounts(session, custody, release)
        tables = redistricting_tables(release)
        self._tables = {name: own for name in SCHEMAS if (own := [each for each in tables if each.schema.name == name])}
        self._rows = _Rows(self._tables, writers)
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
        return {name: digest.hexdigest() for name, digest in self._rows.digests.items()}

    def run(self) -> None:
        levels = self._release.levels
        upper = levels.index(level_of_states(levels)) + 1
        above: Mapping[str, Linear] = {}
        for level in levels[:upper]:
            above = self._to(Scope(level), above)
        for number, state in enumerate(self._states):
            own = {name: linear.between(number, number + 1) for name, linear in above.items()}
            for level in levels[upper:]:
                own = self._to(Scope(level, state), own)
        self._rows.write()

    def _to(self, scope: Scope, above: Mapping[str, Linear]) -> dict[str, Linear]:
        """The linear estimates of the places of a scope, by histogram, from those of their parents; none of the finest
        level, which has nothing below it."""
        release = self._release
        with self._warehouse.session(reads=[Zone.PUBLIC]) as session:
            contents = [self.accounts[part].contents for part in list_parts(release, scope, self._states)]
            reading = Reading(session, self._warehouse, release, scope, self._tree, self._draw_id, contents, "")
            reading.known = self._known
            number = self._states.index(scope.state) if scope.state else None
            places = self._tree.range_within(scope.level, level_of_states(release.levels), number)
            codes = read_codes(session, release, scope.level, *places)
        found: dict[str, list[Linear]] = {name: [] for name in self._tables}
        begin, tasks = 0, _join_parents(reading.tasks(), above)
        with closing(in_threads(lambda task, _: self._estimate(*task), tasks, release.processes)) as outcomes:
            for estimates in outcomes:
                cells = dict[str, _Cells]()
                for name, (linear, estimate, lower) in estimates.items():
                    cells[name] = estimate, lower, linear.most
                    if scope.level != release.finest:
                        found[name].append(linear)
                end = begin + max((len(lower) for _, lower, _ in cells.values()), default=0)
                self._rows.add(scope.level, codes[begin:end], cells)
                begin = end
        self.answers |= reading.answers
        self.regions.add(hash_facts(reading.regions))
        return {name: _concatenate(parts) for name, parts in found.items() if parts}

    def _estimate(
        self, task: Task, parents: Mapping[str, Linear]
    ) -> dict[str, tuple[Linear, NDArray[np.float64], NDArray[np.int64]]]:
        """`_estimate` of the families of a task, by histogram."""
        return {name: _estimate(task.families[name], parents.get(name), sums) for name, sums in self._sums.items()}


_Cells = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]
"""The linear estimates of cells and the ends of their intervals, shape (places, cells)."""


class _Rows:
    """The rows of all tables, which are written and hashed a few hundred at a time."""

    def __init__(
        self, tables: Mapping[str, Sequence[RedistrictingTable]], writers: Mapping[str, pa.RecordBatchFileWriter]
    ) -> None:
        self._tables, self._writers = tables, writers
        self._levels, self._codes = list[pa.Array](), list[pa.Array]()
        self._cells: dict[str, list[_Cells]] = {histogram: [] for histogram in tables}
        self.digests = {name: _Digest() for name in writers}

    def add(self, level: str, codes: pa.ChunkedArray, cells: Mapping[str, _Cells]) -> None:
        """The next places, with their cells by histogram."""
        self._levels.append(pa.repeat(level, len(codes)))
        self._codes += codes.chunks
        for histogram, own in cells.items():
            self._cells[histogram].append(own)
        if sum(map(len, self._levels)) >= _ROWS_WRITTEN:
            self.write()

    def write(self) -> None:
        """Write what was not written yet."""
        if not self._levels:
            return
        levels, codes = (pa.chunked_array(each, pa.string()).combine_chunks() for each in (self._levels, self._codes))
        for histogram, waiting in self._cells.items():
            estimate, *ends = (np.concatenate(parts) for parts in zip(*waiting, strict=True))
            if any(end.max(initial=0) > np.iinfo(np.int32).max for end in ends):
                raise GridError("the end of an interval is 2^31 or more")
            cells, first = [np.rint(estimate * 10**DIGITS).astype(np.int64), *(end.astype(np.int32) for end in ends)], 0
            for table in self._tables[histogram]:
                own = [np.ascontiguousarray(each[:, first : first + len(table.cells)]) for each in cells]
                lists = [to_lists(numbers, digits) for numbers, digits in zip(own, (DIGITS, None, None), strict=True)]
                self._writers[table.name].write_table(pa.table([levels, codes, *lists], schema=_STORED))
                self.digests[table.name].add(levels, codes, own)
                first += len(table.cells)
            waiting.clear()
        self._levels.clear()
        self._codes.clear()


def _estimate(
    families: Families, parents: Linear | None, sums: CellSums
) -> tuple[Linear, NDArray[np.float64], NDArray[np.int64]]:
    """The linear estimates of all children of some families; the estimates of the cells, and the lower ends of their
    intervals, shape (children, cells). Without parents, the only child is the root."""
    own = families.information or inform_finest(families)
    if parents is None:
        information, above = finish_root(own, families), np.full((1, len(sums.squares)), np.inf)
    else:
        information, above = descend(parents.information, families, own), parents.most.astype(np.float64)
    estimate, variance = sum_cells(sums, information)
    lower, most = round_intervals(estimate, variance, np.repeat(above, np.diff(families.starts), axis=0))
    return Linear(information, most), estimate, lower


def _join_parents(tasks: Iterator[Task], above: Mapping[str, Linear]) -> Iterator[tuple[Task, Mapping[str, Linear]]]:
    """Each task with the linear estimates of its parents, by histogram; the root has none."""
    parent = 0
    for task in tasks:
        yield task, {name: linear.between(parent, parent + task.parents) for name, linear in above.items()}
        parent += task.parents


def _concatenate(parts: Sequence[Linear]) -> Linear:
    information = Information.concatenate([part.information for part in parts])
    return Linear(information, np.concatenate([part.most for part in parts]))


def _read_accounts(session: Session, custody: Custody, release: TopDownRelease) -> Accounts:
    """How the current information was made. Raises StaleInputError if it is not of the draw."""
    draw_id, states = read_draw_id(session, release), read_states(session, release)
    accounts = read_accounts(session, custody, release, draw_id, states)
    if (release.levels[0], None) not in accounts:
        raise StaleInputError(
            f"{release.schema}: the information is not that of the stored measurements; materialize {INFORMATION} first"
        )
    return accounts


def _read_answers(accounts: Accounts) -> dict[str, str]:
    """By label, the hash of the answers of each stream as the information was made from them."""
    return {label: digest for account in accounts.values() for label, digest in json.loads(account.read).items()}


def _made_of(accounts: Accounts) -> str:
    return hash_facts([VERSION, [[account.made_of, account.read, account.content] for account in accounts.values()]])
