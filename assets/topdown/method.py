"""TopDown as a method: what it brings to charge, draw, gates and publication.

Here belongs nothing but the connection of the stages that all releases share with this mechanism's own modules.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from assets.conventions import KEYED
from assets.release.method import Gate, Method
from assets.release.published import PublishedTable
from assets.release.statement import Statement
from assets.topdown.draw import TopDownDraw, describe_draw
from assets.topdown.gates import topdown_gates
from assets.topdown.limits import limits_of
from assets.topdown.measurements import (
    Drawn,
    drawn_measurements,
    measurements_version,
    stored_version,
    write_measurements,
)
from assets.topdown.published import published_tables
from assets.topdown.release import TopDownRelease
from assets.topdown.statement import topdown_statement
from resources.custody import Custody
from resources.statements import Zone
from resources.warehouse import Session


class TopDownMethod(Method[TopDownRelease, TopDownDraw]):
    """How a TopDown release is charged, drawn, checked and published."""

    draws_from = (Zone.CONFIDENTIAL, Zone.PUBLIC)
    charge_follows = ("histograms", "invariants")
    charge_crossing = KEYED
    publishes_from = ("charge", "noisy_measurements", "tables")
    charge_columns: ClassVar[Mapping[str, str]] = {
        "output_premetric": "How the loss is measured",
        "rho": "Loss for any change of one person's record, exact: what is charged",
        "rho_rounded_up": "The same, rounded up",
        "persons_rho": "Of that, the persons' measurements, exact",
        "units_rho": "The units' measurements for one unit changed, exact; a move may change two",
        "lines": "How many histograms, levels and queries are measured",
    }

    def describe(self, session: Session, custody: Custody) -> TopDownDraw:
        return describe_draw(session, self.release, custody)

    def require_chargeable(self, session: Session) -> None:
        limits_of(session, self.release)

    def charge_facts(self, draw: TopDownDraw) -> dict[str, str | int | float]:
        design = self.release.design
        return {
            "output_premetric": design.loss.output_premetric,
            "rho": str(design.loss),
            "rho_rounded_up": float(design.loss.rounded_up(6)),
            "persons_rho": str(design.persons),
            "units_rho": str(design.units),
            "lines": len(design.measured),
        }

    def charge_description(self) -> str:
        return """All histograms, levels and queries are charged together, with a line for each: ρ times the level's
share times the query's share, exactly. Before that it is shown from the invariants alone that some histograms satisfy
every constraint; a declaration that none can satisfy is refused and costs nothing. The loss does not depend on the
data; the draw's name does, through a keyed version of the exact histograms."""

    def stored_version(self, session: Session, draw: TopDownDraw) -> str | None:
        return stored_version(session, self.release, draw)

    def make(self, session: Session, draw: TopDownDraw, custody: Custody) -> Drawn:
        return drawn_measurements(session, self.release, draw, custody)

    def version_of(self, draw: TopDownDraw, output: Drawn) -> str:
        return measurements_version(self.release.design, iter(output))

    def write(self, session: Session, draw: TopDownDraw, output: Drawn) -> None:
        write_measurements(session, self.release, draw, output)

    def gates(self) -> tuple[Gate[TopDownRelease], ...]:
        return topdown_gates(self.release)

    def tables(self) -> Sequence[PublishedTable]:
        return published_tables(self.release)

    def statement(self, draw: TopDownDraw, output_version: str) -> Statement:
        return topdown_statement(self.release, draw, output_version)
