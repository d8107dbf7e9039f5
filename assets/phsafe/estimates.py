"""Estimates of every cell of the finished tables, from the noisy measurements.

This module adds up measured cells in each population group. `mechanisms.phsafe.estimation` and `averages` compute the
estimates from the sums.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from assets.measurement.grid import GridCounts, Query
from assets.phsafe.release import PHSafeRelease
from assets.release.published import ERRORS, ESTIMATE, LOWER, STANDARD_ERROR, UPPER
from mechanisms.phsafe.averages import estimate_averages
from mechanisms.phsafe.design import Z
from mechanisms.phsafe.estimation import estimate_counts
from mechanisms.phsafe.runs import LEVELS, SHELL, Cell, Level, Part, Run, Shell
from resources.warehouse import Session

_HUNDREDTHS = pa.decimal128(18, 2)
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("table_name", "level", "region_type", "region_id", "iteration_code")),
        ("cell", pa.int64()),
        *((name, _HUNDREDTHS) for name in (*ERRORS, "margin_of_error")),
    ]
)


def estimate_tables(method: GridCounts[PHSafeRelease], session: Session) -> pa.Table:
    """The estimates of all declared tables, at every level for which all runs of a table are released.

    Returns:
        Columns `table_name`, `level`, `region_type`, `region_id`, `iteration_code`, `cell`, `estimate`,
        `standard_error`, `lower`, `upper` and `margin_of_error`, the last five as decimals with two places. Averages
        have no standard error: the ratio of two noisy counts has no finite variance.

    Raises:
        GridError: unless there is exactly one measurement of every declared cell.
    """
    release, slices = method.release, method.slices(method.read_measurements(session))
    measured: dict[Level, dict[str, _Measurements]] = {level: {} for level in LEVELS}
    for (run, level, _), (query, part) in zip(release.design.released, slices, strict=True):
        measured[level][run.name] = _Measurements.of(run, query, part)
    rows = [
        _rows(release, shell, level, cell, measured[level])
        for shell in (SHELL[name] for name in release.products)
        for level in LEVELS
        if all(run in measured[level] for run in shell.runs)
        for cell in shell.cells
    ]
    return pa.concat_tables([_SCHEMA.empty_table(), *rows])


@dataclass(frozen=True)
class _Measurements:
    """The measurements of a run at a level: counts of shape (groups, cells), and the variance of their noise."""

    run: Run
    groups: pa.Table
    counts: NDArray[np.int64]
    variance: float

    @classmethod
    def of(cls, run: Run, query: Query, part: pa.Table) -> Self:
        firsts = pa.array(np.arange(0, len(part), len(run.cells)))
        groups = part.select(["region_type", "region_id", "iteration_code"]).take(firsts)
        return cls(run, groups, part["count"].to_numpy().reshape(-1, len(run.cells)), float(query.variance))

    def add_up(self, part: Part) -> tuple[NDArray[np.int64], float]:
        """The sums of cells in every group, shape (groups,), and the variance of their noise."""
        places = [self.run.cells.index(cell) for cell in part.cells]
        return self.counts[:, places].sum(axis=1), len(places) * self.variance


def _rows(
    release: PHSafeRelease, shell: Shell, level: Level, cell: Cell, measured: Mapping[str, _Measurements]
) -> pa.Table:
    design, counted = release.design, measured[cell.counted.run]
    noisy, variance = counted.add_up(cell.counted)
    if cell.per is None:
        numbers = estimate_counts(noisy, variance, len(cell.counted.cells), design.noise, release.declaration.interval)
        deviations = np.full(len(noisy), variance**0.5)
        deviation, margin = _hundredths(deviations), float(Z) * deviations
    else:
        # No unit has more persons in the numerator than its run's truncation keeps.
        most = design.truncation(counted.run) or 0
        denominators = measured[cell.per.run].add_up(cell.per)
        numbers = estimate_averages(noisy, variance, *denominators, cell.least, most, design.noise)
        deviation, margin = pa.nulls(len(noisy), _HUNDREDTHS), (numbers.upper - numbers.lower) / 2
    return pa.table(
        {
            "table_name": pa.repeat(shell.name, len(noisy)),
            "level": pa.repeat(level.name, len(noisy)),
            **{name: counted.groups[name] for name in counted.groups.column_names},
            "cell": pa.repeat(pa.scalar(cell.number, pa.int64()), len(noisy)),
            ESTIMATE: _hundredths(numbers.estimate),
            STANDARD_ERROR: deviation,
            LOWER: _hundredths(numbers.lower),
            UPPER: _hundredths(numbers.upper),
            "margin_of_error": _hundredths(np.ceil(margin * 100) / 100),
        }
    )


def _hundredths(values: NDArray) -> pa.Array:
    """Numbers as decimals with two places, rounded to nearest."""
    hundredths = np.rint(values * 100).astype(np.int64)
    return pc.multiply(pa.array(hundredths).cast(pa.decimal128(19, 0)), Decimal("0.01")).cast(_HUNDREDTHS)
