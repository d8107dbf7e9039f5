"""A TopDown draw before it is made: what it is called, and what it costs.

Here belongs naming the draw after everything it depends on. Public tables only: the histograms stand as a keyed
version.
"""

from dataclasses import dataclass

from assets.release.draw import Draw
from assets.topdown.release import HISTOGRAMS_VERSION, INVARIANTS, SPINE, TopDownRelease
from mechanisms.topdown import noise
from resources.custody import Custody
from resources.warehouse import Session

MECHANISM = "TopDown"


@dataclass(frozen=True)
class TopDownDraw(Draw):
    """A use of randomness by TopDown: all histograms, levels and queries of a release.

    Attributes:
        histograms_version: the keyed version of the exact histograms.
        places_version: the version of spine and invariants.
    """

    histograms_version: str
    places_version: str


def describe_draw(session: Session, release: TopDownRelease, custody: Custody) -> TopDownDraw:
    """The draw that the release's design, the histograms and the spine call for."""
    (version,) = session.row("warehouse/labelled", table=release.public(HISTOGRAMS_VERSION), column="version")
    places = session.content_version([release.public(SPINE), release.public(INVARIANTS)])
    draw_id = custody.draw_id(
        {
            "dataset": release.dataset.name,
            "release": release.name,
            "stage": "noisy_measurements",
            "partition": None,
            "mechanism": MECHANISM,
            "version": noise.VERSION,
            "parameters": release.design.as_record() | {"custody": release.custody.value},
            "inputs": {"histograms": version, "places": places},
        }
    )
    return TopDownDraw(draw_id, release.design.specification(release.dataset.name), version, places)
