"""Alterations between the invariants and the charge, and a replay of a draw that is not charged."""

from pathlib import Path

import pytest

from assets.gates.shared import all_gates
from tests.deployments import TO_PUBLICATION, small_deployment, write_csv

pytestmark = pytest.mark.deep


def test_strata_renumbered_before_the_charge_do_not_change_epsilon_and_are_found(tmp_path: Path) -> None:
    deployment = small_deployment(tmp_path)
    deployment.reach("cef", "invariants")
    with deployment.opened() as connection:
        connection.execute("UPDATE invariant_holding SET stratum = holding_code")
        connection.execute("UPDATE invariant_swap SET stratum = stratum + 1000000")
    deployment.run("charge", "swapped", "tables", "ledger", "composition", "publication", raise_on_error=False)
    assert deployment.published() == {}
    assert all(entry.parse_specification().loss.argument > 1 for entry in deployment.ledger if entry.specification)
    assert "margins_of_the_cef" in deployment.failed_checks()


def test_the_replay_makes_no_draw_that_is_not_charged(tmp_path: Path) -> None:
    deployment = small_deployment(tmp_path)
    deployment.reach(*TO_PUBLICATION)
    rows = [line.split(",") for line in (tmp_path / "units.csv").read_text().split()]
    changed = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    changed[0]["tenure"] = "own" if changed[0]["tenure"] == "rent" else "rent"
    write_csv(tmp_path / "units.csv", changed)
    deployment.reach("cef", "invariants")
    (replay,) = (gate for gate in all_gates(deployment.context.method) if gate.name == "replay")
    (said,) = replay.problems(deployment.context)
    assert "not charged" in said
    assert "differing" not in said
