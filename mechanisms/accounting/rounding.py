"""Directed rounding: rational bounds of irrational numbers, and decimals that are not below a given number.

Decimal's ln and exp are rounded to nearest, so the true value lies between the decimals next to the result.
"""

import math
import re
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction

_FRACTION = re.compile("-?[0-9]+(/0*[1-9][0-9]*)?")

DECIMALS, LINE_DECIMALS = 4, 6
"""The decimals of a loss for readers, and of the lines that add up to it: many are below 0.0001."""


def round_up(number: Fraction, places: int) -> Decimal:
    """The smallest decimal with `places` places that is not below the number."""
    return Decimal(f"{math.ceil(number * 10**places)}E-{places}")


def as_decimal(number: Fraction) -> Decimal:
    """The number in the precision and the rounding of the decimal context."""
    return Decimal(number.numerator) / Decimal(number.denominator)


def write_fraction(number: Fraction) -> str:
    """A number as `str` writes it, also with more digits than Python converts to text: the argument of a total's
    logarithm has some ten digits for each charge."""
    numerator, denominator = (f"{Decimal(part):f}" for part in (number.numerator, number.denominator))
    return numerator if denominator == "1" else f"{numerator}/{denominator}"


def read_fraction(text: str) -> Fraction:
    """The number that `write_fraction` wrote. Raises ValueError for any other text."""
    if not _FRACTION.fullmatch(text):
        raise ValueError("not a fraction")
    return Fraction(*(int(Decimal(part)) for part in text.split("/")))


def format_decimal(number: Fraction) -> str:
    """A number in its shortest form: `1e-10`, or a fraction if no short decimal equals it."""
    texts = (f"{float(number):.{digits}g}" for digits in (6, 12))
    return next((text for text in texts if Fraction(Decimal(text)) == number), str(number))


def format_decimal_above(number: Fraction) -> str:
    """A number in its shortest form if a short decimal equals it, or else rounded up to six significant digits."""
    text = format_decimal(number)
    if "/" not in text:
        return text
    with localcontext(Context(prec=6, rounding=ROUND_CEILING)):
        return format_decimal(Fraction(as_decimal(number)))


def bound_logarithm(number: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """A rational number below ln(number) and one above it, from logarithms of `digits` significant digits."""
    above, below = _whole_logarithm(number.numerator, digits), _whole_logarithm(number.denominator, digits)
    return above[0] - below[1], above[1] - below[0]


def bound_exponential(number: Fraction, digits: int) -> Fraction:
    """A rational number not below exp(number), accurate to about `digits` significant digits."""
    if number == 0:
        return Fraction(1)
    context = Context(prec=digits)
    return Fraction(context.next_plus(context.exp(round_up(number, digits))))


def bound_square_root(number: Fraction, digits: int) -> Fraction:
    """A rational number above the square root, by at most 10^-digits."""
    scale = 10**digits
    return Fraction(math.isqrt(math.floor(number * scale**2)) + 1, scale)


def _whole_logarithm(number: int, digits: int) -> tuple[Fraction, Fraction]:
    if number == 1:
        return Fraction(0), Fraction(0)
    context = Context(prec=digits)
    nearest = context.ln(Decimal(number))
    return Fraction(context.next_minus(nearest)), Fraction(context.next_plus(nearest))
