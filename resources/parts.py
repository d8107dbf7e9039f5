"""Parts of a public table: files that threads or processes write outside any session, and that are combined into one
table."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from resources.faults import name_error
from resources.statements import SQL, Table, Zone
from resources.storage import WarehouseError
from resources.warehouse import Session

# DuckDB looks only into the folder of the session.
_PARTS = SQL("warehouse/parts", "SELECT count(size) FROM read_blob($files)")

_ROWS_OF_VECTOR = 2048
"""The rows that DuckDB works on at a time."""


def open_part(path: Path, schema: pa.Schema) -> pa.RecordBatchFileWriter:
    """A writer of a part of a public table, to be closed: a context manager.

    Parts are made outside any session, by several threads or processes at a time, and `store_parts` makes a table of
    them. They are not encrypted, so they may hold only results of charged draws. Such a result is not public before its
    gates, so the folder of parts is closed to other users. Each table written to a part is in memory as a whole. Parts
    are read once, so their size matters less than the time that it takes to write and to read them.

    `path` is a new file in a `Warehouse.private_folder`; all parts of a table have the same schema.
    """
    return pa.ipc.new_file(path, schema)


def store_parts(session: Session, table: Table, parts: Sequence[Path]) -> None:
    """Create or replace a table with the rows of all parts, in their order. If that fails, the table stays as it was.

    The session writes the public zone and reads the parts' folder. Raises ValueError if the table is not public, and
    WarehouseError if a part is missing or not whole.
    """
    if table.zone is not Zone.PUBLIC:
        raise ValueError(f"{table} is not public; parts are not encrypted")
    (found,) = session.row(_PARTS, {"files": [str(part) for part in parts]})
    if found != len(parts):
        raise WarehouseError(f"{table}: {len(parts) - found:,} of {len(parts):,} parts are missing")
    try:
        readers = [pa.ipc.open_file(pa.memory_map(str(part))) for part in parts]
    except (OSError, pa.ArrowInvalid) as error:
        raise WarehouseError(f"{table}: a part is not whole ({name_error(error)})") from None
    batches = (reader.get_batch(number) for reader in readers for number in range(reader.num_record_batches))
    # With larger row groups, DuckDB uses more and more memory until it has read all.
    pieces = (
        batch.slice(first, _ROWS_OF_VECTOR)
        for batch in batches
        for first in range(0, max(1, batch.num_rows), _ROWS_OF_VECTOR)
    )
    rows = session.register("parts", pa.RecordBatchReader.from_batches(readers[0].schema, pieces))
    session.create(table, "warehouse/all", source=rows)
