"""A whole release, from source files to publication, compared with independent arithmetic on the same source files.

Plain Python counts the expected values from the rows of the source files and from the published CSV files. None of the
project's SQL is used.
"""

import csv
import io
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.swapping.tables import find_larger_places
from mechanisms.swapping.uncertainty import Contributions, estimates, moments, moments_of_strata
from tests.deployments import (
    COUNTIES,
    PERSONS,
    TO_PUBLICATION,
    UNITS,
    Deployment,
    households,
    members,
    small_deployment,
    small_release,
)
from tests.depth import deep_cases
from tests.formats import differing_rows

FIRST_KEY, STEP = 941_700_000_003, 8_191
"""Keys that cannot be mistaken for a count or a code."""

FIGURES = ("estimate", "standard_error", "lower", "upper", "greatest_bias")

Row = dict[str, str | None]


@dataclass(frozen=True)
class Case:
    """A published release and the records from which it was made.

    Attributes:
        records: the swapped records as in the source, with values as text; `persons` lists their persons.
        keys: all keys in the source.
        match, swap: as declared.
        products: as declared.
    """

    deployment: Deployment
    records: list[dict[str, Any]]
    keys: frozenset[str]
    match: tuple[str, ...]
    swap: tuple[str, ...]
    products: Sequence[Mapping[str, Any]]

    @property
    def holding(self) -> list[str]:
        return [name for name in self.records[0] if name not in self.swap]

    @property
    def swap_rate(self) -> Fraction:
        return self.deployment.release.design.plain_rate


def keyed(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row | {"serial": FIRST_KEY + STEP * row["serial"]} for row in rows]


def text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        # A decimal, of which Parquet has the nearest double.
        return f"{value:.4f}"
    return str(value)


def variables_only(row: Mapping[str, Any], without: Sequence[str] = ("serial", "household")) -> Row:
    return {name: text(value) for name, value in row.items() if name not in without}


def case(root: Path, rows: list[dict[str, Any]], **declared: Any) -> Case:
    """Publish a release on these households, with their persons if there are any."""
    persons = declared.get("persons") or []
    deployment = small_deployment(root, units=rows, **declared)
    deployment.reach(*TO_PUBLICATION)
    if declared.get("unit") == "person":
        unit_of = {row["serial"]: row for row in rows}
        records = [variables_only(unit_of[person["household"]]) | variables_only(person) for person in persons]
    else:
        records = [variables_only(row) for row in rows]
        if persons:
            theirs: dict[int, list[tuple[str | None, ...]]] = {row["serial"]: [] for row in rows}
            for person in persons:
                theirs[person["household"]].append(tuple(variables_only(person).values()))
            records = [
                record | {"persons": tuple(sorted(theirs[row["serial"]], key=repr))}
                for record, row in zip(records, rows, strict=True)
            ]
    return Case(
        deployment,
        records,
        frozenset(str(row["serial"]) for row in rows),
        tuple(deployment.release.design.match),
        tuple(deployment.release.design.swap),
        declared.get("products", [product.model_dump() for product in deployment.release.declaration.products]),
    )


def units_only(root: Path) -> Case:
    return case(root, keyed(households()))


def persons_following(root: Path) -> Case:
    rows = keyed(households(60))
    # Two households with the same persons, listed in a different order, and one household without persons.
    persons = [person for person in members(rows) if person["household"] != rows[5]["serial"]]
    twins = [{"household": rows[key]["serial"], "age": age, "sex": "f"} for key, age in ((8, 7), (8, 70), (16, 70))]
    persons = [person for person in persons if person["household"] not in {row["household"] for row in twins}]
    return case(root, rows, persons=[*persons, *twins, {"household": rows[16]["serial"], "age": 7, "sex": "f"}])


def persons_swapped(root: Path) -> Case:
    rows = keyed(households(60))
    return case(
        root,
        rows,
        persons=members(rows),
        unit="person",
        match=["sex"],
        swap=["county", "region"],
        swap_rate="1/2",
        products=[{"name": "age_by_county", "geography": ["region", "county"], "dimensions": ["age"], "zeros": False}],
    )


def no_match_variables(root: Path) -> Case:
    return case(root, keyed(households()), match=[])


def strata_of_one_record(root: Path) -> Case:
    rows = keyed(households(40))
    rows[3] |= {"size": 8}
    rows[4] |= {"size": 9, "county": "Brent"}
    return case(root, rows, swap_rate="9/10")


def a_stratum_of_equal_records(root: Path) -> Case:
    equal = {"region": "N", "county": "Avon", "size": 7, "tenure": "rent"}
    rows = [*households(20), *({"serial": number} | equal for number in range(21, 91))]
    return case(root, keyed(rows), swap_rate="9/10")


def nulls_in_swapped_and_held(root: Path) -> Case:
    rows = keyed(households())
    for number, row in enumerate(rows):
        row |= {"county": None} if number % 5 == 0 else {}
        row |= {"tenure": None} if number % 7 == 0 else {}
    columns = {name: dict(column) for name, column in UNITS.items()}
    columns["county"]["nullable"] = columns["tenure"]["nullable"] = True
    return case(root, rows, dataset={"units": {"path": str(root / "units.csv"), "columns": columns}})


def nulls_among_persons(root: Path) -> Case:
    rows = keyed(households(40))
    persons: list[dict[str, Any]] = members(rows)
    for number, person in enumerate(persons):
        person |= {"age": None} if number % 3 == 0 else {}
    columns = {name: dict(column) for name, column in PERSONS.items()}
    columns["age"]["nullable"] = True
    return case(
        root,
        rows,
        persons=persons,
        dataset={"persons": {"path": str(root / "persons.csv"), "columns": columns}},
        products=[{"name": "ages", "of": "persons", "dimensions": ["age", "tenure"], "totals": ["age", "tenure"]}],
    )


def ephemeral_custody(root: Path) -> Case:
    return case(root, keyed(households()), custody="ephemeral")


def no_products(root: Path) -> Case:
    return case(root, keyed(households()), products=[])


ODD = [
    'say "so"',
    "a,b",
    "Ångström ☃",
    "NULL",
    "it's",
    " spaced ",
    "01",
    "1",
    "-",
    "'; DROP TABLE x; --",
    "{{ x }}",
]
ODD_NAME = 'te"nu,re; of it'


def odd_texts(root: Path) -> Case:
    rows = keyed(households(110))
    for number, row in enumerate(rows):
        row["county"] = ODD[number * 5 % len(ODD)]
        row[ODD_NAME] = ODD[number * 3 % 7]
        del row["tenure"]
    columns: dict[str, Any] = {name: dict(column) for name, column in UNITS.items() if name != "tenure"}
    columns["county"]["values"] = ODD
    columns[ODD_NAME] = {"type": "string", "pattern": "(?s).+"}
    return case(
        root,
        rows,
        dataset={"units": {"path": str(root / "units.csv"), "columns": columns}},
        products=[
            {"name": "odd", "geography": ["county"], "dimensions": [ODD_NAME], "totals": ["county"]},
            {"name": "sizes", "dimensions": ["size", "county"], "totals": ["size", "county"]},
        ],
    )


def parquet_of_every_type(root: Path) -> Case:
    rows = [
        row
        | {
            "tenure": ("", "own", None, "NULL", "NULL_")[number % 5],
            "built": f"19{10 + number % 7:02}-02-28",
            "rent": ("0.5000", "12.2500", None)[number % 3],
            "farm": number % 4 == 0,
        }
        for number, row in enumerate(keyed(households()))
    ]
    columns: dict[str, Any] = {name: dict(column) for name, column in UNITS.items()} | {
        "tenure": {"type": "string", "values": ["", "own", "NULL", "NULL_"], "nullable": True},
        "built": {"type": "date"},
        "rent": {"type": "decimal", "minimum": 0, "nullable": True},
        "farm": {"type": "boolean"},
    }
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, root / "units.parquet")
    return case(
        root,
        rows,
        dataset={"reader": "parquet", "units": {"path": str(root / "units.parquet"), "columns": columns}},
        match=["region", "farm"],
        swap=["county", "tenure"],
        products=[
            {
                "name": "tenures",
                "geography": ["county"],
                "dimensions": ["tenure", "rent"],
                "totals": ["rent", "tenure"],
            },
            {"name": "farms", "dimensions": ["farm", "built"], "totals": ["farm", "built"]},
        ],
    )


CASES = [
    units_only,
    persons_following,
    persons_swapped,
    no_match_variables,
    strata_of_one_record,
    a_stratum_of_equal_records,
    nulls_in_swapped_and_held,
    nulls_among_persons,
    ephemeral_custody,
    no_products,
    odd_texts,
    parquet_of_every_type,
]


@pytest.fixture(scope="module", autouse=True)
def same_draws_in_every_run() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STIRRED_TEST_MASTER_KEY", "5a" * 32)
        yield


QUICK = (persons_following,)
PROVEN = (
    units_only,
    no_match_variables,
    strata_of_one_record,
    a_stratum_of_equal_records,
    nulls_among_persons,
    ephemeral_custody,
    no_products,
    odd_texts,
)


def depth(make: Callable[[Path], Case]) -> list[pytest.MarkDecorator]:
    return [] if make in QUICK else [pytest.mark.prove if make in PROVEN else pytest.mark.deep]


@pytest.fixture(
    scope="module",
    params=[pytest.param(make, marks=depth(make)) for make in CASES],
    ids=[make.__name__ for make in CASES],
)
def published(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return request.param(tmp_path_factory.mktemp("deployment"))


def rows_of(deployment: Deployment, name: str) -> list[tuple[Row, int]]:
    """The rows of a published CSV file with their counts, without estimates.

    The data package says which text marks a missing value.
    """
    files, missing = deployment.published(), missing_marker(deployment, name)
    rows = [
        {column: value for column, value in row.items() if column not in FIGURES}
        for row in csv.DictReader(io.StringIO(files[f"{name}.csv"].decode(), newline=""))
    ]
    return [
        (
            {column: None if value == missing else value for column, value in list(row.items())[:-1]},
            int(list(row.values())[-1]),
        )
        for row in rows
    ]


def missing_marker(deployment: Deployment, name: str) -> str:
    package = json.loads(deployment.published()["datapackage.json"])
    (resource,) = (resource for resource in package["resources"] if resource["path"] == f"{name}.csv")
    (missing,) = resource["schema"]["missingValues"]
    return str(missing)


def swapped_records(of: Case) -> Counter[tuple[Any, ...]]:
    """The published saturated table as a multiset of records, in the form of the source's."""
    persons: dict[str | None, list[tuple[str | None, ...]]] = {}
    if "saturated_persons.csv" in of.deployment.published():
        for row, number in rows_of(of.deployment, "saturated_persons"):
            kind, *values = row.values()
            persons.setdefault(kind, []).extend([tuple(values)] * number)
    found: Counter[tuple[Any, ...]] = Counter()
    for row, count in rows_of(of.deployment, "saturated"):
        kind = row.pop("household_type", None)
        if "persons" in of.records[0]:
            row["persons"] = tuple(sorted(persons.get(kind, []), key=repr))  # type: ignore[assignment]
        found[tuple(row[name] for name in of.records[0])] += count
    return found


def margin(of: Case, records: Mapping[tuple[Any, ...], int], names: Sequence[str]) -> Counter[tuple[Any, ...]]:
    places = [list(of.records[0]).index(name) for name in names]
    found: Counter[tuple[Any, ...]] = Counter()
    for record, count in records.items():
        found[tuple(record[place] for place in places)] += count
    return found


def source_records(of: Case) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(record.values()) for record in of.records)


@pytest.mark.deep
@deep_cases(1)
def test_counts_by_the_holding_variables_are_those_of_the_source(published: Case) -> None:
    """If persons follow their unit, their characteristics are held too: no unit gets the persons of another."""
    swapped, source = swapped_records(published), source_records(published)
    assert margin(published, swapped, published.holding) == margin(published, source, published.holding)


@deep_cases(1)
def test_counts_by_match_and_swap_variables_are_those_of_the_source(published: Case) -> None:
    names = [*published.match, *published.swap]
    swapped, source = swapped_records(published), source_records(published)
    assert margin(published, swapped, names) == margin(published, source, names)


@deep_cases(1)
def test_no_record_is_lost_or_added(published: Case) -> None:
    assert sum(swapped_records(published).values()) == len(published.records)


def test_the_swapped_data_are_not_the_source(published: Case) -> None:
    assert swapped_records(published) != source_records(published)


def test_a_record_alone_in_its_stratum_does_not_change(published: Case) -> None:
    swapped = swapped_records(published)
    strata = Counter(tuple(record[name] for name in published.match) for record in published.records)
    alone = [record for record in published.records if strata[tuple(record[name] for name in published.match)] == 1]
    assert all(swapped[tuple(record.values())] == 1 for record in alone)


def test_only_records_of_the_same_stratum_are_swapped(published: Case) -> None:
    """The held values determine a record's stratum, so each stratum keeps its own swap values."""
    swapped, source = swapped_records(published), source_records(published)
    names = [*published.match, *published.swap]
    for stratum in margin(published, source, published.match):

        def within(records: Mapping[tuple[Any, ...], int], stratum: tuple[Any, ...] = stratum) -> Counter[Any]:
            counts = margin(published, records, names)
            return Counter({values: n for values, n in counts.items() if values[: len(stratum)] == stratum})

        assert within(swapped) == within(source)


def tabulated(of: Case, product: Mapping[str, Any]) -> dict[tuple[str | None, ...], int]:
    """A product as declared, counted from the published saturated table."""
    columns = columns_of(product)
    names = list(of.records[0])
    person_names = list(of.deployment.release.person_variables)
    cells: Counter[tuple[str | None, ...]] = Counter()
    for record, count in swapped_records(of).items():
        values = dict(zip(names, record, strict=True))
        persons = values.pop("persons", ())
        if product.get("of") == "persons":
            for person in persons:
                whole = values | dict(zip(person_names, person, strict=True))
                cells[tuple(whole[name] for name in columns)] += count
        else:
            cells[tuple(values[name] for name in columns)] += count
    if product.get("zeros", True):
        axes = [sorted({cell[place] for cell in cells}, key=str) for place in range(len(columns))]
        cells.update(dict.fromkeys(itertools.product(*axes), 0))
    totals = product.get("totals", [])
    table = {}
    for number in range(len(totals) + 1):
        for summed in itertools.combinations(totals, number):
            flags = tuple("true" if name in summed else "false" for name in totals)
            for cell, count in cells.items():
                left = tuple(None if c in summed else v for c, v in zip(columns, cell, strict=True))
                table[*left, *flags] = table.get((*left, *flags), 0) + count
    return table


def test_every_product_follows_from_the_saturated_table_with_totals_and_empty_cells(published: Case) -> None:
    for product in published.products:
        rows = rows_of(published.deployment, product["name"])
        listed = {tuple(row.values()): count for row, count in rows}
        assert len(listed) == len(rows), f"{product['name']} lists a cell twice"
        assert listed == tabulated(published, product)


@pytest.mark.prove
def test_places_that_lie_in_each_other_have_no_impossible_rows(tmp_path: Path) -> None:
    """Wrong programs: one that lists every county in every region, and one that leaves out the new combinations that a
    swap of the counties alone makes."""
    county = UNITS["county"] | {"within": "region"}
    within = {"path": str(tmp_path / "nested" / "units.csv"), "columns": UNITS | {"county": county}}
    products = [
        {"name": "nested", "geography": ["region", "county"], "dimensions": ["tenure"], "totals": ["tenure"]},
        {"name": "plain", "geography": ["county"], "dimensions": ["tenure"], "totals": ["tenure"]},
    ]
    rows = [row | {"region": "NS"[row["county"] == "Avon"]} for row in households()]
    rows = [row for row in rows if (row["county"], row["tenure"]) != ("Cairn", "own")]
    moved = {"match": ["size"], "swap": ["county", "region"], "products": products, "dataset": {"units": within}}
    of = case(tmp_path / "nested", keyed(rows), **moved)
    files = of.deployment.published()
    nested, plain = (
        [*csv.DictReader(io.StringIO(files[f"{name}.csv"].decode(), newline=""))] for name in ("nested", "plain")
    )
    assert {(row["region"], row["county"]) for row in nested} == {("S", "Avon"), ("N", "Brent"), ("N", "Cairn")}
    figures = [{name: value for name, value in row.items() if name != "region"} for row in nested]
    assert sorted(map(str, figures)) == sorted(map(str, plain)), "with the same estimates and errors"
    assert len(plain) == 9, "of each county, both tenures, one of which has no household, and the total"
    apart = small_release(of.deployment.release.dataset, match=["size"], products=products)
    release = apart.release(of.deployment.release.dataset, tmp_path)
    assert [find_larger_places(release, product) for product in release.declaration.products] == [{}, {}]


def test_csv_and_parquet_hold_the_same_rows(published: Case) -> None:
    for path in published.deployment.release.folder.glob("*.parquet"):
        missing = missing_marker(published.deployment, path.stem)
        with path.with_suffix(".csv").open(newline="") as file:
            assert differing_rows(path, csv.DictReader(file), missing) == []


def estimated(of: Case, product: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[float, float, float, float, float]:
    """The figures beside the count in a row of a product, by plain sums over the records of each stratum.

    Only the margins are taken from the records before the swap: the held values, and the frequencies of swap values.
    """
    names, person_names = list(of.records[0]), list(of.deployment.release.person_variables)
    fits = {name: row[name] for name in columns_of(product) if not row.get(f"{name}_total")}

    def amount(values: Mapping[str, Any]) -> int:
        """f: whether a record is counted by its held values, or how many of its persons are."""
        if any(values[name] != fits[name] for name in fits if name in values and name not in of.swap):
            return 0
        if product.get("of") != "persons":
            return 1
        persons = [dict(zip(person_names, person, strict=True)) for person in values["persons"]]
        return sum(all(person[name] == fits[name] for name in fits if name in person) for person in persons)

    def taken(values: Mapping[str, Any]) -> bool:
        return all(values[name] == fits[name] for name in fits if name in of.swap)

    strata: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for record in of.records:
        strata.setdefault(tuple(record[name] for name in of.match), []).append(record)
    after: dict[tuple[Any, ...], list[tuple[int, int]]] = {stratum: [] for stratum in strata}
    for record, count in swapped_records(of).items():
        values = dict(zip(names, record, strict=True))
        if taken(values):
            after[tuple(values[name] for name in of.match)].append((amount(values), count))
    estimate, variance, bias, fewest, most = 0.0, 0.0, 0.0, 0.0, 0.0
    for stratum, records in strata.items():
        each, given = moments(len(records), of.swap_rate), [amount(record) for record in records]
        found = estimates(
            Contributions(
                *(np.array([figure], dtype=float) for figure in (sum(given), sum(f * f for f in given), max(given))),
                np.array([float(sum(map(taken, records)))]),
                *(np.array([float(sum(f**power * count for f, count in after[stratum]))]) for power in (1, 2)),
            ),
            moments_of_strata(np.array([len(records)]), [of.swap_rate]),
        )
        if each.correctable:
            # The formula of the page, once more.
            n, y, of_margins = len(records), found_count(after[stratum]), sum(given) * sum(map(taken, records))
            moves = float(each.entering) * (n - 1)
            right = y if n == 1 else (y - moves * of_margins / (n - 1)) / (1 - moves * n / (n - 1))
            assert found.estimate[0] == pytest.approx(right)
        estimate, variance = estimate + found.estimate[0], variance + found.variance[0]
        bias, fewest, most = bias + found.greatest_bias[0], fewest + found.fewest[0], most + found.most[0]
    error = math.sqrt(max(variance, 0))
    lower, upper = (min(max(estimate + side * (1.6448536 * error + bias), fewest), most) for side in (-1, 1))
    return estimate, error, lower, upper, bias


def found_count(after: Sequence[tuple[int, int]]) -> int:
    return sum(f * count for f, count in after)


def columns_of(product: Mapping[str, Any]) -> list[str]:
    return [*product.get("geography", []), *product.get("dimensions", [])]


@pytest.mark.deep
@deep_cases(1)
def test_every_count_has_its_estimate_error_interval_and_bias(published: Case) -> None:
    for product in published.products:
        path = published.deployment.release.folder / f"{product['name']}.parquet"
        for row in pq.read_table(path).to_pylist():
            values = {name: value if name.endswith("_total") else text(value) for name, value in row.items()}
            shown = [float(row[name]) for name in FIGURES]
            assert shown == pytest.approx(estimated(published, product, values), abs=0.00501), (product["name"], row)


def test_only_the_products_and_the_saturated_table_are_published(published: Case) -> None:
    names = [product["name"] for product in published.products] + ["saturated"]
    names += ["saturated_persons"] if published.deployment.release.has_persons_following else []
    files = {f"{name}.{ending}" for name in names for ending in ("csv", "parquet")}
    others = {"certificate.html", "certificate.json", "certificate.schema.json", "datapackage.json"}
    others |= {"SHA256SUMS", "SHA256SUMS.sig", "README.txt", "dcat.jsonld"}
    assert set(published.deployment.published()) == files | others


def test_the_pages_describe_every_column_of_our_own(published: Case) -> None:
    deployment, release = published.deployment, published.deployment.release
    for stage in ("swapped", "tables"):
        event = deployment.instance.get_latest_materialization_event(deployment.key(stage))
        assert event
        assert event.asset_materialization
        schema = event.asset_materialization.metadata["dagster/column_schema"].value
        declared = {**release.variables, **release.person_variables}
        undescribed = {column.name for column in schema.columns if not column.description} - set(declared)
        assert undescribed == set(), stage


def test_epsilon_is_theorem_1_for_the_largest_stratum_with_distinct_records(published: Case) -> None:
    strata: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for record in published.records:
        strata.setdefault(tuple(record[name] for name in published.match), []).append(tuple(record.values()))
    b = max(len(records) for records in strata.values() if len(set(records)) > 1)
    odds = published.swap_rate / (1 - published.swap_rate)
    epsilon = math.log(max((b + 1) / odds, odds))
    certificate = json.loads(published.deployment.published()["certificate.json"])
    assert certificate["loss"]["rounded_up"] == pytest.approx(epsilon, abs=1.01e-4)
    assert certificate["loss"]["rounded_up"] >= epsilon
    assert certificate["ledger"]["total_after_this_charge"]["rounded_up"] == certificate["loss"]["rounded_up"]


def test_no_key_of_a_record_leaves_the_confidential_zone(published: Case) -> None:
    """Not as text in a published file, not as a value in Parquet, and not in any table of the public zone."""
    shown = [content.decode("utf-8", "replace") for content in published.deployment.published().values()]
    shown += [pd.read_parquet(path).to_csv() for path in published.deployment.release.folder.glob("*.parquet")]
    with published.deployment.opened() as connection:
        tables = connection.execute("SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal").fetchall()
        assert tables
        shown += [connection.table(f'public."{schema}"."{name}"').df().to_csv() for schema, name in tables]
    assert not published.keys & set(re.findall(r"\d+", "\n".join(shown)))


def test_an_ephemeral_key_is_deleted_once_its_draw_is_settled(published: Case) -> None:
    assert list(published.deployment.root.glob("custody/ephemeral/*")) == []


def test_the_ledger_holds_one_reservation_and_one_settlement(published: Case) -> None:
    assert [entry.kind for entry in published.deployment.ledger] == ["reserve", "settle"]
    assert published.deployment.context.ledger.verify() == ()


@pytest.mark.prove
def test_swapping_moves_about_as_many_records_as_the_swap_rate_implies(tmp_path: Path) -> None:
    """At p = 1/2 in one stratum of 3,000 records with as many swap values, each record moves with probability 1/2.

    The number that moved is binomial, except that draws of exactly one record are repeated. It is outside 1500 ± 140
    (five standard deviations of 27.4 each) in one of 3 million draws. A program that swapped at 1/3, or moved at most
    one pair, fails by 13 standard deviations or more.
    """
    rows = [
        {
            "serial": number,
            "region": "N",
            "county": COUNTIES[0],
            "size": 1,
            "tenure": "own",
            "place": number,
            "home": number,
        }
        for number in range(3000)
    ]
    columns: dict[str, Any] = {name: dict(column) for name, column in UNITS.items()}
    columns["place"] = columns["home"] = {"type": "integer", "minimum": 0, "maximum": 2999}
    deployment = small_deployment(
        tmp_path,
        units=rows,
        dataset={"units": {"path": str(tmp_path / "units.csv"), "columns": columns}},
        swap=["place"],
        swap_rate="1/2",
        products=[],
    )
    deployment.reach(*TO_PUBLICATION)
    moved = sum(count for row, count in rows_of(deployment, "saturated") if row["place"] != row["home"])
    assert abs(moved - 1500) <= 140
