"""A release of many places reads a stored table a few places at a time, and not all of its rows each time."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from resources.statements import SQL, Table, Zone
from resources.warehouse import Warehouse
from tests.depth import deep_cases, quick_cases

PLACES, FIRST, LAST = 300_000, 150_000, 150_010

CHOSEN = {"histogram": "persons", "level": "Block", "query": "total"}

STATEMENTS: Mapping[str, Mapping[str, Any]] = {
    "topdown/counts": {"chosen": ["level", "histogram"]},
    "topdown/added_up": {"chosen": []},
    "dhc/answers": {"chosen": False},
}


@quick_cases(1)
@deep_cases(0)
@pytest.mark.parametrize("name", list(STATEMENTS))
def test_of_a_large_table_only_rows_near_those_asked_for_are_read(tmp_path: Path, name: str) -> None:
    """Wrong programs: evaluate the condition after all rows were read, as in a session that does not rely on stored
    minima and maxima, or put it on a computed number; then time grows with the square of the places."""
    rows = pa.table(
        {
            **{column: pa.repeat(value, PLACES) for column, value in CHOSEN.items()},
            **dict.fromkeys(("number", "cell", "count"), np.arange(PLACES)),
            **dict.fromkeys(("cells", "answers"), pa.array([[1, 2]] * PLACES)),
        }
    )
    table, warehouse = Table(Zone.PUBLIC, "town", "stored"), Warehouse(folder=str(tmp_path))
    with warehouse.session(writes=Zone.PUBLIC) as session:
        session.create(table, "warehouse/all", source=session.register("rows", rows))
    values = {"first": FIRST, "last": LAST, "histogram": CHOSEN["histogram"]}
    values |= {} if name == "topdown/added_up" else {"level": CHOSEN["level"]}
    explained = SQL("explained", f"EXPLAIN (ANALYZE, FORMAT json) {{% include '{name}.sql' %}}")
    scanned = []
    for each in (warehouse.relying_on_statistics(), warehouse):
        with each.session(reads=[Zone.PUBLIC]) as session:
            places = session.register("places", pa.table({"finest": np.arange(FIRST, LAST), "number": np.arange(10)}))
            names = {"counts": table, "measurements": table, "places": places, **STATEMENTS[name]}
            ((_, plan),) = session.rows(explained, values, **names)
            scanned.append(sum(count_scanned(json.loads(plan))))
    assert scanned[0] < PLACES / 2 < scanned[1]


def count_scanned(operator: Mapping[str, Any]) -> Iterator[int]:
    """The rows that each part of a statement reads from a stored table."""
    yield operator.get("operator_rows_scanned", 0) if operator.get("operator_name") != "ARROW_SCAN" else 0
    for part in operator.get("children", []):
        yield from count_scanned(part)
