"""The asset `regions` of a SafeTab-P release: the regions in which there is a unit, which the release declares exact.

Every group of every region is measured, whether anyone lives there or not. The list of regions is therefore public.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from assets.conventions import StageKind, preview, public_table_metadata
from assets.release.dataset import CEF
from assets.release.stage import build_stage
from assets.safetab.counting import REGION_COLUMNS, regions_recipe
from assets.safetab.records import RecordsError
from assets.safetab.release import REGIONS, SafeTabPRelease
from mechanisms.safetab.regions import RegionType
from resources.statements import Table
from resources.warehouse import Recipe, Session


def build_regions(release: SafeTabPRelease) -> dg.AssetsDefinition:
    table = release.public(REGIONS)

    def describe(session: Session, tables: Sequence[Table]) -> Mapping[str, Any]:
        rows = [
            (region_type.value, f"{len(regions):,}", f"{groups:,}")
            for region_type, regions, groups in _by_type(session, release)
        ]
        return {
            **public_table_metadata(session, table),
            "regions by type": preview(["region type", "regions", "groups"], rows),
        }

    return build_stage(
        release,
        REGIONS,
        StageKind.INVARIANTS,
        "The regions of every measured type in which there is at least one unit, housing unit or group quarters. The "
        "list is an invariant of every SafeTab release: it is published exactly.",
        [CEF],
        lambda session: {table: recipe_of_regions(session, release)},
        REGION_COLUMNS,
        metadata=describe,
        sealed=[table],
    )


def recipe_of_regions(session: Session, release: SafeTabPRelease) -> Recipe:
    region_types = {region_type for region_type, _ in release.pairs}
    return regions_recipe(session, release.dataset, region_types, release.design.states)


def regions_of(session: Session, release: SafeTabPRelease) -> dict[RegionType, list[str]]:
    """The regions of each measured type in order, from the public table."""
    found: dict[RegionType, list[str]] = {region_type: [] for region_type, _ in release.pairs}
    for region_type, region_id in session.rows("safetab/regions_in_order", regions=release.public(REGIONS)):
        found[RegionType(region_type)].append(region_id)
    return found


def require_regions(session: Session, release: SafeTabPRelease) -> None:
    """Refuse a run without any region, such as one of Puerto Rico with files of a state: it would measure nothing.

    Raises:
        RecordsError: if there is such a run. Which regions there are is public.
    """
    found = {region_type.run for region_type, regions in regions_of(session, release).items() if regions}
    for run in dict.fromkeys(region_type.run for region_type, _ in release.pairs):
        if run not in found:
            raise RecordsError(
                f"{release.schema}: states: {release.dataset.name} has no unit in a state of the {run} run, so that "
                "nothing would be measured there; check the states, the budgets and the files of the dataset"
            )


def _by_type(session: Session, release: SafeTabPRelease) -> list[tuple[RegionType, list[str], int]]:
    """Each measured type with its regions and the number of its groups, of both levels."""
    iterations: dict[RegionType, int] = {}
    for region_type, level in release.pairs:
        universe = release.lists.universe(region_type, level)
        iterations[region_type] = iterations.get(region_type, 0) + len(universe)
    return [(kind, found, len(found) * iterations[kind]) for kind, found in regions_of(session, release).items()]
