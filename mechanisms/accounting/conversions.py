"""Conversion of ρ-zCDP into (ε, δ): two bounds on ε, both rounded up, so that a published ε is never too small.

With L = ln(1/δ) and x = α - 1:

- Bun and Steinke (2016), Proposition 1.3: ε = ρ + 2√(ρL).
- Canonne, Kamath and Steinke (2020), Section 2.3: the least over x > 0 of
  ε(x) = ρ(1 + x) + (L - ln(1 + x))/x + ln(x/(1 + x)).

Every x gives a valid bound, so only the evaluation needs directed rounding. The search for x does not.
"""

from decimal import Context, Decimal, localcontext
from fractions import Fraction

from mechanisms.accounting.losses import ConcentratedLoss, require_delta
from mechanisms.accounting.rounding import as_decimal, bound_logarithm, bound_square_root, round_up

PLACES = 6
"""The decimals of a computed ε."""

_ENOUGH = Decimal("1e-20")
_GUARD_DIGITS = 40


def bun_steinke(loss: ConcentratedLoss, delta: Fraction, places: int = PLACES) -> Decimal:
    """ε for δ by Bun and Steinke, rounded up: what the Census Bureau states for the 2020 Census."""
    require_delta(delta)
    if loss.rho == 0:
        return round_up(loss.rho, places)
    return round_up(bun_steinke_above(loss.rho, delta, places + _GUARD_DIGITS), places)


def canonne_kamath_steinke(loss: ConcentratedLoss, delta: Fraction, places: int = PLACES) -> Decimal:
    """ε for δ by Canonne, Kamath and Steinke, rounded up; never above that of Bun and Steinke.

    The certificate of the 2020 Census calls it the zCDP-implied ε. Where the bound is negative, ε is 0.
    """
    require_delta(delta)
    if loss.rho == 0:
        return round_up(loss.rho, places)
    x = Fraction(_best_order_less_one(loss.rho, delta))
    return round_up(max(Fraction(0), canonne_kamath_steinke_above(loss.rho, delta, x, places + _GUARD_DIGITS)), places)


def bun_steinke_above(rho: Fraction, delta: Fraction, digits: int) -> Fraction:
    """A rational number not below ρ + 2√(ρL), from logarithms of `digits` significant digits."""
    _, log_inverse_delta = bound_logarithm(1 / delta, digits)
    return rho + 2 * bound_square_root(rho * log_inverse_delta, digits)


def canonne_kamath_steinke_above(rho: Fraction, delta: Fraction, x: Fraction, digits: int) -> Fraction:
    """A rational number not below ε(x), from logarithms of `digits` significant digits, rounded to increase ε."""
    _, log_inverse_delta = bound_logarithm(1 / delta, digits)
    log_order, _ = bound_logarithm(1 + x, digits)
    _, log_ratio = bound_logarithm(x / (1 + x), digits)
    return rho * (1 + x) + (log_inverse_delta - log_order) / x + log_ratio


def _best_order_less_one(rho: Fraction, delta: Fraction) -> Decimal:
    """The x at which ε(x) is least, to 20 digits or so.

    ε'(x) = ρ - (L - ln(1 + x))/x² is 0 where ρx² + ln(1 + x) = L. The left side grows from 0, so exactly one x
    solves this, and neither term exceeds L there. Near the minimum, an error in x changes ε only to second order.
    """
    with localcontext(Context(prec=40)):
        concentrated, by_logarithm = as_decimal(rho), as_decimal(1 / delta - 1)
        log_inverse_delta = Decimal(delta.denominator).ln() - Decimal(delta.numerator).ln()
        low, high = Decimal(0), min(by_logarithm, (log_inverse_delta / concentrated).sqrt())
        while high - low > high * _ENOUGH:
            middle = (low + high) / 2
            if concentrated * (middle * middle) + (middle + 1).ln() < log_inverse_delta:
                low = middle
            else:
                high = middle
        return high
