"""Tables of the public zone that are made in parts outside any session, by several threads or processes at a time.

Parts are Parquet files in a private folder (`Warehouse.private_folder`). A short session stores all of them as a table,
in one transaction. Parts are not encrypted, so they may hold only what becomes public: what follows from charged draws,
never anything confidential. Before its gates it is not public yet, so that nobody else can read the folder.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from resources.statements import SQL, Table, Zone
from resources.warehouse import Session

_PARTS = SQL("warehouse/parts", "SELECT * FROM read_parquet($files)")


def open_part(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """A writer of a part, to be closed: a context manager. Each table that it writes is in memory as a whole.

    Parts are read once, so that their size matters less than the time that it takes to write and to read them.

    Args:
        path: a new file in a private folder.
        schema: of all parts of the table.
    """
    return pq.ParquetWriter(path, schema, compression="none", use_dictionary=False, write_statistics=False)


def store_parts(session: Session, table: Table, parts: Sequence[Path]) -> None:
    """Create or replace a table with the rows of all parts, in their order. If that fails, the table stays as it was.

    Args:
        session: a session that writes the public zone and reads the parts' folder.
        table: the table, of the public zone.
        parts: one or more files.

    Raises:
        ValueError: if the table is not public.
        WarehouseError: if a part is missing or not whole.
    """
    if table.zone is not Zone.PUBLIC:
        raise ValueError(f"{table} is not public; parts are not encrypted")
    session.create(table, _PARTS, {"files": [str(part) for part in parts]})
