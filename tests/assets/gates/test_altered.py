"""A gate that finds altered cells of a public table names at most ten, and none of those it compares with records."""

import re
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from assets.gates.shared import NAMED_ROWS, count_differences, count_unequal, differing_table
from resources.statements import SQL_FOLDER, Table, Zone
from resources.warehouse import Session, Warehouse, WarehouseError
from tests.depth import quick_cases

STORED = Table(Zone.PUBLIC, "town__counts", "by_county")


def written(folder: Path, counts: Sequence[int]) -> Warehouse:
    warehouse = Warehouse(folder=str(folder))
    rows = pa.table({"county": [f"c{number:02}" for number in range(len(counts))], "count": list(counts)})
    for zone, table in ((Zone.CONFIDENTIAL, Table(Zone.CONFIDENTIAL, "town", "units")), (Zone.PUBLIC, STORED)):
        with warehouse.session(writes=zone) as session, session.transaction():
            session.create(table, "warehouse/all", source=session.register("rows", rows))
    return warehouse


def problems(session: Session, counts: Sequence[int]) -> list[str]:
    made = pa.table({"county": [f"c{number:02}" for number in range(len(counts))], "count": list(counts)})
    return differing_table(session, STORED, ("warehouse/all", {}, {"source": session.register("made", made)}))


def test_an_altered_cell_is_named_as_it_is_and_as_it_should_be(tmp_path: Path) -> None:
    with written(tmp_path, [5, 7, 9]).session(reads=[Zone.PUBLIC]) as session:
        assert problems(session, [5, 7, 9]) == []
        assert problems(session, [5, 8, 9]) == [
            "public.town__counts.by_county: differing rows: 2",
            "stored, but not made: county = c01, count = 7",
            "made, but not stored: county = c01, count = 8",
        ]


@pytest.mark.parametrize("altered", [10, 30])
def test_at_most_ten_rows_are_named(tmp_path: Path, altered: int) -> None:
    with written(tmp_path, [1] * altered).session(reads=[Zone.PUBLIC]) as session:
        counted, *named = problems(session, [2] * altered)
    assert counted == f"public.town__counts.by_county: differing rows: {2 * altered}"
    assert len(named) == NAMED_ROWS


def test_a_comparison_with_confidential_records_names_nothing(tmp_path: Path) -> None:
    with written(tmp_path, [5, 7]).session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        assert problems(session, [5, 8]) == ["public.town__counts.by_county: differing rows: 2"]


def test_no_name_of_a_column_keeps_unequal_counts_from_being_found(tmp_path: Path) -> None:
    """Wrong program: adds up the counts under a name that a column may have, `counted`, and compares the values of that
    column instead, which never differ."""
    words = re.findall("[a-z_]+", (SQL_FOLDER / "gates" / "differing_margins.sql").read_text())
    with Warehouse(folder=str(tmp_path)).session(reads=[]) as session:
        for name in {"counted", *words} - {"count"}:
            tables = [
                session.register(of, pa.table({name: ["a", "b"], "count": counts}))
                for of, counts in (("stored", [5, 7]), ("made", [5, 8]))
            ]
            assert count_unequal(session, *tables, [name]) == 1, name


def test_no_name_of_a_column_keeps_unequal_rows_from_being_found(tmp_path: Path) -> None:
    """Wrong program: tells the rows of two tables apart by a column `+1 or -1`, which they may have."""
    words = re.findall("[a-z_0-9]+", (SQL_FOLDER / "gates" / "differing_rows.sql").read_text())
    with Warehouse(folder=str(tmp_path)).session(reads=[]) as session:
        for name in {"+1 or -1", "value_0", "value_1", *words}:
            tables = [
                session.register(of, pa.table({"other one": [1, 2], name: values}))
                for of, values in (("stored", [5, 7]), ("made", [5, 8]))
            ]
            assert count_differences(session, *tables, ["other one", name]) == 2, name


def test_codes_that_differ_in_case_do_not_exchange_their_numbers_under_a_collation(tmp_path: Path) -> None:
    """Fails for: a comparison by the collation of the column, which finds 7 for `A` where `a` has 7."""
    warehouse = Warehouse(folder=str(tmp_path))
    made = pa.table({"county": ["A", "a"], "count": [5, 7]})
    with warehouse.session(writes=Zone.PUBLIC) as session:
        session.create(STORED, "warehouse/all", source=session.register("made", made))
    with duckdb.connect(str(warehouse.path(Zone.PUBLIC))) as connection:
        connection.execute(f"ALTER TABLE {STORED.text} ALTER county TYPE VARCHAR COLLATE NOCASE")
        connection.execute(f"UPDATE {STORED.text} SET count = 12 - count")
    refused = r"public\.duckdb was altered: Stirred did not write town__counts\.by_county, which has a collation\."
    with pytest.raises(WarehouseError, match=refused), warehouse.session(reads=[Zone.PUBLIC]):
        pass


@pytest.mark.parametrize("forged", ["RENAME count TO 'Connection refused'", "RENAME TO 'too many clients'"])
def test_no_name_makes_an_altered_table_one_of_a_lost_server(tmp_path: Path, forged: str) -> None:
    """DuckDB's errors suggest existing names. Fails for: a gate that then waits for a server."""
    warehouse = written(tmp_path, [5, 7])
    with duckdb.connect(str(warehouse.path(Zone.PUBLIC))) as connection:
        connection.execute(f"ALTER TABLE {STORED.text} {forged}".replace("'", '"'))
    with pytest.raises(WarehouseError, match="was altered"), warehouse.session(reads=[Zone.PUBLIC]):
        pass


@quick_cases(1)
@pytest.mark.parametrize(("kind", "forged"), [("VARCHAR", "'7.4'"), ("VARCHAR", "' 07'"), ("DOUBLE", "7")])
def test_a_number_is_not_compared_with_what_it_would_be_as_another_type(tmp_path: Path, kind: str, forged: str) -> None:
    """DuckDB casts a text to the type of the other side of a comparison, and rounds."""
    warehouse = written(tmp_path, [7, 7])
    with duckdb.connect(str(warehouse.path(Zone.PUBLIC))) as connection:
        connection.execute(f"ALTER TABLE {STORED.text} ALTER count TYPE {kind}")
        connection.execute(f"UPDATE {STORED.text} SET count = {forged}")
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        assert problems(session, [7, 7]) == [
            f"{STORED}: the columns or their types are not those that its recipe gives"
        ]
        again = session.stage("again", "warehouse/all", source=session.register("made", pa.table({"count": [7, 7]})))
        assert count_differences(session, STORED, again, ["count"]) == 4


@quick_cases(4)
@pytest.mark.parametrize(
    ("one", "other", "rows"),
    [
        ([5, 7, 7, 9], [5, 7, 7, 9], 0),
        ([5, 7, 7, 9], [9, 7, 5, 7], 0),
        ([5, None, 7], [5, None, 7], 0),
        ([5, None, 7], [None, 7, 5], 0),
        ([5, 7, 7], [5, 5, 7], 2),
        ([5, 5, 5, 7], [7, 5, 9], 3),
        ([5, 7], [5, 7, None], 1),
        ([5, None], [5], 1),
        ([5, None], [5, 7], 2),
        ([], [None], 1),
        ([], [], 0),
    ],
)
def test_tables_are_compared_as_multisets_of_rows_in_whatever_order_they_are(
    tmp_path: Path, one: list[int | None], other: list[int | None], rows: int
) -> None:
    with Warehouse(folder=str(tmp_path)).session(writes=Zone.PUBLIC) as session:
        tables = []
        for name, values in (("one", one), ("other", other)):
            made = session.register("made", pa.table({"count": pa.array(values, pa.int64())}))
            tables.append(session.stage(name, "warehouse/all", source=made))
        assert count_differences(session, *tables, ["count"]) == rows
