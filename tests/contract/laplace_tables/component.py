"""How YAML becomes such a release."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from assets.release.dataset import DatasetDeclaration
from assets.release.numbers import Epsilon
from orchestration.components.release import ReleaseComponent, ReleaseDeclaration, declared
from tests.contract.laplace_tables.design import LaplaceDesign
from tests.contract.laplace_tables.method import LaplaceMethod
from tests.contract.laplace_tables.release import LaplaceProduct, LaplaceRelease


class DeclaredProduct(LaplaceProduct):
    """A table and its budget, as they are declared."""

    epsilon: Epsilon = Field(description="ε of the table, for a change of one record.")


class LaplaceDeclaration(ReleaseDeclaration):
    """A release of tables with discrete Laplace noise, as it is declared."""

    products: list[DeclaredProduct] = Field(min_length=1, description="The tables to publish.")


@dataclass
class LaplaceTables(ReleaseComponent):
    """Declared tables with discrete Laplace noise."""

    declared_by = LaplaceDeclaration
    method = LaplaceMethod

    def release(self, dataset: DatasetDeclaration, published: Path) -> LaplaceRelease:
        products = sorted(self.declaration.products, key=lambda product: product.name)
        return LaplaceRelease(
            **declared(self.declaration, dataset, published),
            design=LaplaceDesign({product.name: product.epsilon for product in products}),
            products=tuple(products),
        )
