"""A draw: what it is called, what it costs, and the labels by which stored tables are told to belong to it.

Here belongs what is true of the draws of every mechanism. What one depends on, its mechanism's room knows.
"""

from dataclasses import dataclass

from assets.release.release import Release
from mechanisms.accounting.specification import Specification
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse

DRAWN = "draw"
"""The table that says which draw a release's stored output is of."""


class StaleInputError(Exception):
    """The confidential input of a draw is not the one that was charged."""


@dataclass(frozen=True)
class Draw:
    """One use of randomness: one mechanism, one set of parameters, one version of the inputs.

    Attributes:
        draw_id: its name, an HMAC of all of that.
        specification: the DP specification it satisfies.
    """

    draw_id: str
    specification: Specification


def label_drawn(session: Session, release: Release, draw: Draw) -> None:
    """Write down that the stored output is this draw's."""
    session.create(release.public(DRAWN), "warehouse/label", {"text": draw.draw_id}, column="draw_id")


def is_drawn(session: Session, release: Release, draw: Draw) -> bool:
    """Whether the stored output is labelled as this draw's."""
    table = release.public(DRAWN)
    if not session.columns(table):
        return False
    return session.rows("warehouse/labelled", table=table, column="draw_id") == [(draw.draw_id,)]


def publish_version(warehouse: Warehouse, table: Table, version: str) -> None:
    """Write the keyed version of a draw's confidential input, which names the draw, where the charge can see it."""
    with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
        session.create(table, "warehouse/label", {"text": version}, column="version")
