"""Protection losses as exact values: pure DP (ε), zCDP (ρ), approximate DP (ε, δ), and infinite loss (ε = ∞).

Swapping's ε is the logarithm of a rational number and a cap is rational, so ε is stored as a rational number plus the
logarithm of one. Sums are then exact, and every comparison is decided. `composition` adds losses of several kinds.
"""

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from numbers import Rational
from typing import ClassVar, Self

from mechanisms.accounting.rounding import (
    DECIMALS,
    as_decimal,
    bound_exponential,
    format_decimal,
    format_decimal_above,
    read_fraction,
    round_up,
    write_fraction,
)

_PLACES_OF_EPSILON = 20
_DIGITS = 40
INFINITY = "∞"


@dataclass(frozen=True)
class PureLoss:
    """ε = `rational` + ln(`argument`) >= 0, a loss in the multiplicative distance (pure ε-DP)."""

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
        return cls(argument=Fraction(argument))

    def __add__(self, other: "PureLoss") -> "PureLoss":
        return PureLoss(self.rational + other.rational, self.argument * other.argument)

    def of_group(self, size: int) -> "PureLoss":
        """Group privacy: a group of `size` units loses `size` times ε."""
        return PureLoss(self.rational * size, self.argument**size)

    def __le__(self, other: "PureLoss") -> bool:
        return _sign(other.rational - self.rational, other.argument / self.argument) >= 0

    def round_up(self, places: int = DECIMALS) -> Decimal:
        """The smallest decimal with `places` places that is not below ε."""
        unit = Decimal(1).scaleb(-places)
        nearly, _ = _evaluate(self.rational, self.argument, places + 30)
        candidate = nearly.quantize(unit, rounding=ROUND_CEILING, context=Context(prec=200))
        below = candidate - unit
        if below >= 0 and self <= PureLoss(Fraction(below)):
            return below
        return candidate if self <= PureLoss(Fraction(candidate)) else candidate + unit

    def __float__(self) -> float:
        return float(_evaluate(self.rational, self.argument, 30)[0])

    def __str__(self) -> str:
        """ε without rounding, such as `ln(264332)`, `3/2` or `1 + ln(7/2)`."""
        parts = [write_fraction(self.rational)] if self.rational else []
        if self.argument != 1:
            parts.append(f"ln({write_fraction(self.argument)})")
        return " + ".join(parts) or "0"

    def as_record(self) -> dict[str, str]:
        return {"rational": write_fraction(self.rational), "ln": write_fraction(self.argument)}

    @classmethod
    def from_record(cls, record: dict[str, str]) -> Self:
        return cls(read_fraction(record["rational"]), read_fraction(record["ln"]))


@dataclass(frozen=True)
class ConcentratedLoss:
    """ρ >= 0, a loss in the normalized Rényi metric: D_α(P ‖ Q) <= ρα for every α > 1 (Bun and Steinke, 2016,
    Definition 1.1). Bailie, Gong and Meng write ρ² for it."""

    symbol: ClassVar[str] = "ρ"
    output_premetric: ClassVar[str] = "normalized Rényi metric (zCDP)"

    rho: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.rho < 0:
            raise ValueError("a protection loss is not negative")

    @classmethod
    def of_pure(cls, loss: PureLoss) -> Self:
        """ρ = ε²/2 for pure ε-DP (Bun and Steinke, Proposition 1.4); a logarithm is rounded up at its 20th decimal."""
        epsilon = loss.rational if loss.argument == 1 else Fraction(loss.round_up(_PLACES_OF_EPSILON))
        return cls(epsilon**2 / 2)

    def __add__(self, other: "ConcentratedLoss") -> "ConcentratedLoss":
        """Composition (Bun and Steinke, Lemma 1.7)."""
        return ConcentratedLoss(self.rho + other.rho)

    def __le__(self, other: "ConcentratedLoss") -> bool:
        return self.rho <= other.rho

    def of_group(self, size: int) -> "ConcentratedLoss":
        """Group privacy: a group of `size` units loses size²ρ (Bun and Steinke, Proposition 1.9)."""
        return ConcentratedLoss(self.rho * size**2)

    def round_up(self, places: int = DECIMALS) -> Decimal:
        return round_up(self.rho, places)

    def __float__(self) -> float:
        return float(self.rho)

    def __str__(self) -> str:
        return str(self.rho)

    def as_record(self) -> dict[str, str]:
        return {"rho": str(self.rho)}

    @classmethod
    def from_record(cls, record: dict[str, str]) -> Self:
        return cls(Fraction(record["rho"]))


@dataclass(frozen=True)
class ApproximateLoss:
    """(ε, δ), 0 < δ < 1: P(S) <= exp(ε) Q(S) + δ for every event S (Dwork et al., 2006)."""

    symbol: ClassVar[str] = "ε"
    output_premetric: ClassVar[str] = "multiplicative distance but for δ (approximate DP)"
    basis: ClassVar[str] = ""

    epsilon: PureLoss
    delta: Fraction

    def __post_init__(self) -> None:
        require_delta(self.delta)

    def __add__(self, other: "ApproximateLoss") -> "ApproximateLoss":
        """Basic composition (Dwork and Roth, 2014, Theorem 3.16). Raises ValueError if the δs add up to 1 or more."""
        return ApproximateLoss(self.epsilon + other.epsilon, self.delta + other.delta)

    def __le__(self, other: "ApproximateLoss") -> bool:
        """Whether neither ε nor δ is greater. Two losses may be incomparable."""
        return self.epsilon <= other.epsilon and self.delta <= other.delta

    def of_group(self, size: int) -> "ApproximateLoss":
        """Group privacy: ε becomes kε and δ becomes δ(1 + e^ε + … + e^((k-1)ε)), rounded up, for a size k: each further
        unit multiplies the δ so far by e^ε and adds δ. Raises ValueError if δ grows to 1 or more, which is no
        guarantee."""
        if size < 1:
            raise ValueError(f"a group has at least one unit, not {size}")
        rational, argument = self.epsilon.rational, self.epsilon.argument
        growth = sum(argument**times * bound_exponential(rational * times, _DIGITS) for times in range(size))
        return ApproximateLoss(self.epsilon.of_group(size), self.delta * growth)

    def round_up(self, places: int = DECIMALS) -> Decimal:
        return self.epsilon.round_up(places)

    def __float__(self) -> float:
        return float(self.epsilon)

    def __str__(self) -> str:
        return f"{self.epsilon} at δ = {format_decimal(self.delta)}{self.basis}"

    def as_record(self) -> dict[str, str]:
        return self.epsilon.as_record() | {"delta": str(self.delta)}

    @classmethod
    def from_record(cls, record: dict[str, str]) -> Self:
        return cls(PureLoss.from_record(record), Fraction(record["delta"]))


@dataclass(frozen=True)
class CurveLoss(ApproximateLoss):
    """A cap (ε, δ) on the privacy curve of all charges together, or a bound of that curve from
    `risks.compose_charges`."""

    basis: ClassVar[str] = " by the curve"


@dataclass(frozen=True)
class InfiniteLoss:
    """ε = ∞: for every finite ε, some event is more than exp(ε) times as probable under one of two neighbors."""

    symbol: ClassVar[str] = "ε"
    output_premetric: ClassVar[str] = "multiplicative distance, with no finite bound"

    def of_group(self, size: int) -> "InfiniteLoss":
        return self

    def round_up(self, places: int = DECIMALS) -> Decimal:
        return Decimal("Infinity")

    def __float__(self) -> float:
        return float("inf")

    def __str__(self) -> str:
        return INFINITY

    def as_record(self) -> dict[str, str]:
        return {"epsilon": INFINITY}

    @classmethod
    def from_record(cls, record: dict[str, str]) -> Self:
        if record != cls().as_record():
            raise ValueError("the record is not that of an infinite loss")
        return cls()


Loss = PureLoss | ConcentratedLoss | ApproximateLoss | InfiniteLoss
"""A loss in any measure."""


def format_loss(loss: Loss, places: int = DECIMALS) -> str:
    """A loss as text for a reader, rounded up: `ε = 0.7000`, `ρ = 2.5146`, `ε = 3.1000 at δ = 1e-10` or `ε = ∞`."""
    at_delta = ""
    if isinstance(loss, ApproximateLoss):
        at_delta = f" at δ = {format_decimal_above(loss.delta)}{loss.basis}"
    return f"{loss.symbol} = {format_number(loss, places)}{at_delta}"


def format_exact_loss(loss: Loss) -> str:
    """A loss without rounding: as a decimal if it has up to `DECIMALS` places, and otherwise exactly and rounded up, as
    `ρ = 3`, `ε = 7.5 at δ = 1e-10` or `ρ = 1/3 (0.3334)`."""
    if isinstance(loss, InfiniteLoss):
        return format_loss(loss)
    rounded, at_delta = loss.round_up(), ""
    if isinstance(loss, ApproximateLoss):
        at_delta = f" at δ = {format_decimal(loss.delta)}{loss.basis}"
    if is_decimal(loss):
        return f"{loss.symbol} = {rounded.normalize():f}{at_delta}"
    return f"{loss.symbol} = {loss} ({rounded})"


def is_decimal(loss: Loss) -> bool:
    """Whether the ε or ρ of a loss has at most `DECIMALS` decimals, or is infinite, so rounding does not change it."""
    if isinstance(loss, InfiniteLoss):
        return True
    rounded = Fraction(loss.round_up())
    amount = loss.epsilon if isinstance(loss, ApproximateLoss) else loss
    return amount in (PureLoss(rounded), ConcentratedLoss(rounded))


def format_number(loss: Loss, places: int = DECIMALS) -> str:
    """The ε or ρ of a loss alone, rounded up, as text for a reader: `0.7000` or `∞`."""
    return str(loss) if isinstance(loss, InfiniteLoss) else str(loss.round_up(places))


def require_delta(delta: Fraction) -> None:
    """Raise ValueError unless 0 < δ < 1, and TypeError for a δ that is not exact."""
    if not isinstance(delta, Rational):
        raise TypeError(f"δ is a Fraction, so that it is exact, not {delta!r}")
    if not 0 < delta < 1:
        raise ValueError(f"δ must lie strictly between 0 and 1 (from 1 on nothing is guaranteed), not {float(delta)}")


def _evaluate(rational: Fraction, argument: Fraction, precision: int) -> tuple[Decimal, Decimal]:
    """rational + ln(argument) in a precision, and a bound of its error."""
    with localcontext(Context(prec=precision)):
        first, second = as_decimal(rational), Decimal(argument.numerator).ln()
        third = Decimal(argument.denominator).ln()
        # Both logarithms and the division are correctly rounded: five ulps cover all four roundings.
        return first + second - third, 5 * max(abs(first), abs(second), abs(third)).scaleb(1 - precision)


def _sign(rational: Fraction, argument: Fraction) -> int:
    """The exact sign of rational + ln(argument). The logarithm of a positive rational number other than 1 is irrational
    (Lindemann), so the sum is 0 only if both parts are 0. In all other cases, enough digits decide."""
    if argument == 1:
        return (rational > 0) - (rational < 0)
    precision = 30
    while True:
        total, error = _evaluate(rational, argument, precision)
        if abs(total) > error:
            return 1 if total > 0 else -1
        precision *= 2
