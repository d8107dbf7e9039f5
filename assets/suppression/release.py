"""A release by suppression: the rules that it satisfies before anything runs."""

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from assets.measurement.grid import DeclaredTable
from assets.suppression.declaration import SuppressionDeclaration
from assets.unperturbed.release import UnperturbedRelease
from mechanisms.suppression.design import SuppressionDesign

CELLS = "suppressed_cells"

MOST_COMBINATIONS = 200_000
"""The most combinations of the values of all variables."""


@dataclass(frozen=True)
class SuppressionRelease(UnperturbedRelease):
    """A declared release by suppression."""

    declaration: SuppressionDeclaration
    design: SuppressionDesign

    def __post_init__(self) -> None:
        super().__post_init__()
        for origin in sorted({self.origins[name] for name in self.design.variables}):
            alike = {name for name in self.design.variables if self.origins[name] == origin}
            if not any(alike.issubset(columns) for _, columns in self.design.tables):
                # Only zeros of such a table say which of their combinations are impossible, as readers know.
                self.refuse(
                    f"products: one table with all of {', '.join(sorted(alike))} is needed: they tell each other"
                )
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
