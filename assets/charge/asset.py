"""The asset `charge`: reserve the release's loss in the ledger, and commit to its randomness.

Here belongs the stage. What is charged follows from the invariants alone; over the dataset's cap the stage
fails, and nothing downstream of it runs.
"""

import dagster as dg
import pyarrow as pa

from assets.charge.draw import Draw, describe_draw
from assets.conventions import attributes, table_schema
from assets.release import SwappingRelease
from assets.tabulation.tables import require_readable
from mechanisms.accounting.composition import stated
from mechanisms.swapping.loss import evaluated, smallest_attainable, theorem_1
from resources.chain import Entry
from resources.custody import Custody, commitment
from resources.ledger import CapExceeded, Ledger
from resources.statements import Zone
from resources.warehouse import Warehouse

CODE_VERSION = "1"

_COLUMNS = {
    "draw_id": "Name of the draw, an HMAC of all it depends on",
    "commitment": "SHA-256 of the draw's key",
    "ledger_entry": "Number of the reservation in the ledger",
    "ledger_hash": "Hash of the reservation",
    "swap_rate": "p, the probability with which a record is selected",
    "strata": "Number of strata",
    "largest_stratum": "b, the largest stratum with two distinct records; 0 if there is none",
    "epsilon_exact": "ε by Theorem 1, exact",
    "epsilon": "ε by Theorem 1, rounded up",
    "epsilon_evaluated": "ε from the ratio in the proof of Theorem 1, for information",
    "smallest_epsilon": "The smallest ε attainable for b at any swap rate",
    "smallest_epsilon_at_swap_rate": "The swap rate that attains it",
}


def build_charge(release: SwappingRelease) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "charge"]`."""

    @dg.asset(
        key=release.key("charge"),
        deps=[release.key("invariants")],
        group_name=release.schema,
        description=_description(release),
        code_version=CODE_VERSION,
        **attributes("charge", Zone.PUBLIC, {"duckdb", "ledger"}),
    )
    def charge(warehouse: Warehouse, custody: Custody, ledger: Ledger) -> dg.MaterializeResult:
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            require_readable(session, release)
            draw = describe_draw(session, release, custody)
        entry = reserve(release, draw, custody, ledger)
        facts = charge_facts(release, draw, entry)
        with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
            session.create(
                release.public("charge"), "warehouse/all", source=session.lend("facts", pa.Table.from_pylist([facts]))
            )
            schema = table_schema(session.columns(release.public("charge")), {}, _COLUMNS)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(draw.draw_id),
            metadata={
                **{name.replace("_", " "): value for name, value in facts.items()},
                "charged so far": stated(ledger.charged(release.dataset.name, release.dataset.limit), 4),
                "cap": f"ε = {release.dataset.cap}",
                "dagster/column_schema": schema,
            },
        )

    return charge


def reserve(release: SwappingRelease, draw: Draw, custody: Custody, ledger: Ledger) -> Entry:
    """Reserve a draw's loss, or find the reservation it already has.

    Raises:
        CapExceeded: if the dataset's cap does not allow it; then no key is left behind either.
    """
    standing = ledger.reservation(draw.draw_id)
    committed = standing.commitment if standing else commitment(custody.draw_key(draw.draw_id, release.custody))
    try:
        return ledger.reserve(
            release.dataset.name, release.name, draw.draw_id, draw.specification, committed, release.dataset.limit
        )
    except CapExceeded:
        custody.forget(draw.draw_id)
        raise


def charge_facts(release: SwappingRelease, draw: Draw, entry: Entry) -> dict[str, str | int | float]:
    """The charge in a row, all of it public."""
    b, swap_rate = draw.largest_stratum, release.design.swap_rate
    smallest = smallest_attainable(b) if b else (0.0, 0.0)
    loss = theorem_1(b, swap_rate)
    return {
        "draw_id": draw.draw_id,
        "commitment": entry.commitment,
        "ledger_entry": entry.sequence,
        "ledger_hash": entry.hash,
        "swap_rate": str(swap_rate),
        "strata": draw.strata,
        "largest_stratum": b,
        "epsilon_exact": str(loss),
        "epsilon": float(loss.rounded_up(4)),
        "epsilon_evaluated": evaluated(b, swap_rate),
        "smallest_epsilon": round(smallest[0], 4),
        "smallest_epsilon_at_swap_rate": round(smallest[1], 6),
    }


def _description(release: SwappingRelease) -> str:
    return f"""Reserves the protection loss of the draw in the ledger, before anything is drawn (Theorem 1):

    ε = ln(b + 1) − ln o   for 0 < p ≤ √(b+1) / (√(b+1) + 1),   else ln o;   o = p / (1 − p)

p = {release.design.swap_rate} is the swap rate; b is the largest stratum that holds two distinct records, an
invariant. The draw is named by an HMAC of all it depends on, and its randomness is committed to by the SHA-256
of its key. Materializing again with nothing changed finds the same reservation and charges nothing. Over the
dataset's cap of ε = {release.dataset.cap} this asset fails, and nothing is drawn."""
