"""Means: the quotient of two sub-tables from different hypercubes, such as an income sum by a weighted count.

**The interval** is a confidence set of Fieller (1954): the ratios r that the noisy pair (N, D) does not contradict.
For the true ratio, N − rD consists of noise alone, whose variance is
V(r) = V_N + r²V_D. A ratio is in the set if (N − rD)² <= z²V(r). The set covers every true ratio in at least 90% of
draws if |noise| <= z·√V has at least that probability. The greatest such z over a grid of ratios of the two noises is
taken, each from the exact distribution (`intervals`): 1.65 or so, and more where noise is rarely different from 0.

The set is a quadratic inequality in r. It is restricted to plausible ratios, from the least to the greatest mean that
the declared bounds of a record allow, and published as the interval from its least to its greatest element.

**The estimate** is the plausible ratio that the pair contradicts least. It is in every set that is not empty. If the
set is empty, the interval consists of the estimate.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np

from mechanisms.table_builder.asking import Answer
from mechanisms.table_builder.fitting import Floats, Term
from mechanisms.table_builder.intervals import COVERAGE, bound

RATIOS = 9
"""How many ratios of the two noises, from the numerator's alone to the denominator's alone, z is computed for."""

_SPARE = 1.005
"""A factor for ratios between those of the grid."""


@dataclass(frozen=True)
class Means:
    """Means with their intervals, in steps of the numerator's grid for one step of the denominator's."""

    estimate: Floats
    lower: Floats
    upper: Floats


def means(numerator: Answer, denominator: Answer, least: float, most: float) -> Means:
    """The mean of every cell of two sub-tables with the same cells, from the least to the greatest plausible ratio.

    The noise of the denominators is independent of the numerators': they are of another hypercube.
    """
    if numerator.values.shape != denominator.values.shape:
        raise ValueError("numerator and denominator are sub-tables with the same cells")
    if not least <= most < np.inf or least == -np.inf:
        raise ValueError("plausible ratios are from a least one to a greatest one that is not below it")
    above, below = numerator.values.astype(np.float64), denominator.values.astype(np.float64)
    above_variance, below_variance = numerator.variance, denominator.variance
    squared = _factors(numerator, denominator) ** 2

    def contradiction(ratio: Floats) -> Floats:
        variance = above_variance + ratio**2 * below_variance
        distance = (above - ratio * below) ** 2
        return np.where(
            variance > 0, distance / np.where(variance > 0, variance, 1.0), np.where(distance > 0, np.inf, 0.0)
        )

    exact = np.divide(above, below, out=np.full_like(above, least), where=below != 0)
    candidates = np.stack([np.clip(exact, least, most), np.full_like(above, least), np.full_like(above, most)])
    best = np.argmin(np.stack([contradiction(ratio) for ratio in candidates]), axis=0)
    estimate = np.take_along_axis(candidates, best[None], axis=0)[0]

    # The ends of the set are plausible limits, or roots of a·r² − 2b·r + c = 0. The discriminant b² − a·c is written
    # without the terms that cancel.
    a, b, c = below**2 - squared * below_variance, above * below, above**2 - squared * above_variance
    discriminant = squared * (
        above_variance * below**2 + below_variance * above**2 - squared * above_variance * below_variance
    )
    larger = b + np.copysign(np.sqrt(np.maximum(discriminant, 0.0)), b)
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = [larger / a, c / larger]
    ends = [(limit, contradiction(limit) <= squared) for limit in candidates[1:]]
    ends += [(root, (discriminant >= 0) & (root >= least) & (root <= most)) for root in roots]
    lower, upper = estimate, estimate
    for end, belongs in ends:
        lower = np.where(belongs, np.minimum(lower, end), lower)
        upper = np.where(belongs, np.maximum(upper, end), upper)
    return Means(estimate, lower, upper)


def _factors(numerator: Answer, denominator: Answer) -> Floats:
    """z of every cell: it depends only on how many published cells numerator and denominator add up."""
    pairs = np.stack([numerator.question.cells.ravel(), denominator.question.cells.ravel()])
    different, which = np.unique(pairs, axis=1, return_inverse=True)
    factors = [
        _factor(numerator.question.error(one), denominator.question.error(other)) for one, other in different.T.tolist()
    ]
    return np.array(factors)[which.reshape(-1)].reshape(numerator.values.shape)


@lru_cache(maxsize=1024)
def _factor(above: tuple[Term, ...] | None, below: tuple[Term, ...] | None) -> float:
    """The greatest bound of the combined noise, in standard deviations, for all ratios of the two noises."""
    if above is None or below is None:
        return sqrt(1 / (1 - COVERAGE))
    above, below = _standardized(above), _standardized(below)
    angles = np.linspace(0, np.pi / 2, RATIOS) if above and below else [0.0 if above else np.pi / 2]
    return _SPARE * max(bound([*_times(above, np.cos(angle)), *_times(below, np.sin(angle))]) for angle in angles)


def _standardized(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    variance = sum(term.times * term.coefficient**2 * float(term.noise.exact_variance) for term in terms)
    return _times(terms, 1 / sqrt(variance)) if terms else ()


def _times(terms: tuple[Term, ...], factor: float) -> tuple[Term, ...]:
    return tuple(Term(term.noise, factor * term.coefficient, term.times) for term in terms)
