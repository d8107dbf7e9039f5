"""The rules of rows, as a pandera schema, and the number of rows in a batch that violate them.

Only the process that validates a source imports this module: pandas and pandera take most of a second to import.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pandas as pd
import pandera.pandas as pandera
import pyarrow as pa
import pyarrow.compute as pc
from pandera.errors import SchemaErrorReason, SchemaErrors

from assets.cef.validation import NULL, describe_domain_rule
from assets.release.columns import ARROW, Column, RecordTable, whole


def row_schema(records: RecordTable) -> pandera.DataFrameSchema:
    """The rules that every row of a table must satisfy by itself, as a pandera schema over Arrow-backed columns."""
    return pandera.DataFrameSchema(
        {
            name: pandera.Column(pd.ArrowDtype(ARROW[column.type]), _domain_checks(column), nullable=column.nullable)
            for name, column in records.stored.items()
        },
        strict=True,
        ordered=True,
    )


def _domain_checks(column: Column) -> list[pandera.Check]:
    # Only counts are needed, so one failure case is kept for each batch.
    options: dict[str, Any] = {"error": describe_domain_rule(column), "n_failure_cases": 1}
    lowest, highest = column.bounds
    if column.values is not None:
        return [pandera.Check.isin(column.codes, **options)]
    if column.pattern is not None:
        return [pandera.Check(_match(column.pattern), **options)]
    bounds = ((pandera.Check.ge, lowest), (pandera.Check.le, highest))
    return [check(bound, **options) for check, bound in bounds if bound is not None]


def _match(pattern: str) -> Callable[[pd.Series], pd.Series]:
    def matches(texts: pd.Series) -> pd.Series:
        # Arrow uses RE2, DuckDB's dialect. pandas would choose between RE2 and Python's dialect by itself.
        matching = pc.match_substring_regex(pa.array(texts.array), whole(pattern))
        return pd.Series(pd.array(matching, dtype=pd.ArrowDtype(pa.bool_())), index=texts.index)

    return matches


def count_offenders(schema: pandera.DataFrameSchema, batch: pa.RecordBatch) -> Counter[tuple[str, str]]:
    """By column and violated rule, the number of rows of a batch."""
    frame = batch.to_pandas(types_mapper=pd.ArrowDtype)
    offenders: Counter[tuple[str, str]] = Counter()
    try:
        schema.validate(frame, lazy=True, inplace=True)
    except SchemaErrors as errors:
        for error in errors.schema_errors:
            if error.reason_code is SchemaErrorReason.SERIES_CONTAINS_NULLS:
                offenders[error.schema.name, NULL] += len(error.failure_cases)
            elif error.reason_code is SchemaErrorReason.DATAFRAME_CHECK:
                offenders[error.schema.name, error.check.error] += int((~error.check_output).sum())
            else:
                offenders[error.schema.name or "", f"pandera cannot check it ({error.reason_code})"] += len(frame)
    return offenders
