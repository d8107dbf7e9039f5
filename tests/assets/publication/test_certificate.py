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
from typing import Any

import pytest

from assets.publication import certificate as certificate_module
from assets.publication.certificate import Certificate, Check, Edition, LedgerReference, Randomness, to_html, to_json
from assets.publication.package import DataFile
from assets.release.statement import DataVersion, Equivalent, Statement
from assets.swapping import statement as swapping
from mechanisms.accounting.loss import PureLoss
from mechanisms.accounting.specification import Line, Specification
from mechanisms.accounting.zcdp import ConcentratedLoss
from mechanisms.swapping.design import SwappingDesign
from resources.custody import CustodyMode

B = 264_331


def _hash(name: str) -> str:
    return sha256(name.encode()).hexdigest()


def massachusetts() -> Certificate:
    """The release of Bailie, Gong and Meng, Section 3.4: dwellings swapped across counties at p = 1/2."""
    design = SwappingDesign(
        unit="household",
        match=("state", "persons_per_household"),
        swap=("county",),
        held=("tenure",),
        swap_rate=Fraction(1, 2),
        persons=(),
    )
    specification = design.specification("ma1940", B)
    title = "Dwellings by county and tenure"
    return Certificate(
        dataset="ma1940",
        dataset_title="1940 Census of Massachusetts, dwellings",
        dataset_description="Rebuilt from the published counts of owned and rented dwellings by county. Household "
        "sizes beyond the published mode are spread independently of county and tenure.",
        synthetic=True,
        release="tenure_by_county",
        release_title="Tenure by county, Massachusetts 1940",
        release_description="How many dwellings in each county were owned and how many were rented, after half of "
        "the households on average had their county swapped.",
        statement=Statement(
            mechanism=swapping.MECHANISM,
            mechanism_version="1",
            parameters=swapping.parameters(design, B, 12),
            loss_source=swapping.LOSS_SOURCE,
            data_versions=(
                DataVersion("cef", _hash("records"), keyed=True),
                DataVersion("invariants", _hash("invariants"), keyed=False),
                DataVersion("swapped", _hash("swapped"), keyed=False),
            ),
            remark="They differ in at least two households.",
            evaluated=swapping.evaluated(design, B),
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
            Edition(1, 3, PureLoss(Fraction(7, 2)), "2026-02-01T09:30:00+00:00", withdrawn=5),
            Edition(2, 7, specification.loss, "2026-03-01T09:30:00+00:00"),
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
    text = _page(certificate).text
    return [
        path
        for path, fact in _leaves(certificate.as_record())
        if not isinstance(fact, bool) and fact is not None
        if (f"{fact:,}" if isinstance(fact, int) else fact) not in text
    ]


def test_the_page_states_every_fact_of_the_record() -> None:
    """Each fact in turn is made unique, so that it cannot be found by accident."""
    assert _missing(massachusetts()) == []
    record = massachusetts().as_record()
    facts = [(path, fact) for path, fact in _leaves(record) if not isinstance(fact, bool)]
    assert len(facts) > 80
    for path, fact in facts:
        changed = deepcopy(record)
        reduce(lambda part, key: part[key], path[:-1], changed)[path[-1]] = (
            918_273_645 if isinstance(fact, int) else "told-apart"
        )
        text = _parsed(certificate_module.page("certificate.html").render(changed)).text
        assert ("918,273,645" if isinstance(fact, int) else "told-apart") in text, path


def test_every_field_of_a_certificate_is_in_the_record_and_on_the_page() -> None:
    """Each text is changed in turn. If the record or the page lacked a field, it would not change."""
    certificate = massachusetts()
    changes: dict[str, Any] = {
        name: f"{name} told apart" for name, value in vars(certificate).items() if isinstance(value, str)
    } | {
        "synthetic": False,
        "specification": replace(certificate.specification, loss=PureLoss.logarithm(5)),
        "randomness": replace(certificate.randomness, custody=CustodyMode.EPHEMERAL),
        "ledger": replace(certificate.ledger, cap=PureLoss(Fraction(41, 3))),
        "edition": 3,
        "editions": certificate.editions[1:],
        "code_versions": {"stirred": "9"},
        "checks": certificate.checks[1:],
        "products": certificate.products[1:],
    }
    statement = certificate.statement
    said: dict[str, Any] = {
        name: f"{name} told apart" for name, value in vars(statement).items() if isinstance(value, str)
    } | {
        "parameters": statement.parameters[:-1],
        "data_versions": statement.data_versions[1:],
        "evaluated": replace(statement.evaluated, epsilon=3.0),  # type: ignore[type-var]
        "equivalents": (Equivalent("(ε, δ)", "ε = 20", "Lemma 7"),),
    }
    assert changes.keys() | {"statement"} == vars(certificate).keys()
    assert said.keys() == vars(statement).keys()
    variants = [(name, replace(certificate, **{name: value})) for name, value in changes.items()]
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
    assert (loss["exact"], loss["rounded_up"]) == ("ln(264332)", "12.4850")
    assert "Theorem 1" in loss["source"]
    assert float(loss["evaluated"]["rounded_up"]) <= float(loss["rounded_up"])


def test_an_evaluated_bound_is_rounded_up() -> None:
    certificate = massachusetts()
    assert certificate.statement.evaluated is not None
    evaluated = replace(certificate.statement.evaluated, epsilon=1.00001)
    changed = replace(certificate, statement=replace(certificate.statement, evaluated=evaluated))
    assert changed.as_record()["loss"]["evaluated"]["rounded_up"] == "1.0001"


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
    ledger = replace(certificate.ledger, total=loss, total_at_publication=loss, cap=ConcentratedLoss(Fraction(20)))
    certificate = replace(certificate, specification=specification, ledger=ledger)
    assert _missing(certificate) == []
    text = _page(certificate).text
    assert "ρ = 0.5000" in text
    assert "ε charged" not in text
    assert "k²ρα" in text
    assert [line["exact"] for line in certificate.as_record()["loss"]["lines"]] == ["1/8", "3/8"]


def test_the_page_states_the_five_building_blocks() -> None:
    blocks = massachusetts().as_record()["specification"]
    assert [block["question"].split()[0] for block in blocks] == ["Who", "Where", "What", "How", "How"]
    assert blocks[4]["question"].startswith("How much")
    assert all(block["answer"] for block in blocks)


def test_the_page_says_that_the_loss_does_not_cover_the_invariants() -> None:
    assert "loss does not cover the invariants" in _page(massachusetts()).text


def test_only_a_synthetic_dataset_is_labelled_synthetic() -> None:
    assert "Synthetic data" in _page(massachusetts()).text
    assert "Synthetic data" not in _page(replace(massachusetts(), synthetic=False)).text


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
    with pytest.raises(ValueError, match="time zone"):
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
            equivalents=(Equivalent(hostile, hostile, hostile),),
        ),
        products=(replace(certificate.products[0], title=hostile, path=hostile),),
    )
    page = _page(certificate)
    assert {tag for tag, _ in page.tags} == {tag for tag, _ in _page(massachusetts()).tags}
    assert _missing(certificate) == []


def test_the_page_is_self_contained() -> None:
    page, source = _page(massachusetts()), to_html(massachusetts()).decode()
    assert not {"script", "link", "img", "iframe", "object", "embed", "form"} & {tag for tag, _ in page.tags}
    assert not [
        name for _, attributes in page.tags for name in attributes if name in ("src", "href") or name[:2] == "on"
    ]
    assert not re.search(r"https?:|url\(|@import", source)
