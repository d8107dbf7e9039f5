"""Exact numbers in YAML: their conversion to fractions, and their JSON schema for `dg check yaml`.

Every budget, share, rate and probability is declared as a number or a text, and becomes exactly the written fraction.
"""

import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

EXPONENT = r"[1-9](\.[0-9]+)?[eE]-[0-9]{1,3}"
"""A number in scientific notation, which YAML may read as text."""

FRACTION = r"^[0-9]+(\.[0-9]+|/[0-9]+)?$"
LARGEST_NUMBER = 10**9
LARGEST_DENOMINATOR = 10**12
LARGEST_DENOMINATOR_OF_A_RATE = 10**9
LARGEST_DENOMINATOR_OF_A_DESIGN = 10**6
LARGEST_OF_A_FACTOR = 64
LEAST_DELTA = Fraction(1, 10**100)

_LONGEST_TEXT = 250
_LONGEST_SHOWN = 40


def shown(value: object) -> str:
    """A declared value for a message, shortened if it is long."""
    if isinstance(value, int) and value.bit_length() > 4 * _LONGEST_SHOWN:
        return "an integer of over 40 digits"
    text = str(value) if isinstance(value, Fraction) else repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def exact_fraction(value: object) -> Fraction:
    """Convert a number from YAML, or a text such as `1/2`, `0.5` or `40`, to the written fraction.

    A float stands for the shortest decimal number that Python reads as this float, so 0.1 becomes one tenth. Raises
    ValueError if the value is not a number, not finite, a negative text, beyond `LARGEST_NUMBER`, or finer than
    `LARGEST_DENOMINATOR`.
    """
    number = _fraction(value)
    if abs(number) > LARGEST_NUMBER:
        raise ValueError(f"{shown(value)} is out of range; the largest number here is a billion")
    if number.denominator > LARGEST_DENOMINATOR:
        raise ValueError(f"{shown(value)} is too fine; a number here has at most 12 decimals or a denominator of 10^12")
    return number


def _fraction(value: object) -> Fraction:
    rule = "is not a number or a fraction such as 1/2"
    if isinstance(value, str) and len(value) <= _LONGEST_SHOWN and re.fullmatch("[0-9]+,[0-9]+", value, re.ASCII):
        rule = "has a decimal comma; write it with a decimal point, as 0.5, and thousands without a separator"
    wrong = ValueError(f"{shown(value)} {rule}")
    if isinstance(value, Fraction):
        return value
    if isinstance(value, Integral) and not isinstance(value, bool):
        return Fraction(int(value))
    if isinstance(value, bool) or not isinstance(value, Real | Decimal | str):
        raise wrong
    if isinstance(value, float) and not math.isfinite(value):
        raise wrong
    if isinstance(value, str) and not (len(value) <= _LONGEST_TEXT and re.fullmatch(FRACTION, value, re.ASCII)):
        raise wrong
    try:
        # The `repr` of a NumPy float has more than the number. NumPy's shorter floats are numbers, but not floats.
        text = float.__repr__(value) if isinstance(value, float) else str(value)
        return Fraction(text)
    except (ValueError, OverflowError, ZeroDivisionError):
        raise wrong from None


def exact_delta(value: object) -> Fraction:
    """Convert a δ from YAML to the written fraction, including `1e-10`, which YAML reads as text.

    Raises ValueError if it is not a number strictly between 0 and 1, or is below or finer than `LEAST_DELTA`.
    """
    by_exponent = isinstance(value, str) and len(value) <= _LONGEST_TEXT and re.fullmatch(EXPONENT, value, re.ASCII)
    delta = Fraction(value) if isinstance(value, str) and by_exponent else _fraction(value)
    if not 0 < delta < 1:
        raise ValueError("δ must be strictly between 0 and 1")
    if delta < LEAST_DELTA or LEAST_DELTA.denominator < delta.denominator:
        raise ValueError(f"{shown(value)} is out of range; δ is at least 1e-100, with at most 100 decimals")
    return delta


def positive_fraction(value: object) -> Fraction:
    """As `exact_fraction`; also raises ValueError if the number is not greater than 0."""
    number = exact_fraction(value)
    if number <= 0:
        raise ValueError(f"{shown(value)} is not greater than 0")
    return number


def limited_fraction(fits: Callable[[Fraction], bool], words: str) -> Callable[[object], Fraction]:
    """A conversion as `exact_fraction` that also raises ValueError, with these words, if the number does not fit."""

    def convert(value: object) -> Fraction:
        number = exact_fraction(value)
        if not fits(number):
            raise ValueError(f"{shown(value)} is not {words}")
        return number

    return convert


def _not_negative(value: object) -> Fraction:
    if isinstance(value, int | float) and value < 0:
        raise ValueError(f"{shown(value)} is negative; a budget is a nonnegative number, or a fraction such as 1/100")
    return exact_fraction(value)


def _factor(value: object) -> Fraction:
    factor = exact_fraction(value)
    if factor < 0 or max(factor.numerator, factor.denominator) > LARGEST_OF_A_FACTOR:
        raise ValueError(f"{shown(value)} is no factor: 0, or a fraction of integers up to {LARGEST_OF_A_FACTOR}")
    return factor


def _margin(value: object) -> Fraction:
    margin = exact_fraction(value)
    if margin <= 0:
        raise ValueError("a margin of error must be greater than 0; leave the level out, or give it the budget 0")
    return margin


def exact_swap_rate(value: object) -> Fraction:
    """As `exact_fraction`; also raises ValueError if it is not strictly between 0 and 1, or finer than a billionth."""
    rate = exact_fraction(value)
    if not 0 < rate < 1:
        raise ValueError(f"the swap rate must be strictly between 0 and 1 (at 0 and 1, ε is infinite), not {rate}")
    if rate.denominator > LARGEST_DENOMINATOR_OF_A_RATE:
        raise ValueError("the denominator of a swap rate must be at most a billion")
    return rate


def _design_rate(value: object) -> Fraction:
    rate = exact_fraction(value)
    if not 0 < rate <= 1:
        raise ValueError(f"{shown(value)} is not above 0 and at most 1, as a rate of a survey must be")
    if rate.denominator > LARGEST_DENOMINATOR_OF_A_DESIGN:
        raise ValueError("the denominator of a rate of a survey must be at most a million")
    return rate


def _schema(number: dict[str, Any], text: str, description: str) -> WithJsonSchema:
    alternatives = [{"type": "number", **number}, {"type": "string", "pattern": text}]
    return WithJsonSchema({"anyOf": alternatives, "description": description})


_ANY_TEXT = r"^[0-9]+(\.[0-9]+|/0*[1-9][0-9]*)?$"
_POSITIVE_TEXT = r"^(0*[1-9][0-9]*(\.[0-9]+|/0*[1-9][0-9]*)?|0+\.[0-9]*[1-9][0-9]*)$"
_DELTA_TEXT = r"^(0+\.[0-9]*[1-9][0-9]*|0*[1-9][0-9]*/0*[1-9][0-9]*|" + EXPONENT + ")$"
_RATE_TEXT = r"^(0?\.[0-9]*[1-9][0-9]*|[1-9][0-9]*/[1-9][0-9]*)$"
_POSITIVE = {"exclusiveMinimum": 0, "maximum": LARGEST_NUMBER}
_BETWEEN_0_AND_1 = {"exclusiveMinimum": 0, "exclusiveMaximum": 1}

Budget = Annotated[
    Fraction,
    BeforeValidator(_not_negative),
    _schema(
        {"minimum": 0, "maximum": LARGEST_NUMBER},
        _ANY_TEXT,
        "ρ, or ε with noise: pure, for one person or household added or removed; 0: not released",
    ),
]

Rho = Annotated[Fraction, BeforeValidator(positive_fraction), _schema(_POSITIVE, _POSITIVE_TEXT, "ρ, exactly")]

Epsilon = Annotated[Fraction, BeforeValidator(positive_fraction), _schema(_POSITIVE, _POSITIVE_TEXT, "ε, exactly")]

Positive = Annotated[Fraction, BeforeValidator(positive_fraction), _schema(_POSITIVE, _POSITIVE_TEXT, "above 0")]

NotNegative = Annotated[
    Fraction,
    BeforeValidator(limited_fraction(lambda number: number >= 0, "0 or more")),
    _schema({"minimum": 0, "maximum": LARGEST_NUMBER}, _ANY_TEXT, "0 or more"),
]

Margin = Annotated[
    Fraction,
    BeforeValidator(_margin),
    _schema(_POSITIVE, _POSITIVE_TEXT, "the margin of error of one number, in persons, units or households"),
]

Share = Annotated[
    Fraction,
    BeforeValidator(limited_fraction(lambda share: 0 <= share <= 1, "between 0 and 1, as a share must be")),
    _schema({"minimum": 0, "maximum": 1}, _ANY_TEXT, "a share such as 1/8 or 0.125; those of a level add up to 1"),
]

ShareBelow1 = Annotated[
    Fraction,
    BeforeValidator(limited_fraction(lambda share: 0 <= share < 1, "at least 0 and below 1")),
    _schema({"minimum": 0, "exclusiveMaximum": 1}, _ANY_TEXT, "at least 0 and below 1, such as 0.9999"),
]

ShareBetween = Annotated[
    Fraction,
    BeforeValidator(limited_fraction(lambda share: 0 < share < 1, "above 0 and below 1")),
    _schema(_BETWEEN_0_AND_1, _RATE_TEXT, "above 0 and below 1, such as 1/4"),
]

Factor = Annotated[
    Fraction,
    BeforeValidator(_factor),
    _schema({"minimum": 0, "maximum": LARGEST_OF_A_FACTOR}, _ANY_TEXT, "0, or a fraction of integers up to 64"),
]

Delta = Annotated[
    Fraction, BeforeValidator(exact_delta), _schema(_BETWEEN_0_AND_1, _DELTA_TEXT, "strictly between 0 and 1")
]

_RATE_WORDS = "strictly between 0 and 1, as a fraction such as 1/2 or a decimal such as 0.05"

SwapRate = Annotated[Fraction, BeforeValidator(exact_swap_rate), _schema(_BETWEEN_0_AND_1, _RATE_TEXT, _RATE_WORDS)]
"""The probability of selecting a record."""

DesignRate = Annotated[
    Fraction,
    BeforeValidator(_design_rate),
    _schema({"exclusiveMinimum": 0, "maximum": 1}, _POSITIVE_TEXT, "above 0, at most 1: a fraction such as 1/1500"),
]
"""The rate at which a survey samples, reaches or keeps households."""
