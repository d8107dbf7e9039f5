"""The fields of a release by suppression, and the design that follows from them."""

from typing import Annotated, Any

from pydantic import Field

from assets.release.dataset import DatasetDeclaration
from assets.unperturbed.release import UnperturbedDeclaration
from mechanisms.suppression.design import SuppressionDesign


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
