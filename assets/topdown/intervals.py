"""The asset `intervals` of a release with full estimation: for every cell of the redistricting tables, its linear
estimate and a 90% interval, which follow from the measurements without replicates.

`mechanisms.topdown.information` has the mathematics. The linear estimates of a level are computed from those of the
level above, state by state below the states, and not kept. The tables are sealed with what they were made of. Only
public tables are read, so nothing is charged.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from assets.conventions import StageKind, preview
from assets.release.draw import StaleInputError
from assets.release.seal import is_sealed, seal_stage
from assets.release.stage import release_stage
from assets.topdown.estimation import hash_estimates, read_estimation
from assets.topdown.histograms import read_counts
from assets.topdown.information import hash_regions, list_parts, read_accounts
from assets.topdown.reading import Reading, Scope, hash_facts, list_scopes, read_draw_id
from assets.topdown.release import INFORMATION, INTERVALS, TEXTS, TopDownRelease
from assets.topdown.spine import read_codes, read_states, read_tree
from assets.topdown.tables import redistricting_tables
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
from mechanisms.topdown.replicates import Sums
from mechanisms.topdown.schema import PERSONS
from resources.custody import Custody
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse, open_part, store_parts

VERSION = 1
"""Increase it when the same information would give other intervals."""

COLUMNS = {
    "level": "Geographic level",
    "geoid": "Code of the place",
    "cell": "Standard name of the cell",
    "estimate": "The published count",
    "linear_estimate": "The best linear unbiased estimate of the count from all measurements; it may be negative",
    "linear_lower": "Lower end of the 90% interval around the linear estimate",
    "linear_upper": "Upper end of the 90% interval around the linear estimate",
}

_DECIMAL = pa.decimal128(18, 2)
_TYPES = (pa.string(), pa.string(), pa.string(), pa.int64(), _DECIMAL, pa.int64(), pa.int64())
_ROWS = pa.schema(list(zip(COLUMNS, _TYPES, strict=True)))


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
        [release.estimated, INFORMATION],
        kinds={"duckdb", "numba"},
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


def make_intervals(warehouse: Warehouse, custody: Custody, release: TopDownRelease) -> str:
    """Make and store the tables; return the digest of what they are made of. Raises StaleInputError if the information
    or the estimates are not those of the stored measurements."""
    tables = redistricting_tables(release)
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        made_of = _made_of(session, custody, release)
    with warehouse.private_folder() as folder:
        paths = {
            table.name: [folder / f"{table.name}-{depth}.parquet" for depth in range(len(release.levels))]
            for table in tables
        }
        with ExitStack() as opened:
            writers = {
                name: [opened.enter_context(open_part(path, _ROWS)) for path in of_table]
                for name, of_table in paths.items()
            }
            descent = _Descent(warehouse, custody, release, tables, writers)
            above: Mapping[str, Linear] = {}
            upper = release.levels.index(level_of_states(release.levels)) + 1
            for level in release.levels[:upper]:
                above = descent.to(Scope(level), above)
            for number, state in enumerate(descent.states):
                own = {name: linear.between(number, number + 1) for name, linear in above.items()}
                for level in release.levels[upper:]:
                    own = descent.to(Scope(level, state), own)
        with warehouse.session(writes=Zone.PUBLIC, folder=folder) as session, session.transaction():
            read = descent.answers, descent.regions
            if _made_of(session, custody, release) != made_of or read != _read_by_estimates(session, custody, release):
                raise StaleInputError(
                    f"{release.schema}: estimates, measurements or invariants were altered while intervals were made"
                )
            for table in tables:
                store_parts(session, interval_table(release, table.name), paths[table.name])
            seal_stage(session, custody, release.schema, INTERVALS, interval_tables(release), {"made_of": made_of})
    return made_of


def are_intervals_as_made(session: Session, custody: Custody, release: TopDownRelease) -> bool:
    """Whether the stored tables are those that were made from the current estimates and information."""
    try:
        made_of = {"made_of": _made_of(session, custody, release)}
    except StaleInputError:
        return False
    return is_sealed(session, custody, release.schema, INTERVALS, interval_tables(release), made_of)


class _Descent:
    """The way down the tree, which writes the cells of places as it meets them. It keeps the hashes of the answers and
    of the regions that it read, as `_read_by_estimates` has them."""

    def __init__(
        self,
        warehouse: Warehouse,
        custody: Custody,
        release: TopDownRelease,
        tables: Sequence[RedistrictingTable],
        writers: Mapping[str, Sequence[pq.ParquetWriter]],
    ) -> None:
        self._warehouse, self._release, self._writers = warehouse, release, writers
        self.answers, self.regions = dict[str, str](), set[str]()
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            self._draw_id, self._tree = read_draw_id(session, release), read_tree(session, release)
            self.states = read_states(session, release)
            self._accounts = read_accounts(session, custody, release, self._draw_id, self.states)
        self._tables = {name: [each for each in tables if each.schema.name == name] for name in SCHEMAS}
        self._counted = {
            name: np.array([cell.counted for table in own for cell in table.cells])
            for name, own in self._tables.items()
            if own
        }
        self._sums: dict[str, CellSums] = {}

    def to(self, scope: Scope, above: Mapping[str, Linear]) -> dict[str, Linear]:
        """The linear estimates of the places of a scope, by histogram, from those of their parents; none of the finest
        level, which has nothing below it."""
        release, first = self._release, 0
        with self._warehouse.session(reads=[Zone.PUBLIC]) as session:
            contents = [self._accounts[part].contents for part in list_parts(release, scope, self.states)]
            reading = Reading(session, self._warehouse, release, scope, self._tree, self._draw_id, contents, "")
        found: dict[str, list[Linear]] = {name: [] for name in self._counted}
        for task in reading.tasks():
            with self._warehouse.session(reads=[Zone.PUBLIC]) as session:
                for name, counted in self._counted.items():
                    parents = above[name].between(first, first + task.parents) if above else None
                    families = task.families[name]
                    if name not in self._sums:
                        self._sums[name] = prepare_sums(Decomposition(families.schema), counted)
                    linear, estimate, lower = _estimate(families, parents, self._sums[name])
                    self._write(session, scope.level, name, task.first, linear, estimate, lower)
                    if scope.level != release.finest:
                        found[name].append(linear)
            first += task.parents
        self.answers |= reading.answers.by_label()
        self.regions.add(hash_facts(reading.regions))
        return {name: _concatenate(parts) for name, parts in found.items() if parts}

    def _write(
        self,
        session: Session,
        level: str,
        histogram: str,
        first: int,
        linear: Linear,
        estimate: NDArray[np.float64],
        lower: NDArray[np.int64],
    ) -> None:
        release, places = self._release, len(lower)
        table = release.public(release.estimates(level))
        counts = read_counts(session, table, first, first + places, histogram=histogram)
        codes = read_codes(session, release, level, first, first + places).to_numpy()
        published = Sums(self._counted[histogram]).of(counts, first, first + places)
        begin = 0
        for of_table in self._tables[histogram]:
            own = slice(begin, begin := begin + len(of_table.cells))
            names = [cell.name for cell in of_table.cells]
            decimals = np.rint(estimate[:, own].ravel() * 100) / 100
            columns = [
                pa.repeat(level, places * len(names)),
                pa.array(np.repeat(codes, len(names)), pa.string()),
                pa.array(names * places),
                published[:, own].ravel(),
                pa.array(decimals).cast(_DECIMAL),
                lower[:, own].ravel(),
                linear.most[:, own].ravel(),
            ]
            writer = self._writers[of_table.name][release.levels.index(level)]
            writer.write_table(pa.table(columns, schema=_ROWS))


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


def _concatenate(parts: Sequence[Linear]) -> Linear:
    arrays = zip(*(vars(part.information).values() for part in parts), strict=True)
    return Linear(Information(*map(np.concatenate, arrays)), np.concatenate([part.most for part in parts]))


def _read_by_estimates(session: Session, custody: Custody, release: TopDownRelease) -> tuple[dict[str, str], set[str]]:
    """The hashes of the answers that the finest level was estimated from, and those of the spine and the invariants: of
    all, as the root was estimated from, and of each state."""
    answers = dict[str, str]()
    regions = hash_regions(session, release, read_tree(session, release))
    root = read_estimation(session, custody, release, Scope(release.levels[0], "", PERSONS.name))
    for scope in list_scopes(release, read_states(session, release)):
        account = read_estimation(session, custody, release, scope) if scope.level == release.finest else None
        answers |= json.loads(account.read) if account else {}
    return answers, {root.held if root else "", *(hash_facts([region]) for region in regions[1:])}


def _made_of(session: Session, custody: Custody, release: TopDownRelease) -> str:
    """A digest of the current estimates and information. Raises StaleInputError if they are not of the draw."""
    draw_id, states = read_draw_id(session, release), read_states(session, release)
    accounts = read_accounts(session, custody, release, draw_id, states)
    estimates = hash_estimates(session, custody, release)
    if estimates is None or (release.levels[0], None) not in accounts:
        raise StaleInputError(
            f"{release.schema}: the estimates or the information are not those of the stored measurements; materialize "
            f"{INFORMATION} and {release.estimated} first"
        )
    return hash_facts([VERSION, estimates, [account.content for account in accounts.values()]])
