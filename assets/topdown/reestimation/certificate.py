"""The certificate of a reestimation: the new estimates, their method and their source files, as a record and its
models.

The certificate states no guarantee of its own: the measurements keep the guarantee stated by their publisher.
"""

import operator
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from functools import cached_property
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any, Final, Literal, TypeVar

import duckdb
from pydantic import BaseModel, Field

from assets.publication import record
from assets.publication.package import DataFile
from assets.publication.record import Amount, Check, Count, Part
from assets.release.signature import name_edition
from assets.release.statement import Parameter, Sha256
from assets.topdown.reestimation.declaration import TEXTS, Reestimation
from assets.topdown.reestimation.given import GivenCertificate
from assets.topdown.reestimation.measurements import Opened
from mechanisms.topdown.design import words

P = TypeVar("P", bound=Part)

SCHEMA: Final = "certificate.estimate.schema.json"
"""The name of the JSON Schema of the record, in every publication of estimates."""


class Source(Part):
    """The measurements."""

    title: str = Field(description="Who published them, and where.")
    release: str = Field(
        "", exclude_if=operator.not_, description="The release of a publication, dataset/release; only there if it is."
    )
    edition: str = Field(
        "", exclude_if=operator.not_, description="The edition of that publication; only there if it is one."
    )
    loss: Amount | None = Field(
        description="The protection loss that the certificate of that publication states; null for other files."
    )
    files: Count = Field(description="The number of files, which the product sources lists.")
    checksums: Sha256 = Field(
        description="The SHA-256 of the files' list of checksums: the SHA256SUMS of a publication, or such lines, "
        "ordered by name."
    )
    verified: str = Field(description="Whether a signature was verified, as a sentence.")


class Estimate(Part):
    """What was estimated anew, without a draw or a charge."""

    release: str = Field(
        "",
        exclude_if=operator.not_,
        description="The release of the same dataset whose measurements these are; only there if it is one.",
    )
    note: str = Field(description="What this means for protection.")
    method: str = Field(description="The method, for readers who know no statistics.")
    source: Source
    parameters: tuple[Parameter, ...] = Field(description="How the estimates were made.")
    accuracy: str = Field(description="How accurate the figures are.")


class Draw(Part):
    """The draw of the measurements."""

    draw_id: Sha256 = Field(
        description="The identifier of the draw of the publication; of files without one, their checksums."
    )


class Entry(Part):
    """The charge of the measurements in the budget ledger."""

    sequence: Count = Field(description="The number of the entry of the charge.")
    entry_hash: Sha256 = Field(description="Its hash.")


class Edition(Part):
    """The edition."""

    number: Count = Field(description="That of the release of the same dataset, or how many measurements there were.")
    revision: int = Field(0, exclude_if=operator.not_, description="The revision of that edition; only there if any.")


class EstimateRecord(Part):
    """What was estimated anew from published noisy measurements, and how that can be checked."""

    format: Literal["certificate.estimate.schema.json"] = Field(default=SCHEMA, alias="$schema")
    version: str = Field(default="1.0", description="The version of this format.")
    publisher: record.Publisher
    dataset: record.Dataset
    release: record.Release
    estimate: Estimate
    randomness: Draw
    ledger: Entry | None = Field(
        description="The entry of the measurements in the ledger of this deployment; null if they are not from it. The "
        "estimates have none."
    )
    edition: Edition
    code_versions: dict[str, str] = Field(description="The versions of programs and libraries, by name.")
    checks: tuple[Check, ...] = Field(description="The checks that the estimates passed before they were published.")
    products: tuple[DataFile, ...] = Field(description="The data files.")
    signature: record.Signature


@dataclass(frozen=True)
class EstimateCertificate:
    """As `assets.publication.certificate.Certificate`, without a charge.

    Attributes:
        known: the numbers of the editions published so far, each with its draw.
        signing_key: the fingerprint of the public key that verifies the publication's signature.
    """

    release: Reestimation
    opened: Opened
    known: Collection[tuple[int, str]]
    checks: Sequence[Check]
    products: Sequence[DataFile]
    signing_key: str

    page_name, model, estimates = "estimate.html", EstimateRecord, ()

    @cached_property
    def _given(self) -> GivenCertificate | None:
        """The certificate of the measurements, if they are a publication."""
        return self.opened.certificate

    @property
    def _own(self) -> GivenCertificate | None:
        """The certificate of the measurements, if they come from this deployment."""
        return self._given if self.release.of else None

    @property
    def randomness(self) -> Draw:
        return Draw(draw_id=self._own.randomness.draw_id if self._own else self.opened.checksums)

    @property
    def ledger(self) -> SimpleNamespace:
        """The time at which the measurements were charged or published."""
        given, published = self._given, self.release.declaration.published
        if given:
            return SimpleNamespace(recorded_at=given.ledger.recorded_at)
        if published is None:
            raise ValueError(f"{self.release.schema}: published: the day is missing")
        return SimpleNamespace(recorded_at=datetime.combine(published, time(), UTC))

    @property
    def edition(self) -> int:
        if self._own:
            return self._own.edition.number
        last = max((number for number, _ in self.known), default=0)
        return last if (last, self.randomness.draw_id) in self.known else last + 1

    @property
    def revision(self) -> int:
        return self._own.edition.revision if self._own else 0

    @property
    def edition_name(self) -> str:
        return name_edition(self.edition, self.revision)

    def as_record(self) -> dict[str, Any]:
        release, own, published = self.release, self._own, self.ledger.recorded_at.astimezone(UTC).date()
        authority = release.publisher.authority
        citation = f"{authority} ({published.year}): {release.title}. Edition {self.edition_name}."
        record_ = EstimateRecord(
            publisher=record.Publisher(
                **release.publisher.model_dump(exclude={"agency", "formats"}),
                date=published,
                citation=authority and citation,
            ),
            dataset=record.Dataset.model_validate(release.dataset, from_attributes=True),
            release=record.Release.model_validate(release, from_attributes=True),
            estimate=Estimate(
                release=release.of.name if release.of else "",
                note=TEXTS("note"),
                method=TEXTS("method", full=release.design.full),
                source=self._describe_source(),
                parameters=tuple(self._list_parameters()),
                accuracy=TEXTS("accuracy"),
            ),
            randomness=self.randomness,
            ledger=_select(Entry, own.ledger) if own else None,
            edition=Edition(number=self.edition, revision=self.revision),
            code_versions={"duckdb": duckdb.__version__, "stirred": version("stirred")},
            checks=tuple(self.checks),
            products=tuple(self.products),
            signature=record.Signature(public_key=self.signing_key),
        )
        return record_.model_dump(mode="json", by_alias=True)

    def _describe_source(self) -> Source:
        given, opened = self._given, self.opened
        common = {"title": self.release.dataset.source, "files": len(opened.digests), "checksums": opened.checksums}
        if given is None:
            return Source(**common, loss=None, verified=TEXTS("unsigned"))
        return Source(
            **common,
            release=f"{given.dataset.name}/{given.release.name}",
            edition=name_edition(given.edition.number, given.edition.revision),
            loss=_select(Amount, given.loss),
            verified=TEXTS("verified"),
        )

    def _list_parameters(self) -> Iterator[Parameter]:
        release = self.release
        yield Parameter("Levels", tuple(words(level) for level in release.levels))
        yield Parameter("Estimation", str(release.design.complete(release.levels)))
        if release.design.leaning:
            yield Parameter("Leaning on housing units", "yes", TEXTS("leaning"))
        if exact := sorted(release.declaration.populations.items()):
            yield Parameter("Populations of states, exact", tuple(f"{state}: {each:,}" for state, each in exact))


def _select(model: type[P], given: BaseModel) -> P:
    """The fields of the given part that the model has."""
    return model.model_validate(given.model_dump(include=set(model.model_fields)))
