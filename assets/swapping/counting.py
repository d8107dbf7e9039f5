"""The asset `counts` of a dataset with partitions: the records by their values, added up from the partitions.

The stages after it read the counts instead of the records. Strata and margins follow from the counts, so the charge,
the draw and the publication are the same as without partitions.
"""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from assets.measurement.parts import PartCounts, build_counted, complete_parts
from assets.release.columns import describe_columns
from assets.release.dataset import CEF
from assets.release.gate import Gate
from assets.release.stage import Recipes
from assets.swapping.records import BY_VALUES, COUNTED, SINGLE, list_variables, stage_single_records
from assets.swapping.release import SwappingRelease
from assets.tabulation.asset import recipes_gate
from resources.custody import Custody
from resources.statements import Fragment, Zone
from resources.warehouse import Recipe, Session


def find_parts(release: SwappingRelease) -> PartCounts[SwappingRelease] | None:
    """How records are counted in partitions; None if they are not."""
    return PartCounts.of(release, COUNTED, counted_recipe, added_recipe) if release.is_counted_in_parts else None


def counted_recipe(session: Session, release: SwappingRelease) -> Recipe:
    """The recipe of the records of a dataset by their values, persons of a unit included, with their `count` and, if
    persons follow their unit, the least key of these units, `unit_key`."""
    return "swapping/counted", {}, {**_names(release, SINGLE), "records": stage_single_records(session, release)}


def added_recipe(session: Session, release: SwappingRelease, counted: Mapping[str, Any]) -> Recipe:
    """The recipe of the counts of all partitions, named as in `assets.measurement.parts`. A unit and its persons, whose
    values make up its record, are in one partition."""
    return "swapping/added_up", {}, {**_names(release, BY_VALUES), **counted}


def _names(release: SwappingRelease, number: Fragment) -> dict[str, Any]:
    return {"variables": list_variables(release), "follow": release.has_persons_following, "number": number}


def counted_recipes(session: Session, release: SwappingRelease) -> Recipes:
    return {release.confidential(COUNTED): counted_recipe(session, release)}


def drop_former_counts(session: Session, custody: Custody, release: SwappingRelease) -> None:
    """Drop the counts that were stored while the dataset had partitions, unless it still has some."""
    if not release.is_counted_in_parts:
        complete_parts(session, custody, release, COUNTED, None)
        for name in (COUNTED, f"{COUNTED}_seal"):
            session.drop(release.confidential(name))


def build_counts_by_value(release: SwappingRelease, parts: PartCounts[SwappingRelease]) -> dg.AssetsDefinition:
    described = describe_columns(release.variables) | {
        "composition": "The persons of the unit, as one text",
        "unit_key": "The least key of a unit with these values",
        "count": "Number of records",
    }
    return build_counted(
        release,
        COUNTED,
        f"The number of {release.design.unit}s with the same values, which the stages after it read instead of the "
        "records. Confidential: nothing of it is public.",
        [CEF],
        lambda session: counted_recipes(session, release),
        described,
        parts,
        finish=lambda session, custody: None,
        reads=[Zone.PUBLIC],
        sealed=[release.confidential(COUNTED)],
    )


def counts_gate(release: SwappingRelease, parts: PartCounts[SwappingRelease]) -> Gate[SwappingRelease]:
    words = "The stored counts are those of the current confidential records."
    reads = [Zone.CONFIDENTIAL]
    return recipes_gate(
        "counts_exact", COUNTED, words, lambda session: counted_recipes(session, release), reads, parts.by_part()
    )
