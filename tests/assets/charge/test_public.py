"""Public data are drawn from without a charge, confidential data never: records once charged are refused as public.

The wrong programs here: one that believes the word `public` of a declaration, before or after a charge; one that
compares bytes alone; and one in which draws from records that turn out to be confidential do not count.
"""

import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pydantic import ValidationError

from assets.charge.assessment import NOT_PUBLIC_YET, assess, predict_budget
from assets.ledger.asset import find_cap_problems
from assets.ledger.page import describe_ledger
from assets.ledger.population import Population, group_populations
from assets.ledger.view import list_entry_records
from assets.publication.catalog import find_public
from assets.release.release import DeclarationError
from mechanisms.accounting.losses import PureLoss
from resources.chain import DIFFERENT_PEOPLE, NOT_CHARGED, PUBLIC_BECAUSE, Details
from resources.custody import Custody, CustodyMode
from resources.ledger import CapExceeded, PopulationError
from tests.assets.charge.test_same_people import SAME, SPECIFICATION, Office, people
from tests.deployments import TO_PUBLICATION, small_dataset, small_deployment

SOURCE = "Bureau of <Examples>, microdata sample of 2020"
WORDS = {"by": "Ada", "run": "1", PUBLIC_BECAUSE: "The Bureau published them in 2021"}
PUBLIC: dict[str, Any] = {"public": True, "source": SOURCE, "cap": None, "charging": None}


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    monkeypatch.delenv("STIRRED_MASTER_KEY", raising=False)
    return Office(tmp_path)


def as_public(details: Details) -> Details:
    return replace(details, public=SOURCE, authorization=WORDS)


def test_records_that_were_charged_are_refused_as_public_whatever_anyone_says(office: Office) -> None:
    office.charge(office.read("census", people()))
    for name, (rows, columns) in {"same": (people(), {}), "twin": SAME["a record less"]()}.items():
        details = office.read(name, rows, **({"columns": columns} if columns else {}))
        given = as_public(details)
        lie = replace(given, authorization={**WORDS, DIFFERENT_PEOPLE: "these are invented people"})
        for public in (given, lie):
            with pytest.raises(
                PopulationError, match=r"declared public.*charged (as dataset census )?to population census"
            ):
                office.charge(public)
    charged = replace(office.ledger.entries()[0].parse_details(), public=SOURCE, authorization=WORDS)
    with pytest.raises(PopulationError, match="declared public, but its records are confidential"):
        office.charge(charged)
    assert len(office.ledger.entries()) == 1


@pytest.mark.deep
def test_public_records_need_words_once_and_count_as_soon_as_they_are_confidential(office: Office) -> None:
    details = office.read("sample", people())
    with pytest.raises(PopulationError, match="no reason was given why dataset sample is public"):
        office.charge(replace(details, public=SOURCE))
    office.charge(as_public(details))
    # A second release of the same records needs no further statement; other records, or another source, do.
    again = replace(details, public=SOURCE, authorization={"by": "the declaration", "run": "2"})
    office.ledger.reserve("sample", "more", "2" * 64, SPECIFICATION, CustodyMode.ESCROWED, None, again)
    for other in (replace(again, public="elsewhere"), replace(again, contents=("0" * 64,))):
        with pytest.raises(PopulationError, match="no reason was given"):
            office.ledger.reserve("sample", "third", "3" * 64, SPECIFICATION, CustodyMode.ESCROWED, None, other)
    # The same dwellings with other persons are other records; the same files in another declaration are not.
    tables = as_public(Details("two", ("cef", "units", "persons")))
    office.ledger.reserve("two", "first", "4" * 64, SPECIFICATION, CustodyMode.ESCROWED, None, tables)
    for contents, same in {
        ("recoded", "units", "persons"): True,
        ("cef", "units", "with another column"): True,
        ("changed", "units", "others"): False,
        ("changed", "units", "persons", "more"): False,
    }.items():
        assert bool(office.ledger.read().find_public_words("two", replace(tables, contents=contents))) is same, contents
    reading = office.ledger.read()
    dataset = office.dataset.model_copy(update=PUBLIC)
    assert find_cap_problems(dataset, reading) == []
    assert predict_budget(dataset, "next", replace(SPECIFICATION, loss=PureLoss(Fraction(1000))), reading) == (
        f"Public data, no budget charged: {SOURCE}.",
        "",
    )
    assert group_populations([dataset]) == ()
    assert [entry["charged"] for entry in list_entry_records(reading.entries)] == [f"ε = 1.0000 ({NOT_CHARGED})"] * 3
    page = str(describe_ledger(reading.entries, [], {})["public data"])
    assert NOT_CHARGED in page
    assert WORDS[PUBLIC_BECAUSE] in page
    # If they are declared confidential after all, both draws count under the cap.
    cap = PureLoss(Fraction(2))
    assert reading.compose("sample", cap) == cap
    with pytest.raises(CapExceeded):
        office.ledger.reserve("sample", "third", "3" * 64, SPECIFICATION, CustodyMode.ESCROWED, cap, details)
    # And others that resemble them are charged only in words.
    twin = office.read("twin", people()[1:])
    with pytest.raises(PopulationError, match=r"dataset sample, which was drawn from as public data in entry 2"):
        office.charge(twin)
    office.charge(
        replace(twin, authorization={"by": "Ada", "run": "3", DIFFERENT_PEOPLE: "the sample is public, these are not"})
    )


def test_who_compares_first_keeps_others_from_charging_until_it_has_drawn(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong program: compares before the ledger is locked, which two runs at once would both pass."""
    office.charge(office.read("else", people(2)))
    secret, public = office.read("census", people()), as_public(office.read("sample", people()[::2]))
    compare, refusals, waiting = Custody.open_sketch, list[str](), list[bool]()

    def charge() -> None:
        with pytest.raises(PopulationError) as error:
            office.charge(secret)
        refusals.append(str(error.value))

    def compare_while_another_charges(custody: Custody, name: str) -> bytes | None:
        if not waiting:
            waiting.append(True)
            other.start()
            other.join(0.3)
            waiting[0] = other.is_alive()
        return compare(custody, name)

    other = Thread(target=charge)
    monkeypatch.setattr(Custody, "open_sketch", compare_while_another_charges)
    office.charge(public)
    other.join()
    assert waiting == [True]
    assert "dataset sample, which was drawn from as public data in entry 2" in refusals[0]


def test_public_is_declared_with_its_source_and_without_a_budget(tmp_path: Path) -> None:
    for changes, message in (
        ({"source": " "}, "source: say who published"),
        ({"cap": 1}, "cap: public records are not charged"),
        ({"charging": "automatic"}, "charging: public records are not charged"),
        ({"synthetic": True}, "public: synthetic records"),
        ({"population": "others"}, "population: public records belong to no other"),
        ({"public": False, "cap": 1}, "source: it is for public records"),
        ({"public": False, "source": ""}, "cap: it is missing"),
    ):
        with pytest.raises(ValidationError, match=message):
            small_dataset(tmp_path, **PUBLIC | changes)
    sample = small_dataset(tmp_path, **PUBLIC)
    other = small_dataset(tmp_path, name="other", population="village")
    with pytest.raises(DeclarationError, match="dataset village is public"):
        group_populations([sample, other])
    assert group_populations([sample, small_dataset(tmp_path, name="other")])[0] == Population(
        "other", (small_dataset(tmp_path, name="other"),)
    )


@pytest.mark.deep
def test_a_release_of_public_data_says_so_on_every_page_and_a_charged_one_is_never_made_public(tmp_path: Path) -> None:
    sample = small_deployment(tmp_path / "sample", dataset=PUBLIC)
    sample.run("cef", "invariants")
    refusal = sample.refusal("charge")
    assert "would draw with ε = 4.1272 from public data, which is not charged. Nobody has authorized it." in refusal
    assert f'--public-because "{NOT_PUBLIC_YET}"' in refusal
    assert sample.ledger == ()
    given = dict(re.findall(r'(authorized_loss|authorized_draw): "(.*)"', refusal)) | {"authorized_by": "Ada"}
    for words in ("", NOT_PUBLIC_YET, "because"):
        sample.authorization = given | {PUBLIC_BECAUSE: words}
        assert "does not say why these records are public" in sample.refusal("charge")
    sample.authorization = given | {PUBLIC_BECAUSE: "The Bureau published them in 2021"}
    sample.run(*TO_PUBLICATION[2:], "ledger")
    files = sample.published()
    certificate = json.loads(files["certificate.json"])
    assert (certificate["dataset"]["public"], certificate["dataset"]["source"]) == (True, SOURCE)
    assert certificate["ledger"][PUBLIC_BECAUSE] == "The Bureau published them in 2021"
    assert (certificate["ledger"]["cap"], certificate["ledger"]["left_at_publication"]) == (None, None)
    assert b"Public data, no budget charged" in files["README.txt"]
    statement = f"Public data, no budget charged: {SOURCE}."
    assert find_public(json.loads(files["datapackage.json"])) == statement
    assert json.loads(files["dcat.jsonld"])["dct:description"].endswith(statement)
    page = files["certificate.html"].decode()
    assert "Public data, no budget charged: Bureau of &lt;Examples&gt;" in page
    assert "The Bureau published them in 2021" in page
    assert "which is not charged" in page
    assert "is charged to the population" not in page
    assert "Public data, no budget charged" in (tmp_path / "sample" / "published" / "index.html").read_text()
    (listed,) = json.loads((tmp_path / "sample" / "published" / "datapackage.json").read_text())["resources"]
    assert listed["description"].endswith(statement)
    other = small_deployment(tmp_path / "sample", dataset=PUBLIC | {"source": "Elsewhere"})
    assert "a draw from records of another source than is declared" in other.refusal("publication")
    # A charged draw cannot be published as one of public data, even though it exists already.
    charged = small_deployment(tmp_path / "charged")
    charged.run("cef", "invariants", "charge")
    public = small_deployment(tmp_path / "charged", dataset=PUBLIC)
    assert "its records are confidential: they were charged as dataset village" in public.refusal("charge")
    assessment = assess(public.context.method, public.context.warehouse, public.context.custody, public.context.ledger)
    assert "its records are confidential" in assessment.refusal
    assert "its records are confidential" in find_cap_problems(public.release.dataset, public.context.ledger.read())[0]
