"""Sealed accounts: what stored tables are, or what they were made of, in a row beside them.

A stage that makes its tables in parts stores an account of each part, in the transaction that writes it. Whoever puts
the parts together compares the accounts with what is due, and so finds parts that are missing or stale. That an account
is as it was stored says nothing about the tables: an account that has their hash says that too, to those who compare
it.
"""

from dataclasses import fields
from typing import Any, TypeVar

import pyarrow as pa

from assets.release.seal import is_sealed, seal_stage
from resources.custody import Custody
from resources.statements import Table
from resources.warehouse import Session

A = TypeVar("A")  # a dataclass of plain values


def account_of(table: Table) -> Table:
    """The table with the account of a table, or of all tables of a part, which is named like one."""
    return Table(table.zone, table.schema, f"{table.name}_made")


def store_account(session: Session, custody: Custody, table: Table, account: Any) -> None:
    """Store an account, a dataclass of plain values, and seal it."""
    of_table = account_of(table)
    session.keep([of_table])
    session.create(of_table, "warehouse/all", source=session.register("made", pa.Table.from_pylist([vars(account)])))
    seal_stage(session, custody, table.schema, table.name, [of_table])


def read_account(session: Session, custody: Custody, table: Table, kind: type[A]) -> A | None:
    """The stored account of a kind; None if there is none, it was altered, or other code made it, whose accounts lack a
    field."""
    of_table = account_of(table)
    columns, due = list(session.columns(of_table)), [field.name for field in fields(kind)]  # type: ignore[arg-type]
    if not set(due) <= set(columns) or not is_sealed(session, custody, table.schema, table.name, [of_table]):
        return None
    row = dict(zip(columns, session.row("warehouse/all", source=of_table), strict=True))
    return kind(**{name: row[name] for name in due})
