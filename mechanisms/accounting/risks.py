"""The risk that a loss allows, from its privacy curve and without any data.

The attacker knows all records except one (or the fewest that can change), considers two values of it possible, and sees
the publication. By a dominating pair, no test between the two values is better than the best test between P and Q
(Wasserman and Zhou 2010; Dong, Roth and Su 2022). So, with δ(ε) of the curve:

- A true-positive rate is at most the least e^ε·α + δ(ε), where α is the false-positive rate.
- With the prior π for one of them, the guess is right with probability 1 − π + π·δ(ln((1 − π)/π)) at most. This is the
  expected posterior of the attacker's guess. Without the publication, the guess is right with probability max(π, 1 −
  π).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from mechanisms.accounting.composition import DoesNotCompose, compose_approximate, compose_like, drop_infinite
from mechanisms.accounting.curves import Bounds, Curve, CurveError
from mechanisms.accounting.losses import ApproximateLoss, CurveLoss, InfiniteLoss, Loss, PureLoss, require_delta
from mechanisms.accounting.pairs import LossPair, Pair
from mechanisms.accounting.rounding import DECIMALS, round_up
from mechanisms.accounting.specification import DELTA, Specification

EVEN = Fraction(1, 2)
"""The prior under which both values are equally likely."""

FALSE_POSITIVE_RATES = (Fraction(1, 100), Fraction(1, 1000))
"""The false-positive rates at which the largest true-positive rates are stated."""

PLOTTED = tuple(10 ** (-step / 10) for step in range(50, -1, -1))
"""The false-positive rates of a chart, from 10^-5 to 1."""


@dataclass(frozen=True)
class Risk:
    """The risk of a release, as upper bounds, rounded up.

    Attributes:
        epsilon: ε at `delta`, the lesser of the ε by the exact curve and by conversion.
        by_conversion: the ε of the composed loss at `delta`, by `compose_approximate`.
        posterior: the probability that the best guess at even odds is right.
        powers: the largest true-positive rates at false-positive rates of 1% and 0.1%.
        trade_off: false-positive rates with the largest true-positive rates, for a chart.
    """

    delta: Fraction
    epsilon: Decimal
    by_conversion: Decimal
    posterior: Decimal
    powers: tuple[Decimal, ...]
    trade_off: tuple[tuple[float, float], ...]

    @property
    def is_tighter(self) -> bool:
        """Whether the curve gives a smaller ε than the conversion."""
        return self.epsilon < self.by_conversion


def find_pairs(specification: Specification, fewest: int = 1) -> tuple[Pair, ...]:
    """Pairs whose product dominates the charged change, or the change of the fewest units in which data sets differ."""
    return specification.charged_pairs if fewest == 1 else (LossPair(specification.charge.of_group(fewest)),)


def assess_risk(specification: Specification, fewest: int = 1, delta: Fraction = DELTA) -> Risk | None:
    """The risk of the charge, for data sets that differ in the fewest units possible; None if the loss is infinite, or
    its curve cannot be bounded. The δs of its lines are added to the given δ."""
    require_delta(delta)
    loss = specification.charge.of_group(fewest)
    if isinstance(loss, InfiniteLoss):
        return None
    if isinstance(loss, ApproximateLoss):
        delta = loss.delta + min(delta, (1 - loss.delta) / 2)
    try:
        return _assess(find_pairs(specification, fewest), loss, delta)
    except CurveError:
        return None


def bound_posterior(curve: Curve, prior: Fraction) -> Decimal:
    """The probability that the best guess is right if one value has this prior, rounded up; 0 < `prior` < 1."""
    odds = math.log((1 - prior) / prior)
    # In both orders the curve is the same, so δ(−ε) = 1 − e^−ε + e^−ε δ(ε).
    upper = curve.bound_delta(abs(odds)).upper
    delta = upper if odds >= 0 else 1 - math.exp(odds) * (1 - upper)
    return min(Decimal(1), round_up(Fraction(1 - prior + prior * Fraction(delta)), DECIMALS))


def compose_charges(cap: Loss, charges: Iterable[Specification]) -> Loss:
    """The total of all finite charges that is compared with a cap: in its output premetric, at its δ if it has one.

    Raises:
        DoesNotCompose: if a charge cannot be converted, or no ε is known at the δ of a cap on the curve.
    """
    stated = list(charges)
    if not isinstance(cap, CurveLoss):
        return compose_like(cap, drop_infinite(charge.charge for charge in stated))
    _, epsilon = enclose_charges(stated, cap.delta)
    if epsilon.is_infinite():
        raise DoesNotCompose("no ε of the charges together is known at its δ")
    return CurveLoss(PureLoss(Fraction(epsilon)), cap.delta)


def enclose_charges(charges: Iterable[Specification], delta: Fraction) -> tuple[Decimal, Decimal]:
    """Bounds of the ε of all finite charges together at δ, by the curve or by conversion, whichever is less: the lower
    bound of the curve, and the upper bound rounded up; infinite if none is found."""
    finite = [charge for charge in charges if not isinstance(charge.charge, InfiniteLoss)]
    try:
        by_conversion = compose_approximate([charge.charge for charge in finite], delta).epsilon.round_up(DECIMALS)
    except DoesNotCompose:
        by_conversion = Decimal("Infinity")
    bounds = _enclose(tuple(pair for charge in finite for pair in charge.charged_pairs), delta)
    return min(by_conversion, Decimal(bounds.lower)), min(by_conversion, _round_up(bounds.upper))


def bound_epsilon(pairs: tuple[Pair, ...], delta: Fraction) -> Decimal:
    """The least ε at δ by the curve of the pairs' product, rounded up; infinite if none is found."""
    return _round_up(_enclose(pairs, delta).upper)


@lru_cache(maxsize=64)
def _enclose(pairs: tuple[Pair, ...], delta: Fraction) -> Bounds:
    return _enclose_epsilon(Curve(pairs), delta)


def _enclose_epsilon(curve: Curve, delta: Fraction) -> Bounds:
    try:
        return curve.bound_epsilon(float(delta))
    except CurveError:
        return Bounds(0.0, math.inf)


def _round_up(bound: float) -> Decimal:
    return Decimal("Infinity") if math.isinf(bound) else round_up(Fraction(bound), DECIMALS)


@lru_cache(maxsize=64)
def _assess(pairs: tuple[Pair, ...], loss: Loss, delta: Fraction) -> Risk:
    curve = Curve(pairs)
    by_conversion = compose_approximate([loss], delta).epsilon.round_up(DECIMALS)
    epsilon = min(by_conversion, _round_up(_enclose_epsilon(curve, delta).upper))
    stated = len(FALSE_POSITIVE_RATES)
    powers = curve.bound_powers([*map(float, FALSE_POSITIVE_RATES), *PLOTTED])
    return Risk(
        delta,
        epsilon,
        by_conversion,
        bound_posterior(curve, EVEN),
        tuple(min(Decimal(1), round_up(Fraction(power), DECIMALS)) for power in powers[:stated]),
        tuple(zip(PLOTTED, powers[stated:], strict=True)),
    )
