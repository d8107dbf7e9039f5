"""Permutation swapping of records in a table, with its exact ε: Bailie, Gong and Meng, Algorithm 1 and Theorem 1.

Records that agree on the match variables form a stratum. Within it, randomly selected records exchange the values of
their swap variables, and keep the values of all other columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.release.numbers import exact_swap_rate, positive_fraction
from mechanisms.accounting.losses import PureLoss
from mechanisms.sampling.stream import RandomStream
from mechanisms.swapping.design import Rates, SwappingDesign
from mechanisms.swapping.loss import smallest_rate, theorem_1
from mechanisms.swapping.permutation import Codes, Contingency, count_cells, measure_strata, permute
from stirred.accounting import Number
from stirred.random import Randomness
from stirred.results import Frame, TableDraw, frame_kind, not_compared, read_column, read_frame, write_frame

__all__ = ["Swapped", "loss", "rate_for", "swap"]


@dataclass(frozen=True, repr=False, eq=False)
class Swapped(TableDraw):
    """Swapped records: in `table`, one row for each combination of values, with the number of records in `count`.

    Attributes:
        design: the roles of the variables, and the swap rate.
        strata: the number of strata.
        largest_stratum: b, the size of the largest stratum with two distinct records; 0 without such a stratum.
    """

    design: SwappingDesign
    strata: int
    largest_stratum: int

    @cached_property
    def records(self) -> Any:
        """One row for each record, in an uninformative order, without the column `count`."""
        rows = np.repeat(np.arange(self.arrow.num_rows), self.arrow["count"].to_numpy())
        return write_frame(self.arrow.drop_columns("count").take(rows), self.kind)


def loss(largest_stratum: int, rate: Number) -> PureLoss:
    """The exact ε of Theorem 1 for a change of one record: the greater of ln((b + 1) / o) and ln o, where b is the size
    of the largest stratum with two distinct records and o = p / (1 − p); 0 if b is 0."""
    return theorem_1(largest_stratum, exact_swap_rate(rate))


def rate_for(largest_stratum: int, epsilon: Number) -> Fraction:
    """The smallest swap rate, in millionths, that loses at most ε. Raises ValueError if no rate does: every rate loses
    at least ½ ln(b + 1)."""
    return smallest_rate(largest_stratum, positive_fraction(epsilon))


def swap(
    data: Frame,
    *,
    match: Sequence[str],
    swap: Sequence[str],
    rate: Number,
    randomness: Randomness,
    unit: str = "record",
    name: str = "the data",
) -> Swapped:
    """Swap the records of a table.

    Each record of a stratum of two or more is selected with probability `rate`; if exactly one is, the selection is
    repeated. A uniform permutation without fixed points exchanges the swap values of the selected records. Two tables
    of counts stay exact: by all columns except the swap variables, and by match and swap variables.

    Args:
        data: a row for each record. Missing values are values like any other.
        match: the columns on which swapped records agree; none for one stratum of all records.
        swap: the columns whose values are exchanged. All others stay with the record.
        rate: the swap rate p, strictly between 0 and 1, as a number, a text such as "1/20", or a fraction.
        unit: the name of a record, such as "household". Use "person" only if a change of one person changes one record.
        name: the name of the data in the specification.

    Raises DesignError if no column is swapped or held or one has two roles, KeyError for a missing column, and
    ValueError for a rate out of range or a column named `count`, like the column of the result.
    """
    if isinstance(match, str) or isinstance(swap, str):
        raise TypeError("columns are given as a list")
    frame = read_frame(data)
    if "count" in frame.column_names:
        raise ValueError("count: the result has a column of this name, so the data have none")
    held = [column for column in frame.column_names if column not in (*match, *swap)]
    design = SwappingDesign(
        unit, tuple(match), tuple(swap), tuple(held), Rates.single(exact_swap_rate(rate)), persons=()
    )
    assert design.plain_rate is not None
    cells, swapped, b, strata = _permute(frame, design, design.plain_rate, randomness.next_stream())
    columns = {column: swapped[column] if column in swap else cells[column] for column in frame.column_names}
    table = pa.table(columns | {"count": swapped["count"]})
    return Swapped(design.specification(name, b), table, frame_kind(data), design, strata, b)


def _permute(
    frame: pa.Table, design: SwappingDesign, rate: Fraction, stream: RandomStream
) -> tuple[pa.Table, pa.Table, int, int]:
    """The holding values of every cell of swapped records, their swap values with the count, b, and the strata.

    Values are numbered in their own order, with the match variables first, so that the result depends on the content
    alone, and not on the order of records.
    """
    stratum, _ = _number(frame, design.match)
    holding, holding_rows = _number(frame, design.holding)
    swap, swap_rows = _number(frame, design.swap)
    cells = count_cells((holding.astype(np.int64) << 32) | swap)
    before = Contingency(stratum[holding_rows][cells[0]], *cells)
    strata, b = measure_strata(before)
    after = permute(before, rate, stream)
    held = frame.take(holding_rows[after.holding])
    swapped = frame.take(swap_rows[after.swap]).append_column("count", pa.array(after.count))
    return held, swapped, b, strata


def _number(frame: pa.Table, columns: Sequence[str]) -> tuple[Codes, np.ndarray]:
    """The number of every row's values, in ascending order of the columns and nulls last; and one row for each
    number."""
    codes = np.zeros(frame.num_rows, dtype=np.int64)
    for column in columns:
        values = read_column(frame, column)
        try:
            ranks = pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
        except pa.ArrowNotImplementedError:
            raise not_compared(column, values.type) from None
        # Numbered again after each column, so that no product of numbers of values overflows.
        _, codes = np.unique(codes * (ranks.max(initial=0) + 1) + ranks, return_inverse=True)
    _, rows, codes = np.unique(codes, return_index=True, return_inverse=True)
    return codes.astype(np.int32), rows
