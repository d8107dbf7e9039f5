"""A release by coarsening: its fields, and the rules that it satisfies before anything runs."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from assets.release.dataset import DatasetDeclaration
from assets.unperturbed.release import UnperturbedDeclaration, UnperturbedRelease
from mechanisms.coarsening.design import CoarseningDesign

COARSENED = "coarsened"


class CoarseningDeclaration(UnperturbedDeclaration):
    """The YAML declaration of a release by coarsening. Variables are recoded in the dataset (`recode`)."""

    geography: list[str] = Field(
        min_length=1,
        description="The columns of the places, coarsest first; each place lies in one of the level above.",
    )
    place_threshold: Annotated[int, Field(ge=2, strict=True)] = Field(
        description="The least number of records of a published place; smaller ones are merged into the rest of the "
        "place above."
    )
    key: list[str] = Field(
        min_length=1, description="The variables by which somebody could be recognized; their values are listed."
    )
    least: Annotated[int, Field(ge=2, strict=True)] = Field(
        description="The least number of records of a combination of place and key; smaller ones move to the nearest."
    )
    kept: list[str] = Field(default_factory=list, description="Further variables to publish, as they are.")

    def design(self, dataset: DatasetDeclaration, **_: Any) -> CoarseningDesign:
        """The columns and the two thresholds."""
        return CoarseningDesign(
            self.of, tuple(self.geography), self.place_threshold, tuple(self.key), self.least, tuple(self.kept)
        )


@dataclass(frozen=True)
class CoarseningRelease(UnperturbedRelease):
    """A declared release by coarsening."""

    declaration: CoarseningDeclaration
    design: CoarseningDesign

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_columns("geography, key and kept", self.design.columns)
        for name in self.design.geography:
            if self.variables[name].nullable:
                self.refuse(f"geography: {name} may be empty, and an empty value stands for the rest of a place")
        for name in self.design.key:
            try:
                self.variables[name].domain()
            except ValueError as error:
                self.refuse(f"key: {name}: {error}")
        for product in self.declaration.products:
            if product.name == COARSENED:
                self.refuse(f"products: the name {COARSENED} belongs to the records")
            for name in product.columns:
                if name not in self.design.columns:
                    self.refuse(f"products: {product.name}: {name} is not published; add it to key or kept")
            places = tuple(name for name in product.columns if name in self.design.geography)
            if places != self.design.geography[: len(places)]:
                self.refuse(
                    f"products: {product.name}: places are named from the coarsest on, in order: "
                    f"{', '.join(self.design.geography)}"
                )

    @property
    def counted_with(self) -> dict[str, Any]:
        return {"of": self.design.of, "columns": list(self.design.columns)}
