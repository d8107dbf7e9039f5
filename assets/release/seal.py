"""Seals: proof that a stored table is what a stage wrote, for later stages that take it over without making it again.

A seal is an HMAC under the custody over the content of tables. A stage whose tables say what they were made of thereby
seals that too. Someone who can write to a database, but has no access to the custody, cannot alter a sealed table or
exchange it for another one. They can put back an earlier table together with its own seal. The seals of counts
therefore contain the version of the CEF that was counted and what they follow from of the declaration, and the charge
compares both with the current ones.

The rows are hashed with a key of the custody, because plain multiset hashes can be forged by someone who chooses the
rows. Beside the seal of large tables are two notes: their content version, and a second seal, which ties it to the rows
in their order. As long as they keep that order, their content version need not be computed again, which takes several
times as long. The seal covers both notes, so that nothing of its row can be altered. Those of earlier versions cover
the first one alone. They hold too: a draw whose key is gone could not be made again.
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
"""The columns of seals: of small tables, and of large ones."""

MadeOf = Mapping[str, Any] | None
"""What sealed tables follow from besides their content, as plain values: of counts of the CEF, `compute_basis`."""


def seal_stage(
    session: Session, custody: Custody, schema: str, stage: str, tables: Sequence[Table], made_of: MadeOf = None
) -> None:
    """Seal the tables of a stage, of one zone, in the transaction in which they were written."""
    content = session.content_version(tables, custody.seal_key())
    noted = {}
    if any(session.count(table) >= LARGE for table in tables):
        in_order = session.ordered_version(tables, custody.seal_key())
        noted = {"content": content, "in_order": _seal_order(custody, tables, content, in_order)}
    label = pa.Table.from_pylist([{"seal": _compute_seal(custody, tables, content, made_of, noted), **noted}])
    session.create(_label(schema, stage, tables), "warehouse/all", source=session.register("seal", label))


def is_sealed(
    session: Session, custody: Custody, schema: str, stage: str, tables: Sequence[Table], made_of: MadeOf = None
) -> bool:
    """Whether all tables exist, and they and the row of their seal are exactly what the stage wrote."""
    label = _read_label(session, schema, stage, tables)
    if not label or not all(session.columns(table) for table in tables):
        return False
    content = _find_content(session, custody, tables, label)
    noted = {name: value for name, value in label.items() if name != "seal"}
    is_noted = noted.get("content", content) == content
    seals = (_compute_seal(custody, tables, content, made_of, covered) for covered in (noted, {}))
    return is_noted and label["seal"] in seals


def compute_content(session: Session, custody: Custody, schema: str, stage: str, tables: Sequence[Table]) -> str:
    """The content version of tables as they are stored, under the custody's key of seals: the one that the stage noted
    if it sealed these rows in this order, or else computed."""
    return _find_content(session, custody, tables, _read_label(session, schema, stage, tables))


def _find_content(session: Session, custody: Custody, tables: Sequence[Table], label: Mapping[str, Any]) -> str:
    content = label.get("content")
    if isinstance(content, str):
        in_order = session.ordered_version(tables, custody.seal_key())
        if label["in_order"] == _seal_order(custody, tables, content, in_order):
            return content
    return session.content_version(tables, custody.seal_key())


def _read_label(session: Session, schema: str, stage: str, tables: Sequence[Table]) -> dict[str, Any]:
    """What is noted of the tables of a stage, by column; nothing if it is not a single row of these columns."""
    label = _label(schema, stage, tables)
    columns = session.columns(label)
    rows = session.rows("warehouse/all", source=label) if columns in _COLUMNS else []
    return dict(zip(columns, rows[0], strict=True)) if len(rows) == 1 else {}


def require_sealed(
    session: Session, custody: Custody, schema: str, stage: str, tables: Sequence[Table], made_of: MadeOf = None
) -> None:
    """Raise SealError unless the tables are exactly those that the stage sealed, under this custody and `made_of`."""
    if not is_sealed(session, custody, schema, stage, tables, made_of):
        source = " from the current records and declaration" if made_of else ""
        raise SealError(
            f"{schema}: the stored tables of stage {stage} are not those that the stage wrote{source} (their seal does "
            f"not match); materialize {stage} again"
        )


def _compute_seal(
    custody: Custody, tables: Sequence[Table], content: str, made_of: MadeOf, noted: Mapping[str, Any]
) -> str:
    """64 hexadecimal digits, which follow from what is noted beside them too."""
    facts = {"tables": [str(table) for table in tables], "content": content, "made_of": dict(made_of or {})}
    return custody.seal(facts | ({"in_order": noted["in_order"]} if noted else {}))


def _seal_order(custody: Custody, tables: Sequence[Table], content: str, in_order: str) -> str:
    """The seal of a content version for rows in an order."""
    return custody.seal({"tables": [str(table) for table in tables], "content": content, "in_order": in_order})


def _label(schema: str, stage: str, tables: Sequence[Table]) -> Table:
    """The table of a seal, in the zone of what it seals."""
    zone = tables[0].zone if tables else Zone.PUBLIC
    return Table(zone, schema, f"{stage}_seal")
