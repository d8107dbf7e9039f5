"""Rectangular files: one row for each person, with the columns of the household repeated on each of its rows.

A declaration lists all columns of the file under `persons`, and the columns of the household under `rectangular`. This
module divides them, so that all later code finds `units` and `persons` as if they had come from two files.
`assets.cef.ingestion` makes the units.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, field_validator

from assets.release.columns import Role
from assets.release.declaration import Part
from assets.release.names import ColumnName, find_repeated


class Rectangular(Part):
    """Which columns of a rectangular file identify a household, and which describe it."""

    household: Annotated[list[ColumnName], Field(min_length=1)] = Field(
        description="The columns of the file that together identify a household, such as [YEAR, SERIAL]."
    )
    columns: Annotated[list[ColumnName], Field(min_length=1)] = Field(
        description="The columns of persons that describe the household. They become the columns of units, and must be "
        "the same on all rows of a household."
    )

    @field_validator("household", "columns")
    @classmethod
    def _check_names(cls, names: list[str]) -> list[str]:
        if repeated := find_repeated(names):
            raise ValueError(f"{', '.join(repeated)}: a column is listed once")
        return names


def divide_columns(given: Any) -> Any:
    """The attributes of a dataset. If they declare a rectangular file, its `units` are divided from `persons`.

    The key of units is the column of persons with role unit. By default it is a string, named after the columns that
    identify a household. Raises ValueError if the columns cannot be divided. The validation of the fields refuses
    attributes of a wrong form.
    """
    if not isinstance(given, Mapping) or given.get("rectangular") is None:
        return given
    if given.get("units") is not None:
        raise ValueError("units: with rectangular, they are made of columns of persons; leave units out")
    persons = given.get("persons")
    if persons is None:
        raise ValueError("rectangular: declare persons, with the columns of the file")
    household, names = _read_list(given, "household"), _read_list(given, "columns")
    columns = persons.get("columns") if isinstance(persons, Mapping) else None
    if not (household and names and isinstance(columns, Mapping)):
        return {**given, "units": {"columns": {"unit": {"type": "string", "role": "key"}}}}
    if missing := [name for name in names if name not in columns]:
        raise ValueError(f"rectangular.columns: {missing[0]} is no column of persons")
    own = {name: column for name, column in columns.items() if name not in names}
    unit = next((name for name, column in own.items() if _has_role(column, Role.UNIT)), None)
    if unit is None:
        unit = "_".join(household)
        if unit in columns:
            raise ValueError(f"persons.columns.{unit}: it identifies the household: declare it with role unit")
        own = {unit: {"type": "string", "role": "unit"}, **own}
    units = {unit: {**own[unit], "role": "key"}, **{name: columns[name] for name in names}}
    return {**given, "units": {"columns": units}, "persons": {**persons, "columns": own}}


class DividedColumns(dict[str, Any]):
    """The columns of persons alone. Dagster looks up every key of the YAML, and finds the columns of units by name
    too."""

    def __init__(self, own: Mapping[str, Any], of_units: Mapping[str, Any]) -> None:
        super().__init__(own)
        self._of_units = dict(of_units)

    def __missing__(self, name: str) -> Any:
        return self._of_units[name]


def _read_list(given: Mapping[str, Any], field: str) -> list[str]:
    """The names in a field of `rectangular`; empty if it is not a list of texts."""
    rectangular = given["rectangular"]
    names = rectangular.get(field) if isinstance(rectangular, Mapping) else None
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else []


def _has_role(column: Any, role: Role) -> bool:
    return isinstance(column, Mapping) and column.get("role") == role
