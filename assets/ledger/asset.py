"""The assets `ledger` and `composition`.

Here belongs showing the ledger: its entries, and the totals they compose to. Writing to it belongs to the
charge and the swap; the ledger itself is `resources.ledger`.
"""

from collections.abc import Sequence
from dataclasses import asdict, fields
from hashlib import sha256

import dagster as dg
import pyarrow as pa

from assets.cef.declaration import DatasetDeclaration
from assets.conventions import POOL, attributes, check_result, preview, table_schema
from mechanisms.accounting.composition import DoesNotCompose, fits, stated
from mechanisms.accounting.specification import Total
from resources.chain import GENESIS, RESERVE, Entry
from resources.ledger import Ledger, LedgerError
from resources.statements import Table, Zone
from resources.warehouse import Warehouse

CODE_VERSION = "1"
LEDGER_KEY = dg.AssetKey(["ledger"])
_ENTRY = pa.schema([(field.name, pa.int64() if field.name == "sequence" else pa.string()) for field in fields(Entry)])
ENTRIES = Table(Zone.PUBLIC, "ledger", "entries")


def build_ledger(charges: Sequence[dg.AssetKey], draws: Sequence[dg.AssetKey]) -> dg.AssetsDefinition:
    """The asset `ledger`, downstream of every charge and draw of the deployment."""

    @dg.asset(
        key=LEDGER_KEY,
        deps=[*charges, *draws],
        group_name="ledger",
        description=(
            "Every charge to every dataset's budget: append-only, each entry chained to the one before by its "
            "SHA-256. A reservation counts from before its draw on; a settlement says what was drawn. This asset "
            "shows the ledger as it is, and fails if an entry was edited, removed or reordered."
        ),
        code_version=CODE_VERSION,
        **attributes("ledger", Zone.PUBLIC, {"duckdb", "ledger"}),
    )
    def ledger_asset(warehouse: Warehouse, ledger: Ledger) -> dg.MaterializeResult:
        problems = ledger.verify()
        if problems:
            raise LedgerError(f"the ledger is not intact: {'; '.join(problems)}")
        entries = ledger.entries()
        rows = pa.Table.from_pylist([asdict(entry) for entry in entries], schema=_ENTRY)
        with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
            session.create(ENTRIES, "warehouse/all", source=session.lend("entries", rows))
            schema = table_schema(session.columns(ENTRIES), {})
        head = entries[-1].hash if entries else GENESIS
        shown = [
            (entry.sequence, entry.kind, f"{entry.dataset}/{entry.release}", entry.draw_id[:12], entry.recorded_at)
            for entry in entries[-20:]
        ]
        return dg.MaterializeResult(
            data_version=dg.DataVersion(head),
            metadata={
                "entries": len(entries),
                "head": head,
                "latest entries": preview(["entry", "kind", "release", "draw", "recorded at (UTC)"], shown),
                "dagster/column_schema": schema,
            },
        )

    return ledger_asset


def build_composition(dataset: DatasetDeclaration) -> dg.AssetsDefinition:
    """The asset `[dataset, "composition"]`."""
    table = Table(Zone.PUBLIC, dataset.name, "composition")

    @dg.asset(
        key=[dataset.name, "composition"],
        deps=[LEDGER_KEY],
        group_name=dataset.name,
        description=f"""What all releases from {dataset.name} lose together.

One total a unit and output premetric, within the universes that share all invariants involved: pure ε adds up; zCDP
adds up in ρ, and a pure ε counts as ε²/2 in it; both count in (ε, δ). What a total leaves out it says, with the
reason; totals that do not compose stand side by side. A guarantee for {dataset.record_name}s counts towards persons as
often as a change of one person's characteristics changes a {dataset.record_name}. The cap of {stated(dataset.cap, 4)}
is the one place where every charge is counted, whatever its unit: an upper bound.""",
        code_version=CODE_VERSION,
        **attributes("composition", Zone.PUBLIC, {"duckdb", "ledger"}),
    )
    def composition(warehouse: Warehouse, ledger: Ledger) -> dg.MaterializeResult:
        totals = ledger.total(dataset.name)
        counted = cap_problems(dataset, ledger) or [stated(ledger.charged(dataset.name, dataset.cap), 4)]
        with warehouse.session(writes=Zone.PUBLIC) as session:
            with session.transaction():
                session.create(table, "warehouse/all", source=session.lend("totals", totals_table(totals)))
            schema = table_schema(session.columns(table), {})
        shown = [
            (each.unit, each.output_premetric, stated(each.loss, 4), each.releases, "; ".join(each.left_out) or "–")
            for each in totals
        ]
        return dg.MaterializeResult(
            data_version=dg.DataVersion(sha256(repr(totals).encode()).hexdigest()),
            metadata={
                "counted against the cap": "; ".join(counted),
                "cap": stated(dataset.cap, 4),
                "charges": sum(entry.kind == RESERVE and entry.dataset == dataset.name for entry in ledger.entries()),
                "totals": preview(["unit", "output premetric", "loss", "charges", "left out"], shown),
                "invariants": dg.MetadataValue.md(
                    "\n".join(f"- {words}" for words in dict.fromkeys(w for t in totals for w in t.multiverse))
                ),
                "dagster/column_schema": schema,
            },
        )

    return composition


def build_composition_checks(dataset: DatasetDeclaration) -> list[dg.AssetChecksDefinition]:
    """The blocking checks of `composition`: the cap, and the chain of the ledger."""

    @dg.asset_check(
        asset=[dataset.name, "composition"],
        name="within_cap",
        description="All charges to the dataset stay within its cap.",
        blocking=True,
        pool=POOL,
    )
    def within_cap(ledger: Ledger) -> dg.AssetCheckResult:
        return check_result(cap_problems(dataset, ledger))

    @dg.asset_check(
        asset=[dataset.name, "composition"],
        name="ledger_intact",
        description="No ledger entry was edited, removed or reordered.",
        blocking=True,
        pool=POOL,
    )
    def ledger_intact(ledger: Ledger) -> dg.AssetCheckResult:
        return check_result(list(ledger.verify()))

    return [within_cap, ledger_intact]


def cap_problems(dataset: DatasetDeclaration, ledger: Ledger) -> list[str]:
    """What is wrong if the charges to a dataset exceed its cap."""
    try:
        charged = ledger.charged(dataset.name, dataset.cap)
    except DoesNotCompose as error:
        return [f"a charge does not count under the cap of {stated(dataset.cap, 4)}: {error}"]
    if not fits(charged, dataset.cap):
        return [f"charged {stated(charged, 4)} exceeds the cap of {stated(dataset.cap, 4)}"]
    return []


def totals_table(totals: Sequence[Total]) -> pa.Table:
    """Totals as a table: exact, and rounded up to 4 decimals."""
    schema = pa.schema(
        [
            ("unit", pa.string()),
            ("output_premetric", pa.string()),
            ("loss", pa.float64()),
            *((name, pa.string()) for name in ("rational", "ln", "rho", "delta")),
            ("charges", pa.int64()),
            ("left_out", pa.list_(pa.string())),
        ]
    )
    rows = [
        {
            "unit": total.unit,
            "output_premetric": total.output_premetric,
            "loss": float(total.loss.rounded_up(4)),
            **{name: exact.get(name) for name in ("rational", "ln", "rho", "delta")},
            "charges": total.releases,
            "left_out": list(total.left_out),
        }
        for total, exact in ((total, total.loss.as_record()) for total in totals)
    ]
    return pa.Table.from_pylist(rows, schema=schema)
