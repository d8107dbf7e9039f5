"""Records charged as confidential are never charged or published as synthetic.

Synthetic records are charged without an authorization, and their certificate says that none is about a real person. The
wrong program here believes the word `synthetic` of a declaration, before or after a charge.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from assets.gates.shared import all_gates
from assets.ledger.asset import find_cap_problems
from resources.chain import Details
from resources.custody import CustodyMode
from resources.ledger import PopulationError
from tests.assets.charge.test_same_people import SPECIFICATION, Office, people, without
from tests.deployments import small_deployment

REAL = Details("people", ("cef", "file"), synthetic=False)


@pytest.mark.parametrize(
    ("charged", "dataset", "asked", "said"),
    [
        (REAL, "census", replace(REAL, contents=("new", "newer")), "charged as dataset census to population people"),
        (REAL, "copy", Details("others", ("new", "file")), "charged as dataset census to population people"),
        (REAL, "copy", Details("people", ("new", "newer")), "population people is of real people: dataset census"),
        (replace(REAL, synthetic=True), "census", REAL, ""),
        (replace(REAL, synthetic=None), "census", REAL, ""),
    ],
)
def test_a_dataset_is_no_longer_synthetic_once_it_or_its_people_are_charged_as_confidential(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, charged: Details, dataset: str, asked: Details, said: str
) -> None:
    monkeypatch.delenv("STIRRED_MASTER_KEY", raising=False)
    office = Office(tmp_path)
    office.ledger.reserve("census", "tables", "1" * 64, SPECIFICATION, CustodyMode.ESCROWED, None, charged)
    given = dataset, "more", "2" * 64, SPECIFICATION, CustodyMode.ESCROWED, None
    if said:
        with pytest.raises(PopulationError, match=f"{dataset} is declared synthetic, but .*{said}"):
            office.ledger.reserve(*given, replace(asked, synthetic=True))
        assert len(office.ledger.entries()) == 1
    else:
        office.ledger.reserve(*given, replace(asked, synthetic=True))
        # Records charged as synthetic may later be declared confidential.
        office.ledger.reserve(dataset, "last", "3" * 64, SPECIFICATION, CustodyMode.ESCROWED, None, asked)


def test_records_that_resemble_confidential_ones_are_not_shown_as_synthetic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under another name, in another order, without a column and as integers: the declarations have no field in common.

    Synthetic records are distinguished from them, and from charged ones that were synthetic too.
    """
    monkeypatch.delenv("STIRRED_MASTER_KEY", raising=False)
    office = Office(tmp_path)
    office.charge(replace(office.read("real", people(seed=2)), synthetic=False))
    office.charge(replace(office.read("made", people(seed=3)), synthetic=True))
    copy = replace(office.read("copy", people(seed=2)[1:], without("age")), synthetic=True)
    with pytest.raises(PopulationError, match="charged records are confidential: declare copy without synthetic"):
        office.ledger.require_synthetic("copy", copy)
    for seed in (3, 4):
        office.ledger.require_synthetic("other", replace(office.read("other", people(seed=seed)), synthetic=True))


def test_a_draw_that_was_charged_as_confidential_is_not_published_as_synthetic(tmp_path: Path) -> None:
    """The draw is the same and its charge exists already, so the release would not be charged."""
    small_deployment(tmp_path, dataset={"charging": "automatic"}).reach("cef", "invariants", "charge", "swapped")
    experiment = {"product": "tenure_by_county", "swap_rates": ["1/2"], "draws": 1}
    lying = small_deployment(tmp_path, dataset={"synthetic": True}, experiment=experiment)
    for stage in ("charge", "experiment", "cef", "utility"):
        assert "is declared synthetic, but its records are confidential" in lying.refusal(stage)
    for shown in ("cef", "utility"):
        event = lying.instance.get_latest_materialization_event(lying.key(shown))
        assert event is None or "synthetic" not in str(event.asset_materialization)
    (gate,) = (gate for gate in all_gates(lying.context.method) if gate.name == "charge_present")
    assert "from confidential records, not from synthetic ones" in gate.problems(lying.context)[0]
    assert "its records are confidential" in find_cap_problems(lying.release.dataset, lying.context.ledger.read())[0]
    assert [entry.kind for entry in lying.ledger] == ["reserve", "settle"]
