"""Quantiles of a variable from noisy counts of a tree of intervals: their loss, fit, values and intervals.

A variable with declared bounds and grid is a number from 0 to G - 1. Level l of a tree with branching B has the counts
of intervals of B^(h - l) numbers, from the root, which counts all records, to the leaves at level h = ⌈log_B G⌉. A
record is in one node of every level, and levels are measured independently. A record adds 1 to its nodes, or its
weight, a whole number of steps from 0 to W. This module does not define how a release declares quantiles.

**Loss.** With ε_l or ρ_l for a record added or removed at level l, the tree costs Σ ε_l or Σ ρ_l. A changed record
leaves at most one node of each level and joins one: 2 Σ ε_l, and 2 Σ ρ_l, as the squared norm of each level is 2W².
Noise has the scale W/ε_l, or the variance W²/2ρ_l. Nodes of several cells of a hypercube can be added up: every
variance is then multiplied by their number, and the fit stays the same.

**Fit.** The least-squares fit of a tree, in two passes (Hay et al., 2010). Upwards, z_v is the best estimate of a node
from its subtree, with variance τ_v²: z = own, τ² = σ² in a leaf, and otherwise, with S = Σ z and T = Σ τ² over the
children, 1/τ² = 1/σ² + 1/T and z = τ²(own/σ² + S/T). Downwards, ẑ_c = z_c + (ẑ_v - S)τ_c²/T.

**Variance.** In ẑ_c = (τ_c²/T)ẑ_v + u_c, the u_c = z_c - (τ_c²/T)S are uncorrelated with S, so with ẑ_v and all above.
A linear combination of leaves below a node is therefore a·ẑ_v plus a part that is uncorrelated with ẑ_v, of variance V:
in a leaf, a is its coefficient and V = 0, and otherwise a = A/T and V = Σ V_c + Σ a_c²τ_c² - A²/T with A = Σ a_c τ_c².
For F(y), the sum of the leaves up to y, subtrees before y have a = 1 and subtrees after it a = 0, both V = 0, so one
node of each level remains. F(y) - qN has the variance (a - q)²τ² + V of the root.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.losses import ConcentratedLoss, PureLoss
from mechanisms.accounting.pairs import GaussianPair, LaplacePair
from mechanisms.accounting.specification import Line
from mechanisms.sampling.noise import DiscreteGaussian, DiscreteLaplace

Floats = NDArray[np.float64]

MOST_NUMBERS = 1 << 20

NORMAL_90 = 1.6449
"""The standard deviations within which a normal variable is with a probability of 90%."""


@dataclass(frozen=True)
class Tree:
    """The levels of a variable, from the root to the leaves, with an exact ε or ρ (`gaussian`) for each. A record adds
    at most `weight` to a node.

    Raises ValueError if there are not h + 1 budgets greater than 0, or G or B are out of range."""

    numbers: int
    branching: int
    budgets: tuple[Fraction, ...]
    gaussian: bool = False
    weight: int = 1

    def __post_init__(self) -> None:
        require_numbers(self.numbers)
        if self.branching < 2:
            raise ValueError(f"branching: a node has 2 children or more, not {self.branching}")
        if len(self.budgets) != len(self.sizes) or min(self.budgets) <= 0:
            raise ValueError(f"budgets: there is one greater than 0 for each of {len(self.sizes)} levels")

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of nodes by level."""
        return find_sizes(self.numbers, self.branching)

    @classmethod
    def shared(
        cls, numbers: int, branching: int, budget: Fraction, shares: Sequence[Fraction] = (), **others: Any
    ) -> "Tree":
        """The tree whose levels share a budget, from the root on; equally by default. Raises ValueError as the tree."""
        levels = len(find_sizes(max(numbers, 1), max(branching, 2)))
        by_level = tuple(budget * share for share in shares or [Fraction(1, levels)] * levels)
        return cls(numbers, branching, by_level, **others)

    def scaled(self, share: Fraction) -> "Tree":
        """The same tree with a share of its budget."""
        return replace(self, budgets=tuple(budget * share for budget in self.budgets))

    @property
    def unbounded(self) -> PureLoss | ConcentratedLoss:
        total = sum(self.budgets, Fraction(0))
        return ConcentratedLoss(total) if self.gaussian else PureLoss(total)

    @property
    def bounded(self) -> PureLoss | ConcentratedLoss:
        """The loss for one record changed in any way."""
        total = 2 * sum(self.budgets, Fraction(0))
        return ConcentratedLoss(total) if self.gaussian else PureLoss(total)

    @cached_property
    def noises(self) -> tuple[DiscreteGaussian | DiscreteLaplace, ...]:
        """The noise of a node by level."""
        return tuple(map(self.noise_at, self.budgets))

    def noise_at(self, budget: Fraction) -> DiscreteGaussian | DiscreteLaplace:
        """The noise of a node with this budget."""
        if self.gaussian:
            return DiscreteGaussian(self.weight**2 / (2 * budget))
        return DiscreteLaplace(self.weight / budget)

    @property
    def lines(self) -> tuple[Line, ...]:
        """By level, the loss for one record changed: two nodes change by up to the weight."""
        return tuple(
            Line(
                f"level {level}",
                ConcentratedLoss(2 * budget) if self.gaussian else PureLoss(2 * budget),
                (GaussianPair(noise.variance, self.weight),) * 2
                if isinstance(noise, DiscreteGaussian)
                else (LaplacePair(noise.scale, self.weight),) * 2,
            )
            for level, (budget, noise) in enumerate(zip(self.budgets, self.noises, strict=True))
        )

    def as_record(self) -> dict[str, Any]:
        """Exact plain values, equal for trees with the same draws."""
        return {
            "numbers": self.numbers,
            "branching": self.branching,
            "budgets": list(map(str, self.budgets)),
            "gaussian": self.gaussian,
            "weight": self.weight,
        }

    def count(self, values: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """The exact counts by level of records with these numbers."""
        return self.add_up(np.bincount(values, minlength=self.numbers))

    def add_up(self, leaves: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """The counts by level, shape (…, nodes), from those of the leaves, shape (…, numbers)."""
        counts = [leaves]
        for _ in self.sizes[1:]:
            size = counts[-1].shape[-1]
            counts.append(np.add.reduceat(counts[-1], self.first_children(size), axis=-1))
        return counts[::-1]

    def first_children(self, size: int) -> NDArray[np.int64]:
        """The first child of each node above a level of this size."""
        return np.arange(0, size, self.branching)


class FittedCounts(ABC):
    """Fitted counts of the numbers of a tree, and their errors. Noise and tree are public: it is post-processing."""

    tree: Tree
    leaves: Floats
    """The fitted counts of the numbers, which may be negative."""
    total: float

    @abstractmethod
    def deviation(self, quantile: Fraction) -> Floats:
        """The standard deviation of F(y) - qN by number y; with q = 0, of F(y)."""

    @property
    def _rounding(self) -> float:
        """A tolerance above the errors of floats, without which noise near 0 would break ties at random."""
        return 1e-9 * abs(self.total)

    @cached_property
    def _monotone(self) -> Floats:
        return make_monotone(np.cumsum(self.leaves))

    def quantile(self, quantile: float | Fraction) -> int:
        """The least number y with F(y) >= qN, F made monotone by isotonic regression; the last one if there is none."""
        reached = np.flatnonzero(self._monotone >= float(quantile) * self.total - self._rounding)
        return int(reached[0]) if reached.size else self.tree.numbers - 1

    def sample_interval(self, quantile: Fraction, z: float, effect: float) -> tuple[int, int]:
        """Woodruff's interval of a sample: from the quantile of q - z·sd to that of q + z·sd, with the variance
        effect·q(1 - q)/N of a share. For weights, an effect of at least W is on the safe side: there are N/W records
        or more."""
        spread = z * sqrt(effect * float(quantile * (1 - quantile)) / self.total) if self.total > 0 else 1.0
        low, high = max(float(quantile) - spread, 0.0), min(float(quantile) + spread, 1.0)
        return self.quantile(low), self.quantile(high)

    def interval(self, quantile: Fraction, z: float = NORMAL_90) -> tuple[int, int]:
        """The first and the last number that z standard deviations of the noise do not rule out, and the quantile.

        The quantile y has F(y - 1) < qN <= F(y). Without the isotonic regression, each inequality would be wrongly
        rejected with the probability of one tail, so the interval would cover the quantile at least as often as z
        states, for any number of records with the number y. The regression brings F nearer to a monotone truth, and
        makes intervals shorter; that it keeps the coverage is simulated
        (`tests/assets/table_builder/test_coverage.py`). Where the interval ends at 0 or G - 1, the bounds end it."""
        off = self._monotone - float(quantile) * self.total
        most = z * self.deviation(quantile) + self._rounding
        possible = np.flatnonzero((off >= -most) & np.append(True, off[:-1] <= most[:-1]))
        found = np.append(possible, self.quantile(quantile))
        return int(found.min()), int(found.max())


@dataclass(frozen=True)
class FittedTree(FittedCounts):
    """The fit of measured counts, by level with shape (nodes,), each the sum of a number of measured cells, or with
    noise of given variances."""

    tree: Tree
    measured: tuple[Floats, ...]
    cells: int = 1
    variances: tuple[float, ...] = ()

    @cached_property
    def _below(self) -> list[tuple[Floats, Floats]]:
        """z and τ² by level, from the root."""
        tree = self.tree
        variances = self.variances or [self.cells * float(noise.exact_variance) for noise in tree.noises]
        levels = [(self.measured[-1], np.full(tree.numbers, variances[-1]))]
        for level in range(len(tree.sizes) - 2, -1, -1):
            firsts = tree.first_children(tree.sizes[level + 1])
            total, spread = (np.add.reduceat(part, firsts) for part in levels[-1])
            both = 1 / (1 / variances[level] + 1 / spread)
            levels.append((both * (self.measured[level] / variances[level] + total / spread), both))
        return levels[::-1]

    @cached_property
    def leaves(self) -> Floats:  # type: ignore[override]
        (above, _), *levels = self._below
        for estimate, variance in levels:
            firsts = self.tree.first_children(len(estimate))
            total, spread = (np.add.reduceat(part, firsts) for part in (estimate, variance))
            parents = np.arange(len(estimate)) // self.tree.branching
            above = estimate + ((above - total) / spread)[parents] * variance
        return above

    @cached_property
    def total(self) -> float:  # type: ignore[override]
        return float(self._below[0][0][0])

    @cached_property
    def _prefixes(self) -> tuple[Floats, Floats]:
        """a and V at the root of the sum of the leaves up to each number."""
        numbers = np.arange(self.tree.numbers)
        share, rest = np.ones(self.tree.numbers), np.zeros(self.tree.numbers)
        for _, variance in self._below[:0:-1]:
            parents = numbers // self.tree.branching
            firsts = self.tree.first_children(len(variance))
            whole = np.add.reduceat(variance, firsts)[parents]
            before = np.concatenate([[0.0], np.cumsum(variance)])
            left = before[numbers] - before[firsts][parents]
            own = variance[numbers]
            moment = left + share * own
            share, rest = moment / whole, rest + left + share**2 * own - moment**2 / whole
            numbers = parents
        return share, rest

    def deviation(self, quantile: Fraction) -> Floats:
        share, rest = self._prefixes
        root = self._below[0][1][0]
        return np.sqrt(np.maximum((share - float(quantile)) ** 2 * root + rest, 0))


@dataclass(frozen=True)
class FittedSum(FittedCounts):
    """The sum of fits with uncorrelated errors."""

    tree: Tree
    parts: Sequence[FittedTree]

    @cached_property
    def leaves(self) -> Floats:  # type: ignore[override]
        return np.sum([part.leaves for part in self.parts], axis=0)

    @cached_property
    def total(self) -> float:  # type: ignore[override]
        return sum(part.total for part in self.parts)

    def deviation(self, quantile: Fraction) -> Floats:
        return np.sqrt(np.sum([part.deviation(quantile) ** 2 for part in self.parts], axis=0))


def require_numbers(numbers: int) -> None:
    """Raise ValueError if the number of a variable's numbers is out of range."""
    if not 2 <= numbers <= MOST_NUMBERS:
        raise ValueError(f"grid: a variable has from 2 to {MOST_NUMBERS:,} numbers, not {numbers:,}")


def find_sizes(numbers: int, branching: int) -> tuple[int, ...]:
    """The numbers of nodes by level, from the root."""
    sizes = [numbers]
    while sizes[-1] > 1:
        sizes.append(ceil(sizes[-1] / branching))
    return tuple(reversed(sizes))


def make_monotone(values: Floats) -> Floats:
    """The nondecreasing values with the least sum of squared differences (pool adjacent violators)."""
    means: list[float] = []
    sizes: list[int] = []
    for value in values.tolist():
        mean, size = value, 1
        while means and means[-1] > mean:
            mean = (mean * size + means[-1] * sizes[-1]) / (size + sizes[-1])
            size += sizes.pop()
            means.pop()
        means.append(mean)
        sizes.append(size)
    return np.repeat(means, sizes)
