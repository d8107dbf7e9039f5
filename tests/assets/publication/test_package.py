"""Data files have the table's content, in the same bytes every time, and a data dictionary describes them."""

import csv
import hashlib
import io
import json
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import Mock

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from frictionless import Package, validate

from assets.publication import package as module
from assets.publication.catalog import describe_dataset, to_dcat
from assets.publication.package import DataFile, data_package, list_formulas, readme, write_data_files
from assets.release.dataset import DatasetDeclaration
from assets.release.published import PublishedColumn, PublishedTable
from assets.release.release import UNDECLARED, Publisher, Release, ReleaseDeclaration
from assets.release.signature import checksums
from resources.statements import SQL, Table, Zone
from resources.warehouse import Warehouse
from tests.depth import deep_cases, quick_cases

CREATED = "2026-03-01T09:30:00Z"

TENURE = Table(Zone.PUBLIC, "ma1940__tenure", "tenure_by_county")
COUNTS = [("Dukes", 1, 946), ("Dukes", 2, 795), ("Nantucket", 1, 471), ("Nantucket", 2, 554)]

Fill = Callable[[str, Sequence[tuple[Any, ...]]], Warehouse]


def _tenure(**changes: Any) -> PublishedTable:
    table = {
        "name": "tenure_by_county",
        "title": "Dwellings by county and tenure",
        "description": "After swapping.",
        "table": TENURE,
        "columns": (
            PublishedColumn("county", "string", "The county", {"Dukes": "", "Nantucket": ""}),
            PublishedColumn("tenure", "integer", "Owned or rented", {1: "owned", 2: "rented"}),
            PublishedColumn("count", "integer", "Number of households"),
        ),
        "primary_key": ("county", "tenure"),
    }
    return PublishedTable(**(table | changes))


def _release(publisher: Publisher = UNDECLARED) -> Release:
    columns = {"county": {"type": "string", "values": ["Dukes", "Nantucket"]}}
    fields = {"name": "ma1940", "title": "A town", "description": "Made up", "cap": 1, "reader": "csv"}
    dataset = DatasetDeclaration.model_validate(fields | {"units": {"path": "a.csv", "columns": columns}})
    declaration = ReleaseDeclaration(name="tenure", dataset="ma1940", title="Tenure", description="A release")
    return Release(declaration, dataset, None, Path(), publisher=publisher)


@pytest.fixture
def fill(tmp_path: Path) -> Fill:
    """A function that makes a warehouse whose public zone holds one table with the given columns and rows."""

    def fill(columns: str, rows: Sequence[tuple[Any, ...]], threads: int = 2) -> Warehouse:
        folder = tmp_path / "warehouse"
        folder.mkdir(exist_ok=True, mode=0o700)
        with duckdb.connect(str(folder / "public.duckdb")) as connection:
            connection.execute("CREATE SCHEMA IF NOT EXISTS ma1940__tenure")
            connection.execute(f"CREATE OR REPLACE TABLE ma1940__tenure.tenure_by_county ({columns})")
            if rows:
                marks = ", ".join("?" for _ in rows[0])
                connection.executemany(f"INSERT INTO ma1940__tenure.tenure_by_county VALUES ({marks})", rows)
        (folder / "public.duckdb").chmod(0o600)
        return Warehouse(folder=str(folder), threads=threads)

    return fill


def _write(warehouse: Warehouse, folder: Path, tables: Sequence[PublishedTable]) -> tuple[DataFile, ...]:
    folder.mkdir()
    with warehouse.session(reads=[Zone.PUBLIC], folder=folder) as session:
        files = write_data_files(session, folder, tables)
    package = data_package(_release(), tables, files, 1, CREATED)
    (folder / "datapackage.json").write_bytes(package)
    (folder / "SHA256SUMS").write_bytes(checksums(folder))
    return files


@pytest.fixture
def counts(fill: Fill) -> Warehouse:
    return fill("county VARCHAR, tenure INTEGER, count BIGINT", COUNTS[::-1])


def test_the_csv_has_a_header_and_rows_in_the_order_of_their_values(counts: Warehouse, tmp_path: Path) -> None:
    _write(counts, tmp_path / "out", [_tenure()])
    assert (tmp_path / "out" / "tenure_by_county.csv").read_bytes() == (
        b"county,tenure,count\nDukes,1,946\nDukes,2,795\nNantucket,1,471\nNantucket,2,554\n"
    )


def test_the_parquet_file_has_the_same_rows_in_the_same_order(counts: Warehouse, tmp_path: Path) -> None:
    _write(counts, tmp_path / "out", [_tenure()])
    table = pq.read_table(tmp_path / "out" / "tenure_by_county.parquet")
    assert [tuple(row.values()) for row in table.to_pylist()] == COUNTS


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("DECIMAL(38,18)", ["0.074459630207677839", "0.1", "9007199254740993.000000000000000001", "-0.29"]),
        ("DECIMAL(18,2)", ["0.29", "-90071992547409.92", "9792032885558753.06", "9538184898883021.02"]),
        ("DECIMAL(38,30)", ["0.000000000000000000000000000007", "0.000000000000006881352221994076"]),
    ],
)
def test_parquet_has_the_double_nearest_to_each_decimal(
    fill: Fill, tmp_path: Path, kind: str, texts: Sequence[str]
) -> None:
    """A cast of the decimal itself, as DuckDB does it, misses some of each kind in the last bit, because the digits or
    the power of ten are inexact in doubles; pandas would load an object."""
    table = fill(f"id INTEGER, value {kind}", list(enumerate(map(Decimal, texts))))
    columns = (PublishedColumn("id", "integer"), PublishedColumn("value", "decimal"))
    _write(table, tmp_path / "out", [_tenure(columns=columns, primary_key=("id",))])
    frame = pd.read_parquet(tmp_path / "out" / "tenure_by_county.parquet")
    assert frame["value"].dtype == float
    assert frame["value"].tolist() == [float(text) for text in texts]
    with (tmp_path / "out" / "tenure_by_county.csv").open(newline="") as file:
        assert [Decimal(row["value"]) for row in csv.DictReader(file)] == list(map(Decimal, texts))


def test_columns_are_published_in_the_declared_order(counts: Warehouse, tmp_path: Path) -> None:
    table = _tenure()
    _write(counts, tmp_path / "out", [_tenure(columns=table.columns[::-1])])
    assert (tmp_path / "out" / "tenure_by_county.csv").read_text().startswith("count,tenure,county\n471,1,Nantucket\n")


def test_files_are_listed_with_their_true_size_and_hash(counts: Warehouse, tmp_path: Path) -> None:
    files = _write(counts, tmp_path / "out", [_tenure()])
    assert [(file.product, file.path, file.format, file.rows) for file in files] == [
        ("tenure_by_county", "tenure_by_county.csv", "csv", 4),
        ("tenure_by_county", "tenure_by_county.parquet", "parquet", 4),
    ]
    for file in files:
        content = (tmp_path / "out" / file.path).read_bytes()
        assert (file.bytes, file.sha256) == (len(content), hashlib.sha256(content).hexdigest())


ORDERS = {
    # With equal rows, which no key distinguishes.
    (
        "nullif('c' || hash(i) % 5000, 'c7') AS county, (hash(i) % 3)::INTEGER AS tenure, "
        "(hash(i) % 977)::BIGINT AS count"
    ): [("i", 1), ("i DESC", 2), ("hash(i)", 4), ("hash(i + 1)", 8)],
    # In order; by groups in order; in groups with two rows exchanged; in no order, with a key that is NULL.
    "'c' || i % 3 AS county, nullif(i, 200_001)::INTEGER AS tenure, (hash(i) % 977)::BIGINT AS count": [
        ("county, tenure NULLS LAST", 1),
        ("county, tenure NULLS LAST", 4),
        ("county DESC, tenure NULLS LAST", 2),
        ("county DESC, CASE i WHEN 399_997 THEN 399_994 WHEN 399_994 THEN 399_997 ELSE i END", 2),
        ("hash(i)", 8),
    ],
}


@pytest.mark.prove
@pytest.mark.parametrize("rows", ORDERS)
def test_the_same_rows_give_the_same_bytes_whatever_their_order_and_the_number_of_threads(
    rows: str, tmp_path: Path
) -> None:
    """400,000 rows fill more than three Parquet row groups, and enough for DuckDB to use every thread. A wrong program
    takes nearly ordered rows for ordered ones, or ends row groups where storage ends its own."""
    table = _tenure(
        columns=(
            PublishedColumn("county", "string", required=False),
            PublishedColumn("tenure", "integer", required=False),
            PublishedColumn("count", "integer"),
        )
    )
    seen = []
    for number, (order, threads) in enumerate(ORDERS[rows]):
        folder = tmp_path / str(number)
        folder.mkdir(mode=0o700)
        with duckdb.connect(str(folder / "public.duckdb")) as connection:
            connection.execute("CREATE SCHEMA ma1940__tenure")
            connection.execute(f"""
                CREATE TABLE ma1940__tenure.tenure_by_county AS
                SELECT {rows} FROM range(400_000) AS numbers(i) ORDER BY {order}
            """)
        (folder / "public.duckdb").chmod(0o600)
        _write(Warehouse(folder=str(folder), threads=threads), folder / "out", [table])
        written = (folder / "out").iterdir()
        seen.append({path.name: path.read_bytes() for path in written if path.name != "SHA256SUMS"})
    file = pq.ParquetFile(tmp_path / "0" / "out" / "tenure_by_county.parquet")
    assert [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)] == [*3 * [122_880], 31_360]
    assert all(files == seen[0] for files in seen)


def test_rows_of_a_join_are_sorted_even_if_they_seem_to_be_in_order(fill: Fill) -> None:
    """Fails for: the order of a single read. With several threads and row groups, the order differs the next time; an
    attacker who can write to the public zone can replace a table with a view that joins, or with a view of such a
    view."""
    warehouse = fill("county VARCHAR, tenure INTEGER, count BIGINT", COUNTS)
    name = TENURE.text
    with warehouse.session(writes=Zone.PUBLIC) as session:
        views = [replace(TENURE, name=name) for name in ("joined", "of_the_joined", "united")]
        for view, text in zip(
            views,
            (
                f"SELECT one.county, one.tenure, two.count FROM {name} AS one JOIN {name} AS two USING (count)",
                f"SELECT one.county, one.tenure, one.count FROM {views[0].text} AS one",
                f"SELECT * FROM {name} UNION ALL SELECT * FROM {name}",
            ),
            strict=True,
        ):
            session.create_view(view, SQL("tests/view", text))
        assert [session.keeps_order(table) for table in (*views, TENURE)] == [False, False, True, True]
        assert module._find_groups(session, _tenure(table=views[0])) is None


MIXED = (
    PublishedColumn("place", "string", required=False),
    PublishedColumn("size", "integer", required=False),
    PublishedColumn("urban", "boolean", required=False),
    PublishedColumn("day", "date", required=False),
    PublishedColumn("value", "decimal", required=False),
    PublishedColumn("row", "integer"),
)
MIXED_TYPES = '"place" VARCHAR, "size" BIGINT, urban BOOLEAN, "day" DATE, "value" DECIMAL(18,4), "row" INTEGER'
AWKWARD = ["", "NULL", "NULL_", 'say "when"', "a,b", "two\nlines", " led and followed ", "Cañon", "0012", "#", "''"]


@pytest.mark.parametrize(
    ("texts", "marker"),
    [
        (["Dukes", "NULL", None], ""),
        (["", "Dukes", None], "NULL"),
        ([*AWKWARD, None], "NULL__"),
        (AWKWARD, "NULL__"),
    ],
)
def test_every_reader_reads_the_csv_back_unchanged(
    fill: Fill, tmp_path: Path, texts: list[str | None], marker: str
) -> None:
    """Empty text and a missing value differ, even for readers that ignore quotes."""
    rows = [
        (
            text,
            None if number % 2 else number - 3,
            None if number % 3 else bool(number % 2),
            date(1940, 4, 1),
            Decimal("-0.5000"),
            number,
        )
        for number, text in enumerate(texts)
    ] + [(None, None, None, None, None, 99)]
    warehouse = fill(MIXED_TYPES, rows)
    table = _tenure(columns=MIXED, primary_key=("row",))
    files = _write(warehouse, tmp_path / "out", [table])
    assert files[0].missing == marker

    package = Package(str(tmp_path / "out" / "datapackage.json"))
    by_frictionless = [tuple(row.to_dict().values()) for row in package.get_resource("tenure_by_county").read_rows()]
    path = tmp_path / "out" / "tenure_by_county.csv"
    by_duckdb = duckdb.execute(
        "SELECT * FROM read_csv($path, header = true, all_varchar = true, nullstr = $marker)",
        {"path": str(path), "marker": marker},
    ).fetchall()
    with path.open(encoding="utf-8", newline="") as file:
        by_python = list(csv.reader(file))[1:]

    def last(row: Sequence[Any]) -> int:
        return int(row[-1])

    assert sorted(by_frictionless, key=last) == rows
    assert [row[0] for row in sorted(by_duckdb, key=last)] == [row[0] for row in rows]
    assert [None if row[0] == marker else row[0] for row in sorted(by_python, key=last)] == [row[0] for row in rows]
    parquet = [tuple(row.values()) for row in pq.read_table(tmp_path / "out" / "tenure_by_county.parquet").to_pylist()]
    assert sorted(parquet, key=last) == rows


def test_numbers_in_lists_are_written_as_those_in_columns(tmp_path: Path) -> None:
    """For all texts of the key. Wrong programs: quotes, signs or zeros left out; columns exchanged."""
    folder, rows = tmp_path / "warehouse", [(text, -number) for number, text in enumerate([*AWKWARD, "\r", "#1"])]
    folder.mkdir(mode=0o700)
    with duckdb.connect(str(folder / "public.duckdb")) as connection:
        connection.execute("CREATE SCHEMA made")
        connection.execute("CREATE TABLE made.columns (place VARCHAR, a DECIMAL(18, 2), b INTEGER, c DECIMAL(18, 2))")
        connection.executemany("INSERT INTO made.columns SELECT $1, $2 / 20, $2, -$2", rows)
        connection.execute(
            "CREATE TABLE made.lists AS SELECT place, [c, a] AS decimals, [b] AS wholes FROM made.columns"
        )
    (folder / "public.duckdb").chmod(0o600)
    columns = (PublishedColumn("place", "string"), *(PublishedColumn(name, "decimal") for name in "ac"))
    columns = (*columns[:2], PublishedColumn("b", "integer"), columns[2])
    numbers = {"columns": {}, "lists": {"decimals": ("c", "a"), "wholes": ("b",)}}
    tables = [
        _tenure(name=name, table=Table(Zone.PUBLIC, "made", name), columns=columns, primary_key=("place",), numbers=own)
        for name, own in numbers.items()
    ]
    files = _write(Warehouse(folder=str(folder), threads=2), tmp_path / "out", tables)
    assert len({file.missing for file in files}) == 2
    csv_files, parquet_files = ([tmp_path / "out" / f"{name}.{end}" for name in numbers] for end in ("csv", "parquet"))
    assert csv_files[0].read_bytes() == csv_files[1].read_bytes()
    read = [pq.read_table(file) for file in parquet_files]
    assert read[0].to_pylist() == read[1].to_pylist()


def test_numbers_in_lists_have_one_order_whether_they_are_read_in_groups_or_sorted(
    fill: Fill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to one batch and beyond it. Wrong program: the groups of many rows are published as they are stored."""
    rows = [(level, f"{number:02}", [number, -number]) for level in ("state", "county") for number in range(5)]
    columns = (
        *(PublishedColumn(name, "string") for name in ("level", "geoid")),
        *(PublishedColumn(name, "integer") for name in "ab"),
    )
    table = _tenure(columns=columns, primary_key=("level", "geoid"), numbers={"own": ("a", "b")})
    warehouse, files = fill("level VARCHAR, geoid VARCHAR, own BIGINT[]", rows), []
    monkeypatch.setattr(module, "_MANY_COLUMNS", 1)
    found = Mock(wraps=module._find_groups)
    monkeypatch.setattr(module, "_find_groups", found)
    for together, searches in ((len(rows), 0), (len(rows) - 1, 1)):
        monkeypatch.setattr(module, "_ROWS_TOGETHER", together)
        _write(warehouse, tmp_path / str(together), [table])
        assert found.call_count == searches
        files.append((tmp_path / str(together) / "tenure_by_county.csv").read_text())
    assert files[0] == files[1]
    assert files[0].splitlines()[1] == "county,00,0,0"


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_many_columns_of_integers_have_the_bytes_that_duckdb_writes(
    fill: Fill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delimiter: str
) -> None:
    """Wrong programs: another quoting of texts or names of columns, as of one that is the text for missing values; rows
    as they are stored; -2^63 refused; 0 for a missing integer."""
    texts = ["", " a", "#b", "c,d", "e;f", 'g"h', "i\nj", "k\rl", "ä", None]
    ends = [-(2**63), 2**63 - 1, 0, -1, 9, 10, 10**18, -(10**18), 99, 100]
    rows = [(place < 5, place, text, end, ~end) for place, (text, end) in enumerate(zip(texts, ends, strict=True))]
    names = {"level": "BIGINT", "place": "BIGINT", "NULL": "VARCHAR", "the, first": "BIGINT", "#second": "BIGINT"}
    stored = ", ".join(f'"{name}" {kind}' for name, kind in names.items())
    columns = [PublishedColumn(name, "string" if kind == "VARCHAR" else "integer") for name, kind in names.items()]
    table = _tenure(columns=tuple(columns), primary_key=("level", "place"), delimiter=delimiter)
    monkeypatch.setattr(module, "_MANY_COLUMNS", 2)
    ours, found = module._write_integers, list[DataFile | None]()

    def write(*given: Any) -> DataFile | None:
        found.append(ours(*given))
        return found[-1]

    for case, given in {"whole": rows, "missing": [*rows, (0, len(rows), "m", None, 1)]}.items():
        warehouse, files = fill(stored, given), []
        for writes in (write, Mock(return_value=None)):
            monkeypatch.setattr(module, "_write_integers", writes)
            folder = tmp_path / f"{case} {len(files)}"
            _write(warehouse, folder, [table])
            files.append((folder / "tenure_by_county.csv").read_bytes())
        assert files[0] == files[1]
        assert files[0].count(b"\n") == len(given) + 2, "a header, and a line break in a text"
    assert [file is None for file in found] == [False, True]


def test_a_table_without_rows_has_a_header(fill: Fill, tmp_path: Path) -> None:
    files = _write(fill("county VARCHAR, tenure INTEGER, count BIGINT", []), tmp_path / "out", [_tenure()])
    assert (tmp_path / "out" / "tenure_by_county.csv").read_bytes() == b"county,tenure,count\n"
    assert [file.rows for file in files] == [0, 0]
    assert validate(str(tmp_path / "out" / "datapackage.json")).valid


def test_awkward_names_of_columns_and_folders_are_kept(fill: Fill, tmp_path: Path) -> None:
    name = 'it\'s, a "count"'
    quoted = name.replace('"', '""')
    warehouse = fill(f'"{quoted}" BIGINT', [(7,)])
    table = _tenure(columns=(PublishedColumn(name, "integer"),), primary_key=())
    _write(warehouse, tmp_path / "it's out", [table])
    text = (tmp_path / "it's out" / "tenure_by_county.csv").read_text()
    assert list(csv.reader(io.StringIO(text))) == [[name], ["7"]]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("county VARCHAR, tenure INTEGER", "differ in count"),
        ("county VARCHAR, tenure INTEGER, count BIGINT, serial BIGINT", "differ in serial"),
        ("county VARCHAR, tenure INTEGER, count HUGEINT", "column count is stored as HUGEINT"),
        ("county VARCHAR, tenure DOUBLE, count BIGINT", "column tenure is stored as DOUBLE"),
    ],
)
def test_a_table_that_is_not_as_declared_is_not_written(fill: Fill, tmp_path: Path, columns: str, words: str) -> None:
    """Parquet would store a HUGEINT as a float, and an undeclared column may not be meant for publication."""
    (tmp_path / "out").mkdir()
    with (
        fill(columns, []).session(reads=[Zone.PUBLIC]) as session,
        pytest.raises(ValueError, match=f"product tenure_by_county: .*{words}"),
    ):
        write_data_files(session, tmp_path / "out", [_tenure()])
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("name", ["", "../elsewhere", "Tenure", "a/b", ".hidden", "a b"])
def test_a_name_that_is_not_a_file_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="the name is part of file names"):
        _tenure(name=name)


def test_a_key_that_is_not_a_column_is_refused() -> None:
    with pytest.raises(ValueError, match="key column block is not among"):
        _tenure(primary_key=("county", "block"))


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ValueError, match="'float' is none of"):
        PublishedColumn("count", "float")


def test_the_data_package_is_valid_and_describes_every_column(counts: Warehouse, tmp_path: Path) -> None:
    _write(counts, tmp_path / "out", [_tenure()])
    report = validate(str(tmp_path / "out" / "datapackage.json"))
    assert report.valid, report.flatten(["type", "message"])
    assert len(report.tasks) == 2
    package = json.loads((tmp_path / "out" / "datapackage.json").read_text())
    assert (package["name"], package["title"], package["description"]) == ("ma1940-tenure", "Tenure", "A release")
    described = package["resources"][0]
    assert described["schema"]["primaryKey"] == ["county", "tenure"]
    county, tenure, count = described["schema"]["fields"]
    assert county["constraints"] == {"required": True, "enum": ["Dukes", "Nantucket"]}
    assert tenure["constraints"] == {"required": True, "enum": [1, 2]}
    assert tenure["categories"] == [{"value": 1, "label": "owned"}, {"value": 2, "label": "rented"}]
    assert count == {
        "name": "count",
        "type": "integer",
        "description": "Number of households",
        "constraints": {"required": True},
    }


LISTS = (
    PublishedColumn("place", "string", "The place"),
    PublishedColumn("query", "integer", "The query"),
    PublishedColumn("answers", "integers", "The answers, in order"),
)
ANSWERS = [("b", 1, [3, -1]), ("a", 2, []), ("a", 1, [7, 0, -2]), ("b", 10, [5]), ("b", 9, [None, 1])]


def _lists(**changes: Any) -> PublishedTable:
    return _tenure(**({"columns": LISTS, "primary_key": ("place", "query")} | changes))


def test_a_table_with_lists_is_written_only_as_parquet_in_the_order_of_its_key(fill: Fill, tmp_path: Path) -> None:
    warehouse = fill("place VARCHAR, query BIGINT, answers INTEGER[]", ANSWERS)
    (file,) = _write(warehouse, tmp_path / "out", [_lists()])
    assert (file.path, file.format, file.rows, file.missing) == ("tenure_by_county.parquet", "parquet", 5, None)
    table = pq.read_table(tmp_path / "out" / file.path)
    expected = sorted(ANSWERS, key=lambda row: row[:2])
    assert [tuple(row.values()) for row in table.to_pylist()] == expected
    assert str(table.schema.field("answers").type) == "list<element: int32>"
    assert not (tmp_path / "out" / "tenure_by_county.csv").exists()


def test_only_the_key_determines_the_order_of_lists(fill: Fill, tmp_path: Path) -> None:
    warehouse = fill("place VARCHAR, query BIGINT, answers INTEGER[]", ANSWERS)
    (file,) = _write(warehouse, tmp_path / "out", [_lists(primary_key=("query", "place"))])
    rows = pq.read_table(tmp_path / "out" / file.path).to_pylist()
    assert [tuple(row.values()) for row in rows] == sorted(ANSWERS, key=lambda row: (row[1], row[0]))


def test_lists_are_not_packed_on_when_another_file_cannot_be_written(
    fill: Fill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The groups are of places: while the first one is packed, writing fails. A wrong program packs the second too."""
    warehouse, packed = fill("place VARCHAR, query BIGINT, answers INTEGER[]", ANSWERS), list[int]()
    begun, ending = Event(), Event()
    pack = module._row_groups

    def wait(batches: Iterable[pa.RecordBatch], lists: Sequence[str]) -> Iterator[pa.Table]:
        for group in pack(batches, lists):
            begun.set()
            assert ending.wait(60)
            packed.append(len(group))
            yield group

    def fail(*_: object) -> None:
        assert begun.wait(60)
        raise OSError("disk full")

    class Packing(ThreadPoolExecutor):
        """A pool of its own: the pool of the other files ends before it is too late to read on."""

        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            ending.set()
            super().shutdown(wait, cancel_futures=cancel_futures)

    monkeypatch.setattr(module, "_row_groups", wait)
    monkeypatch.setattr(module, "_write_rows", fail)
    monkeypatch.setattr(module, "_require_declared_columns", lambda *_: None)
    monkeypatch.setattr(module, "ThreadPoolExecutor", Packing)
    with pytest.raises(OSError, match="disk full"):
        _write(warehouse, tmp_path / "out", [_lists(), _tenure(name="others")])
    assert packed == [2]


@pytest.mark.parametrize(
    ("key", "rows"),
    [
        (("place", "query"), []),
        (("query",), ANSWERS),
        (("place", "query"), [(None, 2, [1]), ("a", 1, [2]), (None, 1, [3]), ("a", None, None)]),
        (("query", "place"), [(None, 1, [1]), ("a", 1, [2])]),
    ],
)
def test_no_row_of_lists_is_lost(key: tuple[str, ...], rows: list[tuple[Any, ...]], fill: Fill, tmp_path: Path) -> None:
    warehouse = fill("place VARCHAR, query BIGINT, answers INTEGER[]", rows)
    (file,) = _write(warehouse, tmp_path / "out", [_lists(primary_key=key)])
    written = [tuple(row.values()) for row in pq.read_table(tmp_path / "out" / file.path).to_pylist()]
    assert file.rows == len(rows)
    assert sorted(map(str, written)) == sorted(map(str, rows))


def test_the_data_package_describes_lists_to_a_reader(fill: Fill, tmp_path: Path) -> None:
    warehouse = fill("place VARCHAR, query BIGINT, answers INTEGER[]", ANSWERS)
    _write(warehouse, tmp_path / "out", [_lists()])
    report = validate(str(tmp_path / "out" / "datapackage.json"))
    assert report.valid, report.flatten(["type", "message"])
    (resource,) = json.loads((tmp_path / "out" / "datapackage.json").read_text())["resources"]
    assert resource["path"] == "tenure_by_county.parquet"
    assert resource["schema"]["primaryKey"] == ["place", "query"]
    assert resource["schema"]["fields"][2] == {
        "name": "answers",
        "type": "array",
        "arrayItem": {"type": "integer"},
        "description": "The answers, in order",
        "constraints": {"required": True},
    }
    path = tmp_path / "out" / "tenure_by_county.parquet"
    content = path.read_bytes()
    path.write_bytes(bytes([*content[:20], content[20] ^ 1, *content[21:]]))
    assert not validate(str(tmp_path / "out" / "datapackage.json")).valid


def test_lists_give_the_same_bytes_whatever_the_order_of_rows_and_the_number_of_threads(tmp_path: Path) -> None:
    """20,000 rows of up to 300 integers fill several row groups."""
    seen = set()
    for number, (order, threads) in enumerate([("i", 1), ("i DESC", 2), ("hash(i)", 4)]):
        folder = tmp_path / str(number)
        folder.mkdir(mode=0o700)
        with duckdb.connect(str(folder / "public.duckdb")) as connection:
            connection.execute("CREATE SCHEMA ma1940__tenure")
            connection.execute(f"""
                CREATE TABLE ma1940__tenure.tenure_by_county AS
                SELECT 'p' || i % 3 AS place, i AS query,
                    [(hash(i + j) % 99)::INTEGER - 49 FOR j IN range(if(i % 100 = 0, 300, 4))] AS answers
                FROM range(20_000) AS numbers(i) ORDER BY {order}
            """)
        (folder / "public.duckdb").chmod(0o600)
        _write(Warehouse(folder=str(folder), threads=threads), folder / "out", [_lists()])
        seen.add((folder / "out" / "tenure_by_county.parquet").read_bytes())
    assert len(seen) == 1
    assert pq.ParquetFile(tmp_path / "0" / "out" / "tenure_by_county.parquet").num_row_groups > 1


@pytest.mark.parametrize("key", [(), ("answers",), ("place", "answers")])
def test_lists_without_a_key_are_refused(key: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="a table with lists needs a primary key"):
        _lists(primary_key=key)


@pytest.mark.parametrize("kind", ["DOUBLE[]", "VARCHAR[]", "INTEGER", "INTEGER[][]"])
def test_lists_of_other_types_are_not_written(fill: Fill, tmp_path: Path, kind: str) -> None:
    (tmp_path / "out").mkdir()
    with (
        fill(f"place VARCHAR, query BIGINT, answers {kind}", []).session(reads=[Zone.PUBLIC]) as session,
        pytest.raises(ValueError, match=r"column answers is stored as .*, not as integers"),
    ):
        write_data_files(session, tmp_path / "out", [_lists()])


@pytest.mark.parametrize("file", ["tenure_by_county.csv", "tenure_by_county.parquet"])
@pytest.mark.parametrize("damage", ["a changed byte", "a lost byte"])
def test_a_corrupted_file_is_caught(counts: Warehouse, tmp_path: Path, file: str, damage: str) -> None:
    _write(counts, tmp_path / "out", [_tenure()])
    path = tmp_path / "out" / file
    content = path.read_bytes()
    path.write_bytes(content.replace(b"946", b"947", 1) if damage == "a changed byte" else content[:-1])
    if damage == "a changed byte" and file.endswith("parquet"):
        path.write_bytes(bytes([*content[:20], content[20] ^ 1, *content[21:]]))
    assert path.read_bytes() != content
    assert not validate(str(tmp_path / "out" / "datapackage.json")).valid


@pytest.mark.parametrize(
    ("row", "error"),
    [
        (("Suffolk", 1, 5), "constraint-error"),
        (("Dukes", 3, 5), "constraint-error"),
        ((None, 1, 5), "constraint-error"),
        (("Dukes", 1, 947), "primary-key"),
    ],
)
def test_rows_that_break_the_data_dictionary_are_caught(
    fill: Fill, tmp_path: Path, row: tuple[Any, ...], error: str
) -> None:
    _write(fill("county VARCHAR, tenure INTEGER, count BIGINT", [*COUNTS, row]), tmp_path / "out", [_tenure()])
    report = validate(str(tmp_path / "out" / "datapackage.json"))
    assert [found for (found,) in report.flatten(["type"])] == [error]


def test_checksums_cover_every_other_file(counts: Warehouse, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    _write(counts, folder, [_tenure()])
    (folder / "inner").mkdir()
    (folder / "inner" / "more.txt").write_text("more")
    (folder / "SHA256SUMS").write_bytes(checksums(folder))
    lines = [line.split("  ") for line in (folder / "SHA256SUMS").read_text().splitlines()]
    assert [name for _, name in lines] == [
        "datapackage.json",
        "inner/more.txt",
        "tenure_by_county.csv",
        "tenure_by_county.parquet",
    ]
    assert all(hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest for digest, name in lines)


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="needs sha256sum")
def test_sha256sum_accepts_the_checksums_and_catches_a_change(counts: Warehouse, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    _write(counts, folder, [_tenure()])
    command = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    assert subprocess.run(command, cwd=folder, check=False, capture_output=True).returncode == 0
    (folder / "tenure_by_county.csv").write_text("county,tenure,count\n")
    assert subprocess.run(command, cwd=folder, check=False, capture_output=True).returncode != 0


def _lines_after(text: str, name: str) -> list[str]:
    lines = text.splitlines()
    return [lines[number + 1].strip() for number, line in enumerate(lines) if line == f"{name}:"]


@pytest.mark.parametrize("empty", ["", "NULL"])
def test_the_lines_of_the_readme_read_every_code_as_text(
    fill: Fill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty: str
) -> None:
    """The lines for pandas and DuckDB are run as they stand. Without the types, 01 would be 1, and NA be missing."""
    columns = (
        PublishedColumn("state 'code'", "string"),
        PublishedColumn("size", "integer", required=False),
        PublishedColumn("kind", "string", required=False),
        PublishedColumn("count", "integer"),
    )
    rows = [("01", 1, "NA", 5), ("02", None, None, 6), ("10", 3, "1e5", 7), ("11", 4, empty or "x", 8)]
    rows += [("12", 4, "", 9)] if empty else []
    table = _tenure(columns=columns, primary_key=("state 'code'",))
    files = _write(
        fill('"state \'code\'" VARCHAR, "size" BIGINT, kind VARCHAR, count BIGINT', rows), tmp_path / "out", [table]
    )
    text = readme(_release(), [table], files).decode()
    monkeypatch.chdir(tmp_path / "out")
    (by_pandas,) = _lines_after(text, "pandas")
    frame = eval(by_pandas, {"pandas": pd})
    assert [tuple(None if pd.isna(value) else value for value in row) for row in frame.itertuples(index=False)] == rows
    (by_duckdb,) = _lines_after(text, "DuckDB")
    assert duckdb.sql(by_duckdb).fetchall() == rows
    (by_r,) = _lines_after(text, "R")
    assert "colClasses = c(`state 'code'` = 'character', `kind` = 'character')" in by_r


@deep_cases(2)
@quick_cases(3)
@pytest.mark.parametrize(
    ("name", "code", "named"),
    [
        ("kind", "=1+1", True),
        ("kind", "+a", True),
        ("kind", "-", True),
        ("kind", "@a", True),
        ("=kind", "a", True),
        ("kind", "-1", False),
        ("kind", "+1.5", False),
        ("kind", "a=b", False),
        ("kind", "", False),
        ("kind", None, False),
    ],
)
def test_the_readme_names_files_in_which_a_spreadsheet_would_find_formulas(
    fill: Fill, tmp_path: Path, name: str, code: str | None, named: bool
) -> None:
    """The test fails if publications without such texts, or without any text, get another README, and so another data
    version."""
    columns = (PublishedColumn(name, "string", required=False), PublishedColumn("count", "integer"))
    table = _tenure(columns=columns, primary_key=(name,))
    warehouse = fill(f'"{name}" VARCHAR, count BIGINT', [("a", 1), (code, 2)])
    files = _write(warehouse, tmp_path / "out", [table])
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        formulas = list_formulas(session, [table, replace(table, columns=columns[1:], primary_key=("count",))])
    assert formulas == (["tenure_by_county.csv"] if named else [])
    text = readme(_release(), [table], files, formulas).decode()
    assert ("In tenure_by_county.csv, a text begins with =, +, - or @, and a spreadsheet" in text) == named
    assert "\n\n\n" not in text


def test_the_data_dictionary_says_who_publishes_what_from_what_and_when(counts: Warehouse, tmp_path: Path) -> None:
    files = _write(counts, tmp_path / "out", [_tenure()])
    office = Publisher.model_validate(
        {
            "authority": "Office",
            "contact": "data@office.example",
            "license": "CC-BY-4.0",
            "license_url": "https://a.b/c",
        }
    )
    text = data_package(_release(office), [_tenure()], files, 3, CREATED)
    (tmp_path / "out" / "datapackage.json").write_bytes(text)
    assert validate(str(tmp_path / "out" / "datapackage.json")).valid
    package = json.loads(text)
    assert package["licenses"] == [{"name": "CC-BY-4.0", "path": "https://a.b/c"}]
    assert package["contributors"] == [{"title": "Office", "roles": ["publisher"], "email": "data@office.example"}]
    assert package["sources"] == [{"title": "A town", "description": "Made up"}]
    assert package["$schema"] == "https://datapackage.org/profiles/2.0/datapackage.json"
    assert [resource.get("type") for resource in package["resources"]] == ["table", None]
    assert (package["version"], package["created"]) == ("3.0.0", "2026-03-01T09:30:00Z")
    undeclared = json.loads(data_package(_release(), [_tenure()], files, 1, CREATED))
    assert not {"licenses", "contributors"} & undeclared.keys()


def test_totals_are_marked_in_a_column_of_their_own_and_come_first(fill: Fill, tmp_path: Path) -> None:
    """A column of numbers stays one, and a missing value differs from a total."""
    columns = (
        PublishedColumn("county", "string"),
        PublishedColumn("size", "integer", values={2: "", 10: ""}, required=False, total="size_total"),
        PublishedColumn("size_total", "boolean"),
        PublishedColumn("count", "integer"),
    )
    table = _tenure(columns=columns, primary_key=("county", "size", "size_total"))
    rows = [("A", 10, False, 1), ("A", 2, False, 2), ("A", None, False, 3), ("A", None, True, 6)]
    warehouse = fill("county VARCHAR, size BIGINT, size_total BOOLEAN, count BIGINT", rows)
    _write(warehouse, tmp_path / "out", [table])
    assert (tmp_path / "out" / "tenure_by_county.csv").read_text().splitlines() == [
        "county,size,size_total,count",
        "A,,true,6",
        "A,2,false,2",
        "A,10,false,1",
        "A,,false,3",
    ]
    report = validate(str(tmp_path / "out" / "datapackage.json"))
    assert report.valid, report.flatten(["type", "note"])


def test_a_catalog_finds_every_file_with_its_hash_license_and_publisher(counts: Warehouse, tmp_path: Path) -> None:
    """The requirements of DCAT-AP follow from the data package alone. Addresses begin with the folder if one is
    given."""
    files = _write(counts, tmp_path / "out", [_tenure()])
    office = {"authority": "Office", "contact": "data@office.example", "license": "CC-BY-4.0"}
    package = data_package(_release(Publisher.model_validate(office)), [_tenure()], files, 3, CREATED)
    node = json.loads(to_dcat(package))
    assert (node["@type"], node["dct:title"], node["dcat:version"]) == ("dcat:Dataset", "Tenure", "3.0.0")
    assert node["dct:publisher"]["foaf:name"] == "Office"
    assert node["dcat:contactPoint"]["vcard:hasEmail"] == {"@id": "mailto:data@office.example"}
    for file, distribution in zip(files, node["dcat:distribution"], strict=True):
        assert distribution["dcat:accessURL"] == distribution["dcat:downloadURL"] == {"@id": file.path}
        assert distribution["spdx:checksum"]["spdx:checksumValue"]["@value"] == file.sha256
        assert distribution["dcat:byteSize"]["@value"] == str(file.bytes)
        assert distribution["dct:license"] == {"@id": "https://spdx.org/licenses/CC-BY-4.0"}
    below = describe_dataset(json.loads(package), "town/tenure/")
    assert below["dcat:distribution"][0]["dcat:accessURL"] == {"@id": "town/tenure/tenure_by_county.csv"}
    undeclared = json.loads(to_dcat(data_package(_release(), [_tenure()], files, 1, CREATED)))
    assert not {"dct:publisher", "dcat:contactPoint"} & undeclared.keys()
