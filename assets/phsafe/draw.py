"""A PHSafe draw before it is made: what it is called, and what it costs.

Here belongs naming the draw after everything it depends on. Public tables only: the exact counts stand as a keyed
version.
"""

from dataclasses import dataclass

from assets.phsafe.release import PHSafeRelease
from assets.release.draw import Draw
from mechanisms.phsafe import noise
from resources.custody import Custody
from resources.warehouse import Session

MECHANISM = "PHSafe"
COUNTS_VERSION = "counts_version"


@dataclass(frozen=True)
class PHSafeDraw(Draw):
    """A use of randomness by PHSafe: all runs and levels of a release.

    Attributes:
        counts_version: the keyed version of the exact counts.
    """

    counts_version: str


def describe_draw(session: Session, release: PHSafeRelease, custody: Custody) -> PHSafeDraw:
    """The draw that the release's design and the counts of the CEF call for."""
    (version,) = session.row("warehouse/labelled", table=release.public(COUNTS_VERSION), column="version")
    draw_id = custody.draw_id(
        {
            "dataset": release.dataset.name,
            "release": release.name,
            "stage": "noisy_measurements",
            "partition": None,
            "mechanism": MECHANISM,
            "version": noise.VERSION,
            "parameters": release.design.as_record() | {"custody": release.custody.value},
            "inputs": {"counts": version},
        }
    )
    return PHSafeDraw(draw_id, release.design.specification(release.dataset.name), version)
