"""A release by suppression: the rules that its declaration satisfies before anything runs."""

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from assets.measurement.grid import DeclaredTable
from assets.release.columns import ColumnType
from assets.suppression.declaration import SuppressionDeclaration
from assets.unperturbed.release import UnperturbedRelease
from mechanisms.suppression.design import Dominance, SuppressionDesign

CELLS = "suppressed_cells"

TOTAL = "total"
"""The column of the totals of a magnitude."""

LARGEST_MAGNITUDE = 10**9

MOST_COMBINATIONS = 200_000
"""The most combinations of the values of all variables."""


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
        # A column with a single category reveals only the number of all records, and nothing about other columns.
        telling = [name for name in self.design.variables if self.variables[name].domain_size > 1]
        for origin in sorted({self.origins[name] for name in telling}):
            alike = {name for name in telling if self.origins[name] == origin}
            if not any(alike.issubset(columns) for _, columns in self.design.tables):
                # Only the zeros of such a table show which combinations are impossible, which readers know.
                self.refuse(
                    f"products: one table with all of {', '.join(sorted(alike))} is needed: they tell each other"
                )
        if self.design.dominance is not None:
            self._check_magnitude(self.design.dominance.magnitude)
            self._check_holding(self.design.dominance)
        if combinations > MOST_COMBINATIONS:
            self.refuse(
                f"products: their variables have {combinations:,} combinations of values, of at most "
                f"{MOST_COMBINATIONS:,}; recode some"
            )

    def _check_magnitude(self, name: str) -> None:
        self.require_columns("dominance", (name,))
        column = self.variables[name]
        if column.type is not ColumnType.INTEGER or column.nullable:
            self.refuse(f"dominance: {name} must be an integer that is never empty; write whole numbers in the file")
        if column.minimum is None or column.maximum is None or int(column.minimum) < 0:
            self.refuse(f"dominance: {name} must have a minimum from 0 on, and a maximum")
        if int(column.maximum) > LARGEST_MAGNITUDE:
            self.refuse(f"dominance: the maximum of {name} is over {LARGEST_MAGNITUDE:,}; use a larger unit")
        if self.origins[name] in {self.origins[other] for other in self.design.variables}:
            self.refuse(f"dominance: {name} is of the same column of the source as one of the tables")
        if TOTAL in map(str.casefold, self.design.variables):
            self.refuse(f"products: the column name {TOTAL} belongs to the totals")

    def _check_holding(self, rule: Dominance) -> None:
        if rule.holding is not None:
            self.require_columns("dominance", (rule.holding,))
            if rule.holding in (*self.design.variables, rule.magnitude):
                self.refuse(f"dominance: {rule.holding} is the magnitude or a column of one of the tables")

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
        return {"of": self.design.of, "columns": list(self.design.counted)}
