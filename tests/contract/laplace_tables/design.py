"""The mathematics: the noise of every table, and its loss.

A change of one record takes 1 from one count of a table and adds 1 to another, so that a table's L1 sensitivity is 2.
Discrete Laplace noise of scale 2/ε therefore gives ε-DP for bounded neighbors, and tables compose by addition.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from mechanisms.accounting.losses import PureLoss
from mechanisms.accounting.specification import Flavor, Line, Specification
from mechanisms.sampling.noise import DiscreteLaplace

MECHANISM = "discrete Laplace tables"

VERSION = 1
"""Raised when the same key would give other noise: an old draw could not be replayed then."""

SENSITIVITY = 2


@dataclass(frozen=True)
class LaplaceDesign:
    """The released tables and their budgets.

    Attributes:
        budgets: ε by name of the table, exact, for a change of one record.
        unit: the unit that a record describes.
    """

    budgets: Mapping[str, Fraction]
    unit: str

    def noise_of(self, table: str) -> DiscreteLaplace:
        """The noise of every count of a table."""
        return DiscreteLaplace(SENSITIVITY / self.budgets[table])

    def specification(self, dataset: str) -> Specification:
        """The DP specification of all tables together. There are no invariants."""
        lines = tuple(Line(name, PureLoss(self.budgets[name])) for name in sorted(self.budgets))
        flavor = Flavor(
            domain=f"all possible files of {self.unit}s with the variables of {dataset}",
            multiverse=(),
            unit=self.unit,
            changes_per_person=None if self.unit == "person" else 1,
        )
        return Specification(flavor, PureLoss(sum(self.budgets.values(), Fraction())), lines)

    def as_record(self) -> dict[str, Any]:
        """The design as plain values, exact: equal for designs whose draws are the same."""
        return {"budgets": {name: str(budget) for name, budget in self.budgets.items()}}
