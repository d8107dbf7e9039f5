"""The grid of a PHSafe release: every cell that its design releases, in the order of the draw."""

import numpy as np
import pyarrow as pa

from assets.measurement.grid import DISTRIBUTIONS, Query
from mechanisms.noise import Noise
from mechanisms.phsafe.design import PHSafeDesign
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace

NOISE = {
    Noise.GAUSSIAN: DISTRIBUTIONS[DiscreteGaussian],
    Noise.LAPLACE: DISTRIBUTIONS[DiscreteLaplace],
}
"""Names of the noise distributions in the published measurements."""


def queries(design: PHSafeDesign) -> list[Query]:
    """The queries: every run at every level for which it is released, each with its own noise."""
    return [
        Query(each.label, design.noise_of(each.run, each.level), design.groups(each.level) * len(each.run.cells))
        for each in design.released
    ]


def grid(design: PHSafeDesign) -> pa.Table:
    """The cells that a design releases, in the order of the draw: by run, level, region, iteration and cell."""
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
                    "data_cell": pa.array(np.tile(np.array(cells), len(regions) * len(codes)), pa.int32()),
                }
            )
        )
    return pa.concat_tables(parts)
