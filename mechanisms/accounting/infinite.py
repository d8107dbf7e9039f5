"""The protection loss of a release for which no finite ε holds: ε = ∞.

Methods that offices use without a guarantee of differential privacy have this loss. It stands beside finite losses and
is never added to them: a total that counts it is ∞ too.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, Self

from mechanisms.accounting.rounding import DECIMALS

INFINITY = "∞"


@dataclass(frozen=True)
class InfiniteLoss:
    """ε = ∞: for every finite ε, some event is more than exp(ε) times as probable under one of two neighbors."""

    symbol: ClassVar[str] = "ε"
    output_premetric: ClassVar[str] = "multiplicative distance, with no finite bound"

    def of_group(self, size: int) -> "InfiniteLoss":
        """Group privacy: a group of units loses ∞ too."""
        return self

    def rounded_up(self, places: int = DECIMALS) -> Decimal:
        """Infinity, in any number of places."""
        return Decimal("Infinity")

    def __float__(self) -> float:
        return float("inf")

    def __str__(self) -> str:
        """`∞`."""
        return INFINITY

    def as_record(self) -> dict[str, str]:
        """The loss as text."""
        return {"epsilon": INFINITY}

    @classmethod
    def from_record(cls, record: dict[str, str]) -> Self:
        """The inverse of `as_record`.

        Raises:
            ValueError: if the record is that of another loss.
        """
        if record != cls().as_record():
            raise ValueError("the record is not that of an infinite loss")
        return cls()
