"""The names of the two distributions of noise without a cap. `mechanisms.sampling` draws from them."""

from enum import StrEnum
from fractions import Fraction

from mechanisms.accounting.losses import ConcentratedLoss, Loss, PureLoss


class Noise(StrEnum):
    """The distribution of the noise, which determines the output premetric."""

    GAUSSIAN = "gaussian"
    """Discrete Gaussian; budgets are ρ under zCDP."""
    LAPLACE = "laplace"
    """Discrete Laplace; budgets are ε under pure DP."""

    @property
    def symbol(self) -> str:
        return "ρ" if self is Noise.GAUSSIAN else "ε"

    def loss(self, budget: Fraction) -> Loss:
        return ConcentratedLoss(budget) if self is Noise.GAUSSIAN else PureLoss(budget)
