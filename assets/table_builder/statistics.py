"""Quantiles and moments of the cells of a hypercube as one value, with the rules of their declarations.

Each is a release like a hypercube. Its cells are the cells of the table by all variables, or also of all margins. Every
cell has the nodes of a tree (`mechanisms.table_builder.quantiles`), the candidate numbers of a quantile
(`mechanisms.table_builder.choosing`), or the components of moments (`mechanisms.table_builder.moments`).
"""

from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np

from assets.measurement.grid import LARGEST_VARIANCE
from assets.table_builder.declaration import Amount, MomentsAttributes, QuantilesAttributes, StatisticDeclaration
from assets.table_builder.release import BETWEEN, MOST_CELLS, HypercubeRelease
from mechanisms.accounting.specification import Line, Specification
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace, Perturbation
from mechanisms.sampling.quantiles import margin_of_error
from mechanisms.table_builder.choosing import Chosen
from mechanisms.table_builder.hypercube import Margins, Table
from mechanisms.table_builder.moments import Moments, Scale
from mechanisms.table_builder.quantiles import Tree

MOST_DESCRIBED = 5_000
"""The most cells of a hypercube with statistics: the published numbers of cells are derived one by one."""


_OWN_TABLES = frozenset({"scales", "quantiles", "nodes", "statistics", "moments"})
_OWN_COLUMNS = frozenset(
    {"place", "quantile", "statistic", "of", "coefficient", "interval_first", "interval_last", "at_bound"}
    | {"first_factor", "second_factor", "sample_standard_error", "sample_lower", "sample_upper", "records_off"}
)


@dataclass(frozen=True)
class Part:
    """The part of every cell of a table that is measured with one distribution: the nodes of a level, the candidate
    numbers of a quantile, or the components of moments.

    Attributes:
        name: the name in words, which also names the part's stream of noise.
        size: how many numbers every cell has.
        budget: exact ε or ρ for one record added or removed.
        parameter: exact scale, or σ² of a Gaussian.
        step: the amount that 1 represents, in records or units of the weight.
        margin_at: by budget, the 90% margin of error in records or units of the weight.
    """

    name: str
    table: Table
    size: int
    budget: Fraction
    noise: DiscreteGaussian | DiscreteLaplace | Perturbation
    parameter: Fraction
    step: Fraction
    margin_at: Callable[[Fraction], float]

    @property
    def deviation(self) -> float:
        return sqrt(self.noise.exact_variance)

    @property
    def margin(self) -> float:
        return self.margin_at(self.budget)


def _noisy_part(
    name: str,
    table: Table,
    size: int,
    budget: Fraction,
    noise_at: Callable[[Fraction], DiscreteGaussian | DiscreteLaplace],
    step: Fraction,
) -> Part:
    noise = noise_at(budget)
    parameter = noise.variance if isinstance(noise, DiscreteGaussian) else noise.scale

    def margin_at(other: Fraction) -> float:
        return margin_of_error(noise_at(other)) * float(step)

    return Part(name, table, size, budget, noise, parameter, step, margin_at)


@dataclass(frozen=True)
class StatisticRelease(HypercubeRelease):
    """Quantiles of a variable, or moments of several, of the cells of a hypercube. The design describes the cells, with
    the budget of the statistic."""

    declaration: StatisticDeclaration

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.cube.variables:
            if name.casefold() in _OWN_COLUMNS:
                self.refuse(f"variables: {name} is the name of a column that quantiles and moments use themselves")
        for product in self.cube.products:
            if product.name in _OWN_TABLES:
                self.refuse(f"products: {product.name} is the name of another table")
            if not self.possible[np.ix_(*self.list_counted(product.where))].any():
                self.refuse(f"products: {product.name}: where: all of these cells are declared impossible")
        cells = self.cells_of(self.design.inner)
        if cells > MOST_DESCRIBED:
            self.refuse(f"{self.named}: a hypercube of {cells:,} cells; at most {MOST_DESCRIBED:,} are described")
        if self.design.margins is not Margins.SUMMED and self.structural_zeros:
            self.refuse(f"{self.named}: margins: fitted: trees are not fitted with cells that are declared impossible")
        if (numbers := sum(self.cells_of(part.table) * part.size for part in self.parts)) > MOST_CELLS:
            self.refuse(f"{self.named}: {numbers:,} numbers in all cells; at most {MOST_CELLS:,} are allowed")
        if isinstance(self.measured, Moments) and self.measured.noise.exact_variance > LARGEST_VARIANCE:
            self.refuse(
                f"{self.named}: the variance of the noise is too large; declare fewer steps, a larger budget"
                f"{', or a coarser grid of the weight' * (self.amount is not None)}"
            )
        assert self.measured.bounded == self.design.bounded, "the charge is that of what is measured"

    @property
    def named(self) -> str:
        return self.declaration.statistic

    @cached_property
    def measured(self) -> Tree | Chosen | Moments:
        """The measurements of every cell; for trees of several tables, with the budget of all of them."""
        return self.declaration.measured(self.design.most)

    @property
    def effect(self) -> Fraction:
        """The greatest ratio of the variance of a sample to the variance of a sample of as many records as steps are
        counted."""
        return self.declaration.attributes.design_effect * self.design.most

    @property
    def variables(self) -> list[str]:
        return self.declaration.variables

    @cached_property
    def scales(self) -> dict[str, Scale]:
        """The bounds of moments, by variable."""
        declared = self.declaration.attributes
        return declared.scales(self.known_columns) if isinstance(declared, MomentsAttributes) else {}

    @cached_property
    def variable(self) -> Amount | None:
        """The variable of quantiles, with its grid."""
        declared = self.declaration.attributes
        return Amount(self.variables[0], declared.values) if isinstance(declared, QuantilesAttributes) else None

    @cached_property
    def parts(self) -> list[Part]:
        measured, inner = self.measured, BETWEEN.join(self.design.inner)
        if isinstance(measured, Moments):
            step, size = self.grid_step / measured.scale**2, measured.components
            name, budget = f"{inner}, moments", measured.budget
            return [_noisy_part(name, self.design.inner, size, budget, measured.noise_at, step)]
        if isinstance(measured, Chosen):
            return [self._chosen_part(measured, place) for place in range(len(measured.quantiles))]
        return [
            _noisy_part(f"{BETWEEN.join(table)}, level {level}", table, size, budget, tree.noise_at, self.grid_step)
            for table, tree in self.trees.items()
            for level, (size, budget) in enumerate(zip(tree.sizes, tree.budgets, strict=True))
        ]

    def _chosen_part(self, chosen: Chosen, place: int) -> Part:
        name = f"{BETWEEN.join(self.design.inner)}, quantile {chosen.quantiles[place]}"
        step, error = self.grid_step, chosen.error(place)

        def margin_at(budget: Fraction) -> float:
            return chosen.margin(place, budget) * float(step)

        own = chosen.numbers, chosen.budgets[place], error, 1 / chosen.rate(place), step
        return Part(name, self.design.inner, *own, margin_at)

    @property
    def drawn(self) -> bool:
        """Whether quantiles are drawn directly instead of derived from trees."""
        return isinstance(self.measured, Chosen)

    @property
    def trees(self) -> dict[Table, Tree]:
        """By measured table, the tree of its cells."""
        tree, design = self.measured, self.design
        assert isinstance(tree, Tree)
        return {table: tree.scaled(design.budget_of(table) / design.budget) for table in design.tables}

    @property
    def columns_read(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*super().columns_read, *self.variables]))

    @property
    def counted_with(self) -> dict[str, Any]:
        variable = self.variable
        bounds = {variable.column: variable.grid} if variable else self.scales
        described = {name: list(map(str, astuple(scale))) for name, scale in bounds.items()}
        return {**super().counted_with, "statistic": described, "measured": self.measured.as_record()}

    @property
    def counted_as(self) -> dict[str, Any]:
        return {**super().counted_as, "statistic": self.counted_with["statistic"]}

    @cached_property
    def specification(self) -> Specification:
        if self.withheld:
            return super().specification
        return Specification(self.flavor(self.columns_read), self.design.bounded, self.lines)

    @property
    def lines(self) -> tuple[Line, ...]:
        """By part, the loss for one record changed."""
        if not isinstance(self.measured, Tree) or self.design.margins is Margins.SUMMED:
            return self.measured.lines
        return tuple(
            replace(line, label=f"{BETWEEN.join(table)}, {line.label}")
            for table, tree in self.trees.items()
            for line in tree.lines
        )
