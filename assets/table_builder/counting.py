"""The exact cells of a hypercube: one aggregation of the records, from which all measured tables are added up."""

from collections.abc import Iterator
from math import sqrt
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.measurement.method import GridError
from assets.release.columns import ARROW
from assets.table_builder.asking import PARTS_OF_ONE
from assets.table_builder.declaration import Amount
from assets.table_builder.release import BETWEEN, HypercubeRelease
from mechanisms.refusal import RefusedError
from mechanisms.table_builder.hypercube import Table
from resources.warehouse import Recipe, Session


class CountsError(RefusedError, ValueError):
    """Records in structural zeros, or sums that the published tables could not hold. The message contains no sum."""


_LARGEST = 2**63
"""Published numbers are stored in ten-thousandths, as 64-bit integers."""

_DEVIATIONS = 50
"""How many standard deviations of noise are provided for; more have a probability below 10^-30."""


def table_name(table: Table) -> str:
    return BETWEEN.join(table)


def list_cells(release: HypercubeRelease) -> pa.Table:
    """All cells of all measured tables in the order of the draw: the table's name and the number of the cell."""
    by_table = {table: release.possible_in(table) for table in release.design.tables}
    names = [pa.repeat(table_name(table), len(cells)) for table, cells in by_table.items()]
    return pa.table({"table_name": pa.concat_arrays(names), "cell": np.concatenate(list(by_table.values()))})


def categories(release: HypercubeRelease) -> Iterator[tuple[str, pa.Array]]:
    for name, domain in release.domains.items():
        yield name, pa.array(domain, ARROW[release.columns[name].type])


def counts_recipe(session: Session, release: HypercubeRelease) -> Recipe:
    """The recipe of the exact counts, in the order of the draw. Raises CountsError."""
    exact = add_up_cells(session, release, release.amount)
    design = release.design
    if outside := np.count_nonzero(exact[~release.possible]):
        raise CountsError(
            f"{release.schema}: structural_zeros: {outside:,} cells that are declared impossible have records; nothing "
            "was charged"
        )
    noise = max(sqrt(design.variance(table) * release.cells_of(table)) for table in design.tables)
    reach = float(np.abs(exact).sum(dtype=np.float64)) + _DEVIATIONS * noise
    if reach * release.unit_of_cells * PARTS_OF_ONE >= _LARGEST:
        raise CountsError(f"{release.schema}: the sums are too large to be published; declare a smaller grid or bounds")
    values = [design.margin(exact, table).ravel()[release.possible_in(table)] for table in design.tables]
    cells = list_cells(release)
    counts = cells.add_column(0, "draw_order", pa.array(np.arange(len(cells)))).append_column(
        "count", pa.array(np.concatenate(values))
    )
    return "warehouse/all", {}, {"source": session.register("counted", counts)}


def add_up_cells(session: Session, release: HypercubeRelease, amount: Amount | None) -> NDArray[np.int64]:
    """The exact inner table in records or in steps of a grid. Raises GridError for values outside the domains."""
    grid = ("least", "most", "multiplier", "divisor")
    bounds = {name: getattr(amount.grid, name) for name in grid} if amount else {}
    occupied = session.arrow("table_builder/inner", bounds, **describe_records(session, release, amount))
    if outside := occupied["cell"].null_count:
        raise GridError(f"{release.schema}: {outside:,} combinations of values are outside the domains")
    cells = np.zeros(release.design.cells(release.design.inner), dtype=np.int64)
    cells[occupied["cell"].to_numpy()] = occupied["count"].to_numpy()
    return cells.reshape(release.design.shape(release.design.inner))


def describe_records(session: Session, release: HypercubeRelease, amount: Amount | None) -> dict[str, Any]:
    """The parameters of the statements `inner` and `identifiers`: records, their columns and the variables' domains."""
    dataset, step, domains = release.dataset, 1, []
    for place, (name, values) in reversed(list(enumerate(categories(release)))):
        steps = pa.table({"category": values, "step": np.arange(len(values)) * step})
        domains.append({"column": name, "table": session.register(f"domain_{place}", steps)})
        step *= len(values)
    tables = dict(zip(dataset.tables, dataset.cef_tables(), strict=True))
    record_table, withheld = release.record_table, release.withheld
    key = record_table.key if record_table.key and not withheld else None
    read = dict.fromkeys([*release.cube.variables, *([amount.column] if amount else [])])
    return {
        "columns": list(release.design.inner),
        "domains": domains,
        "records": withheld.table if withheld else tables[release.cube.of],
        "persons": tables[release.cube.of],
        "units": tables["units"],
        "own": [*([key] if key else []), *(name for name in read if name not in release.from_unit)],
        "from_unit": list(release.from_unit),
        "unit": record_table.unit if release.from_unit else None,
        "key": dataset.units.key,
        "number": amount.column if amount else None,
    }
