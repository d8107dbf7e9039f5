"""The numbers of the cells of quantiles and moments: their order, and their exact values, an aggregation of the
records."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.measurement.grid import Query
from assets.release.stage import store_rows
from assets.table_builder.cells import (
    CountsError,
    add_up_parts,
    describe_records,
    read_cells,
    require_possible,
    store_in_order,
)
from assets.table_builder.statistics import StatisticRelease
from mechanisms.table_builder.choosing import FINEST, Chosen
from mechanisms.table_builder.moments import Moments, Scale
from resources.warehouse import Recipe, Session

_LARGEST = 2**62
_DEVIATIONS = 50


def queries_of(release: StatisticRelease) -> list[Query]:
    return [Query(part.name, part.noise, release.cells_of(part.table) * part.size) for part in release.parts]


def list_numbers(release: StatisticRelease) -> pa.Table:
    """All numbers of all cells in the order of the draw: the part's name, the cell's number and the number's place."""
    columns: dict[str, list[Any]] = {"table_name": [], "cell": [], "place": []}
    for part in release.parts:
        cells = release.possible_in(part.table)
        columns["table_name"].append(pa.repeat(part.name, len(cells) * part.size))
        columns["cell"].append(pa.array(np.repeat(cells, part.size)))
        columns["place"].append(pa.array(np.tile(np.arange(part.size), len(cells))))
    return pa.table({name: pa.concat_arrays(arrays) for name, arrays in columns.items()})


def numbers_recipe(session: Session, release: StatisticRelease) -> Recipe:
    """The recipe of the exact numbers, in the order of the draw. Raises CountsError."""
    return _list_counts(session, release, add_up_numbers(session, release))


def part_recipe(session: Session, release: StatisticRelease) -> Recipe:
    """The recipe of the numbers of the inner cells that occur in a partition. Raises CountsError."""
    occupied = _read_occupied(session, release)
    return store_rows(session, "occupied", occupied.sort_by([("cell", "ascending"), ("number", "ascending")]))


def added_recipe(session: Session, release: StatisticRelease, counted: Mapping[str, Any]) -> Recipe:
    """The recipe of the exact numbers from those of all partitions, as `assets.table_builder.cells.added_recipe`."""
    return _list_counts(session, release, _fill_cells(release, add_up_parts(session, release, counted)))


def _list_counts(session: Session, release: StatisticRelease, exact: list[NDArray[np.int64]]) -> Recipe:
    require_possible(release, np.any(exact[0].reshape(*release.possible.shape, -1) != 0, axis=-1))
    reach = max(np.abs(part).sum(dtype=np.float64) for part in exact)
    if isinstance(release.measured, Chosen):
        reach *= 2 * FINEST
    cells = release.cells_of(release.design.inner)
    if reach + _DEVIATIONS * max(part.deviation for part in release.parts) * cells >= _LARGEST:
        raise CountsError(f"{release.schema}: the sums are too large to be measured; declare smaller bounds or steps")
    values = [own[release.possible_in(part.table)].ravel() for part, own in zip(release.parts, exact, strict=True)]
    return store_in_order(session, list_numbers(release), values)


def add_up_numbers(session: Session, release: StatisticRelease) -> list[NDArray[np.int64]]:
    """By part, the exact numbers of all cells of its table, shape (cells, size). Raises CountsError for values outside
    the domains, and for sums that exceed 64 bits."""
    return _fill_cells(release, _read_occupied(session, release))


def _read_occupied(session: Session, release: StatisticRelease) -> pa.Table:
    """The numbers of the inner cells that occur, in the columns cell, number (its place in the cell) and count."""
    measured, described = release.measured, describe_records(session, release, release.amount, release.variables)
    if not isinstance(measured, Moments):
        return read_cells(session, release, "table_builder/leaves", **described, variable=release.variable)
    scales: Sequence[Scale] = [*release.scales.values()]
    names = {"variables": release.variables, "scales": scales, "steps": measured.scale, "pairs": measured.pairs}
    sums = read_cells(session, release, "table_builder/moments", **described, **names)
    columns = [sums[f"component_{place}"] for place in range(measured.components)]
    if any(column.null_count for column in columns):
        raise CountsError(f"{release.schema}: the sums are too large to be measured; declare fewer steps")
    return pa.table(
        {
            "cell": np.tile(sums["cell"].to_numpy(), len(columns)),
            "number": np.repeat(np.arange(len(columns)), len(sums)),
            "count": pa.chunked_array([chunk for column in columns for chunk in column.chunks], pa.int64()),
        }
    )


def _fill_cells(release: StatisticRelease, occupied: pa.Table) -> list[NDArray[np.int64]]:
    design, measured = release.design, release.measured
    size = measured.components if isinstance(measured, Moments) else measured.numbers
    numbers = np.zeros((design.cells(design.inner), size), dtype=np.int64)
    numbers[occupied["cell"].to_numpy(), occupied["number"].to_numpy()] = occupied["count"].to_numpy()
    if isinstance(measured, Moments):
        return [numbers]
    if isinstance(measured, Chosen):
        return [numbers] * len(measured.quantiles)
    shaped = numbers.reshape(*design.shape(design.inner), size)
    margins = [design.margin(shaped, table).reshape(-1, size) for table in design.tables]
    return [level for margin in margins for level in measured.add_up(margin)]
