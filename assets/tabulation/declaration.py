"""What a product is declared to be.

Here belong the typed declaration of a table and the rules it keeps by itself. Whether its columns exist is
known to the release (`assets.release.release`).
"""

from typing import Literal, Self

import dagster as dg
from pydantic import Field, field_validator, model_validator


class Product(dg.Model, dg.Resolvable):
    """A table of counts, tabulated from the swapped data."""

    name: str = Field(
        pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$",
        description="The product's name, which its files bear.",
    )
    title: str = Field(default="", description="The product's name in words.")
    description: str = Field(default="", description="What a reader should know of it.")
    of: Literal["units", "persons"] = Field(
        default="units", description="What is counted: the swapped records, or the persons who follow their unit."
    )
    geography: list[str] = Field(default_factory=list, description="The geographic columns, coarsest first.")
    dimensions: list[str] = Field(default_factory=list, description="The other columns to tabulate by.")
    totals: list[str] = Field(
        default_factory=list, description="Columns to give totals over, as further rows with the value Total."
    )
    zeros: bool = Field(default=True, description="Whether cells without a record are listed, with count 0.")
    source: str = Field(
        default="swapped", description="What it is tabulated from: the swapped data, the only data ε speaks of."
    )

    @field_validator("source")
    @classmethod
    def _refuse_original_data(cls, source: str) -> str:
        if source != "swapped":
            raise ValueError(
                f"a product is tabulated from the swapped data only, not from {source!r}: "
                "the original data are not covered by ε"
            )
        return source

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.columns:
            raise ValueError(f"product {self.name}: name at least one column in geography or dimensions")
        if self.name in ("saturated", "saturated_persons"):
            raise ValueError(f"the name {self.name} belongs to the saturated contingency table")
        twice = sorted({name for name in self.columns if self.columns.count(name) > 1})
        if twice:
            raise ValueError(f"product {self.name}: column {twice[0]} is named twice")
        for name in self.totals:
            if name not in self.columns:
                raise ValueError(f"product {self.name}: totals: {name} is no column of the product")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns tabulated by, geography first."""
        return (*self.geography, *self.dimensions)

    @property
    def table(self) -> str:
        """The name of the product's table in the warehouse."""
        return f"product_{self.name}"

    @property
    def total_label(self) -> str:
        """The value that stands in a row for a total."""
        return "Total"
