"""The grid of a PHSafe release: every cell that its design releases, in the order of the draw, and its exact count.

The cells follow from the declaration alone. `join` reads the records.
"""

import pyarrow as pa

from assets.measurement.grid import DISTRIBUTIONS, Query
from mechanisms.noise import Noise
from mechanisms.phsafe.design import PHSafeDesign
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace
from resources.statements import Table
from resources.warehouse import Recipe, Session

NOISE = {
    Noise.GAUSSIAN: DISTRIBUTIONS[DiscreteGaussian],
    Noise.LAPLACE: DISTRIBUTIONS[DiscreteLaplace],
}
"""Names of the noise distributions in the published measurements."""

_COLUMNS = pa.schema(
    [
        *((name, pa.string()) for name in ("run", "level", "region_id", "region_type", "iteration_code")),
        ("data_cell", pa.int32()),
    ]
)


def list_queries(design: PHSafeDesign) -> list[Query]:
    """The queries: every run at every level for which it is released, each with its own noise."""
    return [
        Query(
            measurement.label,
            design.noise_of(measurement.run, measurement.level),
            design.groups(measurement.level) * len(measurement.run.cells),
        )
        for measurement in design.released
    ]


def list_cells(design: PHSafeDesign) -> pa.Table:
    """The cells that a design releases, in the order of the draw: by run, level, region, iteration and cell."""
    cells = [
        (run.name, level.name, region, level.geography.region_type, code, cell)
        for run, level, _ in design.released
        for region in level.regions(design.states)
        for code in sorted(level.iterations.codes)
        for cell in run.cells
    ]
    return pa.table(list(zip(*cells, strict=True)), schema=_COLUMNS)


def counts_recipe(session: Session, joined: Table, cells: pa.Table) -> Recipe:
    """The recipe of the exact counts of cells, zeros included.

    Args:
        joined: the counts of the truncated join.
        cells: the columns of `list_cells`, and `draw_order`, in which the counts are stored.
    """
    return "phsafe/exact_counts", {}, {"joined": joined, "grid": session.register("grid", cells)}
