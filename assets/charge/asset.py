"""The asset `charge`: reserve the release's loss in the ledger, and commit to its randomness.

All kinds of releases share this stage. The charge follows from public tables alone. If it exceeds the dataset's cap,
the stage fails, and nothing downstream of it runs.
"""

from typing import Any

import dagster as dg
import pyarrow as pa

from assets.conventions import StageKind, attributes, preview, table_schema
from assets.release.draw import Draw, Inputs
from assets.release.method import CHARGE, Method
from assets.release.release import Release
from mechanisms.accounting.composition import stated
from resources.chain import Entry
from resources.custody import Custody, commitment
from resources.ledger import CapExceeded, Ledger
from resources.statements import Zone
from resources.warehouse import Warehouse

CODE_VERSION = "1"

_COLUMNS = {
    "draw_id": "Identifier of the draw: an HMAC of everything it depends on",
    "commitment": "SHA-256 of the draw's key",
    "ledger_entry": "Number of the reservation in the ledger",
    "ledger_hash": "Hash of the reservation",
}


def build_charge(method: Method[Any, Any, Any]) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "charge"]`."""
    release = method.release

    @dg.asset(
        key=release.key(CHARGE),
        deps=[release.key(stage) for stage in method.charge_follows],
        group_name=release.schema,
        description=_description(method),
        code_version=CODE_VERSION,
        **attributes(StageKind.CHARGE, Zone.PUBLIC, {"duckdb", "ledger"}, crossing=method.charge_crossing),
    )
    def charge(warehouse: Warehouse, custody: Custody, ledger: Ledger) -> dg.MaterializeResult:
        with warehouse.session(reads=[Zone.PUBLIC]) as session:
            method.require_chargeable(session)
            draw = method.describe(session, custody)
        entry = reserve(release, draw, custody, ledger)
        facts = charge_facts(method, draw, entry)
        with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
            session.create(
                release.public(CHARGE),
                "warehouse/all",
                source=session.register("facts", pa.Table.from_pylist([facts])),
            )
            schema = table_schema(session.columns(release.public(CHARGE)), _COLUMNS | dict(method.charge_columns))
        lines = draw.specification.lines
        return dg.MaterializeResult(
            data_version=dg.DataVersion(draw.draw_id),
            metadata={
                **{name.replace("_", " "): value for name, value in facts.items()},
                "charged so far": stated(ledger.charged(release.dataset.name, release.dataset.cap), 4),
                "cap": stated(release.dataset.cap, 4),
                "dagster/column_schema": schema,
            }
            | ({"lines": preview(["line", "loss"], [(line.label, str(line.loss)) for line in lines])} if lines else {}),
        )

    return charge


def reserve(release: Release, draw: Draw[Inputs], custody: Custody, ledger: Ledger) -> Entry:
    """Reserve a draw's loss, or return the reservation that the draw already has.

    Raises:
        CapExceeded: if the charge does not fit under the dataset's cap; a key made for the draw is deleted again.
    """
    standing = ledger.reservation(draw.draw_id)
    committed = standing.commitment if standing else commitment(custody.draw_key(draw.draw_id, release.custody))
    try:
        return ledger.reserve(
            release.dataset.name, release.name, draw.draw_id, draw.specification, committed, release.dataset.cap
        )
    except CapExceeded:
        custody.forget(draw.draw_id)
        raise


def charge_facts(method: Method[Any, Any, Any], draw: Draw[Inputs], entry: Entry) -> dict[str, str | int | float]:
    """The row of the charge's table, all of it public."""
    return {
        "draw_id": draw.draw_id,
        "commitment": entry.commitment,
        "ledger_entry": entry.sequence,
        "ledger_hash": entry.hash,
        **method.charge_facts(draw.inputs),
    }


def _description(method: Method[Any, Any, Any]) -> str:
    return f"""Reserves the protection loss of the draw in the ledger, before anything is drawn.

{method.charge_description()}

The draw id is an HMAC of everything the draw depends on, and the SHA-256 of the draw's key commits to its randomness.
Materializing this asset again with nothing changed finds the same reservation and charges nothing. If the charge would
exceed the dataset's cap of {stated(method.release.dataset.cap, 4)}, this asset fails and nothing is drawn."""
