"""Claims about zones in a lake: the same as about those in files, and what only a lake must show."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from resources.statements import Table, Zone
from resources.warehouse import Warehouse, WarehouseError
from tests.lake import Lake, make_lake
from tests.postgres import Server

UNITS = Table(Zone.CONFIDENTIAL, "village", "units")
SHOWN = Table(Zone.PUBLIC, "village", "shown")


@pytest.fixture
def lake(postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    made = make_lake(postgres, tmp_path)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.fixture
def warehouse(lake: Lake) -> Warehouse:
    return lake.warehouse()


def write(warehouse: Warehouse, table: Table, values: list[str]) -> None:
    with warehouse.session(writes=table.zone) as session:
        session.create(table, "warehouse/all", source=session.register("values", pa.table({"value": values})))


def read(warehouse: Warehouse, table: Table) -> list[str]:
    with warehouse.session(reads=[table.zone]) as session:
        return [value for (value,) in session.rows("warehouse/all", source=table)]


def test_first(warehouse: Warehouse) -> None:
    import time

    assert not warehouse.holds(Zone.PUBLIC)
    write(warehouse, UNITS, ["a", "b"])
    write(warehouse, SHOWN, ["a", "b"])
    assert read(warehouse, UNITS) == ["a", "b"]
    assert read(warehouse, SHOWN) == ["a", "b"]
    for _ in range(5):
        t = time.time()
        read(warehouse, SHOWN)
        print(time.time() - t)
    write(warehouse, SHOWN, ["c", "b"])
    from datetime import timedelta

    print(
        warehouse.compact(Zone.PUBLIC, timedelta(days=1)),
        warehouse.compact(Zone.PUBLIC),
        warehouse.compact(Zone.CONFIDENTIAL),
    )
    assert read(warehouse, SHOWN) == ["c", "b"]
