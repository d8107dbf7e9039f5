"""A release by suppression: its fields, and the rules that it satisfies before anything runs."""

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Annotated, Any

from pydantic import Field

from assets.measurement.grid import DeclaredTable
from assets.release.dataset import DatasetDeclaration
from assets.unperturbed.release import UnperturbedDeclaration, UnperturbedRelease
from mechanisms.suppression.design import SuppressionDesign

CELLS = "suppressed_cells"

MOST_COMBINATIONS = 200_000
"""The most combinations of the values of all variables."""


class SuppressionDeclaration(UnperturbedDeclaration):
    """The YAML declaration of a release by suppression. Its tables are linked: all count the same records."""

    threshold: Annotated[int, Field(ge=2, strict=True)] = Field(
        description="Counts from 1 to below this are suppressed; a count of 0 is published."
    )
    width: Annotated[int, Field(ge=1, strict=True)] = Field(
        description="The least difference between the greatest and the least count that a suppressed cell can have."
    )

    def design(self, dataset: DatasetDeclaration, **_: Any) -> SuppressionDesign:
        """The thresholds and the tables."""
        if not self.products:
            raise ValueError("products: at least one table is required")
        tables = sorted((product.name, tuple(sorted(product.columns))) for product in self.products)
        return SuppressionDesign(self.of, self.threshold, self.width, tuple(tables))


@dataclass(frozen=True)
class SuppressionRelease(UnperturbedRelease):
    """A declared release by suppression."""

    declaration: SuppressionDeclaration
    design: SuppressionDesign

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            combinations = prod(self.variables[name].domain_size for name in self.design.variables)
            _ = self.declared_tables
        except ValueError as error:
            self.refuse(f"products: {error}")
        if combinations > MOST_COMBINATIONS:
            self.refuse(
                f"products: their variables have {combinations:,} combinations of values, of at most "
                f"{MOST_COMBINATIONS:,}; recode some"
            )

    @cached_property
    def declared_tables(self) -> tuple[DeclaredTable, ...]:
        """The tables with all their cells, by name."""
        units = self.dataset.cef_tables()[0]
        return tuple(
            DeclaredTable(name, units, {column: self.variables[column] for column in columns})
            for name, columns in self.design.tables
        )

    @property
    def counted_with(self) -> dict[str, Any]:
        return {"of": self.design.of, "columns": list(self.design.variables)}
