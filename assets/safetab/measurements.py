"""The draw of SafeTab-P: exact counts in blocks of regions, and the measurements kept.

Most groups of a tract or place are empty, and suppression removes almost all of these. So groups are measured in blocks
of whole regions, and only the kept cells are stored: no table holds all groups, or the noisy totals that determine
their detail.

The rows of a batch are the kept cells in the order of region, iteration and cell, with the columns region and iteration
(their codes as numbers), detail, cell and count. So the version of the measurements covers the list of kept groups and
their details.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.measurement.method import MEASUREMENTS, Batch, GridError
from assets.release.release import Release
from assets.safetab.counting import read_regions
from assets.safetab.release import COLUMNS_OF_GROUPS, COUNTS, REGIONS, SafeTabPRelease
from mechanisms.safetab.adaptive import GroupNoise, Kept, draw_block
from mechanisms.safetab.design import Measured
from mechanisms.safetab.details import DETAILS, FINEST, cells, fold
from mechanisms.safetab.lists import Iteration
from mechanisms.safetab.planning import expect_numbers_of_empty_group
from resources.statements import Fragment
from resources.warehouse import Session

GROUPS_AT_A_TIME = 2_000_000
"""The number of groups measured at a time: about 100 megabytes. If empty groups are published in detail, as many of
their expected numbers instead."""

MOST_NUMBERS = 10**9
"""The most published numbers of empty groups that a release may expect. More would be hard to store."""

COLUMNS = {
    **COLUMNS_OF_GROUPS,
    "detail": "Detail in which the group is measured: 0 the total, 1 to 3 sex by 4, 9 or 23 age groups",
    "cell": "Number of the cell within the detail, sex by sex",
    "count": "Noisy count",
}

_STORED = ("region", "iteration", "detail", "cell", "count")


@dataclass(frozen=True)
class KeptCells(Batch):
    """Kept cells of one region type and level, shape (cells, 5): region, iteration, detail, cell, count."""

    measured: Measured

    def of_totals_only(self, release: SafeTabPRelease) -> NDArray[np.bool_]:
        """Whether each cell belongs to a group measured as a total only, shape (cells,)."""
        codes = [int(iteration.code) for iteration in release.lists.iteration.values() if iteration.detailed_only]
        return np.isin(self.values[:, 1], codes) & self.measured.region_type.detailed


def measure_batches(session: Session, release: SafeTabPRelease, noise: GroupNoise) -> Iterator[KeptCells]:
    """Measure every group, region type by region type and level by level, and yield the kept cells."""
    regions = read_regions(session, release)
    for measured in release.design.measured:
        universe, values = release.universe_of(measured), measured.region_and_level
        names = {
            "counts": release.confidential(COUNTS),
            "regions": release.public(REGIONS),
            "iterations": _register_iterations(session, universe),
        }
        totals = session.stage("totals", "safetab/totals", values, **names)
        region_ids = regions[measured.region_type]
        numbers = len(universe) * max(1.0, expect_numbers_of_empty_group(measured))
        size = max(1, int(GROUPS_AT_A_TIME / max(1.0, numbers)))
        for first in range(0, len(region_ids), size):
            block = region_ids[first : first + size]
            exact = np.zeros((len(block), len(universe)), dtype=np.int64)
            _fill(exact, session.arrow("safetab/totals_between", {"first": first, "last": first + size}, totals=totals))

            exact_cells = partial(_count_cells, session, names, values, first)
            kept = draw_block(measured, block, universe, exact, exact_cells, noise)
            yield KeptCells(measured.label, _rows(kept, block, universe), measured)


def require_storable(session: Session, release: SafeTabPRelease) -> None:
    """Refuse thresholds so low, or noise of the first stage so large, that empty groups alone make too many numbers.

    The check depends on public values only.
    """
    regions = read_regions(session, release)
    numbers = sum(
        len(regions[line.region_type]) * len(release.universe_of(line)) * expect_numbers_of_empty_group(line)
        for line in release.design.measured
    )
    if numbers > MOST_NUMBERS:
        release.refuse(
            f"of groups without persons, about {numbers:,.0f} numbers would be published, and the most is "
            f"{MOST_NUMBERS:,}; raise the thresholds, the budgets or zero_suppression_chance"
        )


def _register_iterations(session: Session, universe: Sequence[Iteration]) -> Fragment:
    codes = pa.array([iteration.code for iteration in universe], pa.string())
    columns = {"place": np.arange(len(universe)), "iteration_code": codes}
    return session.register("iterations", pa.table(columns))


def _fill(array: NDArray[np.int64], counts: pa.Table) -> None:
    """Write counts, the last column, to the positions in an array that the first two columns give."""
    row, column, count = (numbers.to_numpy() for numbers in counts.columns)
    array[row, column] = count


def _count_cells(
    session: Session,
    names: Mapping[str, Any],
    values: Mapping[str, Any],
    first: int,
    number: NDArray[np.int64],
    place: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The exact counts of the finest cells of some groups of a block of regions from `first`, shape (groups, 46)."""
    columns = {"row": np.arange(len(number)), "number": number + first, "place": place}
    groups = session.register("groups", pa.table(columns))
    exact = np.zeros((len(number), FINEST), dtype=np.int64)
    _fill(exact, session.arrow("safetab/cells_of_groups", values, groups=groups, **names))
    return exact


def _rows(kept: Sequence[Kept], regions: Sequence[str], universe: Sequence[Iteration]) -> NDArray[np.int64]:
    """The kept cells in the order of region, iteration and cell."""
    region = np.array([int(region_id) for region_id in regions], dtype=np.int64)
    iteration = np.array([int(member.code) for member in universe], dtype=np.int64)
    parts = []
    for groups in kept:
        part = np.empty((*groups.cells.shape, len(_STORED)), dtype=np.int64)
        part[..., 0], part[..., 1] = region[groups.regions][:, None], iteration[groups.iterations][:, None]
        part[..., 2], part[..., 3], part[..., 4] = groups.detail, np.arange(groups.cells.shape[1]), groups.cells
        parts.append(part.reshape(-1, len(_STORED)))
    rows = np.concatenate(parts)
    return rows[np.lexsort((rows[:, 3], rows[:, 1], rows[:, 0]))]


def write_measurements(session: Session, release: SafeTabPRelease, batches: Iterator[KeptCells]) -> None:
    table = release.public(MEASUREMENTS)
    session.create(table, "safetab/no_measurements", households=False)
    for batch in batches:
        rows = session.register("rows", pa.table(dict(zip(_STORED, batch.values.T, strict=True))))
        values = batch.measured.region_and_level | {"digits": batch.measured.region_type.digits}
        session.run("safetab/append", values, table=table, rows=rows)


def read_stored_batches(session: Session, release: SafeTabPRelease) -> Iterator[KeptCells]:
    """The stored measurements, a batch for each region type and level. Raises GridError unless they are cells of
    declared groups, each group with all cells of one detail exactly once, and include every group of the nation and the
    states."""
    table, total = release.public(MEASUREMENTS), 0
    require_columns(session, release, households=False)
    regions = read_regions(session, release)
    for measured in release.design.measured:
        universe = release.universe_of(measured)
        stored = session.arrow(
            "safetab/measurements_in_order",
            measured.region_and_level,
            measurements=table,
            regions=release.public(REGIONS),
            iterations=_register_iterations(session, universe),
        )
        if any(column.null_count for column in stored.columns):
            raise GridError(f"{release.schema}: {measured.label}: measurements of unknown groups, or without a number")
        batch = KeptCells(measured.label, _as_array(stored), measured)
        _require_whole(release, batch, len(regions[measured.region_type]) * len(universe))
        total += len(stored)
        yield batch
    if total != session.count(table):
        raise GridError(f"{release.schema}: measurements of region types and levels that are not declared")


def require_columns(session: Session, release: Release, *, households: bool) -> None:
    """Raise GridError if stored measurements have other columns or column types than Stirred stores, even if their
    values are equal."""
    expected = session.columns(session.stage("no_measurements", "safetab/no_measurements", households=households))
    if list(session.columns(release.public(MEASUREMENTS)).items()) != list(expected.items()):
        listed = ", ".join(f"{name} {kind}" for name, kind in expected.items())
        raise GridError(f"{release.schema}: the columns are not {listed}")


def _require_whole(release: SafeTabPRelease, batch: KeptCells, groups: int) -> None:
    """Refuse stored measurements that no draw of this number of groups could keep, for any exact counts."""
    measured, name = batch.measured, f"{release.schema}: {batch.measured.label}"
    region, iteration, detail, cell, count = batch.values.T
    starts = np.flatnonzero((np.diff(region, prepend=-1) != 0) | (np.diff(iteration, prepend=-1) != 0))
    lengths = np.diff(starts, append=len(region))
    of_group = detail[starts]
    if not np.isin(of_group, DETAILS).all() or not np.array_equal(detail, np.repeat(of_group, lengths)):
        raise GridError(f"{name}: groups with another detail than 0 to 3, or with several")
    sizes = np.array([cells(number) for number in DETAILS])[of_group]
    if not np.array_equal(lengths, sizes) or not np.array_equal(
        cell, np.arange(len(region)) - np.repeat(starts, lengths)
    ):
        raise GridError(f"{name}: groups without all cells of their detail, or with more")
    if batch.of_totals_only(release)[starts][of_group > 0].any():
        raise GridError(f"{name}: details of groups that have totals only")
    if measured.cut_off is None and len(starts) != groups:
        raise GridError(f"{name}: not every group is measured")
    if measured.cut_off is not None and (count[starts][of_group == 0] <= measured.cut_off).any():
        raise GridError(f"{name}: totals that suppression does not leave")
    if not release.design.negative_counts and (count < 0).any():
        raise GridError(f"{name}: negative counts")


def read_exact_batches(session: Session, release: SafeTabPRelease) -> Iterator[KeptCells]:
    """The exact counts of the cells that are stored as measured, in the batches of `read_stored_batches`."""
    finest = np.eye(FINEST, dtype=np.int64)
    mapping = [
        {"detail": detail, "finest": part, "cell": cell}
        for detail in DETAILS
        for part, cell in zip(*np.nonzero(fold(detail, finest)), strict=True)
    ]
    parts = session.register("parts", pa.Table.from_pylist(mapping))
    for measured in release.design.measured:
        exact = session.arrow(
            "safetab/exact_in_order",
            measured.region_and_level,
            measurements=release.public(MEASUREMENTS),
            counts=release.confidential(COUNTS),
            cells=parts,
        )
        yield KeptCells(measured.label, _as_array(exact), measured)


def _as_array(rows: pa.Table) -> NDArray[np.int64]:
    return np.stack([rows[name].to_numpy() for name in _STORED], axis=1)
