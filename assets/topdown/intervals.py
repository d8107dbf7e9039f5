"""The asset `intervals` of a release with full estimation: for every cell of the redistricting tables, its linear
estimate and a 90% interval, which follow from the measurements without replicates.

`mechanisms.topdown.information` has the mathematics. The linear estimates of a level are computed from those of the
level above, state by state below the states, and not kept. The tables have a row for each place, like the published
ones, and are sealed with what they were made of. Only public tables are read, so nothing is charged.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from assets.conventions import StageKind, preview
from assets.measurement.method import MEASUREMENTS
from assets.release.draw import StaleInputError
from assets.release.seal import is_sealed, seal_stage
from assets.release.stage import release_stage
from assets.topdown.information import Accounts, hash_regions, list_parts, read_accounts
from assets.topdown.reading import (
    PLACES_AT_A_TIME,
    Reading,
    Scope,
    StateLimits,
    concatenate,
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
from resources.warehouse import Session, Warehouse, open_part, store_parts

VERSION = 2
"""Increase it when the same information would give other intervals."""

COLUMNS = {
    "linear_estimate": "The best linear unbiased estimate of the count from all measurements; it may be negative",
    "linear_lower": "Lower end of the 90% interval around the linear estimate",
    "linear_upper": "Upper end of the 90% interval around the linear estimate",
}
"""By ending, the columns of a cell."""

_DECIMAL = pa.decimal128(18, 2)
_TYPES = dict(zip(COLUMNS, (_DECIMAL, pa.int64(), pa.int64()), strict=True))


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
    is not that of the stored measurements."""
    tables = redistricting_tables(release)
    with warehouse.private_folder() as folder:
        paths = [folder / f"{table.name}.parquet" for table in tables]
        with ExitStack() as opened:
            writers = {
                table.name: opened.enter_context(open_part(path, _columns_of(table)))
                for table, path in zip(tables, paths, strict=True)
            }
            turns = opened.enter_context(warehouse.in_turns())
            descent = _Descent(turns, custody, release, writers)
            descent.run()
        # One thread stores many columns in a third of the processor time of several.
        alone = Warehouse(**{**dict(warehouse), "threads": 1})
        with alone.session(writes=Zone.PUBLIC, folder=folder) as session, session.transaction():
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
            content = session.ordered_version(interval_tables(release), custody.seal_key())
            seal_stage(session, custody, release.schema, INTERVALS, [], {"made_of": made_of, "content": content})
    return made_of


def are_intervals_as_made(session: Session, custody: Custody, release: TopDownRelease) -> bool:
    """Whether the stored tables are those that were made from the current information."""
    try:
        made_of = _made_of(_read_accounts(session, custody, release))
    except StaleInputError:
        return False
    tables = interval_tables(release)
    if not all(map(session.columns, tables)):
        return False
    content = session.ordered_version(tables, custody.seal_key())
    return is_sealed(session, custody, release.schema, INTERVALS, [], {"made_of": made_of, "content": content})


class _Descent:
    """The way down the tree, which writes the cells of places as it meets them. It keeps the hashes of the answers and
    of the regions that it read."""

    def __init__(
        self,
        warehouse: Warehouse,
        custody: Custody,
        release: TopDownRelease,
        writers: Mapping[str, pq.ParquetWriter],
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
        self.answers |= reading.answers.by_label()
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
    """The rows of all tables, written a few thousand at a time: of hundreds of columns, a few rows take as long as
    many."""

    def __init__(
        self, tables: Mapping[str, Sequence[RedistrictingTable]], writers: Mapping[str, pq.ParquetWriter]
    ) -> None:
        self._tables, self._writers = tables, writers
        self._levels, self._codes = list[pa.Array](), list[pa.Array]()
        self._cells: dict[str, list[_Cells]] = {histogram: [] for histogram in tables}

    def add(self, level: str, codes: pa.ChunkedArray, cells: Mapping[str, _Cells]) -> None:
        """The next places, with their cells by histogram."""
        self._levels.append(pa.repeat(level, len(codes)))
        self._codes += codes.chunks
        for histogram, own in cells.items():
            self._cells[histogram].append(own)
        if sum(map(len, self._levels)) >= PLACES_AT_A_TIME:
            self.write()

    def write(self) -> None:
        """Write what was not written yet."""
        if not self._levels:
            return
        places = [pa.chunked_array(of_places, pa.string()) for of_places in (self._levels, self._codes)]
        for histogram, waiting in self._cells.items():
            estimate, *ends = (np.ascontiguousarray(np.concatenate(parts).T) for parts in zip(*waiting, strict=True))
            columns = zip(map(to_decimals, np.rint(estimate * 100).astype(np.int64)), *ends, strict=True)
            for table in self._tables[histogram]:
                own = [column for of_cell in islice(columns, len(table.cells)) for column in of_cell]
                self._writers[table.name].write_table(pa.table([*places, *own], schema=_columns_of(table)))
            waiting.clear()
        self._levels.clear()
        self._codes.clear()


def _columns_of(table: RedistrictingTable) -> pa.Schema:
    own = [named for cell in table.cells for named in zip(name_cells(cell.name), _TYPES.values(), strict=True)]
    return pa.schema([("level", pa.string()), ("geoid", pa.string()), *own])


def to_decimals(hundredths: NDArray[np.int64]) -> pa.Array:
    """A decimal has 128 bits, of which the upper half is only the sign of a small number."""
    halves = np.column_stack([hundredths, hundredths >> 63])
    return pa.Array.from_buffers(_DECIMAL, len(hundredths), [None, pa.py_buffer(halves)])


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
    information = concatenate([part.information for part in parts])
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
