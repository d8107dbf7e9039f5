"""The stage `tables`: the tables that a release publishes, made from public tables by recipes, and its gate.

The stage reads only the public zone. The charge covers all its tables, however many there are.
"""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import dagster as dg

from assets.conventions import StageKind, preview, table_schema
from assets.gates.shared import differing_table
from assets.release.gate import ByPart, Gate, ReleaseContext
from assets.release.release import Release
from assets.release.stage import COLUMN_SCHEMA, Recipes, build_stage
from resources.statements import Table, Zone
from resources.warehouse import Session

MOST_COLUMNS = 20
"""The most columns that the asset's page lists: a longer list would hide the tables, so it is one click away."""

TABLES = "tables"
"""The name of the stage that makes the tables of a release."""


def build_tables(
    release: Release,
    deps: Sequence[str],
    description: str,
    recipes: Callable[[Session], Recipes],
    columns: Mapping[str, str] | None = None,
    shown: Callable[[Session], Mapping[str, Any]] = lambda session: {},
    stage: str = TABLES,
) -> dg.AssetsDefinition:
    """The asset `[dataset, release, "tables"]`, or another asset that makes tables from public ones in the same way.

    `columns` has descriptions of the columns of all tables, by name. `shown` gives the metadata that the asset's page
    shows first.
    """

    def describe(session: Session, tables: Sequence[Table]) -> Mapping[str, Any]:
        rows = {table.name: session.count(table) for table in tables}
        types = {name: kind for table in tables for name, kind in session.columns(table).items()}
        return {
            **shown(session),
            "tables": preview(["table", "rows"], [(name, f"{count:,}") for name, count in rows.items()]),
            "dagster/row_count": sum(rows.values()),
            COLUMN_SCHEMA if len(types) <= MOST_COLUMNS else "columns": table_schema(types, columns),
        }

    return build_stage(
        release,
        stage,
        StageKind.TABULATION,
        description,
        deps,
        recipes,
        metadata=describe,
        version=lambda session, tables, _: sha256("".join(map(session.sorted_version, tables)).encode()).hexdigest(),
        code_version="3",
    )


def recipes_gate(
    name: str,
    stage: str,
    words: str,
    recipes: Callable[[Session], Recipes],
    reads: Sequence[Zone] = (Zone.PUBLIC,),
    by_part: ByPart[Any] | None = None,
) -> Gate[Any]:
    """A gate that requires every stored table to equal the result of its recipe, in a session that reads some zones."""

    def find_differences(context: ReleaseContext[Any]) -> list[str]:
        with context.warehouse.session(reads=reads) as session:
            return [
                problem
                for table, recipe in recipes(session).items()
                for problem in differing_table(session, table, recipe)
            ]

    return Gate(name, stage, words, find_differences, by_part)


def tables_gate(
    recipes: Callable[[Session], Recipes], stage: str = TABLES, by_part: ByPart[Any] | None = None
) -> Gate[Any]:
    """The gate `<stage>_as_made` on the tables of a stage."""
    words = "Computing every table again gives the same table."
    return recipes_gate(f"{stage}_as_made", stage, words, recipes, by_part=by_part)
