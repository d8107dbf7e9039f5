"""The fields of a release by suppression, and the design that follows from them."""

from typing import Annotated, Any

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from assets.release.dataset import DatasetDeclaration
from assets.release.declaration import Part
from assets.unperturbed.release import UnperturbedDeclaration
from mechanisms.suppression.design import Dominance, SuppressionDesign


class DominanceDeclaration(Part):
    """The rule that suppresses a cell's total if few records make up most of it: p%, or (n, k)."""

    magnitude: str = Field(
        description="The column of a magnitude, an integer from 0 on. Every table then also has its totals."
    )
    p: Annotated[int, Field(ge=1, le=100, strict=True)] | SkipJsonSchema[None] = Field(
        None,
        description="The p% rule: suppress if the total less its two greatest contributions is under p% of "
        "the greatest.",
    )
    n: Annotated[int, Field(ge=1, le=10, strict=True)] | SkipJsonSchema[None] = Field(
        None, description="With k, the (n, k) rule: suppress if the n greatest contributions are over k% of the total."
    )
    k: Annotated[int, Field(ge=1, le=99, strict=True)] | SkipJsonSchema[None] = Field(
        None, description="With n, as above."
    )

    holding: str | SkipJsonSchema[None] = Field(
        None,
        description="A column whose equal values make records one contributor, such as the enterprises of a holding. A "
        "record without a value is a contributor of its own.",
    )

    def design(self) -> Dominance:
        return Dominance(self.magnitude, self.p, self.n, self.k, self.holding)


class SuppressionDeclaration(UnperturbedDeclaration):
    """The YAML declaration of a release by suppression. Its tables are linked: all count the same records."""

    threshold: Annotated[int, Field(ge=3, strict=True)] = Field(
        description="Counts above 0 and below this are suppressed; a count of 0 is published."
    )
    width: Annotated[int, Field(ge=1, strict=True)] = Field(
        description="For every suppressed cell, the greatest and the least count that all tables together allow must "
        "differ by this much or more."
    )
    dominance: DominanceDeclaration | SkipJsonSchema[None] = Field(
        None, description="Cells in which few records make up most of a magnitude's total are suppressed too."
    )

    def design(self, dataset: DatasetDeclaration, **_: Any) -> SuppressionDesign:
        """The thresholds and the tables."""
        if not self.products:
            raise ValueError("products: at least one table is required")
        tables = sorted((product.name, tuple(sorted(product.columns))) for product in self.products)
        dominance = None if self.dominance is None else self.dominance.design()
        return SuppressionDesign(self.of, self.threshold, self.width, tuple(tables), dominance)
