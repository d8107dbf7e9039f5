"""A release of declared tables with discrete Laplace noise, as one value."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from assets.measurement.declared import DeclaredTable
from assets.release.columns import Column
from assets.release.release import Release
from assets.tabulation.declaration import Product
from tests.contract.laplace_tables.design import LaplaceDesign


class LaplaceProduct(Product):
    """A table of noisy counts."""


@dataclass(frozen=True)
class LaplaceRelease(Release):
    """Everything declared of the release.

    Attributes:
        design: the tables' budgets.
        products: the tables, in alphabetical order: the order of their declarations has no part in the draw.

    Raises:
        DeclarationError: where the declaration contradicts itself or the dataset.
    """

    design: LaplaceDesign
    products: tuple[LaplaceProduct, ...]

    def __post_init__(self) -> None:
        if not self.products:
            self.refuse("products: there is none")
        names = [product.name for product in self.products]
        if len(set(names)) < len(names):
            self.refuse("products: a name is there twice")
        for product in self.products:
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
            for product in self.products
        )
