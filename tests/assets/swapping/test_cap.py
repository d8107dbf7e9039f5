"""If the cap is too small, the release stops at its charge, with nothing drawn, charged or published."""

from pathlib import Path

import pytest

from mechanisms.accounting.losses import PureLoss
from tests.deployments import SHOWN, TO_PUBLICATION, Deployment, small_deployment
from tests.depth import deep_cases


def tables(deployment: Deployment) -> set[str]:
    with deployment.opened() as connection:
        return {name for (name,) in connection.execute("SHOW TABLES").fetchall()}


@deep_cases(1)
@pytest.mark.prove
@pytest.mark.parametrize("custody", ["escrowed", "ephemeral"])
def test_a_cap_too_small_stops_the_release_at_its_charge(custody: str, tmp_path: Path) -> None:
    deployment = small_deployment(tmp_path, custody=custody, dataset={"cap": 4})
    result = deployment.run(*TO_PUBLICATION, raise_on_error=False)
    assert not result.success
    assert deployment.executed(result) == {"cef", "invariants"}
    assert tables(deployment) == {"invariant_holding", "invariant_swap", "records", "invariants_seal"}, (
        "neither charged nor drawn"
    )
    assert deployment.ledger == ()
    assert deployment.context.ledger.verify() == ()
    assert deployment.published() == {}
    assert list(tmp_path.glob("custody/ephemeral/*")) == []


@pytest.mark.deep
def test_the_refusal_names_population_release_request_charges_and_cap(tmp_path: Path) -> None:
    deployment = small_deployment(tmp_path, dataset={"cap": 4})
    refusal = deployment.refusal(*TO_PUBLICATION)
    assert refusal.startswith("village__counties__charge:")
    for said in ("population village", "Release village/counties", "4.1272", "cap of ε = 4.", "charged ε = 0.0000 of"):
        assert said in refusal


@pytest.mark.prove
def test_a_second_release_that_does_not_fit_leaves_the_first_unchanged(tmp_path: Path) -> None:
    first = small_deployment(tmp_path, dataset={"cap": "8"})
    first.reach(*TO_PUBLICATION, *SHOWN)
    files, ledger = first.published(), first.ledger
    second = small_deployment(tmp_path, name="again", custody="ephemeral", dataset={"cap": "8"})
    refusal = second.refusal(*TO_PUBLICATION)
    assert "It is refused: the charge does not fit under the cap of ε = 8." in refusal
    assert "has been charged ε = 4.1272 of its cap of ε = 8.0000; ε = 3.8728 remains." in refusal
    (times,) = {refusal.count(words) for words in ("It is refused", "would charge", "3.8728")}
    assert times, "price and rest are stated once, wherever the refusal is repeated"
    assert second.published() == {}
    assert not tables(second) & {"charge", "draw", "swapped", "swapped_cells"}
    assert list(tmp_path.glob("custody/ephemeral/*")) == []
    assert second.ledger == ledger
    assert first.published() == files
    assert first.failed_checks() == set()
    first.run(*TO_PUBLICATION)
    assert first.published() == files, "what was charged stays good, whatever was refused since"


@pytest.mark.prove
def test_a_raised_cap_lets_the_same_draw_through(tmp_path: Path) -> None:
    small_deployment(tmp_path, dataset={"cap": 4}).refusal(*TO_PUBLICATION)
    deployment = small_deployment(tmp_path, dataset={"cap": "4.128"})
    deployment.reach(*TO_PUBLICATION)
    assert [entry.kind for entry in deployment.ledger] == ["reserve", "settle"]


@pytest.mark.deep
def test_a_charge_that_meets_the_cap_exactly_fits(tmp_path: Path) -> None:
    """ε = ln 62 lies between these caps, which differ by 10⁻¹²: the comparison is exact."""
    below = small_deployment(tmp_path, dataset={"cap": "4.127134385045"})
    assert "cap" in below.refusal("cef", "invariants", "charge")
    above = small_deployment(tmp_path, dataset={"cap": "4.127134385046"})
    above.run("invariants", "charge")
    assert [entry.kind for entry in above.ledger] == ["reserve"]


@pytest.mark.prove
def test_without_distinct_records_in_a_stratum_nothing_is_charged(tmp_path: Path) -> None:
    """b = 0 and ε = 0: every stratum holds only equal records, and swapping them has no effect."""
    units = [
        {"serial": number, "region": "N", "county": "Avon", "size": 1 + number % 2, "tenure": "own"}
        for number in range(40)
    ]
    deployment = small_deployment(tmp_path, units=units, dataset={"cap": "0.001"})
    deployment.reach(*TO_PUBLICATION)
    assert deployment.context.ledger.read().compose("village", PureLoss()).round_up(4) == 0
    assert b"Avon,2,false,false,20" in deployment.published()["size_by_county.csv"]
