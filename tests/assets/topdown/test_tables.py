"""Microdata are the estimates, tables are the estimates added up, and published files can be read back."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
import numpy as np
import pyarrow.parquet as pq
import pytest
from frictionless import validate

from assets.publication.package import data_package, write_data_files
from assets.release.stage import create_tables
from assets.topdown.gates import topdown_gates
from assets.topdown.method import TopDownMethod
from assets.topdown.published import published_tables
from assets.topdown.records import build_microdata, microdata_recipes
from assets.topdown.release import TABLES, TopDownRelease
from assets.topdown.tables import build_redistricting, tables_recipe
from mechanisms.sampling.noise import DiscreteGaussian
from mechanisms.topdown.design import SCHEMAS
from mechanisms.topdown.redistricting import REDISTRICTING
from mechanisms.topdown.schema import PERSONS
from resources.instances import close_waiting
from resources.statements import Zone
from resources.warehouse import Warehouse
from tests.assets.topdown.products import LISTS, Histogram, Products, products, random_histograms
from tests.depth import deep_cases, quick_cases
from tests.forging import forge_file

Truth = dict[str, Histogram]

CREATED = "2026-03-01T09:30:00Z"


def filled(root: Path, seed: int = 1, **changes: Any) -> tuple[Products, Truth]:
    """A deployment with estimates and measurements; at least one block has no person, and at least one no unit."""
    generator = np.random.default_rng(seed)
    made = products(root, generator, **changes)
    histograms = random_histograms(generator, len(made.geoids["Block"]))
    histograms["persons"][0] = 0
    histograms["units"][-1] = 0
    # Persons easily counted in the wrong cell: Hispanic and White, in group quarters.
    histograms["persons"][-1, PERSONS.size // 2 + 63] = 2
    by_level = {name: made.roll_up(finest) for name, finest in histograms.items()}
    for level in made.levels:
        made.write_estimates(level, {name: found[level] for name, found in by_level.items()})
    made.write_measurements(histograms, generator, noise=5)
    return made, histograms


def tabulate(made: Products) -> None:
    with made.warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
        create_tables(session, microdata_recipes(made.release))
        create_tables(session, tables_recipe(session, made.release))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Products, Truth]:
    """A town whose tables are made; no test may change it."""
    made, histograms = filled(tmp_path_factory.mktemp("town"))
    tabulate(made)
    return made, histograms


@pytest.fixture
def town(built: tuple[Products, Truth], tmp_path: Path) -> tuple[Products, Truth]:
    """A copy of the town, for a test to change."""
    made, histograms = built
    copied = tmp_path / "warehouse"
    shutil.copytree(made.warehouse.folder, copied)
    return replace(made, warehouse=Warehouse(folder=str(copied), threads=1)), histograms


def problems(gate: str, made: Products) -> list[str]:
    """The gate's findings."""
    (problems,) = (each.problems for each in topdown_gates(made.release) if each.name == gate)
    return problems(cast(Any, SimpleNamespace(release=made.release, warehouse=made.warehouse)))


def test_there_is_a_record_for_everyone_the_estimates_count_in_the_order_of_places_and_cells(
    town: tuple[Products, Truth],
) -> None:
    made, histograms = town
    for name, schema in SCHEMAS.items():
        sizes = [attribute.size for attribute in schema.attributes]
        expected = [
            (
                made.geoids["Block"][number],
                *(
                    _as_in_the_census_files(attribute.name, int(code))
                    for attribute, code in zip(schema.attributes, np.unravel_index(cell, sizes), strict=True)
                ),
            )
            for number, cell in np.argwhere(histograms[name])
            for _ in range(histograms[name][number, cell])
        ]
        rows = made.read(made.release.public(name))
        assert [row["record"] for row in rows] == list(range(1, len(expected) + 1))
        columns = ("geoid", *(attribute.name for attribute in schema.attributes))
        assert [tuple(row[column] for column in columns) for row in rows] == expected


def _as_in_the_census_files(attribute: str, position: int) -> str:
    """Race has two digits from 01, Hispanic origin one from 1; the others are numbered from 0."""
    if attribute == "cenrace":
        return f"{position + 1:02}"
    return str(position + (attribute == "hispanic"))


def test_every_place_of_every_level_has_its_counts_in_every_table_zeros_included(town: tuple[Products, Truth]) -> None:
    made, histograms = town
    by_level = {name: made.roll_up(finest) for name, finest in histograms.items()}
    for name, table in REDISTRICTING.items():
        expected = {
            (level, geoid): [int(histogram[cell.counted].sum()) for cell in table.cells]
            for level in made.levels
            for geoid, histogram in zip(made.geoids[level], by_level[table.schema.name][level], strict=True)
        }
        rows = made.read(made.release.public(name.lower()))
        assert len(rows) == len(expected)
        assert list(rows[0]) == ["depth", "level", "geoid", "name", *(cell.name for cell in table.cells)]
        assert {(row["level"], row["geoid"]): list(row.values())[4:] for row in rows} == expected
        assert any(not any(counts) for counts in expected.values())


@pytest.mark.prove
@pytest.mark.parametrize("places", [1, 2, 3, 7])
def test_tables_that_are_made_in_pieces_are_the_same_in_the_same_order(
    town: tuple[Products, Truth], monkeypatch: pytest.MonkeyPatch, places: int
) -> None:
    made, _ = town
    tables = [made.release.public(name.lower()) for name in REDISTRICTING]
    whole = [made.read(table) for table in tables]
    monkeypatch.setattr("assets.topdown.tables.PLACES_AT_A_TIME", places)
    monkeypatch.setattr("resources.warehouse._ROWS_TOGETHER", 1)
    with made.warehouse.session(reads=[Zone.PUBLIC]) as session:
        _, pieces, _ = tables_recipe(session, made.release)[tables[0]]
        assert sum(1 for _ in pieces) == -(-len(whole[0]) // places)
    assert problems("tables_as_made", made) == []
    tabulate(made)
    assert [made.read(table) for table in tables] == whole


def test_tables_show_the_declared_names_of_places_and_no_others(town: tuple[Products, Truth]) -> None:
    made, _ = town
    rows = made.read(made.release.public("p1"))
    assert {row["geoid"]: row["name"] for row in rows if row["name"] is not None} == {
        "10": "Delaware",
        "100001": "A block",
    }


def test_counts_are_stored_as_integers(town: tuple[Products, Truth]) -> None:
    made, _ = town
    with made.warehouse.session(reads=[Zone.PUBLIC]) as session:
        for name in TABLES:
            kinds = list(session.columns(made.release.public(name.lower())).values())
            assert kinds == ["BIGINT", *["VARCHAR"] * 3, *["BIGINT"] * len(REDISTRICTING[name].cells)]


def test_only_declared_tables_are_made(tmp_path: Path) -> None:
    made, _ = filled(tmp_path, products=("P1", "units"))
    with made.warehouse.session(writes=Zone.PUBLIC) as session:
        create_tables(session, microdata_recipes(made.release))
        assert [table.name for table in tables_recipe(session, made.release)] == ["queries", "query_cells", "p1"]
    names = [table.name for table in published_tables(made.release)]
    assert names == ["p1", "units", "queries", "query_cells", "spine"]


@pytest.mark.deep
def test_a_place_that_lies_alone_in_its_place_above_is_counted_in_both(tmp_path: Path) -> None:
    made, histograms = filled(tmp_path, counties=1, blocks=1)
    tabulate(made)
    rows = made.read(made.release.public("p1"))
    assert [row["P0010001"] for row in rows] == [int(histograms["persons"].sum())] * 3


# Files for readers of the measurements


def test_queries_state_budget_and_variance_exactly(town: tuple[Products, Truth]) -> None:
    made, _ = town
    rows = made.read(made.release.public("queries"))
    assert [(row["histogram"], row["level"], row["query"]) for row in rows] == [
        (each.histogram, each.level, each.query) for each in made.release.design.measured
    ]
    whole = {"persons": Fraction(3), "units": Fraction(2)}
    for row in rows:
        rho = whole[row["histogram"]] * Fraction(row["share_of_level"]) * Fraction(row["share_of_query"])
        assert (Fraction(row["rho"]), Fraction(row["parameter"])) == (rho, 1 / rho)
        exact = DiscreteGaussian(1 / rho).exact_variance
        assert abs(Fraction(row["variance"]) - Fraction(exact)) <= Fraction(1, 2 * 10**18)
    for name in ("persons", "units"):
        assert sum(Fraction(row["rho"]) for row in rows if row["histogram"] == name) == whole[name]
    assert {row["query"]: row["cells"] for row in rows if row["histogram"] == "persons"} == {
        "total": 1,
        "hispanic * cenrace": 126,
        "hhinstlevels": 3,
        "detailed": 2016,
    }


def test_answers_can_be_decoded_from_the_published_lists_alone(town: tuple[Products, Truth]) -> None:
    """Each answer is the number of records with the codes of its row, where the noise is none."""
    made, histograms = town
    made.write_measurements(histograms, np.random.default_rng(0), noise=0)
    cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in made.read(made.release.public("query_cells")):
        cells.setdefault((row["histogram"], row["query"]), []).append(row)
    assert all([row["position"] for row in rows] == list(range(len(rows))) for rows in cells.values())
    records = {name: made.read(made.release.public(name)) for name in SCHEMAS}
    for person in records["persons"]:
        person["hhinstlevels"] = "01111222"[int(person["hhgq"])]
    ignored = ("histogram", "query", "position")
    for measured in made.read_measurements():
        place = measured["geoid"]
        within = [
            record
            for record in records[measured["histogram"]]
            if measured["level"] == "US" or record["geoid"].startswith(place)
        ]
        listed = cells[measured["histogram"], measured["query"]]
        columns = [name for name, code in listed[0].items() if name not in ignored and code is not None]
        counted: dict[tuple[int, ...], int] = {}
        for record in within:
            at = tuple(record[name] for name in columns)
            counted[at] = counted.get(at, 0) + 1
        expected = [counted.get(tuple(row[name] for name in columns), 0) for row in listed]
        assert measured["answers"] == expected, (measured["level"], measured["query"])


@pytest.mark.deep
def test_what_is_published_is_valid_and_reads_back(town: tuple[Products, Truth], tmp_path: Path) -> None:
    made, _ = town
    folder = tmp_path / "out"
    folder.mkdir()
    published = published_tables(made.release)
    with made.warehouse.session(reads=[Zone.PUBLIC], folder=folder) as session:
        files = write_data_files(session, folder, published)
    (folder / "datapackage.json").write_bytes(data_package(made.release, published, files, 1, CREATED))
    report = validate(str(folder / "datapackage.json"))
    assert report.valid, report.flatten(["type", "message"])
    assert {file.path for file in files if file.product == "noisy_measurements"} == {"noisy_measurements.parquet"}
    assert {file.product for file in files} == {
        *(name.lower() for name in made.release.products),
        "queries",
        "query_cells",
        "spine",
    }
    order = ("histogram", "level", "query", "number")
    stored = sorted(made.read_measurements(), key=lambda row: tuple(row[name] for name in order))
    assert pq.read_table(folder / "noisy_measurements.parquet").to_pylist() == stored


def test_lists_that_were_stored_otherwise_give_the_same_file(town: tuple[Products, Truth], tmp_path: Path) -> None:
    """In another order, or as lists, as earlier versions stored them."""
    made, _ = town
    (published,) = (each for each in published_tables(made.release) if each.has_lists)
    written = []
    for folder, change in (
        (tmp_path / "jumbled", "SELECT * FROM {0} ORDER BY number DESC, query"),
        (tmp_path / "reversed", LISTS),
        (tmp_path / "lists", "SELECT * FROM {0} ORDER BY ALL"),
        (tmp_path / "lists in order", "SELECT * FROM {0}"),
    ):
        folder.mkdir()
        with made.warehouse.session(reads=[Zone.PUBLIC], folder=folder) as session:
            written += write_data_files(session, folder, [published])
        made.change(published.table, f"CREATE OR REPLACE TABLE {{0}} AS {change}")
    assert len({file.sha256 for file in written}) == 1


def test_every_column_of_every_product_is_described(town: tuple[Products, Truth]) -> None:
    made, _ = town
    for table in published_tables(made.release):
        assert all(column.description for column in table.columns), table.name
    labels = {column.name: column.description for column in published_tables(made.release)[0].columns}
    assert labels["P0010003"] == "!!Total:!!Population of one race:!!White alone"


# Gates -----------------------------------------------------------------------------------------------------


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize("gate", ["microdata_of_estimates", "tables_as_made", "tables_agree"])
def test_honest_tables_pass_every_gate(built: tuple[Products, Truth], gate: str) -> None:
    made, _ = built
    assert problems(gate, made) == []


@deep_cases(1)
@pytest.mark.parametrize("places", [1, 2, 3, 7])
def test_honest_microdata_pass_their_gate_however_many_places_are_compared_at_a_time(
    built: tuple[Products, Truth], monkeypatch: pytest.MonkeyPatch, places: int
) -> None:
    made, _ = built
    monkeypatch.setattr("assets.topdown.gates.PLACES_AT_A_TIME", places)
    assert problems("microdata_of_estimates", made) == []


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize(
    ("table", "statement"),
    [
        ("persons", "UPDATE {} SET cenrace = CASE cenrace WHEN '01' THEN '02' ELSE '01' END WHERE record = 1"),
        ("persons", "UPDATE {} SET votingage = (1 - votingage::INTEGER)::VARCHAR WHERE record = 2"),
        ("persons", "UPDATE {} SET geoid = (SELECT max(geoid) FROM {}) WHERE record = 1"),
        ("persons", "UPDATE {} SET geoid = 'nowhere' WHERE record = 1"),
        ("persons", "DELETE FROM {} WHERE record = (SELECT max(record) FROM {})"),
        ("persons", "INSERT INTO {} SELECT 1 + (SELECT max(record) FROM {}), * EXCLUDE (record) FROM {} LIMIT 1"),
        ("persons", "UPDATE {} SET record = 2 WHERE record = 1"),
        ("persons", "UPDATE {} SET record = record + 1"),
        # Codes that do not exist; the first would have the number of another cell.
        ("persons", "UPDATE {} SET hispanic = '1', cenrace = '64' WHERE hispanic = '2' AND cenrace = '01'"),
        ("persons", "UPDATE {} SET cenrace = '1' WHERE cenrace = '01'"),
        ("units", "UPDATE {} SET occupancy = (1 - occupancy::INTEGER)::VARCHAR WHERE record = 1"),
        ("units", "DELETE FROM {}"),
        ("persons", "UPDATE {} SET record = NULL WHERE record = 1"),
        ("persons", "UPDATE {} SET record = 0 WHERE record = 1"),
        ("persons", "INSERT INTO {} SELECT 0, * EXCLUDE (record) FROM {} WHERE record = 1"),
        # Of a cell with three records or more, two have one number, and number, first and last are as before.
        (
            "persons",
            "UPDATE {} SET record = record - 1 WHERE record = (SELECT min(record) + 2 FROM {} "
            "GROUP BY geoid, hhgq, votingage, hispanic, cenrace HAVING count(*) > 3 ORDER BY 1 LIMIT 1)",
        ),
        # The records of the first and of the last place stand in each other's place.
        (
            "persons",
            "UPDATE {} SET geoid = CASE geoid WHEN (SELECT min(geoid) FROM {}) THEN (SELECT max(geoid) FROM {}) "
            "ELSE (SELECT min(geoid) FROM {}) END WHERE geoid IN (SELECT unnest([min(geoid), max(geoid)]) FROM {})",
        ),
    ],
)
def test_microdata_that_are_not_the_estimates_are_found(
    town: tuple[Products, Truth], monkeypatch: pytest.MonkeyPatch, table: str, statement: str
) -> None:
    made, _ = town
    made.change(made.release.public(table), statement.replace("{}", "{0}"))
    for places in (100_000, 3, 1):
        monkeypatch.setattr("assets.topdown.gates.PLACES_AT_A_TIME", places)
        (problem, *_) = problems("microdata_of_estimates", made)
        assert f".{table}: " in problem


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize("place", ["-5", "NULL", "10**9"])
def test_estimates_of_places_that_do_not_exist_are_found(town: tuple[Products, Truth], place: str) -> None:
    made, _ = town
    made.change(
        made.release.public("level_block"),
        f"INSERT INTO {{0}} BY NAME SELECT {place} AS number, * EXCLUDE (number) FROM {{0}} "
        "WHERE histogram = 'units' LIMIT 1",
    )
    assert problems("microdata_of_estimates", made)


def test_estimates_that_change_after_the_microdata_are_found(town: tuple[Products, Truth]) -> None:
    made, _ = town
    made.change(made.release.public("level_block"), "UPDATE {} SET count = count + 1 WHERE histogram = 'units'")
    assert len(problems("microdata_of_estimates", made)) == 1


def test_microdata_without_the_persons_that_forged_statistics_hide_are_found(town: tuple[Products, Truth]) -> None:
    """The estimates stay, but where they are read for the microdata, DuckDB skips all persons."""
    made, _ = town
    made.change(made.release.public("level_block"), "CREATE OR REPLACE TABLE {0} AS SELECT * FROM {0}")
    close_waiting()
    forge_file(made.warehouse.path(Zone.PUBLIC), {("persons", "units"): ("q", "units")})
    fooled = replace(made, warehouse=made.warehouse.relying_on_statistics())
    with fooled.warehouse.session(writes=Zone.PUBLIC) as session:
        create_tables(session, microdata_recipes(made.release))
    assert made.read(made.release.public("persons")) == []
    (problem,) = problems("microdata_of_estimates", fooled)
    assert "estimated records that the table's stored statistics hide" in problem


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize(
    ("table", "statement"),
    [
        ("p1", "UPDATE {} SET P0010001 = P0010001 + 1 WHERE level = 'US'"),
        ("p2", "UPDATE {} SET P0020073 = P0020073 + 1 WHERE geoid = (SELECT max(geoid) FROM {} WHERE level = 'Block')"),
        ("p4", "DELETE FROM {} WHERE level = 'County'"),
        ("p5", "INSERT INTO {} SELECT * FROM {} WHERE level = 'US'"),
        ("h1", "UPDATE {} SET H0010002 = H0010003, H0010003 = H0010002 WHERE H0010002 <> H0010003"),
        ("queries", "UPDATE {} SET variance = 0.5 WHERE level = 'US' AND query = 'detailed'"),
        ("query_cells", "UPDATE {} SET position = 1 - position WHERE histogram = 'units'"),
    ],
)
def test_tables_that_are_not_the_estimates_are_found(town: tuple[Products, Truth], table: str, statement: str) -> None:
    made, _ = town
    made.change(made.release.public(table), statement.replace("{}", "{0}"))
    problem, *rows = problems("tables_as_made", made)
    assert f".{table}: differing rows" in problem
    assert rows, "the altered rows are named"


@pytest.mark.deep
def test_tables_of_other_estimates_are_found(town: tuple[Products, Truth]) -> None:
    """Of as many persons, but with another Hispanic origin."""
    made, _ = town
    made.change(
        made.release.public("level_block"),
        "UPDATE {} SET cell = cell + 63 WHERE histogram = 'persons' AND cell // 63 % 2 = 0",
    )
    found = problems("tables_as_made", made)
    assert found
    assert not any(".p1: " in problem or ".p5: " in problem for problem in found)


def test_estimates_of_cells_that_do_not_exist_are_in_no_table_and_found(town: tuple[Products, Truth]) -> None:
    made, _ = town
    for cell, count in (("-1", "1"), ("10**9", "1"), ("NULL", "1"), ("0", "NULL")):
        row = f"SELECT 'units' AS histogram, 0 AS number, {cell} AS cell, {count} AS count"
        made.change(made.release.public("level_block"), f"INSERT INTO {{}} BY NAME {row}")
    assert problems("tables_as_made", made) == []
    (problem, *_) = problems("whole_numbers", made)
    assert "Block" in problem


CHAIN = "level = 'US' OR geoid = '10' OR geoid = (SELECT min(geoid) FROM {} WHERE level = 'Block' AND geoid LIKE '10%')"


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize(
    ("table", "statement", "complaint"),
    [
        ("p1", "UPDATE {} SET P0010001 = P0010001 + 1 WHERE level = 'US'", "P1: places that are missing"),
        ("p5", "DELETE FROM {} WHERE level = 'Block'", "P5: places that are missing"),
        ("p5", "INSERT INTO {} SELECT * FROM {} WHERE level = 'US'", "P5: places that are missing"),
        ("p5", "UPDATE {} SET geoid = 'nowhere' WHERE level = 'US'", "P5: places that are missing"),
        ("h1", "UPDATE {} SET H0010003 = H0010003 + 1 WHERE level = 'US'", "H1: places that are missing"),
        ("h1", "UPDATE {} SET H0010002 = H0010002 - 99, H0010003 = H0010003 + 99", "H1: places that are missing"),
        (
            "h1",
            "UPDATE {} SET H0010001 = H0010001 + 1, H0010003 = H0010003 + 1 WHERE level = 'County'",
            "H1: places that differ from the sums",
        ),
        (
            "p2",
            f"UPDATE {{}} SET P0020001 = P0020001 + 1, P0020002 = P0020002 + 1 WHERE {CHAIN}",
            "P1 and P2: places where they disagree: 3",
        ),
        (
            "p4",
            f"UPDATE {{}} SET P0040001 = P0040001 + 99, P0040002 = P0040002 + 99 WHERE {CHAIN}",
            "P2 and P4: places where they disagree: 3",
        ),
        (
            "p3",
            "UPDATE {} SET P0030001 = P0030001 + 999, P0030002 = P0030002 + 999, P0030003 = P0030003 + 999 WHERE "
            + CHAIN,
            "P1 and P3: places where they disagree: 3",
        ),
        (
            "p5",
            "UPDATE {} SET P0050001 = P0050001 + 999, P0050007 = P0050007 + 999, P0050009 = P0050009 + 999 WHERE "
            + CHAIN,
            "P1 and P5: places where they disagree: 3",
        ),
    ],
)
def test_tables_that_disagree_are_found(
    town: tuple[Products, Truth], table: str, statement: str, complaint: str
) -> None:
    made, _ = town
    assert any(geoid.startswith("10") for geoid in made.geoids["Block"])
    made.change(made.release.public(table), statement.replace("{}", "{0}"))
    found = problems("tables_agree", made)
    assert any(problem.startswith(complaint) for problem in found), found


# Assets ----------------------------------------------------------------------------------------------------


def _materialized(made: Products, build: Callable[[TopDownRelease], dg.AssetsDefinition]) -> dg.ExecuteInProcessResult:
    with dg.DagsterInstance.ephemeral() as instance:
        return dg.materialize([build(made.release)], resources={"warehouse": made.warehouse}, instance=instance)


@pytest.mark.prove
def test_the_assets_write_and_show_the_tables_and_their_version_follows_the_content(tmp_path: Path) -> None:
    made, histograms = filled(tmp_path)

    def build_records(release: TopDownRelease) -> dg.AssetsDefinition:
        return build_microdata(TopDownMethod(release))[0]

    for stage, build in (("microdata", build_records), ("tables", build_redistricting)):
        results = [_materialized(made, build) for _ in range(2)]
        (event,) = results[0].get_asset_materialization_events()
        assert event.asset_key == made.release.key(stage)
        tags = [dict(result.get_asset_materialization_events()[0].materialization.tags or {}) for result in results]
        assert tags[0]["dagster/data_version"] == tags[1]["dagster/data_version"]
        shown = event.materialization.metadata
        assert shown["dagster/row_count"].value > 0
    (first,) = (value for name, value in shown.items() if name.startswith("P1"))
    assert f"| Total: | {int(histograms['persons'].sum()):,} |" in str(first.value)
    assert problems("tables_agree", made) == []
