"""The asset `swapped`: make the draw that was charged, and settle it.

Here belongs the stage, and the replay of a draw for whoever checks it. The permutation itself is
`mechanisms.swapping.permutation`.
"""

from hashlib import sha256
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.charge.draw import Draw, describe_draw
from assets.conventions import DRAW, attributes, lineage, public_table_metadata, table_schema
from assets.invariants.records import (
    HOLDING,
    StaleInvariantsError,
    as_contingency,
    cells_version,
    codebooks,
    read_contingency,
    stage_records,
)
from assets.release import SwappingRelease
from mechanisms.sampling.stream import RandomStream
from mechanisms.swapping.permutation import Contingency, permute
from resources.chain import Entry
from resources.custody import Custody, CustodyMode
from resources.ledger import Ledger
from resources.statements import Fragment, Zone
from resources.warehouse import Session, Warehouse

CODE_VERSION = "1"
SWAPPED, CELLS, DRAWN = "swapped", "swapped_cells", "draw"
STREAM = "permutation swapping"


class UnchargedDrawError(Exception):
    """A draw was asked for that the ledger holds no charge for."""


class ReplayError(Exception):
    """A draw made again did not give what it gave before."""


def build_swapped(release: SwappingRelease) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "swapped"]`."""

    @dg.asset(
        key=release.key("swapped"),
        deps=[release.dataset_key("cef"), release.key("invariants"), release.key("charge")],
        group_name=release.schema,
        description=_description(release),
        code_version=CODE_VERSION,
        **attributes("swap", Zone.PUBLIC, {"duckdb", "numba"}, crossing=DRAW),
    )
    def swapped(warehouse: Warehouse, custody: Custody, ledger: Ledger) -> dg.MaterializeResult:
        draw, entry, version = make_draw(release, warehouse, custody, ledger)
        table = release.public(SWAPPED)
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            columns = session.columns(table)
            metadata = public_table_metadata(session, table)
        cef = release.dataset_key("cef")
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version),
            metadata={
                **metadata,
                "draw id": draw.draw_id,
                "randomness commitment": entry.commitment,
                "ledger entry": entry.sequence,
                "ε": float(draw.specification.loss.rounded_up(4)),
                "custody": release.custody.value,
                "dagster/column_schema": table_schema(columns, release.variables, _OWN_COLUMNS),
                "dagster/column_lineage": lineage(
                    {name: [(cef, name)] for name in columns if name in release.variables}
                ),
            },
        )

    return swapped


_OWN_COLUMNS = {
    "holding_code": "Number of the combination of holding values",
    "count": "Number of swapped records in the cell",
}


def make_draw(
    release: SwappingRelease, warehouse: Warehouse, custody: Custody, ledger: Ledger
) -> tuple[Draw, Entry, str]:
    """Draw, write and settle; or find that the draw was settled and its output is still there.

    Returns:
        The draw, its reservation, and the content hash of the swapped data.

    Raises:
        UnchargedDrawError: if the ledger holds no reservation for exactly these inputs and parameters.
        StaleInvariantsError: if the CEF is not the one the invariants were computed from.
        CustodyError: if the draw's key is gone and its output too.
        ReplayError: if a settled draw gives another output than before; then nothing is written.
    """
    with warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC) as session:
        draw = describe_draw(session, release, custody)
        entry, settled = require_charge(release, draw, ledger), ledger.settlement(draw.draw_id)
        version = stored_version(session, release, draw)
        if version is None or settled is None or settled.output_version != version:
            cells = make_again(session, release, draw, custody, ledger)
            version = swapped_version(draw, cells)
            if settled and settled.output_version != version:
                raise ReplayError(
                    f"{release.schema}: draw {draw.draw_id} gives another output than the one it was settled with"
                )
            with session.transaction():
                _write(session, release, draw, cells)
    ledger.settle(draw.draw_id, version)
    custody.forget(draw.draw_id)
    return draw, entry, version


def require_charge(release: SwappingRelease, draw: Draw, ledger: Ledger) -> Entry:
    """The reservation of a draw.

    Raises:
        UnchargedDrawError: if the ledger holds none for exactly these inputs and parameters.
    """
    entry = ledger.reservation(draw.draw_id)
    if entry is None:
        raise UnchargedDrawError(
            f"{release.schema}: the ledger holds no charge for these inputs and parameters (draw {draw.draw_id}); "
            "materialize the asset charge first"
        )
    return entry


def _write(session: Session, release: SwappingRelease, draw: Draw, cells: Contingency) -> None:
    session.create(release.public(CELLS), "warehouse/all", source=session.lend("drawn", _columns(cells)))
    session.create_view(release.public(SWAPPED), "swap/decoded", cells=release.public(CELLS), **_value_columns(release))
    session.create(release.public(DRAWN), "swap/draw", {"draw_id": draw.draw_id})


def make_again(session: Session, release: SwappingRelease, draw: Draw, custody: Custody, ledger: Ledger) -> Contingency:
    """The draw's output, from the confidential records and the draw's key: the same whenever it is made.

    Raises:
        UnchargedDrawError: if the ledger holds no reservation for exactly these inputs and parameters.
        StaleInvariantsError: if the CEF is not the one the invariants were computed from.
        CustodyError: if the draw's key is gone.
    """
    require_charge(release, draw, ledger)
    records = read_contingency(session, release, stage_records(session, release))
    if cells_version(records, custody.version_key()) != draw.records_version:
        raise StaleInvariantsError(
            f"{release.schema}: the CEF has changed since the invariants were computed; materialize them again"
        )
    stream = RandomStream(custody.open_key(draw.draw_id, release.custody), STREAM)
    return permute(records, release.design.swap_rate, stream)


def swapped_version(draw: Draw, cells: Contingency) -> str:
    """The content hash of swapped data: of the codes, and of the codebooks that say what they mean."""
    parts = "\n".join([draw.holding_version, draw.swap_version, cells_version(cells, None)])
    return sha256(parts.encode()).hexdigest()


def stored_version(session: Session, release: SwappingRelease, draw: Draw) -> str | None:
    """The content hash of the stored swapped data; None unless their label says that they are this draw's."""
    if not session.columns(release.public(DRAWN)):
        return None
    if session.row("swap/drawn", table=release.public(DRAWN)) != (draw.draw_id,):
        return None
    cells = session.arrow("swap/stored_cells", cells=release.public(CELLS), holding=release.public(HOLDING))
    try:
        return swapped_version(draw, as_contingency(cells))
    except ValueError:
        return None


def stage_decoded(session: Session, release: SwappingRelease, table: Contingency, name: str) -> Fragment:
    """Keep a contingency table of codes as a temporary table of values."""
    return session.stage(name, "swap/decoded", cells=session.lend("cells", _columns(table)), **_value_columns(release))


def stage_stored(session: Session, release: SwappingRelease, name: str) -> Fragment:
    """Keep the stored codes as a temporary table of values."""
    return session.stage(name, "swap/decoded", cells=release.public(CELLS), **_value_columns(release))


def _columns(table: Contingency) -> pa.Table:
    return pa.table({"holding_code": table.holding, "swap_code": table.swap, "count": table.count})


def _value_columns(release: SwappingRelease) -> dict[str, Any]:
    return codebooks(release) | {
        "holding_variables": list(release.design.holding),
        "swap_variables": list(release.design.swap),
    }


def can_replay(release: SwappingRelease) -> bool:
    """Whether the draw can be made again by whoever holds the custody."""
    return release.custody is CustodyMode.ESCROWED


def _description(release: SwappingRelease) -> str:
    design = release.design
    return f"""One draw of the Permutation Swapping Algorithm (Bailie, Gong and Meng, Algorithm 1).

In every stratum, the {design.unit}s equal on {", ".join(design.match) or "nothing (one stratum)"}, each record
is selected with probability p = {design.swap_rate}, anew if exactly one was; the values of
{", ".join(design.swap)} of the selected records are permuted by a derangement drawn uniformly.

The result is kept as the saturated contingency table [n_mhs], which carries neither keys nor an order of
records. The randomness is AES-256-CTR under a key derived for this draw alone; custody is
{release.custody.value}. It refuses to run without the charge for exactly these inputs and parameters."""
