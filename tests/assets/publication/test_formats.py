"""SDMX, PX and JSON-stat files have every cell of the CSV file, for readers that others wrote."""

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
from hypothesis import example, given
from hypothesis import strategies as st
from jsonstat_validator import validate_jsonstat
from pyaxis import pyaxis
from pyjstat import pyjstat
from pysdmx.io import get_datasets

from assets.publication import cube, json_stat, px
from assets.publication.asset import publication_problems, publish
from assets.publication.cube import Heading, encode_code, encode_name
from assets.publication.formats import write_cubes
from assets.publication.package import write_data_files
from assets.release.published import PublishedColumn, PublishedTable, error_columns
from assets.release.release import Format, Publisher, Release
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse
from tests.contract.kinds import KINDS, to_publication
from tests.contract.test_contract import QUICK
from tests.deployments import small_deployment

CHARGED = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
OFFICE = Publisher.model_validate({"formats": list(Format), "agency": "OFFICE.STATS", "authority": "Office"})

Cells = dict[tuple[str, ...], dict[str, Decimal | None]]
"""Figures by id, of each cell by its codes."""


def write(session: Session, folder: Path, tables: Sequence[PublishedTable], release: Release) -> tuple[str, ...]:
    """Write the tables in all formats; return the sentences about files that are too large."""
    folder.mkdir()
    write_data_files(session, folder, tables)
    return write_cubes(session, folder, tables, Heading(replace(release, publisher=OFFICE), 2, CHARGED))[1]


def groups(table: PublishedTable) -> list[list[str]]:
    """The columns of each dimension."""
    flags = {column.total for column in table.columns}
    names = [name for name in table.dimensions or table.primary_key if name not in flags]
    places = [name for name in table.geography if name in names]
    return ([places] if places else []) + [[name] for name in names if name not in places]


def ids(table: PublishedTable) -> list[str]:
    return ["REF_AREA" if group[0] in table.geography else encode_name(group[0]) for group in groups(table)]


def read_rows(folder: Path, table: PublishedTable) -> dict[tuple[str, ...], dict[str, str]]:
    """The rows of the CSV file by their codes."""
    totals = {column.name: column.total for column in table.columns}
    rows = {}
    with (folder / f"{table.name}.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter=table.delimiter):
            codes = []
            for group in groups(table):
                parts = [
                    "_T" if row.get(totals[name]) == "true" else encode_code(row[name] or None) for name in group
                ]
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
    structure = structures.structure[f"DSD_{table.name.upper()}"]
    message = sdmx.read_sdmx(folder / f"{table.name}.sdmx.csv", structure=structure)
    measures = [encode_name(column.name) for column in table.columns if column.has_figures and not column.error_of]
    cells = {}
    for observation in message.data[0].obs:
        codes = [str(value.value) for value in observation.key.values.values()]
        for codes_of, code in zip(ids(table), codes, strict=True):
            assert code in structures.codelist[f"CL_{table.name.upper()}_{codes_of}"]
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


@pytest.mark.parametrize(
    "kind", [pytest.param(name, marks=[] if name == QUICK else pytest.mark.deep) for name in KINDS]
)
def test_every_format_has_every_cell_of_the_csv_for_other_readers(kind: str, tmp_path: Path) -> None:
    """It fails for figures in another order, a total taken for a missing value, or a place without its county."""
    deployment = KINDS[kind].build(tmp_path / "release")
    deployment.reach(*to_publication(deployment.context.method))
    folder, tables = tmp_path / "files", deployment.context.method.tables()
    with deployment.context.warehouse.session(reads=[Zone.PUBLIC], folder=tmp_path) as session:
        assert write(session, folder, tables, deployment.release) == ()
    cubes = [table for table in tables if table.is_cube]
    assert cubes
    for table in cubes:
        require_same_cells(folder, table)
