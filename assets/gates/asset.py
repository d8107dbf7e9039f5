"""Asset checks that stand between a release and its publication.

Here belongs wrapping promises as blocking Dagster checks. What is promised belongs in `promises`.
"""

from typing import Any

import dagster as dg

from assets.confidentiality import deployed_graph, nodes_of
from assets.conventions import POOL, check_result
from assets.publication.asset import altered_files
from assets.publication.package import CHECKSUMS
from assets.release.method import Gate, Method, ReleaseContext
from assets.release.release import Release
from resources.custody import Custody
from resources.ledger import Ledger
from resources.warehouse import Warehouse

SHARED_STAGES = {"cef", "composition"}
"""Stages of the dataset: their checks are the dataset's, not a release's."""


def build_gates(method: Method[Any, Any]) -> list[dg.AssetChecksDefinition]:
    """A blocking check for every promise a release makes of its own, and one for the files, if any are published."""
    own = [gate for gate in method.gates() if gate.stage not in SHARED_STAGES]
    publishes = any(gate.stage == "charge" for gate in own)
    return [*(_check(method, gate) for gate in own), *([_files(method.release)] if publishes else [])]


def _check(method: Method[Any, Any], gate: Gate[Any]) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=method.release.key(gate.stage), name=gate.name, description=gate.words, blocking=True, pool=POOL
    )
    def check(
        context: dg.AssetCheckExecutionContext, warehouse: Warehouse, custody: Custody, ledger: Ledger
    ) -> dg.AssetCheckResult:
        release_context = ReleaseContext(method, warehouse, custody, ledger, nodes_of(deployed_graph(context)))
        return check_result(gate.problems(release_context))

    return check


def _files(release: Release) -> dg.AssetChecksDefinition:
    key = release.key("publication")

    @dg.asset_check(
        asset=key,
        name="files_as_published",
        description="The published files are those of the last materialization, every one and no other.",
    )
    def files_as_published(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        event = context.instance.get_latest_materialization_event(key)
        materialization = event.asset_materialization if event else None
        checksums = str(materialization.metadata[CHECKSUMS].value) if materialization else None
        return check_result(altered_files(release.folder, checksums))

    return files_as_published
