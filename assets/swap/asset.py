"""The asset `swapped`: make the draw that was charged, and settle it.

Here belongs the stage, and the replay of a draw for whoever checks it. The permutation itself is
`mechanisms.swapping.permutation`.
"""

import dagster as dg
import pyarrow as pa

from assets.charge.draw import Draw, describe_draw
from assets.conventions import DRAW, attributes, lineage, public_table_metadata, table_schema
from assets.invariants.records import (
    StaleInvariantsError,
    codebooks,
    read_contingency,
    records_version,
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
SWAPPED, DRAWN = "swapped", "draw"
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
        The draw, its reservation, and the content hash of the swapped table.

    Raises:
        UnchargedDrawError: if the ledger holds no reservation for exactly these inputs and parameters.
        StaleInvariantsError: if the CEF is not the one the invariants were computed from.
        CustodyError: if the draw's key is gone and its output too.
        ReplayError: if a settled draw gives another output than before; then nothing is written.
    """
    with warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC) as session:
        draw = describe_draw(session, release, custody)
        entry = ledger.reservation(draw.draw_id)
        if entry is None:
            raise UnchargedDrawError(
                f"{release.schema}: the ledger holds no charge for these inputs and parameters (draw {draw.draw_id}); "
                "materialize the asset charge first"
            )
        settled = ledger.settlement(draw.draw_id)
        stored = stored_version(session, release, draw)
        if settled and stored and settled.output_version == stored:
            custody.forget(draw.draw_id)
            return draw, entry, stored
        table = release.public(SWAPPED)
        with session.transaction():
            session.create(table, "warehouse/all", source=stage_draw(session, release, draw, custody))
            version = session.content_version([table])
            if settled and settled.output_version != version:
                raise ReplayError(
                    f"{release.schema}: draw {draw.draw_id} gives another output than the one it was settled with"
                )
            session.create(release.public(DRAWN), "swap/draw", {"draw_id": draw.draw_id, "version": version})
    ledger.settle(draw.draw_id, version)
    custody.forget(draw.draw_id)
    return draw, entry, version


def stored_version(session: Session, release: SwappingRelease, draw: Draw) -> str | None:
    """The content hash of the stored swapped table if it is this draw's output, as its label says."""
    if not session.columns(release.public(DRAWN)):
        return None
    draw_id, version = session.row("swap/drawn", table=release.public(DRAWN))
    if (draw_id, version) != (draw.draw_id, session.content_version([release.public(SWAPPED)])):
        return None
    return str(version)


def stage_draw(session: Session, release: SwappingRelease, draw: Draw, custody: Custody) -> Fragment:
    """Make the draw, and keep the swapped records as a temporary table of the session."""
    records = read_contingency(session, release, stage_records(session, release))
    if records_version(records, custody.version_key()) != draw.records_version:
        raise StaleInvariantsError(
            f"{release.schema}: the CEF has changed since the invariants were computed; materialize them again"
        )
    stream = RandomStream(custody.open_key(draw.draw_id, release.custody), STREAM)
    return stage_decoded(session, release, permute(records, release.design.swap_rate, stream), "swapped_records")


def stage_decoded(session: Session, release: SwappingRelease, table: Contingency, name: str) -> Fragment:
    """Keep a contingency table of codes as a temporary table of values."""
    cells = pa.table({"holding_code": table.holding, "swap_code": table.swap, "count": table.count})
    books = codebooks(release) | {
        "holding_variables": list(release.design.holding),
        "swap_variables": list(release.design.swap),
    }
    return session.stage(name, "swap/decoded", cells=session.lend("cells", cells), **books)


def can_replay(release: SwappingRelease) -> bool:
    """Whether the draw can be made again by whoever holds the custody."""
    return release.custody is CustodyMode.ESCROWED


def _description(release: SwappingRelease) -> str:
    design = release.design
    return f"""One draw of the Permutation Swapping Algorithm (papers: Algorithm 1).

In every stratum, the {design.unit}s equal on {", ".join(design.match) or "nothing (one stratum)"}, each record
is selected with probability p = {design.swap_rate}, anew if exactly one was; the values of
{", ".join(design.swap)} of the selected records are permuted by a derangement drawn uniformly.

The result is kept as the saturated contingency table [n_mhs], which carries neither keys nor an order of
records. The randomness is AES-256-CTR under a key derived for this draw alone; custody is
{release.custody.value}. It refuses to run without the charge for exactly these inputs and parameters."""
