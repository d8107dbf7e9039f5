"""The stages of a release as Dagster assets, with all that Dagster shows, from a mechanism's description of the stages.

`build_stage` makes stages whose tables follow from recipes, and `release_stage` all others. Charge, draw, plan and
publication are in the packages of these names.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.conventions import StageKind, public_table_metadata, table_schema
from assets.release.contents import compute_basis, require_synthetic
from assets.release.draw import publish_version
from assets.release.release import Release
from assets.release.seal import SealError, seal_stage
from assets.stages import stage, zone_of
from resources.custody import Custody
from resources.statements import Table, Zone
from resources.warehouse import UNITED, Recipe, Session

COLUMN_SCHEMA = "dagster/column_schema"
"""Dagster's name for the columns of a table, which it shows above everything else on the asset's page."""

Recipes = Mapping[Table, Recipe]
"""The recipes of tables, in the order in which they are made."""


class LazyRecipes(Recipes):
    """Recipes of large tables. Each is made on request, and its table is stored before the next one is made. A run that
    ends in between leaves the other tables as they were. The gate on the tables names them until a new run.
    """

    def __init__(self, tables: Sequence[Table], make: Callable[[Table], Recipe]) -> None:
        self._tables, self._make = tables, make

    def __getitem__(self, table: Table) -> Recipe:
        return self._make(table)

    def __iter__(self) -> Iterator[Table]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


Dependency = str | dg.AssetKey
"""A stage of the release, or `cef`, the stage of its dataset; or another asset by its key."""


def release_stage(
    release: Release,
    name: str,
    kind: StageKind,
    description: str,
    deps: Sequence[Dependency] = (),
    **options: Any,
) -> Callable[[Callable[..., dg.MaterializeResult]], dg.AssetsDefinition]:
    """A decorator that makes the asset `[dataset, release, name]` from its function, in the release's group.

    `options` are as for `assets.stages.stage`.
    """
    keys = [release.key(dependency) if isinstance(dependency, str) else dependency for dependency in deps]
    names = release.dataset.name, release.name
    return stage(release.key(name), release.schema, kind, description, keys, release=names, **options)


def build_stage(
    release: Release,
    name: str,
    kind: StageKind,
    description: str,
    deps: Sequence[Dependency],
    recipes: Callable[[Session], Recipes],
    columns: Mapping[str, str] | None = None,
    *,
    metadata: Callable[[Session, Sequence[Table]], Mapping[str, Any]] | None = None,
    shown_if_synthetic: Callable[[Session, Sequence[Table]], Mapping[str, Any]] | None = None,
    prepare: Callable[[Session, Custody], None] | None = None,
    finish: Callable[[Session, Custody], None] | None = None,
    version: Callable[[Session, Sequence[Table], Custody], str] | None = None,
    sealed: Sequence[Table] = (),
    publishes_version: bool = False,
    reads: Sequence[Zone] = (),
    zone: Zone | None = None,
    **options: Any,
) -> dg.AssetsDefinition:
    """The asset `[dataset, release, name]`, whose tables are made by recipes in one transaction, or each in its own.

    A stage has the custody if its data are confidential or sealed. Otherwise its hooks get None instead.

    Args:
        columns: descriptions of the columns of the first table, by name; None if the page shows no columns.
        metadata: further metadata for the page, from the tables made; by default, for a public stage, the name and the
            rows of the first.
        shown_if_synthetic: further metadata for the page of a synthetic dataset, above all exact numbers. Such a stage
            refuses records that are synthetic by declaration alone (`require_synthetic`). It reads the public zone.
        prepare: called before the recipes are made, to make the tables that they read and that may be missing.
        finish: called in the transaction, after the tables were made: to check them, or to make others.
        version: the data version; by default the content hash of the tables, keyed if they are confidential.
        sealed: the tables that the charge or the counts read unchanged. They are sealed in the transaction.
        publishes_version: whether the version is published for the charge, sealed, in a table of its own.
        reads: zones to read besides the written one.
        zone, options: as for `assets.stages.stage`.
    """
    written = zone or zone_of(kind)
    keyed = written is Zone.CONFIDENTIAL or bool(sealed)
    read = [Zone.CONFIDENTIAL] if kind is StageKind.INVARIANTS else reads
    show_values = shown_if_synthetic if release.dataset.synthetic else None

    @release_stage(
        release,
        name,
        kind,
        description,
        deps,
        zone=zone,
        required_resource_keys={"warehouse", *["custody"] * keyed, *["ledger"] * bool(show_values)},
        **options,
    )
    def make(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        warehouse = release.adapt(context.resources.warehouse)
        custody: Any = context.resources.custody if keyed else None
        counted: Mapping[str, Any] = {}
        with warehouse.session(reads=read, writes=written) as session:
            if show_values:
                require_synthetic(session, context.resources.ledger, release.dataset)
            # No other process writes the database file meanwhile. The process may cache its content until the session
            # writes.
            if sealed or publishes_version:
                counted = compute_basis(session, custody, release.dataset, release.counted_with)
            if prepare:
                prepare(session, custody)
            # DuckDB reads a transaction's own writes on one core only, so intermediate results are made before it.
            session.keep(sealed)
            made = recipes(session)
            if apart := isinstance(made, LazyRecipes):
                for table, recipe in made.items():
                    with session.transaction():
                        create_tables(session, {table: recipe})
            with session.transaction():
                if not apart:
                    create_tables(session, made)
                if finish:
                    finish(session, custody)
                # Other processes may have written the records of a lake since the intermediate results were made.
                if (
                    counted
                    and session.shared
                    and counted != compute_basis(session, custody, release.dataset, release.counted_with)
                ):
                    words = f"the records were read again while {name} was made; launch the release again"
                    raise SealError(f"{release.schema}: {words}")
                if sealed:
                    seal_stage(session, custody, release.schema, name, sealed, counted)
            tables = list(made) if apart else list_whole(made)
            if version:
                content = version(session, tables, custody)
            else:
                key = release.version_key(custody) if written is Zone.CONFIDENTIAL else None
                content = session.content_version(tables, key)
            if metadata:
                shown = dict(metadata(session, tables))
            else:
                shown = public_table_metadata(session, tables[0]) if written is Zone.PUBLIC else {}
            if show_values:
                shown |= show_values(session, tables)
            if columns is not None:
                shown[COLUMN_SCHEMA] = table_schema(session.columns(tables[0]), columns)
        if publishes_version:
            publish_version(warehouse, custody, release, name, content, counted)
        return dg.MaterializeResult(data_version=dg.DataVersion(content), metadata=shown)

    return make


def create_tables(session: Session, recipes: Recipes) -> None:
    for table, recipe in recipes.items():
        source, values, names = recipe
        if is_view(recipe):
            # It may have been stored as a table before.
            session.drop(table)
            session.create_view(table, source, **names)
        else:
            session.create(table, source, values, **names)


def is_view(recipe: Recipe) -> bool:
    """Whether a recipe appends stored tables to each other. It then makes a view, which takes no room."""
    source, _, names = recipe
    return source == UNITED and all(isinstance(table, Table) for table in names["tables"])


def list_whole(recipes: Recipes) -> list[Table]:
    """The tables of recipes, without those that are parts of a view."""
    parts = {part for recipe in recipes.values() if is_view(recipe) for part in recipe[2]["tables"]}
    return [table for table in recipes if table not in parts]


def store_rows(session: Session, name: str, rows: pa.Table) -> Recipe:
    """The recipe of a table with these rows, which are registered under a name."""
    return "warehouse/all", {}, {"source": session.register(name, rows)}


def store_tables(session: Session, tables: Mapping[Table, pa.Table]) -> Recipes:
    return {table: store_rows(session, table.name, rows) for table, rows in tables.items()}
