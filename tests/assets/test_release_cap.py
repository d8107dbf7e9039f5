"""A cap too small: the release stops at its charge, with nothing drawn, charged or published."""

from pathlib import Path

import pytest

from mechanisms.accounting.loss import PureLoss
from tests.house import TO_PUBLICATION, SmallHouse, small_house


def tables(house: SmallHouse) -> set[str]:
    with house.opened() as connection:
        return {name for (name,) in connection.execute("SHOW TABLES").fetchall()}


@pytest.mark.parametrize("custody", ["escrowed", "ephemeral"])
def test_a_cap_too_small_stops_the_release_at_its_charge(custody: str, tmp_path: Path) -> None:
    house = small_house(tmp_path, custody=custody, dataset={"cap": 4})
    result = house.run(*TO_PUBLICATION, raise_on_error=False)
    assert not result.success
    assert house.executed(result) == {"cef", "invariants"}
    assert tables(house) == {"invariant_holding", "invariant_swap", "records"}, "neither charged nor drawn"
    assert house.ledger == ()
    assert house.house.ledger.verify() == ()
    assert house.published() == {}
    assert list(tmp_path.glob("custody/ephemeral/*")) == []


def test_the_refusal_says_dataset_release_what_is_asked_what_is_charged_and_the_cap(tmp_path: Path) -> None:
    house = small_house(tmp_path, dataset={"cap": 4})
    refusal = house.refusal(*TO_PUBLICATION)
    assert refusal.startswith("village__counties__charge:")
    for said in ("dataset village", "release counties", "4.13", "cap of ε = 4", "ε = 0.00 is charged"):
        assert said in refusal


def test_a_second_release_that_does_not_fit_leaves_the_first_as_it_is(tmp_path: Path) -> None:
    first = small_house(tmp_path, dataset={"cap": "8"})
    first.run(*TO_PUBLICATION)
    files, ledger = first.published(), first.ledger
    second = small_house(tmp_path, name="again", custody="ephemeral", dataset={"cap": "8"})
    refusal = second.refusal(*TO_PUBLICATION)
    assert "ε = 4.13 is charged so far and ε = 3.87 remains" in refusal
    assert second.published() == {}
    assert not tables(second) & {"charge", "draw", "swapped", "swapped_cells"}
    assert list(tmp_path.glob("custody/ephemeral/*")) == []
    assert second.ledger == ledger
    assert first.published() == files
    assert first.failed_checks() == set()
    first.run(*TO_PUBLICATION)
    assert first.published() == files, "what was charged stays good, whatever was refused since"


def test_a_raised_cap_lets_the_same_draw_through(tmp_path: Path) -> None:
    small_house(tmp_path, dataset={"cap": 4}).refusal(*TO_PUBLICATION)
    house = small_house(tmp_path, dataset={"cap": "4.128"})
    house.run(*TO_PUBLICATION)
    assert [entry.kind for entry in house.ledger] == ["reserve", "settle"]


def test_a_charge_that_meets_the_cap_exactly_fits(tmp_path: Path) -> None:
    """ε = ln 62 lies between these caps, which differ by 10⁻¹⁵: the comparison is exact, not one of floats."""
    below = small_house(tmp_path, dataset={"cap": "4.127134385045091"})
    assert "cap" in below.refusal("cef", "invariants", "charge")
    above = small_house(tmp_path, dataset={"cap": "4.127134385045093"})
    above.run("invariants", "charge")
    assert [entry.kind for entry in above.ledger] == ["reserve"]


def test_without_distinct_records_in_a_stratum_nothing_is_lost_and_nothing_charged(tmp_path: Path) -> None:
    """b = 0, ε = 0: every stratum holds equal records only, and swapping them changes nothing."""
    units = [
        {"serial": number, "region": "N", "county": "Avon", "size": 1 + number % 2, "tenure": "own"}
        for number in range(40)
    ]
    house = small_house(tmp_path, units=units, dataset={"cap": "0.001"})
    house.run(*TO_PUBLICATION)
    assert house.house.ledger.charged("village", PureLoss()).rounded_up(4) == 0
    assert b"Avon,2,20" in house.published()["size_by_county.csv"]
