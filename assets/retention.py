"""The asset `retention`, which deletes replaced data from a lake.

A lake keeps the files of a replaced or withdrawn table, with their keys in the catalog, until they are deleted. Only
deployments in a cluster have the asset: `orchestration.jobs` has its schedule.
"""

from datetime import timedelta

import dagster as dg

from assets.conventions import StageKind
from assets.stages import stage
from resources.statements import Zone
from resources.warehouse import Warehouse

RETENTION_KEY = dg.AssetKey(["retention"])
KEPT = timedelta(days=1)
"""The time for which replaced data are kept, for sessions that still read them."""


def build_retention() -> dg.AssetsDefinition:
    """The asset `retention`, on which no other asset depends."""

    @stage(
        RETENTION_KEY,
        "retention",
        StageKind.RETENTION,
        "Deletes from both zones of the lake what was replaced or dropped more than a day ago: the files, and their "
        "keys and statistics in the catalogs. Files of writers that were killed are deleted too. The current tables "
        "stay as they are.",
        code_version=None,
        kinds={"duckdb"},
    )
    def retention(warehouse: Warehouse) -> dg.MaterializeResult:
        zones = (zone for zone in (Zone.CONFIDENTIAL, Zone.PUBLIC) if warehouse.holds(zone))
        removed = [warehouse.compact(zone, KEPT) for zone in zones]
        files, size = sum(each.files for each in removed), sum(each.size for each in removed)
        return dg.MaterializeResult(metadata={"files deleted": files, "bytes deleted": size})

    return retention
