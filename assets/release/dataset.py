"""What a dataset is declared to be: its source, its tables, its columns and their domains.

Here belong the typed declaration and the rules it keeps by itself, without looking at the source. Reading
the source belongs in `readers`, holding the rows to the declaration in `validation`.
"""

import math
import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Self

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from assets.release.structure import Structure
from mechanisms.accounting.approximate import ApproximateLoss
from mechanisms.accounting.composition import Loss
from mechanisms.accounting.loss import PureLoss
from mechanisms.accounting.zcdp import ConcentratedLoss
from resources.statements import Table, Zone

Value = int | str | bool | date | Decimal

_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_DECIMAL = re.compile(r"-?[0-9]{1,14}(\.[0-9]{1,4})?", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
EXPONENT = r"[1-9](\.[0-9]+)?[eE]-[0-9]{1,3}"
"""A number as YAML reads it as text: an exponent without a point before it."""
_FRACTION = r"^[0-9]+(\.[0-9]+|/[0-9]+)?$"


class ColumnType(StrEnum):
    """How a column's text is read; anything else in it is ill-typed."""

    INTEGER = "integer"
    """Up to 18 digits, perhaps after a minus sign; neither `1.5` nor `1e3`."""
    STRING = "string"
    """Any text, leading zeros and all."""
    BOOLEAN = "boolean"
    """`true` or `false`."""
    DATE = "date"
    """ISO 8601, such as `1940-04-01`."""
    DECIMAL = "decimal"
    """Up to 14 digits before the point and 4 after it."""

    @property
    def stored(self) -> str:
        """The DuckDB type of the column in the CEF."""
        return {"integer": "BIGINT", "string": "VARCHAR", "boolean": "BOOLEAN", "date": "DATE"}.get(
            self.value, "DECIMAL(18,4)"
        )


class Role(StrEnum):
    """What a column is for."""

    KEY = "key"
    """Names the record. It is no variable, and no mechanism sees it."""
    UNIT = "unit"
    """In `persons`: names the unit the person belongs to."""
    GEOGRAPHY = "geography"
    CHARACTERISTIC = "characteristic"


def _typed(kind: ColumnType, value: object) -> Value:
    """One value of a declaration as a value of the column's type, or a ValueError that says what it is not."""
    wrong = ValueError(f"{value!r} is not of type {kind.value}")
    text = str(value)
    match kind:
        case ColumnType.STRING if isinstance(value, str):
            return text
        case ColumnType.STRING:
            raise ValueError(f"{value!r} is not of type string; put it in quotes")
        case ColumnType.INTEGER if isinstance(value, int) and not isinstance(value, bool):
            if _INTEGER.fullmatch(text):
                return value
        case ColumnType.DECIMAL if not isinstance(value, bool):
            if _DECIMAL.fullmatch(text):
                return Decimal(text)
        case ColumnType.DATE if _DATE.fullmatch(text):
            try:
                return date.fromisoformat(text)
            except ValueError:
                raise wrong from None
    raise wrong


_Given = int | float | str | bool
_GivenBound = Annotated[Any, WithJsonSchema({"type": ["number", "string"]})]
_GivenValues = Annotated[
    list[_Given] | dict[_Given, str],
    WithJsonSchema({"type": ["array", "object"], "minItems": 1, "minProperties": 1}),
]


_Text = Annotated[str, Field(min_length=1)]


class Column(dg.Model):
    """One column of a table: its type, its role and its domain.

    A geography or characteristic column states its domain, so that every code in it is meant to be there:

    - `integer`: `values`, or both `minimum` and `maximum`;
    - `string`: `values`, or a `pattern` that the whole text matches;
    - `decimal` and `date`: `minimum` and `maximum` if wanted;
    - `boolean`: none, its two values are its domain.

    Key and unit columns are integers or strings, never null, and need no domain.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: ColumnType = Field(description="integer, string, boolean, date or decimal.")
    role: Role = Field(Role.CHARACTERISTIC, description="key, unit, geography or characteristic.")
    description: str = Field("", description="What the column says, for the data dictionary.")
    source: _Text | SkipJsonSchema[None] = Field(
        None, description="The column's name in the source, if it is another there."
    )
    values: _GivenValues | SkipJsonSchema[None] = Field(
        None, description="The codes that may occur: a list, or a mapping of each code to its label."
    )
    minimum: _GivenBound | SkipJsonSchema[None] = Field(None, description="The least value that may occur.")
    maximum: _GivenBound | SkipJsonSchema[None] = Field(None, description="The greatest value that may occur.")
    pattern: str | SkipJsonSchema[None] = Field(
        None, description="A regular expression (RE2) that the whole text matches."
    )
    nullable: bool = Field(False, description="Whether the column may be empty.")

    @field_validator("values", mode="before")
    @classmethod
    def _keep_values_as_given(cls, values: object) -> object:
        if values is not None and not (isinstance(values, list | tuple | Mapping) and values):
            raise ValueError("values are a list of codes or a mapping of codes to labels, and not empty")
        return values

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_which_rules_fit()
        self._check_values()
        if self.pattern is not None:
            try:
                pc.match_substring_regex(pa.array([""]), whole(self.pattern))
            except pa.ArrowInvalid:
                raise ValueError(f"pattern {self.pattern!r} is not a regular expression of RE2") from None
        return self

    def _check_which_rules_fit(self) -> None:
        kind, name = self.type, self.type.value
        if self.values is not None and kind not in (ColumnType.INTEGER, ColumnType.STRING):
            raise ValueError(f"a {name} column takes no values")
        if self.pattern is not None and kind is not ColumnType.STRING:
            raise ValueError(f"a {name} column takes no pattern")
        bounds = (self.minimum, self.maximum)
        if bounds != (None, None) and kind in (ColumnType.STRING, ColumnType.BOOLEAN):
            raise ValueError(f"a {name} column takes no minimum or maximum")
        if self.values is not None and (self.pattern is not None or bounds != (None, None)):
            raise ValueError("values are the whole domain: drop minimum, maximum and pattern")
        if self.role in (Role.KEY, Role.UNIT):
            if kind not in (ColumnType.INTEGER, ColumnType.STRING):
                raise ValueError(f"a {self.role.value} column is an integer or a string, not a {name}")
            if self.nullable:
                raise ValueError(f"a {self.role.value} column is not nullable")
        elif kind is ColumnType.INTEGER and self.values is None and None in bounds:
            raise ValueError("an integer column states its domain: values, or minimum and maximum")
        elif kind is ColumnType.STRING and self.values is None and self.pattern is None:
            raise ValueError("a string column states its domain: values or a pattern")

    def _check_values(self) -> None:
        codes = self.codes
        if len(set(codes)) < len(codes):
            raise ValueError("values name a code twice")
        lowest, highest = self.bounds
        if lowest is not None and highest is not None and lowest > highest:  # type: ignore[operator]
            raise ValueError(f"minimum {self.minimum} is greater than maximum {self.maximum}")

    @property
    def codes(self) -> tuple[Value, ...]:
        """The values that may occur, in the order declared; empty if the domain is not a list of them."""
        return tuple(_typed(self.type, value) for value in self.values or ())

    @property
    def labels(self) -> dict[Value, str]:
        """The labels of the codes, where the declaration gives them."""
        return (
            {_typed(self.type, code): label for code, label in self.values.items()}
            if isinstance(self.values, Mapping)
            else {}
        )

    @property
    def bounds(self) -> tuple[Value | None, Value | None]:
        """The least and the greatest value that may occur, either of them None if it is not bounded."""
        lowest, highest = (
            None if bound is None else _typed(self.type, bound) for bound in (self.minimum, self.maximum)
        )
        return lowest, highest

    def admits(self, text: str) -> bool:
        """Whether a value that may occur is written as `text`."""
        if self.pattern is not None:
            return bool(pc.match_substring_regex(pa.array([text]), whole(self.pattern))[0].as_py())
        return text in [str(code) for code in self.codes]

    @property
    def domain(self) -> str:
        """The domain in words, short enough for a message or a table cell."""
        if self.values is not None:
            shown = [str(code) for code in self.codes[:12]]
            return f"[{', '.join(shown)}{', …' if len(self.codes) > len(shown) else ''}]"
        if self.pattern is not None:
            return f"matching {self.pattern}"
        lowest, highest = self.bounds
        if lowest is not None and highest is not None:
            return f"{lowest} to {highest}"
        if lowest is not None:
            return f"at least {lowest}"
        if highest is not None:
            return f"at most {highest}"
        return f"any {self.type.value}"


def described(columns: Mapping[str, Column]) -> dict[str, str]:
    """What columns say, by their names."""
    return {name: column.description for name, column in columns.items()}


def whole(pattern: str) -> str:
    """The regular expression (RE2) that matches a text if `pattern` matches all of it."""
    return rf"\A(?:{pattern})\z"


class RecordTable(dg.Model):
    """One table of records: where it comes from, and its columns."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: _Text | SkipJsonSchema[None] = Field(
        None, description="The source file, absolute or from the project's root."
    )
    geography_path: _Text | SkipJsonSchema[None] = Field(
        None,
        description="A second source file, which has the columns of role geography, a record for each key.",
    )
    columns: Annotated[dict[str, Column], Field(min_length=1)] = Field(
        description="The columns to take from the source, by their names; others are left out."
    )

    @field_validator("columns")
    @classmethod
    def _check_names(cls, columns: dict[str, Column]) -> dict[str, Column]:
        seen: dict[str, str] = {}
        for name, column in columns.items():
            if not name or "\x00" in f"{name}{column.source}":
                raise ValueError("a column's name is not empty and holds no NUL character")
            other = seen.setdefault(name.casefold(), name)
            if other != name:
                raise ValueError(f"columns {other} and {name} differ only in upper and lower case")
        return columns

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        if len(self._having(Role.KEY)) > 1:
            raise ValueError(f"more than one key: {', '.join(self._having(Role.KEY))}")
        if self.geography_path is not None:
            for required in (Role.KEY, Role.GEOGRAPHY):
                if not self._having(required):
                    raise ValueError(f"geography_path: a column of role {required.value} is required")
        return self

    def _having(self, role: Role) -> list[str]:
        return [name for name, column in self.columns.items() if column.role is role]

    @property
    def key(self) -> str | None:
        """The column that names the record, if the table has one."""
        return next(iter(self._having(Role.KEY)), None)

    @property
    def unit(self) -> str | None:
        """The column that names the person's unit; None in `units`."""
        return next(iter(self._having(Role.UNIT)), None)

    @property
    def variables(self) -> dict[str, Column]:
        """The columns that say something about the record: all but the key and the unit."""
        return {name: column for name, column in self.columns.items() if column.role not in (Role.KEY, Role.UNIT)}

    @property
    def stored(self) -> dict[str, Column]:
        """The columns as the CEF orders them: the key, the unit, then the variables as declared."""
        first = [name for name in (self.key, self.unit) if name is not None]
        return {name: self.columns[name] for name in first} | self.variables

    @property
    def places(self) -> dict[str, Column]:
        """The columns that `geography_path` has; none where there is no such file."""
        if self.geography_path is None:
            return {}
        return {name: column for name, column in self.stored.items() if column.role is Role.GEOGRAPHY}


class Reader(StrEnum):
    """Where the records come from."""

    CSV = "csv"
    PARQUET = "parquet"
    MA1940 = "ma1940"
    SYNTHETIC_CENSUS = "synthetic_census"
    """What `assets.cef.synthetic` makes up; a declaration of its own kind."""

    @property
    def built_in(self) -> bool:
        """Whether the records come from no file."""
        return self in (Reader.MA1940, Reader.SYNTHETIC_CENSUS)


DatasetName = Annotated[
    str,
    Field(
        pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$",
        description="The dataset's name: small letters, digits and single underscores, a letter first.",
    ),
]


def exact_fraction(value: object) -> Fraction:
    """A number of YAML as the fraction it was written as.

    A float stands for the shortest decimal text that reads as it, so that 0.1 is one tenth.

    Args:
        value: an integer, a decimal, or a text such as `1/2`, `0.5` or `40`.

    Raises:
        ValueError: if it is none of these, or negative.
    """
    wrong = ValueError(f"{value!r} is not a number or a fraction such as 1/2")
    if isinstance(value, Fraction):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise wrong
    if isinstance(value, float) and not math.isfinite(value):
        raise wrong
    if isinstance(value, str) and not re.fullmatch(_FRACTION, value, re.ASCII):
        raise wrong
    try:
        return Fraction(repr(value) if isinstance(value, float) else value)
    except (ValueError, OverflowError, ZeroDivisionError):
        raise wrong from None


def exact_delta(value: object) -> Fraction:
    """A δ of YAML as the fraction it was written as; `1e-10` too, which YAML reads as text.

    Raises:
        ValueError: if it is not a number, or does not lie strictly between 0 and 1.
    """
    by_exponent = isinstance(value, str) and re.fullmatch(EXPONENT, value, re.ASCII)
    delta = Fraction(value) if isinstance(value, str) and by_exponent else exact_fraction(value)
    if not 0 < delta < 1:
        raise ValueError("δ lies strictly between 0 and 1")
    return delta


def _loss(value: object) -> Loss:
    """A cap as the loss it stands for: in the output premetric in which the releases' losses are added up under it."""
    match value:
        case PureLoss() | ConcentratedLoss() | ApproximateLoss():
            return value
        case {"rho": rho, **others} if not others:
            return ConcentratedLoss(_positive(rho))
        case {"epsilon": epsilon, "delta": delta, **others} if not others:
            return ApproximateLoss(PureLoss(_positive(epsilon)), exact_delta(delta))
        case Mapping():
            raise ValueError("the cap is a number (ε), {rho: …} or {epsilon: …, delta: …}")
    return PureLoss(_positive(value))


def _positive(value: object) -> Fraction:
    number = exact_fraction(value)
    if number <= 0:
        raise ValueError("the cap is greater than 0")
    return number


_NUMBER = {"type": ["number", "string"], "exclusiveMinimum": 0, "pattern": _FRACTION}

Cap = Annotated[
    Loss,
    BeforeValidator(_loss),
    WithJsonSchema(
        {
            **_NUMBER,
            "type": ["number", "string", "object"],
            "properties": dict.fromkeys(("rho", "epsilon"), _NUMBER)
            | {"delta": _NUMBER | {"pattern": f"{_FRACTION}|{EXPONENT}"}},
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 2,
            "dependentRequired": {"epsilon": ["delta"], "delta": ["epsilon"]},
        }
    ),
]


class DatasetDeclaration(dg.Model):
    """One vintage of confidential microdata: units, with or without persons in them."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    structure: ClassVar[Structure | None] = None
    """What records must satisfy together, where the layout of the dataset is one that says so."""

    name: DatasetName
    title: str = Field(min_length=1, description="The dataset's name in words.")
    description: str = Field("", description="Where the records come from and what they are.")
    synthetic: bool = Field(
        False, description="Whether the records are made up or public, so that experiments may draw on them."
    )
    reader: Annotated[Reader, WithJsonSchema({"enum": ["csv", "parquet", "ma1940"]})] = Field(
        description="csv, parquet, or the built-in ma1940."
    )
    record_name: str = Field("unit", min_length=1, description="A unit in words, such as household.")
    units: RecordTable = Field(description="The table of units, one record each.")
    persons: RecordTable | SkipJsonSchema[None] = Field(None, description="The table of persons, each in one unit.")
    cap: Cap = Field(
        description="The most that all releases from this dataset may lose together: ε as a number or a fraction "
        "such as 1/2; or {rho: 5} in zCDP; or {epsilon: 20, delta: 1/10000000000}."
    )

    @field_validator("reader")
    @classmethod
    def _check_reader(cls, reader: Reader) -> Reader:
        if reader is Reader.SYNTHETIC_CENSUS:
            raise ValueError("a synthetic census is declared by the component SyntheticCensus")
        return reader

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.units.unit is not None:
            raise ValueError(f"units: column {self.units.unit} has role unit, which is for persons")
        for table, records in self.tables.items():
            if not self.reader.built_in and records.path is None:
                raise ValueError(f"{table}: path is required with reader {self.reader.value}")
            if self.reader.built_in and (records.path or records.geography_path) is not None:
                raise ValueError(f"{table}: reader {self.reader.value} is built in and takes no path")
        if self.persons is None:
            return self
        if self.reader is Reader.MA1940:
            raise ValueError("persons: reader ma1940 has units only")
        if self.units.key is None:
            raise ValueError("units: a column of role key is required where there are persons")
        named = [name for name, column in self.persons.columns.items() if column.role is Role.UNIT]
        if len(named) != 1:
            raise ValueError(f"persons: exactly one column of role unit is required, found {len(named)}")
        if self.persons.columns[named[0]].type is not self.units.columns[self.units.key].type:
            raise ValueError(f"persons: column {named[0]} and the units' key {self.units.key} differ in type")
        if self.record_name == "person":
            raise ValueError("record_name: units that hold persons are not called person")
        if not self.persons.variables:
            raise ValueError("persons: declare at least one column besides key and unit")
        ours = {name.casefold() for name in self.units.variables}
        shared = [name for name in self.persons.variables if name.casefold() in ours]
        if shared:
            raise ValueError(f"persons: column {shared[0]} bears the name of a column of units; rename one of them")
        return self

    @property
    def tables(self) -> dict[str, RecordTable]:
        """The tables of the dataset by the names they have in the CEF."""
        return {"units": self.units} | ({"persons": self.persons} if self.persons else {})

    def cef_tables(self) -> tuple[Table, ...]:
        """The addresses of the CEF's tables: `units` and, if there are any, `persons`."""
        return tuple(Table(Zone.CONFIDENTIAL, self.name, name) for name in self.tables)
