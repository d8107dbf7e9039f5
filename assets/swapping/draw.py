"""The public inputs of a swapping draw: the stored invariants and the keyed version of the records."""

from dataclasses import dataclass

from assets.release.draw import Inputs, published_version
from assets.swapping.records import HOLDING, RECORDS, SWAPPING
from assets.swapping.release import SwappingRelease
from resources.warehouse import Session


@dataclass(frozen=True)
class SwappingInputs(Inputs):
    """The inputs of a swap.

    The versions are those of the records (`records`, keyed), and of the margins that number holding values (`holding`)
    and swap values (`swap`).

    Attributes:
        strata: the number of strata.
        largest_stratum: b, the size of the largest stratum with two distinct records, which determines the loss; 0 if
            there is none.
    """

    strata: int
    largest_stratum: int


def read_inputs(session: Session, release: SwappingRelease) -> SwappingInputs:
    """The inputs from the stored tables."""
    holding, swapping = release.public(HOLDING), release.public(SWAPPING)
    strata, largest = session.row(
        "swapping/strata", holding=holding, swapping=swapping, match=list(release.design.match)
    )
    versions = {
        "records": published_version(session, release.public(RECORDS)),
        "holding": session.content_version([holding]),
        "swap": session.content_version([swapping]),
    }
    return SwappingInputs(versions, strata, int(largest))
