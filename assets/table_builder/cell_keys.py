"""The keys of records and of cells, for noise that is a function of the set of records in a cell.

`mechanisms.table_builder.keys` says what the keys are. The records come with the numbers of their cells, by which
DuckDB adds the keys up.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mechanisms.sampling.stream import Words
from mechanisms.table_builder.hypercube import Hypercube
from mechanisms.table_builder.hypercube import Table as Variables
from mechanisms.table_builder.keys import record_keys
from resources.warehouse import Session

_PART = np.uint64(2**32 - 1)

_WHOLE = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT"})


def keys_of_records(session: Session, record: Sequence[str], key: bytes, names: Mapping[str, Any]) -> pa.Table:
    """The key of every record, with the number of its inner cell: the columns `cell`, `key_upper` and `key_lower`.

    Args:
        record: the columns that together are different for all records, and never null.
        key: of the draw, 32 bytes, secret.
        names: what the statement `table_builder/identifiers` takes: the records and the domains of the variables.

    Raises:
        WarehouseError: if the records cannot be read.
    """
    whole = len(record) == 1 and session.columns(names["records"]).get(record[0]) in _WHOLE
    found = session.arrow("table_builder/identifiers", **{**names, "record": list(record), "whole": whole})
    halves = [found[f"identifier_{half}"].to_numpy() for half in ("upper", "lower")]
    keys = record_keys(key, np.stack(halves, axis=1))
    columns = {f"key_{half}": np.ascontiguousarray(keys[:, place]) for place, half in enumerate(("upper", "lower"))}
    return pa.table({"cell": found["cell"], **columns})


def cell_keys(session: Session, keys: pa.Table, cells: int) -> Words:
    """The keys of the inner cells, shape (cells, 2), uint64, upper half first; 0 for an empty cell.

    Args:
        cells: how many there are.
    """
    found = session.arrow("table_builder/key_sums", keys=session.register("record_keys", keys))
    sums = np.zeros((cells, 2), dtype=np.uint64)
    sums[found["cell"].to_numpy()] = np.stack([found["key_upper"].to_numpy(), found["key_lower"].to_numpy()], axis=1)
    return sums


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
