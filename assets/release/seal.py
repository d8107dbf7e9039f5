"""Seals: proof that a stored table is as a stage wrote it, for later stages that use it without making it again.

A seal is an HMAC under the custody over the content of tables. If the tables of a stage record their inputs, the seal
covers this record too. Someone who can write to a database, but has no access to the custody, cannot alter a sealed
table or exchange it for another one. They can, however, restore an earlier table together with its seal. The seals of
counts therefore cover the version of the counted CEF and the parameters from the declaration, and the charge compares
both with the current ones.

The rows are hashed with a key of the custody, because plain multiset hashes can be forged by someone who chooses the
rows. Beside the seal of large tables are two notes: their content version, and a second seal, which ties it to the rows
in their order. While the rows keep that order, their content version need not be computed again, which takes several
times as long. The seal covers both notes, so that no part of its row can be altered. Seals of earlier versions of
Stirred cover the content version only. They still hold, because a draw whose key is gone could not be made again.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from mechanisms.refusal import RefusedError
from resources.custody import Custody
from resources.digests import LARGE
from resources.statements import Table, Zone
from resources.warehouse import Session


class SealError(RefusedError, ValueError):
    """Stored data do not have the seal of the stage that wrote them."""


_COLUMNS = tuple(dict.fromkeys(names, "VARCHAR") for names in (["seal"], ["seal", "content", "in_order"]))
"""The columns of seals of small and of large tables."""

MadeOf = Mapping[str, Any] | None
"""The inputs that the seal of tables covers besides their content, as plain values; for counts of the CEF,
`compute_basis`."""


def seal_stage(
    session: Session, custody: Custody, schema: str, stage: str, tables: Sequence[Table], made_of: MadeOf = None
) -> None:
    """Seal the tables of a stage, all in one zone, in the transaction that wrote them."""
    content = session.content_version(tables, custody.seal_key())
    noted = {}
    if any(session.count(table) >= LARGE for table in tables):
        in_order = session.ordered_version(tables, custody.seal_key())
        noted = {"content": content, "in_order": _seal_order(custody, tables, content, in_order)}
    label = pa.Table.from_pylist([{"seal": _compute_seal(custody, tables, content, made_of, noted), **noted}])
    session.create(_label(schema, stage, tables), "warehouse/all", source=session.register("seal", label))


def store_sealed(
    session: Session,
    custody: Custody,
    schema: str,
    stage: str,
    table: Table,
    rows: pa.Table,
    made_of: MadeOf = None,
) -> None:
    """Create or replace a table with these rows, and seal it as it was written, in one transaction."""
    session.keep([table])
    session.create(table, "warehouse/all", source=session.register("sealed", rows))
    seal_stage(session, custody, schema, stage, [table], made_of)


def is_sealed(
    session: Session, custody: Custody, schema: str, stage: str, tables: Sequence[Table], made_of: MadeOf = None
) -> bool:
    """Whether all tables exist, and they and the row of their seal are exactly as the stage wrote them."""
    label = _read_label(session, schema, stage, tables)
    if not label or not all(session.columns(table) for table in tables):
        return False
    content = _find_content(session, custody, tables, label)
    noted = {name: value for name, value in label.items() if name != "seal"}
    is_noted = noted.get("content", content) == content
    seals = (_compute_seal(custody, tables, content, made_of, covered) for covered in (noted, {}))
    return is_noted and label["seal"] in seals


def compute_content(session: Session, custody: Custody, schema: str, stage: str, tables: Sequence[Table]) -> str:
    """The content version of tables as they are stored, under the custody's key of seals: as noted by the stage if it
    sealed these rows in this order, or else computed."""
    return _find_content(session, custody, tables, _read_label(session, schema, stage, tables))


def _find_content(session: Session, custody: Custody, tables: Sequence[Table], label: Mapping[str, Any]) -> str:
    content = label.get("content")
    if isinstance(content, str):
        in_order = session.ordered_version(tables, custody.seal_key())
        if label["in_order"] == _seal_order(custody, tables, content, in_order):
            return content
    return session.content_version(tables, custody.seal_key())


def _read_label(session: Session, schema: str, stage: str, tables: Sequence[Table]) -> dict[str, Any]:
    """The row of the seal of a stage's tables, by column; empty unless it is a single row of `_COLUMNS`."""
    label = _label(schema, stage, tables)
    columns = session.columns(label)
    rows = session.rows("warehouse/all", source=label) if columns in _COLUMNS else []
    return dict(zip(columns, rows[0], strict=True)) if len(rows) == 1 else {}


def require_sealed(
    session: Session, custody: Custody, schema: str, stage: str, tables: Sequence[Table], made_of: MadeOf = None
) -> None:
    """Raise SealError unless the tables are exactly as the stage sealed them, under this custody and `made_of`."""
    if not is_sealed(session, custody, schema, stage, tables, made_of):
        source = " from the current records and declaration" if made_of else ""
        raise SealError(
            f"{schema}: the stored tables of stage {stage} are not those that the stage wrote{source} (their seal does "
            f"not match); materialize {stage} again"
        )


def _compute_seal(
    custody: Custody, tables: Sequence[Table], content: str, made_of: MadeOf, noted: Mapping[str, Any]
) -> str:
    """The seal, 64 hexadecimal digits, which covers the notes beside it too."""
    facts = {"tables": [str(table) for table in tables], "content": content, "made_of": dict(made_of or {})}
    return custody.seal(facts | ({"in_order": noted["in_order"]} if noted else {}))


def _seal_order(custody: Custody, tables: Sequence[Table], content: str, in_order: str) -> str:
    """The seal that ties a content version to rows in an order."""
    return custody.seal({"tables": [str(table) for table in tables], "content": content, "in_order": in_order})


def _label(schema: str, stage: str, tables: Sequence[Table]) -> Table:
    """The table of a seal, in the zone of the sealed tables."""
    zone = tables[0].zone if tables else Zone.PUBLIC
    return Table(zone, schema, f"{stage}_seal")
