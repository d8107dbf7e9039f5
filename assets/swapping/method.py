"""Permutation swapping as a method: what it brings to charge, draw, gates and publication.

Here belongs nothing but the connection of the stages that all releases share with this mechanism's own modules.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from assets.release.method import Gate, Method
from assets.release.published import PublishedTable
from assets.release.statement import Statement
from assets.swapping.cells import drawn_cells, stored_version, swapped_version, write_cells
from assets.swapping.draw import SwappingDraw, describe_draw
from assets.swapping.gates import swapping_gates
from assets.swapping.published import published_tables
from assets.swapping.release import SwappingRelease
from assets.swapping.statement import swapping_statement
from assets.swapping.tables import require_readable
from mechanisms.swapping.loss import evaluated, smallest_attainable, theorem_1
from mechanisms.swapping.permutation import Contingency
from resources.custody import Custody
from resources.statements import Zone
from resources.warehouse import Session


class Swapping(Method[SwappingRelease, SwappingDraw]):
    """How a swapping release is charged, drawn, checked and published."""

    draws_from = (Zone.CONFIDENTIAL, Zone.PUBLIC)
    charge_follows = ("invariants",)
    publishes_from = ("invariants", "charge", "swapped", "tables")
    charge_columns: ClassVar[Mapping[str, str]] = {
        "swap_rate": "p, the probability with which a record is selected",
        "strata": "Number of strata",
        "largest_stratum": "b, the largest stratum with two distinct records; 0 if there is none",
        "epsilon_exact": "ε by Theorem 1, exact",
        "epsilon": "ε by Theorem 1, rounded up",
        "epsilon_evaluated": "ε from the ratio in the proof of Theorem 1, for information",
        "smallest_epsilon": "The smallest ε attainable for b at any swap rate",
        "smallest_epsilon_at_swap_rate": "The swap rate that attains it",
    }

    def describe(self, session: Session, custody: Custody) -> SwappingDraw:
        return describe_draw(session, self.release, custody)

    def require_chargeable(self, session: Session) -> None:
        require_readable(session, self.release)

    def charge_facts(self, draw: SwappingDraw) -> dict[str, str | int | float]:
        b, swap_rate = draw.largest_stratum, self.release.design.swap_rate
        smallest = smallest_attainable(b) if b else (0.0, 0.0)
        loss = theorem_1(b, swap_rate)
        return {
            "swap_rate": str(swap_rate),
            "strata": draw.strata,
            "largest_stratum": b,
            "epsilon_exact": str(loss),
            "epsilon": float(loss.rounded_up(4)),
            "epsilon_evaluated": evaluated(b, swap_rate),
            "smallest_epsilon": round(smallest[0], 4),
            "smallest_epsilon_at_swap_rate": round(smallest[1], 6),
        }

    def charge_description(self) -> str:
        return f"""By Theorem 1 of Bailie, Gong and Meng,

    ε = ln(b + 1) − ln o   for 0 < p ≤ √(b+1) / (√(b+1) + 1),   else ln o;   o = p / (1 − p)

p = {self.release.design.swap_rate} is the swap rate; b is the largest stratum that holds two distinct records, an
invariant."""

    def stored_version(self, session: Session, draw: SwappingDraw) -> str | None:
        return stored_version(session, self.release, draw)

    def make(self, session: Session, draw: SwappingDraw, custody: Custody) -> Contingency:
        return drawn_cells(session, self.release, draw, custody)

    def version_of(self, draw: SwappingDraw, output: Contingency) -> str:
        return swapped_version(draw, output)

    def write(self, session: Session, draw: SwappingDraw, output: Contingency) -> None:
        write_cells(session, self.release, draw, output)

    def gates(self) -> tuple[Gate[SwappingRelease], ...]:
        return swapping_gates(self.release)

    def tables(self) -> Sequence[PublishedTable]:
        return published_tables(self.release)

    def statement(self, draw: SwappingDraw, output_version: str) -> Statement:
        return swapping_statement(self.release.design, draw, output_version)
