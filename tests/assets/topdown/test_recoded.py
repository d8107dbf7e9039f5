"""A level of the spine whose places are merged ones: a recoded geographic column is a column like any other."""

from pathlib import Path
from typing import Any

import pytest

from assets.release.columns import Column
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
