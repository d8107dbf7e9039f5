"""A product of a swapping release: a table of counts, tabulated from the swapped data."""

from collections import Counter
from collections.abc import Sequence
from typing import Self

from pydantic import Field, field_validator, model_validator

from assets.release.published import Product

MOST_TOTALS = 6
"""The most columns that totals are added over: 64 combinations of them. DuckDB runs out of memory at 14."""


ESTIMATED = ("estimate", "standard_error", "lower", "upper", "greatest_bias")
"""The columns beside `count`, where counts before the swap are estimated."""


class SwappedProduct(Product):
    """A table of counts, tabulated from the swapped data."""

    totals: list[str] = Field(
        default_factory=list,
        description="Columns to add totals over, in additional rows that the column <name>_total marks.",
    )
    zeros: bool = Field(default=True, description="Whether empty cells are listed, with count 0.")
    source: str = Field(
        default="swapped", description="What it is tabulated from: the swapped data, the only data covered by ε."
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
        if self.name in ("saturated", "saturated_persons"):
            raise ValueError(f"the name {self.name} belongs to the saturated contingency table")
        if len(self.totals) > MOST_TOTALS or len(set(self.totals)) < len(self.totals):
            raise ValueError(
                f"product {self.name}: totals: at most {MOST_TOTALS} columns, each once: every combination of them has "
                "rows of its own"
            )
        taken = {name.casefold() for name in (*self.columns, "count", *ESTIMATED)}
        for name, flag in self.flags.items():
            if name not in self.columns:
                raise ValueError(f"product {self.name}: totals: {name} is not a column of the product")
            if flag.casefold() in taken:
                raise ValueError(
                    f"product {self.name}: totals: {flag}, which marks totals over {name}, is a column too"
                )
        return self

    @property
    def flags(self) -> dict[str, str]:
        """By column with totals, the name of the column that marks them."""
        return {name: f"{name}_total" for name in self.totals}


def titles_of(products: Sequence[SwappedProduct]) -> dict[str, str]:
    """By name, what a product is called on a page: its title, or its name if it has none of its own."""
    alike = Counter(product.title for product in products)
    return {each.name: each.title if each.title and alike[each.title] == 1 else each.name for each in products}
