"""The asset `composition` of a census that was swapped and measured: its releases side by side, in one reading of the
ledger.
"""

import base64
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.phsafe.release import PHSafeRelease
from assets.swapping.declaration import SwappingDeclaration
from mechanisms.accounting.composition import compose_approximate
from mechanisms.accounting.losses import ConcentratedLoss, PureLoss, format_loss
from mechanisms.accounting.specification import DELTA, Specification
from mechanisms.phsafe.design import PHSafeDesign
from orchestration.components import PermutationSwapping
from tests.deployments import Deployment
from tests.phsafe_deployments import FEW, TO_DRAW, phsafe_deployment

pytestmark = pytest.mark.deep


COMPOSITION = dg.AssetKey(["town", "composition"])
SWAPPING = [dg.AssetKey(["town", "blocks", stage]) for stage in ("invariants", "charge", "swapped")]
MORE = FEW | {"PH2": {"truncation": 3, "budget": {"state_*": "1/4"}}}
DECLARED = {
    "name": "blocks",
    "dataset": "town",
    "title": "Units by block",
    "match": ["TABBLKST", "RTYPE", "FINAL_POP"],
    "swap": ["TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE", "TABBLK", "PLACEFP", "AIANNHCE"],
    "swap_rate": "1/10",
    "publishes_unique_records": "accepted",
}


def town(root: Path, runs: dict[str, Any]) -> Deployment[PHSafeRelease]:
    swapping = PermutationSwapping(SwappingDeclaration.model_validate(DECLARED))
    return phsafe_deployment(root, runs=runs, beside=[swapping], dataset={"cap": {"epsilon": 60, "delta": "1e-10"}})


@dataclass(frozen=True)
class Seen:
    """The asset's stored rows and metadata."""

    rows: list[dict[str, Any]]
    totals: list[dict[str, Any]]
    shown: dict[str, str]
    version: str

    def latest(self) -> dict[str, dict[str, Any]]:
        return {row["release"]: row for row in self.rows if row["latest"]}


def composed(deployment: Deployment[PHSafeRelease]) -> Seen:
    deployment.run_assets(dg.AssetKey("ledger"), COMPOSITION)
    event = deployment.instance.get_latest_materialization_event(COMPOSITION)
    assert event
    assert event.asset_materialization
    # Without the marks that keep Markdown from changing words.
    shown = {name: str(value.value).replace("\\", "") for name, value in event.asset_materialization.metadata.items()}
    with deployment.opened() as connection:
        rows = connection.execute("FROM town.composition_releases ORDER BY entry").to_arrow_table().to_pylist()
        totals = connection.execute("FROM town.composition").to_arrow_table().to_pylist()
    return Seen(rows, totals, shown, deployment.versions()["town/composition"])


@dataclass(frozen=True)
class Town:
    """The same census after a measurement and a swap, and after another measurement of the same release."""

    deployment: Deployment[PHSafeRelease]
    first: Specification
    second: Specification
    before: Seen
    after: Seen


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Town:
    root = tmp_path_factory.mktemp("town")
    deployment, later = town(root, FEW), town(root, MORE)
    deployment.reach(*TO_DRAW)
    deployment.run_assets(*SWAPPING)
    before = composed(deployment)
    later.run("charge", "noisy_measurements")
    first, second = (each.release.design.specification("town") for each in (deployment, later))
    return Town(later, first, second, before, composed(later))


def epsilon(both: Town) -> PureLoss:
    """ln((b + 1)(1 − p)/p), with the b that was charged."""
    with both.deployment.opened() as connection:
        ((b,),) = connection.execute("SELECT largest_stratum FROM town__blocks.charge").fetchall()
    return PureLoss.logarithm(9 * (b + 1))


def test_each_release_is_shown_with_its_five_building_blocks(both: Town) -> None:
    noisy, swapped = both.before.latest()["s_dhc"], both.before.latest()["blocks"]
    assert len(both.before.rows) == 2
    assert noisy["domain"] == both.first.flavor.domain != swapped["domain"]
    assert noisy["invariants"] == list(PHSafeDesign.multiverse)
    assert swapped["invariants"][1] == "the number of units by " + " × ".join(
        [*sorted(DECLARED["match"]), *sorted(DECLARED["swap"])]
    )
    assert len(swapped["invariants"]) == 2
    assert (noisy["unit"], noisy["changes_per_person"]) == ("person", None)
    assert (swapped["unit"], swapped["changes_per_person"]) == ("unit", 1)
    assert noisy["output_premetric"] == ConcentratedLoss.output_premetric
    assert swapped["output_premetric"] == PureLoss.output_premetric
    assert (noisy["rho"], noisy["ln"]) == (str(both.first.loss), None)
    assert (swapped["rational"], swapped["ln"], swapped["rho"]) == ("0", str(epsilon(both).argument), None)
    assert noisy["settled"] is swapped["settled"] is True


def test_a_release_charged_twice_has_a_row_for_each_charge_and_the_last_is_the_latest(both: Town) -> None:
    assert [(row["release"], row["entry"], row["latest"], row["rho"]) for row in both.after.rows] == [
        ("s_dhc", 1, False, str(both.first.loss)),
        ("blocks", 3, True, None),
        ("s_dhc", 5, True, str(both.second.loss)),
    ]
    assert both.first.loss != both.second.loss
    assert both.after.shown["charges"] == "3"
    assert "s_dhc was charged 2 times (ledger entries 1 and 5)" in both.after.shown["what adds up"]
    assert f"'loss': '{format_loss(both.second.loss, 4)}'" in both.after.shown["releases"]
    assert format_loss(both.first.loss, 4) not in both.after.shown["releases"]


def test_every_charge_is_in_exactly_the_totals_with_which_it_composes(both: Town) -> None:
    losses = [both.first.loss, epsilon(both), both.second.loss]
    rho = sum((Fraction(str(loss)) for loss in (both.first.loss, both.second.loss)), Fraction())
    rho += ConcentratedLoss.of_pure(epsilon(both)).rho
    found = {(row["unit"], row["output_premetric"].rpartition("(")[2]): row for row in both.after.totals}
    assert found["person", "zCDP)"]["rho"] == str(rho)
    assert found["person", "zCDP)"]["charges"] == 3
    together = compose_approximate(losses, DELTA)
    assert found["person", "approximate DP)"]["loss"] == float(together.round_up(4))
    for unit in ("person", "unit"):
        assert found[unit, "pure DP)"]["ln"] == str(epsilon(both).argument)
        assert found[unit, "pure DP)"]["charges"] == 1
        assert [words.partition(":")[0] for words in found[unit, "pure DP)"]["left_out"]] == ["2 releases"]
    assert both.after.shown["counted against the cap"] == format_loss(together, 4)


def test_what_is_left_out_is_shown_with_its_name_and_the_reason(both: Town) -> None:
    said = both.before.shown["what they count"].splitlines()
    pure = [line for line in said if line.startswith(f"- **{format_loss(epsilon(both), 4)} for one ")]
    assert [line.partition("; leaves out ")[2] for line in pure] == [
        "s_dhc: ρ-zCDP lets probabilities differ by any factor, if rarely: no ε holds without a δ",
        "s_dhc: a guarantee for one person bounds no change of a unit",
    ]


def test_the_invariants_of_all_releases_are_shown_with_their_holders(both: Town) -> None:
    swapping = both.before.latest()["blocks"]["invariants"]
    assert both.before.shown["invariants"].splitlines() == [
        f"- {PHSafeDesign.multiverse[0]} (s_dhc)",
        *(f"- {words} (blocks)" for words in swapping),
    ]
    said = both.before.shown["what adds up"]
    assert "every invariant of all the releases it counts: on 3," in said
    assert "(s_dhc alone has 1 and blocks alone has 2)" in said


def test_the_picture_is_shown(both: Town) -> None:
    shown = both.after.shown["releases side by side"]
    words, _, data = shown.removeprefix("![").partition("](data:image/png;base64,")
    assert words.startswith("Bars of the losses of blocks with ε = 5.5295 and s_dhc with ρ = 0.8400, under a cap")
    picture = base64.b64decode(data.rstrip(")"))
    assert picture.startswith(b"\x89PNG")
    assert shown != both.before.shown["releases side by side"]


def test_the_version_is_that_of_the_ledger_and_changes_with_a_charge(both: Town) -> None:
    assert composed(both.deployment) == both.after
    assert both.before.version != both.after.version


def test_an_altered_ledger_is_not_composed(both: Town) -> None:
    altered = "UPDATE ledger.main.entries SET recorded_at = '{}' WHERE sequence = 3"
    with both.deployment.opened("ledger") as connection:
        ((recorded,),) = connection.execute("SELECT recorded_at FROM ledger.main.entries WHERE sequence = 3").fetchall()
        connection.execute(altered.format("2020-04-01T00:00:00+00:00"))
    result = both.deployment.run_assets(COMPOSITION, raise_on_error=False)
    with both.deployment.opened("ledger") as connection:
        connection.execute(altered.format(recorded))
    assert not result.success
    assert "composition" not in both.deployment.executed(result)
