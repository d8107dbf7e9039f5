"""Losses and DP specifications as exact values: their sums, their totals by unit and measure, and conversions."""

from fractions import Fraction

from assets.release.numbers import exact_delta, positive_fraction
from mechanisms.accounting.composition import (
    DoesNotCompose,
    bun_steinke,
    canonne_kamath_steinke,
    compose_approximate,
    compose_concentrated,
    compose_pure,
)
from mechanisms.accounting.losses import (
    ApproximateLoss,
    ConcentratedLoss,
    InfiniteLoss,
    Loss,
    PureLoss,
    format_loss,
)
from mechanisms.accounting.risks import Risk, assess_risk
from mechanisms.accounting.specification import Flavor, Line, Specification, Total, compose
from stirred.results import format_specification

__all__ = [
    "ApproximateLoss",
    "ConcentratedLoss",
    "DoesNotCompose",
    "Flavor",
    "InfiniteLoss",
    "Line",
    "Loss",
    "PureLoss",
    "Risk",
    "Specification",
    "Total",
    "approximate",
    "assess_risk",
    "bun_steinke",
    "canonne_kamath_steinke",
    "compose",
    "compose_approximate",
    "compose_concentrated",
    "compose_pure",
    "concentrated",
    "format_loss",
    "format_specification",
    "pure",
]

Number = int | float | str | Fraction
"""A number that stands for the exact fraction as written: 0.1 and "1/10" are one tenth."""


def pure(epsilon: Number) -> PureLoss:
    """ε of pure DP, exactly. Raises ValueError if it is not greater than 0."""
    return PureLoss(positive_fraction(epsilon))


def concentrated(rho: Number) -> ConcentratedLoss:
    """ρ of zero-concentrated DP, exactly. Raises ValueError if it is not greater than 0."""
    return ConcentratedLoss(positive_fraction(rho))


def approximate(epsilon: Number, delta: Number) -> ApproximateLoss:
    """(ε, δ) of approximate DP, exactly. Raises ValueError if ε is not greater than 0, or δ not between 0 and 1."""
    return ApproximateLoss(pure(epsilon), exact_delta(delta))
