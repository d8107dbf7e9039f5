"""A stage whose tables are stored one by one, when its run ends in between."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import resources.warehouse
from assets.release.stage import LazyRecipes
from assets.tabulation.asset import build_tables, tables_gate
from resources.statements import Table, Zone
from resources.warehouse import Recipe, Session, Warehouse
from tests.deployments import small_deployment


def test_a_run_that_ends_between_tables_leaves_whole_ones_which_the_gate_tells_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends after a piece of the second of three tables. Wrong programs: one transaction for all tables; a piece of a
    table in place of the earlier one; and a gate that compares the first table, or those of one run, alone."""
    monkeypatch.setattr(resources.warehouse, "_ROWS_TOGETHER", 1)
    release, warehouse = small_deployment(tmp_path).release, Warehouse(folder=str(tmp_path / "own"))
    tables = [release.public(name) for name in ("first", "second", "third")]

    def recipes(session: Session, count: int, ends: bool) -> LazyRecipes:
        def list_pieces(table: Table) -> Iterator[pa.Table]:
            yield pa.table({"place": [0], "count": [count]})
            if ends and table == tables[1]:
                raise KeyboardInterrupt
            yield pa.table({"place": [1], "count": [count]})

        def make(table: Table) -> Recipe:
            pieces, source = session.register_in_turn("piece", list_pieces(table))
            return "warehouse/all", pieces, {"source": source}

        return LazyRecipes(tables, make)

    def run(count: int, *, ends: bool = False) -> list[list[tuple[Any, ...]]]:
        asset = build_tables(release, [], "", lambda session: recipes(session, count, ends))
        try:
            dg.materialize([asset], resources={"warehouse": warehouse}, raise_on_error=False)
        except KeyboardInterrupt:
            assert ends
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            return [session.rows("warehouse/all", source=table) for table in tables]

    def find_problems(count: int) -> list[str]:
        context: Any = SimpleNamespace(warehouse=warehouse)
        return tables_gate(lambda session: recipes(session, count, ends=False)).problems(context)

    before, after = [(0, 1), (1, 1)], [(0, 2), (1, 2)]
    assert run(1) == [before] * 3
    assert run(2, ends=True) == [after, before, before]
    named = [problem for problem in find_problems(2) if "differing rows" in problem]
    assert named == [f"{table}: differing rows: 4" for table in tables[1:]]
    assert run(2) == [after] * 3
    assert find_problems(2) == []
