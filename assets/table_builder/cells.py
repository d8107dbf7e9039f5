"""The cells of a hypercube: exact cells, which are one aggregation of the records, and cells perturbed by a p-table.

All measured tables are added up from the inner table. A p-table draws every table from its own stream under query
consistency. Under cell consistency the result follows from the keys of the cell's records, which are derived from the
draw's key (`mechanisms.table_builder.keys`) or given in the data.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.measurement.grid import Query
from assets.measurement.method import Batch
from assets.release.columns import ARROW
from assets.release.stage import store_rows
from assets.table_builder.asking import PARTS_OF_ONE
from assets.table_builder.declaration import Amount
from assets.table_builder.release import BETWEEN, HypercubeRelease
from mechanisms.refusal import RefusedError
from mechanisms.sampling.goodness import BinCounts, find_misfits
from mechanisms.sampling.noise import Perturbation
from mechanisms.sampling.stream import RandomStream, Words
from mechanisms.table_builder.grid_values import LARGEST_STEPS, Grid
from mechanisms.table_builder.hypercube import MECHANISM, Consistency, Hypercube, Table
from mechanisms.table_builder.keys import KeyedWords, record_keys
from mechanisms.table_builder.p_table import bin_results, count_impossible
from resources.warehouse import Recipe, Session

_PART = np.uint64(2**32 - 1)
_WHOLE = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT"})

_LARGEST = 2**63
"""Published numbers are stored in ten-thousandths, as 64-bit integers."""

_DEVIATIONS = 50
"""The number of standard deviations of noise for which sums have room; more have a probability below 10^-30."""


class CountsError(RefusedError, ValueError):
    """Records outside the domains or in structural zeros, or sums too large for the published tables. The message
    contains no sum."""


def table_name(table: Table) -> str:
    return BETWEEN.join(table)


def query_of(release: HypercubeRelease, table: Table) -> Query:
    design = release.design
    noise = Perturbation("p-table", design.variance(table)) if design.p_table else design.distribution(table)
    return Query(table_name(table), noise, release.cells_of(table))


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
    return _list_counts(session, release, add_up_cells(session, release, release.amount))


def part_recipe(session: Session, release: HypercubeRelease) -> Recipe:
    """The recipe of the inner cells that occur in a partition. Raises CountsError for values outside the domains."""
    return store_rows(session, "occupied", _read_occupied(session, release, release.amount).sort_by("cell"))


def added_recipe(session: Session, release: HypercubeRelease, counted: Mapping[str, Any]) -> Recipe:
    """The recipe of the exact counts from the inner cells of all partitions, named as in `assets.measurement.parts`. A
    person's cell follows from the person and its unit, which are in one partition. Raises CountsError."""
    return _list_counts(session, release, _fill_cells(release, add_up_parts(session, release, counted)))


def _list_counts(session: Session, release: HypercubeRelease, exact: NDArray[np.int64]) -> Recipe:
    design = release.design
    require_possible(release, exact != 0)
    noise = max(sqrt(design.variance(table) * release.cells_of(table)) for table in design.tables)
    reach = float(np.abs(exact).sum(dtype=np.float64)) + _DEVIATIONS * noise
    if reach * float(release.grid_step) * PARTS_OF_ONE >= _LARGEST:
        raise CountsError(
            f"{release.schema}: the sums are too large to be published; declare smaller bounds or a larger budget"
        )
    values = [design.margin(exact, table).ravel()[release.possible_in(table)] for table in design.tables]
    return store_in_order(session, list_cells(release), values)


def require_possible(release: HypercubeRelease, occupied: NDArray[np.bool_]) -> None:
    """Raise CountsError if structural zeros are among the occupied cells, a mask of the inner table's shape."""
    if outside := np.count_nonzero(occupied & ~release.possible):
        raise CountsError(
            f"{release.schema}: structural_zeros: {outside:,} cells that are declared impossible have records; nothing "
            "was charged"
        )


def store_in_order(session: Session, cells: pa.Table, values: Sequence[NDArray[np.int64]]) -> Recipe:
    """The recipe of the exact counts of some cells, from consecutive values in the same order, that of the draw."""
    numbered = cells.add_column(0, "draw_order", pa.array(np.arange(len(cells))))
    return store_rows(session, "counted", numbered.append_column("count", pa.array(np.concatenate(values))))


def add_up_cells(session: Session, release: HypercubeRelease, amount: Amount | None) -> NDArray[np.int64]:
    """The exact inner table in records or in steps of a grid. Raises CountsError for values outside the domains."""
    return _fill_cells(release, _read_occupied(session, release, amount))


def _read_occupied(session: Session, release: HypercubeRelease, amount: Amount | None) -> pa.Table:
    return read_cells(session, release, "table_builder/inner", **describe_records(session, release, amount))


def _fill_cells(release: HypercubeRelease, occupied: pa.Table) -> NDArray[np.int64]:
    cells = np.zeros(release.design.cells(release.design.inner), dtype=np.int64)
    cells[occupied["cell"].to_numpy()] = occupied["count"].to_numpy()
    return cells.reshape(release.design.shape(release.design.inner))


def read_cells(session: Session, release: HypercubeRelease, statement: str, **names: Any) -> pa.Table:
    """The result of a statement for the inner cells that occur. Raises CountsError for values outside the domains."""
    occupied = session.arrow(statement, **names)
    if outside := occupied["cell"].null_count:
        raise CountsError(f"{release.schema}: {outside:,} combinations of values are outside the domains")
    return occupied


def add_up_parts(session: Session, release: HypercubeRelease, counted: Mapping[str, Any]) -> pa.Table:
    """The rows of all partitions, added up. Raises CountsError for sums that exceed 64 bits."""
    added = session.arrow("measurement/added_up", **counted)
    if added["count"].null_count:
        raise CountsError(f"{release.schema}: the sums are too large; declare smaller bounds or fewer steps")
    return added


def describe_records(
    session: Session, release: HypercubeRelease, amount: Amount | None, further: Sequence[str] = ()
) -> dict[str, Any]:
    """The parameters of the statements on records: the records, their columns and the variables' domains. The
    statements also read the columns in `further`."""
    dataset, step, domains = release.dataset, 1, []
    for place, (name, values) in reversed(list(enumerate(categories(release)))):
        steps = pa.table({"category": values, "step": np.arange(len(values)) * step})
        domains.append({"column": name, "table": session.register(f"domain_{place}", steps)})
        step *= len(values)
    tables = dict(zip(dataset.tables, dataset.cef_tables(), strict=True))
    record_table, withheld = release.record_table, release.withheld
    key = record_table.key if record_table.key and not withheld else None
    read = dict.fromkeys([*release.cube.variables, *([amount.column] if amount else []), *further])
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
        "amount": amount,
    }


def perturbed_cells(session: Session, release: HypercubeRelease, exact: Iterator[Batch], key: bytes) -> Iterator[Batch]:
    design, p_table = release.design, release.design.p_table
    assert p_table is not None
    if design.consistency is Consistency.QUERY:
        for batch in exact:
            yield replace(batch, values=p_table.draw(batch.values, RandomStream(key, f"{MECHANISM} {batch.query}")))
    elif release.cube.record_keys is not None:
        sums = add_up_given_keys(session, release, release.cube.record_keys)
        for table, batch in zip(design.tables, exact, strict=True):
            of_cells = design.margin(sums, table).ravel()[release.possible_in(table)]
            yield replace(batch, values=p_table.look_up(batch.values, of_cells))
    else:
        assert release.record_table.key is not None
        keys = derive_keys(session, release.record_table.key, key, describe_records(session, release, None))
        by_table = _add_up_margins(design, add_up_keys(session, keys, design.cells(design.inner)))
        for table, batch in zip(design.tables, exact, strict=True):
            words = KeyedWords(key, by_table[table][release.possible_in(table)])
            yield replace(batch, values=p_table.draw_by_cell(batch.values, words))


def add_up_given_keys(session: Session, release: HypercubeRelease, column: str) -> np.ndarray:
    """The sums of the keys given in the data, in the inner table's shape."""
    return add_up_cells(session, release, Amount(column, Grid(Fraction(1), Fraction(0), Fraction(LARGEST_STEPS))))


def derive_keys(session: Session, record: str, key: bytes, names: Mapping[str, Any]) -> pa.Table:
    """The key of every record, with the number of its inner cell: the columns `cell`, `key_upper` and `key_lower`.

    `record` is the column that identifies the records, unique and never null; `names` come from `describe_records`.
    `key` is the draw's secret key of 32 bytes.
    """
    whole = session.columns(names["records"]).get(record) in _WHOLE
    records = session.arrow("table_builder/identifiers", **{**names, "record": record, "whole": whole})
    keys = record_keys(key, _stack_halves(records, "identifier"))
    columns = {f"key_{half}": np.ascontiguousarray(keys[:, place]) for place, half in enumerate(("upper", "lower"))}
    return pa.table({"cell": records["cell"], **columns})


def add_up_keys(session: Session, keys: pa.Table, cells: int) -> Words:
    """The keys of the inner cells, shape (cells, 2), upper half first."""
    occupied = session.arrow("table_builder/key_sums", keys=session.register("record_keys", keys))
    sums = np.zeros((cells, 2), dtype=np.uint64)
    sums[occupied["cell"].to_numpy()] = _stack_halves(occupied, "key")
    return sums


def _stack_halves(rows: pa.Table, name: str) -> Words:
    return np.stack([rows[f"{name}_{half}"].to_numpy() for half in ("upper", "lower")], axis=1)


def _add_up_margins(design: Hypercube, inner: Words) -> Mapping[Table, Words]:
    """By measured table, the keys of its cells: sums modulo 2^128 of the keys of inner cells, shape (cells, 2)."""
    # Sums of 32-bit parts do not overflow; the carry of each is added to the next.
    parts = [(inner[:, half] >> np.uint64(shift)) & _PART for half in (1, 0) for shift in (0, 32)]
    shape = design.shape(design.inner)
    by_table: dict[Table, Words] = {}
    for table in design.tables:
        summed = [design.margin(part.reshape(shape), table).ravel() for part in parts]
        carried = np.zeros_like(summed[0])
        for place, part in enumerate(summed):
            whole = part + carried
            summed[place], carried = whole & _PART, whole >> np.uint64(32)
        lower, upper = (summed[at] | summed[at + 1] << np.uint64(32) for at in (0, 2))
        by_table[table] = np.stack([upper, lower], axis=1)
    return by_table


def unlikely_results(design: Hypercube, pairs: Iterable[tuple[Batch, Batch]]) -> list[str]:
    """Results that do not fit the p-table: impossible ones, and rows that fail a chi-square test.

    The pairs are exact cells with their results, the inner table first. Under cell consistency, cells with the same
    records have the same result. Only the inner cells with records are independent, so the test uses only these.
    """
    p_table = design.p_table
    assert p_table is not None
    problems: list[str] = []
    by_row: dict[str, BinCounts] = {}
    for place, (exact, noisy) in enumerate(pairs):
        counts, results = exact.values.ravel(), noisy.values.ravel()
        if wrong := count_impossible(counts, results, p_table):
            problems.append(f"{exact.query}: {wrong:,} results that the p-table does not allow")
        if design.consistency is Consistency.CELL:
            tested = counts > 0 if place == 0 else np.zeros(len(counts), dtype=np.bool_)
            counts, results = counts[tested], results[tested]
        for row, part in bin_results(counts, results, p_table).items():
            by_row[row] = by_row[row] + part if row in by_row else part
    return problems + find_misfits(by_row)
