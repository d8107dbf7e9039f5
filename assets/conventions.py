"""Conventions of all assets in Dagster: owners, tags, the pool, and metadata that stages attach in the same form."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import dagster as dg

from resources.statements import Table, Zone
from resources.warehouse import Session

OWNERS = ["team:disclosure-avoidance"]
POOL = "warehouse"
"""Steps that write a database take turns in this pool, so that two runs queue instead of failing."""

NO_CONFIG: dict[str, Any] = {}
"""The schema of a run's configuration that refuses every key. Without a schema, Dagster accepts and ignores any."""

BLOCKING: dict[str, Any] = {"blocking": True, "pool": POOL, "config_schema": NO_CONFIG}
"""Keyword arguments of `dagster.asset_check` that all blocking checks share."""

ZONE, STAGE_KIND, CROSSING = "zone", "stage_kind", "crossing"
"""Tag keys: the zone of an asset's data, its kind of stage, and the reason why its data may leave the confidential
zone."""


MOST_ROWS = 40
"""How many rows of a table an asset's page shows."""
SHORT = 12
"""How many digits of a hash or an identifier are shown in tables; as many name a draw in an authorization."""
DRAW_ID = "draw id"
"""The metadata of a draw and of a publication that says which draw it is."""


class StageKind(StrEnum):
    """The kind of a stage, whatever its name."""

    CEF = "cef"
    INVARIANTS = "invariants"
    COUNTS = "counts"
    CHARGE = "charge"
    DRAW = "draw"
    PLAN = "plan"
    POSTPROCESSING = "postprocessing"
    TABULATION = "tabulation"
    PUBLICATION = "publication"
    UTILITY = "utility"
    LEDGER = "ledger"
    COMPOSITION = "composition"


INVARIANT, DRAW, KEYED = "invariant", "draw", "keyed-version"
"""Values of the crossing tag: a declared invariant; a charged draw; and an asset that uses nothing of confidential data
but a version that is keyed under the custody."""


def attributes(stage_kind: StageKind, zone: Zone, kinds: set[str], crossing: str | None = None) -> dict[str, Any]:
    """Keyword arguments of `dagster.asset` that all assets need: owners, pool, tags, kinds, and no configuration.

    The zone is one of the kinds too, because the graph shows kinds and no tags.

    An asset whose function has an argument `config` takes that configuration all the same, and no other.
    """
    tags = {ZONE: zone.value, STAGE_KIND: stage_kind.value} | ({CROSSING: crossing} if crossing else {})
    return {"owners": OWNERS, "pool": POOL, "tags": tags, "kinds": {*kinds, zone.value}, "config_schema": NO_CONFIG}


def table_schema(columns: Mapping[str, str], descriptions: Mapping[str, str] | None = None) -> dg.TableSchema:
    """The columns of a stored table for the UI.

    Args:
        columns: names and DuckDB types.
        descriptions: descriptions of columns, by name. Some columns may have none, and extra names are ignored.
    """
    described = descriptions or {}
    return dg.TableSchema(
        columns=[
            dg.TableColumn(name, type=kind, description=described.get(name) or None) for name, kind in columns.items()
        ]
    )


def lineage(sources: Mapping[str, Iterable[tuple[dg.AssetKey, str]]]) -> dg.TableColumnLineage:
    """The column lineage: for each column, the columns of other assets that it is made from."""
    return dg.TableColumnLineage(
        deps_by_column={
            column: [dg.TableColumnDep(asset_key=key, column_name=name) for key, name in deps]
            for column, deps in sources.items()
        }
    )


def preview(columns: Sequence[str] | Mapping[str, str], rows: Iterable[Sequence[object]]) -> dg.MetadataValue:
    """A small table of public or descriptive facts, on the asset's page itself or, if it is long, one click away.

    Args:
        columns: names of the columns, or their descriptions by name. A page has room for four narrow ones.
        rows: their values.
    """
    described = columns if isinstance(columns, Mapping) else dict.fromkeys(columns)
    texts = [[str(cell) for cell in row] for row in rows]
    if len(texts) > MOST_ROWS:
        return dg.MetadataValue.md(markdown_table(list(described), texts))
    return dg.MetadataValue.table(
        [dg.TableRecord(dict(zip(described, row, strict=True))) for row in texts],
        dg.TableSchema([dg.TableColumn(name, description=words) for name, words in described.items()]),
    )


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of public or descriptive facts, as Markdown."""
    lines = [header, ["---"] * len(header), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shortened(digest: str) -> str:
    """The beginning of a hash or of an identifier, for a table beside which the full value is found."""
    return f"{digest[:SHORT]}…"


def public_table_metadata(session: Session, table: Table) -> dict[str, Any]:
    """The name and the number of rows of a table that anyone may see."""
    return {"table": str(table), "dagster/row_count": session.count(table)}


def check_result(problems: Sequence[str]) -> dg.AssetCheckResult:
    """The result of a check, from its problems in words without values."""
    return dg.AssetCheckResult(
        passed=not problems,
        description="\n".join(problems) or None,
        metadata={"problems": len(problems)},
    )
