"""Cells that are perturbed by a p-table, and the test of whether they look as if they were.

Under query consistency every table is drawn from its own stream. Under cell consistency the result follows from the
keys of the cell's records, which the draw's key gives them (`mechanisms.table_builder.keys`) or the data bring along.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from assets.measurement.method import Batch
from assets.table_builder.counting import add_up_cells, describe_records
from assets.table_builder.declaration import Amount
from assets.table_builder.release import HypercubeRelease
from mechanisms.sampling.goodness import BinCounts, find_misfits
from mechanisms.sampling.noise import Distribution, Perturbation
from mechanisms.sampling.stream import RandomStream, Words
from mechanisms.table_builder.grid_values import LARGEST_STEPS, Grid
from mechanisms.table_builder.hypercube import MECHANISM, Consistency, Hypercube, Table
from mechanisms.table_builder.keys import KeyedWords, record_keys
from mechanisms.table_builder.p_table import bin_results, count_impossible
from resources.warehouse import Session

P_TABLE = "p-table"
"""The name of the noise in stored and published measurements."""

_PART = np.uint64(2**32 - 1)
_WHOLE = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT"})


def noise_of(design: Hypercube, table: Table) -> Distribution | Perturbation:
    return Perturbation(P_TABLE, design.variance(table)) if design.p_table else design.distribution(table)


def perturbed_cells(session: Session, release: HypercubeRelease, exact: Iterator[Batch], key: bytes) -> Iterator[Batch]:
    """The results of all measured tables, in the order of the draw."""
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
    """The sums of the keys that the data bring along, in the inner table's shape."""
    return add_up_cells(session, release, Amount(column, Grid(Fraction(1), Fraction(0), Fraction(LARGEST_STEPS))))


def derive_keys(session: Session, record: str, key: bytes, names: Mapping[str, Any]) -> pa.Table:
    """The key of every record, with the number of its inner cell: the columns `cell`, `key_upper` and `key_lower`.

    Args:
        record: the column with the key of the records, which is different for all of them and never null.
        key: of the draw, 32 bytes, secret.
        names: the parameters of the statement `table_builder/identifiers`, as `describe_records` gives them.
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
    # Sums of 32-bit parts do not overflow; what each carries is added to the next.
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

    Under cell consistency, cells with the same records have the same result. Only the inner cells with records are
    independent of each other, so only they are in the test.

    Args:
        pairs: exact cells with their results, the inner table first.
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
