"""Results of draws, as frozen values that carry and print their DP specification; and conversions of data frames."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from mechanisms.accounting.losses import format_loss
from mechanisms.accounting.specification import Specification

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

__all__ = ["Draw", "TableDraw"]

Frame: TypeAlias = "pa.Table | pd.DataFrame | duckdb.DuckDBPyRelation | Mapping[str, Any]"
"""A table: of Arrow or pandas, a relation of DuckDB, anything else that exports an Arrow stream, or columns by name."""

_READ_AS = {
    # A column without a value has no type either.
    pa.null(): pa.string(),
    pa.string_view(): pa.large_string(),
    pa.binary_view(): pa.large_binary(),
    pa.float16(): pa.float32(),
}
"""Types that Arrow does not compare, and types of the same values that it compares. Other libraries, such as Polars,
write text as views."""

NOT_CHARGED = "no ledger counts this loss; add it to all others of the same records (stirred.accounting)"


@dataclass(frozen=True, repr=False, eq=False)
class Draw:
    """The result of a draw, with the DP specification under which it may be published."""

    specification: Specification

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    @property
    def _title(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        return f"{self._title}\n{format_specification(self.specification)}\n  not charged: {NOT_CHARGED}"


def format_specification(specification: Specification) -> str:
    """The loss and the building blocks of a specification, each on a line."""
    flavor = specification.flavor
    change = {"bounded": "changed", "unbounded": "added or removed"}[flavor.neighbors]
    lines = {
        "loss": f"{format_loss(specification.loss)} for one {flavor.unit} {change}",
        "measured by": flavor.output_premetric,
        "compares": flavor.domain,
        "that agree on": "; ".join(flavor.multiverse) or "nothing: there are no invariants",
    }
    return "\n".join(f"  {name}: {words}" for name, words in lines.items())


@dataclass(frozen=True, repr=False, eq=False)
class TableDraw(Draw):
    """A result with a table. `table` is of the kind of the input data: an Arrow table, a pandas data frame or a DuckDB
    relation."""

    arrow: pa.Table
    kind: str

    @property
    def _title(self) -> str:
        return f"{type(self).__name__}, {self.arrow.num_rows:,} rows of {', '.join(self.arrow.column_names)}"

    @property
    def table(self) -> Any:
        return write_frame(self.arrow, self.kind)


def read_frame(data: Frame) -> pa.Table:
    """The data as an Arrow table, without the index of a data frame. Categorical columns have the type of their
    categories. Raises TypeError for data that are not a table, and for columns whose values cannot be compared."""
    try:
        if _kind(data) == "pandas" and hasattr(data, "columns"):
            table = pa.Table.from_pandas(data, preserve_index=False)
        elif isinstance(data, Mapping) or (hasattr(data, "__arrow_c_stream__") and _kind(data) != "pandas"):
            table = pa.table(data)
        else:
            kind = type(data).__name__
            raise TypeError(f"{kind} is neither a table of Arrow, pandas or DuckDB nor a mapping of columns")
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError):
        # Arrow's message has a value.
        raise TypeError("columns have equally many values, and each column has values of one type") from None
    except pa.ArrowNotImplementedError as error:
        raise TypeError(f"a column has values of a type that is not read: {error}") from None
    fields = []
    for field in table.schema:
        coded = pa.types.is_dictionary(field.type)
        kind = field.type.value_type if coded else field.type
        if pa.types.is_nested(kind) or (coded and isinstance(kind, pa.BaseExtensionType)):
            raise not_compared(field.name, kind)
        fields.append(pa.field(field.name, _READ_AS.get(kind, kind)))
    return table.cast(pa.schema(fields))


def not_compared(name: str, kind: pa.DataType) -> TypeError:
    """The refusal of a column whose values have no order or no equality here."""
    return TypeError(f"{name}: values of the type {kind} are not compared; write them as text")


def read_column(table: pa.Table, name: str) -> pa.ChunkedArray:
    """A column of a table. Raises KeyError if the table has no column of this name, and TypeError if the name is not
    text: Arrow would take a number for a position, and pandas allows numbers as names."""
    if not isinstance(name, str):
        raise TypeError(f"columns are named by texts, not by {name!r}: rename them, as by data.rename(columns=str)")
    return table[name]


def is_missing(value: Any) -> bool:
    """Whether a value is missing, as NaN and pandas' NA are in columns of `read_frame`."""
    try:
        return bool(pa.array([value], from_pandas=True).null_count)
    except pa.ArrowException:
        return False


def frame_kind(data: Frame) -> str:
    """`pandas`, `duckdb` or `arrow`: the kind in which results are given."""
    return _kind(data)


def write_frame(table: pa.Table, kind: str) -> Any:
    """A table in a kind. Relations are of DuckDB's default connection; register `arrow` to use another one. Raises
    ValueError for a kind that is not known."""
    if kind not in ("arrow", "pandas", "duckdb"):
        raise ValueError(f"kind is arrow, pandas or duckdb, not {kind}")
    if kind == "duckdb":
        import duckdb

        return duckdb.from_arrow(table)
    return _write_pandas(table) if kind == "pandas" else table


def _write_pandas(table: pa.Table) -> "pd.DataFrame":
    """Integers with missing values keep an integer type: floats cannot represent all integers above 2^53."""
    frame = table.to_pandas()
    for field in table.schema:
        if pa.types.is_integer(field.type) and table[field.name].null_count:
            import pandas as pd

            kind = pd.api.types.pandas_dtype(str(field.type).replace("u", "U").replace("i", "I"))
            frame[field.name] = table[field.name].to_pandas(types_mapper={field.type: kind}.get)
    return frame


def _kind(data: object) -> str:
    # The package of the class, or of a class that it extends, as GeoPandas does.
    modules = {each.__module__.partition(".")[0].lstrip("_") for each in type(data).__mro__}
    return next((name for name in ("pandas", "duckdb") if name in modules), "arrow")
