"""Asset checks that stand between a release and its publication.

Here belongs wrapping promises as blocking Dagster checks. What is promised belongs in `promises`.
"""

import dagster as dg

from assets.confidentiality import deployed_graph, leaks, nodes_of
from assets.conventions import POOL, check_result
from assets.gates.promises import House, Promise, promises
from assets.publication.asset import CONFIDENTIALITY, broken_checksums
from assets.release import SwappingRelease
from resources.custody import Custody
from resources.ledger import Ledger
from resources.warehouse import Warehouse

SHARED_STAGES = {"cef", "composition"}
"""Stages of the dataset: their checks are the dataset's, not a release's."""


def build_gates(release: SwappingRelease) -> list[dg.AssetChecksDefinition]:
    """A blocking check for every promise a release makes of its own, and one for the files once published."""
    own = [promise for promise in promises(release) if promise.stage not in SHARED_STAGES]
    return [*(_gate(release, promise) for promise in own), _confidentiality(release), _files(release)]


def _gate(release: SwappingRelease, promise: Promise) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=release.key(promise.stage), name=promise.name, description=promise.words, blocking=True, pool=POOL
    )
    def gate(warehouse: Warehouse, custody: Custody, ledger: Ledger) -> dg.AssetCheckResult:
        return check_result(promise.broken(House(release, warehouse, custody, ledger)))

    return gate


def _confidentiality(release: SwappingRelease) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=release.key(CONFIDENTIALITY.stage),
        name=CONFIDENTIALITY.name,
        description=CONFIDENTIALITY.words,
        blocking=True,
    )
    def confidentiality(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        return check_result(leaks(nodes_of(deployed_graph(context)), release.key("publication")))

    return confidentiality


def _files(release: SwappingRelease) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=release.key("publication"),
        name="files_as_published",
        description="Every published file is there, with the checksum it was published with.",
    )
    def files_as_published() -> dg.AssetCheckResult:
        return check_result(broken_checksums(release.folder))

    return files_as_published
