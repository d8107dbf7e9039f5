"""Certain bounds of irrational numbers, in whole numbers.

Here belongs arithmetic with directed rounding. A real number v is enclosed at a precision p by two integers,
low / 2^p <= v <= high / 2^p; every step rounds the lower one down and the upper one up, so the bounds hold whatever
the precision, and a greater precision only brings them closer. No float takes part.
"""

from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import TypeAlias

Bounds: TypeAlias = tuple[int, int]


def shift_up(number: int, places: int) -> int:
    """number / 2^places, rounded up."""
    return -(-number >> places)


def divide_up(number: int, divisor: int) -> int:
    """number / divisor, rounded up; the divisor is positive."""
    return -(-number // divisor)


def exponential(exponent: Fraction, precision: int) -> Bounds:
    """Bounds of e^(−γ) for γ = `exponent` > 0, at `precision` binary places.

    γ is halved until it is at most 1, where the series 1 − γ + γ²/2 − … alternates with falling terms and so errs by
    less than its next term; the result is squared as often.
    """
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


def rounded(bounds: Callable[[int], Bounds], digits: int = 40) -> Decimal:
    """A positive number to so many significant digits, with an error below one unit of the last.

    Args:
        bounds: the number's bounds at a precision; the lower one becomes positive as the precision grows.
        digits: how many digits.
    """
    precision = 256
    while True:
        low, high = bounds(precision)
        if (high - low) * 10 ** (digits + 1) < low:
            with localcontext(Context(prec=digits)):
                return Decimal(low) / Decimal(1 << precision)
        precision *= 2
