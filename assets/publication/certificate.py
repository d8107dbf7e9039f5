"""The certificate of a release: what the release guarantees and how this can be checked, as JSON and as one page.

The page is made from the JSON record alone, so the two cannot disagree. Each mechanism contributes a `Statement`
(`assets.release.statement`). Nothing in a certificate depends on when or where a run took place. The same release
therefore has the same certificate until its population is charged again, which alters the total at publication.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from assets.publication.package import DataFile
from assets.publication.signature import CHECKSUMS, SIGNATURE
from assets.release.statement import Statement
from mechanisms.accounting.composition import Loss, stated, symbol
from mechanisms.accounting.specification import (
    BOUNDED,
    PERSON_RECORD,
    RECORDS_OF_OTHERS,
    UNBOUNDED,
    Specification,
)
from mechanisms.accounting.zcdp import ConcentratedLoss
from resources.custody import CustodyMode

PLACES = 4
LINE_PLACES = 6

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
        total: the total charged to the population up to and including this entry.
        last_charge: the number of the population's last charge at publication.
        total_at_publication: the total charged to the population up to and including that charge.
        cap: the cap of the population.
        population: the name of the population.

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
        """The certificate as plain values for JSON; exact numbers are text and are accompanied by rounded values."""
        flavor, loss, statement = self.specification.flavor, self.specification.loss, self.statement
        return {
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
                "parameters": [
                    {
                        "label": parameter.label,
                        "value": list(parameter.value) if isinstance(parameter.value, tuple) else parameter.value,
                        "note": parameter.note,
                    }
                    for parameter in statement.parameters
                ],
            },
            "specification": _building_blocks(self.specification),
            "invariants": {
                "held_fixed": list(flavor.multiverse),
                "note": _INVARIANTS if flavor.multiverse else _NO_INVARIANTS[flavor.neighbors].format(unit=flavor.unit),
            },
            "loss": {
                "exact": str(loss),
                "rounded_up": str(loss.rounded_up(PLACES)),
                "symbol": symbol(loss),
                "source": statement.loss_source,
                "meaning": _meaning(self.specification, statement.remark),
                "evaluated": statement.evaluated
                and {"rounded_up": _rounded_up(statement.evaluated.epsilon), "meaning": statement.evaluated.meaning},
                "equivalents": [asdict(equivalent) for equivalent in statement.equivalents],
                "lines": [
                    {"label": line.label, "exact": str(line.loss), "rounded_up": str(line.loss.rounded_up(LINE_PLACES))}
                    for line in self.specification.lines
                ],
            },
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
                "total_after_this_charge": stated(self.ledger.total, PLACES),
                "total_at_publication": stated(self.ledger.total_at_publication, PLACES),
                "last_charge_at_publication": self.ledger.last_charge,
                "population": self.ledger.population,
                "cap": f"{symbol(self.ledger.cap)} = {self.ledger.cap}",
            },
            "edition": {
                "number": self.edition,
                "all": [
                    {
                        "number": edition.number,
                        "ledger_entry": edition.sequence,
                        "charged": stated(edition.charge, PLACES),
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


def to_json(certificate: Certificate) -> bytes:
    """The record as JSON in UTF-8, with sorted keys."""
    return (json.dumps(certificate.as_record(), ensure_ascii=False, indent=2, sort_keys=True) + "\n").encode()


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
            "answer": f"{symbol(loss)} = {loss}, at most {loss.rounded_up(PLACES)}; a smaller loss is more protection",
        },
    ]


def _meaning(specification: Specification, remark: str) -> str:
    flavor, loss = specification.flavor, specification.loss
    unit = flavor.unit
    agree = "If two possible data sets agree on every invariant and differ in"
    if not flavor.multiverse:
        agree = "If two possible data sets differ in"
    if isinstance(loss, ConcentratedLoss):
        return (
            f"{agree} k {unit}s, the Rényi divergence of order α between the outcomes under one and under the other "
            "is at most k²ρα, for every α > 1 and in both directions (zero-concentrated differential privacy). "
            f"{remark}"
        ).rstrip()
    return (
        f"{agree} k {unit}s, no outcome of the mechanism is more than exp(kε) times as probable under one as under the "
        f"other. {remark}"
    ).rstrip()


def _utc(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _rounded_up(epsilon: float) -> str:
    return str(Decimal(epsilon).quantize(Decimal(1).scaleb(-PLACES), rounding=ROUND_CEILING))


def _shown(value: object) -> str:
    """A value as the page shows it: integers with thousands separators, lists joined with commas."""
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


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
    return environment.get_template(name)
