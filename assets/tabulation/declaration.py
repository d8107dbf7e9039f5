"""The declaration of a product, for all mechanisms. The package of a mechanism may add fields."""

from typing import Literal, Self

import dagster as dg
from pydantic import Field, model_validator

from assets.release.names import ProductName, find_repeated


class Product(dg.Model, dg.Resolvable):
    """A table of counts to publish."""

    name: ProductName
    title: str = Field(default="", description="The product's name in words.")
    description: str = Field(default="", description="What readers should know about the product.")
    of: Literal["units", "persons"] = Field(
        default="units", description="What is counted: units (in swapping, the swapped records), or persons."
    )
    geography: list[str] = Field(default_factory=list, description="The geographic columns, coarsest first.")
    dimensions: list[str] = Field(default_factory=list, description="The other columns to tabulate by.")

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        if not self.columns:
            raise ValueError(f"product {self.name}: at least one column is required in geography or dimensions")
        if repeated := find_repeated(self.columns):
            raise ValueError(f"product {self.name}: column {repeated[0]} is named twice")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to tabulate by, geography first."""
        return (*self.geography, *self.dimensions)

    @property
    def table(self) -> str:
        """The name of the product's table in the warehouse."""
        return f"product_{self.name}"
