"""An S-DHC release beside others: the joint loss of a dataset's releases, and a release of exact counts for tuning."""

import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.confidentiality import find_leaks
from assets.phsafe.release import PHSafeRelease
from assets.swapping.declaration import SwappingDeclaration
from mechanisms.accounting.composition import canonne_kamath_steinke
from mechanisms.accounting.losses import ConcentratedLoss, PureLoss
from orchestration.components import PermutationSwapping
from tests.deployments import Deployment
from tests.phsafe_deployments import FEW, TO_COUNTS, TO_DRAW, Files, census, changed, phsafe_deployment

pytestmark = pytest.mark.deep


PHSafeDeployment = Deployment[PHSafeRelease]

# Together with a release by swapping


def in_two_counties() -> Files:
    """A small census in two counties of each state; within a single one, swapping counties would change nothing."""

    def counties(rows: list[dict[str, str]]) -> None:
        for number, row in enumerate(rows):
            row["TABBLKCOU"] = ("001", "003")[number % 2]

    return changed(census(), geo=counties)


SWAPPED = [dg.AssetKey(["town", "counties", stage]) for stage in ("invariants", "charge", "swapped")]


def with_swapping(root: Path, cap: Mapping[str, Any]) -> PHSafeDeployment:
    swapping = SwappingDeclaration.model_validate(
        {
            "name": "counties",
            "dataset": "town",
            "title": "Units by county",
            "match": ["TABBLKST", "FINAL_POP"],
            "swap": ["TABBLKCOU"],
            "swap_rate": "1/10",
            "publishes_unique_records": "accepted",
        }
    )
    return phsafe_deployment(
        root, files=in_two_counties(), runs=FEW, beside=[PermutationSwapping(swapping)], dataset={"cap": cap}
    )


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> PHSafeDeployment:
    """A census whose S-DHC was measured, and whose counties were swapped."""
    deployment = with_swapping(tmp_path_factory.mktemp("both"), {"rho": 40})
    deployment.reach(*TO_DRAW)
    deployment.run_assets(*SWAPPED, dg.AssetKey("ledger"), dg.AssetKey(["town", "composition"]))
    return deployment


def largest_stratum() -> int:
    """The number of units in the largest stratum (state and population), which are not all alike."""
    files = in_two_counties()
    states = {row["MAFID"]: row["TABBLKST"] for row in files["geo"]}
    strata: dict[tuple[str, str], int] = {}
    for unit in files["units"]:
        stratum = (states[unit["MAFID"]], unit["FINAL_POP"])
        strata[stratum] = strata.get(stratum, 0) + 1
    return max(strata.values())


@pytest.mark.prove
def test_the_composition_has_both_side_by_side_with_what_is_left_out_and_why(both: PHSafeDeployment) -> None:
    """ε = ln((b + 1)(1 − p)/p) of the swapping is ε²/2 in zCDP; an S-DHC's ρ is no ε, and bounds no unit."""
    epsilon = PureLoss(Fraction(0), Fraction(9 * (largest_stratum() + 1)))
    rho = Fraction("0.54")
    together = ConcentratedLoss(rho + ConcentratedLoss.of_pure(epsilon).rho)
    with both.opened() as connection:
        rows = connection.execute("SELECT unit, output_premetric, loss, delta, charges, left_out FROM town.composition")
        found = {(unit, premetric.split("(")[1]): values for unit, premetric, *values in rows.fetchall()}
    no_epsilon = "1 release: ρ-zCDP lets probabilities differ by any factor, if rarely: no ε holds without a δ"
    no_unit = "1 release: a guarantee for one person bounds no change of a unit"
    in_pure_dp = float(epsilon.round_up(4))
    converted = [
        Fraction(canonne_kamath_steinke(together, Fraction(1, 10**10), 4)),
        Fraction(canonne_kamath_steinke(ConcentratedLoss(rho), Fraction(1, 10**10), 4)) + Fraction(in_pure_dp),
    ]
    assert found["person", "pure DP)"] == [in_pure_dp, None, 1, [no_epsilon]]
    assert found["unit", "pure DP)"] == [in_pure_dp, None, 1, [no_unit]]
    assert found["person", "zCDP)"] == [float(together.round_up(4)), None, 2, []]
    assert found["person", "approximate DP)"][1:] == ["1/10000000000", 2, []]
    assert found["person", "approximate DP)"][0] == pytest.approx(float(min(converted)), abs=2e-4)
    assert len(found) == 4


@pytest.mark.prove
def test_both_count_under_the_one_cap(both: PHSafeDeployment) -> None:
    event = both.instance.get_latest_materialization_event(dg.AssetKey(["town", "composition"]))
    assert event
    assert event.asset_materialization
    shown = {name: str(value.value) for name, value in event.asset_materialization.metadata.items()}
    epsilon = PureLoss(Fraction(0), Fraction(9 * (largest_stratum() + 1)))
    together = ConcentratedLoss(Fraction("0.54") + ConcentratedLoss.of_pure(epsilon).rho)
    assert shown["counted against the cap"] == f"ρ = {together.round_up(4)}"
    assert shown["cap"] == "ρ = 40.0000"
    assert "whether a block has a housing unit or not" in shown["invariants"]
    assert "the number of units by FINAL\\_POP × TABBLKST × TABBLKCOU" in shown["invariants"]
    entries = [(entry.kind, entry.release) for entry in both.ledger]
    assert entries == [(kind, release) for release in ("s_dhc", "counties") for kind in ("reserve", "settle")]


@pytest.mark.prove
def test_a_cap_that_only_one_of_them_fits_under_admits_the_first_alone(tmp_path: Path) -> None:
    deployment = with_swapping(tmp_path, {"rho": "0.54"})
    deployment.reach(*TO_COUNTS, "charge")
    result = deployment.run_assets(*SWAPPED, raise_on_error=False)
    assert not result.success
    assert "swapped" not in deployment.executed(result)
    assert [entry.release for entry in deployment.ledger] == ["s_dhc"]


# Exact counts, for tuning


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> PHSafeDeployment:
    deployment = phsafe_deployment(tmp_path_factory.mktemp("exact"), dataset={"synthetic": True}, private=False)
    deployment.reach()
    return deployment


@pytest.mark.prove
def test_a_release_that_is_not_private_charges_draws_and_publishes_nothing(exact: PHSafeDeployment) -> None:
    stages = {key.path[-1] for key in exact.definitions.resolve_asset_graph().get_all_asset_keys()}
    assert stages == {
        "cef",
        "truncated_join",
        "counts",
        "exact_measurements",
        "plan",
        "ledger",
        "composition",
    }
    assert exact.ledger == ()
    assert exact.published() == {}
    assert not list(exact.root.glob("custody/ephemeral/*"))
    assert exact.failed_checks() == set()


def tables(deployment: PHSafeDeployment, zone: str) -> dict[str, list[str]]:
    with deployment.opened(zone) as connection:
        rows: list[Any] = connection.execute(
            f"SELECT name, column_names FROM (SHOW ALL TABLES) WHERE database = '{zone}'"
        ).fetchall()
    return dict(rows)


@pytest.mark.prove
def test_its_eleven_tables_are_confidential_and_have_no_noise(exact: PHSafeDeployment) -> None:
    public = tables(exact, "public")
    shared = {"composition", "composition_releases", "entries"}
    sealed = {"counts_version", "counts_seal", "cef_contents", "cef_seal"}
    assert public.keys() == {"parameters", "planning"} | sealed | shared
    written = {name: columns for name, columns in tables(exact, "confidential").items() if name.startswith("exact_")}
    assert len(written) == 11
    for name, columns in written.items():
        cell = f"{name.removeprefix('exact_').upper()}_DATA_CELL"
        assert columns == ["REGION_ID", "REGION_TYPE", "ITERATION_CODE", cell, "COUNT"]


def test_they_are_the_exact_counts_with_the_derived_files_summed(exact: PHSafeDeployment) -> None:
    sources = {"ph5_num": "ph4", "ph8_num": "ph7"}
    with exact.opened("confidential") as connection:
        connection.execute("USE confidential.town__s_dhc")
        counted = connection.execute("SELECT lower(run), count(*), sum(count) FROM counts GROUP BY run").fetchall()
        for name in {run for run, _, _ in counted} | sources.keys():
            cell = f"{name.upper()}_DATA_CELL"
            ((cells, total),) = connection.execute(
                f"SELECT count(DISTINCT (REGION_ID, ITERATION_CODE, {cell})), sum(COUNT) FROM exact_{name}"
            ).fetchall()
            ((of_source, total_of_source),) = [row[1:] for row in counted if row[0] == sources.get(name, name)]
            assert total == total_of_source > 0
            assert cells == (of_source * 2 // 3 if name == "ph8_num" else of_source)


def test_nothing_of_it_may_be_published(exact: PHSafeDeployment) -> None:
    """If a careless change made a publication from it, the walk over the graph would report that."""
    nodes = exact.context.nodes
    key = "town/s_dhc/exact_measurements"
    assert nodes[key].tags["zone"] == "confidential"
    assert "crossing" not in nodes[key].tags
    assert find_leaks(nodes, dg.AssetKey(key.split("/")))[0].startswith("a path without a draw or an invariant")


def test_no_exact_count_is_in_its_metadata(exact: PHSafeDeployment) -> None:
    event = exact.instance.get_latest_materialization_event(exact.key("exact_measurements"))
    assert event
    assert event.asset_materialization
    text = " ".join(str(value.value) for value in event.asset_materialization.metadata.values())
    assert not re.findall(r"(?<![\w.])\d+(?![\w.])", text)
