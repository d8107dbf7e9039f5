"""The asset `tables`: the tables that a release publishes, made from public tables by recipes, and its gate.

The asset reads only the public zone. The charge covers everything made here, however many tables there are.
"""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import dagster as dg

from assets.conventions import StageKind, attributes, preview, table_schema
from assets.failures import stated_plainly
from assets.gates.shared import differing_table
from assets.release.gate import Gate, ReleaseContext
from assets.release.release import Release
from resources.statements import Table, Zone
from resources.warehouse import Recipe, Session, Warehouse

CODE_VERSION = "3"
MOST_COLUMNS = 20
"""With more columns, their list would hide the tables on the asset's page, and is one click away instead."""
TABLES = "tables"
"""The name of the stage that makes the tables of a release."""

Recipes = Callable[[Session], Mapping[Table, Recipe]]
"""A function that returns the recipe of each table, from public tables."""


def build_tables(
    release: Release,
    deps: Sequence[str],
    description: str,
    recipes: Recipes,
    columns: Mapping[str, str] | None = None,
    shown: Callable[[Session], Mapping[str, Any]] = lambda session: {},
    stage: str = TABLES,
) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "tables"]`, or another one whose tables are made in the same way.

    Args:
        release: the release.
        deps: the stages of the release that the tables are made from.
        description: the description of the tables in Markdown.
        recipes: the recipes of the tables, in the order in which they are made.
        columns: descriptions of their columns, by name.
        shown: returns the metadata that the asset's page shows first.
        stage: the name of the stage.
    """

    @dg.asset(
        key=release.key(stage),
        deps=[release.key(stage) for stage in deps],
        group_name=release.schema,
        description=description,
        code_version=CODE_VERSION,
        **attributes(StageKind.TABULATION, Zone.PUBLIC, {"duckdb", "sql"}),
    )
    @stated_plainly(StageKind.TABULATION)
    def tables(warehouse: Warehouse) -> dg.MaterializeResult:
        with warehouse.session(writes=Zone.PUBLIC) as session:
            made = recipes(session)
            with session.transaction():
                for table, (name, values, names) in made.items():
                    session.create(table, name, values, **names)
            version = sha256("".join(map(session.sorted_version, made)).encode()).hexdigest()
            rows = {table.name: session.count(table) for table in made}
            types = {name: kind for table in made for name, kind in session.columns(table).items()}
            first = shown(session)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version),
            metadata={
                **first,
                "tables": preview(["table", "rows"], [(name, f"{count:,}") for name, count in rows.items()]),
                "dagster/row_count": sum(rows.values()),
                # Under Dagster's own name, the columns stand above everything else on the page.
                "dagster/column_schema" if len(types) <= MOST_COLUMNS else "columns": table_schema(types, columns),
            },
        )

    return tables


def tables_gate(recipes: Recipes, stage: str = TABLES) -> Gate[Any]:
    """The gate `<stage>_as_made`: every stored table of a stage equals the result of its recipe."""

    def problems(context: ReleaseContext[Any]) -> list[str]:
        found = []
        with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
            for table, recipe in recipes(session).items():
                found += differing_table(session, table, recipe)
        return found

    return Gate(f"{stage}_as_made", stage, "Every stored table is what its recipe makes from its sources.", problems)
