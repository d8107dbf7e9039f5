"""The YAML declaration of a release by the table builder, and the hypercubes that follow from it.

This module defines the fields, their domains and their JSON schema. What a hypercube must satisfy is in
`mechanisms.table_builder.hypercube` and `assets.table_builder.release`. The component is in `table_builder`.
"""

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

import dagster as dg
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from assets.release.names import ProductName, ReleaseName, SourcePath
from assets.release.numbers import FRACTION, LARGEST_NUMBER, Delta, Epsilon, Rho, Share, exact_fraction
from assets.table_builder.release import Counted
from mechanisms.accounting.specification import DELTA
from mechanisms.table_builder.entropy import MOST
from mechanisms.table_builder.hypercube import Consistency, Margins
from orchestration.components.release import ReleaseDeclaration

Number = Annotated[
    Fraction,
    BeforeValidator(exact_fraction),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": -LARGEST_NUMBER, "maximum": LARGEST_NUMBER},
                {"type": "string", "pattern": FRACTION},
            ]
        }
    ),
]

Category = int | str | bool | None
"""A category as YAML gives it; null stands for records without a value."""

Categories = dict[str, Annotated[list[Category], Field(min_length=1)]]
"""By variable, some of its categories."""


class AmountDeclaration(dg.Model):
    """What is added up: a weight or a magnitude, rounded to multiples of a grid, within bounds."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    column: str = Field(description="The column of the records; an empty value counts as 0.")
    grid: Number = Field(
        description="The step to whose multiples every amount is rounded, such as 10 or 0.5. It does not depend on the "
        "records."
    )
    least: Number = Field(Fraction(0), description="What a smaller amount is taken as; a multiple of the grid.")
    most: Number = Field(description="What a greater amount is taken as; a multiple of the grid.")


class ShareDeclaration(dg.Model):
    """The share of a table in the budget of its hypercube."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    by: list[str] = Field(min_length=1, description="The variables of the table.")
    share: Share


class SubTableDeclaration(dg.Model):
    """A table to publish that is built from the hypercube."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ProductName
    title: str = Field("", description="The table's name in words.")
    by: list[str] = Field(min_length=1, description="The variables that it is tabulated by.")
    where: Categories = Field(default_factory=dict, description="By further variable, the categories that are counted.")


class MadePTable(dg.Model):
    """A p-table of greatest entropy."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    largest_change: int = Field(ge=1, le=MOST, strict=True, description="The greatest change of a count, D.")
    variance: Number = Field(description="The greatest variance of a count's change, V.")
    threshold: int = Field(0, ge=0, strict=True, description="Results from 1 to this number do not occur, js.")
    probability_to_stay: Share = Field(
        Fraction(0), description="The least probability that a count stays as it is, if the threshold allows it."
    )
    monotone: bool = Field(True, description="Whether a greater change to one side is never more probable.")


class GivenPTable(dg.Model):
    """The file of a p-table that another tool has written."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: SourcePath = Field(description="The file: absolute, or relative to the project's root.")
    form: Literal["ons", "sdctools"] = Field(
        description="ons: CSV with pcv, ckey, pvalue of the Office for National Statistics; sdctools: the export of "
        "ptable."
    )


def _form(value: object) -> str:
    return "given" if isinstance(value, GivenPTable) or (isinstance(value, Mapping) and "path" in value) else "made"


PTableDeclaration = Annotated[
    Annotated[MadePTable, Tag("made")] | Annotated[GivenPTable, Tag("given")], Discriminator(_form)
]


class HypercubeAttributes(dg.Model):
    """One hypercube: a draw, a charge and a publication of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    name: ReleaseName = Field(description="The name; the hypercube's release is called <release>_<name>.")
    title: str = Field("", description="The hypercube's name in words.")
    description: str = Field("", description="What is published, for readers.")
    of: Counted = Field(
        "units", description="What is counted: units or persons. Persons have their unit's variables too."
    )
    swapped: str | SkipJsonSchema[None] = Field(
        None,
        description="The name of a release by swapping of the same dataset that is withheld: the hypercube is counted "
        "from its swapped records instead of the dataset's own.",
    )
    variables: list[str] = Field(min_length=1, description="The variables, each with a domain that lists its values.")
    epsilon: Epsilon | SkipJsonSchema[None] = Field(
        None,
        description="ε for one record added or removed, with discrete Laplace noise or a p-table. A change of one "
        "record costs twice it. A p-table without it has no finite loss.",
    )
    rho: Rho | SkipJsonSchema[None] = Field(
        None, description="ρ for one record added or removed, with discrete Gaussian noise; instead of epsilon."
    )
    delta: Delta = Field(DELTA, description="δ at which a loss in ρ is stated as (ε, δ).")
    cap: Annotated[int, Field(gt=0, strict=True)] | SkipJsonSchema[None] = Field(
        None, description="The greatest discrete Laplace noise, in records or in steps of the grid. It costs a δ."
    )
    p_table: PTableDeclaration | SkipJsonSchema[None] = Field(
        None,
        description="Counts are perturbed by a p-table instead, made or from a file. It costs the δ that it has at "
        "epsilon.",
    )
    consistency: Consistency = Field(
        Consistency.QUERY,
        description="query: the noises of different cells are independent; cell, for p-tables only: the same set of "
        "records has the same noise in every table of the hypercube, and no finite ε holds, so none is declared.",
    )
    record_keys: str | SkipJsonSchema[None] = Field(
        None,
        description="With consistency cell: the column with keys of records that the data bring along; by default keys "
        "follow from the draw's key.",
    )
    margins: Margins = Field(
        Margins.SUMMED,
        description="summed: only the table by all variables is measured, and margins are its sums; independent: every "
        "margin is measured too, and they do not add up; fitted: the tables that agree and fit all measurements best.",
    )
    shares: list[ShareDeclaration] = Field(
        default_factory=list,
        description="The tables that are measured and their shares of the budget, which add up to 1; by default all, "
        "with equal shares.",
    )
    weight: AmountDeclaration | SkipJsonSchema[None] = Field(None, description="Weights to add up instead of records.")
    value: AmountDeclaration | SkipJsonSchema[None] = Field(
        None, description="A magnitude to add up instead of records."
    )
    structural_zeros: list[Categories] = Field(
        default_factory=list,
        description="Categories that occur together in no record: their cells are neither measured nor published.",
    )
    suppress_below: Number = Field(
        Fraction(0), description="Estimates below this number are not published; 0 publishes all."
    )
    products: list[SubTableDeclaration] = Field(
        default_factory=list, description="Tables to publish that are built from the hypercube; they cost nothing."
    )

    @field_validator("variables")
    @classmethod
    def _check_variables(cls, variables: list[str]) -> list[str]:
        for name, times in Counter(variables).items():
            if times > 1:
                raise ValueError(f"{name} is named twice")
        return variables

    @model_validator(mode="after")
    def _check(self) -> Self:
        budgets = (self.epsilon is not None) + (self.rho is not None)
        if self.consistency is Consistency.CELL and budgets:
            raise ValueError("epsilon: no finite loss holds with consistency: cell; declare neither epsilon nor rho")
        if self.consistency is Consistency.QUERY and budgets != 1 and not (self.p_table and not budgets):
            raise ValueError("epsilon: declare either epsilon or rho")
        if self.p_table and self.rho is not None:
            raise ValueError("rho: the loss of a p-table is an ε with a δ; declare epsilon")
        if self.weight and self.value:
            raise ValueError("value: a hypercube adds up weights or a magnitude, not both; declare two hypercubes")
        return self


class HypercubeDeclaration(ReleaseDeclaration):
    """A hypercube with the fields that all hypercubes of its release have in common."""

    hypercube: HypercubeAttributes


class TableBuilderDeclaration(ReleaseDeclaration):
    """The YAML declaration of a release by the table builder."""

    hypercubes: list[HypercubeAttributes] = Field(
        min_length=1, description="The hypercubes. Each is drawn, charged and published by itself."
    )

    @field_validator("hypercubes")
    @classmethod
    def _check_names(cls, hypercubes: list[HypercubeAttributes]) -> list[HypercubeAttributes]:
        for name, times in Counter(each.name for each in hypercubes).items():
            if times > 1:
                raise ValueError(f"{name} is declared {times} times")
        return hypercubes

    def each(self) -> list[HypercubeDeclaration]:
        """The hypercubes, each as a release by itself."""
        common: dict[str, Any] = {
            "dataset": self.dataset,
            "custody": self.custody,
            "schedule": self.schedule,
            "watch_source": self.watch_source,
        }
        return [
            HypercubeDeclaration(
                name=f"{self.name}_{cube.name}",
                title=cube.title or f"{self.title}: {cube.name.replace('_', ' ')}",
                description=cube.description or self.description,
                hypercube=cube,
                **common,
            )
            for cube in self.hypercubes
        ]
