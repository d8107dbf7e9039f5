"""The rules and the guarantee of designs that measure lines of counts with noise, and the error of all designs.

A line has a budget: ρ or ε, exact and for unbounded neighbors (one record added or removed). The charge is the loss for
bounded neighbors (one record changed in any way). It is twice the budget; the design of each mechanism derives why.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from mechanisms.accounting.losses import ConcentratedLoss, Loss
from mechanisms.accounting.pairs import Pair, SpreadPair
from mechanisms.accounting.specification import Flavor, Line, Specification
from mechanisms.noise import Noise
from mechanisms.sampling.noise import DiscreteGaussian
from mechanisms.sampling.quantiles import Uncapped
from mechanisms.states import PUERTO_RICO, STATES

BOUNDED_FACTOR = 2
"""The factor from a budget for unbounded neighbors to the loss for bounded ones, for both ρ and ε."""

LARGEST_BUDGET = 1000
"""A greater budget would give no protection: at ρ = 1000 and Δ = 2, the noise is 0 except in one draw in e^250."""

LARGEST_DENOMINATOR = 10**12
"""The largest denominator of a design's numbers: enough for any number written by hand."""


class DesignError(ValueError):
    """A design that cannot be carried out. The message names the field and the rule."""


@dataclass(frozen=True)
class LinesDesign(ABC):
    """Lines of counts that are measured with noise for some states."""

    states: tuple[str, ...]
    noise: Noise

    unit: ClassVar[str] = "person"
    changes_per_unit: ClassVar[int | None] = None
    multiverse: ClassVar[tuple[str, ...]]
    """The invariants of every release, in words."""

    @property
    @abstractmethod
    def budgets_by_line(self) -> Sequence[tuple[str, Fraction]]:
        """The labels and budgets of all lines, in order."""

    @property
    @abstractmethod
    def changes_by_line(self) -> Sequence[tuple[Uncapped, int]]:
        """By line, in order: the least noise of a number, and the most numbers that one changed record changes."""

    @abstractmethod
    def domain(self, dataset: str) -> str:
        """The possible data sets, in words, by the name of the dataset."""

    def require_states(self) -> None:
        """Raise DesignError if there are no states, or one is unknown or given twice."""
        if not self.states:
            raise DesignError("states: at least one state is released")
        for code, times in Counter(self.states).items():
            if code not in STATES:
                raise DesignError(
                    f"states: {code} is not the FIPS code of a state, the District of Columbia or {STATES[PUERTO_RICO]}"
                )
            if times > 1:
                raise DesignError(f"states: {code} is given {times} times")

    def require_budget(self, field: str, budget: Fraction) -> None:
        """Raise DesignError if a budget is negative, too large or too fine."""
        if budget < 0:
            raise DesignError(f"{field}: a budget is not negative, and this one is {budget}")
        if budget > LARGEST_BUDGET:
            raise DesignError(
                f"{field}: {self.noise.symbol} = {float(budget):g} leaves hardly any noise; the most is "
                f"{LARGEST_BUDGET}"
            )
        if budget.denominator > LARGEST_DENOMINATOR:
            raise DesignError(f"{field}: a budget's denominator is at most a trillion")

    @property
    def lines(self) -> tuple[Line, ...]:
        """The losses for one record changed, which are charged."""
        lines = []
        for (label, budget), (noise, numbers) in zip(self.budgets_by_line, self.changes_by_line, strict=True):
            loss, pairs = self.noise.loss(BOUNDED_FACTOR * budget), tuple[Pair, ...]()
            if isinstance(loss, ConcentratedLoss) and isinstance(noise, DiscreteGaussian):
                pairs = (SpreadPair(loss.rho, noise.variance, numbers),)
            lines.append(Line(label, loss, pairs))
        return tuple(lines)

    @cached_property
    def unbounded(self) -> Loss:
        """The loss of the whole release for one record added or removed: Σρ or Σε."""
        return self.noise.loss(self._total)

    @cached_property
    def bounded(self) -> Loss:
        """The loss of the whole release for one record changed: 2Σρ or 2Σε."""
        return self.noise.loss(BOUNDED_FACTOR * self._total)

    @property
    def _total(self) -> Fraction:
        return sum((budget for _, budget in self.budgets_by_line), Fraction())

    def specification(self, dataset: str) -> Specification:
        """The DP specification that is charged: for bounded neighbors, with all lines."""
        flavor = Flavor(
            domain=self.domain(dataset),
            multiverse=self.multiverse,
            unit=self.unit,
            changes_per_person=self.changes_per_unit,
            output_premetric=self.bounded.output_premetric,
        )
        return Specification(flavor, self.bounded, self.lines)
