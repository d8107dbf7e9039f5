"""Counts and cell keys from the records of a dataset, in one aggregation.

`mechanisms.table_builder.keys` says what the keys are; the SQL adds up the keys of the records in each cell.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.sampling.types import Words
from mechanisms.table_builder.keys import record_keys
from resources.statements import Fragment, Table
from resources.warehouse import Session

_WHOLE = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT"})


@dataclass(frozen=True)
class KeyedCounts:
    """The cells of a table, in the order of their numbers.

    Attributes:
        counts: shape (cells,), int64.
        keys: shape (cells, 2), uint64: the cell keys, upper half first; 0 for an empty cell.
    """

    counts: NDArray[np.int64]
    keys: Words


def register_record_keys(session: Session, records: Table, record: Sequence[str], key: bytes) -> Fragment:
    """The key of every record, as a table of the session: the record's key columns, `key_upper` and `key_lower`.

    Args:
        session: reads the records.
        records: a table of the CEF.
        record: the columns that together are different for all records, and never null.
        key: of the draw, 32 bytes, secret.

    Raises:
        WarehouseError: if the records cannot be read.
    """
    types = session.columns(records)
    number = len(record) == 1 and types.get(record[0]) in _WHOLE
    found = session.arrow("table_builder/identifiers", record=list(record), records=records, **{"number": int(number)})
    halves = [found[f"identifier_{half}"].to_numpy() for half in ("upper", "lower")]
    keys = record_keys(key, np.stack(halves, axis=1))
    columns = {name: found[name] for name in record}
    return session.register(
        "record_keys",
        pa.table(
            {**columns, "key_upper": np.ascontiguousarray(keys[:, 0]), "key_lower": np.ascontiguousarray(keys[:, 1])}
        ),
    )


def keyed_counts(
    session: Session, cells: Fragment, columns: Sequence[str], records: Table, record: Sequence[str], keys: Fragment
) -> KeyedCounts:
    """The count and the key of every cell.

    Args:
        session: has `cells` and `keys`, and reads the records.
        cells: every cell once, with its number `cell` and its value in each column.
        columns: the variables of the table, at least one.
        records: a table of the CEF.
        record: the columns of the record's key.
        keys: from `register_record_keys`.
    """
    found = session.arrow(
        "table_builder/counts_and_keys",
        cells=cells,
        columns=list(columns),
        records=records,
        record=list(record),
        keys=keys,
    )
    halves = [found[f"key_{half}"].to_numpy() for half in ("upper", "lower")]
    return KeyedCounts(found["count"].to_numpy(), np.stack(halves, axis=1))
