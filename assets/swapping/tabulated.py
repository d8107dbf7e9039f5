"""The asset `tables`: the declared products and the saturated contingency table.

Here belongs the stage. It sees the public zone only: what is tabulated here is covered by the charge, however
many tables there are.
"""

import dagster as dg

from assets.conventions import attributes, lineage, table_schema
from assets.release.dataset import described
from assets.swapping.release import SwappingRelease
from assets.swapping.tables import published_tables, write_tables
from resources.statements import Zone
from resources.warehouse import Warehouse

CODE_VERSION = "1"


def build_tables(release: SwappingRelease) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "tables"]`."""

    @dg.asset(
        key=release.key("tables"),
        deps=[release.key("swapped"), *([release.key("invariants")] if release.has_persons_following else [])],
        group_name=release.schema,
        description=_description(release),
        code_version=CODE_VERSION,
        **attributes("tabulation", Zone.PUBLIC, {"duckdb", "sql"}),
    )
    def tables(warehouse: Warehouse) -> dg.MaterializeResult:
        published = published_tables(release)
        with warehouse.session(writes=Zone.PUBLIC) as session:
            with session.transaction():
                write_tables(session, release)
            version = session.content_version(published)
            rows = {f"rows of {table.name}": session.count(table) for table in published}
            columns = {name: kind for table in published for name, kind in session.columns(table).items()}
        swapped = release.key("swapped")
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version),
            metadata={
                "dagster/row_count": sum(rows.values()),
                **rows,
                "dagster/column_schema": table_schema(
                    columns, described({**release.variables, **release.person_variables})
                ),
                "dagster/column_lineage": lineage(
                    {name: [(swapped, name)] for name in columns if name in release.variables or name == "count"}
                ),
            },
        )

    return tables


def _description(release: SwappingRelease) -> str:
    counted = {"units": f"{release.design.unit}s", "persons": "persons"}
    lines = [
        f"- **{product.name}**: {product.title or product.name}; {counted[product.of]} by {' × '.join(product.columns)}"
        for product in release.products
    ]
    return "\n".join(
        [
            "Products, tabulated from the swapped data only:",
            "",
            *lines,
            "- **saturated**: the saturated contingency table, from which every other table follows",
            "",
            "ε covers every table made from the swapped data (post-processing): more tables cost nothing more.",
        ]
    )
