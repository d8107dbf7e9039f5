"""A release of declared tables with discrete Laplace noise: its tables, and the rules of its declaration."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from assets.measurement.grid import DeclaredTable
from assets.release.columns import Column
from assets.release.release import Release
from tests.contract.laplace_tables.declaration import LaplaceDeclaration
from tests.contract.laplace_tables.design import LaplaceDesign


@dataclass(frozen=True)
class LaplaceRelease(Release):
    """A declared release of tables."""

    declaration: LaplaceDeclaration
    design: LaplaceDesign

    def __post_init__(self) -> None:
        for product in self.declaration.products:
            if product.of != "units":
                self.refuse(f"products: {product.name}: only units are counted")
            for name in product.columns:
                if name not in self.variables:
                    self.refuse(f"products: {product.name}: there is no column {name}")
        try:
            _ = self.tables
        except ValueError as error:
            self.refuse(f"products: {error}")

    @property
    def variables(self) -> Mapping[str, Column]:
        """The columns that tables may have."""
        return self.dataset.units.variables

    @cached_property
    def tables(self) -> tuple[DeclaredTable, ...]:
        """The tables with their cells. Columns of a table are in alphabetical order there."""
        units = self.dataset.cef_tables()[0]
        return tuple(
            DeclaredTable(product.name, units, {name: self.variables[name] for name in sorted(product.columns)})
            for product in self.declaration.products
        )
