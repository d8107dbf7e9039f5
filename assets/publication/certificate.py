"""The certificate of a release: its guarantee and how to check it, as JSON and as a page.

The first page states the published tables, their source, method, guarantee, exact statistics, loss and accuracy; the
rest follows, with a list of contents. The page is made from the record alone, so the two cannot disagree. `record` has
the models of the record and its JSON Schema, `certificate.md` the texts, and each mechanism contributes a `Statement`
(`assets.release.statement`). A certificate does not depend on the time or place of a run. The same release therefore
has the same certificate until its population is charged again, which changes the total at publication, or, if the
deployment names a time stamp authority, until the ledger has another entry.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from jinja2 import Template
from markupsafe import Markup, escape

from assets.ledger.view import describe_contributor
from assets.publication import record
from assets.publication.package import DataFile
from assets.publication.record import PROSE, Check, Delta, Edition, LedgerReference, Randomness, Record
from assets.release.prose import load_template
from assets.release.release import Publisher
from assets.release.risks import describe_risk
from assets.release.signature import name_edition
from assets.release.statement import Equivalent, Statement
from mechanisms.accounting.composition import bun_steinke, canonne_kamath_steinke
from mechanisms.accounting.losses import (
    INFINITY,
    ApproximateLoss,
    ConcentratedLoss,
    InfiniteLoss,
    PureLoss,
    format_loss,
)
from mechanisms.accounting.risks import FALSE_POSITIVE_RATES, assess_risk
from mechanisms.accounting.rounding import DECIMALS, LINE_DECIMALS, bound_exponential, format_decimal_above, round_up
from mechanisms.accounting.specification import CONTRIBUTOR, DELTA, PERSON_RECORD, RECORDS_OF_OTHERS, Specification

CONVERSIONS = (
    ("Canonne, Kamath and Steinke", "https://doi.org/10.29012/jpc.784", canonne_kamath_steinke),
    ("Bun and Steinke", "https://doi.org/10.1007/978-3-662-53641-4_24", bun_steinke),
)
"""The conversions of ρ into (ε, δ): authors, publication, and the function."""

QUESTIONS = {
    "Domain": "Who is eligible for protection?",
    "Multiverse": "Where does the protection extend to?",
    "Input premetric": "What is the granularity of protection?",
    "Output premetric": "How are changes in the output measured?",
    "Protection-loss budget": "How much protection is afforded?",
}
"""The five building blocks and their questions (Bailie, Gong and Meng, Section 2.2)."""

_KINDS = {
    InfiniteLoss: "infinite",
    ConcentratedLoss: "zCDP",
    ApproximateLoss: "approximate",
    PureLoss: "pure",
}

_LONGEST_ON_A_LINE = 24
_LARGEST_PLAIN = 10**6
_LARGEST_NUMBER = 10**300
_LARGEST_COUNTED = 10**15
_DIGITS = 40
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Certificate:
    """All statements of a release's certificate.

    Attributes:
        specification: the five building blocks; its loss is the loss charged.
        ledger: the charge.
        editions: all settled draws of the release at publication, including this one.
        code_versions: the versions of programs and libraries, by name.
        signing_key: the fingerprint of the public key that verifies the publication's signature.
        revision: the number of other estimates of the draw that were published before.
        estimates: all published estimates of the draw, including this one.
    """

    publisher: Publisher
    dataset: record.Dataset
    release: record.Release
    statement: Statement
    specification: Specification
    randomness: Randomness
    ledger: LedgerReference
    edition: int
    editions: tuple[Edition, ...]
    code_versions: Mapping[str, str]
    checks: tuple[Check, ...]
    products: tuple[DataFile, ...]
    signing_key: str
    revision: int = 0
    estimates: tuple[record.Estimate, ...] = ()

    page_name: ClassVar = "certificate.html"
    model: ClassVar[type[record.Part]] = Record

    @property
    def edition_name(self) -> str:
        return name_edition(self.edition, self.revision)

    def as_record(self) -> dict[str, Any]:
        """The record as plain values for JSON: rounded numbers as numbers, and exact ones beside them as text."""
        statement, charged = self.statement, self.specification.flavor
        shown = replace(self.specification, flavor=statement.flavor or charged).with_copies(charged.copies)
        record_ = Record(
            publisher=self._publisher(),
            dataset=self.dataset,
            release=self.release,
            mechanism=record.Mechanism.model_validate(statement, from_attributes=True),
            specification=building_blocks(shown),
            invariants=record.Invariants(
                held_fixed=shown.flavor.multiverse,
                as_charged=charged.multiverse,
                also_exact=statement.also_exact,
                note=PROSE("invariants", flavor=shown.flavor, unit=shown.flavor.unit),
            ),
            variables=tuple(
                record.Variable(name=name, words=words) for name, words in sorted(statement.variables.items())
            ),
            loss=self._loss(shown),
            accuracy=statement.accuracy,
            errors=statement.errors,
            retabulation=None,
            randomness=self.randomness,
            ledger=self.ledger,
            edition=record.Editions(
                number=self.edition,
                revision=self.revision,
                estimates=self.estimates if len(self.estimates) > 1 else (),
                all=self.editions,
                note=PROSE("editions", revised=len(self.estimates) > 1),
            ),
            data_versions=record.DataVersions(versions=statement.data_versions),
            code_versions=dict(sorted(self.code_versions.items())),
            checks=self.checks,
            products=self.products,
            signature=record.Signature(public_key=self.signing_key),
        )
        return record_.model_dump(mode="json", by_alias=True)

    def _publisher(self) -> record.Publisher:
        """The publisher, date and citation. The date is the date of the charge, which never changes."""
        publisher, charged = self.publisher, self.ledger.recorded_at.astimezone(UTC).date()
        citation = f"{publisher.authority} ({charged.year}): {self.release.title}. Edition {self.edition_name}."
        return record.Publisher(
            **publisher.model_dump(exclude={"agency", "formats"}),
            date=charged,
            citation=publisher.authority and f"{citation} Draw {self.randomness.draw_id[:12]}.",
        )

    def _loss(self, specification: Specification) -> record.ChargedAmount:
        statement, evaluated = self.statement, self.statement.evaluated
        return record.ChargedAmount.of(
            specification.loss,
            source=statement.loss_source,
            guarantee=guarantee(specification, statement),
            meaning=f"{_write('meaning', specification)} {statement.remark}".rstrip(),
            evaluated=evaluated
            and record.Evaluated(
                rounded_up=float(round_up(Fraction(evaluated.epsilon), DECIMALS)), meaning=evaluated.meaning
            ),
            equivalents=_equivalents(statement, specification),
            risk=_state_risk(specification, statement),
            lines=[record.LineAmount.of(line.loss, LINE_DECIMALS, label=line.label) for line in specification.lines],
        )


def _equivalents(statement: Statement, specification: Specification) -> record.Equivalents:
    """The losses of parts and of some changes, each also as (ε, δ) by every conversion if it is in zCDP. If the dataset
    declares copies, they include the loss of a contributor."""
    equivalents, delta = statement.equivalents, statement.delta
    if specification.flavor.copies > 1 and (loss := specification.loss_for(CONTRIBUTOR)):
        of = f"One contributor, whose answers are in up to {specification.flavor.copies} records"
        equivalents += (Equivalent(of, loss, PROSE("contributor")),)
        delta = delta or (DELTA if isinstance(loss, ConcentratedLoss) else None)
    conversions = CONVERSIONS if delta is not None else ()
    return record.Equivalents(
        delta=None if delta is None else Delta.of(delta),
        conversions=tuple(record.Conversion(authors=authors, url=url) for authors, url, _ in conversions),
        losses=tuple(
            record.EquivalentAmount.of(
                equivalent.loss,
                of=equivalent.of,
                epsilons=[
                    float(convert(equivalent.loss, delta, DECIMALS))
                    for _, _, convert in conversions
                    if delta is not None and isinstance(equivalent.loss, ConcentratedLoss)
                ],
                source=equivalent.source,
            )
            for equivalent in equivalents
        ),
    )


def _state_risk(specification: Specification, statement: Statement) -> record.Risk | None:
    risk = assess_risk(specification, statement.fewest, statement.delta or DELTA)
    if risk is None:
        return None
    return record.Risk(
        sentence=describe_risk(risk, specification.flavor, statement.fewest),
        delta=str(risk.delta),
        epsilon=float(risk.epsilon),
        by_conversion=float(risk.by_conversion),
        posterior=float(risk.posterior),
        tests=tuple(
            record.TestPower(false_positive_rate=float(rate), true_positive_rate=float(power))
            for rate, power in zip(FALSE_POSITIVE_RATES, risk.powers, strict=True)
        ),
    )


def _write(heading: str, specification: Specification, **values: Any) -> str:
    flavor, kind = specification.flavor, _KINDS[type(specification.loss)]
    return PROSE(heading, flavor=flavor, unit=flavor.unit, kind=kind, loss=format_loss(specification.loss), **values)


def guarantee(specification: Specification, statement: Statement) -> record.Guarantee:
    """The guarantee in plain words, with the greatest factor by which the publication can change odds.

    For a loss in zCDP, the factor is exp(ε) of its (ε, δ) by Canonne, Kamath and Steinke. If the loss is infinite,
    the words deny a guarantee.
    """
    fewest = statement.fewest
    group = specification.loss.of_group(fewest)
    if isinstance(group, InfiniteLoss):
        return record.Guarantee(
            sentence=_write("no guarantee", specification),
            number=_write("no guarantee, number", specification),
            units=1,
            factor=None,
            delta=None,
        )
    delta: Fraction | None = None
    implied: Decimal | None = None
    if isinstance(group, ConcentratedLoss):
        delta = statement.delta or DELTA
        epsilon = PureLoss(Fraction(canonne_kamath_steinke(group, delta, DECIMALS)))
        implied = epsilon.round_up(DECIMALS)
    elif isinstance(group, ApproximateLoss):
        epsilon, delta = group.epsilon, group.delta
    else:
        epsilon = group
    factor = bound_exponential(epsilon.rational, _DIGITS) * epsilon.argument
    chance = delta and (f"1 in {delta.denominator:,}" if delta.numerator == 1 else format_decimal_above(delta))
    values = {"fewest": fewest, "factor": factor_text(factor), "chance": chance}
    return record.Guarantee(
        sentence=_write("guarantee", specification, **values),
        number=_write("guarantee, number", specification, **values, delta=delta, implied=implied),
        units=fewest,
        factor=_float_above(factor) if factor < _LARGEST_NUMBER else None,
        delta=None if delta is None else Delta.of(delta),
    )


def _float_above(number: Fraction) -> float:
    value = float(number)
    return math.nextafter(value, math.inf) if Fraction(value) < number else value


def factor_text(factor: Fraction) -> str:
    """A factor of at least 1, rounded up, in common notation: `2.72`, `148,414` or `7.0 × 10¹⁰`."""
    if factor < _LARGEST_PLAIN:
        places = 2 if factor < 100 else 0
        return f"{round_up(factor, places):,}"
    # Python refuses to write integers of more than 4,300 digits as text.
    exponent = Decimal(math.ceil(factor)).adjusted()
    mantissa = round_up(factor / 10**exponent, 1)
    if mantissa == 10:
        exponent, mantissa = exponent + 1, Decimal("1.0")
    return f"{mantissa} × 10{str(exponent).translate(_SUPERSCRIPTS)}"


def to_json(certificate: Certificate) -> bytes:
    return (json.dumps(certificate.as_record(), ensure_ascii=False, indent=2, sort_keys=True) + "\n").encode()


def to_html(certificate: Certificate) -> bytes:
    return page(certificate.page_name).render(certificate.as_record()).encode()


def building_blocks(specification: Specification) -> tuple[record.BuildingBlock, ...]:
    """The specification's answers to the five questions."""
    further = {"person_record": PERSON_RECORD, "records_of_others": RECORDS_OF_OTHERS}
    further |= {"contributor": describe_contributor(specification)}
    return tuple(
        record.BuildingBlock(block=block, question=question, answer=_write(block, specification, **further))
        for block, question in QUESTIONS.items()
    )


def _shown(value: object) -> str:
    """A value as the page shows it: numbers with thousands separators (`49,808,700`, `1.5 × 10²⁰`), and lists joined
    with commas, or with semicolons if their parts have commas, unless they have sentences."""
    if isinstance(value, list):
        sentences, commas = any(text.endswith(".") for text in value), any(", " in text for text in value)
        return (" " if sentences else "; " if commas else ", ").join(value) or "none"
    if isinstance(value, float):
        text = f"{value:,.6g}"
        if "e+" not in text:
            return text
        if abs(value) < _LARGEST_COUNTED:
            return f"{float(text):,.0f}"
        mantissa, exponent = text.split("e+")
        return f"{mantissa} × 10{str(int(exponent)).translate(_SUPERSCRIPTS)}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _places(value: float | None, places: int = DECIMALS) -> str:
    """A number with a fixed number of decimals, the same for all quantities of its kind; ∞ for None."""
    if value is None:
        return INFINITY
    return f"{value:,.{places}f}"


def _breakable(name: str) -> Markup:
    """A name that may be broken only after its underscores, if it is too long for a line on a phone."""
    return Markup(str(escape(name)).replace("_", "_<wbr>" if len(name) > _LONGEST_ON_A_LINE else "_"))


@cache
def page(name: str) -> Template:
    """The template of a page in this folder, whose values are escaped."""
    return load_template(
        Path(__file__).with_name(name),
        escape=True,
        shown=_shown,
        places=_places,
        above=lambda exact: format_decimal_above(Fraction(exact)),
        breakable=_breakable,
    )
