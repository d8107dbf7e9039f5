"""Every charge is authorized: a new draw needs an authorization that names its loss, or a dataset that needs none."""

import re
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from assets.charge.assessment import BY_CURVE, Assessment, assess, find_charged, predict_budget, predict_charge
from assets.charge.asset import build_charge, reserve
from assets.release.signature import PUBLIC_KEY, pem, public_key
from assets.swapping.release import SwappingRelease
from mechanisms.accounting.losses import ConcentratedLoss, Loss, PureLoss
from mechanisms.accounting.specification import Flavor, Specification
from resources.chain import Details, make_withdrawal
from resources.custody import Custody
from resources.ledger import Ledger, Reading
from tests.deployments import TO_PUBLICATION, UNITS, Deployment, households, small_dataset, small_deployment, write_csv
from tests.depth import deep_cases, quick_cases

BEFORE = ("cef", "invariants")


def ask(folder: Path) -> Deployment[SwappingRelease]:
    """A deployment whose dataset asks, with everything before the charge made."""
    deployment = small_deployment(folder / "asking", dataset={"charging": "ask", "copies": 2})
    deployment.reach(*BEFORE)
    return deployment


@pytest.fixture
def asking(tmp_path: Path) -> Deployment[SwappingRelease]:
    return ask(tmp_path)


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> tuple[Deployment[SwappingRelease], dict[str, str]]:
    """Such a deployment, which no test may charge, and the authorization that its refusal proposes."""
    deployment = ask(tmp_path_factory.mktemp("refused"))
    return deployment, authorization(deployment.refusal("charge"))


def authorization(refusal: str, by: str = "Ada Lovelace") -> dict[str, str]:
    """The authorization that a refusal proposes, with a name."""
    (draw,) = set(re.findall(r'authorized_draw: "([0-9a-f]{12})"', refusal))
    return {"authorized_loss": price_in(refusal), "authorized_draw": str(draw), "authorized_by": by}


def price_in(refusal: str) -> str:
    """The price in the first sentence of a refusal."""
    found = set(re.findall(r"would charge (ε = [0-9.]+) to population village\. ", refusal))
    (price,) = found
    return str(price)


def test_a_charge_that_nobody_authorized_stops_with_its_price(asking: Deployment[SwappingRelease]) -> None:
    refusal = asking.refusal("charge")
    sentence = refusal.splitlines()[1]
    assert sentence.startswith("Release village/counties would charge ε = ")
    assert sentence.endswith("Nobody has authorized it.")
    for said in (
        "It is the first draw of this release.",
        "has been charged ε = 0.0000 of its cap of ε = 40.0000",
        "; ε = 40.0000 remains before this charge and 35.8728 after it.",
        "Nothing was drawn, and nothing was charged.",
        "village__counties__charge:",
        f'authorized_loss: "{price_in(refusal)}"',
    ):
        assert said in refusal
    assert asking.ledger == ()


def test_nothing_is_charged_that_could_not_be_published_beside_the_key_of_another_deployment(
    asking: Deployment[SwappingRelease],
) -> None:
    custody, other = asking.context.custody, Custody(folder=str(asking.root / "other"), variable="STIRRED_OTHER_KEY")
    asking.release.published.mkdir(parents=True)
    path = asking.release.published / PUBLIC_KEY
    path.write_bytes(pem(public_key(other)))
    refusal = asking.refusal("charge")
    assert "To authorize it" not in refusal
    sentence = refusal.splitlines()[1]
    assert "It is refused: public_key.pem is not this deployment's key. " in sentence
    assert sentence.endswith("(STIRRED_PUBLISHED), or, if somebody replaced the file, remove it.")
    path.write_bytes(pem(public_key(custody)))
    assert asking.refusal("charge").splitlines()[1].endswith("Nobody has authorized it.")


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"authorized_loss": "ε = 1.0000", "authorized_by": "Ada"}, "names another loss: ε = 1.0000"),
        ({"authorized_loss": "proposed", "authorized_by": "Ada"}, "is for another draw: none is named"),
        ({"authorized_loss": "yes", "authorized_by": "Ada"}, "names another loss"),
        ({"authorized_by": "Ada"}, "Nobody has authorized it"),
        ({"authorized_draw": "proposed", "authorized_by": "Ada"}, "Nobody has authorized it"),
        (
            {"authorized_loss": "proposed", "authorized_draw": "0123456789ab", "authorized_by": "Ada"},
            "is for another draw: 0123456789ab",
        ),
        (
            {"authorized_loss": "proposed", "authorized_draw": "proposed", "authorized_by": " "},
            "names no person",
        ),
        (
            {"authorized_loss": "proposed", "authorized_draw": "proposed", "authorized_by": "<your name>"},
            "names no person",
        ),
        (
            {"authorized_loss": "proposed", "authorized_draw": "proposed", "authorized_by": "Auto\u200dmatic "},
            "names no person",
        ),
        (
            {
                "authorized_loss": "proposed",
                "authorized_draw": "proposed",
                "authorized_by": "A\n\n**Entry 9**\n- by: B",
            },
            "authorized_by has the character U+000A, and a name is one line of plain text.",
        ),
        (
            {"authorized_loss": "ε = 1.0000\n\nIt was authorized.", "authorized_by": "Ada"},
            "names another loss: ε = 1.0000  It was authorized.",
        ),
    ],
)
def test_another_amount_or_nobody_authorizes_nothing(
    refused: tuple[Deployment[SwappingRelease], dict[str, str]], given: dict[str, str], says: str
) -> None:
    deployment, proposed = refused
    deployment.authorization = {name: proposed[name] if value == "proposed" else value for name, value in given.items()}
    assert says in deployment.refusal("charge")
    assert deployment.ledger == ()


@pytest.mark.deep
def test_an_authorized_charge_says_who_when_and_for_which_run(asking: Deployment[SwappingRelease]) -> None:
    asking.authorization = authorization(asking.refusal("charge"))
    result = asking.run("charge")
    (entry,) = asking.ledger
    assert entry.parse_details().authorization == {"by": "Ada Lovelace", "run": result.run_id}
    assert entry.recorded_at
    (charged,) = result.get_asset_materialization_events()
    assert charged.materialization.metadata["authorized by"].value == "Ada Lovelace"
    asking.authorization = None
    asking.run(*TO_PUBLICATION)
    assert [entry.kind for entry in asking.ledger] == ["reserve", "settle"], "what is charged needs no further word"
    assert asking.published()


def test_a_name_with_editions_of_other_draws_is_refused_before_anything_is_charged(
    asking: Deployment[SwappingRelease],
) -> None:
    """An example is a name of estimates from others' measurements that are no longer declared. Wrong program: refuses
    only the publication, when the charge is made."""
    custody, release = asking.context.custody, asking.release
    custody.record_edition(release.dataset.name, release.name, "1", "0" * 64, "1" * 64, kept=False)
    said = asking.refusal("charge")
    assert f"name: edition 1 of {release.dataset.name}/{release.name} is of no draw in the ledger" in said
    assert asking.ledger == ()


def test_a_preflight_states_the_price_and_charges_nothing(asking: Deployment[SwappingRelease]) -> None:
    price = price_in(asking.refusal("charge"))
    (stated,) = asking.run("preflight").get_asset_materialization_events()
    shown = {name: value.value for name, value in stated.materialization.metadata.items()}
    assert shown["price"] == price
    assert price in shown["decision"]
    assert shown["price, exactly"] == "ln(62)"
    assert shown["for one contributor"] == "ε = 8.2543, because one person's answers can be in 2 records"
    assert shown["why new"] == "It is the first draw of this release."
    assert price in shown["how to authorize"]
    assert asking.ledger == ()
    asking.authorization = authorization(asking.refusal("charge"))
    asking.run("charge")
    asking.authorization = None
    (stated,) = asking.run("preflight").get_asset_materialization_events()
    assert stated.materialization.metadata["decision"].value == (
        "Already charged in ledger entry 1; running it charges nothing."
    )
    assert "after it" not in stated.materialization.metadata["budget"].value, "nothing more is to be subtracted"


def test_a_withdrawn_draw_is_not_called_new_nor_its_publication_unchanged(asking: Deployment[SwappingRelease]) -> None:
    """Wrong program: a refusal that explains by changed keys why the withdrawn draw is a new one."""
    asking.authorization = authorization(asking.refusal("charge"))
    asking.run("charge")
    release = asking.context.release
    asking.context.ledger.withdraw(release.dataset.name, release.name, "Ada Lovelace")
    refusal = asking.refusal("charge")
    assert "was withdrawn in ledger entry" in refusal
    assert "Nothing was drawn, and nothing was charged." in refusal
    assert "Why this is a new draw" not in refusal
    assert "stays unchanged" not in refusal


@pytest.mark.deep
def test_changed_records_are_found_said_and_not_charged(asking: Deployment[SwappingRelease]) -> None:
    asking.authorization = authorization(asking.refusal("charge"))
    asking.run("charge")
    write_csv(asking.root / "units.csv", households()[:-1])
    refusal = asking.refusal("cef", "invariants", "charge")
    assert "The authorization is for another draw" in refusal, "a word for one draw is none for the next, at any price"
    assert "Since ledger entry 1, the records changed (changed inputs: holding, records, swap)." in refusal
    assert len(asking.ledger) == 1
    again = small_deployment(asking.root, dataset={"charging": "ask"}, swap_rate="1/4")
    again.run(*BEFORE)
    refusal = again.refusal("charge")
    # It fails if a plan judges by the release's name alone, or by the records, which no plan reads.
    assert find_charged(asking.context.method, asking.ledger) == asking.ledger[0]
    assert find_charged(again.context.method, asking.ledger) is None
    charge = Specification(Flavor("", (), "unit", None, PureLoss.output_premetric), PureLoss(Fraction(1)))
    charged, anew = (
        predict_charge(each.context.method, charge, asking.context.ledger.read())[0] for each in (asking, again)
    )
    assert ("charges nothing more" in charged, "after it" in charged) == (True, False)
    assert ("charges nothing more" in anew, "after it" in anew) == (False, True)
    withdrawn = make_withdrawal(asking.ledger, asking.ledger[0], "release", "Ada Lovelace")
    assert find_charged(asking.context.method, [*asking.ledger, withdrawn]) is None
    assert "Since ledger entry 1, parameter swap_rate changed from 1/3 to 1/4." in refusal
    columns = UNITS | {"tenure": UNITS["tenure"] | {"null": ["-"]}}
    units = {"path": str(asking.root / "units.csv"), "columns": columns}
    recoded = small_deployment(asking.root, dataset={"charging": "ask", "units": units}, units=households()[:-1])
    recoded.run(*BEFORE)
    assert "; the records changed, or are recoded or counted differently (changed" in recoded.refusal("charge")
    renamed = small_deployment(asking.root, dataset={"charging": "ask"}, name="renamed")
    renamed.run(*BEFORE)
    assert "The release has the same parameters and records as counties" in renamed.refusal("charge")
    assert len(asking.ledger) == 1


@pytest.mark.deep
def test_a_synthetic_dataset_is_charged_automatically_and_the_entry_says_so(tmp_path: Path) -> None:
    deployment = small_deployment(tmp_path / "made_up", dataset={"charging": None, "synthetic": True})
    deployment.reach(*BEFORE, "charge")
    (entry,) = deployment.ledger
    assert "automatically" in entry.parse_details().authorization["by"]
    assert not small_dataset(tmp_path, charging=None, synthetic=True).asks
    assert small_dataset(tmp_path, charging=None).asks, "asking is the default"
    assert small_dataset(tmp_path, charging="ask", synthetic=True).asks


@pytest.mark.deep
def test_a_draw_that_another_run_charges_meanwhile_is_not_refused_beside_its_own_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs of a release, whose charge fits under the cap once. The other one charges after the first reading."""
    deployment = small_deployment(tmp_path, dataset={"charging": "automatic", "cap": 5})
    context = deployment.context
    deployment.run(*BEFORE)
    mine = assess(context.method, context.warehouse, context.custody, context.ledger)
    read = Ledger.read

    def reads(ledger: Ledger) -> Reading:
        monkeypatch.setattr(Ledger, "read", read)
        found = read(ledger)
        reserve(deployment.release, mine.draw, ledger, mine.details)
        return found

    monkeypatch.setattr(Ledger, "read", reads)
    again = assess(context.method, context.warehouse, context.custody, context.ledger)
    assert len(deployment.ledger) == 1
    assert (again.entry, again.refusal) == (None, "")
    assert (again.budget, again.reason) == (mine.budget, mine.reason), "all that is said is of one reading"
    after = assess(context.method, context.warehouse, context.custody, context.ledger)
    assert after.budget != mine.budget


def test_a_cap_by_the_curve_states_its_condition_where_a_person_decides(tmp_path: Path) -> None:
    """In the sentence on the budget and on the page. Wrong program: shows a cap on the curve like any other."""
    flavor = Flavor("", (), "unit", None, PureLoss.output_premetric)
    charge = Specification(flavor, PureLoss(Fraction(1)))
    for cap, states in (
        ({"epsilon": 20, "delta": 1e-30, "by": "curve"}, True),
        ({"epsilon": 20, "delta": 1e-30}, False),
    ):
        deployment = small_deployment(tmp_path, dataset={"cap": cap})
        words, refusal = predict_budget(deployment.release.dataset, "next", charge, Reading((), ()))
        (page,) = build_charge(deployment.context.method).descriptions_by_key.values()
        assert not refusal
        assert (BY_CURVE in words, BY_CURVE in page) == (states, states)


@pytest.mark.parametrize("loss", [PureLoss.logarithm(30), PureLoss.logarithm(2), ConcentratedLoss(Fraction(1))])
def test_only_the_very_loss_authorizes(loss: Loss) -> None:
    release = SimpleNamespace(dataset=SimpleNamespace(name="d", cap=PureLoss.logarithm(2)), name="r")
    draw = SimpleNamespace(specification=SimpleNamespace(charge=loss))
    assessment = Assessment(cast(Any, release), cast(Any, draw), Details("d"), None, "", "", "")
    price = assessment.price
    figure = price.split("= ")[1]
    for allowed in (price, figure, str(loss), f" {price} "):
        assert assessment.allows(allowed)
    for refused in ("", "0", f"{figure}1", figure[:-1], f"-{figure}", "all", f"{price} or more", "*"):
        assert not assessment.allows(refused)
