"""Comparison of the two formats in which a table is published."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def differing_rows(path: Path, rows: Iterable[Mapping[str, str]], missing: str = "") -> list[Any]:
    """The rows that differ between a Parquet file and its CSV file, as pairs.

    No column of the Parquet file is a decimal, which pandas loads as an object. A double is the nearest one to the
    CSV's text, which Python's `float` finds.
    """
    table = pq.read_table(path)
    kinds = {field.name: field.type for field in table.schema}
    assert not [name for name, kind in kinds.items() if pa.types.is_decimal(kind)]
    listed = [
        {name: None if text == missing else read(text, kinds[name]) for name, text in row.items()} for row in rows
    ]
    written = [
        {name: value if isinstance(value, float) or value is None else str(value) for name, value in row.items()}
        for row in table.to_pylist()
    ]
    assert len(listed) == len(written)
    return [pair for pair in zip(written, listed, strict=True) if pair[0] != pair[1]]


def read(text: str, kind: pa.DataType) -> float | str:
    if pa.types.is_floating(kind):
        return float(text)
    return text.capitalize() if pa.types.is_boolean(kind) else text
