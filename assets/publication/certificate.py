"""The certificate of a release: what it guarantees and how that can be checked, as JSON and as one page.

Here belongs everything a certificate states, and how it is written down. The page is made of the record and
of nothing else, so the two cannot disagree. What one mechanism has to say about itself comes as `Parameter`s;
for permutation swapping they are in `swapping`. Nothing in a certificate depends on when or where a run took
place, so the same release has the same certificate.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from assets.publication.package import DataFile
from assets.release.statement import Statement
from mechanisms.accounting.composition import Loss, stated, symbol
from mechanisms.accounting.specification import Specification
from mechanisms.accounting.zcdp import ConcentratedLoss
from resources.custody import CustodyMode

PLACES = 4
LINE_PLACES = 6

_CUSTODY = {
    CustodyMode.ESCROWED: "The custodian can derive the draw's key again, and so replay the draw for an audit.",
    CustodyMode.EPHEMERAL: "The draw's key was thrown away after the draw, so nobody can replay it.",
}

_INVARIANTS = (
    "The loss does not cover the invariants. They are taken to be known exactly and so stand outside the protection "
    "that it measures: it compares only data sets that agree on every one of them, and losses under different "
    "invariants do not compare."
)

_NO_INVARIANTS = "There is nothing that the loss does not cover: it compares any two data sets of the domain."

_VERSIONS = (
    "A version is a hash of content. A keyed one (HMAC-SHA256) depends on confidential records and can be "
    "recomputed by the custodian only, so that nobody can try guessed records against it; any other can be "
    "recomputed by anyone who holds the tables it was taken of."
)


@dataclass(frozen=True)
class Randomness:
    """Where the draw's randomness came from.

    Attributes:
        custody: what became of the draw's key.
        draw_id: the draw's name.
        commitment: the SHA-256 of the draw's key.
        generator: what made the random words of the key.
    """

    custody: CustodyMode
    draw_id: str
    commitment: str
    generator: str = "AES-256-CTR (OpenSSL)"


@dataclass(frozen=True)
class LedgerReference:
    """The entry that charged the release, and where the dataset stood after it.

    Attributes:
        sequence: the entry's number.
        entry_hash: its hash, which the next entry carries on.
        recorded_at: when it was written; aware of its time zone.
        total: the dataset's total loss, this entry included.
        cap: the greatest total the dataset may reach.

    Raises:
        ValueError: if the time knows no time zone.
    """

    sequence: int
    entry_hash: str
    recorded_at: datetime
    total: Loss
    cap: Loss

    def __post_init__(self) -> None:
        if self.recorded_at.tzinfo is None:
            raise ValueError("the ledger's time of an entry must say its time zone")


@dataclass(frozen=True)
class Check:
    """A blocking check that the release passed."""

    name: str
    description: str


@dataclass(frozen=True)
class Certificate:
    """Everything the certificate of a release states.

    Attributes:
        dataset: the dataset's name.
        dataset_title: its name in words.
        dataset_description: where its records come from.
        synthetic: whether its records are made up or public; the page then says so at the top.
        release: the release's name.
        release_title: its name in words.
        release_description: what is published, for a reader.
        statement: what the mechanism says of itself.
        specification: the five building blocks; its loss is the one charged.
        randomness: of the draw.
        ledger: the charge.
        code_versions: by name of program or library.
        checks: all that were passed.
        products: the data files.
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
    code_versions: Mapping[str, str]
    checks: tuple[Check, ...]
    products: tuple[DataFile, ...]

    def as_record(self) -> dict[str, Any]:
        """The certificate as plain values for JSON: exact numbers as text, with their roundings beside them."""
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
                "note": _INVARIANTS if flavor.multiverse else _NO_INVARIANTS,
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
                "recorded_at": self.ledger.recorded_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
                "total": stated(self.ledger.total, PLACES),
                "cap": f"{symbol(self.ledger.cap)} = {self.ledger.cap}",
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
        }


def to_json(certificate: Certificate) -> bytes:
    """The record as JSON in UTF-8, with sorted keys."""
    return (json.dumps(certificate.as_record(), ensure_ascii=False, indent=2, sort_keys=True) + "\n").encode()


def to_html(certificate: Certificate) -> bytes:
    """The record as one page in UTF-8 that needs no other file, for the screen and for paper."""
    return _page().render(certificate.as_record()).encode()


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
            "answer": f"{symbol(loss)} = {loss}, at most {loss.rounded_up(PLACES)}; the smaller, the more protection",
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


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _rounded_up(epsilon: float) -> str:
    return str(Decimal(epsilon).quantize(Decimal(1).scaleb(-PLACES), rounding=ROUND_CEILING))


def _shown(value: object) -> str:
    """A value as the page shows it: whole numbers with their thousands set apart, lists with commas."""
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


@cache
def _page() -> Any:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).resolve().parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["shown"] = _shown
    return environment.get_template("certificate.html")
