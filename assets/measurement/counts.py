"""The asset of a release's exact counts, which stay in the confidential zone; only a keyed version is public."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from assets.conventions import StageKind, attributes, table_schema
from assets.failures import stated_plainly
from assets.measurement.method import NoisyCounts
from assets.release.contents import counted_from
from assets.release.draw import publish_version
from resources.custody import Custody
from resources.statements import Zone
from resources.warehouse import Warehouse

CODE_VERSION = "1"


def build_counts(
    method: NoisyCounts[Any, Any],
    deps: Sequence[dg.AssetKey],
    description: str,
    columns: Mapping[str, str] | None = None,
    reads: Sequence[Zone] = (),
) -> dg.AssetsDefinition:
    """The asset `[dataset, release, <counts stage>]`.

    Args:
        deps: the assets whose records are counted.
        description: what is counted, in Markdown.
        columns: descriptions of the columns of the counts' tables, by name.
        reads: zones to read in addition to the confidential one.
    """
    release = method.release

    @dg.asset(
        key=release.key(method.counts_stage),
        deps=deps,
        group_name=release.schema,
        description=f"{description} Confidential: the charge lets out only a keyed version of the counts, which "
        "becomes part of the draw id.",
        code_version=CODE_VERSION,
        **attributes(StageKind.COUNTS, Zone.CONFIDENTIAL, {"duckdb", "sql"}),
    )
    @stated_plainly(StageKind.COUNTS)
    def counts(warehouse: Warehouse, custody: Custody) -> dg.MaterializeResult:
        with warehouse.session(reads=reads, writes=Zone.CONFIDENTIAL) as session:
            # DuckDB reads what a running transaction wrote on one core, so intermediate results are made before it.
            name, values, names = method.counts_recipe(session)
            with session.transaction():
                session.create(method.counts_table, name, values, **names)
                method.require_countable(session, custody)
            version = method.counts_version(session, custody)
            counted = counted_from(session, custody, release.dataset, method.counted_with())
            schema = table_schema(session.columns(method.counts_table), columns)
        publish_version(warehouse, custody, release, method.counts_stage, method.version_table, version, counted)
        return dg.MaterializeResult(data_version=dg.DataVersion(version), metadata={"dagster/column_schema": schema})

    return counts
