"""The asset `microdata`: the privacy-protected microdata file (PPMF), with a record for each person and unit estimated.

This module expands the estimated histograms of the finest level to records. The histograms are defined in
`mechanisms.topdown.schema`. `tables` aggregates the records.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import dagster as dg

from assets.cef.census import GROUP_QUARTERS_TYPES, HISPANIC, RACES
from assets.conventions import StageKind, preview
from assets.release.stage import build_stage
from assets.topdown.release import PERSONS_TABLE, RECORDS, SPINE, UNITS_TABLE, TopDownRelease
from mechanisms.topdown.design import words
from mechanisms.topdown.schema import PERSONS, UNITS, Schema
from resources.statements import Table
from resources.warehouse import Recipe, Session

RECORDED = {PERSONS_TABLE: PERSONS, UNITS_TABLE: UNITS}

RECORD_COLUMNS = {
    "record": "Number of the record, from 1; the order is by place and codes, not that of any file",
    "geoid": "Code of the place of the finest level",
    "hhgq": "Household or type of group quarters, with the codes of GQTYPE",
    "votingage": "Voting age",
    "hispanic": "Hispanic or Latino origin, with the codes of CENHISP",
    "cenrace": "Race, alone or in combination, with the codes of CENRACE",
    "occupancy": "Whether the housing unit is occupied",
}

INPUT_CODES: Mapping[str, tuple[str, ...]] = {
    "hhgq": ("0", *GROUP_QUARTERS_TYPES),
    "hhinstlevels": ("0", "1", "2"),
    "votingage": ("0", "1"),
    "hispanic": tuple(HISPANIC),
    "cenrace": tuple(RACES),
    "occupancy": ("0", "1"),
}
"""By attribute or recode, its codes in published files, in the order of the histograms: those of the census files for
the type of group quarters, Hispanic origin and race. The census files have no codes for the others."""

ATTRIBUTE_WORDS = {
    "hhgq": "household or type of group quarters",
    "hhinstlevels": "household or kind of group quarters",
    "votingage": "voting age",
    "hispanic": "Hispanic origin",
    "cenrace": "race",
    "occupancy": "occupancy",
}
"""The attributes and recodes of the histograms in words."""


def build_microdata(release: TopDownRelease) -> dg.AssetsDefinition:
    def describe(session: Session, tables: Sequence[Table]) -> Mapping[str, Any]:
        rows = {table.name: session.count(table) for table in tables}
        return {
            "tables": preview(["table", "records"], [(name, f"{count:,}") for name, count in rows.items()]),
            "dagster/row_count": sum(rows.values()),
        }

    # The records follow from these tables, which are smaller.
    sources = [release.public(release.estimates(release.finest)), release.public(SPINE)]
    return build_stage(
        release,
        "microdata",
        StageKind.TABULATION,
        "The privacy-protected microdata: one record for each estimated person and housing unit, with the "
        f"{words(release.finest)} and the codes of its cell. They are not records of real people: they contain exactly "
        "the information of the estimated histograms. Made from public data only.",
        [release.estimated],
        lambda session: microdata_recipes(release),
        RECORD_COLUMNS,
        metadata=describe,
        version=lambda session, tables, _: session.content_version(sources),
        code_version="2",
    )


def microdata_recipes(release: TopDownRelease) -> dict[Table, Recipe]:
    return {release.public(name): records_recipe(release, name) for name in RECORDS}


def records_recipe(release: TopDownRelease, name: str) -> Recipe:
    return (
        "topdown/records",
        {"histogram": RECORDED[name].name, "finest": release.finest, "codes": codes_of(RECORDED[name])},
        {
            "estimates": release.public(release.estimates(release.finest)),
            "spine": release.public(SPINE),
            "attributes": strides(RECORDED[name]),
        },
    )


def codes_of(schema: Schema) -> list[list[str]]:
    """The codes of each attribute of a histogram in published files, in the order of its attributes."""
    return [list(INPUT_CODES[attribute.name]) for attribute in schema.attributes]


def strides(schema: Schema) -> list[tuple[str, int, int]]:
    """For each attribute, its name, the distance in cells between consecutive codes, and the number of codes."""
    sizes = [attribute.size for attribute in schema.attributes]
    return [
        (attribute.name, prod(sizes[position + 1 :]), attribute.size)
        for position, attribute in enumerate(schema.attributes)
    ]
