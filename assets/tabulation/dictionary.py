"""The description of a dataset's columns for the data dictionary of a publication."""

from collections.abc import Mapping
from typing import Any

from assets.release.columns import Column, title_columns
from assets.release.published import PublishedColumn


def published_column(name: str, column: Column, total: str = "") -> PublishedColumn:
    """A declared column as a column of a published table.

    Args:
        name: the name of the column.
        column: its declaration.
        total: the name of the column that marks rows with totals over it; "" if there are none.
    """
    values: Mapping[Any, str] = {code: column.labels.get(code, "") for code in column.codes}
    required = not column.nullable and not total
    title = title_columns({name: column})[name]
    return PublishedColumn(name, column.type.value, column.description, values, required, total, title)
