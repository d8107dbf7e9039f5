"""The gates of a release as blocking Dagster checks. `shared` and the mechanisms' packages define the gates.

The gates of a stage are evaluated in one step, on content that stays the same until the last of them is done. What
several of them need, such as the version of all noisy measurements, can then be computed once. Each of them is a check
of its own all the same, and can be launched alone.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import groupby
from typing import Any

import dagster as dg

from assets.confidentiality import deployed_nodes
from assets.conventions import NO_CONFIG, POOL, check_result
from assets.gates.shared import DATASET_STAGES, all_gates
from assets.release.gate import Gate, ReleaseContext, verdicts_of
from assets.release.method import Method
from resources.custody import Custody
from resources.ledger import Ledger
from resources.warehouse import Warehouse, WarehouseError


def build_gates(method: Method[Any, Any, Any]) -> list[dg.AssetChecksDefinition]:
    """A blocking check for every gate of a release, except those that belong to its dataset."""
    own = [gate for gate in all_gates(method) if gate.stage not in DATASET_STAGES]
    return [_checks(method, stage, list(gates)) for stage, gates in groupby(own, key=lambda gate: gate.stage)]


def _checks(method: Method[Any, Any, Any], stage: str, gates: Sequence[Gate[Any]]) -> dg.AssetChecksDefinition:
    key = method.release.key(stage)

    @dg.multi_asset_check(
        name="__".join([*key.path, "gates"]),
        specs=[dg.AssetCheckSpec(gate.name, asset=key, description=gate.words, blocking=True) for gate in gates],
        can_subset=True,
        pool=POOL,
        config_schema=NO_CONFIG,
    )
    def checks(
        context: dg.AssetCheckExecutionContext, warehouse: Warehouse, custody: Custody, ledger: Ledger
    ) -> Iterator[dg.AssetCheckResult]:
        names = {check.name for check in context.selected_asset_check_keys}
        asked = [gate for gate in gates if gate.name in names]
        release_context = ReleaseContext(
            method, warehouse, custody, ledger, deployed_nodes(context), verdicts_of(context.run.run_id)
        )
        faults: list[Exception] = []
        with ExitStack() as opened:
            if len(asked) > 1:
                # If a zone is missing or cannot be read, the gates that read it say so.
                with suppress(WarehouseError):
                    release_context = opened.enter_context(release_context.snapshot())
            for gate in asked:
                try:
                    problems = gate.evaluate(release_context)
                except Exception as fault:
                    # The other gates are evaluated all the same.
                    faults.append(fault)
                else:
                    yield check_result(problems, gate.name)
        if faults:
            raise faults[0]

    return checks
