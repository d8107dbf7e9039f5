"""The assets `spine` and `invariants` of a TopDown release, which are exact because the release declares them so.

The table `spine` is made in `spine`, and that of the invariants here. `limits` derives bounds of histograms from it.
"""

import dagster as dg
import pyarrow as pa

from assets.conventions import INVARIANT, StageKind, attributes, preview, public_table_metadata, table_schema
from assets.failures import stated_plainly
from assets.release.contents import counted_from
from assets.release.seal import seal_stage
from assets.topdown.limits import list_categories
from assets.topdown.release import INVARIANTS, SPINE, TopDownRelease
from assets.topdown.spine import placement, stage_ancestry, summarize_levels, write_spine
from mechanisms.topdown.design import words
from resources.custody import Custody
from resources.statements import Zone
from resources.warehouse import Recipe, Session, Warehouse

CODE_VERSION = "1"

SPINE_COLUMNS = {
    "level": "Geographic level",
    "depth": "Number of the level; 0 for the root",
    "number": "Number of the place within its level",
    "geoid": "Code of the place",
    "parent": "Number of the parent in the level above",
}

INVARIANT_COLUMNS = {
    "invariant": "The invariant",
    "level": "Geographic level",
    "number": "Number of the place within its level",
    "geoid": "Code of the place",
    "category": "Type of group quarters; 0 for other counts",
    "count": "Exact count",
}

_DECLARED = pa.schema([("invariant", pa.string()), ("depth", pa.int64()), ("categories", pa.list_(pa.int64()))])


def invariants_recipe(session: Session, release: TopDownRelease) -> Recipe:
    rows = [
        {"invariant": name, "depth": release.levels.index(level), "categories": list_categories(name).tolist()}
        for name, level in release.design.invariants.items()
    ]
    values, names = placement(release)
    names["declared"] = session.register("declared", pa.Table.from_pylist(rows, schema=_DECLARED))
    return "topdown/invariants", values, names | {"ancestry": stage_ancestry(session, release)}


def write_invariants(session: Session, release: TopDownRelease) -> None:
    name, values, names = invariants_recipe(session, release)
    session.create(release.public(INVARIANTS), name, values, **names)


def build_spine(release: TopDownRelease) -> dg.AssetsDefinition:
    @dg.asset(
        key=release.key("spine"),
        deps=[release.dataset_key("cef")],
        group_name=release.schema,
        description=(
            f"The places of {len(release.levels)} levels ({', '.join(map(words, release.levels))}) in which units of "
            "the CEF lie, checked to form a tree. The list of places is public: it is an invariant of every TopDown "
            "release."
        ),
        code_version=CODE_VERSION,
        **attributes(StageKind.INVARIANTS, Zone.PUBLIC, {"duckdb", "sql"}, crossing=INVARIANT),
    )
    @stated_plainly(StageKind.INVARIANTS)
    def spine(warehouse: Warehouse) -> dg.MaterializeResult:
        table = release.public(SPINE)
        with warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC) as session:
            with session.transaction():
                write_spine(session, release)
            levels = [
                (words(level), f"{places:,}", f"{most:,}") for level, places, most in summarize_levels(session, release)
            ]
            return dg.MaterializeResult(
                data_version=dg.DataVersion(session.content_version([table])),
                metadata={
                    **public_table_metadata(session, table),
                    "places by level": preview(["level", "places", "most places below one"], levels),
                    "dagster/column_schema": table_schema(session.columns(table), SPINE_COLUMNS),
                },
            )

    return spine


def build_invariants(release: TopDownRelease) -> dg.AssetsDefinition:
    held = [f"- {statistic}" for statistic in release.design.invariants_in_words]

    @dg.asset(
        key=release.key("invariants"),
        deps=[release.dataset_key("cef"), release.key("spine")],
        group_name=release.schema,
        description="\n".join(["The statistics that are exact in this release, and may be published:", "", *held])
        if held
        else "The release has no invariants except the list of places.",
        code_version=CODE_VERSION,
        **attributes(StageKind.INVARIANTS, Zone.PUBLIC, {"duckdb", "sql"}, crossing=INVARIANT),
    )
    @stated_plainly(StageKind.INVARIANTS)
    def invariants(warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        table = release.public(INVARIANTS)
        with warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC) as session:
            with session.transaction():
                write_invariants(session, release)
                counted = counted_from(session, custody, release.dataset, {})
                seal_stage(session, custody, release.schema, INVARIANTS, [release.public(SPINE), table], counted)
            return dg.MaterializeResult(
                data_version=dg.DataVersion(session.content_version([table])),
                metadata={
                    **public_table_metadata(session, table),
                    "dagster/column_schema": table_schema(session.columns(table), INVARIANT_COLUMNS),
                },
            )

    return invariants
