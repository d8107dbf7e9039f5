"""PHSafe as a method: what it brings to charge, draw, gates and publication.

Here belongs nothing but the connection of the stages that all releases share with this mechanism's own modules.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from assets.conventions import KEYED
from assets.phsafe.draw import PHSafeDraw, describe_draw
from assets.phsafe.gates import phsafe_gates
from assets.phsafe.measurements import drawn_measurements, stored_version, write_measurements
from assets.phsafe.noise import measurements_version
from assets.phsafe.published import published_tables
from assets.phsafe.release import PHSafeRelease
from assets.phsafe.statement import phsafe_statement
from assets.release.method import Gate, Method
from assets.release.published import PublishedTable
from assets.release.statement import Statement
from mechanisms.accounting.composition import symbol
from mechanisms.phsafe.margins import Noise
from resources.custody import Custody
from resources.statements import Zone
from resources.warehouse import Session


class PHSafeMethod(Method[PHSafeRelease, PHSafeDraw]):
    """How a PHSafe release is charged, drawn, checked and published."""

    draws_from = (Zone.CONFIDENTIAL, Zone.PUBLIC)
    charge_follows = ("counts",)
    charge_crossing = KEYED
    publishes_from = ("parameters", "charge", "noisy_measurements", "postprocessed", "tables")
    charge_columns: ClassVar[Mapping[str, str]] = {
        "output_premetric": "How the loss is measured",
        "unbounded": "Loss for one person added or removed, exact",
        "bounded": "Loss for one person's record changed, exact: what is charged",
        "bounded_rounded_up": "The same, rounded up",
        "lines": "How many pairs of run and level are measured",
    }

    def describe(self, session: Session, custody: Custody) -> PHSafeDraw:
        return describe_draw(session, self.release, custody)

    def charge_facts(self, draw: PHSafeDraw) -> dict[str, str | int | float]:
        design = self.release.design
        return {
            "output_premetric": design.bounded.output_premetric,
            "unbounded": str(design.unbounded),
            "bounded": str(design.bounded),
            "bounded_rounded_up": float(design.bounded.rounded_up(6)),
            "lines": len(design.released),
        }

    def charge_description(self) -> str:
        gaussian = self.release.design.noise is Noise.GAUSSIAN
        letter = symbol(self.release.design.bounded)
        source = "Theorems 3 and 4 of Sexton et al." if gaussian else "group privacy of two"
        return f"""All runs are charged together, with a line for each run and level. Budgets are declared for one
person added or removed (unbounded neighbors); what is charged is the loss for one person's record changed (bounded),
2Σ{letter} over runs and levels ({source}). Nothing of it depends on the data but the draw's
name, which a keyed version of the exact counts enters into."""

    def stored_version(self, session: Session, draw: PHSafeDraw) -> str | None:
        return stored_version(session, self.release, draw)

    def make(self, session: Session, draw: PHSafeDraw, custody: Custody) -> pa.Table:
        return drawn_measurements(session, self.release, draw, custody)

    def version_of(self, draw: PHSafeDraw, output: pa.Table) -> str:
        return measurements_version(output)

    def write(self, session: Session, draw: PHSafeDraw, output: pa.Table) -> None:
        write_measurements(session, self.release, draw, output)

    def gates(self) -> tuple[Gate[PHSafeRelease], ...]:
        return phsafe_gates(self.release)

    def tables(self) -> Sequence[PublishedTable]:
        return published_tables(self.release)

    def statement(self, draw: PHSafeDraw, output_version: str) -> Statement:
        return phsafe_statement(self.release, draw, output_version)
