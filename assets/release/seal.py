"""Seals: proof that a stored table is what a stage wrote, for later stages that take it over without making it again.

A seal is an HMAC under the custody over the content of tables. A stage whose tables say what they were made of thereby
seals that too. Someone who can write to a database, but has no access to the custody, cannot alter a sealed table or
exchange it for another one. They can put back an earlier table together with its own seal. The seals of counts
therefore contain the version of the CEF that was counted and what they follow from of the declaration, and the charge
compares both with the current ones.

The rows are hashed with a key of the custody, because plain multiset hashes can be forged by someone who chooses the
rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from mechanisms.refusal import RefusedError
from resources.custody import Custody
from resources.statements import Table, Zone
from resources.warehouse import Session


class SealError(RefusedError, ValueError):
    """Stored data do not have the seal of the stage that wrote them."""


MadeOf = Mapping[str, Any] | None
"""What sealed tables follow from besides their content, as plain values: of counts of the CEF, `compute_basis`."""


def seal_stage(
    session: Session, custody: Custody, schema: str, stage: str, tables: Sequence[Table], made_of: MadeOf = None
) -> None:
    """Seal the public tables of a stage, in the transaction in which they were written."""
    row = pa.table({"seal": [_compute_seal(session, custody, tables, made_of)]})
    session.create(_label(schema, stage), "warehouse/all", source=session.register("seal", row))


def is_sealed(
    session: Session, custody: Custody, schema: str, stage: str, tables: Sequence[Table], made_of: MadeOf = None
) -> bool:
    """Whether all tables exist and are exactly those that the stage sealed."""
    label = _label(schema, stage)
    if list(session.columns(label)) != ["seal"] or not all(session.columns(table) for table in tables):
        return False
    return session.rows("warehouse/all", source=label) == [(_compute_seal(session, custody, tables, made_of),)]


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


def _compute_seal(session: Session, custody: Custody, tables: Sequence[Table], made_of: MadeOf) -> str:
    """64 hexadecimal digits."""
    return custody.seal(
        {
            "tables": [str(table) for table in tables],
            "content": session.content_version(tables, custody.seal_key()),
            "made_of": dict(made_of or {}),
        }
    )


def _label(schema: str, stage: str) -> Table:
    return Table(Zone.PUBLIC, schema, f"{stage}_seal")
