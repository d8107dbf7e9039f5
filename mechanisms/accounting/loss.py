"""The protection loss of pure DP as an exact number.

This module does arithmetic on ε. Swapping's ε is the logarithm of a rational number and a cap is rational, so ε is
stored as a rational number plus the logarithm of one. Sums are then exact, and every comparison is decided.
"""

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from typing import ClassVar, Self

from mechanisms.accounting.rounding import DECIMALS


@dataclass(frozen=True)
class PureLoss:
    """ε = `rational` + ln(`argument`), a loss in the multiplicative distance (pure ε-DP).

    Attributes:
        rational: the rational part.
        argument: the number whose logarithm is added; greater than 0.

    Raises:
        ValueError: if the argument is not positive, or ε is negative.
    """

    symbol: ClassVar[str] = "ε"
    output_premetric: ClassVar[str] = "multiplicative distance (pure DP)"

    rational: Fraction = Fraction(0)
    argument: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if self.argument <= 0:
            raise ValueError("the logarithm's argument must be greater than 0")
        if _sign(self.rational, self.argument) < 0:
            raise ValueError("a protection loss is not negative")

    @classmethod
    def logarithm(cls, argument: Fraction | int) -> Self:
        """ε = ln(argument)."""
        return cls(argument=Fraction(argument))

    def __add__(self, other: "PureLoss") -> "PureLoss":
        return PureLoss(self.rational + other.rational, self.argument * other.argument)

    def of_group(self, size: int) -> "PureLoss":
        """Group privacy: a group of `size` units loses `size` times ε."""
        return PureLoss(self.rational * size, self.argument**size)

    def __le__(self, other: "PureLoss") -> bool:
        return _sign(other.rational - self.rational, other.argument / self.argument) >= 0

    def exceeds(self, limit: Fraction) -> bool:
        """Whether ε is greater than a rational limit."""
        return not self <= PureLoss(limit)

    def rounded_up(self, places: int = DECIMALS) -> Decimal:
        """The smallest decimal with `places` places that is not below ε."""
        unit = Decimal(1).scaleb(-places)
        candidate = _value(self, places + 30).quantize(unit, rounding=ROUND_CEILING, context=Context(prec=200))
        below = candidate - unit
        if below >= 0 and self <= PureLoss(Fraction(below)):
            return below
        return candidate if self <= PureLoss(Fraction(candidate)) else candidate + unit

    def __float__(self) -> float:
        return float(_value(self, 30))

    def __str__(self) -> str:
        """ε without rounding, such as `ln(264332)`, `3/2` or `1 + ln(7/2)`."""
        parts = [str(self.rational)] if self.rational else []
        if self.argument != 1:
            parts.append(f"ln({self.argument})")
        return " + ".join(parts) or "0"

    def as_record(self) -> dict[str, str]:
        """The loss as text, without rounding."""
        return {"rational": str(self.rational), "ln": str(self.argument)}

    @classmethod
    def from_record(cls, record: dict[str, str]) -> Self:
        """The inverse of `as_record`."""
        return cls(Fraction(record["rational"]), Fraction(record["ln"]))


def _value(loss: PureLoss, precision: int) -> Decimal:
    with localcontext(Context(prec=precision)):
        rational = Decimal(loss.rational.numerator) / Decimal(loss.rational.denominator)
        return rational + Decimal(loss.argument.numerator).ln() - Decimal(loss.argument.denominator).ln()


def _sign(rational: Fraction, argument: Fraction) -> int:
    """The exact sign of rational + ln(argument).

    The logarithm of a positive rational number other than 1 is irrational (Lindemann), so the sum is 0 only if both
    parts are 0. In all other cases, enough digits decide.
    """
    if argument == 1:
        return (rational > 0) - (rational < 0)
    precision = 30
    while True:
        with localcontext(Context(prec=precision)):
            # Both logarithms and the division are correctly rounded: five ulps cover all four roundings.
            first = Decimal(rational.numerator) / Decimal(rational.denominator)
            second = Decimal(argument.numerator).ln()
            third = Decimal(argument.denominator).ln()
            total = first + second - third
            error = 5 * max(abs(first), abs(second), abs(third)).scaleb(1 - precision)
            if abs(total) > error:
                return 1 if total > 0 else -1
        precision *= 2
