"""Errors of published counts, from the deviations of replicates: standard errors, biases and intervals.

`replicates` makes the replicates. Here, exact sums of their deviations and of their squares become figures. Source of
the interval: the Census Bureau's approximate Monte Carlo confidence intervals for the 2020 Census.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.topdown.schema import Counts

QUANTILE = 2.015
"""The 95% quantile of Student's t with 5 degrees of freedom. It was chosen by experiment; there is no theory for it."""


@dataclass(frozen=True)
class Moments:
    """The deviations of all replicates from published counts, summed up; all of one shape.

    Attributes:
        deviations: Σ (q(θ_i) − q(θ₀)).
        squares: Σ (q(θ_i) − q(θ₀))².
        distances: Σ |q(θ_i) − q(θ₀)|.
    """

    estimate: NDArray[np.int64]
    deviations: NDArray[np.int64]
    squares: NDArray[np.int64]
    distances: NDArray[np.int64]


@dataclass(frozen=True)
class Intervals:
    """Errors of published counts, from R replicates; arrays of one shape.

    Attributes:
        standard_error: √(Σ (q(θ_i) − q(θ₀))² / R), which contains the bias.
        bias: Σ (q(θ_i) − q(θ₀)) / R: how much higher than the truth the count is expected to be.
    """

    standard_error: NDArray[np.float64]
    bias: NDArray[np.float64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]


def intervals(moments: Moments, replicates: int) -> Intervals:
    """90% intervals: the published count ± 2.015 √MSE, or the count less its bias ± the same.

    The bias is taken off where the count is above 5, the bias is half a standard deviation of the replicates or more,
    and it is negative or the count is 25 or more. The lower end is rounded down and is not below 0; the upper end is
    rounded up. Where no replicate deviates, the interval is the count itself: where an invariant decides, for one.
    """
    estimate = moments.estimate
    bias, error = moments.deviations / replicates, np.sqrt(moments.squares / replicates)
    # |bias| >= sd / 2 is 4 bias² >= MSE - bias², which floating-point numbers compare exactly below 2^53.
    large = 5 * moments.deviations.astype(np.float64) ** 2 >= replicates * moments.squares.astype(np.float64)
    moved = (estimate > 5) & (bias != 0) & large & ((bias < 0) | (estimate >= 25))
    center = estimate - np.where(moved, bias, 0.0)
    lower = np.maximum(np.floor(center - QUANTILE * error), 0.0)
    upper = np.maximum(np.ceil(center + QUANTILE * error), 0.0)
    return Intervals(error, bias, lower.astype(np.int64), upper.astype(np.int64))


class Sums:
    """Sums of cells of a histogram, such as those of a redistricting table: `counted` has the shape (sums, cells)."""

    def __init__(self, counted: NDArray[np.bool_]) -> None:
        self._size, cells = counted.shape
        cell, self._containing = np.nonzero(counted.T)
        self._starts = np.searchsorted(cell, np.arange(cells + 1))

    def of(self, counts: Counts, first: int, last: int) -> NDArray[np.int64]:
        """The sums of the places from `first` up to `last`, shape (places, sums)."""
        own = slice(*np.searchsorted(counts.number, [first, last]))
        begin = self._starts[counts.cell[own]]
        times = self._starts[counts.cell[own] + 1] - begin
        within = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        containing = self._containing[np.repeat(begin, times) + within]
        places = np.repeat(counts.number[own] - first, times)
        summed = np.zeros((last - first, self._size), dtype=np.int64)
        np.add.at(summed, (places, containing), np.repeat(counts.count[own], times))
        return summed

    def moments(self, published: Counts, replicates: Iterable[Counts], first: int, last: int) -> Moments:
        """The moments of the replicates' deviations, for the places from `first` up to `last`; shape (places, sums)."""
        estimate = self.of(published, first, last)
        sums = np.zeros((3, *estimate.shape), dtype=np.int64)
        for counts in replicates:
            deviations = self.of(counts, first, last) - estimate
            sums += deviations, deviations**2, np.abs(deviations)
        return Moments(estimate, *sums)
