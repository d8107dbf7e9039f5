"""The public inputs of a swapping draw: the stored invariants and the keyed version of the records."""

from dataclasses import dataclass

import numpy as np

from assets.release.draw import Inputs, read_published_version
from assets.swapping.records import HOLDING, RECORDS, SWAPPING, holding_table
from assets.swapping.release import SwappingRelease
from assets.swapping.stirs import stored_stirring
from assets.swapping.unique import UniqueRecords, stored_unique
from mechanisms.accounting.losses import PureLoss
from mechanisms.swapping.design import SwapLosses
from mechanisms.swapping.moved import Moved, moved
from mechanisms.swapping.permutation import Contingency, firsts_of_strata
from resources.warehouse import Session


@dataclass(frozen=True)
class SwappingInputs(Inputs):
    """The inputs of a swap.

    The versions are those of the records (`records`), and of the margins that number holding values (`holding`) and
    swap values (`swap`).

    Attributes:
        largest_stratum: b, the size of the largest stratum with two distinct records, which determines the loss; 0 if
            there is none.
        unique: how many records the margins publish exactly.
        moved: the shares of records that the swap is expected to move.
        losses: the losses, if they do not follow from b and one rate alone; None for a plain swap.
    """

    strata: int
    largest_stratum: int
    unique: UniqueRecords
    moved: Moved
    losses: SwapLosses | None = None

    @property
    def loss(self) -> int | PureLoss:
        """What the specification's loss follows from: b of a plain swap, or the loss that is charged."""
        return self.largest_stratum if self.losses is None else self.losses.charged


def read_inputs(session: Session, release: SwappingRelease, version_key: bytes) -> SwappingInputs:
    """The inputs from the stored tables. All versions are keyed."""
    versions = {
        "records": read_published_version(session, release.public(RECORDS)),
        "holding": session.content_version([holding_table(release)], version_key),
        "swap": session.content_version([release.public(SWAPPING)], version_key),
    }
    swap_rate = release.design.plain_rate
    if swap_rate is None:
        found = stored_stirring(session, release)
        first = found.losses.first
        return SwappingInputs(
            versions,
            first.strata,
            first.largest_stratum,
            stored_unique(session, release),
            Moved(found.selected[0], None, *found.selected[1:]),
            found.losses,
        )
    sizes = session.arrow("swapping/stratum_sizes", swapping=release.public(SWAPPING))
    records, squares, number = (sizes[name].to_numpy() for name in ("records", "squares", "strata"))
    return SwappingInputs(
        versions,
        *strata(session, release),
        stored_unique(session, release),
        moved(records, squares, number, swap_rate),
    )


def strata(session: Session, release: SwappingRelease) -> tuple[int, int]:
    """The number of strata, and b, the size of the largest with two distinct records, from the stored margins."""
    number, largest = session.row(
        "swapping/strata",
        holding=release.public(HOLDING),
        swapping=release.public(SWAPPING),
        match=list(release.design.match),
    )
    return int(number), int(largest)


def strata_of_records(records: Contingency) -> tuple[int, int]:
    """The result of `strata`, from the records as they are permuted. Records of two cells are distinct."""
    firsts = firsts_of_strata(records.stratum)
    cells = np.diff(firsts, append=len(records.stratum))
    sizes = np.add.reduceat(records.count, firsts)
    return len(firsts), int(sizes[cells > 1].max(initial=0))
