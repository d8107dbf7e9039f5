"""The asset `regions` of a SafeTab-P release: the regions in which there is a unit, which the release declares exact.

Every group of every region is measured, whether anyone lives there or not. The list of regions is therefore public.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from assets.conventions import StageKind, preview, public_table_metadata
from assets.release.dataset import CEF
from assets.release.stage import build_stage
from assets.safetab.counting import REGION_COLUMNS, RecordsError, find_empty_run, regions_recipe
from assets.safetab.release import REGIONS, SafeTabPRelease
from mechanisms.safetab.lists import RegionType
from resources.statements import Table
from resources.warehouse import Session


def build_regions(release: SafeTabPRelease) -> dg.AssetsDefinition:
    table = release.public(REGIONS)

    def describe(session: Session, tables: Sequence[Table]) -> Mapping[str, Any]:
        return {
            **public_table_metadata(session, table),
            "regions by type": preview(["region type", "regions", "groups"], _count_groups(session, release)),
        }

    return build_stage(
        release,
        REGIONS,
        StageKind.INVARIANTS,
        "The regions of every measured type in which there is at least one unit, housing unit or group quarters. The "
        "list is an invariant of every SafeTab release: it is published exactly.",
        [CEF],
        lambda session: {table: regions_recipe(session, release)},
        REGION_COLUMNS,
        metadata=describe,
        sealed=[table],
    )


def read_regions(session: Session, release: SafeTabPRelease) -> dict[RegionType, list[str]]:
    """The regions of each measured type in order, from the public table."""
    region_ids: dict[RegionType, list[str]] = {region_type: [] for region_type, _ in release.pairs}
    for region_type, region_id in session.rows("safetab/regions_in_order", regions=release.public(REGIONS)):
        region_ids[RegionType(region_type)].append(region_id)
    return region_ids


def require_regions(session: Session, release: SafeTabPRelease) -> None:
    """Refuse (`RecordsError`) a run without any region, such as one of Puerto Rico with files of a state."""
    region_types = [region_type for region_type, regions in read_regions(session, release).items() if regions]
    if run := find_empty_run(release, region_types):
        raise RecordsError(
            f"{release.schema}: states: {release.dataset.name} has no unit in a state of the {run} run, so that "
            "nothing would be measured there; check the states, the budgets and the files of the dataset"
        )


def _count_groups(session: Session, release: SafeTabPRelease) -> list[tuple[str, str, str]]:
    """Each measured type with the numbers of its regions and of its groups, of both levels."""
    iterations: Counter[RegionType] = Counter()
    for line in release.design.measured:
        iterations[line.region_type] += len(release.universe_of(line))
    return [
        (region_type.value, f"{len(regions):,}", f"{len(regions) * iterations[region_type]:,}")
        for region_type, regions in read_regions(session, release).items()
    ]
