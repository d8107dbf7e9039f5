"""Trees of all margins of a hypercube, each measured with a share of the budget, and fitted together.

Let x be the inner table with one further axis for numbers. Level l of the trees of a table T measures M_T A_l x with
noise of variance σ_Tl², where M_T sums cells and A_l sums numbers to intervals. They act on different axes, so the
normal equations have the matrix Σ_S P_S ⊗ (Σ_l λ_Sl A_lᵀA_l), with P_S and λ_Sl of level l as in `fitting`. The
interactions S are therefore fitted separately: each is a tree whose level l is measured with the variance 1/λ_Sl, as in
`quantiles`. For a product query q of cells, level l of the tree of S has the counts qᵀP_S of the fitted level l, with
errors of variance qᵀP_S q/λ_Sl, which are uncorrelated with those of other interactions. The sum of the trees is the
least-squares fit.

**Loss.** A record is in one cell of every table and in one node of every level, so all tables and levels add up to the
tree's budget, and a change costs twice as much.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mechanisms.table_builder.asking import Question
from mechanisms.table_builder.fitting import Fit, Floats
from mechanisms.table_builder.hypercube import Hypercube, NoiseFamily, Table
from mechanisms.table_builder.quantiles import FittedSum, FittedTree, Tree

_NEGLIGIBLE = 1e-12
"""The part of a query's squared norm below which an interaction is only a rounding error."""


@dataclass(frozen=True)
class FittedTrees:
    """The fit of the trees of all measured tables.

    Attributes:
        cube: the tables and their shares, without structural zeros. The budget and noise of the tree replace its own.
        tree: one tree with the budget of all tables.
        numbers: by level and table, the noisy counts, shape (*shape(table), nodes).
    """

    cube: Hypercube
    tree: Tree
    numbers: Sequence[Mapping[Table, NDArray[np.int64]]]

    @cached_property
    def levels(self) -> tuple[Fit, ...]:
        """The fit of the tables of each level, from the root."""
        noise = NoiseFamily.GAUSSIAN if self.tree.gaussian else NoiseFamily.LAPLACE
        shared = replace(self.cube, noise=noise, most=self.tree.weight)
        return tuple(Fit(replace(shared, budget=budget)) for budget in self.tree.budgets)

    @cached_property
    def _interactions(self) -> list[tuple[Floats, ...]]:
        """By interaction, its part of every level, shape (*shape(inner), nodes)."""
        pairs = zip(self.levels, self.numbers, strict=True)
        return list(zip(*(fit.interactions(numbers) for fit, numbers in pairs), strict=True))

    def answer(self, question: Question) -> Iterator[FittedSum]:
        """By cell of a sub-table, in the order of its dimensions, the fitted counts."""
        norms, inner = self.levels[0].norms(question.weights), self.cube.inner
        parts = []
        for place, norm in enumerate(norms):
            if norm > _NEGLIGIBLE * sum(norms):
                variances = tuple(norm * fit.inverse[place] for fit in self.levels)
                added = [question.add_up(inner, level) for level in self._interactions[place]]
                parts.append((variances, [counts.reshape(-1, counts.shape[-1]) for counts in added]))
        for row in range(len(parts[0][1][0])):
            trees = [
                FittedTree(self.tree, tuple(level[row] for level in levels), variances=variances)
                for variances, levels in parts
            ]
            yield FittedSum(self.tree, trees)
