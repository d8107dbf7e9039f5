"""Whole redistricting releases by TopDown, from source files to publication, against the tests' own counts.

The tests count the expected values from the rows of the source files, draw the noise again from the draw's key, and
count tables from the published microdata. They use none of the project's SQL. `oracle` defines levels, queries,
budgets, tables and races a second time.

The quick suite has the production release, the deep one all of them.
"""

import json
import math
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from hashlib import sha256
from itertools import pairwise
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow.parquet as pq
import pytest
from frictionless import validate
from numpy.typing import NDArray

from assets.gates.shared import all_gates
from assets.planning.asset import plan_metadata
from assets.publication.asset import publication_problems
from assets.publication.tables import PublishedTables
from assets.release import codes as codes_module
from assets.release.codes import CodesError, read_codes
from assets.topdown import estimation, reading
from assets.topdown.anew import Source, write_anew
from assets.topdown.asking import PlacesError, add_up_places
from assets.topdown.tables import ATTRIBUTE_WORDS
from assets.topdown.ways import Estimation
from mechanisms.accounting.losses import ConcentratedLoss
from mechanisms.sampling.noise import DiscreteGaussian
from mechanisms.sampling.stream import RandomStream
from mechanisms.topdown.design import SCHEMAS
from mechanisms.topdown.redistricting import REDISTRICTING
from mechanisms.topdown.schema import PERSONS
from orchestration.cli import publications
from stirred.topdown import estimate_published, read_published
from tests.assets.topdown.oracle import (
    ATTRIBUTES,
    BLOCK,
    COUNTED,
    NATION_AND_BLOCK,
    NURSING,
    PUBLISHED,
    SIZES,
    TYPES,
    Case,
    TopDownDeployment,
    budgets_of,
    by_prefix,
    nothing_held,
    other_invariants,
    position,
    production,
    rows_of,
    spread,
)
from tests.depth import deep_cases, quick_cases
from tests.formats import differing_rows
from tests.phsafe_deployments import Files, census, changed
from tests.topdown_deployments import TO_DRAW, TWO_LEVELS, topdown_deployment, with_quarters

CASES = [
    production,
    *(pytest.param(make, marks=pytest.mark.prove) for make in (other_invariants, by_prefix, nothing_held)),
]
Cases = Callable[[Callable[[Path], Case]], Case]


@pytest.fixture(scope="module", autouse=True)
def same_draws_in_every_run() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STIRRED_TEST_MASTER_KEY", "5a" * 32)
        yield


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    """Each case, run once."""

    @cache
    def made(make: Callable[[Path], Case]) -> Case:
        return make(tmp_path_factory.mktemp("deployment")).publish()

    return made


@pytest.fixture(scope="module", params=CASES, ids=lambda make: make.__name__)
def published(request: pytest.FixtureRequest, cases: Cases) -> Case:
    return cases(request.param)


@pytest.fixture(scope="module")
def of_production(cases: Cases) -> Case:
    return cases(production)


# Publication


@deep_cases(1)
def test_these_files_are_published_and_no_others(published: Case) -> None:
    names = {*published.products, "spine", "queries", "query_cells"}
    files = {f"{name}.{ending}" for name in names for ending in ("csv", "parquet")} - {"noisy_measurements.csv"}
    whole = {"certificate.html", "certificate.json", "certificate.schema.json", "datapackage.json"}
    whole |= {"SHA256SUMS", "SHA256SUMS.sig", "README.txt", "dcat.jsonld"}
    assert set(published.deployment.published()) == files | whole


@pytest.mark.prove
def test_the_sum_of_places_is_that_of_the_place_they_make_up(of_production: Case, tmp_path: Path) -> None:
    """All blocks of a county are the county: the same linear estimate and standard error, and the invariants exactly.
    Wrong programs: add up blocks without the measurements above them, or as if their errors were independent. Both are
    far off."""
    folder = of_production.deployment.release.folder
    spine = pq.read_table(folder / "spine.parquet").to_pylist()
    places = {level: [place["geoid"] for place in spine if place["level"] == level] for level in ("State", "County")}
    blocks = [place["geoid"] for place in spine if place["level"] == "Block"]
    county = next(code for code in places["County"] if sum(block.startswith(code) for block in blocks) > 1)
    own = [block for block in blocks if block.startswith(county)]
    file = tmp_path / "blocks.csv"
    file.write_text("geoid\r\n" + "\r\n".join(own), "utf-8")
    assert read_codes(file, 1) == [[code] for code in own]
    whole, parts = add_up_places(folder, [county]).to_pandas(), add_up_places(folder, own).to_pandas()
    assert list(whole["cell"]) == list(parts["cell"])
    assert np.abs(whole["linear_estimate"] - parts["linear_estimate"]).max() < 1e-6
    assert np.abs(whole["standard_error"] - parts["standard_error"]).max() < 1e-3
    assert (whole["estimate"] == parts["estimate"]).all()
    assert (whole["linear_lower"] <= whole["linear_upper"]).all()
    state = add_up_places(folder, places["State"][:1], ["P1", "H1"]).to_pandas().set_index("cell")
    for held in ("P0010001", "H0010001"):
        row = state.loc[held]
        assert row["estimate"] == row["linear_lower"] == row["linear_upper"]
    assert state.loc["P0010003", "standard_error"] > 1


@pytest.mark.deep
def test_the_command_prints_the_sum_of_the_places_of_a_file(
    of_production: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All blocks of the nation, whose units are held exactly. Wrong programs: the command reads only some lines of the
    file, or prints columns under other headings; or it adds up blocks without the measurements above them, or as if
    their errors were independent, so that the standard error is not the nation's."""
    folder = of_production.deployment.release.folder
    spine = pq.read_table(folder / "spine.parquet").to_pylist()
    file = tmp_path / "blocks.csv"
    file.write_text("\n".join(["geoid", *(place["geoid"] for place in spine if place["level"] == "Block")]), "utf-8")
    monkeypatch.setattr(publications, "_find_tables", lambda _, name: {name: PublishedTables(folder)})
    publications._print_sum_of_places(cast(Any, SimpleNamespace(others={})), "town/r", file, ["H1"], as_json=False)
    source, heads, *printed = (re.split(r"  +", line.strip()) for line in capsys.readouterr().out.splitlines())
    assert source == ["The sum of the places, from town/r"]
    assert heads == ["cell", "label", "published", "linear estimate", "standard error", "90% interval"]
    units = sum(of_production.count("units", "Block").values())
    assert printed[0] == ["H0010001", "Total:", f"{units:,}", f"{units:,}.00", "0.00", f"{units:,} to {units:,}"]
    (nation,) = (place["geoid"] for place in spine if place["depth"] == 0)
    _, due, _ = add_up_places(folder, [nation], ["H1"]).to_pylist()
    ends = f"{due['linear_lower']:,} to {due['linear_upper']:,}"
    numbers = f"{due['estimate']:,}", f"{due['linear_estimate']:,.2f}", f"{due['standard_error']:,.2f}", ends
    assert printed[1] == ["H0010002", "Total: Occupied", *numbers]
    assert due["standard_error"] > 0.1


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (["{state}", "{state}"], "given 2 times"),
        (["{state}", "{block}"], "{block}: it lies in another one of the places"),
        (["nowhere"], "there is no place nowhere"),
    ],
)
def test_places_that_have_no_sum_are_refused(of_production: Case, codes: list[str], message: str) -> None:
    folder = of_production.deployment.release.folder
    spine = pq.read_table(folder / "spine.parquet").to_pylist()
    names = {level: next(place["geoid"] for place in spine if place["level"] == level) for level in ("State", "Block")}
    filled = {"state": names["State"], "block": names["Block"]}
    with pytest.raises(PlacesError, match=re.escape(message.format(**filled))):
        add_up_places(folder, [code.format(**filled) for code in codes])


def test_a_file_of_places_has_one_column_of_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "places.csv"
    for text, codes in (
        ("GEOID20\r\n01\r\n", ["01"]),
        ("\ufeffgeoid\n01\n", ["01"]),
        ("N1\nN2\n", ["N1", "N2"]),
        ("block\nNation\nA\n", ["Nation", "A"]),
        ("BLOCKID\n01\n", ["01"]),
        ("N1\n02\n3\n", ["N1", "02", "3"]),
    ):
        file.write_text(text, "utf-8")
        assert read_codes(file, 1) == [[code] for code in codes]
    monkeypatch.setattr(codes_module, "LARGEST", 64)
    for content, message in (
        (b"geoid\na;1,b\n10\n", "1 of 2 lines do not have one code"),
        (b"geoid\n", "places.csv has a header and no code below it"),
        (b"region\n01\n", "places.csv: its first line could be a header or a code; begin the file with a header"),
        (b"Nation\nA\nB\n", "its first line could be a header or a code"),
        (b"AB123\n1234\n12\n", "its first line could be a header or a code"),
        (b"geoid\n01\n" + b" " * 60, "places.csv cannot be read .it has more than 64 bytes"),
        (b"", "places.csv is empty"),
        (b"\r\n \n,\n", "places.csv is empty"),
        (b"10;1\n11;2\n", "places.csv is separated by semicolons; write commas"),
        ("geoid\n10".encode("utf-16"), "places.csv is not in UTF-8"),
        (b'geoid\n"10\n11\n', "places.csv is not CSV: a quote is never closed"),
    ):
        file.write_bytes(content)
        with pytest.raises(CodesError, match=message):
            read_codes(file, 1)
    with pytest.raises(PlacesError, match=r"nowhere: spine\.parquet is missing or cannot be read; give the folder of"):
        estimate_published(tmp_path / "nowhere")
    for name in ("p1", "noisy_measurements"):
        (tmp_path / f"{name}.parquet").touch()
    with pytest.raises(PlacesError, match="for a DHC release, ask its redistricting release, or declare"):
        add_up_places(tmp_path, ["10"])


@pytest.mark.prove
def test_a_reader_estimates_a_release_anew_from_its_files(of_production: Case) -> None:
    """As the release does, to the last count; and by the other estimation, with which persons and units agree."""
    release = of_production.deployment.release
    design, finest = release.design, release.finest
    again = estimate_published(release.folder, total_first=design.total_first, types_first=design.types_first)
    codes = read_published(release.folder)["persons"].codes[finest]
    for name, (schema, found) in {name: (SCHEMAS[name], again[name].histograms[finest]) for name in again}.items():
        expected = np.zeros((len(codes), schema.size), dtype=np.int64)
        sizes = [attribute.size for attribute in schema.attributes]
        for block, own in of_production.of_microdata(name, finest).items():
            for record in own:
                expected[codes.index(block), np.ravel_multi_index(record, sizes)] += 1
        assert np.array_equal(found, expected)
    full, target = design.types_first is not None, release.folder.parent / "anew"
    write_anew(Source(release.folder, {}), target, Estimation(not full, design.types_first))
    for name, table in REDISTRICTING.items():
        own, published = (
            {(row["level"], row["geoid"]): row for row in pq.read_table(folder / f"{name.lower()}.parquet").to_pylist()}
            for folder in (target, release.folder)
        )
        cells = [cell.name for cell in table.cells]
        assert own.keys() == published.keys()
        assert all(own[place][cell] == row[cell] for place, row in published.items() for cell in cells)
        if full:
            intervals = pq.read_table(release.folder / f"{name.lower()}_intervals.parquet").to_pylist()
            of_place = {(row["level"], row["geoid"]): row for row in intervals}
            rows = pq.read_table(target / f"{name.lower()}_intervals.parquet").to_pylist()
            assert len(rows) == len(of_place) * len(cells)
            for row in rows:
                expected, cell = of_place[row["level"], row["geoid"]], row["cell"]
                ends = expected[f"{cell}_linear_lower"], expected[f"{cell}_linear_upper"]
                assert (row["linear_lower"], row["linear_upper"]) == ends
                assert row["linear_estimate"] == pytest.approx(float(expected[f"{cell}_linear_estimate"]), abs=0.0051)
    other = {"types_first": "State"} if design.types_first is None else {"total_first": ["State", "County"]}
    persons, units = (each.histograms[finest] for each in estimate_published(release.folder, **other).values())
    assert persons.sum() == again["persons"].histograms[finest].sum(), "the population is held"
    if design.types_first is None:
        households, occupied = PERSONS.groups.answer(persons)[:, 0], units[:, 0]
        assert np.array_equal(households > 0, occupied > 0)
        assert np.all(occupied <= households)


def test_the_checksums_are_those_of_all_files(published: Case) -> None:
    files = published.deployment.published()
    lines = files.pop("SHA256SUMS").decode().splitlines()
    del files["SHA256SUMS.sig"]
    listed = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert listed == {name: sha256(content).hexdigest() for name, content in files.items()}


@pytest.mark.deep
def test_the_data_package_is_valid(published: Case) -> None:
    report = validate(str(published.deployment.release.folder / "datapackage.json"))
    assert report.valid, report.flatten(["type", "title", "note"])
    tables = {task.place for task in report.tasks if task.type == "table"}
    assert tables >= {path for path in published.deployment.published() if path.endswith(".csv")}


def test_csv_and_parquet_hold_the_same_rows(published: Case) -> None:
    for path in published.deployment.release.folder.glob("*.parquet"):
        if path.stem != "noisy_measurements":
            assert differing_rows(path, rows_of(published.deployment, path.stem)) == []


def test_the_spine_has_every_place_of_a_unit_once_below_the_place_it_lies_in(published: Case) -> None:
    rows = {(row["level"], int(row["number"])): row for row in rows_of(published.deployment, "spine")}
    levels = list(published.levels)
    expected = {(level, number) for level in levels for number in range(len(published.places[level]))}
    assert rows.keys() == expected
    parent_of = {
        (level, places[level]): places[above]
        for places in published.places_of.values()
        for above, level in pairwise(levels)
    }
    for (level, number), row in rows.items():
        depth = levels.index(level)
        assert (row["geoid"], int(row["depth"])) == (published.places[level][number], depth)
        if depth:
            above = levels[depth - 1]
            assert published.places[above][int(row["parent"])] == parent_of[level, row["geoid"]]
        else:
            assert row["parent"] == ""


def test_the_census_of_production_is_one_in_which_levels_differ(of_production: Case) -> None:
    """Otherwise a level could be taken for another unnoticed: each has more places than the one above, of unequal
    size."""
    sizes = [len(places) for places in of_production.places.values()]
    assert sizes == sorted(set(sizes))
    assert len({geoid[-4:] for geoid in of_production.places["Block"]}) < sizes[-1] / 2, "codes of blocks recur"
    assert 0 in of_production.count("units", "Block").values(), "a block of group quarters alone"
    assert any(not lived for lived in empty_facilities(of_production)), "group quarters that nobody lives in"
    types = Counter(codes[0] for _, codes in of_production.records["persons"])
    assert set(types) == {0, *TYPES}
    assert {row["QAGE"] for row in of_production.files["persons"]} >= {"17", "18"}, "on both sides of voting age"


def empty_facilities(case: Case) -> list[bool]:
    lived_in = {row["MAFID"] for row in case.files["persons"]}
    return [row["MAFID"] in lived_in for row in case.files["units"] if row["RTYPE"] == "4"]


# Exact counts


def test_the_histograms_are_those_of_the_files(published: Case) -> None:
    """Cell by cell and block by block; the number of a cell is that of its codes, the last changing fastest."""
    with published.deployment.opened("confidential") as connection:
        rows = connection.execute("FROM confidential.town__redistricting.histograms").fetchall()
    expected: Counter[tuple[str, int, int]] = Counter()
    for histogram, records in published.records.items():
        sizes = [SIZES[name] for name in ATTRIBUTES[histogram]]
        for block, codes in records:
            cell = 0
            for size, own in zip(sizes, codes, strict=True):
                cell = cell * size + own
            expected[histogram, published.places[published.finest].index(block), cell] += 1
    assert len(rows) == len(expected)
    assert {tuple(row[:3]): row[3] for row in rows} == expected


def test_what_is_held_is_exactly_what_is_declared_and_counted(published: Case) -> None:
    with published.deployment.opened() as connection:
        rows = connection.execute("FROM invariants").fetchall()
    expected = {}
    for name, level in published.invariants.items():
        for number, geoid in enumerate(published.places[level]):
            for category, count in held(published, name, geoid).items():
                expected[name, level, number, geoid, category] = count
    assert len(rows) == len(expected)
    assert {row[:5]: row[5] for row in rows} == expected


def held(case: Case, name: str, geoid: str) -> dict[int, int]:
    """By category, the count of a place of the level at which a statistic is held."""
    if name == "group_quarters":
        return {kind: case.facilities[geoid, kind] for kind in TYPES}
    histogram = "persons" if name == "population" else "units"
    return {0: case.count(histogram, case.invariants[name])[geoid]}


def test_held_statistics_are_published_if_they_are_products(published: Case) -> None:
    for name in published.invariants.keys() & published.products:
        level = published.invariants[name]
        found = {
            (row["level"], row["geoid"], int(row.get("category", 0))): int(row["count"])
            for row in rows_of(published.deployment, name)
        }
        assert found == {
            (level, geoid, category): count
            for geoid in published.places[level]
            for category, count in held(published, name, geoid).items()
        }


# Noisy measurements


def names_of(histogram: str, query: str) -> tuple[str, ...]:
    """The attributes and recodes of a query's cells."""
    return {"total": (), "detailed": ATTRIBUTES[histogram]}.get(query, tuple(query.split(" * ")))


def told(histogram: str, codes: Sequence[int]) -> dict[str, int]:
    """All codes of a record, recodes among them."""
    found = dict(zip(ATTRIBUTES[histogram], codes, strict=True))
    if "hhgq" in found:
        found["hhinstlevels"] = 0 if found["hhgq"] == 0 else 1 if found["hhgq"] <= 4 else 2
    return found


def positions(case: Case) -> dict[tuple[str, str], dict[tuple[int, ...], int]]:
    """By query and codes, the position of the answer that counts these records, according to the publication."""
    found: dict[tuple[str, str], dict[tuple[int, ...], int]] = defaultdict(dict)
    for row in rows_of(case.deployment, "query_cells"):
        histogram, query = row["histogram"], row["query"]
        codes = tuple(position(name, row[name]) for name in names_of(histogram, query))
        assert codes not in found[histogram, query]
        found[histogram, query][codes] = int(row["position"])
    return found


def measurements(case: Case) -> dict[tuple[str, str, str], NDArray[np.int64]]:
    """By histogram, level and query, the answers of all places in order; no place may be there twice."""
    found: dict[tuple[str, str, str], dict[str, list[int]]] = defaultdict(dict)
    for row in pq.read_table(case.deployment.release.folder / "noisy_measurements.parquet").to_pylist():
        label = (row["histogram"], row["level"], row["query"])
        assert row["geoid"] not in found[label]
        assert case.places[row["level"]][row["number"]] == row["geoid"]
        found[label][row["geoid"]] = row["answers"]
    return {
        label: np.array([of_places[geoid] for geoid in case.places[label[1]]]) for label, of_places in found.items()
    }


def test_every_answer_is_said_to_count_the_codes_of_its_query_all_of_them_once(published: Case) -> None:
    found = positions(published)
    asked = {(histogram, query) for histogram, budget in published.budgets.items() for _, query in budget.parts()}
    assert found.keys() == asked
    for (histogram, query), of_codes in found.items():
        names = names_of(histogram, query)
        assert len(of_codes) == prod(SIZES[name] for name in names)
        assert sorted(of_codes.values()) == list(range(len(of_codes)))
        assert all(0 <= own < SIZES[name] for codes in of_codes for name, own in zip(names, codes, strict=True))


def test_a_code_that_is_told_of_an_answer_is_that_of_all_it_counts(published: Case) -> None:
    """This includes a recode that follows from the query's attributes, and excludes every other code."""
    for row in rows_of(published.deployment, "query_cells"):
        names = set(names_of(row["histogram"], row["query"]))
        names |= {"hhinstlevels"} if "hhgq" in names else set()
        assert {name for name in SIZES if row[name] != ""} == names
        if "hhgq" in names:
            assert int(row["hhinstlevels"]) == [0, 1, 1, 1, 1, 2, 2, 2][int(row["hhgq"])]


def test_measurement_less_exact_answer_is_the_noise_of_the_draws_key(published: Case) -> None:
    """A stream for each histogram, level and query, and below the states for each state; by place and cell, with zeros.

    Without a level State, the root counts as the only state.
    """
    assert sha256(published.key).hexdigest() == published.deployment.ledger[0].commitment
    where, measured = positions(published), measurements(published)
    rows = rows_of(published.deployment, "queries")
    assert measured.keys() == {(row["histogram"], row["level"], row["query"]) for row in rows}
    noisy = 0
    for row in rows:
        histogram, level, query = row["histogram"], row["level"], row["query"]
        cells, places = where[histogram, query], published.places[level]
        numbers = {geoid: number for number, geoid in enumerate(places)}
        exact = np.zeros((len(places), len(cells)), dtype=np.int64)
        for geoid, codes in published.at(histogram, level):
            all_codes = told(histogram, codes)
            exact[numbers[geoid], cells[tuple(all_codes[name] for name in names_of(histogram, query))]] += 1
        distribution = DiscreteGaussian(Fraction(row["parameter"]))
        noise = np.concatenate(
            [
                distribution.sample(count * len(cells), RandomStream(published.key, f"TopDown {label}"))
                for label, count in streams_of(published, histogram, level, query)
            ]
        ).reshape(exact.shape)
        assert np.array_equal(measured[histogram, level, query] - exact, noise)
        noisy += int(np.count_nonzero(noise))
    assert noisy > 10_000


def streams_of(case: Case, histogram: str, level: str, query: str) -> list[tuple[str, int]]:
    """The labels of the streams of a query, with their numbers of places, in the order of the places."""
    levels, places = list(case.levels), case.places[level]
    of_states = "State" if "State" in levels else levels[0]
    if levels.index(level) <= levels.index(of_states):
        return [(json.dumps([histogram, level, query, None]), len(places))]
    within = {of_block[level]: of_block[of_states] for of_block in case.places_of.values()}
    counted = Counter(within[geoid] for geoid in places)
    assert [within[geoid] for geoid in places] == sorted(within[geoid] for geoid in places)
    return [(json.dumps([histogram, level, query, state]), number) for state, number in counted.items()]


def variance(parameter: Fraction) -> Decimal:
    """The variance of a discrete Gaussian of parameter σ², Σ x² P(x), to 25 digits.

    From σ² = 50 on it is σ² itself: they differ by less than 10^-400.
    """
    with localcontext(prec=50):
        if parameter >= 50:
            return Decimal(parameter.numerator) / parameter.denominator
        halved = Decimal(parameter.denominator) / (2 * parameter.numerator)
        weights = {x: (-x * x * halved).exp() for x in range(-99, 100)}
        return sum((x * x * weight for x, weight in weights.items()), Decimal()) / sum(weights.values())


def test_budgets_are_shares_as_declared_and_noise_has_their_reciprocals_as_its_parameters(published: Case) -> None:
    rows = {(row["histogram"], row["level"], row["query"]): row for row in rows_of(published.deployment, "queries")}
    expected = {
        (histogram, level, query): (budget.levels[level], budget.queries[level][query], rho)
        for histogram, budget in published.budgets.items()
        for (level, query), rho in budget.parts().items()
    }
    assert rows.keys() == expected.keys()
    for label, (of_level, of_query, rho) in expected.items():
        row = rows[label]
        assert (Fraction(row["share_of_level"]), Fraction(row["share_of_query"])) == (of_level, of_query)
        assert Fraction(row["rho"]) == rho
        assert Fraction(row["parameter"]) == 1 / rho
        assert Decimal(row["variance"]) == variance(1 / rho).quantize(Decimal(1).scaleb(-18))
        assert int(row["cells"]) == prod(SIZES[name] for name in names_of(label[0], label[2]))


def test_an_ephemeral_key_is_gone_and_an_escrowed_one_follows_from_the_master_key(published: Case) -> None:
    custody, entry = published.deployment.context.custody, published.deployment.ledger[0]
    assert not list((published.deployment.root / "custody").rglob("*.key"))
    assert (custody.derive(f"draw {entry.draw_id}") == published.key) == (not published.ephemeral)
    assert certificate(published)["randomness"]["custody"] == ("ephemeral" if published.ephemeral else "escrowed")


# Microdata and tables


def test_tables_are_the_microdata_counted_in_every_place_of_every_level(published: Case) -> None:
    for name, (of, cells, counted) in COUNTED.items():
        if name.lower() in published.products:
            expected = {
                (level, geoid): counted(records)
                for level in published.levels
                for geoid, records in published.of_microdata(of, level).items()
            }
            assert {len(counts) for counts in expected.values()} == {cells}
            assert published.table(name) == expected


def test_every_place_is_the_sum_of_the_places_in_it(published: Case) -> None:
    for name in COUNTED:
        if name.lower() in published.products:
            table = published.table(name)
            for above, level in pairwise(published.levels):
                summed: dict[str, NDArray[np.int64]] = {}
                for geoid, parent in {(places[level], places[above]) for places in published.places_of.values()}:
                    summed[parent] = summed.get(parent, 0) + np.array(table[level, geoid])
                assert {geoid: counts.tolist() for geoid, counts in summed.items()} == {
                    geoid: table[above, geoid] for geoid in published.places[above]
                }


def test_each_level_alone_gives_the_bytes_of_the_program_that_knew_no_other_estimation(of_production: Case) -> None:
    """The digest is that of commit e615e78b, the last one before full information. If it changes, a published draw that
    is estimated again with `own_levels` is a further edition; no other test compares with an earlier program."""
    digest, answers = sha256(), measurements(of_production)
    for name in sorted(answers):
        digest.update(repr(name).encode() + answers[name].astype("<i8").tobytes())
    for name in ("persons", "units", "p1", "p2", "p3", "p4", "p5", "h1"):
        digest.update((of_production.deployment.release.folder / f"{name}.csv").read_bytes())
    assert digest.hexdigest() == "2d3ffe13087747582f2420ec5d8b3b4f1139119430307e9ad6017b1bd1232804"


def test_records_are_numbered_in_turn_and_have_codes_that_there_are(published: Case) -> None:
    for name, attributes in ATTRIBUTES.items():
        rows = rows_of(published.deployment, name)
        assert [int(row["record"]) for row in rows] == list(range(1, len(rows) + 1))
        assert list(rows[0]) == ["record", "geoid", *attributes]
        for block, codes in published.microdata[name]:
            assert block in published.ancestors
            assert all(0 <= own < SIZES[attribute] for attribute, own in zip(attributes, codes, strict=True))


def test_what_is_held_is_exact_in_the_microdata_at_its_level_and_above(published: Case) -> None:
    levels = list(published.levels)
    for name, histogram in (("population", "persons"), ("housing_units", "units")):
        if name in published.invariants:
            for level in levels[: levels.index(published.invariants[name]) + 1]:
                found = {geoid: len(records) for geoid, records in published.of_microdata(histogram, level).items()}
                assert found == published.count(histogram, level)


@pytest.mark.parametrize(
    ("make", "level"), [(production, "State"), pytest.param(other_invariants, "Block", marks=pytest.mark.deep)]
)
def test_populations_and_housing_units_are_exact_in_the_tables_too(
    cases: Cases, make: Callable[[Path], Case], level: str
) -> None:
    case = cases(make)
    assert totals(case.table("P1"), level) == case.count("persons", level)
    assert totals(case.table("H1"), "Block") == case.count("units", "Block")


def totals(table: Mapping[tuple[str, str], Sequence[int]], of_level: str) -> dict[str, int]:
    return {geoid: counts[0] for (level, geoid), counts in table.items() if level == of_level}


@pytest.mark.parametrize("level", ["County", "Tract", "Block_Group", "Block"])
def test_populations_that_are_not_held_are_not_exact(of_production: Case, level: str) -> None:
    """Otherwise the release would not protect them."""
    found = {geoid: len(people) for geoid, people in of_production.of_microdata("persons", level).items()}
    assert found != of_production.count("persons", level)


def test_how_many_housing_units_are_occupied_is_not_exact(published: Case) -> None:
    occupied = Counter(block for block, (vacant,) in published.microdata["units"] if not vacant)
    assert occupied != Counter(block for block, (vacant,) in published.records["units"] if not vacant)


@pytest.mark.prove
def test_housing_units_that_are_not_held_are_not_exact(cases: Cases) -> None:
    """The key is random, but the chance that no noise shows is below 10^-9: that none of 48 blocks has another number
    of housing units, the noise of each having σ = 4.
    """
    free = cases(nothing_held)
    found = {geoid: len(units) for geoid, units in free.of_microdata("units", "Block").items()}
    assert found != free.count("units", "Block")


def test_every_group_quarters_has_somebody_and_nobody_is_where_there_is_none_if_they_are_held(published: Case) -> None:
    living = Counter((block, kind) for block, (kind, *_) in published.microdata["persons"])
    in_vain = 0
    for block in published.places[published.finest]:
        for kind in TYPES:
            persons, facilities = living[block, kind], published.facilities[block, kind]
            if "group_quarters" in published.invariants:
                assert facilities <= persons <= 99_999 * facilities
            elif not facilities:
                in_vain += persons
    # If group quarters are not held, they exclude no persons: noise puts persons into blocks without facilities.
    assert ("group_quarters" in published.invariants) == (in_vain == 0)


def test_nobody_is_in_a_household_where_there_is_no_housing_unit_if_those_are_held(of_production: Case) -> None:
    housed = of_production.count("units", "Block")
    assert all(housed[block] for block, (kind, *_) in of_production.microdata["persons"] if kind == 0)


def test_no_minor_lives_in_a_nursing_facility(published: Case) -> None:
    people = [codes for _, codes in published.microdata["persons"]]
    assert not [codes for codes in people if codes[0] == NURSING and codes[1] == 0]
    assert [codes for codes in people if codes[0] == NURSING]
    assert [codes for codes in people if codes[1] == 0]


# Charge and certificate


def certificate(case: Case) -> dict[str, Any]:
    return cast(dict[str, Any], json.loads(case.deployment.published()["certificate.json"]))


MOVE = "units, the second one of a move: all levels and queries"


def lines(case: Case) -> dict[str, Fraction]:
    parts = {
        f"{histogram} {level} {query}": rho
        for histogram, budget in case.budgets.items()
        for (level, query), rho in budget.parts().items()
    }
    return parts | {MOVE: case.budgets["units"].rho}


def test_one_reservation_and_one_settlement_is_the_whole_ledger(published: Case) -> None:
    assert [entry.kind for entry in published.deployment.ledger] == ["reserve", "settle"]
    assert published.deployment.context.ledger.verify() == ()


def test_what_is_charged_is_the_persons_budget_and_twice_the_units_with_a_line_for_each(published: Case) -> None:
    """A person who moves changes the occupancy of two units."""
    specification = published.deployment.ledger[0].parse_specification()
    charged = {line.label: cast(ConcentratedLoss, line.loss).rho for line in specification.lines}
    assert charged == lines(published)
    total = published.budgets["persons"].rho + 2 * published.budgets["units"].rho
    assert cast(ConcentratedLoss, specification.loss).rho == total == sum(charged.values())
    assert (specification.flavor.unit, specification.flavor.neighbors) == ("person", "bounded")
    stated = certificate(published)["loss"]
    assert (stated["symbol"], Fraction(stated["exact"])) == ("ρ", total)
    assert {line["label"]: Fraction(line["exact"]) for line in stated["lines"]} == charged
    page = published.deployment.published()["certificate.html"].decode()
    assert all(label in page.replace("<wbr>", "") for label in charged)


def test_production_is_charged_in_71_lines_and_that_of_a_move(of_production: Case) -> None:
    specification = of_production.deployment.ledger[0].parse_specification()
    assert len(specification.lines) == 72
    assert cast(ConcentratedLoss, specification.loss).rho == Fraction(542, 339) ** 2 + 2 * Fraction(3379, 12343) ** 2


WORDS = {
    "population": "the number of persons in each",
    "housing_units": "the number of housing units in each",
    "group_quarters": "the number of occupied group quarters of each type in each",
}


def test_the_multiverse_names_the_declared_invariants_and_no_others(published: Case) -> None:
    expected = ["which blocks have a housing unit or group quarters, and the places they lie in"]
    expected += [f"{WORDS[name]} {level.lower()}" for name, level in published.invariants.items()]
    if "housing_units" not in published.invariants:
        expected.append(f"{WORDS['housing_units']} block, though it is not published exactly")
    assert certificate(published)["invariants"]["held_fixed"] == expected
    assert list(published.deployment.ledger[0].parse_specification().flavor.multiverse) == expected
    (block,) = (each for each in certificate(published)["specification"] if each["block"] == "Multiverse")
    assert all(statistic in block["answer"] for statistic in expected)
    assert {name for name in WORDS if WORDS[name] in block["answer"]} == {*published.invariants, "housing_units"}


def test_the_certificate_has_the_eleven_figures_of_2020(of_production: Case) -> None:
    """As the Bureau's certificate states them, to the nearest hundredth, at δ = 10^-10."""
    stated = json.loads(PUBLISHED.read_text())["certificate"]
    of = certificate(of_production)["loss"]["equivalents"]
    assert of["delta"]["exact"] == "1/10000000000"
    assert [each["authors"] for each in of["conversions"]] == ["Canonne, Kamath and Steinke", "Bun and Steinke"]
    names = {f"{words} changed": f"{name} changed" for name, words in ATTRIBUTE_WORDS.items()}
    found = defaultdict(list)
    for each in of["losses"]:
        _, of_persons, change = each["of"].rpartition("easurements of persons")
        if of_persons:
            what = change.removeprefix(", ") or "anything"
            found[names.get(what, what)].append(round(Decimal(str(each["epsilons"][0])), 2))
            if not change:
                found["anything by Bun and Steinke"].append(round(Decimal(str(each["epsilons"][1])), 2))
    expected = {
        "anything": stated["zcdp_implied_epsilon"],
        "anything by Bun and Steinke": stated["bun_steinke_epsilon"],
    }
    expected |= {f"{attribute} changed": epsilon for attribute, epsilon in stated["per_attribute_epsilon"].items()}
    for move, epsilon in stated["per_geography_epsilon"].items():
        level = move.removeprefix("Block-within-").replace("_", " ")
        expected[f"block changed within the {level if level == 'US' else level.lower()}"] = epsilon
    assert len(expected) == 11
    assert found == {what: [Decimal(str(epsilon))] for what, epsilon in expected.items()}


def test_the_certificate_states_every_share(published: Case) -> None:
    parameters = {each["label"]: each for each in certificate(published)["mechanism"]["parameters"]}
    for histogram, budget in published.budgets.items():
        for level, share in budget.levels.items():
            name = level if level == "US" else level.replace("_", " ").lower()
            stated = parameters[f"Allocation of {histogram}: {name}"]
            exact, *parts = stated["exact"]
            assert Fraction(exact) == share
            assert len(parts) == len(stated["value"])
            found = dict(text.split(": ") for text in parts)
            assert {query: Fraction(text) for query, text in found.items()} == budget.queries[level]


def test_at_least_nine_tenths_of_the_noise_are_within_the_margin_of_the_certificate(of_production: Case) -> None:
    """By adding up the distribution. Wrong program: 1.645σ, within which 84% of the noise of states' totals are."""
    design, rows = of_production.deployment.release.design, certificate(of_production)["accuracy"]["rows"]
    for measured, (*_, margin) in zip(design.measured, rows, strict=True):
        ends = range(1, 12 * math.ceil(measured.variance**0.5))
        weights = [1.0, *(2 * math.exp(-(end**2) / (2 * measured.variance)) for end in ends)]
        assert sum(weights[: margin + 1]) >= 0.9 * sum(weights) > sum(weights[:margin])


def test_the_certificate_says_how_it_was_made_and_names_the_keyed_version(published: Case) -> None:
    record, (entry, settled) = certificate(published), published.deployment.ledger
    versions = {each["name"]: each for each in record["data_versions"]["versions"]}
    assert {name: each["keyed"] for name, each in versions.items()} == {
        "exact histograms": True,
        "spine and invariants": True,
        "noisy measurements": False,
    }
    assert versions["exact histograms"]["version"] == published.deployment.versions()["town/redistricting/histograms"]
    assert versions["noisy measurements"]["version"] == settled.output_version
    assert (record["randomness"]["draw_id"], record["randomness"]["commitment"]) == (entry.draw_id, entry.commitment)
    assert (record["ledger"]["sequence"], record["ledger"]["entry_hash"]) == (entry.sequence, entry.hash)
    names = [gate.name for gate in all_gates(published.deployment.context.method)]
    assert [check["name"] for check in record["checks"]] == names
    assert record["dataset"]["synthetic"] == published.deployment.release.dataset.synthetic


# Without noise


HARDLY_ANY_NOISE = TWO_LEVELS | {
    "persons": TWO_LEVELS["persons"] | {"rho": 1000},
    "units": TWO_LEVELS["units"] | {"rho": 1000},
    "dataset": {"cap": {"rho": 3000}},
}


@pytest.mark.prove
@pytest.mark.parametrize("invariants", [{}, TWO_LEVELS["invariants"]], ids=["nothing held", "held"])
def test_with_hardly_any_noise_the_microdata_are_the_census(tmp_path: Path, invariants: Mapping[str, str]) -> None:
    """Cell by cell in every block, also without invariants. The widest noise has σ² = 1/75, and is not 0 in one draw of
    10^16."""
    files = with_quarters(census())
    changes = HARDLY_ANY_NOISE | {"invariants": invariants}
    deployment = topdown_deployment(tmp_path, files=files, **changes)
    deployment.reach(*TO_DRAW, "level_nation", "level_block", "microdata")
    case = Case(deployment, files, NATION_AND_BLOCK, invariants, budgets_of(changes), set())
    with deployment.opened() as connection:
        for name, attributes in ATTRIBUTES.items():
            rows = connection.table(name).project(", ".join(["geoid", *attributes])).fetchall()
            found = [(block, tuple(map(position, attributes, codes))) for block, *codes in rows]
            assert Counter(found) == Counter(case.records[name])


# Made again


def taken_on(case: Case, root: Path, files: Files) -> Case:
    """The production release in a copy of its folder, with other files."""
    shutil.copytree(case.deployment.root, root, dirs_exist_ok=True)
    return production(root, files)


def resident(files: Files, kind: str) -> int:
    """The index of the first record of a resident of group quarters of a type."""
    homes = {row["MAFID"] for row in files["units"] if row["GQTYPE"] == kind}
    return next(number for number, row in enumerate(files["persons"]) if row["MAFID"] in homes)


def with_person(files: Files, number: int, **codes: str) -> Files:
    return changed(files, persons=lambda rows: rows[number].update(codes))


@pytest.mark.prove
def test_made_again_it_has_the_same_bytes_and_the_same_versions_and_costs_nothing(
    of_production: Case, tmp_path: Path
) -> None:
    """All stages, from a source in which a prisoner of 30 is 31: the CEF has another version. The histograms do not
    change, so everything made from them stays the same."""
    number = resident(of_production.files, "1")
    assert of_production.files["persons"][number]["QAGE"] == "30"
    again = taken_on(of_production, tmp_path, with_person(of_production.files, number, QAGE="31"))
    again.deployment.reach(*again.stages)
    assert again.deployment.published() == of_production.deployment.published()
    assert again.deployment.ledger == of_production.deployment.ledger
    before, after = of_production.deployment.versions(), again.deployment.versions()
    assert before.keys() == after.keys()
    assert {name for name, version in before.items() if after[name] != version} == {"town/cef"}


OF_THE_US = (
    "SELECT unpacked(answers) FROM noisy_measurements "
    "WHERE level = 'US' AND query = 'detailed' AND histogram = 'persons'"
)


@pytest.mark.prove
def test_another_race_of_one_person_is_another_draw_with_a_charge_of_its_own(
    of_production: Case, tmp_path: Path
) -> None:
    number = resident(of_production.files, "1")
    again = taken_on(of_production, tmp_path, with_person(of_production.files, number, CENRACE="63"))
    again.deployment.reach(*TO_DRAW)
    reserved, settled, *own = again.deployment.ledger
    assert (reserved, settled) == of_production.deployment.ledger
    assert [entry.kind for entry in own] == ["reserve", "settle"]
    assert own[0].draw_id != reserved.draw_id
    assert own[0].commitment != reserved.commitment
    assert own[0].parse_specification().loss == reserved.parse_specification().loss
    assert own[1].output_version != settled.output_version
    with again.deployment.opened() as connection:
        new = connection.execute(OF_THE_US).fetchall()
    with of_production.deployment.opened() as connection:
        old = connection.execute(OF_THE_US).fetchall()
    differing = np.array(new[0][0]) != np.array(old[0][0])
    assert differing.mean() > 0.5, "noise of its own everywhere, not the old one beside a changed cell"


class KilledError(Exception):
    """Stands for any cause that ends a run."""


@pytest.fixture
def estimated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The levels whose families are estimated, in order; a level whose estimates are up to date is not among them."""
    levels: list[str] = []
    right = reading.Reading.tasks

    def spied(self: reading.Reading) -> Any:
        levels.append(str(self.scope))
        return right(self)

    monkeypatch.setattr(reading.Reading, "tasks", spied)
    return levels


@pytest.mark.prove
def test_a_run_that_dies_goes_on_at_the_level_it_reached_to_the_same_end(
    cases: Cases, tmp_path: Path, estimated: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of the third of four levels: one task is done, the others are not."""
    whole, right = cases(by_prefix), estimation.perform

    def dying(*arguments: Any) -> Any:
        for number, outcome in enumerate(right(*arguments)):
            if number and estimated[-1] == "County":
                raise KilledError
            yield outcome

    case = by_prefix(tmp_path)
    estimated.clear()
    with monkeypatch.context() as patch:
        patch.setattr(estimation, "perform", dying)
        result = case.deployment.run(*case.stages, raise_on_error=False)
    assert not result.success
    assert estimated == ["Nation", "State", "County"]
    assert case.deployment.executed(result) >= {"noisy_measurements", "level_nation", "level_state"}
    assert not case.deployment.executed(result) & {"level_county", "level_block", "microdata", "publication"}
    with case.deployment.opened() as connection:
        assert "level_county" not in {name for (name,) in connection.execute("SHOW TABLES").fetchall()}
    assert case.deployment.published() == {}
    ledger, made = case.deployment.ledger, case.deployment.versions()

    estimated.clear()
    case.deployment.run(*case.stages)
    assert estimated == ["County", "Block"]
    assert case.deployment.ledger == ledger
    assert case.deployment.versions().items() >= made.items()
    assert ledger[0].draw_id == whole.deployment.ledger[0].draw_id
    assert without_times(case.deployment) == without_times(whole.deployment)


def without_times(deployment: TopDownDeployment) -> dict[str, bytes]:
    """The published files without the ledger's times and the hashes over them."""
    files = deployment.published()
    timely = ("certificate.html", "certificate.json", "dcat.jsonld", "SHA256SUMS", "SHA256SUMS.sig")
    record = json.loads(files["certificate.json"])
    del record["ledger"]["recorded_at"], record["ledger"]["entry_hash"], record["edition"]["all"][0]["recorded_at"]
    dictionary = json.loads(files["datapackage.json"])
    del dictionary["created"]
    others = {name: content for name, content in files.items() if name not in timely}
    others["datapackage.json"] = json.dumps(dictionary).encode()
    return others | {"certificate": json.dumps(record).encode()}


# A spine that is no tree


@pytest.mark.deep
def test_a_block_in_two_places_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    """The refusal has level, rule and count, without the code."""

    def straddling(rows: list[dict[str, str]]) -> None:
        blocks = Counter(BLOCK(row) for row in rows)
        row = next(row for row in rows if blocks[BLOCK(row)] > 1)
        row["PLACEFP"] = "01001" if row["PLACEFP"] != "01001" else "01002"

    files = changed(spread(census()), geo=straddling)
    declared = {
        "spine": {"Nation": [], "Place": ["TABBLKST", "PLACEFP"], "Block": TWO_LEVELS["spine"]["Block"]},
        "invariants": TWO_LEVELS["invariants"],
        **{
            histogram: {
                "rho": TWO_LEVELS[histogram]["rho"],
                "levels": {"Nation": "1/4", "Place": "1/4", "Block": "1/2"},
                "queries": {**TWO_LEVELS[histogram]["queries"], "Place": {"detailed": 1}},
            }
            for histogram in ("persons", "units")
        },
    }
    deployment = topdown_deployment(tmp_path, files=files, **declared)
    said = deployment.refusal(*TO_DRAW)
    blocks = len({BLOCK(row) for row in files["geo"]})
    assert f"1 of {blocks} codes of blocks lie in more than one place" in said
    assert not [row for row in files["geo"] if BLOCK(row) in said]
    assert deployment.ledger == ()
    assert deployment.published() == {}


@pytest.mark.prove
def test_a_draw_that_is_estimated_otherwise_is_a_further_edition(tmp_path: Path) -> None:
    """Each level alone, leaning on housing units, and back; the draw is charged once. Wrong programs: the earlier files
    are replaced, because the draw is the same or because their signature is wrong; each run gets a new number; the
    model is not named, or has no τ²; the certificate states no gain, or one for a level without levels below it."""
    stages = [*TO_DRAW, "level_nation", "level_block", "microdata", "tables", "publication"]
    first = topdown_deployment(tmp_path, **TWO_LEVELS)
    first.reach(*stages)
    own, charged, folder = first.published(), first.ledger, first.release.folder
    leaning = topdown_deployment(tmp_path, **TWO_LEVELS, estimation="full", lean_on_housing_units=True)
    method = leaning.context.method
    # Fails if the plan counts a charge that a launch does not make.
    planned = cast(Any, SimpleNamespace(method=method, plan=method.plan(), text=""))
    budget = plan_metadata(planned, None, leaning.context.ledger)["budget"]
    assert "It is charged already, in entry 1 of the ledger" in budget
    assert "after it" not in budget
    leaning.run("information", "level_nation", "level_block", "occupancy", "estimates", *stages[-3:], "intervals")
    record = json.loads((folder / "certificate.json").read_bytes())
    assert (record["edition"]["number"], record["edition"]["revision"], leaning.ledger) == (1, 1, charged)
    assert {path.name: path.read_bytes() for path in (folder / "editions" / "1").iterdir()} == own
    assert [each["revision"] for each in record["edition"]["estimates"]] == [0, 1]
    assert record["edition"]["estimates"][0]["estimation"] == ["Totals first: none"]
    assert "is a revision of its edition" in record["edition"]["note"]
    assert "revision" not in json.loads(own["certificate.json"])["edition"]["note"]
    assert b"Gain of full estimation" not in own["certificate.json"]
    gain, model = record["mechanism"]["parameters"][-2:]
    assert (gain["label"], model["label"]) == ("Gain of full estimation", "Lean on housing units")
    nation, block = (re.findall(r"a single cell ([\d.]+) → ([\d.]+)", level)[0] for level in gain["value"])
    assert float(nation[0]) > float(nation[1])
    assert block[0] == block[1]
    assert re.fullmatch(r"nation \w+: τ² = [\d.]+", model["value"][0])
    assert model["value"][0] in " ".join((folder / "README.txt").read_text("utf-8").split())
    assert "<p>Edition 1.1: Estimation: From all" in (folder / "certificate.html").read_text("utf-8")
    assert json.loads((folder / "datapackage.json").read_bytes())["version"] == "1.1.0"
    again = estimate_published(folder, types_first="Nation", lean_on_housing_units=True)["persons"].histograms["Block"]
    blocks = read_published(folder)["persons"].codes["Block"]
    published = Counter(row["geoid"] for row in pq.read_table(folder / "persons.parquet").to_pylist())
    assert [published[block] for block in blocks] == again.sum(axis=1).tolist()
    later = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    seal = folder / "SHA256SUMS.sig"
    seal.write_bytes(bytes(64))
    assert "holds something else than a signed edition" in first.refusal(*stages[-5:])
    seal.write_bytes(later[seal.name])
    first.run(*stages[-5:])
    kept = {path.name: path.read_bytes() for path in (folder / "editions" / "1.1").iterdir()}
    assert kept == later
    record = json.loads((folder / "certificate.json").read_bytes())
    assert (record["edition"].get("revision"), len(record["edition"]["estimates"])) == (None, 2)
    context = first.context
    assert publication_problems(folder.parents[1], "town", "redistricting", context.custody, context.ledger) == []
