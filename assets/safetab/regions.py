"""The asset `regions` of a SafeTab-P release: the regions in which there is a unit, which the release declares exact.

Every group of every region is measured, whether anyone lives there or not. The list of regions is therefore public.
"""

from collections import Counter

import dagster as dg

from assets.conventions import INVARIANT, StageKind, attributes, preview, public_table_metadata, table_schema
from assets.failures import stated_plainly
from assets.release.contents import counted_from
from assets.release.seal import seal_stage
from assets.safetab.counting import REGION_COLUMNS, RecordsError, find_empty_run, regions_recipe
from assets.safetab.release import REGIONS, SafeTabPRelease
from mechanisms.safetab.regions import RegionType
from resources.custody import Custody
from resources.statements import Zone
from resources.warehouse import Session, Warehouse

CODE_VERSION = "1"


def build_regions(release: SafeTabPRelease) -> dg.AssetsDefinition:
    @dg.asset(
        key=release.key(REGIONS),
        deps=[release.dataset_key("cef")],
        group_name=release.schema,
        description="The regions of every measured type in which there is at least one unit, housing unit or group "
        "quarters. The list is an invariant of every SafeTab release: it is published exactly.",
        code_version=CODE_VERSION,
        **attributes(StageKind.INVARIANTS, Zone.PUBLIC, {"duckdb", "sql"}, crossing=INVARIANT),
    )
    @stated_plainly(StageKind.INVARIANTS)
    def regions(warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        table = release.public(REGIONS)
        with warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC) as session:
            name, values, names = regions_recipe(session, release)
            with session.transaction():
                session.create(table, name, values, **names)
                counted = counted_from(session, custody, release.dataset, release.counted_with)
                seal_stage(session, custody, release.schema, REGIONS, [table], counted)
            return dg.MaterializeResult(
                data_version=dg.DataVersion(session.content_version([table])),
                metadata={
                    **public_table_metadata(session, table),
                    "regions by type": preview(["region type", "regions", "groups"], _count_groups(session, release)),
                    "dagster/column_schema": table_schema(session.columns(table), REGION_COLUMNS),
                },
            )

    return regions


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
