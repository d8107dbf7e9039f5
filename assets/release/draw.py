"""A draw as a value, the label that ties stored output to it, and the published version of a confidential input.

`assets.charge` charges and makes draws.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from assets.release.release import Release
from assets.release.seal import seal_stage
from mechanisms.accounting.specification import Specification
from mechanisms.refusal import RefusedError
from resources.custody import Custody
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse

DRAWN = "draw"
"""The table with the label of a release's stored output: the id of its draw."""


class StaleInputError(RefusedError):
    """The confidential input of a draw has changed since the charge."""


@dataclass(frozen=True)
class Inputs:
    """The public description of a draw's inputs. A mechanism may add public fields that its loss depends on.

    The versions, by name, are part of the draw id, and keyed under the custody if the input is confidential.
    """

    versions: Mapping[str, str]


I_co = TypeVar("I_co", bound=Inputs, covariant=True)


@dataclass(frozen=True)
class Draw(Generic[I_co]):
    """One use of randomness: one mechanism, one set of parameters, one version of the inputs.

    Attributes:
        draw_id: its identifier, an HMAC of everything the draw depends on.
        made_of: the mechanism, its version, the parameters and the versions of the inputs, as plain values.
    """

    draw_id: str
    specification: Specification
    inputs: I_co
    made_of: Mapping[str, Any] = field(default_factory=dict)


def label_draw(session: Session, release: Release, draw: Draw[Inputs]) -> None:
    session.create(release.public(DRAWN), "warehouse/label", {"text": draw.draw_id}, column="draw_id")


def is_drawn(session: Session, release: Release, draw: Draw[Inputs]) -> bool:
    table = release.public(DRAWN)
    if list(session.columns(table)) != ["draw_id"]:
        return False
    return session.rows("warehouse/labelled", table=table, column="draw_id") == [(draw.draw_id,)]


def version_table(release: Release, stage: str) -> Table:
    return release.public(f"{stage}_version")


def publish_version(
    warehouse: Warehouse, custody: Custody, release: Release, stage: str, version: str, counted: Mapping[str, Any]
) -> None:
    """Write the keyed version of a stage's confidential output to the public zone, sealed with the inputs of the counts
    (`assets.release.contents.compute_basis`), for the charge to read."""
    table = version_table(release, stage)
    with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
        session.keep([table])
        session.create(table, "warehouse/label", {"text": version}, column="version")
        seal_stage(session, custody, release.schema, stage, [table], counted)


def read_published_version(session: Session, table: Table) -> str:
    (version,) = session.row("warehouse/labelled", table=table, column="version")
    return str(version)
