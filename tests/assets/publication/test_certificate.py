"""A certificate states every fact of its record, for people and for programs, and is reproducible."""

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from functools import reduce
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from assets.publication import certificate as certificate_module
from assets.publication.certificate import Certificate, factor_text, to_html, to_json
from assets.publication.package import DataFile
from assets.publication.record import Check, Dataset, Edition, Estimate, LedgerReference, Randomness, Release, schema
from assets.release.release import UNDECLARED, Publisher
from assets.release.signature import Identity, identity
from assets.release.statement import REFRESHMENT, Accuracy, DataVersion, Equivalent, Paper, Parameter, Statement
from assets.swapping import statement as swapping
from mechanisms.accounting.losses import ApproximateLoss, ConcentratedLoss, InfiniteLoss, PureLoss
from mechanisms.accounting.specification import Line, Specification
from mechanisms.swapping.design import Rates, SwappingDesign
from mechanisms.swapping.uncertainty import Moved
from resources.custody import CustodyMode

B = 264_331

OFFICE = Publisher.model_validate(
    {
        "authority": "Office of Statistics",
        "contact": "https://statistics.example/contact",
        "license": "CC-BY-4.0",
        "license_url": "https://creativecommons.org/licenses/by/4.0/",
    }
)


def _hash(name: str) -> str:
    return sha256(name.encode()).hexdigest()


def massachusetts() -> Certificate:
    """The release of Bailie, Gong and Meng, Section 3.4: dwellings swapped across counties at p = 1/2."""
    design = SwappingDesign(
        unit="household",
        match=("state", "persons_per_household"),
        swap=("county",),
        held=("tenure",),
        swap_rate=Rates.single(Fraction(1, 2)),
        persons=(),
    )
    specification = design.specification("ma1940", B)
    words = {
        "state": "state",
        "persons_per_household": "persons in the household",
        "county": "county",
        "tenure": "tenure of the dwelling",
    }
    named = swapping.put_in_words(design, words)
    title = "Dwellings by county and tenure"
    return Certificate(
        publisher=OFFICE,
        dataset=Dataset(
            name="ma1940",
            title="1940 Census of Massachusetts, dwellings",
            description="Rebuilt from the published counts of owned and rented dwellings by county. Household sizes "
            "beyond the published mode are spread independently of county and tenure.",
            synthetic=True,
        ),
        release=Release(
            name="tenure_by_county",
            title="Tenure by county, Massachusetts 1940",
            description="How many dwellings in each county were owned and how many were rented, after half of the "
            "households on average had their county swapped.",
        ),
        statement=Statement(
            mechanism=swapping.MECHANISM,
            mechanism_version="1",
            method=swapping.describe_method(named),
            parameters=swapping.parameters(named, B, 12),
            loss_source=swapping.LOSS_SOURCE,
            accuracy=swapping.accuracy(named, Moved(0.5, 0.4321)),
            data_versions=(
                DataVersion("cef", _hash("records"), keyed=True),
                DataVersion("invariants", _hash("invariants"), keyed=False),
                DataVersion("swapped", _hash("swapped"), keyed=False),
            ),
            remark="They differ in at least two households.",
            fewest=swapping.FEWEST,
            also_exact=("One dwelling is alone in its cell.",),
            evaluated=swapping.evaluate_loss(design, B),
            equivalents=swapping.equivalents(named, specification.loss),
            papers=(REFRESHMENT,),
            variables=words,
            flavor=named.specification("Massachusetts 1940", B).flavor,
        ),
        specification=specification,
        randomness=Randomness(CustodyMode.ESCROWED, _hash("draw"), _hash("key")),
        ledger=LedgerReference(
            7,
            _hash("entry"),
            datetime(2026, 3, 1, 9, 30, tzinfo=UTC),
            specification.loss,
            11,
            PureLoss(Fraction(3), Fraction(B + 1)),
            PureLoss(Fraction(20)),
            "massachusetts",
        ),
        edition=2,
        editions=(
            Edition(1, 3, PureLoss(Fraction(7, 2)), datetime.fromisoformat("2026-02-01T09:30:00+00:00"), withdrawn=5),
            Edition(2, 7, specification.loss, datetime.fromisoformat("2026-03-01T09:30:00+00:00")),
        ),
        code_versions={"stirred": "0.1.0", "swapping": "1", "duckdb": "1.5.6", "dagster": "1.13.27"},
        checks=(
            Check("holding margin", "every count by holding variables is exact"),
            Check("swap margin", "every count by match and swap variables is exact"),
            Check("charge", "the ledger holds this draw's charge, within the cap, in an unbroken chain"),
            Check("replay", "the draw made again gives the same table"),
        ),
        products=(
            DataFile("tenure_by_county", title, "tenure_by_county.csv", "csv", 28, 615, _hash("csv"), ""),
            DataFile(
                "tenure_by_county", title, "tenure_by_county.parquet", "parquet", 28, 1105, _hash("parquet"), None
            ),
        ),
        signing_key=_hash("public key"),
    )


class _Text(HTMLParser):
    """The text that a reader of the page sees."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def said(self) -> str:
        """The text, and the addresses of links."""
        return "\n".join([self.text, *(str(attributes.get("href", "")) for _, attributes in self.tags)])


def _page(certificate: Certificate) -> _Text:
    return _parsed(to_html(certificate).decode())


def _parsed(source: str) -> _Text:
    page = _Text()
    page.feed(source)
    return page


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every fact of a record, with its path of keys and positions."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _leaves(part, (*path, key))
    elif isinstance(value, list):
        for position, part in enumerate(value):
            yield from _leaves(part, (*path, position))
    else:
        yield path, value


def _missing(certificate: Certificate) -> list[tuple[Any, ...]]:
    text = _page(certificate).said
    return [
        path
        for path, fact in _leaves(certificate.as_record())
        if not isinstance(fact, bool) and fact is not None and path != ("$schema",)
        if not any(each in text for each in _texts(fact))
    ]


def _texts(fact: str | int | float) -> tuple[str, ...]:
    """Forms in which the page may write a fact. One place of the template decides the form of each kind of number."""
    if isinstance(fact, float):
        return (*(f"{fact:,.{places}f}" for places in (2, 4, 6)), certificate_module._shown(fact))
    return (f"{fact:,}" if isinstance(fact, int) else fact,)


def test_the_page_states_every_fact_of_the_record() -> None:
    """Each fact is made unique, so that it cannot be found by accident."""
    assert _missing(massachusetts()) == []
    record = massachusetts().as_record()
    facts = [
        (path, fact)
        for path, fact in _leaves(record)
        if not isinstance(fact, bool) and fact is not None and path != ("$schema",)
    ]
    assert len(facts) > 120
    changed = deepcopy(record)
    for number, (path, fact) in enumerate(facts):
        reduce(lambda part, key: part[key], path[:-1], changed)[path[-1]] = _told_apart(fact, number)
    said = _parsed(certificate_module.page("certificate.html").render(changed)).said
    for number, (path, fact) in enumerate(facts):
        assert any(each in said for each in _texts(_told_apart(fact, number))), path


def _told_apart(fact: str | int | float, number: int) -> str | int | float:
    if isinstance(fact, str):
        return f"1/{10**10 + number}" if re.fullmatch("1/[0-9]+", fact) else f"told-apart-{number:04}"
    return 918_270_000 + number if isinstance(fact, int) else 827_000 + number + 0.25


@pytest.mark.deep
def test_every_field_of_a_certificate_is_in_the_record_and_on_the_page() -> None:
    """Each text is changed in turn. If the record or the page lacked a field, it would not change."""
    certificate = massachusetts()
    changes: dict[str, Any] = {
        name: f"{name} told apart" for name, value in vars(certificate).items() if isinstance(value, str)
    } | {
        "publisher": UNDECLARED,
        "specification": replace(certificate.specification, loss=PureLoss.logarithm(5)),
        "randomness": replace(certificate.randomness, custody=CustodyMode.EPHEMERAL),
        "ledger": replace(certificate.ledger, cap=PureLoss(Fraction(41, 3))),
        "edition": 3,
        "editions": certificate.editions[1:],
        "code_versions": {"stirred": "9"},
        "checks": certificate.checks[1:],
        "products": certificate.products[1:],
        "revision": 7,
        "estimates": (Estimate(revision=0, estimation=("By level",)), Estimate(revision=4, estimation=("In full",))),
    }
    statement = certificate.statement
    said: dict[str, Any] = {
        name: f"{name} told apart" for name, value in vars(statement).items() if isinstance(value, str)
    } | {
        "parameters": statement.parameters[:-1],
        "accuracy": Accuracy("Exact.", ("Table", "Margin"), (("P1", 0.5),), "No noise."),
        "errors": Accuracy("Estimated.", ("Table", "Error"), (("P2", 0.25),), "No more."),
        "fewest": 3,
        "also_exact": (),
        "delta": Fraction(1, 10**9),
        "papers": (Paper("Another", "https://example.org"),),
        "variables": {},
        "flavor": None,
        "data_versions": statement.data_versions[1:],
        "evaluated": replace(statement.evaluated, epsilon=3.0),  # type: ignore[type-var]
        "equivalents": (Equivalent("A part", PureLoss(Fraction(20)), "Lemma 7"),),
    }
    assert changes.keys() | {"statement", "dataset", "release"} == vars(certificate).keys()
    assert said.keys() == vars(statement).keys()
    variants = [(name, replace(certificate, **{name: value})) for name, value in changes.items()]
    for part in ("dataset", "release"):
        model = getattr(certificate, part)
        for name, value in model:
            other = model.model_copy(update={name: not value if isinstance(value, bool) else f"{name} told apart"})
            variants.append((f"{part} {name}", replace(certificate, **{part: other})))
    variants += [
        (name, replace(certificate, statement=replace(statement, **{name: value}))) for name, value in said.items()
    ]
    for name, changed in variants:
        assert to_json(changed) != to_json(certificate), name
        assert to_html(changed) != to_html(certificate), name
        assert _missing(changed) == []


def test_the_loss_of_massachusetts_is_stated_exactly_and_never_rounded_down() -> None:
    """Bailie, Gong and Meng, Table 2 has 12.48 at p = 0.50; four decimals rounded up are 12.4850."""
    loss = massachusetts().as_record()["loss"]
    assert (loss["exact"], loss["rounded_up"]) == ("ln(264332)", 12.485)
    assert "ε = 12.4850" in _page(massachusetts()).text.replace("\xa0", " ")
    assert "Theorem 1" in loss["source"]
    assert loss["evaluated"]["rounded_up"] <= loss["rounded_up"]


def test_an_evaluated_bound_is_rounded_up() -> None:
    certificate = massachusetts()
    assert certificate.statement.evaluated is not None
    evaluated = replace(certificate.statement.evaluated, epsilon=1.00001)
    changed = replace(certificate, statement=replace(certificate.statement, evaluated=evaluated))
    assert changed.as_record()["loss"]["evaluated"]["rounded_up"] == 1.0001


def test_a_mechanism_without_an_evaluated_bound_states_none() -> None:
    certificate = massachusetts()
    certificate = replace(certificate, statement=replace(certificate.statement, evaluated=None))
    assert certificate.as_record()["loss"]["evaluated"] is None
    assert "as evaluated" not in _page(certificate).text


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (PureLoss(), "0"),
        (PureLoss(Fraction(3, 2)), "3/2"),
        (PureLoss.logarithm(Fraction(7, 2)), "ln(7/2)"),
        (PureLoss(Fraction(1), Fraction(5)), "1 + ln(5)"),
    ],
)
def test_an_exact_loss_is_written_without_rounding(loss: PureLoss, text: str) -> None:
    assert str(loss) == text


def test_a_loss_in_zcdp_is_written_in_rho_with_its_lines_and_meaning() -> None:
    certificate = massachusetts()
    lines = (
        Line("PH2 nation_*", ConcentratedLoss(Fraction(1, 8))),
        Line("PH2 state_*", ConcentratedLoss(Fraction(3, 8))),
    )
    flavor = replace(certificate.specification.flavor, output_premetric=ConcentratedLoss.output_premetric)
    specification = Specification(flavor, ConcentratedLoss(Fraction(1, 2)), lines)
    loss = specification.loss
    certificate = replace(certificate, statement=replace(certificate.statement, flavor=flavor, fewest=1))
    ledger = replace(
        certificate.ledger, total_after_this_charge=loss, total_at_publication=loss, cap=ConcentratedLoss(Fraction(20))
    )
    certificate = replace(certificate, specification=specification, ledger=ledger)
    assert _missing(certificate) == []
    text = _page(certificate).text
    assert "ρ = 0.5000" in text.replace("\xa0", " ")
    assert "ε charged" not in text
    assert "k²ρα" in text
    assert [line["exact"] for line in certificate.as_record()["loss"]["lines"]] == ["1/8", "3/8"]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.05, "0.05"), (264_332.0, "264,332"), (49_808_700.5, "49,808,700"), (1.5e20, "1.5 × 10²⁰")],
)
def test_a_great_number_is_written_as_people_read_it(number: float, text: str) -> None:
    """Wrong program: the appendix with `4.98087e+07`."""
    assert certificate_module._shown(number) == text


def test_every_delta_is_shown_and_never_rounded_down() -> None:
    """Beside the ε of a part too: losses that differ in δ alone would look alike."""
    certificate = massachusetts()
    loss = ApproximateLoss(PureLoss(Fraction(2)), Fraction(1, 3))
    flavor = replace(certificate.specification.flavor, output_premetric=ApproximateLoss.output_premetric)
    parts = (Equivalent("A part", ApproximateLoss(PureLoss(Fraction(2)), Fraction(1, 7)), "Lemma 7"),)
    said = replace(certificate.statement, flavor=flavor, evaluated=None, equivalents=parts, fewest=1)
    ledger = replace(certificate.ledger, total_after_this_charge=loss, total_at_publication=loss, cap=loss)
    specification = Specification(flavor, loss)
    text = _page(replace(certificate, statement=said, specification=specification, ledger=ledger)).text
    text = text.replace("\xa0", " ")
    assert "2.0000 at δ = 0.142858" in text, "1/7 is 0.1428571…"
    assert "at δ = 0.333334" in text
    assert "0.333333" not in text
    assert "plus at most 1 in 3" in text
    assert "ε = 2.0000 at δ = 0.333334 is the loss for one" in text
    assert "ε = 2.0000 at δ = 0.333334, rounded up; a smaller loss is more protection" in text
    assert "more than exp(ε) times as probable under one as under the other, plus δ. For k" in text
    assert text.count("exp(kε) times, plus δ(1 + exp(ε) + … + exp((k − 1)ε))") == 2
    assert "no outcome" not in text, "what holds for ε alone"


def test_a_certificate_without_a_finite_loss_says_so_everywhere_and_guarantees_nothing() -> None:
    certificate = massachusetts()
    flavor = replace(certificate.specification.flavor, output_premetric=InfiniteLoss.output_premetric)
    certificate = replace(
        certificate,
        statement=replace(certificate.statement, flavor=flavor, evaluated=None, equivalents=(), fewest=1),
        specification=Specification(flavor, InfiniteLoss()),
        ledger=replace(certificate.ledger, infinite_charges=2),
        editions=(Edition(1, 7, InfiniteLoss(), datetime.fromisoformat("2026-03-01T09:30:00+00:00")),),
    )
    text = to_json(certificate).decode()
    assert "Infinity" not in text, "which is no JSON"
    record = json.loads(text)
    jsonschema.validate(record, json.loads(schema()))
    loss = record["loss"]
    assert (loss["symbol"], loss["rounded_up"], loss["exact"]) == ("ε", None, "∞")
    assert (loss["guarantee"]["units"], loss["guarantee"]["factor"]) == (1, None)
    assert record["ledger"]["infinite_charges"] == 2
    assert record["ledger"]["total_at_publication"]["rounded_up"] == 15.485, "that of the finite charges"
    assert _missing(certificate) == []
    said = _page(certificate).text.replace("\xa0", " ")
    for words in (
        "ε = ∞ is charged to the population",
        "With all finite charges up to ledger entry 11",
        "2 charges have no finite loss (ε = ∞), so no finite total bounds what all releases",
        "This method gives no guarantee of differential privacy.",
        "nothing is guaranteed",
    ):
        assert words in said
    for words in ("Infinity", "None", "times as probable", "rounded up; a smaller loss", "exp("):
        assert words not in said


@pytest.mark.parametrize(("epsilon", "words"), [(15.5, "ε by the privacy curve, at δ"), (16.98, "no smaller bound")])
def test_an_epsilon_by_conversion_is_not_called_one_by_the_privacy_curve(epsilon: float, words: str) -> None:
    record = deepcopy(massachusetts().as_record())
    record["loss"]["risk"] |= {"epsilon": epsilon, "by_conversion": 16.98}
    text = _parsed(certificate_module.page("certificate.html").render(record)).text.replace("\xa0", " ")
    assert words in text
    assert ("by the privacy curve" in text) == (epsilon < 16.98)


def test_the_page_states_the_five_building_blocks() -> None:
    blocks = massachusetts().as_record()["specification"]
    assert [block["question"].split()[0] for block in blocks] == ["Who", "Where", "What", "How", "How"]
    assert blocks[4]["question"].startswith("How much")
    assert all(block["answer"] for block in blocks)


def test_the_page_says_that_the_loss_does_not_cover_the_invariants() -> None:
    assert "loss does not cover the invariants" in _page(massachusetts()).text


def test_only_a_synthetic_dataset_is_labelled_synthetic() -> None:
    certificate = massachusetts()
    assert "Synthetic data" in _page(certificate).text
    real = certificate.dataset.model_copy(update={"synthetic": False})
    assert "Synthetic data" not in _page(replace(certificate, dataset=real)).text


def test_custody_says_whether_the_draw_can_be_replayed() -> None:
    escrowed = massachusetts()
    ephemeral = replace(escrowed, randomness=replace(escrowed.randomness, custody=CustodyMode.EPHEMERAL))
    assert "replay the draw for an audit" in _page(escrowed).text
    assert "the draw cannot be replayed" in _page(ephemeral).text


def test_the_json_is_the_record_with_sorted_keys() -> None:
    text = to_json(massachusetts()).decode()
    assert json.loads(text) == massachusetts().as_record()
    assert text == json.dumps(json.loads(text), ensure_ascii=False, indent=2, sort_keys=True) + "\n"


def test_the_same_release_has_the_same_certificate() -> None:
    one, other = massachusetts(), massachusetts()
    other = replace(other, code_versions=dict(reversed(other.code_versions.items())))
    elsewhere = other.ledger.recorded_at.astimezone(timezone(timedelta(hours=-5)))
    other = replace(other, ledger=replace(other.ledger, recorded_at=elsewhere))
    assert to_json(one) == to_json(other)
    assert to_html(one) == to_html(other)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="timezone"):
        LedgerReference(
            1, _hash("entry"), datetime(2026, 3, 1), PureLoss(), 1, PureLoss(), PureLoss(Fraction(1)), "village"
        )


def test_names_and_descriptions_are_text_and_never_markup() -> None:
    hostile = "<script>alert('x')</script> & \"quoted\" <img src=x>"
    certificate = massachusetts()
    certificate = replace(
        certificate,
        **{name: hostile for name, value in vars(certificate).items() if isinstance(value, str)},
        checks=(Check(hostile, hostile),),
        code_versions={hostile: hostile},
        statement=replace(
            certificate.statement,
            **{name: hostile for name, value in vars(certificate.statement).items() if isinstance(value, str)},
            data_versions=(DataVersion(hostile, hostile, keyed=False),),
            equivalents=(Equivalent(hostile, PureLoss(), hostile),),
            parameters=(Parameter(hostile, hostile, hostile, (hostile,)),),
            accuracy=Accuracy(hostile, (hostile, hostile), ((hostile, 1.5),), hostile),
            also_exact=(hostile,),
            variables={hostile: hostile},
        ),
        products=(replace(certificate.products[0], title=hostile, path=hostile),),
    )
    page = _page(certificate)
    assert {tag for tag, _ in page.tags} == {tag for tag, _ in _page(massachusetts()).tags}
    assert _missing(certificate) == []


def test_the_page_is_self_contained() -> None:
    page, source = _page(massachusetts()), to_html(massachusetts()).decode()
    assert not {"script", "link", "img", "iframe", "object", "embed", "form"} & {tag for tag, _ in page.tags}
    assert not [name for _, attributes in page.tags for name in attributes if name == "src" or name[:2] == "on"]
    assert not re.search(r"url\(|@import", source)


def test_links_lead_to_places_of_the_page_to_files_of_the_publication_and_to_papers() -> None:
    page = _page(massachusetts())
    links = {str(attributes["href"]) for tag, attributes in page.tags if tag == "a"}
    places = {f"#{attributes['id']}" for _, attributes in page.tags if "id" in attributes}
    assert places <= links, "everything is in the contents"
    assert {link for link in links if link.startswith("#")} <= places
    assert {link for link in links if link.startswith("http")} == {
        "https://statistics.example/contact",
        "https://creativecommons.org/licenses/by/4.0/",
        "https://arxiv.org/abs/2501.08449",
    }
    assert {link for link in links if not link.startswith(("#", "http"))} == {
        "tenure_by_county.csv",
        "tenure_by_county.parquet",
        "datapackage.json",
        "README.txt",
        "certificate.json",
        "certificate.schema.json",
    }


def test_the_published_schema_describes_every_value() -> None:
    """A field without a description is a constant, an address, a list, or a part that is described in its own place."""
    parts = [json.loads(schema()), *json.loads(schema())["$defs"].values()]
    fields = {name: field for part in parts for name, field in part.get("properties", {}).items()}
    assert len(fields) > 60
    itself = {"$ref", "const", "format", "items"}
    assert [name for name, field in fields.items() if not itself & set(field) and not field.get("description")] == []


def test_the_record_is_valid_under_the_published_schema_which_allows_nothing_else() -> None:
    described = json.loads(schema())
    jsonschema.Draft202012Validator.check_schema(described)
    validator = jsonschema.Draft202012Validator(described, format_checker=jsonschema.FormatChecker())
    certificate = massachusetts()
    bare = replace(certificate, publisher=UNDECLARED, statement=replace(certificate.statement, evaluated=None))
    for each in (certificate, bare):
        validator.validate(json.loads(to_json(each)))
    record = certificate.as_record()
    for part in (record, record["loss"], record["loss"]["guarantee"], record["publisher"], record["products"][0]):
        part["more"] = 1
        assert not validator.is_valid(record)
        del part["more"]
        name, value = part.popitem()
        assert not validator.is_valid(record)
        part[name] = value
    record["loss"]["rounded_up"] = "12.4850"
    assert not validator.is_valid(record), "numbers are numbers"


@pytest.mark.parametrize("version", ["2.1", "3.0"])
def test_what_a_certificate_is_of_is_read_from_this_version_and_from_the_one_before(
    tmp_path: Path, version: str
) -> None:
    record = massachusetts().as_record() | {"version": version}
    if version == "2.1":
        record["ledger"]["beside"] = record["ledger"].pop("note")
    (tmp_path / "certificate.json").write_text(json.dumps(record))
    assert identity(tmp_path) == Identity("ma1940", "tenure_by_county", 2, _hash("draw"), 7, _hash("entry"))


def test_a_swap_is_guaranteed_for_two_records_because_no_list_differs_in_one() -> None:
    """exp(2ε) = 264332² = 69,871,406,224, rounded up to 7.0 × 10¹⁰; ε itself is for one household."""
    stated = massachusetts().as_record()["loss"]["guarantee"]
    assert (stated["units"], stated["factor"], stated["delta"]) == (2, 264_332.0**2, None)
    assert "differ in 2 households (k = 2" in stated["sentence"]
    assert "at most 7.0 × 10¹⁰ to 1" in stated["sentence"]
    assert "ε = 12.4850 is the loss for one household" in stated["number"]


def test_a_loss_in_zcdp_is_guaranteed_apart_from_its_delta_and_says_nothing_of_odds() -> None:
    certificate = massachusetts()
    flavor = replace(certificate.specification.flavor, output_premetric=ConcentratedLoss.output_premetric)
    specification = Specification(flavor, ConcentratedLoss(Fraction("2.514562")))
    statement = replace(certificate.statement, fewest=1, delta=Fraction(1, 10**10), flavor=flavor)
    stated = replace(certificate, specification=specification, statement=statement).as_record()["loss"]["guarantee"]
    assert "ε = 16.9802" in stated["number"], "the ε of the 2020 Census for this ρ, rounded up"
    assert "2.4 × 10⁷ times as probable" in stated["sentence"]
    assert ", plus at most 1 in 10,000,000,000" in stated["sentence"]
    assert "odds" not in stated["sentence"]
    assert stated["delta"] == {"value": 1e-10, "exact": "1/10000000000"}


@pytest.mark.parametrize(
    ("factor", "text"),
    [
        (Fraction(1), "1.00"),
        (Fraction("2.718281828"), "2.72"),
        (Fraction("148.1"), "149"),
        (Fraction(999_999), "999,999"),
        (Fraction(10**6), "1.0 × 10⁶"),
        (Fraction(9_990_000), "1.0 × 10⁷"),
        (Fraction(264_332**2), "7.0 × 10¹⁰"),
        (Fraction(2 * 10**5000 + 1), "2.1 × 10⁵⁰⁰⁰"),
    ],
)
def test_a_factor_is_never_rounded_down(factor: Fraction, text: str) -> None:
    assert factor_text(factor) == text


def test_what_a_deployment_does_not_declare_is_said_not_to_be_declared() -> None:
    certificate = replace(massachusetts(), publisher=UNDECLARED)
    stated = certificate.as_record()["publisher"]
    assert stated == {
        "authority": None,
        "contact": None,
        "license": None,
        "license_url": None,
        "date": "2026-03-01",
        "citation": None,
    }
    assert _page(certificate).text.count("not declared") == 4
    assert "not declared" not in _page(massachusetts()).text


def test_variables_are_named_in_words_and_the_appendix_has_their_names() -> None:
    """The specification in the ledger has names, which an appendix shows; everything before it has words."""
    text = _page(massachusetts()).text
    before, appendix = text.split("Appendix: exact numbers and names")[-2:]
    assert "persons_per_household" not in before.replace("persons_per_household_by", "")
    assert "persons in the household" in before
    assert "persons_per_household" in appendix


def test_a_certificate_states_the_loss_of_a_contributor_beside_the_loss() -> None:
    """Two copies: ε of one household twice, in the list of losses and in the unit's answer. Without copies, neither."""
    certificate = massachusetts()
    twice = replace(certificate, specification=certificate.specification.with_copies(2))
    assert _missing(twice) == []
    before, after = certificate.as_record(), twice.as_record()
    assert after["loss"]["exact"] == before["loss"]["exact"]
    *others, contributor = after["loss"]["equivalents"]["losses"]
    assert others == before["loss"]["equivalents"]["losses"]
    assert contributor["exact"] == f"ln({(B + 1) ** 2})"
    assert "up to 2 records" in contributor["of"]
    answers = [block["answer"] for block in after["specification"] if "contributor" in block["answer"]]
    assert len(answers) == 1
    assert "ε = 24.9700" in answers[0]
    assert "contributor" not in json.dumps(before)
    assert "of 2 households" in before["loss"]["risk"]["sentence"]
    assert "of 2 records" in after["loss"]["risk"]["sentence"]
