"""The fields of the release, and the design that follows from them."""

from typing import Any

from pydantic import Field, field_validator

from assets.release.dataset import DatasetDeclaration
from assets.release.numbers import Epsilon
from assets.release.published import Product
from assets.release.release import ReleaseDeclaration
from tests.contract.laplace_tables.design import LaplaceDesign


class LaplaceProduct(Product):
    """A table of noisy counts."""

    epsilon: Epsilon = Field(description="ε of the table, for a change of one record.")


class LaplaceDeclaration(ReleaseDeclaration):
    """A release of tables with discrete Laplace noise."""

    products: list[LaplaceProduct] = Field(min_length=1, description="The tables to publish.")

    @field_validator("products")
    @classmethod
    def _order(cls, products: list[LaplaceProduct]) -> list[LaplaceProduct]:
        if len({product.name for product in products}) < len(products):
            raise ValueError("a name is there twice")
        # The order of declaration has no part in the draw.
        return sorted(products, key=lambda product: product.name)

    def design(self, dataset: DatasetDeclaration, **_: Any) -> LaplaceDesign:
        """The tables' budgets."""
        return LaplaceDesign({product.name: product.epsilon for product in self.products}, dataset.record_name)
