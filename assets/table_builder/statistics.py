"""Quantiles and moments of the cells of a hypercube as one value, and the rules that it satisfies before anything runs.

Each is a release like a hypercube: the cells are those of its table by all variables, and every cell has the nodes of a
tree (`mechanisms.table_builder.quantiles`) or the components of moments (`mechanisms.table_builder.moments`).
"""

from dataclasses import astuple, dataclass
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import Any

from assets.table_builder.declaration import Amount, MomentsAttributes, QuantilesAttributes, StatisticDeclaration
from assets.table_builder.release import BETWEEN, MOST_CELLS, HypercubeRelease
from mechanisms.accounting.specification import Specification
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace
from mechanisms.table_builder.moments import Moments, Scale
from mechanisms.table_builder.quantiles import Tree

MOST_DESCRIBED = 5_000
"""The most cells of a hypercube with statistics: every cell is published with numbers that are derived one by one."""


_OWN_COLUMNS = frozenset(
    {"place", "quantile", "statistic", "of", "coefficient", "interval_first", "interval_last", "at_bound"}
    | {"first_factor", "second_factor", "sample_standard_error", "sample_lower", "sample_upper"}
)


@dataclass(frozen=True)
class Part:
    """What of every cell is measured with one distribution: the nodes of a level, or the components of moments.

    Attributes:
        name: in words, which also names its stream of noise.
        size: how many numbers every cell has.
        budget: exact ε or ρ for one record added or removed.
        step: what a number stands for, in records or units of the weight.
    """

    name: str
    size: int
    budget: Fraction
    noise: DiscreteGaussian | DiscreteLaplace
    step: Fraction

    @property
    def deviation(self) -> float:
        return sqrt(self.noise.exact_variance)


@dataclass(frozen=True)
class StatisticRelease(HypercubeRelease):
    """Quantiles of a variable, or moments of several, of the cells of a hypercube. The design is that of the cells,
    with the budget of the statistic."""

    declaration: StatisticDeclaration

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.cube.variables:
            if name.casefold() in _OWN_COLUMNS:
                self.refuse(f"variables: {name} is the name of a column that quantiles and moments use themselves")
        cells = self.cells_of(self.design.inner)
        if cells > MOST_DESCRIBED:
            self.refuse(f"{self.named}: a hypercube of {cells:,} cells; at most {MOST_DESCRIBED:,} are described")
        if (numbers := cells * sum(part.size for part in self.parts)) > MOST_CELLS:
            self.refuse(f"{self.named}: {numbers:,} numbers in all cells; at most {MOST_CELLS:,} are allowed")
        assert self.measured.bounded == self.design.bounded, "the charge is that of what is measured"

    @property
    def named(self) -> str:
        return self.declaration.statistic

    @cached_property
    def measured(self) -> Tree | Moments:
        return self.declaration.measured(self.design.most)

    @property
    def effect(self) -> Fraction:
        """How many times the variance of a sample is that of as many records as steps are counted, at most."""
        return self.declaration.attributes.design_effect * self.design.most

    @property
    def variables(self) -> list[str]:
        return self.declaration.variables

    @cached_property
    def scales(self) -> dict[str, Scale]:
        """By variable of moments, its bounds."""
        declared = self.declaration.attributes
        return declared.scales(self.known_columns) if isinstance(declared, MomentsAttributes) else {}

    @cached_property
    def variable(self) -> Amount | None:
        """The variable of quantiles with its grid."""
        declared = self.declaration.attributes
        return Amount(self.variables[0], declared.values) if isinstance(declared, QuantilesAttributes) else None

    @cached_property
    def parts(self) -> list[Part]:
        measured, inner = self.measured, BETWEEN.join(self.design.inner)
        if isinstance(measured, Moments):
            step = self.grid_step / self.measured.scale**2  # type: ignore[union-attr]
            return [Part(f"{inner}, moments", measured.components, measured.budget, measured.noise, step)]
        levels = zip(measured.sizes, measured.budgets, measured.noises, strict=True)
        return [
            Part(f"{inner}, level {level}", size, budget, noise, self.grid_step)
            for level, (size, budget, noise) in enumerate(levels)
        ]

    @property
    def columns_read(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*super().columns_read, *self.variables]))

    @property
    def counted_with(self) -> dict[str, Any]:
        variable = self.variable
        bounds = {variable.column: variable.grid} if variable else self.scales
        described = {name: list(map(str, astuple(scale))) for name, scale in bounds.items()}
        return {**super().counted_with, "statistic": described, "measured": self.measured.as_record()}

    @cached_property
    def specification(self) -> Specification:
        if self.withheld:
            return super().specification
        return Specification(self.flavor(self.columns_read), self.design.bounded, self.measured.lines)
