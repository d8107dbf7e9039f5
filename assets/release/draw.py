"""A draw as a value: what it is made from, what it is called, and what it costs.

Also the labels by which stored tables are known to belong to a draw, and the keyed version of confidential input that
names one. Charging a draw is in `assets.charge`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from assets.release.release import Release
from mechanisms.accounting.specification import Specification
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse

DRAWN = "draw"
"""The table that says which draw a release's stored output is of."""


class StaleInputError(Exception):
    """The confidential input of a draw is not the one that was charged."""


@dataclass(frozen=True)
class Inputs:
    """What a draw is made from, as far as it may be seen outside the confidential zone.

    Attributes:
        versions: by name of the input, its data version; keyed under the custody where the input is confidential.
    """

    versions: Mapping[str, str]


I_co = TypeVar("I_co", bound=Inputs, covariant=True)


@dataclass(frozen=True)
class Draw(Generic[I_co]):
    """One use of randomness: one mechanism, one set of parameters, one version of the inputs.

    Attributes:
        draw_id: its name, an HMAC of all of that.
        specification: the DP specification it satisfies.
        inputs: what it is made from.
    """

    draw_id: str
    specification: Specification
    inputs: I_co


def label_drawn(session: Session, release: Release, draw: Draw[Inputs]) -> None:
    """Write down that the stored output is this draw's."""
    session.create(release.public(DRAWN), "warehouse/label", {"text": draw.draw_id}, column="draw_id")


def is_drawn(session: Session, release: Release, draw: Draw[Inputs]) -> bool:
    """Whether the stored output is labelled as this draw's."""
    table = release.public(DRAWN)
    if not session.columns(table):
        return False
    return session.rows("warehouse/labelled", table=table, column="draw_id") == [(draw.draw_id,)]


def publish_version(warehouse: Warehouse, table: Table, version: str) -> None:
    """Write the keyed version of a draw's confidential input, which names the draw, where the charge can see it."""
    with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
        session.create(table, "warehouse/label", {"text": version}, column="version")


def published_version(session: Session, table: Table) -> str:
    """The keyed version that `publish_version` wrote."""
    (version,) = session.row("warehouse/labelled", table=table, column="version")
    return str(version)
