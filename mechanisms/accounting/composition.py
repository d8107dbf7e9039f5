"""The total loss of several releases on one data set, in each output premetric that has a total.

All losses are for the same unit; `specification` determines which releases protect which unit. Pure DP implies zCDP,
and both imply approximate DP at any δ; the converses are false. A total in one of the three therefore accepts the
losses that imply it and rejects the others with the reason. An infinite loss has no finite total.

ρ-zCDP is converted into (ε, δ) by two bounds on ε, both rounded up, so that a published ε is never too small, where
L = ln(1/δ) and x = α - 1. Every x gives a valid bound, so only the evaluation needs directed rounding, not the search.

- Bun and Steinke (2016), Proposition 1.3: ε = ρ + 2√(ρL).
- Canonne, Kamath and Steinke (2020), Section 2.3: ε(x) = ρ(1 + x) + (L - ln(1 + x))/x + ln(x/(1 + x)), least over
  x > 0.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import reduce
from operator import add

from mechanisms.accounting.losses import ApproximateLoss, ConcentratedLoss, InfiniteLoss, Loss, PureLoss, require_delta
from mechanisms.accounting.rounding import as_decimal, bound_logarithm, bound_square_root, round_up

PLACES = 6
"""The decimals of a computed ε."""

_ENOUGH = Decimal("1e-20")
_GUARD_DIGITS = 40


def bun_steinke(loss: ConcentratedLoss, delta: Fraction, places: int = PLACES) -> Decimal:
    """ε for δ by Bun and Steinke, rounded up: the Census Bureau's statement for the 2020 Census."""
    require_delta(delta)
    if loss.rho == 0:
        return round_up(loss.rho, places)
    return round_up(bun_steinke_above(loss.rho, delta, places + _GUARD_DIGITS), places)


def canonne_kamath_steinke(loss: ConcentratedLoss, delta: Fraction, places: int = PLACES) -> Decimal:
    """ε for δ by Canonne, Kamath and Steinke, rounded up and at least 0: the zCDP-implied ε of the 2020 certificate."""
    require_delta(delta)
    if loss.rho == 0:
        return round_up(loss.rho, places)
    x = _best_order_less_one(loss.rho, delta)
    digits = places + _GUARD_DIGITS + max(0, -x.adjusted())  # the division by x enlarges the errors of logarithms
    return round_up(max(Fraction(0), canonne_kamath_steinke_above(loss.rho, delta, Fraction(x), digits)), places)


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
    """The x at which ε(x) is least, to about 20 digits: ε'(x) = ρ - (L - ln(1 + x))/x² is 0 where ρx² + ln(1 + x) = L.
    The left side grows from 0, so exactly one x solves this, and neither term exceeds L there. Near the minimum, an
    error in x changes ε only to second order."""
    lost = -as_decimal(1 - delta).adjusted()  # the leading digits that cancel in L, and in ln(1 + x)
    with localcontext(Context(prec=40 + lost)):
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


NOT_FINITE = "no finite loss holds for it (ε = ∞)"
NOT_PURE = {
    ConcentratedLoss: "ρ-zCDP lets probabilities differ by any factor, if rarely: no ε holds without a δ",
    ApproximateLoss: "(ε, δ) lets anything happen with probability δ: no ε holds without a δ",
}
NOT_CONCENTRATED = "(ε, δ) lets anything happen with probability δ, which no ρ bounds"


class DoesNotCompose(ValueError):  # noqa: N818 - the word of the domain for this refusal
    """Losses that have no total of the requested kind."""


def drop_infinite(losses: Iterable[Loss]) -> list[Loss]:
    return [loss for loss in losses if not isinstance(loss, InfiniteLoss)]


def explain_exclusion(loss: Loss, limit: Loss) -> str | None:
    """Why a loss implies none in the output premetric of a limit; None if it implies one."""
    if isinstance(limit, InfiniteLoss):
        return None
    if isinstance(loss, InfiniteLoss):
        return NOT_FINITE
    if isinstance(limit, PureLoss):
        return NOT_PURE.get(type(loss))
    return NOT_CONCENTRATED if isinstance(limit, ConcentratedLoss) and isinstance(loss, ApproximateLoss) else None


def _require_included(losses: Iterable[Loss], limit: Loss) -> list[Loss]:
    parts = list(losses)
    for loss in parts:
        if reason := explain_exclusion(loss, limit):
            raise DoesNotCompose(reason)
    return parts


def compose_pure(losses: Iterable[Loss]) -> PureLoss:
    """ε of all releases together, ε₁ + ε₂ + …, exactly. Raises DoesNotCompose if a loss is not in pure DP."""
    return reduce(add, _require_included(losses, PureLoss()), PureLoss())


def compose_concentrated(losses: Iterable[Loss]) -> ConcentratedLoss:
    """ρ of all releases together. Each pure ε counts as ε²/2, which adds up to less than (ε₁ + ε₂ + …)²/2. Raises
    DoesNotCompose if a loss is in approximate DP, or infinite."""
    parts = _require_included(losses, ConcentratedLoss())
    converted = [ConcentratedLoss.of_pure(loss) if isinstance(loss, PureLoss) else loss for loss in parts]
    return reduce(add, converted, ConcentratedLoss())


@dataclass(frozen=True)
class Conversion:
    """The part of a total in approximate DP that is converted from zCDP. Every other ε is added to it unchanged.
    `epsilon` holds at the rest of δ after the releases' own δs. With `takes_pure`, pure losses are converted too, as
    ε²/2."""

    loss: ConcentratedLoss
    epsilon: PureLoss
    takes_pure: bool


def convert(losses: Iterable[Loss], delta: Fraction, places: int = PLACES) -> Conversion:
    """The conversion that gives the least ε for a total in approximate DP."""
    parts = _require_included(losses, ApproximateLoss(PureLoss(), delta))
    pure = [part for part in parts if isinstance(part, PureLoss)]
    concentrated = compose_concentrated(part for part in parts if isinstance(part, ConcentratedLoss))
    left = delta - sum(part.delta for part in parts if isinstance(part, ApproximateLoss))
    if left < 0 or (left == 0 and concentrated.rho > 0):
        raise DoesNotCompose("the releases' own δs add up to all of the total's δ or more")

    def convert_loss(loss: ConcentratedLoss, takes_pure: bool) -> Conversion:
        epsilon = PureLoss(Fraction(canonne_kamath_steinke(loss, left, places))) if loss.rho > 0 else PureLoss()
        return Conversion(loss, epsilon, takes_pure)

    without_pure = convert_loss(concentrated, takes_pure=False)
    if pure and left > 0:
        with_pure = convert_loss(concentrated + compose_concentrated(pure), takes_pure=True)
        if with_pure.epsilon <= without_pure.epsilon + compose_pure(pure):
            return with_pure
    return without_pure


def compose_approximate(losses: Iterable[Loss], delta: Fraction, places: int = PLACES) -> ApproximateLoss:
    """ε of all releases together for a given δ; a converted ε is rounded up to some decimal places.

    The given δ, less the δs of releases in approximate DP, is used for the conversion from zCDP, by Canonne, Kamath and
    Steinke. Pure losses either add their ε, which suits a few large ones, or are converted as ε²/2. Raises
    DoesNotCompose if the releases' own δs use up the given δ, or a loss is infinite.
    """
    parts = list(losses)
    converted = convert(parts, delta, places)
    added = [part.epsilon for part in parts if isinstance(part, ApproximateLoss)]
    if not converted.takes_pure:
        added += [part for part in parts if isinstance(part, PureLoss)]
    return ApproximateLoss(reduce(add, added, converted.epsilon), delta)


def compose_like(limit: Loss, losses: Iterable[Loss]) -> Loss:
    """The total of losses in the output premetric of a limit, at the limit's δ if it has one; ∞ under a limit of ∞.
    Raises DoesNotCompose if a loss implies none in that premetric."""
    if isinstance(limit, PureLoss):
        return compose_pure(losses)
    if isinstance(limit, ConcentratedLoss):
        return compose_concentrated(losses)
    if isinstance(limit, InfiniteLoss):
        return limit
    return compose_approximate(losses, limit.delta)


def fits(total: Loss, limit: Loss) -> bool:
    """Whether a total is within a limit of the same output premetric, exactly. Raises DoesNotCompose for others."""
    if type(total) is not type(limit) or isinstance(limit, InfiniteLoss):
        raise DoesNotCompose("losses in different output premetrics do not compare")
    return total <= limit  # type: ignore[operator]


def warn_of_infinite(charges: int) -> str:
    """The sentence on infinite charges that a finite total of a population leaves out; "" if there are none."""
    if not charges:
        return ""
    which = "one charge has" if charges == 1 else f"{charges} charges have"
    return (
        f"Besides the finite charges, {which} no finite loss (ε = ∞), so no finite total bounds what all "
        "releases of the population disclose together."
    )
