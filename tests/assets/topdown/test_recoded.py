"""A level of the spine whose places are merged ones: a recoded geographic column is a column like any other."""

import re
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from assets.cef.census import COLUMNS
from assets.release.columns import Column
from resources.statements import SQL_FOLDER, Zone
from resources.warehouse import Session
from tests.topdown_deployments import TO_CHARGE, TWO_LEVELS, topdown_deployment

HALF = Column.model_validate(
    {
        "source": "TABBLKST",
        "type": "string",
        "role": "geography",
        "merge": {"East": ["10"]},
        "everything_else": "Elsewhere",
    }
)
DETAILED = {level: {"detailed": 1} for level in ("Nation", "Half", "Block")}
THIRDS = dict.fromkeys(DETAILED, "1/3")
RELEASE: dict[str, Any] = {
    "spine": {"Nation": [], "Half": ["HALF"], "Block": ["HALF", "TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"]},
    "invariants": {"population": "Half", "housing_units": "Block", "group_quarters": "Block"},
    "persons": {"rho": 2, "levels": THIRDS, "queries": {**DETAILED, "Half": {"total": "1/2", "detailed": "1/2"}}},
    "units": {"rho": "1/10", "levels": THIRDS, "queries": DETAILED},
    "total_first": [],
}


@pytest.mark.prove
def test_the_places_of_a_level_can_be_merged_ones(tmp_path: Path) -> None:
    deployment = topdown_deployment(tmp_path, dataset={"recoded_units": {"HALF": HALF}}, **RELEASE)
    release = deployment.release
    assert list(release.dataset.recodes(release.columns_read)) == ["HALF"]
    deployment.reach(*TO_CHARGE)
    with deployment.opened() as connection:
        halves = connection.execute("SELECT geoid FROM spine WHERE level = 'Half' ORDER BY geoid").fetchall()
        blocks = connection.execute("SELECT geoid FROM spine WHERE level = 'Block'").fetchall()
    assert halves == [("East",), ("Elsewhere",)]
    assert {block[:-15] for (block,) in blocks} == {"East", "Elsewhere"}, "15 digits name the block itself"
    assert {block[-15:-13] for (block,) in blocks if block.startswith("East")} == {"10"}


@pytest.mark.deep
def test_two_places_with_the_same_joined_code_are_refused(tmp_path: Path) -> None:
    """Wrong program: one that counts part 12 of half 1 and part 2 of half 11, whose codes are alike, as one place."""
    recoded = {
        "HALF": HALF.model_copy(update={"merge": {"1": ["10"]}, "everything_else": "11"}),
        "PART": HALF.model_copy(update={"source": "TABBLK", "merge": {"12": ["1001"]}, "everything_else": "2"}),
    }
    levels = {
        histogram: {**RELEASE[histogram], "levels": dict.fromkeys(("Nation", "Block"), "1/2")}
        | {"queries": {level: DETAILED[level] for level in ("Nation", "Block")}}
        for histogram in ("persons", "units")
    }
    spine = {"Nation": [], "Block": ["HALF", "PART"]}
    invariants = {**RELEASE["invariants"], "population": "Nation"}
    declared = {**RELEASE, **levels, "spine": spine, "invariants": invariants}
    deployment = topdown_deployment(tmp_path, dataset={"recoded_units": recoded}, **declared)
    said = deployment.refusal(*TO_CHARGE)
    assert "spine: Block: 1 of 3 codes are joined from different values of HALF, PART" in said
    assert deployment.ledger == ()


def test_a_release_that_reads_no_recoded_column_is_not_named_by_recodes(tmp_path: Path) -> None:
    deployment = topdown_deployment(tmp_path, dataset={"recoded_units": {"HALF": HALF}}, **TWO_LEVELS)
    dataset = deployment.release.dataset
    assert dataset.recodes()
    assert dataset.recodes(deployment.release.columns_read) == {}


def test_no_name_of_a_recoded_column_changes_what_is_counted(tmp_path: Path) -> None:
    """Wrong programs: one that takes `number`, a recoded column of units, for the number of the unit's block, and so
    counts in block 2 all households of two persons; one that takes `couple`, `defined` or `persons` for what it found
    about the persons of the unit, and so refuses a census that keeps the rules; and one that places units by a column
    `geoid`, which it takes for the code of a place."""
    statements = [SQL_FOLDER / "cef" / "census_structure.sql", *(SQL_FOLDER / "topdown").glob("*.sql")]
    words = {word for path in statements for word in re.findall(r"(?:AS |\.)([a-z_]+)", path.read_text())}
    assert {"number", "geoid", "couple", "defined", "persons"} <= words
    words -= {"geoid"} | {name.casefold() for columns in COLUMNS.values() for name in columns}
    column = {"source": "FINAL_POP", "type": "integer", "minimum": 0, "maximum": 2, "top_coded": True}
    recoded = {word: Column.model_validate(column) for word in words}
    spine = TWO_LEVELS["spine"]
    counted = []
    for name, recodes in (("half", {}), ("geoid", recoded)):
        named = {**TWO_LEVELS, "spine": {**spine, "Block": [name, *spine["Block"]]}}
        dataset = {"recoded_units": {**recodes, name: HALF}}
        deployment = topdown_deployment(tmp_path / name, dataset=dataset, **named)
        deployment.run("cef", "spine", "histograms", "invariants")
        histograms = f"{deployment.release.schema}.histograms"
        with deployment.opened() as public, deployment.opened("confidential") as confidential:
            stored = (public, "invariants"), (public, "spine"), (confidential, histograms)
            counted.append([database.execute(f"FROM {table} ORDER BY ALL").fetchall() for database, table in stored])
    plain, renamed = counted
    assert all(plain)
    assert renamed == plain


def test_places_are_compared_under_names_of_our_statements() -> None:
    """Wrong programs: one that takes the codes of a level `parents` for the numbers of places above them, and one that
    takes the values of a column `code` for the codes it joined."""
    with duckdb.connect() as connection:
        session = Session(connection, [Zone.PUBLIC])
        places = session.register("places", pa.table({"parents": ["a", "a", "b"], "above": ["x", "y", "x"]}))
        for level, above in (("parents", "above"), ("above", "parents")):
            assert session.row("topdown/straddling", places=places, level=level, above=above) == (1, 2)
        units = session.register("units", pa.table({"code": ["1", "11", "3"], "combinations": ["12", "2", "4"]}))
        assert session.row("topdown/joined_alike", units=units, columns=["code", "combinations"]) == (1, 2)
