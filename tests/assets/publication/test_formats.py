"""SDMX, PX and JSON-stat files have every cell of the CSV file, as independent readers show."""

import csv
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pytest
import sdmx
from frictionless import validate
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonstat_validator import validate_jsonstat
from pyaxis import pyaxis
from pyjstat import pyjstat
from pysdmx.io import get_datasets

from assets.publication import cube, json_stat, px
from assets.publication.asset import _preview_files, publication_problems, publish
from assets.publication.cube import Heading, encode_code, encode_name
from assets.publication.formats import write_cubes
from assets.publication.package import write_data_files
from assets.release.published import PublishedColumn, PublishedTable, error_columns
from assets.release.release import Format, Publisher, Release
from orchestration.explorer.products import list_publications
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse
from tests.contract.kinds import KINDS, to_publication
from tests.contract.test_contract import QUICK, mark
from tests.deployments import small_deployment
from tests.depth import deep_cases, examples, quick_cases

MISSING = "missing.json"
"""The texts that stand for missing values in the CSV files."""

CHARGED = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
OFFICE = Publisher.model_validate({"formats": list(Format), "agency": "OFFICE.STATS", "authority": "Office"})

Cells = dict[tuple[str, ...], dict[str, Decimal | None]]
"""Figures by id, of each cell by its codes."""


def write(session: Session, folder: Path, tables: Sequence[PublishedTable], release: Release) -> tuple[str, ...]:
    """Write the tables in all formats; return the sentences about files that are too large."""
    folder.mkdir()
    files = write_data_files(session, folder, tables)
    (folder / MISSING).write_text(json.dumps({file.product: file.missing for file in files if file.format == "csv"}))
    return write_cubes(session, folder, tables, Heading(replace(release, publisher=OFFICE), 2, CHARGED))[1]


def groups(table: PublishedTable) -> list[list[str]]:
    """The columns of each dimension."""
    flags = {column.total for column in table.columns}
    names = [name for name in table.dimensions or table.primary_key if name not in flags]
    places = [name for name in table.geography if name in names]
    return ([places] if places else []) + [[name] for name in names if name not in places]


def ids(table: PublishedTable) -> list[str]:
    return ["REF_AREA" if group[0] in table.geography else encode_name(group[0]) for group in groups(table)]


def read_rows(folder: Path, table: PublishedTable) -> dict[tuple[str, ...], dict[str, str | None]]:
    """The rows of the CSV file by their codes."""
    totals = {column.name: column.total for column in table.columns}
    missing = json.loads((folder / MISSING).read_text())[table.name]
    rows = {}
    with (folder / f"{table.name}.csv").open(encoding="utf-8", newline="") as file:
        for texts in csv.DictReader(file, delimiter=table.delimiter):
            row = {name: None if text == missing else text for name, text in texts.items()}
            codes = []
            for group in groups(table):
                parts = ["_T" if row.get(totals[name]) == "true" else encode_code(row[name]) for name in group]
                while len(parts) > 1 and parts[-1] == "_T":
                    parts.pop()
                codes.append("@".join(parts))
            rows[tuple(codes)] = row
    return rows


def number(text: Any) -> Decimal | None:
    return None if str(text) in ("", "None", "nan", "<NA>", '"."', '"..."') else Decimal(str(text))


def read_csv(folder: Path, table: PublishedTable) -> Cells:
    figures = {encode_name(column.name): column.name for column in table.columns if column.has_figures}
    rows = read_rows(folder, table)
    return {codes: {id_: number(row[name]) for id_, name in figures.items()} for codes, row in rows.items()}


def read_px(folder: Path, table: PublishedTable) -> Cells:
    """By pyaxis, which removes spaces at the ends of labels."""
    read = pyaxis.parse(str(folder / f"{table.name}.px"), encoding="utf-8", null_values="^$", sd_values="^$")
    metadata, values = read["METADATA"], read["DATA"]["DATA"].tolist()
    names = [*metadata["STUB"], *metadata["HEADING"]]
    *codes, figures = (metadata[f"CODES({name})"] for name in names)
    assert [len(metadata[f"VALUES({name})"]) for name in names] == [*map(len, codes), len(figures)]
    cells = {}
    for place, cell in enumerate(product(*codes)):
        found = values[place * len(figures) : (place + 1) * len(figures)]
        if set(found) != {'".."'}:
            cells[cell] = {id_: number(value) for id_, value in zip(figures, found, strict=True)}
    return cells


def read_json_stat(folder: Path, table: PublishedTable) -> Cells:
    """By pyjstat, from a valid dataset; it has a row for each empty cell too."""
    text = (folder / f"{table.name}.json").read_text()
    described = json.loads(text, parse_float=str, parse_int=str)
    assert validate_jsonstat(json.loads(text))
    frame = pyjstat.Dataset.read(text).write("dataframe", naming="id")
    assert list(frame.columns) == [*ids(table), "FIGURE", "value"]
    cells: Cells = {}
    for place, (*codes, figure, value) in enumerate(frame.itertuples(index=False)):
        if (exact := described["value"].get(str(place), "")) != "":
            assert exact is None or float(exact) == value
            cells.setdefault(tuple(codes), {})[figure] = number(exact)
    return cells


def read_sdmx_csv(folder: Path, table: PublishedTable) -> Cells:
    """By sdmx1, which knows version 3.0 of the structures, and no relation of attributes to measures."""
    text = (folder / f"{table.name}.structure.xml").read_text().replace("/v3_1/", "/v3_0/")
    text = re.sub(r"<str:MeasureRelationship>.*?</str:MeasureRelationship>", "", text)
    structures = sdmx.read_sdmx(BytesIO(text.encode()))
    (structure,) = structures.structure.values()
    message = sdmx.read_sdmx(folder / f"{table.name}.sdmx.csv", structure=structure)
    measures = [encode_name(column.name) for column in table.columns if column.has_figures and not column.error_of]
    cells = {}
    for observation in message.data[0].obs:
        codes = [str(value.value) for value in observation.key.values.values()]
        for codes_of, code in zip(ids(table), codes, strict=True):
            assert code in structures.codelist[f"{structure.id.replace('DSD', 'CL')}__{codes_of}"]
        found = {id_: attribute.value for id_, attribute in observation.attached_attribute.items()}
        values = observation.value if isinstance(observation.value, list | tuple) else [observation.value]
        cells[tuple(codes)] = {
            encode_name(column.name): number(found.get(encode_name(column.name), values[0]))
            for column in table.columns
            if column.has_figures and (column.error_of or len(measures) == 1)
        }
    return cells


def read_sdmx_xml(folder: Path, table: PublishedTable) -> Cells:
    """By pysdmx, with all attributes."""
    paths = (folder / f"{table.name}.{end}" for end in ("sdmx.xml", "structure.xml"))
    (dataset,) = get_datasets(*paths, validate=True)
    rows = {tuple(row[id_] for id_ in ids(table)): row for row in dataset.data.astype("string").to_dict("records")}
    return {
        codes: {
            encode_name(column.name): number(row.get(encode_name(column.name)))
            for column in table.columns
            if column.has_figures
        }
        for codes, row in rows.items()
    }


READERS: Mapping[str, Callable[[Path, PublishedTable], Cells]] = {
    "px": read_px,
    "json-stat": read_json_stat,
    "sdmx-csv": read_sdmx_csv,
    "sdmx-xml": read_sdmx_xml,
}


def require_same_cells(folder: Path, table: PublishedTable) -> None:
    expected = read_csv(folder, table)
    for name, read in READERS.items():
        found = read(folder, table)
        for codes, figures in found.items():
            assert {id_: expected[codes][id_] for id_ in figures} == figures, (name, table.name, codes)
        assert found.keys() == expected.keys(), (name, table.name)


@deep_cases(1)
@pytest.mark.parametrize("kind", [pytest.param(name, marks=mark(name)) for name in KINDS])
def test_every_format_has_every_cell_of_the_csv_for_other_readers(kind: str, tmp_path: Path) -> None:
    """It fails for figures in another order, a total taken for a missing value, or a place without its county."""
    deployment = KINDS[kind].build(tmp_path / "release")
    deployment.reach(*to_publication(deployment.context.method))
    folder = tmp_path / "files"
    with deployment.context.warehouse.session(reads=[Zone.PUBLIC], folder=tmp_path) as session:
        # A census of few homes may have no facilities, and formats of cubes have no empty ones.
        tables = [table for table in deployment.context.method.tables() if session.count(table.table)]
        assert write(session, folder, tables, deployment.release) == ()
    cubes = [table for table in tables if table.is_cube]
    assert cubes
    for table in cubes:
        require_same_cells(folder, table)


TABLE = Table(Zone.PUBLIC, "town__tables", "counts")
COUNTS = PublishedTable(
    "counts",
    "Counts of 'awkward' \"kinds\"",
    "They do not add up; see # the page.\nNothing is <exact>.",
    TABLE,
    (
        PublishedColumn("place", "string", "The place"),
        PublishedColumn("kind of thing", "string", values={"b": 'It\'s "B" & <b>; DATA', "a": ""}, total="all kinds"),
        PublishedColumn("all kinds", "boolean"),
        PublishedColumn("ACTION", "integer", "A number", unit="things"),
        *error_columns("decimal", "Estimate", "Standard error", "things", optional=("standard_error",)),
        PublishedColumn("suppressed", "boolean"),
        PublishedColumn("remark", "string", required=False),
    ),
    ("place", "kind of thing", "all kinds"),
    interval="By a method",
    geography=("place",),
)
STORED = (
    'place VARCHAR, "kind of thing" VARCHAR, "all kinds" BOOLEAN, "ACTION" BIGINT, estimate DECIMAL(18, 3), '
    "standard_error DECIMAL(18, 2), lower DECIMAL(18, 3), upper DECIMAL(18, 3), suppressed BOOLEAN, remark VARCHAR"
)
FIGURES = (-3, Decimal("-2.500"), None, Decimal("-10.000"), Decimal("5.010"))
EMPTY = (None,) * 5


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return small_deployment(tmp_path_factory.mktemp("village") / "release").release


def fill(folder: Path, columns: str, rows: Sequence[tuple[Any, ...]]) -> Warehouse:
    folder.mkdir(mode=0o700)
    with duckdb.connect(str(folder / "public.duckdb")) as connection:
        connection.execute("CREATE SCHEMA town__tables")
        connection.execute(f"CREATE TABLE town__tables.counts ({columns})")
        for row in rows:
            connection.execute(f"INSERT INTO town__tables.counts VALUES ({', '.join('?' for _ in row)})", row)
    (folder / "public.duckdb").chmod(0o600)
    return Warehouse(folder=str(folder), threads=1)


def write_rows(
    root: Path, release: Release, rows: Sequence[tuple[Any, ...]], table: PublishedTable = COUNTS, columns: str = STORED
) -> Path:
    with fill(root / "warehouse", columns, rows).session(reads=[Zone.PUBLIC], folder=root) as session:
        assert write(session, root / "files", [table], release) == ()
    return root / "files"


def decode(code: str) -> str:
    hexadecimal = re.sub(b"\\$([0-9A-F]{2})", lambda found: bytes([int(found[1], 16)]), code.encode())
    return "" if code == "$" else hexadecimal.decode()


LINE_ENDS_OF_SDMX1 = "\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""The characters at which this reader ends a line of a CSV file, even within quotes; other readers do not."""
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=f"\0{LINE_ENDS_OF_SDMX1}"), max_size=8)


@pytest.mark.prove
@settings(max_examples=examples(25))
@given(st.lists(TEXTS, min_size=1, max_size=5, unique=True))
@example(["", "null", "NULL", "_T", "_X", "$5F"])
@example(['"', "'", "a;b", "a,b=c", "\n", " a", "a ", "a\tb", "DATA", "01", "é", "𝄞", "<&>", "a|b", "a@b", "é" * 300])
def test_any_code_comes_back_from_every_format(
    release: Release, tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    """It fails if two codes have the same id, or a code has the id of a total or of a missing value."""
    cells = [(text, kind, False, *FIGURES, False, text) for text in texts for kind in ("a", text)]
    rows = [
        *dict.fromkeys(cells),
        (texts[0], None, True, *FIGURES, False, None),
        (texts[0], None, False, *EMPTY, True, ""),
    ]
    folder = write_rows(tmp_path_factory.mktemp("any"), release, rows)
    require_same_cells(folder, COUNTS)
    (dataset,) = get_datasets(folder / "counts.sdmx.xml", folder / "counts.structure.xml")
    assert {decode(code) for code in dataset.data["REF_AREA"]} == set(texts)
    described = json.loads((folder / "counts.json").read_text())["dimension"]
    labels = described["REF_AREA"]["category"]["label"]
    assert {decode(code): label for code, label in labels.items()} == {
        text: text if text.strip() else "(blank)" for text in texts
    }
    values = described["REF_AREA"].get("extension", {"values": {}})["values"]
    assert values == {code: text for code in labels if (text := decode(code)) != code and text}
    names = (folder / "counts.px").read_text().partition('VALUES("place")=')[2].partition(";\nVALUES")[0]
    assert max(map(len, re.findall('"([^"]*)"', names))) <= 256


def test_what_is_suppressed_or_missing_is_told_apart(release: Release, tmp_path: Path) -> None:
    rows = [
        ("A", "a", False, *FIGURES, False, "x"),
        ("A", "b", False, *EMPTY, True, None),
        ("B", "b", False, *EMPTY, False, None),
    ]
    folder = write_rows(tmp_path, release, rows)
    with (folder / "counts.sdmx.csv").open() as file:
        read = [(row["OBS_STATUS"], row["CONF_STATUS"], row["REMARK"]) for row in csv.DictReader(file)]
    # The codes are in declared order.
    assert read == [("Q", "N", ""), ("E", "F", "x"), ("O", "F", "")]
    lines = (folder / "counts.px").read_text().partition("DATA=\n")[2].splitlines()
    assert [line.split()[0] for line in lines[:4]] == ['"..."', "-3", '"."', '".."']
    dataset = json.loads((folder / "counts.json").read_text())
    assert dataset["status"] == {str(place): "Q" for place in range(5)}
    assert [dataset["value"].get(str(place), "none") for place in (0, 5, 10, 15)] == [None, -3, None, "none"]


def test_errors_belong_to_their_figure_in_its_unit(release: Release, tmp_path: Path) -> None:
    folder = write_rows(tmp_path, release, [("A", "a", False, *FIGURES, False, "x")])
    text = (folder / "counts.structure.xml").read_text()
    related = re.findall(r'id="(\w+)">.{1,900}?<str:Measure>(\w+)</str:Measure>', text, re.DOTALL)
    assert related == [("STANDARD_ERROR", "ESTIMATE"), ("LOWER", "ESTIMATE"), ("UPPER", "ESTIMATE")]
    assert re.findall(r'<str:Measure usage="(\w+)" id="([\w-]+)">', text) == [
        ("mandatory", "X--ACTION"),
        ("mandatory", "ESTIMATE"),
    ]
    figure = json.loads((folder / "counts.json").read_text())["dimension"]["FIGURE"]["category"]
    assert figure["child"] == {"ESTIMATE": ["STANDARD_ERROR", "LOWER", "UPPER"]}
    assert figure["unit"]["STANDARD_ERROR"] == {"label": "things", "decimals": 2}
    text = (folder / "counts.px").read_text()
    assert 'UNITS("standard error")="things";\n' in text
    # PRECISION has an effect only above SHOWDECIMALS: a count would have decimals, or an error the estimate's decimals.
    shown = re.findall(r'^(?:SHOWDECIMALS|PRECISION\("Figure",)(.+);$', text, re.MULTILINE)
    assert shown == ["=0", '"Estimate")=3', '"standard error")=2', '"lower")=3', '"upper")=3']


def test_structures_of_two_releases_have_names_of_their_own(release: Release, tmp_path: Path) -> None:
    """An agency has one data structure per id and version: the test fails if the name is the table's alone."""
    folder = write_rows(tmp_path, release, [("A", "a", False, *FIGURES, False, "x")])
    for name in ("counts.sdmx.csv", "counts.sdmx.xml"):
        assert f"OFFICE.STATS:DF_{release.schema.upper()}__COUNTS(2.0.0)" in (folder / name).read_text()


def test_files_are_the_same_whatever_the_order_of_rows(release: Release, tmp_path: Path) -> None:
    rows = [(place, kind, False, *FIGURES, False, place) for place in ("z", "A", "01", "é") for kind in ("a", "b", "c")]
    seen = []
    for order in (rows, rows[::-1]):
        root = tmp_path / str(len(seen))
        root.mkdir()
        folder = write_rows(root, release, order)
        seen.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert seen[0] == seen[1]


PLACES = PublishedTable(
    "counts",
    "Places",
    "",
    TABLE,
    (
        PublishedColumn("level", "string", values={"Nation": "", "State": "", "County": "", "Place": "", "Area": ""}),
        PublishedColumn("geoid", "string"),
        PublishedColumn("name", "string", names="geoid"),
        PublishedColumn("count", "integer", "Number", unit="persons"),
    ),
    ("geoid", "level"),
    geography=("level", "geoid"),
    levels={"State": "Nation", "County": "State", "Place": "State", "Area": "Nation"},
)
NESTED = replace(
    PLACES,
    columns=(
        PublishedColumn("region", "string", values={"S": "South", "N": "North"}),
        PublishedColumn("county", "string"),
        PublishedColumn("count", "integer", "Number", unit="persons"),
    ),
    primary_key=("region", "county"),
    geography=("region", "county"),
    levels={},
)


def parents(folder: Path) -> dict[str, tuple[str, str]]:
    """By code, its label and its parent, which are the same in SDMX, in JSON-stat, and, if it is one tree there, in PX
    (read as PxWeb does, the parents first)."""
    category = json.loads((folder / "counts.json").read_text())["dimension"]["REF_AREA"]["category"]
    above = {child: code for code, children in category.get("child", {}).items() for child in children}
    found = {code: (category["label"][code], above.get(code, "")) for code in category["index"]}
    text = (folder / "counts.structure.xml").read_text().partition("</str:Codelist>")[0]
    codes = re.findall(r'<str:Code id="(.+?)">(.+?)</str:Code>', text, re.DOTALL)
    in_sdmx = {code: re.findall(r"<str:Parent>(.+)</str:Parent>", more) for code, more in codes}
    assert in_sdmx == {code: [parent] * bool(parent) for code, (_, parent) in found.items()}
    texts = re.findall(r'^HIERARCHIES\("Geography"\)=(.*?);$', (folder / "counts.px").read_text(), re.M | re.S)
    for top, *pairs in (re.split(r",\n?", text) for text in texts):
        in_px = {top.strip('"'): ""}
        for above, code in (pair.strip('"').split('":"') for pair in pairs):
            assert above in in_px
            in_px[code] = above
        assert in_px == {code: parent for code, (_, parent) in found.items()}
    tops = [code for code, (_, parent) in found.items() if not parent]
    metadata = pyaxis.parse(str(folder / "counts.px"), encoding="utf-8")["METADATA"]
    assert len(texts) == ("HIERARCHIES(Geography)" in metadata) == (len(tops) == 1)
    return found


def test_places_of_levels_lie_in_the_places_above_them(release: Release, tmp_path: Path) -> None:
    """A place's code begins with a county's, and an area's with a state's, but they do not lie there."""
    rows = [
        *(("Nation", "", "All", 9), ("State", "01", "One", 5), ("State", "02", None, 4), ("County", "01001", "C", 5)),
        *(("Place", "0100100", "P", 1), ("Area", "0100", "R", 2), ("County", "03001", "Lost", 0)),
    ]
    folder = write_rows(tmp_path, release, rows, PLACES, "level VARCHAR, geoid VARCHAR, name VARCHAR, count BIGINT")
    require_same_cells(folder, PLACES)
    assert parents(folder) == {
        "Nation@$": ("All", ""),
        "State@01": ("One", "Nation@$"),
        "State@02": ("02", "Nation@$"),
        "County@01001": ("C", "State@01"),
        "County@03001": ("Lost", "Nation@$"),
        "Place@0100100": ("P", "State@01"),
        "Area@0100": ("R", "Nation@$"),
    }


def test_nested_places_are_one_list_with_their_parents(release: Release, tmp_path: Path) -> None:
    """Two counties have the same code, and the regions no rows of their own."""
    rows = [("N", "1", 3), ("S", "1", 4), ("S", "2", 5)]
    folder = write_rows(tmp_path, release, rows, NESTED, "region VARCHAR, county VARCHAR, count BIGINT")
    require_same_cells(folder, NESTED)
    assert parents(folder) == {
        "S@1": ("1", "S"),
        "S@2": ("2", "S"),
        "N@1": ("1", "N"),
        "S": ("South", ""),
        "N": ("North", ""),
    }
    assert 'VALUES("Geography")="1 (S@1)","2 (S@2)","1 (N@1)";' in (folder / "counts.px").read_text()
    (tmp_path / "north").mkdir()
    folder = write_rows(tmp_path / "north", release, rows[:1], NESTED, "region VARCHAR, county VARCHAR, count BIGINT")
    assert "HIERARCHIES" not in (folder / "counts.px").read_text(), "the region is no code of the variable"


@quick_cases(1)
@pytest.mark.parametrize(
    ("module", "limit", "said"),
    [
        (cube, "MOST_CODES", ["sdmx", "px", "json-stat"]),
        (px, "MOST_CELLS", ["px"]),
        (json_stat, "MOST_CELLS", ["json-stat"]),
    ],
)
def test_what_is_too_large_for_a_format_is_left_out_with_a_sentence(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, limit: str, said: list[str]
) -> None:
    monkeypatch.setattr(module, limit, 1)
    rows = [("A", "a", False, *FIGURES, False, "x"), ("B", "a", False, *FIGURES, False, "x")]
    with fill(tmp_path / "warehouse", STORED, rows).session(reads=[Zone.PUBLIC], folder=tmp_path) as session:
        left_out = write(session, tmp_path / "files", [COUNTS], release)
    assert [sentence.split()[5].strip(":").lower() for sentence in left_out] == sorted(said)
    ends = {"sdmx": "sdmx.csv", "px": "px", "json-stat": "json"}
    assert {name for name, end in ends.items() if not (tmp_path / f"files/counts.{end}").exists()} == set(said)


def test_a_table_without_rows_is_published_without_further_formats(release: Release, tmp_path: Path) -> None:
    """Perhaps no population group is large enough for its table: a refusal would come after the charge."""
    with fill(tmp_path / "warehouse", STORED, []).session(reads=[Zone.PUBLIC], folder=tmp_path) as session:
        left_out = write(session, tmp_path / "files", [COUNTS], release)
    assert left_out == tuple(f"counts is not there as {name}: it has no rows." for name in ("JSON-stat", "PX", "SDMX"))
    assert {path.name for path in (tmp_path / "files").iterdir()} == {"counts.csv", "counts.parquet", MISSING}


@quick_cases(1)
@pytest.mark.parametrize(
    ("where", "wrong"),
    [
        (
            "assets.publication.px._list",
            lambda keyword, texts: f"{keyword}={json.dumps([*texts][::-1])[1:-1]};\n",
        ),
        ("assets.publication.sdmx.quoteattr", lambda text: '"1"'),
        ("assets.publication.json_stat.prod", lambda sizes: 1),
    ],
)
def test_a_file_that_does_not_read_back_is_not_published(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, wrong: Any
) -> None:
    rows = [(place, kind, False, *FIGURES, False, place) for place in "AB" for kind in "ab"]
    monkeypatch.setattr(where, wrong)
    with (
        fill(tmp_path / "warehouse", STORED, rows).session(reads=[Zone.PUBLIC], folder=tmp_path) as session,
        pytest.raises(ValueError, match="does not read back"),
    ):
        write(session, tmp_path / "files", [COUNTS], release)


def test_rows_that_the_dimensions_do_not_tell_apart_are_refused(release: Release, tmp_path: Path) -> None:
    rows = [("A", "a", False, *FIGURES, False, "x"), ("A", "a", False, *FIGURES, False, "y")]
    with (
        fill(tmp_path / "warehouse", STORED, rows).session(reads=[Zone.PUBLIC], folder=tmp_path) as session,
        pytest.raises(ValueError, match="do not tell its rows apart"),
    ):
        write(session, tmp_path / "files", [COUNTS], release)


@pytest.mark.deep
def test_a_release_in_more_formats_is_the_same_and_its_new_files_are_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data files and draw stay as they are. An altered file is found, and a second time gives the same bytes."""
    deployment = KINDS[QUICK].build(tmp_path / "release")
    context = deployment.context
    deployment.reach(*to_publication(context.method))
    before = deployment.published()
    context.method.release = replace(context.release, publisher=OFFICE)
    certificate, _ = publish(context)
    after = deployment.published()
    data = [name for name in before if name.endswith((".csv", ".parquet"))]
    assert data
    assert {name: after[name] for name in data} == {name: before[name] for name in data}
    assert len(deployment.ledger) == 2
    new = {Path(name).name for name in after.keys() - before.keys()}
    assert {name.partition(".")[2] for name in new} == {"px", "json", "sdmx.csv", "sdmx.xml", "structure.xml"}
    assert new <= {file.path for file in certificate.products}
    listed = _preview_files(certificate)
    assert isinstance(listed, dg.TableMetadataValue)
    assert new < {str(row.data[".csv and .parquet"]) for row in listed.records}, "the page names each of them"
    folder = context.release.folder
    assert validate(str(folder / "datapackage.json")).valid
    assert "Tables with figures are there as SDMX" in (folder / "README.txt").read_text()
    monkeypatch.setattr("orchestration.explorer.products.find_published", lambda: context.release.published)
    (shown,) = list_publications()
    assert (shown.problem, len(shown.products)) == ("", len(data) // 2)
    publish(context)
    assert deployment.published() == after
    names = context.release.dataset.name, context.release.name
    for name in sorted(new)[:5]:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content.replace(b"1", b"2", 1))
        problems = publication_problems(context.release.published, *names, context.custody, context.ledger)
        assert problems == [f"{name} was altered"]
        (folder / name).write_bytes(content)
