"""Sealed accounts: a row beside stored tables that describes them, or their inputs.

A stage that makes its tables in parts stores an account of each part, in the transaction that writes it. The code that
unites the parts compares the accounts with the expected ones, and so finds missing and stale parts. An intact account
does not prove that the tables are intact, unless it has their hash and the reader compares it.
"""

from dataclasses import fields
from typing import Any, TypeVar

import pyarrow as pa

from assets.release.seal import is_sealed, store_sealed
from resources.custody import Custody
from resources.statements import Table
from resources.warehouse import Session

A = TypeVar("A")  # a dataclass of plain values


def account_of(table: Table) -> Table:
    """The table with the account of a table, or of all tables of a part if `table` has the name of the part."""
    return Table(table.zone, table.schema, f"{table.name}_made")


def store_account(session: Session, custody: Custody, table: Table, account: Any) -> None:
    """Store an account, a dataclass of plain values, and seal it."""
    of_table = account_of(table)
    store_sealed(session, custody, table.schema, table.name, of_table, pa.Table.from_pylist([vars(account)]))


def read_account(session: Session, custody: Custody, table: Table, kind: type[A]) -> A | None:
    """The stored account of a kind; None if it is missing, was altered, or was made by other code, whose accounts lack
    a field."""
    of_table = account_of(table)
    columns, due = list(session.columns(of_table)), [field.name for field in fields(kind)]  # type: ignore[arg-type]
    if not set(due) <= set(columns) or not is_sealed(session, custody, table.schema, table.name, [of_table]):
        return None
    row = dict(zip(columns, session.row("warehouse/all", source=of_table), strict=True))
    return kind(**{name: row[name] for name in due})
