"""Statistical post-processing of averages: persons per household or family, from a noisy numerator and denominator.

**The plausible averages.** A denominator d is positive, and a numerator n lies between `least`·d and `most`·d. So an
average n/d is between `least` and `most`, and never negative or infinite, with any noise. Divided by their standard
deviations, numerator and denominator are a point in the plane. Each average is then a ray from the origin, and the
plausible averages fill a sector. The noisy pair can be any point of the plane.

**The interval** consists of the averages whose rays come within z standard deviations of the noisy pair. With lines
instead of rays it would be Fieller's confidence set (1954), which covers every true value equally often, however small
the denominator, but may consist of two intervals. With rays, its part in the sector is one interval. If the pair is as
near to the origin as to any plausible ray, it carries no information, and the interval is the whole plausible range. If
the interval would reach into the sector by less than `FOOTHOLD`, or not at all, it is extended that far into the
sector, from the side on which the pair lies. A credible interval would cover common averages in 95% to 100% of draws
where denominators are small (`docs/mechanisms/phsafe-post-processing.md`).

**The estimate** is the posterior mean of the average under a flat prior on all plausible pairs, or the nearer limit of
the interval if the mean is outside it.
"""

import math

import numpy as np
from numba import vectorize
from numpy.typing import ArrayLike, NDArray

from mechanisms.noise import Noise
from mechanisms.phsafe.estimation import Estimates, require_in_range

MOST_PERSONS = 10.0
"""The greatest plausible average: the most persons that the production system keeps of a household (Table 10)."""

WITHIN = {Noise.GAUSSIAN: 1.6, Noise.LAPLACE: 1.5}
"""z: the standard deviations from the noisy pair within which a ray passes. With `FOOTHOLD`, coverage is 86% to 96%
everywhere; with 1.645, it would be 90% instead of 89% for large denominators, and nearly 96% for small ones of
families."""

FOOTHOLD = 0.3
"""The least arc length, in standard deviations, by which an interval reaches into the plausible sector."""

_WELL_KNOWN = 1e4
_NODES = 64
_WINDOW = 80.0
_FAR_BEHIND = -25.0
_HUNDREDTHS = 100
_ROUNDING = 1e-9

Floats = NDArray[np.float64]


def estimate_averages(
    numerator: ArrayLike,
    numerator_variance: ArrayLike,
    denominator: ArrayLike,
    denominator_variance: ArrayLike,
    least: ArrayLike,
    most: ArrayLike = MOST_PERSONS,
    noise: Noise = Noise.GAUSSIAN,
) -> Estimates:
    """The average numerator / denominator, with an interval that covers it in about 90% of draws.

    The estimate is rounded to hundredths; the limits are rounded outwards to hundredths. Raises ValueError if a noisy
    count is not finite, a variance is out of range, or 0 <= least <= most < infinity does not hold.

    Args:
        numerator: noisy counts of persons, or sums of them.
        numerator_variance: the variance of their noise; for a sum of basis cells, the sum of their variances.
        denominator: noisy counts of households or families, or sums of them, with independent noise.
        least: the least plausible average, in whole hundredths, such as 1 person per household, 2 per family, or 0
            persons of an age.
        most: the greatest plausible average, in whole hundredths.
        noise: the distribution of the basis cells' noise.

    Returns:
        float64 arrays of the shape that the arguments broadcast to, with least <= lower <= estimate <= upper <= most.
    """
    given = (numerator, numerator_variance, denominator, denominator_variance, least, most)
    above, above_variance, below, below_variance, low, high = np.broadcast_arrays(
        *(np.asarray(one, dtype=np.float64) for one in given)
    )
    if not (np.isfinite(above).all() and np.isfinite(below).all()):
        raise ValueError("noisy counts are finite")
    above_variance, below_variance = require_in_range(above_variance), require_in_range(below_variance)
    if not ((low >= 0) & (low <= high) & np.isfinite(high)).all():
        raise ValueError("plausible averages are from a least one, 0 or more, to a greatest one that is not below it")

    above_deviation, below_deviation = np.sqrt(above_variance), np.sqrt(below_variance)
    stretch = below_deviation / above_deviation
    first, last = np.arctan(low * stretch), np.arctan(high * stretch)
    half = (last - first) / 2
    middle = (first + last) / 2
    # The noisy pair as seen from the sector's tip. A turn beyond ±π is not reduced: such pairs are behind the tip.
    seen = above / above_deviation, below / below_deviation
    distance, turn = np.hypot(*seen), np.arctan2(*seen) - middle

    start, end = _ends(_reach(distance, turn, half, WITHIN[noise]), turn, half)
    mean = _posterior_mean(distance, turn, half, middle, stretch)
    lower = _whole(np.floor(_hundredths(start + middle, stretch) + _ROUNDING), low, high)
    upper = _whole(np.ceil(_hundredths(end + middle, stretch) - _ROUNDING), low, high)
    estimate = np.clip(np.rint(_HUNDREDTHS * mean), lower, upper)
    return Estimates(estimate / _HUNDREDTHS, lower / _HUNDREDTHS, upper / _HUNDREDTHS)


def _outside(turn: Floats, half: Floats) -> Floats:
    """The angle by which the noisy pair is outside the sector; 0 inside it."""
    return np.maximum(np.abs(turn) - half, 0)


def _angle(distance: Floats, within: Floats | float) -> Floats:
    """The greatest angle to the noisy pair of a ray that passes within `within` standard deviations of it."""
    quotient = np.divide(within, distance, out=np.ones_like(distance), where=distance > within)
    return np.where(quotient < 1, np.arcsin(quotient), np.inf)


def _reach(distance: Floats, turn: Floats, half: Floats, within: float) -> Floats:
    """The greatest angle to the noisy pair of the rays in the interval."""
    outside = _outside(turn, half)
    foothold = outside + FOOTHOLD / np.maximum(distance, within)
    return np.where(outside < np.pi / 2, np.maximum(_angle(distance, within), foothold), np.inf)


def _ends(reach: Floats, turn: Floats, half: Floats) -> tuple[Floats, Floats]:
    """The first and last ray of the sector within an angle of the noisy pair, as angles from the sector's middle."""
    return np.clip(turn - reach, -half, half), np.clip(turn + reach, -half, half)


def _hundredths(angle: Floats, stretch: Floats) -> Floats:
    return _HUNDREDTHS * np.tan(angle) / stretch


def _whole(hundredths: Floats, low: Floats, high: Floats) -> Floats:
    return np.clip(hundredths, np.rint(_HUNDREDTHS * low), np.rint(_HUNDREDTHS * high))


def _posterior_mean(distance: Floats, turn: Floats, half: Floats, middle: Floats, stretch: Floats) -> Floats:
    """The mean of the average over the sector, by quadrature over the rays that matter, each weighted with its share of
    the normal density around the noisy pair. If the pair is more than `_WELL_KNOWN` standard deviations ahead of the
    tip, the nearest ray differs from the mean by far less than a hundredth; as far behind it, the mean no longer
    changes."""
    nearest = np.clip(turn, -half, half)
    known = np.minimum(distance, _WELL_KNOWN)
    outside = np.minimum(_outside(turn, half), np.pi / 2)
    reach = _angle(known, np.sqrt(np.square(known * np.sin(outside)) + _WINDOW))
    start, end = _ends(reach, turn, half)
    nodes, shares = np.polynomial.legendre.leggauss(_NODES)
    angle = (start + end)[..., None] / 2 + (end - start)[..., None] / 2 * nodes
    weight = log_on_ray(known[..., None] * np.cos(angle - turn[..., None]))
    weight = shares * np.exp(weight - weight.max(axis=-1, keepdims=True))
    averages = np.tan(angle + middle[..., None]) / stretch[..., None]
    mean = (weight * averages).sum(axis=-1) / weight.sum(axis=-1)
    far_ahead = (distance > _WELL_KNOWN) & (outside < np.pi / 2)
    return np.where(far_ahead, np.tan(nearest + middle) / stretch, mean)


@vectorize(cache=True)
def log_on_ray(ahead: float) -> float:
    """log ∫ r·exp(a·r − r²/2) dr over r > 0: a ray's share of a normal density centered at a distance a along the ray,
    which is log(1 + a·√(2π)·Φ(a)·exp(a²/2)). For a far below 0, the series of Mills' ratio is used."""
    if ahead < _FAR_BEHIND:
        square = ahead * ahead
        return math.log((1 - 3 / square + 15 / square**2 - 105 / square**3) / square)
    tail = math.sqrt(math.pi / 2) * math.erfc(-ahead / math.sqrt(2))
    if ahead > 0:
        return ahead * ahead / 2 + math.log(math.exp(-ahead * ahead / 2) + ahead * tail)
    return math.log(1 + ahead * tail * math.exp(ahead * ahead / 2))
