"""Weights and magnitudes as whole numbers: rounded to multiples of a declared grid, and capped at declared bounds.

Noise that is a multiple of a cell's average weight never hides a record's weight: a change by any other weight leads to
different results, so no ε holds. Therefore every number is rounded to steps of a public grid before it is added up
(`sql/table_builder/steps.sql`), and noise is added in steps. The bounds limit what one record adds, hence the
sensitivity (`hypercube`). Grid and bounds are declared before anyone looks at the data; the number of values that a
bound changes is confidential.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

PLACES = 4
"""The decimals of the numbers to round, as in a decimal column of the CEF."""

LARGEST_FACTOR = 10**15
"""The largest numerator or denominator of a ten-thousandth in steps: 128-bit integers then hold every product."""

LARGEST_STEPS = 2**31
"""The most steps that a record adds; sums over four billion records then fit into 64 bits."""


class GridError(ValueError):
    """A grid or bounds that do not fit the numbers. The message names the field and the rule."""


@dataclass(frozen=True)
class Grid:
    """A grid of steps g > 0, exact, with bounds on a record's number, multiples of g. Numbers outside are moved to the
    nearer bound. `least` and `most` are the bounds in steps; a ten-thousandth is `multiplier` / `divisor` steps."""

    step: Fraction
    lower: Fraction
    upper: Fraction

    def __post_init__(self) -> None:
        for name in ("step", "lower", "upper"):
            if not isinstance(value := getattr(self, name), Fraction):
                # A float stands for the shortest decimal number that is read as it.
                object.__setattr__(self, name, Fraction(str(value)))
        if self.step <= 0:
            raise GridError(f"grid: a step is greater than 0, and this one is {self.step}")
        if max(self.multiplier, self.divisor) > LARGEST_FACTOR:
            raise GridError(f"grid: a step of {float(self.step):g} is too fine, too coarse, or has too many digits")
        for name, bound in (("least", self.lower), ("most", self.upper)):
            if (bound / self.step).denominator != 1:
                raise GridError(f"{name}: {float(bound):g} is not a multiple of the grid's {float(self.step):g}")
            if abs(bound / self.step) > LARGEST_STEPS:
                raise GridError(
                    f"{name}: {float(bound):g} is more than {LARGEST_STEPS:,} steps of {float(self.step):g}"
                )
        if self.lower > self.upper:
            raise GridError(f"most: {float(self.upper):g} is below the least, {float(self.lower):g}")

    @property
    def least(self) -> int:
        return int(self.lower / self.step)

    @property
    def most(self) -> int:
        return int(self.upper / self.step)

    @property
    def multiplier(self) -> int:
        return (1 / (10**PLACES * self.step)).numerator

    @property
    def divisor(self) -> int:
        return (1 / (10**PLACES * self.step)).denominator

    def round(self, ten_thousandths: NDArray[np.int64]) -> NDArray[np.int64]:
        """The steps nearest to numbers, halves away from 0, within the bounds, as in `sql/table_builder/steps.sql`."""
        # In integers of any size: products may exceed 64 bits.
        sizes = np.abs(ten_thousandths).astype(object)
        steps = (2 * sizes * self.multiplier + self.divisor) // (2 * self.divisor)
        return np.clip(np.sign(ten_thousandths) * steps, self.least, self.most).astype(np.int64)
