"""The protection loss of approximate DP, (ε, δ).

This module does arithmetic on (ε, δ). `conversions` computes an ε for a given δ.
"""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar, Self

from mechanisms.accounting.loss import PureLoss
from mechanisms.accounting.rounding import DECIMALS, decimal_text, exponential_above

_DIGITS = 40


@dataclass(frozen=True)
class ApproximateLoss:
    """(ε, δ): P(S) <= exp(ε) Q(S) + δ for every event S (Dwork et al., 2006).

    Attributes:
        epsilon: ε, exactly.
        delta: δ, strictly between 0 and 1. A loss with δ = 0 is a `PureLoss`.

    Raises:
        ValueError: if δ is not strictly between 0 and 1.
    """

    symbol: ClassVar[str] = "ε"
    output_premetric: ClassVar[str] = "multiplicative distance but for δ (approximate DP)"

    epsilon: PureLoss
    delta: Fraction

    def __post_init__(self) -> None:
        require_delta(self.delta)

    def __add__(self, other: "ApproximateLoss") -> "ApproximateLoss":
        """Basic composition: both ε and δ add up (Dwork and Roth, 2014, Theorem 3.16).

        Raises:
            ValueError: if the δs add up to 1 or more, which guarantees nothing.
        """
        return ApproximateLoss(self.epsilon + other.epsilon, self.delta + other.delta)

    def __le__(self, other: "ApproximateLoss") -> bool:
        """Whether neither ε nor δ is greater. Two losses may be incomparable."""
        return self.epsilon <= other.epsilon and self.delta <= other.delta

    def of_group(self, size: int) -> "ApproximateLoss":
        """Group privacy: ε becomes kε and δ becomes δ(1 + e^ε + … + e^((k-1)ε)), rounded up, for a size k.

        By induction on the size: each further unit multiplies the δ so far by e^ε and adds δ.

        Raises:
            ValueError: if the size is below 1, or δ grows to 1 or more, which guarantees nothing.
        """
        if size < 1:
            raise ValueError(f"a group has at least one unit, not {size}")
        rational, argument = self.epsilon.rational, self.epsilon.argument
        growth = sum(argument**times * exponential_above(rational * times, _DIGITS) for times in range(size))
        return ApproximateLoss(self.epsilon.of_group(size), self.delta * growth)

    def rounded_up(self, places: int = DECIMALS) -> Decimal:
        """The smallest decimal with `places` places that is not below ε."""
        return self.epsilon.rounded_up(places)

    def __float__(self) -> float:
        return float(self.epsilon)

    def __str__(self) -> str:
        """ε and δ without rounding, such as `3/2 at δ = 1/10000000000`."""
        return f"{self.epsilon} at δ = {decimal_text(self.delta)}"

    def as_record(self) -> dict[str, str]:
        """The loss as text, without rounding."""
        return self.epsilon.as_record() | {"delta": str(self.delta)}

    @classmethod
    def from_record(cls, record: dict[str, str]) -> Self:
        """The inverse of `as_record`."""
        return cls(PureLoss.from_record(record), Fraction(record["delta"]))


def require_delta(delta: Fraction) -> None:
    """Raise ValueError unless 0 < δ < 1."""
    if not 0 < delta < 1:
        raise ValueError(f"δ must lie strictly between 0 and 1 (from 1 on nothing is guaranteed), not {float(delta)}")
