"""Conventions of all assets in Dagster: owners, tags, the pool, and metadata that stages attach in the same form."""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from textwrap import wrap
from typing import Any

import dagster as dg

from assets.remedies import explain_failure
from assets.texts import LINE_BREAK, show_line
from resources.statements import Table
from resources.warehouse import Session

OWNERS = ["team:disclosure-avoidance"]
POOL = "warehouse"
"""Steps that write a database take turns in this pool, so that two runs queue instead of failing."""

PARTITIONS_POOL = "partitions"
"""Steps that write a table of one partition. On a shared catalog, several can run in parallel: raise the limit of this
pool there, and never the limit of `POOL`."""

_MOST_NAMED = 8

WRITES = "stirred/writes"
"""The tag of a run that names the data it writes. In a cluster, runs with the same value wait for each other
(`deploy/dagster.yaml`).
"""

NO_CONFIG: dict[str, Any] = {}
"""The schema of a run's configuration that refuses every key. Without a schema, Dagster accepts and ignores any."""

MADE_FOR, EACH_PART = "made_for", "each_part"
"""The tag of assets that are made for each partition of a dataset, in separate runs."""

ZONE, STAGE_KIND, CROSSING = "zone", "stage_kind", "crossing"
"""Tag keys: the zone of an asset's data, its kind of stage, and the reason why its data may leave the confidential
zone."""


MOST_ROWS = 40

SHORT = 12
"""The number of digits of a hash or identifier shown in tables, and of the draw id in an authorization."""

ROOM, WIDE_ROOM = 372, 482
"""The greatest width of a table on an asset's page, in pixels, in a window of 1440: measured in Dagster 1.13. On the
page of a component's asset, Dagster's own key `dagster/component_origin` takes the remaining width; other assets have
the wider room.
"""
_TEXT, _HEAD, _PADDING = 8.41, 7.21, 16
"""The width of a letter in a cell and in a header, and the padding of either, in pixels of the same window."""
_BREAKS = re.compile("[ \u2003]|(?<=[-–])(?!\\d)")
"""The places where a page breaks a cell into lines. It does not break headers."""
DRAW_ID = "draw id"
"""The metadata key of the draw id, for draws and publications."""


class StageKind(StrEnum):
    """The kind of a stage, independent of its name."""

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
    RETENTION = "retention"


INVARIANT, DRAW, KEYED = "invariant", "draw", "keyed-version"
"""Values of the crossing tag: a declared invariant; a charged draw; and an asset whose only use of confidential data is
a version keyed under the custody.
"""


def table_schema(columns: Mapping[str, str], descriptions: Mapping[str, str] | None = None) -> dg.TableSchema:
    """The columns of a stored table for the UI.

    Args:
        columns: names and DuckDB types.
        descriptions: descriptions of columns, by name, which are shown as they are. Some columns may have none, and
            extra names are ignored.
    """
    described = {name: escape_markdown(words) or None for name, words in (descriptions or {}).items()}
    return dg.TableSchema(
        columns=[dg.TableColumn(name, type=kind, description=described.get(name)) for name, kind in columns.items()]
    )


def lineage(sources: Mapping[str, Iterable[tuple[dg.AssetKey, str]]]) -> dg.TableColumnLineage:
    """The column lineage: for each column, its source columns in other assets."""
    return dg.TableColumnLineage(
        deps_by_column={
            column: [dg.TableColumnDep(asset_key=key, column_name=name) for key, name in deps]
            for column, deps in sources.items()
        }
    )


def list_some(parts: Sequence[object]) -> str:
    return ", ".join(map(str, parts[:_MOST_NAMED])) + (", …" if len(parts) > _MOST_NAMED else "")


def preview(
    columns: Sequence[str] | Mapping[str, str], rows: Iterable[Sequence[object]], room: int = ROOM
) -> dg.MetadataValue:
    """A small table of public or descriptive facts, on the asset's page itself or, if it is long, one click away.

    A table that the page would cut, because of a long name for example, becomes a paragraph for each row.

    Args:
        columns: names of the columns, or their descriptions by name. A page has room for four narrow ones.
        room: the greatest width of the table, in pixels.
    """
    described = columns if isinstance(columns, Mapping) else dict.fromkeys(columns)
    texts = [[show_line(str(cell)) for cell in row] for row in rows]
    if len(texts) > MOST_ROWS:
        return dg.MetadataValue.md(markdown_table(list(described), [map(escape_markdown, row) for row in texts]))
    if _width(list(described), texts) > room:
        _, *names = described
        return dg.MetadataValue.md("\n\n".join(_as_paragraph(names, row) for row in texts))
    return dg.MetadataValue.table(
        [dg.TableRecord(dict(zip(described, row, strict=True))) for row in texts],
        dg.TableSchema([dg.TableColumn(name, description=words) for name, words in described.items()]),
    )


def _width(header: Sequence[str], rows: Sequence[Sequence[str]]) -> float:
    return 1 + sum(
        _PADDING
        + max(_HEAD * len(name), *(_TEXT * len(piece) for row in rows for piece in _BREAKS.split(row[number])), 0)
        for number, name in enumerate(header)
    )


def _as_paragraph(names: Sequence[str], row: Sequence[str]) -> str:
    first, *others = (escape_markdown(cell.strip()) for cell in row)
    values = ", ".join(f"{escape_markdown(name)} {cell}" for name, cell in zip(names, others, strict=True))
    return f"**{first}**: {values}"


def escape_markdown(text: str) -> str:
    """A text escaped so that Markdown shows it verbatim, on one line."""
    return _BEGINNING.sub(r"\g<0>\\", show_line(text).translate(_NOT_IN_MARKDOWN))


_NOT_IN_MARKDOWN = str.maketrans({letter: f"\\{letter}" for letter in "\\[]_*`<>|#~&$"})
_BEGINNING = re.compile(r"\A\s*(\d+(?=[.)](\s|\Z))|(?=[-+=]))")
"""The position before a character that would turn the beginning of a text into a list item, or the line above it into a
heading.
"""


def markdown_table(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table of cells in Markdown."""
    lines = [header, ["---"] * len(header), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def one_click_away(markdown: str) -> dg.MetadataValue:
    """A Markdown text too wide for an asset's page, such as a file: the page shows it in a separate window."""
    return dg.MetadataValue.md(markdown.ljust(_LONG))


_LONG = 1000
"""The length of Markdown, in characters, from which Dagster shows it in a separate window (from the code of Dagster
1.13)."""


def join_names(names: Sequence[str]) -> str:
    """Names joined for a sentence: `a, b and c`."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def shorten_digest(digest: str) -> str:
    """The beginning of a hash or identifier, for a table whose full value is shown nearby."""
    return f"{digest[:SHORT]}…"


def round_figures(number: float) -> float:
    """A measured number with three significant digits, for a page that shows every digit it is given."""
    return float(f"{number:.3g}")


def group_digits(digest: str) -> str:
    """A hash or an identifier in full, in groups of 16 digits, so that a page can break it; the spaces do not belong to
    it.
    """
    return " ".join(wrap(digest, 16))


def join_digits(groups: str) -> str:
    return groups.replace(" ", "")


def named(table: Table) -> str:
    """A table in words, which a page can break."""
    return f"{table.name} in {table.schema} ({table.zone.value})"


def public_table_metadata(session: Session, table: Table) -> dict[str, Any]:
    return {"table": named(table), "dagster/row_count": session.count(table)}


def check_result(
    name: str, problems: Sequence[object], metadata: Mapping[str, str] | None = None
) -> dg.AssetCheckResult:
    """The result of a check: its problems, described without confidential values, followed by their remedies.

    The page of a check reads its description as Markdown, which joins lines unless two spaces end them.
    """
    return dg.AssetCheckResult(
        check_name=name,
        passed=not problems,
        description=LINE_BREAK.join(map(escape_markdown, explain_failure(problems, name))) if problems else None,
        metadata={"problems": write_count(len(problems))} if metadata is None else metadata,
    )


def write_count(number: int) -> str:
    """A number as a text. Dagster would chart a number, and for most checks the chart would show only zeros."""
    return f"{number:,}" if number else "none"
