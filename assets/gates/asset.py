"""The gates of a release as blocking Dagster checks. `shared` and the mechanisms' packages define the gates."""

from typing import Any

import dagster as dg

from assets.confidentiality import deployed_nodes
from assets.conventions import BLOCKING, check_result
from assets.gates.shared import DATASET_STAGES, all_gates
from assets.release.gate import Gate, ReleaseContext
from assets.release.method import Method
from assets.release.verdicts import verdicts_of
from resources.custody import Custody
from resources.ledger import Ledger
from resources.warehouse import Warehouse


def build_gates(method: Method[Any, Any, Any]) -> list[dg.AssetChecksDefinition]:
    """A blocking check for every gate of a release, except those that belong to its dataset."""
    return [_check(method, gate) for gate in all_gates(method) if gate.stage not in DATASET_STAGES]


def _check(method: Method[Any, Any, Any], gate: Gate[Any]) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=method.release.key(gate.stage),
        name=gate.name,
        description=gate.words,
        **BLOCKING,
    )
    def check(
        context: dg.AssetCheckExecutionContext, warehouse: Warehouse, custody: Custody, ledger: Ledger
    ) -> dg.AssetCheckResult:
        release_context = ReleaseContext(
            method, warehouse, custody, ledger, deployed_nodes(context), verdicts_of(context.run.run_id)
        )
        return check_result(gate.evaluate(release_context))

    return check
