"""Margins of error of 90%: the margin of one noise, and the least budget that keeps it within a wanted one.

The plans relate budgets to noise.
"""

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

from mechanisms.sampling.noise import DiscreteGaussian
from mechanisms.sampling.quantiles import Uncapped, half_width

COVERAGE = Fraction(9, 10)
"""The share of draws in which noise is within its margin of error."""

LARGEST_SEARCHED_VARIANCE = 2**28
"""Up to this σ², the search for a discrete Gaussian's exact margin takes tenths of a second."""

QUANTILE = 1.6448536269514722
"""The normal distribution's 95% quantile."""

LARGEST_DENOMINATOR = 10**12
"""The largest denominator of a declared budget or share."""

FINEST = 10**9
"""The denominator of budgets that are rounded because an exact one could not be declared."""

MILLION = 10**6
"""The least denominator of a budget that is computed from a margin."""


def margin_of_error(noise: Uncapped) -> float:
    """The least m with P(|X| <= m) >= 0.9, exactly; for a discrete Gaussian with σ² above 2^28, 1.645σ."""
    if isinstance(noise, DiscreteGaussian) and noise.variance > LARGEST_SEARCHED_VARIANCE:
        return QUANTILE * math.sqrt(noise.variance)
    return float(half_width(noise, 1, COVERAGE))


def least_budget(
    margin_of: Callable[[Fraction], float | Fraction], wanted: Fraction, start: Fraction, unit: Fraction, most: Fraction
) -> Fraction:
    """The least multiple of a unit, as a budget, with which a margin of error is not above the wanted one.

    Args:
        margin_of: the margin of error that a budget gives; it does not grow with the budget.
        start: any budget, from which the search starts.

    Raises:
        ValueError: if even the largest budget gives a greater margin.
    """

    def enough(multiple: int) -> bool:
        return margin_of(multiple * unit) <= wanted

    first = max(1, math.ceil(start / unit))
    if enough(first):
        low, high = first // 2, first
        while low and enough(low):
            low, high = low // 2, low
    else:
        low, high = first, 2 * first
        while not enough(high):
            if high * unit > most:
                raise ValueError(f"a margin of {float(wanted):g} takes a budget above {float(most):g}")
            low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high * unit


def unit_of(parts: Iterable[Fraction]) -> Fraction:
    """A unit of which every part of a budget is a multiple, of a millionth or less; a billionth if it would be finer.

    With multiples of it, the sum of the parts, their shares of it, and the shares of sums of them can be declared.
    """
    denominator = math.lcm(MILLION, *(part.denominator for part in parts))
    return Fraction(1, denominator if denominator <= FINEST else FINEST)


def rounded_up(part: Fraction, unit: Fraction) -> Fraction:
    return math.ceil(part / unit) * unit
