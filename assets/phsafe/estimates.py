"""Estimates of every cell of the finished tables, from the noisy measurements.

This module adds up measured cells in each population group. `mechanisms.phsafe.estimation` and `averages` compute the
estimates from the sums.
"""

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from assets.measurement.grid import GridCounts
from assets.phsafe.release import PHSafeRelease
from assets.release.published import ERRORS
from mechanisms.phsafe.averages import estimate_averages
from mechanisms.phsafe.design import PHSafeDesign
from mechanisms.phsafe.estimation import Estimates, estimate_counts
from mechanisms.phsafe.margins import Z
from mechanisms.phsafe.runs import LEVELS, RUN, Level
from mechanisms.phsafe.tables import SHELL, Cell, Part, Shell
from resources.warehouse import Session

_HUNDREDTHS = pa.decimal128(18, 2)
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("table_name", "level", "region_type", "region_id", "iteration_code")),
        ("cell", pa.int64()),
        *((name, _HUNDREDTHS) for name in (*ERRORS, "margin_of_error")),
    ]
)


def estimates(method: GridCounts[PHSafeRelease], session: Session) -> pa.Table:
    """The estimates of all declared tables, at every level for which all runs of a table are released.

    Returns:
        Columns `table_name`, `level`, `region_type`, `region_id`, `iteration_code`, `cell`, `estimate`,
        `standard_error`, `lower`, `upper` and `margin_of_error`, the last five as decimals with two places. Averages
        have no standard error: the ratio of two noisy counts has no finite variance.

    Raises:
        GridError: unless there is exactly one measurement of every declared cell.
    """
    release, measured = method.release, _Measured(method, method.read_measurements(session))
    rows = [
        _rows(shell, level, cell, measured)
        for shell in (SHELL[name] for name in release.products)
        for level in LEVELS
        if all((run, level.name) in measured.groups for run in shell.runs)
        for cell in shell.cells
    ]
    return pa.concat_tables([_SCHEMA.empty_table(), *rows])


@dataclass(frozen=True)
class _Sums:
    """Sums of measured cells in every population group of a level.

    Attributes:
        noisy: the noisy sums, shape (groups,).
        variance: the variance of the noise of each sum.
        cells: the number of cells in each sum.
    """

    noisy: NDArray[np.int64]
    variance: float
    cells: int


class _Measured:
    """The measurements by run and level, each as a matrix of population groups and cells."""

    def __init__(self, method: GridCounts[PHSafeRelease], measurements: pa.Table) -> None:
        self.design = method.release.design
        self.interval = method.release.declaration.interval
        self.groups: dict[tuple[str, str], pa.Table] = {}
        self._counts: dict[tuple[str, str], NDArray[np.int64]] = {}
        self._variance: dict[tuple[str, str], float] = {}
        for (run, level, _), (query, part) in zip(self.design.released, method.slices(measurements), strict=True):
            at, width = (run.name, level.name), len(run.cells)
            every = pa.array(np.arange(0, len(part), width))
            self.groups[at] = part.select(["region_type", "region_id", "iteration_code"]).take(every)
            self._counts[at] = part["count"].to_numpy().reshape(-1, width)
            self._variance[at] = float(query.variance)

    def sums(self, part: Part, level: Level) -> _Sums:
        at = (part.run, level.name)
        places = [RUN[part.run].cells.index(cell) for cell in part.cells]
        return _Sums(self._counts[at][:, places].sum(axis=1), len(places) * self._variance[at], len(places))


def _rows(shell: Shell, level: Level, cell: Cell, measured: _Measured) -> pa.Table:
    counted = measured.sums(cell.counted, level)
    if cell.per is None:
        found = estimate_counts(
            counted.noisy, counted.variance, counted.cells, measured.design.noise, measured.interval
        )
        deviations = np.full(len(counted.noisy), counted.variance**0.5)
        deviation, margin = _hundredths(deviations), float(Z) * deviations
    else:
        found = _average(cell, counted, measured.sums(cell.per, level), measured.design)
        deviation, margin = pa.nulls(len(counted.noisy), _HUNDREDTHS), (found.upper - found.lower) / 2
    groups = measured.groups[cell.counted.run, level.name]
    table = pa.table(
        {
            "table_name": pa.repeat(shell.name, len(groups)),
            "level": pa.repeat(level.name, len(groups)),
            **{name: groups[name] for name in groups.column_names},
            "cell": pa.repeat(pa.scalar(cell.number, pa.int64()), len(groups)),
        }
    )
    columns = (_hundredths(found.estimate), deviation, _hundredths(found.lower), _hundredths(found.upper))
    for name, values in zip(ERRORS, columns, strict=True):
        table = table.append_column(name, values)
    return table.append_column("margin_of_error", _hundredths(np.ceil(margin * 100) / 100))


def _average(cell: Cell, counted: _Sums, per: _Sums, design: PHSafeDesign) -> Estimates:
    # No unit has more persons in the numerator than its run's truncation keeps.
    most = design.truncation(RUN[cell.counted.run]) or 0
    return estimate_averages(counted.noisy, counted.variance, per.noisy, per.variance, cell.least, most, design.noise)


def _hundredths(values: NDArray) -> pa.Array:
    """Numbers as decimals with two places, rounded to nearest."""
    hundredths = np.rint(values * 100).astype(np.int64)
    return pc.multiply(pa.array(hundredths).cast(pa.decimal128(19, 0)), Decimal("0.01")).cast(_HUNDREDTHS)
