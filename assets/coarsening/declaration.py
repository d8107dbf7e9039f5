"""The fields of a release by coarsening, and the design that follows from them."""

from typing import Annotated, Any

from pydantic import Field

from assets.release.dataset import DatasetDeclaration
from assets.unperturbed.release import UnperturbedDeclaration
from mechanisms.coarsening.design import CoarseningDesign


class CoarseningDeclaration(UnperturbedDeclaration):
    """The YAML declaration of a release by coarsening. Variables are recoded in the dataset (`recode`)."""

    geography: list[str] = Field(
        min_length=1,
        description="The columns of the places, coarsest first; each place lies in exactly one place of the level "
        "above.",
    )
    place_threshold: Annotated[int, Field(ge=2, strict=True)] = Field(
        description="The least number of records of a published place. Smaller places are merged into one, the rest of "
        "the larger place that they lie in; while this rest is below the threshold, the next smallest place joins it."
    )
    key: list[str] = Field(
        min_length=1,
        description="The variables by which somebody could be recognized. The dataset must declare their values.",
    )
    least: Annotated[int, Field(ge=2, strict=True)] = Field(
        description="The least number of records of a combination of place and key. Records of rarer combinations are "
        "given the nearest combination that has enough records: the one that differs in the fewest variables.",
    )
    kept: list[str] = Field(default_factory=list, description="Further variables to publish unchanged.")

    def design(self, dataset: DatasetDeclaration, **_: Any) -> CoarseningDesign:
        """The design: the columns and the two thresholds."""
        return CoarseningDesign(
            self.of, tuple(self.geography), self.place_threshold, tuple(self.key), self.least, tuple(self.kept)
        )
