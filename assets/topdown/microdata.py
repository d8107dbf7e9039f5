"""The asset `microdata`: the privacy-protected microdata file (PPMF), a record for everyone the estimates count.

Here belongs expanding the finest level's estimated histograms to records. What the histograms count belongs in
`mechanisms.topdown.schema`; the tables that are made from the records in `tables`.
"""

from math import prod

import dagster as dg

from assets.conventions import StageKind, attributes, preview, table_schema
from assets.topdown.release import PERSONS_TABLE, RECORDS, SPINE, UNITS_TABLE, TopDownRelease
from mechanisms.topdown.design import words
from mechanisms.topdown.schema import PERSONS, UNITS, Schema
from resources.statements import Zone
from resources.warehouse import Recipe, Session, Warehouse

CODE_VERSION = "1"

RECORDED = {PERSONS_TABLE: PERSONS, UNITS_TABLE: UNITS}
"""By table of records: the histogram that counts them."""

RECORD_COLUMNS = {
    "record": "Number of the record, from 1; records are in the order of places and of codes, not of any file",
    "geoid": "Where: the code of the place of the finest level",
    "hhgq": "Household, or type of group quarters",
    "votingage": "Voting age",
    "hispanic": "Hispanic or Latino origin",
    "cenrace": "Race, alone or in combination",
    "occupancy": "Whether the housing unit is occupied",
}
"""The columns of the microdata, and what they say."""


def build_microdata(release: TopDownRelease) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "microdata"]`."""

    @dg.asset(
        key=release.key("microdata"),
        deps=[release.key(release.estimates(release.finest))],
        group_name=release.schema,
        description=(
            "The privacy-protected microdata: as many persons and housing units as the estimates count, each with the "
            f"{words(release.finest)} and the codes of its cell. They are no one's records: they say what the "
            "estimated histograms say and no more. Public data only."
        ),
        code_version=CODE_VERSION,
        **attributes(StageKind.TABULATION, Zone.PUBLIC, {"duckdb", "sql"}),
    )
    def microdata(warehouse: Warehouse) -> dg.MaterializeResult:
        tables = {name: release.public(name) for name in RECORDS}
        with warehouse.session(writes=Zone.PUBLIC) as session:
            with session.transaction():
                write_microdata(session, release)
            version = session.content_version(list(tables.values()))
            rows = {name: session.count(table) for name, table in tables.items()}
            schema = table_schema(session.columns(tables[PERSONS_TABLE]), RECORD_COLUMNS)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version),
            metadata={
                "tables": preview(["table", "records"], [(name, f"{count:,}") for name, count in rows.items()]),
                "dagster/row_count": sum(rows.values()),
                "dagster/column_schema": schema,
            },
        )

    return microdata


def write_microdata(session: Session, release: TopDownRelease) -> None:
    """Write the tables `persons` and `units`."""
    for name in RECORDS:
        text, values, names = records_recipe(release, name)
        session.create(release.public(name), text, values, **names)


def records_recipe(release: TopDownRelease, name: str) -> Recipe:
    """How a table of records is made from the finest level's estimates."""
    return (
        "topdown/records",
        {"histogram": RECORDED[name].name, "finest": release.finest},
        {
            "estimates": release.public(release.estimates(release.finest)),
            "spine": release.public(SPINE),
            "attributes": strides(RECORDED[name]),
        },
    )


def strides(schema: Schema) -> list[tuple[str, int, int]]:
    """Of each attribute: its name, how many cells lie between one code and the next, and how many codes there are."""
    sizes = [attribute.size for attribute in schema.attributes]
    return [
        (attribute.name, prod(sizes[position + 1 :]), attribute.size)
        for position, attribute in enumerate(schema.attributes)
    ]
