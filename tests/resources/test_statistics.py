"""Claims about the statistics of a file or a catalog: forged statistics hide no row from any statement."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from resources import warehouse as module
from resources.instances import close_waiting
from resources.statements import SQL, Table, Zone
from resources.warehouse import Warehouse
from tests.forging import forge_file, forge_footer
from tests.lake import Lake, make_lake
from tests.postgres import Server

CODES = Table(Zone.PUBLIC, "village", "codes")
ROWS, OF_A_GROUP = 4096, 2048
MAKE = f"SELECT if(i < {OF_A_GROUP}, 'early', 'later') || i % 7 AS code, i AS number FROM range({ROWS}) AS r(i)"

READS = {
    "filter": "SELECT count(number) FROM {{ codes }} WHERE code = 'later3'",
    "join": "SELECT count(number) FROM {{ codes }} JOIN (VALUES ('later3')) AS of_one(code) USING (code)",
    "largest": "SELECT max(code) FROM {{ codes }}",
    "last": "SELECT code FROM {{ codes }} ORDER BY code DESC LIMIT 1",
    "distinct": "SELECT code, count(*) FROM {{ codes }} GROUP BY code ORDER BY code",
    "number": "SELECT count(*) FROM {{ codes }}",
}


def answers(warehouse: Warehouse) -> dict[str, list[tuple[Any, ...]]]:
    """In a session that writes: DuckLake counts no rows by its catalog in a session that reads an earlier state."""
    close_waiting()
    with warehouse.session(writes=Zone.PUBLIC) as session:
        return {name: session.rows(SQL(f"tests/{name}", text), codes=CODES) for name, text in READS.items()}


def fooled(warehouse: Warehouse, right: dict[str, Any], trusted: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The statements with another answer in sessions that trust statistics in these ways."""
    disabled = module._WITHOUT_STATISTICS["disabled_optimizers"].split(",")
    with monkeypatch.context() as patch:
        others = ",".join(name for name in disabled if name not in trusted.split(","))
        patch.setitem(module._WITHOUT_STATISTICS, "disabled_optimizers", others)
        found = answers(warehouse)
    close_waiting()
    return {name for name in READS if found[name] != right[name]}


def test_forged_statistics_of_a_file_hide_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the optimizers that are left out is fooled."""
    warehouse = Warehouse(folder=str(tmp_path), threads=1)
    path = warehouse.path(Zone.PUBLIC)
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{path}' AS public (ROW_GROUP_SIZE {OF_A_GROUP})")
        connection.execute(f"CREATE SCHEMA public.village; CREATE TABLE {CODES.text} AS {MAKE}")
    path.chmod(0o600)
    tmp_path.chmod(0o700)
    right = answers(warehouse)
    forge_file(path, {("later0", "later6"): ("early0", "early0"), ("early0", "later6"): ("early0", "early6")})
    assert answers(warehouse) == right
    for name in module._BY_STATISTICS.split(","):
        assert fooled(warehouse, right, name, monkeypatch), f"{name} need not be left out"
    assert fooled(warehouse, right, module._BY_STATISTICS, monkeypatch) == {"filter", "join", "largest", "last"}


def replace_in_footers(lake: Lake, old: str, new: str) -> None:
    for path in Path(lake.data["public"]).rglob("*.parquet"):
        forge_footer(path, {old.encode(): new.encode()})


def replace_in_catalog(table: str, column: str) -> Callable[[Lake, str, str], None]:
    return lambda lake, old, new: (
        lake.catalog(Zone.PUBLIC, f"UPDATE {table} SET {column} = '{new}' WHERE {column} = '{old}'") and None
    )


@pytest.mark.deep
def test_forged_statistics_of_a_lake_hide_no_row(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake(postgres, tmp_path)
    lake.name_services(monkeypatch)
    warehouse = lake.warehouse()
    with warehouse.session(writes=Zone.PUBLIC) as session:
        session.create(CODES, SQL("tests/make", MAKE))
    right = answers(warehouse)
    for forge, old, new, hidden in (
        (replace_in_footers, "later6", "early6", {"filter", "join"}),
        (replace_in_catalog("ducklake_file_column_stats", "max_value"), "later6", "early6", {"filter", "join"}),
        (replace_in_catalog("ducklake_table_column_stats", "max_value"), "later6", "early6", {"filter"}),
        (replace_in_catalog("ducklake_data_file", "record_count"), str(ROWS), "7", {"number"}),
    ):
        forge(lake, old, new)
        assert answers(warehouse) == right
        assert fooled(warehouse, right, module._BY_STATISTICS, monkeypatch) == hidden
        forge(lake, new, old)
