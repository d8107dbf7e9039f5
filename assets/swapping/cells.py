"""The swapped data in the warehouse: written as codes, shown as values, read back, and drawn again.

Here belongs the way between the mechanism's arrays and the tables. The permutation itself is
`mechanisms.swapping.permutation`; when a draw is made belongs in `assets.charge.drawing`.
"""

from hashlib import sha256
from typing import Any

import pyarrow as pa

from assets.release.draw import StaleInputError, is_drawn, label_drawn
from assets.swapping.draw import SwappingDraw
from assets.swapping.records import (
    HOLDING,
    as_contingency,
    cells_version,
    codebooks,
    read_contingency,
    stage_records,
)
from assets.swapping.release import SwappingRelease
from mechanisms.sampling.stream import RandomStream
from mechanisms.swapping.permutation import Contingency, permute
from resources.custody import Custody
from resources.statements import Fragment
from resources.warehouse import Session

SWAPPED, CELLS = "swapped", "swapped_cells"
STREAM = "permutation swapping"


def write_cells(session: Session, release: SwappingRelease, draw: SwappingDraw, cells: Contingency) -> None:
    """Store swapped data: its codes, a view that shows the values, and the draw they are of."""
    session.create(release.public(CELLS), "warehouse/all", source=session.register("drawn", _columns(cells)))
    session.create_view(
        release.public(SWAPPED), "swapping/decoded", cells=release.public(CELLS), **_value_columns(release)
    )
    label_drawn(session, release, draw)


def drawn_cells(session: Session, release: SwappingRelease, draw: SwappingDraw, custody: Custody) -> Contingency:
    """The draw's output, from the confidential records and the draw's key: the same whenever it is made.

    Raises:
        StaleInputError: if the CEF is not the one the invariants were computed from.
        CustodyError: if the draw's key is gone.
    """
    records = read_contingency(session, release, stage_records(session, release))
    if cells_version(records, custody.version_key()) != draw.records_version:
        raise StaleInputError(
            f"{release.schema}: the CEF has changed since the invariants were computed; materialize them again"
        )
    stream = RandomStream(custody.open_key(draw.draw_id, release.custody), STREAM)
    return permute(records, release.design.swap_rate, stream)


def swapped_version(draw: SwappingDraw, cells: Contingency) -> str:
    """The content hash of swapped data: of the codes, and of the codebooks that say what they mean."""
    parts = "\n".join([draw.holding_version, draw.swap_version, cells_version(cells, None)])
    return sha256(parts.encode()).hexdigest()


def stored_version(session: Session, release: SwappingRelease, draw: SwappingDraw) -> str | None:
    """The content hash of the stored swapped data; None unless their label says that they are this draw's."""
    if not is_drawn(session, release, draw):
        return None
    cells = session.arrow("swapping/stored_cells", cells=release.public(CELLS), holding=release.public(HOLDING))
    try:
        return swapped_version(draw, as_contingency(cells))
    except ValueError:
        return None


def stage_decoded(session: Session, release: SwappingRelease, table: Contingency, name: str) -> Fragment:
    """Keep a contingency table of codes as a temporary table of values."""
    return session.stage(
        name, "swapping/decoded", cells=session.register("cells", _columns(table)), **_value_columns(release)
    )


def stage_stored(session: Session, release: SwappingRelease, name: str) -> Fragment:
    """Keep the stored codes as a temporary table of values."""
    return session.stage(name, "swapping/decoded", cells=release.public(CELLS), **_value_columns(release))


def _columns(table: Contingency) -> pa.Table:
    return pa.table({"holding_code": table.holding, "swap_code": table.swap, "count": table.count})


def _value_columns(release: SwappingRelease) -> dict[str, Any]:
    return codebooks(release) | {
        "holding_variables": list(release.design.holding),
        "swap_variables": list(release.design.swap),
    }
