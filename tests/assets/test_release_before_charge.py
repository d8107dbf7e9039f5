"""What is altered between the invariants and the charge, and what is asked without a charge."""

from pathlib import Path

from tests.house import small_house, write_csv


def test_strata_numbered_anew_before_the_charge_change_neither_epsilon_nor_go_unseen(tmp_path: Path) -> None:
    house = small_house(tmp_path)
    house.run("cef", "invariants")
    with house.opened() as connection:
        connection.execute("UPDATE invariant_holding SET stratum = holding_code")
        connection.execute("UPDATE invariant_swap SET stratum = stratum + 1000000")
    house.run("charge", "swapped", "tables", "ledger", "composition", "publication", raise_on_error=False)
    assert house.published() == {}
    assert all(entry.declared().loss.argument > 1 for entry in house.ledger if entry.specification)
    assert "margins_of_the_cef" in house.failed_checks()


def test_the_replay_makes_no_draw_that_is_not_charged(tmp_path: Path) -> None:
    house = small_house(tmp_path)
    house.run()
    rows = [line.split(",") for line in (tmp_path / "units.csv").read_text().split()]
    changed = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    changed[0]["tenure"] = "own" if changed[0]["tenure"] == "rent" else "rent"
    write_csv(tmp_path / "units.csv", changed)
    house.run("cef", "invariants")
    (replay,) = (promise for promise in house.house.method.promises() if promise.name == "replay")
    (said,) = replay.broken(house.house)
    assert "not charged" in said
    assert "differing" not in said
