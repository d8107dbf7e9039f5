"""The parameters of suppression."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mechanisms.design import DesignError

MECHANISM = "suppression"

VERSION = 1
"""Increase it when the same counts would give other suppressed cells."""


@dataclass(frozen=True)
class Dominance:
    """When few records make up most of a cell's total of a magnitude, which is not negative.

    Attributes:
        magnitude: the column.
        p: the p% rule: the second greatest contributor can tell the greatest contribution from the total to within p%.
        n, k: the (n, k) rule: the n greatest contributions are over k% of the total.
        holding: the column whose equal values make records one contributor; None if every record is one.
    """

    magnitude: str
    p: int | None = None
    n: int | None = None
    k: int | None = None
    holding: str | None = None

    def __post_init__(self) -> None:
        if (self.p is None) == (self.n is None and self.k is None) or (self.n is None) != (self.k is None):
            raise DesignError("dominance: either p, or n and k")

    @property
    def contributions(self) -> int:
        """The number of greatest contributions to a cell that the rule uses."""
        return self.n or 2

    def measure_need(self, total: int, greatest: Sequence[int]) -> int:
        """The distance below and above the total of a cell that must stay possible: at least 1 if few records dominate
        the cell, else 0. `greatest` has up to 2 or n of the greatest contributions, in descending order.

        p% rule: p% of the greatest, less all but the two greatest; (n, k) rule: 100/k of the n greatest, less the
        total (Hundepool et al., Statistical Disclosure Control, Wiley 2012, chapter 4).
        """
        if self.p is not None:
            need, scale = self.p * max(greatest, default=0) - 100 * (total - sum(greatest[:2])), 100
        else:
            assert self.n is not None
            assert self.k is not None
            need, scale = 100 * sum(greatest[: self.n]) - self.k * total, self.k
        return max(0, -(-need // scale))


@dataclass(frozen=True)
class SuppressionDesign:
    """The rules by which cells are suppressed, and the precision with which they may be known.

    Attributes:
        of: units or persons.
        threshold: counts from 1 to below the threshold are suppressed.
        width: the least difference of the greatest and the least count that a suppressed cell can have.
        tables: by name, the variables, in alphabetical order.
        dominance: the rule for the magnitude whose totals the tables have; None without a magnitude.

    Raises DesignError if the width is more than the threshold alone leaves open.
    """

    of: str
    threshold: int
    width: int
    tables: tuple[tuple[str, tuple[str, ...]], ...]
    dominance: Dominance | None = None

    def __post_init__(self) -> None:
        if self.width > self.threshold - 2:
            raise DesignError(
                f"width: at most {self.threshold - 2}, because a count below the threshold is from 1 to "
                f"{self.threshold - 1}"
            )

    @property
    def counted(self) -> tuple[str, ...]:
        """All variables, the magnitude, and the holding."""
        rule = self.dominance
        further = () if rule is None else (rule.magnitude, *([rule.holding] if rule.holding else []))
        return (*self.variables, *further)

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables, in alphabetical order."""
        return tuple(sorted({name for _, names in self.tables for name in names}))

    def as_record(self) -> dict[str, Any]:
        tables = {name: list(variables) for name, variables in self.tables}
        record: dict[str, Any] = {"of": self.of, "threshold": self.threshold, "width": self.width, "tables": tables}
        if self.dominance is None:
            return record
        fields = vars(self.dominance).items()
        return record | {"dominance": {name: value for name, value in fields if name != "holding" or value}}
