"""The exact counts of SafeTab's population groups, and the asset `regions`: the published list of regions with a unit.

Records are aggregated step by step, so that no step handles a record once for each of its groups. Each distinct
combination of codes is mapped to iterations once, and combinations with the same iterations are one set. Records are
counted by area, set and finest cell. Only these counts are added up to regions and iterations. Numbers represent codes
and regions until the last step.

Every group of every region is measured, inhabited or not, so a release of SafeTab-P declares its list of regions exact
and public.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.cef.census import BLOCK
from assets.conventions import StageKind, preview, public_table_metadata
from assets.release.dataset import CEF
from assets.release.stage import build_stage
from assets.safetab.release import (
    AREA_COLUMNS,
    COLUMNS_OF_GROUPS,
    ETHNICITY_CODE,
    REGIONS,
    SafeTabPRelease,
    SafeTabRelease,
    identify_records,
)
from mechanisms.refusal import RefusedError
from mechanisms.safetab.lists import CODES_FILE, CodeLists, RegionType, format_count
from mechanisms.states import PUERTO_RICO
from resources.statements import SQL, Fragment, Table
from resources.warehouse import Recipe, Session

_REGION_TYPES = SQL("safetab/region_types", "SELECT DISTINCT region_type FROM {{ counts }}")
_OTHERS = SQL("safetab/other_states", "SELECT count(*) FROM {{ units }} WHERE TABBLKST NOT IN (SELECT unnest($states))")
_IN_ORDER = SQL("safetab/in_order", "SELECT region_type, region_id FROM {{ regions }} ORDER BY region_type, number")

COUNT_COLUMNS = {
    **COLUMNS_OF_GROUPS,
    "cell": "Finest cell, from 0: sex by age, or type of household by tenure",
    "count": "Count",
}

REGION_COLUMNS = {
    "region_type": COLUMNS_OF_GROUPS["region_type"],
    "number": "Number of the region within its type, from 0",
    "region_id": COLUMNS_OF_GROUPS["region_id"],
}


class RecordsError(RefusedError, ValueError):
    """Records that cannot be counted. The message states rules and numbers of records, without values."""


_MEMBERS = pa.schema(
    [("member", pa.uint16()), ("detailed", pa.bool_()), ("level", pa.uint8()), ("iteration_code", pa.string())]
)

_MEMBERSHIPS = pa.schema([("kind", pa.string()), ("code", pa.string()), ("member", pa.uint16())])


def counts_recipe(session: Session, release: SafeTabRelease, groups: Table | Fragment | None = None) -> Recipe:
    """The recipe of the exact counts: a row for each population group and finest cell that is not 0.

    Columns: `COUNT_COLUMNS`. `level` and `cell` are UTINYINT, `count` is BIGINT, and the others are VARCHAR. A record
    counts once in each of its groups. The cell of a person is 23 (QSEX - 1) plus the number of the finest age group,
    from 0; the cell of a household is 4 (HOUSEHOLD_TYPE - 1) + TEN - 1. Rows are in the order of the draw: region type,
    level, region, iteration and cell. This order makes it fast to read a few regions, and to compare counts made again.

    All groups are counted, or only those in the table `groups`, by `region_type`, `region_id` and `iteration_code`.
    """
    levels, dataset = _levels(release), release.dataset
    read = identify_records(dataset, release.counted, release.design.max_race_codes)
    codes, members, memberships = _register_members(session, release.lists, levels)
    areas, area_regions, regions = stage_regions(session, release)
    answers = session.stage("answers", "safetab/answers", **read)
    races = [code for code in read["codes"] if code != ETHNICITY_CODE]
    answer_sets = session.stage(
        "answer_sets", "safetab/answer_sets", answers=answers, races=races, memberships=memberships
    )
    sets = session.stage("sets", "safetab/sets", answer_sets=answer_sets)
    names = {"regions": regions, "members": members, "area_regions": area_regions, "sets": sets, "groups": groups}
    of_areas = {"areas": areas, "key": dataset.units.key, "columns": AREA_COLUMNS}
    of_answers = {"answers": answers, "answer_sets": answer_sets, "sets": sets}
    names["area_counts"] = session.stage("area_counts", "safetab/area_counts", **{**read, **of_areas, **of_answers})
    region_counts = [
        session.stage(
            f"counts of {region_type}",
            "safetab/region_counts",
            {"region_type": str(region_type), "detailed": region_type.detailed, "levels": measured_levels},
            **names,
        )
        for region_type, measured_levels in levels.items()
    ]
    region_ids: dict[str, list[str]] = {str(region_type): [] for region_type in levels}
    for region_type, _, region_id in session.rows("warehouse/all", source=regions):
        region_ids[region_type].append(region_id)
    values = {"region_types": list(region_ids), "region_ids": list(region_ids.values()), "iteration_codes": codes}
    return "safetab/counts", values, {"region_counts": region_counts}


def added_recipe(
    session: Session, release: SafeTabRelease, counted: Mapping[str, Any], groups: Table | None = None
) -> Recipe:
    """The recipe of the exact counts from the counts of all partitions, named as in `assets.measurement.parts`.

    A record counts by its own codes, in the regions of its unit; a household of the production layout by its housing
    unit and the codes of its householder. All of these are in one partition. Partitions count all groups, because the
    list of groups that SafeTab-H counts may be published later.
    """
    region_types = [str(region_type) for region_type in _levels(release)]
    return "safetab/added_up", {"region_types": region_types}, {**counted, "groups": groups}


def regions_recipe(session: Session, release: SafeTabRelease) -> Recipe:
    """The recipe of the regions with at least one unit, inhabited or not.

    Columns: `REGION_COLUMNS`. `number` is INTEGER and counts from 0 within the region type, in the order of
    `region_id`; the others are VARCHAR. Rows are in the order of the draw.
    """
    _, area_regions, _ = stage_regions(session, release)
    types = {"region_types": [str(region_type) for region_type in _levels(release)]}
    return "safetab/regions", types, {"area_regions": area_regions}


def build_regions(release: SafeTabPRelease) -> dg.AssetsDefinition:
    table = release.public(REGIONS)

    def describe(session: Session, tables: Sequence[Table]) -> Mapping[str, Any]:
        iterations: Counter[RegionType] = Counter()
        for line in release.design.measured:
            iterations[line.region_type] += len(release.universe_of(line))
        rows = [
            (region_type.value, f"{len(regions):,}", f"{len(regions) * iterations[region_type]:,}")
            for region_type, regions in read_regions(session, release).items()
        ]
        shown = {"regions by type": preview(["region type", "regions", "groups"], rows)}
        return {**public_table_metadata(session, table), **shown}

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
    for region_type, region_id in session.rows(_IN_ORDER, regions=release.public(REGIONS)):
        region_ids[RegionType(region_type)].append(region_id)
    return region_ids


def require_regions(session: Session, release: SafeTabPRelease) -> None:
    """Refuse (`RecordsError`) a run without any region, such as a run for Puerto Rico with the files of a state."""
    region_types = [region_type for region_type, regions in read_regions(session, release).items() if regions]
    if run := find_empty_run(release, region_types):
        raise RecordsError(
            f"{release.schema}: states: {release.dataset.name} has no unit in a state of the {run} run, so that "
            "nothing would be measured there; check the states, the budgets and the files of the dataset"
        )


def require_countable_records(session: Session, release: SafeTabRelease) -> None:
    """Refuse records that SafeTab cannot count (`RecordsError`), before a charge. The error reports only rules and
    numbers.

    Codes must be in the list, in all eight columns of all records of the dataset. States are treated as follows.
    SafeTab's two runs are separate, and each ignores the blocks of the other: a dataset with blocks of Puerto Rico may
    have a release for the US only, and vice versa. Within the run for the US, the production layout covers the whole
    country, and a release selects its states from it. SafeTab's own files must be those of the declared states, as its
    validation requires, so a forgotten state is an error instead of an undercount of the nation.
    """
    dataset, counted = release.dataset, release.counted
    codes = session.register("known_codes", pa.table({"code": pa.array(sorted(release.lists.names), pa.string())}))
    read = identify_records(dataset, counted)
    problems = [
        f"{counted}: {read['codes'][column]}: a code is not in {CODES_FILE}: {format_count(records, 'record')}"
        for column, records in session.rows("safetab/unknown_codes", known=codes, **read)
    ]
    within_us = [state for state in release.design.states if state != PUERTO_RICO]
    if dataset.units.key == BLOCK and within_us:
        (blocks,) = session.row(_OTHERS, {"states": [*within_us, PUERTO_RICO]}, units=read["units"])
        if blocks:
            problems.append(
                f"units: TABBLKST: a block is in none of the declared states: {format_count(blocks, 'block')}"
            )
    if problems:
        raise RecordsError(f"{dataset.name}: {'; '.join(problems)}")


def require_households_in_groups(session: Session, release: SafeTabRelease, counts: Table) -> None:
    """Refuse a run of SafeTab-H without any household in a measured group, such as a run with another run's file.

    The check reads confidential records before a charge, so the RecordsError reports only the violated rule.
    """
    region_types = {RegionType(region_type) for (region_type,) in session.rows(_REGION_TYPES, counts=counts)}
    if run := find_empty_run(release, region_types):
        raise RecordsError(
            f"households: no household of the {run} run is in a group whose total SafeTab-P published; check that the "
            "dataset, the states and the release named in detail belong together"
        )


def find_empty_run(release: SafeTabRelease, region_types: Collection[RegionType]) -> str | None:
    """The first measured run to which none of `region_types` belongs; None if there is no such run."""
    runs = {region_type.run for region_type in region_types}
    return next((region_type.run for region_type in _levels(release) if region_type.run not in runs), None)


def _levels(release: SafeTabRelease) -> Mapping[RegionType, list[int]]:
    """The levels measured for each region type, in the order of the draw."""
    levels: dict[RegionType, list[int]] = {}
    for region_type, level in release.pairs:
        levels.setdefault(region_type, []).append(level)
    return levels


def stage_regions(session: Session, release: SafeTabRelease) -> tuple[Fragment, Fragment, Fragment]:
    """The areas of the units, the regions that each area lies in, and the regions with their numbers."""
    types = {"region_types": [str(region_type) for region_type in _levels(release)]}
    states, units = {"states": list(release.design.states)}, release.dataset.cef_tables()[0]
    areas = session.stage("areas", "safetab/areas", states, units=units, columns=AREA_COLUMNS)
    area_regions = session.stage("area_regions", "safetab/area_regions", types, areas=areas)
    return areas, area_regions, session.stage("regions", "safetab/regions", types, area_regions=area_regions)


def _register_members(
    session: Session, lists: CodeLists, levels: Mapping[RegionType, Collection[int]]
) -> tuple[list[str], Fragment, Fragment]:
    """Register the members, which are iterations in a universe (detailed or not, and level), and the codes that map to
    them.

    Returns the iterations of the members, which are numbered from 0, and the two tables.
    """
    members: list[dict[str, Any]] = []
    memberships: list[dict[str, Any]] = []
    for detailed, level in sorted(
        {(region_type.detailed, level) for region_type in levels for level in levels[region_type]}
    ):
        kinds = lists.memberships[detailed, level]
        numbers: dict[str, int] = {}
        for code in sorted({iteration for codes in kinds for iteration in codes.values()}):
            numbers[code] = len(members)
            members.append({"member": len(members), "detailed": detailed, "level": level, "iteration_code": code})
        memberships += [
            {"kind": kind, "code": code, "member": numbers[iteration]}
            for kind, codes in zip(("alone", "combination", "ethnicity"), kinds, strict=True)
            for code, iteration in codes.items()
        ]
    return (
        [member["iteration_code"] for member in members],
        session.register("members", pa.Table.from_pylist(members, _MEMBERS)),
        session.register("memberships", pa.Table.from_pylist(memberships, _MEMBERSHIPS)),
    )
