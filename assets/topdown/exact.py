"""The assets `spine` and `invariants` of a TopDown release, which are exact because the release declares them so.

The table `spine` is made in `spine`, and that of the invariants here. `limits` derives bounds of histograms from it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.conventions import StageKind, preview, public_table_metadata
from assets.release.dataset import CEF
from assets.release.stage import build_stage
from assets.topdown.limits import list_categories
from assets.topdown.release import INVARIANTS, SPINE, TopDownRelease
from assets.topdown.spine import placement, require_nameable, spine_recipe, stage_ancestry, summarize_levels
from mechanisms.topdown.design import words
from resources.statements import Table
from resources.warehouse import Recipe, Session

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


def build_spine(release: TopDownRelease) -> dg.AssetsDefinition:
    def describe(session: Session, tables: Sequence[Table]) -> Mapping[str, Any]:
        levels = [
            (words(level), f"{places:,}", f"{most:,}") for level, places, most in summarize_levels(session, release)
        ]
        return {
            **public_table_metadata(session, *tables),
            "places by level": preview(["level", "places", "most places below one"], levels),
        }

    return build_stage(
        release,
        SPINE,
        StageKind.INVARIANTS,
        f"The places of {len(release.levels)} levels ({', '.join(map(words, release.levels))}) in which units of the "
        "CEF lie, checked to form a tree. The list of places is public: it is an invariant of every TopDown release.",
        [CEF],
        lambda session: {release.public(SPINE): spine_recipe(session, release)},
        SPINE_COLUMNS,
        metadata=describe,
        finish=lambda session, _: require_nameable(session, release),
    )


def build_invariants(release: TopDownRelease) -> dg.AssetsDefinition:
    statistics = [f"- {statistic}" for statistic in release.design.invariants_in_words]
    return build_stage(
        release,
        INVARIANTS,
        StageKind.INVARIANTS,
        "\n".join(["The statistics that are exact in this release, and may be published:", "", *statistics])
        if statistics
        else "The release has no invariants except the list of places.",
        [CEF, SPINE],
        lambda session: {release.public(INVARIANTS): invariants_recipe(session, release)},
        INVARIANT_COLUMNS,
        sealed=[release.public(SPINE), release.public(INVARIANTS)],
    )
