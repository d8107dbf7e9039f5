"""The published figures of 1940 Massachusetts, from the built-in source through the mechanism.

Source: Bailie, Gong and Meng, Table 1. The published swapped column is one draw; the tests compare expectations.
"""

import math
from collections import Counter
from fractions import Fraction
from pathlib import Path

import dagster as dg
import pytest

from assets.cef.ingestion import ingest
from assets.release.dataset import DatasetDeclaration
from assets.swapping.draw import stage_decoded
from assets.swapping.invariants import write_invariants
from assets.swapping.records import read_contingency, stage_records
from assets.swapping.release import SwappingRelease
from mechanisms.sampling.stream import RandomStream
from mechanisms.swapping.permutation import Contingency, permute
from orchestration.components.dataset import Dataset
from orchestration.components.swapping import PermutationSwapping
from resources.statements import Zone
from resources.warehouse import Session, Warehouse

ROOT = Path(__file__).resolve().parents[3]
DRAWS = 20
PUBLISHED = {"Barnstable": (7_461, 11_286, 5_907), "Suffolk": (49_656, 226_209, 67_357)}
"""By county: owned dwellings, all dwellings, and owned dwellings in the published draw at p = 1/2."""
OWNED, TOTAL = 435_805, 1_144_424


def declared() -> tuple[DatasetDeclaration, SwappingRelease]:
    tree = dg.ComponentTree.for_project(ROOT / "orchestration")
    datasets = [component.declaration for component in tree.get_all_components(Dataset)]
    (dataset,) = (declaration for declaration in datasets if declaration.name == "ma1940")
    swapped = tree.get_all_components(PermutationSwapping)
    (component,) = (component for component in swapped if component.declaration.dataset == "ma1940")
    return dataset, component.release(dataset, ROOT / "published")


def owned_by_county(session: Session, release: SwappingRelease, table: Contingency) -> Counter[str]:
    cells = session.arrow("warehouse/all", source=stage_decoded(session, release, table, "values"))
    owned: Counter[str] = Counter()
    for row in cells.to_pylist():
        owned[row["county"]] += row["count"] if row["tenure"] == "owned" else 0
    return owned


@pytest.fixture(scope="module")
def draws(tmp_path_factory: pytest.TempPathFactory) -> list[Counter[str]]:
    """Owned dwellings by county: in the records, then in each of 20 draws with fixed keys."""
    dataset, release = declared()
    warehouse = Warehouse(folder=str(tmp_path_factory.mktemp("warehouse")))
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        ingest(session, dataset, ROOT, bytes(32))
    with warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC) as session:
        with session.transaction():
            write_invariants(session, release, bytes(32))
        records = read_contingency(session, release, stage_records(session, release))
        drawn = [permute(records, Fraction(1, 2), RandomStream(bytes(32), str(draw))) for draw in range(DRAWS)]
        return [owned_by_county(session, release, table) for table in (records, *drawn)]


def expected(county: str) -> float:
    """Half of the dwellings keep their county. The places of the other half are filled like the state as a whole."""
    owned, dwellings, _ = PUBLISHED[county]
    return owned / 2 + dwellings / 2 * OWNED / TOTAL


@pytest.mark.prove
def test_the_source_has_the_published_owned_dwellings(draws: list[Counter[str]]) -> None:
    assert sum(draws[0].values()) == OWNED
    for county, (owned, _, _) in PUBLISHED.items():
        assert draws[0][county] == owned
    page = (ROOT / "docs" / "explanation" / "board.md").read_text("utf-8")
    assert f"the table had {draws[1]['Barnstable']:,}." in page


def test_the_expectations_match_the_stated_ones() -> None:
    assert round(expected("Barnstable"), -1) == 5_880
    assert round(expected("Suffolk"), -2) == 67_900


@pytest.mark.prove
@pytest.mark.parametrize("county", PUBLISHED)
def test_draws_at_one_half_scatter_about_the_expectation(draws: list[Counter[str]], county: str) -> None:
    """The mean of 20 draws, within five standard errors (false alarm below 1e-6 a county, fixed keys).

    A dwelling from anywhere in the state fills the place of each selected dwelling, so the count's variance is below a
    quarter of the county's dwellings. A mechanism that moved 45% or 55% of the dwellings would differ by far more.
    """
    _, dwellings, published = PUBLISHED[county]
    error = math.sqrt(dwellings / 4 / DRAWS)
    mean = sum(drawn[county] for drawn in draws[1:]) / DRAWS
    # The sizes are spread evenly, not exactly so: at most one dwelling a size and county-by-tenure cell.
    assert abs(mean - expected(county)) < 5 * error + 12
    moved = (PUBLISHED[county][0] - dwellings * OWNED / TOTAL) * 0.05
    assert abs(moved) > 5 * error + 12
    # The published draw is one of the mechanism's.
    assert abs(published - expected(county)) < 5 * math.sqrt(dwellings / 4) + 12
