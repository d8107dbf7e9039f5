"""The contents of versions and seals of exact counts, besides the counts themselves.

Versions are in certificates and in Dagster's event log, and cover the rules by which values are counted as others, or
not at all. If they were the same with another bound, every reader would know that no record lies between the two
bounds, and this knowledge would not be charged. Seals cover all parameters from which the counts follow.
"""

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest import mock

import dagster as dg
import pytest

from assets.cef.census import detailed_files
from assets.pair_swapping.declaration import PairSwappingDeclaration
from assets.phsafe.declaration import PHSafeDeclaration
from assets.release.release import Release
from assets.topdown.method import TopDownMethod
from orchestration.components.pair_swapping import PairSwapping2010
from orchestration.components.phsafe import PHSafe
from orchestration.components.topdown import TopDown
from tests.deployments import households, small_dataset
from tests.pair_swapping_deployments import PRODUCTS
from tests.phsafe_deployments import FEW, census_dataset
from tests.safetab_deployments import safetab_components
from tests.table_builder_deployments import STATISTICS, hypercube_deployment, hypercubes
from tests.topdown_deployments import TWO_LEVELS, topdown_dataset, topdown_declaration


def sums(name: str, most: int) -> dict[str, Any]:
    amount = {"column": "size", "grid": 1, "most": most}
    return {"name": name, "variables": ["county"], "epsilon": 1, "value": amount}


def of_sums(root: Path, most: int) -> Release:
    return hypercubes("village", sums("sizes", most))[0].release(small_dataset(root, with_persons=True), root)


def of_quantiles(root: Path, most: int) -> Release:
    size = {"size": STATISTICS["quantiles"]["size"] | {"bounds": [1, most]}}
    _, quantiles, _ = hypercubes("village", STATISTICS | {"quantiles": size})
    return quantiles.release(small_dataset(root, with_persons=True), root)


def truncated(root: Path, most: int) -> Release:
    runs = {"PH2": FEW["PH2"] | {"truncation": most}}
    given = {"name": "s_dhc", "dataset": "town", "title": "Persons", "states": ["10"], "runs": runs}
    return PHSafe(PHSafeDeclaration.model_validate(given)).release(census_dataset(root), root)


def with_races(root: Path, most: int) -> Release:
    files = [str(root / name) for name in ("blocks.txt", "persons.txt", "households.txt")]
    dataset = detailed_files(*files, name="town", title="A town", cap={"rho": 60})
    return safetab_components({"max_race_codes": most})[0].release(dataset, root)


def with_imputed(root: Path, values: list[str]) -> Release:
    given = {"name": "pairs", "dataset": "town", "title": "Swapped", "key": ["HHRACE", "HHSPAN"], "products": PRODUCTS}
    given |= {"imputed": {"column": "HHT", "values": values}, "swap_rate": "1/2"}
    component = PairSwapping2010(PairSwappingDeclaration.model_validate(given))
    return component.release(census_dataset(root, unbounded_releases="allowed"), root)


@pytest.mark.parametrize(
    ("declare", "one", "other"),
    [
        (of_sums, 9, 12),
        (of_quantiles, 9, 12),
        (truncated, 30, 40),
        (with_races, 7, 8),
        (with_imputed, ["1"], ["1", "2"]),
    ],
)
def test_another_rule_is_another_key_of_versions(
    declare: Callable[[Path, Any], Release], one: Any, other: Any, tmp_path: Path
) -> None:
    custody = mock.Mock(version_key=lambda: bytes(32))
    keys = [declare(tmp_path, rule).version_key(custody) for rule in (one, one, other)]
    assert keys[0] == keys[1] != keys[2]


def test_redistricting_data_are_charged_of_their_own_places_and_invariants_alone(tmp_path: Path) -> None:
    """The seals that the charge checks have both; the draw has them already, so it stays the same."""
    invariants = {"population": "Nation"}
    declared = [TWO_LEVELS, TWO_LEVELS | {"invariants": invariants}]
    by_tract = {"Nation": [], "Block": ["TABBLKST", "TABBLKCOU", "TABTRACTCE"]}
    releases = [
        TopDown(topdown_declaration(**fields)).release(topdown_dataset(tmp_path), tmp_path)
        for fields in (*declared, TWO_LEVELS | {"spine": by_tract})
    ]
    with_each = [release.counted_with for release in releases]
    assert all(one != other for one, other in combinations(with_each, 2))
    for release in releases:
        assert TopDownMethod(release).parameters() == release.design.as_record()


@pytest.mark.prove
def test_the_same_sums_within_other_bounds_have_another_version(tmp_path: Path) -> None:
    """A program whose versions are of the counts alone has only two versions of the three sums of sizes here."""
    most = max(row["size"] for row in households())
    cubes = [sums(name, bound) for name, bound in {"below": most - 1, "at": most, "above": most + 5}.items()]
    deployment = hypercube_deployment(tmp_path / "village", *cubes)
    counted = [dg.AssetKey(["village", f"tables_{cube['name']}", "counts"]) for cube in cubes]
    deployment.run_assets(deployment.key("cef"), *counted, checks=False)
    versions = [deployment.versions()[key.to_user_string()] for key in counted]
    tables = [f"confidential.village__tables_{cube['name']}.counts" for cube in cubes]
    with deployment.opened("confidential") as connection:
        found = [connection.sql(f"SELECT * FROM {table} ORDER BY ALL").fetchall() for table in tables]
    assert found[0] != found[1] == found[2]
    assert len(set(versions)) == 3
