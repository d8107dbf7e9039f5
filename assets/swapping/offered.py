"""The records of a withheld swap, as another release counts tables with noise from them.

`assets.swapping.withheld` makes them. The specifications are derived in `docs/mechanisms/swapping-extensions.md`.
"""

from dataclasses import dataclass, replace
from typing import Self

from assets.release.draw import StaleInputError
from assets.release.gate import ReleaseContext
from assets.release.withheld import WithheldRecords
from assets.swapping.method import Swapping
from assets.swapping.records import swap_variables
from assets.swapping.release import SwappingRelease
from assets.swapping.withheld import WITHHELD, rows_not_as_drawn, swap_loss, withheld_gates
from mechanisms.accounting.losses import Loss
from mechanisms.accounting.specification import Specification
from resources.custody import Custody
from resources.warehouse import Session


@dataclass(frozen=True)
class WithheldSwap(WithheldRecords):
    """The records of a withheld swap."""

    release: SwappingRelease

    @classmethod
    def from_release(cls, release: SwappingRelease) -> Self:
        return cls(
            name=f"{release.dataset.name}/{release.name}",
            asset=release.key("swapped"),
            table=release.confidential(WITHHELD),
            columns=release.variables,
            parameters=release.design.as_record(),
            kept_together=(release.design.holding, tuple(swap_variables(release))),
            unit=release.design.unit,
            release=release,
        )

    def specification(self, tables: Loss) -> Specification:
        return self.release.design.specification_of_noise_after(self.release.dataset.title, tables)

    def own_loss(self, session: Session, custody: Custody) -> Specification:
        loss = swap_loss(session, self.release, custody).loss
        return self.release.design.specification(self.release.dataset.title, loss)

    def require_current(self, session: Session, custody: Custody) -> None:
        if rows_not_as_drawn(session, self.release, custody):
            raise StaleInputError(
                f"{self.release.schema}: the withheld records are not those of the current CEF and declaration; "
                "materialize swapped again"
            )

    def problems(self, context: ReleaseContext) -> list[str]:
        own = replace(context, method=Swapping(self.release))
        return [problem for gate in withheld_gates(self.release) for problem in gate.evaluate(own)]
