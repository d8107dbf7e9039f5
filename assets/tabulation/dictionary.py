"""A dataset's columns as the data dictionary of a publication describes them."""

from collections.abc import Mapping
from typing import Any

from assets.release.columns import Column
from assets.release.published import PublishedColumn


def published_column(name: str, column: Column, total: str = "") -> PublishedColumn:
    """A declared column of a published table.

    Args:
        name: of the column.
        column: as it is declared.
        total: the value that stands in rows for a total; "" if there are none.
    """
    values: Mapping[Any, str] = {code: column.labels.get(code, "") for code in column.codes}
    if total and values:
        values = {str(code): label for code, label in values.items()} | {total: "All values together"}
    return PublishedColumn(name, column.type.value, column.description, values, not column.nullable, total)
