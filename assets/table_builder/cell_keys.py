"""The keys of records and of cells, for noise that is a function of the set of records in a cell.

`mechanisms.table_builder.keys` says what the keys are. The aggregation of the records adds them up in every cell.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mechanisms.sampling.types import Words
from mechanisms.table_builder.hypercube import Hypercube
from mechanisms.table_builder.hypercube import Table as Variables
from mechanisms.table_builder.keys import record_keys
from resources.statements import Fragment, Table
from resources.warehouse import Session

_PART = np.uint64(2**32 - 1)

_WHOLE = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT"})


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


def cell_keys(found: pa.Table, cells: int) -> Words:
    """The keys of the inner cells, shape (cells, 2), uint64, upper half first; 0 for an empty cell.

    Args:
        found: the cells that occur, with `cell`, `key_upper` and `key_lower`.
        cells: how many there are.
    """
    keys = np.zeros((cells, 2), dtype=np.uint64)
    keys[found["cell"].to_numpy()] = np.stack([found["key_upper"].to_numpy(), found["key_lower"].to_numpy()], axis=1)
    return keys


def margins_of_keys(design: Hypercube, inner: Words) -> Mapping[Variables, Words]:
    """By measured table, the keys of its cells: sums modulo 2^128 of the keys of inner cells, shape (cells, 2)."""
    # Sums of 32-bit parts do not overflow; what each carries is added to the next.
    parts = [(inner[:, half] >> np.uint64(shift)) & _PART for half in (1, 0) for shift in (0, 32)]
    shape = design.shape(design.inner)
    found: dict[Variables, Any] = {}
    for table in design.tables:
        summed = [design.margin(part.reshape(shape), table).ravel() for part in parts]
        carried = np.zeros_like(summed[0])
        for place, part in enumerate(summed):
            whole = part + carried
            summed[place], carried = whole & _PART, whole >> np.uint64(32)
        lower, upper = (summed[at] | summed[at + 1] << np.uint64(32) for at in (0, 2))
        found[table] = np.stack([upper, lower], axis=1)
    return found
