"""The common parts of generated datasets: their declaration, the states, and the division of households among them.

`synthetic` generates a census and `survey` a survey. Everything here is exact and follows from the parameters.
"""

import csv
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import gcd
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import dagster as dg
from pydantic import AfterValidator, ConfigDict, WithJsonSchema, field_validator, model_validator

from assets.release.columns import Column, RecordTable
from assets.release.dataset import DatasetDeclaration, Reader, Size
from assets.release.numbers import shown
from mechanisms.states import STATES

SEED = 2020
"""The default seed of a generated dataset."""

STATES_2020 = Path(__file__).with_name("states_2020.csv")
"""Region, division and resident population of each state in the 2020 Census, from its apportionment and P.L. 94-171
tables."""


def _require_known(states: list[str]) -> list[str]:
    unknown = [state for state in states if state not in STATES]
    if unknown:
        names = ", ".join(state if len(state) < 10 else shown(state) for state in unknown)
        raise ValueError(f"{names}: not a FIPS code of a state such as '01', in quotes")
    if not states:
        raise ValueError("name at least one state")
    if len(set(states)) < len(states):
        raise ValueError("a state is named twice")
    return sorted(states)


States = Annotated[
    list[str],
    AfterValidator(_require_known),
    WithJsonSchema({"type": "array", "items": {"enum": list(STATES)}, "minItems": 1, "uniqueItems": True}),
]
"""FIPS codes of different states, in ascending order."""


class Parameters(dg.Model):
    """The parameters of generated records."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    statements: ClassVar[str]
    """The statements that generate tables: `cef/<statements>_<table>`."""
    record_name: ClassVar[str] = "unit"

    seed: int
    households: int
    states: States

    @property
    @abstractmethod
    def size(self) -> Size:
        """The expected size of the dataset."""

    @property
    @abstractmethod
    def origin(self) -> str:
        """How the records are generated, in words."""

    @abstractmethod
    def columns(self) -> tuple[dict[str, Column], dict[str, Column]]:
        """The columns of units and of persons."""

    @abstractmethod
    def placeholders(self) -> dict[str, Any]:
        """The placeholders of the statements, except `columns`."""

    def values(self, table: str) -> dict[str, Any]:
        """The values bound in the statement of a table."""
        return {"seed": self.seed}

    def recipe(self, table: str, columns: Iterable[str]) -> tuple[str, dict[str, Any], dict[str, Any]]:
        """The statement, the values bound in it, and its placeholders."""
        names = self.placeholders() | {"columns": list(columns)}
        return f"cef/{self.statements}_{table}", self.values(table), names


class GeneratedDeclaration(DatasetDeclaration):
    """A dataset whose records are generated; always marked as synthetic."""

    generator: ClassVar[Reader]

    generated: Parameters

    @field_validator("reader")
    @classmethod
    def _check_reader(cls, reader: Reader) -> Reader:
        if reader is not cls.generator:
            raise ValueError(f"the reader of a {cls._kind()} is {cls.generator.value}")
        return reader

    @model_validator(mode="after")
    def _check_synthetic(self) -> Self:
        if not self.synthetic:
            raise ValueError(f"a {self._kind()} must be declared synthetic")
        for table, records in self.tables.items():
            known = self.generated_columns(table)
            for name, column in records.columns.items():
                if column.recode is not None and (column.source or name) not in known:
                    raise ValueError(
                        f"recoded_{table}: {name}: source: there is no column {column.source or name}; "
                        f"{table} have {', '.join(known)}"
                    )
        return self

    @classmethod
    def _kind(cls) -> str:
        return cls.generator.value.replace("_", " ")

    @classmethod
    def from_parameters(
        cls,
        generated: Parameters,
        *,
        recoded_units: Mapping[str, Column] | None = None,
        recoded_persons: Mapping[str, Column] | None = None,
        **described: Any,
    ) -> Self:
        """The declaration of a generated dataset, which describes how the records are generated.

        Args:
            recoded_units: columns of units that are recoded from generated columns.
            recoded_persons: the same for persons.
            described: the other fields of the dataset: `name`, `cap`, and optionally `title` and `description`.
        """
        states = [STATES[state] for state in generated.states]
        title = f"{cls._kind().capitalize()} of {' and '.join(states) if len(states) <= 2 else f'{len(states)} states'}"
        description = "\n\n".join(text for text in (described.get("description"), generated.origin) if text)
        units, persons = generated.columns()
        return cls(
            **described | {"title": described.get("title") or title, "description": description},
            synthetic=True,
            reader=cls.generator,
            record_name=generated.record_name,
            units=RecordTable(path=None, geography_path=None, columns={**units, **(recoded_units or {})}),
            persons=RecordTable(path=None, geography_path=None, columns={**persons, **(recoded_persons or {})}),
            generated=generated,
        )

    def generated_columns(self, table: str) -> dict[str, str]:
        """The columns of a table that are generated and not recoded, by their names in a file."""
        columns = self.tables[table].columns
        return {column.source or name: name for name, column in columns.items() if column.recode is None}


def read_states() -> dict[str, dict[str, int]]:
    """By FIPS code: the columns state, region, division and population of `STATES_2020`."""
    with STATES_2020.open(newline="") as lines:
        return {row["state"]: {name: int(number) for name, number in row.items()} for row in csv.DictReader(lines)}


def divide(total: int, weights: Sequence[int | Fraction]) -> list[int]:
    """Divide a total into positive integers: one each, and the rest by weight with the largest-remainder method."""
    rest, whole = total - len(weights), sum(weights)
    shares = [int(rest * weight // whole) for weight in weights]
    remainders = [rest * weight % whole for weight in weights]
    for place in sorted(range(len(weights)), key=lambda place: -remainders[place])[: rest - sum(shares)]:
        shares[place] += 1
    return [1 + share for share in shares]


def find_stride(units: int) -> int:
    """A number coprime to the number of units: its multiples modulo that number visit each unit once."""
    return next(stride for stride in range(units * 5 // 8 + 1, 2 * units + 2) if gcd(stride, units) == 1)


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
