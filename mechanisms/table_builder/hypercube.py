"""A hypercube: its measured tables, the distribution of each table's noise, and the loss.

A hypercube of k variables has an inner table by all of them, and a margin by every other nonempty subset: 2^k − 1
tables (the report on the SIPP, Appendix C). `fitting` makes measured tables agree, and `asking` builds other tables.

**Loss.** The budget is the loss for adding or removing one record (unbounded neighbors). A record adds a whole number x
with least <= x <= most to one cell of every table: 1 to a count, its weight or magnitude in steps of a grid otherwise
(`grid_values`). So a table's sensitivity is L = max(|least|, |most|), in L1 as in L2.

- Discrete Laplace noise of scale L/ε loses ε: it is the exponential mechanism with utility −|a − b|/L, without the
  general factor of 2, as its normalizer is the same for all a.
- With a cap D, the L greatest noises lead to sums that are possible for one of the neighbors alone. All others are
  within e^ε. So it loses (ε, δ), where the least δ is the probability of the L greatest noises, q^D/Z for counts.
- Discrete Gaussian noise of variance L²/2ρ loses ρ (Canonne, Kamath and Steinke, 2020, Theorem 4).
- A p-table loses (ε, δ) with the least δ that its probabilities give at a declared ε (`judging`).

The tables' noises are independent, so their losses add up; each table has a share of the budget. Under cell consistency
the noises are not independent: a set of records has the same noise in every table, which tells neighbors apart with
certainty (papers/002). No finite loss holds then.

Changing one record (bounded neighbors) changes at most two cells of a table, by at most L each, or one cell by at most
most − least. The L1 distance is at most 2L, so ε becomes 2ε. The squared L2 distance is at most
max(2L², (most − least)²), so ρ becomes 2ρ unless a magnitude can be of either sign; it never exceeds the 4ρ of group
privacy. With a cap, δ becomes 2δ by basic composition of the two cells, or the probability of the most − least greatest
noises if that is more. Group privacy of two would give (2ε, (1 + e^ε)δ) and 4ρ.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import cached_property, reduce
from itertools import combinations
from math import prod
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.losses import ApproximateLoss, ConcentratedLoss, InfiniteLoss, Loss, PureLoss
from mechanisms.accounting.pairs import CappedPair, GaussianPair, LaplacePair, Pair, SpreadPair, TabulatedPair
from mechanisms.accounting.specification import Line
from mechanisms.sampling.noise import CappedLaplace, DiscreteGaussian, DiscreteLaplace, Distribution
from mechanisms.table_builder.judging import judge, neighbors
from mechanisms.table_builder.p_table import PTable

MECHANISM, VERSION = "table builder", 1
"""The name in draw ids and random streams, and the version, which increases when a stream would give other noise."""

MOST_VARIABLES = 8
"""The most variables of a hypercube: its 255 tables share one budget."""

LARGEST_RATE = 400
"""The largest ε/L or ρ/L² of a table. Noise then differs from 0 with a probability below 10^−170: greater budgets
publish exact numbers, and floats hold neither their variances nor e^ε."""

LARGEST_BUDGET = 100_000
"""The largest ε or ρ of all tables, which sums of large amounts reach first. A certificate could not state e^ε of far
greater ones."""

Table = tuple[str, ...]
"""A table of a hypercube: its variables, in the hypercube's order."""


class HypercubeError(ValueError):
    """A hypercube that cannot be measured. The message names the field and the rule."""


class Margins(StrEnum):
    """Which tables of a hypercube are measured, and whether they agree."""

    SUMMED = "summed"
    """Only the inner table is measured; margins are sums of its cells."""
    INDEPENDENT = "independent"
    """Every table is measured with its own noise. Margins are not the sums of inner cells."""
    FITTED = "fitted"
    """Every table is measured, and the inner table that fits all measurements best is published with its margins."""


class NoiseFamily(StrEnum):
    """The distribution of the noise in cells."""

    LAPLACE = "laplace"
    """Discrete Laplace; the budget is ε in pure DP, or in approximate DP with a cap."""
    GAUSSIAN = "gaussian"
    """Discrete Gaussian; the budget is ρ in zCDP."""
    P_TABLE = "p_table"
    """The probabilities of a p-table; the budget is the ε at which its δ is charged."""


class Consistency(StrEnum):
    """What determines the noise of a cell."""

    QUERY = "query"
    """The cell and the table: the noises of different cells and tables are independent."""
    CELL = "cell"
    """The set of the cell's records alone: the same set has the same noise in every table of the hypercube."""


@dataclass(frozen=True)
class Hypercube:
    """The tables of a hypercube, with their noise.

    Attributes:
        sizes: by variable, the number of its categories, in the order of the inner table's dimensions.
        budget: exact ε or ρ of all tables together, for adding or removing one record. It may be 0 for p-tables, which
            then have no finite loss. It is 0 with cell consistency, where the same records have the same noise in every
            table.
        shares: by table, its exact share of the budget; together 1, equal by default. Tables without a share are not
            measured. If margins are summed, the inner table has the whole budget.
        cap: D, the greatest discrete Laplace noise in steps of the grid; None for no cap.
        least, most: the least and the greatest number of steps of the grid that a record can add to its cell.
    """

    sizes: Mapping[str, int]
    budget: Fraction
    noise: NoiseFamily = NoiseFamily.LAPLACE
    margins: Margins = Margins.SUMMED
    shares: Mapping[Table, Fraction] = field(default_factory=dict)
    cap: int | None = None
    least: int = 0
    most: int = 1
    p_table: PTable | None = None
    consistency: Consistency = Consistency.QUERY

    def __post_init__(self) -> None:
        if not 1 <= len(self.sizes) <= MOST_VARIABLES:
            raise HypercubeError(f"variables: a hypercube has from 1 to {MOST_VARIABLES}, not {len(self.sizes)}")
        for name, size in self.sizes.items():
            if size < 1:
                raise HypercubeError(f"variables: {name} has no category")
        if self.consistency is Consistency.CELL and self.p_table is None:
            raise HypercubeError("consistency: cell consistency is for p-tables")
        if self.budget < 0 or (not self.budget and self.p_table is None):
            raise HypercubeError(f"budget: must be greater than 0, and is {self.budget}")
        if self.least > self.most or self.least == self.most == 0:
            raise HypercubeError("bounds: a record adds from a least to a greatest number of steps, not always 0")
        self._check_shares()
        self._check_rate()
        self._check_cap()
        self._check_p_table()

    def _check_shares(self) -> None:
        if not self.shares:
            return
        if self.margins is Margins.SUMMED:
            raise HypercubeError("shares: summed margins are not measured; the inner table has the whole budget")
        for table, share in self.shares.items():
            if table not in self._subsets:
                raise HypercubeError(f"shares: the hypercube has no table by {', '.join(table) or 'no variable'}")
            if share <= 0:
                raise HypercubeError(f"shares: {', '.join(table)}: a share is greater than 0; leave the table out")
        if self.inner not in self.shares:
            raise HypercubeError("shares: the table by all variables is always measured")
        if (total := sum(self.shares.values())) != 1:
            raise HypercubeError(f"shares: they add up to {total}, not to 1")

    def _check_rate(self) -> None:
        if self.budget > LARGEST_BUDGET:
            raise HypercubeError(f"budget: {self.budget} protects nobody; a hypercube has at most {LARGEST_BUDGET:,}")
        for table in self.tables:
            if self.budget_of(table) > self.largest_of_table:
                raise HypercubeError(
                    f"budget: {self.budget_of(table)} for the table by {', '.join(table)} protects nobody; a table has "
                    f"at most {self.largest_of_table:,}"
                )

    def _check_cap(self) -> None:
        if self.cap is None:
            return
        if self.noise is not NoiseFamily.LAPLACE:
            raise HypercubeError("cap: only discrete Laplace noise is capped")
        try:
            self.bounded  # noqa: B018 - computed here, because it may be impossible
        except ValueError as error:
            raise HypercubeError(f"cap: {self.cap} is too small, or out of range: {error}") from None

    def _check_p_table(self) -> None:
        if (self.noise is NoiseFamily.P_TABLE) != (self.p_table is not None):
            raise HypercubeError("p_table: the noise is that of a p-table if one is given, and only then")
        if self.p_table is None:
            return
        if (self.least, self.most) != (0, 1):
            raise HypercubeError("p_table: p-tables are for counts, not for sums of weights or magnitudes")
        if self.margins is Margins.FITTED:
            raise HypercubeError("p_table: its variance depends on the count, so its tables are not fitted")
        if self.consistency is Consistency.CELL:
            if self.budget:
                raise HypercubeError("budget: with cell consistency no finite loss holds; declare none")
            if not self.p_table.zero_stays_zero:
                raise HypercubeError(
                    "p_table: zero stays zero under cell consistency, where all empty cells have the same key"
                )
            return
        try:
            self.bounded  # noqa: B018 - computed here, because it may be impossible
        except ValueError:
            raise HypercubeError(
                f"p_table: at ε = {self.budget} its δ over all tables is 1 or more, which guarantees nothing; "
                "declare a greater ε, another p-table, or no ε, if a release without a finite loss is allowed"
            ) from None

    @property
    def is_bounded(self) -> bool:
        return self.budget > 0

    @cached_property
    def inner(self) -> Table:
        return tuple(self.sizes)

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The measured tables: the inner one first, then margins by fewer and fewer variables."""
        if self.margins is Margins.SUMMED:
            return (self.inner,)
        return tuple(table for table in self._subsets if not self.shares or table in self.shares)

    @cached_property
    def _subsets(self) -> tuple[Table, ...]:
        counts = range(len(self.sizes), 0, -1)
        return tuple(table for count in counts for table in combinations(self.sizes, count))

    def shape(self, table: Table) -> tuple[int, ...]:
        return tuple(self.sizes[name] for name in table)

    def cells(self, table: Table) -> int:
        return prod(self.shape(table))

    def margin(self, inner: NDArray[Any], table: Table) -> NDArray[Any]:
        """The marginal table of an inner table by the variables of `table`, shape `shape(table)`. Numbers are added up.
        A cell of a mask is True if any of its inner cells is."""
        others = tuple(place for place, name in enumerate(self.sizes) if name not in table)
        return np.asarray(inner.any(axis=others) if inner.dtype == np.bool_ else inner.sum(axis=others))

    @property
    def sensitivity(self) -> int:
        """L, the most that one record adds to a cell, in steps of the grid: 1 for counts."""
        return max(abs(self.least), abs(self.most))

    @property
    def largest_of_table(self) -> int:
        """The upper bound of the ε or ρ that a table may have."""
        rate = LARGEST_RATE * self.sensitivity ** (2 if self.noise is NoiseFamily.GAUSSIAN else 1)
        return min(rate, LARGEST_BUDGET)

    @property
    def total_sensitivity(self) -> int:
        """The L1 distance of all measured tables together, for adding or removing one record."""
        return self.sensitivity * len(self.tables)

    def budget_of(self, table: Table) -> Fraction:
        """ε or ρ of a measured table."""
        if table not in self.tables:
            raise KeyError(f"the table by {', '.join(table)} is not measured")
        return self.budget * (self.shares[table] if self.shares else Fraction(1, len(self.tables)))

    def distribution(self, table: Table) -> Distribution:
        """The noise of every cell of a measured table, in steps of the grid."""
        budget = self.budget_of(table)
        if self.p_table is not None:
            raise TypeError("the noise of a p-table depends on the count")
        if self.noise is NoiseFamily.GAUSSIAN:
            return DiscreteGaussian(self.sensitivity**2 / (2 * budget))
        scale = self.sensitivity / budget
        return DiscreteLaplace(scale) if self.cap is None else CappedLaplace(scale, self.cap)

    def variance(self, table: Table) -> Decimal:
        """The variance of the noise of a cell of a measured table, in squared steps; for p-tables, the widest row's."""
        return self.p_table.exact_variance if self.p_table else self.distribution(table).exact_variance

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """By measured table, the loss for one record changed; empty if it is infinite. This loss is charged."""
        return tuple(
            Line(" × ".join(table), self._find_bounded(table), self._find_pairs(table))
            for table in self.tables
            if self.is_bounded
        )

    @cached_property
    def unbounded(self) -> Loss:
        """The loss of all tables together for one record added or removed."""
        return _total([self._find_unbounded(table) for table in self.tables if self.is_bounded])

    @cached_property
    def bounded(self) -> Loss:
        """The loss of all tables together for one record changed. This loss is charged."""
        return _total([line.loss for line in self.lines])

    @property
    def bounded_delta(self) -> Fraction | None:
        """The least δ of all tables together at the ε of `bounded`, by the exact hockey-stick divergence; None if the
        hypercube has neither a cap nor a p-table with a finite loss.

        With a cap, δ is the probability that some noise leads to a sum that is possible under one neighbor alone: 1 − Π
        (1 − δ_T)² over the tables, where δ_T is this probability for one cell of table T. For several tables of
        p-tables or of magnitudes of either sign, δ is an upper bound, as no change is the worst one for every table.
        """
        if self.p_table is not None and self.is_bounded:
            deltas = [judge(self.p_table, PureLoss(self.budget_of(table))).changed_exactly for table in self.tables]
        elif self.cap is not None:
            deltas = [self._far(table, lambda one: 1 - (1 - one) ** 2) for table in self.tables]
        else:
            return None
        return 1 - prod((1 - delta for delta in deltas), start=Fraction(1))

    def as_record(self) -> dict[str, Any]:
        """The design as exact plain values, which are equal for hypercubes with the same draws."""
        return {
            "sizes": dict(self.sizes),
            "noise": self.noise.value,
            "cap": self.cap,
            "budgets": {" × ".join(table): str(self.budget_of(table)) for table in self.tables},
            "bounds": [self.least, self.most],
            **({"p_table": self.p_table.version, "consistency": self.consistency.value} if self.p_table else {}),
        }

    def _find_unbounded(self, table: Table) -> Loss:
        budget = self.budget_of(table)
        if self.p_table is not None:
            judgment = judge(self.p_table, PureLoss(budget))
            return _with_delta(judgment.epsilon, judgment.delta)
        noise = self.distribution(table)
        if isinstance(noise, CappedLaplace):
            return ApproximateLoss(PureLoss(budget), noise.greatest(self.sensitivity))
        return PureLoss(budget) if self.noise is NoiseFamily.LAPLACE else ConcentratedLoss(budget)

    def _find_bounded(self, table: Table) -> Loss:
        budget = self.budget_of(table)
        if self.p_table is not None:
            judgment = judge(self.p_table, PureLoss(budget))
            return _with_delta(judgment.epsilon.of_group(2), 2 * judgment.delta)
        if self.cap is not None:
            return ApproximateLoss(PureLoss(2 * budget), self._far(table, lambda one: 2 * one))
        if self.noise is NoiseFamily.LAPLACE:
            return PureLoss(2 * budget)
        squared = max(2 * self.sensitivity**2, (self.most - self.least) ** 2)
        return ConcentratedLoss(budget * Fraction(squared, self.sensitivity**2))

    def _find_pairs(self, table: Table) -> tuple[Pair, ...]:
        """Two cells that change by up to L each, which also dominate one cell that changes by up to L; of a p-table, a
        count that falls and one that rises. If a record may add amounts of both signs, one cell can change by more:
        both are bounded together if the noise is Gaussian, and there is no pair otherwise."""
        if self.p_table is not None:
            return tuple(map(TabulatedPair, neighbors(self.p_table)))
        noise, loss = self.distribution(table), self._find_bounded(table)
        if self.most - self.least > self.sensitivity:
            if isinstance(noise, DiscreteGaussian) and isinstance(loss, ConcentratedLoss):
                return (SpreadPair(loss.rho, noise.variance, 2),)
            return ()
        if isinstance(noise, DiscreteGaussian):
            return (GaussianPair(noise.variance, self.sensitivity),) * 2
        if isinstance(noise, DiscreteLaplace):
            return (LaplacePair(noise.scale, self.sensitivity),) * 2
        return (CappedPair(noise.scale, noise.cap, self.sensitivity),) * 2

    def _far(self, table: Table, of_two: Callable[[Fraction], Fraction]) -> Fraction:
        """The probability of sums that are possible under one neighbor alone if a record changes: in two cells that
        differ by L, from the probability in one; or in one cell that differs by most − least."""
        noise = self.distribution(table)
        assert isinstance(noise, CappedLaplace)
        return max(of_two(noise.greatest(self.sensitivity)), noise.greatest(self.most - self.least))


def _total(losses: list[Loss]) -> Loss:
    pure = [loss for loss in losses if isinstance(loss, PureLoss)]
    approximate = [loss for loss in losses if isinstance(loss, ApproximateLoss)]
    if approximate:
        total = reduce(add, approximate)
        return ApproximateLoss(reduce(add, pure, total.epsilon), total.delta)
    return reduce(add, losses) if losses else InfiniteLoss()


def _with_delta(epsilon: PureLoss, delta: Fraction) -> Loss:
    return ApproximateLoss(epsilon, delta) if delta else epsilon
