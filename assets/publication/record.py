"""The record of a certificate as models: the content of `certificate.json`, and its JSON Schema.

The descriptions of the fields, and the docstrings of the models, appear in the schema. `certificate` fills the models
in; the parts that a mechanism states are in `assets.release.statement`.
"""

import base64
import datetime
import json
import operator
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, GetPydanticSchema, PlainSerializer, computed_field
from pydantic.dataclasses import dataclass
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from assets.publication.package import DataFile
from assets.release.prose import Prose
from assets.release.signature import CHECKSUMS, SIGNATURE
from assets.release.statement import RECORDED, Accuracy, DataVersion, Paper, Parameter, Sha256, Uri
from mechanisms.accounting.composition import warn_of_infinite
from mechanisms.accounting.losses import ApproximateLoss, CurveLoss, InfiniteLoss, Loss
from mechanisms.accounting.rounding import DECIMALS
from resources import clock
from resources.custody import CustodyMode
from resources.ledger import remaining

VERSION = "3.6"
"""The version of the record. The first part grows when a program that reads the record could fail on a new one."""

SCHEMA: Final = "certificate.schema.json"
"""The name of the JSON Schema of the record, in every publication."""


PROSE = Prose(Path(__file__).with_name("certificate.md"))


class Part(BaseModel):
    """A part of the record."""

    model_config = ConfigDict(frozen=True, **RECORDED)


class Delta(Part):
    """A probability δ."""

    value: float = Field(description="The probability.")
    exact: str = Field(description="The same as a fraction.")

    @classmethod
    def of(cls, delta: Fraction) -> Self:
        return cls(value=float(delta), exact=str(delta))


class Amount(Part):
    """A protection loss."""

    symbol: Literal["ε", "ρ"] = Field(
        description="The letter of the loss: ε of pure or approximate DP, ρ of zCDP.",
    )
    rounded_up: float | None = Field(description="The loss, rounded up; null if it is infinite.")
    exact: str = Field(
        description="The loss without rounding: a fraction, the logarithm of a fraction, or a sum of both; ∞ if it is "
        "infinite."
    )
    delta: Delta | None = Field(description="δ of an approximate loss; null for others.")
    by: str = Field(
        "",
        exclude_if=operator.not_,
        description="curve if it bounds the privacy curve of all charges together; only there if it does.",
    )

    @classmethod
    def of(cls, loss: Loss, places: int = DECIMALS, **further: Any) -> Self:
        """A loss, with further fields of the model."""
        exact, delta = (loss.epsilon, loss.delta) if isinstance(loss, ApproximateLoss) else (loss, None)
        amount: dict[str, Any] = {
            "symbol": loss.symbol,
            # JSON has no infinite numbers.
            "rounded_up": None if isinstance(loss, InfiniteLoss) else float(loss.round_up(places)),
            "exact": str(exact),
            "delta": None if delta is None else Delta.of(delta),
            "by": "curve" if isinstance(loss, CurveLoss) else "",
        }
        return cls(**amount, **further)


RecordedLoss = Annotated[
    Loss,
    GetPydanticSchema(lambda _, __: core_schema.any_schema()),
    PlainSerializer(Amount.of, return_type=Amount),
]
"""An exact loss, which is recorded as an `Amount`."""

UtcTime = Annotated[
    AwareDatetime,
    PlainSerializer(
        lambda time: time.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z"),
        return_type=Annotated[str, Field(json_schema_extra={"format": "date-time"})],
    ),
]
"""A time with a zone, which is recorded in UTC."""

Count = Annotated[int, Field(ge=1)]


class Publisher(Part):
    """Who publishes, and when."""

    authority: str | None = Field(description="The office that publishes; null if the deployment does not declare it.")
    contact: str | None = Field(description="How to reach it.")
    license: str | None = Field(description="The license of the data, by its SPDX identifier.")
    license_url: str | None = Field(description="Where the text of the license is.")
    date: datetime.date = Field(description="The day of the charge of this edition, in UTC.")
    citation: str | None = Field(description="How to cite this edition; null if no authority is declared.")


class Dataset(Part):
    """What it is made from."""

    name: str = Field(description="Its name.")
    title: str = Field(description="Its name in words.")
    description: str = Field(description="Where the records come from.")
    synthetic: bool = Field(description="Whether the records are generated, or were public before.")
    public: bool = Field(
        False,
        exclude_if=operator.not_,
        description="Whether the records were published before, so that no budget is charged; only there if they were.",
    )
    source: str = Field(
        "", exclude_if=operator.not_, description="Where public records come from; only there if they are public."
    )


class Release(Part):
    """What is published."""

    name: str = Field(description="Its name.")
    title: str = Field(description="Its name in words.")
    description: str = Field(description="What is published.")


class Retabulation(Part):
    """What the tables were counted from, without a draw or a charge of their own."""

    release: str = Field(description="The release of the same dataset whose published records were counted again.")
    title: str = Field(description="Its name in words.")
    edition: str = Field(description="Its edition.")
    checksums: Sha256 = Field(description="The SHA-256 of the SHA256SUMS of that edition, which lists all its files.")
    note: str = Field(description="What this means for the loss.")


class Mechanism(Part):
    """How it is protected."""

    name: str = Field(validation_alias="mechanism", description="The mechanism.")
    version: str = Field(validation_alias="mechanism_version", description="Its version, which the draw id contains.")
    method: str = Field(description="What it does, for readers who know no statistics.")
    parameters: tuple[Parameter, ...]
    papers: tuple[Paper, ...]


class BuildingBlock(Part):
    """A building block of a DP specification (Bailie, Gong and Meng, Section 2.2)."""

    block: str = Field(description="The building block.")
    question: str = Field(description="The question that it answers.")
    answer: str = Field(description="The answer for this release.")


class Invariants(Part):
    """What is exact."""

    held_fixed: tuple[str, ...] = Field(
        description="The statistics that are published exactly, in the words of the data dictionary."
    )
    as_charged: tuple[str, ...] = Field(description="The same in the words of the ledger's entry.")
    also_exact: tuple[str, ...] = Field(description="What else is exact because of them, in sentences.")
    note: str = Field(description="What the loss does not cover.")


class Variable(Part):
    """A variable that the certificate names."""

    name: str = Field(description="The name in the files.")
    words: str = Field(description="The words for it in this certificate.")


class Guarantee(Part):
    """The guarantee in plain words."""

    sentence: str = Field(description="The guarantee in plain words.")
    number: str = Field(description="What the number means.")
    units: Count = Field(description="k: the number of units in which the compared data sets differ.")
    factor: float | None = Field(
        description="The greatest factor between the probabilities of the same publication under both, rounded up; "
        "null if it is 10^300 or more, or if the loss is infinite."
    )
    delta: Delta | None = Field(
        description="What is added to the factor times the other probability; null for pure DP."
    )


class Evaluated(Part):
    """A smaller bound that is not what is charged."""

    rounded_up: float = Field(description="ε, rounded up.")
    meaning: str = Field(description="What it is.")


class TestPower(Part):
    """The best test of one value."""

    false_positive_rate: float = Field(description="How often it reports the value where it is another one.")
    true_positive_rate: float = Field(description="The largest possible, rounded up.")


class Risk(Part):
    """What the loss means for an attacker who knows all records but those that differ, without looking at data."""

    sentence: str = Field(description="The risk in plain words.")
    delta: str = Field(description="δ of both ε, exactly.")
    epsilon: float = Field(
        description="The lesser of the ε by the exact privacy curve of the noise and by the conversion of the loss, "
        "rounded up; never what is charged."
    )
    by_conversion: float = Field(description="ε by the conversion of the loss, rounded up.")
    posterior: float = Field(
        description="The largest probability of picking the true one of two equally likely values."
    )
    tests: tuple[TestPower, ...]


class Conversion(Part):
    """A conversion of ρ into (ε, δ)."""

    authors: str = Field(description="Whose conversion of ρ into (ε, δ).")
    url: Uri


class EquivalentAmount(Amount):
    """The loss of a part of the release, or of some changes."""

    of_what: str = Field(alias="of", description="What it is the loss of.")
    epsilons: tuple[float, ...] = Field(description="ε by each of the conversions, in their order.")
    source: str = Field(description="What it follows from.")


class Equivalents(Part):
    """The loss of parts of the release and of some changes."""

    delta: Delta | None = Field(description="δ of all ε below; null if the loss is not in zCDP.")
    conversions: tuple[Conversion, ...]
    losses: tuple[EquivalentAmount, ...]


class LineAmount(Amount):
    """The loss of an independent measurement."""

    label: str = Field(description="The measurement.")


class ChargedAmount(Amount):
    """The protection loss that was charged."""

    source: str = Field(description="The theorem that gives the loss.")
    guarantee: Guarantee
    meaning: str = Field(description="The guarantee for k units.")
    evaluated: Evaluated | None = Field(
        description="A smaller bound that is not what is charged; null if there is none."
    )
    equivalents: Equivalents
    risk: Risk | None = Field(description="What the loss means as a risk; null if it is infinite.")
    lines: tuple[LineAmount, ...] = Field(
        description="What each independent measurement costs; empty if there is one draw only."
    )


@dataclass(frozen=True, config=RECORDED)
class Randomness:
    """The randomness of the draw."""

    custody: CustodyMode = Field(description="What happens to the draw's key after the draw.")
    draw_id: Sha256 = Field(description="The identifier of the draw.")
    commitment: Sha256 = Field(description="The SHA-256 of the draw's key.")
    generator: str = Field(
        default="AES-256-CTR (OpenSSL)",
        description="The generator that expands the key into random words; none if nothing is random.",
    )

    @computed_field  # type: ignore[prop-decorator]
    @property
    def replay(self) -> str:
        """Whether the draw can be replayed."""
        return PROSE(self.custody.value)


class TimeStamp(Part):
    """A time stamp of the ledger by an outside authority."""

    sequence: Count = Field(description="The number of the ledger's last entry at publication, whatever it is about.")
    entry_hash: Sha256 = Field(description="Its hash, which follows from all entries up to it.")
    time: UtcTime = Field(description="When it existed, by the clock of the authority, in UTC.")
    authority: str = Field(description="The name in the certificate of the authority.")
    token: str = Field(
        description="The authority's answer (TimeStampResp, RFC 3161), DER in base64. It is of the SHA-256 of the 64 "
        "hexadecimal digits of the hash."
    )

    @classmethod
    def of(cls, stamp: clock.TimeStamp) -> Self:
        """The record of a verified stamp."""
        token = base64.b64encode(stamp.token).decode()
        fields = {"sequence": stamp.sequence, "entry_hash": stamp.hash, "time": stamp.time}
        return cls.model_validate({**fields, "authority": stamp.authority, "token": token})


@dataclass(frozen=True, config=RECORDED)
class LedgerReference:
    """The charge in the budget ledger."""

    sequence: Count = Field(description="The number of the entry of the charge.")
    entry_hash: Sha256 = Field(description="Its hash, which the next entry contains.")
    recorded_at: UtcTime = Field(description="When it was written, in UTC.")
    total_after_this_charge: RecordedLoss = Field(
        description="The total of the finite charges to the population up to and including this entry."
    )
    last_charge_at_publication: Count = Field(description="The number of the population's last charge at publication.")
    total_at_publication: RecordedLoss = Field(
        description="The total of the finite charges to the population up to and including that charge."
    )
    cap: RecordedLoss | None = Field(description="The cap of the population; null for public data, which has none.")
    population: str = Field(description="The population that is charged.")
    infinite_charges: int = Field(
        default=0,
        ge=0,
        description="How many of the population's charges are infinite then. No total counts them, and no cap bounds "
        "them.",
    )
    different_people: str = Field(
        default="",
        description="Why the records are about different people than those of another population that they resemble, "
        "in the words of the person who authorized the charge; empty if they resemble none.",
    )

    @computed_field  # type: ignore[prop-decorator]
    @property
    def note(self) -> str:
        """What infinite charges mean, as a sentence; empty if there is none."""
        return warn_of_infinite(self.infinite_charges)

    public_because: str = Field(
        default="",
        exclude_if=operator.not_,
        description="Why the records are public, in the words of the person who authorized the first draw; only there "
        "if they are. The draws are then recorded, and not charged.",
    )
    time_stamp: TimeStamp | None = Field(
        default=None,
        exclude_if=operator.not_,
        description="The time stamp of the ledger; only there if the deployment names an authority.",
    )

    @computed_field  # type: ignore[prop-decorator]
    @property
    def left_at_publication(self) -> float | None:
        """What is left under the cap, in the cap's letter, rounded down; null for public data."""
        return None if self.cap is None else float(remaining(self.total_at_publication, self.cap))


@dataclass(frozen=True, config=RECORDED)
class Edition:
    """A settled draw of the release."""

    number: Count = Field(description="Its number, in the order of settlement.")
    ledger_entry: Count = Field(description="The entry of its charge.")
    charged: RecordedLoss = Field(description="The loss that was charged.")
    recorded_at: UtcTime = Field(description="When that entry was written, in UTC.")
    withdrawn: int | None = Field(default=None, description="The entry that withdrew it; null if it stands.")


class Estimate(Part):
    """A way in which the figures of a draw were estimated and published."""

    revision: int = Field(ge=0, description="How many other ways were published before it.")
    estimation: tuple[str, ...] = Field(description="The parameters of the estimation, each with its values.")


class Editions(Part):
    """The edition."""

    number: Count = Field(description="The number of this edition.")
    revision: int = Field(
        0,
        exclude_if=operator.not_,
        description="How many other estimates of the same draw were published before this one; only there if some "
        "were. The edition is then the number, a point and the revision.",
    )
    estimates: tuple[Estimate, ...] = Field(
        (),
        exclude_if=operator.not_,
        description="How the figures of every edition of this draw were estimated; only there if there are several.",
    )
    all: tuple[Edition, ...] = Field(description="All settled draws of the release.")
    note: str = Field(default_factory=lambda: PROSE("editions", revised=False), description="What an edition is.")


class DataVersions(Part):
    """The versions of the data."""

    versions: tuple[DataVersion, ...]
    note: str = Field(default_factory=lambda: PROSE("versions"), description="What a version is.")


@dataclass(frozen=True, config=RECORDED)
class Check:
    """A blocking check that the release passed."""

    name: str = Field(description="The check.")
    description: str = Field(description="Its rule.")


class Signature(Part):
    """The signature of the files."""

    algorithm: Literal["Ed25519"] = "Ed25519"
    file: str = Field(default=SIGNATURE, description="The file of the signature.")
    signs: str = Field(default=CHECKSUMS, description="The file that is signed.")
    public_key: Sha256 = Field(description="The SHA-256 of the public key in DER.")
    note: str = Field(default_factory=lambda: PROSE("signature"), description="What is signed.")


class Record(Part):
    """What a publication guarantees, and how that can be checked. Rounded numbers are numbers; beside each, the member
    exact has the same number without rounding, as text. Losses are rounded up, and what is left is rounded down.
    """

    format: Literal["certificate.schema.json"] = Field(default=SCHEMA, alias="$schema")
    version: str = Field(
        default=VERSION,
        description="The version of this format. The second part grows with additions, the first with changes that a "
        "program could fail on.",
        json_schema_extra={"pattern": rf"^{VERSION.partition('.')[0]}\.[0-9]+$"},
    )
    publisher: Publisher
    dataset: Dataset
    release: Release
    retabulation: Retabulation | None = Field(
        None,
        exclude_if=operator.not_,
        description="What the tables were counted from; only there if nothing was drawn or charged for them. The loss, "
        "the randomness and the ledger entry are then those of that release.",
    )
    mechanism: Mechanism
    specification: Annotated[tuple[BuildingBlock, ...], Field(min_length=5, max_length=5)] = Field(
        description="The five building blocks of the DP specification."
    )
    invariants: Invariants
    variables: tuple[Variable, ...] = Field(description="The variables that the certificate names.")
    loss: ChargedAmount
    accuracy: Accuracy = Field(
        description="How accurate the published figures are, from parameters and published statistics alone."
    )
    errors: Accuracy | None = Field(
        description="The errors of the published figures, estimated from what is published; null if they are not."
    )
    randomness: Randomness
    ledger: LedgerReference
    edition: Editions
    data_versions: DataVersions
    code_versions: dict[str, str] = Field(description="The versions of programs and libraries, by name.")
    checks: tuple[Check, ...] = Field(description="The checks that the release passed before it was published.")
    products: tuple[DataFile, ...] = Field(description="The data files.")
    signature: Signature


def format_recorded(loss: Mapping[str, Any]) -> str:
    """A loss from a certificate read as JSON, in the form that commands print."""
    if loss["rounded_up"] is None:
        return f"{loss['symbol']} = ∞"
    at = f" at δ = {loss['delta']['value']:g}" if loss["delta"] else ""
    return f"{loss['symbol']} = {loss['rounded_up']:.4f}{at}{' by the curve' if loss.get('by') else ''}"


class _WithoutTitles(GenerateJsonSchema):
    """Leaves out titles of fields, which repeat their names."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False


def schema(model: type[Part] = Record, name: str = SCHEMA) -> bytes:
    """The JSON Schema of a record, whose file has this name."""
    described = model.model_json_schema(mode="serialization", schema_generator=_WithoutTitles)
    title = f"Disclosure avoidance certificate, version {model.model_fields['version'].default.partition('.')[0]}"
    described |= {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": name, "title": title}
    return (json.dumps(described, ensure_ascii=False, indent=2) + "\n").encode()
