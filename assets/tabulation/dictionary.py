"""The description of a dataset's columns for the data dictionary of a publication."""

from collections.abc import Mapping
from typing import Any

from assets.release.columns import Column, titles
from assets.release.published import PublishedColumn


def published_column(name: str, column: Column, total: str = "") -> PublishedColumn:
    """A declared column as a column of a published table.

    Args:
        name: the name of the column.
        column: its declaration.
        total: the value that marks rows with totals; "" if there are none.
    """
    values: Mapping[Any, str] = {code: column.labels.get(code, "") for code in column.codes}
    if total and values:
        values = {str(code): label for code, label in values.items()} | {total: "All values together"}
    title = titles({name: column})[name]
    return PublishedColumn(name, column.type.value, column.description, values, not column.nullable, total, title)
