"""Cells and their noise as tables: which cells a design releases, and measurements with what is known of their noise.

Here belongs the way between Arrow tables and the mechanism's arrays. The noise itself is `mechanisms.phsafe.noise`.
"""

from collections.abc import Iterator
from decimal import Decimal, localcontext
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mechanisms.phsafe.design import PHSafeDesign
from mechanisms.phsafe.margins import Noise
from mechanisms.phsafe.runs import Level, Run

DISTRIBUTIONS = {Noise.GAUSSIAN: "Discrete Gaussian", Noise.LAPLACE: "Discrete Laplace"}
"""Names of the noise distributions in the published measurements."""

PLACES = 18
"""Decimals of a published variance: more than a binary double holds."""

VARIANCE = pa.decimal128(38, PLACES)


class GridError(Exception):
    """Counts that are not the ones the design releases; the message holds no count."""


def require_grid(counts: pa.Table, design: PHSafeDesign) -> None:
    """Refuse cells that are not exactly those of the design, each once and in its order.

    Args:
        counts: with columns `run`, `level`, `region_id`, `region_type`, `iteration_code` and `data_cell`.

    Raises:
        GridError: if rows are missing, too many or out of order.
    """
    expected = grid(design)
    if not all(pa.types.is_integer(counts.schema.field(name).type) for name in ("data_cell", "count")):
        raise GridError("cells and counts are not integers")
    if counts["count"].null_count:
        raise GridError(f"{counts['count'].null_count:,} cells have no count")
    for name in expected.column_names:
        if (
            not counts[name]
            .cast(expected.schema.field(name).type)
            .combine_chunks()
            .equals(expected[name].combine_chunks())
        ):
            raise GridError(f"the cells are not those of the release's runs and levels, each once (column {name})")


def grid(design: PHSafeDesign) -> pa.Table:
    """The cells that a design releases, in the order of their noise: by run, level, region, iteration and cell."""
    parts = []
    for run, level, _ in design.released:
        regions, codes, cells = level.regions(design.states), sorted(level.iterations.codes), run.cells
        size = len(regions) * len(codes) * len(cells)
        parts.append(
            pa.table(
                {
                    "run": pa.repeat(run.name, size),
                    "level": pa.repeat(level.name, size),
                    "region_id": pa.array(np.repeat(np.array(regions, object), len(codes) * len(cells)), pa.string()),
                    "region_type": pa.repeat(level.geography.region_type, size),
                    "iteration_code": pa.array(
                        np.tile(np.repeat(np.array(codes, object), len(cells)), len(regions)), pa.string()
                    ),
                    "data_cell": pa.array(np.tile(np.array(cells), len(regions) * len(codes)), pa.int64()),
                }
            )
        )
    return pa.concat_tables(parts)


def slices(cells: pa.Table, design: PHSafeDesign) -> Iterator[tuple[Run, Level, pa.Table]]:
    """A table of cells in the design's order, cut into its runs and levels."""
    start = 0
    for run, level, _ in design.released:
        size = design.groups(level) * len(run.cells)
        yield run, level, cells.slice(start, size)
        start += size


def measured(counts: pa.Table, design: PHSafeDesign, noise: NDArray[np.int64]) -> pa.Table:
    """Noisy measurements: the counts' table with noise added, and what is known of the noise.

    Args:
        counts: in the order of the design, as `require_grid` demands.
        noise: from `draw_noise`.
    """
    distributions, variances = [], []
    for run, level, _ in design.released:
        cells = design.groups(level) * len(run.cells)
        distributions.append(pa.repeat(DISTRIBUTIONS[design.noise], cells))
        variances.append(pa.repeat(pa.scalar(variance_of(design, run, level), VARIANCE), cells))
    return (
        counts.set_column(
            counts.schema.get_field_index("count"), "count", pa.array(counts["count"].to_numpy() + noise, pa.int64())
        )
        .append_column("noise_distribution", pa.concat_arrays(distributions))
        .append_column("variance", pa.concat_arrays(variances))
    )


def variance_of(design: PHSafeDesign, run: Run, level: Level) -> Decimal:
    """The exact variance of the noise of a run at a level, as it is published: rounded to 18 decimals."""
    with localcontext(prec=38):
        return design.noise_of(run, level).exact_variance.quantize(Decimal(1).scaleb(-PLACES))


def measurements_version(measurements: pa.Table) -> str:
    """The content hash of measurements in their order: 64 hexadecimal digits."""
    digest = sha256()
    for name in measurements.column_names:
        texts = pc.cast(measurements[name], pa.string()).to_pylist()
        digest.update("\n".join([name, *texts, ""]).encode())
    return digest.hexdigest()
