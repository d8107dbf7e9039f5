"""The asset `preflight`: what the next charge of a release would be, and why, without charging it.

It states the same facts as a charge that stops for want of an authorization, but does not fail.
"""

from typing import Any

import dagster as dg

from assets.charge.assessment import AUTHORIZED_BY_COMMAND, Assessment, assess
from assets.conventions import DRAW_ID, KEYED, StageKind, in_groups
from assets.release.dataset import CEF
from assets.release.method import Method
from assets.release.stage import release_stage
from resources.custody import Custody
from resources.ledger import Ledger
from resources.warehouse import Warehouse

PREFLIGHT = "preflight"


def build_preflight(method: Method[Any, Any, Any]) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "preflight"]`."""
    release = method.release

    @release_stage(
        release,
        PREFLIGHT,
        StageKind.PLAN,
        "What the next charge of this release would be: the loss, why it is a new draw, and what remains of the "
        "budget. Nothing is drawn and nothing is charged.",
        [CEF, *method.charge_follows],
        kinds={"duckdb", "ledger"},
        crossing=KEYED,
    )
    def preflight(warehouse: Warehouse, custody: Custody, ledger: Ledger) -> dg.MaterializeResult:
        assessment = assess(method, warehouse, custody, ledger)
        version = dg.DataVersion(assessment.draw.draw_id)
        return dg.MaterializeResult(data_version=version, metadata=preflight_metadata(assessment))

    return preflight


def preflight_metadata(assessment: Assessment) -> dict[str, Any]:
    facts: dict[str, Any] = {"budget": assessment.budget, DRAW_ID: in_groups(assessment.draw.draw_id)}
    entry = assessment.entry
    if entry is not None and not assessment.refusal:
        return {"decision": f"Already charged in ledger entry {entry.sequence}; running it charges nothing.", **facts}
    facts = {"price": assessment.price, "price, exactly": str(assessment.loss), "why new": assessment.reason, **facts}
    if assessment.refusal:
        return {"decision": f"The ledger would refuse it: {assessment.refusal}.", **facts}
    if not assessment.release.dataset.asks:
        return {"decision": f"Running it charges {assessment.price} automatically.", **facts}
    return {
        "decision": f"Running it needs an authorization of {assessment.price}.",
        **facts,
        "how to authorize": dg.MetadataValue.md(f"```yaml\n{assessment.how_to_authorize()}\n```"),
        AUTHORIZED_BY_COMMAND: assessment.command,
    }
