"""Requirements before a charge: the groups of households from published totals, and that there are regions."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from assets.release.release import DeclarationError
from assets.safetab.counting import RecordsError, require_regions
from assets.safetab.household_method import groups_recipe
from assets.safetab.measurements import require_storable
from assets.safetab.release import GROUPS, REGIONS, SafeTabHRelease, SafeTabPRelease
from resources.statements import Zone
from resources.warehouse import Session, Warehouse
from tests.assets.safetab import examples
from tests.safetab_deployments import safetab_components

LINES = {"budgets": {"TRACT 2": 1, "PR-TRACT 2": 1}}


def declared(persons: dict[str, Any] | None = None, **households: Any) -> tuple[SafeTabPRelease, SafeTabHRelease]:
    p, h = safetab_components({**LINES, **(persons or {})}, households)
    dataset, published = examples.of_files("town"), Path("published")
    return p.release(dataset, published), h.release(dataset, published)  # type: ignore[return-value]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return Warehouse(folder=str(tmp_path_factory.mktemp("warehouse")), threads=1)


def details(session: Session, release: SafeTabHRelease, totals: list[int]) -> list[tuple[int, int]]:
    """The details of T3 and of T4 of a group with each of some published totals, each in a tract of its own."""
    (code, *_) = [each.code for each in release.lists.universe(*release.pairs[0])]
    rows = [
        {"REGION_ID": f"{place:011d}", "REGION_TYPE": "TRACT", "ITERATION_CODE": code, "COUNT": total}
        for place, total in enumerate(totals)
    ]
    name, values, names = groups_recipe(session, release, pa.Table.from_pylist(rows))
    session.create(release.public(GROUPS), name, values, **names)
    return [(row["t3"], row["t4"]) for row in session.arrow("warehouse/all", source=release.public(GROUPS)).to_pylist()]


def test_groups_do_not_depend_on_thresholds_of_tables_that_are_not_measured(warehouse: Warehouse) -> None:
    """Otherwise a declaration that means the same would be another draw, with another charge."""
    t3 = {"budgets": {"TRACT 2 T3": 1}}
    with warehouse.session(writes=Zone.PUBLIC) as session:
        totals = [-3, 39, 40, 79, 80, 160, 10**6]
        found = {
            least: details(
                session, declared(**t3, thresholds={"TRACT 2 T3": [40, 80, 160], "TRACT 2 T4": [least]})[1], totals
            )
            for least in (0, 50)
        }
    assert found[0] == found[50] == [(0, 0), (0, 0), (1, 0), (1, 0), (2, 0), (3, 0), (3, 0)]


def test_groups_of_other_thresholds_are_not_taken_over() -> None:
    """The seal of the groups covers everything that determines them, with the thresholds of all measured lines."""
    both = {"budgets": {"TRACT 2 T3": 1, "TRACT 2 T4": 1}}
    seals = [
        declared(**both, thresholds={"TRACT 2 T3": [40, 80, 160], "TRACT 2 T4": [least]})[1].counted_with
        for least in (40, 41, 40)
    ]
    assert seals[0] == seals[2] != seals[1]
    assert (
        seals[0]
        == declared(
            **both | {"budgets": dict.fromkeys(both["budgets"], 2)},
            thresholds={"TRACT 2 T3": [40, 80, 160], "TRACT 2 T4": [40], "COUNTY 2 T4": [7]},
        )[1].counted_with
    )


@pytest.mark.parametrize(
    ("region_types", "refused"), [(["TRACT", "PR-TRACT"], ""), (["TRACT"], "PR"), (["PR-TRACT"], "US")]
)
def test_a_run_without_any_region_is_refused(warehouse: Warehouse, region_types: list[str], refused: str) -> None:
    """Otherwise a file of a state under a declaration for Puerto Rico would be charged, without any measurement."""
    release = declared(budgets={"TRACT 2 T3": 1})[0]
    rows = [{"region_type": each, "number": 0, "region_id": "72001000100"} for each in region_types]
    with warehouse.session(writes=Zone.PUBLIC) as session:
        stored = session.register("stored", pa.Table.from_pylist(rows))
        session.create(release.public(REGIONS), "warehouse/all", source=stored)
        if not refused:
            require_regions(session, release)
            return
        with pytest.raises(RecordsError, match=f"no unit in a state of the {refused} run"):
            require_regions(session, release)


@pytest.mark.parametrize(("thresholds", "refused"), [([971, 4971, 19_971], False), ([0, 0, 0], True)])
def test_a_release_of_too_many_empty_groups_in_detail_is_refused(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, thresholds: list[int], refused: bool
) -> None:
    """Thresholds of 0 publish half of all empty groups in the finest detail: 23 numbers for each group."""
    monkeypatch.setattr("assets.safetab.measurements.MOST_NUMBERS", 100_000)
    release = declared({"thresholds": {"TRACT 2": thresholds}}, budgets={"TRACT 2 T3": 1})[0]
    rows = [{"region_type": "TRACT", "number": each, "region_id": f"{each:011d}"} for each in range(1000)]
    with warehouse.session(writes=Zone.PUBLIC) as session:
        stored = session.register("stored", pa.Table.from_pylist(rows))
        session.create(release.public(REGIONS), "warehouse/all", source=stored)
        if not refused:
            require_storable(session, release)
            return
        with pytest.raises(
            DeclarationError, match=r"of groups without persons, about [0-9,]+ numbers would be published"
        ):
            require_storable(session, release)
