"""A swapping draw before it is made: what it is called, and what it costs.

Here belongs naming the draw after everything it depends on. Charging it belongs in `assets.charge`, making it in
`asset`. Public tables only: b is an invariant, and the records stand as a keyed version.
"""

from dataclasses import dataclass

from assets.release.draw import Draw
from assets.swapping.records import HOLDING, RECORDS, SWAPPING
from assets.swapping.release import SwappingRelease
from mechanisms.swapping import permutation
from resources.custody import Custody
from resources.warehouse import Session

MECHANISM = "permutation swapping"


@dataclass(frozen=True)
class SwappingDraw(Draw):
    """A use of randomness by permutation swapping.

    Attributes:
        records_version: the keyed version of the records it is made from.
        holding_version: the version of the margin that numbers the holding values.
        swap_version: the version of the margin that numbers the swap values.
        strata: number of strata.
        largest_stratum: b, the largest stratum with two distinct records; 0 if there is none.
    """

    records_version: str
    holding_version: str
    swap_version: str
    strata: int
    largest_stratum: int


def describe_draw(session: Session, release: SwappingRelease, custody: Custody) -> SwappingDraw:
    """The draw that the release's parameters and stored invariants call for."""
    holding, swapping = release.public(HOLDING), release.public(SWAPPING)
    strata, largest = session.row(
        "swapping/strata", holding=holding, swapping=swapping, match=list(release.design.match)
    )
    (version,) = session.row("warehouse/labelled", table=release.public(RECORDS), column="version")
    holding_version, swap_version = session.content_version([holding]), session.content_version([swapping])
    design = release.design
    draw_id = custody.draw_id(
        {
            "dataset": release.dataset.name,
            "release": release.name,
            "stage": "swapped",
            "partition": None,
            "mechanism": MECHANISM,
            "version": permutation.VERSION,
            "parameters": {
                "unit": design.unit,
                "persons": design.persons,
                "match": list(design.match),
                "swap": list(design.swap),
                "held": list(design.held),
                "swap rate": str(design.swap_rate),
                "custody": release.custody.value,
            },
            "inputs": {
                "records": version,
                "holding": holding_version,
                "swap": swap_version,
            },
        }
    )
    return SwappingDraw(
        draw_id=draw_id,
        records_version=version,
        holding_version=holding_version,
        swap_version=swap_version,
        strata=strata,
        largest_stratum=int(largest),
        specification=design.specification(release.dataset.name, int(largest)),
    )
