"""Rigorous bounds of irrational numbers, in integers: at a precision p, low / 2^p <= v <= high / 2^p encloses a real v.
Every step rounds the lower bound down and the upper bound up. So the bounds hold at every precision, and a greater one
only brings them closer."""

from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction

Bounds = tuple[int, int]


def shift_up(number: int, places: int) -> int:
    """number / 2^places, rounded up."""
    return -(-number >> places)


def divide_up(number: int, divisor: int) -> int:
    """number / divisor, rounded up; the divisor is positive."""
    return -(-number // divisor)


def exponential(exponent: Fraction, precision: int) -> Bounds:
    """Bounds of e^(−γ) for γ = `exponent` > 0, at `precision` binary places. γ is halved until it is at most 1. There
    the series 1 − γ + γ²/2 − … alternates with falling terms, so its error is less than its next term. The result is
    then squared as many times as γ was halved."""
    halvings = max(0, (exponent.numerator // exponent.denominator).bit_length())
    places = precision + halvings + 8
    numerator, denominator = exponent.numerator, exponent.denominator << halvings
    low = high = term_low = term_high = 1 << places
    order = 0
    while term_high > 1:
        order += 1
        term_low = term_low * numerator // (denominator * order)
        term_high = divide_up(term_high * numerator, denominator * order)
        low, high = (low - term_high, high - term_low) if order % 2 else (low + term_low, high + term_high)
    low, high = max(0, low - term_high), min(1 << places, high + term_high)
    for _ in range(halvings):
        low, high = low * low >> places, shift_up(high * high, places)
    return low >> (places - precision), shift_up(high, places - precision)


def round_bounds(bounds: Callable[[int], Bounds], digits: int = 40) -> Decimal:
    """A positive number, rounded to `digits` significant digits, with an error below one unit of the last."""
    precision, low, _ = _close(bounds, digits)
    with localcontext(Context(prec=digits)):
        return Decimal(low) / Decimal(1 << precision)


def round_bounds_up(bounds: Callable[[int], Bounds], digits: int) -> Decimal:
    """A decimal with `digits` significant digits that is at most two of the last units above a positive number."""
    precision, _, high = _close(bounds, digits)
    # The division is the only rounding: a power of two has more digits than the context.
    with localcontext(Context(prec=digits, rounding=ROUND_CEILING)):
        return Decimal(high) / Decimal(1 << precision)


def _close(bounds: Callable[[int], Bounds], digits: int) -> tuple[int, int, int]:
    """A precision, and the bounds there, which differ in no more than a tenth of the last of `digits` digits."""
    precision = 256
    while True:
        low, high = bounds(precision)
        if (high - low) * 10 ** (digits + 1) < low:
            return precision, low, high
        precision *= 2
