"""The rules of rows, as a pandera schema, and the number of rows that violate them.

Only the process that validates a source imports this module: pandas and pandera take most of a second to import.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pandera.pandas as pandera
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pandera.errors import SchemaErrorReason, SchemaErrors

from assets.cef.validation import NULL, describe_domain_rule
from assets.release.columns import ARROW, Column, whole


def row_schema(columns: Mapping[str, Column]) -> pandera.DataFrameSchema:
    """The rules that every row must satisfy by itself, as a pandera schema over Arrow-backed columns."""
    return pandera.DataFrameSchema(
        {
            name: pandera.Column(pd.ArrowDtype(ARROW[column.type]), _domain_checks(column), nullable=column.nullable)
            for name, column in columns.items()
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


def count_offenders(
    schema: pandera.DataFrameSchema, batch: pa.RecordBatch, weights: NDArray[np.int64] | None = None
) -> Counter[tuple[str, str]]:
    """The number of rows that violate each rule, by column and rule. Each row of the batch counts as many times as its
    weight says, by default once."""
    frame = batch.to_pandas(types_mapper=pd.ArrowDtype)
    rows = pd.Series(1 if weights is None else weights, index=frame.index)
    offenders: Counter[tuple[str, str]] = Counter()
    try:
        schema.validate(frame, lazy=True, inplace=True)
    except SchemaErrors as errors:
        for error in errors.schema_errors:
            if error.reason_code is SchemaErrorReason.SERIES_CONTAINS_NULLS:
                offenders[error.schema.name, NULL] += int(rows[frame[error.schema.name].isna()].sum())
            elif error.reason_code is SchemaErrorReason.DATAFRAME_CHECK:
                # Without the nulls, which the check leaves out.
                outside = error.check_output.index[~error.check_output]
                offenders[error.schema.name, error.check.error] += int(rows[outside].sum())
            else:
                rule = f"pandera cannot check it ({error.reason_code})"
                offenders[error.schema.name or "", rule] += int(rows.sum())
    return offenders
