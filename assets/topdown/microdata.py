"""The asset `microdata`: the privacy-protected microdata file (PPMF), with a record for each person and unit estimated.

This module expands the estimated histograms of the finest level to records. The histograms are defined in
`mechanisms.topdown.schema`. `tables` aggregates the records.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa

from assets.cef.census import CODES as CENSUS_CODES
from assets.cef.census import RACES
from assets.conventions import StageKind, preview
from assets.release.stage import build_stage
from assets.topdown.release import SPINE, TopDownRelease
from mechanisms.topdown.design import SCHEMAS, words
from mechanisms.topdown.redistricting import CODES
from mechanisms.topdown.schema import Schema
from resources.statements import Fragment, Table
from resources.warehouse import Recipe, Session

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
    **{name: tuple(map(str, labels)) for name, labels in CODES.items()},
    "hhgq": ("0", *CENSUS_CODES["GQTYPE"]),
    "hispanic": tuple(CENSUS_CODES["CENHISP"]),
    "cenrace": tuple(RACES),
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
    return {release.public(name): _records_recipe(release, schema) for name, schema in SCHEMAS.items()}


def _records_recipe(release: TopDownRelease, schema: Schema) -> Recipe:
    sizes = [attribute.size for attribute in schema.attributes]
    inner = [prod(sizes[position:]) for position in range(1, len(sizes) + 1)]
    names = [attribute.name for attribute in schema.attributes]
    return (
        "topdown/records",
        {"histogram": schema.name, "finest": release.finest, "codes": [list(INPUT_CODES[name]) for name in names]},
        {
            "estimates": release.public(release.estimates(release.finest)),
            "spine": release.public(SPINE),
            "attributes": list(zip(names, inner, sizes, strict=True)),
        },
    )


def register_codes(session: Session, schema: Schema) -> Fragment:
    """Register the codes of published files by cell, from the marginals of the histogram.

    Whatever reads records decodes them by these, so that the gate on records does not count as they were made.
    """
    codes = {
        attribute.name: np.array(INPUT_CODES[attribute.name])[schema.marginal(attribute.name).cells]
        for attribute in schema.attributes
    }
    return session.register(f"codes_of_{schema.name}", pa.table({"cell": np.arange(schema.size), **codes}))
