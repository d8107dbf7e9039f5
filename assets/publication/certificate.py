"""The certificate of a release: what the release guarantees and how this can be checked, as JSON and as a page.

The first page says what was published, from what, by what method, what is guaranteed, what is exact, what it costs and
how accurate it is; the rest follows, with a list of contents. The page is made from the JSON record alone, so the two
cannot disagree. `certificate.schema.json` describes the record. Each mechanism contributes a `Statement`
(`assets.release.statement`). Nothing in a certificate depends on when or where a run took place. The same release
therefore has the same certificate until its population is charged again, which alters the total at publication.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from assets.publication.package import DataFile
from assets.publication.signature import CHECKSUMS, SIGNATURE
from assets.release.publisher import Publisher
from assets.release.statement import Accuracy, Statement
from mechanisms.accounting.composition import warn_of_infinite
from mechanisms.accounting.conversions import bun_steinke, canonne_kamath_steinke
from mechanisms.accounting.losses import (
    INFINITY,
    ApproximateLoss,
    ConcentratedLoss,
    InfiniteLoss,
    Loss,
    PureLoss,
    format_loss,
)
from mechanisms.accounting.rounding import DECIMALS, LINE_DECIMALS, bound_exponential, format_decimal_above, round_up
from mechanisms.accounting.specification import (
    BOUNDED,
    DELTA,
    PERSON_RECORD,
    RECORDS_OF_OTHERS,
    UNBOUNDED,
    Flavor,
    Specification,
)
from resources.custody import CustodyMode
from resources.ledger import remaining

VERSION = "2.1"
"""The version of the record. The first part grows when a program that reads the record could fail on a new one."""

SCHEMA = "certificate.schema.json"
"""The JSON Schema of the record, in this folder and in every publication."""

CONVERSIONS = (
    ("Canonne, Kamath and Steinke", "https://doi.org/10.29012/jpc.784", canonne_kamath_steinke),
    ("Bun and Steinke", "https://doi.org/10.1007/978-3-662-53641-4_24", bun_steinke),
)
"""The conversions of ρ into (ε, δ): authors, where they are published, and the function."""

_LONGEST_ON_A_LINE = 24
_LARGEST_PLAIN = 10**6
_LARGEST_NUMBER = 10**300
_DIGITS = 40
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

_CUSTODY = {
    CustodyMode.ESCROWED: "The custodian can derive the draw's key again, and can therefore replay the draw for an "
    "audit.",
    CustodyMode.EPHEMERAL: "The draw's key was destroyed after the draw, so the draw cannot be replayed.",
}

_INVARIANTS = (
    "The loss does not cover the invariants. They are treated as exactly known and lie outside the protection that the "
    "loss measures: it compares only data sets that agree on all of them. Losses under different invariants are not "
    "comparable."
)

_NO_INVARIANTS = {
    BOUNDED: "The loss compares any two data sets of the domain that have equally many {unit}s. It does not cover how "
    "many there are.",
    UNBOUNDED: "The loss covers every difference: it compares any two data sets of the domain.",
}

_VERSIONS = (
    "A version is a hash of content. A keyed version (HMAC-SHA256) depends on confidential records. Only the custodian "
    "can recompute it, so nobody else can test guessed records against it. Anyone who has the underlying tables can "
    "recompute the other versions."
)

_EDITIONS = (
    "Each draw of the release is an edition, numbered in the order of the ledger, and each was charged in full. An "
    "edition that was published stays available in the folder editions/ under its number when another one takes its "
    "place, unless it was withdrawn."
)

_SIGNATURE = (
    "The signature covers every file of this publication. The fingerprint is the SHA-256 of the public key in DER. "
    "Compare it with a copy that you obtained elsewhere: whoever can replace all files can also replace this one."
)


@dataclass(frozen=True)
class Randomness:
    """The source of the draw's randomness.

    Attributes:
        custody: what happens to the draw's key after the draw.
        draw_id: the identifier of the draw.
        commitment: the SHA-256 of the draw's key.
        generator: the generator that expands the key into random words.
    """

    custody: CustodyMode
    draw_id: str
    commitment: str
    generator: str = "AES-256-CTR (OpenSSL)"


@dataclass(frozen=True)
class LedgerReference:
    """The ledger entry that charged the release, and the population's total after it and at publication.

    Attributes:
        sequence: the number of the entry.
        entry_hash: the hash of the entry, which the next entry contains.
        recorded_at: when the entry was written, with a time zone.
        total: the total of the finite charges to the population up to and including this entry.
        last_charge: the number of the population's last charge at publication.
        total_at_publication: the total of the finite charges to the population up to and including that charge.
        cap: the cap of the population.
        population: the name of the population.
        infinite: the number of the population's charges at publication that are infinite, which no total counts.

    Raises:
        ValueError: if the time has no time zone.
    """

    sequence: int
    entry_hash: str
    recorded_at: datetime
    total: Loss
    last_charge: int
    total_at_publication: Loss
    cap: Loss
    population: str
    infinite: int = 0

    def __post_init__(self) -> None:
        if self.recorded_at.tzinfo is None:
            raise ValueError("the time of a ledger entry must have a time zone")


@dataclass(frozen=True)
class Edition:
    """A settled draw of the release.

    Attributes:
        number: its number, in the order of settlement.
        sequence: the number of the ledger entry that charged it.
        charge: the loss that was charged.
        recorded_at: when that entry was written, ISO 8601 in UTC.
        withdrawn: the number of the ledger entry that withdrew it; None if it was not withdrawn.
    """

    number: int
    sequence: int
    charge: Loss
    recorded_at: str
    withdrawn: int | None = None


@dataclass(frozen=True)
class Check:
    """A blocking check that the release passed."""

    name: str
    description: str


@dataclass(frozen=True)
class Certificate:
    """Everything the certificate of a release states.

    Attributes:
        publisher: who publishes.
        dataset: the name of the dataset.
        dataset_title: the name of the dataset in words.
        dataset_description: where the records come from.
        synthetic: whether the records are generated or public; if so, the page says it at the top.
        release: the name of the release.
        release_title: the name of the release in words.
        release_description: what is published, for readers.
        statement: the statement of the mechanism.
        specification: the five building blocks; its loss is the loss charged.
        randomness: the randomness of the draw.
        ledger: the charge.
        edition: the number of this edition.
        editions: all settled draws of the release at publication, this one among them.
        code_versions: the versions of programs and libraries, by name.
        checks: the checks that the release passed.
        products: the data files.
        signing_key: the fingerprint of the public key that verifies the publication's signature.
    """

    publisher: Publisher
    dataset: str
    dataset_title: str
    dataset_description: str
    synthetic: bool
    release: str
    release_title: str
    release_description: str
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

    def as_record(self) -> dict[str, Any]:
        """The certificate as plain values for JSON: rounded numbers as numbers, and exact ones beside them as text."""
        loss, statement = self.specification.loss, self.statement
        flavor = statement.flavor or self.specification.flavor
        shown = replace(self.specification, flavor=flavor)
        return {
            "$schema": SCHEMA,
            "version": VERSION,
            "publisher": self._publisher(),
            "dataset": {
                "name": self.dataset,
                "title": self.dataset_title,
                "description": self.dataset_description,
                "synthetic": self.synthetic,
            },
            "release": {
                "name": self.release,
                "title": self.release_title,
                "description": self.release_description,
            },
            "mechanism": {
                "name": statement.mechanism,
                "version": statement.mechanism_version,
                "method": statement.method,
                "parameters": [
                    {
                        "label": parameter.label,
                        "value": list(parameter.value) if isinstance(parameter.value, tuple) else parameter.value,
                        "exact": list(parameter.exact),
                        "note": parameter.note,
                    }
                    for parameter in statement.parameters
                ],
                "papers": [asdict(paper) for paper in statement.papers],
            },
            "specification": _building_blocks(shown),
            "invariants": {
                "held_fixed": list(flavor.multiverse),
                "as_charged": list(self.specification.flavor.multiverse),
                "also_exact": list(statement.also_exact),
                "note": _INVARIANTS if flavor.multiverse else _NO_INVARIANTS[flavor.neighbors].format(unit=flavor.unit),
            },
            "variables": [{"name": name, "words": words} for name, words in sorted(statement.variables.items())],
            "loss": {
                **_amount(loss),
                "source": statement.loss_source,
                "guarantee": guarantee(shown, statement),
                "meaning": _meaning(shown, statement.remark),
                "evaluated": statement.evaluated
                and {"rounded_up": _rounded_up(statement.evaluated.epsilon), "meaning": statement.evaluated.meaning},
                "equivalents": self._equivalents(),
                "lines": [
                    {"label": line.label, **_amount(line.loss, LINE_DECIMALS)} for line in self.specification.lines
                ],
            },
            "accuracy": _figures(statement.accuracy),
            "errors": statement.errors and _figures(statement.errors),
            "randomness": {
                "custody": self.randomness.custody.value,
                "replay": _CUSTODY[self.randomness.custody],
                "generator": self.randomness.generator,
                "draw_id": self.randomness.draw_id,
                "commitment": self.randomness.commitment,
            },
            "ledger": {
                "sequence": self.ledger.sequence,
                "entry_hash": self.ledger.entry_hash,
                "recorded_at": _utc(self.ledger.recorded_at),
                "total_after_this_charge": _amount(self.ledger.total),
                "total_at_publication": _amount(self.ledger.total_at_publication),
                "last_charge_at_publication": self.ledger.last_charge,
                "population": self.ledger.population,
                "cap": _amount(self.ledger.cap),
                "infinite_charges": self.ledger.infinite,
                "beside": warn_of_infinite(self.ledger.infinite),
                "left_at_publication": float(remaining(self.ledger.total_at_publication, self.ledger.cap)),
            },
            "edition": {
                "number": self.edition,
                "all": [
                    {
                        "number": edition.number,
                        "ledger_entry": edition.sequence,
                        "charged": _amount(edition.charge),
                        "recorded_at": _utc(datetime.fromisoformat(edition.recorded_at)),
                        "withdrawn": edition.withdrawn,
                    }
                    for edition in self.editions
                ],
                "note": _EDITIONS,
            },
            "data_versions": {"versions": [asdict(version) for version in statement.data_versions], "note": _VERSIONS},
            "code_versions": dict(sorted(self.code_versions.items())),
            "checks": [asdict(check) for check in self.checks],
            "products": [
                {
                    "name": file.product,
                    "title": file.title,
                    "path": file.path,
                    "rows": file.rows,
                    "bytes": file.bytes,
                    "sha256": file.sha256,
                    "interval": file.interval,
                }
                for file in self.products
            ],
            "signature": {
                "algorithm": "Ed25519",
                "file": SIGNATURE,
                "signs": CHECKSUMS,
                "public_key": self.signing_key,
                "note": _SIGNATURE,
            },
        }

    def _publisher(self) -> dict[str, Any]:
        """Who publishes, when, and how to cite it. The date is that of the charge, which never changes."""
        publisher, charged = self.publisher, self.ledger.recorded_at.astimezone(UTC).date()
        citation = f"{publisher.authority} ({charged.year}): {self.release_title}. Edition {self.edition}."
        return {
            "authority": publisher.authority,
            "contact": publisher.contact,
            "license": publisher.license,
            "license_url": publisher.license_url,
            "date": charged.isoformat(),
            "citation": publisher.authority and f"{citation} Draw {self.randomness.draw_id[:12]}.",
        }

    def _equivalents(self) -> dict[str, Any]:
        """The losses of parts and of some changes, each also as (ε, δ) by every conversion if it is in zCDP."""
        delta = self.statement.delta
        return {
            "delta": _exactly(delta),
            "conversions": [{"authors": authors, "url": url} for authors, url, _ in CONVERSIONS if delta is not None],
            "losses": [
                {
                    "of": each.of,
                    **_amount(each.loss),
                    "epsilons": [
                        float(convert(each.loss, delta, DECIMALS))
                        for _, _, convert in CONVERSIONS
                        if delta is not None and isinstance(each.loss, ConcentratedLoss)
                    ],
                    "source": each.source,
                }
                for each in self.statement.equivalents
            ],
        }


def _amount(loss: Loss, places: int = DECIMALS) -> dict[str, Any]:
    """A loss as a number, rounded up, with its symbol and its exact text; and its δ if it has one.

    JSON has no infinite number, so that of an infinite loss is null; its exact text is ∞.
    """
    epsilon, delta = (loss.epsilon, loss.delta) if isinstance(loss, ApproximateLoss) else (loss, None)
    return {
        "symbol": loss.symbol,
        "rounded_up": None if isinstance(loss, InfiniteLoss) else float(loss.round_up(places)),
        "exact": str(epsilon),
        "delta": _exactly(delta),
    }


def _exactly(delta: Fraction | None) -> dict[str, Any] | None:
    return None if delta is None else {"value": float(delta), "exact": str(delta)}


_OF_GROUP = "exp(kε) times, plus δ(1 + exp(ε) + … + exp((k − 1)ε))"
"""What (ε, δ) becomes for k units (`ApproximateLoss.of_group`)."""


def guarantee(specification: Specification, statement: Statement) -> dict[str, Any]:
    """The guarantee in plain words, with the greatest factor by which the publication can change odds.

    For a loss in zCDP, the factor is exp(ε) of its (ε, δ) by Canonne, Kamath and Steinke.
    """
    flavor, fewest = specification.flavor, statement.fewest
    group = specification.loss.of_group(fewest)
    if isinstance(group, InfiniteLoss):
        return _no_guarantee(flavor)
    delta: Fraction | None = None
    implied = ""
    if isinstance(group, ConcentratedLoss):
        delta = statement.delta or DELTA
        epsilon = PureLoss(Fraction(canonne_kamath_steinke(group, delta, DECIMALS)))
        implied = f" At δ = {float(delta):g} it implies ε = {epsilon.round_up(DECIMALS)}, and the factor is exp(ε)."
    elif isinstance(group, ApproximateLoss):
        epsilon, delta = group.epsilon, group.delta
    else:
        epsilon = group
    factor = bound_exponential(epsilon.rational, _DIGITS) * epsilon.argument
    who = f"one {flavor.unit}" if fewest == 1 else f"{fewest} {flavor.unit}s"
    least = f" (k = {fewest}: two such lists that differ at all differ in {fewest} or more)" if fewest > 1 else ""
    alike = " agree on everything held fixed and" if flavor.multiverse else ""
    but = f", plus at most {_chance(delta)}" if delta else ""
    odds = (
        ""
        if delta
        else (f" Whatever else somebody knows, even odds between the two become at most {factor_text(factor)} to 1.")
    )
    return {
        "sentence": f"Take two possible lists of the confidential records that{alike} differ in {who}{least}. Nothing "
        f"that is published here is more than {factor_text(factor)} times as probable under one list as under the "
        f"other{but}.{odds}",
        "number": f"{format_loss(specification.loss)} is the loss for one {flavor.unit}."
        + (implied or (f" For k of them it is {_OF_GROUP}." if delta else " For k of them, the factor is exp(kε)."))
        + " A factor of 1 would mean that nothing at all can be learned about which list is the true one; the greater "
        "it is, the less is ruled out. It bounds the worst case.",
        "units": fewest,
        "factor": _float_above(factor) if factor < _LARGEST_NUMBER else None,
        "delta": _exactly(delta),
    }


def _figures(accuracy: Accuracy) -> dict[str, Any]:
    return {
        "summary": accuracy.summary,
        "columns": list(accuracy.columns),
        "rows": [list(row) for row in accuracy.rows],
        "note": accuracy.note,
    }


def _no_guarantee(flavor: Flavor) -> dict[str, Any]:
    """What stands in the place of the guarantee if the loss is infinite."""
    alike = " agree on everything held fixed and" if flavor.multiverse else ""
    return {
        "sentence": "This method gives no guarantee of differential privacy. There are two possible lists of the "
        f"confidential records that{alike} differ in one {flavor.unit}, or a few, and no number bounds how much more "
        "probable a publication is under one than under the other. What is published may rule one of them out.",
        "number": "ε = ∞: no finite loss holds. How well the method protects depends on what somebody knows already, "
        "and no figure here measures it.",
        "units": 1,
        "factor": None,
        "delta": None,
    }


def _float_above(number: Fraction) -> float:
    """The least floating-point number that is not less than a number."""
    value = float(number)
    return math.nextafter(value, math.inf) if Fraction(value) < number else value


def _chance(delta: Fraction) -> str:
    return f"1 in {delta.denominator:,}" if delta.numerator == 1 else format_decimal_above(delta)


def factor_text(factor: Fraction) -> str:
    """A factor of at least 1, rounded up, as readers write it: `2.72`, `148,414` or `7.0 × 10¹⁰`."""
    if factor < _LARGEST_PLAIN:
        places = 2 if factor < 100 else 0
        return f"{round_up(factor, places):,}"
    # Python writes no integer of more than 4,300 digits as text.
    exponent = Decimal(math.ceil(factor)).adjusted()
    mantissa = round_up(factor / 10**exponent, 1)
    if mantissa == 10:
        exponent, mantissa = exponent + 1, Decimal("1.0")
    return f"{mantissa} × 10{str(exponent).translate(_SUPERSCRIPTS)}"


def to_json(certificate: Certificate) -> bytes:
    """The record as JSON in UTF-8, with sorted keys."""
    return (json.dumps(certificate.as_record(), ensure_ascii=False, indent=2, sort_keys=True) + "\n").encode()


def schema() -> bytes:
    """The JSON Schema of the record."""
    return (Path(__file__).resolve().parent / SCHEMA).read_bytes()


def to_html(certificate: Certificate) -> bytes:
    """The record as a self-contained HTML page in UTF-8, for screen and print."""
    return page("certificate.html").render(certificate.as_record()).encode()


def _building_blocks(specification: Specification) -> list[dict[str, Any]]:
    """The five questions of Bailie, Gong and Meng, Section 2.2, and this specification's answers."""
    flavor, loss = specification.flavor, specification.loss
    unit = flavor.unit
    granularity = (
        f"One {unit}: two data sets are as far apart as the number of {unit}s in which they differ (Hamming distance)"
    )
    if unit != "person" and flavor.changes_per_person:
        changed = f"one {unit}" if flavor.changes_per_person == 1 else f"{flavor.changes_per_person} {unit}s"
        granularity += f". A change of one person's characteristics changes at most {changed}"
    if unit == PERSON_RECORD:
        granularity += f". It bounds no change of a person: {RECORDS_OF_OTHERS}"
    return [
        {
            "block": "Domain",
            "question": "Who is eligible for protection?",
            "answer": _sentence(flavor.domain),
        },
        {
            "block": "Multiverse",
            "question": "Where does the protection extend to?",
            "answer": "Wherever two data sets of the domain agree on every invariant: " + "; ".join(flavor.multiverse)
            if flavor.multiverse
            else "Any two data sets of the domain; there are no invariants",
        },
        {
            "block": "Input premetric",
            "question": "What is the granularity of protection?",
            "answer": granularity,
        },
        {
            "block": "Output premetric",
            "question": "How are changes in the output measured?",
            "answer": _sentence(flavor.output_premetric),
        },
        {
            "block": "Protection-loss budget",
            "question": "How much protection is afforded?",
            "answer": "ε = ∞: no finite amount"
            if isinstance(loss, InfiniteLoss)
            else f"{format_loss(loss)}, rounded up; a smaller loss is more protection",
        },
    ]


def _meaning(specification: Specification, remark: str) -> str:
    flavor, loss = specification.flavor, specification.loss
    unit = flavor.unit
    agree = "If two possible data sets agree on every invariant and differ in"
    if not flavor.multiverse:
        agree = "If two possible data sets differ in"
    if isinstance(loss, InfiniteLoss):
        words = "No finite ε bounds how much more probable an outcome is under one data set than under another."
        return f"{words} {remark}".rstrip()
    if isinstance(loss, ConcentratedLoss):
        return (
            f"{agree} k {unit}s, the Rényi divergence of order α between the outcomes under one and under the other "
            "is at most k²ρα, for every α > 1 and in both directions (zero-concentrated differential privacy). "
            f"{remark}"
        ).rstrip()
    if isinstance(loss, ApproximateLoss):
        return (
            f"{agree} one {unit}, no set of outcomes of the mechanism is more than exp(ε) times as probable under one "
            f"as under the other, plus δ. For k {unit}s it is {_OF_GROUP} (approximate differential privacy). {remark}"
        ).rstrip()
    return (
        f"{agree} k {unit}s, no outcome of the mechanism is more than exp(kε) times as probable under one as under the "
        f"other. {remark}"
    ).rstrip()


def _utc(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _rounded_up(epsilon: float) -> float:
    return float(Decimal(epsilon).quantize(Decimal(1).scaleb(-DECIMALS), rounding=ROUND_CEILING))


def _shown(value: object) -> str:
    """A value as the page shows it: numbers with thousands separators, lists joined with commas."""
    if isinstance(value, list):
        return ", ".join(value) or "none"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _places(value: float | None, places: int = DECIMALS) -> str:
    """A number with a fixed number of decimals, the same wherever a quantity of its kind stands; ∞ for None."""
    if value is None:
        return INFINITY
    return f"{value:,.{places}f}"


def _breakable(name: str) -> Markup:
    """A name that, if it is too long for a line of a phone, may be broken after its underscores, and nowhere else."""
    return Markup(str(escape(name)).replace("_", "_<wbr>" if len(name) > _LONGEST_ON_A_LINE else "_"))


@cache
def page(name: str) -> Template:
    """The template of a page in this folder, whose values are escaped."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).resolve().parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["shown"] = _shown
    environment.filters["places"] = _places
    environment.filters["above"] = lambda exact: format_decimal_above(Fraction(exact))
    environment.filters["breakable"] = _breakable
    environment.globals["schema"] = SCHEMA
    return environment.get_template(name)
