"""The protection loss of zero-concentrated DP (zCDP), and the zCDP that pure DP implies.

This module does exact arithmetic on ρ. `conversions` converts ρ into (ε, δ); each mechanism's package derives its ρ.
"""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar, Self

from mechanisms.accounting.loss import PureLoss
from mechanisms.accounting.rounding import DECIMALS, ceiling

GENERAL_FACTOR = Fraction(4)
"""The largest factor from unbounded to bounded ρ: a change is a removal and an addition, a group of two."""

_PLACES_OF_EPSILON = 20


@dataclass(frozen=True)
class ConcentratedLoss:
    """ρ, a loss in the normalized Rényi metric: D_α(P ‖ Q) <= ρα for every α > 1.

    Bun and Steinke (2016), Definition 1.1. Bailie, Gong and Meng write ρ² for it.

    Attributes:
        rho: ρ; not negative.

    Raises:
        ValueError: if ρ is negative.
    """

    symbol: ClassVar[str] = "ρ"
    output_premetric: ClassVar[str] = "normalized Rényi metric (zCDP)"

    rho: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.rho < 0:
            raise ValueError("a protection loss is not negative")

    @classmethod
    def of_pure(cls, loss: PureLoss) -> Self:
        """ρ = ε²/2 for pure ε-DP (Bun and Steinke, Proposition 1.4).

        Exact if ε is rational. If ε contains a logarithm, it is first rounded up at its 20th decimal.
        """
        epsilon = loss.rational if loss.argument == 1 else Fraction(loss.rounded_up(_PLACES_OF_EPSILON))
        return cls(epsilon**2 / 2)

    def __add__(self, other: "ConcentratedLoss") -> "ConcentratedLoss":
        """Composition (Bun and Steinke, Lemma 1.7)."""
        return ConcentratedLoss(self.rho + other.rho)

    def __le__(self, other: "ConcentratedLoss") -> bool:
        return self.rho <= other.rho

    def of_group(self, size: int) -> "ConcentratedLoss":
        """Group privacy: a group of `size` units loses size²ρ (Bun and Steinke, Proposition 1.9)."""
        return ConcentratedLoss(self.rho * size**2)

    def bounded(self, factor: Fraction = GENERAL_FACTOR) -> "ConcentratedLoss":
        """The loss of changing one unit (bounded neighbors), where ρ is that of adding or removing one (unbounded).

        Args:
            factor: 4 in general. A mechanism known to lose less when a unit changes gives a smaller one: PHSafe
                loses 2ρ (Sexton et al., Theorems 3 and 4).

        Raises:
            ValueError: if the factor is not between 0 and 4.
        """
        if not 0 <= factor <= GENERAL_FACTOR:
            raise ValueError(f"the factor from unbounded to bounded ρ lies between 0 and {GENERAL_FACTOR}: {factor}")
        return ConcentratedLoss(self.rho * factor)

    def rounded_up(self, places: int = DECIMALS) -> Decimal:
        """The smallest decimal with `places` places that is not below ρ."""
        return ceiling(self.rho, places)

    def __float__(self) -> float:
        return float(self.rho)

    def __str__(self) -> str:
        """ρ without rounding, such as `293764/114921`."""
        return str(self.rho)

    def as_record(self) -> dict[str, str]:
        """The loss as text, without rounding."""
        return {"rho": str(self.rho)}

    @classmethod
    def from_record(cls, record: dict[str, str]) -> Self:
        """The inverse of `as_record`."""
        return cls(Fraction(record["rho"]))
