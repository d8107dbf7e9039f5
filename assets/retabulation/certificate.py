"""The certificate of a retabulation: the source edition's certificate, with the retabulation's own files and checks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import duckdb
from pydantic import TypeAdapter

from assets.publication.certificate import Certificate
from assets.publication.package import DataFile
from assets.publication.record import VERSION, Check, Publisher, Release, Retabulation
from assets.release.statement import Accuracy
from assets.retabulation.counting import SourceEdition
from assets.retabulation.declaration import TEXTS
from assets.retabulation.declaration import Retabulation as Declared


@dataclass(frozen=True)
class RetabulationCertificate:
    """Like `assets.publication.certificate.Certificate`, whose edition, draw and ledger entry are the source's."""

    release: Declared
    source: SourceEdition
    checks: Sequence[Check]
    products: Sequence[DataFile]

    estimates = ()
    page_name, model = Certificate.page_name, Certificate.model

    @property
    def edition(self) -> int:
        return self.source.identity.edition

    @property
    def revision(self) -> int:
        return self.source.identity.revision

    @property
    def edition_name(self) -> str:
        return self.source.identity.name

    @property
    def randomness(self) -> SimpleNamespace:
        return SimpleNamespace(draw_id=self.source.identity.draw_id)

    @property
    def ledger(self) -> SimpleNamespace:
        return SimpleNamespace(recorded_at=datetime.fromisoformat(self.source.record["ledger"]["recorded_at"]))

    def as_record(self) -> dict[str, Any]:
        """The source's record, with the fields that differ replaced."""
        release, given, edition = self.release, self.source.record, self.edition_name
        words = {"release": release.source, "edition": edition}
        publisher, charged = release.publisher, self.ledger.recorded_at.date()
        citation = f"{publisher.authority} ({charged.year}): {release.title}. Edition {edition}."
        own = {
            "version": VERSION,
            "publisher": Publisher(
                **publisher.model_dump(exclude={"agency", "formats"}),
                date=charged,
                citation=publisher.authority and f"{citation} Draw {self.source.identity.draw_id[:12]}.",
            ),
            "release": Release.model_validate(release, from_attributes=True),
            "retabulation": Retabulation(
                release=release.source.name,
                title=release.source.title,
                edition=edition,
                checksums=self.source.files.checksums,
                note=TEXTS("note", **words),
            ),
            "accuracy": Accuracy(TEXTS("accuracy", **words), ("",), (), ""),
            "code_versions": {"duckdb": duckdb.__version__, "stirred": version("stirred")},
            "checks": tuple(self.checks),
            "products": tuple(self.products),
        }
        also_exact = [*given["invariants"]["also_exact"], TEXTS("also exact")]
        return {
            **given,
            **{name: TypeAdapter(Any).dump_python(value, mode="json", by_alias=True) for name, value in own.items()},
            "mechanism": {**given["mechanism"], "method": f"{given['mechanism']['method']} {TEXTS('method', **words)}"},
            "invariants": {**given["invariants"], "also_exact": also_exact},
            "loss": {**given["loss"], "meaning": f"{TEXTS('meaning', **words)} {given['loss']['meaning']}"},
            "errors": None,
        }
