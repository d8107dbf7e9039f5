"""The fields of an S-DHC release by PHSafe, and the design that follows from them."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, Tag, WithJsonSchema, model_validator

from assets.measurement.declaration import PRODUCTION_OR_OWN, Definition, Production, State, refuse_unused_delta
from assets.release.dataset import DatasetDeclaration
from assets.release.declaration import Part
from assets.release.names import require_distinct_products
from assets.release.numbers import Budget, Delta, Margin
from assets.release.release import ReleaseDeclaration
from mechanisms.accounting.specification import DELTA
from mechanisms.phsafe.design import PHSafeDesign, design_run, production
from mechanisms.phsafe.estimation import Interval

Product = Literal["PH1", "PH2", "PH3", "PH4", "PH5", "PH6", "PH7", "PH8"]
"""A finished table."""

Truncation = Annotated[
    int | None, Field(strict=True, ge=1), WithJsonSchema({"type": "integer", "minimum": 1, "title": "Truncation"})
]


class RunDeclaration(Part):
    """One run: its truncation threshold, and a budget or a margin of error for each released level."""

    truncation: Truncation = Field(
        None,
        description="The most persons that count in each unit. Leave it out for the runs that count units (PH1_denom, "
        "PH5_denom, PH8_denom).",
    )
    budget: dict[str, Budget] = Field(
        default_factory=dict,
        description="For each level, such as state_A-G: ρ, or ε with noise: pure, for one person added or removed.",
    )
    moe: dict[str, Margin] = Field(
        default_factory=dict,
        description="For any level, in place of its budget: the 90% margin of error, from which the budget follows.",
    )


Runs = Annotated[Production | Annotated[dict[str, RunDeclaration], Tag("own")], PRODUCTION_OR_OWN]


class PHSafeDeclaration(ReleaseDeclaration):
    """The YAML declaration of a release of the Supplemental Demographic and Housing Characteristics File (S-DHC)."""

    states: Annotated[list[State], Field(min_length=1)] = Field(
        description="FIPS codes in quotes, such as '06', of the states that form the nation; or of Puerto Rico alone."
    )
    noise: Definition = Field(
        Definition.ZCDP, description="zcdp: discrete Gaussian, budgets are ρ; pure: discrete Laplace, budgets are ε."
    )
    runs: Runs = Field(
        "production",
        description="production: the truncation and the margins of error of the 2020 Census. Otherwise a mapping by "
        "run; runs left out are not released.",
    )
    delta: Delta = Field(DELTA, description="δ at which the loss is stated as (ε, δ).")
    products: Annotated[list[Product], AfterValidator(require_distinct_products)] = Field(
        default_factory=list,
        description="The finished tables to publish, PH1 to PH8; if empty, all that the released runs allow.",
    )
    interval: Interval = Field(
        Interval.SHORTEST,
        description="The 90% credible interval of counts: shortest, or equal_tailed, which rarely contains 0.",
    )
    measurement_format: Literal["comma", "pipe"] = Field(
        "comma",
        description="comma: the files of measurements are comma-separated like all others; pipe: their columns are "
        "separated by |, as in the files of the production system.",
    )
    private: bool = Field(
        True,
        description="Whether there is a draw and a publication. If false, which only a synthetic dataset allows, the "
        "release ends with confidential tables of exact counts, for tuning.",
    )

    @model_validator(mode="after")
    def _check_delta(self) -> Self:
        refuse_unused_delta(self.noise, self.model_fields_set)
        return self

    @property
    def charges(self) -> bool:
        return self.private

    def design(self, dataset: DatasetDeclaration, **_: Any) -> PHSafeDesign:
        """The runs with their budgets, and the states in ascending order."""
        noise, states = self.noise.noise, tuple(sorted(self.states))
        if isinstance(self.runs, str):
            return production(states, noise)
        runs = {name: design_run(name, noise, run.truncation, run.budget, run.moe) for name, run in self.runs.items()}
        return PHSafeDesign(states, noise, runs)
