"""A gate that finds altered cells of a public table names them, ten at most, but none that it compares with records."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from assets.gates.shared import NAMED_ROWS, count_differences, differing_table
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse

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
